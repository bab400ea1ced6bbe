"""A stable radix sort on a device, which leaves the order: of coordinates by column and then by row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from repro.bench.guards import Guards
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import ReproError
from repro.sparse.kernels import N_T
from repro.sparse.scan import check_size, runs_of
from repro.sparse.work import reserve

#: Threads of a block that counts or scatters, and the keys of each in a tile: as in `sort.j2`.
THREADS = {"cuda": 256, "opencl": 16}
ITEMS = {"cuda": 12, "opencl": 256}
#: Digits of a pass at most, and their bits.
RADIX, DIGIT_BITS = 256, 8
KEY_BITS = 32
#: Blocks that a multiprocessor holds, each of which has a run of tiles.
BLOCKS = {"cuda": 4, "opencl": 2}


class Sorted(NamedTuple):
    """A sort that is bound to its keys.

    Attributes
    ----------
    launch
        Queues it.
    keys
        uint32 `(n,)`: the keys in order, until the next sort with the same memory.
    order
        int32 `(n,)`: where the i-th key of these is in the input, until then.
    """

    launch: Callable[[], None]
    keys: Buffer
    order: Buffer


class RadixSort:
    """A stable sort of keys that are not negative, with the memory that it needs on the way.

    Parameters
    ----------
    device
        Where the keys are.
    program
        The module `sort`.
    capacity
        The most keys that are ever sorted; it takes a little more than 16 bytes for each.
    guards
        What looks after the memory that is written; None: nobody.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._tile = THREADS[device.backend] * ITEMS[device.backend]
        self._most = device.n_s * BLOCKS[device.backend]
        runs = max(1, min(-(-capacity // self._tile), self._most))  # fewer keys can have more runs, but not above these
        with ExitStack() as held:

            def allocate(name: str, count: int) -> Buffer:
                return reserve(held, device, guards, 4 * count, f"the sort's {name}")

            self._keys = allocate("keys", capacity), allocate("keys", capacity)
            self._orders = allocate("order", capacity), allocate("order", capacity)
            self._counters, self._totals = allocate("counters", RADIX * runs), allocate("counters", RADIX)
            self._held = held.pop_all()

    def bind(self, keys: Buffer, n: int, bits: int, order: Buffer | None = None) -> Sorted:
        """Return the sort of n keys; they stay as they are.

        Parameters
        ----------
        keys
            uint32 or int32 `(n,)`, none of them negative.
        bits
            Those that the keys have, from the lowest on; higher ones are not looked at.
        order
            int32 `(n,)`: the keys are taken in this order, and the order that comes out is of the same input: sorted
            first by column, then in that order by row, coordinates are sorted by row and column. It may be one that
            this sort left, which is overwritten then.

        Raises
        ------
        ReproError
            More keys than there is memory for, or more bits than keys have.
        """
        check_size(n, self._capacity, "keys to sort")
        if not 0 <= bits <= KEY_BITS:
            raise ReproError("keys have no such number of bits", expected=f"0 to {KEY_BITS}", actual=bits)
        passes = max(1, -(-bits // DIGIT_BITS))
        width = max(1, -(-bits // passes))  # digits of equal width: fewer of them lie side by side for longer
        if n <= self._tile:
            return self._bind_tile(keys, n, bits, width, order)
        run, runs = runs_of(n, self._tile, self._most)
        launches: list[Callable[[], None]] = []
        for shift in range(0, passes * width, width):
            digit = min(width, bits - shift)
            size: list[Argument] = [np.int32(n), np.int32(run), np.int32(shift), np.int32(digit)]
            if shift == 0 and order is not None:
                gathered = _other(self._keys, keys)
                launches.append(self._bind("sort_count_ordered", runs, [*size, keys, self._counters, order, gathered]))
                keys = gathered
            else:
                launches.append(self._bind("sort_count", runs, [*size, keys, self._counters]))
            launches.append(
                self._device.bind(
                    self._program.kernel("sort_offsets"),
                    1 << digit,
                    N_T[self._device.backend],
                    [np.int32(runs), self._counters, self._totals],
                )
            )
            to, behind = _other(self._keys, keys), _other(self._orders, order)
            arguments = [*size, self._counters, self._totals, keys, to, behind]
            if order is None:
                launches.append(self._bind("sort_scatter_first", runs, arguments))
            else:
                launches.append(self._bind("sort_scatter", runs, [*arguments, order]))
            keys, order = to, behind
        assert order is not None

        def launch() -> None:
            for part in launches:
                part()

        return Sorted(launch, keys, order)

    def _bind_tile(self, keys: Buffer, n: int, bits: int, width: int, order: Buffer | None) -> Sorted:
        """Return the sort of a tile, all passes in one launch."""
        to, behind = _other(self._keys, keys), _other(self._orders, order)
        arguments: list[Argument] = [np.int32(n), np.int32(width), np.int32(bits), keys, to, behind]
        if order is None:
            return Sorted(self._bind("sort_tile", 1, arguments), to, behind)
        return Sorted(self._bind("sort_tile_ordered", 1, [*arguments, order]), to, behind)

    def _bind(self, kernel: str, runs: int, arguments: list[Argument]) -> Callable[[], None]:
        return self._device.bind(self._program.kernel(kernel), runs, THREADS[self._device.backend], arguments)

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        self._held.close()


def _other(pair: tuple[Buffer, Buffer], buffer: Buffer | None) -> Buffer:
    """Return the buffer of a pair that is not this one."""
    return pair[1] if buffer is pair[0] else pair[0]


def bits_of(count: int) -> int:
    """Return the bits of the numbers from 0 to count - 1."""
    return max(count - 1, 0).bit_length()
