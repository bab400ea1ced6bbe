"""Matrix Market files, read into CSR: every line is taken as the format has it, or refused by its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.apart import read_apart
from repro.problems.content import matrix_checksum
from repro.problems.files import locate, open_plain
from repro.problems.market_header import ENDINGS, LARGEST, Header, is_matrix_market, member_of, quote, read_header
from repro.problems.market_lines import Column, blocks, tokens

__all__ = ["ENDINGS", "LARGEST", "MatrixFile", "is_matrix_market", "read_matrix"]

LOWER = "the lower triangle alone, which is what the file stores of a symmetric matrix"
#: To this size a double has every whole number.
EXACT = 2**53
_VALUES = {
    "real": ("real",),
    "integer": ("whole",),
    "unsigned-integer": ("unsigned",),
    "complex": ("real", "real"),
    "pattern": (),
}


@dataclass(frozen=True)
class MatrixFile:
    """The content of a Matrix Market file.

    Attributes
    ----------
    matrix
        float64 or complex128, columns sorted, without explicit zeros; the symmetric half expanded.
    counts
        `stored` lines in the file, non-zeros `expanded` from them, `explicit_zeros` dropped, `duplicates` added up.
    header
        Format, field and symmetry as the file's first line has them.
    lower
        Whether the half that a symmetric file leaves out is left out of the matrix as well.
    """

    matrix: sp.csr_array
    counts: dict[str, int]
    header: str
    lower: bool = False

    @property
    def field(self) -> str:
        """What the header says that the values are: `real`, `complex`, `integer` or `pattern`, say."""
        return self.header.split()[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the entries that are in the file."""
        said = {"explicit_zeros": "explicit zeros dropped", "duplicates": "duplicate entries added up"}
        notes = tuple(f"{self.counts[key]} {what}" for key, what in said.items() if self.counts[key])
        return (*notes, LOWER) if self.lower else notes

    def checksum(self) -> str:
        """SHA-256 of the matrix, whatever the wrapping."""
        return matrix_checksum(self.matrix)


def read_matrix(path: Path, limits: Limits | None = None, *, distinct: bool = False, lower: bool = False) -> MatrixFile:
    """Read a Matrix Market file, bare, packed with gzip or xz, or in a tar archive under the archive's own name.

    Real and complex values are the nearest doubles, whole numbers are exact, and the entries of a pattern are 1. The
    matrix may be rectangular, and empty. It is read in a process of its own.

    Parameters
    ----------
    path
        Of the file.
    limits
        What reading it may take; None: the configuration's defaults.
    distinct
        Whether an entry that the file has twice is an error, as it has to be where the matrix is taken as a pattern.
        Else such entries are added up.
    lower
        Whether of a symmetric file the lower triangle alone is wanted, as it is stored.

    Raises
    ------
    ReproError
        The file is missing, truncated, corrupt or not Matrix Market; a line of it is not what the header says, or has a
        number that no double holds, and the message names it; the matrix has NaN or infinite values, or is too large
        for 32-bit indices or the limits; it
        is said to be symmetric, skew or Hermitian, but is not square, keeps both halves, or has a diagonal that such a
        matrix cannot have; or the lower triangle is wanted, and it is not symmetric or keeps the upper one.
    """
    limits = limits or Limits()
    place = locate(path)
    read = partial(_read, place, limits, distinct, lower)
    return read_apart(read, place, limits, "the reader of Matrix Market files")


def _read(path: Path, limits: Limits, distinct: bool, lower: bool) -> MatrixFile:
    with open_plain(path, limits, member_of(path)) as stream:
        header = read_header(stream, path, limits)
        rows, columns, values = _entries(stream, header, path)

    def line_of(entry: int) -> tuple[str, str]:
        with open_plain(path, limits, member_of(path)) as again:
            return _find_line(again, header.lines, entry, path)

    _check_entries(header, rows, columns, values, line_of)
    rows -= 1
    columns -= 1
    if distinct:
        _refuse_duplicates(header, rows, columns, line_of)
    if lower:
        _require_lower(header, rows, columns, path)
        loose = sp.coo_array((values, (rows, columns)), shape=(header.rows, header.columns))
    else:
        loose = _expanded(header, rows, columns, values, path)
    expanded = loose.nnz
    del rows, columns, values
    matrix = sp.csr_array(loose)
    summed = matrix.nnz
    if summed < expanded:
        _check_sums(header, loose, matrix, path)
    del loose
    matrix.eliminate_zeros()
    matrix.sort_indices()
    counts = {
        "stored": header.stored,
        "expanded": int(expanded),
        "duplicates": int(expanded - summed),
        "explicit_zeros": int(summed - matrix.nnz),
        "nonzeros": int(matrix.nnz),
    }
    return MatrixFile(matrix, counts, f"{header.form} {header.field} {header.symmetry}", lower)


