"""Triangle and tetrahedral meshes: read through meshio, unpacked, checked and cleaned of unused vertices."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.apart import read_apart
from repro.problems.assembled import Floats, Integers
from repro.problems.files import locate
from repro.problems.meshformats import FORMATS, PACKED, format_of, unpacked

__all__ = [
    "FORMATS",
    "Cells",
    "longest_edges",
    "read_blocks",
    "read_surface",
    "read_tetrahedra",
    "referenced",
    "refuse_degenerate",
    "tetrahedron_volumes",
]

# An element this thin, in units of its longest edge squared or cubed, has no area or volume beyond rounding.
DEGENERATE = 1e-12


def read_surface(path: Path | str, limits: Limits | None = None) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a triangle mesh; polygons are cut into fans; lines, points and volumes are ignored.

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
        reads it; the mesh has no faces, others than linear ones, or degenerate ones.
    """
    path = Path(path)
    points, cells = read_blocks(path, limits or Limits())
    polygons = [block.data for block in cells if _is_read(block, 2)]
    fans = [
        np.stack([np.broadcast_to(data[:, :1], data[:, 2:].shape), data[:, 1:-1], data[:, 2:]], axis=-1).reshape(-1, 3)
        for data in polygons
    ]
    faces = _join(fans, "triangles", 2, path, cells)
    notes = []
    cut = sum(len(data) for data in polygons if data.shape[1] > 3)
    if cut:
        notes.append(f"{cut} polygons cut into triangles")
    points, faces, dropped = referenced(points, faces, path)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    refuse_degenerate(np.linalg.norm(normals, axis=1) / 2, corners, 2, "triangles", path)
    return points, faces, (*notes, *dropped, *_oddities(faces))


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
    blocks = [block.data for block in cells if _is_read(block, 3)]
    points, tets, notes = referenced(points, _join(blocks, "tetrahedra", 3, path, cells), path)
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


@dataclass(frozen=True)
class Cells:
    """Cells of one kind, as meshio calls it: `(c, k)` vertex numbers in `dimension` dimensions.

    `values` are what the file keeps of each, `(c,)` or `(c, m)` by name, where they are asked for.
    """

    kind: str
    dimension: int
    data: NDArray[np.int64]
    values: Mapping[str, Floats] = field(default_factory=dict)


def read_blocks(path: Path, limits: Limits, values: bool = False) -> tuple[Floats, list[Cells]]:
    """Return points `(p, 3)` and the cell blocks of a file, unchecked but for their shape; with cell data if asked.

    Raises
    ------
    ReproError
        The file is missing, of an unknown format, damaged or truncated, beyond the limits, or ends the process that
        reads it.
    """
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
        reader = f"meshio's reader of {suffix} files"
        parse = partial(_parse, plain, suffix, path, values)
        return read_apart(parse, plain, limits, reader, named=path, needs=["meshio"])


