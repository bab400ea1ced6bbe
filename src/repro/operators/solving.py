"""`repro.solve`: a solve of one matrix, which is not kept."""

from __future__ import annotations

from typing import Any, Literal

from repro.errors import ReproErrorOfValue, brief
from repro.operators.base import public, require_choice
from repro.operators.iterative_solver import Callback
from repro.operators.product import take_matrix
from repro.operators.spmv import SpmvOperator, chip_solver, default_operator
from repro.sparse.solvers.kernels import METHODS


@public
def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-8,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback | None = None,
    method: Literal["cg", "bicgstab"] = "cg",
    return_info: bool = False,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
) -> Any:
    """Return the solution of A x = b by an iterative solver; the arguments have the names of `scipy.sparse.linalg.cg`.

    On a GPU, many iterations are one launch, in which each multiprocessor keeps its part of the matrix in shared memory
    as far as it fits. With `M`, each product and each vector operation is a launch. To solve again later, use
    `SpmvOperator.solve`, which packs the matrix once.

    Parameters
    ----------
    A
        A square matrix, as in `repro.operator`, which is packed on the host; or an operator, of which `entry`,
        `precision` and `device` are taken.
    b
        `(n,)`, or several right-hand sides as columns `(n, k)`, solved one after the other; finite; b = 0 gives the
        solution 0. An array of NumPy or PyTorch on the host, converted to the matrix's precision; or a contiguous array
        on the GPU, of the matrix's dtype: CuPy's, PyTorch's or, for one right-hand side, a `DeviceArray`. The solution
        has the shape of b and is of the same library.
    x0
        Initial guess, on the host or on the device: one vector, or one for each column of b; None: 0.
    rtol, atol
        Converged if norm of b - A x is at most `max(rtol * norm of b, atol)`, with the residual computed from x; both
        are at least 0.
    maxiter
        Largest number of iterations for a right-hand side; None: 10 times the number of unknowns.
    M
        Preconditioner, which approximates the inverse of A: a `LinearOperator`, a matrix, or the multigrid hierarchy
        that `repro.amg` returns, which works on the device. None: the diagonal of A.
    callback
        Called after each iteration as `callback(x)`, with a copy of the current x, which costs a copy to the host. It
        may multiply by the operator, but must not update or close it, or solve with it again.
    method
        `cg`: conjugate gradients, for a symmetric (complex: Hermitian) positive definite matrix. `bicgstab`: BiCGSTAB,
        for any matrix; without `M`, complex numbers are taken as pairs of real ones.
    return_info
        Return `(x, info)` as SciPy does. `info` is 0 if the solve converged, else the number of iterations, at least 1;
        of several right-hand sides the largest. There is no warning then.
    entry, precision, device
        As in `repro.operator`.

    Raises
    ------
    ReproError
        The arguments are invalid; the matrix or `M` is not positive definite (`cg`); a divisor is 0 (`bicgstab`); or
        the residual is not finite.

    Warns
    -----
    RuntimeWarning
        The residual is above the tolerance, after `maxiter` iterations or at the limit of rounding; the last x is
        returned.
    """
    if isinstance(A, SpmvOperator):
        own = {"entry": (entry, A.entry), "precision": (precision, A.precision)}
        for name, (given, fixed) in own.items():
            if given not in (None, fixed):
                raise ReproErrorOfValue(
                    f"the operator has another {name}", where=name, expected=fixed, actual=brief(given),
                    todo=f"omit `{name}`, or pass the matrix",
                )  # fmt: skip
        return A.solve(
            b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M, callback=callback, method=method, return_info=return_info
        )
    require_choice(method, "method", METHODS)
    source, working_precision, runtime = take_matrix(A, entry, precision, device, on_host=True)
    with source:
        problem = source.problem
    if M is not None:
        with default_operator(runtime, problem, working_precision) as multiplied:
            return multiplied.solve(
                b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M, callback=callback, method=method,
                return_info=return_info,
            )  # fmt: skip
    with chip_solver(runtime, problem, working_precision, method) as solver:
        return solver.solve(b, x0, rtol=rtol, atol=atol, maxiter=maxiter, callback=callback, return_info=return_info)
