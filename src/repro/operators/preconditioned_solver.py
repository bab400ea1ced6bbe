"""Conjugate gradients and BiCGSTAB with a user's preconditioner: each product and vector operation is a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse.linalg

from repro.errors import ReproErrorOfType, ReproErrorOfValue
from repro.operators.arrays import DeviceArray
from repro.operators.base import DeviceOperator, one_of
from repro.operators.iterative_solver import IterativeSolver, require_square
from repro.sparse.solvers.kernels import METHODS, CgState, StopReason
from repro.sparse.solvers.persistent import AT_ROUNDING, Progress, RestartedSolver

if TYPE_CHECKING:
    from repro.operators.spmv import SpmvOperator

#: Writes M r, for r on the device.
Preconditioner = Callable[[DeviceArray, DeviceArray], None]


class PreconditionedSolver(IterativeSolver):
    """Solves with an operator, which stays its owner's, and a preconditioner; see `repro.solve` for `M`."""

    def __init__(self, A: SpmvOperator, M: Any, method: str) -> None:
        one_of(method, "method", METHODS)
        require_square(A._problem)
        super().__init__(A._runtime, A._kind, A.n, method)
        self._vectors = A.vectors
        self._solver = _Recurrence(A, preconditioner(M, A), method)

    solve = IterativeSolver._solve

    def close(self) -> None:
        """Drop the vectors, whose memory is freed with them."""
        self._solver, self.closed = None, True


def preconditioner(M: Any, A: SpmvOperator) -> Preconditioner:
    """Return what applies a user's preconditioner: on the device if it works there, else on the host."""
    runtime, dtype = A._runtime, A.dtype
    if hasattr(M, "aspreconditioner"):
        from repro.operators.multigrid import MultilevelSolver

        if (
            isinstance(M, MultilevelSolver)
            and M.device_name == A.device_name
            and (M.shape, M.dtype) == (A.shape, dtype)
        ):
            return M._precondition_on_device
        M = M.aspreconditioner()
    try:
        operator = scipy.sparse.linalg.aslinearoperator(M)
    except (TypeError, ValueError):
        raise ReproErrorOfType(
            "not a preconditioner",
            where="M",
            expected="a LinearOperator, a matrix, or the result of `repro.amg`",
            actual=type(M).__name__,
        ) from None
    if tuple(operator.shape) != A.shape:
        raise ReproErrorOfValue(
            "the preconditioner has the wrong shape", where="M", expected=A.shape, actual=tuple(operator.shape)
        )
    if isinstance(operator, DeviceOperator) and operator._runtime is runtime and operator.dtype == dtype:
        return operator.matvec

    def on_host(r: DeviceArray, z: DeviceArray) -> None:
        product = A._kind.members(np.ravel(operator.matvec(r.get())), "M r")
        runtime.device.write(z.buffer, product)

    return on_host


class _Recurrence(RestartedSolver):
    """A recurrence on the host, of products and vector operations on the device, as `RestartedSolver` drives it."""

    def __init__(self, A: SpmvOperator, precondition: Preconditioner, method: str) -> None:
        super().__init__(A._runtime.device, A._kind.scalar, CgState)
        self._operator, self._vectors, self._precondition = A, A.vectors, precondition
        self._method = {"cg": self._conjugate_gradients, "bicgstab": self._bicgstab}[method]
        self._x_vector, self._b_vector, self._r = (self._vectors.zeros() for _ in range(3))
        self.x, self.b = self._x_vector.buffer, self._b_vector.buffer
        self._iterations, self._limit = 0, 0.0
        self._residual = self._norm_of_b = math.nan
        self._reason = StopReason.NONE
        self._steps: Iterator[StopReason] = iter(())

    def reset(self) -> None:
        self._iterations, self._limit = 0, 0.0

    def stop_at(self, residual: float) -> None:
        self._limit = residual

    def begin(self) -> None:
        vectors, r = self._vectors, self._r
        self._operator.matvec(self._x_vector, r)
        vectors.axpby(1, self._b_vector, -1, r)
        self._residual, self._norm_of_b = vectors.norm(r), vectors.norm(self._b_vector)
        self._reason, self._steps = StopReason.NONE, self._method()

    def iterate(self, count: int) -> None:
        for _ in range(count):
            if self._reason != StopReason.NONE:
                return
            self._reason = next(self._steps)
            if self._reason == StopReason.BREAKDOWN:
                return
            self._iterations += 1

    def iterations_of_launch(self) -> int:
        return 1000

    def progress(self) -> Progress:
        return Progress(self._iterations, self._residual, self._norm_of_b, self._reason)

    def rounding(self) -> float:
        size = float(np.linalg.norm(self._operator._problem.values)) * self._vectors.norm(self._x_vector)
        return AT_ROUNDING * float(np.finfo(self._dtype).eps) * size

    def _stopped(self) -> StopReason:
        """Take the norm of r as the residual, and return whether the recurrence ends."""
        self._residual = self._vectors.norm(self._r)
        if not math.isfinite(self._residual):
            return StopReason.NOT_FINITE
        return StopReason.CONVERGED if self._residual <= self._limit else StopReason.NONE

    def _conjugate_gradients(self) -> Iterator[StopReason]:
        """Yield after each iteration why the recurrence stops."""
        vectors, x, r = self._vectors, self._x_vector, self._r
        z, p, q = vectors.zeros(), vectors.zeros(), vectors.zeros()
        last_rz = 0.0
        while True:
            self._precondition(r, z)
            rz = vectors.dot(r, z).real
            if not math.isfinite(rz):
                yield StopReason.NOT_FINITE
            if rz <= 0:
                yield StopReason.BREAKDOWN
            vectors.axpby(1, z, rz / last_rz if last_rz else 0, p)
            self._operator.matvec(p, q)
            curvature = vectors.dot(p, q).real
            if curvature <= 0:
                yield StopReason.BREAKDOWN
            step, last_rz = rz / curvature, rz
            vectors.axpby(step, p, 1, x)
            vectors.axpby(-step, q, 1, r)
            yield self._stopped()

    def _bicgstab(self) -> Iterator[StopReason]:
        """Yield after each iteration why the recurrence stops."""
        vectors, x, r = self._vectors, self._x_vector, self._r
        shadow, p, v, t, z = (vectors.zeros() for _ in range(5))
        vectors.axpby(1, r, 0, shadow)
        last_rho: complex = 0.0
        step: complex = 1.0
        damping: complex = 1.0
        while True:
            rho = vectors.dot(shadow, r)
            if rho == 0:
                yield StopReason.BREAKDOWN
            if last_rho:
                vectors.axpby(-damping, v, 1, p)
                vectors.axpby(1, r, rho / last_rho * (step / damping), p)
            else:
                vectors.axpby(1, r, 0, p)
            self._precondition(p, z)
            self._operator.matvec(z, v)
            divisor = vectors.dot(shadow, v)
            if divisor == 0:
                yield StopReason.BREAKDOWN
            step, last_rho = rho / divisor, rho
            vectors.axpby(step, z, 1, x)
            vectors.axpby(-step, v, 1, r)
            half = self._stopped()
            if half != StopReason.NONE:
                yield half
            self._precondition(r, z)
            self._operator.matvec(z, t)
            square = vectors.dot(t, t).real
            damping = vectors.dot(t, r) / square if square else 0.0
            if damping == 0:
                yield StopReason.BREAKDOWN
            vectors.axpby(damping, z, 1, x)
            vectors.axpby(-damping, t, 1, r)
            yield self._stopped()
