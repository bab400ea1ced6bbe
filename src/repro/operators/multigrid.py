"""Algebraic multigrid for a SciPy matrix, set up and solved on a device; names follow PyAMG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any, Literal, NoReturn
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from repro.codegen.targets import DTYPES
from repro.devices.base import OutOfDeviceMemory, Program
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, brief
from repro.exact_casts import cast
from repro.operators.arrays import DeviceArray, View, copy_refusal, host_array, is_on_device
from repro.operators.base import Closeable, as_bool, public, public_methods, real_number, warn_caller, whole_number
from repro.operators.device_exchange import (
    CUPYS_ARRAYS,
    CUPYS_MATRICES,
    cupy_device,
    cupys_rows,
    is_from_module,
    load_products,
    store_cupys,
    to_cupy,
)
from repro.operators.iterative_solver import Callback, check_callback, convert_like, solve_columns, tolerances
from repro.operators.runtime import KERNELS, KernelsOnDemand, Runtime, open_runtime
from repro.operators.scipy_matrices import as_rows
from repro.operators.sparse_products import StoredPattern, matrix_on_device
from repro.sparse.device_primitives import Load
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels
from repro.sparse.multigrid.hierarchy import DeviceLevel, refresh_hierarchy, set_up_hierarchy
from repro.sparse.multigrid.kernels import MODULES, render_multigrid, width_for
from repro.sparse.multigrid.reference import SMOOTHER_DEGREES, MultigridSettings, Smoother, check_diagonal
from repro.sparse.multigrid.solver import Solver, SolveResult, check_finite, shifted
from repro.sparse.solvers.persistent import AT_ROUNDING


class Memory:
    """Device memory of a multigrid hierarchy; freed when neither the hierarchy nor one of its levels refers to it.

    `refreshable`: levels keep the data that a refresh needs. `cupys`: matrices are returned as CuPy matrices.
    """

    def __init__(
        self, runtime: Runtime, load: Load, levels: list[DeviceLevel], solver: Solver, settings: MultigridSettings,
        refreshable: bool, cupys: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.load, self.levels, self.solver = runtime, load, levels, solver
        self.settings, self.refreshable, self.cupys = settings, refreshable, cupys
        #: False while a refresh runs, and after a refresh that failed.
        self.whole = True
        # not at exit: the device may be closed by then, and the process releases all memory anyway
        self.release = finalize(self, _give_back, runtime, levels, solver)
        self.release.atexit = False

    def check_open(self) -> None:
        if not self.release.alive:
            raise ReproError("the hierarchy is closed", todo="set up a new one with repro.amg")

    def check_whole(self) -> None:
        """Raise `ReproError` if the memory was released, or if a refresh was interrupted.

        Some levels have old values then and others new ones.
        """
        self.check_open()
        if not self.whole:
            raise ReproError("a refresh of the hierarchy was interrupted", todo="refresh it again, or set up a new one")


class Level:
    """One level of a multigrid hierarchy. Its matrices have sorted columns.

    They are SciPy matrices, or CuPy matrices if the hierarchy was made from one.

    Attributes
    ----------
    A
        Matrix of this level.
    P, R
        Prolongation from the next coarser level, and restriction to that level; the coarsest level has neither.
    aggregates
        Number of the aggregate that contains each node, int32; -1: no aggregate. The coarsest level has no such array.
    """

    def __init__(self, memory: Memory, index: int) -> None:
        self._memory, self._level = memory, memory.levels[index]

    @cached_property
    def A(self) -> Any:
        return self._read(self._level.a)

    @cached_property
    def P(self) -> Any:
        return self._read(self._of_finer(self._level.p))

    @cached_property
    def R(self) -> Any:
        return self._read(self._of_finer(self._level.r))

    @cached_property
    def aggregates(self) -> NDArray[np.int32]:
        buffer = self._of_finer(self._level.aggregates)
        aggregates = np.empty(buffer.nbytes // 4, np.int32)
        with self._memory.runtime.after():
            self._memory.check_open()
            self._memory.runtime.device.download(buffer, aggregates)
        return aggregates

    @property
    def nnz(self) -> int:
        return self._level.nnz

    @property
    def shape(self) -> tuple[int, int]:
        return self._level.a.shape

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "copy its matrices, A, P and R")

    def _of_finer(self, part: Any) -> Any:
        if part is None:
            raise AttributeError("the coarsest level has neither P nor R nor aggregates")
        return part

    def _read(self, storage: Storage) -> Any:
        with self._memory.runtime.after():
            self._memory.check_whole()
            if self._memory.cupys:
                matrix = to_cupy(self._memory.runtime, self._memory.load, storage)
            else:
                matrix = storage.download().to_csr()
        matrix.sort_indices()
        return matrix


def _give_back(runtime: Runtime, levels: list[DeviceLevel], solver: Solver) -> None:
    with runtime.after():
        solver.release()
        for level in levels:
            level.release()


#: Largest value accepted for `max_levels`, `max_coarse` and `maxiter`, and the default of `maxiter`.
MAX_COUNT, MAX_STEPS = (1 << 63) - 1, 100
#: A vector of B is scaled if the binary exponent of its largest number exceeds this limit.
MIDDLING_EXPONENT = 50


@public
def amg(
    A: Any,
    B: Any = None,
    *,
    unknowns: int = 1,
    theta: float = 0.0,
    omega: float = 4 / 3,
    max_levels: int = 20,
    max_coarse: int = 100,
    smoother: Literal["jacobi", "chebyshev"] = "jacobi",
    degree: int = 2,
    refreshable: bool = False,
    device: str = "auto",
) -> MultilevelSolver:
    """Set up algebraic multigrid by smoothed aggregation, wholly on a device.

    Parameters
    ----------
    A
        A square, real sparse matrix: of SciPy, CuPy or PyTorch, or another with `indptr`, `indices`, `data` and
        `shape`, such as JAX's BCSR. For a CuPy matrix, the matrices of the levels are CuPy's as well. A float32 matrix
        is set up and solved in single precision. The diagonal must have no zeros. Conjugate gradients need a symmetric
        positive definite matrix.
    B
        Vectors of the near null space: `(n, k)` or `(n,)`, finite and not all 0; None: the constant vector. For
        elasticity, pass the rigid body motions.
    unknowns
        Number of successive rows of A that belong to one node, such as three displacements. Nodes are aggregated as a
        whole.
    theta
        An entry a_ij is strong if |a_ij| > θ √(|a_ii a_jj|).
    omega
        The prolongator is smoothed with the weight `omega` / (spectral radius of D⁻¹A).
    max_levels, max_coarse
        Largest number of levels; a matrix of at most `max_coarse` rows is not coarsened.
    smoother
        `jacobi`: one weighted Jacobi step before and one after the coarser levels. `chebyshev`: a polynomial in D⁻¹A
        that is small between 1/10 and 1.1 times the spectral radius of D⁻¹A.
    degree
        Degree of the Chebyshev polynomial, which is the number of products with the matrix per smoothing.
    refreshable
        Keep the data that `MultilevelSolver.refresh` needs: A P and the tentative prolongator of each level. For
        Poisson's equation these have 0.4 to 1.3 times as many entries as A.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Raises
    ------
    ReproError
        The arguments are invalid, or the device cannot be used.
    """
    cupys = is_from_module(A, CUPYS_MATRICES)
    rows, precision = cupys_rows(A, "A") if cupys else as_rows(A, subject="A")
    if cupys and device == "auto":
        device = cupy_device(rows)
    n = rows.shape[0]
    settings = MultigridSettings(
        real_number(theta, "theta"),
        real_number(omega, "omega"),
        whole_number(max_coarse, "max_coarse", 1, MAX_COUNT),
        whole_number(max_levels, "max_levels", 1, MAX_COUNT),
    )
    smooths = Smoother(smoother, whole_number(degree, "degree", SMOOTHER_DEGREES[0], SMOOTHER_DEGREES[-1]))
    refreshable = as_bool(refreshable, "refreshable")
    unknowns = whole_number(unknowns, "unknowns", 1, max(n, 1))
    near_null = None if B is None else _vectors(B, n)
    runtime = open_runtime(device)
    load = _load(runtime, precision)
    _compile_ahead(runtime, precision, width_for(runtime.device.target, rows.nnz / max(n, 1)))
    with runtime.after():
        try:
            storage = (
                store_cupys(runtime, rows, precision)
                if cupys
                else matrix_on_device(runtime, rows, np.dtype(DTYPES[precision]))
            )
            levels = set_up_hierarchy(
                runtime.device, load, storage, near_null, unknowns, settings, refreshable=refreshable
            )
            try:
                solver = Solver(runtime.device, load, levels, smooths)
            except BaseException:
                for level in levels:
                    level.release()
                raise
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None
    return MultilevelSolver(Memory(runtime, load, levels, solver, settings, refreshable, cupys))


@public_methods
class MultilevelSolver(Closeable):
    """A multigrid hierarchy on a device; made by `repro.amg`. Threads that use the same device take turns.

    `close`, or the end of a `with` block, frees the device memory; without it, the memory is freed when nothing refers
    to the hierarchy and its levels any more.

    Attributes
    ----------
    levels
        The levels, the finest first.
    shape, dtype
        Of the matrix, and so of the cycle as a preconditioner.
    """

    def __init__(self, memory: Memory) -> None:
        self._runtime, self._memory, self._solver = memory.runtime, memory, memory.solver
        finest = memory.levels[0].a
        self._n, self._dtype = finest.shape[0], finest.dtype
        self.shape, self.dtype = finest.shape, finest.dtype
        self.levels = [Level(memory, index) for index in range(len(memory.levels))]
        self._cycle = self._solver.cycle(self._solver.b, self._solver.x)

    @property
    def device_name(self) -> str:
        """Name of the device that holds the hierarchy."""
        return self._runtime.device.name

    @property
    def nnz(self) -> int:
        """Number of entries of the matrix."""
        return self.levels[0].nnz

    def diagonal(self, k: int = 0) -> NDArray[Any]:
        """Return the k-th diagonal of the matrix as a NumPy array."""
        diagonal: NDArray[Any] = self.to_scipy().diagonal(k)
        return diagonal

    def to_scipy(self) -> csr_array:
        """Return a copy of the matrix on the host, with sorted columns."""
        with self._runtime.after(reads="a copy of the matrix to the host"):
            self._memory.check_whole()
            matrix = self._memory.levels[0].a.download().to_csr()
        matrix.sort_indices()
        return matrix

    def close(self) -> None:
        """Free the device memory of the hierarchy and of its levels, which cannot be used afterwards."""
        with self._runtime.after():
            if not self.closed:
                self._runtime.require_idle(self)
                self.closed = True
                self._runtime.device.synchronize()
                self._memory.release()

    def operator_complexity(self) -> float:
        """Return the number of matrix entries of all levels divided by the number of entries of the finest level."""
        return sum(level.nnz for level in self.levels) / max(self.levels[0].nnz, 1)

    def grid_complexity(self) -> float:
        """Return the number of rows of all levels divided by the number of rows of the finest level."""
        return sum(level.shape[0] for level in self.levels) / max(self.levels[0].shape[0], 1)

    def aspreconditioner(self) -> LinearOperator:
        """Return one V-cycle as an operator for SciPy's solvers, with vectors on the host.

        It has no adjoint, which differs from the cycle where A is not symmetric.
        """
        return LinearOperator((self._n, self._n), matvec=self._precondition, dtype=self._dtype)

    def solve(
        self,
        b: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-5,
        atol: float = 0.0,
        maxiter: int | None = 100,
        callback: Callback | None = None,
        accel: Literal["cg"] | None = "cg",
        residuals: list[float] | None = None,
        return_info: bool = False,
    ) -> Any:
        """Return the solution of A x = b, computed on the device.

        Parameters
        ----------
        b
            `(n,)`, or several right-hand sides as columns `(n, k)`, solved one after the other; finite, converted to
            the matrix's precision; b = 0 gives the solution 0. On a GPU also a contiguous device array of the matrix's
            dtype: CuPy's, PyTorch's, another library's or, for one right-hand side, a `DeviceArray`. The solution is an
            array of CuPy or PyTorch if b is one, a `DeviceArray` for other device arrays, else a NumPy array.
        x0
            Initial guess, in the same form as b, or one vector for all columns; None: 0.
        rtol, atol
            Converged if norm of the residual is at most `max(rtol * norm of b, atol)`; both are at least 0. The test
            uses only residuals that were computed from x.
        maxiter
            Largest number of steps for a right-hand side; None: 100. Without convergence, or if further steps are
            useless, the last x is returned with a warning.
        callback
            Called after each step as `callback(x)`, with a copy of the current x. It cannot use, refresh or close the
            hierarchy.
        accel
            `cg`: conjugate gradients with a V-cycle as preconditioner; None: V-cycles alone.
        residuals
            A list that receives the norms of b - A x at the start and after each step, of several right-hand sides one
            after the other. With `cg`, every fiftieth norm and the last are computed from x; the others come from the
            recurrence and are at least a third of the true norm. Without acceleration, all norms are computed from x.
        return_info
            Return `(x, info)` as SciPy does. `info` is 0 if the solve converged, else the number of steps, at least 1;
            of several right-hand sides the largest. There is no warning then.

        Raises
        ------
        ReproError
            The arguments are invalid, the matrix is not positive definite (`cg`), the residual is not finite, or the
            solution exceeds the precision.

        Warns
        -----
        RuntimeWarning
            The residual is above the tolerance, after `maxiter` steps or at the limit of rounding. Or rounding b to the
            matrix's precision changes b by more than the tolerance.
        """
        if accel is not None and not (isinstance(accel, str) and accel == "cg"):
            raise ReproErrorOfValue("unknown acceleration", where="accel", expected="cg or None", actual=brief(accel))
        if residuals is not None and not isinstance(residuals, list):
            raise ReproErrorOfType("not a list", where="residuals", expected="a list", actual=type(residuals).__name__)
        rtol, atol = real_number(rtol, "rtol", 0.0), real_number(atol, "atol", 0.0)
        max_steps = whole_number(MAX_STEPS if maxiter is None else maxiter, "maxiter", 0, MAX_COUNT)
        return_info = as_bool(return_info, "return_info")
        check_callback(callback)
        norms: list[float] = []

        def solve_one(column: Any, guess: Any) -> tuple[Any, int]:
            x, result = self._solve_one(column, guess, rtol, atol, max_steps, callback, accel, return_info)
            norms.extend(result.residuals)
            return x, 0 if result.converged else max(len(result.residuals) - 1, 1)

        x, info = solve_columns(solve_one, b, x0, self._n, self._dtype)
        if residuals is not None:
            residuals[:] = norms
        return (x, info) if return_info else x

    def _solve_one(
        self,
        b: Any,
        x0: Any,
        rtol: float,
        atol: float,
        max_steps: int,
        callback: Callback | None,
        accel: str | None,
        is_quiet: bool,
    ) -> tuple[Any, SolveResult]:
        guess = None if x0 is None else self._vector(x0, "x0")
        rhs = self._vector(b, "b")

        def current(exponent: int = 0) -> Any:
            if not isinstance(rhs, View):
                return convert_like(shifted(self._read(), exponent), b)
            x = self._on_device()
            if exponent:
                x = self._runtime.put(shifted(x.get(), exponent))
            return convert_like(x, b)

        def observe(exponent: int) -> None:
            assert callback is not None
            x = current(exponent)
            self._runtime.device.synchronize()  # other libraries read x on a stream of their own
            callback(x)

        with self._working(*(view.stream for view in (rhs, guess) if isinstance(view, View))):
            self._write(self._solver.b, rhs)
            if guess is None:
                self._runtime.device.fill(self._solver.x, 0)
            else:
                self._write(self._solver.x, guess)
            solve = self._solver.conjugate_gradients if accel else self._solver.iterate
            result = solve(rtol, max_steps, absolute=atol, observe=None if callback is None else observe)
            x = current()
        _report(result, rtol, atol, is_quiet)
        if result.converged and not is_quiet and not isinstance(rhs, View):
            _report_rounding(b, rhs, rtol, atol)
        return x, result

    def refresh(self, A: Any) -> None:
        """Set up the hierarchy again for a matrix with the same pattern and other values; faster than a new set-up.

        The values of all levels are recomputed. Aggregates and all sparsity patterns stay, even if `theta` would now
        select other strong entries.

        Parameters
        ----------
        A
            The matrix, as in `repro.amg`; its values are converted to the hierarchy's precision. A CuPy matrix is
            copied to the host, where the patterns are compared.

        Raises
        ------
        ReproError
            Nothing was changed: the hierarchy is not refreshable, or the matrix has another pattern, a zero on its
            diagonal or non-finite numbers. Or the refresh was interrupted, as a coarser matrix has a zero on its
            diagonal or memory is short: the hierarchy cannot be used until another refresh succeeds.
        """
        if not self._memory.refreshable:
            raise ReproError("the hierarchy cannot be refreshed", todo="set it up with repro.amg(A, refreshable=True)")
        matrix = _on_host(A)
        with self._runtime.after(reads="a refresh"):
            self._runtime.require_idle(self)
            self._memory.check_open()
            levels = self._memory.levels
            values = self._pattern.values_of(matrix, self._dtype)
            if not self._pattern.has_sound_values(values):
                check_diagonal(values[self._pattern.diagonal])
                raise ReproErrorOfValue("multigrid needs finite numbers", where="A")
            self._memory.whole = False
            try:
                if values.size:
                    self._runtime.device.write(levels[0].a.values, values)
                levels[:] = refresh_hierarchy(self._runtime.device, self._memory.load, levels, self._memory.settings)
                self._solver.renew(levels)
            except OutOfDeviceMemory as error:
                raise self._runtime.out_of_memory_error(error) from None
            self._cycle = self._solver.cycle(self._solver.b, self._solver.x)
            self._memory.whole = True
            self.levels = [Level(self._memory, index) for index in range(len(levels))]

    @cached_property
    def _pattern(self) -> StoredPattern:
        return StoredPattern(self._memory.levels[0].a)

    @contextmanager
    def _working(self, *streams: int | None) -> Iterator[None]:
        """Lock the device; raise `ReproError` if a refresh was interrupted, or the hierarchy is solving."""
        runtime = self._runtime
        with runtime.after(*streams, reads="a solve by multigrid"), runtime.solving(self):
            self._memory.check_whole()
            try:
                yield
            except OutOfDeviceMemory as error:
                raise self._runtime.out_of_memory_error(error) from None

    def _precondition(self, b: NDArray[Any]) -> NDArray[np.floating]:
        """Apply one V-cycle to b, `(n,)`.

        B is scaled by a power of two, so that no single-precision number underflows.
        """
        vector = self._host_vector(host_array(b, "b").reshape(-1), "b").astype(np.float64, copy=False)
        check_finite(vector, "b")
        exponent = int(np.frexp(np.abs(vector).max(initial=0))[1])
        with self._working():
            self._write(self._solver.b, shifted(vector, -exponent).astype(self._dtype))
            self._cycle()
            x = shifted(self._read(), exponent)
        check_finite(x, "the cycle's solution")
        return x

    def _precondition_on_device(self, r: DeviceArray, z: DeviceArray) -> None:
        """Write one V-cycle for r to z, two vectors of the matrix's dtype."""
        with self._working():
            self._copy(r.buffer, self._solver.b)
            self._cycle()
            self._copy(self._solver.x, z.buffer)

    def _vector(self, array: Any, subject: str) -> NDArray[np.floating] | View:
        if is_on_device(array):
            return self._runtime.view(array, subject, self._dtype, self._n, self._dtype.itemsize)
        todo = f"scale it, or set up for a matrix whose type holds {subject}"
        return cast(self._host_vector(array, subject), self._dtype, subject, todo, as_vector=True)

    def _host_vector(self, array: Any, subject: str) -> NDArray[Any]:
        vector = _host_array(array, subject)
        if vector.shape != (self._n,) or vector.dtype.kind not in "fiub":
            raise ReproErrorOfValue(
                "not a vector for this matrix",
                where=subject,
                expected=f"{self._n} real numbers",
                actual=f"{vector.dtype} of shape {vector.shape}",
            )
        return vector

    def _write(self, buffer: Any, vector: NDArray[np.floating] | View) -> None:
        if isinstance(vector, View):
            self._copy(vector.buffer, buffer)
        elif self._n:
            self._runtime.device.write(buffer, vector)

    def _copy(self, source: Any, target: Any) -> None:
        kernels = Kernels(self._runtime.device, self._memory.load("arrays"))
        kernels.over(f"values_{self._dtype.name}", self._n, [np.int32(self._n), source, target])()

    def _on_device(self) -> DeviceArray:
        x = self._runtime.empty((self._n,), self._dtype)
        self._copy(self._solver.x, x.buffer)
        return x

    def _read(self) -> NDArray[np.floating]:
        x = np.empty(self._n, self._dtype)
        if self._n:
            self._runtime.device.download(self._solver.x, x)
        return x

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "set it up anew by `repro.amg`, or copy the matrices of its levels, A, P and R")

    def __repr__(self) -> str:
        sizes = " > ".join(str(level.shape[0]) for level in self.levels)
        place = "closed" if self.closed else f"on {self.device_name}"
        return f"<{type(self).__name__}: levels of {sizes} rows, {self._dtype}, {place}>"


