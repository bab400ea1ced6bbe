"""What `CudaDevice` uses of `pycuda.driver`, by NVIDIA's bindings: for where PyCUDA is not installed.

PyCUDA has no wheel: it is compiled when it is installed. The names and their meaning are PyCUDA's; see its
documentation. Objects free what they own when they are dropped.
"""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from threading import Lock
from typing import Any

import numpy as np
from cuda.bindings import driver
from numpy.typing import DTypeLike, NDArray

from repro.devices.cuda_driver import check_cuda

_FULL = "CUDA_ERROR_OUT_OF_MEMORY"
#: CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
_POINTER, _SIZE, _END = 1, 2, 0
#: Most characters of a device's name or bus address.
_TEXT = 256


class Error(Exception):
    """A call of the driver failed."""


class MemoryError(Error):  # PyCUDA's name
    """The GPU has too little free memory."""


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return the result of a call; raise `Error` if it failed."""
    return check_cuda(answer, lambda name: (MemoryError if name == _FULL else Error)(name))


def _is_over(answer: tuple[Any, ...]) -> bool:
    """Return the result of a query; raise `Error` if queued work failed."""
    if answer[0].name == "CUDA_ERROR_NOT_READY":
        return False
    _checked(answer)
    return True


class device_attribute(IntEnum):  # noqa: N801  # PyCUDA's name
    MULTIPROCESSOR_COUNT = 16
    L2_CACHE_SIZE = 38
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76


class function_attribute(IntEnum):  # noqa: N801
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class event_flags(IntEnum):  # noqa: N801
    DEFAULT = 0
    DISABLE_TIMING = 2


class host_alloc_flags(IntEnum):  # noqa: N801
    DEVICEMAP = 2


def init() -> None:
    try:
        _checked(driver.cuInit(0))
    except (RuntimeError, builtins.OSError) as error:  # the bindings find no driver
        raise Error(" ".join(str(error).split())) from None


def get_driver_version() -> int:
    return int(_checked(driver.cuDriverGetVersion()))


def get_version() -> tuple[int, ...]:
    """Return the version of CUDA that PyCUDA was compiled with: here none."""
    return ()


class Context:
    """The primary context of a GPU, which `detach` gives back."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._handle = _checked(driver.cuDevicePrimaryCtxRetain(gpu))

    def push(self) -> None:
        _checked(driver.cuCtxPushCurrent(self._handle))

    @staticmethod
    def pop() -> None:
        _checked(driver.cuCtxPopCurrent())

    def detach(self) -> None:
        self.pop()
        _checked(driver.cuDevicePrimaryCtxRelease(self._gpu))


class Device:
    def __init__(self, ordinal: int) -> None:
        self._gpu = _checked(driver.cuDeviceGet(ordinal))

    @staticmethod
    def count() -> int:
        return int(_checked(driver.cuDeviceGetCount()))

    def compute_capability(self) -> tuple[int, int]:
        major, minor = (
            self.get_attribute(name)
            for name in (device_attribute.COMPUTE_CAPABILITY_MAJOR, device_attribute.COMPUTE_CAPABILITY_MINOR)
        )
        return major, minor

    def get_attribute(self, attribute: device_attribute) -> int:
        return int(_checked(driver.cuDeviceGetAttribute(driver.CUdevice_attribute(int(attribute)), self._gpu)))

    def name(self) -> str:
        return _text(_checked(driver.cuDeviceGetName(_TEXT, self._gpu)))

    def pci_bus_id(self) -> str:
        return _text(_checked(driver.cuDeviceGetPCIBusId(_TEXT, self._gpu)))

    def total_memory(self) -> int:
        return int(_checked(driver.cuDeviceTotalMem(self._gpu)))

    def retain_primary_context(self) -> Context:
        return Context(self._gpu)


def _text(characters: bytes) -> str:
    return characters.partition(b"\0")[0].decode()


class _Owned:
    """A handle that the driver gave, destroyed with its owner."""

    def __init__(self, handle: Any, destroy: Callable[[Any], object]) -> None:
        self._handle, self._destroy = handle, destroy

    @property
    def handle(self) -> int:
        return int(self._handle)

    def __del__(self) -> None:
        with suppress(Exception):  # its context may be gone, or another one be current
            self._destroy(self._handle)


class Event(_Owned):
    def __init__(self, flags: int = event_flags.DEFAULT) -> None:
        super().__init__(_checked(driver.cuEventCreate(int(flags))), driver.cuEventDestroy)

    def record(self, stream: Stream) -> None:
        _checked(driver.cuEventRecord(self._handle, stream._handle))

    def synchronize(self) -> None:
        _checked(driver.cuEventSynchronize(self._handle))

    def query(self) -> bool:
        return _is_over(driver.cuEventQuery(self._handle))

    def time_since(self, start: Event) -> float:
        """Return the milliseconds since another event."""
        return float(_checked(driver.cuEventElapsedTime(start._handle, self._handle)))


class Stream(_Owned):
    def __init__(self, flags: int = 0) -> None:
        super().__init__(_checked(driver.cuStreamCreate(flags)), driver.cuStreamDestroy)

    def synchronize(self) -> None:
        _checked(driver.cuStreamSynchronize(self._handle))

    def is_done(self) -> bool:
        return _is_over(driver.cuStreamQuery(self._handle))

    def wait_for_event(self, event: Event) -> None:
        _checked(driver.cuStreamWaitEvent(self._handle, event._handle, 0))


