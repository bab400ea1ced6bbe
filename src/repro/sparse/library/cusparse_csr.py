"""cuSPARSE's products of matrices in CSR: with one vector, with several, and of two sparse matrices.

`GpuCsr` is a matrix as libraries take it: 32-bit offsets and columns, counted from 0. Products of two sparse
matrices, C = A B, are SpGEMM with its three algorithms, and SpGEMMreuse. All of such a product's working memory,
and C, are allocated by the device on the way, so that a call of `multiply` is a whole product. The order of the
calls is that of NVIDIA's samples `spgemm`, `spgemm_mem` and `spgemm_reuse`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from ctypes import byref, c_size_t
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Guards
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Buffer, Device, LaunchError
from repro.devices.cuda import CudaDevice
from repro.errors import ReproError
from repro.sparse.device_work import keep
from repro.sparse.library.cusparse_bindings import TYPES, Calls, address, destroy, gpu, load, refusals, scalars

#: The entries that 32-bit offsets can tell apart.
MAX_CSR_ENTRIES = 2**31 - 1


@dataclass(frozen=True)
class GpuCsr:
    """A matrix on a device.

    Attributes
    ----------
    device
        Where it lies.
    shape
        Rows and columns.
    nnz
        Stored entries.
    offsets, columns, values
        int32 `(rows + 1,)`, int32 `(nnz,)` and `dtype` `(nnz,)`.
    dtype
        float32 or float64.
    """

    device: Device
    shape: tuple[int, int]
    nnz: int
    offsets: Buffer
    columns: Buffer
    values: Buffer
    dtype: np.dtype[Any]

    @classmethod
    def allocate(cls, device: Device, shape: tuple[int, int], nnz: int, dtype: np.dtype[Any]) -> GpuCsr:
        """Return memory for a matrix of so many entries, uninitialised.

        Raises
        ------
        OutOfDeviceMemory
        """
        with ExitStack() as held:
            sizes = INDEX_BYTES * (shape[0] + 1), INDEX_BYTES * nnz, dtype.itemsize * nnz
            offsets, columns, values = (keep(held, device.allocate(size)) for size in sizes)
            held.pop_all()
            return cls(device, shape, nnz, offsets, columns, values, dtype)

    @classmethod
    def upload(cls, device: Device, matrix: sp.csr_array) -> GpuCsr:
        """Copy a matrix to a device; the order of its entries stays, and so do those of one place.

        Raises
        ------
        ReproError
            Its values are neither float32 nor float64, or it has more entries or columns than 32 bits can count.
        OutOfDeviceMemory
        """
        if matrix.dtype.type not in DTYPES.values():
            raise ReproError("a matrix of an unknown precision", expected="float32 or float64", actual=matrix.dtype)
        if max(matrix.nnz, *matrix.shape) > MAX_CSR_ENTRIES:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                expected=f"at most {MAX_CSR_ENTRIES:,} rows, columns and entries",
                actual=f"{matrix.shape[0]:,} × {matrix.shape[1]:,} with {matrix.nnz:,} entries",
            )
        rows, columns = matrix.shape
        with ExitStack() as held:
            csr = keep(held, cls.allocate(device, (rows, columns), int(matrix.nnz), matrix.dtype))
            device.write(csr.offsets, matrix.indptr.astype(np.int32, copy=False))
            if csr.nnz:
                # SciPy's arrays may be longer than the matrix has entries
                device.write(csr.columns, matrix.indices[: csr.nnz].astype(np.int32, copy=False))
                device.write(csr.values, matrix.data[: csr.nnz])
            held.pop_all()
            return csr

    def download(self) -> sp.csr_array:
        """Wait for what is queued and return the matrix, its entries in the order in which they are stored."""
        offsets = self._read(self.offsets, self.shape[0] + 1, np.dtype(np.int32))
        columns = self._read(self.columns, self.nnz, np.dtype(np.int32))
        values = self._read(self.values, self.nnz, self.dtype)
        return sp.csr_array((values, columns, offsets), shape=self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(buffer.nbytes for buffer in (self.offsets, self.columns, self.values))

    def release(self) -> None:
        """Give its memory back."""
        for buffer in (self.offsets, self.columns, self.values):
            buffer.release()

    def _read(self, buffer: Buffer, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array


@dataclass(frozen=True)
class CsrRoutine:
    """A routine of the library.

    Attributes
    ----------
    name
        `spmv-csr-alg1`, …
    function
        `sp_mv`, of one vector, or `sp_mm`, of several.
    algorithm
        The name in `SpMVAlg` or `SpMMAlg`.
    """

    name: str
    function: str
    algorithm: str


#: For one vector, and for several.
OF_VECTOR = tuple(CsrRoutine(f"spmv-csr-alg{n}", "sp_mv", f"CSR_ALG{n}") for n in (1, 2))
OF_SEVERAL = tuple(CsrRoutine(f"spmm-csr-alg{n}", "sp_mm", f"CSR_ALG{n}") for n in (1, 2, 3))
_SPMV_ALGORITHMS = {"sp_mv": "SpMVAlg", "sp_mm": "SpMMAlg"}


def csr_routines(fields: int) -> tuple[CsrRoutine, ...]:
    """Return the routines for so many vectors at once."""
    return OF_VECTOR if fields == 1 else OF_SEVERAL


def bind_csr_product(
    matrix: GpuCsr, routine: CsrRoutine, x: Buffer, y: Buffer, fields: int, guards: Guards, held: ExitStack
) -> Callable[[], None]:
    """Let the library analyse a product, run it once, and return what queues it: Y = A X.

    Parameters
    ----------
    matrix
        A, `(n, m)`; columns of a row in any order.
    routine
        One of `csr_routines(fields)`.
    x, y
        X `(m, fields)` and Y `(n, fields)`, the vectors side by side (row by row), of the matrix's type.
    fields
        How many vectors there are.
    guards
        What looks after the library's working memory.
    held
        Gives back all that the library makes, and its working memory.

    Raises
    ------
    Unsupported, OutOfDeviceMemory, LaunchError
        There is no GPU or no cuSPARSE, or the library refuses; the message is its own.
    """
    library, device = load(), gpu(matrix.device)
    algorithms = getattr(library, _SPMV_ALGORITHMS[routine.function], None)
    algorithm = getattr(algorithms, routine.algorithm, None)
    if algorithm is None:
        raise Unsupported(f"nvmath-python does not know {_SPMV_ALGORITHMS[routine.function]}.{routine.algorithm}")
    with refusals(library, device, routine.name):
        handle = library.create()
        held.callback(destroy, library, library.destroy, handle)
        library.set_stream(handle, device.stream)
        kind, index = TYPES[matrix.dtype], library.IndexType.INDEX_32I
        arrays = map(address, (matrix.offsets, matrix.columns, matrix.values))
        described = library.create_csr(*matrix.shape, matrix.nnz, *arrays, index, index, library.IndexBase.ZERO, kind)
        held.callback(destroy, library, library.destroy_sp_mat, described)
        dense = [
            _describe(library, buffer, length, fields, kind, held)
            for buffer, length in ((x, matrix.shape[1]), (y, matrix.shape[0]))
        ]
        one, zero = scalars(matrix.dtype)
        plain = [library.Operation.NON_TRANSPOSE] * (1 if fields == 1 else 2)
        arguments = handle, *plain, one, described, dense[0], zero, dense[1], kind, algorithm
        nbytes = getattr(library, f"{routine.function}_buffer_size")(*arguments)
        working = guards.allocate(nbytes, "the library's working memory")
        held.callback(working.release)
        buffer = address(working.memory)
        try:
            getattr(library, f"{routine.function}_preprocess")(*arguments, buffer)
        except (library.cuSPARSEError, RuntimeError, AttributeError) as error:  # optional, and not in every version
            if getattr(error, "status", library.Status.NOT_SUPPORTED) != library.Status.NOT_SUPPORTED:
                raise
        run = partial(getattr(library, routine.function), *arguments, buffer)
        run()
        device.synchronize()

    def launch() -> None:
        try:
            run()
        except library.cuSPARSEError as error:
            raise LaunchError(f"cuSPARSE: {error}") from None

    return launch


def _describe(library: Any, buffer: Buffer, length: int, fields: int, kind: int, held: ExitStack) -> int:
    """Return the library's description of a vector, or of several side by side."""
    if fields == 1:
        described = library.create_dn_vec(length, address(buffer), kind)
        held.callback(destroy, library, library.destroy_dn_vec, described)
    else:
        described = library.create_dn_mat(length, fields, fields, address(buffer), kind, library.Order.ROW)
        held.callback(destroy, library, library.destroy_dn_mat, described)
    return int(described)