def _parse(plain: Path, suffix: str, path: Path, values: bool) -> tuple[Floats, list[Cells]]:
    """Let meshio read a file, and name it as the user does in what is said of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's about a damaged file, which ends in an error below
        try:
            mesh = import_module(f"meshio.{FORMATS[suffix]}").read(plain)
            points = np.array(mesh.points, dtype=np.float64)
            cells = [
                Cells(
                    block.type,
                    block.dim,
                    np.array(block.data, dtype=np.int64),
                    {name: np.array(of[i], np.float64) for name, of in mesh.cell_data.items()} if values else {},
                )
                for i, block in enumerate(mesh.cells)
            ]
        except (ReproError, MemoryError):
            raise
        except Exception as error:  # meshio's parsers raise whatever they stumble over
            _refuse_others(plain, suffix, path)
            raise ReproError(
                "the mesh cannot be read; it is damaged, truncated, or uses a part of the format that meshio lacks",
                where=path,
                expected=f"a complete {suffix} file",
                actual=" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"),
                todo="fetch or export it again, or convert it to PLY or Gmsh",
            ) from error
    missing = _missing(plain, suffix, sum(len(block.data) for block in cells))
    if missing:
        raise ReproError(
            "the mesh file is truncated",
            where=path,
            expected=f"a complete {suffix} file",
            actual=missing,
            todo="fetch or export it again",
        )
    if points.ndim != 2 or points.shape[1] < 3:
        raise ReproError(
            "the mesh has no vertices in three dimensions", where=path, expected="(p, 3)", actual=points.shape
        )
    return points[:, :3], cells  # OBJ files may carry colours behind the coordinates


def _refuse_others(plain: Path, suffix: str, path: Path) -> None:
    """Say of a whole file that another program's format has the suffix, too: Fluent's, which meshio writes unasked."""
    with plain.open("rb") as file:
        first = file.readline(80).strip().decode(errors="replace")
    if suffix == ".msh" and first and not first.startswith("$"):
        raise ReproError(
            "the .msh file is not Gmsh's",
            where=path,
            expected="a file of Gmsh, which begins with $MeshFormat",
            actual=f"one that begins with {first}",
            todo="export it for Gmsh: meshio convert --output-format gmsh, or file_format='gmsh' in meshio.write",
        )


def _missing(plain: Path, suffix: str, cells: int) -> str | None:
    """Say what a truncated file lacks, in the formats of which meshio takes what is there for the whole."""
    content = plain.read_bytes() if suffix in (".ply", ".stl", ".msh") else b""
    match suffix:
        case ".ply":
            declared = re.search(rb"element face +(\d+)", content)
            if declared and int(declared[1]) != cells:
                return f"{cells} of {int(declared[1])} faces"
        case ".stl":
            binary = len(content) == 84 + 50 * int.from_bytes(content[80:84], "little")
            if not binary and b"endsolid" not in content[-1024:]:
                return "text without endsolid"
        case ".msh":
            if b"$EndElements" not in content:
                return "no $EndElements"
    return None


def _join(
    blocks: list[NDArray[np.int64]], what: str, dimension: int, path: Path, cells: list[Cells]
) -> NDArray[np.int64]:
    """Return the elements that are read, after refusing others of the same dimension, which are as much of the body."""
    counts: dict[str, int] = {}
    for block in cells:
        counts[block.kind] = counts.get(block.kind, 0) + len(block.data)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    read = sum(map(len, blocks))
    others = sum(len(block.data) for block in cells if block.dimension == dimension)
    others -= sum(len(block.data) for block in cells if _is_read(block, dimension))
    linear = f"linear {what}: {'three or more' if dimension == 2 else 'four'} vertices each, the corners"
    if others:
        raise ReproError(
            f"the mesh has other elements than linear {what}",
            where=path,
            expected=linear,
            actual=listed,
            todo=f"export or convert the whole mesh to linear {what} (order 1; hexahedra, prisms and pyramids split)",
        )
    if not read:
        needs = "quaternion problems need a surface, block3 problems a volume"
        raise ReproError(
            f"the mesh has no {what}",
            where=path,
            expected=linear,
            actual=listed or "no elements",
            todo=f"{needs}: name another `entry:`, or another file",
        )
    return np.concatenate(blocks)


def _is_read(block: Cells, dimension: int) -> bool:
    """Return whether cells are among those that are read as a surface (2) or a volume (3)."""
    if dimension == 2:
        return block.kind in ("triangle", "quad", "polygon") and block.data.shape[1] > 2
    return block.kind == "tetra" and block.data.shape[1] == 4


def referenced(
    points: Floats, elements: NDArray[np.int64], path: Path
) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Drop the vertices that no element uses, after checking that those used exist and are finite."""
    outside = np.flatnonzero(((elements < 0) | (elements >= len(points))).any(axis=1))
    if outside.size:
        raise ReproError(
            "the mesh has elements with vertices that do not exist; it is damaged or truncated",
            where=path,
            expected=f"vertex numbers below {len(points)}",
            actual=f"{outside.size} elements with others, the first is number {outside[0]} (counted from 0)",
        )
    used = np.zeros(len(points), dtype=bool)
    used[elements] = True
    infinite = np.flatnonzero(used & ~np.isfinite(points).all(axis=1))
    if infinite.size:
        raise ReproError(
            "the mesh has vertices with NaN or infinite coordinates",
            where=path,
            actual=f"{infinite.size} vertices, the first is number {infinite[0]} (counted from 0)",
        )
    unused = len(points) - int(np.count_nonzero(used))
    if not unused:
        return points, elements, ()
    return points[used], (np.cumsum(used) - 1)[elements], (f"{unused} unreferenced vertices dropped",)


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
