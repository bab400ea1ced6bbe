"""V-cycles and preconditioned conjugate gradients on a device, where all vectors and scalars stay.

Convergence counts only for residuals that are computed as b - A x. `ConvergenceMonitor` decides about convergence and
stagnation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Device
from repro.errors import ReproError, ReproErrorOfValue
from repro.sparse.device_primitives import Load, Owner, Repeated, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, Launch, in_order
from repro.sparse.multigrid.hierarchy import COLUMN_STRIDE, Coarsening, DeviceLevel, LevelLaunches, row_arguments
from repro.sparse.multigrid.reference import COARSE_STEPS, DENSE_ROWS, JACOBI, MultigridSettings, Smoother
from repro.sparse.spgemm.multiplication import Multiplication

#: Number of conjugate gradient steps between two residuals that are computed from x.
COMPUTED_EVERY = 50
#: The recurrence has drifted if the computed residual is more than this multiple of the updated one.
DRIFT = 2
#: Recompute the residual from x once the recurrence's has fallen to this fraction of the last recomputed one.
NEXT = 0.1
#: A residual below this share of the smallest one so far is progress; and largest number of restarts without progress.
PROGRESS_SHARE, MAX_IDLE = 0.5, 2


@dataclass(frozen=True)
class SolveResult:
    """Result of V-cycles or of conjugate gradients."""

    #: Euclidean norms of b - A x at the start and after each step. The last one is computed from x with sums in double
    #: precision.
    residuals: list[float]
    converged: bool
    #: Last residual divided by the norm of b; it neither overflows nor underflows.
    reached: float
    #: If the solve has not converged: estimated residual due to rounding of x, divided by the norm of b.
    rounding: float | None = None


class ConvergenceMonitor:
    """Residuals of conjugate gradients, and the decisions about convergence, restarts and the end.

    An updated residual goes on shrinking even if rounding of x stops the residual b - A x. So the residual is computed
    from x before the solve counts as converged, at the estimated rounding limit `floor`, and every `COMPUTED_EVERY`
    steps.

    `residuals` has one at the start and one for each step. `drifted`: an updated residual differed from the computed
    one. `hovers`: the last `COMPUTED_EVERY` steps made no progress. `stalled`: restarts with computed residuals made
    none.
    """

    def __init__(self, first: float, target: float, floor: float) -> None:
        self.residuals = [first]
        self.drifted = self.hovers = self.stalled = False
        self._target, self._next = target, max(target, floor)
        self._computed = 0  # number of the last step with a computed residual
        self._idle, self._least = 0, np.inf

    @property
    def steps(self) -> int:
        return len(self.residuals) - 1

    @property
    def has_converged(self) -> bool:
        """Whether the last residual is computed from x and small enough."""
        return self._computed == self.steps and self.residuals[-1] <= self._target

    def goes_on(self, max_iterations: int) -> bool:
        """Return whether to take another step, within the limit of `max_iterations` steps."""
        return (
            not (self.has_converged or self.stalled)
            and self.steps < max_iterations
            and bool(np.isfinite(self.residuals[-1]))
        )

    def take_updated(self, residual: float) -> None:
        self.residuals.append(residual)

    def is_due(self, max_iterations: int) -> bool:
        overdue = self.steps - self._computed >= COMPUTED_EVERY or self.steps >= max_iterations
        return overdue or not self._next < self.residuals[-1] < np.inf

    def take_computed(self, residual: float) -> bool:
        """Replace the last, updated residual by `residual`, computed from x.

        Return whether the updated residual had drifted.

        After drift, residuals since the last computed one are raised to it: errors of x add up, so earlier ones were
        not larger.
        """
        drifted = not residual <= DRIFT * self.residuals[-1]
        overdue = self.steps - self._computed >= COMPUTED_EVERY
        self.hovers = overdue and residual > PROGRESS_SHARE * self.residuals[self._computed]
        if drifted:
            for step in range(self._computed + 1, self.steps):
                self.residuals[step] = max(self.residuals[step], residual)
            self._idle = self._idle + 1 if residual > PROGRESS_SHARE * self._least else 0
            self._least = min(self._least, residual)
            self.stalled = self._idle >= MAX_IDLE
            self.drifted = True
        self.residuals[-1], self._computed = residual, self.steps
        self._next = max(self._target, NEXT * residual)
        return drifted


@dataclass(frozen=True)
class Goal:
    """Stopping criteria of a solve, and the user's callback."""

    #: The norm of b - A x has to be at most `tolerance` times that of b, or `absolute` if this is larger.
    tolerance: float
    max_iterations: int
    absolute: float = 0.0
    #: Called after each step, with the exponent of the power of two by which x is divided.
    observe: Callable[[int], None] | None = None
    exponent: int = 0

    def target(self, norm_of_b: float) -> float:
        return max(self.tolerance * norm_of_b, self.absolute)

    def step_done(self) -> None:
        if self.observe is not None:
            self.observe(self.exponent)

    def scaled(self, exponent: int) -> Goal:
        """Return the goal for b and x divided by two to the power of `exponent`."""
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, absolute=float(np.ldexp(self.absolute, -exponent)), exponent=exponent)


