"""Calls of this package's public functions as a user makes them, and the same calls of CuPy, PyTorch and SciPy.

Each call is a runnable that the harness verifies and times. The calls of one function form a group, which is timed in
the same rounds. Libraries that are not installed have no calls. On a CPU, SciPy is the only other library.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from inspect import signature
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import linalg

from repro.bench.runnable import Runnable, Workspace
from repro.bench.trial import FAILURES
from repro.codegen.targets import DTYPES
from repro.containment import text_of
from repro.devices.base import LaunchError
from repro.errors import Unsupported
from repro.operators.dynamic_csr import DynamicCSR
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.sparse_products import spgemm
from repro.operators.spmv import operator
from repro.problems.matrix import Matrix
from repro.sparse.compound.variants import ROUTINES

#: The library of our own functions.
OURS = "repro"
#: Launches in a graph of the kernel alone if they take less than `SECONDS`, and replays of the graph.
LAUNCHES, REPLAYS, SECONDS = 20, 20, 0.02
#: Entries of an insertion, iterations of conjugate gradients, and columns of X in A X.
INSERTED, ITERATIONS, COLUMNS = 1000, 50, 8
#: Bound of a result's error, in roundings of the sum of the terms' absolute values.
ROUNDINGS = 256
#: Most entries of a matrix that is multiplied by itself or solved with, on a GPU and on a CPU; more take seconds.
MOST_ENTRIES = {"cuda": 2_000_000, "opencl": 250_000}

Vector = NDArray[Any]
Lend = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Library:
    """A library of arrays, and its functions that do the same work as ours."""

    arrays: str
    functions: str
    #: Bring a NumPy array to the library, and back.
    put: Callable[[Vector], Any]
    get: Callable[[Any], Vector]
    #: Waits until the library's work is done.
    wait: Callable[[], None]
    #: Bring a SciPy matrix to the library, and back.
    csr: Callable[[sp.csr_array], Any]
    scipy: Callable[[Any], sp.csr_array]
    #: Computes y = A x into an array y; None if the library cannot.
    product_into: Callable[[Any, Any, Any], Any] | None = None
    #: Solves A x = b with `ITERATIONS` iterations of conjugate gradients; None if the library cannot.
    cg: Callable[[Any, Any], Any] | None = None


def _numpy() -> Library:
    def cg(matrix: Any, b: Any) -> Any:
        return linalg.cg(matrix, b, rtol=0, atol=0, maxiter=ITERATIONS)[0]

    return Library("NumPy", "SciPy", np.asarray, np.asarray, lambda: None, sp.csr_array, sp.csr_array, None, cg)


def _cupy(ordinal: int) -> Library:
    cupy = import_module("cupy")
    sparse, solvers = import_module("cupyx.scipy.sparse"), import_module("cupyx.scipy.sparse.linalg")
    spmv = import_module("cupyx.cusparse").spmv
    cupy.cuda.Device(ordinal).use()
    tolerance = "rtol" if "rtol" in signature(solvers.cg).parameters else "tol"

    def cg(matrix: Any, b: Any) -> Any:
        return solvers.cg(matrix, b, **{tolerance: 0}, atol=0, maxiter=ITERATIONS)[0]

    return Library(
        "CuPy", "CuPy", cupy.asarray, cupy.asnumpy, lambda: cupy.cuda.get_current_stream().synchronize(),
        lambda matrix: sparse.csr_matrix(sp.csr_matrix(matrix)), lambda matrix: sp.csr_array(matrix.get()), spmv, cg,
    )  # fmt: skip


def _pytorch(ordinal: int) -> Library:
    torch = import_module("torch")
    device = torch.device("cuda", ordinal)

    def put(array: Vector) -> Any:
        return torch.from_numpy(np.array(array)).to(device)

    def get(tensor: Any) -> Vector:
        array: Vector = tensor.cpu().numpy()
        return array

    def csr(matrix: sp.csr_array) -> Any:
        return torch.sparse_csr_tensor(*map(put, (matrix.indptr, matrix.indices, matrix.data)), size=matrix.shape)

    def scipy(matrix: Any) -> sp.csr_array:
        parts = matrix.values(), matrix.col_indices(), matrix.crow_indices()
        return sp.csr_array(tuple(map(get, parts)), shape=tuple(matrix.shape))

    return Library(
        "PyTorch", "PyTorch", put, get, lambda: torch.cuda.current_stream(device).synchronize(), csr, scipy,
        lambda matrix, x, y: torch.mv(matrix, x, out=y),
    )  # fmt: skip


def libraries(ordinal: int, say: Callable[[str], None]) -> list[Library]:
    """Return the libraries whose arrays can be used with GPU number `ordinal`; -1 stands for a CPU."""
    found = [_numpy()]
    for make in (_cupy, _pytorch) if ordinal >= 0 else ():
        try:
            found.append(make(ordinal))
        except ImportError as error:
            say(f"no calls of {error.name or make.__name__[1:]}: {error}")
    return found


class UserCall(Runnable):
    """A public function called with arrays of one library; a launch is a call and the wait for its end.

    `make` returns the call, and the array that it writes to if there is one. `error` returns the ratio of a result's
    error to its bound. `kernel` returns the seconds of the kernel that the call launches.
    """

    kind = "call"
    clocks = ("host",)
    cold = False

    def __init__(
        self,
        function: str,
        whose: str,
        library: Library,
        make: Callable[[], tuple[Callable[[], Any], Any]],
        error: Callable[[Any], float],
        *,
        result: str = "new",
        kernel: Callable[[], float] | None = None,
    ) -> None:
        self.name = f"{function}/{whose}/{library.arrays}/{result}"
        self._about = {"function": function, "library": whose, "arrays": library.arrays, "result": result}
        self._whose, self._wait, self._make, self._error, self._kernel = whose, library.wait, make, error, kernel
        self._result: Any = None
        self._call: Callable[[], Any] | None = None
        self._out: Any = None
        self._kernel_seconds: float | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {**self._about, "kernel_seconds": self._kernel_seconds}

    def prepare(self, workspace: Workspace) -> None:
        self._kernel_seconds = self._kernel() if self._kernel else None
        self._call, self._out = self._make()
        self.launch = self._call_and_wait

    def _call_and_wait(self) -> None:
        assert self._call is not None
        self._result = self._call()
        self._wait()

    def erase_result(self, workspace: Workspace) -> None:
        if self._out is not None:
            self._out[:] = np.nan

    def error(self) -> float:
        """Make one call, and return the ratio of its result's error to the bound; infinite if it is not finite."""
        self.launch()
        ratio = self._error(self._result)
        return ratio if np.isfinite(ratio) else np.inf

    @contextmanager
    def contained(self) -> Iterator[None]:
        """Report any library's error as the call's failure; other libraries need not support a call."""
        try:
            with warnings.catch_warnings(action="ignore"):  # CPUs are slow, iterations end early, CSR is in beta
                yield
        except tuple(FAILURES):
            raise
        except Exception as error:
            failure = LaunchError if self._whose == OURS else Unsupported
            raise failure(f"{type(error).__name__}: {text_of(error)}") from None

    def release(self) -> None:
        self._result = self._call = self._out = None
        vars(self).pop("launch", None)


