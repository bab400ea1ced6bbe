"""Triangle and tetrahedral meshes: read through meshio, unpacked, checked and cleaned of unused vertices."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Floats, Integers

# suffix: meshio's module. They are called directly because `meshio.read` ends the process on an unreadable file.
FORMATS = {
    ".ply": "ply",
    ".obj": "obj",
    ".off": "off",
    ".stl": "stl",
    ".msh": "gmsh",
    ".node": "tetgen",
    ".ele": "tetgen",
    ".mesh": "medit",
    ".meshb": "medit",
    ".vtk": "vtk",
    ".vtu": "vtu",
}
PACKED = (".gz", ".xz")
TETGEN_PAIR = {".node": ".ele", ".ele": ".node"}

# An element this thin, in units of its longest edge squared or cubed, has no area or volume beyond rounding.
DEGENERATE = 1e-12


def read_surface(path: Path | str) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a triangle mesh; polygons are cut into fans, other elements ignored.

    Parameters
    ----------
    path
        A file in one of `FORMATS`, bare or packed with gzip or xz.

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
        The file is missing, of an unknown format, damaged or truncated, has no faces, or has degenerate ones.
    """
    path = Path(path)
    points, cells = _read(path)
    blocks = [
        np.stack([np.broadcast_to(data[:, :1], data[:, 2:].shape), data[:, 1:-1], data[:, 2:]], axis=-1)
        for kind, data in cells
        if kind in ("triangle", "quad", "polygon") and data.shape[1] > 2
    ]
    faces = _join([block.reshape(-1, 3) for block in blocks], "triangles", path, cells)
    notes = []
    polygons = sum(len(data) for kind, data in cells if kind in ("quad", "polygon") and data.shape[1] > 3)
    if polygons:
        notes.append(f"{polygons} polygons cut into triangles")
    points, faces, dropped = _referenced(points, faces, path)
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    _refuse_degenerate(np.linalg.norm(normals, axis=1) / 2, corners, 2, "triangles", path)
    return points, faces, (*notes, *dropped, *_oddities(faces))


def read_tetrahedra(path: Path | str) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Read a tetrahedral mesh; its boundary triangles and other elements are ignored.

    Parameters
    ----------
    path
        A file in one of `FORMATS`, bare or packed with gzip or xz. Of TetGen's two files either will do; the
        other one is looked for beside it.

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
        The file is missing, of an unknown format, damaged or truncated, has no tetrahedra, has degenerate ones, or
        some that are inverted against the others.
    """
    path = Path(path)
    points, cells = _read(path)
    blocks = [data for kind, data in cells if kind == "tetra" and data.shape[1] == 4]
    points, tets, notes = _referenced(points, _join(blocks, "tetrahedra", path, cells), path)
    volumes = tetrahedron_volumes(points, tets)
    _refuse_degenerate(np.abs(volumes), points[tets], 3, "tetrahedra", path)
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
    return points, tets, notes


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


def _read(path: Path) -> tuple[Floats, list[tuple[str, NDArray[np.int64]]]]:
    """Return points `(p, 3)` and the cell blocks of a file, unchecked but for their shape."""
    suffix = _format(path)
    with _unpacked(path, suffix) as plain, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's about a damaged file, which ends in an error below
        try:
            mesh = import_module(f"meshio.{FORMATS[suffix]}").read(plain)
            points = np.array(mesh.points, dtype=np.float64)
            cells = [(block.type, np.array(block.data, dtype=np.int64)) for block in mesh.cells]
        except ReproError:
            raise
        except Exception as error:  # meshio's parsers raise whatever they stumble over
            raise ReproError(
                "the mesh cannot be read; it is damaged, truncated, or uses a part of the format that meshio lacks",
                where=path,
                expected=f"a complete {suffix} file",
                actual=" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"),
                todo="fetch or export it again, or convert it to PLY or Gmsh",
            ) from error
        missing = _missing(plain, suffix, sum(len(data) for _, data in cells))
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


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ReproError(
            "unknown mesh format",
            where=path,
            expected=f"one of {' '.join(FORMATS)}, bare or with {' or '.join(PACKED)}",
            actual=path.name,
        )
    return suffixes[-1]


@contextmanager
def _unpacked(path: Path, suffix: str) -> Iterator[Path]:
    """Give a copy of the mesh in the form meshio wants: unpacked, TetGen's two files side by side."""
    if not path.is_file():
        raise ReproError("no such mesh file", where=path)
    parts = {suffix: path}
    if suffix in TETGEN_PAIR:
        parts[TETGEN_PAIR[suffix]] = _companion(path, suffix)
    with tempfile.TemporaryDirectory(prefix="repro-mesh-") as folder:
        for part, source in parts.items():
            try:
                with _open(source) as packed, Path(folder, f"mesh{part}").open("wb") as plain:
                    plain.write(_start(packed.read(1 << 16), part, source))
                    shutil.copyfileobj(packed, plain)
            except (OSError, EOFError, lzma.LZMAError) as error:
                raise ReproError(
                    "the mesh file cannot be unpacked; it is damaged or truncated, or the disk is full",
                    where=source,
                    actual=error,
                    todo="fetch it again",
                ) from error
        yield Path(folder, f"mesh{suffix}")


