"""Reads Matrix Market files into CSR matrices. For a malformed line, the error message states the line number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from pyarrow import csv

from repro.config.models import Limits
from repro.errors import ReproError
from repro.exact_casts import cast
from repro.problems.files import ANEW, limit_error, locate, matrix_checksum, open_plain
from repro.problems.subprocess_reader import read_isolated

ENDINGS = (".mtx", ".mtx.gz", ".mtx.xz", ".tar.gz", ".tgz")
MAX_SIZE = 2**31 - 1
#: Entry type for each `field` in a file's header; the configuration can override it.
ENTRY_OF_FIELD = {
    **dict.fromkeys(("real", "double", "integer", "unsigned-integer"), "real"),
    "complex": "complex",
    "pattern": "pattern",
}
FORMS = ("coordinate", "array")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
#: Byte-order mark of UTF-8.
BOM = b"\xef\xbb\xbf"
#: Accepted first words of a file; the website Network Repository writes the second form.
_NAMES = ("%%matrixmarket", "%matrixmarket")
#: Maximum number of digits in a size or index.
_HUGE_DIGITS = 18


@dataclass(frozen=True)
class Header:
    """Contents of the header lines of a Matrix Market file."""

    form: str
    #: A key of `ENTRY_OF_FIELD`; `double` is stored as `real`.
    field: str
    symmetry: str
    rows: int
    columns: int
    #: Number of entry lines after the header.
    stored: int
    #: Number of header lines.
    lines: int

    @property
    def entry(self) -> str:
        """Entry type of the matrix, unless the configuration overrides it."""
        return ENTRY_OF_FIELD[self.field]

    @property
    def most(self) -> int:
        """Maximum number of non-zeros: for a symmetric file, twice the stored entries."""
        mirrored_entries = 2 * self.stored if self.symmetry != "general" else self.stored
        return min(mirrored_entries, self.rows * self.columns) if self.form == "array" else mirrored_entries


def is_matrix_market(path: Path) -> bool:
    return path.name.lower().endswith(ENDINGS)


def member_of(path: Path) -> str:
    """Return the name of the matrix file inside an archive, derived from the archive's name."""
    ending = max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")
    return f"{path.name[: len(path.name) - len(ending)]}.mtx"


