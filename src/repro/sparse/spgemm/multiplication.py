"""Sparse matrix products C = A B on a device: row by row, and by expansion, sorting and compression.

The row sizes of C are unknown beforehand. In one phase a row is computed in shared memory and stored in a newly
allocated segment (King 2017, section 6.1), so C is dynamic CSR with rows in any order. In two phases sizes come
first, and rows are contiguous; the second phase can be repeated for other values.

`CoordinateMultiplication` writes all products to memory, sorts and adds them, in slices: the baseline of King 2017,
section 6.1, from CUSP (Bell, Dalton, Olson 2012).

The numeric phase by stored destinations knows of each product the place in C's row that it is added to. Rows of C are
listed by their rooms, a launch each; where most rows have one or two rooms, one launch takes all of them in the order
of the matrix. Rows that are too long for a plan are computed by hash tables, as without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, OutOfDeviceMemory
from repro.sparse.device_primitives import Launches, Load, RadixSort, Scan, bits_of, keep
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.kernels import STATE_BUFFER_END, STATE_UNPLACED, STATE_WORDS
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, in_order
from repro.sparse.spgemm.arena import Range
from repro.sparse.spgemm.binned_rows import (
    MIN_PRODUCTS,
    BinCounts,
    BinShapes,
    Factors,
    ProductBins,
    ProductRows,
    RowDemand,
    arguments_of,
    expected_entries,
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
    refill_shape,
    rows_that_plan,
)
from repro.sparse.spgemm.one_launch import SingleLaunch, single_launch

#: Steps of a product in one phase and in two.
ONE_PHASE = ("count", "compute", "settle")
TWO_PHASES = ("count", "symbolic", "place", "numeric")


class Multiplication:
    """Products of matrices of one dtype on a device.

    `load` loads modules of the precision: those of `repro.sparse.spgemm.kernels.MODULES`, `matrix` and `sort`.
    `by_products` and `by_entries` have kernels for rows binned so; None: chosen by a sample or by expectation.
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
        #: Shapes for rows binned by products, and for rows binned by entries; None: chosen for each product.
        self.by_products, self.by_entries = by_products, by_entries
        #: Shapes for rows that had no room in their first table.
        self.retry = retry_shapes(device.target, scalar_bytes)
        #: Shapes for rows that have no room in that one either, or of which nothing is known: any row fits.
        self.any_row = shapes_for_any_row(device.target, scalar_bytes)

    def choose_by_entries(self, counts: BinCounts, mean_row_of_a: float, mean_row_of_b: float) -> BinShapes:
        """Return shapes for rows binned by entries; see `spread`."""
        fitting = shapes_by_entries(self.device.target, self._scalar_bytes, counts.largest)
        if counts.differ:
            fitting = shapes_by_bounds(self.device.target, self._scalar_bytes, counts, MAX_ENTRIES)
        return self.by_entries or self.spread(fitting, counts, mean_row_of_a, mean_row_of_b)

    def spread(self, shapes: BinShapes, counts: BinCounts, mean_row_of_a: float, mean_row_of_b: float) -> BinShapes:
        """Return shapes with more lanes for few rows, for mean row lengths of A and B."""
        lanes = self.device.sm_count * self.device.target.threads_per_sm
        return spread_out(
            shapes, self.device.target, self._scalar_bytes, RowDemand(counts.rows, lanes, mean_row_of_a, mean_row_of_b)
        )

    def in_one_phase(self, factors: Factors, segments: int = 1) -> Storage:
        """Return C = A B with one segment a row and no free space in it; order of rows and columns is undefined.

        Rows of C may grow to `segments` segments later. Too many entries for offsets raise `ReproError`.
        """
        with self.steps(factors, ONE_PHASE, segments) as steps:
            return steps.run()

    def in_two_phases(self, factors: Factors) -> Storage:
        """Return C = A B with contiguous rows, columns in any order."""
        with self.steps(factors, TWO_PHASES) as product:
            return product.run()

    def in_one_launch(self, factors: Factors) -> Storage | None:
        """Return C = A B as in one phase, where rows are alike and the host knows their sizes; else None."""
        if self.device.backend != "cuda":
            return None
        return single_launch(self.device, factors.a.dtype).multiply(self.load, factors)

    def whole(self, factors: Factors) -> Storage:
        """Return C = A B in one launch where that is possible, else in one phase."""
        product = self.in_one_launch(factors)
        return self.in_one_phase(factors) if product is None else product

    @contextmanager
    def steps(self, factors: Factors, names: tuple[str, ...], segments: int = 1) -> Iterator[Steps]:
        """Yield the steps of a product, `ONE_PHASE` or `TWO_PHASES`; the caller owns C unless the body fails."""
        with self.device.pooling(), ExitStack() as stack:
            c = Storage.empty(self.device, factors.shape, segments, 1, factors.a.dtype)
            try:
                yield Steps(self, factors, names, c, stack)
            except BaseException:
                c.release()
                raise

    @contextmanager
    def refilled(self, factors: Factors, c: Storage) -> Iterator[Callable[[], None]]:
        """Yield a launch of C = A B into a product of factors with the same patterns."""
        with self.device.pooling(), ExitStack() as stack:
            bins = keep(stack, ProductBins(self.device, self.load(f"count-{factors.format}"), c.shape[0]))
            bins.by_sizes(c)
            rows = ProductRows(self.device, self.load, factors, c, bins, bins.counts)
            counts = bins.read()
            means = (matrix.report().pointer / max(matrix.shape[0], 1) for matrix in (factors.a, factors.b))
            yield rows.bind("numeric", counts, self.choose_by_entries(counts, *means), stack)
            self.device.synchronize()


