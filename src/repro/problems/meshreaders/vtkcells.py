"""VTK's cells by their types, in the old format and in XML: strips cut up, pixels turned, the others named."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from repro.problems.assembled import Floats
from repro.problems.meshreaders.cells import Cells, Numbers, split
from repro.problems.meshreaders.content import Flaw

_PIXEL, _STRIP, _POLYGON = 8, 6, 7
#: Kind, dimension and corners of cells by type; 0: as many as the cell has.
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
    """Return cells by kind, from the type and number of corners of each, `(c,)`, and all corners behind each other.

    Raises
    ------
    Flaw
        Types and cells are not as many, a type is unknown, or a cell has another number of corners than its type.
    """
    if len(types) != len(sizes):
        raise Flaw("the mesh is damaged: cells and their types are not as many",
                   expected=f"{len(sizes)} types", actual=len(types))  # fmt: skip
    unknown = np.setdiff1d(types, [0, *_KINDS])
    if unknown.size:
        raise Flaw(
            "the mesh has cells of a type that is not read",
            expected="triangles and polygons, or tetrahedra, and others of VTK's types beside them",
            actual=f"type {unknown[0]}",
            todo="export the whole mesh with linear triangles or tetrahedra",
        )
    found = []
    for block in split(sizes, corners, lambda code, size: (str(code), size), types, values):
        code, size = int(block.kind), block.dimension
        if not code:
            continue
        kind, dimension, wanted = _KINDS[code]
        if wanted and size != wanted:
            assert block.places is not None
            raise Flaw(
                "the mesh is damaged: a cell has another number of corners than its type",
                expected=f"{wanted} for a {kind}",
                actual=f"{size} in cell {block.places[0]} (counted from 0)",
            )
        data, kept, places = block.data, block.values, block.places
        if code == _POLYGON:
            kind = {3: "triangle", 4: "quad"}.get(size, kind)
        elif code == _PIXEL:
            data = data[:, [0, 1, 3, 2]]
        elif code == _STRIP and size > 2:
            # the triangles of a strip are turned by turns
            turned = np.arange(size - 2)[:, None] + np.array([0, 1, 2])
            turned[1::2] = turned[1::2][:, [1, 0, 2]]
            kind, data = "triangle", data[:, turned].reshape(-1, 3)
            kept = {name: np.repeat(of, size - 2, axis=0) for name, of in kept.items()}
            places = np.repeat(places, size - 2) if places is not None else None
        found.append(Cells(kind, dimension, data, kept, places))
    return found
