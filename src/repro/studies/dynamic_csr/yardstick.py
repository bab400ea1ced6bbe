"""CUB's device-wide sums and sort, which ours are held against: a shared library that nvcc makes at first use."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from repro.bench.runnable import ModuleError, Unsupported
from repro.codegen import nvcc
from repro.codegen.compile import MODULES
from repro.codegen.targets import Target
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_buffer import CudaBuffer
from repro.programs import run_program
from repro.sparse.work import Work
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.primitives import SortOfRows, Sums
from repro.whole import replacing

SOURCE = """\
#include <cub/cub.cuh>

extern "C" int scan(void* memory, size_t* bytes, const int* in, int* out, int n, void* stream)
{
    return cub::DeviceScan::ExclusiveSum(memory, *bytes, in, out, n, (cudaStream_t)stream);
}

extern "C" int sort(
    void* memory, size_t* bytes, const unsigned* keys, unsigned* keys_out, const int* values, int* values_out,
    int n, int bits, void* stream)
{
    return cub::DeviceRadixSort::SortPairs(
        memory, *bytes, keys, keys_out, values, values_out, n, 0, bits, (cudaStream_t)stream);
}
"""
FLAGS = ("-shared", "-Xcompiler", "-fPIC", "-O3", "-std=c++17")


def library(target: Target, modules: Path = MODULES) -> Path:
    """Return the library for a GPU, compiled unless it is there already.

    Raises
    ------
    Unsupported
        There is no compiler.
    ModuleError
        It refuses the source: the message is its first error.
    """
    compiler = nvcc.find()
    if compiler is None:
        raise Unsupported("there is no nvcc to compile CUB with")
    flags = (*FLAGS, f"-arch={target.name}")
    asked = "\0".join([SOURCE, *flags, nvcc.version(), *nvcc.environment()])
    path = modules / target.name / STUDY / "objects" / f"cub-{hashlib.sha256(asked.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        source = path.with_suffix(".cu")
        with replacing(source) as partial:
            partial.write_text(SOURCE)
        with replacing(path) as partial:
            done = run_program([compiler, *flags, "-o", partial, source], nvcc.COMPILING, "the compiler")
            if done.code:
                raise ModuleError(nvcc.first_error(done.said))
    return path


def compiler_version() -> str:
    """Return nvcc's line on itself, or that there is none."""
    return nvcc.version() if nvcc.find() else "no nvcc"


class _Cub:
    """A function of the library, for a device: called with no memory it says how much it needs.

    Parameters
    ----------
    work
        Whose device it is for.
    name
        The function's.
    arguments
        All between the memory's size and the stream.
    """

    def __init__(self, work: Work, name: str, *arguments: Buffer | int) -> None:
        device = work.device
        if not isinstance(device, CudaDevice):
            raise Unsupported(f"CUB runs on NVIDIA GPUs, not on {device.name}")
        function = getattr(ctypes.CDLL(str(library(device.target))), name)
        function.restype = ctypes.c_int
        self._name, self._call = name, device.within(function)
        self._given = [ctypes.c_int(a) if isinstance(a, int) else ctypes.c_void_p(_address(a)) for a in arguments]
        self._stream = ctypes.c_void_p(device.stream)
        self._bytes = ctypes.c_size_t(0)
        self._memory = ctypes.c_void_p(None)
        self()
        # without memory it only says how much: never none
        self._memory = ctypes.c_void_p(_address(work.allocate(max(self._bytes.value, 1), "CUB's memory")))

    def __call__(self) -> None:
        """Queue it."""
        status = self._call(self._memory, ctypes.byref(self._bytes), *self._given, self._stream)
        if status:
            raise LaunchError(f"CUB's {self._name} returned error {status}")


class CubSums(Sums):
    """The same sums by cub::DeviceScan::ExclusiveSum."""

    kind = "baseline"
    modules = ()
    routine = "cub/DeviceScan"

    @property
    def identity(self) -> str:
        """The compiler, which CUB comes with."""
        return compiler_version()

    def bind_sums(self, work: Work, sizes: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        """Return what queues the sums."""
        return _Cub(work, "scan", sizes, sums, n + 1)


class CubSort(SortOfRows):
    """The same sort by cub::DeviceRadixSort::SortPairs, which reads the places from memory."""

    kind = "baseline"
    modules = ()
    routine = "cub/DeviceRadixSort"

    @property
    def identity(self) -> str:
        """The compiler, which CUB comes with."""
        return compiler_version()

    def bind_sort(self, work: Work, keys: Buffer, n: int, bits: int) -> tuple[Callable[[], None], Buffer, Buffer]:
        """Return what queues the sort, and where its results are."""
        places = work.upload(np.arange(n, dtype=np.int32))
        in_order, order = (work.allocate(4 * n, f"the sort's {name}") for name in ("keys", "order"))
        return _Cub(work, "sort", keys, in_order, places, order, n, max(bits, 1)), in_order, order


def _address(buffer: Buffer) -> int:
    assert isinstance(buffer, CudaBuffer)
    return buffer.pointer
