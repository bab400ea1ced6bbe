"""A V-cycle on the host, and conjugate gradients with it: what the device's are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro.sparse.multigrid.model import Level, spectral_radius

#: The weight of Jacobi's method, over the spectral radius of D⁻¹A.
JACOBI = 4 / 3


class Cycle:
    """V(1, 1) with Jacobi's method, and the pseudo-inverse of the coarsest matrix.

    Parameters
    ----------
    levels
        The finest first.
    steps
        Steps of Arnoldi's process for each spectral radius.
    """

    def __init__(self, levels: Sequence[Level], steps: int = 8) -> None:
        self._levels = levels
        finer = levels[:-1]
        self._weights = [JACOBI / max(spectral_radius(level.a, steps), 1e-300) for level in finer]
        self._inverses = [weight / level.a.diagonal() for weight, level in zip(self._weights, finer, strict=True)]
        self._coarsest = np.linalg.pinv(levels[-1].a.toarray())

    def __call__(self, b: NDArray[np.floating], at: int = 0) -> NDArray[np.floating]:
        """Return an approximation of A⁻¹ b."""
        level = self._levels[at]
        if level.p is None or level.r is None:
            coarsest: NDArray[np.floating] = self._coarsest @ b
            return coarsest
        x = self._inverses[at] * b  # a step from 0
        x = x + level.p @ self(level.r @ (b - level.a @ x), at + 1)
        smoothed: NDArray[np.floating] = x + self._inverses[at] * (b - level.a @ x)
        return smoothed
