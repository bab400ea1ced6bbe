"""Reads triangle and tetrahedral meshes, checks them, triangulates polygons and drops unused vertices.

The file suffix determines the format. A polygon is first projected to a plane whose normal is the sum of cross products
of neighbouring corners. Then each corner, starting with the smallest vertex number, is tried as the centre of a
triangle fan. A fan is valid if its triangles have the polygon's orientation and together turn by less than a full
circle. If no fan is valid, ears are cut off, best-shaped first. This code exists because available libraries that keep
vertex numbers need graphics software.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Limits
from repro.errors import ReproError
from repro.problems.assembly import DEGENERATE, Floats, Integers, longest_edges
from repro.problems.files import locate, open_plain
from repro.problems.meshreaders import Cells, Flaw
from repro.problems.subprocess_reader import read_isolated

_OURS, MESHIO = "repro.problems.meshreaders.", "meshio."
#: Suffixes of the formats that each module of meshio reads, and we do not.
_READ_BY_MESHIO = {"abaqus": "inp", "avsucd": "avs", "cgns": "cgns", "exodus": "exo", "flac3d": "f3grid", "h5m": "h5m",
                   "mdpa": "mdpa", "med": "med", "nastran": "bdf fem nas", "netgen": "vol", "permas": "dato",
                   "su2": "su2", "tecplot": "tec", "xdmf": "xdmf xmf"}  # fmt: skip
#: Module and function that reads each file suffix.
FORMATS = {
    ".ply": (f"{_OURS}ply", "read_ply"),
    ".obj": (f"{_OURS}surfaces", "read_obj"),
    ".off": (f"{_OURS}surfaces", "read_off"),
    ".stl": (f"{_OURS}surfaces", "read_stl"),
    ".msh": (f"{_OURS}gmsh", "read_gmsh"),
    ".node": (f"{_OURS}volumes", "read_tetgen"),
    ".ele": (f"{_OURS}volumes", "read_tetgen"),
    ".mesh": (f"{_OURS}volumes", "read_medit"),
    ".meshb": (f"{_OURS}volumes", "read_medit"),
    ".vtk": (f"{_OURS}vtk", "read_vtk"),
    ".vtu": (f"{_OURS}vtu", "read_vtu"),
    **{
        f".{suffix}": (f"{MESHIO}{module}", "read")
        for module, suffixes in _READ_BY_MESHIO.items()
        for suffix in suffixes.split()
    },
}
#: Module that reads physical groups of Gmsh's files.
GMSH_GROUPS, _ = FORMATS[".msh"]
#: Formats that can store any number of values for each cell.
FIELD_FORMATS = (".vtu", ".vtk")
PACKED = (".gz", ".xz")
TETGEN_PAIR = {".node": ".ele", ".ele": ".node"}


def format_of(path: Path) -> str | None:
    """Return the mesh suffix of a file name, ignoring a suffix of compression; None if it is not in `FORMATS`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in FORMATS else None


def companions(path: Path) -> tuple[Path, ...]:
    """Return all existing files of a mesh, starting with the given one; a TetGen mesh consists of two files."""
    suffix = format_of(path)
    if suffix not in TETGEN_PAIR:
        return (path,)
    return (
        path,
        *[companion_file for companion_file in _companion_candidates(path, suffix) if companion_file.is_file()][:1],
    )


#: Regular expressions that find the number of vertices in the head of a file. For Gmsh's format, they match only text
#: files: this line has one number in versions 1 and 2, preceded by the number of blocks in version 4.
_STATED = {
    ".mesh": rb"^[ \t]*Vertices\s+(\d+)\s",
    ".msh": rb"\A\s*(?:\$MeshFormat\s+\S+\s+0\s[\s\S]*?)?\$(?:Nodes|NOD)\s+(?:\d+[ \t]+)?(\d+)\s",
    ".node": rb"\A(?:\s|#.*\n)*(\d+)\s",
    ".off": rb"\A\s*\w*OFF\s(?:\s|#.*\n)*(\d+)\s",
    ".ply": rb"^element\s+vertex\s+(\d+)\s",
    ".vtk": rb"^POINTS\s+(\d+)\s",
}


