"""Whole products in one launch and one wait, for matrices whose rows are alike and whose sizes the host knows.

No size is read before: the tables follow from the rows of both matrices, memory is a range for the most that the
product can be, and the last block tells its size, to which the range is cut. What a product of matrices of the same
sizes was like is kept for the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from repro.devices.base import PART_ALIGNMENT, Argument, Device, Kernel, OutOfDeviceMemory, Program
from repro.sparse.device_work import Load
from repro.sparse.dynamic.kernels import STATE_WORDS
from repro.sparse.dynamic.layout import MAX_ENTRIES, pitch_of
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.arena import Arena, Range
from repro.sparse.spgemm.kernels import EXPECTED, LIMITS, SINGLE_TABLES, SINGLE_WORDS, SingleShape, single_shape
from repro.sparse.spgemm.rows import Factors

#: The longest row's products, at the most, over those of the mean row.
MAX_SKEW = 16
#: Share of the device's free memory that a product may reserve.
MEMORY_SHARE = 4
#: Bytes that are reserved without a question for the free memory.
SMALL_BYTES = 1 << 28
#: Of the most entries a part is reserved besides: warps leave what is too short for their next rows.
SPARE = 4
#: Entries that a warp takes of the buffer at once.
MAX_CHUNK = 512
#: Chunks of a warp, about, in a whole product.
CHUNKS = 16
#: Products of other sizes that are kept in mind.
REMEMBERED = 256


class Sizes(NamedTuple):
    """What the host knows of two matrices."""

    rows: int
    entries: int
    longest: int
    b_rows: int
    b_entries: int
    b_longest: int
    columns: int

    @property
    def mean(self) -> float:
        """Return the expected products of a row of C."""
        return self.entries / max(self.rows, 1) * (self.b_entries / max(self.b_rows, 1))

    @property
    def products(self) -> int:
        """Return the most products of a row of C."""
        return self.longest * self.b_longest

    @property
    def entries_of_row(self) -> int:
        """Return the expected entries of the longest row of C, generously: too small a table costs a second launch."""
        at = next((bin for bin, limit in enumerate(LIMITS) if self.products <= limit), len(EXPECTED) - 1)
        return min(max(self.products * 5 // (4 * EXPECTED[at]), self.longest, self.b_longest), self.columns)


def sizes_of(factors: Factors) -> Sizes | None:
    """Return the sizes of two matrices; None where the host does not know them, or rows may have free space."""
    a, b = factors.a, factors.b
    if factors.format != "exact" or a.entries is None or a.longest is None or b.entries is None or b.longest is None:
        return None
    return Sizes(a.shape[0], a.entries, a.longest, b.shape[0], b.entries, b.longest, b.shape[1])


_kept: dict[Device, dict[int, SingleLaunch]] = {}


def single_launch(device: Device, dtype: np.dtype[np.floating]) -> SingleLaunch:
    """Return what makes products of a dtype on a device, with what is kept of earlier ones until the device closes."""
    if device not in _kept:
        _kept[device] = {}
        device.at_close(lambda: _release(device))
    of_device = _kept[device]
    if dtype.itemsize not in of_device:
        of_device[dtype.itemsize] = SingleLaunch(device, dtype)
    return of_device[dtype.itemsize]


def _release(device: Device) -> None:
    for kept in _kept.pop(device, {}).values():
        kept.release()


class SingleLaunch:
    """Products of one dtype on one device, a launch each."""

    def __init__(self, device: Device, dtype: np.dtype[np.floating]) -> None:
        self._device, self._dtype = device, dtype
        self.arena = Arena(device, dtype)
        self._words = device.allocate(4 * len(SINGLE_WORDS))
        device.fill(self._words, 0)
        self._host = device.host_words(len(SINGLE_WORDS))
        #: The longest row of products by the sizes of their factors; 0: no table holds it.
        self.longest: OrderedDict[Sizes, int] = OrderedDict()
        self._kernels: dict[tuple[Program, SingleShape], Kernel] = {}
        self._shape = lru_cache(REMEMBERED)(self._choose)

    def shape(self, sizes: Sizes) -> SingleShape | None:
        """Return the kernel for a product; None where its rows are not alike or fit no table."""
        if sizes.products >= MAX_SKEW * max(sizes.mean, 1.0) or not sizes.rows:
            return None
        longest = self.longest.get(sizes)
        if longest == 0:
            return None
        if longest is not None:
            return self._shape(sizes, longest)
        # an estimate that no table has the slots for may be too high
        guesses = (sizes.entries_of_row, *(table * 7 // 8 for table in reversed(SINGLE_TABLES)))
        return next((shape for guess in guesses if (shape := self._shape(sizes, guess)) is not None), None)

    def _choose(self, sizes: Sizes, entries: int) -> SingleShape | None:
        target = self._device.target
        resident = self._device.sm_count * target.threads_per_sm
        of_a, of_b = sizes.entries / sizes.rows, sizes.b_entries / max(sizes.b_rows, 1)
        return single_shape(target, self._dtype.itemsize, entries, sizes.rows, of_a, of_b, resident)

    def multiply(self, load: Load, factors: Factors) -> Storage | None:
        """Return C = A B with one segment a row, rows and columns in any order; None where another way has to do it."""
        sizes = sizes_of(factors)
        if sizes is None:
            return None
        for _ in range(len(SINGLE_TABLES)):
            shape = self.shape(sizes)
            bound = None if shape is None else self.bind(load, factors, sizes, shape)
            if shape is None or bound is None:
                return None
            product = self._finish(sizes, shape, *bound)
            if product is not None:
                return product
        return None

    def _finish(
        self, sizes: Sizes, shape: SingleShape, launch: Callable[[], None], c: Storage, entries_of_c: Range
    ) -> Storage | None:
        """Launch a kernel, wait and return the product; None if it does not fit, which is remembered."""
        try:
            launch()
            pointer, entries, longest, lacking, _ = self._host.read()
        except BaseException:
            c.release()
            raise
        if lacking:
            c.release()
            # of a row that its table has no room for no more is known than that
            larger = [table for table in SINGLE_TABLES if table > shape.table]
            crowded = pointer <= c.capacity and larger
            self._remember(sizes, larger[min(1, len(larger) - 1)] * 7 // 8 if crowded else 0)
            return None
        # columns are in the order of slots: the table follows from the product, whatever was known of it before
        right = self._shape(sizes, max(longest, 1))
        self._remember(sizes, 0 if right is None else max(longest, 1))
        if right != shape:
            c.release()
            return None
        entries_of_c.cut(pointer)
        c.capacity, c.entries, c.longest = pointer, entries, longest
        return c

    def bind(
        self, load: Load, factors: Factors, sizes: Sizes, shape: SingleShape
    ) -> tuple[Callable[[], None], Storage, Range] | None:
        """Return a launch of a product, the product, and the range for its entries; None without memory for it."""
        device = self._device
        blocks, chunk, capacity = self._room(sizes, shape)
        nbytes = capacity * (4 + self._dtype.itemsize)
        if capacity > MAX_ENTRIES or (nbytes > SMALL_BYTES and nbytes * MEMORY_SHARE > device.free_bytes()):
            return None
        try:
            entries_of_c = self.arena.reserve(capacity)
        except OutOfDeviceMemory:
            return None
        try:
            c = self._empty(factors, capacity, entries_of_c)
        except BaseException:
            entries_of_c.release()
            raise
        arguments: list[Argument] = [
            np.int32(sizes.rows), factors.a.table, factors.a.columns, factors.a.values, factors.b.table,
            factors.b.columns, factors.b.values, c.table, c.sizes, c.versions, c.columns, c.values, c.state,
            np.int32(capacity), np.int32(chunk), self._words, self._host.buffer,
        ]  # fmt: skip
        try:
            kernel = self._kernel(load("single-exact"), shape)
            return device.bind(kernel, blocks, shape.threads, arguments), c, entries_of_c
        except BaseException:
            c.release()
            raise

    def _room(self, sizes: Sizes, shape: SingleShape) -> tuple[int, int, int]:
        """Return the blocks of a launch, the entries that a warp takes at once, and the most that C is given."""
        device = self._device
        blocks = min(-(-sizes.rows // shape.rows), device.sm_count * shape.resident)
        warps = blocks * max(shape.threads // device.target.warp, 1)
        bound = min(sizes.entries * sizes.b_longest, sizes.rows * min(shape.table, sizes.columns, sizes.products))
        chunk = max(1, min(MAX_CHUNK, bound // (CHUNKS * warps)))
        return blocks, chunk, bound + bound // SPARE + chunk * warps

    def _kernel(self, program: Program, shape: SingleShape) -> Kernel:
        """Return a kernel, which takes a driver some time to find."""
        key = program, shape
        if key not in self._kernels:
            self._kernels[key] = program.kernel(shape.kernel)
        return self._kernels[key]

    def _remember(self, sizes: Sizes, longest: int) -> None:
        self.longest[sizes] = longest
        self.longest.move_to_end(sizes)
        while len(self.longest) > REMEMBERED:
            self.longest.popitem(last=False)

    def _empty(self, factors: Factors, capacity: int, entries: Range) -> Storage:
        """Return a matrix without places for its rows: the kernel writes all of them, and the state."""
        device, rows = self._device, factors.shape[0]
        lengths = [4 * pitch_of(rows), 4 * max(rows, 1), 4 * max(rows, 1), 4 * STATE_WORDS]
        ends = list(accumulate(-(-nbytes // PART_ALIGNMENT) * PART_ALIGNMENT for nbytes in lengths))
        with device.pooling():
            # one block, of which the table is the first part: it is released with the table
            table = device.allocate(ends[-1])
        parts = (device.part(table, begin, nbytes) for begin, nbytes in zip(ends, lengths[1:], strict=False))
        of_c = device, factors.shape, 1, capacity, self._dtype, *entries.buffers(capacity)
        return Storage(*of_c, table, *parts, lease=entries)

    def release(self) -> None:
        """Release what is kept."""
        self.arena.release()
        self._words.release()
        self._host.release()
