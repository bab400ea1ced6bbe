"""Rows of a sparse matrix product on a device, binned by size and computed bin by bin.

The size of a row of C = A B is its number of intermediate products a_ik b_kj, called products here, or its number of
entries. A shape says which kernel, with which hash table and how many lanes per row, computes the rows of a bin. For
large products, some rows of each bin are computed first, as a sample: they give the sizes of tables and of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from repro.codegen.targets import Target
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, LaunchSpec, Program
from repro.errors import ReproError, ReproErrorOfValue
from repro.sparse.device_primitives import Load, Owner, check_factors, keep
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, in_order
from repro.sparse.spgemm.kernels import (
    BINS,
    COLUMN_BYTES,
    EXPECTED,
    LIMITS,
    LONG_PRODUCTS,
    PAPERS_BINS,
    BinWord,
    Format,
    HashShape,
    LongShape,
    Mode,
    SampleWord,
    SortShape,
    fastest_hash_shape,
    hash_shapes,
    long_shape,
    long_shapes,
    sort_shapes,
    widen_shape,
)


@dataclass(frozen=True)
class Factors:
    """The factors A and B of a product on a device; `ReproError` if shapes or precisions do not match."""

    a: Storage
    b: Storage
    #: `exact`: both have one segment per row, no free space and no duplicates. `chain`: any dynamic matrix.
    format: Format = "exact"

    def __post_init__(self) -> None:
        check_factors(self.a, self.b)

    @property
    def shape(self) -> tuple[int, int]:
        return self.a.shape[0], self.b.shape[1]


def too_many(entries: int) -> ReproError:
    return ReproErrorOfValue(
        "the product has too many entries for a matrix",
        expected=f"at most {MAX_ENTRIES:,}",
        actual=f"up to {entries:,}",
    )


def matrix_arguments(matrix: Storage) -> list[Argument]:
    return [np.int32(matrix.pitch), matrix.table, matrix.sizes, matrix.columns, matrix.values]


#: Rows count as different if the longest row has this many times the mean number of intermediate products, or of
#: entries.
DIFFERING = 3
#: Number of words that follow the row counts: those of each bin, and one for the entries of A.
_WORDS = len(BinWord) * BINS + 1


@dataclass(frozen=True)
class BinCounts:
    """Number and sizes of the rows in each bin."""

    #: Number of rows in each bin, `(BINS,)`.
    rows: tuple[int, ...]
    #: Number of intermediate products, or of entries, of all rows of each bin, and of the largest row of each bin,
    #: `(BINS,)` each.
    totals: tuple[int, ...]
    largest: tuple[int, ...]
    #: Number of entries of A in all binned rows, if rows are binned by intermediate products; else 0.
    entries: int = 0

    @property
    def mean_of_a(self) -> float:
        """Mean row length of A; 0 if unknown."""
        return self.entries / max(sum(self.rows), 1)

    @property
    def mean_row(self) -> float:
        """Mean length of B's rows, weighted by how often A refers to each; 0 if unknown."""
        return sum(self.totals) / self.entries if self.entries else 0.0

    @property
    def differ(self) -> bool:
        """Whether row sizes differ so much that tables have to be sized for the upper bound of each bin."""
        return max(self.largest, default=0) * sum(self.rows) >= DIFFERING * max(sum(self.totals), 1)

    def bound(self, columns: int) -> int:
        """Return an upper bound of the number of entries of C, which has `columns` columns."""
        return sum(min(total, rows * columns) for total, rows in zip(self.totals, self.rows, strict=True))


#: Kernel shape for a bin's rows; None: an array of sums for all columns in global memory.
Shape = HashShape | SortShape | LongShape | None


def wide_sum(high: int, low: int) -> int:
    """Return a sum that a kernel stores in two int32 words: `high` in units of 2¹⁶, and `low` read as unsigned."""
    return (high << 16) + (low & 0xFFFFFFFF)


