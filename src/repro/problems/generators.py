"""Generates problems reproducibly: matrices similar to those in the papers.

Scalar matrices come from finite differences on a grid, from graphs, or have an arrow shape with a few very long rows.
Other operators are assembled on meshes of simple shapes. Neither a network nor a mesh generator is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, validate_call

from repro.config.models import with_tuples
from repro.errors import ReproError
from repro.problems.assembly import (
    Assembled,
    Floats,
    Integers,
    assemble_dirac,
    assemble_elasticity,
    assemble_helmholtz,
    elastic_body,
    unfold,
)
from repro.problems.surrogates import LATTICE_REACH, Family, LengthTargets, assemble_graph, assemble_lookalike

if TYPE_CHECKING:
    from skfem import MeshTet, MeshTri

Mesh = tuple[Floats, NDArray[np.int64]]


def lattice_box(cells: Sequence[int]) -> Mesh:
    """Divide each cell of a box into six tetrahedra: integer vertices `(v, 3)` and tetrahedra `(t, 4)`."""
    from skfem import MeshTet  # slow to import

    mesh = MeshTet.init_tensor(*(np.arange(count + 1.0) for count in cells))
    return _arrays(mesh)


def disk(refinements: int) -> Mesh:
    """Return a triangle mesh of the unit disk: float64 vertices `(v, 2)` and triangles `(t, 3)`."""
    from skfem import MeshTri  # slow to import

    return _arrays(MeshTri.init_circle(refinements))


def lattice_torus(rings: int, segments: int) -> Mesh:
    """Return a triangulated periodic lattice: integer coordinates `(rings segments, 2)` and triangles `(f, 3)`."""
    u, v = (index.ravel() for index in np.indices((rings, segments)))
    corner_ids, right_ids, upper_ids, opposite_ids = (
        (u + du) % rings * segments + (v + dv) % segments for du, dv in ((0, 0), (1, 0), (0, 1), (1, 1))
    )
    faces = np.concatenate(
        [
            np.stack([corner_ids, right_ids, opposite_ids], axis=1),
            np.stack([corner_ids, opposite_ids, upper_ids], axis=1),
        ]
    )
    return np.stack([u, v], axis=1).astype(np.float64), faces


def blob(rows: int) -> Mesh:
    """Return a closed, asymmetric triangle mesh with `rows` vertices: float64 `(rows, 3)` and faces `(f, 3)`.

    The faces are the convex hull of a Fibonacci spiral on a sphere; the radius is then varied. Most vertices have 6
    neighbours, some have 5 or 7, in no regular pattern.
    """
    from scipy.spatial import ConvexHull  # slow to import

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
    """Map the coordinates of `lattice_torus` to a torus in space, float64 `(v, 3)`, with radii 1 and 0.4."""
    ring_angles, tube_angles = 2 * np.pi * lattice[:, 0] / rings, 2 * np.pi * lattice[:, 1] / segments
    ring = 1 + 0.4 * np.cos(tube_angles)
    return np.stack([ring * np.cos(ring_angles), ring * np.sin(ring_angles), 0.4 * np.sin(tube_angles)], axis=1)


def subdivide(vertices: Floats, faces: Integers) -> Mesh:
    """Divide each triangle into four at the edge midpoints. New vertices are appended after the given vertices."""
    n = len(vertices)
    edges = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1), axis=-1).astype(np.int64)
    keys, midpoints = np.unique(edges[..., 0] * n + edges[..., 1], return_inverse=True)
    a, b, c = faces.T
    ab, bc, ca = n + midpoints.reshape(-1, 3).T
    parts = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=-1)
    points: Floats = np.concatenate([vertices, (vertices[keys // n] + vertices[keys % n]) / 2])
    return points, parts.reshape(-1, 3)


def horn_vertices(lattice: Floats, cells: Sequence[int]) -> Floats:
    """Map the coordinates of `lattice_box` to a tapered, twisted and bent bar, which has no symmetry."""
    x, y, s = (lattice / cells).T - np.array([[0.5], [0.5], [0.0]])
    x, y = x * (1 - 0.5 * s), 0.6 * y * (1 - 0.3 * s) + 0.2 * x**2
    twist = 0.5 * np.pi * s
    x, y = x * np.cos(twist) - y * np.sin(twist), x * np.sin(twist) + y * np.cos(twist)
    # The bar follows an arc with radius 2 and angle 2 radians. The radius exceeds the bar's thickness, so that no
    # element is inverted.
    return np.stack([(2 + x) * np.cos(2 * s), y, (2 + x) * np.sin(2 * s)], axis=1)


def collapse(mesh: Mesh, cells: Sequence[int], sizes: Sequence[int], seed: int) -> Mesh:
    """Create hubs, which are vertices with very many neighbours; they give a matrix a few very long rows.

    Disjoint cubes of cells (squares in the plane) are picked at random with a seed. All vertices inside a cube are
    merged into one vertex at its centre, which is joined to nearly all vertices on the cube's surface: about 5 s² for a
    cube with s cells along each side, 4 s for a square. Cubes are convex, so no element is inverted. Raises
    `ReproError`: the cubes do not fit.

    Parameters
    ----------
    mesh
        `lattice_box` or `lattice_torus` of `cells` in each dimension; cubes do not cross the latter's seam.
    sizes
        Cells along a side, one cube each.
    """
    lattice, elements = mesh
    rng = np.random.default_rng(seed)
    occupied = np.zeros(tuple(cells), dtype=bool)
    points = lattice.copy()
    target = np.arange(len(lattice))
    for size in sorted(sizes, reverse=True):
        corner = _place(occupied, size, rng)
        inner_vertices = np.flatnonzero(((lattice > corner) & (lattice < corner + size)).all(axis=1))
        target[inner_vertices] = inner_vertices[0]
        points[inner_vertices[0]] = corner + size / 2
    kept_vertices = np.unique(target)
    elements = np.searchsorted(kept_vertices, target[elements])
    sorted_elements = np.sort(elements, axis=1)
    is_whole = (np.diff(sorted_elements, axis=1) > 0).all(axis=1)
    return points[kept_vertices], elements[is_whole]


def _place(occupied: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Find a free place for a cube of cells, mark it as taken, and return its lowest corner."""
    room = np.array(occupied.shape) - size
    for _ in range(1000 if (room >= 0).all() else 0):
        corner = rng.integers(0, room, endpoint=True)
        window = tuple(slice(low, low + size) for low in corner)
        if not occupied[window].any():
            occupied[window] = True
            return corner
    raise ReproError(
        "the hubs do not fit in the mesh",
        expected="room for disjoint cubes with these numbers of cells per side",
        actual=f"none left for one of {size} in {' × '.join(map(str, occupied.shape))} cells",
        todo="request fewer or smaller hubs, or more cells",
    )