#: Function that solves, given the norm of b and when to end.
Method = Callable[[float, Goal], SolveResult]
#: Norms of b from 2^-limit to 2^limit need no scaling; the limit by dtype.
MIDDLING = {"float32": 60, "float64": 100}
#: Number of V-cycles without a new minimum after which the residual is compared with the rounding limit; and factor of
#: that limit.
PATIENCE, ROUNDING = 10, 4


class CycleVectors(NamedTuple):
    """Vectors of a level in a V-cycle: right-hand side, solution, residual, and a temporary one."""

    b: Buffer
    x: Buffer
    left: Buffer
    other: Buffer


class CgVectors(NamedTuple):
    """Launches and buffers of conjugate gradients."""

    #: Residual r, `(n,)`.
    r: Buffer
    #: Scalars that the host reads back after each step.
    numbers: Buffer
    #: Computes the residual and resets the search direction.
    begin: Launch
    #: Queues a step; its argument alternates between 1 and 0.
    step: Callable[[int], None]
    #: Computes the residual from x into `computed`, which the next step overwrites.
    compute: Launch
    computed: Buffer


class Solver(Owner):
    """Solves A x = b by a hierarchy that the caller owns; `b` and `x` are buffers `(n,)`."""

    def __init__(
        self, device: Device, load: Load, levels: Sequence[DeviceLevel], smoother: Smoother | None = None
    ) -> None:
        self._device, self._load, self._levels, self._smoother = device, load, levels, smoother or Smoother()
        self._dtype, self._n = levels[0].a.dtype, levels[0].a.shape[0]
        self._eps = float(np.finfo(self._dtype).eps)
        self._stack = ExitStack()
        try:
            self._run = run = LevelLaunches(device, load, self._dtype, self._stack)
            self._kernels = Kernels(device, load("cycle"))
            self._vectors = [CycleVectors(*(run.scalars(level.a.shape[0]) for _ in range(4))) for level in levels]
            self.b, self.x = run.scalars(self._n), run.scalars(self._n)
            self._square = run.numbers(1, np.float64)
            self._gradients: CgVectors | None = None
            coarsest = self._invert_coarsest()
            self._inverse: Buffer | np.float64 = (
                coarsest if isinstance(coarsest, np.float64) else self._run.keep(device.upload(coarsest))
            )
            #: Launches bound to the current levels, and their memory.
            self._bound = self._stack.enter_context(ExitStack())
        except BaseException:
            self._stack.close()
            raise

    def cycle(self, b: Buffer, x: Buffer) -> Launch:
        """Return a launch of a V-cycle from x = 0, which approximates A⁻¹ b; valid until `renew`."""
        return self._repeated_cycle(b, x, self._bound)

    def iterate(
        self,
        tolerance: float,
        max_iterations: int,
        *,
        absolute: float = 0.0,
        observe: Callable[[int], None] | None = None,
    ) -> SolveResult:
        """Solve by V-cycles from the current x; the arguments are those of `Goal`.

        All residuals are computed from x. The iteration ends early where rounding prevents further progress. Non-finite
        or unsuitable b or x, and a solution that overflows, raise `ReproError`.
        """
        return self._solve(self._solve_by_cycles, Goal(tolerance, max_iterations, absolute, observe))

    def conjugate_gradients(
        self,
        tolerance: float,
        max_iterations: int,
        *,
        absolute: float = 0.0,
        observe: Callable[[int], None] | None = None,
    ) -> SolveResult:
        """Solve by conjugate gradients with a V-cycle as preconditioner; arguments and errors are those of `iterate`.

        Residuals are updated from step to step. They are computed from x before convergence, where rounding may end
        progress, at the last step and every `COMPUTED_EVERY` steps. If a computed residual is above `DRIFT` times the
        updated one, smaller ones since the last computed one are raised to it, and conjugate gradients restart from x.
        So no listed residual is below a third of b - A x. The iteration ends early if restarts, or `COMPUTED_EVERY`
        steps near the rounding limit, make no progress. If the matrix or the cycle is not positive definite,
        `ReproError` is raised, and x is from an earlier step; after a restart this is attributed to rounding, and the
        iteration ends without convergence.
        """
        return self._solve(self._solve_by_gradients, Goal(tolerance, max_iterations, absolute, observe))

    def _solve(self, method: Method, goal: Goal) -> SolveResult:
        size, limit = self._norm(self.b), 2.0 ** MIDDLING[self._dtype.name]
        if 1 / limit <= size <= limit:
            return method(size, goal)
        return self._solve_scaled(method, goal)

    def _solve_by_cycles(self, size: float, goal: Goal) -> SolveResult:
        with ExitStack() as stack:
            run = LevelLaunches(self._device, self._load, self._dtype, stack)
            r, correction = run.scalars(self._n), run.scalars(self._n)
            residual = self._residual(r)
            add = self._kernels.over("add_vector", self._n, [np.int32(self._n), correction, self.x])
            cycle = self._repeated_cycle(r, correction, stack)
            residual()
            residuals, target = [self._first_norm(r)], goal.target(size)
            while residuals[-1] > target and len(residuals) <= goal.max_iterations and np.isfinite(residuals[-1]):
                for launch in (cycle, add, residual):
                    launch()
                residuals.append(self._norm(r))
                goal.step_done()
                idle = len(residuals) - 1 - int(np.argmin(residuals))
                if idle and idle % PATIENCE == 0 and residuals[-1] <= ROUNDING * self._rounding_limit(correction):
                    break
            return self._result(residuals, target, size, correction)

    def _solve_by_gradients(self, size: float, goal: Goal) -> SolveResult:
        if self._gradients is None:
            with ExitStack() as stack:
                self._gradients = self._bind_gradients(stack)
                self._bound.enter_context(stack.pop_all())
        gradients, target, max_iterations = self._gradients, goal.target(size), goal.max_iterations
        gradients.begin()
        first = self._first_norm(gradients.r)
        course = ConvergenceMonitor(first, target, self._eps * max(size, first))
        while course.goes_on(max_iterations):
            odd = (course.steps + 1) % 2
            gradients.step(odd)
            numbers = self._run.download(gradients.numbers, 4 * COLUMN_STRIDE, np.float64)
            *cycle_products, curvature, square = numbers[::COLUMN_STRIDE]
            cycle_product = cycle_products[odd]
            course.take_updated(float(np.sqrt(square)))
            goal.step_done()
            refusal = _definiteness_error(course.steps, curvature, cycle_product)
            useless_step = refusal is not None or cycle_product == 0
            if not useless_step and not course.is_due(max_iterations):
                continue
            gradients.compute()
            drifted = course.take_computed(self._norm(gradients.computed))
            if useless_step and not course.has_converged:
                if refusal is not None and not course.drifted:
                    raise refusal
                course.stalled = True  # because of rounding, or because a V-cycle maps the remaining residual to 0
            elif course.hovers and min(course.residuals) <= ROUNDING * self._rounding_limit(gradients.computed):
                course.stalled = True
            elif drifted and course.goes_on(max_iterations):
                gradients.begin()
        return self._result(course.residuals, target, size, gradients.computed)

    def _bind_gradients(self, stack: ExitStack) -> CgVectors:
        run, n = LevelLaunches(self._device, self._load, self._dtype, stack), np.int32(self._n)
        r, z, p, ap = (run.scalars(self._n) for _ in range(4))
        numbers = run.numbers(4 * COLUMN_STRIDE, np.float64)  # all four columns are read back together, once per step
        products = [run.column(numbers, i) for i in range(4)]
        pap, square = products[2:]
        cycle, multiply = in_order(self._bind_cycle(0, r, z)), self._product("multiply", self._levels[0].a, p, [], ap)
        residual, compute = self._residual(r), self._residual(ap)

        def begin() -> None:
            for buffer in (p, numbers):
                run.device.fill(buffer, 0)
            residual()

        def bind_step(odd: int) -> Launch:
            rz, previous_rz = products[odd], products[1 - odd]
            return in_order(
                [
                    cycle,
                    run.bind_dots(self._n, r, 1, 0, z, rz),
                    self._kernels.over(
                        "update_direction", self._n, [n, rz, previous_rz, z, p]
                    ),  # there is no search direction before the first step
                    multiply,
                    run.bind_dots(self._n, p, 1, 0, ap, pap),
                    self._kernels.over("cg_step", self._n, [n, rz, pap, p, ap, self.x, r]),
                    run.bind_dots(self._n, r, 1, 0, r, square),
                ]
            )

        steps = [run.keep(Repeated(self._device, bind_step(odd))) for odd in (0, 1)]
        return CgVectors(r, numbers, begin, lambda odd: steps[odd](), compute, ap)

    def renew(self, levels: Sequence[DeviceLevel]) -> None:
        """Use refreshed levels; cycles that were bound before are released."""
        self._gradients = None
        self._bound.close()
        self._levels, coarsest = levels, self._invert_coarsest()
        if isinstance(coarsest, np.float64):
            self._inverse = coarsest
        elif not isinstance(self._inverse, np.float64):
            self._device.write(self._inverse, coarsest)

    # ------------------------------------------------------------------------------------------------------------------

    def _repeated_cycle(self, b: Buffer, x: Buffer, stack: ExitStack) -> Launch:
        return keep(stack, Repeated(self._device, in_order(self._bind_cycle(0, b, x))))

    def _bind_cycle(self, depth: int, b: Buffer, x: Buffer) -> list[Launch]:
        level, vectors = self._levels[depth], self._vectors[depth]
        if level.p is None or level.r is None:
            return self._bind_coarsest(b, x)
        coarse_vectors, weights = self._vectors[depth + 1], self._smoother.weights(level.radius)
        # steps alternate between two buffers, so that the last one writes x
        first, second = vectors.other, x
        steps = 2 * len(weights) - 1
        places = [(first, second)[step % 2] for step in range(steps + 1)]
        middle = len(weights) - 1
        return [
            self._bind_first_smoothing(level, b, weights[0], first),
            *self._bind_smoothing(level, b, weights[1:], places[: middle + 1]),
            self._product("residual", level.a, places[middle], [b], vectors.left),
            self._product("multiply", level.r, vectors.left, [], coarse_vectors.b),
            *self._bind_cycle(depth + 1, coarse_vectors.b, coarse_vectors.x),
            self._product("add_product", level.p, coarse_vectors.x, [], places[middle]),
            *self._bind_smoothing(level, b, weights, places[middle:]),
        ]

    def _bind_smoothing(
        self, level: DeviceLevel, b: Buffer, weights: Iterable[float], places: Sequence[Buffer]
    ) -> list[Launch]:
        """Return the launches of smoothing steps, each from one buffer of `places` to the next one."""
        return [
            self._product("jacobi_step", level.a, source, [b, level.diagonal, np.float64(weight)], destination)
            for weight, (source, destination) in zip(weights, pairwise(places), strict=True)
        ]

    def _invert_coarsest(self) -> NDArray[np.float64] | np.float64:
        """Return the pseudo-inverse of the coarsest matrix, column by column; for a large matrix the Jacobi weight."""
        level = self._levels[-1]
        if level.a.shape[0] <= DENSE_ROWS:
            dense = level.a.download().to_csr().toarray().astype(np.float64)
            if not np.isfinite(dense).all():
                raise ReproErrorOfValue("multigrid needs finite numbers", where="the coarsest matrix")
            inverse: NDArray[np.float64] = np.ascontiguousarray(np.linalg.pinv(dense).T).ravel()
            return inverse
        with ExitStack() as stack:
            run = LevelLaunches(self._device, self._load, self._dtype, stack)
            multiply = Multiplication(self._device, self._load, self._dtype).multiply_in_one_phase
            step = Coarsening(run, multiply, MultigridSettings())
            step.measure(level)()
            return np.float64(JACOBI / step.read(level).checked_radius())

    def _bind_coarsest(self, b: Buffer, x: Buffer) -> list[Launch]:
        level, other, n = self._levels[-1], self._vectors[-1].other, self._levels[-1].a.shape[0]
        if not isinstance(self._inverse, np.floating):
            return [self._kernels.over("multiply_dense", n, [np.int32(n), self._inverse, b, x])]
        # steps alternate between two buffers, so that the last one writes x
        places = [x if (COARSE_STEPS - step) % 2 else other for step in range(COARSE_STEPS)]
        weights = (COARSE_STEPS - 1) * [self._inverse]
        return [
            self._bind_first_smoothing(level, b, self._inverse, places[0]),
            *self._bind_smoothing(level, b, weights, places),
        ]

    def _bind_first_smoothing(self, level: DeviceLevel, b: Buffer, weight: float, x: Buffer) -> Launch:
        n = level.a.shape[0]
        return self._kernels.over("jacobi_from_zero", n, [np.int32(n), b, level.diagonal, np.float64(weight), x])

    def _product(
        self, kernel: str, matrix: Storage, x: Buffer, extra_arguments: Sequence[Argument], y: Buffer
    ) -> Launch:
        rows, lanes = matrix.shape[0], self._run.lanes(matrix, matrix.report().pointer)
        arguments = [np.int32(rows), *row_arguments(matrix), x, *extra_arguments, y]
        return self._kernels.over(f"{kernel}_w{lanes}", rows * lanes, arguments)

    def _residual(self, r: Buffer) -> Launch:
        """Return a launch of b - A x with sums in double precision."""
        return self._product("residual_double", self._levels[0].a, self.x, [self.b], r)

    def _norm(self, vector: Buffer) -> float:
        self._run.dots(self._n, vector, 1, 0, vector, self._square)
        return float(np.sqrt(self._run.download(self._square, 1, np.float64)[0]))

    def _first_norm(self, r: Buffer) -> float:
        first = self._norm(r)
        if not np.isfinite(first):
            check_finite(self._read(self.x), "x0")
            raise _too_far()
        return first

    def _rounding_limit(self, scratch: Buffer) -> float:
        """Return an estimate of the residual that is due to rounding of x."""
        self._product("abs_row_bound", self._levels[0].a, self.x, [self.b], scratch)()
        return self._eps * self._norm(scratch)

    def _result(self, residuals: list[float], target: float, size: float, scratch: Buffer) -> SolveResult:
        last = residuals[-1]
        rounding = self._rounding_limit(scratch) / size if last > target and np.isfinite(last) else None
        return SolveResult(residuals, last <= target, last / size, rounding)

    # ------------------------------------------------------------------------------------------------------------------

    def _solve_scaled(self, method: Method, goal: Goal) -> SolveResult:
        """Solve with b and x scaled by a power of two, so that squares neither overflow nor underflow.

        Then restore b.
        """
        b, x = self._read(self.b), self._read(self.x)
        check_finite(b, "b")
        check_finite(x, "x0")
        exponent = int(np.frexp(np.abs(b if b.any() else x).max(initial=0))[1])
        x0 = shifted(x, -exponent)
        if not np.isfinite(x0).all():
            raise _too_far()
        try:
            self._write(self.b, shifted(b, -exponent))
            self._write(self.x, x0)
            if b.any():
                scaled = goal.scaled(exponent)
                return self._scaled_back(method(self._norm(self.b), scaled), scaled)
            first = self._norm_of_residual() if x.any() else 0.0
            self._write(self.x, np.zeros_like(x))
            return SolveResult([float(np.ldexp(first, exponent)), 0.0] if first else [0.0], True, 0.0)
        finally:
            self._write(self.x, shifted(self._read(self.x), exponent))
            self._write(self.b, b)

    def _scaled_back(self, result: SolveResult, goal: Goal) -> SolveResult:
        """Return the result in the original scale, where x may lose digits or overflow."""
        exponent = goal.exponent
        scaled_x = self._read(self.x)
        x = shifted(scaled_x, exponent)
        if np.isfinite(scaled_x).all() and not np.isfinite(x).all():
            raise ReproErrorOfValue(
                f"the solution is out of range for {self._dtype}",
                where="x",
                expected=f"numbers up to {np.finfo(self._dtype).max:.3g}",
                actual=f"{np.abs(scaled_x).max():.3g} times 2**{exponent}",
                todo="scale b",
            )
        residuals, round_trip = result.residuals, shifted(x, -exponent)
        if np.isfinite(result.reached) and not np.array_equal(round_trip, scaled_x):
            self._write(self.x, round_trip)
            size, last = self._norm(self.b), self._norm_of_residual()
            residuals = [*residuals[:-1], last]
            result = SolveResult(residuals, last <= goal.target(size), last / size, last / size)
        with np.errstate(over="ignore"):
            return replace(result, residuals=np.ldexp(residuals, exponent).tolist())

    def _norm_of_residual(self) -> float:
        with ExitStack() as stack:
            r = LevelLaunches(self._device, self._load, self._dtype, stack).scalars(self._n)
            self._residual(r)()
            return self._norm(r)

    def _read(self, vector: Buffer) -> NDArray[Any]:
        return self._run.download(vector, self._n, self._dtype)

    def _write(self, buffer: Buffer, vector: NDArray[Any]) -> None:
        if vector.size:
            self._device.write(buffer, vector)


