"""What a result depends on beside its inputs: the code that can have run, and the package data that this reads.

Computed from the imports, so that nothing is listed: an edit repeats the steps that can run what was edited, and no
others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from repro.errors import ReproError
from repro.package_data import PACKED

if TYPE_CHECKING:
    from grimp import ImportGraph

#: What a study may do without.
OPTIONAL = ("tables", "figures")


@cache
def code_hash(*modules: str, root: str = "repro") -> str:
    """Return a hash of all code and package data behind some modules: 16 hex digits.

    It is the same on every machine and for every order of the modules. A process computes it once.

    Parameters
    ----------
    modules, root
        As for `files_of`.

    Raises
    ------
    ReproError
        As `files_of`.
    """
    parent = _package(root).folder.parent
    files = {path.relative_to(parent).as_posix(): path for path in files_of(*modules, root=root)}
    lines = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for name, path in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def files_of(*modules: str, root: str = "repro") -> frozenset[Path]:
    """Return the files of all code and package data behind some modules.

    The code is the modules, what they import from their package, directly or not, inside functions as well, and the
    packages that hold any of these, since their `__init__` runs too. A package that loads every module of its folder
    (see `repro.plugins`) brings all of them. Data are the files that are no Python: those that any of these files
    names.

    Parameters
    ----------
    modules
        Full names. A package stands for all modules below it. A study's `tables` and `figures` may be missing.
    root
        The package that all of this lies in.

    Raises
    ------
    ReproError
        There is no such module, or a folder of modules has no `__init__.py`.
    """
    package = _package(root)
    asked: set[str] = set()
    for module in modules:
        if module in package.sources:
            asked |= {module, *package.imports.find_descendants(module)}
        elif module.rpartition(".")[2] not in OPTIONAL:
            raise ReproError("no such module to compute a hash of", actual=module)
    return _with_data(package, {package.sources[module] for module in _closure(package, asked)})


@dataclass(frozen=True)
class _Package:
    """A package as it lies on disk: which module imports which, and the files of the modules and of the data."""

    name: str
    folder: Path
    imports: ImportGraph
    sources: Mapping[str, Path]
    data: tuple[Path, ...]


@cache
def _package(name: str) -> _Package:
    import grimp

    spec = find_spec(name)
    assert spec and spec.origin
    folder = Path(spec.origin).parent
    # without a cache on disk, since reading all files takes less than 0.1 s
    imports = grimp.build_graph(name, exclude_type_checking_imports=True, cache_dir=None)
    sources = {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): path
        for path in folder.rglob("*.py")
        if all(map(str.isidentifier, parts := path.relative_to(folder.parent).with_suffix("").parts))  # else a backup
    }
    for path in sources.values():
        # Python imports from such a folder, the graph leaves it out: edits in it would go unnoticed
        if not (path.parent / "__init__.py").is_file():
            raise ReproError("a folder of modules without __init__.py", where=path.parent, todo="add one, empty or not")
    # what a wheel has of the rest of a checkout are inputs of single steps, with digests of their own
    data = (
        path
        for path in folder.rglob("*")
        if path.suffix not in (".py", ".pyc") and PACKED not in path.parents and path.is_file()
    )
    return _Package(name, folder, imports, sources, tuple(data))


def _closure(package: _Package, modules: set[str]) -> set[str]:
    reached: set[str] = set()
    ahead = set(modules)
    while ahead:
        module = ahead.pop()
        reached.add(module)
        if module == package.name:
            continue  # what the root imports, it imports when a program of others asks for it
        imported = package.imports.find_modules_directly_imported_by(module)
        ahead |= {module.rpartition(".")[0], *imported}
        if f"{package.name}.plugins" in imported:
            ahead |= package.imports.find_descendants(module)
        ahead -= reached
    return reached


def _with_data(package: _Package, files: set[Path]) -> frozenset[Path]:
    """Add the data that files name, and the data that these name."""
    data: set[Path] = set()
    ahead = files
    while ahead:
        named = {name for path in ahead for name in _names(path)}
        ahead = {path for path in package.data if path.name in named} - data
        data |= ahead
    return frozenset(files | data)


@cache
def _names(path: Path) -> frozenset[str]:
    """Return all in a text that can be the name of a file."""
    return frozenset(name.strip(".") for name in re.findall(r"[\w.-]+", path.read_text(errors="ignore")))
