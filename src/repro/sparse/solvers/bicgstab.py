"""BiCGSTAB on a device: H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13(2), 1992, without a preconditioner."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import ReproError
from repro.sparse.solvers.render import BLOCKS, N_T, WORD_BYTES, Reason, State

#: Growth of the residual over that of x = 0 at which a solve is called diverged.
DIVERGED = 1e5
#: Passes over a vector: an iteration's reads and writes outside the products, and those of the start.
ITERATION_PASSES, START_PASSES = 16, 4
#: Sums of a pass, each of which has a part a block.
SUMS = 4

Status = Literal["converged", "drifted", "breakdown", "diverged", "limit"]


@dataclass(frozen=True)
class SolverState:
    """How far a solve has come.

    Attributes
    ----------
    iterations
        Finished ones.
    residual
        Euclidean norm of the recurrence's r; that of b before the first iteration.
    rho
        The inner product of r and r̂.
    reason
        Why it cannot go on; `Reason.NONE` while it can. From then on nothing changes any more.
    """

    iterations: int
    residual: float
    rho: float
    reason: Reason


@dataclass(frozen=True)
class Solution:
    """What a solve came to.

    Attributes
    ----------
    x
        `(n,)`, in the order of the product's vectors.
    iterations
        Finished ones.
    residual
        Euclidean norm of the recurrence's r.
    left
        Euclidean norm of b - A x, computed from x: the product in the working precision, what is left in double.
    status
        `converged`: both are at most the tolerance times that of x = 0. `drifted`: that of r is, that of b - A x is
        not, since r is only updated. `breakdown`: the recurrence divides by zero before that, for `reason`. `diverged`:
        the residual is `DIVERGED` times that of x = 0, or not finite. `limit`: none of these after as many iterations
        as were allowed.
    reason
        Which number a breakdown divides by.
    """

    x: NDArray[np.floating]
    iterations: int
    residual: float
    left: float
    status: Status
    reason: Reason


class BiCGSTAB:
    """The vectors of a solve on a device, and its kernels bound to them.

    An iteration is two products and four kernels; nothing of it waits for the device or allocates, so that it can be
    captured into a graph.

    Parameters
    ----------
    device
        Where A is.
    program
        The module that `repro.sparse.solvers.render.render_solver` is the source of, for the precision `dtype`.
    product_of
        Given buffers x and y of n numbers, returns what queues y = A x.
    n
        Unknowns, at least 1.
    dtype
        float32 or float64.
    guards
        What looks after the memory that is written; None: nobody.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        product_of: Callable[[Buffer, Buffer], Callable[[], None]],
        n: int,
        dtype: np.dtype[Any],
        guards: Guards | None = None,
    ) -> None:
        guards = guards or Guards(device)
        self._product_of = product_of
        self._device, self._n, self._dtype = device, n, np.dtype(dtype)
        self._grid = device.n_s * BLOCKS[device.backend]
        words = -(-n * self._dtype.itemsize // WORD_BYTES)
        self.vector_bytes = words * WORD_BYTES
        with ExitStack() as held:

            def zeros(name: str, nbytes: int = self.vector_bytes) -> Buffer:
                guarded = guards.allocate(nbytes, f"the solver's {name}")
                held.callback(guarded.release)
                device.fill(guarded.memory, 0)  # of a vector the last word may be padding, which has to be zero
                return guarded.memory

            b, x, r, p, v, t = (zeros(name) for name in "bxrpvt")
            partial, squares = zeros("sums", 8 * SUMS * self._grid), zeros("squares", 8 * self._grid)
            state = zeros("state", 8 * len(State))
            n_t = N_T[device.backend]

            def bind(name: str, *buffers: Buffer) -> Callable[[], None]:
                arguments: list[Argument] = [np.int32(words), *buffers]
                return device.bind(program.kernel(name), self._grid, n_t, arguments)

            begin = device.bind(program.kernel("begin"), 1, n_t, [np.int32(self._grid), squares, state])
            self._start = [bind("start", b, x, r, p, squares), begin]
            self._iteration = [
                product_of(p, v),
                bind("project", b, v, partial),
                bind("halve", r, v, partial, state),
                product_of(r, t),
                bind("correlate", b, r, t, partial),
                bind("advance", x, r, p, v, t, partial, squares, state),
            ]
            self._b, self._x, self._t, self._squares, self._state = b, x, t, squares, state
            self._held = held.pop_all()

    def load(self, b: NDArray[np.floating]) -> None:
        """Copy the right-hand side `(n,)`, in the order of the product's vectors, to the device.

        Raises
        ------
        ReproError
            It has another size.
        """
        if b.shape != (self._n,):
            raise ReproError("the right-hand side has another size", expected=(self._n,), actual=b.shape)
        self._device.write(self._b, np.ascontiguousarray(b, self._dtype))

    def start(self) -> None:
        """Queue x = 0 and r = r̂ = p = b."""
        for launch in self._start:
            launch()

    def iterate(self, count: int = 1) -> None:
        """Queue iterations; once it has broken down they leave x and r as they are."""
        for _ in range(count):
            for launch in self._iteration:
                launch()

    def state(self) -> SolverState:
        """Wait for what is queued and return where it stands."""
        state, squares = np.empty(len(State)), np.empty(self._grid)
        self._device.download(self._state, state)
        self._device.download(self._squares, squares)
        with np.errstate(over="ignore"):
            square = float(np.sum(squares))  # infinite or NaN where the solve has diverged
        return SolverState(
            int(state[State.ITERATIONS]),
            math.sqrt(square),
            float(state[State.RHO]),
            Reason(int(state[State.STOPPED]) or int(state[State.STOPPED_HALFWAY])),
        )

    def x(self) -> NDArray[np.floating]:
        """Wait for what is queued and return x, `(n,)`."""
        x = np.empty(self._n, self._dtype)
        self._device.download(self._x, x)
        return x

    def solve(
        self, b: NDArray[np.floating], tolerance: float = 1e-8, most: int = 1000, check_every: int = 10
    ) -> Solution:
        """Solve A x = b from x = 0.

        Parameters
        ----------
        b
            `(n,)`, in the order of the product's vectors.
        tolerance
            Residual to arrive at, as a part of the norm of b.
        most
            Iterations to do at most.
        check_every
            Iterations between two looks at the residual, for which the host waits for the device.

        Raises
        ------
        ReproError
            The right-hand side has another size, or a number of iterations is too small.
        """
        if check_every < 1 or most < 0:
            raise ReproError(
                "so few iterations cannot be done",
                expected="most of 0, check_every of 1 at least",
                actual=(most, check_every),
            )
        self.load(b)
        self.start()
        now = first = self.state()
        status: Status | None = None
        while status is None:
            status = _judge(now, first.residual, tolerance)
            if status is None and now.iterations >= most:
                status = "limit"
            if status is None:
                self.iterate(min(check_every, most - now.iterations))
                now = self.state()
        left = self._left(b)
        if status == "converged" and not left <= tolerance * first.residual:
            status = "drifted"
        return Solution(self.x(), now.iterations, now.residual, left, status, now.reason)

    def _left(self, b: NDArray[np.floating]) -> float:
        """Multiply x, and return the norm of b - A x; t is free between two iterations."""
        self._product_of(self._x, self._t)()
        product = np.empty(self._n, self._dtype)
        self._device.download(self._t, product)
        with np.errstate(all="ignore"):
            return float(np.linalg.norm(b.astype(self._dtype).astype(np.float64) - product))

    def release(self) -> None:
        """Give the vectors back; harmless a second time."""
        self._held.close()


def _judge(now: SolverState, first: float, tolerance: float) -> Status | None:
    """Say how a solve has ended, None where it has not."""
    if now.residual <= tolerance * first:
        return "converged"
    if not math.isfinite(now.residual) or now.residual > DIVERGED * first:
        return "diverged"
    return "breakdown" if now.reason != Reason.NONE else None
