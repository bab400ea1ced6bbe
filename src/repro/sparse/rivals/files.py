"""The files of a rival: their paths, and a hash that changes with any of them.

Nothing of a rival is executed here, since the plan of a campaign calls this module.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from repro.config.models import Rival
from repro.errors import MissingFileError, ReproError
from repro.package_data import shipped
from repro.words import nearest_file

#: Folder with the C header of rivals, for compilers.
INCLUDE = "include"
HEADER = "repro_rival.h"
#: Header that checks the types of a kernel's parameters.
KERNEL_HEADER = "repro_rival_kernel.h"
#: `#include` of a file in C or C++, by a path relative to the including file.
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
PYTHON = ".py"


def include_folder() -> Path:
    return shipped(INCLUDE, here=False).resolve()


def search_path() -> list[str]:
    """Return the folders in which modules of rivals are searched: those of Python, and the current folder."""
    working_folder = str(Path.cwd())
    return sys.path if working_folder in sys.path or "" in sys.path else [*sys.path, working_folder]


def rival_files(rival: Rival) -> tuple[Path, ...]:
    """Return the files of a rival: a source with all files that it includes, or all modules of a Python package.

    Raises `ReproError`: a file or module is missing.
    """
    if rival.source is not None:
        headers = (HEADER, KERNEL_HEADER)[: 1 if rival.kernel is None else 2]
        sources = _included_files(_existing_file(rival, "source", rival.source))
        return (*sources, *(include_folder() / header for header in headers))
    if rival.library is not None:
        return (_existing_file(rival, "library", rival.library),)
    assert rival.python is not None
    module = rival.python.rpartition(":")[0]
    if module.endswith(PYTHON):
        return (_existing_file(rival, "python", module),)
    spec = PathFinder.find_spec(module.partition(".")[0], search_path())
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        raise ReproError(
            "no such module of the rival",
            where=f"rivals: {rival.name}: python",
            expected="a module in the current folder or environment, or the path of a .py file",
            actual=module,
            todo="correct the name, or install the package",
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    paths = [path for folder in folders for path in folder.rglob(f"*{PYTHON}")]
    return tuple(sorted(paths)) or (Path(str(spec.origin)),)


def _existing_file(rival: Rival, form: str, text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_file():
        raise MissingFileError(
            "no such file of the rival",
            path=text,
            where=f"rivals: {rival.name}: {form}",
            actual=nearest_file(path) or path,
            todo="correct the path, or build the library first" if form == "library" else "correct the path",
        )
    return path


def _included_files(source: Path) -> tuple[Path, ...]:
    """Return a source and the files that it includes by paths relative to the including file."""
    included: dict[Path, None] = {}
    pending = [source]
    while pending:
        path = pending.pop()
        included[path] = None
        included_paths = (path.parent / name for name in _INCLUDED.findall(path.read_text(errors="replace")))
        pending += [near for near in included_paths if near.is_file() and near not in included]
    return tuple(included)


def rival_identity(rival: Rival) -> str:
    """Return a hash of a rival's files and settings, and of the versions of packages that its Python files import."""
    files = rival_files(rival)
    parts = [rival.model_dump_json(exclude={"name"})]
    parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    parts += [f"{name} {number}" for name, number in versions_of(files).items()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def versions_of(files: Iterable[Path]) -> dict[str, str]:
    """Return the versions of the installed packages that Python files import."""
    modules = {name for path in files if path.suffix == PYTHON for name in _imported_names(path)}
    if not modules:
        return {}
    owners = packages_distributions()
    versions = {}
    for package in sorted({owner for module in modules for owner in owners.get(module, ())}):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _imported_names(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # the result row has this error, when the file is imported
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
