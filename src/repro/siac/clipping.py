"""Triangles cut at the lines of a lattice, all of them at once.

Both ways of integrating need it: by area, polygons within the unit squares of the kernel's lattice (Sutherland and
Hodgman 1974; King 2017, algorithm 1); by contour, what the lattice's lines leave of the edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.siac.pairs import expand

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


class Pieces(NamedTuple):
    """Parts of edges, each with a strip between a vertical line and itself, or between two vertical lines.

    Over a strip, x runs from `begin` to `end`, or to the segment where `end` is NaN.

    Attributes
    ----------
    pair
        int64 `(n,)`, which triangle's edge it is a part of, ascending.
    square
        int64 `(n, 2)`, the unit square of the lattice whose polynomials hold.
    ends
        float64 `(n, 2, 2)`, the segment's, in the direction of the edge.
    begin, end
        float64 `(n,)`.
    """

    pair: Integers
    square: Integers
    ends: Floats
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


def pieces(corners: Floats, width: int) -> Pieces:
    """Cut the edges of triangles where they cross the lattice on [0, width]², each part with its strips.

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
    edge, ends = _segments(corners, width)
    middle = np.floor(ends.mean(axis=1)).astype(np.int64)
    inside = (middle[:, 1] >= 0) & (middle[:, 1] < width)
    edge, ends, middle = edge[inside], ends[inside], middle[inside]
    pair, strip = edge // 3, np.clip(middle[:, 0], -1, width)
    first = np.floor(start).astype(np.int64)[pair]
    rightwards = strip >= first
    begin = np.maximum(np.where(rightwards, first, strip), 0)
    last = np.minimum(np.where(rightwards, strip, np.ceil(start).astype(np.int64)[pair] - 1), width - 1)
    owner, column = expand(np.maximum(last - begin + 1, 0))
    column = column + begin[owner]
    pair, rightwards, strip = pair[owner], rightwards[owner], strip[owner]
    near = np.where(rightwards, np.maximum(column, start[pair]), np.minimum(column + 1, start[pair]))
    far = np.where(column == strip, np.nan, np.where(rightwards, column + 1.0, column))
    square = np.stack([column, middle[owner, 1]], axis=1)
    return Pieces(pair, square, ends[owner], near, far)


def _segments(corners: Floats, width: int) -> tuple[Integers, Floats]:
    """Return which edge, 3 to a triangle, each part between two crossings belongs to, and its ends `(n, 2, 2)`."""
    a = corners.reshape(-1, 2)
    b = np.roll(corners, -1, axis=1).reshape(-1, 2)
    edges, parts = [np.arange(len(a))], [np.zeros(len(a))]
    for axis in range(2):
        low, high = np.minimum(a, b)[:, axis], np.maximum(a, b)[:, axis]
        first = np.maximum(np.floor(low) + 1, 0).astype(np.int64)
        last = np.minimum(np.ceil(high) - 1, width).astype(np.int64)
        edge, line = expand(np.maximum(last - first + 1, 0))
        edges.append(edge)
        parts.append((line + first[edge] - a[edge, axis]) / (b[edge, axis] - a[edge, axis]))
    edge = np.concatenate([*edges, np.arange(len(a))])
    part = np.concatenate([*parts, np.ones(len(a))])
    # stable: an edge's own ends stay outermost where rounding puts a crossing on one of them
    order = np.lexsort((part, edge))
    edge, part = edge[order], part[order]
    step = part[:, None]
    place = np.where(step < 1, a[edge] + step * (b[edge] - a[edge]), b[edge])  # corners stay where they are
    same = edge[1:] == edge[:-1]
    return edge[1:][same], np.stack([place[:-1], place[1:]], axis=1)[same]
