"""Points and triangles in cells of uniform grids, on the host, and cut into patches and shares of equal work.

A point looks for triangles in a grid of their centroids, a triangle for points in a grid of them (King 2017,
section 3.2, algorithms 2 and 3, eq. 3.1). Grids are arrays for a device; the paper's own are here as well, to
count their tests. Patches of triangles have each a copy of the solution on the cells around it (section 3.3.2).
Several devices get consecutive points of equal work. Sorted cells are made once for all ways to filter that look
in the same cells.

Records of problems are made from this module, so that it imports nothing that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.sparse import csc_array

from repro.errors import ReproError
from repro.filtering.spline_kernel import kernel
from repro.filtering.triangulation import Triangulation

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Cells of a grid at most.
CELLS = 1 << 28


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal cells over the periodic box of a mesh, and the members of each.

    A cell has the number y nx + x; the cell of a coordinate is ⌊(coordinate - lower) · inverse⌋, and numbers beyond
    0 … n - 1 are cells of images: number c lies ⌊c / n⌋ periods away.

    Attributes
    ----------
    lower
        float64 `(2,)`, where cell 0 begins.
    shape
        nx, ny.
    inverse
        float64 `(2,)`, cells per unit of length.
    starts
        `(nx ny + 1,)`, where each cell's members begin; int32, or int64 from 2³¹ members on.
    members
        int32 (int64 from 2³¹ members on), the numbers of points or triangles, sorted by cell, then by number.
    reach
        float64 `(2,)`, how far a member's box reaches from the position that it is listed at: 0 for points. A search
        has to go that far beyond the stencil.
    """

    lower: Floats
    shape: tuple[int, int]
    inverse: Floats
    starts: NDArray[np.signedinteger[Any]]
    members: NDArray[np.signedinteger[Any]]
    reach: Floats

    @cached_property
    def cell_of_member(self) -> NDArray[np.int32]:
        """int32, the cell of each of `members`."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def cells_of(self, positions: Floats) -> Integers:
        """Return the numbers along both axes of the cells `(n, 2)` of positions `(n, 2)`, not wrapped."""
        return np.floor((positions - self.lower) * self.inverse).astype(np.int64)


def grid_of_points(mesh: Triangulation, points: Floats, size: float | None = None) -> Grid:
    """Return the grid of points, those outside wrapped.

    Parameters
    ----------
    mesh
        Whose box the grid divides.
    points
        float64 `(n, 2)`.
    size
        The least size of a cell; None: s / 2, as the paper (section 3.2.2).

    Raises
    ------
    ReproError
        The size is not a positive number or makes more than 2²⁸ cells, or a point is not finite.
    """
    return _grid(mesh, mesh.wrapped(points), mesh.longest / 2 if size is None else size, np.zeros(2))


def grid_of_triangles(mesh: Triangulation, size: float | None = None) -> Grid:
    """Return the grid of triangles, each listed in the cell of its centroid.

    Parameters
    ----------
    mesh
        Of the triangles.
    size
        The least size of a cell; None: s, as the paper (section 3.2.1).

    Raises
    ------
    ReproError
        The size is not a positive number, or makes more than 2²⁸ cells.
    """
    centroids = mesh.corners.mean(axis=1)
    reach = np.abs(mesh.corners - centroids[:, None]).max(axis=(0, 1))
    return _grid(mesh, centroids, mesh.longest if size is None else size, reach)


def _grid(mesh: Triangulation, positions: Floats, size: float, reach: Floats) -> Grid:
    if not (np.isfinite(size) and size > 0):
        raise ReproError("the cells of a grid have no size", expected="a positive number", actual=size)
    if float(np.prod(mesh.period / size)) > CELLS:
        raise ReproError("the grid has too many cells", expected=f"at most {CELLS:,}", actual=f"cells of {size:g}")
    # the text's ⌈period / size⌉ makes cells smaller than what its halo is made for, or a last one that is cut off
    shape = np.maximum(np.floor(mesh.period / size), 1).astype(np.int64)
    inverse = shape / mesh.period
    # axis by axis, and counted into cells instead of compared: a third of the time that sorting takes
    number = np.zeros(len(positions), np.int32)
    for axis in (1, 0):
        cells = ((positions[:, axis] - mesh.lower[axis]) * inverse[axis]).astype(np.int32)
        number = number * np.int32(shape[axis]) + np.clip(cells, 0, int(shape[axis]) - 1)
    count = len(positions)
    index = np.int32 if count < 2**31 else np.int64
    columns = np.zeros(count, np.bool_), number, np.arange(count + 1, dtype=index)
    by_cell = csc_array(columns, shape=(int(shape.prod()), count)).tocsr()
    starts, members = (array.astype(index, copy=False) for array in (by_cell.indptr, by_cell.indices))
    return Grid(mesh.lower, (int(shape[0]), int(shape[1])), inverse, starts, members, reach)


def tiles_of(grid: Grid, rows: int) -> NDArray[np.int32]:
    """Return where tiles of so many members or fewer begin, in a row of cells each, and the last one ends.

    Returns
    -------
    ndarray
        int32 `(tiles + 1,)`, places in `grid.members`. A tile does not go on in the next row of cells, whose first cell
        is far from the last one.
    """
    begins = grid.starts[:: grid.shape[0]].astype(np.int64)
    tiles = -(-np.diff(begins) // rows)
    first = np.repeat(np.cumsum(tiles) - tiles, tiles)
    starts = np.repeat(begins[:-1], tiles) + rows * (np.arange(len(first)) - first)
    return np.append(starts, begins[-1]).astype(np.int32)


def count_tests(mesh: Triangulation, points: Floats, degree: int) -> tuple[int, int]:
    """Count the intersection tests of both algorithms by the text's bounds (King 2017, eq. 3.1, Table 3.1).

    Cells are as the text has them, ⌈period / c⌉ a direction with ⌊x / c⌋ as index, c = s for centroids with a halo of
    one cell, and c = s / 2 for points without. Beyond the border the numbers of cells are wrapped, so that a stencil
    wider than the domain counts images.

    Parameters
    ----------
    mesh
        A triangulation; h is its longest edge s, so that a stencil is w = (3k + 1) s wide.
    points
        float64 `(n, 2)`, evaluation points; those outside are wrapped.
    degree
        k, of the kernel.

    Returns
    -------
    per_point, per_element
        How many pairs of a point and a triangle are tested.

    Raises
    ------
    ReproError
        The degree is none of a kernel, or a point is not finite.
    """
    s = mesh.longest
    half = kernel(degree).width * s / 2
    places = mesh.wrapped(points) - mesh.lower
    corners = mesh.corners - mesh.lower
    low, high = corners.min(axis=1), corners.max(axis=1)
    per_point = _listed(corners.mean(axis=1), s, mesh.period, places - half, places + half, halo=1)
    per_element = _listed(places, s / 2, mesh.period, low - half, high + half, halo=0)
    return per_point, per_element


def _listed(positions: Floats, size: float, period: Floats, low: Floats, high: Floats, *, halo: int) -> int:
    """Count the positions in the cells from `low` to `high`, both `(n, 2)`, over all n boxes, by prefix sums."""
    nx, ny = (int(n) for n in np.ceil(period / size))
    cells = np.minimum(np.floor(positions / size).astype(np.int64), [nx - 1, ny - 1])
    listed = np.bincount(cells[:, 1] * nx + cells[:, 0], minlength=nx * ny).reshape(ny, nx)
    below = np.zeros((ny + 1, nx + 1), np.int64)
    below[1:, 1:] = listed.cumsum(axis=0).cumsum(axis=1)

    def before(x: Integers, y: Integers) -> Integers:
        """Return how many positions, images with them, lie in the cells [0, x) × [0, y); negative to the other side."""
        (turns_x, rest_x), (turns_y, rest_y) = np.divmod(x, nx), np.divmod(y, ny)
        across = turns_x * below[rest_y, nx] + turns_y * below[ny, rest_x]
        total: Integers = turns_x * turns_y * below[ny, nx] + across + below[rest_y, rest_x]
        return total

    first = np.floor(low / size).astype(np.int64) - halo
    last = np.floor(high / size).astype(np.int64) + halo + 1
    (x0, y0), (x1, y1) = first.T, last.T
    return int((before(x1, y1) - before(x0, y1) - before(x1, y0) + before(x0, y0)).sum())


#: By how much of its width a stencil is taken to be wider.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Patches:
    """Triangles in patches, and where each patch's copies of points lie.

    Attributes
    ----------
    order
        int32 `(t,)`, triangles patch by patch.
    starts
        int32 `(patches + 1,)`, where each patch begins in `order`.
    tiles
        int32 `(patches, 4)`: x and y of the tile's first cell, numbered on beyond the box; its cells in a row; and
        where its offsets begin.
    offsets
        int32, for each cell of each tile where the copies of its points begin.
    copies
        How many copies there are in all.
    copy_starts, copy_offsets
        int32, for each cell of the grid, wrapped, where the copies of its points begin: patch by patch.
    """

    order: NDArray[np.int32]
    starts: NDArray[np.int32]
    tiles: NDArray[np.int32]
    offsets: NDArray[np.int32]
    copies: int
    copy_starts: NDArray[np.int32]
    copy_offsets: NDArray[np.int32]

    def overhead(self, points: int) -> float:
        """Return the copies beside one solution of so many points, as Figure 3.7 has it."""
        return self.copies / points - 1.0


def parts_of(mesh: Triangulation, count: int) -> list[NDArray[np.int64]]:
    """Cut a mesh into so many parts, at most as many as it has triangles, by recursive bisection."""
    return bisected(mesh.corners.mean(axis=1), min(count, len(mesh.triangles)))


def begins_of(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    """Return where each of some parts begins and the last one ends, one behind the other, int32 `(parts + 1,)`."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32)


