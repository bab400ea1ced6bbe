"""Reads volumes: MEDIT's format, text and binary, versions 1 to 4, as written by mmg, BAMG, libMeshb and others, and
TetGen's pair of files: vertices in `.node`, cells in `.ele`, with numbers from 0 or 1, or arbitrary ones.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.meshreaders import (
    Cells,
    Content,
    Contents,
    Flaw,
    Floats,
    Order,
    load_text,
    renumbered,
    truncated,
    whole,
    whole_numbers,
)

#: Kind, dimension and corners of the cells in each section, by its name in text and number in binary files. Other
#: sections are skipped.
_CELLS = {
    "edges": ("line", 1, 2), "triangles": ("triangle", 2, 3), "quadrilaterals": ("quad", 2, 4),
    "tetrahedra": ("tetra", 3, 4), "prisms": ("wedge", 3, 6), "hexahedra": ("hexahedron", 3, 8),
    "pyramids": ("pyramid", 3, 5), "edgesp2": ("line3", 1, 3), "trianglesp2": ("triangle6", 2, 6),
    "quadrilateralsq2": ("quad9", 2, 9), "tetrahedrap2": ("tetra10", 3, 10), "prismsp2": ("wedge18", 3, 18),
    "hexahedraq2": ("hexahedron27", 3, 27), "pyramidsp2": ("pyramid14", 3, 14),
}  # fmt: skip
_CODES = {
    5: "edges", 6: "triangles", 7: "quadrilaterals", 8: "tetrahedra", 9: "prisms", 10: "hexahedra", 49: "pyramids",
    25: "edgesp2", 24: "trianglesp2", 27: "quadrilateralsq2", 30: "tetrahedrap2", 33: "hexahedraq2", 86: "pyramidsp2",
    87: "prismsp2",
}  # fmt: skip
_HIGHER = re.compile(r"(edges|triangles|quadrilaterals|tetrahedra|prisms|hexahedra|pyramids)[pq]\d|poly(gons|hedra)")
_DIMENSION, _VERTICES, _END = 3, 4, 54
_KEYWORD = re.compile(rb"(?<!\S)(?!(?:nan|inf(?:inity)?)(?!\S))[A-Za-z]\S*", re.IGNORECASE)
_MAGIC: dict[bytes, Order] = {b"\1\0\0\0": "<", b"\0\0\0\1": ">"}


def read_medit(path: Path, values: bool = False) -> Contents:
    """Read a surface or a volume; numbers in text keep all digits. `Flaw` for unknown versions, or missing data."""
    with path.open("rb") as file:
        order = _MAGIC.get(file.read(4))
    return _binary(path, order) if order else _text(path)


def _text(path: Path) -> Contents:
    content = Content(load_text(path, b"#"))
    first = content.token()
    if first.lower() != b"meshversionformatted":
        raise Flaw(
            f"the {path.suffix} file is not MEDIT's",
            expected="a file that begins with MeshVersionFormatted",
            actual=f"one that begins with {first[:40].decode(errors='replace')}",
            todo="export it in MEDIT's or Gmsh's format",
        )
    content.count("the version")
    points: Floats = np.empty((0, 3))
    cells: list[Cells] = []
    while token := content.token():
        name = token.decode(errors="replace").lower()
        if name == "end":
            return points, cells
        if not _KEYWORD.fullmatch(token):
            raise Flaw(
                "the mesh is damaged: a section has more numbers than stated",
                expected="the name of a section",
                actual=repr(token[:40].decode(errors="replace")),
            )
        if name == "dimension":
            _check_dimension(content.count("dimensions"))
        elif name == "vertices":
            _check_first(points)
            count = content.count("vertices")
            rows = content.numbers(4 * count, np.float64, "vertices")
            points = rows.reshape(count, 4)[:, :-1]
        elif name in _CELLS:
            kind, cell_kind, corners = _CELLS[name]
            count = content.count(name)
            rows = content.numbers(count * (corners + 1), np.int64, name).reshape(count, corners + 1)
            cells.append(Cells(kind, cell_kind, rows[:, :-1] - 1))
        elif _HIGHER.fullmatch(name) and content.peek() != b"0":
            raise Flaw(
                "the mesh has cells of an unsupported kind",
                expected="linear triangles or tetrahedra",
                actual=token.decode(),
                todo="export the whole mesh with linear triangles or tetrahedra (order 1)",
            )
        else:
            match = _KEYWORD.search(content.content, content.offset)
            content.offset = match.start() if match else len(content.content)
    raise truncated("End behind the last section", "the end of the file")


def _binary(path: Path, order: Order) -> Contents:
    content = Content(path.read_bytes(), 4, order)
    version = int(content.raw(1, np.dtype(np.int32), "versions")[0])
    if version not in (1, 2, 3, 4):
        raise Flaw("unknown version of MEDIT's format", expected="1, 2, 3 or 4", actual=version, todo="export another")
    real_type = np.dtype(np.float32 if version == 1 else np.float64)
    index = np.dtype(np.int64 if version == 4 else np.int32)
    address = np.dtype(np.int64 if version > 2 else np.int32)
    points: Floats = np.empty((0, 3))
    cells: list[Cells] = []
    while True:
        start = content.offset
        code = int(content.raw(1, np.dtype(np.int32), "sections")[0])
        if code == _END:
            return points, cells
        following = int(content.raw(1, address, "places of sections")[0])
        if code == _DIMENSION:
            _check_dimension(int(content.raw(1, np.dtype(np.int32), "dimensions")[0]))
        elif code == _VERTICES:
            _check_first(points)
            row = np.dtype([("x", real_type, (3,)), ("reference", index)])
            points = content.raw(_count(content, index), row, "vertices")["x"].astype(np.float64)
        elif code in _CODES:
            kind, cell_kind, corners = _CELLS[_CODES[code]]
            count = _count(content, index)
            rows = content.raw(count * (corners + 1), index, _CODES[code]).reshape(count, corners + 1)
            cells.append(Cells(kind, cell_kind, rows[:, :-1].astype(np.int64) - 1))
        if not start < following <= len(content.content):
            raise truncated("another section, or an end", f"a section that goes on at byte {following:,}")
        content.offset = following


def _check_first(points: Floats) -> None:
    if len(points):
        raise Flaw("the mesh has vertices twice", expected="one section Vertices", actual="another one")


def _check_dimension(dimension: int) -> None:
    if dimension != 3:
        raise Flaw(
            "the mesh has no vertices in three dimensions",
            expected="Dimension 3",
            actual=dimension,
            todo="export it with three coordinates per vertex",
        )


def _count(content: Content, index: np.dtype[Any]) -> int:
    count = int(content.raw(1, index, "sizes of sections")[0])
    if count < 0:
        raise Flaw("the mesh is damaged: a section has a negative size", expected="0 or more", actual=count)
    return count


_TETGEN_KINDS = {3: ("triangle", 2), 4: ("tetra", 3), 6: ("triangle6", 2), 10: ("tetra10", 3)}


def read_tetgen(path: Path, values: bool = False) -> Contents:
    """Read a volume mesh from both files, given the path of either; raise `Flaw` for invalid headers, rows or
    numbers.
    """
    header, rows = _tetgen_table(path.with_suffix(".node"), "vertices", (3, 0, 0))
    dimension = header[1]
    points, numbers = rows[:, 1 : 1 + dimension], whole_numbers(rows[:, 0], "vertices")
    header, cells = _tetgen_table(path.with_suffix(".ele"), "cells", (4, 0))
    size = header[1]
    if size not in _TETGEN_KINDS:
        raise Flaw("the .ele file has cells of an unsupported kind", expected="4 corners each", actual=size)
    corners = whole_numbers(cells[:, 1 : 1 + size], "corners")
    return points, [Cells(*_TETGEN_KINDS[size], renumbered(corners, numbers, "vertices"))]


def _tetgen_table(path: Path, subject: str, defaults: tuple[int, ...]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the numbers of the first line, and the rows after it; each row starts with its own number."""
    content = Content(load_text(path, b"#"))
    tokens = content.line().split()
    if not tokens or len(tokens) > 1 + len(defaults):
        raise Flaw(
            f"the first line of the {path.suffix} file is not a header",
            expected=f"the number of {subject}, and up to {len(defaults)} more",
            actual=b" ".join(tokens)[:80].decode(errors="replace") or "nothing",
        )
    header_numbers = [whole(token, subject) for token in tokens]
    header = [*header_numbers, *defaults[len(header_numbers) - 1 :]]
    width = 1 + sum(header[1:])
    rows = content.numbers(header[0] * width, np.float64, f"{subject} in the {path.suffix} file")
    if excess_word := content.token():
        raise Flaw(
            f"the {path.suffix} file is longer than its first line states",
            expected=f"{header[0]:,} rows of {width} numbers",
            actual=f"{excess_word[:40].decode(errors='replace')} behind them",
        )
    return header, rows.reshape(header[0], width)
