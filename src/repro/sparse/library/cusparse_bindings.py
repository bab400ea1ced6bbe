"""cuSPARSE through nvmath-python and ctypes: loading it, its types, and what its refusals mean.

`sp_gemm_work_estimation` and `sp_gemm_reuse_work_estimation`, `_nnz` and `_copy` of nvmath-python 1.0 pass the
address of a size that nothing has set together with the caller's memory, and the library reads that size. Its
`sp_mv_op_buffer_size` and `_create_descr` have no algorithm, which the library takes since 12.8.1. All functions
of these kinds are therefore called by ctypes, in the library that nvmath-python has loaded.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_void_p
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from repro.bench.runnable import Unsupported
from repro.devices.base import Buffer, LaunchError, OutOfDeviceMemory
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_driver import CudaBuffer

#: Values of cudaDataType.
TYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.complex64): 4,
    np.dtype(np.complex128): 5,
}

#: 1 and 0 of each type, which calls point to for as long as they may be made.
_SCALARS = {dtype: np.array([1, 0], dtype) for dtype in TYPES}


@cache
def _find() -> tuple[Any, str]:
    """Return the bindings and the library's version, or None and why there are none."""
    try:
        library = import_module("nvmath.bindings.cusparse")
        return library, ".".join(str(library.get_property(part)) for part in range(3))
    except (ImportError, RuntimeError) as error:  # nvmath raises RuntimeErrors where libraries are missing
        why = " ".join(str(error).split())
        return (
            None,
            f"cuSPARSE is not there ({why}); install '.[cuda]' and, without a CUDA toolkit, nvmath-python[cu13]",
        )


def load() -> Any:
    """Return `nvmath.bindings.cusparse`.

    Raises
    ------
    Unsupported
        It is not installed, or it finds no cuSPARSE.
    """
    library, reason = _find()
    if library is None:
        raise Unsupported(reason)
    return library


def version() -> str:
    """Return the library's version, or why there is none."""
    return _find()[1]


def gpu(device: Any) -> CudaDevice:
    """Return the device as the GPU that it has to be."""
    if not isinstance(device, CudaDevice):
        raise Unsupported(f"cuSPARSE runs on NVIDIA GPUs, not on {device.name}")
    return device


def address(buffer: Buffer) -> int:
    """Return where a buffer of the GPU lies."""
    assert isinstance(buffer, CudaBuffer)
    return buffer.pointer


