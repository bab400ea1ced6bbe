"""The V-cycle on the host, the reference of the device's."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro.sparse.multigrid.reference import (
    COARSE_STEPS,
    DENSE_ROWS,
    JACOBI,
    HostLevel,
    Smoother,
    spectral_radius,
)


class Cycle:
    """V(1, 1) cycle, with the pseudo-inverse of a small coarsest matrix.

    `steps` are Arnoldi steps for each spectral radius.
    """

    def __init__(self, levels: Sequence[HostLevel], steps: int = 8, smoother: Smoother | None = None) -> None:
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

    def __call__(self, b: NDArray[np.floating], depth: int = 0) -> NDArray[np.floating]:
        """Return an approximation of A⁻¹ b."""
        level = self._levels[depth]
        if level.p is None or level.r is None:
            return self._solve_coarsest(b)
        x = self._smoothed(depth, b, np.zeros_like(b))
        x = x + level.p @ self(level.r @ (b - level.a @ x), depth + 1)
        return self._smoothed(depth, b, x)

    def _smoothed(self, depth: int, b: NDArray[np.floating], x: NDArray[np.floating]) -> NDArray[np.floating]:
        for step in self._steps[depth]:
            x = x + step * (b - self._levels[depth].a @ x)
        return x

    def _solve_coarsest(self, b: NDArray[np.floating]) -> NDArray[np.floating]:
        if self._pseudo_inverse is not None:
            solution: NDArray[np.floating] = self._pseudo_inverse @ b
            return solution
        return self._smoothed(len(self._levels) - 1, b, np.zeros_like(b))
