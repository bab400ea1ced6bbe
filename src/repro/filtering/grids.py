"""Triangulations of a periodic rectangle, and sorting of their points and triangles into grids, patches and parts.

Grids follow King 2017, section 3.2, algorithms 2 and 3. Code that records problems imports this module, so the module
must not import code that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array

from repro.errors import ReproError
from repro.filtering.spline_kernel import kernel
from repro.galerkin import evaluation_rule
from repro.problems.assembly import DEGENERATE, longest_edges
from repro.problems.field import Field
from repro.problems.problem import infinite, outside, refuse

Floats = NDArray[np.float64]
#: Tolerance, relative to the box, for the sum of the triangles' areas and for the means of `MEANS` over all triangles.
COVERED = 1e-10
#: Means of x, y, x², x y and y² over the unit square.
MEANS = np.array([1 / 2, 1 / 2, 1 / 3, 1 / 4, 1 / 3])


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Triangles that cover a periodic box exactly once; the box is the bounding box of the vertices.

    Vertices on opposite sides of the box need not match, since fields are discontinuous.
    """

    vertices: Floats
    #: int32 `(t, 3)`, counterclockwise.
    triangles: NDArray[np.int32]
    #: Number of triangles that were given clockwise; their last two vertices were exchanged, so modes need conversion.
    flipped: int

    @cached_property
    def lower(self) -> Floats:
        return np.asarray(self.vertices.min(axis=0), np.float64)

    @cached_property
    def period(self) -> Floats:
        return np.asarray(self.vertices.max(axis=0) - self.lower, np.float64)

    @cached_property
    def corners(self) -> Floats:
        """Coordinates of the corners of each triangle, float64 `(t, 3, 2)`."""
        return np.asarray(self.vertices[self.triangles], np.float64)

    @cached_property
    def areas(self) -> Floats:
        return _signed_areas(self.corners)

    @cached_property
    def longest(self) -> float:
        """Length s of the longest edge, which King 2017 uses as h (section 3.2)."""
        return float(longest_edges(self.corners).max())

    def wrapped(self, points: ArrayLike) -> Floats:
        """Move points into the box by multiples of the period; if no point is outside, return the array itself."""
        coordinates = np.asarray(points, np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != 2:
            raise ReproError("the points do not fit", expected="(n, 2)", actual=coordinates.shape)
        refuse(
            "the points",
            "points are not finite",
            infinite(coordinates),
            location=lambda i: f"{i}",
            expected="finite numbers",
        )
        in_period = (coordinates >= self.lower) & (coordinates <= self.lower + self.period)
        if in_period.all():
            return coordinates
        wrapped_points = np.mod(coordinates - self.lower, self.period) + self.lower
        return np.where(in_period, coordinates, wrapped_points)  # points inside keep their bits


def triangulation(vertices: ArrayLike, triangles: ArrayLike, where: str = "the mesh") -> Triangulation:
    """Check a mesh with vertices `(v, 2)` and triangles `(t, 3)`, and turn its triangles counterclockwise.

    The bounding box of the vertices is the period; `where` names the mesh in errors. Hanging nodes are allowed. It
    raises `ReproError` for invalid shapes, vertices or triangles, and for gaps and overlaps. These are found from the
    sum of the areas, and from means of coordinates if gaps are as large as overlaps. Tiny gaps and overlaps are not
    found; rows of the filter near them do not add up to 1.
    """
    points, cells = np.asarray(vertices, np.float64), np.asarray(triangles)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ReproError("the vertices have the wrong shape", where=where, expected="(v, 2)", actual=points.shape)
    if not cells.size:
        raise ReproError("the mesh has no triangles", where=where)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.dtype.kind not in "iu":
        actual = f"{cells.dtype} {cells.shape}"
        raise ReproError("the triangles do not fit", where=where, expected="whole numbers (t, 3)", actual=actual)
    endless, absent = infinite(points), np.any(outside(cells, len(points)), axis=1)
    refuse(
        where,
        "the mesh has vertices that are not finite",
        endless,
        location="vertex {}".format,
        expected="finite numbers",
    )
    numbers = f"vertices 0 to {len(points) - 1}"
    refuse(
        where,
        "the mesh has triangles with vertices that do not exist",
        absent,
        location="triangle {}".format,
        expected=numbers,
    )
    cells = cells.astype(np.int32)
    corners = points[cells]
    areas = _signed_areas(corners)
    thin = np.abs(areas) <= DEGENERATE * longest_edges(corners) ** 2
    thick = f"an area of more than {DEGENERATE:g} of the longest edge squared"
    refuse(where, "the mesh has degenerate triangles", thin, location="triangle {}".format, expected=thick)
    clockwise = areas < 0
    cells[clockwise] = cells[clockwise][:, [0, 2, 1]]
    mesh = Triangulation(points, cells, int(np.count_nonzero(clockwise)))
    total_area, box = float(np.abs(areas).sum()), float(mesh.period.prod())
    if abs(total_area - box) > COVERED * box:
        raise ReproError(
            "the triangles do not cover their box exactly once: there are gaps or overlaps",
            where=where,
            expected=f"areas that add up to {box:.17g}, the area of the box around all vertices",
            actual=f"{total_area:.17g}",
        )
    means = _means(mesh)
    if (np.abs(means - MEANS) > COVERED).any():
        raise ReproError(
            "the triangles do not cover their box exactly once: there are gaps, and overlaps of the same area",
            where=where,
            expected=f"means of x, y, x², x y, y² over all triangles, on the unit square, of {_number_list(MEANS)}",
            actual=_number_list(means),
            todo="look for duplicate and missing triangles",
        )
    return mesh


def of_field(field: Field) -> Triangulation:
    """Return the triangulation of a field in the plane, which must be periodic, as the filter cannot treat borders."""
    if field.dimension != 2:
        raise ReproError("the field is not in the plane", where=field.name, expected=2, actual=field.dimension)
    if not field.periodic:
        raise ReproError("the field is not periodic", where=field.name, expected="a periodic field")
    return triangulation(field.vertices, field.cells, field.name)


def evaluation_points(mesh: Triangulation, degree: int) -> Floats:
    """Return the Q = (P + 2)(P + 1) quadrature points of each triangle, `(t Q, 2)` (King 2017, section 4.2.2)."""
    rule = evaluation_rule(degree, 2).points
    first = mesh.corners[:, 0]
    sides = mesh.corners[:, 1:] - first[:, None]
    points: Floats = rule @ sides
    points += first[:, None]  # in place, as a second array of twenty million points takes longer than the rest
    return points.reshape(-1, 2)


def _signed_areas(corners: Floats) -> Floats:
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas: Floats = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    return areas


def _means(mesh: Triangulation) -> Floats:
    """Return the integrals of x, y, x², x y and y² over all triangles, after scaling the box to the unit square."""
    places = (mesh.corners - mesh.lower) / mesh.period
    areas = mesh.areas / mesh.period.prod()
    x, y = ([places[:, i, axis] for i in range(3)] for axis in range(2))
    along_x, along_y = x[0] + x[1] + x[2], y[0] + y[1] + y[2]

    def second(first: list[Floats], other: list[Floats], sums: Floats) -> float:
        return float(areas @ (first[0] * other[0] + first[1] * other[1] + first[2] * other[2] + sums)) / 12

    first = areas @ along_x / 3, areas @ along_y / 3
    squares = second(x, x, along_x**2), second(x, y, along_x * along_y), second(y, y, along_y**2)
    return np.array([*first, *squares])


def _number_list(numbers: Floats) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)


