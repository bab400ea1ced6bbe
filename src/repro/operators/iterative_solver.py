"""What iterative solvers share: vectors in and out, several right-hand sides, tolerances, and refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, brief
from repro.operators.arrays import DeviceArray, VectorType, View, copy_refusal, host_array, is_on_device, shape_of
from repro.operators.base import Closeable, LengthError, real_number, warn_caller, whole_number, yes_or_no
from repro.operators.device_exchange import CUPYS_ARRAYS, as_cupy_array, is_from_module
from repro.operators.runtime import Runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix
from repro.sparse.solvers.persistent import PersistentSolution, RestartedSolver

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
        return like(x, b), max((info for _, info in solved), default=0)
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
    """What solvers share, whichever recurrence they run: vectors in and out, scaling, and refusals.

    Attributes
    ----------
    method
        `cg` or `bicgstab`.
    iterations
        Number of iterations of the last solve, of several right-hand sides together.
    device_name
        Name of the device.
    """

    #: The recurrence; None after `close`.
    _solver: RestartedSolver | None = None
    #: Vectors in the order of the recurrence; and its rows in this order, or all as they are.
    _vectors: Vectors
    _rows: NDArray[np.int64] | slice = slice(None)

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
        return_info = yes_or_no(return_info, "return_info")
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
        self,
        b: Any,
        x0: Any,
        rtol: float,
        atol: float,
        max_iterations: int,
        callback: Callback | None,
    ) -> tuple[Any, PersistentSolution]:
        rhs = self._vector(b, "b")
        guess = None if x0 is None else self._vector(x0, "x0")
        # by the largest number's binary exponent b is scaled, so that squares neither over- nor underflow
        on_device = isinstance(rhs, View) or isinstance(guess, View)
        exponent = 0 if on_device else int(np.frexp(np.abs(cast(Any, rhs)).max(initial=0))[1])
        streams = [vector.stream for vector in (rhs, guess) if isinstance(vector, View)]

        def current() -> Any:
            return like(self._on_device(rhs) if isinstance(rhs, View) else self._read(exponent), b)

        def observe() -> None:
            assert callback is not None
            x = current()
            self._runtime.device.synchronize()  # other libraries read x on a stream of their own
            callback(x)

        with self._runtime.after(*streams, reads="a solve"):
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
                expected=f"{size} {'numbers' if 'c' in kinds else 'real numbers'}",
                actual=f"{vector.dtype} of shape {vector.shape}",
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


def like(x: Any, b: Any) -> Any:
    """Return a solution as an array of b's library, if that is CuPy or PyTorch."""
    if isinstance(x, DeviceArray) and is_from_module(b, CUPYS_ARRAYS):
        return as_cupy_array(x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(b, torch.Tensor):
        return torch.as_tensor(x, device=b.device)
    return x.reshape(np.shape(b)) if isinstance(x, np.ndarray) else x
