"""Finding the code and package data on which a step depends, by following imports.

After an edit, only the steps that may run the edited code are repeated.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from repro.errors import ReproError
from repro.extensions import LOADERS, STUDIES, Extension, extensions
from repro.package_data import PACKED

if TYPE_CHECKING:
    from grimp import ImportGraph


@cache
def code_hash(*modules: str, root: str = "repro") -> str:
    """Return 16 hex digits of a hash of the files in `files_of`; equal on all machines, cached in the process."""
    files = sorted(_named_files_of(modules, root).items())
    lines = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for name, path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def files_of(*modules: str, root: str = "repro") -> frozenset[Path]:
    """Return the files of all code and package data behind some modules.

    Code is the modules, their direct and indirect imports inside `root`, also those inside functions, and the packages
    around them. A plugin package (`repro.plugins`) brings its whole folder. Data are other files of the package whose
    names occur in any of these files. Of an extension (`repro.extensions`) all files of its package count, with what
    they import of `root`: where one of its modules is asked for, and where the code loads extensions of its group.

    Parameters
    ----------
    modules
        Full names. A package stands for all modules below it.
    root
        The package whose files count.
    """
    return frozenset(_named_files_of(modules, root).values())


def _named_files_of(modules: Iterable[str], root: str) -> dict[str, Path]:
    """Return the files by their paths from where their package is."""
    package = _package(root)
    known = {extension: extension.package for group in (STUDIES, *LOADERS) for extension in extensions(group)}
    asked: set[str] = set()
    for module in modules:
        if module in package.sources:
            asked |= {module, *package.imports.find_descendants(module)}
        elif module.partition(".")[0] not in known.values():
            raise ReproError("no such module to compute a hash of", actual=module)
    tops = {module.partition(".")[0] for module in modules}
    outside = {extension for extension, top in known.items() if top in tops}
    reached = _closure(package, asked | _imported(package, outside))
    outside |= {extension for extension in known if LOADERS.get(extension.group) in reached}
    reached |= _closure(package, _imported(package, outside))
    own = _with_data(package, {package.sources[module] for module in reached})
    files = {path.relative_to(package.folder.parent).as_posix(): path for path in own}
    return files | {name: path for extension in outside for name, path in extension.files.items()}


def _imported(package: _Package, outside: Iterable[Extension]) -> set[str]:
    """Return the modules of a package that extensions import."""
    found: set[str] = set()
    for path in (path for extension in outside for path in extension.files.values() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & package.sources.keys()


@dataclass(frozen=True)
class _Package:
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
    # no cache on disk: reading all files takes less than 0.1 s
    imports = grimp.build_graph(name, exclude_type_checking_imports=True, cache_dir=None)
    sources = {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): path
        for path in folder.rglob("*.py")
        if all(map(str.isidentifier, parts := path.relative_to(folder.parent).with_suffix("").parts))  # no backup files
    }
    for path in sources.values():
        # Python imports from such a folder, but the graph omits it, so that edits in it would go unnoticed
        if not (path.parent / "__init__.py").is_file():
            raise ReproError("a folder of modules without __init__.py", where=path.parent, todo="add one, empty or not")
    # exclude a wheel's copy of data folders (configurations, templates): these are separate inputs of steps
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
            continue  # the root package imports lazily, and only for users' programs
        imported = package.imports.find_modules_directly_imported_by(module)
        ahead |= {module.rpartition(".")[0], *imported}
        if f"{package.name}.plugins" in imported:
            ahead |= package.imports.find_descendants(module)
        ahead -= reached
    return reached


def _with_data(package: _Package, files: set[Path]) -> frozenset[Path]:
    """Add data files that are named in the files, or in data files found so far."""
    data: set[Path] = set()
    ahead = files
    while ahead:
        named = {name for path in ahead for name in _names(path)}
        ahead = {path for path in package.data if path.name in named} - data
        data |= ahead
    return frozenset(files | data)


@cache
def _names(path: Path) -> frozenset[str]:
    """Return all words of a text that can be file names."""
    return frozenset(name.strip(".") for name in re.findall(r"[\w.-]+", path.read_text(errors="ignore")))
