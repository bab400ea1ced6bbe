"""Grids of cells that find what may meet a stencil: as arrays for a device, and the paper's, to count their tests.

King 2017, section 3.2 (algorithms 2 and 3, eq. 3.1): a point looks for triangles in a grid of their centroids, a
triangle for points in a grid of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from repro.errors import ReproError
from repro.filtering.kernel import kernel
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
