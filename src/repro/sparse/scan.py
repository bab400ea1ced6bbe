"""Exclusive sums on a device: of row sizes the offsets of rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from repro.bench.guards import Guards
from repro.devices.base import PART_ALIGNMENT, Buffer, Device, Program
from repro.errors import ReproError
from repro.sparse.kernels import N_T
from repro.sparse.work import reserve

#: Numbers that a thread takes at once.
ITEMS = 8
#: Blocks that a multiprocessor holds, each of which has a run of tiles.
BLOCKS = {"cuda": 8, "opencl": 2}
#: So many tiles are one run, which needs one launch.
FEW_TILES = 4


class Scan:
    """Exclusive sums of int32 numbers, with the memory that they need on the way.

    Parameters
    ----------
    device
        Where the numbers are.
    program
        The module `sort`.
    capacity
        The most numbers that are ever added up.
    guards
        What looks after the memory that is written; None: nobody.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, program: Program, capacity: int, guards: Guards | None = None) -> None:
        self._device, self._program, self._capacity = device, program, capacity
        self._n_t = N_T[device.backend]
        self._most = device.n_s * BLOCKS[device.backend]
        self._held = ExitStack()
        self._partial = reserve(self._held, device, guards, 4 * self._most, "the sums of runs")

    def bind(self, counts: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        """Return what queues sums[i] = counts[0] + … + counts[i - 1] for i from 0 to n.

        Parameters
        ----------
        counts
            int32 `(n,)`; they and their sum fit into 31 bits.
        sums
            int32 `(n + 1,)`; may be `counts`, where that has room for one number more.

        Raises
        ------
        ReproError
            n is more than the capacity.
        """
        check_size(n, self._capacity, "numbers to add up")
        run, blocks = runs_of(n, self._n_t * ITEMS, self._most, FEW_TILES)
        size = [np.int32(n), np.int32(run)]
        partial = self._partial

        def bind(kernel: str, *buffers: Buffer) -> Callable[[], None]:
            return self._device.bind(self._program.kernel(kernel), blocks, self._n_t, [*size, *buffers])

        write = bind("scan_write", counts, partial, sums)
        if blocks == 1:
            return write
        count = bind("scan_count", counts, partial)

        def launch() -> None:
            count()
            write()

        return launch

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        self._held.close()


def read_total(device: Device, sums: Buffer, n: int) -> int:
    """Wait for what is queued, and return the sum of all n numbers: the last of their n + 1 sums."""
    first = 4 * n // PART_ALIGNMENT * PART_ALIGNMENT
    end = device.part(sums, first, 4 * (n + 1) - first)
    numbers = np.empty(n + 1 - first // 4, np.int32)
    device.download(end, numbers)
    end.release()
    return int(numbers[-1])


def check_size(n: int, capacity: int, what: str) -> None:
    """Refuse more than there is memory for.

    Raises
    ------
    ReproError
    """
    if not 0 <= n <= capacity:
        raise ReproError(f"more {what} than there is memory for", expected=f"0 to {capacity:,}", actual=f"{n:,}")


def runs_of(n: int, tile: int, most: int, few: int = 1) -> tuple[int, int]:
    """Return the numbers of a run, a multiple of the tile, and how many runs there are: 1 at least, `most` at most.

    Parameters
    ----------
    few
        So many tiles are one run.
    """
    tiles = -(-n // tile)
    per_run = few if tiles <= few else -(-tiles // most)
    return per_run * tile, max(1, -(-tiles // per_run))
