"""The operands of this study: a matrix, its multigrid hierarchy by the host model, and the expected products.

On the device, all runnables that multiply two factors share one copy of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import OURS, PAPERS, Runnable, VerifiedResults, Workspace, not_prepared
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Buffer
from repro.errors import IncorrectError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.device_primitives import ModuleFile, RunnableContext
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.host_layout import Arrays, lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid import reference
from repro.sparse.operands import entry_rows, expand, largest_error, rounded_values
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.kernels import LIMITS
from repro.sparse.spgemm.one_launch import trim_products
from repro.studies.spgemm_amg import PRODUCTS, TOLERANCE, ProductName

#: Products with more entries are checked only by row sizes and by a product with a vector, not entry by entry: sorting
#: billions of entries on the host would take too long.
MAX_COMPARED_ENTRIES = 4_000_000


@dataclass(frozen=True)
class ExpectedProduct:
    #: Number of products that are summed up for each row, int64 `(rows,)`.
    products: NDArray[np.int64]
    #: Number of entries of each row, int64 `(rows,)`; entries that cancel to zero count.
    sizes: NDArray[np.int64]
    #: A random vector x, and the expected C x.
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    #: Error bound for C x: `(p_i + m_i + 2) ε (|A||B||x|)_i` for a row of p_i products and m_i entries.
    bound: NDArray[np.float64]
    #: C and |A||B| with ascending columns; None if C has more than `MAX_COMPARED_ENTRIES` entries.
    exact_product: sp.csr_array | None
    magnitude: sp.csr_array | None

    def rows_of(self, mode: str | None, bin: int | None) -> NDArray[np.bool_]:
        """Return a mask of a bin's rows, binned by products or, in mode `numeric`, by entries; None means all rows."""
        numbers = self.sizes if mode == "numeric" else self.products
        if bin is None:
            return np.ones(len(numbers), bool)
        row_mask: NDArray[np.bool_] = (numbers > 0) & (np.searchsorted(LIMITS, numbers) == bin)
        return row_mask


def expect(a: sp.csr_array, b: sp.csr_array, seed: int, dtype: np.dtype[np.floating]) -> ExpectedProduct:
    """Return the expected A B for the working precision, computed in float64 by SciPy."""
    ones = sp.csr_array((np.ones(a.nnz, np.int64), a.indices, a.indptr), shape=a.shape)
    products = ones @ np.diff(b.indptr).astype(np.int64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    # in the product of magnitudes nothing cancels, so its pattern has all entries
    magnitude = abs(a) @ abs(b)
    sizes = np.diff(magnitude.indptr).astype(np.int64)
    # rounded to single precision, so that x is the same in both precisions
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, b.shape[1]).astype(np.float32).astype(np.float64)
    bound = (products + sizes + 2) * float(np.finfo(dtype).eps) * (abs(a) @ (abs(b) @ np.abs(x)))
    y = a @ (b @ x)
    if magnitude.nnz > MAX_COMPARED_ENTRIES:
        return ExpectedProduct(products, sizes, x, y, bound, None, None)
    magnitude.sort_indices()
    return ExpectedProduct(products, sizes, x, y, bound, _spread(sp.csr_array(a @ b), magnitude), magnitude)