def user_calls(
    problem: Matrix, precision: str, functions: Sequence[str], seed: int, device: str, say: Callable[[str], None],
    lend: Lend = nullcontext,
) -> Iterator[list[UserCall]]:  # fmt: skip
    """Yield the calls of each function (a key of `GROUPS`) on a real square matrix, in one list per function.

    The operands of a list are released when the next one is requested. With `lend`, other processes use the device
    while expected results are computed and libraries are imported.
    """
    runtime = open_runtime(device)
    matrix = sp.csr_array(
        (problem.values[:, 0].astype(DTYPES[precision]), problem.indices, problem.indptr), shape=problem.shape
    )
    with lend():
        found = libraries(runtime.ordinal, say)
    setting = _Setting(runtime, found, matrix, np.random.default_rng(seed), lend)
    heavy = problem.nnz > MOST_ENTRIES[runtime.device.backend]
    for name, group in GROUPS.items():
        if name in functions and not (heavy and name in HEAVY):
            with ExitStack() as stack:
                with warnings.catch_warnings(action="ignore"):  # that operators are slow on a CPU
                    calls = group(setting, stack)
                yield calls


@dataclass(frozen=True)
class _Setting:
    """A matrix on a device, and the libraries there."""

    runtime: Runtime
    libraries: Sequence[Library]
    matrix: sp.csr_array
    random: np.random.Generator
    lend: Lend

    @property
    def on_device(self) -> Library:
        """The library whose arrays are on the device, CuPy if there are several."""
        return self.libraries[min(1, len(self.libraries) - 1)]

    def vector(self) -> Vector:
        x: Vector = self.random.standard_normal(self.matrix.shape[1]).astype(self.matrix.dtype)
        return x

    def kernel(self, launch: Callable[[], None]) -> float:
        """Return the median seconds of a launch on the device's own stream, in a graph."""
        device = self.runtime.device
        with self.runtime.after():
            launch()
            device.synchronize()
            start = perf_counter()
            launch()
            device.synchronize()
            launches = int(SECONDS / (perf_counter() - start))
            return float(np.median(device.time_graph(launch, max(1, min(launches, LAUNCHES)), REPLAYS)))

    def product_error(self, matrix: sp.csr_array, x: Vector, powers: int = 1) -> Callable[[Vector], float]:
        """Return a function of a vector y: its error over the bound, if it should be x times a power of the matrix."""
        expected, bound = x.astype(np.float64), np.abs(x).astype(np.float64)
        with self.lend():
            wide = matrix.astype(np.float64)
            for _ in range(powers):
                expected, bound = wide @ expected, abs(wide) @ bound
        bound = np.maximum(bound * ROUNDINGS * float(np.finfo(matrix.dtype).eps), np.finfo(np.float64).tiny)
        return lambda y: float(np.max(np.abs(y.reshape(expected.shape) - expected) / bound, initial=0.0))

    def square_error(self) -> Callable[[Any], float]:
        """Return a function of a SciPy matrix: its error over the bound, if it should be the square of the matrix."""
        x = self.vector()
        error = self.product_error(self.matrix, x, powers=2)
        return lambda square: error(square @ x.astype(np.float64))

    def products(
        self, function: str, A: Any, matrix: sp.csr_array, routines: Mapping[str, Callable[[], Any]] | None = None
    ) -> list[UserCall]:
        """Return the calls of `A @ x` and `A.matvec(x, out=y)`, and those of each library with `matrix`, which A is.

        `routines` make operators by name that run a library's routine; they are called with the device's arrays.
        """
        x = self.vector()
        error = self.product_error(matrix, x)

        def kernel_of(make: Callable[[], Any]) -> float:
            operator, vectors = make(), (self.runtime.put(x), self.runtime.put(x))
            return self.kernel(lambda: operator._multiply(*vectors))

        kernel = cache(partial(kernel_of, lambda: A))

        def new(library: Library, make: Callable[[], Any]) -> tuple[Callable[[], Any], Any]:
            left, right = make(), library.put(x)
            return lambda: left @ right, None

        def out(library: Library, make: Callable[[], Callable[[Any, Any], Any]]) -> tuple[Callable[[], Any], Any]:
            into, right, y = make(), library.put(x), library.put(np.zeros_like(x))

            def call() -> Any:
                into(right, y)
                return y

            return call, y

        calls = []
        for library in self.libraries:
            theirs = cache(partial(library.csr, matrix))
            checked = partial(_checked, library.get, error)
            ours = partial(UserCall, function, OURS, library, error=checked, kernel=kernel)
            other = partial(UserCall, function, library.functions, library, error=checked)
            calls += [
                ours(partial(new, library, lambda: A)),
                ours(partial(out, library, lambda: A.matvec), result="out"),
                other(partial(new, library, theirs)),
            ]
            if (into := library.product_into) is not None:
                bound = partial(lambda into, matrix: partial(into, matrix()), into, theirs)
                calls.append(other(partial(out, library, bound), result="out"))
        for name, make in (routines or {}).items():
            library, call = self.on_device, partial(lambda make: make().matvec, make)
            routine = partial(UserCall, function, name, library, result="out", kernel=partial(kernel_of, make))
            calls.append(routine(partial(out, library, call), partial(_checked, library.get, error)))
        return calls


