"""The lines of a Matrix Market file behind its header: so many numbers each, taken in full or refused by their line."""

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
from numpy.typing import DTypeLike, NDArray
from pyarrow import csv

from repro.casts import cast
from repro.errors import ReproError
from repro.problems.market_header import BOM, LARGEST, quote

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
_DIGITS = 20
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
    return index if 0 <= index <= LARGEST else 0


def _integer(token: bytes) -> int:
    """Return a whole number; one that 64 bits do not hold as any such."""
    if not _INTEGER.fullmatch(token):
        raise _RefusedError
    digits = token.lstrip(b"+-0")[: _DIGITS + 1]
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