def _entries(stream: BinaryIO, header: Header, path: Path) -> tuple[Column, Column, Column]:
    """Return rows and columns, counted from 1, and values of the lines behind the header, in their order."""
    places = ("row", "column") if header.form == "coordinate" else ()
    kinds = (*places, *_VALUES[header.field])
    parts: list[list[Column]] = []
    line, count = header.lines + 1, 0
    for block in blocks(stream, line, path):
        parts.append(tokens(block, kinds, line, path))
        line += block.count(b"\n")
        count += len(parts[-1][0])
        if count > header.stored:
            raise _bad_count(path, header, "more")
    if count < header.stored:
        raise _bad_count(path, header, f"{count:,}")
    empty = tokens(b"", kinds, line, path)
    joined = [np.concatenate([part[i] for part in parts] or [empty[i]]) for i in range(len(kinds))]
    parts.clear()
    match header.field:
        case "pattern":
            values: Column = np.ones(count)
        case "complex":
            values = np.empty(count, np.complex128)
            values.real, values.imag = joined[-2:]
        case _:
            values = joined[-1]
    if places:
        return joined[0], joined[1], values
    return *_dense_places(header), values


def _dense_places(header: Header) -> tuple[Column, Column]:
    """Return rows and columns, from 1, of the entries of a dense matrix: down the columns, of a half below it."""
    n = header.rows
    if header.symmetry == "general":
        columns, rows = (index.ravel() for index in np.indices((header.columns, n), np.int32))
    else:
        half = np.triu_indices(n, 1 if header.symmetry == "skew-symmetric" else 0)
        columns, rows = (index.astype(np.int32) for index in half)
    return rows + np.int32(1), columns + np.int32(1)


def _check_entries(
    header: Header, rows: Column, columns: Column, values: Column, line_of: Callable[[int], tuple[str, str]]
) -> None:
    """Refuse the first entry that the header does not allow."""

    def refuse(what: str, bad: NDArray[np.bool_], expected: str, todo: str) -> None:
        if bad.any():
            first = int(bad.argmax())
            where, text = line_of(first)
            where += f", row {rows[first]}, column {columns[first]}" if rows[first] > 0 < columns[first] else ""
            raise ReproError(what, where=where, expected=expected, actual=text, todo=todo)

    anew = "correct the file, or write it anew"
    for index, count, what in ((rows, header.rows, "rows"), (columns, header.columns, "columns")):
        if len(index) and (index.min() < 1 or index.max() > count):
            expected = f"{what} from 1 to {count}" if count else f"no entries, since there are no {what}"
            refuse("an entry lies outside the matrix", (index < 1) | (index > count), expected, anew)
    if not np.isfinite(values).all():
        refuse("the matrix has NaN or infinite values", ~np.isfinite(values), "finite values", anew)
    if header.symmetry == "general":
        return
    kind = header.symmetry
    off = np.flatnonzero(rows != columns)
    if off.size:
        lower = rows > columns
        other = ~lower if lower[off[0]] else lower
        other[rows == columns] = False
        half = "below" if lower[off[0]] else "above"
        refuse(
            f"a {kind} file keeps one half of the matrix, and has entries of both",
            other,
            f"entries {half} the diagonal alone, as the first is: the other half follows from them",
            "leave one half out, or call the file general",
        )
    if kind == "skew-symmetric":
        diagonal = (rows == columns) & (values != 0)
        refuse("the diagonal of a skew-symmetric matrix is 0", diagonal, "0 on the diagonal, or no entry", anew)
    if kind == "hermitian" and np.iscomplexobj(values):
        refuse(
            "the diagonal of a Hermitian matrix is real",
            (rows == columns) & (values.imag != 0),
            "an imaginary part of 0 on the diagonal",
            "correct the file, or call it symmetric if it is",
        )


