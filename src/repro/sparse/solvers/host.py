"""BiCGSTAB on the host, by the recurrence of kernels/sparse/bicgstab.j2: what a device has to arrive at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.sparse.solvers.render import Reason

Vector = NDArray[np.floating]


@dataclass(frozen=True)
class Course:
    """What a number of iterations came to.

    Attributes
    ----------
    x
        `(n,)`, in the vectors' precision.
    residuals
        float64 `(iterations + 1,)`: the norm of the recurrence's r at the start and after each finished iteration.
    reason
        Why it stopped before it had done them all.
    """

    x: Vector
    residuals: NDArray[np.float64]
    reason: Reason


def bicgstab(multiply: Callable[[Vector], Vector], b: Vector, iterations: int) -> Course:
    """Run at most so many iterations from x = 0, with r̂ = b and all sums in double precision.

    Parameters
    ----------
    multiply
        Returns A v in the precision of v.
    b
        `(n,)`; its precision is that of all vectors.
    """
    scalar = b.dtype.type
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    shadow = b.astype(np.float64)
    rho = _dot(shadow, b)
    residuals = [_norm(b)]
    reason = Reason.NONE
    with np.errstate(all="ignore"):
        while len(residuals) <= iterations and reason == Reason.NONE:
            v = multiply(p)
            alpha = scalar(np.float64(rho) / _dot(shadow, v))
            if not _usable(alpha):
                reason = Reason.RHO if rho == 0 else Reason.PROJECTION
                break
            s = r - alpha * v
            t = multiply(s)
            omega = scalar(np.float64(_dot(t, s)) / _dot(t, t))
            if not _usable(omega):
                omega, t, reason = scalar(0), np.zeros_like(t), Reason.OMEGA
            x = x + (alpha * p + omega * s)
            r = s - omega * t
            before, rho = rho, _dot(shadow, s) - float(omega) * _dot(shadow, t)
            beta = scalar(np.float64(rho) / before * (np.float64(alpha) / np.float64(omega)))
            if reason == Reason.NONE and not _usable(beta):
                reason = Reason.RHO
            p = r + beta * (p - omega * v)
            residuals.append(_norm(r))
    return Course(x, np.array(residuals), reason)


def _usable(factor: np.floating) -> bool:
    return bool(factor != 0 and np.isfinite(factor))


def _dot(a: Vector, b: Vector) -> float:
    return float(np.dot(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)))


def _norm(a: Vector) -> float:
    return float(np.sqrt(_dot(a, a)))