class ProductBins(Owner):
    """Device lists of row numbers, one for each bin, each with capacity for `n_rows`.

    `program` is a module `count-…`.
    """

    def __init__(self, device: Device, program: Program, n_rows: int) -> None:
        self._device, self._kernels, self.stride = device, Kernels(device, program), max(n_rows, 1)
        with ExitStack() as stack:
            self.lists = keep(stack, device.allocate(4 * BINS * self.stride))
            # counts and totals share one buffer, so that one call clears or reads both
            self.counts = keep(stack, device.allocate(PART_ALIGNMENT + 4 * _WORDS))
            self._totals = keep(stack, device.part(self.counts, PART_ALIGNMENT, 4 * _WORDS))
            self._stack = stack.pop_all()

    def bin_by_products(self, a: Storage, b: Storage, c: Storage, row_list: tuple[Buffer, int] | None = None) -> None:
        """Bin rows of C = A B by intermediate products, and empty them.

        `row_list` (int32 row numbers, count) restricts this to some rows.
        """
        rows, count = row_list or (self.counts, a.shape[0])  # without a list, the kernel does not read this argument
        arguments: list[Argument] = [np.int32(count), np.int32(row_list is not None), rows]
        arguments += [
            *matrix_arguments(a),
            *matrix_arguments(b),
            np.int32(c.segments),
            np.int32(c.pitch),
            c.table,
            c.sizes,
        ]
        self._list("count_products", count, arguments)

    def bin_by_sizes(self, c: Storage, sizes: Buffer | None = None) -> None:
        """Bin all rows by `c.sizes`, or by other `sizes` (int32, one per row); a row of size 0 is in no bin."""
        self._list("list_sizes", c.shape[0], [np.int32(c.shape[0]), sizes or c.sizes])

    def _list(self, kernel: str, n_rows: int, arguments: list[Argument]) -> None:
        self._device.fill(self.counts, 0)
        list_arguments: list[Argument] = [np.int32(self.stride), self.lists, self.counts, self._totals]
        self._kernels.over(kernel, n_rows, [*arguments, *list_arguments])()

    def read(self) -> BinCounts:
        """Wait for queued work and return the contents of the bins."""
        words = np.empty(PART_ALIGNMENT // 4 + _WORDS, np.int32)
        self._device.download(self.counts, words)
        bin_words, entries = words[PART_ALIGNMENT // 4 : -1].reshape(BINS, len(BinWord)).T.tolist(), int(words[-1])
        totals = tuple(map(wide_sum, bin_words[BinWord.TOTAL_HIGH], bin_words[BinWord.TOTAL_LOW]))
        return BinCounts(tuple(words[:BINS].tolist()), totals, tuple(bin_words[BinWord.LARGEST]), entries)


#: A bin whose rows use less than 1/IDLE of the device's lanes (resident threads) gets more lanes per row.
IDLE = 8


@dataclass(frozen=True)
class BinShapes:
    """A kernel shape for each bin."""

    #: Shape for the rows of each bin, `(BINS,)`.
    shapes: tuple[Shape, ...]


def shapes_by_products(
    target: Target,
    scalar_bytes: int,
    expected: tuple[int, ...] = EXPECTED,
    largest: tuple[int, ...] = (*LIMITS, MAX_ENTRIES),
    mean_row: float = 0.0,
) -> BinShapes:
    """Return kernel shapes for rows binned by intermediate products, with tables for the expected number of entries.

    `expected` is the expected ratio of intermediate products to entries, and `largest` the number of intermediate
    products of the largest row, both `(BINS,)`. `mean_row` is the mean row length of B; 0 if unknown.
    """
    entries = [
        -(-products // products_per_entry) for products, products_per_entry in zip(largest, expected, strict=True)
    ]
    return shapes_by_entries(target, scalar_bytes, entries, largest, mean_row)


def shapes_by_entries(
    target: Target,
    scalar_bytes: int,
    entries: Sequence[int],
    products: Sequence[int] | None = None,
    mean_row: float = 0.0,
) -> BinShapes:
    """Return kernel shapes whose hash tables hold rows of up to `entries` entries, `(BINS,)`.

    `products` is the largest number of intermediate products of a row in each bin, if known. `mean_row` is the mean row
    length of B; 0 if unknown.
    """
    bin_sizes = zip(entries, products or [0] * BINS, strict=True)
    return BinShapes(
        tuple(
            fastest_hash_shape(target, scalar_bytes, count, product_count, mean_row)
            for count, product_count in bin_sizes
        )
    )


def shapes_by_bounds(target: Target, scalar_bytes: int, counts: BinCounts, columns: int) -> BinShapes:
    """Return kernel shapes whose tables hold the largest possible row of each bin; long rows have a block each."""
    shapes: list[Shape] = []
    for largest in counts.largest:
        max_columns = min(largest, columns)
        if largest > LONG_PRODUCTS[target.dialect]:
            shapes.append(long_shape(target, scalar_bytes, max_columns, columns))
        else:
            shapes.append(fastest_hash_shape(target, scalar_bytes, max_columns, largest, counts.mean_row))
    return BinShapes(tuple(shapes))


@dataclass(frozen=True)
class RowDemand:
    """Number of rows and row lengths of a product, and the number of lanes of the device."""

    #: Rows of each bin, `(BINS,)`.
    rows: Sequence[int]
    #: Number of lanes of the device: threads that it can hold at once.
    lanes: int
    #: Mean row lengths of A and B.
    mean_row_of_a: float
    mean_row_of_b: float


def spread_out(shapes: BinShapes, target: Target, scalar_bytes: int, demand: RowDemand) -> BinShapes:
    """Return kernel shapes with more lanes per row, in bins whose rows would leave most of the device idle.

    Within a warp, the number of lanes follows the row length of B; several warps share a row if rows of A are long.
    """
    wider_shapes: list[Shape] = []
    for shape, rows in zip(shapes.shapes, demand.rows, strict=True):
        if isinstance(shape, HashShape) and 0 < rows * shape.width * IDLE < demand.lanes:
            warp_lanes, warps = min(2 * demand.mean_row_of_b, target.warp), demand.mean_row_of_a / target.warp
            max_lanes = warp_lanes if warps < 2 else target.warp * min(warps, demand.lanes / rows / target.warp)
            wider_shapes.append(widen_shape(shape, target, scalar_bytes, max(max_lanes, warp_lanes)))
        else:
            wider_shapes.append(shape)
    return BinShapes(tuple(wider_shapes))


@cache
def shapes_for_any_row(target: Target, scalar_bytes: int) -> BinShapes:
    """Return kernel shapes whose tables hold any row, binned by entries or by intermediate products."""
    return shapes_by_entries(target, scalar_bytes, (*LIMITS, MAX_ENTRIES))


@cache
def retry_shapes(target: Target, scalar_bytes: int) -> BinShapes:
    """Return kernel shapes with a table slot for each intermediate product of a row, or with the largest table."""
    shapes = hash_shapes(target, scalar_bytes)
    largest = max(shapes, key=lambda shape: (shape.table, shape.width))
    table_shapes = (fastest_hash_shape(target, scalar_bytes, limit) for limit in (*LIMITS, MAX_ENTRIES))
    return BinShapes(tuple(shape or largest for shape in table_shapes))


def papers_shapes(target: Target, scalar_bytes: int, width: int = 32, n_rows: int = 1) -> BinShapes:
    """Return the kernel shapes of King 2017, section 6.1: rows of up to 2,048 intermediate products are sorted.

    The paper does not describe longer rows; they get `shapes_by_products`. `width` is the number of threads per row and
    `n_rows` the number of rows per block; if no kernel has them, the nearest one is taken.
    """
    shapes = sort_shapes(target, scalar_bytes)
    bin_shapes: list[Shape] = list(shapes_by_products(target, scalar_bytes).shapes)
    for bin in range(PAPERS_BINS):
        candidates = [shape for shape in shapes if shape.max_products == LIMITS[bin]]
        if candidates:
            bin_shapes[bin] = min(candidates, key=lambda shape: (abs(shape.width - width), abs(shape.rows - n_rows)))
    return BinShapes(tuple(bin_shapes))


#: Largest number of blocks per multiprocessor for grid-stride loops over the rows of a bin.
BIN_BLOCKS_PER_SM = {"cuda": 32, "opencl": 4}
#: Largest number of blocks that have arrays of sums or hash tables in global memory, and largest bytes of all of these.
GLOBAL_BLOCKS, GLOBAL_BYTES = 256, 1 << 29


def uses_global_memory(shape: Shape) -> bool:
    """Return whether each block of a kernel needs a table or an array of sums in global memory."""
    return shape is None or (isinstance(shape, LongShape) and shape.in_global)


class BinLists(Protocol):
    """Device lists of row numbers, one for each bin."""

    #: Distance between the beginnings of consecutive lists, in numbers.
    @property
    def stride(self) -> int: ...
    @property
    def lists(self) -> Buffer: ...
    @property
    def counts(self) -> Buffer: ...


class ProductRows:
    """The binned rows of C = A B, and the kernels that compute them.

    `unfinished` is an int32 buffer with one element per row, in which kernels list the rows that they could not finish.
    """

    def __init__(
        self, device: Device, load: Load, factors: Factors, c: Storage, bins: BinLists, unfinished_rows: Buffer
    ) -> None:
        self._device, self._load = device, load
        self._factors, self._c, self._bins, self._unfinished_rows = factors, c, bins, unfinished_rows

    def bind(self, mode: Mode, counts: BinCounts, shapes: BinShapes, stack: ExitStack) -> Callable[[], None]:
        """Return a launch of the kernels of all bins, longest rows first; the kernels may run concurrently.

        C needs memory for the output of `mode`. `stack` owns the kernels' working memory: close it after they have
        ended.
        """
        bins = list(enumerate(zip(shapes.shapes, counts.rows, strict=True)))
        share = GLOBAL_BYTES // max(sum(rows > 0 and uses_global_memory(shape) for _, (shape, rows) in bins), 1)
        launches: list[LaunchSpec] = []
        dense_shape = long_shapes(self._device.target, self._c.dtype.itemsize)[0]
        for bin, (bin_shape, rows) in reversed(bins):  # the longest rows first
            if not rows:
                continue
            shape, blocks, extra_arguments = bin_shape or dense_shape, rows, list[Argument]()
            if bin_shape is None:
                blocks, extra_arguments = self._dense(rows, share, stack)
            elif isinstance(bin_shape, LongShape) and bin_shape.in_global:
                blocks, extra_arguments = self._tables(mode, bin_shape, rows, share, stack)
            module, name = shape.kernel(mode)
            shared = shape.table_bytes(mode, self._c.dtype.itemsize) if isinstance(shape, LongShape) else 0
            kernel = self._load(f"{module}-{self._factors.format}").kernel(name, shared)
            blocks = min(-(-blocks // shape.rows), self._device.sm_count * BIN_BLOCKS_PER_SM[self._device.backend])
            launches.append(
                LaunchSpec(kernel, blocks, shape.threads, [np.int32(bin), *self._arguments(), *extra_arguments])
            )
        if not launches:
            return in_order([])
        return self._device.bind(*launches[0]) if len(launches) == 1 else self._device.bind_concurrent(launches)

    def _dense(self, n_rows: int, share: int, stack: ExitStack) -> tuple[int, list[Argument]]:
        """Allocate a sum and a zeroed mark bit per column for each block.

        Return the number of blocks and the arguments.
        """
        columns = self._c.shape[1]
        nbytes = 4 * -(-columns // 32), columns * self._c.dtype.itemsize
        blocks, (marks, sums) = self._global_memory(nbytes, n_rows, share, stack)
        self._device.fill(marks, 0)
        return blocks, [np.int32(columns), marks, sums]

    def _tables(
        self, mode: Mode, shape: LongShape, n_rows: int, share: int, stack: ExitStack
    ) -> tuple[int, list[Argument]]:
        """Allocate a hash table per block in global memory.

        Return the number of blocks, and the keys and sums of all tables.
        """
        sums = 0 if mode == "symbolic" else shape.table * self._c.dtype.itemsize
        blocks, memory = self._global_memory((shape.table * COLUMN_BYTES, sums), n_rows, share, stack)
        return blocks, [*memory]

    def _global_memory(
        self, nbytes: tuple[int, int], n_rows: int, share: int, stack: ExitStack
    ) -> tuple[int, tuple[Buffer, Buffer]]:
        """Allocate two arrays per block, of `nbytes` each, within `share` bytes.

        Return the number of blocks and both buffers.
        """
        blocks = max(1, min(n_rows, GLOBAL_BLOCKS, share // max(sum(nbytes), 1)))
        first, second = (keep(stack, self._device.allocate(max(blocks * array_bytes, 4))) for array_bytes in nbytes)
        return blocks, (first, second)

    def _arguments(self) -> list[Argument]:
        bins, c, factors = self._bins, self._c, self._factors
        return [
            np.int32(bins.stride), bins.lists, bins.counts, *matrix_arguments(factors.a), *matrix_arguments(factors.b),
            c.table, c.sizes, c.columns, c.values, np.int32(c.capacity), self._unfinished_rows, c.state,
        ]  # fmt: skip


#: Number of sampled rows per bin, and smallest number of intermediate products of C for which rows are sampled.
SAMPLE_ROWS, MIN_PRODUCTS = 128, 30_000_000
#: A bin is sampled if it has at least this share of all intermediate products.
MIN_SHARE = 0.05
#: Ratio of allocated entries to estimated entries.
ALLOCATION_FACTOR = 1.15


@dataclass(frozen=True)
class DeviceBinLists:
    """Device lists of row numbers, one for each bin, `stride` numbers apart; `counts` are the lengths of the lists."""

    stride: int
    lists: Buffer
    counts: Buffer


@dataclass(frozen=True)
class Sample:
    """Sizes of the sampled rows of each bin."""

    #: Number of sampled rows, `(BINS,)`.
    rows: tuple[int, ...]
    #: Total number of entries of the sampled rows, without rows that exceed the largest table, `(BINS,)`.
    entries: tuple[int, ...]
    #: Number of entries of the largest sampled row; 0 without a sample, `(BINS,)`.
    largest: tuple[int, ...]
    #: Largest number of intermediate products of a row in each bin, sampled or not, `(BINS,)`.
    products: tuple[int, ...]
    #: Mean row length of B.
    mean_row: float

    def shapes(self, target: Target, scalar_bytes: int) -> BinShapes:
        """Return kernel shapes with table slots for the largest sampled row of each bin."""
        sample_shapes = shapes_by_entries(target, scalar_bytes, self.largest, self.products, self.mean_row)
        usual = shapes_by_products(target, scalar_bytes, largest=self.products, mean_row=self.mean_row)
        bins = zip(self.rows, self.largest, sample_shapes.shapes, usual.shapes, strict=True)
        return BinShapes(tuple(shape if rows and size else usual_shape for rows, size, shape, usual_shape in bins))

    def estimate_entries(self, counts: BinCounts) -> int:
        """Return the estimated number of entries of all rows.

        Bins without a sample count with their expected entries.
        """
        expected = zip(self.rows, self.entries, counts.rows, expected_entries(counts), strict=True)
        return sum(
            int(ALLOCATION_FACTOR * total_rows * entries / rows) + rows if rows and entries else upper_bound
            for rows, entries, total_rows, upper_bound in expected
        )


def expected_entries(counts: BinCounts) -> list[int]:
    """Return the number of entries to allocate for each bin without a sample: about twice the expected number."""
    return [
        2 * total // max(products_per_entry, 2)
        for total, products_per_entry in zip(counts.totals, EXPECTED, strict=True)
    ]


def take_sample(
    device: Device, load: Load, factors: Factors, c: Storage, bins: ProductBins, counts: BinCounts
) -> Sample:
    """Compute the sizes of some rows of each bin, and wait for the result.

    The sizes of other rows of C stay unchanged.
    """
    with ExitStack() as stack:
        kernels = Kernels(device, load(f"count-{factors.format}"))
        sample_lists = DeviceBinLists(
            SAMPLE_ROWS, keep(stack, device.allocate(4 * BINS * SAMPLE_ROWS)), keep(stack, device.allocate(4 * BINS))
        )
        unfinished_rows, sums = (
            keep(stack, device.allocate(4 * BINS * SAMPLE_ROWS)),
            keep(stack, device.allocate(4 * len(SampleWord) * BINS)),
        )
        list_arguments: list[Argument] = [
            np.int32(bins.stride),
            bins.lists,
            bins.counts,
            sample_lists.lists,
            sample_lists.counts,
        ]
        kernels.blocks("take_sample", BINS, [np.int32(SAMPLE_ROWS), *list_arguments])()
        least = MIN_SHARE * sum(counts.totals)
        given_rows = zip(counts.rows, counts.totals, strict=True)
        some = replace(
            counts, rows=tuple(min(rows, SAMPLE_ROWS) if total >= least else 0 for rows, total in given_rows)
        )
        shapes = retry_shapes(device.target, c.dtype.itemsize)
        ProductRows(device, load, factors, c, sample_lists, unfinished_rows).bind("symbolic", some, shapes, stack)()
        kernels.blocks(
            "sum_sample", BINS, [np.int32(SAMPLE_ROWS), sample_lists.lists, sample_lists.counts, c.sizes, sums]
        )()
        device.fill(c.state, 0)  # clears the count of rows beyond the largest table: these rows are computed later
        numbers = np.empty((BINS, len(SampleWord)), np.int32)
        device.download(sums, numbers)
    bin_words = numbers.T.tolist()
    entries, largest = (tuple(bin_words[word]) for word in (SampleWord.ENTRIES, SampleWord.LARGEST))
    return Sample(some.rows, entries, largest, counts.largest, counts.mean_row)
