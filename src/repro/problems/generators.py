"""Generated problems: matrices of the papers' kinds, computed on the spot, the same every time.

They are scalar matrices of known construction (finite differences on a grid, an arrow with very long rows, graphs)
and operators assembled on meshes of simple shapes, which need neither a network nor a mesher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, validate_call
from scipy.spatial import ConvexHull
from skfem import MeshTet, MeshTri

from repro.errors import ReproError
from repro.problems.assembly import (
    Assembled,
    Floats,
    Integers,
    assemble_dirac,
    assemble_elasticity,
    assemble_helmholtz,
    unfold,
)
from repro.problems.surrogates import LATTICE_REACH, Family, LengthTargets, assemble_graph, assemble_lookalike

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


Coefficients = Literal["constant", "variable"]

#: Dimensions of the grid that a stencil of so many points is for
DIMENSIONS = {5: 2, 9: 2, 7: 3, 27: 3}
CONTRAST = 1.0  # a variable field is e^u of its constant, u uniform up to this size
WIND = (1.0, 0.5, 0.25)  # speeds along the axes, first to last, relative to the convection asked for


def draw_field(shape: int | Sequence[int], seed: int, contrast: float = CONTRAST) -> Floats:
    """Draw a positive field about 1: e^u of that shape, u uniform between ∓ `contrast` and independent everywhere."""
    return np.exp(np.random.default_rng(seed).uniform(-contrast, contrast, shape))


def assemble_diffusion(
    points: Sequence[int],
    stencil: int,
    *,
    coefficients: Coefficients = "constant",
    convection: float = 0.0,
    seed: int = 1,
) -> Assembled:
    """Assemble -∇·(κ∇u) + v·∇u on a grid of unit width, with u = 0 around it.

    Row i, with `N(i)` the other points of its stencil, those outside of the grid included::

        A_ij = -κ_ij - v_ij    for j in N(i)
        A_ii = Σ κ_ij + v_ij   over all of N(i)

    κ_ij is the harmonic mean of both points' κ (outside, that of the point within): symmetric, as flux is conserved.
    v_ij is the upwind difference: the speed along an axis at i where j is the neighbour before it on that axis, else
    0. So every row is weakly diagonally dominant, those beside the boundary strictly, and the matrix is regular.

    Constant coefficients are κ = 1 and the speeds `WIND` times `convection`: a handful of distinct values. Variable
    ones are drawn for each point, κ and each speed on its own, with ratios up to e² (`CONTRAST`): no two of the values
    on and above the diagonal are equal, and no two at all where there is convection and the stencil has only the axes.

    Parameters
    ----------
    points
        Inner points along each axis; the last one's are numbered one after the other.
    stencil
        5 or 9 points in the plane, 7 or 27 in space: along the axes only, or all around.
    coefficients
        constant, or variable.
    convection
        Speed of the flow along the first axis; 0 leaves the matrix symmetric.
    seed
        Of variable coefficients.

    Returns
    -------
    Assembled
        Real numbers, one row a point.

    Raises
    ------
    ReproError
        The stencil is for a grid of other dimensions, or the matrix is too large for 32-bit indices.
    """
    if DIMENSIONS[stencil] != len(points):
        raise ReproError(
            "the stencil is for a grid of other dimensions",
            where=f"{stencil} points",
            expected=f"{DIMENSIONS[stencil]} numbers of points",
            actual=len(points),
        )
    n = prod(points)
    if n * stencil >= 2**31:
        raise ReproError("the grid is too large for 32-bit indices", expected=f"below {2**31 // stencil}", actual=n)
    offsets = _offsets(len(points), stencil)
    strides = [prod(points[axis + 1 :]) for axis in range(len(points))]
    varies = coefficients == "variable"
    kappa = draw_field(points, seed) if varies else np.ones(points)
    speeds = [
        convection * factor * (draw_field(points, seed + 1 + axis) if varies else np.ones(points))
        for axis, factor in zip(range(len(points)), WIND, strict=False)
    ]

    # a column for each point of the stencil: in the order of the matrix's columns, whatever the row
    values = np.zeros((*points, stencil))
    inside = np.zeros((*points, stencil), dtype=bool)
    centre = stencil // 2
    diagonal = values[..., centre]
    inside[..., centre] = True
    for k, offset in enumerate(offsets):
        if k == centre:
            continue
        here = tuple(slice(max(0, -step), count - max(0, step)) for step, count in zip(offset, points, strict=True))
        there = tuple(slice(max(0, step), count - max(0, -step)) for step, count in zip(offset, points, strict=True))
        inside[..., k][here] = True
        coupling = kappa.copy()
        coupling[here] = 2 * (kappa[here] * kappa[there]) / (kappa[here] + kappa[there])
        upstream = [axis for axis, step in enumerate(offset) if step == -1]
        if convection and len(upstream) == np.count_nonzero(offset) == 1:
            coupling += speeds[upstream[0]]
        values[..., k] = -coupling
        diagonal += coupling
    steps = np.array(offsets) @ strides
    columns = np.arange(n, dtype=np.int32)[:, None] + steps.astype(np.int32)
    kept = inside.reshape(n, stencil)
    return Assembled(n, _pointers(kept.sum(axis=1)), columns[kept], values.reshape(n, stencil)[kept][:, None])


def _offsets(dimensions: int, stencil: int) -> list[tuple[int, ...]]:
    """Return where the points of a stencil are, in the order of their numbers, the centre in the middle."""
    around = product((-1, 0, 1), repeat=dimensions)
    return [offset for offset in around if stencil == 3**dimensions or np.count_nonzero(offset) <= 1]


def _pointers(lengths: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def assemble_arrow(rows: int, dense: int, *, coefficients: Coefficients = "constant", seed: int = 1) -> Assembled:
    """Join a chain of nodes to a few that have an edge to every other: full rows and columns, the others short.

    Edges have the weight 1 (constant), or one of their own (variable); the matrix is the weighted graph's Laplacian
    plus the identity, so symmetric and strictly diagonally dominant. The first rows are the full ones.

    Parameters
    ----------
    rows
        Nodes, more than twice the full ones.
    dense
        How many are joined to all others.
    coefficients, seed
        As for `assemble_diffusion`.

    Returns
    -------
    Assembled
        Real numbers; rows of `rows` entries, then of up to `dense` + 3.

    Raises
    ------
    ReproError
        There are no more than twice as many rows as full ones, or the matrix is too large for 32-bit indices.
    """
    if rows <= 2 * dense:
        raise ReproError("too many full rows", expected=f"fewer than half of {rows}", actual=dense)
    if rows * (2 * dense + 3) >= 2**31:
        raise ReproError("the arrow is too large for 32-bit indices", expected=2**31, actual=rows * (2 * dense + 3))
    hubs = np.arange(dense)
    # upper triangle: each hub with all after it, then the chain of the others
    tails = np.repeat(hubs, rows - 1 - hubs)
    heads = np.concatenate([np.arange(hub + 1, rows) for hub in hubs] or [hubs])
    chain = np.arange(dense, rows - 1)
    tails, heads = np.concatenate([tails, chain]), np.concatenate([heads, chain + 1])
    weights = draw_field(len(tails), seed) if coefficients == "variable" else np.ones(len(tails))
    degrees = np.bincount(tails, weights, rows) + np.bincount(heads, weights, rows)
    nodes = np.arange(rows)
    row, column = np.concatenate([tails, heads, nodes]), np.concatenate([heads, tails, nodes])
    values = np.concatenate([-weights, -weights, 1 + degrees])
    order = np.argsort(row * rows + column, kind="stable")
    pointers = _pointers(np.bincount(row, minlength=rows))
    return Assembled(rows, pointers, column[order].astype(np.int32), values[order][:, None])


pass  # codemod

T_co = TypeVar("T_co", covariant=True)
Count = Annotated[int, Field(ge=2, le=2000)]
Circle = Annotated[int, Field(ge=3, le=20000)]
CellCount = tuple[Count, Count, Count]
HubSize = Annotated[int, Field(ge=3)]
Seed = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=-1, lt=0.5)]

# Few large hubs and many small ones, with about 340 to 40 and 250 to 15 neighbours
HUBS_3D = (8, 7, *(6,) * 2, *(5,) * 4, *(4,) * 12, *(3,) * 100)
HUBS_2D = (64, *(32,) * 2, *(16,) * 6, *(8,) * 24, *(4,) * 80)


class Computes(Protocol[T_co]):
    """A kind of what is generated: what computes it, by keyword parameters only, checked on every call."""

    @property
    def build(self) -> Callable[..., T_co]: ...  # noqa: D102


@dataclass(frozen=True)
class Kind:
    """One kind of generated problem.

    Attributes
    ----------
    entry
        What its non-zeros are.
    build
        Computes it; keyword parameters only, each with a default, checked on every call.
    """

    entry: str
    build: Callable[..., Assembled]


KINDS: dict[str, Kind] = {}


def generate(kind: str, **parameters: Any) -> Assembled:
    """Compute a generated problem.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    parameters
        Those of the kind's function below that shall differ from their defaults.

    Raises
    ------
    ReproError
        Unknown kind, unknown parameter, or a value of the wrong type or out of range; every one is named.
    """
    return computed("problem", KINDS, kind, parameters)


def computed(what: str, kinds: Mapping[str, Computes[T_co]], kind: str, parameters: Mapping[str, Any]) -> T_co:
    """Return what a kind computes from parameters.

    Parameters
    ----------
    what
        What messages call it.
    kinds
        All that there are.

    Raises
    ------
    ReproError
        As `generate`.
    """
    if kind not in kinds:
        names = ", ".join(sorted(kinds))
        raise ReproError(f"unknown kind of generated {what}", expected=f"one of {names}", actual=kind)
    try:
        return kinds[kind].build(**parameters)
    except ValidationError as error:
        raise _wrong_parameters(what, kind, error) from None


def _wrong_parameters(what: str, kind: str, error: ValidationError) -> ReproError:
    """Return the error that names every wrong parameter."""
    wrong = []
    for item in error.errors():
        unknown = item["type"] == "unexpected_keyword_argument"
        text = "unknown parameter" if unknown else f"{item['msg']} (is {item['input']!r})"
        wrong.append(f"{'.'.join(map(str, item['loc']))}: {text}")
    return ReproError(f"wrong parameters of a generated {what}", where=kind, actual="; ".join(wrong))


def _kind(entry: str) -> Callable[[Callable[..., Assembled]], Callable[..., Assembled]]:
    def add(build: Callable[..., Assembled]) -> Callable[..., Assembled]:
        checked = validate_call(build)
        KINDS[build.__name__] = Kind(entry, checked)
        return checked

    return add


@_kind("real")
def poisson(*, points: CellCount = (22, 22, 22), stencil: Literal[7, 27] = 7) -> Assembled:
    """Poisson's equation on a grid of so many inner points, by the 7-point or the 27-point stencil."""
    return assemble_diffusion(points, stencil)


