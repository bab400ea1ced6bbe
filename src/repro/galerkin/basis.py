"""Bases of the polynomials of a total degree on the reference simplex, by name.

The reference simplex has its corners at 0 and at the unit vectors; a cell's corner i, counted from 0, is the image of
the i-th of these. Modes are the coefficients of basis functions in reference coordinates: nothing is scaled with a
cell's size.
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
    """Return how many polynomials a basis has, the binomial coefficient of degree + dimension over dimension."""
    return comb(degree + dimension, dimension)


def exponents(degree: int, dimension: int) -> NDArray[np.int64]:
    """Return the exponents of the monomials of a total degree at most, `(m, dimension)`, by total degree."""
    powers = [p for p in product(range(degree + 1), repeat=dimension) if sum(p) <= degree]
    return np.array(sorted(powers, key=lambda p: (sum(p), tuple(-i for i in p))), np.int64).reshape(-1, dimension)


def monomials(points: Floats, degree: int) -> Floats:
    """Return the monomials, in the order of `exponents`, at points `(n, dimension)`: `(n, m)`."""
    powers = exponents(degree, points.shape[1])
    values: Floats = np.prod(points[:, None, :] ** powers[None, :, :], axis=2)
    return values


def to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    """Return each function of a basis in monomials of reference coordinates, `(m, m)`, a row a function.

    Raises
    ------
    KeyError
        There is no basis of this name.
    """
    return _to_monomials(basis, degree, dimension).copy()


@cache
def _to_monomials(basis: str, degree: int, dimension: int) -> Floats:
    nodes = equispaced(max(degree, 1), dimension) if degree else np.full((1, dimension), 1 / (dimension + 1))
    # inside the simplex, where the functions of Dubiner have no quotient of 0 by 0
    inside = 0.8 * nodes + 0.2 / (dimension + 1)
    matrix = np.asarray(np.linalg.solve(monomials(inside, degree), BASES[basis](inside, degree)).T, np.float64)
    matrix[np.abs(matrix) < 1e-13 * np.abs(matrix).max()] = 0.0
    return matrix


def evaluate(basis: str, points: Floats, degree: int) -> Floats:
    """Return the functions of a basis at points of the reference simplex `(n, dimension)`: `(n, m)`.

    Raises
    ------
    KeyError
        There is no basis of this name.
    """
    values: Floats = monomials(points, degree) @ _to_monomials(basis, degree, points.shape[1]).T
    return values


def equispaced(degree: int, dimension: int) -> Floats:
    """Return the points of the reference simplex whose coordinates are multiples of 1 / degree, `(m, dimension)`.

    They come in the order of `exponents`: the corner at 0 first.
    """
    points: Floats = exponents(degree, dimension) / max(degree, 1)
    return points


def _dubiner(points: Floats, degree: int) -> Floats:
    """Orthonormal on the reference simplex; the index of the last coordinate runs fastest (Dubiner 1991)."""
    dimension = points.shape[1]
    columns = []
    from scipy.special import eval_jacobi  # slow to import: every command reads the names of the bases

    for powers in product(range(degree + 1), repeat=dimension):
        if sum(powers) > degree:
            continue
        value, scale, before = np.ones(len(points)), 1.0, 0
        for axis, power in enumerate(powers):
            rest = 1.0 - points[:, axis + 1 :].sum(axis=1)  # what the coordinates up to this one may add up to
            alpha = 2 * before + axis
            value = value * rest**power * eval_jacobi(power, alpha, 0.0, 2.0 * points[:, axis] / rest - 1.0)
            scale *= 2 * power + alpha + 1
            before += power
        columns.append(np.sqrt(scale) * value)
    values: Floats = np.stack(columns, axis=1)
    return values


def _lagrange(points: Floats, degree: int) -> Floats:
    """One at one of the equispaced points, and zero at the others."""
    nodes = equispaced(degree, points.shape[1]) if degree else np.full((1, points.shape[1]), 1 / 3)
    return np.asarray(np.linalg.solve(monomials(nodes, degree).T, monomials(points, degree).T).T, np.float64)


#: What gives the functions of each basis at points.
BASES: dict[str, Callable[[Floats, int], Floats]] = {
    "dubiner": _dubiner,
    "lagrange": _lagrange,
    "monomial": monomials,
}
