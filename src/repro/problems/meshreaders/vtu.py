"""Reads VTK's unstructured grids in XML: text, base64 or raw, inline or appended, packed by zlib, LZMA or LZ4, in
pieces.

Ghost cells (`vtkGhostType`) are left out. Vertices of different pieces at the same position are merged, unless cell
data are asked for.
"""

from __future__ import annotations

import base64
import binascii
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from repro.exact_casts import cast
from repro.problems.meshreaders import Cells, Contents, Flaw, Floats, Numbers, Order, parse, truncated, whole
from repro.problems.meshreaders.vtk import blocks

_TYPES = {
    "Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2", "Int32": "i4", "UInt32": "u4", "Int64": "i8",
    "UInt64": "u8", "Float32": "f4", "Float64": "f8",
}  # fmt: skip
_ORDERS: dict[str, Order] = {"LittleEndian": "<", "BigEndian": ">"}
_APPENDED = re.compile(rb"<AppendedData\b[^>]*>")
_GHOSTS = "vtkGhostType"
#: Bits of vtkGhostType for cells to skip: a copy of another piece's cell, and a hidden cell.
_LEFT_OUT = 1 | 32


def _unpack_lz4(packed: bytes, size: int) -> bytes:
    unpacked: bytes = pa.decompress(packed, size, codec="lz4_raw", asbytes=True, memory_pool=pa.system_memory_pool())
    return unpacked


#: Points; types, sizes and corners of cells; and cell data.
_Part = tuple[Floats, Numbers, Numbers, Numbers, dict[str, Floats]]
_COMPRESSORS: dict[str, Callable[[bytes, int], bytes]] = {
    "vtkZLibDataCompressor": lambda packed, size: zlib.decompressobj().decompress(packed, size),
    "vtkLZMADataCompressor": lambda packed, size: lzma.LZMADecompressor().decompress(packed, size),
    "vtkLZ4DataCompressor": _unpack_lz4,
}


def read_vtu(path: Path, values: bool = False) -> Contents:
    """Read a surface or a volume, with cell data if asked; `Flaw` for other XML, or incomplete or unknown arrays."""
    content = path.read_bytes()
    if content.strip() and b"<VTKFile" not in content[:4096]:
        raise Flaw(
            "the .vtu file is not VTK's", expected="XML with <VTKFile", actual=f"it starts with {content[:40]!r}"
        )
    tag = _APPENDED.search(content)
    header = content[: tag.end()] + b"</AppendedData></VTKFile>" if tag else content
    if not content.rstrip().endswith(b"</VTKFile>"):
        raise truncated("</VTKFile> at the end", repr(content[-20:]) if content else "nothing")
    try:
        root = ElementTree.fromstring(header)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Flaw("the .vtu file is damaged", expected="XML of VTK", actual=error) from None
    if root.tag != "VTKFile" or root.get("type") != "UnstructuredGrid":
        raise Flaw(
            "the .vtu file has an unsupported kind of data",
            expected='VTKFile type="UnstructuredGrid"',
            actual=f"{root.tag} type={root.get('type')}",
            todo="save it as an unstructured grid (.vtu), or a surface as .vtk, .ply or .stl",
        )
    return _Reader(root, content[content.index(b"_", tag.end()) + 1 :] if tag else b"").read(values)