@_kind("real")
def diffusion(
    *,
    points: tuple[Count, Count] | CellCount = (22, 22, 22),
    stencil: Literal[5, 7, 9, 27] = 7,
    coefficients: Coefficients = "constant",
    convection: NotNegative = 0.0,
    seed: Seed = 1,
) -> Assembled:
    """Diffusion on a grid in the plane or in space, with convection where asked for."""
    return assemble_diffusion(points, stencil, coefficients=coefficients, convection=convection, seed=seed)


@_kind("pattern")
def grid_graph(
    *, points: tuple[Count, Count] | CellCount = (22, 22, 22), stencil: Literal[5, 7, 9, 27] = 7
) -> Assembled:
    """Graph of a grid, each point joined to itself and to the others of its stencil: the pattern of `diffusion`."""
    assembled = assemble_diffusion(points, stencil)
    return replace(assembled, values=np.empty((len(assembled.indices), 0)))


@_kind("real")
def arrow(
    *,
    rows: Annotated[int, Field(ge=3, le=10_000_000)] = 10_000,
    dense: Annotated[int, Field(ge=1)] = 2,
    coefficients: Coefficients = "constant",
    seed: Seed = 1,
) -> Assembled:
    """Laplacian of a chain with a few nodes that are joined to all: full rows and columns."""
    return assemble_arrow(rows, dense, coefficients=coefficients, seed=seed)


