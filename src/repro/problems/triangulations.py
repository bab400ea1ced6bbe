"""Triangulations of the unit square and tetrahedra of the unit cube, for discontinuous fields.

The text that the fields are of (King 2017, chapters 3 and 4) names its meshes and prints none: Delaunay triangulations
of "low" and "high variance" (figures 3.8 and 3.9), and 10 x 10 x 10 hexahedra of six tetrahedra each (section 4.2).
Generators and the two ratios are ours.
"""

from __future__ import annotations

from itertools import permutations
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from repro.problems.assembled import Floats

Mesh = tuple[Floats, NDArray[np.int32]]

#: How far a vertex may be from its place in the lattice, in units of the spacing there.
JITTER = 0.22
#: How many times larger than the first row's the last row's triangles are, by variance.
GRADING = {"low": 1.0, "high": 3.3}


def delaunay_square(triangles: int, variance: str = "low", seed: int = 1) -> Mesh:
    """Triangulate the unit square by Delaunay's criterion.

    The vertices are those of a hexagonal lattice, each moved by up to `JITTER` of the spacing in both directions, along
    the border by as much and not away from it; vertices of opposite sides do not match. The spacing is the same
    everywhere, or grows from the bottom to the top by `GRADING`, each row's by the same ratio. Jitter is drawn by
    `random` of NumPy's PCG64, whose stream NumPy keeps.

    Parameters
    ----------
    triangles
        About how many, 8 at least.
    variance
        Of the triangles' sizes: `low` (longest edge about 1.55 times that of as many equilateral triangles) or `high`
        (about 2.9 times the mean edge).
    seed
        Of the jitter.

    Returns
    -------
    vertices, cells
        float64 `(v, 2)`, row by row from the bottom; int32 `(c, 3)`, counterclockwise, the lowest vertex first, in
        ascending order.
    """
    grading = GRADING[variance]
    counts, heights, spacing = _rows(triangles, grading)
    last = len(counts) - 1
    # every other row is moved by half a spacing and begins and ends with a vertex on the border
    shifted = np.arange(len(counts)) % 2 == 1
    lengths = counts + 1 + shifted
    row = np.repeat(np.arange(len(counts)), lengths)
    column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    points = np.stack([(column - 0.5 * shifted[row]) / counts[row], heights[row]], axis=1)
    np.clip(points, 0.0, 1.0, out=points)
    rng = np.random.Generator(np.random.PCG64(seed))
    moved = JITTER * spacing[row, None] * (2.0 * rng.random(points.shape) - 1.0)
    moved[(column == 0) | (column == lengths[row] - 1), 0] = 0.0
    moved[(row == 0) | (row == last), 1] = 0.0
    points += moved
    return points, _ordered(points, Delaunay(points).simplices)


def _rows(triangles: int, grading: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the spacings that each row of the lattice is divided into, its height, and the spacing there."""
    # a row of spacing h is sqrt(3)/2 h from the next: the integral of h**-2 over the height gives the triangles
    share = log(grading) ** 2 / ((grading - 1.0) * (1.0 - 1.0 / grading)) if grading > 1.0 else 1.0
    rows = max(2, round(sqrt(triangles * share / sqrt(3.0))))
    place = np.arange(rows + 1) / rows
    growth = grading**place
    heights = (growth - 1.0) / (grading - 1.0) if grading > 1.0 else place
    distance = growth * (log(grading) / (grading - 1.0) if grading > 1.0 else 1.0) / rows
    counts = np.maximum(np.rint(sqrt(0.75) / distance).astype(np.int64), 1)
    heights[-1] = 1.0
    return counts, heights, distance / sqrt(0.75)


def _ordered(points: Floats, simplices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return triangles counterclockwise, each from its lowest vertex on, in ascending order; flat ones left out."""
    corners = points[simplices]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    twice = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    cells = np.where((twice < 0)[:, None], simplices[:, ::-1], simplices)
    # three vertices of a side of the square may be joined to one of no area
    cells = cells[np.abs(twice) > 1e-12 * (a * a + b * b).sum(axis=1)]
    first = np.argmin(cells, axis=1)
    cells = np.take_along_axis(cells, (first[:, None] + np.arange(3)) % 3, axis=1)
    return np.ascontiguousarray(cells[np.lexsort(cells.T[::-1])], dtype=np.int32)


def structured_square(squares: int) -> Mesh:
    """Cut each of so many by so many squares of the unit square into two triangles, by the same diagonal.

    Returns
    -------
    vertices, cells
        float64 `(v, 2)` and int32 `(2 squares^2, 3)`, counterclockwise, the two of a square one after the other.
    """
    return _kuhn(squares, 2)


def kuhn_cube(cubes: int) -> Mesh:
    """Cut each of so many cubes a direction of the unit cube into Kuhn's six tetrahedra around one diagonal.

    Returns
    -------
    vertices, cells
        float64 `(v, 3)` and int32 `(6 cubes^3, 4)`, of positive volume, the six of a cube one after the other.
    """
    return _kuhn(cubes, 3)


def _kuhn(count: int, dimension: int) -> Mesh:
    """Return a lattice's cells, each cut into the simplices along the paths from its lowest to its highest corner."""
    strides = (count + 1) ** np.arange(dimension)
    grid = np.stack(np.meshgrid(*[np.arange(count + 1)] * dimension, indexing="ij")[::-1], axis=-1)
    vertices = grid.reshape(-1, dimension) / count
    corners = np.stack(np.meshgrid(*[np.arange(count)] * dimension, indexing="ij")[::-1], axis=-1)
    lowest = corners.reshape(-1, dimension) @ strides
    paths = []
    for order in permutations(range(dimension)):
        path = [0, *np.cumsum(strides[list(order)])]
        if np.linalg.det(np.eye(dimension)[list(order)]) < 0:
            path[-1], path[-2] = path[-2], path[-1]
        paths.append(path)
    cells = (lowest[:, None, None] + np.array(paths)).reshape(-1, dimension + 1)
    return vertices, cells.astype(np.int32)
