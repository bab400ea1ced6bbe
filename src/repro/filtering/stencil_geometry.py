"""The geometry of stencils: the triangles that meet each one, the pieces of these, and the width h at each point.

Pairs of a point and an image of a triangle, in kernel coordinates, are made in chunks, so that memory does not
grow with the number of points. Triangles are cut at the lines of the kernel's lattice, all of them at once, and
both ways of integrating need it: by area, polygons within the unit squares (Sutherland and Hodgman 1974; King
2017, algorithm 1); by contour, what the lines leave of the edges.

Where triangles differ in size, h differs from point to point. At a vertex it is the longest edge of the triangles
around it, and within a triangle it is linear (ours). So h and the filtered field are continuous, but for hanging
nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.errors import ReproError
from repro.filtering.grids import Grid, grid_of_triangles
from repro.filtering.triangulation import Triangulation
from repro.problems.meshes import longest_edges

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Candidates that are looked at together, about 100 bytes each.
CHUNK_PAIRS = 1 << 17
#: Periods that a stencil may be wide; each triangle has as many images, squared.
PERIODS = 64
#: Part of a cell that searches go beyond the stencil, against rounding where a period is added.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StencilPairs:
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

    def __getitem__(self, chosen: slice | NDArray[np.bool_]) -> StencilPairs:
        return StencilPairs(self.point[chosen], self.triangle[chosen], self.corners[chosen])

    def in_chunks(self, size: int) -> Iterator[StencilPairs]:
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


def stencil_pairs(mesh: Triangulation, points: Floats, width: int, h: Floats) -> Iterator[StencilPairs]:
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
    number = np.floor(np.cumsum(expected) / CHUNK_PAIRS).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(expected)]
    for begin, end in pairwise(bounds):
        if end > begin:
            yield slice(begin, end)


def expand_ranges(counts: Integers) -> tuple[Integers, Integers]:
    """Return of each of sum(counts) items which count it belongs to, and its number within that."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _candidates(grid: Grid, first: Integers, last: Integers) -> tuple[Integers, Integers, Integers]:
    """Return point, triangle and period `(n, 2)` of what lies in the cells between two, wrapped."""
    nx, ny = grid.shape
    point, row = expand_ranges(last[:, 1] - first[:, 1] + 1)
    row = row + first[point, 1]
    # along a row of cells, one run for each image of the box that it goes through
    images = last[point, 0] // nx - first[point, 0] // nx + 1
    owner, image = expand_ranges(images)
    point, row = point[owner], row[owner]
    image = image + first[point, 0] // nx
    begin = np.maximum(first[point, 0] - image * nx, 0)
    end = np.minimum(last[point, 0] - image * nx, nx - 1) + 1
    line = row % ny * nx
    starts = grid.starts[line + begin].astype(np.int64)
    run, place = expand_ranges(grid.starts[line + end] - starts)
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
) -> StencilPairs:
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
    pairs = StencilPairs(index + offset, member, corners)
    return pairs[(inside > 0).all(axis=1)]


class Fans(NamedTuple):
    """Triangles that cover what polygons cover.

    Attributes
    ----------
    pair
        int64 `(n,)`, which triangle each is a piece of, ascending.
    square
        int64 `(n, 2)`, which unit square of the lattice it lies in.
    corners
        float64 `(n, 3, 2)`, counterclockwise.
    """

    pair: Integers
    square: Integers
    corners: Floats


class Strips(NamedTuple):
    """Signed trapezoids that add up to what triangles cover, each in one unit square of the lattice.

    All but `pair` and `square` are `(n, 2)`, at either end, and linear between.

    Attributes
    ----------
    pair
        int64 `(n,)`, which triangle each belongs to, ascending.
    square
        int64 `(n, 2)`, the unit square of the lattice whose polynomials hold.
    y
        float64, in the direction of the edge: downwards it counts as negative.
    begin, end
        float64, between which x runs.
    """

    pair: Integers
    square: Integers
    y: Floats
    begin: Floats
    end: Floats


def fans(corners: Floats, width: int) -> Fans:
    """Cut triangles into the unit squares of [0, width]², and what remains into fans.

    Parameters
    ----------
    corners
        float64 `(n, 3, 2)`, counterclockwise.
    width
        Of the lattice.
    """
    polygons, counts = corners, np.full(len(corners), 3)
    pair = np.arange(len(corners))
    cells: list[Integers] = []
    for axis in range(2):
        along = np.where(np.arange(polygons.shape[1]) < counts[:, None], polygons[..., axis], polygons[:, :1, axis])
        first = np.clip(np.floor(along.min(axis=1)), 0, width).astype(np.int64)
        last = np.clip(np.ceil(along.max(axis=1)), 0, width).astype(np.int64)
        owner, cell = expand_ranges(np.maximum(last - first, 0))
        cell = cell + first[owner]
        polygons, counts = _clip(polygons[owner], counts[owner], axis, cell.astype(np.float64), 1.0)
        polygons, counts = _clip(polygons, counts, axis, cell + 1.0, -1.0)
        left = counts >= 3
        polygons, counts = polygons[left], counts[left]
        pair = pair[owner][left]
        cells = [before[owner][left] for before in cells] + [cell[left]]
    owner, number = expand_ranges(counts - 2)
    three = np.stack([polygons[owner, 0], polygons[owner, number + 1], polygons[owner, number + 2]], axis=1)
    return Fans(pair[owner], np.stack(cells, axis=1)[owner], three)


