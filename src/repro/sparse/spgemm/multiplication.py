"""Sparse matrix products C = A B on a device: row by row, and by expansion, sorting and compression.

The row sizes of C are unknown beforehand. In one phase, each row is computed in shared memory and stored in a newly
allocated segment (King 2017, section 6.1), so C is dynamic CSR with rows in any order. In two phases, row sizes are
computed first, and rows are contiguous; the second phase can be repeated for other values.

`CoordinateMultiplication` writes all intermediate products a_ik b_kj to memory, sorts them and adds equal coordinates,
in slices: the baseline of King 2017, section 6.1, from CUSP (Bell, Dalton, Olson 2012).

`Destinations` stores, for each intermediate product, the position in the row of C to which it is added, and repeats the
numeric phase by these. There is one launch for the rows of each capacity (`ROOMS`), or a single launch over all rows if
most rows have one or two of the capacities. Longer rows are computed by hash tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.devices.base import ADDRESS, PART_ALIGNMENT, Argument, Buffer, Call, Device, OutOfDeviceMemory
from repro.sparse.device_primitives import LaunchContext, Load, RadixSort, Scan, bit_count, keep
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.kernels import STATE_BUFFER_END, STATE_UNPLACED, STATE_WORDS
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import CallsInOrder, Kernels, in_order
from repro.sparse.spgemm.arena import Range
from repro.sparse.spgemm.binned_rows import (
    MIN_PRODUCTS,
    BinCounts,
    BinShapes,
    Factors,
    ProductBins,
    ProductRows,
    RowDemand,
    expected_entries,
    matrix_arguments,
    retry_shapes,
    shapes_by_bounds,
    shapes_by_entries,
    shapes_by_products,
    shapes_for_any_row,
    spread_out,
    take_sample,
    too_many,
    wide_sum,
)
from repro.sparse.spgemm.kernels import (
    BYTES_ROOM,
    COLUMN_BYTES,
    ROOMS,
    DestinationsWord,
    RefillShape,
    planned_rows_per_block,
    refill_shape,
)
from repro.sparse.spgemm.one_launch import SingleLaunch, single_launch

#: Names of the steps of a product in one phase, and in two phases.
ONE_PHASE = ("count", "compute", "settle")
TWO_PHASES = ("count", "symbolic", "place", "numeric")


class Multiplication:
    """Products of matrices of one dtype on a device.

    `load` loads modules of the precision: those of `repro.sparse.spgemm.kernels.MODULES`, `matrix` and `sort`.
    `by_products` and `by_entries` are the kernel shapes for rows binned by intermediate products and by entries; None:
    shapes are chosen for each product.
    """

    def __init__(
        self,
        device: Device,
        load: Load,
        dtype: DTypeLike,
        by_products: BinShapes | None = None,
        by_entries: BinShapes | None = None,
    ) -> None:
        self.device, self.load = device, load
        self._scalar_bytes = scalar_bytes = np.dtype(dtype).itemsize
        #: Kernel shapes for rows binned by intermediate products, and for rows binned by entries; None: chosen for each
        #: product.
        self.by_products, self.by_entries = by_products, by_entries
        #: Kernel shapes for rows that did not fit into the table of their first kernel.
        self.retry = retry_shapes(device.target, scalar_bytes)
        #: Kernel shapes that fit any row: for rows that did not fit into the table of `retry` either, or whose sizes
        #: are unknown.
        self.any_row = shapes_for_any_row(device.target, scalar_bytes)

    def choose_by_entries(self, counts: BinCounts, mean_row_of_a: float, mean_row_of_b: float) -> BinShapes:
        """Return kernel shapes for rows binned by entries, with more lanes per row if rows are few."""
        shapes = shapes_by_entries(self.device.target, self._scalar_bytes, counts.largest)
        if counts.differ:
            shapes = shapes_by_bounds(self.device.target, self._scalar_bytes, counts, MAX_ENTRIES)
        return self.by_entries or self.spread(shapes, counts, mean_row_of_a, mean_row_of_b)

    def spread(self, shapes: BinShapes, counts: BinCounts, mean_row_of_a: float, mean_row_of_b: float) -> BinShapes:
        """Return the kernel `shapes` with more lanes per row if rows are few, given the mean row lengths of A and B."""
        lanes = self.device.sm_count * self.device.target.threads_per_sm
        return spread_out(
            shapes, self.device.target, self._scalar_bytes, RowDemand(counts.rows, lanes, mean_row_of_a, mean_row_of_b)
        )

    def multiply_in_one_phase(self, factors: Factors, segments: int = 1) -> Storage:
        """Return C = A B with one segment per row and no free space in it; rows and columns are in any order.

        Rows of C may grow to `segments` segments later. Raises `ReproError` if offsets into C would overflow.
        """
        with self.steps(factors, ONE_PHASE, segments) as steps:
            return steps.run()

    def multiply_in_two_phases(self, factors: Factors) -> Storage:
        """Return C = A B with contiguous rows; the columns of a row are in any order."""
        with self.steps(factors, TWO_PHASES) as product:
            return product.run()

    def multiply_in_one_launch(self, factors: Factors) -> Storage | None:
        """Compute C = A B in a single launch, with rows and columns in any order.

        It returns None if the matrices do not allow it.
        """
        if self.device.backend != "cuda":
            return None
        return single_launch(self.device, factors.a.dtype).multiply(self.load, factors)

    def multiply(self, factors: Factors) -> Storage:
        """Return C = A B in one launch where that is possible, else in one phase."""
        product = self.multiply_in_one_launch(factors)
        return self.multiply_in_one_phase(factors) if product is None else product

    @contextmanager
    def steps(self, factors: Factors, names: tuple[str, ...], segments: int = 1) -> Iterator[Steps]:
        """Yield the steps `names` of a product, `ONE_PHASE` or `TWO_PHASES`.

        The caller owns C unless the body fails.
        """
        with self.device.pooling(), ExitStack() as stack:
            c = Storage.empty(self.device, factors.shape, segments, 1, factors.a.dtype)
            try:
                yield Steps(self, factors, names, c, stack)
            except BaseException:
                c.release()
                raise

    @contextmanager
    def refill_launch(self, factors: Factors, c: Storage) -> Iterator[Callable[[], None]]:
        """Yield a launch that recomputes the values of C = A B, a product of factors with the same patterns."""
        with self.device.pooling(), ExitStack() as stack:
            bins = keep(stack, ProductBins(self.device, self.load(f"count-{factors.format}"), c.shape[0]))
            bins.bin_by_sizes(c)
            rows = ProductRows(self.device, self.load, factors, c, bins, bins.counts)
            counts = bins.read()
            means = (matrix.report().pointer / max(matrix.shape[0], 1) for matrix in (factors.a, factors.b))
            yield rows.bind("numeric", counts, self.choose_by_entries(counts, *means), stack)
            self.device.synchronize()


class Steps:
    """The steps of one product, to be called in order; `c` is complete after the last one."""

    def __init__(
        self, multiplication: Multiplication, factors: Factors, names: tuple[str, ...], c: Storage, stack: ExitStack
    ) -> None:
        self._multiplication, self._factors, self._names, self.c, self._stack = multiplication, factors, names, c, stack
        self._bins = keep(
            stack, ProductBins(multiplication.device, multiplication.load(f"count-{factors.format}"), factors.shape[0])
        )
        self._unfinished_rows = keep(stack, multiplication.device.allocate(4 * self._bins.stride))
        self._rows = ProductRows(
            multiplication.device, multiplication.load, factors, c, self._bins, self._unfinished_rows
        )
        self._counts = self._product_counts = BinCounts((), (), ())
        self._expected_entries = 0
        #: Upper bound of the entries of C, if tables and memory are sized by it; else 0.
        self._bound = 0
        self._reserved: Range | None = None
        self._usual_shapes = multiplication.by_products or multiplication.any_row

    @property
    def all(self) -> Mapping[str, Callable[[], None]]:
        return {name: getattr(self, name) for name in self._names}

    def run(self) -> Storage:
        for step in self.all.values():
            step()
        return self.c

    def count(self) -> None:
        """Bin rows by products; sample large problems, unless rows differ and memory suffices for all products."""
        multiplication, factors, c = self._multiplication, self._factors, self.c
        self._bins.bin_by_products(factors.a, factors.b, c)
        counts = self._counts = self._product_counts = self._bins.read()
        target, scalar_bytes = multiplication.device.target, c.dtype.itemsize
        usual = multiplication.by_products
        if usual is None and counts.differ:
            usual = self._spread(shapes_by_bounds(target, scalar_bytes, counts, c.shape[1]), counts)
            self._bound = counts.bound(c.shape[1])
        if sum(counts.totals) < MIN_PRODUCTS:
            self._expected_entries = min(sum(expected_entries(counts)), MAX_ENTRIES)
            estimated_shapes = shapes_by_products(
                target, scalar_bytes, largest=counts.largest, mean_row=counts.mean_row
            )
            self._usual_shapes = usual or self._spread(estimated_shapes, counts)
            return
        if usual is not None and self._affords(self._bound):
            self._expected_entries, self._usual_shapes = self._bound, usual
            return
        sample = take_sample(multiplication.device, multiplication.load, factors, c, self._bins, counts)
        self._expected_entries = min(sample.estimate_entries(counts), MAX_ENTRIES)
        self._usual_shapes = usual or self._spread(sample.shapes(target, scalar_bytes), counts)

    def _affords(self, entries: int) -> bool:
        """Return whether memory for `entries` entries can be reserved; False for 0 entries."""
        entry_bytes = COLUMN_BYTES + self.c.dtype.itemsize
        return 0 < entries <= MAX_ENTRIES and self._product_memory.affords(entries * entry_bytes)

    @property
    def _product_memory(self) -> SingleLaunch:
        """The device's cache of product memory, whose arena this product shares."""
        return single_launch(self._multiplication.device, self._factors.a.dtype)

    def _spread(self, shapes: BinShapes, counts: BinCounts) -> BinShapes:
        return self._multiplication.spread(
            shapes, counts, self._product_counts.mean_of_a, self._product_counts.mean_row
        )

    # one phase -----------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Compute rows into newly allocated segments, in memory for the expected entries or for the upper bound."""
        if not self._reserve():
            self.c.make_room(self._expected_entries)
        self._multiplication.device.fill(self.c.state, 0)
        self._rows.bind("one", self._counts, self._usual_shapes, self._stack)()

    def _reserve(self) -> bool:
        """Reserve memory of the arena for the upper bound of the entries of C.

        Return False if there is no bound or no memory.
        """
        if not self._affords(self._bound):
            return False
        try:
            self._reserved = self._product_memory.arena.reserve(self._bound)
        except OutOfDeviceMemory:
            return False
        self.c.move(self._reserved, *self._reserved.buffers(self._bound), self._bound)
        return True

    def settle(self) -> None:
        """Compute the rows that did not fit into their table or into memory; return unused memory of C to the arena."""
        c, shape_sequence = self.c, [self._usual_shapes, self._multiplication.retry, self._multiplication.any_row]
        while (words := self._state())[STATE_UNPLACED]:
            pointer = int(words[STATE_BUFFER_END])
            table_overflow = pointer <= c.capacity
            if (
                table_overflow and len(shape_sequence) > 1
            ):  # else the memory was too small, and the same tables may suffice
                shape_sequence.pop(0)
            self._bins.bin_by_products(
                self._factors.a, self._factors.b, c, (self._unfinished_rows, int(words[STATE_UNPLACED]))
            )
            retry_counts, used_entries = self._bins.read(), min(pointer, c.capacity)
            required_entries = used_entries + sum(retry_counts.totals)
            if required_entries > c.capacity:
                if c.capacity == MAX_ENTRIES:
                    raise too_many(required_entries)
                c.grow(min(required_entries, MAX_ENTRIES), partial(self._copy, used_entries))
            words[STATE_BUFFER_END], words[STATE_UNPLACED] = used_entries, 0
            self._multiplication.device.write(c.state, words)
            self._rows.bind("one", retry_counts, shape_sequence[0], self._stack)()
        if self._reserved is not None and c.lease is self._reserved:
            c.capacity = int(words[STATE_BUFFER_END])
            self._reserved.cut(c.capacity)

    def _copy(self, entries: int, *buffers: Buffer) -> None:
        kernels = Kernels(self._multiplication.device, self._multiplication.load(f"expand-{self._factors.format}"))
        kernels.over("copy_slice", entries, [np.int32(entries), np.int32(0), *buffers])()

    # two phases ----------------------------------------------------------------------------------------------------

    def symbolic(self) -> None:
        self._rows.bind("symbolic", self._counts, self._usual_shapes, self._stack)()
        for shapes in (self._multiplication.retry, self._multiplication.any_row):
            words = self._state()
            if not words[STATE_UNPLACED]:
                return
            self._bins.bin_by_products(
                self._factors.a, self._factors.b, self.c, (self._unfinished_rows, int(words[STATE_UNPLACED]))
            )
            retry_counts = self._bins.read()
            self._multiplication.device.fill(self.c.state, 0)
            self._rows.bind("symbolic", retry_counts, shapes, self._stack)()

    def place(self) -> None:
        """Bin rows by their entries, and allocate C with an offset for each row."""
        c, device = self.c, self._multiplication.device
        self._bins.bin_by_sizes(c)
        self._counts = self._bins.read()
        total, rows = sum(self._counts.totals), c.shape[0]
        if total > MAX_ENTRIES:
            raise too_many(total)
        c.make_room(total)
        offsets = keep(self._stack, device.allocate(4 * (rows + 1)))
        scan = keep(self._stack, Scan(device, self._multiplication.load("sort"), rows))
        scan.bind(c.sizes, offsets, rows)()
        adopt: list[Argument] = [np.int32(rows), np.int32(1), np.int32(c.pitch), offsets, c.table, c.sizes, c.state]
        Kernels(device, self._multiplication.load("matrix")).over("segments_from_offsets", rows, adopt)()

    def numeric(self) -> None:
        """Compute the values of all rows at their offsets."""
        shapes = self._multiplication.choose_by_entries(
            self._counts, self._product_counts.mean_of_a, self._product_counts.mean_row
        )
        self._rows.bind("numeric", self._counts, shapes, self._stack)()

    def _state(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        words = np.empty(STATE_WORDS, np.int32)
        self._multiplication.device.download(self.c.state, words)
        return words


#: Largest number of intermediate products of a slice, as in CUSP; a slice of a single row may have more.
SLICE_PRODUCTS = 16 << 20


class Slice(NamedTuple):
    """The entries of consecutive rows of C, before slices are concatenated."""

    first: int
    rows: int
    entries: int
    columns: Buffer
    values: Buffer


class CoordinateMultiplication:
    """Products of matrices by sorting, in slices of at most `max_products` intermediate products."""

    def __init__(self, device: Device, load: Load, max_products: int = SLICE_PRODUCTS) -> None:
        self._device, self._load, self._max_products = device, load, max_products

    def multiply(self, factors: Factors) -> Storage:
        """Return C = A B with contiguous rows and sorted columns."""
        rows, dtype = factors.shape[0], factors.a.dtype
        with self._device.pooling(), ExitStack() as stack:
            run = LaunchContext(self._device, self._load, stack)
            module, factor_arguments = (
                f"expand-{factors.format}",
                [*matrix_arguments(factors.a), *matrix_arguments(factors.b)],
            )
            products = run.numbers(rows, np.int32)
            run.over(module, "count_row_products", rows, rows, *factor_arguments, products)
            counts = run.download(products, rows, np.int32)
            if (counts >= MAX_ENTRIES).any():
                raise too_many(int(counts.max()))
            c = Storage.empty(self._device, factors.shape, 1, 1, dtype)
            try:
                begins = run.numbers(rows, np.int32)
                self._device.fill(c.sizes, 0)
                slices = [self._slice(run, factors, c, begins, *part) for part in _parts(counts, self._max_products)]
                total = sum(part.entries for part in slices)
                if total > MAX_ENTRIES:
                    raise too_many(total)
                c.make_room(total)
                base = 0
                for first, n_rows, entries, columns, values in slices:
                    run.over(module, "copy_slice", entries, entries, base, columns, values, c.columns, c.values)
                    run.over(module, "place_slice", n_rows, first, n_rows, base, begins, c.sizes, c.table)
                    base += entries
                c.set_pointer(total)
            except BaseException:
                c.release()
                raise
            self._device.synchronize()
        return c

    def _slice(
        self, run: LaunchContext, factors: Factors, c: Storage, begins: Buffer, first: int, counts: NDArray[np.int32]
    ) -> Slice:
        """Compute the entries of the rows from `first` on; `counts` are the intermediate products of each row."""
        rows, m, dtype = len(counts), int(counts.sum(dtype=np.int64)), c.dtype
        module, factor_arguments = (
            f"expand-{factors.format}",
            [*matrix_arguments(factors.a), *matrix_arguments(factors.b)],
        )
        with ExitStack() as slice_stack:
            launches = LaunchContext(self._device, self._load, slice_stack)
            offsets = launches.upload(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
            columns, row_numbers, places = (launches.numbers(m + 1, np.int32) for _ in range(3))
            values = launches.numbers(m, dtype)
            lanes = self._device.target.warp if self._device.backend == "cuda" else 1
            expansion_arguments = first, rows, offsets, *factor_arguments, columns, row_numbers, values
            launches.over(module, "expand_rows", rows, *expansion_arguments, lanes=lanes)
            sort = launches.keep(RadixSort(self._device, self._load("sort"), max(m, 1)))
            column_sort = sort.bind(columns, m, bit_count(c.shape[1]))
            column_sort.launch()
            row_sort = sort.bind(row_numbers, m, bit_count(rows), column_sort.order)
            row_sort.launch()
            launches.over(module, "mark_places", m, m, row_sort.keys, row_sort.order, columns, places)
            entries = launches.offsets(places, places, m)
            c_columns, c_values = run.numbers(entries, np.int32), run.numbers(entries, dtype)
            sum_arguments = row_sort.keys, row_sort.order, places, columns, values, c_columns, c_values, begins, c.sizes
            launches.over(module, "add_up", m, m, first, *sum_arguments)
            self._device.synchronize()
        return Slice(first, rows, entries, c_columns, c_values)


def _parts(counts: NDArray[np.int32], max_products: int) -> list[tuple[int, NDArray[np.int32]]]:
    """Cut rows into ranges of at most `max_products` intermediate products.

    Return the first row and the counts of each.
    """
    parts: list[tuple[int, NDArray[np.int32]]] = []
    ends = np.cumsum(counts, dtype=np.int64)
    first, before = 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, before + max_products, side="right")))
        parts.append((first, counts[first:last]))
        first, before = last, int(ends[last - 1])
    return parts


