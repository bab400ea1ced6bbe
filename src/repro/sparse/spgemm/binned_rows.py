"""Rows of a sparse matrix product on a device, binned by size and computed bin by bin.

Bins are by the products or entries of a row. Shapes assign a kernel to each bin. A sample of some rows of each bin
estimates entries, for the choice of tables and memory.
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
from repro.errors import ReproError
from repro.sparse.device_primitives import Load, check_factors, keep
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
    """Two matrices on a device; `ReproError` if shapes or precisions do not match."""

    a: Storage
    b: Storage
    #: `exact`: both have one segment a row, no free space and no duplicates. `chain`: any.
    format: Format = "exact"

    def __post_init__(self) -> None:
        check_factors(self.a, self.b)

    @property
    def shape(self) -> tuple[int, int]:
        return self.a.shape[0], self.b.shape[1]


def too_many(entries: int) -> ReproError:
    return ReproError(
        "the product has more entries than a matrix can hold",
        expected=f"at most {MAX_ENTRIES:,}",
        actual=f"up to {entries:,}",
    )


def arguments_of(matrix: Storage) -> list[Argument]:
    return [np.int32(matrix.pitch), matrix.table, matrix.sizes, matrix.columns, matrix.values]


#: Rows count as different if the longest one has this many times the mean's products or entries. Like the other limits
#: of this module it was tuned, and the measurements behind it are not recorded.
DIFFERING = 3
#: Words behind the row counts: those of each bin, and one for the entries of A.
_WORDS = len(BinWord) * BINS + 1


@dataclass(frozen=True)
class BinCounts:
    """Contents of the bins."""

    #: Rows of each bin, `(BINS,)`.
    rows: tuple[int, ...]
    #: Products, or entries, of each bin's rows, and of its largest row.
    totals: tuple[int, ...]
    largest: tuple[int, ...]
    #: Entries of A in these rows, for bins by products; else 0.
    entries: int = 0

    @property
    def mean_of_a(self) -> float:
        """Mean row length of A; 0: unknown."""
        return self.entries / max(sum(self.rows), 1)

    @property
    def mean_row(self) -> float:
        """Mean length of B's rows, weighted by use; 0: unknown."""
        return sum(self.totals) / self.entries if self.entries else 0.0

    @property
    def differ(self) -> bool:
        """Whether rows differ so much that tables are made for the most that a row can be."""
        return max(self.largest, default=0) * sum(self.rows) >= DIFFERING * max(sum(self.totals), 1)

    def bound(self, columns: int) -> int:
        """Return an upper bound of C's number of entries, given its number of columns."""
        return sum(min(total, rows * columns) for total, rows in zip(self.totals, self.rows, strict=True))


#: Kernel shape for a bin's rows; None: an array of sums for all columns in global memory.
Shape = HashShape | SortShape | LongShape | None


def wide_sum(high: int, low: int) -> int:
    """Return the number in two words of a kernel, the upper one in units of 2¹⁶, the lower one read as signed."""
    return (high << 16) + (low & 0xFFFFFFFF)


