"""The calls of public functions that the harness times, beside those of CuPy, PyTorch and SciPy of the same kind.

Each group makes its operands, and releases them before the next. Libraries that are not installed have no calls, and
only SciPy has some where the device is no GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import linalg

from repro.bench.user_calls import OURS, CallGroup, Seconds, UserCall
from repro.codegen.targets import DTYPES
from repro.operators.arrays import DeviceArray
from repro.operators.dynamic_csr import DynamicCSR
from repro.operators.multigrid import amg
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.siac_filter import siac
from repro.operators.sparse_products import ProductPlan, spgemm
from repro.operators.spmv import operator
from repro.problems.field import Field
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem
from repro.sparse.operands import expand

#: Launches in a graph of the kernel alone, and its replays.
LAUNCHES, REPLAYS = 20, 20
#: Entries of an insertion, and iterations of conjugate gradients.
INSERTED, ITERATIONS = 1000, 50
#: Bound of a product's error, in roundings of the sum of the terms' absolute values; of a solution by multigrid, in
#: norms of b.
ROUNDINGS, RESIDUAL = 256, 1e-3


@dataclass(frozen=True)
class ArrayKind:
    """Arrays of one library, with the functions that a user of it has."""

    name: str
    #: Bring a NumPy array to the library, and back.
    put: Callable[[NDArray[Any]], Any]
    get: Callable[[Any], NDArray[Any]]
    #: Waits for the library's stream.
    wait: Callable[[], None]
    #: Name of the library's own functions; empty if it has none.
    library: str = ""
    #: Takes a SciPy matrix in CSR to the library, and one of its matrices back; None: it has no matrices.
    matrix: Callable[[Any], Any] | None = None
    scipy: Callable[[Any], Any] | None = None
    #: Product of the library's matrix and its x, written to its y; None: there is no such function.
    product_into: Callable[[Any, Any, Any], Any] | None = None
    #: Conjugate gradients of the library: of matrix and b.
    solve: Callable[[Any, Any], Any] | None = None


def _nothing() -> None:
    """Wait for nothing: the library's functions return when they have finished."""


def _array(values: Any) -> NDArray[Any]:
    return np.asarray(values)


def _numpy() -> ArrayKind:
    def solve(matrix: Any, b: Any) -> Any:
        return linalg.cg(matrix, b, rtol=0, atol=0, maxiter=ITERATIONS)[0]

    return ArrayKind("NumPy", _array, _array, _nothing, "SciPy", sp.csr_array, sp.csr_array, None, solve)


def _own(runtime: Runtime) -> ArrayKind:
    return ArrayKind("own", runtime.put, DeviceArray.get, runtime.device.synchronize)


def _cupy(runtime: Runtime) -> ArrayKind:
    cupy = import_module("cupy")
    sparse, cusparse = (import_module(f"cupyx.{name}") for name in ("scipy.sparse", "cusparse"))
    solvers = import_module("cupyx.scipy.sparse.linalg")
    cupy.cuda.Device(runtime.ordinal).use()

    def solve(matrix: Any, b: Any) -> Any:
        return solvers.cg(matrix, b, tol=0, atol=0, maxiter=ITERATIONS)[0]

    return ArrayKind(
        "CuPy",
        cupy.asarray,
        cupy.asnumpy,
        lambda: cupy.cuda.get_current_stream().synchronize(),
        "CuPy",
        sparse.csr_matrix,
        lambda matrix: sp.csr_array(matrix.get()),
        cusparse.spmv,
        solve,
    )


def _pytorch(runtime: Runtime) -> ArrayKind:
    torch = import_module("torch")
    device = torch.device("cuda", runtime.ordinal)

    def put(array: NDArray[Any]) -> Any:
        return torch.from_numpy(np.array(array)).to(device)

    def take(matrix: Any) -> Any:
        with warnings.catch_warnings(action="ignore"):  # that CSR is in a beta state
            return torch.sparse_csr_tensor(*map(put, (matrix.indptr, matrix.indices, matrix.data)), size=matrix.shape)

    def back(matrix: Any) -> Any:
        values, columns, offsets = (part.cpu().numpy() for part in (
            matrix.values(), matrix.col_indices(), matrix.crow_indices()))  # fmt: skip
        return sp.csr_array((values, columns, offsets), shape=tuple(matrix.shape))

    return ArrayKind(
        "PyTorch",
        put,
        lambda tensor: tensor.cpu().numpy(),
        lambda: torch.cuda.current_stream(device).synchronize(),
        "PyTorch",
        take,
        back,
        lambda matrix, x, y: torch.mv(matrix, x, out=y),
    )