def scalars(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the addresses, in the host's memory, of 1 and 0."""
    numbers = _SCALARS[dtype]
    return numbers.ctypes.data, numbers.ctypes.data + dtype.itemsize


def destroy(library: Any, function: Callable[[int], object], what: int) -> None:
    """Give a handle or a descriptor back by the library's function for it."""
    with suppress(library.cuSPARSEError):  # a lost context has nothing to give back, and its own error to tell
        function(what)


@contextmanager
def refusals(library: Any, device: CudaDevice, function: str = "") -> Iterator[None]:
    """Turn the library's errors into ours: no memory, a failed kernel, or something that it does not do.

    Parameters
    ----------
    library, device
        The library and the device that it works on.
    function
        What is called, for the message; empty for several calls in turn.

    Raises
    ------
    OutOfDeviceMemory, LaunchError, Unsupported
    """
    status, what = library.Status, function and f"{function}: "
    try:
        yield
    except library.cuSPARSEError as error:
        if error.status in (status.ALLOC_FAILED, status.INSUFFICIENT_RESOURCES):
            raise OutOfDeviceMemory(f"cuSPARSE: {what}{error}") from None
        if error.status in (status.EXECUTION_FAILED, status.INTERNAL_ERROR, status.MAPPING_ERROR):
            device.synchronize()  # says so itself where the context is lost
            raise LaunchError(f"cuSPARSE: {what}{error}") from None
        raise Unsupported(f"cuSPARSE {version()}: {what}{error}") from None
    except RuntimeError as error:  # this version of the library has no such function
        raise Unsupported(f"cuSPARSE {version()}: {what}{error}") from None


#: Handle, operations, alpha, A, B, beta, C, type, algorithm, descriptor.
_PRODUCT = (c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p)
#: The same without numbers: handle, operations, A, B, C, algorithm, descriptor.
_PATTERN = (c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_SIZE = POINTER(c_size_t)
_MEMORY = (_SIZE, c_void_p)
_MADE = POINTER(c_void_p)
#: Operation, A, x, y, z, type, algorithm.
_PLANNED = (c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int)

#: The parameters of the functions, as in cusparse.h of 12.6, of SpMVOp as in that of 12.8.1 to 12.9.4.
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "cusparseSpGEMM_createDescr": (_MADE,),
    "cusparseSpGEMM_destroyDescr": (c_void_p,),
    "cusparseSpGEMM_workEstimation": (*_PRODUCT, *_MEMORY),
    "cusparseSpGEMM_estimateMemory": (*_PRODUCT, c_float, *_MEMORY, _SIZE),
    "cusparseSpGEMM_compute": (*_PRODUCT, *_MEMORY),
    "cusparseSpGEMM_copy": _PRODUCT,
    "cusparseSpGEMMreuse_workEstimation": (*_PATTERN, *_MEMORY),
    "cusparseSpGEMMreuse_nnz": (*_PATTERN, *_MEMORY, *_MEMORY, *_MEMORY),
    "cusparseSpGEMMreuse_copy": (*_PATTERN, *_MEMORY),
    "cusparseSpGEMMreuse_compute": _PRODUCT,
    "cusparseSpMVOp_bufferSize": (c_void_p, *_PLANNED, _SIZE),
    "cusparseSpMVOp_createDescr": (c_void_p, _MADE, *_PLANNED, c_void_p),
    "cusparseSpMVOp_destroyDescr": (c_void_p,),
    "cusparseSpMVOp_createPlan": (c_void_p, c_void_p, _MADE, c_void_p, c_size_t),
    "cusparseSpMVOp_destroyPlan": (c_void_p,),
    "cusparseSpMVOp": (c_void_p,) * 7,  # handle, plan, alpha, beta, x, y, z
}


def shared_library(library: Any) -> ctypes.CDLL:
    """Return the shared library that nvmath-python has loaded.

    Raises
    ------
    Unsupported
        It is not among what the process has loaded under the name that it has on Linux.
    """
    name = f"libcusparse.so.{library.get_property(0)}"
    try:
        # found by its name wherever it was loaded from, and never loaded a second time from elsewhere
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
    except (OSError, AttributeError) as error:  # RTLD_NOLOAD is not known everywhere
        raise Unsupported(f"cuSPARSE {version()}: {name} cannot be called directly: {error}") from None


class Calls:
    """Calls of the library for a device.

    Parameters
    ----------
    device
        Where it works.

    Attributes
    ----------
    library
        nvmath-python's bindings.

    Raises
    ------
    Unsupported
        The device is no GPU of NVIDIA's, or the library is not there.
    """

    def __init__(self, device: Any) -> None:
        self._device: CudaDevice = gpu(device)
        self.library = load()
        self._shared = shared_library(self.library)

    def bound(self, name: str, *arguments: Any) -> Any:
        """Return what a function of nvmath-python's bindings returns.

        Raises
        ------
        OutOfDeviceMemory, LaunchError, Unsupported
        """
        with refusals(self.library, self._device, name):
            return getattr(self.library, name)(*arguments)

    def make(self, held: ExitStack, create: str, destroyer: str, *arguments: Any) -> int:
        """Return a handle or descriptor that the bindings make, destroyed when the stack is closed."""
        made = int(self.bound(create, *arguments))
        held.callback(destroy, self.library, getattr(self.library, destroyer), made)
        return made

    def make_product(self, held: ExitStack) -> int:
        """Return the library's description of a product, destroyed when the stack is closed."""
        return self.make_directly(held, "cusparseSpGEMM_createDescr", "cusparseSpGEMM_destroyDescr")

    def make_directly(
        self, held: ExitStack, create: str, destroyer: str, before: tuple[Any, ...] = (), after: tuple[Any, ...] = ()
    ) -> int:
        """Return what a function of C makes, destroyed when the stack is closed.

        Parameters
        ----------
        held
            The stack.
        create, destroyer
            The functions.
        before, after
            The arguments of the first one, before and after the place that it writes to.

        Raises
        ------
        OutOfDeviceMemory, LaunchError, Unsupported
        """
        made, destroy_it = c_void_p(), self.function(destroyer)
        self.run(create, *before, byref(made), *after)
        held.callback(destroy_it, made.value)
        return int(made.value or 0)

    def function(self, name: str) -> Callable[..., int]:
        """Return a function of `PARAMETERS` as it is in C; it returns a status.

        Raises
        ------
        Unsupported
            This version of the library has none of that name.
        """
        try:
            function = getattr(self._shared, name)
        except AttributeError:
            raise Unsupported(f"cuSPARSE {version()} has no {name}") from None
        function.argtypes, function.restype = PARAMETERS[name], c_int
        called: Callable[..., int] = function
        return called

    def run(self, name: str, *arguments: Any) -> None:
        """Call a function of `PARAMETERS`.

        Raises
        ------
        OutOfDeviceMemory, LaunchError, Unsupported
        """
        function = self.function(name)
        with refusals(self.library, self._device, name):
            if status := function(*arguments):
                raise self.library.cuSPARSEError(status)
