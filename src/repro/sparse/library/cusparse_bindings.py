"""The wrapper of cuSPARSE: nvmath-python's bindings, and ctypes for functions whose bindings do not suit the library.

`sp_gemm_work_estimation` and `sp_gemm_reuse_work_estimation`, `_nnz` and `_copy` of nvmath-python 1.0 pass the address
of an uninitialised size, which the library reads. `sp_mv_op_buffer_size` and `_create_descr` lack the algorithm
parameter of 12.8.1. ctypes calls these in the shared library that nvmath-python has loaded.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import POINTER, byref, c_float, c_int, c_size_t, c_void_p
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from repro.bench.guards import Guards
from repro.devices.base import Buffer, LaunchError, OutOfDeviceMemory
from repro.devices.cuda import CudaDevice
from repro.errors import Unsupported

#: Values of cudaDataType.
TYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.complex64): 4,
    np.dtype(np.complex128): 5,
}

#: Name of the library's working memory in error messages.
WORKING_MEMORY = "the library's working memory"

#: 1 and 0 of each type; calls take pointers to α and β, so these arrays must stay alive.
_SCALARS = {dtype: np.array([1, 0], dtype) for dtype in TYPES}


@cache
def _find() -> tuple[Any, str]:
    """Return nvmath-python's bindings and the library version, or None and the reason why they are missing."""
    try:
        library = import_module("nvmath.bindings.cusparse")
        return library, ".".join(str(library.get_property(part)) for part in range(3))
    except (ImportError, RuntimeError) as error:  # nvmath raises RuntimeErrors where libraries are missing
        reason = " ".join(str(error).split())
        return (
            None,
            f"cuSPARSE is not there ({reason}); install '.[cuda]' and, without a CUDA toolkit, nvmath-python[cu13]",
        )


def load() -> Any:
    """Return `nvmath.bindings.cusparse`, or raise `Unsupported` if it is not installed or finds no cuSPARSE."""
    library, reason = _find()
    if library is None:
        raise Unsupported(reason)
    return library


def version() -> str:
    """Return the library's version, or the reason why the library is missing."""
    return _find()[1]


def gpu(device: Any) -> CudaDevice:
    if not isinstance(device, CudaDevice):
        raise Unsupported(f"cuSPARSE runs on NVIDIA GPUs, not on {device.name}")
    return device


def address(buffer: Any) -> int:
    pointer: int = buffer.pointer
    return pointer