def stated_vertices(path: Path, limits: Limits) -> int | None:
    """Return the number of vertices that the head of a mesh's file states, or None; a damaged file is no error here."""
    file = next((part for part in companions(path) if format_of(part) in _STATED), path)
    pattern = _STATED.get(format_of(file) or "")
    if pattern is None:
        return None
    try:
        with open_plain(file, limits) as stream:
            match = re.search(pattern, stream.read(limits.header), re.IGNORECASE | re.MULTILINE)
    except ReproError:
        return None
    # 20 digits are enough, since such a number exceeds the limit anyway
    count = int(match[1][:20]) if match else 0
    return count if 0 < count <= limits.rows else None


@contextmanager
def unpacked(path: Path, suffix: str, limits: Limits) -> Iterator[Path]:
    """Yield a path that reader modules can use: uncompressed, and with both TetGen files in one folder."""
    parts = {suffix: path}
    if suffix in TETGEN_PAIR:
        parts[TETGEN_PAIR[suffix]] = companion(path, suffix)
    with tempfile.TemporaryDirectory(prefix="repro-mesh-") as folder:
        for part, source in parts.items():
            with open_plain(source, limits) as packed_file:
                try:
                    with Path(folder, f"mesh{part}").open("wb") as plain_file:
                        shutil.copyfileobj(packed_file, plain_file)
                except OSError as error:
                    raise ReproError(
                        "the mesh file cannot be unpacked",
                        where=folder,
                        actual=error,
                        todo="free some space there, or set TMPDIR to another folder",
                    ) from error
        yield Path(folder, f"mesh{suffix}")


def companion(path: Path, suffix: str) -> Path:
    """Return the second file of a TetGen mesh, compressed or not; raise `ReproError` if it is missing."""
    candidates = _companion_candidates(path, suffix)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ReproError(
        "a TetGen mesh has two files, and one of them is missing",
        where=path,
        expected=f"one of {', '.join(candidate.name for candidate in candidates)} beside it",
        todo="put it there",
    )


def _companion_candidates(path: Path, suffix: str) -> list[Path]:
    bare = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return [bare.with_name(bare.stem + TETGEN_PAIR[suffix] + packing) for packing in ("", *PACKED)]


Corners = NDArray[np.int64]
#: Minimum shape value (twice the area divided by the squared longest edge) of a triangle in a fan.
THIN = 1e-6
#: Shape value (twice the area divided by the squared longest edge) that counts as zero because of rounding.
FLAT = 1e-12
#: Corners this close to their polygon's plane count as planar; relative to the polygon's size.
PLANAR = 1e-6
#: Maximum number of corners that are tried as the centre of a fan.
_FANS = 8


def cut(points: Floats, blocks: list[Cells], path: Path) -> tuple[Corners, tuple[str, ...]]:
    """Triangulate polygons in file order; return triangles `(t, 3)`, and notes about the polygons.

    Raises `ReproError`: a polygon crosses itself, has no area, or is too bent to be projected.
    """
    faces, positions, number, warped_count = [], [], 0, 0
    earlier_cells = 0
    for block in blocks:
        data = block.data
        indices = np.arange(earlier_cells, earlier_cells + len(data)) if block.positions is None else block.positions
        earlier_cells += len(data)
        triangles = data[:, None]
        if data.shape[1] > 3 and len(data):
            triangles, warped = _cut_equal_polygons(points, data, indices, path)
            number += len(data)
            warped_count += warped
        faces.append(triangles.reshape(-1, 3))
        positions.append(np.repeat(indices, data.shape[1] - 2))
    order = np.argsort(np.concatenate(positions), kind="stable")
    notes = [f"{number} polygons cut into triangles"] if number else []
    if warped_count:
        notes.append(f"{warped_count} of them with corners that are not in one plane")
    return np.concatenate(faces)[order], tuple(notes)