def _clip(polygons: Floats, counts: Integers, axis: int, line: Floats, sign: float) -> tuple[Floats, Integers]:
    """Keep of polygons `(n, v, 2)`, of which the first `counts` vertices are theirs, what lies beyond a line each.

    No tolerance: a vertex on the line is kept, and a crossing is made only between one on either side strictly.
    """
    n, v = polygons.shape[:2]
    number = np.arange(v)
    real = number < counts[:, None]
    after = np.where(number + 1 < counts[:, None], number + 1, 0)
    following = np.take_along_axis(polygons, after[..., None], axis=1)
    here, there = (sign * (p[..., axis] - line[:, None]) for p in (polygons, following))
    crosses = real & ((here > 0) & (there < 0) | (here < 0) & (there > 0))
    part = np.divide(here, here - there, out=np.zeros_like(here), where=crosses)
    crossing = polygons + part[..., None] * (following - polygons)
    crossing[..., axis] = line[:, None]  # exactly: the next cut at this line has to see it there
    kept = np.stack([real & (here >= 0), crosses], axis=2).reshape(n, 2 * v)
    vertices = np.stack([polygons, crossing], axis=2).reshape(n, 2 * v, 2)
    place = np.cumsum(kept, axis=1)
    left = place[:, -1]
    clipped = np.zeros((n, int(left.max(initial=0)), 2))
    row, column = np.nonzero(kept)
    clipped[row, place[row, column] - 1] = vertices[row, column]
    return clipped, left.astype(np.int64)


