"""Iterative solvers for users' matrices, behind `repro.solve` and `SpmvOperator.solver`.

A persistent solver runs many iterations in one launch, which keeps the matrix in shared memory as far as it fits. With
a user's preconditioner, each product and each vector operation is a launch. All share the vectors in and out, several
right-hand sides, tolerances and refusals.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, NoReturn, cast

import numpy as np
import scipy.sparse.linalg
from numpy.typing import DTypeLike, NDArray

from repro.devices.base import OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, brief
from repro.operators.arrays import DeviceArray, VectorType, View, copy_refusal, host_array, is_on_device, shape_of
from repro.operators.base import (
    Closeable,
    DeviceOperator,
    LengthError,
    as_bool,
    public_methods,
    real_number,
    require_choice,
    warn_caller,
    whole_number,
)
from repro.operators.device_exchange import CUPYS_ARRAYS, as_cupy_array, is_from_module
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.solvers.kernels import (
    METHODS,
    PERSISTENT_BLOCK_SIZE,
    CgState,
    StopReason,
    held_rows,
    render_persistent,
)
from repro.sparse.solvers.persistent import (
    AT_ROUNDING,
    PersistentSolution,
    PersistentSolver,
    Progress,
    RestartedSolver,
    chip_room,
    deal_rows,
)
from repro.sparse.solvers.slices import LANES, keep_slices

#: Largest value accepted for `maxiter`; and its default, as a multiple of the number of unknowns, as in SciPy.
MAX_ITERATIONS, ITERATIONS_PER_UNKNOWN = (1 << 31) - 1, 10
#: If the norm of b on the device is below this, squares of numbers may have underflowed.
MIN_NORM = 1e-140

#: What a solve calls after each iteration, with the current x.
Callback = Callable[[Any], object]


def check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ReproErrorOfType("not callable", where="callback", expected="a function of x", actual=brief(callback))


def tolerances(rtol: float, atol: float) -> str:
    """Return the tolerances of a solve for a message."""
    return f"{rtol:g}" + f" or {atol:g} in absolute terms" * bool(atol)


def require_square(matrix: Matrix) -> None:
    if not matrix.square:
        raise ReproErrorOfValue(
            "the matrix is not square",
            where="A",
            expected="as many columns as rows",
            actual="{} x {}".format(*matrix.shape),
            todo="compute a least-squares solution with `scipy.sparse.linalg.lsqr(repro.operator(matrix), b)`",
        )


def solve_columns(
    solve: Callable[[Any, Any], tuple[Any, int]], b: Any, x0: Any, n: int, dtype: DTypeLike
) -> tuple[Any, int]:
    """Return the solutions for all columns of b, and the largest `info`; `solve` solves for one vector.

    An x0 of one vector is the initial guess of every column.
    """
    on_device = is_on_device(b)
    host = None if on_device else host_array(b, "b")
    shape = shape_of(b) if host is None else host.shape
    if len(shape) != 2 or (host is None and shape[1] == 1):
        return solve(b, x0)
    if shape[0] != n:
        raise LengthError("b has the wrong shape", where="b", expected=f"({n},) or ({n}, vectors)", actual=shape)
    guesses = [x0] * shape[1]
    if x0 is not None and len(guess_shape := shape_of(x0) if is_on_device(x0) else np.shape(x0)) == 2:
        if guess_shape != shape:
            raise LengthError("x0 and b differ in shape", where="x0", expected=shape, actual=guess_shape)
        if shape[1] != 1 or not is_on_device(x0):
            guesses = _columns(x0 if is_on_device(x0) else host_array(x0, "x0"), "x0")
    if host is not None:
        solved = [solve(column, guess) for column, guess in zip(_columns(host, "b"), guesses, strict=True)]
        x = np.empty(shape, dtype)
        for column, (solution, _) in zip(x.T, solved, strict=True):
            column[:] = np.asarray(solution)
        return convert_like(x, b), max((info for _, info in solved), default=0)
    solved = [solve(column, guess) for column, guess in zip(_columns(b, "b"), guesses, strict=True)]
    package = type(b).__module__.partition(".")[0]
    library = sys.modules["jax.numpy" if package.startswith("jax") else package]
    x = library.stack([solution for solution, _ in solved], 1) if solved else b
    return x, max((info for _, info in solved), default=0)


def _columns(array: Any, subject: str) -> list[Any]:
    """Return the columns of a matrix, each contiguous, on the side where the matrix is."""
    if isinstance(array, np.ndarray):
        return [np.ascontiguousarray(column) for column in array.T]
    if isinstance(array, DeviceArray) or not hasattr(array, "__getitem__"):
        raise ReproErrorOfType(
            "several vectors on the device must be a CuPy, PyTorch or JAX array",
            where=subject,
            actual=type(array).__name__,
            todo="solve for each vector separately, or pass a NumPy array",
        )
    columns = [array[:, j] for j in range(shape_of(array)[1])]
    return [c.contiguous() if hasattr(c, "contiguous") else c.copy() for c in columns]


class IterativeSolver(Closeable):
    """What solvers share, whichever recurrence they run: vectors in and out, scaling, and refusals."""

    #: The recurrence; None after `close`.
    _solver: RestartedSolver | None = None
    #: Vectors in the order of the recurrence; and its rows in this order, or all as they are.
    _vectors: Vectors
    _rows: NDArray[np.int64] | slice = slice(None)
    #: The operator that multiplies, if the recurrence has no matrix of its own.
    _operator: DeviceOperator | None = None

    def __init__(self, runtime: Runtime, kind: VectorType, n: int, method: str) -> None:
        self._runtime, self._kind, self._n, self.method = runtime, kind, n, method
        self.device_name, self.iterations = runtime.device.name, 0

    def _solve(
        self,
        b: Any,
        x0: Any,
        rtol: float,
        atol: float,
        maxiter: int | None,
        callback: Callback | None,
        return_info: bool,
    ) -> Any:
        rtol, atol = real_number(rtol, "rtol", 0.0), real_number(atol, "atol", 0.0)
        check_callback(callback)
        return_info = as_bool(return_info, "return_info")
        if maxiter is None:
            maxiter = min(ITERATIONS_PER_UNKNOWN * self._n * self._kind.numbers, MAX_ITERATIONS)
        max_iterations = whole_number(maxiter, "maxiter", 0, MAX_ITERATIONS)
        iterations = 0

        def solve_one(column: Any, guess: Any) -> tuple[Any, int]:
            nonlocal iterations
            x, solution = self._solve_one(column, guess, rtol, atol, max_iterations, callback)
            iterations += solution.iterations
            if solution.status == "converged":
                return x, 0
            if not return_info:
                _warn(self.method, solution, rtol, atol)
            return x, max(solution.iterations, 1)

        size, dtype = self._n * self._kind.numbers, self._kind.dtype
        x, info = solve_columns(solve_one, b, x0, size, dtype)
        self.iterations = iterations
        return (x, info) if return_info else x

    def _solve_one(
        self, b: Any, x0: Any, rtol: float, atol: float, max_iterations: int, callback: Callback | None
    ) -> tuple[Any, PersistentSolution]:
        rhs = self._vector(b, "b")
        guess = None if x0 is None else self._vector(x0, "x0")
        # by the largest number's binary exponent b is scaled, so that squares neither over- nor underflow
        on_device = isinstance(rhs, View) or isinstance(guess, View)
        exponent = 0 if on_device else int(np.frexp(np.abs(cast(Any, rhs)).max(initial=0))[1])
        streams = [vector.stream for vector in (rhs, guess) if isinstance(vector, View)]

        def current() -> Any:
            return convert_like(self._on_device(rhs) if isinstance(rhs, View) else self._read(exponent), b)

        def observe() -> None:
            assert callback is not None
            x = current()
            self._runtime.device.synchronize()  # other libraries read x on a stream of their own
            callback(x)

        runtime = self._runtime
        with runtime.after(*streams, reads="a solve"), runtime.solving(self, self._operator):
            if self._solver is None:
                raise ReproError("the solver is closed", where=repr(self), todo="create a new one with `A.solver()`")
            self._load(rhs, self._solver.b, exponent)
            if guess is None:
                self._runtime.device.fill(self._solver.x, 0)
            else:
                self._load(guess, self._solver.x, exponent)
            with np.errstate(over="ignore", under="ignore"):
                absolute = min(float(np.ldexp(atol, -exponent)), sys.float_info.max)
            solution = self._solver.solve(
                rtol, max_iterations, absolute=absolute, observe=None if callback is None else observe
            )
            self._refuse(solution, rhs)
            return current(), solution

    def _vector(self, array: Any, subject: str) -> NDArray[np.floating] | View:
        size = self._n * self._kind.numbers
        if is_on_device(array):
            entry = self._kind.algebra.size * self._kind.scalar.itemsize
            return self._runtime.view(array, subject, self._kind.dtype, size, min(entry & -entry, 16))
        vector = host_array(array, subject)
        kinds = "fiub" + "c" * (self._kind.dtype.kind == "c")
        if vector.shape not in ((size,), (size, 1)) or vector.dtype.kind not in kinds:
            raise ReproErrorOfValue(
                "not a vector for this matrix",
                where=subject,
                expected=f"an array of shape ({size},), {'numbers' if 'c' in kinds else 'real numbers'}",
                actual=f"{vector.dtype} of shape {vector.shape}",
                todo=f'pass it by name, `method="{array}"`' if isinstance(array, str) else None,
            )
        if not np.isfinite(vector).all():
            position = int(np.argmin(np.isfinite(vector.ravel())))
            raise ReproErrorOfValue(
                "a vector has NaN or infinite numbers",
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
                    "the numbers are too small to be squared", where="b", actual=np.abs(host).max(), todo="scale b"
                )
        if solution.status == "not finite":
            where, todo = iteration, "the matrix may be singular, or its numbers too large: scale it"
            if not np.isfinite(solution.norm_of_b):
                where, todo = "b", "b may have infinite numbers or NaN, or numbers too large to be squared: scale b"
            elif not solution.iterations:
                where, todo = "x0", "x0 may have infinite numbers or NaN, or be too large for b: start from 0"
            raise ReproErrorOfValue(
                "the iteration broke down",
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


def _warn(method: str, solved: PersistentSolution, rtol: float, atol: float) -> None:
    why = "; rounding leaves no less" if solved.status == "rounding" else ""
    warn_caller(
        f"{method} did not converge to {tolerances(rtol, atol)} in {solved.iterations} iterations: the residual is "
        f"{_relative(solved)} times the norm of b{why}",
        RuntimeWarning,
    )


def convert_like(x: Any, b: Any) -> Any:
    """Return a solution as an array of b's library, if that is CuPy or PyTorch."""
    if isinstance(x, DeviceArray) and is_from_module(b, CUPYS_ARRAYS):
        return as_cupy_array(x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(b, torch.Tensor):
        return torch.as_tensor(x, device=b.device)
    return x.reshape(np.shape(b)) if isinstance(x, np.ndarray) else x


#: Writes M r, for r on the device.
Preconditioner = Callable[[DeviceArray, DeviceArray], None]


class PreconditionedSolver(IterativeSolver):
    """Solves with the operator of a matrix, which stays its owner's, and a preconditioner; see `repro.solve` for `M`.

    `vectors` are those of the operator, in the user's order.
    """

    def __init__(self, A: DeviceOperator, matrix: Matrix, vectors: Vectors, M: Any, method: str) -> None:
        require_choice(method, "method", METHODS)
        require_square(matrix)
        super().__init__(A._runtime, A._kind, matrix.n, method)
        self._vectors, self._operator = vectors, A
        self._solver = _Recurrence(A, matrix, vectors, preconditioner(M, A), method)

    solve = IterativeSolver._solve

    def close(self) -> None:
        """Drop the vectors, whose memory is freed with them."""
        self._solver, self.closed = None, True


def preconditioner(M: Any, A: DeviceOperator) -> Preconditioner:
    """Return what applies a user's preconditioner: on the device if it works there, else on the host."""
    runtime, dtype = A._runtime, A.dtype
    if hasattr(M, "aspreconditioner"):
        on_device: Preconditioner | None = getattr(M, "_precondition_on_device", None)
        if on_device and (M.device_name, M.shape, M.dtype) == (A.device_name, A.shape, dtype):
            return on_device
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

    def __init__(
        self, A: DeviceOperator, matrix: Matrix, vectors: Vectors, precondition: Preconditioner, method: str
    ) -> None:
        super().__init__(A._runtime.device, A._kind.scalar, CgState)
        self._operator, self._matrix, self._vectors, self._precondition = A, matrix, vectors, precondition
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
        size = float(np.linalg.norm(self._matrix.values)) * self._vectors.norm(self._x_vector)
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
        preconditioned: Callable[[Any], AbstractContextManager[IterativeSolver]],
    ) -> None:
        require_choice(method, "method", METHODS)
        require_square(matrix)
        if not get_entry(matrix.entry).members:  # the kernels multiply by stored values: 1 for an entry, 0 for padding
            matrix = replace(matrix, entry="real", values=np.ones((matrix.nnz, 1)), statistics={})
        device, kind = runtime.device, VectorType(matrix.entry, precision)
        super().__init__(runtime, kind, matrix.n, method)
        #: Makes the solver with a preconditioner, for a single solve.
        self._preconditioned = preconditioned
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
        with self._preconditioned(M) as solver:
            try:
                return solver._solve(b, x0, rtol, atol, maxiter, callback, return_info)
            finally:
                self.iterations = solver.iterations

    def close(self) -> None:
        """Free the memory of the matrix and of the vectors; the solver cannot be used afterwards."""
        with self._runtime.after():
            self._runtime.require_idle(self)
            solver, self._solver = self._solver, None
            self.closed, self.kept, self.nbytes = True, 0, 0
            if solver is not None:
                self._runtime.device.synchronize()
                solver.release()
