"""A library like cuSPARSE whose products are made on the host, and a GPU whose memory is the host's.

It holds the sizes and the memory that a function is given against what it has asked for, and what is destroyed against
what still needs it.
"""

import ctypes
from enum import IntEnum

import numpy as np
import scipy.sparse as sp

from repro.devices.base import OutOfDeviceMemory
from repro.devices.cuda_driver import CudaBuffer
from repro.sparse.library.cusparse_bindings import PARAMETERS, TYPES

STREAM = 33
#: The bytes that each part of working memory takes, in the order in which a function asks for them.
SIZES = {
    "cusparseSpGEMM_workEstimation": [100],
    "cusparseSpGEMM_estimateMemory": [5000],
    "cusparseSpGEMM_compute": [2000],
    "cusparseSpGEMMreuse_workEstimation": [300],
    "cusparseSpGEMMreuse_nnz": [40, 5, 600],
    "cusparseSpGEMMreuse_copy": [70],
    "cusparseSpMVOp_bufferSize": [800],
}
#: The types of cudaDataType.
NUMBERS = {kind: dtype for dtype, kind in TYPES.items()}
Status = IntEnum(
    "Status",
    "ALLOC_FAILED INVALID_VALUE ARCH_MISMATCH MAPPING_ERROR EXECUTION_FAILED INTERNAL_ERROR NOT_SUPPORTED "
    "INSUFFICIENT_RESOURCES",
)


class HostError(Exception):
    def __init__(self, status):
        self.status = status
        super().__init__(Status(status).name)


class _Allocation:
    """Memory of the host that stands for the GPU's."""

    def __init__(self, device, nbytes):
        self._device, self._memory = device, ctypes.create_string_buffer(max(nbytes, 1))
        device.live[int(self)] = nbytes

    def __int__(self):
        return ctypes.addressof(self._memory)

    def free(self):
        del self._device.live[int(self)]


class _Part:
    """Some of an allocation's memory, which goes with it."""

    def __init__(self, at):
        self._at = at

    def __int__(self):
        return self._at

    def free(self):
        pass


class HostDevice:
    """A GPU whose memory is the host's, with a limit on the number of allocations."""

    stream = STREAM

    def __init__(self):
        self.live, self.room = {}, 10**6

    def allocate(self, nbytes):
        if not self.room:
            raise OutOfDeviceMemory("it is full")
        self.room -= 1
        return CudaBuffer(_Allocation(self, nbytes), nbytes)

    def part(self, buffer, offset, nbytes):
        return CudaBuffer(_Part(buffer.pointer + offset), nbytes)

    def upload(self, array):
        buffer = self.allocate(array.nbytes)
        self.write(buffer, np.ascontiguousarray(array))
        return buffer

    def holds(self, at, nbytes):
        """Whether all these bytes are within one allocation."""
        return any(start <= at and at + nbytes <= start + size for start, size in self.live.items())

    def write(self, buffer, array):
        assert array.nbytes <= buffer.nbytes
        ctypes.memmove(buffer.pointer, array.ctypes.data, array.nbytes)

    def download(self, buffer, array):
        ctypes.memmove(array.ctypes.data, buffer.pointer, array.nbytes)

    def fill(self, buffer, byte):
        ctypes.memset(buffer.pointer, byte, buffer.nbytes)

    def synchronize(self):
        pass


class HostDevices(list):
    """The interface of a workspace's devices, for a single device."""

    @property
    def first(self):
        return self[0]


