"""Tetrahedra cut along the planes of a lattice into tetrahedra, each within one cube (King 2017, section 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: What a tetrahedron and a cube no smaller than it have in common at the most: one plane of each direction can cut,
#: and each makes at most three of one.
MOST_PIECES = 27


class Pieces(NamedTuple):
    """Tetrahedra within one cube each.

    Attributes
    ----------
    corners
        float64 `(n, 4, 3)`, in no particular orientation.
    sources
        `(n,)`, which tetrahedron each is of; ascending.
    cubes
        int64 `(n, 3)`, the lowest corner of its cube.
    """

    corners: Floats
    sources: Integers
    cubes: Integers

    @property
    def volumes(self) -> Floats:
        """float64 `(n,)`, without sign."""
        volumes: Floats = np.abs(np.linalg.det(self.corners[:, 1:] - self.corners[:, :1])) / 6
        return volumes


def clip(corners: Floats, width: int) -> Pieces:
    """Cut tetrahedra `(n, 4, 3)` by the cubes of the lattice of whole numbers from 0 to `width`; what lies beyond goes.

    Each tetrahedron is cut, for each cube that the box around it meets, by the cube's six planes one after the other.
    Signs are compared with zero, without tolerances: a corner on a plane is part of neither side's interior.
    """
    lowest = np.clip(np.floor(corners.min(axis=1)), 0, width).astype(np.int64)
    highest = np.clip(np.ceil(corners.max(axis=1)), 0, width).astype(np.int64)
    counts = np.maximum(highest - lowest, 0)
    pairs = counts.prod(axis=1)
    owners = np.repeat(np.arange(len(corners)), pairs)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    cubes = np.empty((len(owners), 3), np.int64)
    for axis in (2, 1, 0):
        cubes[:, axis] = lowest[owners, axis] + within % np.maximum(counts[owners, axis], 1)
        within //= np.maximum(counts[owners, axis], 1)
    pieces, of_pair = corners[owners], np.arange(len(owners))
    for axis in range(3):
        for sign in (1, -1):
            bounds = (cubes[of_pair, axis] + (sign < 0)).astype(np.float64)
            pieces, kept = _cut(pieces, axis, bounds, sign)
            of_pair = of_pair[kept]
    order = np.argsort(of_pair, kind="stable")
    of_pair = of_pair[order]
    return Pieces(pieces[order], owners[of_pair], cubes[of_pair])


def _cut(corners: Floats, axis: int, bounds: Floats, sign: int) -> tuple[Floats, Integers]:
    """Return what of each tetrahedron lies where `sign` times a coordinate is above its bound, 0 to 3 tetrahedra.

    Returns
    -------
    pieces
        float64 `(n, 4, 3)`.
    sources
        `(n,)`, which tetrahedron each is of.
    """
    heights = sign * (corners[:, :, axis] - bounds[:, None])
    # by sides alone: by heights, equal ones would be in an order, and the prism in pieces, that rounding decides
    order = np.argsort(-np.sign(heights), axis=1, kind="stable")
    heights = np.take_along_axis(heights, order, axis=1)
    sorted_corners = np.take_along_axis(corners, order[:, :, None], axis=1)
    above = (heights > 0).sum(axis=1)
    cut = heights[:, 3] < 0
    whole = np.flatnonzero(~cut & (above > 0))
    made, sources = [corners[whole]], [whole]

    def crossing(rows: Integers, upper: int, lower: int) -> Floats:
        """Return where an edge from above meets the plane, `(rows, 3)`."""
        top, bottom = sorted_corners[rows, upper], sorted_corners[rows, lower]
        high, low = heights[rows, upper, None], heights[rows, lower, None]
        place: Floats = top + (bottom - top) * (high / (high - low))
        place[:, axis] = bounds[rows]
        return np.where(low == 0, bottom, place)

    def add(rows: Integers, *points: Floats) -> None:
        made.append(np.stack(points, axis=1))
        sources.append(rows)

    tips = np.flatnonzero(cut & (above == 1))
    add(tips, sorted_corners[tips, 0], *(crossing(tips, 0, lower) for lower in (1, 2, 3)))
    for count in (2, 3):
        rows = np.flatnonzero(cut & (above == count))
        if count == 2:  # a wedge, its triangles at the two corners above
            first = [sorted_corners[rows, 0], crossing(rows, 0, 2), crossing(rows, 0, 3)]
            second = [sorted_corners[rows, 1], crossing(rows, 1, 2), crossing(rows, 1, 3)]
        else:  # a tetrahedron without its tip: a triangle above and one in the plane
            first = [sorted_corners[rows, upper] for upper in range(3)]
            second = [crossing(rows, upper, 3) for upper in range(3)]
        add(rows, *first, second[0])
        # a third corner on the plane is an edge of the wedge: the tetrahedron there is flat
        solid = (heights[rows, 2] != 0) if count == 2 else np.ones(len(rows), bool)
        add(rows[solid], *(points[solid] for points in (first[1], first[2], second[0], second[1])))
        add(rows, first[2], *second)
    return np.concatenate(made), np.concatenate(sources)