class _Reader:
    def __init__(self, root: ElementTree.Element, appended: bytes) -> None:
        self._root = root
        self._order: Order = _ORDERS.get(root.get("byte_order", "LittleEndian"), "")
        self._head = np.dtype(_TYPES.get(root.get("header_type", "UInt32"), "V1"))
        packing = root.get("compressor")
        if not self._order or self._head.kind != "u" or (packing and packing not in _COMPRESSORS):
            raise Flaw("the .vtu file is in an unsupported form",
                       expected=f"byte_order {' or '.join(_ORDERS)}, header_type UInt32 or UInt64, compressor "
                       f"{', '.join(_COMPRESSORS)} or none",
                       actual=", ".join(f"{key} {text}" for key, text in root.attrib.items()),
                       todo="save it again in another mode of ParaView or VTK")  # fmt: skip
        self._unpack = _COMPRESSORS[packing] if packing else None
        self._raw, self._appended = False, appended
        element = root.find("AppendedData")
        if element is not None:
            self._raw = element.get("encoding", "base64") == "raw"
            if not self._raw:
                self._appended = b"".join(appended.partition(b"<")[0].split())

    def read(self, values: bool) -> Contents:
        """Return the mesh of all pieces."""
        pieces = self._root.findall("UnstructuredGrid/Piece")
        if not pieces:
            raise Flaw("the .vtu file has no mesh", expected="a Piece in an UnstructuredGrid", actual="none")
        parts: list[_Part] = []
        for piece in pieces:
            part = self._piece(piece, values)
            if len(part[1]) or len(part[0]):
                parts.append(part)
        if not parts:
            return np.empty((0, 3)), []
        points = np.concatenate([part[0] for part in parts])
        vertex_offsets = np.cumsum([0, *(len(part[0]) for part in parts)])
        corners = np.concatenate(
            [
                np.where((part[3] >= 0) & (part[3] < len(part[0])), part[3] + int(offset), -1)
                for part, offset in zip(parts, vertex_offsets, strict=False)
            ]
        )
        types, sizes = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        if len(parts) > 1 and not values:
            points, vertex_of_point = _merged_points(points, vertex_offsets)
            corners = np.where(corners >= 0, vertex_of_point[np.maximum(corners, 0)], -1)
        shared = set.intersection(*(set(part[4]) for part in parts))
        shared_values = {name: np.concatenate([part[4][name] for part in parts]) for name in shared}
        cells: list[Cells] = blocks(types, sizes, corners, shared_values)
        return points, cells

    def _piece(
        self, piece: ElementTree.Element, values: bool
    ) -> tuple[Floats, Numbers, Numbers, Numbers, dict[str, Floats]]:
        """Return a piece's points, types, sizes and corners of cells, and cell data, without ghost cells."""
        count = whole(piece.get("NumberOfCells", "").encode(), "cells")
        vertices = whole(piece.get("NumberOfPoints", "").encode(), "points")
        element = piece.find("Points/DataArray")
        if element is None and vertices:
            raise Flaw("a piece of the mesh has no points", expected="Points with a DataArray", actual="none")
        points = (
            self._array(element, 3 * vertices).reshape(-1, 3).astype(np.float64)
            if element is not None
            else np.empty((0, 3))
        )
        arrays = {array.get("Name", ""): array for array in piece.findall("Cells/DataArray")}
        if count and not {"connectivity", "offsets", "types"} <= set(arrays):
            raise Flaw("a piece of the mesh has no cells", expected="connectivity, offsets and types",
                       actual=", ".join(arrays) or "none")  # fmt: skip
        if not count:
            none = np.empty(0, np.int64)
            return points, none, none, none, self._data(piece, 0, values)
        types = cast(self._array(arrays["types"], count), np.int64, "types")
        offsets = cast(self._array(arrays["offsets"], count), np.int64, "offsets")
        sizes = np.diff(offsets, prepend=0)
        if (sizes < 0).any():
            raise Flaw("the mesh is damaged: offsets of cells do not ascend", expected="0 and more", actual=offsets[0])
        corners = cast(self._array(arrays["connectivity"], int(offsets[-1])), np.int64, "connectivity")
        data = self._data(piece, count, values)
        ghosts = piece.find(f"CellData/DataArray[@Name='{_GHOSTS}']")
        if ghosts is not None:
            stays = (self._array(ghosts, count).astype(np.int64) & _LEFT_OUT) == 0
            corners, types, sizes = corners[np.repeat(stays, sizes)], types[stays], sizes[stays]
            data = {name: array[stays] for name, array in data.items()}
        return points, types, sizes, corners, data

    def _data(self, piece: ElementTree.Element, count: int, values: bool) -> dict[str, Floats]:
        arrays = {}
        for element in piece.findall("CellData/DataArray") if values else ():
            if element.get("type") in _TYPES:
                width = whole((element.get("NumberOfComponents") or "1").encode(), "components")
                numbers = self._array(element, count * width).astype(np.float64)
                arrays[element.get("Name", "")] = numbers if width == 1 else numbers.reshape(count, width)
        return arrays

    def _array(self, element: ElementTree.Element, count: int) -> NDArray[Any]:
        """Return the numbers of an array after checking their count."""
        name, kind = element.get("Name", "points"), _TYPES.get(element.get("type", ""))
        if kind is None:
            raise Flaw(
                "unknown type in the .vtu file", expected=f"one of {', '.join(_TYPES)}", actual=element.get("type")
            )
        dtype = np.dtype(kind)
        match element.get("format", "ascii"):
            case "ascii":
                # Numbers in text may be more precise than the stated type.
                wide_type = "f8" if dtype.kind == "f" else "i8"
                return parse(
                    "".join(element.itertext() if not len(element) else [element.text or ""]).encode(),
                    wide_type,
                    count,
                    name,
                )
            case "binary":
                text = element.text or ""
                stored_bytes = self._bytes("".join(text.split()).encode(), 0, False, name)
            case "appended":
                start = whole((element.get("offset") or "").strip().encode(), f"offset of {name}")
                stored_bytes = self._bytes(self._appended, start, self._raw, name)
            case other_format:
                raise Flaw("unknown form in the .vtu file", expected="ascii, binary or appended", actual=other_format)
        if len(stored_bytes) != count * dtype.itemsize:
            raise truncated(
                f"{count:,} numbers of {name}, {count * dtype.itemsize:,} bytes", f"{len(stored_bytes):,} bytes"
            )
        return np.frombuffer(stored_bytes, dtype.newbyteorder(self._order or "=")).astype(dtype)

    def _bytes(self, source: bytes, start: int, raw: bool, name: str) -> bytes:
        """Return the bytes of an array, which follow a header that states their number."""
        stream = _Stream(source, start, raw, name)
        header = self._head.newbyteorder(self._order or "=")
        size = header.itemsize
        if not self._unpack:
            count = int(np.frombuffer(stream.take(0, size), header)[0])
            return stream.take(size, count)
        parts, full, last_size = (int(size_word) for size_word in np.frombuffer(stream.take(0, 3 * size), header))
        if not parts:
            return b""
        sizes = np.frombuffer(stream.take(0, (3 + parts) * size), header)[3:].astype(np.int64)
        packed_sizes = stream.take((3 + parts) * size, int(sizes.sum()))
        ends = np.cumsum(sizes)
        unpacked_blocks = []
        for i in range(parts):
            expected_size = last_size if last_size and i == parts - 1 else full
            try:
                unpacked_blocks.append(self._unpack(packed_sizes[ends[i] - sizes[i] : ends[i]], expected_size))
            except (zlib.error, lzma.LZMAError, OSError, EOFError, pa.ArrowException, ValueError) as error:
                raise Flaw(f"the mesh is damaged: {name} cannot be unpacked", actual=error) from None
        return b"".join(unpacked_blocks)