def _arrays(mesh: MeshTet | MeshTri) -> tuple[Floats, Integers]:
    """Return the arrays of a scikit-fem mesh with one row for each vertex or element, all elements oriented
    positively.
    """
    points: Floats = np.ascontiguousarray(mesh.p.T)
    elements = mesh.t.T.astype(np.int64)
    corners = points[elements]
    is_inverted = np.linalg.det(corners[:, 1:] - corners[:, :1]) < 0
    elements[is_inverted, -2:] = elements[is_inverted, -2:][:, ::-1]
    return points, elements


Coefficients = Literal["constant", "variable"]

#: Number of grid dimensions for each number of stencil points.
DIMENSIONS = {5: 2, 9: 2, 7: 3, 27: 3}
CONTRAST = 1.0  # variable coefficients are e^u, u uniform in ±CONTRAST
WIND = (1.0, 0.5, 0.25)  # flow speed along each axis, relative to `convection`


def draw_field(shape: int | Sequence[int], seed: int, contrast: float = CONTRAST) -> Floats:
    """Draw random positive coefficients e^u, with u independent and uniform between -`contrast` and `contrast`."""
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

    Let `N(i)` be all stencil points around point i except i, including points outside the grid. Row i is::

        A_ij = -κ_ij - v_ij    for j in N(i)
        A_ii = Σ κ_ij + v_ij   over all of N(i)

    κ_ij is the harmonic mean of κ at i and j, so flux is conserved; outside the grid, κ equals κ at i.
    v_ij is the upwind difference: the speed at i along an axis if j is the preceding neighbour on this axis, else 0.
    Rows are weakly diagonally dominant, boundary rows strictly, so the matrix is not singular.

    Constant coefficients are κ = 1 and the speeds `WIND` times `convection`, so the matrix has few distinct values.
    Variable coefficients are drawn independently for each point, with ratios up to e² (`CONTRAST`). Then no two values
    on and above the diagonal are equal; with convection and an axis-aligned stencil, no two values at all are equal.
    Raises `ReproError`: the stencil does not match the number of axes, or the matrix is too large for 32-bit indices.

    Parameters
    ----------
    points
        Number of inner points along each axis; neighbours along the last axis have consecutive numbers.
    stencil
        Number of stencil points: axis-aligned (5 in the plane, 7 in space) or with diagonal neighbours (9 or 27).
    convection
        Speed of the flow along the first axis; 0 leaves the matrix symmetric.
    """
    if DIMENSIONS[stencil] != len(points):
        raise ReproError(
            "the stencil and the grid differ in dimension",
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

    # Stencil points are in the order of the matrix columns.
    values = np.zeros((*points, stencil))
    has_neighbour = np.zeros((*points, stencil), dtype=bool)
    centre = stencil // 2
    diagonal = values[..., centre]
    has_neighbour[..., centre] = True
    for k, offset in enumerate(offsets):
        if k == centre:
            continue
        source_slices = tuple(
            slice(max(0, -step), count - max(0, step)) for step, count in zip(offset, points, strict=True)
        )
        target_slices = tuple(
            slice(max(0, step), count - max(0, -step)) for step, count in zip(offset, points, strict=True)
        )
        has_neighbour[..., k][source_slices] = True
        coupling = kappa.copy()
        coupling[source_slices] = (
            2 * (kappa[source_slices] * kappa[target_slices]) / (kappa[source_slices] + kappa[target_slices])
        )
        upstream = [axis for axis, step in enumerate(offset) if step == -1]
        if convection and len(upstream) == np.count_nonzero(offset) == 1:
            coupling += speeds[upstream[0]]
        values[..., k] = -coupling
        diagonal += coupling
    steps = np.array(offsets) @ strides
    columns = np.arange(n, dtype=np.int32)[:, None] + steps.astype(np.int32)
    is_kept = has_neighbour.reshape(n, stencil)
    entries = values.reshape(n, stencil)[is_kept][:, None]
    return Assembled(n, _pointers(is_kept.sum(axis=1)), columns[is_kept], entries, semidefinite=not convection)


def _offsets(dimensions: int, stencil: int) -> list[tuple[int, ...]]:
    """Return the offsets of stencil points, sorted by point number, with the centre in the middle."""
    cube_offsets = product((-1, 0, 1), repeat=dimensions)
    return [offset for offset in cube_offsets if stencil == 3**dimensions or np.count_nonzero(offset) <= 1]


def _pointers(lengths: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def assemble_arrow(rows: int, dense: int, *, coefficients: Coefficients = "constant", seed: int = 1) -> Assembled:
    """Assemble a chain of nodes with `dense` further nodes that are joined to every node, so their rows are full.

    The matrix is the weighted Laplacian of this graph plus the identity; weights are 1 or variable. It is symmetric and
    strictly diagonally dominant. The full rows come first. Raises `ReproError`: at least half of the rows are full
    ones, or the matrix is too large for 32-bit indices.
    """
    if rows <= 2 * dense:
        raise ReproError("too many full rows", expected=f"fewer than half of {rows}", actual=dense)
    if rows * (2 * dense + 3) >= 2**31:
        raise ReproError("the arrow is too large for 32-bit indices", expected=2**31, actual=rows * (2 * dense + 3))
    hubs = np.arange(dense)
    # Upper triangle: first the edges of each full row, then the edges of the chain.
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
    return Assembled(rows, pointers, column[order].astype(np.int32), values[order][:, None], semidefinite=True)


T_co = TypeVar("T_co", covariant=True)
Count = Annotated[int, Field(ge=2, le=4096)]
Circle = Annotated[int, Field(ge=3, le=20000)]
CellCount = tuple[Count, Count, Count]
HubSize = Annotated[int, Field(ge=3)]
Seed = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=-1, lt=0.5)]

# Sizes of few large and many small hubs: about 340 to 40 neighbours each in boxes, 250 to 15 on a torus.
HUBS_3D = (8, 7, *(6,) * 2, *(5,) * 4, *(4,) * 12, *(3,) * 100)
HUBS_2D = (64, *(32,) * 2, *(16,) * 6, *(8,) * 24, *(4,) * 80)


#: How parameters are checked: as the keys of a configuration are.
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class Computes(Protocol[T_co]):
    """Protocol of a kind of generated problem: its function `build` checks its keyword parameters on every call."""

    @property
    def build(self) -> Callable[..., T_co]: ...


#: Numbers of rows and of non-zeros.
Size = tuple[int, int]


@dataclass(frozen=True)
class Generator:
    entry: str
    #: Generates the matrix from keyword parameters; checks the parameters on every call.
    build: Callable[..., Assembled]
    #: Computes the matrix's size from all parameters, without generating it.
    size: Callable[[Mapping[str, Any]], Size]
    #: Whether `size` is only an upper limit, since hubs replace several vertices, or zeros are dropped.
    at_most: bool


KINDS: dict[str, Generator] = {}


def generate(kind: str, **parameters: Any) -> Assembled:
    """Generate a problem. `kind` is a key of `KINDS`; `parameters` override defaults of the kind's function.

    Raises `ReproError`: the kind or a parameter is unknown, or a value is invalid; all are listed.
    """
    return computed("problem", KINDS, kind, parameters)


def size_of(kind: str, parameters: Mapping[str, Any]) -> Size | None:
    """Return the size of a problem, or its upper limit, without generating it; None for invalid parameters."""
    if kind not in KINDS:
        return None
    arguments = {name: parameter.default for name, parameter in signature(KINDS[kind].build).parameters.items()}
    try:
        return KINDS[kind].size({**arguments, **parameters})
    except (TypeError, ValueError, KeyError):
        return None


def computed(subject: str, kinds: Mapping[str, Computes[T_co]], kind: str, parameters: Mapping[str, Any]) -> T_co:
    """Call the `build` function of a kind; raise the errors of `generate`, in which `subject` names the result."""
    if kind not in kinds:
        names = ", ".join(sorted(kinds))
        raise ReproError(f"unknown kind of generated {subject}", expected=f"one of {names}", actual=kind)
    try:
        return kinds[kind].build(**{name: with_tuples(value) for name, value in parameters.items()})
    except ValidationError as error:
        messages = []
        for item in error.errors():
            is_unknown = item["type"] == "unexpected_keyword_argument"
            text = "unknown parameter" if is_unknown else f"{item['msg']} (is {item['input']!r})"
            messages.append(f"{'.'.join(map(str, item['loc']))}: {text}")
        raise ReproError(f"wrong parameters of a generated {subject}", where=kind, actual="; ".join(messages)) from None


def _kind(
    entry: str, size: Callable[[Mapping[str, Any]], Size], *, is_upper_bound: bool = False
) -> Callable[[Callable[..., Assembled]], Callable[..., Assembled]]:
    def add(build: Callable[..., Assembled]) -> Callable[..., Assembled]:
        validated_build = validate_call(config=STRICT)(build)
        KINDS[build.__name__] = Generator(entry, validated_build, size, is_upper_bound)
        return validated_build

    return add


def _lattice_size(points: Sequence[int], offsets: Iterable[Sequence[int]]) -> Size:
    """Return the size of a matrix with an entry for each point of a lattice and each offset from it."""
    lengths = (
        prod(max(0, count - abs(step)) for count, step in zip(points, offset, strict=True)) for offset in offsets
    )
    return prod(points), sum(lengths)


def _grid_size(arguments: Mapping[str, Any]) -> Size:
    return _lattice_size(arguments["points"], _offsets(len(arguments["points"]), arguments["stencil"]))


def _box_size(arguments: Mapping[str, Any], rows: int = 1) -> Size:
    """Return the size of a matrix with `rows` rows per vertex of `lattice_box`; its edges never mix steps 1 and -1."""
    edges = [step for step in product((-1, 0, 1), repeat=3) if not {-1, 1} <= set(step)]
    n, nonzeros = _lattice_size([count + 1 for count in arguments["cells"]], edges)
    return rows * n, rows**2 * nonzeros


def _disk_size(arguments: Mapping[str, Any]) -> Size:
    """Return the size of a matrix on `disk`: each refinement divides each triangle into four, each edge into two."""
    triangles, boundary_edges = 4 * 4 ** arguments["refinements"], 4 * 2 ** arguments["refinements"]
    edges = (3 * triangles + boundary_edges) // 2
    n = 1 + edges - triangles
    return n, n + 2 * edges


def _arrow_size(arguments: Mapping[str, Any]) -> Size:
    rows, dense = arguments["rows"], arguments["dense"]
    return rows, rows + 2 * (dense * (rows - 1) - dense * (dense - 1) // 2 + rows - 1 - dense)


def _torus_size(arguments: Mapping[str, Any]) -> Size:
    n = arguments["rings"] * arguments["segments"]
    return n, 7 * n


def _stated_size(arguments: Mapping[str, Any]) -> Size:
    rows, nonzeros = arguments["size"]
    return rows, nonzeros


@_kind("real", _grid_size)
def poisson(*, points: CellCount = (22, 22, 22), stencil: Literal[7, 27] = 7) -> Assembled:
    """Poisson's equation on a grid of inner points, with the 7-point or 27-point stencil."""
    return assemble_diffusion(points, stencil)


