"""Meshes of simple shapes, for problems that need neither a network nor a mesher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from skfem import MeshTet, MeshTri

from repro.errors import ReproError
from repro.problems.assembled import Floats, Integers

Mesh = tuple[Floats, NDArray[np.int64]]


def lattice_box(cells: Sequence[int]) -> Mesh:
    """Fill a box of unit cells with six tetrahedra a cell.

    Returns
    -------
    vertices, tetrahedra
        float64 `(v, 3)` with whole coordinates from 0 to `cells`, and `(t, 4)`.
    """
    mesh = MeshTet.init_tensor(*(np.arange(count + 1.0) for count in cells))
    return _arrays(mesh)


def disk(refinements: int) -> Mesh:
    """Return a triangulated unit disk: float64 `(v, 2)` and `(t, 3)`."""
    return _arrays(MeshTri.init_circle(refinements))


def lattice_torus(rings: int, segments: int) -> Mesh:
    """Return a triangulated periodic lattice: float64 `(rings segments, 2)` whole coordinates, and `(f, 3)`."""
    u, v = (index.ravel() for index in np.indices((rings, segments)))
    here, right, up, across = (
        (u + du) % rings * segments + (v + dv) % segments for du, dv in ((0, 0), (1, 0), (0, 1), (1, 1))
    )
    faces = np.concatenate([np.stack([here, right, across], axis=1), np.stack([here, across, up], axis=1)])
    return np.stack([u, v], axis=1).astype(np.float64), faces


def blob(rows: int) -> Mesh:
    """Return a closed, lopsided surface of so many vertices: float64 `(rows, 3)` and `(f, 3)`.

    The vertices lie on a Fibonacci spiral around a sphere, the faces are those of their convex hull; then the radius
    is modulated. Most vertices have 6 neighbours, some 5 or 7, in no regular order.
    """
    k = np.arange(rows) + 0.5
    z = 1 - 2 * k / rows
    angle = np.pi * (1 + np.sqrt(5)) * k
    sphere = np.stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z], axis=1)
    faces = np.sort(ConvexHull(sphere).simplices.astype(np.int64), axis=1)
    faces = faces[np.lexsort(faces.T[::-1])]
    corners = sphere[faces]
    inward = np.linalg.det(corners) < 0
    faces[inward] = faces[inward][:, [0, 2, 1]]
    x, y, z = sphere.T
    radius = 1 + 0.3 * np.sin(2 * x + 1) * np.cos(3 * y) + 0.2 * z * x
    return sphere * radius[:, None], faces


def wrap_torus(lattice: Floats, rings: int, segments: int) -> Floats:
    """Map the coordinates of `lattice_torus` to a torus in space, float64 `(v, 3)`, of radii 1 and 0.4."""
    around, across = 2 * np.pi * lattice[:, 0] / rings, 2 * np.pi * lattice[:, 1] / segments
    ring = 1 + 0.4 * np.cos(across)
    return np.stack([ring * np.cos(around), ring * np.sin(around), 0.4 * np.sin(across)], axis=1)


def subdivide(vertices: Floats, faces: Integers) -> Mesh:
    """Cut each triangle into four at the midpoints of its edges.

    Returns
    -------
    vertices, faces
        The vertices given, then the edges' midpoints in the order of the edges' ends: float64 `(v + e, 3)`; and
        `(4 f, 3)`, the four of a triangle one after the other, all facing as it does.
    """
    n = len(vertices)
    edges = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1), axis=-1).astype(np.int64)
    keys, midpoints = np.unique(edges[..., 0] * n + edges[..., 1], return_inverse=True)
    a, b, c = faces.T
    ab, bc, ca = n + midpoints.reshape(-1, 3).T
    parts = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=-1)
    points: Floats = np.concatenate([vertices, (vertices[keys // n] + vertices[keys % n]) / 2])
    return points, parts.reshape(-1, 3)


def horn(lattice: Floats, cells: Sequence[int]) -> Floats:
    """Map the coordinates of `lattice_box` to a tapered, twisted and bent bar without a symmetry."""
    x, y, s = (lattice / cells).T - np.array([[0.5], [0.5], [0.0]])
    x, y = x * (1 - 0.5 * s), 0.6 * y * (1 - 0.3 * s) + 0.2 * x**2
    twist = 0.5 * np.pi * s
    x, y = x * np.cos(twist) - y * np.sin(twist), x * np.sin(twist) + y * np.cos(twist)
    # an arc of radius 2 over 2 radians, longer than the cross section is wide: the map keeps its orientation
    return np.stack([(2 + x) * np.cos(2 * s), y, (2 + x) * np.sin(2 * s)], axis=1)


def collapse(mesh: Mesh, cells: Sequence[int], sizes: Sequence[int], seed: int) -> Mesh:
    """Make hubs: vertices with very many neighbours, which give a matrix a heavy tail of row lengths.

    Seeded, disjoint cubes (in the plane squares) of cells are picked, and all vertices inside one become a single
    vertex at its centre, which is then joined to nearly all vertices on the cube's surface: some 5 s² of them for a
    cube of s cells a side, 4 s for a square. The cubes are convex, so no element turns over.

    Parameters
    ----------
    mesh
        `lattice_box` or `lattice_torus` of these cells; cubes do not cross the latter's seam.
    cells
        Cells of the lattice in each dimension.
    sizes
        Cells along a side, one cube each.
    seed
        Seeds the places.

    Raises
    ------
    ReproError
        The cubes do not fit.
    """
    lattice, elements = mesh
    rng = np.random.default_rng(seed)
    taken = np.zeros(tuple(cells), dtype=bool)
    points = lattice.copy()
    target = np.arange(len(lattice))
    for size in sorted(sizes, reverse=True):
        corner = _place(taken, size, rng)
        inside = np.flatnonzero(((lattice > corner) & (lattice < corner + size)).all(axis=1))
        target[inside] = inside[0]
        points[inside[0]] = corner + size / 2
    kept = np.unique(target)
    elements = np.searchsorted(kept, target[elements])
    ordered = np.sort(elements, axis=1)
    whole = (np.diff(ordered, axis=1) > 0).all(axis=1)
    return points[kept], elements[whole]


def _place(taken: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Find a free cube, mark it taken and return its lowest corner."""
    room = np.array(taken.shape) - size
    for _ in range(1000 if (room >= 0).all() else 0):
        corner = rng.integers(0, room, endpoint=True)
        window = tuple(slice(low, low + size) for low in corner)
        if not taken[window].any():
            taken[window] = True
            return corner
    raise ReproError(
        "the hubs do not fit into the mesh",
        expected="room for disjoint cubes of so many cells a side",
        actual=f"none left for one of {size} in {' × '.join(map(str, taken.shape))} cells",
        todo="ask for fewer or smaller hubs, or more cells",
    )


def _arrays(mesh: MeshTet | MeshTri) -> tuple[Floats, Integers]:
    """Return scikit-fem's arrays one row a vertex and an element, all elements of positive orientation."""
    points: Floats = np.ascontiguousarray(mesh.p.T)
    elements = mesh.t.T.astype(np.int64)
    corners = points[elements]
    turned = np.linalg.det(corners[:, 1:] - corners[:, :1]) < 0
    elements[turned, -2:] = elements[turned, -2:][:, ::-1]
    return points, elements