def _cut_equal_polygons(points: Floats, polygons: Corners, positions: Corners, path: Path) -> tuple[Corners, int]:
    """Triangulate polygons `(c, k)` into triangles `(c, k - 2, 3)`; also return the number of polygons that are not
    planar.
    """
    size = polygons.shape[1]
    # Start at the smallest vertex number, so that the triangles do not depend on which corner the file lists first.
    turn = (np.argmin(polygons, axis=1)[:, None] + np.arange(size)) % size
    polygons = np.take_along_axis(polygons, turn, axis=1)
    plane_points, height = _projected_polygons(points[polygons])
    uncut = np.ones(len(polygons), bool)
    triangles = np.empty((len(polygons), size - 2, 3), np.int64)
    for start in range(min(size, _FANS)):
        remaining = np.flatnonzero(uncut)
        if not remaining.size:
            break
        rotation = np.roll(np.arange(size), -start)
        fits = remaining[_is_fan(plane_points[remaining][:, rotation])]
        corners = polygons[fits][:, rotation]
        triangles[fits] = np.stack(
            [np.broadcast_to(corners[:, :1], corners[:, 2:].shape), corners[:, 1:-1], corners[:, 2:]], axis=-1
        )
        uncut[fits] = False
    for i in np.flatnonzero(uncut):
        ears = _ears(plane_points[i])
        if ears is None:
            raise ReproError(
                "the mesh has polygons that cannot be cut into triangles",
                where=path,
                expected="nearly planar polygons with a positive area, whose boundary does not cross or touch itself",
                actual=f"one of {size} corners, number {positions[i]} (counted from 0)",
                todo="triangulate them in the program that made the mesh, or repair it there",
            )
        triangles[i] = polygons[i][ears]
    extent = np.abs(plane_points).reshape(len(plane_points), -1).max(axis=1)
    return triangles, int(np.count_nonzero(height > PLANAR * extent))


def _projected_polygons(corners: Floats) -> tuple[Floats, Floats]:
    """Project polygons `(c, k, 3)` to counterclockwise `(c, k, 2)`; also return each polygon's distance from
    its plane.
    """
    centred = corners - corners.mean(axis=1, keepdims=True)
    normal = np.cross(centred, np.roll(centred, -1, axis=1)).sum(axis=1)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
    reference_axis = np.eye(3)[np.argmin(np.abs(normal), axis=1)]
    u = np.cross(reference_axis, normal)
    u /= np.maximum(np.linalg.norm(u, axis=1, keepdims=True), np.finfo(float).tiny)
    v = np.cross(normal, u)
    plane_points = np.stack([np.einsum("cki,ci->ck", centred, u), np.einsum("cki,ci->ck", centred, v)], axis=-1)
    return plane_points, np.abs(np.einsum("cki,ci->ck", centred, normal)).max(axis=1)


def _is_fan(plane_points: Floats) -> NDArray[np.bool_]:
    """Return for each polygon whether the triangle fan around the first corner has no inverted, thin or overlapping
    triangle.
    """
    spokes = plane_points[:, 1:] - plane_points[:, :1]
    a, b = spokes[:, :-1], spokes[:, 1:]
    double_areas = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    longest_squares = np.maximum(np.maximum((a**2).sum(-1), (b**2).sum(-1)), ((b - a) ** 2).sum(-1))
    angles = np.arctan2(double_areas, (a * b).sum(-1)).sum(axis=1)
    return np.asarray((double_areas > THIN * longest_squares).all(axis=1) & (angles < 2 * np.pi - THIN))


def _ears(plane_points: Floats) -> Corners | None:
    """Triangulate a counterclockwise polygon `(k, 2)` by cutting off ears: `(k - 2, 3)`, or None if it crosses
    itself.
    """
    count = len(plane_points)
    if _has_crossing(plane_points):
        return None
    remaining = list(range(count))
    qualities = [_ear_quality(plane_points, remaining, i) for i in range(count)]
    triangles = []
    while len(remaining) > 3:
        best = int(np.argmax(qualities))
        if qualities[best] <= FLAT:
            return None
        size = len(remaining)
        triangles.append((remaining[best - 1], remaining[best], remaining[(best + 1) % size]))
        del remaining[best], qualities[best]
        for i in ((best - 1) % len(remaining), best % len(remaining)):
            qualities[i] = _ear_quality(plane_points, remaining, i)
    if _triangle_quality(*plane_points[remaining]) <= FLAT:
        return None
    return np.array([*triangles, remaining], np.int64)


def _triangle_quality(a: Floats, b: Floats, c: Floats) -> float:
    """Return the shape value of a triangle: twice its signed area divided by its squared longest edge."""
    u, v = b - a, c - a
    longest_square = max(float(u @ u), float(v @ v), float((v - u) @ (v - u)))
    return float(u[0] * v[1] - u[1] * v[0]) / longest_square if longest_square else 0.0