def _spread(product: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """Return a product with all entries of a pattern; SciPy leaves out entries that cancel to zero."""
    product.sort_indices()
    if product.nnz == pattern.nnz:
        return product
    values = np.zeros(pattern.nnz)
    values[np.searchsorted(_entry_keys(pattern), _entry_keys(product))] = product.data
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def _entry_keys(matrix: sp.csr_array) -> NDArray[np.int64]:
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    keys: NDArray[np.int64] = rows * matrix.shape[1] + matrix.indices
    return keys


def compare_rows(
    sizes: NDArray[np.int32],
    y: NDArray[np.floating],
    expected: ExpectedProduct,
    rows: NDArray[np.bool_],
    drops: bool = False,
) -> float:
    """Return the largest error of C x over its bound in some rows; with `drops`, C may lack entries that cancel."""
    differing_rows = np.flatnonzero(rows & ((sizes > expected.sizes) | ((sizes != expected.sizes) & (not drops))))
    if len(differing_rows):
        row = int(differing_rows[0])
        raise IncorrectError(
            f"{len(differing_rows)} rows have too few or too many entries: the first, row {row}, has {sizes[row]}, not "
            f"{expected.sizes[row]}"
        )
    return largest_error(np.abs(y.astype(np.float64, copy=False) - expected.y)[rows], expected.bound[rows], "rows")


def arrays_of(c: sp.csr_array) -> tuple[NDArray[Any], ...]:
    return c.indptr, c.indices, c.data


def compare_product(c: sp.csr_array, expected: ExpectedProduct, rows: NDArray[np.bool_]) -> float:
    """Return the largest error over its bound, entry by entry, in some rows of a product; `expected.whole` is given."""
    product_error = compare_rows(*_rows_times(c, expected.x), expected, rows)
    assert expected.exact_product is not None and expected.magnitude is not None
    result_rows, expected_rows, size = sp.csr_array(c[rows]), expected.exact_product[rows], expected.magnitude[rows]
    result_rows.sort_indices()
    if not np.array_equal(result_rows.indices, expected_rows.indices):
        raise IncorrectError(
            f"{np.count_nonzero(result_rows.indices != expected_rows.indices)} entries are in other columns"
        )
    terms = np.repeat(expected.products[rows], expected.sizes[rows]) + 1
    eps = float(np.finfo(c.dtype).eps)
    return max(
        product_error, largest_error(np.abs(result_rows.data - expected_rows.data), terms * eps * size.data, "values")
    )


T = TypeVar("T")
#: Largest difference of A and its transpose, relative to the largest entry, that counts as rounding.
ASYMMETRY = 1e-6
#: Error bound of A x on a level, relative to |A||x|; rounding in the set-up also changes the estimated spectral radius.
LEVEL_TOLERANCE = {"single": 2e-3, "double": 1e-9}


class StackedRunnable(Runnable):
    """A runnable whose memory is released all at once."""

    cold = False

    def __init__(self, modules: Mapping[str, ModuleFile] = MappingProxyType({})) -> None:
        self._built = modules
        self._stack = ExitStack()
        self._work: RunnableContext | None = None
        #: Columns whose values are known after preparation.
        self._amounts: dict[str, Any] = {}

    def prepare(self, workspace: Workspace) -> None:
        self.release()
        with ExitStack() as stack:
            self._work = RunnableContext(workspace, self._built, stack)
            self.bind(self._work)
            self._stack = stack.pop_all()

    def bind(self, work: RunnableContext) -> None:
        """Set `launch`; `work` holds all memory."""
        raise NotImplementedError

    def release(self) -> None:
        self._stack, stack = ExitStack(), self._stack
        stack.close()
        if self._work is not None:
            trim_products(self._work.device)
        self._work = None
        self.launch = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)


