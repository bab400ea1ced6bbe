"""Operators on an emulated GPU, and a library of arrays that lie there: what a call does, without a GPU."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import scipy.sparse as sp

from repro.operators import runtime as runtimes
from repro.operators.runtime import Runtime
from support.emulated_cuda import EmulatedCuda, compile_kernels

OWN_STREAM, CURRENT_STREAM, CAPTURED_STREAM = 7, 11, 13


class Device(EmulatedCuda):
    """An emulated GPU that notes on which stream each call is queued."""

    ordinal, stream = 0, OWN_STREAM

    def __init__(self):
        self.streams = []

    def free_bytes(self):
        return 1 << 30

    def bind_call(self, *arguments):
        return _NotedCall(super().bind_call(*arguments), self.streams)


class _NotedCall:
    def __init__(self, call, streams):
        self._call, self._streams, self.close = call, streams, call.close

    def __call__(self, stream, *addresses):
        self._streams.append(stream)
        self._call(stream, *addresses)


class _Streams:
    """No other stream has to be waited for; which ones would be is noted."""

    def __init__(self, device):
        self.waited, self.marked, self.awaited = [], [], []

    def is_ordered(self, stream):
        return stream in (0, OWN_STREAM)

    def are_captured(self, streams):
        return CAPTURED_STREAM in streams

    def take_event(self):
        return object()

    def give_back(self, events):
        pass

    def mark(self, event, stream):
        self.marked.append(stream)
        return stream != CAPTURED_STREAM

    def wait_for_mark(self, event):
        self.awaited.append(event)

    def holds(self, pointer):
        return True

    def ordered(self, streams):
        if streams:
            self.waited.append(set(streams))
        return nullcontext()

    def finish(self, streams):
        return True


class EmulatedRuntime(Runtime):
    """A runtime whose kernels are compiled for the CPU."""

    def __init__(self, monkeypatch, folder):
        monkeypatch.setattr(runtimes, "_Streams", _Streams)
        super().__init__(Device(), "cuda:0")
        self._folder = folder

    def compile_together(self, sources):
        """Nothing: `program` compiles."""

    def kernels(self, source, name):
        """Compile all kernels at once, which other tests do, too."""
        return self.program(source, name)

    def program(self, source, name):
        # the title is the only line that differs from the sources of other tests, which are compiled already
        return compile_kernels(re.sub(r"^// \w+: ", "// tests: ", source, flags=re.MULTILINE), self._folder)


class ndarray:  # noqa: N801
    """What a call reads of CuPy's array."""

    def __init__(self, memory, shape, dtype, device_id=0):
        self.memory, self.shape, self.dtype = memory, shape, np.dtype(dtype)
        self.size = int(np.prod(shape))
        self.data = SimpleNamespace(ptr=memory.pointer, device_id=device_id)
        self.flags = SimpleNamespace(c_contiguous=True)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.memory.pointer, False), "version": 3,
            "strides": None if self.flags.c_contiguous else (2 * self.dtype.itemsize,), "stream": CURRENT_STREAM,
        }  # fmt: skip

    def astype(self, dtype):
        numbers = self.get().astype(dtype)
        memory = Device.upload(Device(), numbers)
        return ndarray(memory, numbers.shape, numbers.dtype)

    def copy(self):
        return self.astype(self.dtype)

    def get(self):
        return self.memory.bytes.view(self.dtype).reshape(self.shape).copy()


def install_cupy(monkeypatch, runtime):
    """Have `cupy` be a library of these arrays; return what brings a host array to the emulated GPU."""
    device, cupy = runtime.device, ModuleType("cupy")
    cupy.ndarray = ndarray
    monkeypatch.setattr(ndarray, "__module__", "cupy")
    cupy.empty = lambda shape, dtype: ndarray(
        device.allocate(int(np.prod(shape)) * np.dtype(dtype).itemsize), shape, dtype
    )
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=CURRENT_STREAM))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return lambda array: ndarray(device.upload(array), array.shape, array.dtype)


class csr_matrix:  # noqa: N801
    """What a product reads of CuPy's matrix, and how it makes one."""

    format = "csr"

    def __init__(self, data, indices, indptr, shape):
        self.data, self.indices, self.indptr, self.shape, self.dtype = data, indices, indptr, shape, data.dtype
        self.nnz = data.size

    @classmethod
    def _from_parts(cls, data, indices, indptr, shape):
        return cls(data, indices, indptr, shape)

    def get(self):
        arrays = (self.data.get(), self.indices.get(), self.indptr.get())
        return sp.csr_array(arrays, shape=self.shape)

    def sum_duplicates(self):
        raise AssertionError("sorted only where that is asked for")


def install_cupyx(monkeypatch, bring):
    """Have `cupyx.scipy.sparse` be a library of these matrices; return what brings a CSR matrix there."""
    sparse = ModuleType("cupyx.scipy.sparse")
    sparse.csr_matrix = csr_matrix
    monkeypatch.setattr(csr_matrix, "__module__", "cupyx.scipy.sparse._csr")
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", sparse)

    def bring_matrix(matrix, index=np.int32):
        indices, indptr = (bring(array.astype(index)) for array in (matrix.indices, matrix.indptr))
        return csr_matrix(bring(matrix.data), indices, indptr, matrix.shape)

    return bring_matrix
