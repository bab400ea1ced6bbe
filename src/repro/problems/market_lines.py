"""The lines of a Matrix Market file behind its header: so many numbers each, taken in full or refused by their line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from repro.errors import ReproError
from repro.problems.market_header import LARGEST, quote

Column = NDArray[Any]
#: Bytes that are tokenized at a time.
BLOCK = 8 << 20
_FORMS = {
    "index": (pa.int32(), re.compile(rb"[+-]?[0-9]+")),
    "whole": (pa.int64(), re.compile(rb"[+-]?[0-9]+")),
    "real": (
        pa.float64(),
        re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE),
    ),
}
_WORDS = {"whole": "a whole number", "real": "a number"}


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
    """Return the columns of numbers in whole lines, each of as many as there are kinds."""
    # pyarrow takes a number in full or not at all, as the slow way below does, but for these
    if b"x" not in block and b"X" not in block:
        for spaced in (bytes, _single_spaced):
            try:
                return _fast_tokens(spaced(block), kinds)
            except pa.ArrowInvalid:
                continue
    return _slow_tokens(block, kinds, line, path)


def _fast_tokens(block: bytes, kinds: tuple[str, ...]) -> list[Column]:
    names = [str(i) for i in range(len(kinds))]
    if not block.strip():
        return [np.empty(0, np.int32) for _ in kinds]
    table = csv.read_csv(
        pa.BufferReader(block),
        # threads, and a pool of arenas, would count as memory that is taken
        memory_pool=pa.system_memory_pool(),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
        convert_options=csv.ConvertOptions(
            column_types={name: _FORMS[kind][0] for name, kind in zip(names, kinds, strict=True)},
            null_values=[],
        ),
    )
    # as NumPy's arrays without pyarrow's own way to them, which imports pandas
    return [np.from_dlpack(table[name].combine_chunks()) for name in names]


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
    forms = [_FORMS[kind][1] for kind in kinds]
    read: list[list[Any]] = [[] for _ in kinds]
    for number, text in enumerate(block.split(b"\n"), line):
        words = text.split()
        if not words:
            continue
        if len(words) != len(kinds) or not all(form.fullmatch(token) for form, token in zip(forms, words, strict=True)):
            raise ReproError(
                "a line of the file is not what the header says",
                where=f"{path}, line {number}",
                expected=_spell(kinds),
                actual=quote(text),
                todo="correct the line, or write the file anew",
            )
        for column, kind, token in zip(read, kinds, words, strict=True):
            column.append(float(token) if kind != "index" else _index(token))
    return [
        np.array(column, np.int32 if kind == "index" else np.float64) for column, kind in zip(read, kinds, strict=True)
    ]


def _index(token: bytes) -> int:
    """Return an index; one that no matrix has as 0, which is none either."""
    index = int(token) if len(token) <= 18 else 0
    return index if 0 <= index <= LARGEST else 0


def _spell(kinds: tuple[str, ...]) -> str:
    words = ["row", "column"] if kinds[:1] == ("index",) else []
    values = [_WORDS[kind] for kind in kinds[len(words) :]]
    return ", ".join([*words, *values]) + ", and nothing else"