def _ear_quality(plane_points: Floats, remaining: list[int], i: int) -> float:
    """Return the shape quality of the ear at corner `i`; -1 if the ear contains another corner."""
    a, b, c = (plane_points[remaining[(i + step) % len(remaining)]] for step in (-1, 0, 1))
    shape = _triangle_quality(a, b, c)
    if shape <= FLAT:
        return -1.0
    other_points = plane_points[remaining]
    ends = np.stack([a, b, c])
    other_points = other_points[~(other_points[:, None] == ends).all(axis=-1).any(axis=1)]
    sides = np.roll(ends, -1, axis=0) - ends
    differences = other_points[:, None] - ends
    is_inside = sides[:, 0] * differences[..., 1] - sides[:, 1] * differences[..., 0] >= -FLAT * (sides**2).sum(-1)
    return -1.0 if is_inside.all(axis=1).any() else shape


def _has_crossing(plane_points: Floats) -> bool:
    ends = np.roll(plane_points, -1, axis=0)
    for i in range(len(plane_points) - 2):
        a, b, c, d = plane_points[i], ends[i], plane_points[i + 2 :], ends[i + 2 :]
        if (_side(a, b, c) * _side(a, b, d) < 0)[(_side(c, d, a) * _side(c, d, b) < 0)].any():
            return True
    return False


