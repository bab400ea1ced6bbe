"""BiCGSTAB without a preconditioner: H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13(2), 1992.

The device solver works with any product y = A x. A host version of the recurrence is its reference. A solve with a
fixed number of iterations is a runnable: it is timed, and its residual is verified.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Runnable, Workspace, not_prepared
from repro.codegen.build_cache import Module
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import IncorrectError, ModuleError, ReproError, UnstableError, Unsupported
from repro.sparse.device_primitives import Owner
from repro.sparse.operands import ProductOperands, ProductRunnable, expand, operands_of
from repro.sparse.solvers.kernels import BLOCK_SIZE, SOLVER_BLOCKS_PER_SM, WORD_BYTES, Breakdown, LaunchedBicgstabState

Vector = NDArray[np.floating]


@dataclass(frozen=True)
class HostSolution:
    """Result of a fixed number of iterations on the host."""

    #: Solution `(n,)`, in the precision of the vectors.
    x: Vector
    #: float64 `(iterations + 1,)`: norm of the recurrence's r at the start and after each iteration.
    residuals: NDArray[np.float64]
    #: Reason of an early stop.
    reason: Breakdown


def bicgstab(multiply: Callable[[Vector], Vector], b: Vector, iterations: int) -> HostSolution:
    """Run at most `iterations` iterations from x = 0, with r̂ = b and sums in double precision.

    `multiply` returns A v in the precision of v; all vectors are `(n,)` in the precision of b.
    """
    scalar = b.dtype.type
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    shadow = b.astype(np.float64)
    rho = _dot(shadow, b)
    residuals = [_norm(b)]
    reason = Breakdown.NONE
    with np.errstate(all="ignore"):
        while len(residuals) <= iterations and reason == Breakdown.NONE:
            v = multiply(p)
            alpha = scalar(np.float64(rho) / _dot(shadow, v))
            if not _is_usable(alpha):
                reason = Breakdown.RHO if rho == 0 else Breakdown.PROJECTION
                break
            s = r - alpha * v
            t = multiply(s)
            omega = scalar(np.float64(_dot(t, s)) / _dot(t, t))
            if not _is_usable(omega):
                omega, t, reason = scalar(0), np.zeros_like(t), Breakdown.OMEGA
            x = x + (alpha * p + omega * s)
            r = s - omega * t
            before, rho = rho, _dot(shadow, s) - float(omega) * _dot(shadow, t)
            beta = scalar(np.float64(rho) / before * (np.float64(alpha) / np.float64(omega)))
            if reason == Breakdown.NONE and not _is_usable(beta):
                reason = Breakdown.RHO
            p = r + beta * (p - omega * v)
            residuals.append(_norm(r))
    return HostSolution(x, np.array(residuals), reason)


def _is_usable(factor: np.floating) -> bool:
    return bool(factor != 0 and np.isfinite(factor))


def _dot(a: Vector, b: Vector) -> float:
    return float(np.dot(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)))


def _norm(a: Vector) -> float:
    return float(np.sqrt(_dot(a, a)))


#: Number of vector reads and writes: per iteration without the products, and at the start.
ITERATION_PASSES, START_PASSES = 16, 4
#: Largest number of sums that one kernel computes; each block writes a partial sum of each.
SUMS = 4


@dataclass(frozen=True)
class SolverState:
    """State of a running solve."""

    #: Finished iterations.
    iterations: int
    #: Euclidean norm of the recurrence's r; of b before the first iteration.
    residual: float
    #: `Breakdown.NONE` before a breakdown; iterations after a breakdown change nothing.
    reason: Breakdown


class BiCGSTAB(Owner):
    """Vectors of a solve with n ≥ 1 unknowns on a device, and its kernels bound to them.

    An iteration is two products and four kernels. An iteration neither waits nor allocates, so it can be captured into
    a graph. `program` is the module of `render_solver` for `dtype`; `product_of` returns a launch of y = A x for
    buffers x and y.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        bind_product: Callable[[Buffer, Buffer], Callable[[], None]],
        n: int,
        dtype: np.dtype[Any],
        guards: Guards | None = None,
    ) -> None:
        guards = guards or Guards(device)
        self._device, self._n, self._dtype = device, n, np.dtype(dtype)
        self._grid = device.sm_count * SOLVER_BLOCKS_PER_SM[device.backend]
        words = -(-n * self._dtype.itemsize // WORD_BYTES)
        self.vector_bytes = words * WORD_BYTES
        with ExitStack() as stack:

            def zeros(name: str, nbytes: int = self.vector_bytes) -> Buffer:
                # kernels rely on zeros in the padding at the end of a vector
                return guards.zeros(stack, nbytes, f"the solver's {name}")

            b, x, r, p, v, t = (zeros(name) for name in "bxrpvt")
            partial, squares = zeros("sums", 8 * SUMS * self._grid), zeros("squares", 8 * self._grid)
            state = zeros("state", 8 * len(LaunchedBicgstabState))
            block_size = BLOCK_SIZE[device.backend]

            def bind(name: str, *buffers: Buffer) -> Callable[[], None]:
                arguments: list[Argument] = [np.int32(words), *buffers]
                return device.bind(program.kernel(name), self._grid, block_size, arguments)

            state_arguments: list[Argument] = [np.int32(self._grid), squares, state]
            begin_state = device.bind(program.kernel("begin_state"), 1, block_size, state_arguments)
            self._begin = [bind("begin", b, x, r, p, squares), begin_state]
            self._iteration = [
                bind_product(p, v),
                bind("project", b, v, partial),
                bind("half_step", r, v, partial, state),
                bind_product(r, t),
                bind("dot_products", b, r, t, partial),
                bind("full_step", x, r, p, v, t, partial, squares, state),
            ]
            self._b, self._x, self._squares, self._state = b, x, squares, state
            self._stack = stack.pop_all()

    def load(self, b: NDArray[np.floating]) -> None:
        """Copy the right-hand side `(n,)`, in the order of the product's vectors, to the device."""
        if b.shape != (self._n,):
            raise ReproError("the right-hand side has the wrong size", expected=(self._n,), actual=b.shape)
        self._device.write(self._b, np.ascontiguousarray(b, self._dtype))

    def begin(self) -> None:
        """Queue x = 0 and r = r̂ = p = b."""
        for launch in self._begin:
            launch()

    def iterate(self, count: int = 1) -> None:
        """Queue `count` iterations; after a breakdown, x and r stay unchanged."""
        for _ in range(count):
            for launch in self._iteration:
                launch()

    def state(self) -> SolverState:
        """Wait for queued work and return the state of the solve."""
        state, squares = np.empty(len(LaunchedBicgstabState)), np.empty(self._grid)
        self._device.download(self._state, state)
        self._device.download(self._squares, squares)
        with np.errstate(over="ignore"):
            square = float(np.sum(squares))  # infinite or NaN where the solve has diverged
        return SolverState(
            int(state[LaunchedBicgstabState.ITERATIONS]),
            math.sqrt(square),
            Breakdown(int(state[LaunchedBicgstabState.STOPPED]) or int(state[LaunchedBicgstabState.STOPPED_HALFWAY])),
        )

    def x(self) -> NDArray[np.floating]:
        x = np.empty(self._n, self._dtype)
        self._device.download(self._x, x)
        return x


#: Columns that the result row of a solver copies from the result row of its product.
OF_THE_PRODUCT = ("ordering", "layout", "representation")
#: Number of host solves with disturbed products, and ratio of the device's tolerance to their largest difference.
DISTURBED, DISTURBED_FACTOR = 3, 30
#: Rows of at least this length are summed in blocks on the host.
LONG_ROW_LENGTH = 10_000
#: Smallest tolerance, as a multiple of the rounding error of the largest residual.
ROUNDINGS = 100
#: Residuals are compared only in iterations whose tolerance is below this share of the residual, or below this share of
#: the residual at x = 0.
CLOSE, CLOSE_TO_FIRST = 0.1, 0.001


#: If a residual is wrong: largest number of further disturbed host solves; limit of their total seconds; and smallest
#: change of the residual, as a share of the tolerance, by which one of them shows that the iteration is unstable. On
#: stable matrices 60 solves changed the residual by up to 0.07 of the tolerance; on unstable ones by 0.2 and more, some
#: by thousands.
FURTHER, FURTHER_SECONDS, MIN_CHANGE = 64, 60.0, 0.2


class ResidualError(IncorrectError):
    """The residual differs from that of the host's recurrence; `error` is the difference divided by the tolerance."""

    def __init__(self, residuals: tuple[float, float], expected: ExpectedResidual, error: float) -> None:
        super().__init__(
            f"after {expected.iterations} iterations the residual is {residuals[0]:.6g} by recurrence and "
            f"{residuals[1]:.6g} from x, and should be {expected.residual:.6g}; the difference is {error:.3g} of what "
            "is tolerated",
            error,
        )


@dataclass(frozen=True)
class ExpectedResidual:
    """Expected norm of the residual in double precision, and the tolerance for a device.

    `iterations` is the number of iterations after which residuals are compared: those of the solve, or fewer.
    """

    iterations: int
    residual: float
    tolerance: float


class FixedIterations(Runnable):
    """A solve with a fixed number of iterations; binaries of `module` are relative to `folder`.

    `product` is prepared and released with the solver, or is the name of a solver's own product.
    """

    kind = "solver"
    cold = False
    routine: str
    _product: ProductRunnable | None

    def __init__(self, solve: str, product: ProductRunnable | str, module: Module, folder: Path) -> None:
        self._product, self._product_name = (None, product) if isinstance(product, str) else (product, product.name)
        self.name = f"{solve}/{self._product_name}"
        self._module, self._folder = module, folder
        self._solver: Owner | None = None
        self._matrix_bytes = 0
        self._error: float | None = None

    @property
    def identity(self) -> str:
        return f"{self._product.identity if self._product else self.name} {self._module.hash}"

    @property
    def columns(self) -> dict[str, Any]:
        columns, matrix_bytes = dict[str, Any](), self._matrix_bytes
        if self._product:
            columns = {name: value for name, value in self._product.columns.items() if name in OF_THE_PRODUCT}
            matrix_bytes = self._product.matrix_bytes
        own = {"routine": self.routine, "product": self._product_name, "matrix_bytes": matrix_bytes or None}
        return {**columns, **own, "error": self._error}

    def _load(self, workspace: Workspace) -> Program:
        """Release what was prepared before, and load the module; `ModuleError` if it was not compiled."""
        if self._module.binary is None:
            raise ModuleError(self._module.message)
        self.release()
        self._error = None
        return workspace.program(self._folder / self._module.binary)

    def release(self) -> None:
        if self._solver is not None:
            self._solver.release()
            self._solver = None
        if self._product:
            self._product.release()
        self.launch = not_prepared


class SolverRun(FixedIterations):
    """A BiCGSTAB solve from x = 0 with any product; the right-hand side is the workspace's x.

    Preparation verifies the norm of the recurrence's r and the norm of b - A x against a host solve in double
    precision.
    """

    routine = "bicgstab"
    _product: ProductRunnable

    def __init__(self, product: ProductRunnable, module: Module, folder: Path, iterations: int = 10) -> None:
        super().__init__(f"bicgstab-{iterations}", product, module, folder)
        self._iterations = iterations

    def pack(self, workspace: Workspace) -> None:
        """Pack the matrix of the product, and compute the expected residual on the host."""
        self._product.pack(workspace)
        if operands_of(workspace).entry.size == 1:
            expect(workspace, self._iterations, lend_device=True)

    def prepare(self, workspace: Workspace) -> None:
        """Prepare the product, upload the right-hand side, solve once and verify the residuals.

        It raises `Unsupported` for entries that are not single numbers, `ResidualError` for a wrong residual, and
        `UnstableError` instead if disturbing correct products in their last bits changes the residual nearly as much.
        """
        operands = operands_of(workspace)
        if operands.entry.size != 1:
            raise Unsupported(f"the solver works on numbers, not on {operands.problem.entry} entries")
        program = self._load(workspace)
        self._product.prepare(workspace)
        n = operands.problem.n
        solver = BiCGSTAB(workspace.device, program, self._product.product, n, operands.dtype, workspace.guards)
        self._solver = solver
        solver.load(self._product.arrange(operands.x.astype(np.float64)))
        passes = self._iterations * ITERATION_PASSES + START_PASSES
        self.bytes_moved = 2 * self._iterations * self._product.bytes_moved + passes * solver.vector_bytes

        def launch() -> None:
            solver.begin()
            solver.iterate(self._iterations)

        self._verify(workspace, solver)
        self.launch = launch

    def _verify(self, workspace: Workspace, solver: BiCGSTAB) -> None:
        operands = operands_of(workspace)
        expected = expect(workspace, self._iterations)
        solver.begin()
        solver.iterate(expected.iterations)
        rows = self._product.arrange(np.arange(operands.problem.n, dtype=np.float64)[:, None]).astype(np.int64)
        x = np.empty(operands.problem.n)
        x[rows] = solver.x()
        residuals = solver.state().residual, true_residual(operands, x)
        self._error = residual_error(residuals, expected)
        judge_error(self._error, residuals, expected, workspace, self._iterations)


def residual_error(residuals: tuple[float, float], expected: ExpectedResidual) -> float:
    """Return the largest deviation of the two residuals, of the recurrence and of x, divided by the tolerance."""
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(np.subtract(residuals, expected.residual)) / expected.tolerance))