def patches_of(
    mesh: Triangulation,
    grid: Grid,
    half: float,
    parts: Sequence[NDArray[np.int64]],
    share: tuple[int, int] = (0, 1),
) -> Patches:
    """Lay out the copies of a mesh's patches.

    Parameters
    ----------
    mesh
        A triangulation.
    grid
        Of the points.
    half
        Half of the support's width: how far from a triangle's box a point may be.
    parts
        The triangles of each patch, such as those of `parts_of`.
    share
        Which of how many shares of them are laid out, neighbours that follow each other: a device's.

    Raises
    ------
    ValueError
        There is no patch in that share.
    """
    # a device may round to the next cell what lies on the line between two of them
    half *= 1 + ROUNDING
    at, shares = share
    own = parts[len(parts) * at // shares : len(parts) * (at + 1) // shares]
    if not own:
        raise ValueError(f"{len(parts)} patches for {shares} shares")
    parts = own
    lengths = np.diff(grid.starts).reshape(grid.shape[1], grid.shape[0])
    tiles, offsets, cells = [], [], []
    entries = copies = 0
    for part in parts:
        corners = mesh.corners[part]
        first, last = grid.cells_of(np.stack([corners.min(axis=(0, 1)) - half, corners.max(axis=(0, 1)) + half]))
        across = np.arange(first[0], last[0] + 1) % grid.shape[0]
        along = np.arange(first[1], last[1] + 1) % grid.shape[1]
        sizes = lengths[np.ix_(along, across)].ravel()
        ends = copies + np.cumsum(sizes)
        tiles.append((first[0], first[1], len(across), entries))
        offsets.append(ends - sizes)
        cells.append((along[:, None] * grid.shape[0] + across).ravel())
        entries += len(sizes)
        copies = int(ends[-1])
    cell, offset = np.concatenate(cells), np.concatenate(offsets)
    by_cell = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=len(grid.starts) - 1)
    return Patches(
        np.concatenate(parts).astype(np.int32),
        begins_of(parts),
        np.array(tiles, np.int32),
        offset.astype(np.int32),
        copies,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        offset[by_cell].astype(np.int32),
    )


