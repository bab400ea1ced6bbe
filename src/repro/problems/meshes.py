"""Triangle and tetrahedral meshes: read, checked, polygons cut into triangles, and unused vertices dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.apart import read_apart
from repro.problems.assembled import Floats, Integers
from repro.problems.files import locate
from repro.problems.meshformats import FORMATS, PACKED, format_of, unpacked
from repro.problems.meshreaders.cells import Cells
from repro.problems.meshreaders.content import Flaw
from repro.problems.polygons import cut

__all__ = [
    "FORMATS",
    "longest_edges",
    "read_blocks",
    "read_surface",
    "read_tetrahedra",
    "referenced",
    "refuse_degenerate",
    "tetrahedron_volumes",
]

T = TypeVar("T")
# Coordinates have to be smaller than this, so that volumes are numbers.
LARGEST = 1e100
# An element this thin, in units of its longest edge squared or cubed, has no area or volume beyond rounding.
DEGENERATE = 1e-12


def read_surface(path: Path | str, limits: Limits | None = None) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a triangle mesh; polygons are cut into triangles; lines, points and volumes are ignored.

    Parameters
    ----------
    path
        A file in one of `FORMATS`, bare or packed with gzip or xz.
    limits
        What reading it may take; None: the configuration's defaults.

    Returns
    -------
    vertices
        float64 `(v, 3)`, in the file's order and only those that a face uses.
    faces
        `(f, 3)` vertex numbers.
    notes
        What was dropped or changed, and what is unusual: duplicate faces, edges of more than two faces.

    Raises
    ------
    ReproError
        The file is missing, of an unknown format, damaged or truncated, beyond the limits, or ends the process that
        reads it; the mesh has no faces, others than linear ones, degenerate ones, or polygons that cannot be cut.
    """
    path = Path(path)
    points, faces, cut_up = _read(path, limits or Limits(), _cut_faces)
    points, faces, dropped = referenced(points, faces, path)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    refuse_degenerate(np.linalg.norm(normals, axis=1) / 2, corners, 2, "triangles", path)
    return points, faces, (*cut_up, *dropped, *_oddities(faces))


def read_tetrahedra(
    path: Path | str, limits: Limits | None = None
) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a tetrahedral mesh; triangles, lines and points, such as those of its boundary, are ignored.

    Parameters
    ----------
    path
        A file in one of `FORMATS`, bare or packed with gzip or xz. Of TetGen's two files either will do; the
        other one is looked for beside it.
    limits
        What reading it may take; None: the configuration's defaults.

    Returns
    -------
    vertices
        float64 `(v, 3)`, in the file's order and only those that a tetrahedron uses.
    tetrahedra
        `(t, 4)` vertex numbers, all of positive volume.
    notes
        What was dropped or changed.

    Raises
    ------
    ReproError
        The file is missing, of an unknown format, damaged or truncated, beyond the limits, or ends the process that
        reads it; the mesh has no tetrahedra, other volumes beside them, degenerate ones, or some that are inverted
        against the others.
    """
    path = Path(path)
    points, cells = read_blocks(path, limits or Limits())
    blocks = [block.data for block in _wanted(cells, 3, "tetrahedra", path)]
    points, tets, notes = referenced(points, np.concatenate(blocks), path)
    volumes = tetrahedron_volumes(points, tets)
    refuse_degenerate(np.abs(volumes), points[tets], 3, "tetrahedra", path)
    inverted = np.flatnonzero(volumes < 0)
    if inverted.size == len(tets):
        # the other of the two conventions for the order of the vertices
        tets[:, [2, 3]] = tets[:, [3, 2]]
        notes = (*notes, "all tetrahedra were numbered left-handed; two vertices of each exchanged")
    elif inverted.size:
        raise ReproError(
            "the mesh has inverted tetrahedra",
            where=path,
            expected="volumes of one sign",
            actual=f"{inverted.size} of {len(tets)} with negative volume, the first is number {inverted[0]} "
            "(counted from 0)",
            todo="repair the mesh, or mesh its surface anew",
        )
    return points, tets, (*notes, *_twice(tets))


def tetrahedron_volumes(points: Floats, tets: Integers) -> Floats:
    """Return the signed volumes `(t,)`, positive where the last three vertices run counterclockwise from outside."""
    a, b, c, d = (points[tets[:, i]] for i in range(4))
    volumes: Floats = np.einsum("ti,ti->t", np.cross(b - a, c - a), d - a) / 6
    return volumes


def longest_edges(corners: Floats) -> Floats:
    """Return the length `(c,)` of the longest edge of each cell, whose corners are `(c, k, d)`."""
    longest = np.zeros(len(corners))
    for i in range(corners.shape[1]):
        for j in range(i):
            np.maximum(longest, np.linalg.norm(corners[:, i] - corners[:, j], axis=1), out=longest)
    return longest


def read_blocks(path: Path, limits: Limits, values: bool = False) -> tuple[Floats, list[Cells]]:
    """Return points `(p, 3)` and the cell blocks of a file, unchecked but for their shape; with cell data if asked.

    Raises
    ------
    ReproError
        The file is missing, of an unknown format, damaged or truncated, beyond the limits, or ends the process that
        reads it.
    """
    return _read(path, limits, _as_they_are, values)


def _read(path: Path, limits: Limits, use: Callable[[Floats, list[Cells], Path], T], values: bool = False) -> T:
    """Read a file in a process of its own, and return what a module's function makes there of points and blocks."""
    path = locate(path)
    suffix = format_of(path)
    if suffix is None:
        raise ReproError(
            "unknown mesh format",
            where=path,
            expected=f"one of {' '.join(FORMATS)}, bare or with {' or '.join(PACKED)}",
            actual=path.name,
        )
    with unpacked(path, suffix, limits) as plain:
        module = f"repro.problems.meshreaders.{FORMATS[suffix]}"
        parse = partial(_parse, plain, module, path, values, use)
        return read_apart(parse, plain, limits, f"the reader of {suffix} files", named=path, needs=(module,))


