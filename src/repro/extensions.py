"""Extensions: studies, baselines, layouts and tables from other installed packages, found by Python entry points.

Such a package may have folders `kernels` and `config` beside its modules, with the same structure as the project's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from repro.containment import ENDING, text_of, told_apart
from repro.errors import ReproError

STUDIES, BASELINES, LAYOUTS, TABLES = "repro.studies", "repro.baselines", "repro.layouts", "repro.tables"
#: Our module that imports the extensions of each group, except studies, which are imported at their first use.
LOADERS: Mapping[str, str] = {
    BASELINES: "repro.sparse.library", LAYOUTS: "repro.sparse.compound.outer", TABLES: "repro.campaign.artifacts"
}  # fmt: skip


@dataclass(frozen=True)
class Extension:
    """An entry point of another installed package."""

    group: str
    name: str
    #: The module or package that the entry point names, and its distribution with the version.
    module: str
    distribution: str

    @property
    def where(self) -> str:
        return f"{self.distribution}: entry point {self.name} = {self.module} of {self.group}"

    @property
    def package(self) -> str:
        """Name of the extension's top-level package, or of its single module."""
        return self.module.partition(".")[0]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the extension's top-level package, found without importing it; empty for a single module."""
        top = find_spec(self.package)
        return tuple(map(Path, (top and top.submodule_search_locations) or ()))

    @property
    def files(self) -> dict[str, Path]:
        """All files of the extension's top-level package, or its module, by paths relative to the parent folder."""
        top = find_spec(self.package)
        if not self.folders:
            return {Path(top.origin).name: Path(top.origin)} if top and top.origin else {}
        files = ((folder.parent, path) for folder in self.folders for path in folder.rglob("*"))
        return {
            path.relative_to(parent).as_posix(): path
            for parent, path in sorted(files)
            if path.is_file() and path.suffix != ".pyc"
        }

    def load(self) -> None:
        """Import the extension's module, which registers what it brings.

        Raises `ReproError`: the module cannot be imported, or registers a name that exists already.
        """
        try:
            with told_apart(self.distribution or self.module):
                import_module(self.module)
        except ENDING:
            raise
        except ReproError as error:
            what = error.what if error.where is None else f"{error.what}: {error.where}"
            raise self.error(what, expected=error.expected, actual=error.actual) from None
        except BaseException as error:
            actual = f"{type(error).__name__}: {text_of(error)}"
            raise self.error("an extension cannot be imported", actual=actual) from error

    def error(self, what: str, *, expected: object = None, actual: object = None) -> ReproError:
        return ReproError(
            what,
            where=self.where,
            expected=expected,
            actual=actual,
            todo=f"repair the package, or remove it: pip uninstall {self.distribution.partition(' ')[0]}",
        )


@cache
def extensions(group: str) -> tuple[Extension, ...]:
    """Return the extensions of a group, such as `repro.studies`, by their names."""
    extensions_of_group = {
        Extension(group, entry.name, entry.module, f"{entry.dist.name} {entry.dist.version}" if entry.dist else "")
        for entry in entry_points(group=group)
    }
    return tuple(sorted(extensions_of_group, key=lambda extension: (extension.name, extension.module)))


@cache
def extension_packages() -> frozenset[str]:
    """Return the names of the top-level packages of all extensions."""
    return frozenset(extension.package for group in (STUDIES, *LOADERS) for extension in extensions(group))


def is_of_extension(cls: type) -> bool:
    """Return whether a class is defined by an extension."""
    return any(base.__module__.partition(".")[0] in extension_packages() for base in cls.__mro__)


def load_extensions(group: str) -> None:
    """Import the modules of all extensions of a group."""
    for extension in extensions(group):
        extension.load()


def extension_folders(name: str) -> Iterator[Path]:
    """Yield the folders with this name, `kernels` or `config`, of all extensions."""
    folders = (
        folder for group in (STUDIES, *LOADERS) for extension in extensions(group) for folder in extension.folders
    )
    yield from (folder / name for folder in dict.fromkeys(folders) if (folder / name).is_dir())
