"""Kernels that are launched at once, one after the other, and the memory that they pass things on in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.devices.base import Argument, Buffer, Device, Program
from repro.sparse.kernels import Kernels
from repro.sparse.scan import Scan, read_total
from repro.sparse.sort import RadixSort, Sorted, bits_of
from repro.sparse.work import R, keep

#: Gives a module of a precision by its name.
Load = Callable[[str], Program]


class Launches:
    """Launches on a device.

    Parameters
    ----------
    device, load
        The device, and what gives a module of it, `sort` among others.
    held
        What gives memory back once it is closed.
    guards
        What looks after memory that kernels write; None: nobody does.
    """

    def __init__(self, device: Device, load: Load, held: ExitStack, guards: Guards | None = None) -> None:
        self.device, self.load, self.held, self.guards = device, load, held, guards

    def within(self, held: ExitStack) -> Launches:
        """Return launches of the same modules whose memory another stack gives back."""
        return Launches(self.device, self.load, held, self.guards)

    def keep(self, thing: R) -> R:
        """Return what holds memory, which is given back at the end."""
        return keep(self.held, thing)

    def numbers(self, count: int, dtype: Any) -> Buffer:
        """Return memory for so many numbers of a type, until the end."""
        nbytes = max(count, 1) * np.dtype(dtype).itemsize
        if self.guards is None:
            return self.keep(self.device.allocate(nbytes))
        return self.keep(self.guards.allocate(nbytes, "what is passed on", self.device)).memory

    def zeros(self, count: int, dtype: Any) -> Buffer:
        """Return zeros, until the end."""
        buffer = self.numbers(count, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Return an array's numbers, until the end."""
        return self.keep(self.device.upload(array))

    def download(self, buffer: Buffer, count: int, dtype: Any) -> NDArray[Any]:
        """Wait, and return the first numbers of a buffer."""
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def over(self, module: str, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of a module with so many lanes for each of so many things."""
        Kernels(self.device, self.load(module)).over(kernel, count * lanes, arguments)()

    def blocks(self, module: str, kernel: str, count: int, *arguments: Argument) -> None:
        """Launch so many blocks of a kernel of a module."""
        Kernels(self.device, self.load(module)).blocks(kernel, count, arguments)()

    def offsets(self, sizes: Buffer, sums: Buffer, count: int) -> int:
        """Put the sums of the sizes before each of so many, and of all, where they belong; return that of all.

        Parameters
        ----------
        sums
            int32 `(count + 1,)`; may be `sizes`, where that has room for one number more.
        """
        self.keep(Scan(self.device, self.load("sort"), max(count, 1))).bind(sizes, sums, count)()
        return read_total(self.device, sums, count)

    def sort(self, keys: Buffer, count: int, below: int) -> Sorted:
        """Sort keys that are all below a number, those that are equal in the order that they have."""
        memory = self.keep(RadixSort(self.device, self.load("sort"), max(count, 1)))
        sorted_by = memory.bind(keys, count, bits_of(below))
        sorted_by.launch()
        return sorted_by
