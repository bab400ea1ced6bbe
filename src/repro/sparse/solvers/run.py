"""A solve of a fixed number of iterations as something to time, and to hold against the same solve on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, ModuleError, Runnable, UnstableError, Unsupported
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.sparse.operands import Multiplies, ProductOperands, expand, operands_of
from repro.sparse.solvers.bicgstab import ITERATION_PASSES, START_PASSES, BiCGSTAB
from repro.sparse.solvers.host import Course, Vector, bicgstab

#: The columns of a product that its solver's row has as well.
OF_THE_PRODUCT = ("ordering", "layout", "representation")
#: Solves on the host with other roundings, and how many times farther off than the worst of them a device may be.
DISTURBED, SLACK = 3, 30
#: Entries from which on a row is long.
LONG = 10_000
#: Roundings of the largest residual that a device may be off in any case.
ROUNDINGS = 100
#: Parts of the residual, and of that of x = 0, either of which what is tolerated stays below, as far as it is compared.
CLOSE, CLOSE_TO_FIRST = 0.1, 0.001


#: Solves on the host that a residual is held against which is not as it should be, and the seconds they may take; and
#: the part of what is tolerated that they have to move it by for the iteration to be unstable. On matrices where it is
#: not, 60 such solves moved it by up to 0.07; where it is, by 0.2 and more, some by thousands.
FURTHER, FURTHER_SECONDS, MOVED = 64, 60.0, 0.2


class ResidualError(IncorrectError):
    """The residual is not what the same recurrence has on the host; `error` is the difference over its tolerance."""

    def __init__(self, residuals: tuple[float, float], expected: Expected, error: float) -> None:
        super().__init__(
            f"after {expected.iterations} iterations the residual is {residuals[0]:.6g} by recurrence and "
            f"{residuals[1]:.6g} from x, and should be {expected.residual:.6g}; the difference is {error:.3g} of what "
            "is tolerated",
            error,
        )


@dataclass(frozen=True)
class Expected:
    """The residual's norm after so many iterations in double precision, and by how much a device may be off.

    These are the iterations of a solve, or as many of them as can be compared.
    """

    iterations: int
    residual: float
    tolerance: float


class SolverRun(Runnable):
    """One solve by BiCGSTAB with a product, from x = 0 with the workspace's x for a right-hand side.

    It is verified as it is prepared: its residual, by the recurrence and from its x, against the same recurrence on the
    host in double precision.

    Parameters
    ----------
    product
        What multiplies; its own, as it is prepared and released with the solver.
    module, folder
        The manifest of the solver's module, and where it lies; binaries are relative to it.
    iterations
        As many as are done, whatever the residual.
    """

    kind = "solver"
    cold = False

    def __init__(self, product: Multiplies, module: Module, folder: Path, iterations: int = 10) -> None:
        self.name = f"bicgstab-{iterations}/{product.name}"
        self._product, self._module, self._folder, self._iterations = product, module, folder, iterations
        self._solver: BiCGSTAB | None = None
        self._error: float | None = None

    def pack(self, workspace: Workspace) -> None:
        """Pack what its product multiplies by, and solve on the host what a solve is held against."""
        self._product.pack(workspace)
        if operands_of(workspace).entry.size == 1:
            expect(workspace, self._iterations, away=True)

    @property
    def identity(self) -> str:
        """The product's, and the hash of the solver's module."""
        return f"{self._product.identity} {self._module.hash}"

    @property
    def columns(self) -> dict[str, Any]:
        """What the solver is, what its product is stored as, and the error found as it was prepared."""
        columns = {name: value for name, value in self._product.columns.items() if name in OF_THE_PRODUCT}
        matrix_bytes = self._product.matrix_bytes or None
        own = {"routine": "bicgstab", "product": self._product.name, "matrix_bytes": matrix_bytes}
        return {**columns, **own, "error": self._error}

    def prepare(self, workspace: Workspace) -> None:
        """Prepare the product, bring the right-hand side to the device, solve once and verify.

        Raises
        ------
        Unsupported
            The entries are not single numbers; or the product is not supported.
        ResidualError
            The residual is wrong.
        UnstableError
            It is not what it should be, but right products, disturbed in their last bits, move it nearly as far.
        ModuleError, OutOfDeviceMemory, LaunchError
        """
        operands = operands_of(workspace)
        if operands.entry.size != 1:
            raise Unsupported(f"the solver works on numbers, not on {operands.problem.entry} entries")
        if self._module.binary is None:
            raise ModuleError(self._module.message)
        self.release()
        self._error = None
        self._product.prepare(workspace)
        program = workspace.program(self._folder / self._module.binary)
        n = operands.problem.n
        solver = BiCGSTAB(workspace.device, program, self._product.product, n, operands.dtype, workspace.guards)
        self._solver = solver
        solver.load(self._product.arrange(operands.x.astype(np.float64)))
        passes = self._iterations * ITERATION_PASSES + START_PASSES
        self.moved = 2 * self._iterations * self._product.moved + passes * solver.vector_bytes

        def launch() -> None:
            solver.start()
            solver.iterate(self._iterations)

        self._verify(workspace, solver)
        self.launch = launch

    def _verify(self, workspace: Workspace, solver: BiCGSTAB) -> None:
        operands = operands_of(workspace)
        expected = expect(workspace, self._iterations)
        solver.start()
        solver.iterate(expected.iterations)
        rows = self._product.arrange(np.arange(operands.problem.n, dtype=np.float64)[:, None]).astype(np.int64)
        x = np.empty(operands.problem.n)
        x[rows] = solver.x()
        residuals = solver.state().residual, true_residual(operands, x)
        with np.errstate(all="ignore"):
            self._error = float(np.max(np.abs(np.subtract(residuals, expected.residual)) / expected.tolerance))
        if not self._error <= 1:
            failure = ResidualError(residuals, expected, self._error)
            moved = workspace.fact(("moved", self._iterations), lambda: furthest_moved(operands, expected))
            if moved >= MOVED and self._error <= SLACK * moved:
                raise UnstableError(
                    f"{failure}; right products that differ in their last bits move it by {moved:.3g} of that",
                    self._error,
                )
            raise failure

    def release(self) -> None:
        """Give the vectors back, and the product."""
        if self._solver is not None:
            self._solver.release()
            self._solver = None
        self._product.release()


def expect(workspace: Workspace, iterations: int, *, away: bool = False) -> Expected:
    """Return what the residual must be; computed once for all solvers of a workspace."""
    operands = operands_of(workspace)
    return workspace.fact(("residual", iterations), lambda: expected_residual(operands, iterations), away=away)


def expected_residual(operands: ProductOperands, iterations: int) -> Expected:
    """Run the recurrence on the host in double precision, and measure what rounding does to it.

    How far two right solves drift apart depends on the matrix. Thus the host solves a few times more in the working
    precision, with each number of a product changed at random by about what adding up its row in another order does:
    √m ε/2 (|A||x|)_i for m entries. The largest difference of their residuals, by recurrence and from x, times `SLACK`
    is what a device is allowed, and never less than `ROUNDINGS` roundings of the largest residual on the way.

    On a matrix where right solves have nothing in common any more after so many iterations, those are compared before
    which they have.
    """
    matrix = sp.csr_array(expand(operands.problem, operands.values))
    working = matrix.astype(operands.dtype)
    eps = float(np.finfo(operands.dtype).eps)
    b = operands.x.ravel()
    course = bicgstab(_multiplier(matrix), b.astype(np.float64), iterations)
    others = [_disturbed(working, b, iterations, eps, np.random.default_rng(seed)) for seed in range(DISTURBED)]
    residuals = _history(course, iterations)
    away = np.max([np.abs(_history(other, iterations) - residuals) for other in others], axis=0)
    tolerances = SLACK * away + ROUNDINGS * eps * np.maximum.accumulate(residuals)
    apart = ~(tolerances <= np.maximum(CLOSE * residuals, CLOSE_TO_FIRST * residuals[0]))
    comparable = max(int(np.argmax(apart)) - 1, 1) if apart.any() else iterations
    if comparable < iterations:
        return expected_residual(operands, comparable)
    from_x = max(abs(true_residual(operands, solve.x) - residuals[-1]) for solve in (course, *others))
    return Expected(iterations, float(residuals[-1]), float(tolerances[-1] + SLACK * from_x))


def furthest_moved(operands: ProductOperands, expected: Expected) -> float:
    """Return how far products that are disturbed in their last bits move the residual, as a part of what is tolerated.

    The tolerance is of a few such solves. Where the recurrence divides by next to nothing most of them say little, and
    few say that it may be off by anything: as many are tried as there is time for.
    """
    working = sp.csr_array(expand(operands.problem, operands.values)).astype(operands.dtype)
    eps, b = float(np.finfo(operands.dtype).eps), operands.x.ravel()
    until, furthest = time.monotonic() + FURTHER_SECONDS, 0.0
    for seed in range(DISTURBED, DISTURBED + FURTHER):
        solve = _disturbed(working, b, expected.iterations, eps, np.random.default_rng(seed))
        residuals = _history(solve, expected.iterations)[-1], true_residual(operands, solve.x)
        moved = float(np.max(np.abs(np.subtract(residuals, expected.residual)))) / expected.tolerance
        furthest = max(furthest, moved if np.isfinite(moved) else 0.0)
        if time.monotonic() > until:
            break
    return furthest


def _history(course: Course, iterations: int) -> NDArray[np.float64]:
    """Return the residual after each iteration, `(iterations + 1,)`; it stays what it is once the solve has stopped."""
    return np.pad(course.residuals, (0, iterations + 1 - len(course.residuals)), mode="edge")


def _multiplier(matrix: sp.csr_array) -> Callable[[Vector], Vector]:
    """Return what multiplies by a matrix, long rows summed in blocks: a million terms, one by one, lose digits."""
    long_rows = np.flatnonzero(np.diff(matrix.indptr) > LONG)

    def multiply(x: Vector) -> Vector:
        product: Vector = matrix @ x
        for row in long_rows:
            slots = slice(matrix.indptr[row], matrix.indptr[row + 1])
            product[row] = matrix.data[slots] @ x[matrix.indices[slots]]
        return product

    return multiply


def _disturbed(matrix: sp.csr_array, b: Vector, iterations: int, eps: float, random: np.random.Generator) -> Course:
    exact, sizes = _multiplier(matrix), abs(matrix)
    rounding = eps / 2 * np.sqrt(np.diff(matrix.indptr))

    def multiply(x: Vector) -> Vector:
        noise = random.uniform(-rounding, rounding) * (sizes @ np.abs(x))
        product: Vector = (exact(x) + noise).astype(x.dtype)
        return product

    return bicgstab(multiply, b, iterations)


def true_residual(operands: ProductOperands, x: NDArray[np.floating]) -> float:
    """Return the norm of b - A x, in double precision, for an x in natural order."""
    product = expand(operands.problem, operands.values) @ x.astype(np.float64)
    return float(np.linalg.norm(operands.x.ravel() - product))