class HostLibrary:
    """nvmath-python's bindings, and the functions of the shared library, which `call` is for."""

    Status, cuSPARSEError = Status, HostError  # noqa: N815
    Operation = IntEnum("Operation", {"NON_TRANSPOSE": 0})
    IndexType = IntEnum("IndexType", {"INDEX_32I": 2})
    IndexBase = IntEnum("IndexBase", {"ZERO": 0})
    Order = IntEnum("Order", {"ROW": 2})
    SpMVAlg = IntEnum("SpMVAlg", {"CSR_ALG1": 2, "CSR_ALG2": 3})
    SpMMAlg = IntEnum("SpMMAlg", {"CSR_ALG1": 4, "CSR_ALG2": 6, "CSR_ALG3": 12})
    SpGEMMAlg = IntEnum("SpGEMMAlg", {"DEFAULT": 0, "ALG1": 3, "ALG2": 4, "ALG3": 5})

    def __init__(self, device):
        self.device, self.made, self.matrices, self.calls, self.failing = device, {}, {}, [], {}
        self.missing, self.extra_entries, self.dense = set(), 0, {}
        self.needs, self.plans = {}, {}

    def _make(self, what, *needs):
        handle = (len(self.made) + 1) << 32  # of which 32 bits hold nothing
        self.made[handle], self.needs[handle] = what, needs
        return handle

    def _destroy(self, what, handle):
        assert self.made[handle] == what
        assert not [other for other, needs in self.needs.items() if handle in needs], "something needs it"
        self.made[handle] = None
        del self.needs[handle]

    def create(self):
        return self._make("handle")

    def destroy(self, handle):
        self._destroy("handle", handle)

    def set_stream(self, handle, stream):
        assert (self.made[handle], stream) == ("handle", getattr(self.device, "stream", STREAM))

    def create_csr(self, rows, columns, nnz, *rest):
        *arrays, offsets_type, columns_type, base, kind = rest
        assert (offsets_type, columns_type, base) == (2, 2, 0)
        handle = self._make("matrix")
        self.matrices[handle] = [(rows, columns), nnz, arrays, NUMBERS[kind].type]
        return handle

    def destroy_sp_mat(self, handle):
        self._destroy("matrix", handle)

    def create_dn_vec(self, count, at, kind):
        handle = self._make("vector")
        self.dense[handle] = _numbers(at, (count,), kind)
        return handle

    def dn_vec_set_values(self, handle, at):
        assert self.made[handle] == "vector"
        self.dense[handle] = _numbers(at, self.dense[handle].shape, TYPES[self.dense[handle].dtype])

    def destroy_dn_vec(self, handle):
        self._destroy("vector", handle)

    def create_dn_mat(self, rows, columns, stride, at, kind, order):
        assert (stride, order) == (columns, self.Order.ROW)
        handle = self._make("vectors")
        self.dense[handle] = _numbers(at, (rows, columns), kind)
        return handle

    def destroy_dn_mat(self, handle):
        self._destroy("vectors", handle)

    def sp_mv_buffer_size(self, *arguments):
        return 700 + len(arguments)

    def sp_mv_preprocess(self, *arguments):
        self.calls.append("sp_mv_preprocess")

    def sp_mv(self, handle, operation, *rest):
        self._multiply_dense(self.SpMVAlg, "vector", handle, *rest)

    def sp_mm_buffer_size(self, *arguments):
        return 900 + len(arguments)

    def sp_mm_preprocess(self, *arguments):
        raise HostError(self.Status.NOT_SUPPORTED)

    def sp_mm(self, handle, operation, other_operation, *rest):
        self._multiply_dense(self.SpMMAlg, "vectors", handle, *rest)

    def _multiply_dense(self, algorithms, what, handle, one, a, x, zero, y, kind, algorithm, memory):
        """y = A x of vectors, or of several side by side."""
        assert [self.made[given] for given in (handle, a, x, y)] == ["handle", "matrix", what, what]
        assert {TYPES[numbers.dtype] for numbers in (self.dense[x], self.dense[y])} == {kind} and memory != 0
        self.calls.append(algorithms(algorithm).name)
        if status := self.failing.get(algorithms(algorithm).name, 0):
            raise HostError(status)
        self.dense[y][...] = self._matrix(a) @ self.dense[x]

    def sp_mat_get_size(self, handle):
        shape, nnz, *_ = self.matrices[handle]
        return (*shape, nnz + self.extra_entries)

    def csr_set_pointers(self, handle, *arrays):
        self.matrices[handle][2] = arrays

    def _arrays(self, handle):
        """The arrays of a matrix, as they lie in memory."""
        (rows, _), nnz, addresses, dtype = self.matrices[handle]
        counts = zip(addresses, (rows + 1, nnz, nnz), (np.int32, np.int32, dtype), strict=True)
        return [
            np.frombuffer((ctypes.c_byte * (n * np.dtype(t).itemsize)).from_address(at), t) if n else np.empty(0, t)
            for at, n, t in counts
        ]

    def _matrix(self, handle):
        offsets, columns, values = self._arrays(handle)
        return sp.csr_array((values, columns, offsets), shape=self.matrices[handle][0])

    def call(self, name, argtypes, arguments):
        """A function of the shared library: its status."""
        for kind, argument in zip(argtypes, arguments, strict=True):
            kind.from_param(argument)  # which refuses what the function cannot take
        self.calls.append(name)
        if status := self.failing.get((name, self.calls.count(name)), 0):
            return status
        if name == "cusparseSpGEMM_createDescr":
            arguments[0]._obj.value = self._make("product")
        elif name == "cusparseSpGEMM_destroyDescr":
            self._destroy("product", arguments[0])
        elif "SpMVOp" in name:
            return self._plan(name, arguments)
        else:
            self._multiply(name, arguments)
        return 0

    def _plan(self, name, arguments):
        """SpMVOp and what is before and after it; as the library's own, for real numbers alone."""
        if name.endswith(("destroyDescr", "destroyPlan")):
            if name.endswith("destroyDescr"):
                assert self.device.holds(self.plans[arguments[0]][-1], 800)
            self._destroy(name, arguments[0])
        elif name.endswith("createPlan"):
            handle, described, made, *code = arguments
            assert (self.made[handle], code) == ("handle", [None, 0])
            assert self.made[described] == "cusparseSpMVOp_destroyDescr"
            made._obj.value = self._make("cusparseSpMVOp_destroyPlan", described, handle)
            self.plans[made._obj.value] = self.plans[described]
        elif name == "cusparseSpMVOp":
            handle, plan, alpha, beta, x, y, z = arguments
            assert (self.made[handle], self.made[plan]) == ("handle", "cusparseSpMVOp_destroyPlan")
            a, numbers, memory = self.plans[plan]
            assert self.device.holds(memory, 800)
            self._check_vectors(a, numbers, (x, y, z))
            alpha, beta = (_pointer(at, numbers.type)[0] for at in (alpha, beta))
            # which does not leave y alone where beta is 0
            self.dense[z][...] = alpha * (self._matrix(a) @ self.dense[x]) + beta * self.dense[y]
        else:
            size = name.endswith("bufferSize")
            handle, *rest = arguments
            made, *rest = (rest[-1], *rest[:-1]) if size else rest
            operation, a, x, y, z, kind, self.algorithm, *memory = rest
            assert [self.made[given] for given in (handle, a)] == ["handle", "matrix"] and operation == 0
            if NUMBERS[kind].kind == "c":
                return Status.NOT_SUPPORTED
            self._check_vectors(a, NUMBERS[kind], (x, y, z))
            if size:
                [made._obj.value] = SIZES[name]
            else:
                [memory] = memory
                assert self.device.holds(memory, 800)
                made._obj.value = self._make("cusparseSpMVOp_destroyDescr", handle, a, x, y, z)
                self.plans[made._obj.value] = a, NUMBERS[kind], memory
        return 0

    def _check_vectors(self, a, dtype, vectors):
        (rows, columns), _, _, numbers = self.matrices[a]
        assert [self.made[vector] for vector in vectors] == ["vector"] * 3
        assert [len(self.dense[vector]) for vector in vectors] == [columns, rows, rows]
        assert {self.dense[vector].dtype for vector in vectors} == {np.dtype(numbers)} == {dtype}

    def _multiply(self, name, arguments):
        numbers = PARAMETERS["cusparseSpGEMM_copy"]  # those of all calls that have to do with values
        if len(arguments) >= len(numbers) and PARAMETERS[name][: len(numbers)] == numbers:
            handle, _, _, one, a, b, zero, c, _, self.algorithm, state, *rest = arguments
            dtype = self.matrices[a][3]
            assert [dtype(np.ctypeslib.as_array(_pointer(at, dtype), (1,))[0]) for at in (one, zero)] == [1, 0]
        else:
            handle, _, _, a, b, c, self.algorithm, state, *rest = arguments
        assert [self.made[given] for given in (handle, a, b, c, state)] == ["handle", *["matrix"] * 3, "product"]
        if name.endswith("estimateMemory"):
            fraction, *rest, needed = rest
            assert fraction == 0.2
            if needed is not None:
                [needed._obj.value] = SIZES["cusparseSpGEMM_compute"]
        asks = self._take_memory(name, rest)
        product = self._matrix(a) @ self._matrix(b)
        if name.endswith(("SpGEMM_compute", "reuse_nnz")) and not asks:
            self.matrices[c][1] = product.nnz
        if name.endswith("copy") and not asks and product.nnz:
            offsets, columns, _ = self._arrays(c)
            offsets[:], columns[:] = product.indptr, product.indices
        if name.endswith(("SpGEMM_copy", "reuse_compute")):
            self._arrays(c)[2][:] = product.data

    def _take_memory(self, name, rest):
        """Answer a question for sizes, or hold them and the memory given against the answers; say which it was."""
        asks = bool(rest) and rest[1] is None
        if rest:
            for size, memory, needed in zip(rest[::2], rest[1::2], SIZES[name], strict=True):
                if asks:
                    assert (memory, size._obj.value) == (None, 0)
                    size._obj.value = needed
                else:
                    assert self.device.live[memory] == size._obj.value == needed
        return asks


def _numbers(at, shape, kind):
    """The numbers of a type that lie somewhere in memory."""
    dtype = NUMBERS[kind]
    return np.frombuffer((ctypes.c_byte * (int(np.prod(shape)) * dtype.itemsize)).from_address(at), dtype).reshape(
        shape
    )


def _pointer(at, dtype):
    return ctypes.cast(at, ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype)))


class HostShared:
    """What `ctypes.CDLL` is to a shared library."""

    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        if name in self._library.missing:
            raise AttributeError(name)

        def function(*arguments):
            return self._library.call(name, function.argtypes, arguments)

        return function