def _side(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return twice the signed area of each triangle."""
    return np.asarray((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])


__all__ = [
    "FORMATS", "read_blocks", "read_surface", "read_tetrahedra", "referenced", "refuse_degenerate",
    "tetrahedron_volumes",
]  # fmt: skip

T = TypeVar("T")
# Maximum coordinate, so that volumes do not overflow.
MAX_COORDINATE = 1e100


def read_surface(path: Path | str, limits: Limits | None = None) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a triangle mesh; polygons are triangulated; lines, points and volumes are ignored.

    Raises `ReproError`: the file is missing, of an unknown format, damaged or beyond the limits, or its reader crashed;
    there are no faces, nonlinear or degenerate ones, or polygons that cannot be triangulated.

    Returns
    -------
    vertices, faces
        float64 `(v, 3)`, only vertices in use, in file order; and `(f, 3)` vertex numbers.
    notes
        Sentences about what was dropped, changed or unusual, such as duplicate faces or edges with over two faces.
    """
    path = Path(path)
    points, faces, cut_notes = _read(path, limits or Limits(), _cut_faces)
    points, faces, dropped_note = referenced(points, faces, path)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    refuse_degenerate(np.linalg.norm(normals, axis=1) / 2, corners, 2, "triangles", path)
    return points, faces, (*cut_notes, *dropped_note, *_oddities(faces))


def read_tetrahedra(
    path: Path | str, limits: Limits | None = None
) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a tetrahedral mesh and ignore triangles, lines and points. For TetGen, `path` is either of the two files.

    Raises `ReproError`: for the reasons listed in `read_surface`, or: there are no tetrahedra; there are other kinds of
    volumes; tetrahedra are degenerate; or some are left-handed and some right-handed, and some overlap at a common
    face.

    Returns
    -------
    vertices, tetrahedra
        float64 `(v, 3)`, only vertices in use, in file order; and `(t, 4)` vertex numbers, of positive volume.
    notes
        Sentences about what was dropped or changed.
    """
    path = Path(path)
    points, cells = read_blocks(path, limits or Limits())
    blocks = [block.data for block in _linear_blocks(cells, 3, "tetrahedra", path)]
    points, tets, notes = referenced(points, np.concatenate(blocks), path)
    volumes = tetrahedron_volumes(points, tets)
    refuse_degenerate(np.abs(volumes), points[tets], 3, "tetrahedra", path)
    is_left_handed = volumes < 0
    turned_count = int(np.count_nonzero(is_left_handed))
    if turned_count:
        # The stiffness of a tetrahedron does not depend on the order of its vertices.
        tets[is_left_handed] = tets[is_left_handed][:, [0, 1, 3, 2]]
        count_words = "all" if turned_count == len(tets) else f"{turned_count} of {len(tets)}"
        notes = (*notes, f"{count_words} tetrahedra were numbered left-handed; two vertices of each exchanged")
    notes = (*notes, *_duplicate_notes(tets))
    overlaps = _overlaps(tets)
    if not len(overlaps):
        return points, tets, notes
    first, second = overlaps[0]
    pair = f"number {first} and {second} (counted from 0)"
    # Cells of both orders that overlap result from a deformation that turned some cells inside out, so the mesh is
    # rejected. Overlapping cells of one order are kept, like duplicates.
    if 0 < turned_count < len(tets):
        raise ReproError(
            "the mesh is folded: tetrahedra that share a face overlap",
            where=path,
            expected="two tetrahedra on different sides of each inner face",
            actual=f"{len(overlaps)} pairs on the same side of their face, the first are {pair}",
            todo="repair the mesh, or mesh its surface again",
        )
    return points, tets, (*notes, f"{len(overlaps)} pairs of tetrahedra overlap at a common face, the first are {pair}")


def tetrahedron_volumes(points: Floats, tets: Integers) -> Floats:
    """Return signed volumes `(t,)`; positive if the last three vertices are counterclockwise when seen from outside."""
    a, b, c, d = (points[tets[:, i]] for i in range(4))
    volumes: Floats = np.einsum("ti,ti->t", np.cross(b - a, c - a), d - a) / 6
    return volumes


def read_blocks(path: Path, limits: Limits, values: bool = False) -> tuple[Floats, list[Cells]]:
    """Return points `(p, 3)` and cell blocks of a file, with cell data if `values`. For errors see `read_surface`."""
    return _read(path, limits, _unchanged_blocks, values)


def read_group(path: Path, limits: Limits, group: str | int) -> Floats:
    """Return the points `(p, 3)` of a physical group of a Gmsh file; for errors see `read_surface`."""
    if format_of(path) != ".msh":
        raise ReproError(
            "the file has no physical groups",
            where=path,
            expected="a Gmsh file (.msh), which may be compressed",
            actual=path.name,
            todo="name a plane or a box in `fixed:`",
        )
    path = locate(path)
    with unpacked(path, ".msh", limits) as plain_path:
        parse = partial(_parse_group, plain_path, path, group)
        return read_isolated(
            parse, plain_path, limits, "the reader of .msh files", public_path=path, needs=(GMSH_GROUPS,)
        )


def _parse_group(plain_path: Path, path: Path, group: str | int) -> Floats:
    try:
        points: Floats = import_module(GMSH_GROUPS).read_group(plain_path, group)
    except Flaw as flaw:
        raise ReproError(flaw.what, where=path, expected=flaw.expected, actual=flaw.actual, todo=flaw.todo) from flaw
    return points


def _read(path: Path, limits: Limits, use: Callable[[Floats, list[Cells], Path], T], values: bool = False) -> T:
    """Read a file in a subprocess, apply a function to points and blocks in the subprocess, and return the function's
    result.
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
    with unpacked(path, suffix, limits) as plain_path:
        module, function = FORMATS[suffix]
        parse = partial(_parse, plain_path, module, function, path, values, use)
        return read_isolated(
            parse, plain_path, limits, f"the reader of {suffix} files", public_path=path, needs=(module,)
        )


def _parse(
    plain_path: Path,
    module: str,
    function: str,
    path: Path,
    values: bool,
    use: Callable[[Floats, list[Cells], Path], T],
) -> T:
    """Read the unpacked copy `plain_path` of a file; errors name the user's path."""
    try:
        read = getattr(import_module(module), function)
        points, cells = _contents_of(read(str(plain_path))) if module.startswith(MESHIO) else read(plain_path, values)
    except Flaw as flaw:
        raise ReproError(flaw.what, where=path, expected=flaw.expected, actual=flaw.actual, todo=flaw.todo) from flaw
    except (ReproError, MemoryError):
        raise
    except ImportError as error:
        raise ReproError(
            "a package is missing that reads this format",
            where=path,
            expected=f"meshio, and for some formats h5py or netCDF4, to read {plain_path.suffix} files",
            actual=error,
            todo=f"pip install {(error.name or 'meshio').partition('.')[0]}, or convert the mesh to PLY or Gmsh",
        ) from None
    except Exception as error:
        raise ReproError(
            "the mesh cannot be read: it is damaged in an unforeseen way",
            where=path,
            expected=f"a {plain_path.suffix} file",
            actual=" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"),
            todo="export it again, or convert it to PLY or Gmsh",
        ) from error
    if points.shape[1] < 3:
        raise ReproError(
            "the mesh has no vertices in three dimensions",
            where=path,
            expected="three coordinates per vertex",
            actual=points.shape[1],
            todo="export it with three coordinates",
        )
    # The parent process receives contiguous arrays through shared memory without a copy.
    integer_blocks = [replace(block, data=np.ascontiguousarray(block.data, np.int64)) for block in cells]
    return use(np.ascontiguousarray(points[:, :3], np.float64), integer_blocks, path)