def _refuse_duplicates(
    header: Header, rows: Column, columns: Column, line_of: Callable[[int], tuple[str, str]]
) -> None:
    keys = rows.astype(np.int64) * max(header.columns, 1) + columns
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0) + 1
    if again.size:
        second = int(order[again].min())
        first = int(np.flatnonzero(keys == keys[second])[0])
        (where, text), (before, _) = line_of(second), line_of(first)
        raise ReproError(
            "a pattern has each entry once",
            where=where,
            expected=f"another entry than that of {before.rsplit(', ', 1)[-1]}",
            actual=f"{text}; {again.size} entries are there before",
            todo="leave the entry out, or give the problem `entry: real`, which adds such entries up",
        )


def _check_sums(header: Header, loose: sp.coo_array, matrix: sp.csr_array, path: Path) -> None:
    """Refuse entries that come twice and add up to what a double does not hold: infinity, or a rounded whole number."""
    lost = ~np.isfinite(matrix.data)
    if _VALUES[header.field] in (("whole",), ("unsigned",)) and np.abs(loose.data).sum() >= EXACT:
        sizes, counts = (
            sp.csr_array(sp.coo_array((each, loose.coords), shape=loose.shape)).data
            for each in (np.abs(loose.data), np.ones(loose.nnz))
        )
        lost |= (counts > 1) & (sizes >= EXACT)
    if lost.any():
        first = int(lost.argmax())
        row = int(np.searchsorted(matrix.indptr, first, side="right"))
        raise ReproError(
            "entries that come twice add up to a number that does not fit into a double",
            where=f"{path}, row {row}, column {matrix.indices[first] + 1}",
            expected=f"a finite sum, and of whole numbers one whose terms are together below 2^53 = {EXACT:,}",
            actual=f"{matrix.data[first]:,.17g}",
            todo="give the entry once",
        )


def _require_lower(header: Header, rows: Column, columns: Column, path: Path) -> None:
    """Refuse a file that does not store the lower triangle of a symmetric matrix, and nothing else."""
    if header.symmetry != "symmetric" or (columns > rows).any():
        raise ReproError(
            "the file does not store a lower triangle alone",
            where=path,
            expected="a symmetric matrix, its entries on and below the diagonal",
            actual="entries above it" if header.symmetry == "symmetric" else f"a {header.symmetry} one",
            todo="leave out `stored: lower`",
        )


def _expanded(header: Header, rows: Column, columns: Column, values: Column, path: Path) -> sp.coo_array:
    """Return the matrix with the half that the file leaves out."""
    shape = (header.rows, header.columns)
    if header.symmetry != "general":
        off = rows != columns
        mirrored = values[off]
        match header.symmetry:
            case "skew-symmetric":
                mirrored = -mirrored
            case "hermitian":
                mirrored = mirrored.conj()
        if len(rows) + len(mirrored) > LARGEST:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                where=path,
                expected=f"at most {LARGEST:,} entries with both halves",
                actual=f"{len(rows) + len(mirrored):,}",
            )
        rows, columns = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        values = np.concatenate([values, mirrored])
    return sp.coo_array((values, (rows, columns)), shape=shape)


def _find_line(stream: BinaryIO, header: int, entry: int, path: Path) -> tuple[str, str]:
    """Return where an entry is, file and line, and the line; for a message alone, since it takes reading all again."""
    left = entry
    for number, text in enumerate(stream, 1):
        if number > header and text.strip():
            if not left:
                return f"{path}, line {number}", quote(text)
            left -= 1
    raise AssertionError("the file has become shorter")


def _bad_count(path: Path, header: Header, actual: str) -> ReproError:
    return ReproError(
        "the file is not a complete Matrix Market file",
        where=path,
        expected=f"{header.stored:,} entries, as line {header.lines} says",
        actual=actual,
        todo="delete it and fetch it again, or write it anew",
    )
