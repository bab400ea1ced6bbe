"""Geometry of stencils: which triangles meet a stencil, how its lattice cuts them, and local widths h.

Integration by area cuts triangles into polygons in unit squares (Sutherland and Hodgman 1974; King 2017, algorithm 1).
Integration by contour cuts edges into parts. A local h is not in the paper: at a vertex it is the longest edge of the
triangles around the vertex, and within a triangle it is linear, so h is continuous except at hanging nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.errors import ReproError
from repro.filtering.grids import Grid, Triangulation, grid_of_triangles
from repro.problems.assembly import longest_edges

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Number of candidate pairs per chunk; each takes about 100 bytes.
CHUNK_PAIRS = 1 << 17
#: Largest width of a stencil in periods; a stencil then meets up to the square of this number of images per triangle.
PERIODS = 64
#: Margin of a search, in cells, as adding a period has rounding errors.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StencilPairs:
    """Pairs of a point and a periodic image of a triangle that meets the inside of the point's stencil.

    Pairs are in the order of the points.
    """

    point: Integers
    #: A triangle occurs once for each of its periodic images that meets the stencil.
    triangle: Integers
    #: `(n, 3, 2)`, the image's corners in kernel coordinates ξ = (y - x) / h + width / 2, counterclockwise.
    corners: Floats

    def __len__(self) -> int:
        return len(self.point)

    def __getitem__(self, selection: slice | NDArray[np.bool_]) -> StencilPairs:
        return StencilPairs(self.point[selection], self.triangle[selection], self.corners[selection])

    def in_chunks(self, size: int) -> Iterator[StencilPairs]:
        for first in range(0, len(self), size):
            yield self[first : first + size]


def scales(mesh: Triangulation, count: int, width: int, scale: ArrayLike | None) -> Floats:
    """Return h for each of `count` points; `scale` is one number, one number per point, or None: the longest edge.

    `width` is the width of the convolution kernel, 3k + 1. A scale that is not positive, or a stencil wider than 64
    periods, raises `ReproError`.
    """
    h = np.asarray(mesh.longest if scale is None else scale, np.float64)
    if h.shape not in ((), (count,)):
        raise ReproError("the scales do not fit the points", expected=f"one, or {count}", actual=h.shape)
    if not np.all(np.isfinite(h) & (h > 0)):
        raise ReproError("a kernel scale is not positive", expected="positive numbers", actual=float(np.min(h)))
    widest = float(h.max(initial=0.0) * width / mesh.period.min())
    if widest > PERIODS:
        raise ReproError(
            "the stencil covers too many periodic images of each triangle",
            expected=f"a width of at most {PERIODS} periods",
            actual=f"{widest:.3g}",
            todo="filter with a smaller scale h, or on a mesh whose longest edge is shorter",
        )
    return np.broadcast_to(h, (count,))


def predicted_pairs(mesh: Triangulation, width: int, h: float | None = None) -> float:
    """Return the mean number of triangle images that meet a stencil's bounding box; h None: the longest edge.

    It predicts the cost before any work starts, such as that of one long edge in a mesh with short edges.
    """
    boxes = mesh.corners.max(axis=1) - mesh.corners.min(axis=1)
    stencil = width * (mesh.longest if h is None else h)
    return float((boxes + stencil).prod(axis=1).sum() / mesh.period.prod())


def stencil_pairs(mesh: Triangulation, points: Floats, width: int, h: Floats) -> Iterator[StencilPairs]:
    """Yield the pairs of stencils and triangles, in chunks of points; points are in the mesh's box, and h is `(n,)`."""
    grid = grid_of_triangles(mesh)
    half = (h * (width / 2))[:, None] + grid.reach + ROUNDING / grid.inverse
    first, last = grid.cells_of(points - half), grid.cells_of(points + half)
    cells = (last - first + 1).astype(np.float64).prod(axis=1)
    members = cells * len(grid.members) / np.prod(grid.shape)  # expected number of candidates per point
    # each chunk is a run of points with about CHUNK_PAIRS candidates in total, or one point with more
    chunk = np.floor(np.cumsum(members) / CHUNK_PAIRS).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(points)]
    for begin, end in pairwise(bounds):
        if end > begin:
            point_range = slice(begin, end)
            index, member, shift = _candidates(grid, first[point_range], last[point_range])
            yield _intersecting_pairs(mesh, points[point_range], width, h[point_range], index, member, shift, begin)