class Steps:
    """The steps of one product, to be taken in order; `c` is complete after the last one."""

    def __init__(
        self, multiplication: Multiplication, factors: Factors, names: tuple[str, ...], c: Storage, stack: ExitStack
    ) -> None:
        self._multiplication, self._factors, self._names, self.c, self._stack = multiplication, factors, names, c, stack
        self._bins = keep(
            stack, ProductBins(multiplication.device, multiplication.load(f"count-{factors.format}"), factors.shape[0])
        )
        self._left = keep(stack, multiplication.device.allocate(4 * self._bins.stride))
        self._rows = ProductRows(multiplication.device, multiplication.load, factors, c, self._bins, self._left)
        self._counts = self._products = BinCounts((), (), ())
        self._expected = 0
        #: The most entries that C can have, where tables and memory are made for that; else 0.
        self._bound = 0
        self._reserved: Range | None = None
        self._usual = multiplication.by_products or multiplication.any_row

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
        self._bins.by_products(factors.a, factors.b, c)
        counts = self._counts = self._products = self._bins.read()
        target, number = multiplication.device.target, c.dtype.itemsize
        usual = multiplication.by_products
        if usual is None and counts.differ:
            usual = self._spread(shapes_by_bounds(target, number, counts, c.shape[1]), counts)
            self._bound = counts.bound(c.shape[1])
        if sum(counts.totals) < MIN_PRODUCTS:
            self._expected = min(sum(expected_entries(counts)), MAX_ENTRIES)
            by_estimate = shapes_by_products(target, number, largest=counts.largest, mean_row=counts.mean_row)
            self._usual = usual or self._spread(by_estimate, counts)
            return
        if usual is not None and self._affords(self._bound):
            self._expected, self._usual = self._bound, usual
            return
        sample = take_sample(multiplication.device, multiplication.load, factors, c, self._bins, counts)
        self._expected = min(sample.entries_of(counts), MAX_ENTRIES)
        self._usual = usual or self._spread(sample.shapes(target, number), counts)

    def _affords(self, entries: int) -> bool:
        """Return whether memory for `entries` entries can be reserved; False for 0 entries."""
        of_entry = COLUMN_BYTES + self.c.dtype.itemsize
        return 0 < entries <= MAX_ENTRIES and self._kept.affords(entries * of_entry)

    @property
    def _kept(self) -> SingleLaunch:
        """Cached memory of earlier products, whose arena a product by bins shares."""
        return single_launch(self._multiplication.device, self._factors.a.dtype)

    def _spread(self, shapes: BinShapes, counts: BinCounts) -> BinShapes:
        return self._multiplication.spread(shapes, counts, self._products.mean_of_a, self._products.mean_row)

    # one phase -----------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Compute rows into newly allocated segments, in memory of the expected size, or for the most that C can be."""
        if not self._reserve():
            self.c.make_room(self._expected)
        self._multiplication.device.fill(self.c.state, 0)
        self._rows.bind("one", self._counts, self._usual, self._stack)()

    def _reserve(self) -> bool:
        """Take memory of the arena for the most that C can be, where that is known; return False without."""
        if not self._affords(self._bound):
            return False
        try:
            self._reserved = self._kept.arena.reserve(self._bound)
        except OutOfDeviceMemory:
            return False
        self.c.move(self._reserved, *self._reserved.buffers(self._bound), self._bound)
        return True

    def settle(self) -> None:
        """Compute rows that did not fit into their table or into memory, and give back what C does not need."""
        c, tried = self.c, [self._usual, self._multiplication.retry, self._multiplication.any_row]
        while (words := self._state())[STATE_UNPLACED]:
            pointer = int(words[STATE_BUFFER_END])
            crowded = pointer <= c.capacity
            if crowded and len(tried) > 1:  # otherwise memory was too small, and the same tables may suffice
                tried.pop(0)
            self._bins.by_products(self._factors.a, self._factors.b, c, (self._left, int(words[STATE_UNPLACED])))
            again, used = self._bins.read(), min(pointer, c.capacity)
            needed = used + sum(again.totals)
            if needed > c.capacity:
                if c.capacity == MAX_ENTRIES:
                    raise too_many(needed)
                c.grow(min(needed, MAX_ENTRIES), partial(self._copy, used))
            words[STATE_BUFFER_END], words[STATE_UNPLACED] = used, 0
            self._multiplication.device.write(c.state, words)
            self._rows.bind("one", again, tried[0], self._stack)()
        if self._reserved is not None and c.lease is self._reserved:
            c.capacity = int(words[STATE_BUFFER_END])
            self._reserved.cut(c.capacity)

    def _copy(self, entries: int, *buffers: Buffer) -> None:
        kernels = Kernels(self._multiplication.device, self._multiplication.load(f"expand-{self._factors.format}"))
        kernels.over("copy_slice", entries, [np.int32(entries), np.int32(0), *buffers])()

    # two phases ----------------------------------------------------------------------------------------------------

    def symbolic(self) -> None:
        self._rows.bind("symbolic", self._counts, self._usual, self._stack)()
        for shapes in (self._multiplication.retry, self._multiplication.any_row):
            words = self._state()
            if not words[STATE_UNPLACED]:
                return
            self._bins.by_products(self._factors.a, self._factors.b, self.c, (self._left, int(words[STATE_UNPLACED])))
            again = self._bins.read()
            self._multiplication.device.fill(self.c.state, 0)
            self._rows.bind("symbolic", again, shapes, self._stack)()

    def place(self) -> None:
        """Bin rows by size, and allocate C with an offset for each row."""
        c, device = self.c, self._multiplication.device
        self._bins.by_sizes(c)
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
        """Compute rows at their offsets."""
        shapes = self._multiplication.choose_by_entries(self._counts, self._products.mean_of_a, self._products.mean_row)
        self._rows.bind("numeric", self._counts, shapes, self._stack)()

    def _state(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        words = np.empty(STATE_WORDS, np.int32)
        self._multiplication.device.download(self.c.state, words)
        return words


#: Limit of a slice in products, as in CUSP; a single row may have more.
SLICE_PRODUCTS = 16 << 20


class Slice(NamedTuple):
    """The entries of some rows of C before concatenation."""

    first: int
    rows: int
    entries: int
    columns: Buffer
    values: Buffer


class CoordinateMultiplication:
    """Products of matrices by sorting, in slices of at most `max_products` products."""

    def __init__(self, device: Device, load: Load, max_products: int = SLICE_PRODUCTS) -> None:
        self._device, self._load, self._max_products = device, load, max_products

    def multiply(self, factors: Factors) -> Storage:
        """Return C = A B with contiguous rows and sorted columns."""
        rows, dtype = factors.shape[0], factors.a.dtype
        with self._device.pooling(), ExitStack() as stack:
            run = Launches(self._device, self._load, stack)
            module, given = f"expand-{factors.format}", [*arguments_of(factors.a), *arguments_of(factors.b)]
            products = run.numbers(rows, np.int32)
            run.over(module, "count_row_products", rows, rows, *given, products)
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
                for first, of_slice, entries, columns, values in slices:
                    run.over(module, "copy_slice", entries, entries, base, columns, values, c.columns, c.values)
                    run.over(module, "place_slice", of_slice, first, of_slice, base, begins, c.sizes, c.table)
                    base += entries
                c.set_pointer(total)
            except BaseException:
                c.release()
                raise
            self._device.synchronize()
        return c

    def _slice(
        self, run: Launches, factors: Factors, c: Storage, begins: Buffer, first: int, counts: NDArray[np.int32]
    ) -> Slice:
        """Return the entries of rows from `first` on, given their product counts."""
        rows, m, dtype = len(counts), int(counts.sum(dtype=np.int64)), c.dtype
        module, given = f"expand-{factors.format}", [*arguments_of(factors.a), *arguments_of(factors.b)]
        with ExitStack() as of_slice:
            own = Launches(self._device, self._load, of_slice)
            offsets = own.upload(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
            columns, row_of, places = (own.numbers(m + 1, np.int32) for _ in range(3))
            values = own.numbers(m, dtype)
            lanes = self._device.target.warp if self._device.backend == "cuda" else 1
            expanded = first, rows, offsets, *given, columns, row_of, values
            own.over(module, "expand_rows", rows, *expanded, lanes=lanes)
            sort = own.keep(RadixSort(self._device, self._load("sort"), max(m, 1)))
            by_column = sort.bind(columns, m, bits_of(c.shape[1]))
            by_column.launch()
            by_row = sort.bind(row_of, m, bits_of(rows), by_column.order)
            by_row.launch()
            own.over(module, "mark_places", m, m, by_row.keys, by_row.order, columns, places)
            entries = own.offsets(places, places, m)
            c_columns, c_values = run.numbers(entries, np.int32), run.numbers(entries, dtype)
            added = by_row.keys, by_row.order, places, columns, values, c_columns, c_values, begins, c.sizes
            own.over(module, "add_up", m, m, first, *added)
            self._device.synchronize()
        return Slice(first, rows, entries, c_columns, c_values)


def _parts(counts: NDArray[np.int32], max_products: int) -> list[tuple[int, NDArray[np.int32]]]:
    """Return ranges of rows with at most `max_products` products together: first row, and counts."""
    parts: list[tuple[int, NDArray[np.int32]]] = []
    ends = np.cumsum(counts, dtype=np.int64)
    first, before = 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, before + max_products, side="right")))
        parts.append((first, counts[first:last]))
        first, before = last, int(ends[last - 1])
    return parts


