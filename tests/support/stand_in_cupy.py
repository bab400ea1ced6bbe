"""What is used of CuPy, its arrays lying on the CPU's device: for tests without a GPU."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import scipy.sparse as sp

from repro.devices.opencl import OpenClDevice
from repro.operators.arrays import DeviceArray


class ndarray(DeviceArray):  # noqa: N801
    """CuPy's array, whose numbers are looked at on the host."""

    ndim = property(lambda self: len(self.shape))
    data = SimpleNamespace(device_id=-1)  # of no GPU

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, at):
        part = self.get()[at]
        return self.put(part) if isinstance(part, np.ndarray) else part

    def __lt__(self, other):
        return self.get() < other.get()

    def astype(self, dtype):
        return self.put(self.get().astype(dtype))

    def copy(self):
        return self.put(self.get())

    def min(self):
        return self.get().min()

    def max(self):
        return self.get().max()

    def argmin(self):
        return self.get().argmin()

    def argmax(self):
        return self.get().argmax()


class csr_matrix:  # noqa: N801
    """CuPy's matrix, which works on the host."""

    format = "csr"

    def __init__(self, arrays, shape):
        assert all(isinstance(array, ndarray) for array in arrays)
        self.data, self.indices, self.indptr = arrays
        self._said = False
        self.shape, self.dtype, self.nnz = shape, self.data.dtype, self.data.size

    def get(self):
        return sp.csr_matrix(tuple(array.get() for array in (self.data, self.indices, self.indptr)), self.shape)

    def tocsr(self):
        return self

    def copy(self):
        return csr_matrix((self.data, self.indices, self.indptr), self.shape)

    @property
    def has_canonical_format(self):
        return self._said or self.get().has_canonical_format

    @has_canonical_format.setter
    def has_canonical_format(self, said):
        self._said = said

    def sum_duplicates(self):
        self._set(sp.csr_matrix.sum_duplicates)

    def sort_indices(self):
        self._set(sp.csr_matrix.sort_indices)

    def _set(self, change):
        matrix, put = self.get(), self.data.put
        change(matrix)
        self.data, self.indices, self.indptr = map(put, (matrix.data, matrix.indices, matrix.indptr))


def install(monkeypatch, runtime):
    """Have `cupy` and `cupyx` be these; return what brings an array, or a SciPy matrix, there."""

    def asarray(array):
        lying = array if isinstance(array, DeviceArray) else runtime.put(array)
        made = ndarray(lying.device, lying.buffer, lying.shape, lying.dtype)
        made.put = asarray
        return made

    cupy, sparse = ModuleType("cupy"), ModuleType("cupyx.scipy.sparse")
    cupy.asarray, sparse.csr_matrix = asarray, csr_matrix
    monkeypatch.setattr(ndarray, "__module__", "cupy")
    monkeypatch.setattr(csr_matrix, "__module__", "cupyx.scipy.sparse._csr")
    for name, module in (("cupy", cupy), ("cupyx.scipy.sparse", sparse)):
        monkeypatch.setitem(sys.modules, name, module)
    # CuPy's devices are entered
    monkeypatch.setattr(OpenClDevice, "__enter__", lambda self: self, raising=False)
    monkeypatch.setattr(OpenClDevice, "__exit__", lambda *_: None, raising=False)

    def bring(thing):
        if not sp.issparse(thing):
            return asarray(thing)
        return csr_matrix(tuple(map(asarray, (thing.data, thing.indices, thing.indptr))), thing.shape)

    return bring