def expand_ranges(counts: Integers) -> tuple[Integers, Integers]:
    """Return the owner of each of sum(counts) items, and the item's number within the owner.

    Owner i has counts[i] successive items.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _candidates(grid: Grid, first: Integers, last: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the candidates of each point: all triangles in the cells from `first` to `last`, wrapped periodically.

    Three arrays: point, triangle, and number of periods `(n, 2)` by which the image is shifted.
    """
    nx, ny = grid.shape
    point, row = expand_ranges(last[:, 1] - first[:, 1] + 1)
    row = row + first[point, 1]
    # in each periodic image of the box, the cells of one row have successive members
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


def _intersecting_pairs(
    mesh: Triangulation,
    points: Floats,
    width: int,
    h: Floats,
    index: Integers,
    member: Integers,
    shift: Integers,
    offset: int,
) -> StencilPairs:
    """Return the candidates whose inside meets the inside of the stencil, by the separating axis test."""
    corners = mesh.corners[member] + (shift * mesh.period)[:, None] - points[index][:, None]
    corners = corners / h[index][:, None, None] + width / 2
    overlap = ((corners.max(axis=1) > 0) & (corners.min(axis=1) < width)).all(axis=1)
    index, member, corners = index[overlap], member[overlap], corners[overlap]
    sides = np.roll(corners, -1, axis=1) - corners
    centre_offsets = width / 2 - corners
    # scaled distance from each edge to the farthest corner of the stencil's square; positive on the inner side of the
    # edge
    margins = sides[..., 0] * centre_offsets[..., 1] - sides[..., 1] * centre_offsets[..., 0]
    margins = margins + np.abs(sides).sum(axis=2) * (width / 2)
    pairs = StencilPairs(index + offset, member, corners)
    return pairs[(margins > 0).all(axis=1)]


class Fans(NamedTuple):
    """Triangles into which clipped polygons are split; they cover the same area."""

    #: Index of the given triangle that each piece is cut from, ascending. Callers give a triangle for each pair of a
    #: stencil and a triangle, so to them it is the index of the pair.
    pair: Integers
    #: `(n, 2)`, unit square of the lattice that contains the piece.
    square: Integers
    #: `(n, 3, 2)`, counterclockwise.
    corners: Floats


class Strips(NamedTuple):
    """Signed trapezoids that add up to the area of triangles, each in one unit square of the lattice."""

    #: Index of the given triangle that each strip is cut from, ascending. Callers give a triangle for each pair of a
    #: stencil and a triangle, so to them it is the index of the pair.
    pair: Integers
    #: `(n, 2)`, unit square of the lattice that contains the strip and thus selects the kernel polynomials.
    square: Integers
    #: `(n, 2)`, y of both ends, in the direction of the edge; a strip of a downward edge counts as negative.
    y: Floats
    #: `(n, 2)`, lower limit of x at both ends of the strip, linear in between; `end` is the upper limit.
    begin: Floats
    end: Floats


def fans(corners: Floats, width: int) -> Fans:
    """Cut counterclockwise triangles `(n, 3, 2)` into the unit squares of [0, width]², and their polygons into fans."""
    polygons, counts = corners, np.full(len(corners), 3)
    pair = np.arange(len(corners))
    cells: list[Integers] = []
    for axis in range(2):
        coordinates = np.where(
            np.arange(polygons.shape[1]) < counts[:, None], polygons[..., axis], polygons[:, :1, axis]
        )
        first = np.clip(np.floor(coordinates.min(axis=1)), 0, width).astype(np.int64)
        last = np.clip(np.ceil(coordinates.max(axis=1)), 0, width).astype(np.int64)
        owner, cell = expand_ranges(np.maximum(last - first, 0))
        cell = cell + first[owner]
        polygons, counts = _clip(polygons[owner], counts[owner], axis, cell.astype(np.float64), 1.0)
        polygons, counts = _clip(polygons, counts, axis, cell + 1.0, -1.0)
        nondegenerate = counts >= 3
        polygons, counts = polygons[nondegenerate], counts[nondegenerate]
        pair = pair[owner][nondegenerate]
        cells = [previous_cells[owner][nondegenerate] for previous_cells in cells] + [cell[nondegenerate]]
    owner, number = expand_ranges(counts - 2)
    three = np.stack([polygons[owner, 0], polygons[owner, number + 1], polygons[owner, number + 2]], axis=1)
    return Fans(pair[owner], np.stack(cells, axis=1)[owner], three)