@_kind("real", _grid_size)
def diffusion(
    *,
    points: tuple[Count, Count] | CellCount = (22, 22, 22),
    stencil: Literal[5, 7, 9, 27] = 7,
    coefficients: Coefficients = "constant",
    convection: NotNegative = 0.0,
    seed: Seed = 1,
) -> Assembled:
    """Diffusion on a grid in the plane or in space, optionally with convection."""
    return assemble_diffusion(points, stencil, coefficients=coefficients, convection=convection, seed=seed)


@_kind("pattern", _grid_size)
def grid_graph(
    *, points: tuple[Count, Count] | CellCount = (22, 22, 22), stencil: Literal[5, 7, 9, 27] = 7
) -> Assembled:
    """Graph of a grid: each point is joined to itself and to its stencil neighbours, like the pattern of
    `diffusion`.
    """
    assembled = assemble_diffusion(points, stencil)
    return replace(assembled, values=np.empty((len(assembled.indices), 0)), semidefinite=False)


@_kind("real", _arrow_size)
def arrow(
    *,
    rows: Annotated[int, Field(ge=3, le=10_000_000)] = 10_000,
    dense: Annotated[int, Field(ge=1)] = 2,
    coefficients: Coefficients = "constant",
    seed: Seed = 1,
) -> Assembled:
    """Laplacian of a chain plus a few nodes that are joined to all nodes, which give full rows and columns."""
    return assemble_arrow(rows, dense, coefficients=coefficients, seed=seed)