def scalars(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the host addresses of the numbers 1 and 0 of a type."""
    numbers = _SCALARS[dtype]
    return numbers.ctypes.data, numbers.ctypes.data + dtype.itemsize


#: Parameters of SpGEMM functions: handle, operations, alpha, A, B, beta, C, type, algorithm, descriptor.
_PRODUCT = (c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p)
#: Parameters without numbers: handle, operations, A, B, C, algorithm, descriptor.
_PATTERN = (c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_SIZE = POINTER(c_size_t)
_MEMORY = (_SIZE, c_void_p)
_MADE = POINTER(c_void_p)
#: Parameters of SpMVOp functions: operation, A, x, y, z, type, algorithm.
_PLANNED = (c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int)

#: C parameter types of functions, by cusparse.h of 12.6; those of SpMVOp by 12.8.1 to 12.9.4.
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
    """Return the shared library that nvmath-python has loaded, found by its file name on Linux."""
    name = f"libcusparse.so.{library.get_property(0)}"
    try:
        # RTLD_NOLOAD finds the loaded library by name and never loads a second copy from another folder
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
    except (OSError, AttributeError) as error:  # not every system has RTLD_NOLOAD
        raise Unsupported(f"cuSPARSE {version()}: {name} cannot be called directly: {error}") from None


class Handle:
    """A cuSPARSE handle on an NVIDIA device's stream, destroyed when `stack` is closed.

    `label` is the function name in error messages of the bindings; None: the name of the called function.
    """

    def __init__(self, device: Any, stack: ExitStack, label: str | None = None) -> None:
        self.device: CudaDevice = gpu(device)
        self.library = load()
        self._label = label
        self.value = self.make(stack, "create", "destroy")
        self.bound("set_stream", self.value, self.device.stream)
        self.plain = self.library.Operation.NON_TRANSPOSE

    @contextmanager
    def refusals(self, function: str = "") -> Iterator[None]:
        """Translate library errors in the body: out of memory, a failed kernel, or an unsupported call."""
        status, prefix = self.library.Status, function and f"{function}: "
        try:
            yield
        except self.library.cuSPARSEError as error:
            if error.status in (status.ALLOC_FAILED, status.INSUFFICIENT_RESOURCES):
                raise OutOfDeviceMemory(f"cuSPARSE: {prefix}{error}") from None
            if error.status in (status.EXECUTION_FAILED, status.INTERNAL_ERROR, status.MAPPING_ERROR):
                self.device.synchronize()  # raises an error of its own if the context is lost
                raise LaunchError(f"cuSPARSE: {prefix}{error}") from None
            raise Unsupported(f"cuSPARSE {version()}: {prefix}{error}") from None
        except RuntimeError as error:  # this version of the library has no such function
            raise Unsupported(f"cuSPARSE {version()}: {prefix}{error}") from None

    def bound(self, name: str, *arguments: Any) -> Any:
        """Call a function of nvmath-python's bindings."""
        with self.refusals(name if self._label is None else self._label):
            return getattr(self.library, name)(*arguments)

    def make(self, stack: ExitStack, create: str, destroyer: str, *arguments: Any) -> int:
        """Return a handle or descriptor made by the bindings, destroyed when the stack is closed."""
        handle, function = int(self.bound(create, *arguments)), getattr(self.library, destroyer)

        def destroy() -> None:
            with suppress(self.library.cuSPARSEError):  # if the context is lost, another call reports it
                function(handle)

        stack.callback(destroy)
        return handle

    def make_directly(
        self, stack: ExitStack, create: str, destroyer: str, before: tuple[Any, ...] = (), after: tuple[Any, ...] = ()
    ) -> int:
        """Return an object made by a function of `PARAMETERS`, destroyed when the stack is closed.

        `before` and `after` are the arguments around the output pointer.
        """
        handle, destroy = c_void_p(), self.function(destroyer)
        self.run(create, *before, byref(handle), *after)
        stack.callback(destroy, handle.value)
        return int(handle.value or 0)

    @cached_property
    def _shared_library(self) -> ctypes.CDLL:
        return shared_library(self.library)

    def function(self, name: str) -> Callable[..., int]:
        """Return a C function of `PARAMETERS`, which returns a status; `Unsupported` if this version lacks it."""
        try:
            function = getattr(self._shared_library, name)
        except AttributeError:
            raise Unsupported(f"cuSPARSE {version()} has no {name}") from None
        function.argtypes, function.restype = PARAMETERS[name], c_int
        typed_function: Callable[..., int] = function
        return typed_function

    def run(self, name: str, *arguments: Any) -> None:
        function = self.function(name)
        with self.refusals(name):
            if status := function(*arguments):
                raise self.library.cuSPARSEError(status)

    def algorithm(self, kind: str, name: str) -> int:
        """Return the value of an enumeration such as `SpMVAlg` by name; unknown names raise `Unsupported`."""
        algorithm = getattr(getattr(self.library, kind, None), name, None)
        if algorithm is None:
            raise Unsupported(f"nvmath-python does not know {kind}.{name}")
        return int(algorithm)

    def make_csr(
        self, stack: ExitStack, shape: tuple[int, int], nnz: int, arrays: Iterable[int], dtype: np.dtype[Any]
    ) -> int:
        """Return a CSR descriptor of the arrays (offsets, columns, values) at the given device addresses."""
        index = self.library.IndexType.INDEX_32I
        kinds = index, index, self.library.IndexBase.ZERO, TYPES[dtype]
        return self.make(stack, "create_csr", "destroy_sp_mat", *shape, nnz, *arrays, *kinds)

    def make_vector(self, stack: ExitStack, buffer: Buffer, length: int, dtype: np.dtype[Any]) -> int:
        return self.make(stack, "create_dn_vec", "destroy_dn_vec", length, address(buffer), TYPES[dtype])

    def make_vectors(self, stack: ExitStack, buffer: Buffer, length: int, count: int, dtype: np.dtype[Any]) -> int:
        """Return a descriptor of the dense `(length, count)` numbers in `buffer`, stored row by row."""
        shape = length, count, count, address(buffer), TYPES[dtype], self.library.Order.ROW
        return self.make(stack, "create_dn_mat", "destroy_dn_mat", *shape)

    def prepare(self, stack: ExitStack, function: str, arguments: tuple[Any, ...], guards: Guards) -> int:
        """Let the library analyse a call of `sp_mv` or `sp_mm`; return the address of its working memory."""
        nbytes = self.bound(f"{function}_buffer_size", *arguments)
        work_buffer = guards.allocate(nbytes, WORKING_MEMORY)
        stack.callback(work_buffer.release)
        library = self.library
        with self.refusals(self._label or ""):
            try:
                getattr(library, f"{function}_preprocess")(*arguments, address(work_buffer.memory))
            except (library.cuSPARSEError, RuntimeError, AttributeError) as error:
                # preprocessing is optional; some formats and versions lack it
                if getattr(error, "status", library.Status.NOT_SUPPORTED) != library.Status.NOT_SUPPORTED:
                    raise
        return address(work_buffer.memory)

    def launcher(self, run: Callable[[], object]) -> Callable[[], None]:
        """Wrap a call of the bindings so that its errors are raised as `LaunchError`."""
        failure = self.library.cuSPARSEError

        def launch() -> None:
            try:
                run()
            except failure as error:
                raise LaunchError(f"cuSPARSE: {error}") from None

        return launch
