"""The pieces of the kernel, found another way than by the package: as convolutions of boxes, in fractions."""

from fractions import Fraction

import numpy as np


def spline_pieces(degree: int) -> np.ndarray:
    """Return the kernel of 2k + 1 B-splines of degree k by its pieces, `(3k + 1, k + 1)`, in powers from each knot."""
    spline = _spline(degree)
    count = 2 * degree + 1
    moments = [[_moment(spline, shift - degree, power) for shift in range(count)] for power in range(count)]
    weights = np.linalg.solve(np.array(moments, float), np.eye(count)[0])
    weights = np.array([Fraction(weight).limit_denominator(10**5) for weight in weights])
    assert weights.sum() == 1
    pieces = np.zeros((3 * degree + 1, degree + 1), object)
    for shift, weight in enumerate(weights):
        pieces[shift : shift + degree + 1] += weight * spline
    return pieces.astype(float)


def _spline(degree: int) -> np.ndarray:
    """Return a B-spline on the knots 0, 1, …: at x it is the integral of the one before from x - 1 to x."""
    pieces = np.array([[Fraction(1)]], object)
    for _ in range(degree):
        size = len(pieces)
        raised = np.array([[Fraction(0), *(value / (power + 1) for power, value in enumerate(row))] for row in pieces])
        wholes = raised.sum(axis=1)
        made = np.zeros((size + 1, raised.shape[1]), object)
        for j in range(size):
            made[j] += raised[j]
            made[j + 1] -= raised[j]
            made[j + 1, 0] += wholes[j]
        pieces = made
    return pieces


def _moment(spline: np.ndarray, shift: int, power: int) -> float:
    """Return the integral of x to a power times a spline around a place."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    middle = len(spline) / 2
    total = 0.0
    for j, row in enumerate(spline):
        t = (nodes + 1) / 2
        values = np.polynomial.polynomial.polyval(t, row.astype(float))
        total += float(weights / 2 @ (values * (j + t - middle + shift) ** power))
    return total