class ProductBins:
    """Lists of rows, one for each bin, with capacity for all `rows` of the product; `program` is a module `count-…`."""

    def __init__(self, device: Device, program: Program, n_rows: int) -> None:
        self._device, self._kernels, self.stride = device, Kernels(device, program), max(n_rows, 1)
        with ExitStack() as stack:
            self.lists = keep(stack, device.allocate(4 * BINS * self.stride))
            # counts and totals share one buffer, so that one call clears or reads both
            self.counts = keep(stack, device.allocate(PART_ALIGNMENT + 4 * _WORDS))
            self._totals = keep(stack, device.part(self.counts, PART_ALIGNMENT, 4 * _WORDS))
            self._stack = stack.pop_all()

    def by_products(self, a: Storage, b: Storage, c: Storage, listed: tuple[Buffer, int] | None = None) -> None:
        """Queue the binning of rows of C = A B by products, all or `listed` (int32 rows, count), and empty them."""
        rows, count = listed or (self.counts, a.shape[0])  # without a list the argument is not read
        arguments: list[Argument] = [np.int32(count), np.int32(listed is not None), rows]
        arguments += [*arguments_of(a), *arguments_of(b), np.int32(c.segments), np.int32(c.pitch), c.table, c.sizes]
        self._list("count_products", count, arguments)

    def by_sizes(self, c: Storage, sizes: Buffer | None = None) -> None:
        """Queue the binning of rows by their entries, or by other `sizes`, where rows of size 0 are in no bin."""
        self._list("list_sizes", c.shape[0], [np.int32(c.shape[0]), sizes or c.sizes])

    def _list(self, kernel: str, n_rows: int, arguments: list[Argument]) -> None:
        self._device.fill(self.counts, 0)
        own: list[Argument] = [np.int32(self.stride), self.lists, self.counts, self._totals]
        self._kernels.over(kernel, n_rows, [*arguments, *own])()

    def read(self) -> BinCounts:
        """Wait for queued work and return the contents of the bins."""
        words = np.empty(PART_ALIGNMENT // 4 + _WORDS, np.int32)
        self._device.download(self.counts, words)
        of_bins, entries = words[PART_ALIGNMENT // 4 : -1].reshape(BINS, len(BinWord)).T.tolist(), int(words[-1])
        totals = tuple(map(wide_sum, of_bins[BinWord.TOTAL_HIGH], of_bins[BinWord.TOTAL_LOW]))
        return BinCounts(tuple(words[:BINS].tolist()), totals, tuple(of_bins[BinWord.LARGEST]), entries)

    def release(self) -> None:
        self._stack.close()


#: A bin that uses less than 1/IDLE of the device's lanes gets more lanes for each row (measurements not recorded).
IDLE = 8


@dataclass(frozen=True)
class BinShapes:
    """A kernel for each bin."""

    #: Shape for each bin's rows, `(BINS,)`.
    shapes: tuple[Shape, ...]


def shapes_by_products(
    target: Target,
    scalar_bytes: int,
    expected: tuple[int, ...] = EXPECTED,
    largest: tuple[int, ...] = (*LIMITS, MAX_ENTRIES),
    mean_row: float = 0.0,
) -> BinShapes:
    """Return shapes for rows binned by products.

    `expected` are products per entry, and `largest` the largest row's products, `(BINS,)` each. `mean_row` is B's mean
    row length; 0: unknown.
    """
    entries = [-(-products // fewer) for products, fewer in zip(largest, expected, strict=True)]
    return shapes_by_entries(target, scalar_bytes, entries, largest, mean_row)


def shapes_by_entries(
    target: Target,
    scalar_bytes: int,
    entries: Sequence[int],
    products: Sequence[int] | None = None,
    mean_row: float = 0.0,
) -> BinShapes:
    """Return shapes whose tables hold rows of `entries`, `(BINS,)`.

    `products` are maximal products of each bin's rows, if known. `mean_row` is B's mean row length; 0: unknown.
    """
    given = zip(entries, products or [0] * BINS, strict=True)
    return BinShapes(
        tuple(fastest_hash_shape(target, scalar_bytes, count, of_products, mean_row) for count, of_products in given)
    )


def shapes_by_bounds(target: Target, scalar_bytes: int, counts: BinCounts, columns: int) -> BinShapes:
    """Return shapes whose tables hold whatever a row can be, so that none is computed twice; long rows have a block."""
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
    """How much work a product has in rows and in their lengths, beside the lanes that could share it."""

    #: Rows of each bin, `(BINS,)`.
    rows: Sequence[int]
    #: Lanes of the device.
    lanes: int
    #: Mean row lengths of A and B.
    mean_row_of_a: float
    mean_row_of_b: float


def spread_out(shapes: BinShapes, target: Target, scalar_bytes: int, demand: RowDemand) -> BinShapes:
    """Return shapes with more lanes a row in bins that would leave most of the device idle.

    Lanes of a warp follow the row length of B; several warps need long rows of A.
    """
    made: list[Shape] = []
    for shape, rows in zip(shapes.shapes, demand.rows, strict=True):
        if isinstance(shape, HashShape) and 0 < rows * shape.width * IDLE < demand.lanes:
            in_warp, warps = min(2 * demand.mean_row_of_b, target.warp), demand.mean_row_of_a / target.warp
            max_lanes = in_warp if warps < 2 else target.warp * min(warps, demand.lanes / rows / target.warp)
            made.append(widen_shape(shape, target, scalar_bytes, max(max_lanes, in_warp)))
        else:
            made.append(shape)
    return BinShapes(tuple(made))


@cache
def shapes_for_any_row(target: Target, scalar_bytes: int) -> BinShapes:
    """Return shapes whose tables hold any row, binned by entries or products."""
    return shapes_by_entries(target, scalar_bytes, (*LIMITS, MAX_ENTRIES))


@cache
def retry_shapes(target: Target, scalar_bytes: int) -> BinShapes:
    """Return shapes with slots for all products of a row, or the largest table."""
    shapes = hash_shapes(target, scalar_bytes)
    largest = max(shapes, key=lambda shape: (shape.table, shape.width))
    fitting = (fastest_hash_shape(target, scalar_bytes, limit) for limit in (*LIMITS, MAX_ENTRIES))
    return BinShapes(tuple(shape or largest for shape in fitting))


def papers_shapes(target: Target, scalar_bytes: int, width: int = 32, n_rows: int = 1) -> BinShapes:
    """Return the shapes of King 2017, section 6.1: rows of up to 2,048 products are sorted in shared memory.

    The paper does not describe longer rows; they have `shapes_by_products`. `width` threads a row and `n_rows` rows a
    block are taken where available, else the nearest shape.
    """
    shapes = sort_shapes(target, scalar_bytes)
    made: list[Shape] = list(shapes_by_products(target, scalar_bytes).shapes)
    for bin in range(PAPERS_BINS):
        own = [shape for shape in shapes if shape.max_products == LIMITS[bin]]
        if own:
            made[bin] = min(own, key=lambda shape: (abs(shape.width - width), abs(shape.rows - n_rows)))
    return BinShapes(tuple(made))


#: Limit of blocks per multiprocessor for grid-stride loops over a bin's rows (measurements not recorded).
BIN_BLOCKS_PER_SM = {"cuda": 32, "opencl": 4}
#: Limit of blocks with dense accumulators or tables in global memory, and of the bytes of these (measurements not
#: recorded).
GLOBAL_BLOCKS, GLOBAL_BYTES = 256, 1 << 29


def in_global_memory(shape: Shape) -> bool:
    """Return whether each block of a kernel has memory of its own beside the shared memory."""
    return shape is None or (isinstance(shape, LongShape) and shape.in_global)


class BinLists(Protocol):
    """Lists of rows, one for each bin."""

    #: Distance of two lists in numbers.
    @property
    def stride(self) -> int: ...
    @property
    def lists(self) -> Buffer: ...
    @property
    def counts(self) -> Buffer: ...


class ProductRows:
    """The binned rows of C = A B.

    `unfinished` has capacity for the numbers of all rows; kernels list unfinished rows there.
    """

    def __init__(
        self, device: Device, load: Load, factors: Factors, c: Storage, bins: BinLists, unfinished: Buffer
    ) -> None:
        self._device, self._load = device, load
        self._factors, self._c, self._bins, self._unfinished = factors, c, bins, unfinished

    def bind(self, mode: Mode, counts: BinCounts, shapes: BinShapes, stack: ExitStack) -> Callable[[], None]:
        """Return a launch of all bins' rows, queued longest first; they may run in any order.

        C needs memory for the output of `mode`. `stack` releases the kernels' working memory after they are done.
        """
        bins = list(enumerate(zip(shapes.shapes, counts.rows, strict=True)))
        share = GLOBAL_BYTES // max(sum(rows > 0 and in_global_memory(shape) for _, (shape, rows) in bins), 1)
        launches: list[LaunchSpec] = []
        by_column = long_shapes(self._device.target, self._c.dtype.itemsize)[0]
        for bin, (chosen, rows) in reversed(bins):  # the longest rows first
            if not rows:
                continue
            shape, blocks, more = chosen or by_column, rows, list[Argument]()
            if chosen is None:
                blocks, more = self._dense(rows, share, stack)
            elif isinstance(chosen, LongShape) and chosen.in_global:
                blocks, more = self._tables(mode, chosen, rows, share, stack)
            module, name = shape.kernel(mode)
            shared = shape.table_bytes(mode, self._c.dtype.itemsize) if isinstance(shape, LongShape) else 0
            kernel = self._load(f"{module}-{self._factors.format}").kernel(name, shared)
            blocks = min(-(-blocks // shape.rows), self._device.sm_count * BIN_BLOCKS_PER_SM[self._device.backend])
            launches.append(LaunchSpec(kernel, blocks, shape.threads, [np.int32(bin), *self._arguments(), *more]))
        if not launches:
            return in_order([])
        return self._device.bind(*launches[0]) if len(launches) == 1 else self._device.bind_concurrent(launches)

    def _dense(self, n_rows: int, share: int, stack: ExitStack) -> tuple[int, list[Argument]]:
        """Return the blocks that have a sum for every column each, and their memory, in which kernels leave no mark."""
        columns = self._c.shape[1]
        nbytes = 4 * -(-columns // 32), columns * self._c.dtype.itemsize
        blocks, (marks, sums) = self._global_memory(nbytes, n_rows, share, stack)
        self._device.fill(marks, 0)
        return blocks, [np.int32(columns), marks, sums]

    def _tables(
        self, mode: Mode, shape: LongShape, n_rows: int, share: int, stack: ExitStack
    ) -> tuple[int, list[Argument]]:
        """Return the blocks that have a table in global memory each, and the keys and sums of all tables."""
        sums = 0 if mode == "symbolic" else shape.table * self._c.dtype.itemsize
        blocks, memory = self._global_memory((shape.table * COLUMN_BYTES, sums), n_rows, share, stack)
        return blocks, [*memory]

    def _global_memory(
        self, nbytes: tuple[int, int], n_rows: int, share: int, stack: ExitStack
    ) -> tuple[int, tuple[Buffer, Buffer]]:
        """Return as many blocks as rows or `share` bytes allow, and two buffers with the bytes of all of them."""
        blocks = max(1, min(n_rows, GLOBAL_BLOCKS, share // max(sum(nbytes), 1)))
        first, second = (keep(stack, self._device.allocate(max(blocks * each, 4))) for each in nbytes)
        return blocks, (first, second)

    def _arguments(self) -> list[Argument]:
        bins, c, factors = self._bins, self._c, self._factors
        return [
            np.int32(bins.stride), bins.lists, bins.counts, *arguments_of(factors.a), *arguments_of(factors.b),
            c.table, c.sizes, c.columns, c.values, np.int32(c.capacity), self._unfinished, c.state,
        ]  # fmt: skip


#: Rows of a bin that are sampled; and products from which on a problem is sampled (measurements not recorded, nor those
#: behind the next two).
SAMPLE_ROWS, MIN_PRODUCTS = 128, 30_000_000
#: Share of all products from which on a bin is sampled.
MIN_SHARE = 0.05
#: Entries that are allocated, as a multiple of those estimated.
ALLOCATION_FACTOR = 1.15


@dataclass(frozen=True)
class DeviceBinLists:
    """Lists of rows, one for each bin, at a stride, and their lengths on the device."""

    stride: int
    lists: Buffer
    counts: Buffer


@dataclass(frozen=True)
class Sample:
    """Results of the sampled rows of each bin."""

    #: Sampled rows, `(BINS,)`.
    rows: tuple[int, ...]
    #: Their entries, without rows that exceed the largest table.
    entries: tuple[int, ...]
    #: Entries of the largest; 0 without a sample.
    largest: tuple[int, ...]
    #: Maximal products of a row of each bin, sampled or not.
    products: tuple[int, ...]
    #: Mean row length of B.
    mean_row: float

    def shapes(self, target: Target, scalar_bytes: int) -> BinShapes:
        """Return shapes with slots for the largest sampled row of each bin."""
        fitting = shapes_by_entries(target, scalar_bytes, self.largest, self.products, self.mean_row)
        usual = shapes_by_products(target, scalar_bytes, largest=self.products, mean_row=self.mean_row)
        given = zip(self.rows, self.largest, fitting.shapes, usual.shapes, strict=True)
        return BinShapes(tuple(shape if rows and size else kept for rows, size, shape, kept in given))

    def entries_of(self, counts: BinCounts) -> int:
        """Return the estimated entries of all rows; without a sample the expected ones."""
        expected = zip(self.rows, self.entries, counts.rows, expected_entries(counts), strict=True)
        return sum(
            int(ALLOCATION_FACTOR * all_rows * entries / rows) + rows if rows and entries else most
            for rows, entries, all_rows, most in expected
        )


def expected_entries(counts: BinCounts) -> list[int]:
    """Return the entries to allocate for each bin without a sample: about twice the expected ones."""
    return [2 * total // max(fewer, 2) for total, fewer in zip(counts.totals, EXPECTED, strict=True)]


def take_sample(
    device: Device, load: Load, factors: Factors, c: Storage, bins: ProductBins, counts: BinCounts
) -> Sample:
    """Find the sizes of some rows of each bin, and wait; other rows of C stay unchanged."""
    with ExitStack() as stack:
        kernels = Kernels(device, load(f"count-{factors.format}"))
        listed = DeviceBinLists(
            SAMPLE_ROWS, keep(stack, device.allocate(4 * BINS * SAMPLE_ROWS)), keep(stack, device.allocate(4 * BINS))
        )
        unfinished, sums = (
            keep(stack, device.allocate(4 * BINS * SAMPLE_ROWS)),
            keep(stack, device.allocate(4 * len(SampleWord) * BINS)),
        )
        given: list[Argument] = [np.int32(bins.stride), bins.lists, bins.counts, listed.lists, listed.counts]
        kernels.blocks("take_sample", BINS, [np.int32(SAMPLE_ROWS), *given])()
        least = MIN_SHARE * sum(counts.totals)
        given_rows = zip(counts.rows, counts.totals, strict=True)
        some = replace(
            counts, rows=tuple(min(rows, SAMPLE_ROWS) if total >= least else 0 for rows, total in given_rows)
        )
        shapes = retry_shapes(device.target, c.dtype.itemsize)
        ProductRows(device, load, factors, c, listed, unfinished).bind("symbolic", some, shapes, stack)()
        kernels.blocks("sum_sample", BINS, [np.int32(SAMPLE_ROWS), listed.lists, listed.counts, c.sizes, sums])()
        device.fill(c.state, 0)  # rows beyond the largest table are computed later
        numbers = np.empty((BINS, len(SampleWord)), np.int32)
        device.download(sums, numbers)
    of_bins = numbers.T.tolist()
    entries, largest = (tuple(of_bins[word]) for word in (SampleWord.ENTRIES, SampleWord.LARGEST))
    return Sample(some.rows, entries, largest, counts.largest, counts.mean_row)
