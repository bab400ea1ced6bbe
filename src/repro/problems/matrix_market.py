"""Matrix Market files, read into CSR: each line is taken as the format has it, or refused by its number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from pyarrow import csv

from repro.casts import cast
from repro.config.models import Limits
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.files import exceeds, locate, matrix_checksum, open_plain
from repro.problems.subprocess_reader import read_isolated

ENDINGS = (".mtx", ".mtx.gz", ".mtx.xz", ".tar.gz", ".tgz")
MAX_SIZE = 2**31 - 1
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
_HUGE_DIGITS = 18


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
    rows, columns, *rest = (int(number.lstrip(b"0")[: _HUGE_DIGITS + 1] or b"0") for number in numbers)
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
    if max(rows, columns, stored) > MAX_SIZE:
        raise ReproError(
            "the matrix is too large for 32-bit indices",
            where=where,
            expected=f"at most {MAX_SIZE:,} rows, columns and entries",
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


Column = NDArray[Any]
#: Bytes that are tokenized at a time.
BLOCK = 8 << 20
#: Fortran's exponents, those of its double precision, and what they are elsewhere.
_EXPONENTS = bytes.maketrans(b"dD", b"eE")
#: A number that is not 0 and that a double rounds to 0 has an exponent from -100 down or so many zeros in a row. Two
#: patterns, as one that starts in either way takes ten times as long.
_EXPONENT_OF_TINY = re.compile(rb"e-0*[1-9][0-9][0-9]"), re.compile(rb"E-0*[1-9][0-9][0-9]")
_ZEROS_OF_TINY = b"0" * 100
#: Digits of a whole number that no type of 64 bits holds.
_OVERFLOW_DIGITS = 20
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_REAL = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)


def blocks(stream: BinaryIO, line: int, path: Path) -> Iterator[bytes]:
    """Give the rest of a file in pieces that end where a line does."""
    rest = b""
    while block := stream.read(BLOCK):
        end = block.rfind(b"\n") + 1
        if not end and len(rest) + len(block) > BLOCK:
            raise ReproError(
                "a line of the file has no end",
                where=path,
                expected="an entry a line",
                actual=f"{len(rest) + len(block):,} bytes without a line feed",
                todo="write the file anew",
            )
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest


def tokens(block: bytes, kinds: tuple[str, ...], line: int, path: Path) -> list[Column]:
    """Return the columns of numbers in whole lines, each of as many as there are kinds.

    Parameters
    ----------
    block
        The lines; blank ones among them count as lines alone.
    kinds
        Of `KINDS`: `row` and `column`, or `whole`, `unsigned` or `real` for a value.
    line
        The number of the first line.
    path
        To be named in errors.

    Returns
    -------
    columns
        int32 for indices, of which one that no matrix has may be 0 or below. float64 for values: the nearest double,
        which for whole numbers is the number itself.

    Raises
    ------
    ReproError
        A line has something else, or a number that a double does not hold; it names the line.
    """
    columns = _fast_tokens(block, kinds)
    return _slow_tokens(block, kinds, line, path) if columns is None else columns


def _fast_tokens(block: bytes, kinds: tuple[str, ...]) -> list[Column] | None:
    """Return the columns, or None where a line is not as it should be, or may not be."""
    if not block.strip():
        return [np.empty(0, KINDS[kind].dtype) for kind in kinds]
    # pyarrow takes a number in full or not at all, as the slow way does, but for these
    if b"x" in block or b"X" in block or block.startswith(BOM):
        return None
    if b"d" in block or b"D" in block:
        block = block.translate(_EXPONENTS)
    # a carriage return alone ends a line to pyarrow
    alone = b"\r" in block and block.count(b"\r") != block.count(b"\r\n")
    for spaced in (_single_spaced,) if alone else (bytes, _single_spaced):
        try:
            columns = _read_csv(spaced(block), kinds)
        except pa.ArrowInvalid:
            continue
        return _certain(columns, kinds, block)
    return None


def _read_csv(block: bytes, kinds: tuple[str, ...]) -> list[Column]:
    names = [str(i) for i in range(len(kinds))]
    table = csv.read_csv(
        pa.BufferReader(block),
        # threads, and a pool of arenas, would count as memory that is taken
        memory_pool=pa.system_memory_pool(),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
        convert_options=csv.ConvertOptions(
            column_types={name: KINDS[kind].arrow for name, kind in zip(names, kinds, strict=True)},
            null_values=[],
        ),
    )
    # as NumPy's arrays without pyarrow's own way to them, which imports pandas
    return [np.from_dlpack(table[name].combine_chunks()) for name in names]


def _certain(columns: list[Column], kinds: tuple[str, ...], block: bytes) -> list[Column] | None:
    """Return numbers that are those of the text, or None where one may not be: rounded, to infinity or 0 say."""
    try:
        columns = [cast(column, KINDS[kind].dtype, kind) for column, kind in zip(columns, kinds, strict=True)]
    except ReproError:
        return None
    reals = [column for column, kind in zip(columns, kinds, strict=True) if kind == "real"]
    if not all(np.isfinite(column).all() for column in reals):
        return None
    if all(column.all() for column in reals):
        return columns
    return None if _ZEROS_OF_TINY in block or any(part.search(block) for part in _EXPONENT_OF_TINY) else columns


def _single_spaced(block: bytes) -> bytes:
    """Return lines with their numbers parted by one space each, and none before or behind them."""
    text = np.frombuffer(block.translate(bytes.maketrans(b"\t\r\v\f", b"    ")), np.uint8)
    space, end = text == ord(" "), text == ord("\n")
    after = np.concatenate([[True], (space | end)[:-1]])
    text = text[~(space & after)]
    behind = np.append(text[1:] == ord("\n"), True)
    tidy: bytes = text[~((text == ord(" ")) & behind)].tobytes()
    return tidy


def _slow_tokens(block: bytes, kinds: tuple[str, ...], line: int, path: Path) -> list[Column]:
    """Do the same line by line, and name the first that is not as it should be."""
    parsers = [KINDS[kind].parse for kind in kinds]
    read: list[list[Any]] = [[] for _ in kinds]
    for number, text in enumerate(block.split(b"\n"), line):
        words = text.split()
        if not words:
            continue
        try:
            if len(words) != len(kinds):
                raise _RefusedError
            for column, parse, word in zip(read, parsers, words, strict=True):
                column.append(parse(word))
        except _RefusedError as refused:
            what, expected, todo = refused.args or (
                "a line of the file is not what the header says",
                _spell(kinds),
                "correct the line, or write the file anew",
            )
            where = f"{path}, line {number}"
            raise ReproError(what, where=where, expected=expected, actual=quote(text), todo=todo) from None
    return [np.array(column, KINDS[kind].dtype) for column, kind in zip(read, kinds, strict=True)]


class _RefusedError(Exception):
    """A token is no number of its kind; or what is wrong with it, what is expected instead, and what to do."""


def _index(token: bytes) -> int:
    """Return an index; one that no matrix has as 0, which is none either."""
    index = _integer(token)
    return index if 0 <= index <= MAX_SIZE else 0


def _integer(token: bytes) -> int:
    """Return a whole number; one that 64 bits do not hold as any such."""
    if not _INTEGER.fullmatch(token):
        raise _RefusedError
    digits = token.lstrip(b"+-0")[: _OVERFLOW_DIGITS + 1]
    return int(digits or b"0") * (-1 if token.startswith(b"-") else 1)


def _whole(token: bytes, dtype: DTypeLike) -> float:
    """Return a whole number as a double."""
    whole, limits = _integer(token), np.iinfo(dtype)
    if not limits.min <= whole <= limits.max:
        raise _RefusedError(
            "a number is not one of its field",
            f"a whole number from {limits.min:,} to {limits.max:,}",
            "correct the number, or the field that the header names",
        )
    if whole != (value := float(whole)):
        raise _RefusedError(
            "a whole number has more digits than a double",
            f"one that a double holds, as any to 2^53 = {2**53:,}: the nearest is {value:,.0f}",
            "call the field real in the header, if the nearest double is right",
        )
    return value


def _real(token: bytes) -> float:
    """Return the double that is nearest to a number."""
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
    raise _RefusedError("a number does not fit into a double", limit, "correct the number, or scale the matrix")


@dataclass(frozen=True)
class _Kind:
    """What a token can be: what it becomes, by pyarrow and by hand, and what it is called."""

    dtype: type[np.int32 | np.float64]
    arrow: pa.DataType
    parse: Callable[[bytes], float]
    called: str


KINDS = {
    "row": _Kind(np.int32, pa.int32(), _index, "row"),
    "column": _Kind(np.int32, pa.int32(), _index, "column"),
    "whole": _Kind(np.float64, pa.int64(), partial(_whole, dtype=np.int64), "a whole number"),
    "unsigned": _Kind(np.float64, pa.uint64(), partial(_whole, dtype=np.uint64), "a whole number, not negative"),
    "real": _Kind(np.float64, pa.float64(), _real, "a number"),
}


def _spell(kinds: tuple[str, ...]) -> str:
    return ", ".join([*(KINDS[kind].called for kind in kinds), "and nothing else"])


__all__ = ["ENDINGS", "MAX_SIZE", "MatrixFile", "is_matrix_market", "read_matrix"]

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
    return read_isolated(read, place, limits, "the reader of Matrix Market files")


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
        if len(rows) + len(mirrored) > MAX_SIZE:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                where=path,
                expected=f"at most {MAX_SIZE:,} entries with both halves",
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