def _host_array(array: Any, subject: str) -> NDArray[Any]:
    return np.ascontiguousarray(host_array(array, subject))


def _on_host(A: Any) -> Any:
    return cupys_rows(A, "A")[0].get() if is_from_module(A, CUPYS_MATRICES) else A


def _vectors(B: Any, n_rows: int) -> NDArray[np.floating]:
    """Return a user's near-null-space vectors as checked `(n, k)`.

    Vectors whose squares would over- or underflow are scaled.
    """
    vectors = _host_array(B.get() if is_from_module(B, CUPYS_ARRAYS) else B, "B")
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or vectors.shape[0] != n_rows or not vectors.shape[1] or vectors.dtype.kind not in "fiub":
        raise ReproErrorOfValue(
            "not vectors for this matrix",
            where="B",
            expected=f"({n_rows}, k) real numbers",
            actual=f"{vectors.dtype} of shape {vectors.shape}",
        )
    vectors = vectors.astype(np.float64)
    largest = np.abs(vectors).max(axis=0, initial=0)
    if not np.isfinite(largest).all():
        i, j = np.argwhere(~np.isfinite(vectors))[0]
        expected = "finite numbers"
        raise ReproErrorOfValue(
            "multigrid needs finite vectors", where=f"B[{i}, {j}]", expected=expected, actual=vectors[i, j]
        )
    if n_rows and not largest.any():
        raise ReproErrorOfValue(
            "all vectors are zero",
            where="B",
            expected="vectors whose product with the matrix is almost zero",
            todo="omit B",
        )
    exponents = np.frexp(largest)[1]
    scaled_vectors: NDArray[np.float64] = np.ldexp(
        vectors, -np.where(np.abs(exponents) > MIDDLING_EXPONENT, exponents, 0)
    )
    return scaled_vectors