class _Stream:
    """Bytes from a position on, raw or base64. In base64, a padded header is encoded separately."""

    def __init__(self, source: bytes, start: int, raw: bool, name: str) -> None:
        self._source, self._start, self._raw, self._name = source, start, raw, name

    def take(self, skip: int, count: int) -> bytes:
        """Return `count` bytes after skipping others."""
        if self._raw:
            content = self._source[self._start + skip : self._start + skip + count]
        else:
            offset, skipped_bytes = self._start, skip
            start_text = self._source[offset : offset + 4 * -(-skip // 3)]
            if skip and (start_text.endswith(b"=") or skip % 3 == 0):
                offset, skipped_bytes = offset + len(start_text), 0
            try:
                text = self._source[offset : offset + 4 * -(-(skipped_bytes + count) // 3)]
                # If only the header is encoded in this stream, its padding follows the requested bytes.
                content = base64.b64decode(text, validate=True)[skipped_bytes : skipped_bytes + count]
            except (binascii.Error, ValueError) as error:
                raise Flaw(f"the mesh is damaged: {self._name} is not base64", actual=error) from None
        if len(content) != count:
            raise truncated(f"{count:,} bytes of {self._name}", f"{len(content):,}")
        return content


def _merged_points(points: Floats, offsets: NDArray[Any]) -> tuple[Floats, Numbers]:
    """Merge equal points of different pieces, in order of first appearance; also return the new number of each
    point.
    """
    pieces = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows = np.column_stack([points + 0.0, pieces])
    order = np.lexsort(rows.T[::-1])
    starts = np.concatenate([[True], (np.diff(rows[order], axis=0) != 0).any(axis=1)])
    # Equal points within one piece are kept separate.
    rank = np.empty(len(points))
    rank[order] = np.arange(len(points)) - np.flatnonzero(starts)[np.cumsum(starts) - 1]
    _, first, inverse = np.unique(np.column_stack([points + 0.0, rank]), axis=0, return_index=True, return_inverse=True)
    kept_points = np.sort(first)
    return points[kept_points], np.searchsorted(kept_points, first)[inverse.ravel()]
