"""Whole products C = A B in one launch and one wait, for matrices with similar row lengths whose sizes the host knows.

The host reads no sizes before the launch: table sizes follow from the row lengths of A and B, and a memory range is
reserved for an upper bound of C's entries. The last block reports the size of C, to which the range is shortened. The
launch configuration that fitted is remembered for the next product of matrices of the same sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.devices.base import Argument, Buffer, Device, HostWords, Kernel, OutOfDeviceMemory, Program
from repro.sparse.device_primitives import Load
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import LaunchCache
from repro.sparse.spgemm.arena import Arena, Range, RowArrayPool
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.kernels import (
    EXPECTED,
    LIMITS,
    MAX_FILLED_BY_GROUPS,
    SINGLE_TABLES,
    LaunchWord,
    SingleShape,
    single_shape,
)

#: Largest ratio of the intermediate products of the longest row to those of a mean row. The limit does not apply to
#: rows of at most `SHORT_PRODUCTS` per warp: a warp adds up so many in less time than the host needs to bin rows.
MAX_SKEW, SHORT_PRODUCTS = 16, 1 << 18
#: A product may reserve 1/MEMORY_SHARE of the device's free memory.
MEMORY_SHARE = 4
#: Reservations of up to this many bytes do not ask the driver for the free memory.
SMALL_BYTES = 1 << 28
#: 1/SPARE_DIVISOR of the upper bound is reserved in addition: warps leave the ends of chunks that are too short for a
#: row.
SPARE_DIVISOR = 4
#: Largest number of entries that a warp reserves in the buffer of C at once, called a chunk.
MAX_CHUNK = 512
#: Approximate number of chunks that a warp takes in a whole product.
CHUNKS = 16
#: Number of different sizes of factors whose launch configurations are remembered.
REMEMBERED = 256


class Sizes(NamedTuple):
    """Sizes of both factors, which the host knows before their product.

    Fields without prefix are of A, except `columns`, which is of B.
    """

    rows: int
    entries: int
    longest: int
    b_rows: int
    b_entries: int
    b_longest: int
    columns: int

    @property
    def mean(self) -> float:
        """Expected number of intermediate products of a row of C."""
        return self.entries / max(self.rows, 1) * (self.b_entries / max(self.b_rows, 1))

    @property
    def products(self) -> int:
        """Upper bound of the intermediate products of a row of C."""
        return self.longest * self.b_longest

    @property
    def entries_of_row(self) -> int:
        """Upper estimate of the entries of the longest row of C: a table that is too small costs a second launch."""
        number = next((bin for bin, limit in enumerate(LIMITS) if self.products <= limit), len(EXPECTED) - 1)
        return min(max(self.products * 5 // (4 * EXPECTED[number]), self.longest, self.b_longest), self.columns)


def factor_sizes(factors: Factors) -> Sizes | None:
    """Return the sizes of two matrices; None if the host does not know them, or if rows may have free space."""
    a, b = factors.a, factors.b
    if factors.format != "exact" or a.entries is None or a.longest is None or b.entries is None or b.longest is None:
        return None
    return Sizes(a.shape[0], a.entries, a.longest, b.shape[0], b.entries, b.longest, b.shape[1])


_single_launches: dict[Device, dict[int, SingleLaunch]] = {}


def single_launch(device: Device, dtype: np.dtype[np.floating]) -> SingleLaunch:
    """Return the object for one-launch products on a device.

    It is created once per dtype and released with the device.
    """
    if device not in _single_launches:
        _single_launches[device] = {}
        device.at_close(lambda: _release(device))
    device_launches = _single_launches[device]
    if dtype.itemsize not in device_launches:
        device_launches[dtype.itemsize] = SingleLaunch(device, dtype)
    return device_launches[dtype.itemsize]


def trim_products(device: Device) -> None:
    """Release the cached memory for products on a device, except memory in use by matrices."""
    for launch in _single_launches.get(device, {}).values():
        launch.trim()


def _release(device: Device) -> None:
    for launch in _single_launches.pop(device, {}).values():
        launch.release()


class SingleConfiguration(NamedTuple):
    """Launch configuration and memory of a product of certain sizes."""

    shape: SingleShape
    #: Number of entries of the longest row of C that the table has to hold.
    longest: int
    blocks: int
    #: Number of entries that a warp reserves in the buffer of C at once.
    chunk: int
    #: Number of entries that are allocated for C.
    capacity: int


class Reserved(NamedTuple):
    """A product whose kernel was not launched yet, the range that holds its entries, and the kernel's arguments."""

    c: Storage
    entries: Range
    arguments: list[Argument]


