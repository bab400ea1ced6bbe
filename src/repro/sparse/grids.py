"""Grids behind stencils: strides found from the columns' distances to the diagonal, and an order of rows by boxes.

The rows of a stencil on a structured grid have their columns at the same few distances from the diagonal: 1, m and
their sums on a plane with lines of m points. These distances give each row's coordinates, and boxes of the grid read
the fewest entries of x (blocking for locality: Irigoin, Triolet 1988; Wolf, Lam 1991). No graph has to be bisected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix

#: Approximate number of entries of the sampled rows, and seed of the sample.
SAMPLED, SEED = 2**20, 1
#: A distance from the diagonal belongs to the stencil if at least this share of the rows has it; the stencil has at
#: most MOST distances, which cover at least the share COVERED of all entries.
COMMON, COVERED, MOST = 0.5, 0.9, 128
#: Smallest number of points of a grid: in smaller ones too many boxes are cut off by the boundary.
SMALLEST = 2**17
#: Largest number of directions of a grid.
DIRECTIONS = 4
#: Clusters of a run; a run is as close to a cube as the grid allows.
RUN = 64


@dataclass(frozen=True)
class Grid:
    """A grid whose points are numbered line by line and plane by plane."""

    #: Difference of row numbers between neighbours in each direction, ascending.
    strides: tuple[int, ...]
    #: Largest number of steps that the stencil takes in each direction.
    reach: tuple[int, ...]
    #: Number of points in each direction.
    points: tuple[int, ...]

    def coordinate(self, rows: NDArray[np.int64], direction: int) -> NDArray[np.int64]:
        """Return the coordinates of rows in a direction."""
        within = rows if direction == len(self.strides) - 1 else rows % self.strides[direction + 1]
        return within // self.strides[direction]


def find_grid(problem: Matrix, rows: NDArray[np.int64]) -> Grid | None:
    """Return the grid of a stencil; None unless it is large and most `rows` have columns at the same distances."""
    distances = _common_distances(problem, rows) if len(rows) >= SMALLEST else {}
    if not distances:
        return None
    strides, reach, spanned = [1], [0], {0}
    remaining = sorted(distances)
    while remaining:
        if reach[-1]:  # the next direction's stride is the most common one of the distances around it
            near = [distance for distance in remaining if distance <= remaining[0] + 2 * max(spanned)]
            strides.append(max(near, key=lambda distance: distances[distance]))
            reach.append(0)
        known = {sign * distance for distance in spanned for sign in (-1, 1)}
        reach[-1] = 1
        while any((reach[-1] + 1) * strides[-1] + distance in distances for distance in known):
            reach[-1] += 1
        spanned = {abs(step * strides[-1] + distance) for step in range(reach[-1] + 1) for distance in known}
        remaining = [distance for distance in remaining if distance not in spanned]
        if remaining and len(strides) == DIRECTIONS:
            return None
    ends = [*strides[1:], problem.n]
    points = tuple(-(-end // stride) for stride, end in zip(strides, ends, strict=True))
    return Grid(tuple(strides), tuple(reach), points)


def _common_distances(problem: Matrix, rows: NDArray[np.int64]) -> dict[int, int]:
    """Return how many sampled rows have each distance of the stencil, without 0; empty if there is no stencil."""
    if problem.nnz > SAMPLED:
        rows = np.random.default_rng(SEED).choice(rows, min(len(rows), SAMPLED * problem.n // problem.nnz + 1))
    lengths = problem.row_lengths[rows].astype(np.int64)
    entries = np.repeat(problem.indptr[rows] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    distances, counts = np.unique(np.abs(problem.indices[entries] - np.repeat(rows, lengths)), return_counts=True)
    common = counts >= COMMON * len(rows)
    if common.sum() > MOST or counts[common].sum() < COVERED * counts.sum():
        return {}
    pairs = zip(distances[common].tolist(), counts[common].tolist(), strict=True)
    return {distance: rows_with_it for distance, rows_with_it in pairs if distance}


def order_by_boxes(grid: Grid, rows: NDArray[np.int64], leaf: int) -> NDArray[np.int64]:
    """Return ascending `rows` in an order whose aligned runs of 2ᵏ·leaf rows, up to RUN·leaf, are boxes of the grid.

    Rows are sorted along one direction after the other: slabs of the grid, bars of a slab, runs of a bar, and in the
    same way the boxes of a run.
    """
    run, directions = RUN * leaf, range(len(grid.strides))
    sides = _sides_of_a_box(grid, run)
    sizes = [run]  # rows of a run, bar, slab
    for points, side in zip(grid.points[:-1], sides, strict=False):
        sizes.append(sizes[-1] * max(1, round(points / side)))
    slabs = len(rows) // sizes[-1] * sizes[-1]
    if 0 < slabs < len(rows):  # what is left is thinner than a slab, and has boxes of other sides
        thin = replace(grid, points=(*grid.points[:-1], -(-(len(rows) - slabs) // grid.strides[-1])))
        parts = (grid, rows[:slabs]), (thin, rows[slabs:])
        return np.concatenate([order_by_boxes(part, part_rows, leaf) for part, part_rows in parts])
    for direction in reversed(directions[:-1]):
        rows = _sorted_along(grid, rows, direction, sizes[direction + 1])
    halved = _directions_of_cuts(grid, sides)
    size = run
    for direction in reversed(directions):
        rows = _sorted_along(grid, rows, direction, size)
        size >>= halved.count(direction)
    # the boxes of a run are now numbered direction by direction, and shall be numbered cut by cut
    nested = sorted(range(len(halved)), key=lambda cut: (-halved[cut], cut))
    axes = [1 + nested.index(cut) for cut in range(len(halved))]
    full = len(rows) // run * run
    boxes = rows[:full].reshape(-1, *[2] * len(halved), leaf).transpose(0, *axes, len(halved) + 1)
    return np.concatenate([boxes.ravel(), rows[full:]])


def _sorted_along(grid: Grid, rows: NDArray[np.int64], direction: int, size: int) -> NDArray[np.int64]:
    """Sort each `size` successive rows by their coordinate in a direction, and by number where it is the same."""
    keys = grid.coordinate(rows, direction) << 32 | rows
    full = len(keys) // size * size
    keys[:full].reshape(-1, size).sort(axis=1)
    keys[full:].sort()
    return keys & (2**32 - 1)


def _sides_of_a_box(grid: Grid, volume: float) -> list[float]:
    """Return the sides of a box in the grid with so many points, as near to the same multiple of the reach as it has.

    A box reads the reach beyond each of its faces: so it reads least.
    """
    sides = [float(points) for points in grid.points]
    free = set(range(len(sides)))
    while free:
        rest = volume / float(np.prod([sides[k] for k in range(len(sides)) if k not in free]))
        unit = (rest / float(np.prod([grid.reach[k] for k in free]))) ** (1 / len(free))
        flat = {k for k in free if unit * grid.reach[k] >= grid.points[k]}
        if not flat:
            for k in free:
                sides[k] = unit * grid.reach[k]
            break
        free -= flat
    return sides


def _directions_of_cuts(grid: Grid, sides: Sequence[float]) -> list[int]:
    """Return the directions across which a run is halved into clusters, so that these read the fewest entries of x."""
    directions = range(len(sides))

    def read(cuts: Iterable[int]) -> float:
        counts = Counter(cuts)
        boxes = [sides[k] / 2 ** counts[k] for k in directions]
        faces = [2 * grid.reach[k] * (boxes[k] < grid.points[k]) for k in directions]
        return float(np.prod(np.add(boxes, faces)))

    cuts = list(min(combinations_with_replacement(directions, RUN.bit_length() - 1), key=read))
    halved, left = list[int](), list(sides)
    while cuts:  # the longest side first, so that pairs of clusters read little as well
        longest = max(cuts, key=lambda k: (left[k] / grid.reach[k], k))
        cuts.remove(longest)
        halved.append(longest)
        left[longest] /= 2
    return halved