def _checked(read: Callable[[Any], Any], error: Callable[[Any], float], result: Any) -> float:
    return error(read(result))


def _product_calls(function: str, tuned: str, setting: _Setting, stack: ExitStack) -> list[UserCall]:
    make = partial(operator, setting.matrix, device=setting.runtime.words)
    A, routines = stack.enter_context(make(tuned)), {}
    if tuned == "default" and setting.runtime.device.backend == "cuda":
        routines = {name: cache(partial(lambda name: stack.enter_context(make(name)), name)) for name in ROUTINES}
    return setting.products(function, A, setting.matrix, routines)


def _set_up_calls(function: str, tuned: str, setting: _Setting, stack: ExitStack) -> list[UserCall]:
    x = setting.vector()
    error = setting.product_error(setting.matrix, x)

    def make(library: Library) -> tuple[Callable[[], Any], Any]:
        return partial(operator, library.csr(setting.matrix), tuned, device=setting.runtime.words), None

    # the time of a search hardly depends on the library of the matrix
    libraries = setting.libraries if tuned == "default" else [setting.on_device]
    return [UserCall(function, OURS, library, partial(make, library), lambda A: error(A @ x)) for library in libraries]


def _spmm_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    A = stack.enter_context(operator(setting.matrix, device=setting.runtime.words))
    X = setting.random.standard_normal((setting.matrix.shape[1], COLUMNS)).astype(setting.matrix.dtype)
    error = setting.product_error(setting.matrix, X)

    def make(left: Callable[[], Any], library: Library) -> tuple[Callable[[], Any], Any]:
        matrix, right = left(), library.put(X)
        return lambda: matrix @ right, None

    return [
        UserCall("spmm", whose, library, partial(make, left, library), partial(_checked, library.get, error))
        for library in setting.libraries
        for whose, left in ((OURS, lambda: A), (library.functions, partial(library.csr, setting.matrix)))
    ]