@_kind("real")
def elasticity_scalar(
    *,
    cells: CellCount = (12, 16, 20),
    coefficients: Coefficients = "constant",
    poisson: Ratio = 0.3,
    foundation: Positive = 0.01,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box of unit cells as a real matrix, three rows a vertex; Young's modulus is 1, or each element's own.

    Every vertex is held by a spring of the foundation's stiffness in each direction, so that the matrix is regular.
    """
    # whole coordinates: equal cells give bitwise equal values
    vertices, tets = lattice_box(cells)
    young = draw_field(len(tets), seed) if coefficients == "variable" else 1.0
    assembled = assemble_elasticity(vertices, tets, young=young, poisson=poisson)
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    assembled.values[rows == assembled.indices] += foundation * np.eye(3).ravel()
    return unfold(assembled, "block3")


@_kind("real")
def helmholtz_scalar(
    *,
    cells: CellCount = (18, 19, 20),
    coefficients: Coefficients = "constant",
    wavenumber: Positive = 0.6,
    loss: NotNegative = 0.1,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box of unit cells as a real matrix, two rows a vertex (real and imaginary part): not symmetric.

    The wavenumber, in radians a cell, is the same everywhere, or each element's own about it.
    """
    vertices, tets = lattice_box(cells)
    field = wavenumber * draw_field(len(tets), seed, contrast=0.2) if coefficients == "variable" else wavenumber
    return unfold(assemble_helmholtz(vertices, tets, wavenumber=field, loss=loss), "complex")


@_kind("real")
def graph(
    *,
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (10_000, 80_000),
    columns: Annotated[int, Field(ge=1)] | None = None,
    shortest: Annotated[int, Field(ge=0)] = 1,
    longest: Annotated[int, Field(ge=1)] = 400,
    width: Annotated[int, Field(ge=1)] = 8,
    overflow: Annotated[int, Field(ge=0)] = 25_000,
    spread: Positive | None = None,
    family: Family = "web",
    seed: Seed = 1,
) -> Assembled:
    """Graph of so many rows and non-zeros, `overflow` of them beyond the first `width` of their rows.

    See `repro.problems.surrogates` and `repro.problems.surrogates`; without `columns` it is square.
    """
    wanted = LengthTargets(*size, shortest, longest, width, overflow, spread)
    return assemble_graph(wanted, size[0] if columns is None else columns, family, seed)


@_kind("complex")
def helmholtz_box(
    *, cells: CellCount = (20, 22, 24), wavenumber: Positive = 12.0, loss: NotNegative = 0.02
) -> Assembled:
    """Waves in a box whose longest side is 1."""
    vertices, tets = lattice_box(cells)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex")
def helmholtz_disk(
    *,
    refinements: Annotated[int, Field(ge=1, le=11)] = 6,
    wavenumber: Positive = 40.0,
    loss: NotNegative = 0.02,
) -> Assembled:
    """Waves in a unit disk, its mesh refined so many times."""
    return assemble_helmholtz(*disk(refinements), wavenumber=wavenumber, loss=loss)


@_kind("complex")
def helmholtz_hubs(
    *,
    cells: CellCount = (26, 26, 26),
    wavenumber: Positive = 12.0,
    loss: NotNegative = 0.02,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box whose longest side is 1, with hubs: see `repro.problems.generators.collapse`."""
    vertices, tets = collapse(lattice_box(cells), cells, hubs, seed)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex")
def lookalike(
    *,
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (10_000, 240_000),
    longest: Annotated[int, Field(gt=(2 * LATTICE_REACH + 1) ** 3)] = 300,
    long_rows: Annotated[int, Field(ge=1)] = 10,
    spread: NotNegative = 0.4,
    seed: Seed = 1,
) -> Assembled:
    """Stand-in for a matrix that cannot be had, of so many rows and non-zeros: see `repro.problems.surrogates`."""
    return assemble_lookalike(*size, longest=longest, hubs=long_rows, spread=spread, seed=seed)


@_kind("quaternion")
def dirac_torus(*, rings: Circle = 200, segments: Circle = 80, seed: Seed = 1) -> Assembled:
    """Dirac operator on a torus; the seed is that of the curvature potential."""
    lattice, faces = lattice_torus(rings, segments)
    return assemble_dirac(wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("quaternion")
def dirac_blob(*, rows: Annotated[int, Field(ge=12, le=10_000_000)] = 10_000, seed: Seed = 1) -> Assembled:
    """Dirac operator on a closed surface of irregular connectivity."""
    return assemble_dirac(*blob(rows), seed=seed)


@_kind("quaternion")
def dirac_hubs(
    *,
    rings: Circle = 160,
    segments: Circle = 160,
    hubs: tuple[HubSize, ...] = HUBS_2D,
    seed: Seed = 1,
) -> Assembled:
    """Dirac operator on a torus with hubs: see `repro.problems.generators.collapse`."""
    lattice, faces = collapse(lattice_torus(rings, segments), (rings, segments), hubs, seed)
    return assemble_dirac(wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("block3")
def elasticity_box(*, cells: CellCount = (12, 16, 40), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic box whose longest side is 1."""
    vertices, tets = lattice_box(cells)
    return assemble_elasticity(vertices / max(cells), tets, young=young, poisson=poisson)


@_kind("block3")
def elasticity_mapped(*, cells: CellCount = (14, 14, 60), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic bar that is tapered, twisted and bent: see `repro.problems.generators.horn`."""
    lattice, tets = lattice_box(cells)
    return assemble_elasticity(horn(lattice, cells), tets, young=young, poisson=poisson)


@_kind("block3")
def elasticity_hubs(
    *,
    cells: CellCount = (24, 24, 24),
    young: Positive = 1.0,
    poisson: Ratio = 0.3,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box whose longest side is 1, with hubs: see `repro.problems.generators.collapse`."""
    vertices, tets = collapse(lattice_box(cells), cells, hubs, seed)
    return assemble_elasticity(vertices / max(cells), tets, young=young, poisson=poisson)
