"""The files of a rival: their paths, and a hash that changes with any of them.

Nothing of a rival is executed here, since the plan of a campaign calls this module.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from repro.config.models import Rival
from repro.errors import MissingFileError, ReproError
from repro.package_data import shipped
from repro.untrusted_files import MAX_QUOTED, parse_json, read_file, shown
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

    Raises `ReproError`: a file or module is missing, or the file of a tuning is invalid.
    """
    if rival.source is not None:
        headers = (HEADER, KERNEL_HEADER)[: 1 if rival.kernel is None else 2]
        sources = _included_files(_existing_file(rival, "source", rival.source))
        if rival.tuned is not None:
            sources += (_existing_file(rival, "tuned", rival.tuned),)
            as_tuned(rival)  # raises an error before anything is compiled
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


#: Kernel Tuner's own macro; where it is undefined, sources set defaults of their parameters.
TUNING = {"kernel_tuner": 1}
#: Time that earlier versions of Kernel Tuner write for a failed configuration.
_FAILED = 1e20
_CACHE_KEYS = ("kernel_name", "tune_params_keys", "cache")
_PARAMETER, _VALUE = re.compile(r"[A-Za-z_]\w*", re.ASCII), re.compile(r"[\w.+-]+", re.ASCII)


def as_tuned(rival: Rival) -> tuple[Rival, dict[str, int | float | str]]:
    """Return a rival with the block of the fastest configuration in its cache file, and that configuration.

    Without a file, the rival is returned as it is.

    Raises
    ------
    ReproError
        The file is no cache of this kernel, or its fastest configuration cannot be launched.
    """
    if rival.tuned is None:
        return rival, {}

    def refuse(expected: str, actual: object) -> ReproError:
        where = f"rivals: {rival.name}: tuned: {rival.tuned}"
        return ReproError("not a usable cache file of Kernel Tuner", where=where, expected=expected, actual=actual)

    try:
        cache = _parse_cache(read_file(Path(rival.tuned).expanduser()))
    except (OSError, ValueError) as error:
        raise refuse("JSON", shown(error)) from None
    kernel, names, lines = map((cache if isinstance(cache, dict) else {}).get, _CACHE_KEYS)
    if not (isinstance(names, list) and isinstance(lines, dict)):
        raise refuse(f"an object with the keys {', '.join(_CACHE_KEYS)}", shown(cache, 60))
    if kernel != rival.kernel:
        raise refuse(f"kernel_name: {rival.kernel}", shown(kernel))
    timed = [line for line in lines.values() if isinstance(line, dict) and _is_time(line.get("time"))]
    if not timed:
        raise refuse("a configuration with a time", f"{len(lines)} without one")
    fastest = min(timed, key=lambda line: float(line["time"]))
    configuration: dict[str, int | float | str] = {}
    for name in names:
        value = fastest.get(str(name))
        if not (_PARAMETER.fullmatch(str(name)) and value is not None and _VALUE.fullmatch(str(value))):
            raise refuse("parameters that are identifiers, with a number or a word each", shown(f"{name}: {value}"))
        configuration[str(name)] = int(value) if isinstance(value, bool) else value
    sizes = {"block": configuration.get("block_size_x", rival.block),
             "threads_per_row": configuration.get("threads_per_row", rival.threads_per_row)}  # fmt: skip
    flat = all(configuration.get(name, 1) == 1 for name in ("block_size_y", "block_size_z"))
    if not flat or not all(isinstance(size, int) and 1 <= size <= 1024 for size in sizes.values()):
        raise refuse("blocks of 1 to 1024 threads in x, and of one in y and z", shown(configuration, MAX_QUOTED))
    return rival.model_copy(update=sizes), configuration


def _parse_cache(text: bytes) -> Any:
    """Return the content of a cache file; that of an unfinished run lacks the closing brackets."""
    try:
        return parse_json(text, finite=False)
    except ValueError:
        with suppress(ValueError):
            return parse_json(text.rstrip().removesuffix(b",") + b"}}", finite=False)
        raise


def _is_time(value: object) -> bool:
    """Return whether a value is a time; a failed configuration has a word, such as InvalidConfig, or `_FAILED`."""
    return isinstance(value, int | float) and 0 < value < _FAILED


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
    parts = [rival.model_dump_json(exclude={"name", "tuned"})]
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