class Function:
    """A kernel; `CudaDevice` adds attributes of its own to it."""

    def __init__(self, handle: Any, module: Any) -> None:
        self._handle, self._module = handle, module  # which keeps the code loaded

    def get_attribute(self, attribute: function_attribute) -> int:
        return int(_checked(driver.cuFuncGetAttribute(driver.CUfunction_attribute(int(attribute)), self._handle)))

    def set_attribute(self, attribute: function_attribute, value: int) -> None:
        _checked(driver.cuFuncSetAttribute(self._handle, driver.CUfunction_attribute(int(attribute)), value))

    def _launch_kernel(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], packed: bytes, shared: int, stream: Stream
    ) -> None:
        values = ctypes.create_string_buffer(packed, len(packed))
        size = ctypes.c_size_t(len(packed))
        extra = (ctypes.c_void_p * 5)(_POINTER, ctypes.addressof(values), _SIZE, ctypes.addressof(size), _END)
        _checked(driver.cuLaunchKernel(self._handle, *grid, *block, shared, stream._handle, 0, ctypes.addressof(extra)))


class Module(_Owned):
    def __init__(self, path: str) -> None:
        super().__init__(_checked(driver.cuModuleLoad(path.encode())), driver.cuModuleUnload)

    def get_function(self, name: str) -> Function:
        return Function(_checked(driver.cuModuleGetFunction(self._handle, name.encode())), self)


def module_from_file(path: str) -> Module:
    return Module(path)


class Allocation:
    """Memory of a GPU."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._address: int | None = int(_checked(driver.cuMemAlloc(nbytes)))

    def __int__(self) -> int:
        assert self._address is not None
        return self._address

    def free(self) -> None:
        address, self._address = self._address, None
        if address is not None:
            driver.cuMemFree(address)  # which fails where the context is gone, and the memory with it


mem_alloc = Allocation


def mem_get_info() -> tuple[int, int]:
    """Return the free bytes, and all."""
    status, *sizes = driver.cuMemGetInfo()
    free, total = _checked((status, sizes))
    return int(free), int(total)


def memcpy_htod_async(target: int, source: NDArray[Any], stream: Stream) -> None:
    _checked(driver.cuMemcpyHtoDAsync(target, source.ctypes.data, source.nbytes, stream._handle))


def memcpy_dtoh_async(target: NDArray[Any], source: int, stream: Stream) -> None:
    _checked(driver.cuMemcpyDtoHAsync(target.ctypes.data, source, target.nbytes, stream._handle))


def memset_d8_async(target: int, byte: int, nbytes: int, stream: Stream) -> None:
    _checked(driver.cuMemsetD8Async(target, byte, nbytes, stream._handle))


class _PageLocked:
    """The owner of page-locked host memory, by NumPy's array interface: the `base` of an array that lies in it."""

    def __init__(self, count: int, dtype: np.dtype[Any], flags: int) -> None:
        self._address = int(_checked(driver.cuMemHostAlloc(count * dtype.itemsize, flags)))
        self.__array_interface__ = {
            "version": 3, "shape": (count,), "typestr": dtype.str, "data": (self._address, False)
        }  # fmt: skip

    def get_device_pointer(self) -> int:
        return int(_checked(driver.cuMemHostGetDevicePointer(self._address, 0)))

    def __del__(self) -> None:
        with suppress(Exception):
            driver.cuMemFreeHost(self._address)


def pagelocked_empty(count: int, dtype: DTypeLike, mem_flags: int = 0) -> NDArray[Any]:
    return np.asarray(_PageLocked(count, np.dtype(dtype), int(mem_flags)))


def pagelocked_zeros(count: int, dtype: DTypeLike, mem_flags: int = 0) -> NDArray[Any]:
    array = pagelocked_empty(count, dtype, mem_flags)
    array[:] = 0
    return array


class DeviceMemoryPool:
    """Keeps freed memory for the next request of its size, as `pycuda.tools.DeviceMemoryPool` does."""

    def __init__(self) -> None:
        self.active_bytes = self.managed_bytes = 0
        self._kept: dict[int, list[Allocation]] = {}
        self._holds, self._lock = True, Lock()

    def allocate(self, nbytes: int) -> PooledAllocation:
        with self._lock:
            kept = self._kept.get(nbytes)
            allocation = kept.pop() if kept else None
        if allocation is None:
            try:
                allocation = Allocation(nbytes)
            except MemoryError:
                self.free_held()
                allocation = Allocation(nbytes)
            self.managed_bytes += nbytes
        self.active_bytes += nbytes
        return PooledAllocation(self, allocation)

    def give_back(self, allocation: Allocation) -> None:
        self.active_bytes -= allocation.nbytes
        with self._lock:
            self._kept.setdefault(allocation.nbytes, []).append(allocation)
        if not self._holds:
            self.free_held()

    def free_held(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, {}
        for allocation in (allocation for sizes in kept.values() for allocation in sizes):
            allocation.free()
            self.managed_bytes -= allocation.nbytes

    def stop_holding(self) -> None:
        self._holds = False
        self.free_held()


class PooledAllocation:
    """Memory that a pool takes back."""

    def __init__(self, pool: DeviceMemoryPool, allocation: Allocation) -> None:
        self._pool, self._allocation = pool, allocation

    def __int__(self) -> int:
        return int(self._allocation)

    def free(self) -> None:
        self._pool.give_back(self._allocation)
