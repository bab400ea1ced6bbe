"""Memory for products whose size is known when they are done: a range for the most that it can be, cut to what it is.

A driver and a pool give out whole blocks. An arena has some blocks of them, and gives out ranges of entries, columns
and values each in an array of its own, so that a range can be cut at its end.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from threading import RLock

import numpy as np

from repro.devices.base import PART_ALIGNMENT, Buffer, Device

#: Entries of the smallest block, which stays when nothing is in it.
LEAST_ENTRIES = 1 << 22
#: Most bytes of a larger block that stays for the next product: a pool takes tens of microseconds to give it again.
KEPT_BYTES = 1 << 28
#: Ranges begin at multiples of so many entries, where parts of both arrays can begin.
_ALIGNED = PART_ALIGNMENT // 4


@dataclass(eq=False)
class _Block:
    capacity: int
    columns: Buffer
    values: Buffer
    #: Begins and ends of what is free, ascending, none beside another.
    free: list[tuple[int, int]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return self.free == [(0, self.capacity)]

    def release(self) -> None:
        self.columns.release()
        self.values.release()


class Range:
    """Some entries of an arena."""

    def __init__(self, arena: Arena, block: _Block, begin: int, end: int) -> None:
        self._arena, self._block, self._begin, self._end = arena, block, begin, end

    def buffers(self, capacity: int) -> tuple[Buffer, Buffer]:
        """Return the memory of the first `capacity` columns and values."""
        device, itemsize, count = self._arena.device, self._arena.itemsize, max(capacity, 1)
        return (
            device.part(self._block.columns, 4 * self._begin, 4 * count),
            device.part(self._block.values, itemsize * self._begin, itemsize * count),
        )

    def cut(self, capacity: int) -> None:
        """Give back what lies behind the first `capacity` entries."""
        end = min(self._begin + _aligned(capacity), self._end)
        self._arena.give_back(self._block, end, self._end)
        self._end = end

    def release(self) -> None:
        """Give back the rest; a second call has no effect."""
        self._arena.give_back(self._block, self._begin, self._end)
        self._end = self._begin


class Arena:
    """Blocks of a device's memory for entries of one dtype, for work on the device's own queue."""

    def __init__(self, device: Device, dtype: np.dtype[np.floating]) -> None:
        self.device, self.itemsize = device, dtype.itemsize
        self._blocks: list[_Block] = []
        self._lock = RLock()  # a matrix may be released while another is made, by the collector of garbage

    @property
    def nbytes(self) -> int:
        """Return the bytes of all blocks."""
        return sum(block.capacity for block in self._blocks) * (4 + self.itemsize)

    def reserve(self, capacity: int) -> Range:
        """Return a range of at least `capacity` entries; `OutOfDeviceMemory` where there is no memory for it."""
        count = _aligned(capacity)
        with self._lock:
            for block in self._blocks:
                for at, (begin, end) in enumerate(block.free):
                    if end - begin >= count:
                        rest = [(begin + count, end)] if end - begin > count else []
                        block.free[at : at + 1] = rest
                        return Range(self, block, begin, begin + count)
            block = self._new_block(max(count, LEAST_ENTRIES))
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
        """Add a range to what is free in its block; an empty large block is released, but for one."""
        if begin >= end:
            return
        with self._lock:
            free = block.free
            at = bisect_left(free, (begin, end))
            if at < len(free) and free[at][0] == end:
                end = free.pop(at)[1]
            if at and free[at - 1][1] == begin:
                at -= 1
                begin = free.pop(at)[0]
            free.insert(at, (begin, end))
            if block.empty and block.capacity > LEAST_ENTRIES and block in self._blocks and not self._stays(block):
                self._blocks.remove(block)
                block.release()

    def _stays(self, block: _Block) -> bool:
        """Return whether an empty block is left for the next product: one that is not too large."""
        if block.capacity * (4 + self.itemsize) > KEPT_BYTES:
            return False
        return not any(other.empty and other.capacity > LEAST_ENTRIES for other in self._blocks if other is not block)

    def trim(self) -> None:
        """Release the blocks in which nothing lies."""
        with self._lock:
            for block in [block for block in self._blocks if block.empty]:
                self._blocks.remove(block)
                block.release()

    def release(self) -> None:
        """Release all blocks, whatever lies in them."""
        with self._lock:
            while self._blocks:
                self._blocks.pop().release()


def _aligned(count: int) -> int:
    return max(1, -(-count // _ALIGNED)) * _ALIGNED