Integers = NDArray[np.int64]

MAX_CELLS = 1 << 28


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal cells over the periodic box of a mesh, and the points or triangles (members) in each cell.

    Cell (x, y) has the number y nx + x. A cell index c along an axis with n cells may lie outside 0 … n - 1; the cell
    then belongs to the periodic image that is ⌊c / n⌋ periods away.
    """

    lower: Floats
    #: Number of cells along the axes: nx, ny.
    shape: tuple[int, int]
    #: Number of cells per unit of length, along each axis.
    inverse: Floats
    #: `(nx ny + 1,)`, offset in `members` at which each cell begins; int64 from 2³¹ members on.
    starts: NDArray[np.signedinteger[Any]]
    #: Numbers of points or triangles, sorted by cell, then by number; int64 from 2³¹ members on.
    members: NDArray[np.signedinteger[Any]]
    #: Largest distance, along each axis, from a member's position to the edge of its bounding box; 0 for points. A
    #: search must extend the stencil by this distance.
    reach: Floats

    @cached_property
    def cell_of_member(self) -> NDArray[np.int32]:
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def cells_of(self, positions: Floats) -> Integers:
        """Return the cell indices along both axes for positions `(n, 2)`, without periodic wrapping."""
        return np.floor((positions - self.lower) * self.inverse).astype(np.int64)


def grid_of_points(mesh: Triangulation, points: Floats, size: float | None = None) -> Grid:
    """Return a grid of points; by default, cells are s / 2 wide, with s the longest edge (King 2017, section 3.2.2)."""
    return _grid(mesh, mesh.wrapped(points), mesh.longest / 2 if size is None else size, np.zeros(2))


def grid_of_triangles(mesh: Triangulation, size: float | None = None) -> Grid:
    """Return a grid of triangles by centroid; by default, cells are as wide as the longest edge s (section 3.2.1)."""
    centroids = mesh.corners.mean(axis=1)
    reach = np.abs(mesh.corners - centroids[:, None]).max(axis=(0, 1))
    return _grid(mesh, centroids, mesh.longest if size is None else size, reach)


def _grid(mesh: Triangulation, positions: Floats, size: float, reach: Floats) -> Grid:
    if not (np.isfinite(size) and size > 0):
        raise ReproError("the cell size of a grid must be positive", expected="a positive number", actual=size)
    if float(np.prod(mesh.period / size)) > MAX_CELLS:
        raise ReproError("the grid has too many cells", expected=f"at most {MAX_CELLS:,}", actual=f"cells of {size:g}")
    # King 2017 uses ⌈period / size⌉, but then cells are smaller than the halo assumes, or the last cell is cut off
    shape = np.maximum(np.floor(mesh.period / size), 1).astype(np.int64)
    inverse = shape / mesh.period
    # sorting into cells by a conversion to CSR takes a third of the time of a sort by keys
    number = np.zeros(len(positions), np.int32)
    for axis in (1, 0):
        cells = ((positions[:, axis] - mesh.lower[axis]) * inverse[axis]).astype(np.int32)
        number = number * np.int32(shape[axis]) + np.clip(cells, 0, int(shape[axis]) - 1)
    count = len(positions)
    index = np.int32 if count < 2**31 else np.int64
    columns = np.zeros(count, np.bool_), number, np.arange(count + 1, dtype=index)
    cell_members = csc_array(columns, shape=(int(shape.prod()), count)).tocsr()
    starts, members = (array.astype(index, copy=False) for array in (cell_members.indptr, cell_members.indices))
    return Grid(mesh.lower, (int(shape[0]), int(shape[1])), inverse, starts, members, reach)


def row_tiles(grid: Grid, n_rows: int) -> NDArray[np.int32]:
    """Cut `grid.members` into tiles of at most `n_rows` successive members; return their starts, int32 `(tiles + 1,)`.

    A tile never continues into the next row of cells, as the first cell of the next row is far away.
    """
    begins = grid.starts[:: grid.shape[0]].astype(np.int64)
    tiles = -(-np.diff(begins) // n_rows)
    first = np.repeat(np.cumsum(tiles) - tiles, tiles)
    starts = np.repeat(begins[:-1], tiles) + n_rows * (np.arange(len(first)) - first)
    return np.append(starts, begins[-1]).astype(np.int32)


def count_tests(mesh: Triangulation, points: Floats, degree: int) -> tuple[int, int]:
    """Count the intersection tests of per-point and per-element filtering by King 2017, eq. 3.1 and Table 3.1.

    As in the paper, there are ⌈period / c⌉ cells along each axis, with c = s and a halo of one cell for centroids, and
    c = s / 2 for points. If a stencil is wider than the domain, periodic images count separately.
    """
    s = mesh.longest
    half = kernel(degree).width * s / 2
    places = mesh.wrapped(points) - mesh.lower
    corners = mesh.corners - mesh.lower
    low, high = corners.min(axis=1), corners.max(axis=1)
    point_tests = _count_candidates(corners.mean(axis=1), s, mesh.period, places - half, places + half, halo=1)
    element_tests = _count_candidates(places, s / 2, mesh.period, low - half, high + half, halo=0)
    return point_tests, element_tests


def _count_candidates(positions: Floats, size: float, period: Floats, low: Floats, high: Floats, *, halo: int) -> int:
    """Count the positions in the cells from `low` to `high`, including periodic images, by prefix sums."""
    nx, ny = (int(n) for n in np.ceil(period / size))
    cells = np.minimum(np.floor(positions / size).astype(np.int64), [nx - 1, ny - 1])
    cell_counts = np.bincount(cells[:, 1] * nx + cells[:, 0], minlength=nx * ny).reshape(ny, nx)
    cumulative = np.zeros((ny + 1, nx + 1), np.int64)
    cumulative[1:, 1:] = cell_counts.cumsum(axis=0).cumsum(axis=1)

    def before(x: Integers, y: Integers) -> Integers:
        """Return the number of positions in the cells [0, x) × [0, y), including periodic images."""
        (turns_x, rest_x), (turns_y, rest_y) = np.divmod(x, nx), np.divmod(y, ny)
        partial_turns = turns_x * cumulative[rest_y, nx] + turns_y * cumulative[ny, rest_x]
        total: Integers = turns_x * turns_y * cumulative[ny, nx] + partial_turns + cumulative[rest_y, rest_x]
        return total

    first = np.floor(low / size).astype(np.int64) - halo
    last = np.floor(high / size).astype(np.int64) + halo + 1
    (x0, y0), (x1, y1) = first.T, last.T
    return int((before(x1, y1) - before(x0, y1) - before(x1, y0) + before(x0, y0)).sum())


#: Relative margin added to the width of a stencil, for rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Patches:
    """Patches of triangles; each patch has a copy of the solution at the points near it (King 2017, section 3.3.2)."""

    #: Triangle numbers, patch by patch; `starts` has the offset of each patch.
    order: NDArray[np.int32]
    starts: NDArray[np.int32]
    #: `(patches, 4)`: x and y index of the first cell near a patch, unwrapped; number of cells per row; start in
    #: `offsets`.
    tiles: NDArray[np.int32]
    #: For each cell of each patch: index of the first copy of the cell's points.
    offsets: NDArray[np.int32]
    copies: int
    #: `copy_offsets` has the numbers of `offsets`, sorted by grid cell; `copy_starts` has the start of each cell's
    #: list.
    copy_starts: NDArray[np.int32]
    copy_offsets: NDArray[np.int32]

    def overhead(self, points: int) -> float:
        """Return the number of additional copies per point (King 2017, Figure 3.7)."""
        return self.copies / points - 1.0


def parts_of(mesh: Triangulation, count: int) -> list[NDArray[np.int64]]:
    """Cut a mesh into `count` parts, but at most one part per triangle, by recursive bisection."""
    return bisected(mesh.corners.mean(axis=1), min(count, len(mesh.triangles)))


def part_begins(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    """Return the offset of each part in the concatenation of all parts, int32 `(parts + 1,)`."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32)


