"""Operands: growing matrices, and the formats compared with dynamic CSR, in a device's memory.

HYB is ELLPACK as wide as the mean row, with coordinates for the entries beyond that width (King 2017, section 5.3). All
products are with the grown matrix; duplicate entries add up. A state (fragmented, defragmented, sorted) is a layout of
the grown matrix, made on the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Runnable, Workspace
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Buffer
from repro.errors import IncorrectError, ReproError
from repro.problems.matrix import Matrix, Updates
from repro.sparse.device_primitives import RadixSort, RunnableContext, bit_count, runs_of
from repro.sparse.dynamic.host_layout import SEGMENTS, Arrays, buffer_capacity, defragment, insert, lay_out
from repro.sparse.dynamic.matrix import StoredRows, bind_vector
from repro.sparse.dynamic.schedules import PAPERS_MIN_LENGTHS, bin_rows, lay_out_sorted, usual_schedule
from repro.sparse.elementwise import in_order
from repro.sparse.operands import (
    ProductOperands,
    ProductRunnable,
    WithProduct,
    compare,
    entry_rows,
    largest_error,
    rounded_values,
)


class Entries(NamedTuple):
    """Matrix entries on the host, possibly with duplicates: int32 rows and columns, and values, each `(m,)`."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.floating]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Entries:
        """Return all entries of a matrix, row by row."""
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
        return cls(rows, matrix.indices.astype(np.int32, copy=False), matrix.data)

    def take(self, indices: NDArray[np.intp]) -> Entries:
        return Entries(self.rows[indices], self.columns[indices], self.values[indices])

    def by_row(self) -> Entries:
        """Return the entries sorted by row; entries within a row keep their order."""
        if (self.rows[1:] >= self.rows[:-1]).all():
            return self
        return self.take(np.argsort(self.rows, kind="stable"))

    def to_csr(self, shape: tuple[int, int]) -> sp.csr_array:
        """Return a CSR matrix of these entries; duplicates stay separate entries."""
        sorted_entries = self.by_row()
        pointers = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=shape[0]))]).astype(np.int64)
        return sp.csr_array((sorted_entries.values, sorted_entries.columns, pointers), shape=shape)


class DeviceEntries(NamedTuple):
    """Device memory for entries: int32 rows, int32 columns, values."""

    rows: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: RunnableContext, entries: Entries) -> DeviceEntries:
        return cls(*(work.upload(array) for array in entries))

    @classmethod
    def allocate(cls, work: RunnableContext, count: int, number_bytes: int) -> DeviceEntries:
        return cls(*(work.allocate(count * size, "coordinates") for size in (4, 4, number_bytes)))

    def download(self, work: RunnableContext, count: int, dtype: np.dtype[np.floating]) -> Entries:
        """Wait for the queue and return the first `count` entries."""
        return Entries(
            work.download(self.rows, count, np.dtype(np.int32)),
            work.download(self.columns, count, np.dtype(np.int32)),
            work.download(self.values, count, dtype),
        )


class SortedCoordinates:
    """Row-sorted entries in one of two buffers (sides); after appending, a sort writes them into the other buffer."""

    def __init__(self, work: RunnableContext, capacity: int, n_rows: int, dtype: np.dtype[np.floating]) -> None:
        self._work, self._bits, self._dtype = work, bit_count(n_rows), dtype
        self._capacity = capacity
        self.sides = tuple(DeviceEntries.allocate(work, capacity, dtype.itemsize) for _ in range(2))
        self._sort = work.keep(RadixSort(work.device, work.load("sort"), capacity, work.guards))

    def bind_sort(self, side: int, count: int) -> Callable[[], None]:
        """Return a launch that sorts the first `count` entries of a side into the other side."""
        source, target = self.sides[side], self.sides[1 - side]
        row_sort = self._sort.bind(source.rows, count, self._bits)
        gather = self._work.bind(
            "hybrid", "coordinates_gather", count, count, row_sort.keys, row_sort.order, *source[1:], *target
        )

        def launch() -> None:
            row_sort.launch()
            gather()

        return launch

    def bind_copy(self, entries: DeviceEntries, count: int) -> Callable[[], None]:
        """Return a launch that copies the given entries to the start of side 0 of `sides`."""
        return self.bind_append(entries, count, 0, 0)

    def bind_append(self, entries: DeviceEntries, count: int, side: int, end: int) -> Callable[[], None]:
        """Return a launch that copies the given entries to a side, behind its first `end` entries."""
        return self._work.bind("hybrid", "coordinates_append", count, count, end, *entries, *self.sides[side])

    def read(self, side: int, count: int) -> Entries:
        """Wait for the queue and return the first `count` entries of a sorted side."""
        entries = self.sides[side].download(self._work, count, self._dtype)
        if (np.diff(entries.rows) < 0).any():
            raise IncorrectError("the coordinates are not sorted by row")
        return entries


