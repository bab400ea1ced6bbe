"""Quadrature in collapsed coordinates with points on two of a tetrahedron's faces: that of chapter 4."""

from __future__ import annotations

from functools import cache
from math import gamma

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_jacobi

from repro.galerkin.quadrature import Rule

Floats = NDArray[np.float64]


def papers_counts(degree: int) -> tuple[int, int, int]:
    """Return Q0, Q1, Q2, the points in each direction for fields of a degree p (King 2017, section 4.2.2).

    They are ⌈(4p + 3)/2⌉, 2p + 1, 2p + 1: exact for degree 4p, a kernel of degree p in each direction times the field.
    """
    return -(-(4 * degree + 3) // 2), 2 * degree + 1, 2 * degree + 1


def papers_rule(degree: int) -> Rule:
    """Return the rule for fields of a degree: 36 points for 1, 150 for 2; the last direction fastest.

    The paper names the numbers of points alone. They fit Gauss-Lobatto points in the first direction and Gauss-Radau
    points in the two that collapse, none of them where they do (Karniadakis, Sherwin: Spectral/hp Element Methods for
    CFD, 2005, section 4.1).
    """
    rule = _rule(*papers_counts(degree))
    return Rule(rule.points.copy(), rule.weights.copy())


@cache
def _rule(*counts: int) -> Rule:
    axes = [_lobatto(counts[0]), _radau(counts[1], 1), _radau(counts[2], 2)]
    places = [places.ravel() for places in np.meshgrid(*(places for places, _ in axes), indexing="ij")]
    weights = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij")), axis=0).ravel()
    points = np.stack([places[0] * (1 - places[1]) * (1 - places[2]), places[1] * (1 - places[2]), places[2]], axis=1)
    return Rule(points, weights)


def _lobatto(count: int) -> tuple[Floats, Floats]:
    """Return points from 0 to 1 with both ends and their weights, exact for degree 2 count - 3."""
    roots, weights = roots_jacobi(count - 2, 1, 1)
    end = 2 / (count * (count - 1))
    all_weights = np.concatenate([[end], weights / (1 - roots**2), [end]])
    return (np.concatenate([[-1.0], roots, [1.0]]) + 1) / 2, all_weights / 2


def _radau(count: int, alpha: int) -> tuple[Floats, Floats]:
    """Return points from 0 without 1, for the weight (1 - x) to a power, exact for degree 2 count - 2."""
    roots, weights = roots_jacobi(count - 1, alpha, 1)
    inner = weights / (1 + roots)
    total = 2 ** (alpha + 1) * gamma(alpha + 1) / gamma(alpha + 2)
    all_weights = np.concatenate([[total - inner.sum()], inner])
    return (np.concatenate([[-1.0], roots]) + 1) / 2, all_weights / 2 ** (alpha + 1)


def axis_nodes(axis: int, count: int) -> list[float]:
    """Return the coordinates, from 0 to 1, of an element's points in one direction of the collapsed coordinates.

    They are those of `repro.galerkin.quadrature.collapsed`, at the products of which an element has its field's values.
    """
    return [float(root) for root in (roots_jacobi(count, axis, 0)[0] + 1) / 2]
