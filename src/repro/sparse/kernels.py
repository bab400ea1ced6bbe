"""Launching kernels that have a thread for each of so many things, and the memory that they pass things on in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.devices.base import Argument, Buffer, Device, Program

Launch = Callable[[], None]
#: Threads of a block, where a kernel needs no other number.
N_T = {"cuda": 256, "opencl": 64}


class Kernels:
    """The kernels of a module, on a device."""

    def __init__(self, device: Device, program: Program) -> None:
        self.device = device
        self._program = program
        self._n_t = N_T[device.backend]

    def over(self, name: str, count: int, arguments: Sequence[Argument], of_each: int = 1) -> Launch:
        """Return a launch with a thread for each of so many things, or for several; at least one block."""
        return self.blocks(name, -(-count // (self._n_t * of_each)), arguments)

    def blocks(self, name: str, count: int, arguments: Sequence[Argument], n_t: int | None = None) -> Launch:
        """Return a launch of so many blocks, at least one, of the usual number of threads or another."""
        return self.device.bind(self._program.kernel(name), max(1, count), n_t or self._n_t, arguments)


class Scratch:
    """Memory that operations pass things on in, by name, kept until it is released."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: dict[tuple[str, int], Buffer] = {}

    def take(self, name: str, nbytes: int) -> Buffer:
        """Return memory of a name for so many bytes or more; what is bound to it before stays valid.

        Raises
        ------
        OutOfDeviceMemory
        """
        size = 1 << max(8, (nbytes - 1).bit_length())
        if (name, size) not in self._buffers:
            self._buffers[name, size] = self._device.allocate(size)
        return self._buffers[name, size]

    def release(self) -> None:
        """Give all of it back."""
        while self._buffers:
            self._buffers.popitem()[1].release()


def in_order(launches: Sequence[Launch]) -> Launch:
    """Return a launch of all, one after the other."""

    def launch() -> None:
        for part in launches:
            part()

    return launch
