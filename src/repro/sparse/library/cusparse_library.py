"""cuSPARSE through nvmath-python: loading it, its types, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from repro.bench.runnable import Unsupported
from repro.devices.base import Buffer, LaunchError, OutOfDeviceMemory
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_buffer import CudaBuffer

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