def _spgemm_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    def ours(a: Any) -> Callable[[], Any]:
        return lambda: spgemm(a, a, setting.runtime.words)

    def theirs(a: Any) -> Callable[[], Any]:
        return lambda: a @ a

    error = setting.square_error()
    return [
        UserCall(
            "spgemm", whose, library, partial(lambda of, call: (call(of.csr(setting.matrix)), None), library, call),
            partial(_checked, library.scipy, error),
        )
        for library in setting.libraries
        for whose, call in ((OURS, ours), (library.functions, theirs))
    ]  # fmt: skip


def _refill_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    """Return refills with values of each library: a new product of SciPy's or CuPy's matrices, or values into `out`."""
    error, matrix = setting.square_error(), setting.matrix

    @cache
    def planned(library: Library) -> tuple[Any, Any]:
        a = library.csr(matrix) if library.arrays == "CuPy" else matrix
        product, plan = spgemm(a, a, setting.runtime.words, plan=True)
        stack.callback(plan.close)
        return (library.scipy(product) if library.arrays == "CuPy" else product), plan

    @cache
    def kernel() -> float:
        plan = planned(setting.libraries[0])[1]
        buffers = plan._factors.a.values, plan._factors.b.values, plan._c.values
        return setting.kernel(lambda: plan._launch(*buffers))

    def new(library: Library) -> tuple[Callable[[], Any], Any]:
        plan, values = planned(library)[1], library.put(matrix.data)
        return lambda: plan.refill(values, values), None

    def out(library: Library) -> tuple[Callable[[], Any], Any]:
        plan, values = planned(library)[1], library.put(matrix.data)
        c = library.put(np.zeros(plan.nnz, matrix.dtype))
        return lambda: plan.refill(values, values, out=c), c

    def error_of_values(library: Library, values: Any) -> float:
        pattern = planned(library)[0]
        return error(sp.csr_array((library.get(values), pattern.indices, pattern.indptr), shape=pattern.shape))

    calls = []
    for library in setting.libraries:
        call = partial(UserCall, "refill", OURS, library, kernel=kernel)
        if library.arrays != "PyTorch":
            calls.append(call(partial(new, library), partial(_checked, library.scipy, error)))
        if library.arrays != "NumPy":
            calls.append(call(partial(out, library), partial(error_of_values, library), result="out"))
    return calls