class SpgemmRunnable(StackedRunnable):
    """A runnable that computes C = A B, or some rows of C."""

    product: ProductName
    #: Mode of a bin's kernel: `one` bins rows by products, `numeric` by entries; None if the runnable is for all bins.
    mode: str | None = None
    #: The bin whose rows are computed; None for all rows.
    bin: int | None = None
    #: True if entries that cancel to zero are left out.
    drops: bool = False

    @property
    def contender(self) -> tuple[str, str] | None:
        """The product or its numeric phase, by the paper's methods, ours or another; None for the rows of one bin."""
        columns, other = self.columns, super().contender
        if self.bin is not None:
            return None
        whose = PAPERS if columns.get("method") in ("sort", "coordinates") else OURS
        return f"{self.product} {columns['what']}", other[1] if other else whose

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"product": self.product, **self._amounts}

    def prepare(self, workspace: Workspace) -> None:
        super().prepare(workspace)
        amount, self.bytes_moved = operands_of(workspace).amount(self.product)
        self._amounts |= amount

    def result(self) -> sp.csr_array:
        """Wait, and return the product; the columns within a row may be in any order."""
        raise NotImplementedError

    def rows_times(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Wait, and return the number of entries of each row of C, and C x, both `(rows,)`."""
        return _rows_times(self.result(), x)


def _rows_times(c: sp.csr_array, x: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    if c.nnz and not 0 <= c.indices.min() <= c.indices.max() < c.shape[1]:
        raise IncorrectError("columns are out of range")
    return np.diff(c.indptr), c.astype(np.float64, copy=False) @ x


class SetupRunnable(StackedRunnable):
    """A runnable that makes a hierarchy."""

    def result(self) -> Sequence[sp.csr_array]:
        """Wait, and return the matrices of all levels, the finest first."""
        raise NotImplementedError


class SolveRunnable(StackedRunnable):
    """A runnable that solves A x = b."""

    def result(self) -> NDArray[np.floating]:
        """Wait, and return x, `(n,)`."""
        raise NotImplementedError

    @property
    def shortfall(self) -> str | None:
        """The solver's own message that a solution has not converged; None if there is none."""
        return None


class Factor(NamedTuple):
    """The two factors of a product, in the working precision."""

    a: sp.csr_array
    b: sp.csr_array


@dataclass(frozen=True)
class AmgOperands:
    """A square matrix in the working precision with its hierarchy, and the products that the set-up computes."""

    name: str
    precision: str
    #: Levels made by the host model from the matrix in the working precision.
    levels: tuple[reference.HostLevel, ...]
    #: Number of unknowns per node.
    unknowns: int
    #: Near-null-space candidates B, `(n, unknowns)`: for each unknown per node one vector, 1 at this unknown, 0
    #: elsewhere.
    near_null: NDArray[np.float64]
    #: Seed for all random vectors.
    seed: int
    #: Checksum of the problem and of the seed.
    checksum: str
    #: Whether the matrix is symmetric, as multigrid requires; other matrices are only squared.
    symmetric: bool = True
    _facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(DTYPES[self.precision])

    @property
    def given_null(self) -> NDArray[np.float64] | None:
        """The near null space to pass to a set-up; None if it is the constant vector."""
        return self.near_null if self.unknowns > 1 else None

    @property
    def a(self) -> sp.csr_array:
        return self.levels[0].a

    def factor(self, product: ProductName) -> Factor:
        if product == "AA":
            return Factor(self.a, self.a)
        level = self.levels[0]
        if level.p is None or level.r is None:
            raise KeyError(product)
        if product == "AP":
            return Factor(self.a, self._rounded_matrix("P", lambda: level.p))
        return Factor(
            self._rounded_matrix("R", lambda: level.r), self._rounded_matrix("AP", lambda: self.a @ self.factor("AP").b)
        )

    @property
    def products(self) -> tuple[ProductName, ...]:
        return ("AA", "AP", "RAP") if self.levels[0].p is not None else ("AA",)

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Bytes of the matrix, of the prolongator, of its transpose and of the next level's matrix."""
        level = self.levels[0]
        if level.p is None or level.r is None:
            return self.bytes_of(self.a), self.bytes_of(self.a)
        return self.bytes_of(self.a), sum(self.bytes_of(m) for m in (level.p, level.r, self.levels[1].a))

    def bytes_of(self, matrix: sp.csr_array) -> int:
        return self.bytes_of_csr(matrix.shape[0], int(matrix.nnz))

    def bytes_of_csr(self, n_rows: int, nnz: int) -> int:
        """Return the bytes of a CSR matrix in the working precision."""
        return nnz * (INDEX_BYTES + self.dtype.itemsize) + (n_rows + 1) * INDEX_BYTES

    @property
    def operations(self) -> int:
        """Two operations for each product of two entries in the first level's set-up, or in A A without a set-up."""
        names = self.products[1:] or self.products
        return sum(2 * int(self.expected(name).products.sum()) for name in names)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {}

    @cached_property
    def b(self) -> NDArray[np.floating]:
        """The right-hand side, `(n,)`: A times a random vector, so that a solution exists even if A is singular."""
        x = np.random.default_rng(self.seed).uniform(-1.0, 1.0, self.a.shape[0])
        b: NDArray[np.floating] = (self.a @ x).astype(self.dtype)
        return b

    def expected(self, product: ProductName) -> ExpectedProduct:
        """Return the expected product, computed in float64 by SciPy at first use."""
        return self._fact(f"expected {product}", lambda: expect(*self.factor(product), self.seed, self.dtype))

    def amount(self, product: ProductName) -> tuple[dict[str, int], int]:
        """Return the columns that describe a product's size, and the bytes of its factors and of C."""
        expected = self.expected(product)
        rows, nonzeros = len(expected.sizes), int(expected.sizes.sum())
        moved_bytes = sum(self.bytes_of(matrix) for matrix in self.factor(product)) + self.bytes_of_csr(rows, nonzeros)
        return {"products": int(expected.products.sum()), "nonzeros": nonzeros, "rows": rows}, moved_bytes

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once and compare a product, a hierarchy or a solution with the expected result.

        Raises `IncorrectError`: a number lies outside its bound or is NaN, or entries or levels are missing or too
        many.
        """
        if not isinstance(runnable, SpgemmRunnable | SetupRunnable | SolveRunnable):
            return None
        runnable.before()
        runnable.launch()
        if isinstance(runnable, SpgemmRunnable):
            expected = self.expected(runnable.product)
            rows = expected.rows_of(runnable.mode, runnable.bin)
            if runnable.drops or expected.exact_product is None:
                return compare_rows(*runnable.rows_times(expected.x), expected, rows, runnable.drops)
            c = runnable.result()
            case_key = runnable.product, runnable.mode, runnable.bin
            return self._verified.error(case_key, arrays_of(c), lambda: compare_product(c, expected, rows))
        if isinstance(runnable, SetupRunnable):
            levels = runnable.result()
            arrays = (array for level in levels for array in arrays_of(level))
            return self._verified.error("levels", arrays, lambda: self._compare_levels(levels))
        return self._compare_solution(runnable)

    @cached_property
    def _verified(self) -> VerifiedResults:
        return VerifiedResults()

    def _compare_levels(self, matrices: Sequence[sp.csr_array]) -> float:
        shapes, expected_shapes = [m.shape[0] for m in matrices], [level.a.shape[0] for level in self.levels]
        if shapes != expected_shapes:
            raise IncorrectError(f"levels have {shapes} rows, not {expected_shapes}")
        largest_ratio = 0.0
        for number, (matrix, level) in enumerate(zip(matrices, self.levels, strict=True)):
            x = np.random.default_rng(self.seed).uniform(-1.0, 1.0, matrix.shape[0])
            size = abs(level.a) @ np.abs(x)
            error = np.abs(matrix.astype(np.float64) @ x - level.a.astype(np.float64) @ x)
            relative = float(np.max(error / np.maximum(size, np.finfo(float).tiny), initial=0.0))
            relative /= LEVEL_TOLERANCE[self.precision]
            if not relative <= 1:
                raise IncorrectError(f"the matrix of level {number} is wrong", relative)
            largest_ratio = max(largest_ratio, relative)
        return largest_ratio

    def _compare_solution(self, runnable: SolveRunnable) -> float:
        x, exact = runnable.result(), self.b.astype(np.float64)
        residual = float(np.linalg.norm(exact - self.a.astype(np.float64) @ x.astype(np.float64)))
        # in single precision, rounding x alone leaves a larger residual than requested
        max_residual = (1.1 * TOLERANCE + 1e3 * float(np.finfo(self.dtype).eps)) * float(np.linalg.norm(exact))
        if not residual <= max_residual:
            # a solver that reports missing convergence is not incorrect: the problem needs more iterations than allowed
            if runnable.shortfall is not None:
                raise Unsupported(runnable.shortfall)
            raise IncorrectError(
                f"the residual is {residual:.3g}, not at most {max_residual:.3g}", residual / max_residual
            )
        return residual / max_residual

    def _rounded_matrix(self, name: str, matrix: Callable[[], Any]) -> sp.csr_array:
        """Return a matrix in the working precision with ascending columns, converted at first use."""

        def make() -> sp.csr_array:
            rounded_matrix = sp.csr_array(matrix()).astype(self.dtype)
            rounded_matrix.sort_indices()
            return rounded_matrix

        return self._fact(name, make)

    def _fact(self, name: str, compute: Callable[[], T]) -> T:
        if name not in self._facts:
            self._facts[name] = compute()
        value: T = self._facts[name]
        return value


def make_operands(problem: Matrix, precision: str, seed: int) -> AmgOperands:
    """Round a matrix to the working precision as real numbers, and make its hierarchy on the host.

    Raises `ReproError`: the matrix is not square, is symmetric with zeros on the diagonal, or has values outside the
    working precision's range.

    Notes
    -----
    Smoothed aggregation requires symmetric matrices. Others are only squared, as is usual in comparisons of sparse
    products.
    """
    problem.require_product()
    values = rounded_values(problem.name, problem.values, lambda: entry_rows(problem), precision)
    a = sp.csr_array(expand(problem, values).tocsr()).astype(values.dtype)
    a.eliminate_zeros()  # expanded blocks have stored zeros, which do not belong to a product's pattern
    a.sort_indices()
    unknowns = a.shape[0] // problem.n
    near_null = np.tile(np.eye(unknowns), (problem.n, 1))
    symmetric = _is_symmetric(a)
    levels = reference.set_up(a, near_null, unknowns) if symmetric else [reference.HostLevel(a)]
    checksum = hashlib.sha256(f"{problem.checksum()} {seed}".encode()).hexdigest()
    return AmgOperands(problem.name, precision, tuple(levels), unknowns, near_null, seed, checksum, symmetric)


def _is_symmetric(a: sp.csr_array) -> bool:
    """Return whether A and its transpose differ by no more than rounding of assembled sums."""
    difference = abs(sp.csr_array(a - a.T))
    return float(difference.max()) <= ASYMMETRY * float(abs(a).max()) if a.nnz else True


def operands_of(workspace: Workspace) -> AmgOperands:
    assert isinstance(workspace.operands, AmgOperands)
    return workspace.operands


_ARRAYS = ("columns", "values", "table", "sizes", "versions", "state")


def factor_of(workspace: Workspace, product: ProductName) -> Factor:
    """Return the factors of a product on the host; `Unsupported` if the matrix has no coarser level."""
    operands = operands_of(workspace)
    if product not in operands.products:
        raise Unsupported(f"the matrix is not made coarser, so that there is no {PRODUCTS[product]}")
    return operands.factor(product)


def factors_on(workspace: Workspace, product: ProductName) -> Factors:
    """Return the factors of a product on the device, uploaded at first use; the workspace keeps their memory."""

    def pack() -> tuple[list[Arrays], Mapping[str, NDArray[Any]]]:
        factors = factor_of(workspace, product)
        layouts = {"a": lay_out(factors.a, 1)}
        if factors.b is not factors.a:
            layouts["b"] = lay_out(factors.b, 1)
        arrays_by_name = {
            f"{name} {part}": array for name, arrays in layouts.items() for part, array in _named_arrays(arrays)
        }
        return [*layouts.values()], arrays_by_name

    layouts, buffers = workspace.upload_packed(("factors", product), pack)
    stored_factors = [
        _storage(workspace, arrays, {part: buffers[f"{name} {part}"] for part in _ARRAYS})
        for name, arrays in zip("ab", layouts, strict=False)
    ]
    return Factors(stored_factors[0], stored_factors[-1])


def upload(workspace: Workspace, matrix: sp.csr_array) -> Storage:
    """Upload a matrix, each row in one segment without free space; the caller releases it."""
    return Storage.upload(workspace.device, lay_out(matrix, 1))


def _named_arrays(arrays: Arrays) -> list[tuple[str, NDArray[Any]]]:
    state = np.zeros(kernels.STATE_WORDS, np.int32)
    state[kernels.STATE_BUFFER_END] = arrays.pointer
    all_arrays = (arrays.columns, arrays.values, arrays.table, arrays.sizes, np.zeros_like(arrays.sizes), state)
    # devices cannot allocate empty buffers
    return [
        (part, array if array.size else np.zeros(1, array.dtype))
        for part, array in zip(_ARRAYS, all_arrays, strict=True)
    ]


def _storage(workspace: Workspace, arrays: Arrays, buffers: Mapping[str, Buffer]) -> Storage:
    ordered_buffers = (buffers[part] for part in _ARRAYS)
    longest_row = int(arrays.sizes.max(initial=0))
    of_arrays = workspace.device, arrays.shape, arrays.segments, arrays.capacity, arrays.values.dtype
    return Storage(*of_arrays, *ordered_buffers, entries=arrays.nnz, longest=longest_row)
