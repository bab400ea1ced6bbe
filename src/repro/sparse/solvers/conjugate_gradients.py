"""Conjugate gradients with any product y = A x, and runnables that time them or persistent conjugate gradients.

Both kinds run the recurrence of Chronopoulos and Gear with the diagonal as preconditioner. A runnable solves A x = b
once, to a tolerance of b - A x that the host verifies; the timed launch has a fixed number of iterations from x = 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import IncorrectError, Unsupported
from repro.sparse.operands import ProductRunnable, expand, operands_of, symmetry_on
from repro.sparse.solvers.bicgstab import FixedIterations
from repro.sparse.solvers.kernels import BLOCK_SIZE, KINDS, SOLVER_BLOCKS_PER_SM, WORD_BYTES, CgState
from repro.sparse.solvers.persistent import (
    AT_ROUNDING,
    ON_CHIP,
    PersistentSolution,
    PersistentSolver,
    RestartedSolver,
    chip_room,
    kept_on,
    slices_on,
)
from repro.sparse.solvers.slices import invert_diagonal
from repro.sparse.symmetry import HERMITIAN

#: Names of the routines in result rows: with any product, and persistent, which keeps the matrix in shared memory.
OVER_PRODUCT, PERSISTENT_CG = "cg", "persistent cg"
#: A solve has converged if the norm of b - A x is below this multiple of the norm of b, by precision; and the largest
#: number of iterations of a solve.
TOLERANCES = {"single": 1e-4, "double": 1e-8}
MAX_ITERATIONS = 20_000
#: Largest number of timed iterations: large enough that start-up and loading the matrix into shared memory hardly
#: count.
TIMED_ITERATIONS = 100
#: The residual that the host computes may exceed the tolerance by this factor. After the timed iterations, the
#: recurrence's residual may differ from that of x by this many tolerances.
TOLERANCE_FACTOR, DRIFT = 1.1, 10
#: Number of iterations after which the host reads the state.
LOOK = 50
#: Number of vector reads and writes: per iteration without the product, and at the start.
ITERATION_PASSES, START_PASSES = 15, 7


class ProductCg(RestartedSolver):
    """Vectors of a solve on a device, and the kernels that run between the products.

    An iteration is a product and two kernels. An iteration neither waits nor allocates, so it can be captured into a
    graph.

    Parameters
    ----------
    program
        The module of `render_solver` for the dtype of `scale`.
    bind_product
        Returns a launch of y = A x for buffers x and y, whose padding to full words is zero.
    scale
        `(numbers,)`: reciprocal of the diagonal's real expansion, in the order of the product's vectors.
    rounding
        Function of x `(numbers,)` that returns the estimate of `RestartedSolver.rounding`.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        bind_product: Callable[[Buffer, Buffer], Callable[[], None]],
        scale: NDArray[np.floating],
        rounding: Callable[[NDArray[np.floating]], float],
        guards: Guards | None = None,
    ) -> None:
        guards = guards or Guards(device)
        super().__init__(device, scale.dtype, CgState)
        self._numbers, self._rounding = len(scale), rounding
        words = -(-scale.nbytes // WORD_BYTES)
        self.vector_bytes = words * WORD_BYTES
        block_size = BLOCK_SIZE[device.backend]
        grid = min(device.sm_count * SOLVER_BLOCKS_PER_SM[device.backend], -(-words // block_size))
        with ExitStack() as stack:

            def zeros(name: str, nbytes: int = self.vector_bytes) -> Buffer:
                # kernels rely on zeros in the padding at the end of a vector
                return guards.zeros(stack, nbytes, f"the solver's {name}")

            b, x, r, u, p, s, w, diagonal = (zeros(name) for name in (*"bxrupsw", "diagonal"))
            device.write(diagonal, scale)
            parts, self._state = zeros("sums", 8 * KINDS * grid), zeros("state", 8 * len(CgState))

            def bind(name: str, *buffers: Buffer) -> Callable[[], None]:
                arguments: list[Argument] = [np.int32(words), *buffers]
                return device.bind(program.kernel(name), grid, block_size, arguments)

            def bind_block(name: str) -> Callable[[], None]:
                return device.bind(program.kernel(name), 1, block_size, [np.int32(grid), parts, self._state])

            begin = bind("begin", b, w, diagonal, r, u, p, s, parts)
            self._begin = [bind_product(x, w), begin, bind_block("begin_state")]
            product, add = bind_product(u, w), bind("dot_products", r, u, w, parts, self._state)
            self._iteration = [product, add, bind("update", x, r, u, p, s, w, diagonal, parts, self._state)]
            self._end = [product, add, bind_block("sum_residual")]
            self.b, self.x = b, x
            self._stack = stack.pop_all()

    def begin(self) -> None:
        for launch in self._begin:
            launch()

    def iterate(self, count: int) -> None:
        for launch in self._iteration * count + self._end:
            launch()

    def iterations_of_launch(self) -> int:
        return LOOK

    def rounding(self) -> float:
        x = np.empty(self._numbers, self._dtype)
        self._device.download(self.x, x)
        return self._rounding(x)


def refusal(workspace: Workspace) -> str:
    """Return why conjugate gradients cannot be tried with a matrix; empty if they can.

    The real expansion has to be symmetric; for complex entries, this requires a Hermitian matrix.
    """
    symmetry = symmetry_on(workspace)
    if operands_of(workspace).problem.entry == "complex" and symmetry.kind not in ("", HERMITIAN):
        return f"{symmetry.kind}, not {HERMITIAN}"
    return symmetry.why


class CgRun(FixedIterations):
    """Conjugate gradients from x = 0, for b = A times the workspace's x, so that b is in the range of a singular A.

    Preparation solves to the tolerance of the precision and verifies b - A x on the host. A launch has the same number
    of iterations, at most `TIMED_ITERATIONS`; the residual after it is verified as well.
    """

    def __init__(self, product: ProductRunnable | str, module: Module, folder: Path) -> None:
        super().__init__("cg", product, module, folder)
        self._solved: dict[str, int] = {}

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, **self._solved}

    @abstractmethod
    def _open(self, workspace: Workspace, program: Program) -> RestartedSolver:
        """Upload the matrix to the device; return the solver."""

    @abstractmethod
    def _order(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the members of a vector `(n, k)` as a flat array in the solver's order."""

    @abstractmethod
    def _count_bytes(self, iterations: int) -> int:
        """Return the minimum number of bytes that a launch of `iterations` iterations moves."""

    def prepare(self, workspace: Workspace) -> None:
        """Upload matrix and right-hand side, solve, verify, and bind the launch that is timed.

        Raises
        ------
        Unsupported
            The solve does not converge: the matrix is not known to be positive semidefinite, or rounding prevents it.
        IncorrectError
            The solve breaks down though the matrix is positive semidefinite, or b - A x is larger than the solver says.
        ModuleError
        """
        program = self._load(workspace)
        self._solved = {}
        operands, device = operands_of(workspace), workspace.device
        self._solver = solver = self._open(workspace, program)
        b = operands.reference.astype(operands.dtype)
        device.write(solver.b, self._order(b))
        device.fill(solver.x, 0)
        solution = solver.solve(TOLERANCES[operands.precision], MAX_ITERATIONS)
        self._judge(workspace, solution, self._residual(workspace, solver, b))
        iterations = min(solution.iterations, TIMED_ITERATIONS)
        self._solved |= {"iterations": iterations, "to_tolerance": solution.iterations}

        def launch() -> None:
            device.fill(solver.x, 0)
            solver.begin()
            solver.iterate(iterations)

        solver.reset()
        launch()
        progress = solver.progress()
        if progress.iterations != iterations:
            raise IncorrectError(f"it stops after {progress.iterations} iterations instead of {iterations}", np.inf)
        self._compare(progress.residual / progress.norm_of_b, self._residual(workspace, solver, b), operands.precision)
        self.bytes_moved = self._count_bytes(iterations)
        self.launch = launch

    def _natural_order(self, solution: NDArray[np.floating], shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Convert a vector from the solver's order to the order of the real expansion, `(n·k,)`."""
        count = int(np.prod(shape))
        order = self._order(np.arange(1, count + 1, dtype=np.float64).reshape(shape))  # signed positions; 0: padding
        nonpadding = order != 0
        natural = np.empty(count)
        natural[np.abs(order[nonpadding]).astype(np.int64) - 1] = np.sign(order[nonpadding]) * solution[nonpadding]
        return natural

    def _residual(self, workspace: Workspace, solver: RestartedSolver, b: NDArray[np.floating]) -> float:
        """Return the norm of b - A x divided by the norm of b, in double precision."""
        operands = operands_of(workspace)
        solution = np.empty(len(self._order(b)), operands.dtype)
        workspace.device.download(solver.x, solution)
        exact = b.astype(np.float64).ravel()
        with np.errstate(all="ignore"):
            residual = exact - expand(operands.problem, operands.values) @ self._natural_order(solution, b.shape)
            return float(np.linalg.norm(residual) / np.linalg.norm(exact))

    def _compare(self, recurrence: float, residual: float, precision: str) -> None:
        """Raise `IncorrectError` if the recurrence's residual differs from the residual of x.

        Both are relative to norm(b).
        """
        error = abs(recurrence - residual) / (DRIFT * TOLERANCES[precision])
        if not error <= 1:
            raise IncorrectError(
                f"after the timed iterations b - A x is {residual:.3g} of b, and {recurrence:.3g} by the recurrence",
                error,
            )
        self._error = max(self._error or 0.0, error)

    def _judge(self, workspace: Workspace, solution: PersistentSolution, residual: float) -> None:
        operands, semidefinite = operands_of(workspace), is_semidefinite(workspace)
        tolerance = TOLERANCES[operands.precision]
        outcome = f"after {solution.iterations} iterations, b - A x being {residual:.3g} of b"
        if solution.iterations == 0 and solution.status == "converged":
            raise Unsupported("b is 0: there is nothing to solve")
        if solution.status == "converged":
            self._error = residual / (TOLERANCE_FACTOR * tolerance)
            if not self._error <= 1:
                raise IncorrectError(f"it stops {outcome}, instead of {tolerance:g}", self._error)
            return
        if solution.status in ("limit", "rounding"):
            reason = "rounding leaves no less" if solution.status == "rounding" else "it has not converged"
            raise Unsupported(f"{reason} {outcome}")
        failure = "a direction p has (p, A p) of at most 0" if solution.status == "breakdown" else "a sum is not finite"
        if semidefinite:
            raise IncorrectError(f"{failure} {outcome}, though the matrix is positive semidefinite", np.inf)
        raise Unsupported(f"not positive definite: {failure} {outcome}")


def is_semidefinite(workspace: Workspace) -> bool:
    """Return whether the origin of a matrix guarantees that it is positive semidefinite."""
    return bool((operands_of(workspace).problem.origin or {}).get("semidefinite"))


class ProductCgRun(CgRun):
    """Conjugate gradients with any product, which is prepared and released with the solver."""

    routine = OVER_PRODUCT
    _product: ProductRunnable

    def __init__(self, product: ProductRunnable, module: Module, folder: Path) -> None:
        super().__init__(product, module, folder)
        self._vector_bytes = 0

    def pack(self, workspace: Workspace) -> None:
        self._product.pack(workspace)

    def _open(self, workspace: Workspace, program: Program) -> ProductCg:
        product, operands = self._product, operands_of(workspace)
        product.prepare(workspace)
        scale, _ = invert_diagonal(operands.problem, operands.dtype)

        def rounding(x: NDArray[np.floating]) -> float:
            sizes = abs(expand(operands.problem, operands.values))
            terms = sizes @ np.abs(self._natural_order(x, scale.shape))
            return AT_ROUNDING * float(np.finfo(operands.dtype).eps) * float(np.linalg.norm(terms))

        solver = ProductCg(
            workspace.device, program, product.product, np.abs(self._order(scale)), rounding, workspace.guards
        )
        self._vector_bytes = solver.vector_bytes
        return solver

    def _order(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        return self._product.arrange(values)

    def _count_bytes(self, iterations: int) -> int:
        passes = iterations * ITERATION_PASSES + START_PASSES
        return (iterations + 2) * self._product.bytes_moved + passes * self._vector_bytes


class PersistentCgRun(CgRun):
    """Persistent conjugate gradients.

    All iterations run in one launch, with as much of the matrix as fits in shared memory.
    """

    routine = PERSISTENT_CG

    def __init__(self, module: Module, folder: Path) -> None:
        super().__init__(ON_CHIP, module, folder)
        self._persistent: PersistentSolver | None = None

    def pack(self, workspace: Workspace) -> None:
        kept_on(workspace)

    def _open(self, workspace: Workspace, program: Program) -> PersistentSolver:
        operands, device = operands_of(workspace), workspace.device
        slices = slices_on(workspace)
        kernels = operands.problem.entry, operands.precision
        solver = PersistentSolver(device, program, slices, "cg", kernels, kept_on(workspace), guards=workspace.guards)
        self._persistent, self._matrix_bytes = solver, slices.nbytes
        room = chip_room(device) * device.sm_count if solver.runs_together else 0
        self._solved |= {"kept_bytes": solver.kept_bytes, "chip_bytes": room}
        return solver

    def _order(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        assert self._persistent is not None
        return values[self._persistent.slices.rows].ravel()

    def _count_bytes(self, iterations: int) -> int:
        assert self._persistent is not None
        slices = self._persistent.slices
        read_again = slices.nbytes - self._persistent.kept_bytes + 2 * slices.scale.nbytes
        return 2 * slices.nbytes + iterations * read_again

    def release(self) -> None:
        super().release()
        self._persistent = None
