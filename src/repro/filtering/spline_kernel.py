"""The symmetric kernel of the filter in one dimension: B-splines that together reproduce polynomials.

K^{2k+1,k+1} is a sum of 2k+1 central B-splines of degree k, one unit apart (King 2017, section 2.2). The text prints no
coefficients; they are what makes the moments of K those of a delta, ∫K(y) y^m dy = δ_m0 for m = 0 … 2k. By symmetry
moment 2k+1 vanishes as well, so that K reproduces polynomials of degree 2k+1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError

Floats = NDArray[np.float64]

#: The highest degree that kernels are made of; coefficients stay small (3.6 at most), registers do not suffice.
MAX_DEGREE = 7


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, or a derivative of one, in pieces of one unit.

    Kernel coordinates are ξ = (y - x) / h + (3k + 1) / 2, of y around the point x, so that knots are 0 … 3k + 1.

    Attributes
    ----------
    degree
        k, of the B-splines.
    coefficients
        c_γ, 2k + 1 of them, exact.
    pieces
        float64 `(3k + 1, k + 1)`: K(j + t) is the sum of `pieces[j, a]` t^a, t between 0 and 1.
    """

    degree: int
    coefficients: tuple[Fraction, ...]
    pieces: Floats

    @property
    def width(self) -> int:
        """3k + 1, of the support."""
        return 3 * self.degree + 1

    def derivative(self, order: int = 1) -> Kernel:
        """Return the derivative of some order with respect to ξ; its pieces keep their shape, padded with zeros.

        Raises
        ------
        ReproError
            The order is negative.
        """
        if order < 0:
            raise ReproError("the order of a derivative is negative", expected="0 or more", actual=order)
        pieces = self.pieces
        for _ in range(order):
            pieces = np.pad(pieces[:, 1:] * np.arange(1, self.degree + 1), ((0, 0), (0, 1)))
        return replace(self, pieces=pieces)

    def evaluate(self, xi: Floats) -> Floats:
        """Return K at kernel coordinates of any shape, zero outside the support; a knot belongs to its right piece."""
        xi = np.asarray(xi, np.float64)
        inside = (xi >= 0) & (xi <= self.width)
        piece = np.clip(np.floor(np.where(inside, xi, 0.0)), 0, self.width - 1).astype(np.int64)
        return np.where(inside, self.on_pieces(piece, np.where(inside, xi, 0.0)), 0.0)

    def on_pieces(self, piece: NDArray[np.int64], xi: Floats) -> Floats:
        """Return the polynomials of pieces at ξ, wherever ξ lies.

        Parameters
        ----------
        piece
            int64, within 0 … 3k; broadcast against `xi`.
        xi
            Kernel coordinates.
        """
        t = xi - piece
        value: Floats = np.broadcast_to(self.pieces[piece, self.degree], t.shape)
        for power in reversed(range(self.degree)):
            value = value * t + self.pieces[piece, power]
        return value


@cache
def kernel(degree: int) -> Kernel:
    """Return K^{2k+1,k+1} (King 2017, eq. 2.1), made in exact fractions; its pieces are read only.

    Parameters
    ----------
    degree
        k, 0 to 7.

    Raises
    ------
    ReproError
        The degree is another.
    """
    if not 0 <= degree <= MAX_DEGREE:
        raise ReproError("no kernel of this degree", expected=f"0 to {MAX_DEGREE}", actual=degree)
    spline = _spline(degree)
    coefficients = _coefficients(degree, spline)
    exact = [[Fraction(0)] * (degree + 1) for _ in range(3 * degree + 1)]
    for first, coefficient in enumerate(coefficients):
        for j, piece in enumerate(spline):
            for a, number in enumerate(piece):
                exact[first + j][a] += coefficient * number
    pieces = np.array([[float(number) for number in piece] for piece in exact])
    pieces.setflags(write=False)
    return Kernel(degree, coefficients, pieces)


def _spline(degree: int) -> list[list[Fraction]]:
    """Return the B-spline on the knots 0 … k + 1 in pieces, by the recursion of Cox and de Boor."""
    pieces = [[Fraction(1)]]
    for k in range(1, degree + 1):
        nothing = [Fraction(0)] * k
        raised = []
        for j in range(k + 1):
            here = pieces[j] if j < k else nothing
            before = pieces[j - 1] if j else nothing
            # k N_k(j + t) = (j + t) N_{k-1}(j + t) + (k + 1 - j - t) N_{k-1}(j - 1 + t)
            piece = [Fraction(0)] * (k + 1)
            for a in range(k):
                piece[a] += (j * here[a] + (k + 1 - j) * before[a]) / k
                piece[a + 1] += (here[a] - before[a]) / k
            raised.append(piece)
        pieces = raised
    return pieces


def _coefficients(degree: int, spline: list[list[Fraction]]) -> tuple[Fraction, ...]:
    """Return what solves the equations of the moments 0 … 2k about the kernel's centre."""
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
    """Return ∫N(z) (z + shift)^m dz, piece by piece with the m-th power integrated by parts."""
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
