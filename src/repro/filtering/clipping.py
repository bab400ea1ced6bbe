"""Triangles cut at the lines of a lattice, all of them at once.

Both ways of integrating need it: by area, polygons within the unit squares of the kernel's lattice (Sutherland and
Hodgman 1974; King 2017, algorithm 1); by contour, what the lattice's lines leave of the edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.filtering.pairs import expand

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
        owner, cell = expand(np.maximum(last - first, 0))
        cell = cell + first[owner]
        polygons, counts = _clip(polygons[owner], counts[owner], axis, cell.astype(np.float64), 1.0)
        polygons, counts = _clip(polygons, counts, axis, cell + 1.0, -1.0)
        left = counts >= 3
        polygons, counts = polygons[left], counts[left]
        pair = pair[owner][left]
        cells = [before[owner][left] for before in cells] + [cell[left]]
    owner, number = expand(counts - 2)
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
    owner, column = expand(np.maximum(high - low + 1, 0))
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
    edge, line = expand(np.maximum(last - first + 1, 0))
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