def patches_of(
    mesh: Triangulation,
    grid: Grid,
    half: float,
    parts: Sequence[NDArray[np.int64]],
    share: tuple[int, int] = (0, 1),
) -> Patches:
    """Lay out the copies of the solution for all patches; `half` is half the width of the stencil.

    `share` (i, n): use only the i-th of n runs of consecutive patches, with one run per device. It raises ValueError if
    the run has no patch.
    """
    # a device may round a point on the line between two cells into either cell
    half *= 1 + ROUNDING
    index, shares = share
    own_parts = parts[len(parts) * index // shares : len(parts) * (index + 1) // shares]
    if not own_parts:
        raise ValueError(f"{len(parts)} patches for {shares} shares")
    parts = own_parts
    lengths = np.diff(grid.starts).reshape(grid.shape[1], grid.shape[0])
    tiles, offsets, cells = [], [], []
    entries = copies = 0
    for part in parts:
        corners = mesh.corners[part]
        first, last = grid.cells_of(np.stack([corners.min(axis=(0, 1)) - half, corners.max(axis=(0, 1)) + half]))
        cell_columns = np.arange(first[0], last[0] + 1) % grid.shape[0]
        cell_rows = np.arange(first[1], last[1] + 1) % grid.shape[1]
        sizes = lengths[np.ix_(cell_rows, cell_columns)].ravel()
        ends = copies + np.cumsum(sizes)
        tiles.append((first[0], first[1], len(cell_columns), entries))
        offsets.append(ends - sizes)
        cells.append((cell_rows[:, None] * grid.shape[0] + cell_columns).ravel())
        entries += len(sizes)
        copies = int(ends[-1])
    cell, offset = np.concatenate(cells), np.concatenate(offsets)
    cell_order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=len(grid.starts) - 1)
    return Patches(
        np.concatenate(parts).astype(np.int32),
        part_begins(parts),
        np.array(tiles, np.int32),
        offset.astype(np.int32),
        copies,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        offset[cell_order].astype(np.int32),
    )