#: ALG1 holds all products of two entries at once; ALG2 needs less memory; ALG3 forms them in chunks.
SPGEMM_ALGORITHMS = ("ALG1", "ALG2", "ALG3")
#: The part of all products of two entries that is a chunk, as in NVIDIA's sample; only ALG3 has chunks.
CHUNK_FRACTION = 0.2


class _WorkingMemory:
    """Working memory of a product.

    Attributes
    ----------
    peak
        The most bytes that there were at a time.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._bytes = self.peak = 0

    def allocate(self, nbytes: int, held: ExitStack) -> int:
        """Return the address of memory, never 0, which is given back when the stack is closed."""
        buffer = self._device.allocate(nbytes)
        held.callback(self._release, buffer)
        self._bytes += nbytes
        self.peak = max(self.peak, self._bytes)
        return address(buffer)

    def _release(self, buffer: Buffer) -> None:
        self._bytes -= buffer.nbytes
        buffer.release()


class _Product:
    """Two matrices as the library knows them.

    Parameters
    ----------
    device
        The GPU that they lie on.
    a, b
        The matrices, which stay the caller's.

    Attributes
    ----------
    workspace_bytes
        The most working memory that the last product took at a time, without C and without what the library allocates
        by itself.

    Raises
    ------
    ReproError
        They cannot be multiplied.
    Unsupported
        There is no GPU or no cuSPARSE, or it refuses the matrices.
    """

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr) -> None:
        if a.shape[1] != b.shape[0]:
            raise ReproError(
                "the matrices cannot be multiplied",
                expected=f"a second matrix with {a.shape[1]} rows, as the first has columns",
                actual=f"{b.shape[0]} rows",
            )
        if a.dtype != b.dtype:
            raise ReproError("the matrices are in two precisions", expected=f"both of {a.dtype}", actual=b.dtype)
        self.workspace_bytes = 0
        self._device, self._dtype, self._shape = device, a.dtype, (a.shape[0], b.shape[1])
        self._calls = Calls(device)
        with ExitStack() as held:
            self._handle = self._calls.make(held, "create", "destroy")
            self._calls.bound("set_stream", self._handle, device.stream)
            self._a, self._b = (
                self._describe(held, m.shape, m.nnz, *map(address, (m.offsets, m.columns, m.values))) for m in (a, b)
            )
            self._held = held.pop_all()

    def release(self) -> None:
        """Give back what the library holds; products stay."""
        self._held.close()

    def _describe(self, held: ExitStack, shape: tuple[int, int], nnz: int, *arrays: int) -> int:
        """Return the library's description of a matrix."""
        library = self._calls.library
        index = library.IndexType.INDEX_32I
        kinds = index, index, library.IndexBase.ZERO, TYPES[self._dtype]
        return self._calls.make(held, "create_csr", "destroy_sp_mat", *shape, nnz, *arrays, *kinds)

    def _arguments(self, c: int, algorithm: int, state: int) -> tuple[int, ...]:
        """Return what calls that have to do with values begin with."""
        plain = self._calls.library.Operation.NON_TRANSPOSE
        one, zero = scalars(self._dtype)
        matrices = one, self._a, self._b, zero, c
        return self._handle, plain, plain, *matrices, TYPES[self._dtype], algorithm, state

    def _call_twice(self, name: str, arguments: tuple[int, ...], memory: _WorkingMemory, held: ExitStack) -> None:
        """Ask a function for the bytes of working memory, then call it with as many."""
        size = c_size_t()
        self._calls.run(name, *arguments, byref(size), None)
        self._calls.run(name, *arguments, byref(size), memory.allocate(size.value, held))

    def _allocate(self, c: int) -> GpuCsr:
        """Return memory for C, whose size the library knows by now, and tell it where that is."""
        nnz = int(self._calls.bound("sp_mat_get_size", c)[2])
        if nnz > MAX_CSR_ENTRIES:
            raise Unsupported(f"cuSPARSE: a product of {nnz:,} entries, more than 32-bit offsets can tell apart")
        with ExitStack() as held:
            product = keep(held, GpuCsr.allocate(self._device, self._shape, nnz, self._dtype))
            if not nnz:
                self._device.fill(product.offsets, 0)  # nothing says that the library writes them then
            arrays = product.offsets, product.columns, product.values
            self._calls.bound("csr_set_pointers", c, *map(address, arrays))
            held.pop_all()
            return product


