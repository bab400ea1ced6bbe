"""A V-cycle on the host, and conjugate gradients with it: what the device's are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro.sparse.multigrid.model import Level, spectral_radius

#: The weight of Jacobi's method, over the spectral radius of D⁻¹A.
JACOBI = 4 / 3
#: A coarsest matrix of so many rows is inverted; of more rows so many steps of Jacobi's method are done instead.
DENSE_ROWS, COARSE_STEPS = 1024, 8


class Cycle:
    """V(1, 1) with Jacobi's method, and the pseudo-inverse of the coarsest matrix unless that is large.

    Parameters
    ----------
    levels
        The finest first.
    steps
        Steps of Arnoldi's process for each spectral radius.
    """

    def __init__(self, levels: Sequence[Level], steps: int = 8) -> None:
        self._levels = levels
        coarsest = levels[-1].a
        dense = coarsest.shape[0] <= DENSE_ROWS
        self._pseudo_inverse = np.linalg.pinv(coarsest.toarray()) if dense else None
        self._inverses = [
            JACOBI / spectral_radius(level.a, steps) / level.a.diagonal()
            for level in (levels[:-1] if dense else levels)
        ]

    def __call__(self, b: NDArray[np.floating], at: int = 0) -> NDArray[np.floating]:
        """Return an approximation of A⁻¹ b."""
        level = self._levels[at]
        if level.p is None or level.r is None:
            return self._solve_coarsest(b)
        inverse = self._inverses[at]
        x = inverse * b  # a step from 0
        x = x + level.p @ self(level.r @ (b - level.a @ x), at + 1)
        smoothed: NDArray[np.floating] = x + inverse * (b - level.a @ x)
        return smoothed

    def _solve_coarsest(self, b: NDArray[np.floating]) -> NDArray[np.floating]:
        if self._pseudo_inverse is not None:
            solution: NDArray[np.floating] = self._pseudo_inverse @ b
            return solution
        x: NDArray[np.floating] = self._inverses[-1] * b
        for _ in range(COARSE_STEPS - 1):
            x = x + self._inverses[-1] * (b - self._levels[-1].a @ x)
        return x