@_kind("real", lambda arguments: _box_size(arguments, rows=3), is_upper_bound=True)
def elasticity_scalar(
    *,
    cells: CellCount = (12, 16, 20),
    coefficients: Coefficients = "constant",
    poisson: Ratio = 0.3,
    foundation: Positive = 0.01,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box of unit cells as a real matrix with three rows per vertex; Young's modulus is 1 or varies per
    element.

    A spring with stiffness `foundation` holds each vertex, so that the matrix is not singular.
    """
    # With integer coordinates, equal cells give bitwise equal values.
    vertices, tets = lattice_box(cells)
    young = draw_field(len(tets), seed) if coefficients == "variable" else 1.0
    assembled = assemble_elasticity(vertices, tets, young=young, poisson=poisson)
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    assembled.values[rows == assembled.indices] += foundation * np.eye(3).ravel()
    return unfold(assembled, "block3")


@_kind("real", lambda arguments: _box_size(arguments, rows=2))
def helmholtz_scalar(
    *,
    cells: CellCount = (18, 19, 20),
    coefficients: Coefficients = "constant",
    wavenumber: Positive = 0.6,
    loss: NotNegative = 0.1,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box of unit cells as a real, unsymmetric matrix with two rows per vertex; `wavenumber` in radians per
    cell.
    """
    vertices, tets = lattice_box(cells)
    field = wavenumber * draw_field(len(tets), seed, contrast=0.2) if coefficients == "variable" else wavenumber
    return unfold(assemble_helmholtz(vertices, tets, wavenumber=field, loss=loss), "complex")


@_kind("real", _stated_size)
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
    """Graph with given rows, non-zeros and row lengths; rectangular if `columns` is given. See
    `repro.problems.surrogates`.
    """
    targets = LengthTargets(*size, shortest, longest, width, overflow, spread)
    return assemble_graph(targets, size[0] if columns is None else columns, family, seed)


@_kind("complex", _box_size)
def helmholtz_box(
    *, cells: CellCount = (20, 22, 24), wavenumber: Positive = 12.0, loss: NotNegative = 0.02
) -> Assembled:
    """Waves in a box whose longest side has length 1."""
    vertices, tets = lattice_box(cells)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex", _disk_size)
def helmholtz_disk(
    *,
    refinements: Annotated[int, Field(ge=1, le=11)] = 6,
    wavenumber: Positive = 40.0,
    loss: NotNegative = 0.02,
) -> Assembled:
    """Waves in a unit disk; `refinements` is the number of mesh refinements."""
    return assemble_helmholtz(*disk(refinements), wavenumber=wavenumber, loss=loss)


@_kind("complex", _box_size, is_upper_bound=True)
def helmholtz_hubs(
    *,
    cells: CellCount = (26, 26, 26),
    wavenumber: Positive = 12.0,
    loss: NotNegative = 0.02,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box whose longest side has length 1, with hubs; see `collapse`."""
    vertices, tets = collapse(lattice_box(cells), cells, hubs, seed)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex", _stated_size)
def lookalike(
    *,
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (10_000, 240_000),
    longest: Annotated[int, Field(gt=(2 * LATTICE_REACH + 1) ** 3)] = 300,
    long_rows: Annotated[int, Field(ge=1)] = 10,
    spread: NotNegative = 0.4,
    seed: Seed = 1,
) -> Assembled:
    """Replacement for an unavailable matrix, with given rows and non-zeros; see `repro.problems.surrogates`."""
    return assemble_lookalike(*size, longest=longest, hubs=long_rows, spread=spread, seed=seed)


@_kind("quaternion", _torus_size)
def dirac_torus(*, rings: Circle = 200, segments: Circle = 80, seed: Seed = 1) -> Assembled:
    """Dirac operator on a torus; `seed` determines the random curvature potential."""
    lattice, faces = lattice_torus(rings, segments)
    return assemble_dirac(wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("quaternion", lambda arguments: (arguments["rows"], 7 * arguments["rows"] - 12))
def dirac_blob(*, rows: Annotated[int, Field(ge=12, le=10_000_000)] = 10_000, seed: Seed = 1) -> Assembled:
    """Dirac operator on a closed surface with irregular connectivity."""
    return assemble_dirac(*blob(rows), seed=seed)


@_kind("quaternion", _torus_size, is_upper_bound=True)
def dirac_hubs(
    *,
    rings: Circle = 160,
    segments: Circle = 160,
    hubs: tuple[HubSize, ...] = HUBS_2D,
    seed: Seed = 1,
) -> Assembled:
    """Dirac operator on a torus with hubs: see `collapse`."""
    lattice, faces = collapse(lattice_torus(rings, segments), (rings, segments), hubs, seed)
    return assemble_dirac(wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("block3", _box_size)
def elasticity_box(*, cells: CellCount = (12, 16, 40), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic box whose longest side has length 1."""
    vertices, tets = lattice_box(cells)
    return elastic_body(vertices / max(cells), tets, young=young, poisson=poisson)


@_kind("block3", _box_size)
def elasticity_mapped(*, cells: CellCount = (14, 14, 60), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic bar with a tapered, twisted and bent shape; see `horn`."""
    lattice, tets = lattice_box(cells)
    return elastic_body(horn_vertices(lattice, cells), tets, young=young, poisson=poisson)


@_kind("block3", _box_size, is_upper_bound=True)
def elasticity_hubs(
    *,
    cells: CellCount = (24, 24, 24),
    young: Positive = 1.0,
    poisson: Ratio = 0.3,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box whose longest side has length 1, with hubs; see `collapse`."""
    vertices, tets = collapse(lattice_box(cells), cells, hubs, seed)
    return elastic_body(vertices / max(cells), tets, young=young, poisson=poisson)