def _parse(plain: Path, module: str, path: Path, values: bool, use: Callable[[Floats, list[Cells], Path], T]) -> T:
    """Read a file, and name it as the user does in what is said of it."""
    try:
        points, cells = import_module(module).read(plain, values)
    except Flaw as flaw:
        raise ReproError(flaw.what, where=path, expected=flaw.expected, actual=flaw.actual, todo=flaw.todo) from flaw
    except (ReproError, MemoryError):
        raise
    except Exception as error:
        raise ReproError(
            "the mesh cannot be read: it is damaged in a way that its reader does not foresee",
            where=path,
            expected=f"a {plain.suffix} file",
            actual=" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"),
            todo="fetch or export it again, or convert it to PLY or Gmsh",
        ) from error
    if points.shape[1] < 3:
        raise ReproError(
            "the mesh has no vertices in three dimensions",
            where=path,
            expected="three coordinates a vertex",
            actual=points.shape[1],
            todo="export it with three",
        )
    # whole arrays cross to the other process without a copy
    whole = [replace(block, data=np.ascontiguousarray(block.data, np.int64)) for block in cells]
    return use(np.ascontiguousarray(points[:, :3], np.float64), whole, path)


def _as_they_are(points: Floats, cells: list[Cells], path: Path) -> tuple[Floats, list[Cells]]:
    return points, cells


def _cut_faces(points: Floats, cells: list[Cells], path: Path) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Return points, triangles `(f, 3)`, and notes on polygons: one with many corners takes long, as reading may."""
    polygons = _wanted(cells, 2, "triangles", path)
    _refuse_missing(points, polygons, path)
    return points, *cut(points, polygons, path)


def _wanted(cells: list[Cells], dimension: int, what: str, path: Path) -> list[Cells]:
    """Return the elements that are read, after refusing others of the same dimension, which are as much of the body."""
    counts: dict[str, int] = {}
    for block in cells:
        counts[block.kind] = counts.get(block.kind, 0) + len(block.data)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    wanted = [block for block in cells if _is_read(block, dimension)]
    others = sum(len(block.data) for block in cells if block.dimension == dimension and not _is_read(block, dimension))
    linear = f"linear {what}: {'three or more' if dimension == 2 else 'four'} vertices each, the corners"
    if others:
        raise ReproError(
            f"the mesh has other elements than linear {what}",
            where=path,
            expected=linear,
            actual=listed,
            todo=f"export or convert the whole mesh to linear {what} (order 1; hexahedra, prisms and pyramids split)",
        )
    if not any(len(block.data) for block in wanted):
        needs = "quaternion problems need a surface, block3 problems a volume"
        raise ReproError(
            f"the mesh has no {what}",
            where=path,
            expected=linear,
            actual=listed or "no elements",
            todo=f"{needs}: name another `entry:`, or another file",
        )
    return wanted


def _is_read(block: Cells, dimension: int) -> bool:
    """Return whether cells are among those that are read as a surface (2) or a volume (3)."""
    if dimension == 2:
        return block.kind in ("triangle", "quad", "polygon") and block.data.shape[1] > 2
    return block.kind == "tetra" and block.data.shape[1] == 4


def referenced(
    points: Floats, elements: NDArray[np.int64], path: Path
) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Drop the vertices that no element uses, after checking that those used exist and are finite."""
    _refuse_missing(points, [Cells("", 0, elements)], path)
    used = np.zeros(len(points), dtype=bool)
    used[elements] = True
    unused = len(points) - int(np.count_nonzero(used))
    if not unused:
        return points, elements, ()
    return points[used], (np.cumsum(used) - 1)[elements], (f"{unused} unreferenced vertices dropped",)


