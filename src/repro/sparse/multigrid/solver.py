"""A V-cycle on a device, and conjugate gradients with it; vectors and numbers stay there.

Residuals are computed from x, not only updated, where convergence is claimed. The monitor decides when the
iteration has converged or comes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Captured, CaptureError, Device
from repro.errors import ReproError
from repro.sparse.device_work import Load, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, Launch, in_order
from repro.sparse.multigrid.hierarchy import COLUMN, Coarsening, DeviceLevel, LevelLaunches, rows_of
from repro.sparse.multigrid.reference import COARSE_STEPS, DENSE_ROWS, JACOBI, MultigridSettings, Smoother
from repro.sparse.spgemm.multiplication import Multiplication

#: Steps of conjugate gradients from one residual that is computed, rather than updated, to the next.
COMPUTED_EVERY = 50
#: A residual that is so many times the updated one has drifted away from it.
DRIFT = 2
#: Part of the residual computed last at which it is computed again.
NEXT = 0.1
#: Part of the least residual below which another one is progress, and how often in a row there may be none.
PROGRESS, MAX_IDLE = 0.5, 2


@dataclass(frozen=True)
class SolveResult:
    """What an iteration came to.

    Attributes
    ----------
    residuals
        Euclidean norms of b - A x, the one at the start first. The last one is computed from x with sums in double
        precision; which others are, the method says.
    converged
        Whether the last one is as small as was asked for.
    reached
        The last one over the norm of b, which neither overflows nor underflows.
    rounding
        Where it did not converge: about what rounding x leaves of the residual, over the norm of b.
    """

    residuals: list[float]
    converged: bool
    reached: float
    rounding: float | None = None


class ConvergenceMonitor:
    """The residuals of conjugate gradients, which update theirs from step to step.

    An updated residual goes on shrinking where that of x cannot: x is rounded in each step, and no update knows of it.
    Thus the residual is computed from x before it counts as small enough, and every `COMPUTED_EVERY` steps.

    Parameters
    ----------
    first
        The residual at the start.
    wanted
        How small it has to be.
    floor
        The residual that hardly any solution comes below; it is computed there if not before.

    Attributes
    ----------
    residuals
        One at the start and one for each step.
    drifted
        Whether an updated residual was found to be another than that of x.
    hovers
        Whether so many steps came no further, for whatever reason.
    stalled
        Whether what was begun anew with the computed residual again and again came no further.
    """

    def __init__(self, first: float, wanted: float, floor: float) -> None:
        self.residuals = [first]
        self.drifted = self.hovers = self.stalled = False
        self._wanted, self._next = wanted, max(wanted, floor)
        self._computed = 0  # the step whose residual was computed last
        self._idle, self._least = 0, np.inf

    @property
    def steps(self) -> int:
        """How many there were."""
        return len(self.residuals) - 1

    @property
    def converged(self) -> bool:
        """Whether the last residual was computed, and is small enough."""
        return self._computed == self.steps and self.residuals[-1] <= self._wanted

    def goes_on(self, most: int) -> bool:
        """Say whether another step is of use, after so many at the most."""
        return not (self.converged or self.stalled) and self.steps < most and bool(np.isfinite(self.residuals[-1]))

    def take_updated(self, residual: float) -> None:
        """Take the updated residual after another step."""
        self.residuals.append(residual)

    def is_due(self, most: int) -> bool:
        """Say whether the last residual has to be computed."""
        late = self.steps - self._computed >= COMPUTED_EVERY or self.steps >= most
        return late or not self._next < self.residuals[-1] < np.inf

    def take_computed(self, residual: float) -> bool:
        """Take the last residual as it was computed, and say whether the updated one has drifted away from it.

        Those since the one computed before are raised to it then. What x was off in each step adds up, so that each was
        off by no more than the last.
        """
        drifted = not residual <= DRIFT * self.residuals[-1]
        late = self.steps - self._computed >= COMPUTED_EVERY
        self.hovers = late and residual > PROGRESS * self.residuals[self._computed]
        if drifted:
            for step in range(self._computed + 1, self.steps):
                self.residuals[step] = max(self.residuals[step], residual)
            self._idle = self._idle + 1 if residual > PROGRESS * self._least else 0
            self._least = min(self._least, residual)
            self.stalled = self._idle >= MAX_IDLE
            self.drifted = True
        self.residuals[-1], self._computed = residual, self.steps
        self._next = max(self._wanted, NEXT * residual)
        return drifted


#: Solves, given the norm of b, the tolerance and the most steps.
Method = Callable[[float, float, int], SolveResult]
#: The norm of b is this power of two at the most, and at least one over that, where it need not be scaled.
MIDDLING = {"float32": 60, "float64": 100}
#: Cycles without a residual below the least so far, after each of which that is held against what rounding leaves; and
#: how many times that it may be.
PATIENCE, ROUNDING = 10, 4


class CycleVectors(NamedTuple):
    """What a level needs on the way: its right side, its solution, what is left, and one more."""

    b: Buffer
    x: Buffer
    left: Buffer
    other: Buffer


class Gradients(NamedTuple):
    """Conjugate gradients, bound.

    Attributes
    ----------
    r, numbers
        The residual, and what is read after a step.
    begin
        Computes the residual and forgets all directions.
    step
        Takes a step, by turns 1 and 0.
    compute, computed
        What computes the residual after a step, and where it is until the next.
    """

    r: Buffer
    numbers: Buffer
    begin: Launch
    step: Callable[[int], None]
    compute: Launch
    computed: Buffer


class Repeated:
    """A launch of many kernels, from the second time on as one operation where the device can.

    A cycle has dozens of kernels of a few microseconds, which the host takes longer to queue than a GPU to run.
    """

    def __init__(self, device: Device, launch: Launch) -> None:
        self._device, self._launch = device, launch
        self._times = 0
        self._captured: Captured | None = None

    def __call__(self) -> None:
        """Queue it."""
        self._times += 1
        if self._times == 2:
            with suppress(CaptureError):  # else kernel by kernel
                self._captured = self._device.capture(self._launch)
        (self._captured.replay if self._captured else self._launch)()

    def release(self) -> None:
        """Give the operation back."""
        if self._captured:
            self._captured.release()


class Solver:
    """Solves with a hierarchy, for a right side of one place in memory.

    Parameters
    ----------
    device, load
        Where the levels are, and what gives modules in their precision.
    levels
        The finest first; they stay the caller's.
    smoother
        What smooths; None: Jacobi's method.

    Attributes
    ----------
    b, x
        The right side and the solution, `(n,)` each in the precision: to be written and read.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(
        self, device: Device, load: Load, levels: Sequence[DeviceLevel], smoother: Smoother | None = None
    ) -> None:
        self._device, self._load, self._levels, self._smoother = device, load, levels, smoother or Smoother()
        self._dtype, self._n = levels[0].a.dtype, levels[0].a.shape[0]
        self._eps = float(np.finfo(self._dtype).eps)
        self._held = ExitStack()
        try:
            self._run = run = LevelLaunches(device, load, self._dtype, self._held)
            self._kernels = Kernels(device, load("cycle"))
            self._vectors = [CycleVectors(*(run.scalars(level.a.shape[0]) for _ in range(4))) for level in levels]
            self.b, self.x = run.scalars(self._n), run.scalars(self._n)
            self._square = run.numbers(1, np.float64)
            self._gradients: Gradients | None = None
            coarsest = self._invert_coarsest()
            self._inverse: Buffer | np.float64 = (
                coarsest if isinstance(coarsest, np.float64) else self._run.keep(device.upload(coarsest))
            )
            #: What is bound to the present levels, and the memory that it has to itself.
            self._bound = self._held.enter_context(ExitStack())
        except BaseException:
            self._held.close()
            raise

    def cycle(self, b: Buffer, x: Buffer) -> Launch:
        """Return what queues a V-cycle from 0: x becomes an approximation of A⁻¹ b. It is good until `renew`."""
        return self._repeated_cycle(b, x, self._bound)

    def iterate(self, tolerance: float, most: int) -> SolveResult:
        """Solve by cycles, each for what is left, until that is so small beside b; x is where it starts.

        All residuals are computed from x. It ends before `most` steps where rounding is all that is left.

        Parameters
        ----------
        tolerance
            Of the norm of the residual over that of b.
        most
            Steps at the most.

        Raises
        ------
        ReproError
            b or x has what is no finite number, or x is too large beside b; nothing was done. Or the solution is beyond
            the precision.
        """
        return self._solve(self._by_cycles, tolerance, most)

    def conjugate_gradients(self, tolerance: float, most: int) -> SolveResult:
        """Solve by conjugate gradients with a V-cycle each, as `iterate`.

        Residuals are updated from step to step. Before one counts as small enough, at the end and every
        `COMPUTED_EVERY` steps it is computed from x. Where it is more than `DRIFT` times the updated one, those since
        the one computed before are raised to it, and conjugate gradients begin anew from x; where that comes no further
        it ends. Thus no residual of the list is below a third of the true one.

        Raises
        ------
        ReproError
            As of `iterate`; or the matrix is not positive definite, or the cycle is not: a step would be of no use. x
            is what the steps before led to.
        """
        return self._solve(self._by_gradients, tolerance, most)

    def _solve(self, method: Method, tolerance: float, most: int) -> SolveResult:
        """Solve by a method, which is given the norm of b."""
        size, limit = self._norm(self.b), 2.0 ** MIDDLING[self._dtype.name]
        if 1 / limit <= size <= limit:
            return method(size, tolerance, most)
        return self._solve_scaled(method, tolerance, most)

    def _by_cycles(self, size: float, tolerance: float, most: int) -> SolveResult:
        with ExitStack() as held:
            run = LevelLaunches(self._device, self._load, self._dtype, held)
            r, correction = run.scalars(self._n), run.scalars(self._n)
            residual = self._residual(r)
            add = self._kernels.over("add_vector", self._n, [np.int32(self._n), correction, self.x])
            cycle = self._repeated_cycle(r, correction, held)
            residual()
            residuals, wanted = [self._first(r)], tolerance * size
            while residuals[-1] > wanted and len(residuals) <= most and np.isfinite(residuals[-1]):
                for launch in (cycle, add, residual):
                    launch()
                residuals.append(self._norm(r))
                idle = len(residuals) - 1 - int(np.argmin(residuals))
                if idle and idle % PATIENCE == 0 and residuals[-1] <= ROUNDING * self._rounding(correction):
                    break
            return self._solved(residuals, wanted, size, correction)

    def _by_gradients(self, size: float, tolerance: float, most: int) -> SolveResult:
        if self._gradients is None:
            self._gradients = self._bind_gradients()
        gradients, wanted = self._gradients, tolerance * size
        gradients.begin()
        first = self._first(gradients.r)
        course = ConvergenceMonitor(first, wanted, self._eps * max(size, first))
        while course.goes_on(most):
            odd = (course.steps + 1) % 2
            gradients.step(odd)
            numbers = self._run.download(gradients.numbers, 4 * COLUMN, np.float64)
            *of_cycles, curvature, square = numbers[::COLUMN]
            of_cycle = of_cycles[odd]
            course.take_updated(float(np.sqrt(square)))
            refusal = _not_definite(course.steps, curvature, of_cycle)
            of_no_use = refusal is not None or of_cycle == 0
            if not of_no_use and not course.is_due(most):
                continue
            gradients.compute()
            drifted = course.take_computed(self._norm(gradients.computed))
            if of_no_use and not course.converged:
                if refusal is not None and not course.drifted:
                    raise refusal
                course.stalled = True  # by rounding, or by a cycle that takes what is left to 0
            elif course.hovers and min(course.residuals) <= ROUNDING * self._rounding(gradients.computed):
                course.stalled = True
            elif drifted and course.goes_on(most):
                gradients.begin()
        return self._solved(course.residuals, wanted, size, gradients.computed)

    def _bind_gradients(self) -> Gradients:
        """Bind the steps of conjugate gradients, whose memory is kept until `renew`."""
        with ExitStack() as held:
            gradients = self._gradients_within(held)
            self._bound.enter_context(held.pop_all())
        return gradients

    def _gradients_within(self, held: ExitStack) -> Gradients:
        run, n = LevelLaunches(self._device, self._load, self._dtype, held), np.int32(self._n)
        r, z, p, ap = (run.scalars(self._n) for _ in range(4))
        numbers = run.numbers(4 * COLUMN, np.float64)  # read together, once a step
        products = [run.column(numbers, i) for i in range(4)]
        pap, square = products[2:]
        cycle, multiply = in_order(self._bind_cycle(0, r, z)), self._product("multiply", self._levels[0].a, p, [], ap)
        residual, compute = self._residual(r), self._residual(ap)

        def begin() -> None:
            for buffer in (p, numbers):
                run.device.fill(buffer, 0)
            residual()

        def bind_step(odd: int) -> Launch:
            rz, earlier = products[odd], products[1 - odd]
            return in_order(
                [
                    cycle,
                    run.bind_dots(self._n, r, 1, 0, z, rz),
                    self._kernels.over("turn", self._n, [n, rz, earlier, z, p]),  # at first nothing was there earlier
                    multiply,
                    run.bind_dots(self._n, p, 1, 0, ap, pap),
                    self._kernels.over("advance", self._n, [n, rz, pap, p, ap, self.x, r]),
                    run.bind_dots(self._n, r, 1, 0, r, square),
                ]
            )

        steps = [run.keep(Repeated(self._device, bind_step(odd))) for odd in (0, 1)]
        return Gradients(r, numbers, begin, lambda odd: steps[odd](), compute, ap)

    def renew(self, levels: Sequence[DeviceLevel]) -> None:
        """Take levels that were refreshed; cycles that were bound before are given back."""
        self._gradients = None
        self._bound.close()
        self._levels, coarsest = levels, self._invert_coarsest()
        if isinstance(coarsest, np.float64):
            self._inverse = coarsest
        elif not isinstance(self._inverse, np.float64):
            self._device.write(self._inverse, coarsest)

    def release(self) -> None:
        """Give the memory back; the levels stay."""
        self._held.close()

    # ------------------------------------------------------------------------------------------------------------------

    def _repeated_cycle(self, b: Buffer, x: Buffer, held: ExitStack) -> Launch:
        return keep(held, Repeated(self._device, in_order(self._bind_cycle(0, b, x))))

    def _bind_cycle(self, at: int, b: Buffer, x: Buffer) -> list[Launch]:
        level, own = self._levels[at], self._vectors[at]
        if level.p is None or level.r is None:
            return self._bind_coarsest(b, x)
        below, weights = self._vectors[at + 1], self._smoother.weights(level.radius)
        # the last step after the coarser levels leaves it in x; that before it is in the other one, and so on
        first, second = own.other, x
        steps = 2 * len(weights) - 1
        places = [(first, second)[step % 2] for step in range(steps + 1)]
        middle = len(weights) - 1
        return [
            self._from_zero(level, b, weights[0], first),
            *self._relaxed(level, b, weights[1:], places[: middle + 1]),
            self._product("residual", level.a, places[middle], [b], own.left),
            self._product("multiply", level.r, own.left, [], below.b),
            *self._bind_cycle(at + 1, below.b, below.x),
            self._product("add_product", level.p, below.x, [], places[middle]),
            *self._relaxed(level, b, weights, places[middle:]),
        ]

    def _relaxed(
        self, level: DeviceLevel, b: Buffer, weights: Iterable[float], places: Sequence[Buffer]
    ) -> list[Launch]:
        """Return steps from one place to the next."""
        return [
            self._product("relax", level.a, earlier, [b, level.diagonal, np.float64(weight)], later)
            for weight, (earlier, later) in zip(weights, pairwise(places), strict=True)
        ]

    def _invert_coarsest(self) -> NDArray[np.float64] | np.float64:
        """Return the pseudo-inverse, column by column; or of a large matrix the weight of its steps."""
        level = self._levels[-1]
        if level.a.shape[0] <= DENSE_ROWS:
            dense = level.a.download().to_csr().toarray().astype(np.float64)
            if not np.isfinite(dense).all():
                raise ReproError("multigrid needs finite numbers", where="the coarsest matrix")
            inverse: NDArray[np.float64] = np.ascontiguousarray(np.linalg.pinv(dense).T).ravel()
            return inverse
        with ExitStack() as held:
            run = LevelLaunches(self._device, self._load, self._dtype, held)
            multiply = Multiplication(self._device, self._load, self._dtype).in_one_phase
            return np.float64(JACOBI / Coarsening(run, multiply, MultigridSettings()).radius(level))

    def _bind_coarsest(self, b: Buffer, x: Buffer) -> list[Launch]:
        level, other, n = self._levels[-1], self._vectors[-1].other, self._levels[-1].a.shape[0]
        if not isinstance(self._inverse, np.floating):
            return [self._kernels.over("multiply_dense", n, [np.int32(n), self._inverse, b, x])]
        # the last step leaves it in x
        places = [x if (COARSE_STEPS - step) % 2 else other for step in range(COARSE_STEPS)]
        weights = (COARSE_STEPS - 1) * [self._inverse]
        return [self._from_zero(level, b, self._inverse, places[0]), *self._relaxed(level, b, weights, places)]

    def _from_zero(self, level: DeviceLevel, b: Buffer, weight: float, x: Buffer) -> Launch:
        n = level.a.shape[0]
        return self._kernels.over("relax_zero", n, [np.int32(n), b, level.diagonal, np.float64(weight), x])

    def _product(self, kernel: str, matrix: Storage, x: Buffer, more: Sequence[Argument], y: Buffer) -> Launch:
        rows, lanes = matrix.shape[0], self._run.lanes(matrix, matrix.report().pointer)
        arguments = [np.int32(rows), *rows_of(matrix), x, *more, y]
        return self._kernels.over(f"{kernel}_w{lanes}", rows * lanes, arguments)

    def _residual(self, r: Buffer) -> Launch:
        """Return what computes b - A x with sums in double precision, so that it is that of x and not of its sums."""
        return self._product("residual_in_double", self._levels[0].a, self.x, [self.b], r)

    def _norm(self, vector: Buffer) -> float:
        self._run.dots(self._n, vector, 1, 0, vector, self._square)
        return float(np.sqrt(self._run.download(self._square, 1, np.float64)[0]))

    def _first(self, r: Buffer) -> float:
        """Return the norm of the residual at the start."""
        first = self._norm(r)
        if not np.isfinite(first):
            check_finite(self._read(self.x), "x0")
            raise _too_far()
        return first

    def _rounding(self, scratch: Buffer) -> float:
        """Return about what rounding x leaves of the residual."""
        self._product("sizes", self._levels[0].a, self.x, [self.b], scratch)()
        return self._eps * self._norm(scratch)

    def _solved(self, residuals: list[float], wanted: float, size: float, scratch: Buffer) -> SolveResult:
        last = residuals[-1]
        rounding = self._rounding(scratch) / size if last > wanted and np.isfinite(last) else None
        return SolveResult(residuals, last <= wanted, last / size, rounding)

    # ------------------------------------------------------------------------------------------------------------------

    def _solve_scaled(self, method: Method, tolerance: float, most: int) -> SolveResult:
        """Solve with b and x times a power of two, on whose squares sums are of use; b and x are as they were then."""
        b, x = self._read(self.b), self._read(self.x)
        check_finite(b, "b")
        check_finite(x, "x0")
        exponent = int(np.frexp(np.abs(b if b.any() else x).max(initial=0))[1])
        start = shifted(x, -exponent)
        if not np.isfinite(start).all():
            raise _too_far()
        try:
            self._write(self.b, shifted(b, -exponent))
            self._write(self.x, start)
            if b.any():
                return self._scaled_back(method(self._norm(self.b), tolerance, most), tolerance, exponent)
            first = self._norm_of_residual() if x.any() else 0.0
            self._write(self.x, np.zeros_like(x))
            return SolveResult([float(np.ldexp(first, exponent)), 0.0] if first else [0.0], True, 0.0)
        finally:
            self._write(self.x, shifted(self._read(self.x), exponent))
            self._write(self.b, b)

    def _scaled_back(self, solved: SolveResult, tolerance: float, exponent: int) -> SolveResult:
        """Return what was solved as that of b itself, whose x may have fewer digits, or be beyond the precision."""
        scaled = self._read(self.x)
        x = shifted(scaled, exponent)
        if np.isfinite(scaled).all() and not np.isfinite(x).all():
            raise ReproError(
                f"the solution is beyond {self._dtype}",
                where="x",
                expected=f"numbers up to {np.finfo(self._dtype).max:.3g}",
                actual=f"{np.abs(scaled).max():.3g} times 2**{exponent}",
                todo="scale b",
            )
        residuals, held = solved.residuals, shifted(x, -exponent)
        if np.isfinite(solved.reached) and not np.array_equal(held, scaled):
            self._write(self.x, held)
            size, last = self._norm(self.b), self._norm_of_residual()
            residuals = [*residuals[:-1], last]
            solved = SolveResult(residuals, last <= tolerance * size, last / size, last / size)
        with np.errstate(over="ignore"):
            return replace(solved, residuals=np.ldexp(residuals, exponent).tolist())

    def _norm_of_residual(self) -> float:
        with ExitStack() as held:
            r = LevelLaunches(self._device, self._load, self._dtype, held).scalars(self._n)
            self._residual(r)()
            return self._norm(r)

    def _read(self, vector: Buffer) -> NDArray[Any]:
        return self._run.download(vector, self._n, self._dtype)

    def _write(self, buffer: Buffer, vector: NDArray[Any]) -> None:
        if vector.size:
            self._device.write(buffer, vector)


