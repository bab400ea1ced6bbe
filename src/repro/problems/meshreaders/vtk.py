"""Reads VTK's legacy format, versions 1 to 5.1, text and binary: unstructured grids, surfaces and structured grids.

The reader of VTK's XML format uses the cell types defined here. Triangle strips are split, pixels are reordered, and
unsupported types are named in errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from repro.exact_casts import cast
from repro.problems.meshreaders import (
    AGAIN,
    Cells,
    Content,
    Contents,
    Flaw,
    Floats,
    Numbers,
    load_text,
    parse,
    split,
    truncated,
    whole,
)

_PIXEL, _STRIP, _POLYGON = 8, 6, 7
#: Kind, dimension and number of corners for each cell type; 0 means any number of corners.
_KINDS = {
    1: ("vertex", 0, 1), 2: ("poly_vertex", 0, 0), 3: ("line", 1, 2), 4: ("poly_line", 1, 0), 5: ("triangle", 2, 3),
    _STRIP: ("triangle_strip", 2, 0), _POLYGON: ("polygon", 2, 0), _PIXEL: ("quad", 2, 4), 9: ("quad", 2, 4),
    10: ("tetra", 3, 4), 11: ("voxel", 3, 8), 12: ("hexahedron", 3, 8), 13: ("wedge", 3, 6), 14: ("pyramid", 3, 5),
    15: ("penta_prism", 3, 10), 16: ("hexa_prism", 3, 12), 21: ("line3", 1, 3), 22: ("triangle6", 2, 6),
    23: ("quad8", 2, 8), 24: ("tetra10", 3, 10), 25: ("hexahedron20", 3, 20), 26: ("wedge15", 3, 15),
    27: ("pyramid13", 3, 13), 28: ("quad9", 2, 9), 29: ("hexahedron27", 3, 27), 30: ("quad6", 2, 6),
    31: ("wedge12", 3, 12), 32: ("wedge18", 3, 18), 33: ("hexahedron24", 3, 24), 34: ("triangle7", 2, 7),
    35: ("line4", 1, 4), 36: ("quadratic_polygon", 2, 0), 37: ("pyramid19", 3, 19), 42: ("polyhedron", 3, 0),
    60: ("curve", 1, 0), 61: ("higher_order_triangle", 2, 0), 62: ("higher_order_quad", 2, 0),
    63: ("higher_order_polygon", 2, 0), 64: ("higher_order_tetra", 3, 0), 65: ("higher_order_wedge", 3, 0),
    66: ("higher_order_pyramid", 3, 0), 67: ("higher_order_hexahedron", 3, 0),
    **{base + i: (f"{name}_{what}", dimension, 0) for base, name in ((68, "lagrange"), (75, "bezier"))
       for i, (what, dimension) in enumerate((("curve", 1), ("triangle", 2), ("quad", 2), ("tetra", 3),
                                              ("hexahedron", 3), ("wedge", 3), ("pyramid", 3)))},
}  # fmt: skip


def blocks(types: Numbers, sizes: Numbers, corners: Numbers, values: Mapping[str, Floats] | None = None) -> list[Cells]:
    """Return cells by kind, from types and numbers of corners `(c,)` and all corners; `Flaw` if they do not fit."""
    if len(types) != len(sizes):
        raise Flaw("the mesh is damaged: cells and their types differ in number",
                   expected=f"{len(sizes)} types", actual=len(types))  # fmt: skip
    unknown_types = np.setdiff1d(types, [0, *_KINDS])
    if unknown_types.size:
        raise Flaw(
            "the mesh has cells of an unsupported type",
            expected="triangles and polygons, or tetrahedra, and others of VTK's types beside them",
            actual=f"type {unknown_types[0]}",
            todo="export the whole mesh with linear triangles or tetrahedra",
        )
    cell_blocks = []
    for block in split(sizes, corners, lambda code, size: (str(code), size), types, values):
        code, size = int(block.kind), block.dimension
        if not code:
            continue
        kind, dimension, corner_count = _KINDS[code]
        if corner_count and size != corner_count:
            assert block.positions is not None
            raise Flaw(
                "the mesh is damaged: a cell has the wrong number of corners for its type",
                expected=f"{corner_count} for a {kind}",
                actual=f"{size} in cell {block.positions[0]} (counted from 0)",
            )
        data, block_values, positions = block.data, block.values, block.positions
        if code == _POLYGON:
            kind = {3: "triangle", 4: "quad"}.get(size, kind)
        elif code == _PIXEL:
            data = data[:, [0, 1, 3, 2]]
        elif code == _STRIP and size > 2:
            # The orientation of triangles in a strip alternates.
            fan_offsets = np.arange(size - 2)[:, None] + np.array([0, 1, 2])
            fan_offsets[1::2] = fan_offsets[1::2][:, [1, 0, 2]]
            kind, data = "triangle", data[:, fan_offsets].reshape(-1, 3)
            block_values = {name: np.repeat(array, size - 2, axis=0) for name, array in block_values.items()}
            positions = np.repeat(positions, size - 2) if positions is not None else None
        cell_blocks.append(Cells(kind, dimension, data, block_values, positions))
    return cell_blocks


_TYPES = {
    "unsigned_char": "u1", "char": "i1", "signed_char": "i1", "unsigned_short": "u2", "short": "i2",
    "unsigned_int": "u4", "int": "i4", "unsigned_long": "u8", "long": "i8", "vtkidtype": "i4", "vtktypeint64": "i8",
    "vtktypeuint64": "u8", "vtktypeint32": "i4", "vtktypeuint32": "u4", "vtktypeint16": "i2", "vtktypeint8": "i1",
    "vtktypeuint8": "u1", "vtktypeuint16": "u2", "float": "f4", "double": "f8", "vtktypefloat32": "f4",
    "vtktypefloat64": "f8",
}  # fmt: skip
_GRIDS = ("structured_points", "structured_grid", "rectilinear_grid")
_DATASETS = ("unstructured_grid", "polydata", *_GRIDS)
#: Cell type for each keyword of a surface; None for triangle strips.
_SURFACE = {"vertices": 2, "lines": 4, "polygons": 7, "triangle_strips": 6}
#: Number of components for each keyword of data.
_DATA = {"vectors": 3, "normals": 3, "tensors": 9, "tensors6": 6}


def read_vtk(path: Path, values: bool = False) -> Contents:
    """Read a surface or a volume, with cell data if asked; `Flaw` for other data, or incomplete or unknown parts."""
    with path.open("rb") as file:
        header = [file.readline(512).strip() for _ in range(3)]
    if not header[0].removeprefix(b"\xef\xbb\xbf").lower().startswith(b"# vtk datafile version"):
        xml = header[0].startswith((b"<?xml", b"<VTKFile"))
        raise Flaw(
            "the .vtk file is not in VTK's legacy format",
            expected="a first line # vtk DataFile Version",
            actual=f"it starts with {header[0][:40]!r}",
            todo="name it .vtu, since it is XML" if xml else AGAIN,
        )
    kind = header[2].upper()
    if kind not in (b"ASCII", b"BINARY"):
        raise Flaw("the VTK file states no encoding", expected="ASCII or BINARY in line 3", actual=repr(header[2]))
    binary = kind == b"BINARY"
    content = Content(path.read_bytes() if binary else load_text(path), 0, ">" if binary else "")
    for _ in range(3):
        content.offset = content.content.index(b"\n", content.offset) + 1 if b"\n" in content.content else 0
    version = header[0].split()[-1].decode(errors="replace")
    return _Reader(content, version.split(".")[0] in ("5", "6"), values).read()


class _Reader:
    def __init__(self, content: Content, offsets: bool, values: bool) -> None:
        self._content, self._offsets, self._keep = content, offsets, values
        self._dataset = ""
        self._points: Floats | None = None
        self._cells: tuple[Numbers, Numbers] | None = None
        self._types: Numbers | None = None
        self._surface: list[tuple[str, Numbers, Numbers]] = []
        self._sizes: list[int] = []
        self._grid: dict[str, Floats] = {}
        self._axes: dict[str, Floats] = {}
        self._rows, self._of_cells = 0, False
        self._values: dict[str, Floats] = {}

    def read(self) -> Contents:
        content = self._content
        while line := content.line():
            tokens = line.decode(errors="replace").split()
            self._part(tokens[0].lower(), tokens)
        match self._dataset:
            case "unstructured_grid":
                return self._unstructured()
            case "polydata":
                return self._polydata()
            case "":
                raise truncated("DATASET", "the end of the file")
        return self._structured()

    def _part(self, key: str, tokens: list[str]) -> None:  # noqa: PLR0912, a case for each part of the format
        match key:
            case "dataset":
                self._dataset = self._token(tokens, 1).lower()
                if self._dataset not in _DATASETS:
                    raise Flaw(
                        "the VTK file has an unsupported kind of data",
                        expected=", ".join(name.upper() for name in _DATASETS),
                        actual=tokens[1],
                        todo="export the surface as POLYDATA, the volume as UNSTRUCTURED_GRID",
                    )
            case "points":
                count = self._number(tokens, 1, "points")
                self._points = self._array(3 * count, self._token(tokens, 2), "points").reshape(-1, 3).astype(float)
            case "cells":
                self._cells = self._connectivity(tokens)
            case "cell_types":
                self._types = self._array(self._number(tokens, 1, "cells"), "int", "types of cells").astype(np.int64)
            case _ if key in _SURFACE and self._dataset == "polydata":
                self._surface.append((key, *self._connectivity(tokens)))
            case "dimensions":
                if len(tokens) != 4:
                    raise self._not_understood(tokens)
                self._sizes = [self._number(tokens, i, "points") for i in (1, 2, 3)]
            case "origin" | "spacing" | "aspect_ratio":
                self._grid[key] = parse(" ".join(tokens[1:]).encode(), np.float64, 3, key)
            case "x_coordinates" | "y_coordinates" | "z_coordinates":
                count = self._number(tokens, 1, "coordinates")
                self._axes[key[0]] = self._array(count, self._token(tokens, 2), "coordinates").astype(float)
            case "cell_data" | "point_data":
                self._rows, self._of_cells = self._number(tokens, 1, "data"), key == "cell_data"
            case "metadata":
                self._pass_metadata()
            case "field":
                self._fields(self._number(tokens, 2, "arrays"))
            case _:
                self._data(key, tokens)

    def _data(self, key: str, tokens: list[str]) -> None:
        """Read data of points or cells that are stored under older keywords."""
        name = unquote(self._token(tokens, 1))
        match key:
            case "scalars":
                width = self._number(tokens, 3, "numbers") if len(tokens) > 3 else 1
                if self._content.peek().lower() == b"lookup_table":
                    self._content.line()
                self._keep_values(name, width, self._array(self._rows * width, self._token(tokens, 2), name))
            case "color_scalars":
                width = self._number(tokens, 2, "numbers")
                self._array(self._rows * width, "unsigned_char" if self._content.order else "float", name)
            case "lookup_table":
                size = 4 * self._number(tokens, 2, "colours")
                self._array(size, "unsigned_char" if self._content.order else "float", name)
            case "texture_coordinates":
                self._array(self._rows * self._number(tokens, 2, "numbers"), self._token(tokens, 3), name)
            case "global_ids" | "pedigree_ids" | "edge_flags":
                self._array(self._rows, self._token(tokens, 2), name)
            case _ if key in _DATA:
                self._keep_values(name, _DATA[key], self._array(self._rows * _DATA[key], self._token(tokens, 2), name))
            case _:
                raise self._not_understood(tokens)

    def _fields(self, count: int) -> None:
        """Read arrays that each state their own size."""
        for _ in range(count):
            tokens = self._content.line().decode(errors="replace").split()
            while tokens and tokens[0].lower() == "metadata":
                self._pass_metadata()
                tokens = self._content.line().decode(errors="replace").split()
            if tokens == ["NULL_ARRAY"]:
                continue
            if len(tokens) < 4:
                raise truncated("an array with name, numbers, rows and type", " ".join(tokens) or "the end of the file")
            *name, width, rows, dtype = tokens
            numbers = self._number([width], 0, "numbers") * self._number([rows], 0, "rows")
            values = self._array(numbers, dtype, name[0])
            if int(rows) == self._rows:
                self._keep_values(unquote(" ".join(name)), int(width), values)

    def _keep_values(self, name: str, width: int, array: NDArray[Any]) -> None:
        if self._keep and self._of_cells and array.dtype.kind in "iuf":
            values = array.astype(np.float64)
            self._values[name] = values if width == 1 else values.reshape(-1, width)

    def _connectivity(self, tokens: list[str]) -> tuple[Numbers, Numbers]:
        """Return sizes and corners of cells; there are two formats of storing them."""
        first, second = self._number(tokens, 1, "cells"), self._number(tokens, 2, "numbers")
        content = self._content
        if self._offsets and content.peek().upper() == b"OFFSETS":
            offsets = self._listed("OFFSETS", first)
            corners = self._listed("CONNECTIVITY", second)
            if not len(offsets):
                return np.empty(0, np.int64), np.empty(0, np.int64)
            sizes = np.diff(offsets)
            if offsets[0] or offsets[-1] != len(corners) or (sizes < 0).any():
                raise Flaw("the mesh is damaged: offsets of cells do not ascend to the number of corners",
                           expected=f"0 to {len(corners)}", actual=f"{offsets[0]} to {offsets[-1]}")  # fmt: skip
            return sizes, corners
        table = self._array(second, "int", "cells").astype(np.int64)
        return _counted(table, first)

    def _listed(self, key: str, count: int) -> Numbers:
        tokens = self._content.line().decode(errors="replace").split()
        if len(tokens) < 2 or tokens[0].upper() != key:
            raise Flaw(
                "the VTK file is damaged", expected=f"{key} and a type", actual=" ".join(tokens)[:60] or "the end"
            )
        return cast(self._array(count, tokens[1], key.lower()), np.int64, key.lower())

    # words and numbers

    @staticmethod
    def _not_understood(tokens: list[str]) -> Flaw:
        return Flaw(
            "a line of the VTK file is not understood",
            expected="a part of the format, such as POINTS, CELLS, CELL_DATA or FIELD",
            actual=repr(" ".join(tokens)[:60]),
        )

    def _token(self, tokens: list[str], index: int) -> str:
        if index >= len(tokens):
            raise self._not_understood(tokens)
        return tokens[index]

    def _number(self, tokens: list[str], index: int, subject: str) -> int:
        return whole(self._token(tokens, index).encode(), subject)

    def _array(self, count: int, dtype: str, subject: str) -> NDArray[Any]:
        content, dtype = self._content, dtype.lower()
        if dtype == "bit":
            if not content.order:
                return content.numbers(count, np.int64, subject)
            return np.unpackbits(content.raw(-(-count // 8), np.dtype("u1"), subject))[:count]
        if dtype in ("string", "utf8_string", "variant"):
            self._pass_strings(count, dtype)
            return np.empty(0, "S1")
        if dtype not in _TYPES:
            raise Flaw("unknown type in the VTK file", expected=f"one of {', '.join(_TYPES)}", actual=dtype)
        stored_type = np.dtype(_TYPES[dtype])
        # Numbers in text may be more precise than the stated type.
        return content.array(
            count, stored_type if content.order else np.dtype(f"{'f' if stored_type.kind == 'f' else 'i'}8"), subject
        )

    def _pass_strings(self, count: int, dtype: str) -> None:
        content = self._content
        for _ in range(count):
            if not content.order or dtype == "variant":
                end = content.content.find(b"\n", content.offset)
                if end < 0:
                    raise truncated(f"{count} strings", "the end of the file")
                content.offset = end + 1
                continue
            # The first two bits state how many bytes the length has.
            first = int(content.raw(1, np.dtype("u1"), "strings")[0])
            bytes_ = {3: 1, 2: 2, 1: 4, 0: 8}[first >> 6]
            content.offset -= 1
            length = int.from_bytes(content.raw(bytes_, np.dtype("u1"), "strings").tobytes(), "big")
            content.raw(length & ((1 << (8 * bytes_ - 2)) - 1), np.dtype("u1"), "strings")

    def _pass_metadata(self) -> None:
        """Skip metadata, up to a blank line."""
        content = self._content
        while content.offset < len(content.content):
            end = content.content.find(b"\n", content.offset)
            end = len(content.content) if end < 0 else end
            blank = not content.content[content.offset : end].strip()
            content.offset = end + 1
            if blank:
                return

    # the whole

    def _unstructured(self) -> Contents:
        if self._points is None or self._cells is None or self._types is None:
            parts = {"POINTS": self._points, "CELLS": self._cells, "CELL_TYPES": self._types}
            raise truncated("POINTS, CELLS and CELL_TYPES",
                            f"no {' and no '.join(name for name, part in parts.items() if part is None)}")  # fmt: skip
        sizes, corners = self._cells
        return self._points, blocks(self._types, sizes, corners, self._checked(len(sizes)))

    def _polydata(self) -> Contents:
        if self._points is None:
            raise truncated("POINTS", "the end of the file")
        # sorted by the order of cell data
        order = sorted(self._surface, key=lambda cells: list(_SURFACE).index(cells[0]))
        none = [np.empty(0, np.int64)]
        sizes = np.concatenate(none + [cells[1] for cells in order])
        corners = np.concatenate(none + [cells[2] for cells in order])
        types = np.concatenate(none + [np.full(len(cells[1]), _SURFACE[cells[0]]) for cells in order])
        return self._points, blocks(types, sizes, corners, self._checked(len(sizes)))

    def _checked(self, count: int) -> dict[str, Floats]:
        """Return the cell data after checking that there is one value for each cell."""
        for name, array in self._values.items():
            if len(array) != count:
                raise Flaw("the mesh is damaged: cells and their data differ in number",
                           expected=f"{count} of {name}", actual=len(array))  # fmt: skip
        return self._values

    def _structured(self) -> Contents:
        """Return points and cells of a structured grid."""
        sizes = self._sizes
        if min(sizes, default=0) < 1:
            raise truncated("DIMENSIONS, three numbers of 1 or more", str(sizes or "none"))
        if self._dataset != "structured_grid":
            origin = self._grid.get("origin", np.zeros(3))
            step = self._grid.get("spacing", self._grid.get("aspect_ratio", np.ones(3)))
            if self._dataset == "structured_points":
                if np.prod(np.array(sizes, float)) > max(1 << 20, len(self._content.content)):
                    raise Flaw("a grid of points without data is not supported",
                               expected="a grid with data of its points or cells", actual=f"dimensions {sizes}",
                               todo="export the surface as POLYDATA")  # fmt: skip
                self._axes = {axis: origin[i] + step[i] * np.arange(float(sizes[i])) for i, axis in enumerate("xyz")}
            if [len(self._axes.get(axis, ())) for axis in "xyz"] != sizes:
                raise truncated(f"{sizes} coordinates", str([len(self._axes.get(axis, ())) for axis in "xyz"]))
            z, y, x = np.meshgrid(*(self._axes[axis] for axis in "zyx"), indexing="ij")
            self._points = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
        if self._points is None or len(self._points) != np.prod(np.array(sizes, float)):
            point_count = 0 if self._points is None else len(self._points)
            raise truncated(f"as many points as {sizes} says", f"{point_count:,}")
        cells = _between(sizes)
        kind, dimension = {1: ("vertex", 0), 2: ("line", 1), 4: ("quad", 2), 8: ("hexahedron", 3)}[cells.shape[1]]
        return self._points, [Cells(kind, dimension, cells, self._checked(len(cells)))]


def _between(sizes: list[int]) -> Numbers:
    """Return the cells of a structured grid, whose first index varies fastest."""
    number = np.arange(int(np.prod(sizes))).reshape(sizes[::-1]).transpose(2, 1, 0)
    wide_axes = [axis for axis in range(3) if sizes[axis] > 1]
    steps = [(0,), (0, 1), (0, 1, 3, 2), (0, 1, 3, 2, 4, 5, 7, 6)][len(wide_axes)]
    corners = []
    for step in steps:
        corner = {axis: (step >> i) & 1 for i, axis in enumerate(wide_axes)}
        part = tuple(
            slice(corner[axis], sizes[axis] - 1 + corner[axis]) if axis in corner else slice(None) for axis in range(3)
        )
        corners.append(number[part].transpose(2, 1, 0).ravel())
    return np.stack(corners, axis=1)


def _counted(table: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return sizes and corners of cells from a table in which each size precedes the corners."""
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    size = int(table[0]) if len(table) else -1
    if size >= 0 and len(table) == count * (size + 1) and (table.reshape(count, -1)[:, 0] == size).all():
        return np.full(count, size), table.reshape(count, -1)[:, 1:].ravel()
    starts, position, entries = (
        np.empty(count, np.int64) if count <= len(table) else np.empty(0, np.int64),
        0,
        table.tolist(),
    )
    for i in range(len(starts)):
        if position >= len(entries) or entries[position] < 0:
            break
        starts[i] = position
        position += entries[position] + 1
    if position != len(entries) or len(starts) != count or (table[starts] < 0).any():
        raise Flaw("the mesh is damaged: the sizes of cells do not add up", expected=f"{count} cells in {len(table)} "
                   "numbers", actual="others")  # fmt: skip
    mask = np.ones(len(table), bool)
    mask[starts] = False
    return table[starts], table[mask]