def _contents_of(mesh: Any) -> tuple[Floats, list[Cells]]:
    """Return points and cells of a mesh of meshio, whose arrays may have any type and shape."""
    points, cells = np.asarray(mesh.points, np.float64), []
    if points.ndim != 2 or not len(points):
        raise Flaw("the mesh has no vertices")
    for block in mesh.cells:
        data = np.asarray(block.data)
        if data.ndim != 2 or data.dtype.kind not in "iu":
            raise Flaw(f"the cells {block.type} are of an unsupported kind", todo="convert the mesh to PLY or Gmsh")
        cells.append(Cells(block.type, block.dim, data.astype(np.int64)))
    return points, cells


def _unchanged_blocks(points: Floats, cells: list[Cells], path: Path) -> tuple[Floats, list[Cells]]:
    return points, cells


def _cut_faces(points: Floats, cells: list[Cells], path: Path) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Return points, triangles `(f, 3)` and notes. Runs in the reader's subprocess, since large polygons take long."""
    polygons = _linear_blocks(cells, 2, "triangles", path)
    _refuse_missing(points, polygons, path)
    return points, *cut(points, polygons, path)


def _linear_blocks(cells: list[Cells], dimension: int, subject: str, path: Path) -> list[Cells]:
    """Return the blocks of linear elements; raise `ReproError` for unsupported elements of this dimension."""
    counts: dict[str, int] = {}
    for block in cells:
        counts[block.kind] = counts.get(block.kind, 0) + len(block.data)
    counts_text = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    selected_blocks = [block for block in cells if _is_read(block, dimension)]
    other_count = sum(
        len(block.data) for block in cells if block.dimension == dimension and not _is_read(block, dimension)
    )
    linear = f"linear {subject}: {'three or more' if dimension == 2 else 'four'} vertices each, the corners"
    if other_count:
        raise ReproError(
            f"the mesh has elements other than linear {subject}",
            where=path,
            expected=linear,
            actual=counts_text,
            todo=f"convert the whole mesh to linear {subject} (order 1; split hexahedra, prisms and pyramids)",
        )
    if not any(len(block.data) for block in selected_blocks):
        needs = "quaternion problems need a surface, block3 problems a volume"
        raise ReproError(
            f"the mesh has no {subject}",
            where=path,
            expected=linear,
            actual=counts_text or "no elements",
            todo=f"{needs}: name another `entry:`, or another file",
        )
    return selected_blocks


def _is_read(block: Cells, dimension: int) -> bool:
    """Return whether the cells form a surface (dimension 2) or a volume (dimension 3)."""
    if dimension == 2:
        return block.kind in ("triangle", "quad", "polygon") and block.data.shape[1] > 2
    return block.kind == "tetra" and block.data.shape[1] == 4


def count_text(count: int, singular: str, plural: str) -> str:
    """Format a count with its noun, as in `1 cell was` and `2 cells were`."""
    return f"{count} {singular if count == 1 else plural}"