class CsrMemory(NamedTuple):
    """Device memory for a CSR matrix: int32 offsets `(rows + 1,)`, int32 columns, values."""

    offsets: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: RunnableContext, matrix: sp.csr_array) -> CsrMemory:
        arrays = (numbers.astype(np.int32, copy=False) for numbers in (matrix.indptr, matrix.indices))
        return cls(*(work.upload(array) for array in (*arrays, matrix.data)))

    @classmethod
    def allocate(cls, work: RunnableContext, n_rows: int, count: int, number_bytes: int) -> CsrMemory:
        sizes = {"offsets": 4 * (n_rows + 1), "columns": 4 * count, "values": number_bytes * count}
        return cls(*(work.allocate(size, f"the {name} of CSR") for name, size in sizes.items()))

    def bind_product(self, work: RunnableContext, n_rows: int, mean: float, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x with the usual schedule for the mean row size `mean`."""
        matrix = StoredRows(
            n_rows, 0, self._asdict(), lambda: np.diff(work.download(self.offsets, n_rows + 1, np.dtype(np.int32)))
        )
        schedule = usual_schedule(work.device.target, mean)
        return bind_vector(work.device, work.load("product").kernel, schedule, matrix, (x, y))

    def read(self, work: RunnableContext, shape: tuple[int, int], dtype: np.dtype[np.floating]) -> sp.csr_array:
        offsets = work.download(self.offsets, shape[0] + 1, np.dtype(np.int32))
        columns = work.download(self.columns, int(offsets[-1]), np.dtype(np.int32))
        values = work.download(self.values, int(offsets[-1]), dtype)
        return sp.csr_array((values, columns, offsets), shape=shape)


def bind_csr_copy(
    work: RunnableContext, word_counts: tuple[int, int, int], sources: Sequence[Buffer], targets: Sequence[Buffer]
) -> Callable[[], None]:
    """Return a launch of one kernel that copies three arrays.

    Parameters
    ----------
    word_counts
        Number of 4-byte words of each; buffers of an array without words are not used.
    sources, targets
        Three buffers each.
    """
    # a thread copies four words at a time; an array can have a few words left over
    return work.bind("rebuild", "copy_matrix", max(word_counts) // 4 + 1, *word_counts, *sources, *targets)


#: ELLPACK columns are padded to a multiple of this number of rows, so that each column begins at a whole cache line.
ROWS_ALIGNMENT = 32
#: Number of warps per multiprocessor for the product with HYB's coordinate part.
PRODUCT_WARPS = {"cuda": 64, "opencl": 4}


def ell_pitch(n_rows: int) -> int:
    return max(1, -(-n_rows // ROWS_ALIGNMENT)) * ROWS_ALIGNMENT


def overflow(sizes: NDArray[np.integer], width: int) -> int:
    """Return the number of entries beyond an ELLPACK width, computed from the row sizes."""
    return int(np.maximum(sizes.astype(np.int64) - width, 0).sum())


class HybridArrays(NamedTuple):
    """A matrix in HYB format on the host."""

    #: Total number of entries of each row (ELLPACK and coordinates): int32 `(rows,)`.
    counts: NDArray[np.int32]
    #: ELLPACK part, column-major: `(width * ell_pitch(rows),)`, padded with 0.
    columns: NDArray[np.int32]
    values: NDArray[np.floating]
    #: Coordinate part: all other entries, sorted by row.
    over: Entries

    @classmethod
    def of(cls, matrix: sp.csr_array, width: int) -> HybridArrays:
        """Convert a matrix to HYB; entries within a row keep their order."""
        rows = matrix.shape[0]
        counts = np.diff(matrix.indptr).astype(np.int32)
        ellpack_counts = np.minimum(counts, width)
        is_ellpack = _ellpack_mask(ellpack_counts, counts - ellpack_counts)
        is_filled = np.arange(width) < ellpack_counts[:, None]
        indices = matrix.indices.astype(np.int32, copy=False)
        parts = []
        for numbers in (indices, matrix.data):
            part = np.zeros((width, ell_pitch(rows)), numbers.dtype)
            part[:, :rows].T[is_filled] = numbers[is_ellpack]
            parts.append(part.ravel())
        overflow_rows = np.repeat(np.arange(rows, dtype=np.int32), counts - ellpack_counts)
        columns, values = parts
        return cls(counts, columns, values, Entries(overflow_rows, indices[~is_ellpack], matrix.data[~is_ellpack]))

    def to_csr(self, shape: tuple[int, int], width: int) -> sp.csr_array:
        """Return the matrix as CSR, without ELLPACK's padding."""
        rows = shape[0]
        ellpack_counts = np.minimum(self.counts, width)
        overflow_counts = np.bincount(self.over.rows, minlength=rows)
        is_ellpack = _ellpack_mask(ellpack_counts, overflow_counts)
        is_filled = np.arange(width) < ellpack_counts[:, None]
        parts = []
        for ellpack_array, overflow_array in ((self.columns, self.over.columns), (self.values, self.over.values)):
            part = np.empty(len(is_ellpack), ellpack_array.dtype)
            part[is_ellpack] = ellpack_array.reshape(width, ell_pitch(rows))[:, :rows].T[is_filled]
            part[~is_ellpack] = overflow_array
            parts.append(part)
        columns, values = parts
        pointers = np.concatenate([[0], np.cumsum(ellpack_counts + overflow_counts)])
        return sp.csr_array((values, columns, pointers), shape=shape)


def _ellpack_mask(ellpack_counts: NDArray[np.integer], overflow_counts: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return for each entry, row by row, whether it is in ELLPACK, from the sizes of a row's two parts."""
    is_ellpack = np.zeros(2 * len(ellpack_counts), bool)
    is_ellpack[::2] = True
    return np.repeat(is_ellpack, np.stack([ellpack_counts, overflow_counts], axis=1).ravel())


class Hybrid:
    """A matrix in HYB format on a device. Its initial state is `start`; its memory has space for `room` coordinates."""

    def __init__(self, work: RunnableContext, start: sp.csr_array, width: int, room: int) -> None:
        self._work, self.shape, self.width, self.dtype = work, start.shape, width, start.dtype
        self.pitch, self._room = ell_pitch(start.shape[0]), room
        arrays = HybridArrays.of(start, width)
        self._over = len(arrays.over.rows)
        self.columns, self.values = (
            work.upload_writable(array, "ELLPACK") for array in (arrays.columns, arrays.values)
        )
        self.counts = work.allocate(arrays.counts.nbytes, "the counts of rows")
        self.coordinates = SortedCoordinates(work, room, start.shape[0], start.dtype)
        self._end = work.allocate(4, "the end of the coordinates")
        self._start = (work.upload(arrays.counts), work.upload(np.array([self._over], np.int32)))
        self._start_over = DeviceEntries.upload(work, arrays.over)

    def bind_restore(self) -> Callable[[], None]:
        """Return a launch that restores the initial state, coordinates on the first side; padding is undefined."""
        copies = [
            self._work.bind("rebuild", "copy_ints", count, count, source, target)
            for count, source, target in zip(
                (self.shape[0], 1), self._start, (self.counts, self._end), strict=True
            )
        ]  # fmt: skip
        copy_overflow = self.coordinates.bind_copy(self._start_over, self._over)

        def restore() -> None:
            for copy in copies:
                copy()
            copy_overflow()

        return restore

    def bind_append(self, batch: DeviceEntries, count: int, side: int) -> Callable[[], None]:
        """Return a launch that inserts a batch; entries that do not fit into ELLPACK go behind a side's coordinates."""
        return self._work.bind(
            "hybrid", "hybrid_append", count, count, self.width, self.pitch, self._room, *batch,
            self.counts, self.columns, self.values, self._end, *self.coordinates.sides[side],
        )  # fmt: skip

    def bind_product(self, side: int, over: int, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x: by ELLPACK, and by the first `over` coordinates of a side, which are sorted."""
        work, rows = self._work, self.shape[0]
        ellpack = work.bind(
            "hybrid", "hybrid_multiply_rows", rows,
            rows, self.width, self.pitch, self.counts, self.columns, self.values, x, y,
        )  # fmt: skip
        if not over:
            return ellpack
        warp = work.device.target.warp
        run, warps = runs_of(over, warp, work.device.sm_count * PRODUCT_WARPS[work.device.backend])
        overflow_launch = work.bind(
            "hybrid", "hybrid_multiply_coordinates", warps * warp, over, run, *self.coordinates.sides[side], x, y
        )
        return in_order([ellpack, overflow_launch])

    def read(self, side: int, over: int) -> sp.csr_array:
        """Wait for the queue and return the matrix, with `over` sorted coordinates of a side."""
        counts = self._work.download(self.counts, self.shape[0], np.dtype(np.int32))
        size = self.width * self.pitch
        columns = self._work.download(self.columns, size, np.dtype(np.int32))
        values = self._work.download(self.values, size, self.dtype)
        arrays = HybridArrays(counts, columns, values, self.coordinates.read(side, over))
        return arrays.to_csr(self.shape, self.width)


#: Matrix that a runnable leaves: before the first batch, with all batches, or with the one batch of a given number.
MatrixVersion = Literal["base", "grown"] | int


class MatrixRunnable(Runnable):
    """A runnable whose result is a matrix."""

    #: Key of the matrix that the launch must produce.
    leaves: MatrixVersion = "grown"
    #: True: duplicates of a place are summed up. False: duplicates stay separate entries.
    sums: bool = False

    def result(self) -> sp.csr_array | None:
        """Return the resulting matrix on the host; the columns within a row may be in any order."""
        raise NotImplementedError

    def product(self) -> NDArray[np.floating] | None:
        """Return A x on the host, `(rows,)`, if the launch ends with a product of the resulting matrix."""
        return None


class DistributedRunnable(Runnable):
    """A runnable whose results lie on several devices and which compares them with the reference itself."""

    def check(self, operands: GraphOperands) -> float:
        """Launch once and return the largest error over its bound; raise `IncorrectError` if a result is wrong."""
        raise NotImplementedError


@dataclass(frozen=True)
class Canonical:
    """A matrix in canonical order (columns of each row ascending), used for comparing."""

    #: Number of entries of each row, int64 `(rows,)`.
    sizes: NDArray[np.int64]
    #: Column of each entry, `(nnz,)`, including duplicates.
    columns: NDArray[np.integer[Any]]
    #: Index of the first entry of each place (row and column), int64 `(places,)`.
    starts: NDArray[np.int64]
    #: For each place, the sum of its values and the sum of their absolute values, float64 `(places,)`.
    sums: NDArray[np.float64]
    sizes_of_terms: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Canonical:
        sorted_matrix = sorted_columns(matrix)
        sizes = np.diff(sorted_matrix.indptr).astype(np.int64)
        first = np.ones(sorted_matrix.nnz, bool)
        if sorted_matrix.nnz:
            np.not_equal(sorted_matrix.indices[1:], sorted_matrix.indices[:-1], out=first[1:])
            first[sorted_matrix.indptr[:-1][sizes > 0]] = True
        starts = np.flatnonzero(first)
        values = sorted_matrix.data.astype(np.float64, copy=False)
        if len(starts) == len(values):
            return cls(sizes, sorted_matrix.indices, starts, values, np.abs(values))
        sums, magnitudes = (np.add.reduceat(terms, starts) for terms in (values, np.abs(values)))
        return cls(sizes, sorted_matrix.indices, starts, sums, magnitudes)

    @cached_property
    def terms(self) -> NDArray[np.int64]:
        """Number of entries for each place, int64 `(places,)`."""
        return np.diff(self.starts, append=len(self.columns))

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
        """Number of distinct places in each row, int64 `(rows,)`, and the column of each place, `(places,)`."""
        ends = np.cumsum(self.sizes)
        pointers = np.searchsorted(self.starts, np.concatenate([[0], ends]))
        return np.diff(pointers), self.columns[self.starts]


def sorted_columns(matrix: sp.csr_array) -> sp.csr_array:
    return matrix if matrix.has_sorted_indices else matrix.sorted_indices()


class ExpectedMatrix(NamedTuple):
    """The matrix that a runnable must produce, as built and in canonical order."""

    matrix: sp.csr_array
    canonical: Canonical


@dataclass(frozen=True)
class GraphOperands(WithProduct):
    """A growing matrix and x in the working precision, and the reference product."""

    #: The unrounded matrix and its batches.
    problem: Updates
    precision: str
    #: The matrix before the first batch, and after all batches: rows of `grown` have entries of `base` first, then the
    #: entries of the batches in order. Without batches, both share memory.
    base: sp.csr_array
    grown: sp.csr_array
    #: The vector that is multiplied, `(columns,)`.
    x: NDArray[np.floating]
    #: float64 `(rows,)`: reference = grown @ x; error bound of y_i: (m_i + 2) ε (|A||x|)_i if row i has m_i entries.
    reference: NDArray[np.float64]
    bound: NDArray[np.float64]
    #: Checksum of the problem and of the seed for x.
    checksum: str

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Bytes of the grown matrix in CSR, of x and of y."""
        rows, number = len(self.reference), self.x.itemsize
        matrix = self.grown.nnz * (INDEX_BYTES + number) + (rows + 1) * INDEX_BYTES
        return matrix + self.x.nbytes, rows * number

    @property
    def operations(self) -> int:
        return 2 * int(self.grown.nnz)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {}

    @cached_property
    def summed(self) -> sp.csr_array:
        """The grown matrix with duplicates summed up and columns sorted, as libraries require it."""
        if not self.problem.entries:
            return self.base
        grown_matrix = self.grown
        sorted_matrix = sp.csr_array(
            (grown_matrix.data.astype(np.float64), grown_matrix.indices.copy(), grown_matrix.indptr.copy()),
            grown_matrix.shape,
        )
        sorted_matrix.sum_duplicates()
        values = sorted_matrix.data.astype(grown_matrix.dtype, copy=False)
        return _csr(values, sorted_matrix.indices, sorted_matrix.indptr, grown_matrix.shape)

    @cached_property
    def product(self) -> ProductOperands:
        """Operands of a plain product: matrix `summed`, with the reference and error bound of the grown matrix."""
        rows, columns = self.grown.shape
        summed_matrix = self.summed
        matrix = Matrix(
            self.problem.name, "real", rows,
            summed_matrix.indptr.astype(np.int32, copy=False), summed_matrix.indices.astype(np.int32, copy=False),
            summed_matrix.data.reshape(-1, 1), columns,
        )  # fmt: skip
        return ProductOperands(
            matrix, self.precision, self.x.reshape(-1, 1), self.reference.reshape(-1, 1), self.bound.reshape(-1, 1),
            self.checksum,
        )  # fmt: skip

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once and compare y with the reference, or the resulting matrix with the expected matrix.

        Raises `IncorrectError`: a number lies outside its bound or is NaN, or entries are missing or too many.
        """
        if isinstance(runnable, ProductRunnable):
            return compare(self, runnable, workspace)
        if isinstance(runnable, DistributedRunnable):
            return runnable.check(self)
        if not isinstance(runnable, MatrixRunnable):
            return None
        runnable.before()
        runnable.launch()
        result_matrix, y = runnable.result(), runnable.product()
        errors = [
            *([] if result_matrix is None else [self._compare(result_matrix, runnable.leaves, runnable.sums)]),
            *([] if y is None else [self.error_of(y)]),
        ]
        return max(errors, default=None)

    def error_of(self, y: NDArray[np.floating]) -> float:
        """Return the largest error over its bound for a product's result on the host, `(rows,)`."""
        with np.errstate(invalid="ignore"):  # an infinite result gives an invalid difference
            error = np.abs(y.astype(np.float64) - self.reference)
        return largest_error(error, self.bound, "numbers")

    @cached_property
    def _expected(self) -> dict[MatrixVersion, ExpectedMatrix]:
        return {}

    def expected(self, leaves: MatrixVersion) -> ExpectedMatrix:
        """Return the expected matrix of the given kind.

        Of the matrices with one batch, only the last one is kept, since all of them would fill the memory.
        """
        if leaves not in self._expected:
            if isinstance(leaves, int):
                for number in [key for key in self._expected if isinstance(key, int)]:
                    del self._expected[number]
                matrix = self.with_batch(leaves)
            else:
                matrix = self.base if leaves == "base" else self.grown
            self._expected[leaves] = ExpectedMatrix(matrix, Canonical.of(matrix))
        return self._expected[leaves]

    def with_batch(self, i: int) -> sp.csr_array:
        """Return the initial matrix with a single batch appended."""
        rows, columns, values = self.problem.batch(i)
        pointers, ends = np.array([0, len(rows)]), values.astype(self.x.dtype)
        batch_problem = replace(
            self.problem, batch_pointers=pointers, batch_rows=rows, batch_columns=columns, batch_values=values
        )
        return _grown_matrix(self.base, batch_problem, ends)

    def _compare(self, result_matrix: sp.csr_array, leaves: MatrixVersion, sums: bool) -> float:
        """Return the largest error of a sum over its bound; the bound for t values is (t + 1) ε Σ|v|."""
        if result_matrix.shape != self.grown.shape:
            raise IncorrectError(
                f"the matrix is {result_matrix.shape[0]} x {result_matrix.shape[1]}, not {self.grown.shape}"
            )
        expected, canonical = self.expected(leaves)
        # without duplicates there is nothing to sum up
        arrays = ("indptr", "indices", "data")
        identical = all(np.array_equal(getattr(result_matrix, name), getattr(expected, name)) for name in arrays)
        if identical and (not sums or len(canonical.starts) == len(canonical.columns)):
            return 0.0
        sizes, columns = canonical.places if sums else (canonical.sizes, canonical.columns)
        row_lengths = np.diff(result_matrix.indptr)
        differing_rows = np.flatnonzero(row_lengths != sizes)
        if len(differing_rows):
            row = int(differing_rows[0])
            raise IncorrectError(
                f"{len(differing_rows)} rows have too few or too many entries: "
                f"the first, row {row}, has {row_lengths[row]}, not {sizes[row]}"
            )
        sorted_matrix = sorted_columns(result_matrix)
        wrong_count = np.count_nonzero(sorted_matrix.indices != columns)
        if wrong_count:
            raise IncorrectError(f"{wrong_count} of {len(columns)} entries are in other columns")
        # the columns are equal, so the places begin at the same entries
        sums_of_values = sorted_matrix.data.astype(np.float64, copy=False)
        if not sums and len(canonical.starts) < len(sums_of_values):
            sums_of_values = np.add.reduceat(sums_of_values, canonical.starts)
        error = np.abs(sums_of_values - canonical.sums)
        if not error.any():  # NaN counts as a nonzero value
            return 0.0
        bound = (canonical.terms + 1) * float(np.finfo(self.x.dtype).eps) * canonical.sizes_of_terms
        return largest_error(error, bound, "values")


def make_operands(problem: Updates, precision: str, seed: int) -> GraphOperands:
    """Draw x, round the matrix, the batches and x to the working precision, and compute the product in float64.

    Raises `ReproError` for values or sums outside the range of the working precision.
    """
    dtype = DTYPES[precision]
    shape = problem.base.shape
    values = rounded_values(problem.name, problem.values, lambda: entry_rows(problem.base), precision).ravel()
    batch_values = rounded_values(
        problem.name, problem.batch_values[:, None], lambda: problem.batch_rows, precision
    ).ravel()
    base = _csr(values, problem.indices, problem.indptr, shape)
    grown_matrix = _grown_matrix(base, problem, batch_values) if problem.entries else base
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, shape[1]).astype(dtype)
    exact = x.astype(np.float64)
    magnitude = _csr(np.abs(grown_matrix.data), grown_matrix.indices, grown_matrix.indptr, shape) @ np.abs(exact)
    max_number = float(np.finfo(dtype).max)
    is_overflow = ~(magnitude <= max_number)
    if is_overflow.any():
        raise ReproError(
            f"values or products are out of range for {precision} precision",
            where=problem.name,
            expected=f"|A||x| of at most {max_number:.3g}",
            actual=f"{np.count_nonzero(is_overflow)} of {shape[0]} rows’ are larger",
            todo="remove single from the study's `precisions`, or scale the matrix"
            if precision == "single" else "scale the matrix",
        )  # fmt: skip
    bound = (np.diff(grown_matrix.indptr) + 2) * float(np.finfo(dtype).eps) * magnitude
    checksum = hashlib.sha256(f"{problem.checksum()} {seed}".encode()).hexdigest()
    return GraphOperands(problem, precision, base, grown_matrix, x, grown_matrix @ exact, bound, checksum)


def _csr(
    values: NDArray[np.floating], columns: NDArray[Any], pointers: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    return sp.csr_array((values, columns, pointers), shape=shape, copy=False)


def _grown_matrix(base: sp.csr_array, problem: Updates, batch_values: NDArray[np.floating]) -> sp.csr_array:
    """Return the matrix with the entries of all batches appended to its rows."""
    order = np.argsort(problem.batch_rows, kind="stable")
    rows = problem.batch_rows[order]
    row_ends = base.indptr[rows + 1]
    pointers = base.indptr.astype(np.int64)
    pointers[1:] += np.cumsum(np.bincount(rows, minlength=base.shape[0]))
    columns = np.insert(base.indices, row_ends, problem.batch_columns[order])
    if len(columns) <= np.iinfo(np.int32).max:
        pointers = pointers.astype(np.int32)
    return _csr(np.insert(base.data, row_ends, batch_values[order]), columns, pointers, base.shape)


def operands_of(workspace: Workspace) -> GraphOperands:
    operands = workspace.operands
    assert isinstance(operands, GraphOperands), "a runnable of another study"
    return operands


State = Literal["fragmented", "defragmented", "sorted"]
STATES: tuple[State, ...] = ("fragmented", "defragmented", "sorted")


def slack_of(operands: GraphOperands) -> int:
    """Return the number of free entries in a new segment: the mean row size, as in the paper."""
    rows = operands.base.shape[0]
    return operands.base.nnz // rows if rows else 0


def grow(operands: GraphOperands, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix after inserting the batches one after the other.

    Each row begins with one segment without free space. Whenever a row's chain is full, all rows are defragmented with
    slack, and the unplaced entries are inserted again.
    """
    problem, slack = operands.problem, slack_of(operands)
    counts = np.diff(problem.batch_pointers)
    rows_of_all = operands.base.shape[0]
    arrays = lay_out(operands.base, segments, operands.base.nnz + buffer_capacity(counts, rows_of_all, segments, slack))
    values = problem.batch_values.astype(operands.x.dtype, copy=False)
    for batch in range(problem.batches):
        begin, end = problem.batch_pointers[batch : batch + 2]
        rows, columns, batch_values = problem.batch_rows[begin:end], problem.batch_columns[begin:end], values[begin:end]
        arrays, remaining = insert(arrays, rows, columns, batch_values, slack, copy=False)
        if remaining.any():
            # a row with one segment needs that segment to hold all entries
            max_per_row = int(np.bincount(rows[remaining]).max())
            room = slack if segments > 1 else max(slack, max_per_row)
            batch_room = buffer_capacity(counts[batch:], rows_of_all, segments, slack)
            arrays = defragment(arrays, arrays.nnz + room * len(arrays.sizes) + batch_room, room)
            arrays, remaining = insert(
                arrays, rows[remaining], columns[remaining], batch_values[remaining], slack, copy=False
            )
        assert not remaining.any(), "there is room for all"
    # no more segments are allocated, so memory behind the last segment would be wasted
    used_entries = arrays.pointer
    return replace(arrays, columns=arrays.columns[:used_entries], values=arrays.values[:used_entries])


def lay_out_state(operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix in a state: fragmented by the batches, one segment per row, or also sorted by row size.

    The rows of the last two states have no free space. `sorted` has the rows in the order of the paper's bins.
    """
    if state == "fragmented":
        return grow(operands, segments)
    if state == "defragmented":
        return lay_out_sorted(operands.grown, np.arange(operands.grown.shape[0], dtype=np.int32), segments)
    sizes = np.diff(operands.grown.indptr).astype(np.int32)
    return lay_out_sorted(operands.grown, bin_rows(sizes, PAPERS_MIN_LENGTHS).order, segments)


def state_in(workspace: Workspace, operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix in a state; the workspace keeps it, because its layout can take seconds."""
    return workspace.cached(("state", state, segments), lambda: lay_out_state(operands, state, segments))