class Gemm(_Product):
    """Products by `cusparseSpGEMM`.

    Parameters
    ----------
    device, a, b
        As of any product.
    algorithm
        One of `ALGORITHMS`.
    """

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr, algorithm: str) -> None:
        if algorithm not in SPGEMM_ALGORITHMS:
            raise ReproError(
                "unknown algorithm of SpGEMM", expected=f"one of {', '.join(SPGEMM_ALGORITHMS)}", actual=algorithm
            )
        super().__init__(device, a, b)
        self._estimates = algorithm != "ALG1"
        self._algorithm = int(self._calls.library.SpGEMMAlg[algorithm])

    def multiply(self) -> GpuCsr:
        """Return C = A B, complete, which is the caller's to release.

        Raises
        ------
        OutOfDeviceMemory
            There is no room for C or the working memory, or the library finds its resources insufficient.
        LaunchError
        Unsupported
            The library refuses; the message has the function and its status.
        """
        memory = _WorkingMemory(self._device)
        with ExitStack() as made, ExitStack() as held:
            c = self._describe(held, self._shape, 0, 0, 0, 0)
            arguments = self._arguments(c, self._algorithm, self._calls.make_product(held))
            self._call_twice("cusparseSpGEMM_workEstimation", arguments, memory, held)
            if self._estimates:
                size = self._estimate(arguments, memory)
                self._calls.run("cusparseSpGEMM_compute", *arguments, byref(size), memory.allocate(size.value, held))
            else:
                self._call_twice("cusparseSpGEMM_compute", arguments, memory, held)
            product = keep(made, self._allocate(c))
            self._calls.run("cusparseSpGEMM_copy", *arguments)
            self._device.synchronize()
            made.pop_all()
        self.workspace_bytes = memory.peak
        return product

    def _estimate(self, arguments: tuple[int, ...], memory: _WorkingMemory) -> c_size_t:
        """Return the bytes that computing takes; estimating them takes some of its own, for as long as it lasts."""
        name, size, needed = "cusparseSpGEMM_estimateMemory", c_size_t(), c_size_t()
        with ExitStack() as held:
            self._calls.run(name, *arguments, CHUNK_FRACTION, byref(size), None, None)
            given = memory.allocate(size.value, held)
            self._calls.run(name, *arguments, CHUNK_FRACTION, byref(size), given, byref(needed))
        return needed