def _refuse_missing(points: Floats, blocks: list[Cells], path: Path) -> None:
    """Refuse elements whose vertices do not exist, or are not finite."""
    places = np.concatenate([np.arange(len(of.data)) if of.places is None else of.places for of in blocks])
    outside = np.concatenate([((of.data < 0) | (of.data >= len(points))).any(axis=1) for of in blocks])
    outside = np.sort(places[outside])
    if outside.size:
        raise ReproError(
            "the mesh has elements with vertices that do not exist; it is damaged or truncated",
            where=path,
            expected=f"vertex numbers below {len(points)}",
            actual=f"{outside.size} elements with others, the first is number {outside[0]} (counted from 0)",
            todo="fetch or export it again",
        )
    used = np.zeros(len(points), dtype=bool)
    for block in blocks:
        used[block.data] = True
    infinite = np.flatnonzero(used & ~(np.abs(points) < LARGEST).all(axis=1))
    if infinite.size:
        raise ReproError(
            "the mesh has vertices with NaN or infinite coordinates, or too large ones",
            where=path,
            expected=f"coordinates below {LARGEST:g}",
            actual=f"{infinite.size} vertices, the first is number {infinite[0]} (counted from 0)",
            todo="repair the mesh, or export it again",
        )


def refuse_degenerate(measures: Floats, corners: Floats, power: int, what: str, path: Path) -> None:
    """Refuse elements whose area (power 2) or volume (power 3) vanishes beside their longest edge."""
    bad = np.flatnonzero(measures <= DEGENERATE * longest_edges(corners) ** power)
    if bad.size:
        raise ReproError(
            f"the mesh has degenerate {what}",
            where=path,
            expected=f"more than {DEGENERATE:g} of the longest edge to the power of {power}",
            actual=f"{bad.size} of {len(measures)}, the first is number {bad[0]} (counted from 0)",
            todo="repair the mesh: remove these elements or merge their vertices",
        )


def _twice(tets: NDArray[np.int64]) -> tuple[str, ...]:
    """Name tetrahedra of the same four vertices as another, which make the body stiffer there."""
    a, b, c, d = np.sort(tets, axis=1).T
    n = int(tets.max()) + 1
    low, high = a * n + b, c * n + d
    order = np.lexsort((low, high))
    again = np.flatnonzero((np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)) + 1
    if not again.size:
        return ()
    first = int(order[again].min())
    return (f"{again.size} duplicate tetrahedra kept, the first is number {first} (counted from 0)",)


def _oddities(faces: NDArray[np.int64]) -> list[str]:
    """Name what a surface should not have but scanned ones do."""
    notes = []
    n = int(faces.max()) + 1
    ordered = np.sort(faces, axis=1)
    duplicates = len(faces) - len(np.unique(ordered, axis=0))
    if duplicates:
        notes.append(f"{duplicates} duplicate faces kept")
    edges = np.concatenate([ordered[:, [0, 1]], ordered[:, [0, 2]], ordered[:, [1, 2]]])
    _, sharing = np.unique(edges[:, 0] * n + edges[:, 1], return_counts=True)
    crowded = int(np.count_nonzero(sharing > 2))
    if crowded:
        notes.append(f"{crowded} non-manifold edges (of more than two faces) kept")
    return notes