def judge_error(
    error: float, residuals: tuple[float, float], expected: ExpectedResidual, workspace: Workspace, iterations: int
) -> None:
    """Raise `ResidualError` for an error above 1.

    It raises `UnstableError` instead if host solves with disturbed products deviate as much.
    """
    if error <= 1:
        return
    failure = ResidualError(residuals, expected, error)
    change = workspace.cached(("moved", iterations), lambda: largest_change(operands_of(workspace), expected))
    if change >= MIN_CHANGE and error <= DISTURBED_FACTOR * change:
        message = f"{failure}; right products that differ in their last bits move it by {change:.3g} of that"
        raise UnstableError(message, error)
    raise failure


def expect(workspace: Workspace, iterations: int, *, lend_device: bool = False) -> ExpectedResidual:
    """Return the expected residual after `iterations` iterations; computed once for all solvers of a workspace."""
    operands = operands_of(workspace)
    return workspace.cached(
        ("residual", iterations), lambda: expected_residual(operands, iterations), lend_device=lend_device
    )


def expected_residual(operands: ProductOperands, iterations: int) -> ExpectedResidual:
    """Run the recurrence on the host in double precision, and measure the effect of rounding.

    The distance of two correct solves depends on the matrix. So the host repeats the solve in the working precision,
    with products that are disturbed at random by the effect of another order of summation: √m ε/2 (|A||x|)_i for m
    entries. The tolerance is the largest difference of residuals times `DISTURBED_FACTOR`, plus `ROUNDINGS` rounding
    errors of the largest residual.

    If correct solves differ too much after all iterations, residuals are compared after fewer iterations.
    """
    matrix = sp.csr_array(expand(operands.problem, operands.values))
    working_matrix = matrix.astype(operands.dtype)
    eps = float(np.finfo(operands.dtype).eps)
    b = operands.x.ravel()
    course = bicgstab(_multiplier(matrix), b.astype(np.float64), iterations)
    others = [
        _solve_disturbed(working_matrix, b, iterations, eps, np.random.default_rng(seed)) for seed in range(DISTURBED)
    ]
    residuals = _history(course, iterations)
    away = np.max([np.abs(_history(other, iterations) - residuals) for other in others], axis=0)
    tolerances = DISTURBED_FACTOR * away + ROUNDINGS * eps * np.maximum.accumulate(residuals)
    diverged = ~(tolerances <= np.maximum(CLOSE * residuals, CLOSE_TO_FIRST * residuals[0]))
    comparable = max(int(np.argmax(diverged)) - 1, 1) if diverged.any() else iterations
    if comparable < iterations:
        return expected_residual(operands, comparable)
    x_drift = max(abs(true_residual(operands, solve.x) - residuals[-1]) for solve in (course, *others))
    return ExpectedResidual(iterations, float(residuals[-1]), float(tolerances[-1] + DISTURBED_FACTOR * x_drift))


