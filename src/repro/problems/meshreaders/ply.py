"""Reads Stanford's PLY, as text and in both byte orders, with any elements, properties and lists of properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.meshreaders import (
    Cells,
    Contents,
    Flaw,
    Floats,
    Numbers,
    Order,
    check_lines,
    face,
    parse,
    split,
    truncated,
    whole,
    whole_numbers,
)

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
_ORDERS: dict[bytes, Order] = {b"ascii": "", b"binary_little_endian": "<", b"binary_big_endian": ">"}
_COORDINATES = ("x", "y", "z")
_CORNERS = ("vertex_indices", "vertex_index")
_END = b"end_header"
#: Maximum bytes of a file header.
_LONGEST = 1 << 20


@dataclass(frozen=True)
class _Property:
    """A property of an element: a number, or a list whose length is stored with the type `count`."""

    name: str
    dtype: np.dtype[Any]
    count: np.dtype[Any] | None = None


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property] = field(default_factory=list)


def read_ply(path: Path, values: bool = False) -> Contents:
    """Read a surface; `Flaw` for an invalid header, missing data, or triangle strips."""
    raw = path.read_bytes()
    elements, order, start = _header(raw)
    _check_names("elements", [element.name for element in elements])
    for element in elements:
        _check_names(f"properties of {element.name}", [item.name for item in element.properties])
    content = np.frombuffer(raw, np.uint8, -1, start) if order else parse(raw[start:], np.float64, None, "a .ply file")
    body = _Body(content, order)
    points, cells = np.empty((0, 3)), []
    for element in elements:
        element_values = body.rows(element, (*_COORDINATES, *_CORNERS))
        if element.name == "vertex":
            points = _points(element, element_values)
        elif element.name == "face":
            cells = _faces(element, element_values)
        elif element.name == "tristrips" and element.count:
            raise Flaw(
                "the surface consists of triangle strips",
                expected="an element face",
                actual="an element tristrips",
                todo="export it with faces: open it in MeshLab and save it again",
            )
    if body.left and content[body.offset :].tobytes().strip(b" \n\r\0"):
        raise Flaw(
            "the PLY file has more data than its header states",
            expected=", ".join(f"{element.count} of {element.name}" for element in elements),
            actual=f"{body.left:,} {'bytes' if order else 'numbers'} more",
        )
    if not order and body.widths:
        check_lines(raw[start:], np.concatenate(body.widths), "the .ply file")
    return points, cells


def _header(raw: bytes) -> tuple[list[_Element], Order, int]:
    """Parse the header; return elements, byte order, and offset of the data."""
    header = raw[:_LONGEST].removeprefix(b"\xef\xbb\xbf")
    mark = len(raw[:_LONGEST]) - len(header)
    feed = b"\r" if header[3:5].startswith(b"\r") and header[4:5] != b"\n" else b"\n"
    if header[:3] != b"ply" or header[3:4].strip():
        raise _no_header(f"it starts with {raw[:20]!r}")
    elements: list[_Element] = []
    order: Order | None = None
    offset = 0
    while offset < len(header):
        end = header.find(feed, offset)
        line = header[offset : end if end >= 0 else len(header)].strip()
        offset = end + len(feed) if end >= 0 else len(header)
        match line.split():
            case [b"ply" | b"comment" | b"obj_info", *_] | []:
                pass
            case [b"format", form, b"1.0"] if form in _ORDERS:
                order = _ORDERS[form]
            case [b"element", name, count]:
                elements.append(_Element(name.decode(errors="replace"), whole(count, "elements")))
            case [b"property", b"list", count, dtype, name] if elements:
                new_property = _Property(name.decode(errors="replace"), _type(dtype), _type(count))
                if new_property.count is not None and new_property.count.kind == "f":
                    raise _wrong(line, "a whole number for the length of a list")
                elements[-1].properties.append(new_property)
            case [b"property", dtype, name] if elements:
                elements[-1].properties.append(_Property(name.decode(errors="replace"), _type(dtype)))
            case [word] if word == _END:
                if order is None:
                    raise _no_header("no line that says the format")
                return elements, order, offset + mark
            case _:
                raise _wrong(line, "format, element, property, comment or end_header")
    raise _no_header("no end_header")


def _no_header(actual: str) -> Flaw:
    return Flaw(
        "the mesh file has no complete header; it is truncated or in another format",
        expected="a .ply file, whose header goes from ply to end_header",
        actual=actual,
    )


def _check_names(subject: str, names: Sequence[str]) -> None:
    repeated_names = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated_names:
        raise Flaw(
            f"the PLY file has {subject} twice", expected="names that differ", actual=", ".join(repeated_names)[:80]
        )


def _wrong(line: bytes, expected: str) -> Flaw:
    return Flaw(
        "a line of the PLY file's header is not understood",
        expected=expected,
        actual=repr(line[:80].decode(errors="replace")),
    )


def _type(word: bytes) -> np.dtype[Any]:
    name = word.decode(errors="replace")
    if name not in _TYPES:
        raise Flaw("unknown type in the PLY file's header", expected=f"one of {', '.join(_TYPES)}", actual=name)
    return np.dtype(_TYPES[name])


class _Body:
    """Data after the header. Text is read as float64, which is exact for integers up to 2^53."""

    def __init__(self, content: NDArray[Any], order: Order) -> None:
        self._content, self.offset = content, 0
        #: Words or bytes of the rows that were read, for each element.
        self.widths: list[Numbers] = []
        self._order: Order = order

    @property
    def left(self) -> int:
        """Number of remaining bytes (binary) or words (text)."""
        return len(self._content) - self.offset

    def rows(self, element: _Element, names: Sequence[str]) -> dict[str, tuple[Numbers, NDArray[Any]]]:
        """Read all rows of an element; return for each wanted property the number of values per row, and all values."""
        if not element.properties:
            return {}
        lengths = self._lengths(element, 1)
        if len(lengths) and not self._are_alike(element, lengths[0]):
            lengths = self._lengths(element, element.count)
        else:
            lengths = np.repeat(lengths, element.count, axis=0) if len(lengths) else lengths
        values = {}
        widths = [self._width(item.dtype) for item in element.properties]
        counter_widths = [0 if item.count is None else self._width(item.count) for item in element.properties]
        ends = np.cumsum(np.array(counter_widths) + lengths * np.array(widths, np.int64), axis=1)
        total = ends[:, -1]
        rows = self.offset + np.cumsum(total) - total
        for i, item in enumerate(element.properties):
            if item.name in names:
                starts = rows + (ends[:, i - 1] if i else 0) + counter_widths[i]
                numbers = self._take(starts, lengths[:, i], item.dtype)
                if item.dtype.kind in "iu":
                    numbers = whole_numbers(numbers, f"{item.name} of {element.name}, a property of type {item.dtype}")
                values[item.name] = (lengths[:, i], numbers)
        self.offset += int(total.sum())
        self.widths.append(total)
        return values

    def _width(self, dtype: np.dtype[Any]) -> int:
        return dtype.itemsize if self._order else 1

    def _are_alike(self, element: _Element, lengths: Numbers) -> bool:
        """Return whether the lists of all rows of an element are as long as those of the first row."""
        widths = [self._width(item.dtype) for item in element.properties]
        counter_widths = [0 if item.count is None else self._width(item.count) for item in element.properties]
        ends = np.cumsum(np.array(counter_widths, np.int64) + lengths * np.array(widths, np.int64))
        row = int(ends[-1])
        list_properties = [i for i, item in enumerate(element.properties) if item.count is not None]
        if element.count * row > self.left:
            if not list_properties:
                raise self._truncated(element)
            return False
        for i in list_properties:
            counter = element.properties[i].count
            assert counter is not None
            start = self.offset + (int(ends[i - 1]) if i else 0)
            if (self._strided(start, row, element.count, counter) != lengths[i]).any():
                return False
        return True

    def _strided(self, start: int, step: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not self._order:
            return self._content[start : start + step * count : step]
        return np.ndarray((count,), dtype.newbyteorder(self._order or "="), self._content, start, (step,))

    def _lengths(self, element: _Element, count: int) -> Numbers:
        """Return the number of values of each property in the next rows."""
        count = min(count, element.count)
        steps = [(self._width(item.dtype), item.count) for item in element.properties]
        offset, end, lengths = self.offset, len(self._content), []
        for _ in range(count):
            for width, counter in steps:
                length = 1
                if counter is not None:
                    if offset + self._width(counter) > end:
                        raise self._truncated(element)
                    length = self._length(offset, counter, element)
                    offset += self._width(counter)
                lengths.append(length)
                offset += length * width
            if offset > end:
                raise self._truncated(element)
        return np.array(lengths, np.int64).reshape(count, len(steps))

    def _length(self, offset: int, dtype: np.dtype[Any], element: _Element) -> int:
        if self._order:
            order: Any = "little" if self._order == "<" else "big"
            number = int.from_bytes(self._content[offset : offset + dtype.itemsize], order, signed=dtype.kind == "i")
            is_wrong = number < 0
        else:
            value = float(self._content[offset])
            is_wrong = not (value >= 0 and value == value // 1)
            number = -1 if is_wrong else int(value)
        if is_wrong:
            raise Flaw(
                "the mesh is damaged: a list has no length",
                expected=f"a whole number of 0 or more in each row of {element.name}",
                actual=number if self._order else value,
            )
        return number

    def _take(self, starts: Numbers, lengths: Numbers, dtype: np.dtype[Any]) -> NDArray[Any]:
        width = self._width(dtype)
        first = np.cumsum(lengths) - lengths
        offsets = np.repeat(starts - width * first, lengths) + width * np.arange(int(lengths.sum()))
        if not self._order:
            return self._content[offsets]
        stored_bytes = np.empty((len(offsets), width), np.uint8)
        for i in range(width):
            stored_bytes[:, i] = self._content[offsets + i]
        return stored_bytes.view(dtype.newbyteorder(self._order or "=")).ravel().astype(dtype)

    def _truncated(self, element: _Element) -> Flaw:
        remaining_text = f"{self.left:,} {'bytes' if self._order else 'numbers'}"
        return truncated(f"{element.count:,} rows of {element.name}", f"{remaining_text} for them and all behind")


def _points(element: _Element, values: dict[str, tuple[Numbers, NDArray[Any]]]) -> Floats:
    list_names = [item.name for item in element.properties if item.count is not None]
    if any(name not in values or name in list_names for name in _COORDINATES):
        raise Flaw(
            "the mesh has no vertices in three dimensions",
            expected="properties x, y and z, a number each",
            actual=", ".join(item.name for item in element.properties) or "none",
        )
    return np.stack([values[name][1] for name in _COORDINATES], axis=1).astype(np.float64)


def _faces(element: _Element, values: dict[str, tuple[Numbers, NDArray[Any]]]) -> list[Cells]:
    corners = [item for item in element.properties if item.name in _CORNERS and item.count is not None]
    if len(corners) != 1 or corners[0].dtype.kind == "f":
        raise Flaw(
            "the faces of the mesh have no corners",
            expected=f"one list of whole numbers, {' or '.join(_CORNERS)}",
            actual=", ".join(item.name for item in element.properties) or "no properties",
        )
    sizes, corner_values = values[corners[0].name]
    return split(sizes, corner_values, face)