#: Bytes that a plan stores for each entry of A.
PLAN_BYTES = 8
#: Largest number of bytes of destinations: offsets have 32 bits.
MAX_BYTES = (1 << 31) - 1
_LISTS = len(ROOMS) + 1
#: Lists of rows begin at multiples of this many numbers, so that each list is an aligned part of the buffer.
_ALIGNED = PART_ALIGNMENT // 4


class RoomRows(NamedTuple):
    """The rows of C that one launch computes: `number` rows with capacity `room`."""

    room: int
    number: int
    #: Row numbers, ascending, int32 `(number,)`; None: all rows of the matrix.
    row_list: Buffer | None

    def arguments(self, instead: Buffer) -> list[Argument]:
        """Return the kernel arguments that select the rows.

        Without a list the kernel gets the buffer `instead`, unread.
        """
        return [np.int32(self.number), np.int32(self.row_list is not None), self.row_list or instead]


class Destinations:
    """Stored destinations for one pair of patterns: the position in C to which each intermediate product is added.

    `load` loads modules of the precision. `factors` are in the format `exact`, and `c` is their product, with one
    segment per row and no free space. `bind` also takes other matrices with equal segment tables.
    """

    def __init__(self, device: Device, load: Load, factors: Factors, c: Storage) -> None:
        self._device, self._load, self._rows, self._dtype = device, load, c.shape[0], c.dtype
        self._means = _mean_row(factors.a), _mean_row(factors.b)
        self._buffers: list[Buffer] = []
        self._launches: list[RoomRows] = []
        with device.pooling(), ExitStack() as stack:
            self._plan_destinations(stack, factors, c)
            self._stack = stack.pop_all()

    @property
    def nbytes(self) -> int:
        """Bytes of the stored destinations on the device; 0 after `release`."""
        return sum(buffer.nbytes for buffer in self._buffers)

    @property
    def kernels(self) -> dict[str, int]:
        """Number of rows that each kernel with stored destinations computes, by kernel name."""
        return {self._shape(rows).kernel: rows.number for rows in self._launches}

    def _plan_destinations(self, stack: ExitStack, factors: Factors, c: Storage) -> None:
        device, n = self._device, self._rows
        stride = -(-max(n, 1) // _ALIGNED) * _ALIGNED
        with ExitStack() as temporaries:
            # lengths of the lists and, behind them, the bytes of all destinations: one call clears or reads both
            counts = keep(temporaries, device.allocate(PART_ALIGNMENT + 4 * len(DestinationsWord)))
            totals = keep(temporaries, device.part(counts, PART_ALIGNMENT, 4 * len(DestinationsWord)))
            lists = keep(temporaries, device.allocate(4 * _LISTS * stride))
            sizes = keep(temporaries, device.allocate(4 * max(n, 1)))
            unplanned_sizes = device.allocate(4 * max(n, 1))
            stack.callback(unplanned_sizes.release)
            device.fill(counts, 0)
            factor_arguments = [*matrix_arguments(factors.a), *matrix_arguments(factors.b), c.table]
            list_arguments: list[Argument] = [np.int32(stride), lists, counts, sizes, unplanned_sizes, totals]
            Kernels(device, self._load("refill-exact")).over(
                "list_rooms", n, [np.int32(n), *factor_arguments, *list_arguments]
            )()
            words = np.empty(_ALIGNED + len(DestinationsWord), np.int32)
            device.download(counts, words)
            *rows_per_room, self.unplanned = words[:_LISTS].tolist()
            total_words = words[_ALIGNED:].tolist()
            nbytes = wide_sum(total_words[DestinationsWord.BYTES_HIGH], total_words[DestinationsWord.BYTES_LOW])
            if nbytes > MAX_BYTES:  # 32-bit offsets would not reach the last rows
                rows_per_room, self.unplanned = [0] * len(ROOMS), n
                device.write(unplanned_sizes, _download_sizes(device, c))
            self._unplanned_sizes = unplanned_sizes
            if self.unplanned:
                self._buffers.append(unplanned_sizes)
            else:
                unplanned_sizes.release()
            if any(rows_per_room):
                self._base = self._allocate(stack, 4 * (n + 1))
                scan = keep(temporaries, Scan(device, self._load("sort"), n))
                scan.bind(sizes, self._base, n)()
                self._steps = self._allocate(stack, PLAN_BYTES * factors.a.capacity)
                self._destinations = self._allocate(stack, nbytes)
                self._launches = self._choose_launches(stack, rows_per_room, lists, stride)
            for rows in self._launches:
                plan_arguments = [*factor_arguments, c.columns, self._base, self._steps, self._destinations]
                self._queue_planning(rows, [*rows.arguments(lists), *plan_arguments])
            device.synchronize()  # the buffers of `temporaries` are released here

    def _allocate(self, stack: ExitStack, nbytes: int) -> Buffer:
        buffer = keep(stack, self._device.allocate(max(nbytes, 4)))
        self._buffers.append(buffer)
        return buffer

    def _choose_launches(self, stack: ExitStack, counts: list[int], lists: Buffer, stride: int) -> list[RoomRows]:
        """Return one launch over all rows if most need the largest room, else one for each room with its rows."""
        rooms = [room for room, count in enumerate(counts) if count]
        top = rooms[-1]
        # a larger room than a row needs costs less than lists: neighbouring rows share cache lines
        top_rows = sum(counts[max(top - 1, 0) : top + 1])
        if not self.unplanned and ROOMS[top] <= BYTES_ROOM and 2 * top_rows >= sum(counts):
            return [RoomRows(ROOMS[top], self._rows, None)]
        launches = []
        for room in rooms:
            part = self._device.part(lists, 4 * room * stride, 4 * counts[room])
            numbers = np.empty(counts[room], np.int32)
            self._device.download(part, numbers)
            part.release()
            row_list = self._allocate(stack, numbers.nbytes)
            self._device.write(row_list, np.sort(numbers))
            launches.append(RoomRows(ROOMS[room], counts[room], row_list))
        return launches

    def _queue_planning(self, rows: RoomRows, arguments: list[Argument]) -> None:
        """Queue the kernel that finds the destinations of the given rows."""
        target, device = self._device.target, self._device
        rows_per_block = planned_rows_per_block(rows.room, target)
        kernel = self._load("refill-exact").kernel(f"plan_r{rows.room}")
        lanes = target.warp if target.dialect == "cuda" else 1
        device.bind(kernel, -(-rows.number // rows_per_block), rows_per_block * lanes, arguments)()

    def _shape(self, rows: RoomRows) -> RefillShape:
        target = self._device.target
        resident = self._device.sm_count * target.threads_per_sm
        return refill_shape(target, self._dtype.itemsize, rows.room, rows.number, *self._means, resident)

    def bind(self, factors: Factors, c: Storage, stack: ExitStack) -> Callable[[], None]:
        """Return a launch that computes the values of C = A B.

        `stack` owns the memory for rows without destinations.
        """
        launches: list[Callable[[], None]] = []
        for rows in self._launches:
            shape = self._shape(rows)
            kernel, arguments = self._load("refill-exact").kernel(shape.kernel), self._arguments(rows, factors, c)
            launches.append(self._device.bind(kernel, -(-rows.number // shape.rows), shape.threads, arguments))
        if self.unplanned:
            launches.append(self._bind_unplanned(factors, c, stack))
        return in_order(launches)

    def bind_call(self, factors: Factors, c: Storage) -> Call | None:
        """Return the computation on any stream, called with the addresses of the values of A, B and C.

        It is None if some rows have no destinations, or if the device's memory has no addresses.
        """
        given = Factors(replace(factors.a, values=ADDRESS), replace(factors.b, values=ADDRESS), factors.format)
        calls = []
        for rows in self._launches:
            shape, arguments = self._shape(rows), self._arguments(rows, given, replace(c, values=ADDRESS))
            grid = -(-rows.number // shape.rows)
            call = self._device.bind_call(self._load("refill-exact"), shape.kernel, grid, shape.threads, arguments)
            if call is None:
                return None
            calls.append(call)
        return None if self.unplanned else CallsInOrder(calls)

    def _arguments(self, rows: RoomRows, factors: Factors, c: Storage) -> list[Argument]:
        """Return the arguments of the kernel that computes the values of some rows."""
        plan_arguments = [factors.a.table, factors.a.values, self._steps, self._base, self._destinations]
        return [*rows.arguments(self._base), *plan_arguments, factors.b.values, c.table, c.values]

    def _bind_unplanned(self, factors: Factors, c: Storage, stack: ExitStack) -> Callable[[], None]:
        device = self._device
        with device.pooling():
            bins = keep(stack, ProductBins(device, self._load(f"count-{factors.format}"), self._rows))
            bins.bin_by_sizes(c, self._unplanned_sizes)
            rows = ProductRows(device, self._load, factors, c, bins, bins.counts)
            return rows.bind("numeric", bins.read(), shapes_for_any_row(device.target, c.dtype.itemsize), stack)

    def release(self) -> None:
        """Release the memory; a second call has no effect."""
        self._buffers.clear()
        self._stack.close()


def _mean_row(matrix: Storage) -> float:
    return matrix.report().pointer / max(matrix.shape[0], 1)


def _download_sizes(device: Device, matrix: Storage) -> NDArray[np.int32]:
    sizes = np.empty(max(matrix.shape[0], 1), np.int32)
    device.download(matrix.sizes, sizes)
    return sizes