def _clip(polygons: Floats, counts: Integers, axis: int, line: Floats, sign: float) -> tuple[Floats, Integers]:
    """Clip each polygon of `(n, v, 2)`, with `counts` vertices, by one half plane.

    There is no tolerance: a vertex on the line is kept, and an edge is cut only if its ends are strictly on both sides.
    """
    n, v = polygons.shape[:2]
    number = np.arange(v)
    real = number < counts[:, None]
    next_vertex = np.where(number + 1 < counts[:, None], number + 1, 0)
    next_points = np.take_along_axis(polygons, next_vertex[..., None], axis=1)
    start_distance, end_distance = (sign * (p[..., axis] - line[:, None]) for p in (polygons, next_points))
    crosses = real & ((start_distance > 0) & (end_distance < 0) | (start_distance < 0) & (end_distance > 0))
    part = np.divide(start_distance, start_distance - end_distance, out=np.zeros_like(start_distance), where=crosses)
    crossing = polygons + part[..., None] * (next_points - polygons)
    crossing[..., axis] = line[:, None]  # exact, for the next cut at this line
    used = np.stack([real & (start_distance >= 0), crosses], axis=2).reshape(n, 2 * v)
    vertices = np.stack([polygons, crossing], axis=2).reshape(n, 2 * v, 2)
    place = np.cumsum(used, axis=1)
    vertex_counts = place[:, -1]
    clipped_polygons = np.zeros((n, int(vertex_counts.max(initial=0)), 2))
    row, column = np.nonzero(used)
    clipped_polygons[row, place[row, column] - 1] = vertices[row, column]
    return clipped_polygons, vertex_counts.astype(np.int64)