class GemmReuse(_Product):
    """Products by `cusparseSpGEMMreuse`: the pattern of C once, then its values as often as A's and B's change.

    Its algorithm is the library's default, the only one that NVIDIA's sample uses.

    Parameters
    ----------
    device, a, b
        As of any product.
    """

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr) -> None:
        super().__init__(device, a, b)
        self._kept = ExitStack()
        self._numeric: tuple[int, ...] | None = None

    def multiply(self) -> GpuCsr:
        """Return C = A B, complete, which is the caller's to release; what fills it again is kept until the next.

        Raises
        ------
        OutOfDeviceMemory
            There is no room for C or the working memory, or the library finds its resources insufficient.
        LaunchError
        Unsupported
            The library refuses; the message has the function and its status.
        """
        self._forget()
        algorithm = int(self._calls.library.SpGEMMAlg.DEFAULT)
        plain = self._calls.library.Operation.NON_TRANSPOSE
        memory = _WorkingMemory(self._device)
        with ExitStack() as made, ExitStack() as kept:
            c = self._describe(kept, self._shape, 0, 0, 0, 0)
            state = self._calls.make_product(kept)
            pattern = self._handle, plain, plain, self._a, self._b, c, algorithm, state
            with ExitStack() as until_copied:
                with ExitStack() as until_counted:
                    self._call_twice("cusparseSpGEMMreuse_workEstimation", pattern, memory, until_counted)
                    self._count(pattern, memory, (until_counted, until_copied, kept))
                product = keep(made, self._allocate(c))
                self._call_twice("cusparseSpGEMMreuse_copy", pattern, memory, kept)
            arguments = self._arguments(c, algorithm, state)
            self._calls.run("cusparseSpGEMMreuse_compute", *arguments)
            self._device.synchronize()
            self._kept, self._numeric = kept.pop_all(), arguments
            made.pop_all()
        self.workspace_bytes = memory.peak
        return product

    def _count(self, pattern: tuple[int, ...], memory: _WorkingMemory, until: tuple[ExitStack, ...]) -> None:
        """Find the size of C, with three parts of working memory that are needed for differently long."""
        sizes = [c_size_t() for _ in until]
        asked: list[Any] = [argument for size in sizes for argument in (byref(size), None)]
        self._calls.run("cusparseSpGEMMreuse_nnz", *pattern, *asked)
        given: list[Any] = []
        for size, held in zip(sizes, until, strict=True):
            given += [byref(size), memory.allocate(size.value, held)]
        self._calls.run("cusparseSpGEMMreuse_nnz", *pattern, *given)

    def bind(self) -> Callable[[], None]:
        """Return what queues C = A B for the values that A and B have by then, into the C of the last `multiply`.

        A, B and C have to be there still, with the patterns that they had. It is of no use after the next `multiply`,
        and raises `LaunchError`.
        """
        assert self._numeric is not None, "a product comes first"
        name, arguments, failure = "cusparseSpGEMMreuse_compute", self._numeric, self._calls.library.cuSPARSEError
        compute = self._calls.function(name)

        def launch() -> None:
            if status := compute(*arguments):
                raise LaunchError(f"cuSPARSE: {name}: {failure(status)}")

        return launch

    def release(self) -> None:
        """Give back what the library holds, and what was kept to fill C again; products stay."""
        self._forget()
        super().release()

    def _forget(self) -> None:
        self._numeric = None
        self._kept.close()
