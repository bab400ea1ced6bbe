"""Kernels whose blocks wait for each other, launched by NVIDIA's own Python bindings: PyCUDA has no such launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

from repro.devices.base import Argument
from repro.devices.cuda_driver import check_cuda, pointer_of

#: C types of arguments; those of other types are addresses.
_C_TYPES: dict[type, Any] = {
    int: ctypes.c_int,
    float: ctypes.c_double,
    np.int32: ctypes.c_int32,
    np.uint32: ctypes.c_uint32,
    np.int64: ctypes.c_int64,
    np.uint64: ctypes.c_uint64,
    np.float32: ctypes.c_float,
    np.float64: ctypes.c_double,
}
#: Wraps a launch.
Within = Callable[[Callable[[], None]], Callable[[], None]]


class CooperativeModule:
    """A module as the bindings load it, beside PyCUDA, whose handles they do not take; its context must be current."""

    def __init__(self, binary: Path, failure: Callable[[str], Exception]) -> None:
        self._failure = failure
        self._module = check_cuda(driver.cuModuleLoad(str(binary).encode()), failure)

    def kernel(self, name: str, block: int, sm_count: int, stream: int, within: Within) -> CudaCooperativeKernel:
        """Return a kernel, launched with `block` threads a block on a stream of a GPU with `sm_count` multiprocessors.

        `within` wraps a launch so that it runs with the GPU's context current.
        """
        function = check_cuda(driver.cuModuleGetFunction(self._module, name.encode()), self._failure)
        per_sm = check_cuda(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, block, 0), self._failure)
        return CudaCooperativeKernel(function, block, int(per_sm) * sm_count, stream, within, self._failure)


class CudaCooperativeKernel:
    """A `CooperativeKernel` of one stream."""

    def __init__(
        self, function: Any, block: int, resident: int, stream: int, within: Within, failure: Callable[[str], Exception]
    ) -> None:
        self._function, self._block, self._resident, self._within = function, block, resident, within
        self._stream, self._failure = driver.CUstream(stream), failure

    @property
    def resident(self) -> int:
        return self._resident

    def bind(self, grid: int, arguments: Sequence[Argument]) -> Callable[[], None]:
        values = [_as_c(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        function, block, stream, failure = self._function, self._block, self._stream, self._failure
        address = ctypes.addressof(pointers)

        # default: keeps the buffers and what the address points to alive
        def launch(held: tuple[Any, ...] = (arguments, values, pointers)) -> None:
            check_cuda(driver.cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, 0, stream, address), failure)

        return self._within(launch)


def _as_c(argument: Argument) -> Any:
    kind = _C_TYPES.get(type(argument))
    return ctypes.c_void_p(pointer_of(argument)) if kind is None else kind(argument)


def has_cooperative_launches(ordinal: int, failure: Callable[[str], Exception]) -> bool:
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
    gpu = check_cuda(driver.cuDeviceGet(ordinal), failure)
    return bool(check_cuda(driver.cuDeviceGetAttribute(attribute, gpu), failure))
