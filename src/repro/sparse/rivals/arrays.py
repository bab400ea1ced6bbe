"""The arrays that a rival gets: copies of its own, each between guard zones, in host memory or on a GPU."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.bench.errors import IncorrectError
from repro.bench.guards import Guarded, GuardedArray, Guards
from repro.devices.base import Buffer, Device


@dataclass(frozen=True)
class GpuArray:
    """A C-contiguous array on a GPU, which CuPy, PyTorch and Numba take by `__cuda_array_interface__`."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Handle of the stream whose work may still write the array.
    stream: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if math.prod(self.shape) else 0, False),  # PyTorch refuses what is marked read-only
            "strides": None,
            "stream": self.stream,
        }


RivalArray = NDArray[Any] | GpuArray


def address_of(array: RivalArray) -> int:
    return array.pointer if isinstance(array, GpuArray) else array.ctypes.data


class RivalArrays:
    """Allocates the arrays of one rival and knows what may be written.

    On a CPU they are in host memory, since code from outside knows nothing of OpenCL.
    """

    def __init__(self, device: Device, guards: Guards) -> None:
        self._device, self._guards = device, guards
        self.on_gpu = device.backend == "cuda"
        self._held: list[Guarded | GuardedArray] = []
        #: What is only read: its name, its memory, and the checksum of what it holds.
        self._read_only: list[tuple[str, RivalArray, Buffer | None, int]] = []

    @property
    def stream(self) -> int:
        """Handle of the CUDA stream; 0 on the host."""
        return int(getattr(self._device, "stream", 0))

    def give(self, array: NDArray[Any], name: str) -> RivalArray:
        """Return a copy of an array, which the rival may only read; messages call it `name`."""
        copy, buffer = self._allocate(array.shape, array.dtype, name)
        if isinstance(copy, GpuArray):
            if array.size:
                assert buffer is not None
                self._device.write(buffer, array)
        else:
            copy[...] = array
            copy.flags.writeable = False
        self._read_only.append((name, copy, buffer, zlib.crc32(np.ascontiguousarray(array).data)))
        return copy

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, name: str) -> tuple[RivalArray, Buffer | None]:
        """Return an array for a result, all bytes 0xFF, which is NaN; on a GPU also as a buffer."""
        array, buffer = self._allocate(shape, np.dtype(dtype), name)
        if buffer is not None:
            self._device.fill(buffer, 0xFF)
        elif isinstance(array, np.ndarray):
            array.view(np.uint8)[...] = 0xFF
        return array, buffer

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> tuple[RivalArray, Buffer | None]:
        if not self.on_gpu:
            host = self._guards.allocate_array(shape, dtype, name)
            self._held.append(host)
            return host.array, None
        guarded = self._guards.allocate(math.prod(shape) * dtype.itemsize, name)
        self._held.append(guarded)
        pointer: int = getattr(guarded.memory, "pointer")  # noqa: B009 (of CUDA's buffers)
        return GpuArray(pointer, shape, dtype, self.stream), guarded.memory

    def check_read_only(self) -> None:
        """Raise `IncorrectError` if the rival has changed what it may only read."""
        for name, array, buffer, checksum in self._read_only:
            if isinstance(array, GpuArray):
                now = np.empty(array.shape, array.dtype)
                if now.size:
                    assert buffer is not None
                    self._device.download(buffer, now)
            else:
                now = array
            if zlib.crc32(np.ascontiguousarray(now).data) != checksum:
                raise IncorrectError(f"writes to {name}, which it may only read")

    def release(self) -> None:
        held, self._held = self._held, []
        self._read_only.clear()
        for guarded in held:
            guarded.release()
