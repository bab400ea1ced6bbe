"""Matrices with the size and the row lengths of one that cannot be had: what decides how fast a layout is."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Assembled, Floats

REACH = 2  # lattice steps to the farthest node that an ordinary one is coupled with, in each direction
SHORTEST_HUB = 0.25  # the hub of the shortest row, relative to the longest
NOISE = 0.3  # of a pair, in the score
LOSS = 0.02  # imaginary part of the diagonal, relative to the real one

Pairs = NDArray[np.int64]


def assemble_lookalike(rows: int, nonzeros: int, *, longest: int, hubs: int, spread: float, seed: int) -> Assembled:
    """Couple the nodes of a cubic lattice at random, with hubs, to an exact number of rows and non-zeros.

    Nodes are numbered along the lattice, so columns have the locality of a mesh's. Of the pairs of nodes i and j within
    `REACH` those with the highest scores w_i + w_j - d²/2 + g are coupled: w ~ N(0, spread²) is a node's weight, d the
    distance, and g Gumbel noise of scale `NOISE`, a pair's own. The spread of the weights thus makes that of the row
    lengths from one node to the next, which decides how much a sliced layout pads. A hub is coupled with the nodes
    nearest to it, as a port or a rigid link of a finite-element model is.

    The pattern is symmetric and has all of the diagonal. Values are symmetric too, decay with the distance, and are
    small beside the diagonal.

    Parameters
    ----------
    rows, nonzeros
        Of the matrix. Their difference is even, because the pattern is symmetric.
    longest
        Entries in the longest row, the first hub's; more than an ordinary node has within reach.
    hubs
        How many there are, at least one; their rows' lengths fall evenly to a quarter of the longest.
    spread
        Standard deviation of the weights.
    seed
        Seeds all that is random.

    Raises
    ------
    ReproError
        There is no such matrix: the difference is odd, the hubs do not fit, or so many non-zeros do not.
    """
    rng = np.random.default_rng(seed)
    if (nonzeros - rows) % 2:
        raise ReproError(
            "a symmetric pattern with a full diagonal has an even number of other entries",
            expected=f"{rows} rows and an even number more of non-zeros",
            actual=f"{nonzeros} non-zeros",
        )
    if longest + hubs > rows:
        raise ReproError(
            "the hubs do not fit into the matrix",
            expected=f"at most {rows} hubs and entries in the longest row together",
            actual=f"{hubs} and {longest}",
        )
    lattice = _lattice(rows)
    centres = rng.choice(rows, hubs, replace=False)
    lengths = np.linspace(longest, SHORTEST_HUB * longest, hubs).round().astype(int)
    pairs = _hub_pairs(lattice, centres, lengths)
    wanted = (nonzeros - rows) // 2 - len(pairs)
    near = _near_pairs(lattice)
    near = near[~np.isin(near, centres).any(axis=1)]
    if not 0 <= wanted <= len(near):
        raise ReproError(
            "so many non-zeros do not fit the nodes within reach",
            expected=f"{rows + 2 * len(pairs)} to {rows + 2 * (len(pairs) + len(near))} non-zeros",
            actual=nonzeros,
        )
    weights = rng.normal(scale=spread, size=rows)
    scores = weights[near].sum(axis=1) - _squared(lattice, near) / 2 + rng.gumbel(scale=NOISE, size=len(near))
    chosen = near[np.argpartition(scores, len(near) - wanted)[len(near) - wanted :]] if wanted else near[:0]
    return _symmetric(lattice, np.concatenate([pairs, chosen]), rng)


def _lattice(rows: int) -> NDArray[np.int64]:
    """Return the places of the first so many nodes of a cubic lattice, int64 `(rows, 3)`."""
    side = ceil(rows ** (1 / 3))
    k = np.arange(rows)
    return np.stack([k // side**2, k // side % side, k % side], axis=1)


def _near_pairs(lattice: NDArray[np.int64]) -> Pairs:
    """Return every pair of nodes within `REACH`, the lower number first: `(pairs, 2)`."""
    rows, side = len(lattice), int(lattice.max()) + 1
    steps = np.indices((2 * REACH + 1,) * 3).reshape(3, -1).T - REACH
    pairs = []
    for step in steps[len(steps) // 2 + 1 :]:  # the half of them that lead to higher numbers
        there = lattice + step
        inside = ((there >= 0) & (there < side)).all(axis=1)
        here = np.flatnonzero(inside)
        other = here + int(step @ [side**2, side, 1])
        kept = other < rows
        pairs.append(np.stack([here[kept], other[kept]], axis=1))
    return np.concatenate(pairs)


def _hub_pairs(lattice: NDArray[np.int64], centres: NDArray[np.int64], lengths: NDArray[np.int64]) -> Pairs:
    """Couple each hub with the nodes nearest to it, other hubs excepted."""
    pairs = [np.empty((0, 2), np.int64)]
    for centre, length in zip(centres, lengths, strict=True):
        distances = ((lattice - lattice[centre]) ** 2).sum(axis=1)
        distances[centres] = np.iinfo(np.int64).max
        nearest = np.argsort(distances, kind="stable")[: length - 1]
        pairs.append(np.stack([np.full(len(nearest), centre), nearest], axis=1))
    return np.sort(np.concatenate(pairs), axis=1)


def _squared(lattice: NDArray[np.int64], pairs: Pairs) -> NDArray[np.int64]:
    apart: NDArray[np.int64] = ((lattice[pairs[:, 0]] - lattice[pairs[:, 1]]) ** 2).sum(axis=1)
    return apart


def _symmetric(lattice: NDArray[np.int64], pairs: Pairs, rng: np.random.Generator) -> Assembled:
    """Give the pairs, and the diagonal, complex values that are symmetric, and sort them into rows."""
    n = len(lattice)
    size = 1 / (1 + _squared(lattice, pairs))
    coupled = rng.uniform(-1, 1, (len(pairs), 2)) * size[:, None]
    total = 1 + 2 * np.bincount(pairs.ravel(), np.repeat(size, 2), n)
    diagonal = np.stack([total, LOSS * total], axis=1)

    every = np.arange(n)
    rows = np.concatenate([every, pairs[:, 0], pairs[:, 1]])
    columns = np.concatenate([every, pairs[:, 1], pairs[:, 0]])
    values: Floats = np.concatenate([diagonal, coupled, coupled])
    order = np.argsort(rows * n + columns)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return Assembled(n, indptr.astype(np.int32), columns[order].astype(np.int32), values[order])
