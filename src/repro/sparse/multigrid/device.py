"""Launching the kernels of multigrid, with the memory that one level's set-up needs on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, Program
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels, Scratch
from repro.sparse.multigrid.render import width_for
from repro.sparse.scan import Scan, read_total
from repro.sparse.sort import RadixSort, Sorted, bits_of
from repro.sparse.work import Releases

#: Gives a module by its name: of multigrid, of products, `matrix` or `sort`.
Load = Callable[[str], Program]
R = TypeVar("R", bound=Releases)
#: Blocks of a multiprocessor that add up a share of a product of vectors each.
SHARES = 4


def rows_of(matrix: Storage) -> list[Argument]:
    """Return what kernels take of a matrix whose rows lie in one segment each, without room."""
    return [matrix.table, matrix.columns, matrix.values]


class Run:
    """Kernels of multigrid, launched at once.

    Parameters
    ----------
    device, load
        The device, and what gives a module of it.
    dtype
        Of the numbers.
    held
        What gives memory back once it is closed.
    """

    def __init__(self, device: Device, load: Load, dtype: np.dtype[Any], held: ExitStack) -> None:
        self.device, self.load, self.dtype, self._held = device, load, dtype, held
        self._scratch = self.keep(Scratch(device))

    def keep(self, thing: R) -> R:
        """Return what holds memory, which is given back at the end."""
        self._held.callback(thing.release)
        return thing

    def numbers(self, count: int, dtype: Any) -> Buffer:
        """Return memory for so many numbers of a type, until the end."""
        return self.keep(self.device.allocate(max(count, 1) * np.dtype(dtype).itemsize))

    def scalars(self, count: int) -> Buffer:
        """Return memory for so many numbers of the precision, until the end."""
        return self.numbers(count, self.dtype)

    def zeros(self, count: int, dtype: Any) -> Buffer:
        """Return zeros, until the end."""
        buffer = self.numbers(count, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def download(self, buffer: Buffer, count: int, dtype: Any) -> NDArray[Any]:
        """Wait, and return the first numbers of a buffer."""
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def setup(self, kernel: str, count: int, *arguments: Argument | int | float, lanes: int = 1) -> None:
        """Launch a kernel of the module `setup` with so many lanes for each of so many things."""
        self._over("setup", kernel, count, arguments, lanes)

    def cycle(self, kernel: str, count: int, *arguments: Argument | int | float, lanes: int = 1) -> None:
        """Launch a kernel of the module `cycle` with so many lanes for each of so many things."""
        self._over("cycle", kernel, count, arguments, lanes)

    def _over(self, module: str, kernel: str, count: int, arguments: tuple[Any, ...], lanes: int) -> None:
        given = [_number(a) for a in arguments]
        Kernels(self.device, self.load(module)).over(kernel, count * lanes, given)()

    def offsets(self, sizes: Buffer, count: int) -> tuple[Buffer, int]:
        """Return the sums of the sizes before each of so many, int32 `(count + 1,)`, and that of all; waits."""
        sums = self.numbers(count + 1, np.int32)
        self.keep(Scan(self.device, self.load("sort"), max(count, 1))).bind(sizes, sums, count)()
        return sums, read_total(self.device, sums, count)

    def vectors(self, count: int, n: int) -> tuple[list[Buffer], Buffer, int]:
        """Return so many vectors of n numbers, the memory that they lie in, and how many numbers they are apart."""
        stride = -(-max(n, 1) // PART_ALIGNMENT) * PART_ALIGNMENT
        whole, size = self.scalars(count * stride), self.dtype.itemsize
        return (
            [self.keep(self.device.part(whole, i * stride * size, max(n, 1) * size)) for i in range(count)],
            whole,
            stride,
        )

    def dots(self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer) -> None:
        """Queue the products of a vector with so many others that lie a stride apart, float64 `(count,)`."""
        blocks = self.device.n_s * SHARES
        partial = self._scratch.take("shares", 8 * blocks * count)
        given: list[Argument] = [np.int32(n), np.int32(count), np.int32(stride), vectors, w, partial]
        Kernels(self.device, self.load("cycle")).blocks("dots", blocks, given)()
        self.cycle("add_shares", count, blocks, count, partial, sums)

    def sort(self, keys: Buffer, count: int, below: int) -> Sorted:
        """Sort keys that are all below a number, those that are equal in the order that they have."""
        memory = self.keep(RadixSort(self.device, self.load("sort"), max(count, 1)))
        sorted_by = memory.bind(keys, count, bits_of(below))
        sorted_by.launch()
        return sorted_by

    def lanes(self, matrix: Storage, nnz: int) -> int:
        """Return how many lanes go through a row of a matrix with so many entries."""
        return width_for(self.device.target, nnz / max(matrix.shape[0], 1))


def _number(value: Any) -> Any:
    if isinstance(value, bool | int):
        return np.int32(value)
    return np.float64(value) if isinstance(value, float) else value
