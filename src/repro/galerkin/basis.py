"""Named bases of the polynomials up to a total degree on the reference simplex.

The corners of the reference simplex are 0 and the unit vectors, in the order of a cell's corners. Modes are
coefficients of basis functions in reference coordinates; they are not scaled with the size of the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mode_count(degree: int, dimension: int) -> int:
    """Return the number of basis functions, the binomial coefficient (degree + dimension, dimension)."""
    return comb(degree + dimension, dimension)


def exponents(degree: int, dimension: int) -> NDArray[np.int64]:
    """Return the exponents of all monomials up to a total degree, `(m, dimension)`, sorted by total degree."""
    powers = [p for p in product(range(degree + 1), repeat=dimension) if sum(p) <= degree]
    return np.array(sorted(powers, key=lambda p: (sum(p), tuple(-i for i in p))), np.int64).reshape(-1, dimension)


def monomials(points: Floats, degree: int) -> Floats:
    """Return the values of all monomials at points `(n, dimension)`, `(n, m)`, in the order of `exponents`."""
    powers = exponents(degree, points.shape[1])
    values: Floats = np.prod(points[:, None, :] ** powers[None, :, :], axis=2)
    return values


def to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    """Return the monomial coefficients of basis functions, `(m, m)`, one row per function. KeyError: unknown basis."""
    return _to_monomials(basis, degree, dimension).copy()


@cache
def _to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    nodes = equispaced(max(degree, 1), dimension) if degree else np.full((1, dimension), 1 / (dimension + 1))
    # strictly inside the simplex, since the formula for Dubiner's functions divides 0 by 0 at a corner
    inside = 0.8 * nodes + 0.2 / (dimension + 1)
    matrix = np.asarray(np.linalg.solve(monomials(inside, degree), BASES[basis](inside, degree)).T, np.float64)
    matrix[np.abs(matrix) < 1e-13 * np.abs(matrix).max()] = 0.0
    return matrix


def evaluate(basis: str, points: Floats, degree: int) -> Floats:
    """Return the values of basis functions at points of the reference simplex, `(n, m)`."""
    values: Floats = monomials(points, degree) @ _to_monomials(basis, degree, points.shape[1]).T
    return values


def equispaced(degree: int, dimension: int) -> Floats:
    """Return the points with coordinates in multiples of 1 / degree, `(m, dimension)`, in the order of `exponents`."""
    points: Floats = exponents(degree, dimension) / max(degree, 1)
    return points


def _dubiner(points: Floats, degree: int) -> Floats:
    """Evaluate Dubiner's basis (1991), orthonormal on the simplex; the last coordinate's degree varies fastest."""
    dimension = points.shape[1]
    columns = []
    from scipy.special import eval_jacobi  # slow to import: every command reads the names of the bases

    for powers in product(range(degree + 1), repeat=dimension):
        if sum(powers) > degree:
            continue
        value, scale, before = np.ones(len(points)), 1.0, 0
        for axis, power in enumerate(powers):
            rest = 1.0 - points[:, axis + 1 :].sum(axis=1)  # largest possible sum of coordinates 0 to `axis`
            alpha = 2 * before + axis
            value = value * rest**power * eval_jacobi(power, alpha, 0.0, 2.0 * points[:, axis] / rest - 1.0)
            scale *= 2 * power + alpha + 1
            before += power
        columns.append(np.sqrt(scale) * value)
    values: Floats = np.stack(columns, axis=1)
    return values


def _lagrange(points: Floats, degree: int) -> Floats:
    nodes = equispaced(degree, points.shape[1]) if degree else np.full((1, points.shape[1]), 1 / 3)
    return np.asarray(np.linalg.solve(monomials(nodes, degree).T, monomials(points, degree).T).T, np.float64)


#: Function that evaluates the basis functions at points, for each basis.
BASES: dict[str, Callable[[Floats, int], Floats]] = {
    "dubiner": _dubiner,
    "lagrange": _lagrange,
    "monomial": monomials,
}