def _open(path: Path) -> gzip.GzipFile | lzma.LZMAFile | BufferedReader:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path)
        case ".xz":
            return lzma.open(path)
        case _:
            return path.open("rb")


def _start(start: bytes, suffix: str, path: Path) -> bytes:
    """Return the start of a file with what meshio trips over mended, or refuse it.

    At the end of a file meshio waits for ever for the rest of a header, so there must be one.
    """
    lines = [line for line in map(bytes.strip, start.splitlines()) if line and not line.startswith(b"#")]
    complete = {".ply": b"end_header" in lines, ".off": len(lines) > 1, ".node": bool(lines), ".ele": bool(lines)}
    if not complete.get(suffix, True):
        raise ReproError(
            "the mesh file has no complete header; it is truncated or of another format",
            where=path,
            expected=f"a {suffix} file",
            actual=f"it starts with {start[:20]!r}",
            todo="fetch or export it again",
        )
    if suffix == ".ply":
        # a face's vertices go by either of two names, of which meshio knows one
        header, end, data = start.partition(b"end_header")
        start = re.sub(rb"\bvertex_index\b", b"vertex_indices", header) + end + data
    return start


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


def _companion(path: Path, suffix: str) -> Path:
    """Find the other one of TetGen's two files, packed or not."""
    bare = path.with_suffix("") if path.suffix.lower() in PACKED else path
    candidates = [
        bare.with_suffix(TETGEN_PAIR[suffix]).with_name(bare.stem + TETGEN_PAIR[suffix] + packing)
        for packing in ("", *PACKED)
    ]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ReproError(
        "TetGen keeps a mesh in two files, and one of them is missing",
        where=path,
        expected=f"one of {', '.join(candidate.name for candidate in candidates)} beside it",
        todo="put it there",
    )


def _join(
    blocks: list[NDArray[np.int64]], what: str, path: Path, cells: list[tuple[str, NDArray[np.int64]]]
) -> NDArray[np.int64]:
    elements = np.concatenate(blocks) if blocks else np.empty((0, 3), np.int64)
    if not len(elements):
        kinds = ", ".join(sorted({kind for kind, data in cells if len(data)})) or "no elements"
        todo = "quaternion problems need a surface, block3 problems a volume"
        raise ReproError(f"the mesh has no {what}", where=path, expected=what, actual=kinds, todo=todo)
    return elements


def _referenced(
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


def _refuse_degenerate(measures: Floats, corners: Floats, power: int, what: str, path: Path) -> None:
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