class SingleLaunch:
    """One-launch products of one dtype on one device, with the memory that they share."""

    def __init__(self, device: Device, dtype: np.dtype[np.floating]) -> None:
        self._device, self._dtype = device, dtype
        self.arena, self.row_arrays = Arena(device, dtype), RowArrayPool(device)
        #: Device counters of the blocks, and host-visible words in which the kernel reports them; allocated at the
        #: first launch.
        self._counters: tuple[Buffer, HostWords] | None = None
        #: Configuration by the sizes of the factors, least recently used first; None: a single launch is not possible.
        self._configurations: OrderedDict[Sizes, SingleConfiguration | None] = OrderedDict()
        self._kernels: dict[tuple[Program, str], Kernel] = {}
        self._launches = LaunchCache(device)

    def configuration(self, sizes: Sizes) -> SingleConfiguration | None:
        """Return the launch configuration for factors of these sizes.

        It returns None if row lengths differ too much or fit no table.
        """
        configuration = (
            self._configurations[sizes] if sizes in self._configurations else self._estimate_configuration(sizes)
        )
        self._remember(sizes, configuration)
        return configuration

    def _estimate_configuration(self, sizes: Sizes) -> SingleConfiguration | None:
        """Return a configuration for the estimated longest row of C; None if row lengths differ too much."""
        shape = self._shape(sizes, 1) if sizes.rows else None
        if shape is None or sizes.products >= max(MAX_SKEW * sizes.mean, SHORT_PRODUCTS * shape.warps):
            return None
        # if no table holds the estimate, the estimate may be too high: try the table sizes, largest first
        estimates = (sizes.entries_of_row, *(int(table * MAX_FILLED_BY_GROUPS) for table in reversed(SINGLE_TABLES)))
        return next(
            (
                configuration
                for longest in estimates
                if (configuration := self._configure_longest(sizes, longest)) is not None
            ),
            None,
        )

    def _configure_longest(self, sizes: Sizes, longest: int) -> SingleConfiguration | None:
        """Return a configuration for rows of C of up to `longest` entries; None if no table holds them."""
        shape = self._shape(sizes, longest)
        return None if shape is None else self._configure_shape(sizes, shape, longest)

    def _shape(self, sizes: Sizes, entries: int) -> SingleShape | None:
        target = self._device.target
        resident = self._device.sm_count * target.threads_per_sm
        mean_row_of_a, mean_row_of_b = sizes.entries / sizes.rows, sizes.b_entries / max(sizes.b_rows, 1)
        return single_shape(target, self._dtype.itemsize, entries, sizes.rows, mean_row_of_a, mean_row_of_b, resident)

    def multiply(self, load: Load, factors: Factors) -> Storage | None:
        """Return C = A B with one segment per row, rows and columns in any order.

        It returns None if a single launch is not possible.
        """
        sizes = factor_sizes(factors)
        if sizes is None:
            return None
        for _ in range(len(SINGLE_TABLES)):
            configuration = self.configuration(sizes)
            reserved = None if configuration is None else self._reserve(factors, configuration)
            if configuration is None or reserved is None:
                return None
            product = self._run(load("single-exact"), sizes, configuration, reserved)
            if product is not None:
                return product
        return None

    def _run(
        self, program: Program, sizes: Sizes, configuration: SingleConfiguration, reserved: Reserved
    ) -> Storage | None:
        """Launch a kernel, wait and return the product.

        If it does not fit, remember a better configuration and return None.
        """
        c, entries_of_c, arguments = reserved
        shape = configuration.shape
        try:
            shared = shape.dynamic_bytes(self._dtype.itemsize)
            self._launches.queue(program, shape.kernel, configuration.blocks, shape.threads, arguments, shared)
            words = self._launch_counters()[1].read()
        except BaseException:
            c.release()
            raise
        buffer_end, longest = words[LaunchWord.BUFFER_END], words[LaunchWord.LARGEST]
        if words[LaunchWord.LACKING]:
            c.release()
            # a row that overflows its table only shows that it needs a larger one
            larger = [table for table in SINGLE_TABLES if table > configuration.shape.table]
            table_overflow = buffer_end <= c.capacity and larger
            retry_longest = int(larger[min(2, len(larger) - 1)] * MAX_FILLED_BY_GROUPS) if table_overflow else 0
            self._remember(sizes, self._configure_longest(sizes, retry_longest) if retry_longest else None)
            return None
        if longest != configuration.longest:
            # table size fixes the column order within rows: use the table for C's size, so that results do not depend
            # on history
            final_configuration = self._configure_longest(sizes, max(longest, 1))
            self._remember(sizes, final_configuration)
            if final_configuration is None or final_configuration.shape != configuration.shape:
                c.release()
                return None
        entries_of_c.cut(buffer_end)
        # the last chunk of a warp may reach past the allocated memory, though its rows do not
        c.capacity = min(buffer_end, configuration.capacity)
        c.entries, c.longest = words[LaunchWord.ENTRIES], longest
        return c

    def bind(
        self, load: Load, factors: Factors, configuration: SingleConfiguration
    ) -> tuple[Callable[[], None], Storage, Range] | None:
        """Return a launch of a product, the product, and the memory range of its entries.

        It returns None if memory does not suffice.
        """
        reserved = self._reserve(factors, configuration)
        if reserved is None:
            return None
        c, entries_of_c, arguments = reserved
        try:
            kernel = self._kernel(load("single-exact"), configuration.shape)
            launch = self._device.bind(kernel, configuration.blocks, configuration.shape.threads, arguments)
        except BaseException:
            c.release()
            raise
        return launch, c, entries_of_c

    def _reserve(self, factors: Factors, configuration: SingleConfiguration) -> Reserved | None:
        """Return memory for a product and the kernel's arguments; None if memory does not suffice."""
        capacity = configuration.capacity
        nbytes = capacity * (4 + self._dtype.itemsize)
        if capacity > MAX_ENTRIES or not self.affords(nbytes):
            return None
        try:
            entries_of_c = self.arena.reserve(capacity)
        except OutOfDeviceMemory:
            return None
        try:
            c = self._empty(factors, configuration, entries_of_c)
        except BaseException:
            entries_of_c.release()
            raise
        a, b = factors.a, factors.b
        words, host = self._launch_counters()
        return Reserved(c, entries_of_c, [
            np.int32(a.shape[0]), a.table, a.columns, a.values, b.table, b.columns, b.values, c.table, c.sizes,
            c.versions, c.columns, c.values, c.state, np.int32(capacity),
            np.int32(configuration.chunk), words, host.buffer,
        ])  # fmt: skip

    def affords(self, nbytes: int) -> bool:
        """Return whether a product may reserve `nbytes` bytes.

        Small reservations do not ask the driver, because that takes longer than a small product.
        """
        if nbytes <= SMALL_BYTES or nbytes <= self._device.pooled_bytes():
            return True
        return nbytes * MEMORY_SHARE <= self._device.free_bytes()

    def _configure_shape(self, sizes: Sizes, shape: SingleShape, longest: int) -> SingleConfiguration:
        """Return the configuration of a given kernel: number of blocks, chunk size and capacity of C."""
        device, rows = self._device, sizes.rows
        bound = min(sizes.entries * sizes.b_longest, rows * min(shape.table, sizes.columns, sizes.products))
        if shape.warps > 1:  # each block has one row, and reserves exactly its entries
            return SingleConfiguration(shape, longest, rows, 0, bound)
        blocks = min(-(-rows // shape.rows), device.sm_count * shape.blocks_per_sm)
        warps = blocks * max(shape.threads // device.target.warp, 1)
        chunk = max(1, min(MAX_CHUNK, bound // (CHUNKS * warps)))
        capacity = bound + bound // SPARE_DIVISOR + chunk * warps
        return SingleConfiguration(shape, longest, blocks, chunk, capacity)

    def _kernel(self, program: Program, shape: SingleShape) -> Kernel:
        """Return a kernel from the cache, as the driver takes some time to find one."""
        key = program, shape.kernel
        if key not in self._kernels:
            self._kernels[key] = program.kernel(shape.kernel, shape.dynamic_bytes(self._dtype.itemsize))
        return self._kernels[key]

    def _remember(self, sizes: Sizes, configuration: SingleConfiguration | None) -> None:
        self._configurations[sizes] = configuration
        self._configurations.move_to_end(sizes)
        while len(self._configurations) > REMEMBERED:
            self._configurations.popitem(last=False)

    def _launch_counters(self) -> tuple[Buffer, HostWords]:
        if self._counters is None:
            words = self._device.allocate(4 * len(LaunchWord))
            self._device.fill(words, 0)
            self._counters = words, self._device.host_words(len(LaunchWord))
        return self._counters

    def _empty(self, factors: Factors, configuration: SingleConfiguration, entries: Range) -> Storage:
        """Return an uninitialised matrix for C: the kernel writes all segments, sizes and words of state."""
        arrays = self.row_arrays.take(factors.shape[0])
        capacity = configuration.capacity
        storage_arguments = self._device, factors.shape, 1, capacity, self._dtype, *entries.buffers(capacity)
        return Storage(*storage_arguments, *arrays.parts, lease=entries, lease_of_rows=arrays)

    def trim(self) -> None:
        """Release the memory blocks that no matrix uses."""
        self.arena.trim()
        self.row_arrays.clear()

    def release(self) -> None:
        """Release all memory and kernels."""
        self.trim()
        self._launches.release()
        self.arena.release()
        if self._counters is not None:
            for counters in self._counters:
                counters.release()
            self._counters = None
