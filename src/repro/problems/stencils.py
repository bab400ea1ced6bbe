"""Scalar matrices of known construction: finite differences on a grid, and an arrow with very long rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Assembled, Floats

Coefficients = Literal["constant", "variable"]

#: Dimensions of the grid that a stencil of so many points is for
DIMENSIONS = {5: 2, 9: 2, 7: 3, 27: 3}
CONTRAST = 1.0  # a variable field is e^u of its constant, u uniform up to this size
WIND = (1.0, 0.5, 0.25)  # speeds along the axes, first to last, relative to the convection asked for


def draw_field(shape: int | Sequence[int], seed: int, contrast: float = CONTRAST) -> Floats:
    """Draw a positive field about 1: e^u of that shape, u uniform between ∓ `contrast` and independent everywhere."""
    return np.exp(np.random.default_rng(seed).uniform(-contrast, contrast, shape))


def assemble_diffusion(
    points: Sequence[int],
    stencil: int,
    *,
    coefficients: Coefficients = "constant",
    convection: float = 0.0,
    seed: int = 1,
) -> Assembled:
    """Assemble -∇·(κ∇u) + v·∇u on a grid of unit width, with u = 0 around it.

    Row i, with `N(i)` the other points of its stencil, those outside of the grid included::

        A_ij = -κ_ij - v_ij    for j in N(i)
        A_ii = Σ κ_ij + v_ij   over all of N(i)

    κ_ij is the harmonic mean of both points' κ (outside, that of the point within): symmetric, as flux is conserved.
    v_ij is the upwind difference: the speed along an axis at i where j is the neighbour before it on that axis, else
    0. So every row is weakly diagonally dominant, those beside the boundary strictly, and the matrix is regular.

    Constant coefficients are κ = 1 and the speeds `WIND` times `convection`: a handful of distinct values. Variable
    ones are drawn for each point, κ and each speed on its own, with ratios up to e² (`CONTRAST`): no two of the values
    on and above the diagonal are equal, and no two at all where there is convection and the stencil has only the axes.

    Parameters
    ----------
    points
        Inner points along each axis; the last one's are numbered one after the other.
    stencil
        5 or 9 points in the plane, 7 or 27 in space: along the axes only, or all around.
    coefficients
        constant, or variable.
    convection
        Speed of the flow along the first axis; 0 leaves the matrix symmetric.
    seed
        Of variable coefficients.

    Returns
    -------
    Assembled
        Real numbers, one row a point.

    Raises
    ------
    ReproError
        The stencil is for a grid of other dimensions, or the matrix is too large for 32-bit indices.
    """
    if DIMENSIONS[stencil] != len(points):
        raise ReproError(
            "the stencil is for a grid of other dimensions",
            where=f"{stencil} points",
            expected=f"{DIMENSIONS[stencil]} numbers of points",
            actual=len(points),
        )
    n = prod(points)
    if n * stencil >= 2**31:
        raise ReproError("the grid is too large for 32-bit indices", expected=f"below {2**31 // stencil}", actual=n)
    offsets = _offsets(len(points), stencil)
    strides = [prod(points[axis + 1 :]) for axis in range(len(points))]
    varies = coefficients == "variable"
    kappa = draw_field(points, seed) if varies else np.ones(points)
    speeds = [
        convection * factor * (draw_field(points, seed + 1 + axis) if varies else np.ones(points))
        for axis, factor in zip(range(len(points)), WIND, strict=False)
    ]

    # a column for each point of the stencil: in the order of the matrix's columns, whatever the row
    values = np.zeros((*points, stencil))
    inside = np.zeros((*points, stencil), dtype=bool)
    centre = stencil // 2
    diagonal = values[..., centre]
    inside[..., centre] = True
    for k, offset in enumerate(offsets):
        if k == centre:
            continue
        here = tuple(slice(max(0, -step), count - max(0, step)) for step, count in zip(offset, points, strict=True))
        there = tuple(slice(max(0, step), count - max(0, -step)) for step, count in zip(offset, points, strict=True))
        inside[..., k][here] = True
        coupling = kappa.copy()
        coupling[here] = 2 * (kappa[here] * kappa[there]) / (kappa[here] + kappa[there])
        upstream = [axis for axis, step in enumerate(offset) if step == -1]
        if convection and len(upstream) == np.count_nonzero(offset) == 1:
            coupling += speeds[upstream[0]]
        values[..., k] = -coupling
        diagonal += coupling
    steps = np.array(offsets) @ strides
    columns = np.arange(n, dtype=np.int32)[:, None] + steps.astype(np.int32)
    kept = inside.reshape(n, stencil)
    return Assembled(n, _pointers(kept.sum(axis=1)), columns[kept], values.reshape(n, stencil)[kept][:, None])


def _offsets(dimensions: int, stencil: int) -> list[tuple[int, ...]]:
    """Return where the points of a stencil are, in the order of their numbers, the centre in the middle."""
    around = product((-1, 0, 1), repeat=dimensions)
    return [offset for offset in around if stencil == 3**dimensions or np.count_nonzero(offset) <= 1]


def _pointers(lengths: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def assemble_arrow(rows: int, dense: int, *, coefficients: Coefficients = "constant", seed: int = 1) -> Assembled:
    """Join a chain of nodes to a few that have an edge to every other: full rows and columns, the others short.

    Edges have the weight 1 (constant), or one of their own (variable); the matrix is the weighted graph's Laplacian
    plus the identity, so symmetric and strictly diagonally dominant. The first rows are the full ones.

    Parameters
    ----------
    rows
        Nodes, more than twice the full ones.
    dense
        How many are joined to all others.
    coefficients, seed
        As for `assemble_diffusion`.

    Returns
    -------
    Assembled
        Real numbers; rows of `rows` entries, then of up to `dense` + 3.

    Raises
    ------
    ReproError
        There are no more than twice as many rows as full ones, or the matrix is too large for 32-bit indices.
    """
    if rows <= 2 * dense:
        raise ReproError("too many full rows", expected=f"fewer than half of {rows}", actual=dense)
    if rows * (2 * dense + 3) >= 2**31:
        raise ReproError("the arrow is too large for 32-bit indices", expected=2**31, actual=rows * (2 * dense + 3))
    hubs = np.arange(dense)
    # upper triangle: each hub with all after it, then the chain of the others
    tails = np.repeat(hubs, rows - 1 - hubs)
    heads = np.concatenate([np.arange(hub + 1, rows) for hub in hubs] or [hubs])
    chain = np.arange(dense, rows - 1)
    tails, heads = np.concatenate([tails, chain]), np.concatenate([heads, chain + 1])
    weights = draw_field(len(tails), seed) if coefficients == "variable" else np.ones(len(tails))
    degrees = np.bincount(tails, weights, rows) + np.bincount(heads, weights, rows)
    nodes = np.arange(rows)
    row, column = np.concatenate([tails, heads, nodes]), np.concatenate([heads, tails, nodes])
    values = np.concatenate([-weights, -weights, 1 + degrees])
    order = np.argsort(row * rows + column, kind="stable")
    pointers = _pointers(np.bincount(row, minlength=rows))
    return Assembled(rows, pointers, column[order].astype(np.int32), values[order][:, None])
