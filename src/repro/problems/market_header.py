"""The first lines of a Matrix Market file: one reading of them, for the plan and for the build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from repro.config.models import Limits
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.files import exceeds

ENDINGS = (".mtx", ".mtx.gz", ".mtx.xz", ".tar.gz", ".tgz")
LARGEST = 2**31 - 1
#: What the entries of a Matrix Market file are, unless the configuration says it, by the field that its header names.
ENTRIES = {
    **dict.fromkeys(("real", "double", "integer", "unsigned-integer"), "real"),
    "complex": "complex",
    "pattern": "pattern",
}
FORMS = ("coordinate", "array")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
#: What some editors write before a text.
BOM = b"\xef\xbb\xbf"
#: The format's first word; Network Repository writes the second.
_NAMES = ("%%matrixmarket", "%matrixmarket")
#: Digits of a number that is too large whatever its value.
_DIGITS = 18


@dataclass(frozen=True)
class Header:
    """What the first lines say.

    Attributes
    ----------
    form, field, symmetry
        `coordinate` or `array`; one of `ENTRIES`, `double` called `real`; one of `SYMMETRIES`.
    rows, columns, stored
        The matrix's size, and the lines that follow, one an entry.
    lines
        How many lines the header has.
    """

    form: str
    field: str
    symmetry: str
    rows: int
    columns: int
    stored: int
    lines: int

    @property
    def entry(self) -> str:
        """What the entries are where the configuration does not say it."""
        return ENTRIES[self.field]

    @property
    def most(self) -> int:
        """The non-zeros that the matrix has at most: symmetric halves are written once, diagonals as well."""
        both = 2 * self.stored if self.symmetry != "general" else self.stored
        return min(both, self.rows * self.columns) if self.form == "array" else both

    def check_entry(self, entry: str, path: Path) -> None:
        """Refuse an entry that the matrix cannot have, whatever its values are.

        Raises
        ------
        ReproError
            The values are of another kind, or the size is no multiple of the entry's.
        """
        is_complex = self.field == "complex"
        if is_complex != (entry == "complex"):
            raise ReproError(
                "the matrix does not fit the entry",
                where=path,
                expected="complex values" if entry == "complex" else f"real values for the entry {entry}",
                actual="complex values" if is_complex else "real values",
                todo="give the problem another `entry:`",
            )
        k = get_entry(entry).size if entry not in ENTRIES.values() else 1
        for count, what in ((self.rows, "rows"), (self.columns, "columns")):
            if count % k:
                raise ReproError(
                    f"the matrix cannot be folded into {k} x {k} blocks",
                    where=path,
                    expected=f"a multiple of {k} {what} for the entry {entry}",
                    actual=f"{count} {what}",
                    todo="give the problem `entry: real`",
                )


def is_matrix_market(path: Path) -> bool:
    """Return whether a file's name is that of a Matrix Market file, packed or not."""
    return path.name.lower().endswith(ENDINGS)


def member_of(path: Path) -> str:
    """Return the name of the matrix's file where it lies in an archive: the archive's own."""
    ending = max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")
    return f"{path.name[: len(path.name) - len(ending)]}.mtx"


def read_header(stream: BinaryIO, path: Path, limits: Limits) -> Header:
    """Read a Matrix Market file up to the line of its size, and check what that says.

    Parameters
    ----------
    stream
        At the file's start; left at the first entry.
    path
        To be named in errors.
    limits
        Of the header's bytes, and of rows, columns and entries.

    Raises
    ------
    ReproError
        The file is not Matrix Market or has no size; it is said to be symmetric, skew or Hermitian, but is not square;
        the matrix is too large for 32-bit indices or for the limits.
    """
    left, lines = limits.header, 0

    def next_line() -> bytes:
        nonlocal left, lines
        line = stream.readline(left + 1)
        left, lines = left - len(line), lines + 1
        if left < 0:
            what = "the file does not state its size in its first lines"
            raise exceeds(what, path, "limits.header", limits.header, f"more, after {lines:,} lines", "bytes")
        return line

    line = next_line()
    form, field, symmetry = _banner(line, path)
    while (line := next_line()) and (not line.strip() or line.lstrip().startswith(b"%")):
        pass
    numbers = line.split()
    if len(numbers) != (3 if form == "coordinate" else 2) or not all(map(bytes.isdigit, numbers)):
        expected = "rows, columns and entries" if form == "coordinate" else "rows and columns"
        raise _no_header(path, lines, f"{expected}, in whole numbers", line)
    rows, columns, *rest = (int(number.lstrip(b"0")[: _DIGITS + 1] or b"0") for number in numbers)
    square = {"general": rows * columns, "skew-symmetric": rows * (rows - 1) // 2}
    stored = rest[0] if rest else square.get(symmetry, rows * (rows + 1) // 2)
    _check_size(path, lines, symmetry, rows, columns, stored, limits)
    return Header(form, field, symmetry, rows, columns, stored, lines)


def _banner(line: bytes, path: Path) -> tuple[str, str, str]:
    """Return form, field and symmetry."""
    words = line.removeprefix(BOM).decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[0] not in _NAMES or words[1] != "matrix":
        raise _no_header(path, 1, "%%MatrixMarket matrix, then form, field and symmetry", line)
    form, field, symmetry = words[2:]
    for word, expected in ((form, FORMS), (field, tuple(ENTRIES)), (symmetry, SYMMETRIES)):
        if word not in expected:
            raise _no_header(path, 1, f"one of {', '.join(expected)}", word.encode())
    if field == "pattern" and (form == "array" or symmetry not in ("general", "symmetric")):
        raise _no_header(path, 1, "a pattern in coordinates, general or symmetric", line)
    return form, "real" if field == "double" else field, symmetry


def _check_size(path: Path, line: int, symmetry: str, rows: int, columns: int, stored: int, limits: Limits) -> None:
    where = f"{path}, line {line}"
    if symmetry != "general" and rows != columns:
        raise ReproError(
            "the matrix is not square",
            where=where,
            expected=f"as many columns as rows, since the file calls it {symmetry}",
            actual=f"{rows} x {columns}",
            todo="correct the header: call it general, or give the size that the matrix has",
        )
    if max(rows, columns, stored) > LARGEST:
        raise ReproError(
            "the matrix is too large for 32-bit indices",
            where=where,
            expected=f"at most {LARGEST:,} rows, columns and entries",
            actual=f"{rows:,} x {columns:,}, {stored:,} entries",
        )
    for count, unit, key, most in (
        (rows, "rows", "limits.rows", limits.rows),
        (columns, "columns", "limits.rows", limits.rows),
        (stored, "entries", "limits.entries", limits.entries),
    ):
        if count > most:
            raise exceeds("the matrix is too large", where, key, most, count, unit)


def _no_header(path: Path, line: int, expected: str, actual: bytes) -> ReproError:
    return ReproError(
        "the file is not a complete Matrix Market file",
        where=f"{path}, line {line}",
        expected=expected,
        actual=quote(actual),
        todo="delete it and fetch it again, or write it anew",
    )


def quote(line: bytes) -> str:
    """Return a line of a file as a message has it: what is no text escaped, and no more than its start."""
    text = line.rstrip(b"\r\n")
    return (repr(text[:60])[1:] + ("…" if len(text) > 60 else "")) if text else "nothing"
