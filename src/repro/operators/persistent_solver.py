"""Persistent iterative solvers for users' matrices, behind `repro.solve` and `SpmvOperator.solver`.

Many iterations run in one launch, which keeps the matrix in shared memory as far as it fits.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfValue
from repro.operators.arrays import DeviceArray, VectorType, View, copy_refusal, host_array, is_on_device
from repro.operators.base import Closeable, one_of, public_methods, real_number, warn_caller, whole_number
from repro.operators.device_exchange import CUPYS_ARRAYS, as_cupy_array, is_from_module
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.solvers.kernels import METHODS, PERSISTENT_BLOCK_SIZE, held_rows, render_persistent
from repro.sparse.solvers.persistent import PersistentSolution, PersistentSolver, chip_room, deal_rows
from repro.sparse.solvers.slices import LANES, keep_slices

#: Largest value accepted for `maxiter`; and its default, as a multiple of the number of unknowns, as in SciPy.
MAX_ITERATIONS, ITERATIONS_PER_UNKNOWN = (1 << 31) - 1, 10
#: If the norm of b on the device is below this, squares of numbers may have underflowed.
MIN_NORM = 1e-140


@public_methods
class ChipSolver(Closeable):
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
        Number of iterations of the last solve.
    device_name
        Name of the device.
    """

    def __init__(self, runtime: Runtime, matrix: Matrix, precision: str, method: Literal["cg", "bicgstab"]) -> None:
        one_of(method, "method", METHODS)
        if not matrix.square:
            raise ReproErrorOfValue(
                "the matrix is not square",
                where="A",
                expected="as many columns as rows",
                actual="{} x {}".format(*matrix.shape),
                todo="find the least-squares solution by `scipy.sparse.linalg.lsqr(repro.operator(matrix), b)`",
            )
        if not get_entry(matrix.entry).members:  # the kernels multiply by stored values: 1 for an entry, 0 for padding
            matrix = replace(matrix, entry="real", values=np.ones((matrix.nnz, 1)), statistics={})
        self._runtime, self.method, device = runtime, method, runtime.device
        self.device_name, self.iterations = device.name, 0
        kind = VectorType(matrix.entry, precision)
        self._kind, self._n = kind, matrix.n
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
                self._solver: PersistentSolver | None = PersistentSolver(
                    device, program, slices, method, (matrix.entry, precision), kept_slices
                )
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None
        self.kept, self.nbytes = self._solver.kept_bytes, slices.nbytes
        self._rows = slices.rows
        self._vectors = Vectors(runtime, matrix.n, kind, "AoS", slices.rows)

    def solve(self, b: Any, x0: Any = None, tol: float = 1e-8, maxiter: int | None = None) -> Any:
        """Return the solution of A x = b; arguments and errors as for `repro.solve`."""
        tol = real_number(tol, "tol", 0.0)
        size = self._n * self._kind.numbers
        if maxiter is None:
            maxiter = min(ITERATIONS_PER_UNKNOWN * size, MAX_ITERATIONS)
        max_iterations = whole_number(maxiter, "maxiter", 0, MAX_ITERATIONS)
        rhs = self._vector(b, "b")
        guess = None if x0 is None else self._vector(x0, "x0")
        exponent = 0 if isinstance(rhs, View) or isinstance(guess, View) else _exponent(rhs)
        streams = [vector.stream for vector in (rhs, guess) if isinstance(vector, View)]
        with self._runtime.after(*streams, reads="a solve"):
            if self._solver is None:
                raise ReproError("the solver is closed", where=repr(self), todo="make a new one by `A.solver()`")
            self._load(rhs, self._solver.b, exponent)
            if guess is None:
                self._runtime.device.fill(self._solver.x, 0)
            else:
                self._load(guess, self._solver.x, exponent)
            solution = self._solver.solve(tol, max_iterations)
            self.iterations = solution.iterations
            self._refuse(solution, rhs)
            x = self._on_device(rhs) if isinstance(rhs, View) else self._read(exponent)
        if solution.status != "converged":
            _warn(self.method, solution, tol)
        return _like(x, b)

    def close(self) -> None:
        """Free the memory of the matrix and of the vectors; the solver cannot be used afterwards."""
        with self._runtime.after():
            solver, self._solver = self._solver, None
            self.closed, self.kept, self.nbytes = True, 0, 0
            if solver is not None:
                self._runtime.device.synchronize()
                solver.release()

    def _vector(self, array: Any, subject: str) -> NDArray[np.floating] | View:
        size = self._n * self._kind.numbers
        if is_on_device(array):
            entry = self._kind.algebra.size * self._kind.scalar.itemsize
            return self._runtime.view(array, subject, self._kind.dtype, size, min(entry & -entry, 16))
        vector = host_array(array, subject)
        kinds = "fiub" + "c" * (self._kind.dtype.kind == "c")
        if vector.shape not in ((size,), (size, 1)) or vector.dtype.kind not in kinds:
            raise ReproErrorOfValue(
                "this is no vector of the matrix",
                where=subject,
                expected=f"{size} {'numbers' if 'c' in kinds else 'real numbers'}",
                actual=f"{vector.dtype} of shape {vector.shape}",
            )
        if not np.isfinite(vector).all():
            position = int(np.argmin(np.isfinite(vector.ravel())))
            raise ReproErrorOfValue(
                "a vector has to be finite",
                where=f"{subject}[{position}]",
                expected="a finite number",
                actual=vector.ravel()[position],
            )
        return self._kind.members(vector, subject)

    def _load(self, vector: NDArray[np.floating] | View, target: Any, exponent: int) -> None:
        """Copy a vector to `target` in the solver's order.

        A host vector is divided by two to the power of `exponent` before.
        """
        if isinstance(vector, View):
            self._vectors.arrange(vector.buffer, target)
        else:
            with np.errstate(over="ignore"):  # an x0 that is too large for b is refused later
                scaled = np.ldexp(vector, -exponent)
            self._runtime.device.write(target, scaled[self._rows])

    def _read(self, exponent: int) -> NDArray[Any]:
        assert self._solver is not None
        dealt_x = np.empty((self._n, self._kind.algebra.size), self._kind.scalar)
        self._runtime.device.download(self._solver.x, dealt_x)
        x = np.empty_like(dealt_x)
        with np.errstate(over="ignore"):
            x[self._rows] = np.ldexp(dealt_x, exponent)
        if not np.isfinite(x).all():
            raise ReproErrorOfValue(
                "the solution is too large for its precision",
                where="x",
                todo="scale b, or the matrix; the matrix may be singular",
            )
        return self._kind.vector(x)

    def _on_device(self, rhs: View) -> DeviceArray:
        assert self._solver is not None
        x = self._runtime.empty(rhs.shape, self._kind.dtype)
        self._vectors.restore(self._solver.x, x.buffer)
        return x

    def _refuse(self, solution: PersistentSolution, rhs: NDArray[np.floating] | View) -> None:
        iteration = f"iteration {solution.iterations}"
        if solution.norm_of_b < MIN_NORM:
            if isinstance(rhs, View):
                host = np.empty(self._n * self._kind.algebra.size, self._kind.scalar)
                self._runtime.device.download(rhs.buffer, host)
            else:
                host = rhs.ravel()
            if host.any():
                raise ReproErrorOfValue(
                    "numbers are too small to be squared", where="b", actual=np.abs(host).max(), todo="scale b"
                )
        if solution.status == "not finite":
            where, todo = iteration, "the matrix may be singular, or its numbers too large: scale it"
            if not np.isfinite(solution.norm_of_b):
                where, todo = "b", "b may have infinite numbers or NaN, or numbers too large to be squared: scale b"
            elif not solution.iterations:
                where, todo = "x0", "x0 may have infinite numbers or NaN, or be too large for b: start from 0"
            raise ReproErrorOfValue(
                "the iteration came to no solution",
                where=where,
                expected="finite sums",
                actual=f"the residual is {solution.residual:.3g}, the norm of b {solution.norm_of_b:.3g}",
                todo=todo,
            )
        if solution.status == "breakdown":
            failure, todo = (
                ("the matrix is not positive definite: a direction p has (p, A p) of at most 0",
                 'see that A is symmetric and not singular; or solve with method="bicgstab"')
                if self.method == "cg"
                else ("BiCGSTAB breaks down: a divisor is 0", "start from another x0; the matrix may be singular")
            )  # fmt: skip
            raise ReproErrorOfValue(
                failure, where=iteration, actual=f"a residual of {_relative(solution)} times the norm of b", todo=todo
            )

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "make it anew from the operator")

    def __repr__(self) -> str:
        place = ", closed" if self.closed else f" on {self.device_name}"
        return f"<{type(self).__name__}: {self.method}, {self._n} rows of {self._kind.entry}{place}>"


def _relative(solution: PersistentSolution) -> str:
    return f"{solution.residual / solution.norm_of_b:.3g}" if solution.norm_of_b else "infinity"


def _warn(method: str, solved: PersistentSolution, tol: float) -> None:
    why = "; rounding leaves no less" if solved.status == "rounding" else ""
    warn_caller(
        f"{method} did not converge to {tol:g} in {solved.iterations} iterations: the residual is {_relative(solved)} "
        f"times the norm of b{why}",
        RuntimeWarning,
    )


def _exponent(vector: NDArray[np.floating]) -> int:
    """Return the binary exponent of a vector's largest number.

    The right-hand side is scaled by it, so that squares neither over- nor underflow.
    """
    return int(np.frexp(np.abs(vector).max(initial=0))[1])


def _like(x: Any, b: Any) -> Any:
    """Return a solution as an array of b's library, if that is CuPy or PyTorch."""
    if isinstance(x, DeviceArray) and is_from_module(b, CUPYS_ARRAYS):
        return as_cupy_array(x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(b, torch.Tensor):
        return torch.as_tensor(x, device=b.device)
    return x.reshape(np.shape(b)) if isinstance(x, np.ndarray) else x