def largest_change(operands: ProductOperands, expected: ExpectedResidual) -> float:
    """Return the largest change of the residual by disturbed products, as a multiple of the tolerance.

    The tolerance comes from only `DISTURBED` solves. Near a breakdown, most solves change little and few change much,
    so this function runs as many further solves as time allows.
    """
    working_matrix = sp.csr_array(expand(operands.problem, operands.values)).astype(operands.dtype)
    eps, b = float(np.finfo(operands.dtype).eps), operands.x.ravel()
    until, furthest = time.monotonic() + FURTHER_SECONDS, 0.0
    for seed in range(DISTURBED, DISTURBED + FURTHER):
        solve = _solve_disturbed(working_matrix, b, expected.iterations, eps, np.random.default_rng(seed))
        residuals = _history(solve, expected.iterations)[-1], true_residual(operands, solve.x)
        change = float(np.max(np.abs(np.subtract(residuals, expected.residual)))) / expected.tolerance
        furthest = max(furthest, change if np.isfinite(change) else 0.0)
        if time.monotonic() > until:
            break
    return furthest


def _history(course: HostSolution, iterations: int) -> NDArray[np.float64]:
    """Return the residual after each iteration, `(iterations + 1,)`; after an early stop the last one is repeated."""
    return np.pad(course.residuals, (0, iterations + 1 - len(course.residuals)), mode="edge")