def bisected(positions: Floats, count: int, weights: Floats | None = None) -> list[NDArray[np.int64]]:
    """Cut positions into `count` non-empty parts of about equal weight, recursively across the longer side."""
    point_weights = np.ones(len(positions)) if weights is None else weights

    def cut(members: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
        if parts == 1:
            return [np.sort(members)]
        member_positions = positions[members]
        axis = int(np.argmax(np.ptp(member_positions, axis=0)))
        members = members[np.argsort(member_positions[:, axis], kind="stable")]
        left_parts = parts // 2
        cumulative = np.cumsum(point_weights[members])
        place = int(np.searchsorted(cumulative, cumulative[-1] * left_parts / parts, side="right"))
        place = min(max(place, left_parts), len(members) - (parts - left_parts))
        return [*cut(members[:place], left_parts), *cut(members[place:], parts - left_parts)]

    return cut(np.arange(len(positions)), count)


def work_of_cells(mesh: Triangulation, grid: Grid, half: float, work: Floats) -> Floats:
    """Estimate the work of filtering at one point in each cell, `(nx ny,)`, positive, in an arbitrary unit.

    `work` `(t,)` is the work per triangle. It is summed over the triangles in a box around the cell that is as wide as
    a stencil plus a mean triangle.
    """
    from scipy.ndimage import uniform_filter  # slow to import

    nx, ny = grid.shape
    cells = np.clip(grid.cells_of(mesh.corners.mean(axis=1)), 0, [nx - 1, ny - 1])
    cell_work = np.bincount(cells[:, 1] * nx + cells[:, 0], weights=work, minlength=nx * ny).reshape(ny, nx)
    reach = (half + np.ptp(mesh.corners, axis=1).mean(axis=0) / 2) * grid.inverse
    # an odd number of cells, so that the box is symmetric about the cell
    columns, rows = (2 * int(number) + 1 for number in reach)
    sums = uniform_filter(cell_work, size=(rows, columns), mode="wrap")
    # the running sums may leave rounding errors, even negative ones, in empty cells
    return np.asarray(np.maximum(sums, 1e-9 * cell_work.mean()).ravel(), np.float64)


def consecutive(grid: Grid, work: Floats, count: int) -> NDArray[np.int64]:
    """Cut the sorted points of a grid into `count` consecutive parts of equal work; return starts, `(count + 1,)`.

    `work` is the work per point in each cell.
    """
    before = np.concatenate([[0.0], np.cumsum(np.diff(grid.starts) * work)])
    # all points of a cell have equal work, so a cut may be within a cell
    cuts = np.interp(before[-1] * np.arange(count + 1) / count, before, grid.starts)
    return np.asarray(np.rint(cuts), np.int64)


T = TypeVar("T")


class SortedCells:
    """A mesh and points on the mesh; grids, tiles and patches are made at first use and cached.

    Sorting a million triangles and twenty million points takes seconds, and dozens of variants use the same grids.
    """

    def __init__(self, mesh: Triangulation, points: Floats) -> None:
        self.mesh, self.count, self._points = mesh, len(points), points
        self._cache: dict[Hashable, Any] = {}

    def triangles(self, size: float | None = None) -> Grid:
        return self._keep(("triangles", size), lambda: grid_of_triangles(self.mesh, size))

    def points(self, size: float | None = None) -> Grid:
        return self._keep(("points", size), lambda: grid_of_points(self.mesh, self._wrapped_points, size))

    def positions(self, size: float | None = None) -> tuple[Floats, Floats]:
        """Return x and y of the points, wrapped into the box and sorted by grid cell."""

        def make() -> tuple[Floats, Floats]:
            order = self.points(size).members
            return self._wrapped_points[:, 0][order], self._wrapped_points[:, 1][order]

        return self._keep(("positions", size), make)

    def tiles(self, n_rows: int, size: float | None = None) -> NDArray[np.int32]:
        return self._keep(("tiles", n_rows, size), lambda: row_tiles(self.points(size), n_rows))

    def parts(self, count: int) -> list[NDArray[np.int64]]:
        return self._keep(("parts", count), lambda: parts_of(self.mesh, count))

    def patches(self, half: float, count: int, size: float | None = None, share: tuple[int, int] = (0, 1)) -> Patches:
        def make() -> Patches:
            return patches_of(self.mesh, self.points(size), half, self.parts(count), share)

        return self._keep(("patches", half, count, size, share), make)

    @cached_property
    def _wrapped_points(self) -> Floats:
        return self.mesh.wrapped(self._points)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = make()
        value: T = self._cache[key]
        return value