def strips_from_line(corners: Floats, width: int) -> Strips:
    """Cut edges at the lattice on [0, width]²; form strips between a vertical line and each part of an edge.

    The vertical line goes through the triangle. It is the lattice line nearest to the triangle's middle, if a lattice
    line crosses the triangle. Each part has one strip per lattice column between the line and the part; this is a
    single strip unless several vertical lattice lines cross the triangle.
    """
    low, high = corners[..., 0].min(axis=1), corners[..., 0].max(axis=1)
    start = np.clip(np.clip(np.rint((low + high) / 2), 0, width), low, high)
    a, b = corners.reshape(-1, 2), np.roll(corners, -1, axis=1).reshape(-1, 2)
    edge, shares = _parts(len(a), [_crossings(a, b, axis, width) for axis in range(2)])
    ends = _interpolate(a[edge], b[edge], shares)
    return _strips(edge // 3, ends[..., 1], np.broadcast_to(start[edge // 3, None], shares.shape), ends[..., 0], width)


def strips_from_edge(corners: Floats, width: int) -> Strips:
    """Cut each triangle into trapezoids between its tallest edge and parts of its two other edges.

    The tallest edge is the one with the largest extent in y. The other edges are cut at the lattice on [0, width]², and
    at the heights at which the tallest edge crosses vertical lattice lines. Every strip lies within its triangle, even
    if the triangle is very thin.
    """
    n, three = len(corners), np.arange(3)
    rise = np.abs(np.roll(corners, -1, axis=1)[..., 1] - corners[..., 1])
    first = (np.argmax(rise, axis=1)[:, None] + three) % 3
    rotated = np.take_along_axis(corners, first[..., None], axis=1)
    # the tallest edge is now from corner 0 to 1
    a, b = rotated[:, [1, 2]].reshape(-1, 2), rotated[:, [2, 0]].reshape(-1, 2)
    low, high = np.repeat(rotated[:, 0], 2, axis=0), np.repeat(rotated[:, 1], 2, axis=0)
    edge, line_shares = _crossings(low, high, 0, width)
    height = low[edge, 1] + line_shares * (high[edge, 1] - low[edge, 1])
    crossed = (height - a[edge, 1]) * (height - b[edge, 1]) < 0
    edge, height = edge[crossed], height[crossed]
    height_shares = (height - a[edge, 1]) / (b[edge, 1] - a[edge, 1])
    edge, shares = _parts(2 * n, [*(_crossings(a, b, axis, width) for axis in range(2)), (edge, height_shares)])
    ends = _interpolate(a[edge], b[edge], shares)
    share = (ends[..., 1] - low[edge, None, 1]) / (high - low)[edge, None, 1]
    return _strips(edge // 2, ends[..., 1], _interpolate(low[edge], high[edge], share)[..., 0], ends[..., 0], width)


def _strips(pair: Integers, y: Floats, begin: Floats, end: Floats, width: int) -> Strips:
    """Cut trapezoids at vertical lattice lines.

    Each trapezoid lies in one lattice row, between the x limits `begin` and `end`, both `(n, 2)`.
    """
    row = np.floor(y.mean(axis=1)).astype(np.int64)
    valid = (row >= 0) & (row < width)
    pair, row, y, begin, end = pair[valid], row[valid], y[valid], begin[valid], end[valid]
    ascending = end.sum(axis=1) >= begin.sum(axis=1)
    left, right = (np.where(ascending[:, None], *two) for two in ((begin, end), (end, begin)))
    first = np.floor(left.mean(axis=1)).astype(np.int64)
    # a right side on a lattice line belongs to the column on its left
    last = np.maximum(np.ceil(right.mean(axis=1)).astype(np.int64) - 1, first)
    low, high = np.maximum(first, 0), np.minimum(last, width - 1)
    owner, column = expand_ranges(np.maximum(high - low + 1, 0))
    column = column + low[owner]
    line = column[:, None].astype(np.float64)
    left = np.where(column[:, None] == first[owner, None], left[owner], line)
    right = np.where(column[:, None] == last[owner, None], right[owner], line + 1)
    begin, end = (np.where(ascending[owner, None], *two) for two in ((left, right), (right, left)))
    return Strips(pair[owner], np.stack([column, row[owner]], axis=1), y[owner], begin, end)


def _crossings(a: Floats, b: Floats, axis: int, width: int) -> tuple[Integers, Floats]:
    """Return where edges from a to b cross lattice lines of an axis: edge, and position as a share of its length."""
    low, high = np.minimum(a, b)[:, axis], np.maximum(a, b)[:, axis]
    first = np.maximum(np.floor(low) + 1, 0).astype(np.int64)
    last = np.minimum(np.ceil(high) - 1, width).astype(np.int64)
    edge, line = expand_ranges(np.maximum(last - first + 1, 0))
    return edge, (line + first[edge] - a[edge, axis]) / (b[edge, axis] - a[edge, axis])


def _parts(count: int, crossings: list[tuple[Integers, Floats]]) -> tuple[Integers, Floats]:
    """Return the parts of `count` edges between successive crossings: edge, and both ends as shares of it, `(n, 2)`."""
    edge_numbers = np.arange(count)
    edge = np.concatenate([edge_numbers, *(edges for edges, _ in crossings), edge_numbers])
    share = np.concatenate([np.zeros(count), *(shares for _, shares in crossings), np.ones(count)])
    # the sort is stable, so an edge's ends stay outermost even if rounding puts a crossing on an end
    order = np.lexsort((share, edge))
    edge, share = edge[order], share[order]
    same_edge = edge[1:] == edge[:-1]
    return edge[1:][same_edge], np.stack([share[:-1], share[1:]], axis=1)[same_edge]


def _interpolate(a: Floats, b: Floats, shares: Floats) -> Floats:
    """Return points of edges from a to b, `(n, k, axes)`, at `shares` of their lengths, `(n, k)`."""
    points: Floats = a[:, None] + shares[..., None] * (b - a)[:, None]
    return points


#: Vertices count as one if their coordinates, in periods, agree to this number of decimal digits.
ROUNDING_DIGITS = 9
#: A triangle contains a point if it meets a square around it; width of the square in longest edges.
TOUCHING = 1e-9


def corner_scales(mesh: Triangulation) -> Floats:
    """Return h at the corners of each triangle, `(t, 3)`: the longest edge of the triangles around a vertex.

    Vertices at the same place, or at corresponding places on opposite sides of the periodic box, count as one.
    """
    places = np.round((mesh.vertices - mesh.lower) / mesh.period, ROUNDING_DIGITS) % 1.0
    _, vertex = np.unique(places, axis=0, return_inverse=True)
    corner = vertex.reshape(-1)[mesh.triangles]
    longest = np.zeros(len(places))
    np.maximum.at(longest, corner, np.broadcast_to(longest_edges(mesh.corners)[:, None], corner.shape))
    return np.asarray(longest[corner], np.float64)


def triangle_scales(mesh: Triangulation, places: Floats) -> Floats:
    """Return h at q points per triangle, `(t q,)`.

    `places` `(q, 2)` are their coordinates on the reference triangle.
    """
    shares = np.stack([1.0 - places.sum(axis=1), *places.T])
    h: Floats = (corner_scales(mesh) @ shares).ravel()
    return h


def point_scales(mesh: Triangulation, points: Floats) -> Floats:
    """Return h at any points; on an edge, the greatest h of the triangles that share the edge."""
    positions, corners = mesh.wrapped(points), corner_scales(mesh)
    h = np.zeros(len(positions))
    for pairs in stencil_pairs(mesh, positions, 1, np.full(len(positions), TOUCHING * mesh.longest)):
        corner_offsets = pairs.corners - 0.5  # relative to the point, which is the centre of its square
        next_offsets, last = np.roll(corner_offsets, -1, axis=1), np.roll(corner_offsets, -2, axis=1)
        opposite = next_offsets[..., 0] * last[..., 1] - next_offsets[..., 1] * last[..., 0]
        shares = np.clip(opposite / opposite.sum(axis=1, keepdims=True), 0.0, 1.0)
        np.maximum.at(h, pairs.point, (shares * corners[pairs.triangle]).sum(axis=1))
    return h