def array_kinds(runtime: Runtime, say: Callable[[str], None] = print) -> list[ArrayKind]:
    """Return the kinds of arrays that calls on a device can be made with."""
    kinds = [_numpy(), _own(runtime)]
    for name, make in (("CuPy", _cupy), ("PyTorch", _pytorch)):
        if runtime.ordinal < 0:
            say(f"no calls of {name}: the device is no GPU")
            continue
        try:
            kinds.append(make(runtime))
        except ImportError as error:
            say(f"no calls of {name}: {error}")
    return kinds


@dataclass(frozen=True)
class _Setting:
    """A problem in one precision on a device, and the libraries there."""

    runtime: Runtime
    kinds: Sequence[ArrayKind]
    precision: str
    seed: int
    say: Callable[[str], None]

    def kernel(self, multiply: Callable[[Any, Any], None], x: NDArray[Any], y: NDArray[Any]) -> Callable[[], Seconds]:
        """Return a function that times what `multiply` launches on the device's own stream, by a graph."""

        def timed() -> Seconds:
            views = self.runtime.put(x), self.runtime.put(y)
            return self.graph(lambda: multiply(*views))

        return timed

    def graph(self, launch: Callable[[], None]) -> Seconds:
        with self.runtime.after():
            launch()
            return self.runtime.device.time_graph(launch, LAUNCHES, REPLAYS)


def user_calls(
    problem: Problem,
    precision: str,
    functions: Sequence[str],
    seed: int,
    device: str = "auto",
    say: Callable[[str], None] = print,
) -> Iterator[CallGroup]:
    """Yield the groups of calls of some functions (`MATRIX_GROUPS`, or `filter` for a field) on a problem."""
    runtime = open_runtime(device)
    setting = _Setting(runtime, array_kinds(runtime, say), precision, seed, say)
    with warnings.catch_warnings(action="ignore"):  # a CPU is slow, iterations end early
        if isinstance(problem, Field):
            if "filter" in functions and precision == "double":  # the filter has no other
                yield from _filter_calls(setting, problem)
            return
        assert isinstance(problem, Matrix)
        matrix = as_scipy(problem, precision)
        for name, (group, allows) in MATRIX_GROUPS.items():
            if name in functions and allows(problem):
                yield from group(setting, matrix)


def as_scipy(problem: Matrix, precision: str) -> Any:
    """Return a matrix as a user has it: in CSR, and with blocks in BSR."""
    dtype = np.dtype(DTYPES[precision])
    if problem.entry == "complex":
        values = (problem.values[:, 0] + 1j * problem.values[:, 1]).astype(np.result_type(dtype, np.complex64))
        return sp.csr_array((values, problem.indices, problem.indptr), shape=problem.shape)
    matrix = expand(problem, problem.values).astype(dtype)
    return matrix if matrix.blocksize[0] > 1 else matrix.tocsr()


def _vector(setting: _Setting, matrix: Any, size: int) -> NDArray[Any]:
    generator = np.random.default_rng(setting.seed)
    x = generator.standard_normal(size)
    return (x + 1j * generator.standard_normal(size) if matrix.dtype.kind == "c" else x).astype(matrix.dtype)


def _bounded(expected: NDArray[Any], bound: NDArray[Any]) -> Callable[[NDArray[Any]], float]:
    """Return a function of a vector: the largest ratio of its error to its bound; infinite if it is not finite."""
    safe = np.maximum(bound, np.finfo(bound.dtype).tiny)

    def error(y: NDArray[Any]) -> float:
        ratio = float(np.max(np.abs(y.reshape(-1) - expected) / safe, initial=0.0))
        return ratio if np.isfinite(ratio) else np.inf

    return error


def _product_error(matrix: Any, x: NDArray[Any], powers: int = 1) -> Callable[[NDArray[Any]], float]:
    """Return the check of matrix^powers @ x, against a product in double precision."""
    wide = np.complex128 if matrix.dtype.kind == "c" else np.float64
    exact, sizes = matrix.astype(wide), abs(matrix).astype(np.float64)
    expected, bound = x.astype(wide), np.abs(x).astype(np.float64)
    for _ in range(powers):
        expected, bound = exact @ expected, sizes @ bound
    return _bounded(expected, bound * float(ROUNDINGS * np.finfo(matrix.dtype).eps))


