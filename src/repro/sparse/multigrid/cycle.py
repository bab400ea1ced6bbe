"""A V-cycle on the host, and conjugate gradients with it: what the device's are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.sparse.multigrid.model import Level, spectral_radius

#: The weight of Jacobi's method, over the spectral radius of D⁻¹A.
JACOBI = 4 / 3
#: A coarsest matrix of so many rows is inverted; of more rows so many steps of Jacobi's method are done instead.
DENSE_ROWS, COARSE_STEPS = 1024, 8
KINDS = ("jacobi", "chebyshev")
DEGREES = range(1, 11)
#: Where the polynomial of Chebyshev's smoother is small, over the spectral radius of D⁻¹A. PyAMG begins at 1/30. With
#: 1/10 conjugate gradients to 1e-8 take 16, 13, 10 and 9 steps at degree 2, not 19, 17, 15 and 15, for Poisson's
#: equation on 150² and 26³ points by 5, 9, 7 and 27 points.
INTERVAL = (1 / 10, 1.1)


@dataclass(frozen=True)
class Smoother:
    """What smooths before and after the coarser levels: steps x + w D⁻¹ (b - A x), each with a weight of its own.

    Attributes
    ----------
    kind
        `jacobi`: one step with the weight 4/3 over the spectral radius of D⁻¹A. `chebyshev`: so many steps as the
        degree; what they leave of an error is the polynomial in D⁻¹A that is 1 at 0 and smallest over an interval, from
        1/10 to 1.1 times the spectral radius (Adams, Brezina, Hu, Tuminaro: "Parallel multigrid smoothing: polynomial
        versus Gauss–Seidel", J. Comput. Phys. 188, 2003; PyAMG begins at 1/30).
    degree
        Of the polynomial of `chebyshev`, a product with the matrix each.

    Raises
    ------
    ReproError
        There is no such smoother.
    """

    kind: str = "jacobi"
    degree: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ReproError("unknown smoother", where="smoother", expected=" or ".join(KINDS), actual=repr(self.kind))
        if self.degree not in DEGREES:
            raise ReproError(
                "a setting of multigrid makes no sense",
                where="degree",
                expected=f"{DEGREES[0]} to {DEGREES[-1]}",
                actual=self.degree,
            )

    def weights(self, radius: float) -> NDArray[np.float64]:
        """Return the weight of each step, for a spectral radius of D⁻¹A."""
        if self.kind == "jacobi":
            return np.array([JACOBI / radius])
        low, high = (part * radius for part in INTERVAL)
        angles = np.pi * (np.arange(self.degree) + 0.5) / self.degree
        roots: NDArray[np.float64] = (high + low) / 2 + (high - low) / 2 * np.cos(angles)
        return 1 / roots


class Cycle:
    """V(1, 1), and the pseudo-inverse of the coarsest matrix unless that is large.

    Parameters
    ----------
    levels
        The finest first.
    steps
        Steps of Arnoldi's process for each spectral radius.
    smoother
        What smooths.
    """

    def __init__(self, levels: Sequence[Level], steps: int = 8, smoother: Smoother | None = None) -> None:
        self._levels, smoother = levels, smoother or Smoother()
        coarsest = levels[-1].a
        dense = coarsest.shape[0] <= DENSE_ROWS
        self._pseudo_inverse = np.linalg.pinv(coarsest.toarray()) if dense else None
        self._steps = [
            [weight / level.a.diagonal() for weight in smoother.weights(spectral_radius(level.a, steps))]
            for level in levels[:-1]
        ]
        if not dense:
            weight = JACOBI / spectral_radius(coarsest, steps)
            self._steps.append(COARSE_STEPS * [weight / coarsest.diagonal()])

    def __call__(self, b: NDArray[np.floating], at: int = 0) -> NDArray[np.floating]:
        """Return an approximation of A⁻¹ b."""
        level = self._levels[at]
        if level.p is None or level.r is None:
            return self._solve_coarsest(b)
        x = self._smoothed(at, b, np.zeros_like(b))
        x = x + level.p @ self(level.r @ (b - level.a @ x), at + 1)
        return self._smoothed(at, b, x)

    def _smoothed(self, at: int, b: NDArray[np.floating], x: NDArray[np.floating]) -> NDArray[np.floating]:
        for step in self._steps[at]:
            x = x + step * (b - self._levels[at].a @ x)
        return x

    def _solve_coarsest(self, b: NDArray[np.floating]) -> NDArray[np.floating]:
        if self._pseudo_inverse is not None:
            solution: NDArray[np.floating] = self._pseudo_inverse @ b
            return solution
        return self._smoothed(len(self._levels) - 1, b, np.zeros_like(b))
