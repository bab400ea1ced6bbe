"""Points cut into parts of equal work, one for each of several devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from repro.filtering.grids import Grid
from repro.filtering.triangulation import Triangulation

Floats = NDArray[np.float64]


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
