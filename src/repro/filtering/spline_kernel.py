"""The symmetric convolution kernel in one dimension, which reproduces polynomials (King 2017, section 2.2).

K^{2k+1,k+1} is a weighted sum of 2k + 1 central B-splines of degree k, one unit apart. The paper does not print the
weights; they follow from the moment conditions ∫K(y) y^m dy = δ_m0 for m = 0 … 2k. By symmetry, moment 2k + 1 is 0 too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError

Floats = NDArray[np.float64]

#: Largest degree k; up to here the coefficients are at most 3.6. GPU kernels need too many registers earlier.
MAX_DEGREE = 7


@dataclass(frozen=True, eq=False)
class SplineKernel:
    """A convolution kernel, or a derivative of one, as polynomial pieces of unit length.

    The kernel coordinate of an integration point y, for the filtered point x, is ξ = (y - x) / h + (3k + 1) / 2. The
    knots are thus the integers 0 … 3k + 1.
    """

    #: Degree k of the B-splines.
    degree: int
    #: Weights of the 2k + 1 B-splines, as exact fractions.
    coefficients: tuple[Fraction, ...]
    #: `(3k + 1, k + 1)`: K(j + t) is the sum of `pieces[j, a]` t^a, t between 0 and 1.
    pieces: Floats

    @property
    def width(self) -> int:
        return 3 * self.degree + 1

    def derivative(self, order: int = 1) -> SplineKernel:
        """Return a derivative with respect to ξ; `pieces` keeps its shape, padded with zeros."""
        if order < 0:
            raise ReproError("the order of a derivative is negative", expected="0 or more", actual=order)
        pieces = self.pieces
        for _ in range(order):
            pieces = np.pad(pieces[:, 1:] * np.arange(1, self.degree + 1), ((0, 0), (0, 1)))
        return replace(self, pieces=pieces)

    def evaluate(self, xi: Floats) -> Floats:
        """Return K(ξ), which is zero outside the support; a knot belongs to the piece on its right."""
        xi = np.asarray(xi, np.float64)
        support = (xi >= 0) & (xi <= self.width)
        piece = np.clip(np.floor(np.where(support, xi, 0.0)), 0, self.width - 1).astype(np.int64)
        return np.where(support, self.on_pieces(piece, np.where(support, xi, 0.0)), 0.0)

    def on_pieces(self, piece: NDArray[np.int64], xi: Floats) -> Floats:
        """Evaluate the polynomials of the given pieces at any ξ, also outside the pieces."""
        t = xi - piece
        value: Floats = np.broadcast_to(self.pieces[piece, self.degree], t.shape)
        for power in reversed(range(self.degree)):
            value = value * t + self.pieces[piece, power]
        return value


@cache
def kernel(degree: int) -> SplineKernel:
    """Return K^{2k+1,k+1} (King 2017, eq. 2.1) for k = 0 to 7, computed with fractions; `pieces` is read-only."""
    if not 0 <= degree <= MAX_DEGREE:
        raise ReproError("no kernel has this degree", expected=f"0 to {MAX_DEGREE}", actual=degree)
    spline = _spline(degree)
    coefficients = _coefficients(degree, spline)
    exact = [[Fraction(0)] * (degree + 1) for _ in range(3 * degree + 1)]
    for first, coefficient in enumerate(coefficients):
        for j, piece in enumerate(spline):
            for a, number in enumerate(piece):
                exact[first + j][a] += coefficient * number
    pieces = np.array([[float(number) for number in piece] for piece in exact])
    pieces.setflags(write=False)
    return SplineKernel(degree, coefficients, pieces)


def _spline(degree: int) -> list[list[Fraction]]:
    """Return the pieces of the B-spline with knots 0 … k + 1, by the recursion of Cox and de Boor."""
    pieces = [[Fraction(1)]]
    for k in range(1, degree + 1):
        zero_piece = [Fraction(0)] * k
        next_pieces = []
        for j in range(k + 1):
            current = pieces[j] if j < k else zero_piece
            previous = pieces[j - 1] if j else zero_piece
            # k N_k(j + t) = (j + t) N_{k-1}(j + t) + (k + 1 - j - t) N_{k-1}(j - 1 + t)
            piece = [Fraction(0)] * (k + 1)
            for a in range(k):
                piece[a] += (j * current[a] + (k + 1 - j) * previous[a]) / k
                piece[a + 1] += (current[a] - previous[a]) / k
            next_pieces.append(piece)
        pieces = next_pieces
    return pieces


def _coefficients(degree: int, spline: list[list[Fraction]]) -> tuple[Fraction, ...]:
    """Solve the moment conditions 0 … 2k, about the centre of the kernel, for the weights of the B-splines."""
    count = 2 * degree + 1
    half = Fraction(3 * degree + 1, 2)
    rows = [[_moment(spline, first - half, m) for first in range(count)] + [Fraction(m == 0)] for m in range(count)]
    for i in range(count):
        pivot = next(row for row in range(i, count) if rows[row][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [number / rows[i][i] for number in rows[i]]
        for j in range(count):
            if j != i and rows[j][i]:
                rows[j] = [number - rows[j][i] * other for number, other in zip(rows[j], rows[i], strict=True)]
    return tuple(row[-1] for row in rows)


def _moment(spline: list[list[Fraction]], shift: Fraction, m: int) -> Fraction:
    """Return ∫N(z) (z + shift)^m dz for the B-spline N, piece by piece, by repeated integration by parts."""
    total = Fraction(0)
    for j, piece in enumerate(spline):
        low, high = j + shift, j + 1 + shift
        derivative, factor = list(piece), Fraction(1)
        for n in range(m + 1, m + 2 + len(piece)):
            factor /= n
            total += factor * (sum(derivative) * high**n - derivative[0] * low**n)
            derivative = [a * number for a, number in enumerate(derivative)][1:]
            factor = -factor
            if not derivative:
                break
    return total
