"""Algebraic multigrid for a SciPy matrix, set up and solved with on a device, by PyAMG's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any, Literal, NoReturn
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from repro.casts import cast
from repro.codegen.targets import DTYPES
from repro.devices.base import OutOfDeviceMemory, Program
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray, View, not_copied, refuse_mask
from repro.operators.arrays import on_device as on_the_device
from repro.operators.base import real_number, whole_number
from repro.operators.interchange import (
    CUPYS_ARRAYS,
    CUPYS_MATRICES,
    as_cupys,
    cupys_rows,
    device_of,
    is_cupys,
    store_cupys,
    to_cupy,
)
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.operators.scipy_matrices import as_rows, canonical
from repro.operators.sparse_products import check_pattern, load_products, matrix_on_device
from repro.sparse.device_work import Load
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels
from repro.sparse.multigrid.hierarchy import DeviceLevel, refresh_on, set_up_on
from repro.sparse.multigrid.kernels import MODULES, render_multigrid
from repro.sparse.multigrid.reference import SMOOTHER_DEGREES, MultigridSettings, Smoother, checked_diagonal
from repro.sparse.multigrid.solver import Solver, SolveResult, check_finite, shifted


class Memory:
    """What a hierarchy holds on its device, given back once neither it nor one of its levels is in use.

    Attributes
    ----------
    runtime, load
        The device, and what gives modules in the precision.
    levels, solver
        What is held.
    settings
        That it was set up with.
    refreshable
        Whether levels keep what a refresh needs.
    cupys
        Whether matrices are handed over as CuPy's.
    """

    def __init__(
        self, runtime: Runtime, load: Load, levels: list[DeviceLevel], solver: Solver, settings: MultigridSettings,
        refreshable: bool, cupys: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.load, self.levels, self.solver = runtime, load, levels, solver
        self.settings, self.refreshable, self.cupys = settings, refreshable, cupys
        finalize(self, _give_back, levels, solver)


class Level:
    """A level of a hierarchy, its matrices SciPy's, or CuPy's where the hierarchy is one for a matrix of CuPy's.

    They are brought there when they are asked for, with their columns in order.

    Attributes
    ----------
    A
        Its matrix.
    P, R
        The prolongator from the next level, and the restriction to it; the coarsest level has none.
    aggregates
        The aggregate of each node, int32, -1 for none; the coarsest level has none.
    """

    def __init__(self, memory: Memory, at: int) -> None:
        self._memory, self._level = memory, memory.levels[at]

    @cached_property
    def A(self) -> Any:
        """The matrix."""
        return self._read(self._level.a)

    @cached_property
    def P(self) -> Any:
        """The prolongator."""
        return self._read(self._of_finer(self._level.p))

    @cached_property
    def R(self) -> Any:
        """The restriction."""
        return self._read(self._of_finer(self._level.r))

    @cached_property
    def aggregates(self) -> NDArray[np.int32]:
        """The aggregate of each node."""
        buffer = self._of_finer(self._level.aggregates)
        aggregates = np.empty(buffer.nbytes // 4, np.int32)
        with self._memory.runtime.after():
            self._memory.runtime.device.download(buffer, aggregates)
        return aggregates

    @property
    def nnz(self) -> int:
        """Entries of the matrix."""
        return self._level.nnz

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self._level.a.shape

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "copy its matrices, A, P and R")

    def _of_finer(self, part: Any) -> Any:
        if part is None:
            raise AttributeError("the coarsest level has neither P nor R nor aggregates")
        return part

    def _read(self, storage: Storage) -> Any:
        with self._memory.runtime.after():
            if self._memory.cupys:
                matrix = to_cupy(self._memory.runtime, self._memory.load, storage)
            else:
                matrix = storage.download().to_csr()
        matrix.sort_indices()
        return matrix


def _give_back(levels: list[DeviceLevel], solver: Solver) -> None:
    solver.release()
    for level in levels:
        level.release()


#: Levels, rows and steps that can be asked for at the most.
MAX_COUNT = (1 << 63) - 1
#: Powers of two within which the largest number of a vector of B is left as it is.
MIDDLING_EXPONENT = 50
#: How many times what rounding x leaves a residual may be to be called that.
AT_ROUNDING = 20


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
    """Set algebraic multigrid by smoothed aggregation up, wholly on a device.

    Parameters
    ----------
    A
        A square sparse matrix or array of real numbers, SciPy's, or CuPy's, as those of the levels are then; float32 to
        be set up and solved in single precision. Its diagonal has no zeros; solving by conjugate gradients needs it
        symmetric and positive definite.
    B
        Vectors that the matrix nearly takes to 0, `(n, k)` or `(n,)`, finite and not all of them 0; None: the constant
        one. For elasticity these are the motions of a rigid body.
    unknowns
        Of a node, one after the other in the rows of A, such as three displacements; nodes are aggregated whole.
    theta
        An entry a_ij counts as strong where |a_ij| > θ √(|a_ii a_jj|).
    omega
        The prolongator is smoothed by this weight over the spectral radius of D⁻¹A.
    max_levels, max_coarse
        The most levels; a matrix of so few rows is not made coarser.
    smoother
        `jacobi`: a weighted step of Jacobi's method before and after the coarser levels. `chebyshev`: a polynomial in
        D⁻¹A that is small from 1/10 to 1.1 times its spectral radius.
    degree
        Of this polynomial: products with the matrix.
    refreshable
        Whether `MultilevelSolver.refresh` will be called: levels keep the products A P and the tentative prolongators
        then, 0.4 to 1.3 times the entries of A for Poisson's equation.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Raises
    ------
    ReproError
        There is no multigrid for this, or not on that device.
    """
    cupys = is_cupys(A, CUPYS_MATRICES)
    rows, precision = cupys_rows(A, "A") if cupys else as_rows(A, what="A")
    if cupys and device == "auto":
        device = device_of(rows)
    n = rows.shape[0]
    settings = MultigridSettings(
        real_number(theta, "theta"),
        real_number(omega, "omega"),
        whole_number(max_coarse, "max_coarse", 1, MAX_COUNT),
        whole_number(max_levels, "max_levels", 1, MAX_COUNT),
    )
    smooths = Smoother(smoother, whole_number(degree, "degree", SMOOTHER_DEGREES[0], SMOOTHER_DEGREES[-1]))
    unknowns = whole_number(unknowns, "unknowns", 1, max(n, 1))
    near_null = None if B is None else _vectors(B, n)
    runtime = open_runtime(device)
    load = _load(runtime, precision)
    with runtime.after():
        try:
            stored = (
                store_cupys(runtime, rows, precision)
                if cupys
                else matrix_on_device(runtime, rows, np.dtype(DTYPES[precision]))
            )
            levels = set_up_on(runtime.device, load, stored, near_null, unknowns, settings, refreshable=refreshable)
            try:
                solver = Solver(runtime.device, load, levels, smooths)
            except BaseException:
                for level in levels:
                    level.release()
                raise
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
    return MultilevelSolver(Memory(runtime, load, levels, solver, settings, refreshable, cupys))


class MultilevelSolver:
    """A hierarchy on a device; made by `repro.amg`. Threads that work with one device take turns.

    Attributes
    ----------
    levels
        The finest first.
    """

    def __init__(self, memory: Memory) -> None:
        self._runtime, self._memory, self._solver = memory.runtime, memory, memory.solver
        finest = memory.levels[0].a
        self._n, self._dtype = finest.shape[0], finest.dtype
        self.levels = [Level(memory, at) for at in range(len(memory.levels))]
        self._cycle = self._solver.cycle(self._solver.b, self._solver.x)
        self._whole = True

    @property
    def device_name(self) -> str:
        """What it runs on."""
        return self._runtime.device.name

    def operator_complexity(self) -> float:
        """Return the entries of the matrices of all levels over those of the finest."""
        return sum(level.nnz for level in self.levels) / max(self.levels[0].nnz, 1)

    def grid_complexity(self) -> float:
        """Return the rows of all levels over those of the finest."""
        return sum(level.shape[0] for level in self.levels) / max(self.levels[0].shape[0], 1)

    def aspreconditioner(self) -> LinearOperator:
        """Return one V-cycle as a SciPy operator, for SciPy's solvers; vectors come from the host and go there."""
        return LinearOperator(
            (self._n, self._n), matvec=self._precondition, rmatvec=self._precondition, dtype=self._dtype
        )

    def solve(
        self,
        b: Any,
        x0: Any = None,
        tol: float = 1e-5,
        maxiter: int = 100,
        accel: Literal["cg"] | None = "cg",
        residuals: list[float] | None = None,
    ) -> Any:
        """Return the solution of A x = b, computed on the device.

        Parameters
        ----------
        b
            `(n,)`, finite, taken in the precision of the matrix; for 0 the solution is 0. On a GPU also an array there,
            of CuPy or another library or a `DeviceArray`, contiguous and of the matrix's dtype. The solution is CuPy's
            where b is, a `DeviceArray` where b is another array on the device, else NumPy's.
        x0
            Where to start, as b; None: 0.
        tol
            Of the norm of the residual over that of b, from 0 on. No residual counts as so small that was not computed
            from x.
        maxiter
            Steps at the most, from 0 on; where they are not enough, or further ones are of no use, the last x is
            returned, with a warning.
        accel
            `cg`: conjugate gradients with a V-cycle each step; None: cycles alone.
        residuals
            A list that gets the norm of b - A x at the start and after each step. The last one is computed from x, with
            `cg` every fiftieth too, without acceleration each; others are updated, and not below a third of the true
            one.

        Raises
        ------
        ReproError
            The arguments make no sense, the matrix is not positive definite (`cg`), the residual became infinite or no
            number, or the solution is beyond the precision.

        Warns
        -----
        RuntimeWarning
            The residual is larger than was asked for: after `maxiter` steps, or before, where rounding x is all that is
            left. Or b in the precision of the matrix is another one by more than that.
        """
        if accel is not None and not (isinstance(accel, str) and accel == "cg"):
            raise ReproError("unknown acceleration", where="accel", expected="cg or None", actual=repr(accel))
        if residuals is not None and not isinstance(residuals, list):
            raise ReproError("this is no list", where="residuals", expected="a list", actual=type(residuals).__name__)
        tol = real_number(tol, "tol", 0.0)
        maxiter = whole_number(maxiter, "maxiter", 0, MAX_COUNT)
        start = np.zeros(self._n, self._dtype) if x0 is None else self._vector(x0, "x0")
        right = self._vector(b, "b")
        with self._working(*(given.stream for given in (right, start) if isinstance(given, View))):
            self._write(self._solver.b, right)
            self._write(self._solver.x, start)
            solve = self._solver.conjugate_gradients if accel else self._solver.iterate
            solved = solve(tol, maxiter)
            x: Any = self._on_device() if isinstance(right, View) else self._read()
        if isinstance(x, DeviceArray) and is_cupys(b, CUPYS_ARRAYS):
            x = as_cupys(x)
        if residuals is not None:
            residuals[:] = solved.residuals
        _report(solved, tol)
        if solved.converged and not isinstance(right, View):
            _report_rounding(b, right, tol)
        return x

    def refresh(self, A: Any) -> None:
        """Set up again for a matrix that has other values in the same places, which takes less than a new set-up.

        Aggregates and the patterns of all matrices stay; values of all levels are computed anew, as a set-up with these
        aggregates computes them. With `theta` above 0 they stay even where other entries are the strong ones now.

        Parameters
        ----------
        A
            As of `repro.amg`; its values are taken in the precision of the hierarchy. Its pattern is compared on the
            host, to which a matrix of CuPy's is copied.

        Raises
        ------
        ReproError
            The hierarchy was not made to be refreshed, or the matrix has another pattern, a zero on its diagonal, or
            what is no finite number: nothing was done. Or a coarser matrix has a zero on its diagonal, or the device
            has no room: the hierarchy is of no use then until it is refreshed again.
        """
        if not self._memory.refreshable:
            raise ReproError(
                "the hierarchy keeps nothing to be refreshed by", todo="set it up by repro.amg(A, refreshable=True)"
            )
        rows = canonical(as_rows(_on_host(A), self._dtype, "A")[0])
        with self._runtime.after():
            levels = self._memory.levels
            check_pattern(rows, levels[0].a)
            checked_diagonal(rows)
            if not np.isfinite(rows.data).all():
                raise ReproError("multigrid needs finite numbers", where="A")
            self._whole = False
            try:
                if rows.nnz:
                    self._runtime.device.write(levels[0].a.values, rows.data)
                levels[:] = refresh_on(self._runtime.device, self._memory.load, levels, self._memory.settings)
                self._solver.renew(levels)
            except OutOfDeviceMemory as error:
                raise self._runtime.no_room(error) from None
            self._cycle = self._solver.cycle(self._solver.b, self._solver.x)
            self._whole = True
            self.levels = [Level(self._memory, at) for at in range(len(levels))]

    @contextmanager
    def _working(self, *streams: int | None) -> Iterator[None]:
        """Work with the hierarchy, alone of all threads, unless it was left in the middle of a refresh."""
        with self._runtime.after(*streams):
            if not self._whole:
                raise ReproError(
                    "the hierarchy was left in the middle of a refresh", todo="refresh it again, or set up a new one"
                )
            try:
                yield
            except OutOfDeviceMemory as error:
                raise self._runtime.no_room(error) from None

    def _precondition(self, b: NDArray[Any]) -> NDArray[np.floating]:
        """Apply the cycle, to b times a power of two: what is tiny beside the largest number may be 0 in single."""
        vector = self._host_vector(np.asarray(b).reshape(-1), "b").astype(np.float64, copy=False)
        check_finite(vector, "b")
        exponent = int(np.frexp(np.abs(vector).max(initial=0))[1])
        right = shifted(vector, -exponent).astype(self._dtype)
        with self._working():
            self._write(self._solver.b, right)
            self._cycle()
            x = shifted(self._read(), exponent)
        check_finite(x, "the cycle's solution")
        return x

    def _vector(self, array: Any, what: str) -> NDArray[np.floating] | View:
        if on_the_device(array):
            return self._runtime.view(array, what, self._dtype, self._n, self._dtype.itemsize)
        todo = f"scale it, or set up for a matrix whose type holds {what}"
        return cast(self._host_vector(array, what), self._dtype, what, todo, as_vector=True)

    def _host_vector(self, array: Any, what: str) -> NDArray[Any]:
        vector = _host_array(array, what)
        if vector.shape != (self._n,) or vector.dtype.kind not in "fiub":
            raise ReproError(
                "this is no vector of the matrix",
                where=what,
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
        raise not_copied(self, "set it up anew by `repro.amg`, or copy the matrices of its levels, A, P and R")

    def __repr__(self) -> str:
        sizes = " > ".join(str(level.shape[0]) for level in self.levels)
        return f"<{type(self).__name__}: levels of {sizes} rows, {self._dtype}, on {self.device_name}>"


def _host_array(array: Any, what: str) -> NDArray[Any]:
    """Return as an array what a user has given for one."""
    refuse_mask(array, what)
    try:
        return np.ascontiguousarray(array)
    except (TypeError, ValueError) as error:
        raise ReproError("this is no array of numbers", where=what, actual=error) from None


def _on_host(A: Any) -> Any:
    """Return a matrix of CuPy's, after it was looked at, as SciPy's; others as they are."""
    return cupys_rows(A, "A")[0].get() if is_cupys(A, CUPYS_MATRICES) else A


def _vectors(B: Any, rows: int) -> NDArray[np.floating]:
    """Return what a matrix nearly takes to 0, each vector scaled by a power of two where its squares are of no use."""
    vectors = _host_array(B.get() if is_cupys(B, CUPYS_ARRAYS) else B, "B")
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or vectors.shape[0] != rows or not vectors.shape[1] or vectors.dtype.kind not in "fiub":
        raise ReproError(
            "these are no vectors of the matrix",
            where="B",
            expected=f"({rows}, k) real numbers",
            actual=f"{vectors.dtype} of shape {vectors.shape}",
        )
    vectors = vectors.astype(np.float64)
    largest = np.abs(vectors).max(axis=0, initial=0)
    if not np.isfinite(largest).all():
        i, j = np.argwhere(~np.isfinite(vectors))[0]
        expected = "finite numbers"
        raise ReproError(
            "multigrid needs finite vectors", where=f"B[{i}, {j}]", expected=expected, actual=vectors[i, j]
        )
    if rows and not largest.any():
        raise ReproError(
            "all vectors are 0", where="B", expected="vectors that the matrix nearly takes to 0", todo="leave B out"
        )
    exponents = np.frexp(largest)[1]
    scaled: NDArray[np.float64] = np.ldexp(vectors, -np.where(np.abs(exponents) > MIDDLING_EXPONENT, exponents, 0))
    return scaled


def _report(solved: SolveResult, tol: float) -> None:
    """Say of an iteration that it did not come to what was asked for."""
    steps = len(solved.residuals) - 1
    if not np.isfinite(solved.reached):
        raise ReproError(
            "the iteration came to no solution",
            where=f"step {steps}",
            expected="a finite residual",
            actual=solved.reached,
            todo="cycles alone (accel=None) need not converge for every matrix; the matrix may be singular",
        )
    if not solved.converged:
        of = f"the residual is {solved.reached:.3g} times the norm of b"
        if solved.rounding is not None and solved.reached <= AT_ROUNDING * solved.rounding:
            of += f"; rounding x leaves about {solved.rounding:.1g}"
        warnings.warn(f"multigrid did not converge to {tol:g} in {steps} steps: {of}", RuntimeWarning, stacklevel=3)


def _report_rounding(b: Any, rounded: NDArray[np.floating], tol: float) -> None:
    """Say of a right side that its numbers in the precision of the matrix are farther off than the tolerance."""
    given = np.asarray(b)
    if given.dtype.kind != "f" or given.dtype.itemsize <= rounded.dtype.itemsize:
        return
    largest = np.abs(given).max(initial=0) or 1
    off = np.linalg.norm((given - rounded) / largest) / (np.linalg.norm(given / largest) or 1)
    if off > tol:
        of = f"the residual is that of b in {rounded.dtype}, which is off by {off:.3g} times its norm"
        warnings.warn(f"multigrid cannot converge to {tol:g}: {of}", RuntimeWarning, stacklevel=3)


@cache
def _load(runtime: Runtime, precision: str) -> Callable[[str], Program]:
    others = load_products(runtime, precision)

    @cache
    def load(module: str) -> Program:
        if module not in MODULES:
            return others(module)
        source = render_multigrid(KERNELS, f"{precision}/{module}", runtime.device.target, "amg")
        return runtime.program(source, f"amg/{precision}-{module}")

    return load
