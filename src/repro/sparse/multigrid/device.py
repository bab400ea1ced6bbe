"""Launching the kernels of multigrid, with the memory that one level's set-up needs on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from repro.bench.runnable import in_turn
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import N_T, Kernels, Scratch
from repro.sparse.launches import Launches, Load
from repro.sparse.multigrid.render import LANES_OF_AGGREGATE, width_for

#: Numbers from one column to the next, so that each is a buffer of its own.
COLUMN = PART_ALIGNMENT // 8
#: Blocks of a multiprocessor that add up a share of a product of vectors each.
SHARES = 4


def rows_of(matrix: Storage) -> list[Argument]:
    """Return what kernels take of a matrix whose rows lie in one segment each, without room."""
    return [matrix.table, matrix.columns, matrix.values]


class Run(Launches):
    """Kernels of multigrid, launched at once.

    Parameters
    ----------
    device, load, held
        As of `Launches`.
    dtype
        Of the numbers.
    """

    def __init__(self, device: Device, load: Load, dtype: np.dtype[Any], held: ExitStack) -> None:
        super().__init__(device, load, held)
        self.dtype = dtype
        self._scratch = self.keep(Scratch(device))

    def scalars(self, count: int) -> Buffer:
        """Return memory for so many numbers of the precision, until the end."""
        return self.numbers(count, self.dtype)

    def setup(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of the module `setup` with so many lanes for each of so many things."""
        self.over("setup", kernel, count, *arguments, lanes=lanes)

    def cycle(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of the module `cycle` with so many lanes for each of so many things."""
        self.over("cycle", kernel, count, *arguments, lanes=lanes)

    def vectors(self, count: int, n: int) -> tuple[list[Buffer], Buffer, int]:
        """Return so many vectors of n numbers, the memory that they lie in, and how many numbers they are apart."""
        stride = -(-max(n, 1) // PART_ALIGNMENT) * PART_ALIGNMENT
        whole, size = self.scalars(count * stride), self.dtype.itemsize
        return (
            [self.keep(self.device.part(whole, i * stride * size, max(n, 1) * size)) for i in range(count)],
            whole,
            stride,
        )

    def column(self, numbers: Buffer, at: int) -> Buffer:
        """Return one of the columns of float64 numbers, each a buffer of its own, that a buffer consists of."""
        return self.keep(self.device.part(numbers, 8 * at * COLUMN, 8 * COLUMN))

    def blocks_over(self, n: int) -> int:
        """Return how many blocks add up numbers over n things, each a share."""
        return max(1, min(self.device.n_s * SHARES, -(-n // N_T[self.device.backend])))

    def dots(self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer) -> None:
        """Queue the products of a vector with so many others that lie a stride apart, float64 `(count,)`."""
        self.bind_dots(n, vectors, count, stride, w, sums)()

    def bind_dots(
        self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer
    ) -> Callable[[], None]:
        """Return what queues them."""
        blocks = self.blocks_over(n)
        partial = self._scratch.take("shares", 8 * blocks * count)
        given: list[Argument] = [np.int32(n), np.int32(count), np.int32(stride), vectors, w, partial]
        kernels = Kernels(self.device, self.load("cycle"))
        lanes = self.device.target.warp if self.device.backend == "cuda" else 1
        added: list[Argument] = [np.int32(count), np.int32(blocks), partial, sums]
        return in_turn(kernels.blocks("dots", blocks, given), kernels.over("add_shares", count * lanes, added))

    @property
    def lanes_of_aggregate(self) -> int:
        """Lanes that go through the nodes of an aggregate."""
        return LANES_OF_AGGREGATE[self.device.backend]

    def lanes(self, matrix: Storage, nnz: int) -> int:
        """Return how many lanes go through a row of a matrix with so many entries."""
        return width_for(self.device.target, nnz / max(matrix.shape[0], 1))