def read_header(stream: BinaryIO, path: Path, limits: Limits) -> Header:
    """Read a Matrix Market file up to its size line and check the header; the stream then stands at the first entry.

    Raises `ReproError`: the file is not Matrix Market or has no size, a symmetric matrix is not square, or the matrix
    is too large for 32-bit indices or the limits.
    """
    remaining, lines = limits.header, 0

    def next_line() -> bytes:
        nonlocal remaining, lines
        line = stream.readline(remaining + 1)
        remaining, lines = remaining - len(line), lines + 1
        if remaining < 0:
            what = "the file does not state its size in its first lines"
            raise limit_error(what, path, "limits.header", limits.header, f"more, after {lines:,} lines", "bytes")
        return line

    line = next_line()
    form, field, symmetry = _banner(line, path)
    while (line := next_line()) and (not line.strip() or line.lstrip().startswith(b"%")):
        pass
    numbers = line.split()
    if len(numbers) != (3 if form == "coordinate" else 2) or not all(map(bytes.isdigit, numbers)):
        expected = "rows, columns and entries" if form == "coordinate" else "rows and columns"
        raise _header_error(path, lines, f"{expected}, in whole numbers", line)
    rows, columns, *counts = (int(number.lstrip(b"0")[: _HUGE_DIGITS + 1] or b"0") for number in numbers)
    square = {"general": rows * columns, "skew-symmetric": rows * (rows - 1) // 2}
    stored_entries = counts[0] if counts else square.get(symmetry, rows * (rows + 1) // 2)
    _check_size(path, lines, symmetry, rows, columns, stored_entries, limits)
    return Header(form, field, symmetry, rows, columns, stored_entries, lines)


def _banner(line: bytes, path: Path) -> tuple[str, str, str]:
    header_tokens = line.removeprefix(BOM).decode("ascii", "replace").lower().split()
    if len(header_tokens) != 5 or header_tokens[0] not in _NAMES or header_tokens[1] != "matrix":
        raise _header_error(path, 1, "%%MatrixMarket matrix, then form, field and symmetry", line)
    form, field, symmetry = header_tokens[2:]
    for header_token, expected in ((form, FORMS), (field, tuple(ENTRY_OF_FIELD)), (symmetry, SYMMETRIES)):
        if header_token not in expected:
            raise _header_error(path, 1, f"one of {', '.join(expected)}", header_token.encode())
    if field == "pattern" and (form == "array" or symmetry not in ("general", "symmetric")):
        raise _header_error(path, 1, "a pattern in coordinates, general or symmetric", line)
    return form, "real" if field == "double" else field, symmetry


def _check_size(
    path: Path, line: int, symmetry: str, n_rows: int, columns: int, stored_entries: int, limits: Limits
) -> None:
    where = f"{path}, line {line}"
    if symmetry != "general" and n_rows != columns:
        raise ReproError(
            "the matrix is not square",
            where=where,
            expected=f"as many columns as rows, since the header says {symmetry}",
            actual=f"{n_rows} x {columns}",
            todo="correct the header: declare the matrix general, or give its real size",
        )
    if max(n_rows, columns, stored_entries) > MAX_SIZE:
        raise ReproError(
            "the matrix is too large for 32-bit indices",
            where=where,
            expected=f"at most {MAX_SIZE:,} rows, columns and entries",
            actual=f"{n_rows:,} x {columns:,}, {stored_entries:,} entries",
        )
    for count, unit, key, limit in (
        (n_rows, "rows", "limits.rows", limits.rows),
        (columns, "columns", "limits.rows", limits.rows),
        (stored_entries, "entries", "limits.entries", limits.entries),
    ):
        if count > limit:
            raise limit_error("the matrix is too large", where, key, limit, count, unit)


def _header_error(path: Path, line: int, expected: str, actual: bytes) -> ReproError:
    return ReproError(
        "the file is not a complete Matrix Market file",
        where=f"{path}, line {line}",
        expected=expected,
        actual=quote(actual),
        todo=ANEW,
    )


def quote(line: bytes) -> str:
    """Return the start of a line for an error message, with unprintable bytes escaped."""
    text = line.rstrip(b"\r\n")
    return (repr(text[:60])[1:] + ("…" if len(text) > 60 else "")) if text else "nothing"


Column = NDArray[Any]
#: Number of bytes that are parsed at once.
BLOCK = 8 << 20
#: Translates exponent letters of Fortran's double-precision numbers to `e`.
_EXPONENTS = bytes.maketrans(b"dD", b"eE")
#: Finds possible underflow: a nonzero number that rounds to 0 has an exponent of at most -100 or 100 zeros in a row.
#: Two patterns are ten times faster than one pattern with an alternative.
_EXPONENT_OF_TINY = re.compile(rb"e-0*[1-9][0-9][0-9]"), re.compile(rb"E-0*[1-9][0-9][0-9]")
_ZEROS_OF_TINY = b"0" * 100
#: Number of digits of an integer that may exceed 64 bits.
_OVERFLOW_DIGITS = 20
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_REAL = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)


def blocks(stream: BinaryIO, line: int, path: Path) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines."""
    remainder = b""
    while block := stream.read(BLOCK):
        end = block.rfind(b"\n") + 1
        if not end and len(remainder) + len(block) > BLOCK:
            raise ReproError(
                "a line of the file is too long",
                where=path,
                expected="one entry per line",
                actual=f"{len(remainder) + len(block):,} bytes without a line feed",
                todo="write the file again",
            )
        if end:
            yield remainder + block[:end]
            remainder = block[end:]
        else:
            remainder += block
    if remainder:
        yield remainder


def tokens(block: bytes, kinds: tuple[str, ...], line: int, path: Path) -> list[Column]:
    """Parse whole lines into one column of numbers for each of `kinds` (keys of `NUMBER_KINDS`).

    `line` is the first line's number.

    Indices are returned as int32, invalid ones as 0 or less; values are returned as the nearest float64. Raises
    `ReproError`: a line contains something else, or a number outside the range of float64; the message states the line
    number.
    """
    columns = _fast_tokens(block, kinds)
    return _slow_tokens(block, kinds, line, path) if columns is None else columns


def _fast_tokens(block: bytes, kinds: tuple[str, ...]) -> list[Column] | None:
    """Parse lines with pyarrow; return None if a line may be malformed."""
    if not block.strip():
        return [np.empty(0, NUMBER_KINDS[kind].dtype) for kind in kinds]
    # pyarrow and `_slow_tokens` accept the same numbers, except in these cases.
    if b"x" in block or b"X" in block or block.startswith(BOM):
        return None
    if b"d" in block or b"D" in block:
        block = block.translate(_EXPONENTS)
    # pyarrow treats a single carriage return as the end of a line.
    has_lone_returns = b"\r" in block and block.count(b"\r") != block.count(b"\r\n")
    for respace in (_single_spaced,) if has_lone_returns else (bytes, _single_spaced):
        try:
            columns = _read_csv(respace(block), kinds)
        except pa.ArrowInvalid:
            continue
        return _checked_columns(columns, kinds, block)
    return None


def _read_csv(block: bytes, kinds: tuple[str, ...]) -> list[Column]:
    names = [str(i) for i in range(len(kinds))]
    table = csv.read_csv(
        pa.BufferReader(block),
        # Threads and memory arenas of pyarrow would count towards this process's memory limit.
        memory_pool=pa.system_memory_pool(),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
        convert_options=csv.ConvertOptions(
            column_types={name: NUMBER_KINDS[kind].arrow for name, kind in zip(names, kinds, strict=True)},
            null_values=[],
        ),
    )
    # pyarrow's `to_numpy` would import pandas.
    return [np.from_dlpack(table[name].combine_chunks()) for name in names]


def _checked_columns(columns: list[Column], kinds: tuple[str, ...], block: bytes) -> list[Column] | None:
    """Return the parsed numbers, or None if a number may differ from its text, for example if it was rounded to 0."""
    try:
        columns = [cast(column, NUMBER_KINDS[kind].dtype, kind) for column, kind in zip(columns, kinds, strict=True)]
    except ReproError:
        return None
    reals = [column for column, kind in zip(columns, kinds, strict=True) if kind == "real"]
    if not all(np.isfinite(column).all() for column in reals):
        return None
    if all(column.all() for column in reals):
        return columns
    return None if _ZEROS_OF_TINY in block or any(part.search(block) for part in _EXPONENT_OF_TINY) else columns


def _single_spaced(block: bytes) -> bytes:
    """Return the lines with one space between numbers and none at the ends of lines."""
    text = np.frombuffer(block.translate(bytes.maketrans(b"\t\r\v\f", b"    ")), np.uint8)
    space, end = text == ord(" "), text == ord("\n")
    follows_space = np.concatenate([[True], (space | end)[:-1]])
    text = text[~(space & follows_space)]
    precedes_end = np.append(text[1:] == ord("\n"), True)
    tidy: bytes = text[~((text == ord(" ")) & precedes_end)].tobytes()
    return tidy


def _slow_tokens(block: bytes, kinds: tuple[str, ...], line: int, path: Path) -> list[Column]:
    """Parse one line at a time; raise `ReproError` for the first malformed line."""
    parsers = [NUMBER_KINDS[kind].convert for kind in kinds]
    read: list[list[Any]] = [[] for _ in kinds]
    for number, text in enumerate(block.split(b"\n"), line):
        texts = text.split()
        if not texts:
            continue
        try:
            if len(texts) != len(kinds):
                raise _RefusedError
            for column, parse, cell_text in zip(read, parsers, texts, strict=True):
                column.append(parse(cell_text))
        except _RefusedError as error:
            what, expected, todo = error.args or (
                "a line of the file is not what the header says",
                _spell(kinds),
                "correct the line, or write the file anew",
            )
            where = f"{path}, line {number}"
            raise ReproError(what, where=where, expected=expected, actual=quote(text), todo=todo) from None
    return [np.array(column, NUMBER_KINDS[kind].dtype) for column, kind in zip(read, kinds, strict=True)]


class _RefusedError(Exception):
    """A token is not a number of the required kind. Arguments: the problem, the expectation, and a hint."""


def _index(token: bytes) -> int:
    """Parse an index; return 0, which is invalid, if the index is too large for any matrix."""
    index = _integer(token)
    return index if 0 <= index <= MAX_SIZE else 0


def _integer(token: bytes) -> int:
    """Parse an integer; one that exceeds 64 bits is clipped to an invalid value."""
    if not _INTEGER.fullmatch(token):
        raise _RefusedError
    digits = token.lstrip(b"+-0")[: _OVERFLOW_DIGITS + 1]
    return int(digits or b"0") * (-1 if token.startswith(b"-") else 1)


def _whole(token: bytes, dtype: DTypeLike) -> float:
    """Parse an integer and return it as float."""
    number, limits = _integer(token), np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise _RefusedError(
            "a number does not match the field",
            f"a whole number from {limits.min:,} to {limits.max:,}",
            "correct the number, or the field in the header",
        )
    if number != (value := float(number)):
        raise _RefusedError(
            "a whole number has more digits than a double",
            f"one that a double can hold, as all up to 2^53 = {2**53:,}; the nearest is {value:,.0f}",
            "if the nearest double is right, declare the field real in the header",
        )
    return value


def _real(token: bytes) -> float:
    token = token.translate(_EXPONENTS)
    if not _REAL.fullmatch(token):
        raise _RefusedError
    value = float(token)
    mantissa = token.lower().partition(b"e")[0]
    if math.isinf(value) and mantissa[-1:] in b".0123456789":
        limit = f"a number of size {np.finfo(float).max:.4g} at most"
    elif not value and mantissa.strip(b"+-.0"):
        limit = f"0, or a number of size {np.finfo(float).smallest_subnormal:.4g} at least"
    else:
        return value
    raise _RefusedError("a number is out of range for a double", limit, "correct the number, or scale the matrix")


@dataclass(frozen=True)
class _Kind:
    """A kind of token: NumPy and pyarrow type, conversion function, and name in messages."""

    dtype: type[np.int32 | np.float64]
    arrow: pa.DataType
    convert: Callable[[bytes], float]
    called: str


NUMBER_KINDS = {
    "row": _Kind(np.int32, pa.int32(), _index, "row"),
    "column": _Kind(np.int32, pa.int32(), _index, "column"),
    "whole": _Kind(np.float64, pa.int64(), partial(_whole, dtype=np.int64), "a whole number"),
    "unsigned": _Kind(np.float64, pa.uint64(), partial(_whole, dtype=np.uint64), "a whole number, not negative"),
    "real": _Kind(np.float64, pa.float64(), _real, "a number"),
}


def _spell(kinds: tuple[str, ...]) -> str:
    return ", ".join([*(NUMBER_KINDS[kind].called for kind in kinds), "and nothing else"])


__all__ = ["ENDINGS", "MAX_SIZE", "MatrixFile", "is_matrix_market", "read_matrix"]

LOWER = "the lower triangle alone, which is what the file stores of a symmetric matrix"
#: Largest range of integers that float64 represents exactly.
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
    #: Values float64 or complex128. Columns are sorted, explicit zeros removed, and symmetric matrices stored in full.
    matrix: sp.csr_array
    #: Counts: `stored` lines, non-zeros `expanded` by symmetry, `explicit_zeros` dropped, and `duplicates` summed.
    counts: dict[str, int]
    #: Format, field and symmetry, as stated in the first line.
    header: str
    #: Whether the matrix contains only the lower triangle of a symmetric file.
    lower: bool = False

    @property
    def field(self) -> str:
        """Field stated in the header: `real`, `complex`, `integer`, `pattern`, …"""
        return self.header.split()[1]

    @property
    def notes(self) -> tuple[str, ...]:
        note_texts = {"explicit_zeros": "explicit zeros dropped", "duplicates": "duplicate entries added up"}
        notes = tuple(f"{self.counts[key]} {remark}" for key, remark in note_texts.items() if self.counts[key])
        return (*notes, LOWER) if self.lower else notes

    def checksum(self) -> str:
        return matrix_checksum(self.matrix)


def read_matrix(path: Path, limits: Limits | None = None, *, distinct: bool = False, lower: bool = False) -> MatrixFile:
    """Read a Matrix Market file: plain, compressed by gzip or xz, or in a tar archive that has the matrix's name.

    Values are rounded to the nearest float64; integers are exact; pattern entries become 1. The matrix may be
    rectangular or empty. The file is read in a subprocess. Raises `ReproError`: the file is missing, damaged or not
    Matrix Market; a line contradicts the header (the message states the line number); values are NaN or infinite; or
    the matrix is too large for 32-bit indices or the limits.

    Parameters
    ----------
    distinct
        Whether a repeated entry is an error, as for a pattern; if False, repeated entries are summed.
    lower
        Whether to read a symmetric file without adding the upper triangle.
    """
    limits = limits or Limits()
    location = locate(path)
    read = partial(_read, location, limits, distinct, lower)
    return read_isolated(read, location, limits, "the reader of Matrix Market files")


def _read(path: Path, limits: Limits, distinct: bool, lower: bool) -> MatrixFile:
    with open_plain(path, limits, member_of(path)) as stream:
        header = read_header(stream, path, limits)
        rows, columns, values = _entries(stream, header, path)

    def line_of(entry: int) -> tuple[str, str]:
        with open_plain(path, limits, member_of(path)) as stream:
            return _find_line(stream, header.lines, entry, path)

    _check_entries(header, rows, columns, values, line_of)
    rows -= 1
    columns -= 1
    if distinct:
        _refuse_duplicates(header, rows, columns, line_of)
    if lower:
        _require_lower(header, rows, columns, path)
        coordinates = sp.coo_array((values, (rows, columns)), shape=(header.rows, header.columns))
    else:
        coordinates = _expanded_entries(header, rows, columns, values, path)
    expanded_count = coordinates.nnz
    del rows, columns, values
    matrix = sp.csr_array(coordinates)
    merged_count = matrix.nnz
    if merged_count < expanded_count:
        _check_sums(header, coordinates, matrix, path)
    del coordinates
    matrix.eliminate_zeros()
    matrix.sort_indices()
    counts = {
        "stored": header.stored,
        "expanded": int(expanded_count),
        "duplicates": int(expanded_count - merged_count),
        "explicit_zeros": int(merged_count - matrix.nnz),
        "nonzeros": int(matrix.nnz),
    }
    return MatrixFile(matrix, counts, f"{header.form} {header.field} {header.symmetry}", lower)


def _entries(stream: BinaryIO, header: Header, path: Path) -> tuple[Column, Column, Column]:
    """Return rows and columns, both 1-based, and values of all entry lines in file order."""
    index_columns = ("row", "column") if header.form == "coordinate" else ()
    kinds = (*index_columns, *_VALUES[header.field])
    parts: list[list[Column]] = []
    line, count = header.lines + 1, 0
    for block in blocks(stream, line, path):
        try:
            parts.append(tokens(block, kinds, line, path))
        except ReproError:
            complete_lines, _, partial_line = block.rpartition(b"\n")
            earlier_columns = tokens(complete_lines, kinds, line, path)  # raises the error of an earlier malformed line
            count, last_line = count + len(earlier_columns[0]), line + block.count(b"\n")
            if not partial_line or (count + 1 == header.stored and len(partial_line.split()) >= len(kinds)):
                raise
            raise ReproError(
                f"the file ends here, after {count:,} of {header.stored:,} entries: probably cut off",
                where=f"{path}, line {last_line}",
                expected=_spell(kinds),
                actual=quote(partial_line),
                todo=ANEW,
            ) from None
        if count + len(parts[-1][0]) > header.stored:
            location, text = _find_line(BytesIO(block), line - 1, header.stored - count, path, line)
            raise _count_error(location, header, f"more: {text} is one too many")
        line += block.count(b"\n")
        count += len(parts[-1][0])
    if count < header.stored:
        raise _count_error(path, header, f"{count:,}")
    empty = tokens(b"", kinds, line, path)
    joined_columns = [np.concatenate([part[i] for part in parts] or [empty[i]]) for i in range(len(kinds))]
    parts.clear()
    match header.field:
        case "pattern":
            values: Column = np.ones(count)
        case "complex":
            values = np.empty(count, np.complex128)
            values.real, values.imag = joined_columns[-2:]
        case _:
            values = joined_columns[-1]
    if index_columns:
        return joined_columns[0], joined_columns[1], values
    return *_dense_places(header), values


def _dense_places(header: Header) -> tuple[Column, Column]:
    """Return 1-based rows and columns of a dense matrix in column-major order; for a symmetric one, of the lower
    triangle.
    """
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
    """Raise `ReproError` for the first entry that contradicts the header."""

    def refuse(axis: str, mask: NDArray[np.bool_], expected: str, todo: str) -> None:
        if mask.any():
            first = int(mask.argmax())
            where, text = line_of(first)
            where += f", row {rows[first]}, column {columns[first]}" if rows[first] > 0 < columns[first] else ""
            raise ReproError(axis, where=where, expected=expected, actual=text, todo=todo)

    advice = "correct the file, or write it anew"
    for index, count, axis in ((rows, header.rows, "rows"), (columns, header.columns, "columns")):
        if len(index) and (index.min() < 1 or index.max() > count):
            expected = f"{axis} from 1 to {count}" if count else f"no entries, since there are no {axis}"
            refuse("an entry is outside the matrix", (index < 1) | (index > count), expected, advice)
    if not np.isfinite(values).all():
        refuse("the matrix has NaN or infinite values", ~np.isfinite(values), "finite values", advice)
    if header.symmetry == "general":
        return
    kind = header.symmetry
    off_diagonal = np.flatnonzero(rows != columns)
    if off_diagonal.size:
        lower = rows > columns
        foreign_side = ~lower if lower[off_diagonal[0]] else lower
        foreign_side[rows == columns] = False
        half = "below" if lower[off_diagonal[0]] else "above"
        refuse(
            f"a {kind} file stores one half of the matrix, but has entries of both",
            foreign_side,
            f"entries {half} the diagonal alone, as the first is: the other half follows from them",
            "remove one half, or declare the file general",
        )
    if kind == "skew-symmetric":
        diagonal = (rows == columns) & (values != 0)
        refuse("the diagonal of a skew-symmetric matrix is 0", diagonal, "0 on the diagonal, or no entry", advice)
    if kind == "hermitian" and np.iscomplexobj(values):
        refuse(
            "the diagonal of a Hermitian matrix is real",
            (rows == columns) & (values.imag != 0),
            "an imaginary part of 0 on the diagonal",
            "correct the file, or declare it symmetric if it is",
        )


def _refuse_duplicates(
    header: Header, rows: Column, columns: Column, line_of: Callable[[int], tuple[str, str]]
) -> None:
    keys = rows.astype(np.int64) * max(header.columns, 1) + columns
    order = np.argsort(keys, kind="stable")
    repeated_places = np.flatnonzero(np.diff(keys[order]) == 0) + 1
    if repeated_places.size:
        second = int(order[repeated_places].min())
        first = int(np.flatnonzero(keys == keys[second])[0])
        (where, text), (first_line, _) = line_of(second), line_of(first)
        raise ReproError(
            "an entry of a pattern occurs twice",
            where=where,
            expected=f"another entry than that of {first_line.rsplit(', ', 1)[-1]}",
            actual=f"{text}; {repeated_places.size} entries are there before",
            todo="leave the entry out, or set `entry: real` for the problem, which adds such entries up",
        )


def _check_sums(header: Header, coordinates: sp.coo_array, matrix: sp.csr_array, path: Path) -> None:
    """Raise `ReproError` if the sum of repeated entries is infinite or an integer sum is not exact."""
    is_inexact = ~np.isfinite(matrix.data)
    if _VALUES[header.field] in (("whole",), ("unsigned",)) and np.abs(coordinates.data).sum() >= EXACT:
        sizes, counts = (
            sp.csr_array(sp.coo_array((terms, coordinates.coords), shape=coordinates.shape)).data
            for terms in (np.abs(coordinates.data), np.ones(coordinates.nnz))
        )
        is_inexact |= (counts > 1) & (sizes >= EXACT)
    if is_inexact.any():
        first = int(is_inexact.argmax())
        row = int(np.searchsorted(matrix.indptr, first, side="right"))
        raise ReproError(
            "duplicate entries add up to a number out of range for a double",
            where=f"{path}, row {row}, column {matrix.indices[first] + 1}",
            expected=f"a finite sum, and of whole numbers one whose terms are together below 2^53 = {EXACT:,}",
            actual=f"{matrix.data[first]:,.17g}",
            todo="write the entry once",
        )


def _require_lower(header: Header, rows: Column, columns: Column, path: Path) -> None:
    """Raise `ReproError` unless the file is symmetric and contains only entries of the lower triangle."""
    if header.symmetry != "symmetric" or (columns > rows).any():
        raise ReproError(
            "the file does not store only a lower triangle",
            where=path,
            expected="a symmetric matrix with entries on and below the diagonal",
            actual="entries above it" if header.symmetry == "symmetric" else f"a {header.symmetry} one",
            todo="remove `stored: lower`",
        )


def _expanded_entries(header: Header, rows: Column, columns: Column, values: Column, path: Path) -> sp.coo_array:
    """Return the full matrix, with both triangles of a symmetric one."""
    shape = (header.rows, header.columns)
    if header.symmetry != "general":
        is_off_diagonal = rows != columns
        mirrored_values = values[is_off_diagonal]
        match header.symmetry:
            case "skew-symmetric":
                mirrored_values = -mirrored_values
            case "hermitian":
                mirrored_values = mirrored_values.conj()
        if len(rows) + len(mirrored_values) > MAX_SIZE:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                where=path,
                expected=f"at most {MAX_SIZE:,} entries with both halves",
                actual=f"{len(rows) + len(mirrored_values):,}",
            )
        rows, columns = (
            np.concatenate([rows, columns[is_off_diagonal]]),
            np.concatenate([columns, rows[is_off_diagonal]]),
        )
        values = np.concatenate([values, mirrored_values])
    return sp.coo_array((values, (rows, columns)), shape=shape)


def _find_line(stream: BinaryIO, header: int, entry: int, path: Path, first: int = 1) -> tuple[str, str]:
    """Return file and line number, and the text, of the line with entry number `entry`, for an error message.

    Entries follow line `header` and are counted from 0; the stream begins with line number `first`.
    """
    for number, text in enumerate(stream, first):
        if number > header and text.strip():
            if not entry:
                return f"{path}, line {number}", quote(text)
            entry -= 1
    raise AssertionError("the file has become shorter")


def _count_error(location: Path | str, header: Header, actual: str) -> ReproError:
    return ReproError(
        "the file is not a complete Matrix Market file",
        where=location,
        expected=f"{header.stored:,} entries, as line {header.lines} says",
        actual=actual,
        todo=ANEW,
    )