#: Bytes that a plan keeps for each entry of A.
PLAN_BYTES = 8
#: Bytes of destinations that 32-bit offsets can address.
MAX_BYTES = (1 << 31) - 1
_LISTS = len(ROOMS) + 1
#: Lists of rows begin at multiples of this many numbers, the alignment of parts of a buffer.
_ALIGNED = PART_ALIGNMENT // 4


class RoomRows(NamedTuple):
    """The rows of one launch."""

    room: int
    number: int
    #: Which they are, ascending, int32 `(number,)`; None: all rows of the matrix.
    listed: Buffer | None

    def arguments(self, instead: Buffer) -> list[Argument]:
        """Return the arguments that name the rows; without a list another buffer stands there, which is not read."""
        return [np.int32(self.number), np.int32(self.listed is not None), self.listed or instead]


class Destinations:
    """Where each product of C = A B is added to, for one pattern of each matrix.

    `load` loads modules of the precision. `factors` are in the format `exact`, and `c` is their product, with one
    segment a row and no free space. Other matrices may take their places later, if their tables are the same.
    """

    def __init__(self, device: Device, load: Load, factors: Factors, c: Storage) -> None:
        self._device, self._load, self._rows, self._dtype = device, load, c.shape[0], c.dtype
        self._means = _mean_row(factors.a), _mean_row(factors.b)
        self._kept: list[Buffer] = []
        self._launches: list[RoomRows] = []
        with device.pooling(), ExitStack() as stack:
            self._make(stack, factors, c)
            self._stack = stack.pop_all()

    @property
    def nbytes(self) -> int:
        """Bytes of the plan on the device."""
        return sum(buffer.nbytes for buffer in self._kept)

    @property
    def kernels(self) -> dict[str, int]:
        """Number of rows of each kernel that adds to stored destinations."""
        return {self._shape(rows).kernel: rows.number for rows in self._launches}

    def _make(self, stack: ExitStack, factors: Factors, c: Storage) -> None:
        device, n = self._device, self._rows
        stride = -(-max(n, 1) // _ALIGNED) * _ALIGNED
        with ExitStack() as passing:
            # rows of each list and, behind them, the bytes of all destinations: one call clears or reads both
            counts = keep(passing, device.allocate(PART_ALIGNMENT + 4 * len(DestinationsWord)))
            totals = keep(passing, device.part(counts, PART_ALIGNMENT, 4 * len(DestinationsWord)))
            lists = keep(passing, device.allocate(4 * _LISTS * stride))
            sizes = keep(passing, device.allocate(4 * max(n, 1)))
            unplanned = device.allocate(4 * max(n, 1))
            stack.callback(unplanned.release)
            device.fill(counts, 0)
            given = [*arguments_of(factors.a), *arguments_of(factors.b), c.table]
            own: list[Argument] = [np.int32(stride), lists, counts, sizes, unplanned, totals]
            Kernels(device, self._load("refill-exact")).over("list_rooms", n, [np.int32(n), *given, *own])()
            words = np.empty(_ALIGNED + len(DestinationsWord), np.int32)
            device.download(counts, words)
            *of_rooms, self.unplanned = words[:_LISTS].tolist()
            of_all = words[_ALIGNED:].tolist()
            nbytes = wide_sum(of_all[DestinationsWord.BYTES_HIGH], of_all[DestinationsWord.BYTES_LOW])
            if nbytes > MAX_BYTES:  # offsets would not reach the last rows
                of_rooms, self.unplanned = [0] * len(ROOMS), n
                device.write(unplanned, _sizes_of(device, c))
            self._unplanned = unplanned
            if self.unplanned:
                self._kept.append(unplanned)
            else:
                unplanned.release()
            if any(of_rooms):
                self._base = self._keep(stack, 4 * (n + 1))
                scan = keep(passing, Scan(device, self._load("sort"), n))
                scan.bind(sizes, self._base, n)()
                self._steps = self._keep(stack, PLAN_BYTES * factors.a.capacity)
                self._destinations = self._keep(stack, nbytes)
                self._launches = self._list(stack, of_rooms, lists, stride)
            for rows in self._launches:
                found = [*given, c.columns, self._base, self._steps, self._destinations]
                self._find(rows, [*rows.arguments(lists), *found])
            device.synchronize()  # what is passed on is released here

    def _keep(self, stack: ExitStack, nbytes: int) -> Buffer:
        buffer = keep(stack, self._device.allocate(max(nbytes, 4)))
        self._kept.append(buffer)
        return buffer

    def _list(self, stack: ExitStack, counts: list[int], lists: Buffer, stride: int) -> list[RoomRows]:
        """Choose between one launch over all rows and one for each room, with a list of its rows."""
        used = [room for room, count in enumerate(counts) if count]
        top = used[-1]
        # shorter rows in a larger room cost less than lists: rows side by side share lines
        most = sum(counts[max(top - 1, 0) : top + 1])
        if not self.unplanned and ROOMS[top] <= BYTES_ROOM and 2 * most >= sum(counts):
            return [RoomRows(ROOMS[top], self._rows, None)]
        launches = []
        for room in used:
            part = self._device.part(lists, 4 * room * stride, 4 * counts[room])
            numbers = np.empty(counts[room], np.int32)
            self._device.download(part, numbers)
            part.release()
            listed = self._keep(stack, numbers.nbytes)
            self._device.write(listed, np.sort(numbers))
            launches.append(RoomRows(ROOMS[room], counts[room], listed))
        return launches

    def _find(self, rows: RoomRows, arguments: list[Argument]) -> None:
        """Queue the kernel that finds the destinations of some rows."""
        target, device = self._device.target, self._device
        per_block = rows_that_plan(rows.room, target)
        kernel = self._load("refill-exact").kernel(f"plan_r{rows.room}")
        lanes = target.warp if target.dialect == "cuda" else 1
        device.bind(kernel, -(-rows.number // per_block), per_block * lanes, arguments)()

    def _shape(self, rows: RoomRows) -> RefillShape:
        target = self._device.target
        resident = self._device.sm_count * target.threads_per_sm
        return refill_shape(target, self._dtype.itemsize, rows.room, rows.number, *self._means, resident)

    def bind(self, factors: Factors, c: Storage, stack: ExitStack) -> Callable[[], None]:
        """Return a launch of the values of C = A B; `stack` releases working memory for rows without destinations."""
        launches: list[Callable[[], None]] = []
        for rows in self._launches:
            shape = self._shape(rows)
            kernel = self._load("refill-exact").kernel(shape.kernel)
            given: list[Argument] = [factors.a.table, factors.a.values, self._steps, self._base, self._destinations]
            arguments = [*rows.arguments(self._base), *given, factors.b.values, c.table, c.values]
            launches.append(self._device.bind(kernel, -(-rows.number // shape.rows), shape.threads, arguments))
        if self.unplanned:
            launches.append(self._bind_unplanned(factors, c, stack))
        return in_order(launches)

    def _bind_unplanned(self, factors: Factors, c: Storage, stack: ExitStack) -> Callable[[], None]:
        device = self._device
        with device.pooling():
            bins = keep(stack, ProductBins(device, self._load(f"count-{factors.format}"), self._rows))
            bins.by_sizes(c, self._unplanned)
            rows = ProductRows(device, self._load, factors, c, bins, bins.counts)
            return rows.bind("numeric", bins.read(), shapes_for_any_row(device.target, c.dtype.itemsize), stack)

    def release(self) -> None:
        """Release the memory; a second call has no effect."""
        self._stack.close()


def _mean_row(matrix: Storage) -> float:
    return matrix.report().pointer / max(matrix.shape[0], 1)


def _sizes_of(device: Device, matrix: Storage) -> NDArray[np.int32]:
    sizes = np.empty(max(matrix.shape[0], 1), np.int32)
    device.download(matrix.sizes, sizes)
    return sizes