def _products(
    setting: _Setting,
    function: str,
    A: Any,
    x: NDArray[Any],
    rows: int,
    error: Callable[[NDArray[Any]], float],
    rivals: Any = None,
) -> CallGroup:
    """Return the calls of `A @ x` and `A.matvec(x, out=y)`, and those of each library with the matrix `rivals`."""
    calls = []
    for kind in setting.kinds:
        x_kind, y = kind.put(x), kind.put(np.zeros(rows, A.dtype))
        check = partial(_error_of, kind, error)
        call = partial(UserCall, function, OURS, kind.name, wait=kind.wait, error=check)
        calls += [
            call("new", partial(_multiply, A, x_kind)),
            call("out", partial(A.matvec, x_kind, y)),
        ]
        if rivals is not None and kind.matrix is not None:
            theirs = kind.matrix(rivals)
            call = partial(UserCall, function, kind.library, kind.name, wait=kind.wait, error=check)
            calls.append(call("new", partial(_multiply, theirs, x_kind)))
            if kind.product_into is not None:
                calls.append(call("out", partial(_product_into, kind.product_into, theirs, x_kind, y)))
    return CallGroup(calls, setting.kernel(A._multiply, x, np.zeros(rows, A.dtype)))


def _multiply(A: Any, x: Any) -> Any:
    return A @ x


def _product_into(product: Callable[[Any, Any, Any], Any], A: Any, x: Any, y: Any) -> Any:
    product(A, x, y)
    return y


def _error_of(kind: ArrayKind, error: Callable[[NDArray[Any]], float], result: Any) -> float:
    return error(kind.get(result))


def _product_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    x = _vector(setting, matrix, matrix.shape[1])
    with operator(matrix, device=setting.runtime.words) as A:
        csr = sp.csr_array(matrix.tocsr())
        yield _products(setting, "product", A, x, matrix.shape[0], _product_error(matrix, x), csr)


def _spgemm_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    v = _vector(setting, matrix, matrix.shape[1])
    error, device = _product_error(matrix, v, 2), setting.runtime.words
    calls = []
    for kind in setting.kinds:
        if kind.matrix is not None and kind.scipy is not None:
            a = kind.matrix(matrix)
            call = partial(
                UserCall, "spgemm", arrays=kind.name, result="new", wait=kind.wait,
                error=partial(_matrix_error, kind.scipy, error, v),
            )  # fmt: skip
            calls += [
                call(OURS, run=partial(spgemm, a, a, device)),
                call(kind.library, run=partial(_multiply, a, a)),
            ]
    yield CallGroup(calls)


def _matrix_error(scipy: Callable[[Any], Any], error: Callable[[Any], float], v: NDArray[Any], matrix: Any) -> float:
    return error(scipy(matrix) @ v.astype(np.float64))


def _refill_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    v = _vector(setting, matrix, matrix.shape[1])
    error, device = _product_error(matrix, v, 2), setting.runtime.words
    calls: list[UserCall] = []
    plans: list[ProductPlan] = []
    try:
        for kind in setting.kinds:
            # CuPy's matrices have a plan that returns CuPy's; other arrays are given to a plan of SciPy's
            ours = matrix if kind.matrix is None or kind.name != "CuPy" else kind.matrix(matrix)
            if kind.name in ("NumPy", "CuPy"):
                product, plan = spgemm(ours, ours, device, plan=True)
                plans.append(plan)
            values = kind.put(matrix.data)
            call = partial(UserCall, "refill", OURS, kind.name, wait=kind.wait)
            if kind.scipy is not None and kind.name in ("NumPy", "CuPy"):
                check = partial(_matrix_error, kind.scipy, error, v)
                calls.append(call("new", partial(plan.refill, values, values), error=check))
            if kind.name != "NumPy":
                out = kind.put(np.zeros(plan.nnz, matrix.dtype))
                pattern = product if isinstance(product, sp.csr_array) else sp.csr_array(product.get())
                check = partial(_values_error, kind, error, v, pattern)
                calls.append(call("out", partial(plan.refill, values, values, out=out), error=check))
        yield CallGroup(calls, partial(_refill_kernel, setting, plans[0]))
    finally:
        for plan in plans:
            plan.release()


def _values_error(
    kind: ArrayKind, error: Callable[[Any], float], v: NDArray[Any], pattern: sp.csr_array, values: Any
) -> float:
    """Check values in the order of the first product, whose columns are not sorted."""
    matrix = sp.csr_array((kind.get(values), pattern.indices, pattern.indptr), shape=pattern.shape)
    return error(matrix @ v.astype(np.float64))


