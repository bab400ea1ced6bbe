"""A persistent BiCGSTAB solve with a fixed number of iterations, timed and verified beside those by launches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from repro.bench.errors import ModuleError, Unsupported
from repro.bench.runnable import Runnable, Workspace
from repro.codegen.build_cache import Module
from repro.errors import ReproError
from repro.sparse.operands import operands_of
from repro.sparse.solvers.bicgstab import error_of, expect, judge_error, true_residual
from repro.sparse.solvers.kernels import PERSISTENT_BLOCK_SIZE
from repro.sparse.solvers.persistent import PersistentSolver
from repro.sparse.solvers.slices import LANES, Slices, deal

#: Name of the product in rows, and of the routine.
ON_CHIP, ROUTINE = "persistent", "persistent bicgstab"


def slices_on(workspace: Workspace) -> Slices:
    """Return the rows dealt to the blocks of a persistent solver; `Unsupported` if there are too many slots."""
    operands, device = operands_of(workspace), workspace.device

    def dealt() -> Slices:
        warps = PERSISTENT_BLOCK_SIZE[device.backend] // LANES
        try:
            return deal(operands.problem, operands.dtype, device.sm_count, warps)
        except ReproError as error:
            raise Unsupported(str(error)) from None

    return workspace.fact(ON_CHIP, dealt, away=True)


class PersistentRun(Runnable):
    """As `SolverRun`, without a preconditioner, on a matrix of real entries; the matrix stays on the chip if it fits.

    Preparation verifies both residuals, by recurrence and from x, against the host's recurrence in double precision.
    Binaries of `module` are relative to `folder`.
    """

    kind = "solver"
    cold = False

    def __init__(self, module: Module, folder: Path, iterations: int = 10) -> None:
        self.name = f"bicgstab-{iterations}/{ON_CHIP}"
        self._module, self._folder, self._iterations = module, folder, iterations
        self._solver: PersistentSolver | None = None
        self._matrix_bytes: int | None = None
        self._error: float | None = None

    @property
    def identity(self) -> str:
        return f"{self.name} {self._module.hash}"

    @property
    def columns(self) -> dict[str, Any]:
        own = {"routine": ROUTINE, "product": ON_CHIP, "matrix_bytes": self._matrix_bytes}
        return {**own, "error": self._error}

    def pack(self, workspace: Workspace) -> None:
        """Deal the rows, and compute the expected residual on the host."""
        slices_on(workspace)
        expect(workspace, self._iterations, away=True)

    def prepare(self, workspace: Workspace) -> None:
        """Upload the matrix and the right side, solve once and verify; a wrong residual raises as in `SolverRun`."""
        if self._module.binary is None:
            raise ModuleError(self._module.message)
        self.release()
        self._error = None
        operands, dealt = operands_of(workspace), slices_on(workspace)
        slices = replace(dealt, scale=np.ones_like(dealt.scale))  # there is no preconditioner
        program = workspace.program(self._folder / self._module.binary)
        kernels = operands.problem.entry, operands.precision
        solver = PersistentSolver(
            workspace.device, program, slices, "bicgstab", kernels, guards=workspace.guards
        )  # fmt: skip
        self._solver, self._matrix_bytes = solver, slices.nbytes
        workspace.device.write(solver.b, operands.x[slices.rows])
        zeros = np.zeros_like(slices.scale)
        read_again = 2 * self._iterations * (slices.nbytes - solver.kept_bytes + 2 * slices.scale.nbytes)
        self.bytes_moved = slices.nbytes + read_again

        def launch(iterations: int = self._iterations) -> None:
            workspace.device.fill(solver.x, 0)
            solver.begin()
            solver.iterate(iterations)

        expected = expect(workspace, self._iterations)
        launch(expected.iterations)
        x = zeros.astype(np.float64)
        found = np.empty_like(slices.scale)
        workspace.device.download(solver.x, found)
        x[slices.rows] = found
        residuals = solver.progress().residual, true_residual(operands, x.ravel())
        self._error = error_of(residuals, expected)
        judge_error(self._error, residuals, expected, workspace, self._iterations)
        self.launch = launch

    def release(self) -> None:
        if self._solver is not None:
            self._solver.release()
            self._solver = None