def _report(result: SolveResult, rtol: float, atol: float, is_quiet: bool) -> None:
    """Raise `ReproError` if the residual is not finite, and warn, unless `is_quiet`, if it is above the tolerance."""
    steps = len(result.residuals) - 1
    if not np.isfinite(result.reached):
        raise ReproErrorOfValue(
            "the iteration broke down",
            where=f"step {steps}",
            expected="a finite residual",
            actual=result.reached,
            todo="cycles alone (accel=None) do not converge for every matrix; or the matrix may be singular",
        )
    if not (result.converged or is_quiet):
        sentence = f"the residual is {result.reached:.3g} times the norm of b"
        if result.rounding is not None and result.reached <= AT_ROUNDING * result.rounding:
            sentence += f"; rounding x leaves about {result.rounding:.1g}"
        warn_caller(
            f"multigrid did not converge to {tolerances(rtol, atol)} in {steps} steps: {sentence}", RuntimeWarning
        )


def _report_rounding(b: Any, rounded_b: NDArray[np.floating], rtol: float, atol: float) -> None:
    """Warn if rounding b to the matrix's precision changes it by more than the tolerance."""
    exact_b = np.asarray(b)
    if exact_b.dtype.kind != "f" or exact_b.dtype.itemsize <= rounded_b.dtype.itemsize:
        return
    largest = np.abs(exact_b).max(initial=0) or 1
    error = np.linalg.norm((exact_b - rounded_b) / largest)
    relative_error = error / (np.linalg.norm(exact_b / largest) or 1)
    if relative_error > rtol and error * largest > atol:
        sentence = (
            f"the residual is that of b in {rounded_b.dtype}, which is off by {relative_error:.3g} times its norm"
        )
        warn_caller(f"multigrid cannot converge to {tolerances(rtol, atol)}: {sentence}", RuntimeWarning)


@cache
def _load(runtime: Runtime, precision: str) -> Callable[[str], Program]:
    others = load_products(runtime, precision)

    @cache
    def load(module: str) -> Program:
        if module not in MODULES:
            return others(module)
        source = render_multigrid(KERNELS, f"{precision}/{module}", runtime.device.target, "amg")
        return runtime.kernels(source, f"amg/{precision}-{module}")

    return load


@cache
def _compile_ahead(runtime: Runtime, precision: str, width: int) -> None:
    """Compile the kernels of the two finest levels in parallel; one after the other takes half a minute."""
    programs = map(_load(runtime, precision), MODULES)
    pattern = rf"(?!.*_w\d).*|.*_w({width}|{2 * width})"
    on_demand = (program for program in programs if isinstance(program, KernelsOnDemand))
    runtime.compile_together(
        {name: source for program in on_demand for name, source in program.sources(pattern).items()}
    )