def _refill_kernel(setting: _Setting, plan: ProductPlan) -> Seconds:
    a, b, c = plan._factors.a.values, plan._factors.b.values, plan._c.values
    return setting.graph(lambda: plan._launch(a, b, c))


def _dynamic_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    generator = np.random.default_rng(setting.seed)
    places = [generator.integers(0, size, INSERTED, np.int32) for size in matrix.shape]
    rows, columns = places
    entries = rows, columns, generator.standard_normal(INSERTED).astype(matrix.dtype)
    A = DynamicCSR.from_csr(matrix, device=setting.runtime.words)
    calls = []
    for kind in setting.kinds:
        if kind.name != "own":
            rows_there, columns_there, values_there = (kind.put(array) for array in entries)
            # `unique`, so that each call finds the matrix of the last one
            insert = partial(A.insert, rows_there, columns_there, values_there, mode="unique")
            calls.append(UserCall("insert", OURS, kind.name, "new", insert, kind.wait, lambda result: 0.0))
    yield CallGroup(calls)
    A.insert(rows, columns, entries[2], mode="unique")
    grown, x = A.to_scipy(), _vector(setting, matrix, matrix.shape[1])
    yield _products(setting, "dynamic product", A, x, matrix.shape[0], _product_error(grown, x))


def _solver_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    b = _vector(setting, matrix, matrix.shape[0])
    wide = matrix.astype(np.float64)

    def error(x: NDArray[Any]) -> float:
        """Conjugate gradients lessen the energy, with each iteration."""
        x = x.reshape(-1).astype(np.float64)
        return 0.0 if x @ (wide @ x) / 2 - b @ x < 0 else np.inf

    with operator(matrix, device=setting.runtime.words) as A:
        solver, calls = A.solver("cg"), []
        for kind in setting.kinds:
            rhs, check = kind.put(b), partial(_error_of, kind, error)
            call = partial(UserCall, "cg", arrays=kind.name, result="new", wait=kind.wait, error=check)
            calls.append(call(OURS, run=partial(solver.solve, rhs, tol=0.0, maxiter=ITERATIONS)))
            if kind.solve is not None and kind.matrix is not None:
                calls.append(call(kind.library, run=partial(kind.solve, kind.matrix(matrix), rhs)))
        yield CallGroup(calls)


def _amg_calls(setting: _Setting, matrix: Any) -> Iterator[CallGroup]:
    b = _vector(setting, matrix, matrix.shape[0])
    bound = RESIDUAL * np.linalg.norm(b)

    def error(x: NDArray[Any]) -> float:
        return float(np.linalg.norm(b - matrix @ x.reshape(-1)) / bound)

    solver = amg(matrix, device=setting.runtime.words)
    calls = []
    for kind in setting.kinds:
        check = partial(_error_of, kind, error)
        # a device array of another library than CuPy has a solution of our own
        check = partial(_error_of, replace(kind, get=_to_host(kind)), error)
        calls.append(UserCall("amg", OURS, kind.name, "new", partial(solver.solve, kind.put(b)), kind.wait, check))
    yield CallGroup(calls)


def _to_host(kind: ArrayKind) -> Callable[[Any], NDArray[Any]]:
    return lambda array: array.get() if isinstance(array, DeviceArray) else kind.get(array)


def _filter_calls(setting: _Setting, field: Field) -> Iterator[CallGroup]:
    modes = field.modes.reshape(-1)
    with siac(field, device=setting.runtime.words) as A:
        expected = A @ modes
        error = _bounded(expected, 1e-10 * (np.abs(expected) + np.abs(expected).max()))
        yield _products(setting, "filter", A, modes, A.shape[0], error)


def _is_real(problem: Matrix) -> bool:
    return problem.entry == "real" and problem.square


#: Functions that make the groups of calls, and whether a matrix allows them.
MATRIX_GROUPS: dict[str, tuple[Callable[[_Setting, Any], Iterator[CallGroup]], Callable[[Matrix], bool]]] = {
    "product": (_product_calls, lambda problem: problem.square),
    "spgemm": (_spgemm_calls, _is_real),
    "refill": (_refill_calls, _is_real),
    "dynamic": (_dynamic_calls, _is_real),
    "cg": (_solver_calls, _is_real),
    "amg": (_amg_calls, _is_real),
}
