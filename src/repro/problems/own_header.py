"""What the first lines of a user's own file say, read without building the problem."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO

from repro.config.models import OwnProblem
from repro.errors import ReproError

_OPENERS: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".xz": lzma.open}
#: What the entries of a Matrix Market file are, unless the configuration says it, by the field that its header names.
ENTRIES = {
    **dict.fromkeys(("real", "double", "integer", "unsigned-integer"), "real"),
    "complex": "complex",
    "pattern": "pattern",
}


def describe(problem: OwnProblem) -> tuple[str, tuple[int, int] | None]:
    """Return the entry of a problem, and its rows and non-zeros where a Matrix Market header states them.

    Raises
    ------
    ReproError
        The file is not there or cannot be read, or neither the configuration nor the file says what its entries are.
    """
    path = Path(problem.path).expanduser()
    if not path.is_file():
        raise ReproError("no such file", where="a problem of your own", actual=path)
    stated, size = _read_header(path)
    entry = problem.entry or stated
    if entry is None:
        raise ReproError(
            "the file does not say what its entries are",
            where=path,
            todo="add `entry: quaternion` for a surface, `entry: block3` for a tetrahedral mesh",
        )
    # folded to blocks, a matrix has another size than its header states
    return entry, size if entry in ENTRIES.values() else None


def _read_header(path: Path) -> tuple[str | None, tuple[int, int] | None]:
    """Return entry and size as a Matrix Market header states them; (None, None) for a mesh."""
    numbers: list[str] = []
    try:
        with _OPENERS.get(path.suffix, open)(path, "rt", encoding="ascii", errors="replace") as file:
            banner = file.readline(1000).lower().split()
            if len(banner) < 5 or not banner[0].startswith("%%matrixmarket"):
                return None, None
            numbers = next((line.split() for line in file if line.strip() and not line.startswith("%")), numbers)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ReproError("the file cannot be read", where=path, actual=error) from None
    entry = ENTRIES.get(banner[3])
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        return entry, None
    rows, stored = int(numbers[0]), int(numbers[2])
    return entry, (rows, stored if banner[4] == "general" else 2 * stored - rows)