def shifted(vector: NDArray[Any], exponent: int) -> NDArray[Any]:
    """Return a vector times a power of two."""
    with np.errstate(over="ignore", under="ignore"):
        shifted: NDArray[Any] = np.ldexp(vector, exponent)
    return shifted


def check_finite(vector: NDArray[Any], what: str) -> None:
    """Refuse a vector with a number that is not finite, by what it is to the user.

    Raises
    ------
    ReproError
    """
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ReproError(
            "multigrid needs finite numbers",
            where=f"{what}[{bad[0]}], the first of {len(bad)}",
            expected="a finite number",
            actual=vector[bad[0]],
        )


def _too_far() -> ReproError:
    return ReproError(
        "the iteration has nowhere to start from",
        where="x0",
        expected="an x0 whose residual b - A x0 can be held against b",
        actual="one that is larger by more than the range of numbers",
        todo="start from 0",
    )


def _not_definite(step: int, curvature: float, of_cycle: float) -> ReproError | None:
    """Return how to refuse a matrix for which, or whose cycle, a step found a direction that is not positive."""
    wrong = {
        "r^T M r, M the cycle": (of_cycle, of_cycle < 0),
        "p^T A p": (curvature, curvature <= 0 < of_cycle),
    }
    for what, (number, refused) in wrong.items():
        if refused:
            return ReproError(
                "conjugate gradients need a matrix that is symmetric and positive definite",
                where=f"step {step}",
                expected=f"{what} above 0",
                actual=f"{number:.3g}",
                todo="solve for -A where that is positive definite, or give `ml.aspreconditioner()` to another solver",
            )
    return None
