"""What a runnable of several kernels holds of a device: its programs, its memory, and how it launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.devices.base import Argument, Buffer, CaptureError, Device, Program
from repro.sparse.built import Built
from repro.sparse.kernels import N_T

#: Blocks for each multiprocessor at most: kernels go through their numbers in steps of the grid.
BLOCKS = {"cuda": 16, "opencl": 2}


class Releases(Protocol):
    """What holds memory of a device."""

    def release(self) -> None:
        """Give it back."""


R = TypeVar("R", bound=Releases)
T = TypeVar("T")


def keep(held: ExitStack, thing: R) -> R:
    """Return what holds memory, which is given back when the stack is closed."""
    held.callback(thing.release)
    return thing


def reserve(held: ExitStack, device: Device, guards: Guards | None, nbytes: int, name: str) -> Buffer:
    """Return memory that is given back when the stack is closed, between guard zones where somebody looks after them.

    Raises
    ------
    OutOfDeviceMemory
    """
    return keep(held, guards.allocate(nbytes, name)).memory if guards else keep(held, device.allocate(nbytes))


class Work:
    """The programs and the memory of a runnable.

    Parameters
    ----------
    workspace
        Where it works.
    built
        The modules by name, those that it needs among them.
    held
        What gives everything back once it is closed.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, Built], held: ExitStack) -> None:
        self.device, self.guards = workspace.device, workspace.guards
        self.workspace, self._built, self._held = workspace, built, held
        self._programs: dict[str, Program] = {}

    def program(self, module: str) -> Program:
        """Return a module, loaded.

        Raises
        ------
        ModuleError
            It did not compile, or is damaged.
        """
        if module not in self._programs:
            self._programs[module] = self._built[module].program(self.workspace)
        return self._programs[module]

    def keep(self, thing: R) -> R:
        """Return what holds memory, which is given back at the end."""
        return keep(self._held, thing)

    def fact(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what runnables of a problem share on the host, computed at first use."""
        return self.workspace.fact(key, compute)

    def at_end(self, call: Callable[[], object]) -> None:
        """Have something done when all is given back."""
        self._held.callback(call)

    def upload(self, array: NDArray[Any]) -> Buffer:
        """Copy an array to the device; of an empty one there is memory for a number."""
        return self.keep(self.device.upload(array if array.size else np.zeros(1, array.dtype)))

    def allocate(self, nbytes: int, name: str) -> Buffer:
        """Return memory to write to, between guard zones."""
        return self.keep(self.guards.allocate(nbytes, name)).memory

    def load(self, array: NDArray[Any], name: str, count: int | None = None) -> Buffer:
        """Copy an array, or its first numbers, to memory to write to for all of it, between guard zones."""
        buffer, first = self.allocate(array.nbytes, name), array[:count]
        if first.size:
            self.device.write(buffer, first)
        return buffer

    def download(self, buffer: Buffer, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Wait for what is queued and return the first numbers of a buffer."""
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array

    def captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Launch once, and return what queues the same as one operation.

        Raises
        ------
        Unsupported
            The device cannot.
        """
        launch()
        self.device.synchronize()
        try:
            captured = self.device.capture(launch)
        except CaptureError as error:
            raise Unsupported(f"the launch cannot be captured into a graph: {error}") from None
        self.at_end(captured.release)
        return captured.replay

    def bind(self, module: str, kernel: str, count: int, *arguments: Argument) -> Callable[[], None]:
        """Return what queues a kernel that goes through so many numbers."""
        n_t = N_T[self.device.backend]
        blocks = min(-(-count // n_t), self.device.n_s * BLOCKS[self.device.backend])
        return self.device.bind(self.program(module).kernel(kernel), max(blocks, 1), n_t, arguments)