def strips_from_line(corners: Floats, width: int) -> Strips:
    """Cut the edges of triangles where they cross the lattice on [0, width]², and lay strips from a line to each part.

    A triangle's strips all begin at one vertical line through it: a line of the lattice if one crosses it, the one next
    to its middle. A part of an edge in the unit strip next to that line has one strip, which is all where no more than
    one line of the lattice crosses a triangle; one further away has a strip for each unit strip between.

    Parameters
    ----------
    corners
        float64 `(n, 3, 2)`, counterclockwise.
    width
        Of the lattice.
    """
    low, high = corners[..., 0].min(axis=1), corners[..., 0].max(axis=1)
    start = np.clip(np.clip(np.rint((low + high) / 2), 0, width), low, high)
    a, b = corners.reshape(-1, 2), np.roll(corners, -1, axis=1).reshape(-1, 2)
    edge, part = _parts(len(a), [_crossings(a, b, axis, width) for axis in range(2)])
    ends = _along(a[edge], b[edge], part)
    return _strips(edge // 3, ends[..., 1], np.broadcast_to(start[edge // 3, None], part.shape), ends[..., 0], width)


def strips_from_edge(corners: Floats, width: int) -> Strips:
    """Lay strips from the edge of each triangle that rises most to parts of both others.

    The edges are cut where they cross the lattice on [0, width]², and where that edge crosses its vertical lines at the
    same height. All strips lie within their triangle, however thin it is.

    Parameters
    ----------
    corners
        float64 `(n, 3, 2)`, counterclockwise.
    width
        Of the lattice.
    """
    n, three = len(corners), np.arange(3)
    rise = np.abs(np.roll(corners, -1, axis=1)[..., 1] - corners[..., 1])
    first = (np.argmax(rise, axis=1)[:, None] + three) % 3
    turned = np.take_along_axis(corners, first[..., None], axis=1)
    # from corner 0 to 1 the edge that rises most
    a, b = turned[:, [1, 2]].reshape(-1, 2), turned[:, [2, 0]].reshape(-1, 2)
    low, high = np.repeat(turned[:, 0], 2, axis=0), np.repeat(turned[:, 1], 2, axis=0)
    edge, across = _crossings(low, high, 0, width)
    height = low[edge, 1] + across * (high[edge, 1] - low[edge, 1])
    beside = (height - a[edge, 1]) * (height - b[edge, 1]) < 0
    edge, height = edge[beside], height[beside]
    at_height = (height - a[edge, 1]) / (b[edge, 1] - a[edge, 1])
    edge, part = _parts(2 * n, [*(_crossings(a, b, axis, width) for axis in range(2)), (edge, at_height)])
    ends = _along(a[edge], b[edge], part)
    share = (ends[..., 1] - low[edge, None, 1]) / (high - low)[edge, None, 1]
    return _strips(edge // 2, ends[..., 1], _along(low[edge], high[edge], share)[..., 0], ends[..., 0], width)


def _strips(pair: Integers, y: Floats, begin: Floats, end: Floats, width: int) -> Strips:
    """Cut trapezoids from `begin` to `end`, both `(n, 2)`, at the vertical lines between; each is in one row."""
    row = np.floor(y.mean(axis=1)).astype(np.int64)
    inside = (row >= 0) & (row < width)
    pair, row, y, begin, end = pair[inside], row[inside], y[inside], begin[inside], end[inside]
    rightwards = end.sum(axis=1) >= begin.sum(axis=1)
    left, right = (np.where(rightwards[:, None], *two) for two in ((begin, end), (end, begin)))
    first = np.floor(left.mean(axis=1)).astype(np.int64)
    # a side along a line of the lattice ends at it
    last = np.maximum(np.ceil(right.mean(axis=1)).astype(np.int64) - 1, first)
    low, high = np.maximum(first, 0), np.minimum(last, width - 1)
    owner, column = expand_ranges(np.maximum(high - low + 1, 0))
    column = column + low[owner]
    line = column[:, None].astype(np.float64)
    left = np.where(column[:, None] == first[owner, None], left[owner], line)
    right = np.where(column[:, None] == last[owner, None], right[owner], line + 1)
    begin, end = (np.where(rightwards[owner, None], *two) for two in ((left, right), (right, left)))
    return Strips(pair[owner], np.stack([column, row[owner]], axis=1), y[owner], begin, end)


def _crossings(a: Floats, b: Floats, axis: int, width: int) -> tuple[Integers, Floats]:
    """Return where edges from a to b `(n, 2)` cross the lattice's lines of an axis: which edge, which part of it."""
    low, high = np.minimum(a, b)[:, axis], np.maximum(a, b)[:, axis]
    first = np.maximum(np.floor(low) + 1, 0).astype(np.int64)
    last = np.minimum(np.ceil(high) - 1, width).astype(np.int64)
    edge, line = expand_ranges(np.maximum(last - first + 1, 0))
    return edge, (line + first[edge] - a[edge, axis]) / (b[edge, axis] - a[edge, axis])


def _parts(count: int, crossings: list[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    """Return which of `count` edges each part between two crossings belongs to, and where it lies on it `(n, 2)`."""
    every = np.arange(count)
    edge = np.concatenate([every, *(edges for edges, _ in crossings), every])
    part = np.concatenate([np.zeros(count), *(parts for _, parts in crossings), np.ones(count)])
    # stable: an edge's own ends stay outermost where rounding puts a crossing on one of them
    order = np.lexsort((part, edge))
    edge, part = edge[order], part[order]
    same = edge[1:] == edge[:-1]
    return edge[1:][same], np.stack([part[:-1], part[1:]], axis=1)[same]


def _along(a: Floats, b: Floats, part: Floats) -> Floats:
    """Return the points `(n, q, 2)` at parts `(n, q)` of the ways from a to b."""
    points: Floats = a[:, None] + part[..., None] * (b - a)[:, None]
    return points


#: How far vertices of one place lie apart at most, in periods: at opposite sides of the box they are the same.
ROUNDING_DIGITS = 9
#: The width of the square around a point whose triangles it belongs to, in longest edges: rounding, beside a triangle.
TOUCHING = 1e-9


def at_corners(mesh: Triangulation) -> Floats:
    """Return h at the corners of each triangle, float64 `(t, 3)`: the longest edge of the triangles around a vertex.

    Vertices at the same place are one, those at opposite sides of the box included.
    """
    places = np.round((mesh.vertices - mesh.lower) / mesh.period, ROUNDING_DIGITS) % 1.0
    _, vertex = np.unique(places, axis=0, return_inverse=True)
    corner = vertex.reshape(-1)[mesh.triangles]
    longest = np.zeros(len(places))
    np.maximum.at(longest, corner, np.broadcast_to(longest_edges(mesh.corners)[:, None], corner.shape))
    return np.asarray(longest[corner], np.float64)


def within_triangles(mesh: Triangulation, places: Floats) -> Floats:
    """Return h at the same places of all triangles, triangle by triangle, float64 `(t q,)`.

    Parameters
    ----------
    mesh
        Of t triangles.
    places
        float64 `(q, 2)`, on the reference triangle.
    """
    shares = np.stack([1.0 - places.sum(axis=1), *places.T])
    h: Floats = (at_corners(mesh) @ shares).ravel()
    return h


def at_points(mesh: Triangulation, points: Floats) -> Floats:
    """Return h at any points, float64 `(n,)`: where triangles meet in one, the greatest that they give it.

    Parameters
    ----------
    mesh
        A triangulation.
    points
        float64 `(n, 2)`; those outside the box are wrapped.
    """
    wrapped, corners = mesh.wrapped(points), at_corners(mesh)
    h = np.zeros(len(wrapped))
    for pairs in stencil_pairs(mesh, wrapped, 1, np.full(len(wrapped), TOUCHING * mesh.longest)):
        to_corners = pairs.corners - 0.5  # from the point, which lies in the middle of its square
        following, last = np.roll(to_corners, -1, axis=1), np.roll(to_corners, -2, axis=1)
        opposite = following[..., 0] * last[..., 1] - following[..., 1] * last[..., 0]
        shares = np.clip(opposite / opposite.sum(axis=1, keepdims=True), 0.0, 1.0)
        np.maximum.at(h, pairs.point, (shares * corners[pairs.triangle]).sum(axis=1))
    return h