def _multiplier(matrix: sp.csr_array) -> Callable[[Vector], Vector]:
    """Return a function that multiplies by a matrix.

    It sums long rows in blocks, as a sequential sum would lose digits.
    """
    long_rows = np.flatnonzero(np.diff(matrix.indptr) > LONG_ROW_LENGTH)

    def multiply(x: Vector) -> Vector:
        product: Vector = matrix @ x
        for row in long_rows:
            slots = slice(matrix.indptr[row], matrix.indptr[row + 1])
            product[row] = matrix.data[slots] @ x[matrix.indices[slots]]
        return product

    return multiply


def _solve_disturbed(
    matrix: sp.csr_array, b: Vector, iterations: int, eps: float, random: np.random.Generator
) -> HostSolution:
    exact, sizes = _multiplier(matrix), abs(matrix)
    rounding = eps / 2 * np.sqrt(np.diff(matrix.indptr))

    def multiply(x: Vector) -> Vector:
        noise = random.uniform(-rounding, rounding) * (sizes @ np.abs(x))
        product: Vector = (exact(x) + noise).astype(x.dtype)
        return product

    return bicgstab(multiply, b, iterations)


def true_residual(operands: ProductOperands, x: NDArray[np.floating]) -> float:
    """Return the norm of b - A x, in double precision, for x `(n,)` in the matrix's order."""
    product = expand(operands.problem, operands.values) @ x.astype(np.float64)
    return float(np.linalg.norm(operands.x.ravel() - product))
