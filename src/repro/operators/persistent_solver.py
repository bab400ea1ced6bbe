"""Persistent iterative solvers for users' matrices, behind `repro.solve` and `SpmvOperator.solver`.

Many iterations run in one launch, which keeps the matrix in shared memory as far as it fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from repro.devices.base import OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfValue
from repro.operators.arrays import VectorType
from repro.operators.base import formerly, one_of, public_methods
from repro.operators.iterative_solver import Callback, IterativeSolver, require_square
from repro.operators.preconditioned_solver import PreconditionedSolver
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.solvers.kernels import METHODS, PERSISTENT_BLOCK_SIZE, held_rows, render_persistent
from repro.sparse.solvers.persistent import PersistentSolver, chip_room, deal_rows
from repro.sparse.solvers.slices import LANES, keep_slices

if TYPE_CHECKING:
    from repro.operators.spmv import SpmvOperator


@public_methods
class ChipSolver(IterativeSolver):
    """A matrix distributed over a device's multiprocessors for one method; made by `SpmvOperator.solver`.

    Any thread may use it; threads of one device take turns.

    Attributes
    ----------
    method
        `cg` or `bicgstab`.
    kept, nbytes
        Bytes of the matrix in device memory: of the part that is kept in shared memory during a launch, and of the
        whole. In shared memory the part may be compressed to fewer bytes. Both are 0 after `close`.
    iterations
        Number of iterations of the last solve, of several right-hand sides together.
    device_name
        Name of the device.
    """

    def __init__(
        self,
        runtime: Runtime,
        matrix: Matrix,
        precision: str,
        method: Literal["cg", "bicgstab"],
        multiplied: Callable[[], SpmvOperator],
    ) -> None:
        one_of(method, "method", METHODS)
        require_square(matrix)
        if not get_entry(matrix.entry).members:  # the kernels multiply by stored values: 1 for an entry, 0 for padding
            matrix = replace(matrix, entry="real", values=np.ones((matrix.nnz, 1)), statistics={})
        device, kind = runtime.device, VectorType(matrix.entry, precision)
        super().__init__(runtime, kind, matrix.n, method)
        #: Makes the operator of the matrix, which a solve with `M` multiplies by.
        self._multiplied = multiplied
        warps = PERSISTENT_BLOCK_SIZE[device.backend] // LANES
        slices = deal_rows(matrix, kind.scalar, device)
        if method == "cg" and slices.smallest_diagonal.number <= 0:
            raise ReproErrorOfValue(
                "conjugate gradients need a positive definite matrix",
                where=f"diagonal, row {slices.smallest_diagonal.row}",
                expected="a number above 0",
                actual=slices.smallest_diagonal.number,
                todo='solve with method="bicgstab"; where the matrix is negative definite, with -A and -b',
            )
        rows = held_rows(method, matrix.entry, precision, slices.max_slices_per_warp(warps))
        kept_slices = keep_slices(slices, matrix.entry, chip_room(device))
        source = render_persistent(KERNELS, method, matrix.entry, precision, device.target, rows, (kept_slices.form,))
        program = runtime.program(source, f"solvers/{method}-{matrix.entry}-{precision}-{rows}-{kept_slices.form}")
        try:
            with runtime.after():
                solver = PersistentSolver(device, program, slices, method, (matrix.entry, precision), kept_slices)
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None
        self._solver = solver
        self.kept, self.nbytes = solver.kept_bytes, slices.nbytes
        self._rows = slices.rows
        self._vectors = Vectors(runtime, matrix.n, kind, "AoS", slices.rows)

    @formerly(3, "tol", "maxiter", tol="rtol")
    def solve(
        self,
        b: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-8,
        atol: float = 0.0,
        maxiter: int | None = None,
        M: Any = None,
        callback: Callback | None = None,
        return_info: bool = False,
    ) -> Any:
        """Return the solution of A x = b; arguments and errors as for `repro.solve`.

        A solve with `M` multiplies by an operator of the matrix, which it packs and frees again: use `A.solve`.
        """
        if M is None:
            return self._solve(b, x0, rtol, atol, maxiter, callback, return_info)
        if self.closed:
            raise ReproError("the solver is closed", where=repr(self), todo="create a new one with `A.solver()`")
        with self._multiplied() as A, PreconditionedSolver(A, M, self.method) as solver:
            try:
                return solver.solve(b, x0, rtol, atol, maxiter, callback, return_info)
            finally:
                self.iterations = solver.iterations

    def close(self) -> None:
        """Free the memory of the matrix and of the vectors; the solver cannot be used afterwards."""
        with self._runtime.after():
            solver, self._solver = self._solver, None
            self.closed, self.kept, self.nbytes = True, 0, 0
            if solver is not None:
                self._runtime.device.synchronize()
                solver.release()
