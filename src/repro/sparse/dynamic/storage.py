"""A dynamic matrix in the memory of a device, and batches of entries with the order in which they are processed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from repro.devices.base import Buffer, Device
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.kernels import Report
from repro.sparse.dynamic.layout import Arrays, pitch_of


@dataclass(frozen=True)
class Batch:
    """Entries on a device.

    Attributes
    ----------
    count
        How many: m.
    rows, columns, values
        int32, int32 and floating `(m,)`; no values where entries are deleted.
    grouped
        Whether entries of equal rows follow each other, as in a batch that is sorted by row.
    """

    count: int
    rows: Buffer
    columns: Buffer
    values: Buffer | None = None
    grouped: bool = False


@dataclass(frozen=True)
class Arranged:
    """The entries of a batch in an order in which equal rows follow each other.

    Attributes
    ----------
    count
        How many.
    rows
        Of each, in that order: int32 `(count,)`.
    order
        Which of the batch each is; None: the order of the batch.
    columns
        Of each in that order, by a hash of the column within a row; None where they come in any order.
    """

    count: int
    rows: Buffer
    order: Buffer | None = None
    columns: Buffer | None = None


class _Nothing:
    """In the place of memory that could not be had."""

    nbytes = 0

    def release(self) -> None:
        """There is nothing to give back."""


@dataclass
class Storage:
    """The arrays of `repro.sparse.dynamic.layout.Arrays` on a device, with the state of the matrix.

    Attributes
    ----------
    device
        Whose memory it is.
    shape, segments, capacity
        As of the arrays.
    dtype
        Of the values.
    columns, values, table, sizes
        The arrays.
    versions
        int32 `(rows,)`: odd while a row is changed otherwise than by appending to it.
    state
        int32 `(state.WORDS,)`.
    """

    device: Device
    shape: tuple[int, int]
    segments: int
    capacity: int
    dtype: np.dtype[np.floating]
    columns: Buffer
    values: Buffer
    table: Buffer
    sizes: Buffer
    versions: Buffer
    state: Buffer
    _holders: int = field(default=1, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @classmethod
    def upload(cls, device: Device, arrays: Arrays) -> Storage:
        """Bring a matrix to a device.

        Raises
        ------
        OutOfDeviceMemory
        """
        words = np.zeros(kernels.STATE_WORDS, np.int32)
        words[kernels.STATE_POINTER] = arrays.pointer
        held: list[Buffer] = []
        try:
            for array in (
                arrays.columns,
                arrays.values,
                arrays.table,
                arrays.sizes,
                np.zeros_like(arrays.sizes),
                words,
            ):
                # a device has no buffer of nothing
                held.append(device.upload(array if array.size else np.zeros(1, array.dtype)))
        except Exception:
            for buffer in held:
                buffer.release()
            raise
        return cls(device, arrays.shape, arrays.segments, arrays.capacity, arrays.values.dtype, *held)

    @classmethod
    def empty(
        cls, device: Device, shape: tuple[int, int], segments: int, capacity: int, dtype: np.dtype[np.floating]
    ) -> Storage:
        """Return a matrix whose entries and table are still to be written, with no operation on it begun.

        Raises
        ------
        OutOfDeviceMemory
        """
        rows = shape[0]
        held: list[Buffer] = []
        try:
            for nbytes in (4 * capacity, dtype.itemsize * capacity, 4 * segments * pitch_of(rows), 4 * rows):
                held.append(device.allocate(max(nbytes, 4)))
            for words in (max(rows, 1), kernels.STATE_WORDS):
                held.append(device.allocate(4 * words))
                device.fill(held[-1], 0)
        except Exception:
            for buffer in held:
                buffer.release()
            raise
        return cls(device, shape, segments, capacity, dtype, *held)

    def make_room(self, capacity: int) -> None:
        """Have memory for so many entries in the place of what there is, whose entries are lost.

        Raises
        ------
        OutOfDeviceMemory
            There is memory for no entry then.
        """
        self.columns.release()
        self.values.release()
        # where there is no memory, nothing is given back twice
        self.columns, self.values, self.capacity = _Nothing(), _Nothing(), 0
        self.columns = self.device.allocate(4 * max(capacity, 1))
        self.values = self.device.allocate(self.dtype.itemsize * max(capacity, 1))
        self.capacity = capacity

    def grow(self, capacity: int, copy: Callable[[Buffer, Buffer, Buffer, Buffer], None]) -> None:
        """Have memory for so many entries, with those that there are.

        Parameters
        ----------
        copy
            Queues the copying of columns and values, the first two, to the others.

        Raises
        ------
        OutOfDeviceMemory
            Everything is as it was then.
        """
        columns = self.device.allocate(4 * max(capacity, 1))
        try:
            values = self.device.allocate(self.dtype.itemsize * max(capacity, 1))
        except Exception:
            columns.release()
            raise
        copy(self.columns, self.values, columns, values)
        for buffer in (self.columns, self.values):
            buffer.release()
        self.columns, self.values, self.capacity = columns, values, capacity

    def set_pointer(self, pointer: int) -> None:
        """Say where the next segment is cut off, for who wrote entries and table in another way."""
        words = np.zeros(kernels.STATE_WORDS, np.int32)
        words[kernels.STATE_POINTER] = pointer
        self.device.write(self.state, words)

    @property
    def pitch(self) -> int:
        """Words from one slot of a row to the next."""
        return pitch_of(self.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def report(self) -> Report:
        """Wait for what is queued, and return what the last operation came to."""
        words = np.empty(kernels.STATE_WORDS, np.int32)
        self.device.download(self.state, words)
        return Report.of(words)

    def download(self) -> Arrays:
        """Wait for what is queued, and return the matrix as arrays on the host: zeros where no segment was cut off."""
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
        """Keep the memory until `release` is called once more; False where it has been given back already."""
        with self._lock:
            self._holders += self._holders > 0
            return self._holders > 0

    def release(self) -> None:
        """Give the memory back, once all who hold it have let go."""
        with self._lock:
            if not self._holders:
                return
            self._holders -= 1
            if self._holders:
                return
        for buffer in self._buffers:
            buffer.release()