def bisected(positions: Floats, count: int, weights: Floats | None = None) -> list[NDArray[np.int64]]:
    """Cut positions into parts of about equal weight, again and again across the longer side of each.

    Parameters
    ----------
    positions
        float64 `(n, 2)`.
    count
        Parts, 1 to n.
    weights
        float64 `(n,)`, positive; None: all equal.

    Returns
    -------
    list of ndarray
        Numbers of positions, in their order within a part; no part is empty.
    """
    shares = np.ones(len(positions)) if weights is None else weights

    def cut(members: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
        if parts == 1:
            return [np.sort(members)]
        own = positions[members]
        axis = int(np.argmax(np.ptp(own, axis=0)))
        members = members[np.argsort(own[:, axis], kind="stable")]
        left = parts // 2
        before = np.cumsum(shares[members])
        at = int(np.searchsorted(before, before[-1] * left / parts, side="right"))
        at = min(max(at, left), len(members) - (parts - left))
        return [*cut(members[:at], left), *cut(members[at:], parts - left)]

    return cut(np.arange(len(positions)), count)


def work_of_cells(mesh: Triangulation, grid: Grid, half: float, work: Floats) -> Floats:
    """Return about how much work filtering at a point is, for each cell that it may lie in.

    It is that of the triangles whose stencils reach the point, counted by the cells of their centroids: a box of cells
    as wide as a stencil and a triangle's box, which is that of the mean triangle.

    Parameters
    ----------
    mesh
        A triangulation.
    grid
        Of the points.
    half
        Half of the stencil's width, in units of the mesh.
    work
        float64 `(t,)`, of a pair of a point and each triangle, positive, in any unit.

    Returns
    -------
    ndarray
        float64 `(nx ny,)`, by the cells' numbers, in a unit of its own; positive.
    """
    nx, ny = grid.shape
    cells = np.clip(grid.cells_of(mesh.corners.mean(axis=1)), 0, [nx - 1, ny - 1])
    listed = np.bincount(cells[:, 1] * nx + cells[:, 0], weights=work, minlength=nx * ny).reshape(ny, nx)
    reach = (half + np.ptp(mesh.corners, axis=1).mean(axis=0) / 2) * grid.inverse
    # an odd number of cells lies the same on all sides
    across, along = (2 * int(number) + 1 for number in reach)
    sums = uniform_filter(listed, size=(along, across), mode="wrap")
    # running sums may leave rounding where there is nothing
    return np.asarray(np.maximum(sums, 1e-9 * listed.mean()).ravel(), np.float64)


def consecutive(grid: Grid, work: Floats, count: int) -> NDArray[np.int64]:
    """Cut the points of a grid, cell by cell, into consecutive parts of equal work.

    Parameters
    ----------
    grid
        Of the points.
    work
        float64 `(nx ny,)`, of a point in each cell.
    count
        Parts.

    Returns
    -------
    ndarray
        int64 `(count + 1,)`, where each part begins in the grid's order, and the last one ends. Where there are fewer
        points than parts some are empty.
    """
    before = np.concatenate([[0.0], np.cumsum(np.diff(grid.starts) * work)])
    # the points of a cell are alike, so that a cell may be cut anywhere
    cuts = np.interp(before[-1] * np.arange(count + 1) / count, before, grid.starts)
    return np.asarray(np.rint(cuts), np.int64)


T = TypeVar("T")


class SortedCells:
    """A mesh and points on it, with what is sorted of them, each made at first use and kept.

    Sorting a million triangles and twenty million points takes the host seconds, and dozens of ways to filter look for
    them in cells of the same few sizes.

    Parameters
    ----------
    mesh
        A triangulation.
    points
        float64 `(n, 2)`; those outside its box are wrapped.

    Attributes
    ----------
    mesh
        As given.
    count
        n.
    """

    def __init__(self, mesh: Triangulation, points: Floats) -> None:
        self.mesh, self.count, self._points = mesh, len(points), points
        self._kept: dict[Hashable, Any] = {}

    def triangles(self, size: float | None = None) -> Grid:
        """Return the grid of triangles with cells of a size; None: s.

        Raises
        ------
        ReproError
            As `grid_of_triangles`.
        """
        return self._keep(("triangles", size), lambda: grid_of_triangles(self.mesh, size))

    def points(self, size: float | None = None) -> Grid:
        """Return the grid of points with cells of a size; None: s / 2.

        Raises
        ------
        ReproError
            As `grid_of_points`.
        """
        return self._keep(("points", size), lambda: grid_of_points(self.mesh, self._wrapped, size))

    def positions(self, size: float | None = None) -> tuple[Floats, Floats]:
        """Return x and y of the points, wrapped, in the order of their grid, float64 `(n,)` each."""

        def make() -> tuple[Floats, Floats]:
            order = self.points(size).members
            return self._wrapped[:, 0][order], self._wrapped[:, 1][order]

        return self._keep(("positions", size), make)

    def tiles(self, rows: int, size: float | None = None) -> NDArray[np.int32]:
        """Return where tiles of so many points or fewer begin, in the order of their grid; see `tiles_of`."""
        return self._keep(("tiles", rows, size), lambda: tiles_of(self.points(size), rows))

    def parts(self, count: int) -> list[NDArray[np.int64]]:
        """Return the triangles of so many parts of the mesh; see `parts_of`."""
        return self._keep(("parts", count), lambda: parts_of(self.mesh, count))

    def patches(self, half: float, count: int, size: float | None = None, share: tuple[int, int] = (0, 1)) -> Patches:
        """Return so many patches, or a share of them, whose copies lie in cells of a size; see `patches_of`."""

        def make() -> Patches:
            return patches_of(self.mesh, self.points(size), half, self.parts(count), share)

        return self._keep(("patches", half, count, size, share), make)

    @cached_property
    def _wrapped(self) -> Floats:
        return self.mesh.wrapped(self._points)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept
