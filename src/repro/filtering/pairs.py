"""Which images of which triangles meet the stencils of points, in kernel coordinates.

Pairs are made in chunks, so that memory does not grow with the number of points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.errors import ReproError
from repro.filtering.grids import Grid, grid_of_triangles
from repro.filtering.triangulation import Triangulation

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Candidates that are looked at together, about 100 bytes each.
CHUNK = 1 << 17
#: Periods that a stencil may be wide; each triangle has as many images, squared.
PERIODS = 64
#: Part of a cell that searches go beyond the stencil, against rounding where a period is added.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of a point and an image of a triangle that meets the inside of its stencil, in the points' order.

    Attributes
    ----------
    point, triangle
        int64 `(n,)`; the same pair comes again for another image of the triangle.
    corners
        float64 `(n, 3, 2)`, the image's corners in kernel coordinates ξ = (y - x) / h + width / 2, counterclockwise.
    """

    point: Integers
    triangle: Integers
    corners: Floats

    def __len__(self) -> int:
        return len(self.point)

    def __getitem__(self, chosen: slice | NDArray[np.bool_]) -> Pairs:
        return Pairs(self.point[chosen], self.triangle[chosen], self.corners[chosen])

    def in_chunks(self, size: int) -> Iterator[Pairs]:
        """Yield the pairs in their order, at most `size` at a time."""
        for first in range(0, len(self), size):
            yield self[first : first + size]


def scales(mesh: Triangulation, count: int, width: int, scale: ArrayLike | None) -> Floats:
    """Return h of each of `count` points, `(count,)`.

    Parameters
    ----------
    mesh
        Its longest edge s is h where none is given.
    count
        Number of points.
    width
        3k + 1, of the kernel.
    scale
        One number, or one a point.

    Raises
    ------
    ReproError
        There are others than positive numbers, or not one a point; or a stencil is wider than 64 periods.
    """
    h = np.asarray(mesh.longest if scale is None else scale, np.float64)
    if h.shape not in ((), (count,)):
        raise ReproError("the scales do not fit the points", expected=f"one, or {count}", actual=h.shape)
    if not np.all(np.isfinite(h) & (h > 0)):
        raise ReproError("the scale of a kernel is none", expected="positive numbers")
    widest = float(h.max(initial=0.0) * width / mesh.period.min())
    if widest > PERIODS:
        raise ReproError(
            "the stencil meets too many images of each triangle",
            expected=f"a width of at most {PERIODS} periods",
            actual=f"{widest:.3g}",
            todo="filter with a smaller scale h, or on a mesh whose longest edge is shorter",
        )
    return np.broadcast_to(h, (count,))


def predicted_pairs(mesh: Triangulation, width: int, h: float | None = None) -> float:
    """Return how many images of triangles meet the bounding box of a stencil, on average over all points.

    It tells before any work starts what one long edge in a mesh of short ones would make of it.

    Parameters
    ----------
    mesh
        A triangulation.
    width
        3k + 1, of the kernel.
    h
        The kernel's scale; None: the mesh's longest edge.
    """
    boxes = mesh.corners.max(axis=1) - mesh.corners.min(axis=1)
    stencil = width * (mesh.longest if h is None else h)
    return float((boxes + stencil).prod(axis=1).sum() / mesh.period.prod())


def stencil_pairs(mesh: Triangulation, points: Floats, width: int, h: Floats) -> Iterator[Pairs]:
    """Yield the pairs of all points, those of some points at a time.

    Parameters
    ----------
    mesh
        A triangulation.
    points
        float64 `(n, 2)`, within its box.
    width
        3k + 1, of the kernel.
    h
        float64 `(n,)`.
    """
    grid = grid_of_triangles(mesh)
    half = (h * (width / 2))[:, None] + grid.reach + ROUNDING / grid.inverse
    first, last = grid.cells_of(points - half), grid.cells_of(points + half)
    for chosen in _chunks(_expected(grid, first, last)):
        index, member, shift = _candidates(grid, first[chosen], last[chosen])
        yield _meeting(mesh, points[chosen], width, h[chosen], index, member, shift, chosen.start)


def _expected(grid: Grid, first: Integers, last: Integers) -> Floats:
    """Return about how many members a point looks at."""
    cells = (last - first + 1).astype(np.float64)
    return np.asarray(cells.prod(axis=1) * len(grid.members) / np.prod(grid.shape), np.float64)


def _chunks(expected: Floats) -> Iterator[slice]:
    """Yield runs of points of about `CHUNK` members in all, or of one point with more."""
    number = np.floor(np.cumsum(expected) / CHUNK).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(expected)]
    for begin, end in pairwise(bounds):
        if end > begin:
            yield slice(begin, end)


def expand(counts: Integers) -> tuple[Integers, Integers]:
    """Return of each of sum(counts) items which count it belongs to, and its number within that."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _candidates(grid: Grid, first: Integers, last: Integers) -> tuple[Integers, Integers, Integers]:
    """Return point, triangle and period `(n, 2)` of what lies in the cells between two, wrapped."""
    nx, ny = grid.shape
    point, row = expand(last[:, 1] - first[:, 1] + 1)
    row = row + first[point, 1]
    # along a row of cells, one run for each image of the box that it goes through
    images = last[point, 0] // nx - first[point, 0] // nx + 1
    owner, image = expand(images)
    point, row = point[owner], row[owner]
    image = image + first[point, 0] // nx
    begin = np.maximum(first[point, 0] - image * nx, 0)
    end = np.minimum(last[point, 0] - image * nx, nx - 1) + 1
    line = row % ny * nx
    starts = grid.starts[line + begin].astype(np.int64)
    run, place = expand(grid.starts[line + end] - starts)
    shift = np.stack([image, row // ny], axis=1)
    return point[run], grid.members[starts[run] + place].astype(np.int64), shift[run]


def _meeting(
    mesh: Triangulation,
    points: Floats,
    width: int,
    h: Floats,
    index: Integers,
    member: Integers,
    shift: Integers,
    offset: int,
) -> Pairs:
    """Return the candidates whose inside meets that of the stencil, by separating axes."""
    corners = mesh.corners[member] + (shift * mesh.period)[:, None] - points[index][:, None]
    corners = corners / h[index][:, None, None] + width / 2
    overlap = ((corners.max(axis=1) > 0) & (corners.min(axis=1) < width)).all(axis=1)
    index, member, corners = index[overlap], member[overlap], corners[overlap]
    sides = np.roll(corners, -1, axis=1) - corners
    to_centre = width / 2 - corners
    # how far inside of each edge the square's farthest corner lies
    inside = sides[..., 0] * to_centre[..., 1] - sides[..., 1] * to_centre[..., 0]
    inside = inside + np.abs(sides).sum(axis=2) * (width / 2)
    pairs = Pairs(index + offset, member, corners)
    return pairs[(inside > 0).all(axis=1)]
