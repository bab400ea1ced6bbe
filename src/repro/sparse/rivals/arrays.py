"""The arrays that a rival receives: separate copies between guard zones, in host memory or on a GPU."""

from __future__ import annotations

import ctypes
import math
import zlib
from dataclasses import dataclass
from typing import Any, cast

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


#: Byte that makes each number NaN.
NAN_BYTE = 0xFF


def as_array(given: object) -> RivalArray:
    """Return an array of a rival's own, by `__cuda_array_interface__` if it is on a GPU."""
    interface = getattr(given, "__cuda_array_interface__", None)
    if interface is None:
        return np.asarray(given)
    dtype = np.dtype(interface["typestr"])
    if interface.get("strides") not in (None, (dtype.itemsize,)):
        raise IncorrectError("an array of c is not contiguous")
    return GpuArray(interface["data"][0], tuple(interface["shape"]), dtype, 0)


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
        #: Read-only arrays: name, memory, and checksum of the content.
        self._read_only: list[tuple[str, RivalArray, int]] = []
        #: Memory that a rival asked for in its last run, in that order, and how much of it this run has taken again.
        self._results: list[tuple[int, RivalArray, Guarded | GuardedArray]] = []
        self._taken = 0

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
        self._read_only.append((name, copy, zlib.crc32(np.ascontiguousarray(array).data)))
        return copy

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, name: str) -> tuple[RivalArray, Buffer | None]:
        """Return an array for a result, all bytes 0xFF, which is NaN; on a GPU also as a buffer."""
        array, buffer = self._allocate(shape, np.dtype(dtype), name)
        self.fill_with_nan(array, buffer)
        return array, buffer

    def fill_with_nan(self, array: RivalArray, buffer: Buffer | None) -> None:
        """Set all bytes of what `empty` returned to 0xFF."""
        if buffer is not None:
            self._device.fill(buffer, NAN_BYTE)
        elif isinstance(array, np.ndarray):
            array.view(np.uint8)[...] = NAN_BYTE

    def allocate_result(self, nbytes: int) -> RivalArray:
        """Return memory that a run asks for.

        Runs ask alike: they get the memory of the run before, which costs no time after the first one.
        """
        if self._taken < len(self._results) and self._results[self._taken][0] == nbytes:
            array = self._results[self._taken][1]
        else:
            self._drop_results(self._taken)
            array, _ = self.empty((nbytes,), np.uint8, "its result")
            self._results.append((nbytes, array, self._held.pop()))
        self._taken += 1
        return array

    def reuse_results(self) -> None:
        """Let the next run have the memory of results."""
        self._taken = 0

    def _drop_results(self, start: int) -> None:
        for _, _, guarded in self._results[start:]:
            guarded.release()
        del self._results[start:]

    def at(self, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> RivalArray:
        """Return an array of the rival's own at an address."""
        if self.on_gpu:
            return GpuArray(address or 0, shape, dtype, self.stream)
        nbytes = math.prod(shape) * dtype.itemsize
        if not nbytes:
            return np.empty(shape, dtype)
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address or 0))
        return memory.view(dtype).reshape(shape)

    def read(self, array: RivalArray) -> NDArray[Any]:
        """Wait for the device and return a copy in host memory."""
        if isinstance(array, np.ndarray):
            return array.copy()
        host = np.empty(array.shape, array.dtype)
        if host.size:
            self._device.download(cast("Buffer", array), host)  # which has a `pointer`, as buffers do
        return host

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
        """Raise `IncorrectError` if the rival has changed a read-only operand."""
        for name, array, checksum in self._read_only:
            now = array if isinstance(array, np.ndarray) else self.read(array)
            if zlib.crc32(np.ascontiguousarray(now).data) != checksum:
                raise IncorrectError(f"writes to {name}, which it may only read")

    def release(self) -> None:
        self._drop_results(0)
        held, self._held = self._held, []
        self._read_only.clear()
        for guarded in held:
            guarded.release()