def referenced(
    points: Floats, elements: NDArray[np.int64], path: Path
) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Drop unused vertices; before, check that vertices in use exist and are finite."""
    _refuse_missing(points, [Cells("", 0, elements)], path)
    is_used = np.zeros(len(points), dtype=bool)
    is_used[elements] = True
    unused = len(points) - int(np.count_nonzero(is_used))
    if not unused:
        return points, elements, ()
    dropped_note = f"{count_text(unused, 'unreferenced vertex', 'unreferenced vertices')} dropped"
    return points[is_used], (np.cumsum(is_used) - 1)[elements], (dropped_note,)


def _refuse_missing(points: Floats, blocks: list[Cells], path: Path) -> None:
    positions = np.concatenate(
        [np.arange(len(cells.data)) if cells.positions is None else cells.positions for cells in blocks]
    )
    is_outside = np.concatenate([((cells.data < 0) | (cells.data >= len(points))).any(axis=1) for cells in blocks])
    is_outside = np.sort(positions[is_outside])
    if is_outside.size:
        raise ReproError(
            "the mesh has elements with vertices that do not exist; it is damaged or truncated",
            where=path,
            expected=f"vertex numbers below {len(points)}",
            actual=f"{is_outside.size} elements with other numbers, the first is number {is_outside[0]} (counted "
            "from 0)",
            todo="export it again",
        )
    is_used = np.zeros(len(points), dtype=bool)
    for block in blocks:
        is_used[block.data] = True
    infinite = np.flatnonzero(is_used & ~(np.abs(points) < MAX_COORDINATE).all(axis=1))
    if infinite.size:
        raise ReproError(
            "the mesh has vertices with NaN, infinite or too large coordinates",
            where=path,
            expected=f"coordinates below {MAX_COORDINATE:g}",
            actual=f"{infinite.size} vertices, the first is number {infinite[0]} (counted from 0)",
            todo="repair the mesh, or export it again",
        )


def refuse_degenerate(measures: Floats, corners: Floats, power: int, subject: str, path: Path) -> None:
    """Raise `ReproError` for elements whose area (power 2) or volume (power 3) is negligible compared with the longest
    edge.
    """
    degenerate = np.flatnonzero(measures <= DEGENERATE * longest_edges(corners) ** power)
    if degenerate.size:
        raise ReproError(
            f"the mesh has degenerate {subject}",
            where=path,
            expected=f"more than {DEGENERATE:g} of the longest edge to the power of {power}",
            actual=f"{degenerate.size} of {len(measures)}, the first is number {degenerate[0]} (counted from 0)",
            todo="repair the mesh: remove these elements or merge their vertices",
        )


def _duplicate_notes(tets: NDArray[np.int64]) -> tuple[str, ...]:
    """Return notes about duplicate tetrahedra; each duplicate adds to the stiffness."""
    a, b, c, d = np.sort(tets, axis=1).T
    n = int(tets.max()) + 1
    low, high = a * n + b, c * n + d
    order = np.lexsort((low, high))
    repeated_places = np.flatnonzero((np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)) + 1
    if not repeated_places.size:
        return ()
    first = int(order[repeated_places].min())
    return (f"{repeated_places.size} duplicate tetrahedra kept, the first is number {first} (counted from 0)",)


#: The vertices of each face of a tetrahedron of positive volume, counterclockwise when seen from outside.
_FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])


def _overlaps(tets: Corners) -> Corners:
    """Return pairs `(p, 2)` of tetrahedra of positive volume on the same side of a common face, except duplicates.

    Seen from outside, tetrahedra on different sides of a face have its vertices in opposite orders.
    """
    faces = tets[:, _FACES].reshape(-1, 3)
    turn = (np.argmin(faces, axis=1)[:, None] + np.arange(3)) % 3
    a, b, c = np.take_along_axis(faces, turn, axis=1).T
    edge = a * (int(tets.max()) + 1) + b
    order = np.lexsort((c, edge))
    repeated_edges = np.flatnonzero((np.diff(edge[order]) == 0) & (np.diff(c[order]) == 0))
    pairs = np.sort(np.stack([order[repeated_edges], order[repeated_edges + 1]], axis=1) // len(_FACES), axis=1)
    distinct = (np.sort(tets[pairs[:, 0]], axis=1) != np.sort(tets[pairs[:, 1]], axis=1)).any(axis=1)
    return np.unique(pairs[distinct], axis=0)


def _oddities(faces: NDArray[np.int64]) -> list[str]:
    """Return notes about defects that are common in scanned surfaces."""
    notes = []
    n = int(faces.max()) + 1
    sorted_faces = np.sort(faces, axis=1)
    duplicates = len(faces) - len(np.unique(sorted_faces, axis=0))
    if duplicates:
        notes.append(f"{duplicates} duplicate faces kept")
    edges = np.concatenate([sorted_faces[:, [0, 1]], sorted_faces[:, [0, 2]], sorted_faces[:, [1, 2]]])
    _, sharing = np.unique(edges[:, 0] * n + edges[:, 1], return_counts=True)
    non_manifold = int(np.count_nonzero(sharing > 2))
    if non_manifold:
        notes.append(f"{non_manifold} non-manifold edges (of more than two faces) kept")
    return notes