def shifted(vector: NDArray[Any], exponent: int) -> NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        shifted: NDArray[Any] = np.ldexp(vector, exponent)
    return shifted


def check_finite(vector: NDArray[Any], subject: str) -> None:
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ReproErrorOfValue(
            "multigrid needs finite numbers",
            where=f"{subject}[{bad[0]}], the first of {len(bad)}",
            expected="a finite number",
            actual=vector[bad[0]],
        )


def _too_far() -> ReproError:
    return ReproErrorOfValue(
        "x0 is too large to start from",
        where="x0",
        expected="an x0 whose residual b - A x0 is comparable with b",
        actual="a residual that overflows relative to b",
        todo="start from 0",
    )


def _definiteness_error(step: int, curvature: float, cycle_product: float) -> ReproError | None:
    """Return the error if a step has a direction of non-positive curvature, or None."""
    wrong = {
        "r^T M r, M the cycle": (cycle_product, cycle_product < 0),
        "p^T A p": (curvature, curvature <= 0 < cycle_product),
    }
    for product, (number, violated) in wrong.items():
        if violated:
            return ReproErrorOfValue(
                "conjugate gradients need a matrix that is symmetric and positive definite",
                where=f"step {step}",
                expected=f"{product} above 0",
                actual=f"{number:.3g}",
                todo="if -A is positive definite, solve with -A; otherwise pass `ml.aspreconditioner()` to another "
                "solver",
            )
    return None
