"""Quadrature on the reference simplex by products of Gauss rules, its corner collapsed."""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Rule(NamedTuple):
    """Points and weights.

    Attributes
    ----------
    points
        float64 `(q, dimension)`, inside the reference simplex.
    weights
        float64 `(q,)`, positive; their sum is its volume.
    """

    points: Floats
    weights: Floats


@cache
def collapsed(*counts: int) -> Rule:
    """Return the product of Gauss-Jacobi rules of so many points each, the first coordinate's first.

    A rule of n points in each direction is exact for total degree 2 n - 1.
    """
    from scipy.special import roots_jacobi  # slow to import, as in `repro.galerkin.basis`

    axes = []
    for axis, count in enumerate(counts):
        roots, weights = roots_jacobi(count, axis, 0)  # the weight of what collapses there
        axes.append(((roots + 1) / 2, weights / 2 ** (axis + 1)))
    grid = np.meshgrid(*(roots for roots, _ in axes), indexing="ij")
    weights = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij")), axis=0).ravel()
    points = np.empty((len(weights), len(counts)))
    left = np.ones(len(weights))
    for axis in reversed(range(len(counts))):
        points[:, axis] = left * grid[axis].ravel()
        left = left * (1.0 - grid[axis].ravel())
    return Rule(points, weights)


def exact_for(degree: int, dimension: int) -> Rule:
    """Return the collapsed rule of the fewest points that is exact for a total degree."""
    return collapsed(*[degree // 2 + 1] * dimension)


def evaluation_rule(degree: int, dimension: int) -> Rule:
    """Return the rule of a cell's quadrature points, (P + 2)(P + 1) in the plane (King 2017, section 4.2.2)."""
    return collapsed(degree + 2, *[degree + 1] * (dimension - 1))


def volume(dimension: int) -> float:
    """Return the reference simplex's volume."""
    return 1.0 / factorial(dimension)