def _dynamic_matrix(setting: _Setting, stack: ExitStack) -> tuple[DynamicCSR, list[Vector]]:
    """Return a dynamic matrix, and entries that were inserted into it; inserting them again changes no pattern."""
    matrix = setting.matrix
    rows, columns = (setting.random.integers(0, size, INSERTED, np.int32) for size in matrix.shape)
    values = setting.random.standard_normal(INSERTED).astype(matrix.dtype)
    A = stack.enter_context(DynamicCSR.from_csr(matrix, device=setting.runtime.words))
    A.insert(rows, columns, values, mode="unique")
    return A, [rows, columns, values]


def _insert_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    A, entries = _dynamic_matrix(setting, stack)
    grown, x = A.to_scipy(), setting.vector()
    error = setting.product_error(grown, x)

    def insert(library: Library) -> tuple[Callable[[], Any], Any]:
        # each call finds all places occupied, so that the matrix stays as it is
        new_rows, new_columns, new_values = map(library.put, entries)
        return lambda: A.insert(new_rows, new_columns, new_values, mode="unique"), None

    return [
        UserCall("insert", OURS, library, partial(insert, library), lambda result: error(A @ x))
        for library in setting.libraries
    ]


def _dynamic_product_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    A, _ = _dynamic_matrix(setting, stack)
    return setting.products("dynamic-product", A, sp.csr_array(A.to_scipy()))


def _cg_calls(setting: _Setting, stack: ExitStack) -> list[UserCall]:
    A = stack.enter_context(operator(setting.matrix, device=setting.runtime.words))
    b, wide = setting.vector(), setting.matrix.astype(np.float64)

    def error(x: Vector) -> float:
        """Each iteration of conjugate gradients decreases the energy, which is 0 at the start."""
        x = x.reshape(-1).astype(np.float64)
        return 0.0 if x @ (wide @ x) / 2 - b @ x < 0 else np.inf

    def ours(library: Library) -> tuple[Callable[[], Any], Any]:
        solver, rhs = A.solver("cg"), library.put(b)
        return partial(solver.solve, rhs, rtol=0.0, maxiter=ITERATIONS), None

    def theirs(library: Library) -> tuple[Callable[[], Any], Any]:
        assert library.cg is not None
        return partial(library.cg, library.csr(setting.matrix), library.put(b)), None

    calls = []
    for library in setting.libraries:
        checked = partial(_checked, library.get, error)
        calls.append(UserCall("cg", OURS, library, partial(ours, library), checked))
        if library.cg is not None:
            calls.append(UserCall("cg", library.functions, library, partial(theirs, library), checked))
    return calls


#: Functions that make the calls of each public function.
GROUPS: dict[str, Callable[[_Setting, ExitStack], list[UserCall]]] = {
    "set-up": partial(_set_up_calls, "set-up", "default"),
    "set-up-now": partial(_set_up_calls, "set-up-now", "now"),
    "product": partial(_product_calls, "product", "default"),
    "product-now": partial(_product_calls, "product-now", "now"),
    "spmm": _spmm_calls,
    "spgemm": _spgemm_calls,
    "refill": _refill_calls,
    "insert": _insert_calls,
    "dynamic-product": _dynamic_product_calls,
    "cg": _cg_calls,
}
#: Those that take no matrix of more than `MOST_ENTRIES`.
HEAVY = ("spgemm", "refill", "cg")
