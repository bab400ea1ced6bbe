"""Plugin packages: folders whose modules are all imported and then register their contents.

Only the `__init__` of a plugin package may import this module: `repro.campaign.receipts` treats every package that
does so as a plugin package, and counts its whole folder as code.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb

from repro.containment import ENDING, text_of, told_apart
from repro.errors import ReproError


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module and package directly in a package, which is given by its `__name__` and `__path__`.

    Raises `ReproError`: a module cannot be imported; the message has file and line.
    """
    is_own = package.partition(".")[0] == __name__.partition(".")[0]
    for module in iter_modules(path):
        name = f"{package}.{module.name}"
        try:
            with nullcontext() if is_own else told_apart(name):
                import_module(name)
        except (*ENDING, ReproError):
            raise
        except BaseException as error:
            raise ReproError(
                "a module cannot be imported",
                where=_place(error, path),
                actual=f"{type(error).__name__}: {text_of(error)}",
                todo="correct the file",
            ) from error


def _place(error: BaseException, folders: Iterable[str]) -> str:
    """Return `file:line` of a syntax error, or of the innermost frame in the folders, else of the innermost of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if any(Path(frame.filename).is_relative_to(folder) for folder in folders)]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"
