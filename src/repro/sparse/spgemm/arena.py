"""Pooled device memory for sparse matrix products C, which later products reuse.

An arena allocates a few large blocks and hands out ranges of them. A range holds columns and values of consecutive
entries, in two arrays. A range is reserved for the largest possible product, and is shortened once the size of the
product is known. The arrays with one element per row are pooled as a whole, for the next product with as many rows.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from threading import RLock

import numpy as np

from repro.devices.base import PART_ALIGNMENT, Buffer, Device
from repro.sparse.dynamic.storage import allocate_row_arrays

#: Entries of the smallest block; a block of this size is kept even when it is empty.
MIN_ENTRIES = 1 << 22
#: Larger blocks of at most this many bytes are also kept when empty, since a new allocation takes tens of microseconds.
KEPT_BYTES = 1 << 28
#: Largest number of bytes of released row arrays that are kept for later products.
SHELVED_BYTES = 1 << 26
#: Ranges begin at multiples of this many entries, so that their columns and values are aligned.
_ALIGNED = PART_ALIGNMENT // 4


@dataclass(eq=False)
class _Block:
    capacity: int
    columns: Buffer
    values: Buffer
    #: Free ranges (begin, end) in ascending order; no two are adjacent.
    free: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return self.free == [(0, self.capacity)]

    def release(self) -> None:
        self.columns.release()
        self.values.release()


class Range:
    """A range of consecutive entries in a block of an arena: columns and values."""

    def __init__(self, arena: Arena, block: _Block, begin: int, end: int) -> None:
        self._arena, self._block, self._begin, self._end = arena, block, begin, end

    def buffers(self, capacity: int) -> tuple[Buffer, Buffer]:
        """Return the parts of the block's columns and values that hold the first `capacity` entries of the range."""
        device, itemsize, count = self._arena.device, self._arena.itemsize, max(capacity, 1)
        return (
            device.part(self._block.columns, 4 * self._begin, 4 * count),
            device.part(self._block.values, itemsize * self._begin, itemsize * count),
        )

    def cut(self, capacity: int) -> None:
        """Shorten the range to its first `capacity` entries; the arena can hand out the rest again."""
        end = min(self._begin + _aligned_count(capacity), self._end)
        self._arena.give_back(self._block, end, self._end)
        self._end = end

    def release(self) -> None:
        """Return the whole range to the arena; a second call has no effect."""
        self._arena.give_back(self._block, self._begin, self._end)
        self._end = self._begin


class Arena:
    """Pool of device memory for entries of one value dtype, for work on the device's default queue."""

    def __init__(self, device: Device, dtype: np.dtype[np.floating]) -> None:
        self.device, self.itemsize = device, dtype.itemsize
        self._blocks: list[_Block] = []
        self._lock = RLock()  # the garbage collector may release a matrix while this thread creates another one

    @property
    def nbytes(self) -> int:
        """Total bytes of all blocks."""
        return sum(block.capacity for block in self._blocks) * (4 + self.itemsize)

    def reserve(self, capacity: int) -> Range:
        """Return a range of at least `capacity` entries; raise `OutOfDeviceMemory` if no block can be allocated."""
        count = _aligned_count(capacity)
        with self._lock:
            for block in self._blocks:
                for index, (begin, end) in enumerate(block.free):
                    if end - begin >= count:
                        remainder = [(begin + count, end)] if end - begin > count else []
                        block.free[index : index + 1] = remainder
                        return Range(self, block, begin, begin + count)
            block = self._new_block(max(count, MIN_ENTRIES))
            block.free = [(count, block.capacity)] if block.capacity > count else []
            return Range(self, block, 0, count)

    def _new_block(self, capacity: int) -> _Block:
        with self.device.pooling():
            columns = self.device.allocate(4 * capacity)
            try:
                values = self.device.allocate(self.itemsize * capacity)
            except BaseException:
                columns.release()
                raise
        self._blocks.append(_Block(capacity, columns, values))
        return self._blocks[-1]

    def give_back(self, block: _Block, begin: int, end: int) -> None:
        """Mark a range of a block as free. Release the block if it is empty and `_stays` says no."""
        if begin >= end:
            return
        with self._lock:
            free = block.free
            index = bisect_left(free, (begin, end))
            if index < len(free) and free[index][0] == end:
                end = free.pop(index)[1]
            if index and free[index - 1][1] == begin:
                index -= 1
                begin = free.pop(index)[0]
            free.insert(index, (begin, end))
            if block.is_empty and block.capacity > MIN_ENTRIES and block in self._blocks and not self._stays(block):
                self._blocks.remove(block)
                block.release()

    def _stays(self, block: _Block) -> bool:
        """Return whether an empty block is kept: it has at most `KEPT_BYTES`, and no other large block is empty."""
        if block.capacity * (4 + self.itemsize) > KEPT_BYTES:
            return False
        return not any(other.is_empty and other.capacity > MIN_ENTRIES for other in self._blocks if other is not block)

    def trim(self) -> None:
        """Release all empty blocks."""
        with self._lock:
            for block in [block for block in self._blocks if block.is_empty]:
                self._blocks.remove(block)
                block.release()

    def release(self) -> None:
        """Release all blocks, including those in use."""
        with self._lock:
            while self._blocks:
                self._blocks.pop().release()


def _aligned_count(count: int) -> int:
    return max(1, -(-count // _ALIGNED)) * _ALIGNED


class RowArrays:
    """The arrays of a product with one element per row, in one block of device memory; reused after `release`."""

    def __init__(self, shelf: RowArrayPool, n_rows: int) -> None:
        with shelf.device.pooling():
            #: `parts` are the segment table, row sizes, versions, and words of state of the matrix.
            self._block, self.parts = allocate_row_arrays(shelf.device, n_rows)
        self._shelf, self.rows, self.nbytes = shelf, n_rows, self._block.nbytes

    def release(self) -> None:
        self._shelf.leave(self)

    def free(self) -> None:
        self._block.release()


class RowArrayPool:
    """Pool of released row arrays, the most recently released last, of at most `SHELVED_BYTES` in total."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._released: list[RowArrays] = []
        self._lock = RLock()  # for the same reason as in `Arena`

    def take(self, n_rows: int) -> RowArrays:
        """Return arrays for `n_rows` rows, with undefined content."""
        with self._lock:
            for index, arrays in enumerate(self._released):
                if arrays.rows == n_rows:
                    return self._released.pop(index)
        return RowArrays(self, n_rows)

    def leave(self, arrays: RowArrays) -> None:
        with self._lock:
            self._released.append(arrays)
            while sum(row_arrays.nbytes for row_arrays in self._released) > SHELVED_BYTES:
                self._released.pop(0).free()

    def clear(self) -> None:
        with self._lock:
            while self._released:
                self._released.pop().free()
