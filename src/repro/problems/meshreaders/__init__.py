"""Strict readers of mesh files that need only NumPy: one module for each format, and functions that all modules use.

Each module has a function `read(path, values)`. It returns points `(p, d)` and blocks of cells, and raises `Flaw` for
an invalid file. A `Flaw` does not name the file, since the reader may see only an unpacked copy. Other libraries
without graphics software do not suffice: meshio misreads many valid files and accepts some truncated ones, trimesh
merges vertices and reads no volumes, and Gmsh renumbers vertices. Only formats without a module here
are left to meshio (`repro.problems.meshes.FORMATS`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Byte order of binary numbers; "" for a text file.
Order = Literal["", "<", ">"]
AGAIN = "export it again"
#: Number of bytes that are searched for words (numbers and keywords) in one step.
_WINDOW = 1 << 24
_SPACE = np.zeros(256, bool)
_SPACE[list(b" \t\n\r\v\f")] = True
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_MARK = b"\xef\xbb\xbf"


class Flaw(Exception):
    """A mesh is invalid or not supported. The arguments are parts of a `repro.errors.ReproError`."""

    def __init__(self, what: str, expected: object = None, actual: object = None, todo: str | None = AGAIN) -> None:
        super().__init__(what)
        self.what, self.expected, self.actual, self.todo = what, expected, actual, todo


def truncated(expected: str, actual: str) -> Flaw:
    return Flaw("the mesh file is truncated", expected, actual)


def load_text(path: Path, comment: bytes = b"") -> bytes:
    """Read a text file without byte-order mark and comments, with line feeds only; `Flaw` if it is empty or UTF-16."""
    text = path.read_bytes()
    if text.startswith(_WIDE):
        raise Flaw(
            "the mesh file is text in two bytes a character (UTF-16)",
            expected="ASCII or UTF-8",
            actual=f"it starts with {text[:8]!r}",
            todo="save it as UTF-8: iconv -f UTF-16 -t UTF-8",
        )
    text = text.removeprefix(_MARK)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if comment and comment in text:
        text = re.sub(re.escape(comment) + rb"[^\n]*", b"", text)
    if not text.strip():
        raise truncated("the text of a mesh", "nothing")
    return text


class Content:
    """Content of a file, read from start to end; `order` is the byte order of binary arrays, or "" for text."""

    def __init__(self, content: bytes, offset: int = 0, order: Order = "") -> None:
        self.content, self.offset = content, offset
        self.order: Order = order

    def line(self) -> bytes:
        """Return the next line that is not blank, stripped; b"" at the end."""
        while self.offset < len(self.content):
            end = self.content.find(b"\n", self.offset)
            end = len(self.content) if end < 0 else end
            line = self.content[self.offset : end].strip()
            self.offset = end + 1
            if line:
                return line
        return b""

    def token(self) -> bytes:
        match = _WORD.search(self.content, self.offset)
        self.offset = match.end() if match else len(self.content)
        return match[0] if match else b""

    def peek(self) -> bytes:
        """Return the next word without consuming it."""
        match = _WORD.search(self.content, self.offset)
        return match[0] if match else b""

    def count(self, subject: str) -> int:
        """Return the next word as a count of `subject`; raises `Flaw`."""
        return whole(self.token(), subject)

    def array(self, count: int, dtype: Any, subject: str) -> NDArray[Any]:
        """Return the next `count` numbers, binary if the file has a byte order, else text; raise `Flaw` if invalid."""
        return self.raw(count, np.dtype(dtype), subject) if self.order else self.numbers(count, dtype, subject)

    def raw(self, count: int, dtype: np.dtype[Any], subject: str) -> NDArray[Any]:
        """Return the next binary numbers in native byte order; raises `Flaw`."""
        remaining_bytes = max(len(self.content) - self.offset, 0)
        if count * dtype.itemsize > remaining_bytes:
            raise truncated(f"{count:,} {subject}, {count * dtype.itemsize:,} bytes", f"{remaining_bytes:,} bytes")
        stored_values = np.frombuffer(self.content, dtype.newbyteorder(self.order or "="), count, self.offset)
        self.offset += count * dtype.itemsize
        return stored_values.astype(dtype)

    def numbers(self, count: int, dtype: Any, subject: str) -> NDArray[Any]:
        """Return the next words as numbers; raises `Flaw`."""
        end = self._behind(count, subject)
        text, self.offset = self.content[self.offset : end], end
        return parse(text, dtype, count, subject)

    def rest(self, dtype: Any, subject: str) -> NDArray[Any]:
        """Return the remaining words as numbers."""
        text, self.offset = self.content[self.offset :], len(self.content)
        return parse(text, dtype, None, subject)

    def _behind(self, count: int, subject: str) -> int:
        """Return the position after the next `count` words."""
        remaining_bytes = max(len(self.content) - self.offset, 0)
        if not count:
            return self.offset
        if 2 * count - 1 > remaining_bytes:
            raise truncated(f"{count:,} numbers of {subject}", f"{remaining_bytes:,} bytes")
        word_count, follows_space, offset = 0, True, self.offset
        while offset < len(self.content):
            blank = _SPACE[np.frombuffer(self.content, np.uint8, min(_WINDOW, len(self.content) - offset), offset)]
            starts = np.flatnonzero(~blank & np.concatenate([[follows_space], blank[:-1]]))
            if word_count + len(starts) >= count:
                last_word = _WORD.match(self.content, offset + int(starts[count - word_count - 1]))
                assert last_word is not None
                return last_word.end()
            word_count, follows_space, offset = word_count + len(starts), bool(blank[-1]), offset + len(blank)
        raise truncated(f"{count:,} numbers of {subject}", f"{word_count:,}")


_WORD = re.compile(rb"\S+")


def whole(token: bytes, subject: str) -> int:
    """Return a word as a count of `subject`; raises `Flaw`."""
    if not token.isdigit():
        if not token:
            raise truncated(f"a number of {subject}", "the end of the file")
        raise Flaw("the mesh is damaged", expected=f"a number of {subject}", actual=_quoted(token))
    return int(token)


def parse(text: bytes, dtype: Any, count: int | None, subject: str) -> NDArray[Any]:
    """Return the words of a text as numbers, exactly `count` if given; raises `Flaw`."""
    if not text.strip():
        values = np.empty(0, dtype)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy reports words that are not numbers this way
            try:
                values = np.fromstring(text, dtype, sep=" ")
            except (ValueError, DeprecationWarning):
                raise Flaw(
                    "the mesh is damaged: a word is not a number",
                    expected=f"{'whole ' if np.dtype(dtype).kind in 'iu' else ''}numbers of {subject}",
                    actual=_quoted(_no_number(text, np.dtype(dtype).kind)),
                ) from None
    if count is not None and len(values) != count:
        raise truncated(f"{count:,} numbers of {subject}", f"{len(values):,}")
    return values


def check_lines(text: bytes, widths: NDArray[Any], subject: str) -> None:
    """Raise `Flaw` for a line with another number of words than its row of `widths`.

    Text that has another number of lines than rows is broken without regard to rows, and is not checked.
    """
    characters = np.frombuffer(text, np.uint8)
    blank = _SPACE[characters]
    word_starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
    ends = np.flatnonzero((characters == ord("\n")) | (characters == ord("\r")))
    lines, counts = np.unique(np.searchsorted(ends, word_starts), return_counts=True)
    if len(lines) == len(widths) and (counts != widths).any():
        row = int(np.argmax(counts != widths))
        start = int(ends[lines[row] - 1]) + 1 if lines[row] else 0
        raise Flaw(
            f"the mesh is damaged: a line of {subject} has a word too many or too few",
            expected=f"{widths[row]} words in line {row} (counted from 0)",
            actual=f"{counts[row]}: {_quoted(text[start : start + 80].splitlines()[0])}",
        )


def check_alike(widths: NDArray[Any], subject: str) -> None:
    """Raise `Flaw` unless all lines have equally many words."""
    if (widths != widths[:1]).any():
        row = int(np.argmax(widths != widths[0]))
        raise Flaw(
            f"the mesh is damaged: lines of {subject} have different numbers of words",
            expected=f"{widths[0]} in each, as in the first",
            actual=f"{widths[row]} in line {row} (counted from 0)",
        )


def whole_numbers(values: NDArray[Any], subject: str) -> NDArray[np.int64]:
    """Convert numbers to integers; raise `Flaw` for a number that is too large or not an integer."""
    if values.dtype.kind == "f":
        is_wrong = ~((values == np.trunc(values)) & (np.abs(values) < 2.0**63))
        if is_wrong.any():
            raise Flaw("the mesh is damaged: not an integer", f"whole numbers of {subject}", values[is_wrong][0])
    return values.astype(np.int64)


def _no_number(text: bytes, kind: str) -> bytes:
    for token in text.split():
        try:
            int(token) if kind in "iu" else float(token)
        except ValueError:
            return token
    return b""


def _quoted(token: bytes) -> str:
    return repr(token[:40].decode(errors="replace"))


Numbers = NDArray[np.int64]
#: Points `(p, d)`, and blocks of cells.
Contents = tuple[Floats, list["Cells"]]
LINEAR = {"vertex": 0, "line": 1, "triangle": 2, "quad": 2, "polygon": 2, "tetra": 3}
_OF_SIZE = {1: "vertex", 2: "line", 3: "triangle", 4: "quad"}


@dataclass(frozen=True)
class Cells:
    """Cells of one kind (named as in meshio), with vertex numbers `(c, k)` and their `dimension`."""

    kind: str
    dimension: int
    data: Numbers
    #: Cell data by name, `(c,)` or `(c, m)`; empty unless requested.
    values: Mapping[str, Floats] = field(default_factory=dict)
    #: Position of each cell in file order `(c,)`; None if the cells follow the previous blocks.
    positions: Numbers | None = None


def split(
    sizes: Numbers,
    corners: Numbers,
    kind_of: Callable[[int, int], tuple[str, int]],
    codes: Numbers | None = None,
    values: Mapping[str, Floats] | None = None,
    first: int = 0,
) -> list[Cells]:
    """Split cells of mixed sizes into blocks of one kind and size, each in the order of the file.

    Parameters
    ----------
    sizes, corners
        Number of corners of each cell `(c,)`, and the corners of all cells one after the other.
    kind_of
        Function that returns kind and dimension for a code and a number of corners.
    codes
        Code of each cell's kind in the file format `(c,)`; None means 0 for all.
    first
        Position of the first cell in the file.
    """
    codes = np.zeros(len(sizes), np.int64) if codes is None else codes
    starts = np.cumsum(sizes) - sizes
    order = np.lexsort((sizes, codes))
    breaks = np.flatnonzero((np.diff(codes[order]) != 0) | (np.diff(sizes[order]) != 0)) + 1
    blocks = []
    for positions in np.split(order, breaks) if len(order) else []:
        code, size = int(codes[positions[0]]), int(sizes[positions[0]])
        is_complete = len(positions) == len(sizes)
        data = corners.reshape(-1, size) if is_complete and size else corners[starts[positions, None] + np.arange(size)]
        kept_values = {name: array[positions] for name, array in (values or {}).items()}
        blocks.append(Cells(*kind_of(code, size), data, kept_values, positions + first))
    return sorted(blocks, key=lambda block: int(positions[0]) if (positions := block.positions) is not None else 0)


def face(_: int, size: int) -> tuple[str, int]:
    """Return kind and dimension of a face with `size` corners; for surface formats."""
    kind = _OF_SIZE.get(size, "polygon")
    return kind, LINEAR[kind]


def renumbered(cells: Numbers, numbers: Numbers, subject: str) -> Numbers:
    """Replace vertex numbers of a file by indices from 0; -1 for a missing vertex, `Flaw` for a repeated number."""
    if not len(numbers):
        return np.full_like(cells, -1)
    if (numbers == np.arange(numbers[0], numbers[0] + len(numbers))).all():
        indices = cells - numbers[0]
        return np.where((indices >= 0) & (indices < len(numbers)), indices, -1)
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    repeated_places = np.flatnonzero(np.diff(sorted_numbers) == 0)
    if repeated_places.size:
        raise Flaw(
            f"two {subject} of the mesh have the same number",
            expected="a number for each",
            actual=f"{repeated_places.size + 1} that share one, the first is {sorted_numbers[repeated_places[0]]}",
        )
    positions = np.minimum(np.searchsorted(sorted_numbers, cells), len(sorted_numbers) - 1)
    return np.where(sorted_numbers[positions] == cells, order[positions], -1)
