"""A dynamic matrix in device memory, and batches of entries in an order of processing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

import numpy as np

from repro.devices.base import Block, Buffer, Device, allocate_parts
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.host_layout import Arrays, table_pitch
from repro.sparse.dynamic.kernels import Report


@dataclass(frozen=True)
class EntryBatch:
    """A batch of entries on a device: rows, columns and values."""

    count: int
    #: Row and column of each entry, int32 `(count,)` each.
    rows: Buffer
    columns: Buffer
    #: Floating `(count,)`; None if entries are deleted.
    values: Buffer | None = None
    #: Whether entries of equal rows follow each other, as in a batch sorted by row.
    grouped: bool = False
    #: Whether later batches of this size lie in the same buffers, so that their launches are kept.
    in_own_memory: bool = False


@dataclass(frozen=True)
class SortedBatch:
    """Entries of a batch, ordered so that entries of the same row are adjacent."""

    count: int
    #: Row of each entry in the sorted order, int32 `(count,)`.
    rows: Buffer
    #: Index in the batch of each sorted entry, int32 `(count,)`; None: the batch has this order already.
    order: Buffer | None = None
    #: Columns in the sorted order, sorted by hash within a row; None if columns of a row are unsorted.
    columns: Buffer | None = None


class Lease(Protocol):
    """A part of a larger block of memory, which is returned to its owner by `release`."""

    def release(self) -> None: ...


class _Nothing:
    """A stand-in for memory that could not be allocated."""

    nbytes = 0

    def release(self) -> None: ...


def allocate_row_arrays(device: Device, rows: int, segments: int = 1) -> tuple[Block, list[Buffer]]:
    """Allocate the arrays with one element per row in one block; return the block and its parts.

    The parts are table, sizes, versions and state.
    """
    sizes = 4 * segments * table_pitch(rows), 4 * rows, 4 * rows, 4 * kernels.STATE_WORDS
    return allocate_parts(device, [max(nbytes, 4) for nbytes in sizes])


def _allocate_entries(
    device: Device, capacity: int, dtype: np.dtype[np.floating], allocations: ExitStack
) -> tuple[Buffer, Buffer]:
    """Allocate columns and values for `capacity` entries, at least one; `allocations` releases them."""
    columns = device.allocate(4 * max(capacity, 1))
    allocations.callback(columns.release)
    values = device.allocate(dtype.itemsize * max(capacity, 1))
    allocations.callback(values.release)
    return columns, values


@dataclass
class Storage:
    """The arrays of `repro.sparse.dynamic.host_layout.Arrays` on a device, and the state of the matrix."""

    device: Device
    shape: tuple[int, int]
    segments: int
    capacity: int
    dtype: np.dtype[np.floating]
    columns: Buffer
    values: Buffer
    table: Buffer
    sizes: Buffer
    #: int32 `(rows,)`: odd while an operation changes the row other than by appending to it.
    versions: Buffer
    #: State words, int32 `(STATE_WORDS,)`.
    state: Buffer
    #: Number of entries and length of the longest row, if the host knows them; None after an operation on the matrix.
    entries: int | None = field(default=None, kw_only=True)
    longest: int | None = field(default=None, kw_only=True)
    #: The arena's range that holds columns and values; None: they have memory of their own.
    lease: Lease | None = field(default=None, kw_only=True)
    #: The block that holds table, sizes, versions and state; None: they have memory of their own.
    lease_of_rows: Lease | None = field(default=None, kw_only=True)
    #: Whether columns and values are another owner's, who releases them.
    borrowed: bool = field(default=False, kw_only=True)
    _holders: int = field(default=1, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @classmethod
    def upload(cls, device: Device, arrays: Arrays) -> Storage:
        words = np.zeros(kernels.STATE_WORDS, np.int32)
        words[kernels.STATE_BUFFER_END] = arrays.pointer
        buffers: list[Buffer] = []
        try:
            for array in (
                arrays.columns,
                arrays.values,
                arrays.table,
                arrays.sizes,
                np.zeros_like(arrays.sizes),
                words,
            ):
                # a device buffer cannot be empty
                buffers.append(device.upload(array if array.size else np.zeros(1, array.dtype)))
        except BaseException:
            for buffer in buffers:
                buffer.release()
            raise
        longest = int(arrays.sizes.max(initial=0))
        storage_arguments = device, arrays.shape, arrays.segments, arrays.capacity, arrays.values.dtype
        return cls(*storage_arguments, *buffers, entries=arrays.nnz, longest=longest)

    @classmethod
    def empty(
        cls, device: Device, shape: tuple[int, int], segments: int, capacity: int, dtype: np.dtype[np.floating]
    ) -> Storage:
        """Return a matrix with undefined entries and table; versions and state are zero."""
        with ExitStack() as allocations:
            block, parts = allocate_row_arrays(device, shape[0], segments)
            allocations.callback(block.release)
            for part in parts[2:]:  # after table and sizes: versions and state
                device.fill(part, 0)
            columns, values = _allocate_entries(device, capacity, dtype, allocations)
            allocations.pop_all()
        return cls(device, shape, segments, capacity, dtype, columns, values, *parts, lease_of_rows=block)

    def make_room(self, capacity: int) -> None:
        """Allocate memory for `capacity` entries; the present entries are lost.

        If allocation fails, the capacity is 0.
        """
        self._leave()
        # stand-ins keep `release` valid if an allocation fails
        self.columns, self.values, self.capacity = _Nothing(), _Nothing(), 0
        self.columns = self.device.allocate(4 * max(capacity, 1))
        self.values = self.device.allocate(self.dtype.itemsize * max(capacity, 1))
        self.capacity = capacity

    def move(self, lease: Lease, columns: Buffer, values: Buffer, capacity: int) -> None:
        """Use memory of an arena for columns and values, which is released with the matrix.

        The present entries are lost.
        """
        self._leave()
        self.lease, self.columns, self.values, self.capacity = lease, columns, values, capacity

    def grow(self, capacity: int, copy: Callable[[Buffer, Buffer, Buffer, Buffer], None]) -> None:
        """Allocate memory for `capacity` entries, and move the entries there.

        `OutOfDeviceMemory` leaves the matrix unchanged.

        `copy` queues the copy of columns and values, its first two arguments, to the other two.
        """
        with ExitStack() as allocations:
            columns, values = _allocate_entries(self.device, capacity, self.dtype, allocations)
            copy(self.columns, self.values, columns, values)
            allocations.pop_all()
        self._leave()
        self.columns, self.values, self.capacity = columns, values, capacity

    def _leave(self) -> None:
        """Release the memory of columns and values."""
        if not self.borrowed:
            self.columns.release()
            self.values.release()
        self.borrowed = False
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def set_pointer(self, pointer: int) -> None:
        """Set the offset of the next segment, after entries and table were written directly."""
        words = np.zeros(kernels.STATE_WORDS, np.int32)
        words[kernels.STATE_BUFFER_END] = pointer
        self.device.write(self.state, words)

    @property
    def pitch(self) -> int:
        return table_pitch(self.shape[0])

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers)

    def report(self) -> Report:
        """Wait for queued work, and return the report of the last operation."""
        words = np.empty(kernels.STATE_WORDS, np.int32)
        self.device.download(self.state, words)
        return Report.of(words)

    def download(self) -> Arrays:
        """Wait for queued work, and return the matrix on the host, with zeros behind the last segment."""
        rows, pointer = self.shape[0], self.report().pointer
        columns, values = np.zeros(self.capacity, np.int32), np.zeros(self.capacity, self.dtype)
        table, sizes = np.zeros(self.segments * self.pitch, np.int32), np.zeros(rows, np.int32)
        for buffer, array in zip(self._buffers, (columns[:pointer], values[:pointer], table, sizes), strict=False):
            if array.size:
                self.device.download(buffer, array)
        return Arrays(self.shape, self.segments, columns, values, table, sizes, pointer)

    @property
    def _buffers(self) -> tuple[Buffer, ...]:
        return self.columns, self.values, self.table, self.sizes, self.versions, self.state

    def retain(self) -> bool:
        """Keep the memory until one more `release`; return False if it was released already."""
        with self._lock:
            self._holders += self._holders > 0
            return self._holders > 0

    def release(self) -> None:
        """Release the memory, once every holder has called this."""
        with self._lock:
            if not self._holders:
                return
            self._holders -= 1
            if self._holders:
                return
        self._leave()
        self.release_rows()

    def release_rows(self) -> None:
        """Release the row arrays; columns and values stay."""
        for buffer in (self.table, self.sizes, self.versions, self.state):
            buffer.release()
        if self.lease_of_rows is not None:
            self.lease_of_rows.release()
