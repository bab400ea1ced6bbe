"""cuSPARSE products of CSR matrices: with one vector, with several vectors, and of two sparse matrices.

C = A B is computed by SpGEMM with its three algorithms, or by SpGEMMreuse. `multiply` is a whole product, including the
allocation of C and of all working memory. Calls follow NVIDIA's samples `spgemm`, `spgemm_mem` and `spgemm_reuse`.
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

from repro.bench.guards import Guards
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Buffer, Device, LaunchError
from repro.devices.cuda import CudaDevice
from repro.errors import ReproError, Unsupported
from repro.sparse.device_primitives import check_factors, keep
from repro.sparse.library.cusparse_bindings import TYPES, Handle, address, scalars

#: Largest number of entries that 32-bit offsets can address.
MAX_CSR_ENTRIES = 2**31 - 1


@dataclass(frozen=True)
class GpuCsr:
    """A CSR matrix in device memory, as libraries take it: zero-based 32-bit offsets and columns."""

    device: Device
    shape: tuple[int, int]
    nnz: int
    #: Row offsets, int32 `(rows + 1,)`.
    offsets: Buffer
    #: Column of each entry, int32 `(nnz,)`.
    columns: Buffer
    #: Values in `dtype`, `(nnz,)`.
    values: Buffer
    #: float32 or float64; complex types of matrices that are multiplied by vectors only.
    dtype: np.dtype[Any]

    @classmethod
    def allocate(cls, device: Device, shape: tuple[int, int], nnz: int, dtype: np.dtype[Any]) -> GpuCsr:
        with ExitStack() as stack:
            sizes = INDEX_BYTES * (shape[0] + 1), INDEX_BYTES * nnz, dtype.itemsize * nnz
            offsets, columns, values = (keep(stack, device.allocate(size)) for size in sizes)
            stack.pop_all()
            return cls(device, shape, nnz, offsets, columns, values, dtype)

    @classmethod
    def upload(cls, device: Device, matrix: sp.csr_array) -> GpuCsr:
        """Copy a matrix to a device; the order of entries and duplicates stay.

        Other dtypes than float32 and float64, and sizes beyond 32-bit indices, raise `ReproError`.
        """
        if matrix.dtype.type not in DTYPES.values():
            raise ReproError("unknown precision of a matrix", expected="float32 or float64", actual=matrix.dtype)
        if max(matrix.nnz, *matrix.shape) > MAX_CSR_ENTRIES:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                expected=f"at most {MAX_CSR_ENTRIES:,} rows, columns and entries",
                actual=f"{matrix.shape[0]:,} × {matrix.shape[1]:,} with {matrix.nnz:,} entries",
            )
        rows, columns = matrix.shape
        with ExitStack() as stack:
            csr = keep(stack, cls.allocate(device, (rows, columns), int(matrix.nnz), matrix.dtype))
            device.write(csr.offsets, matrix.indptr.astype(np.int32, copy=False))
            if csr.nnz:
                # SciPy's arrays may have more elements than the matrix has entries
                device.write(csr.columns, matrix.indices[: csr.nnz].astype(np.int32, copy=False))
                device.write(csr.values, matrix.data[: csr.nnz])
            stack.pop_all()
            return csr

    def download(self) -> sp.csr_array:
        """Wait for queued work and return the matrix, with entries in stored order."""
        offsets = self._read(self.offsets, self.shape[0] + 1, np.dtype(np.int32))
        columns = self._read(self.columns, self.nnz, np.dtype(np.int32))
        values = self._read(self.values, self.nnz, self.dtype)
        return sp.csr_array((values, columns, offsets), shape=self.shape)

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in (self.offsets, self.columns, self.values))

    @property
    def addresses(self) -> list[int]:
        return [address(buffer) for buffer in (self.offsets, self.columns, self.values)]

    def release(self) -> None:
        for buffer in (self.offsets, self.columns, self.values):
            buffer.release()

    def _read(self, buffer: Buffer, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array


@dataclass(frozen=True)
class CsrRoutine:
    #: Name of the routine in result rows: `spmv-csr-alg1`, …
    name: str
    #: `sp_mv` for one vector, `sp_mm` for several.
    function: str
    #: Name in `SpMVAlg` or `SpMMAlg`.
    algorithm: str


#: Routines for one vector, and for several vectors.
OF_VECTOR = tuple(CsrRoutine(f"spmv-csr-alg{n}", "sp_mv", f"CSR_ALG{n}") for n in (1, 2))
OF_SEVERAL = tuple(CsrRoutine(f"spmm-csr-alg{n}", "sp_mm", f"CSR_ALG{n}") for n in (1, 2, 3))
_ALGORITHMS = {"sp_mv": "SpMVAlg", "sp_mm": "SpMMAlg"}


def csr_routines(fields: int) -> tuple[CsrRoutine, ...]:
    """Return the library's routines for products with `fields` vectors at once."""
    return OF_VECTOR if fields == 1 else OF_SEVERAL


class CsrProduct:
    """Y = A X, which the library has analysed and run once, on the device's own queue.

    `launch` is the product of X and Y; later values of A are multiplied as they are then. `routine` is one of
    `csr_routines(fields)`. X is `(m, fields)` and Y `(n, fields)`, row by row, of A's type; columns of a row of A may
    have any order. `stack` releases descriptors and working memory.

    Raises
    ------
    Unsupported, OutOfDeviceMemory, LaunchError
        There is no GPU or no cuSPARSE, or the library refuses; the message is its own.
    """

    def __init__(
        self, matrix: GpuCsr, routine: CsrRoutine, x: Buffer, y: Buffer, fields: int, guards: Guards, stack: ExitStack
    ) -> None:
        self._handle = handle = Handle(matrix.device, stack, label=routine.name)
        algorithm = handle.algorithm(_ALGORITHMS[routine.function], routine.algorithm)
        dtype, (rows, columns) = matrix.dtype, matrix.shape
        with handle.refusals(routine.name):
            descriptor = handle.make_csr(stack, matrix.shape, matrix.nnz, matrix.addresses, dtype)
            self._dense = [
                handle.make_vector(stack, buffer, length, dtype)
                if fields == 1
                else handle.make_vectors(stack, buffer, length, fields, dtype)
                for buffer, length in ((x, columns), (y, rows))
            ]
            one, zero = scalars(dtype)
            plain = [handle.plain] * (1 if fields == 1 else 2)
            given = one, descriptor, self._dense[0], zero, self._dense[1], TYPES[dtype], algorithm
            arguments = handle.value, *plain, *given
            workspace_address = handle.prepare(stack, routine.function, arguments, guards)
            self._run = partial(getattr(handle.library, routine.function), *arguments, workspace_address)
            self._run()  # besides, a graph can only contain kernels that are loaded
            handle.device.synchronize()
        self.launch = handle.launcher(self._run)

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x for other vectors, if there is one of each."""
        point, vectors = self._handle.library.dn_vec_set_values, [*zip(self._dense, map(address, (x, y)), strict=True)]

        def run() -> None:
            for vector, at in vectors:
                point(vector, at)
            self._run()

        return self._handle.launcher(run)


#: ALG1 holds all intermediate products at once; ALG2 needs less memory; ALG3 forms them in chunks.
SPGEMM_ALGORITHMS = ("ALG1", "ALG2", "ALG3")
#: Share of the intermediate products in a chunk of ALG3, as in NVIDIA's sample.
CHUNK_FRACTION = 0.2


class _WorkingMemory:
    """Working memory of a product; `peak` is the largest number of bytes in use so far."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._bytes = self.peak = 0

    def allocate(self, nbytes: int, stack: ExitStack) -> int:
        """Return the address of memory, never 0, released when the stack is closed."""
        buffer = self._device.allocate(nbytes)
        stack.callback(self._release, buffer)
        self._bytes += nbytes
        self.peak = max(self.peak, self._bytes)
        return address(buffer)

    def _release(self, buffer: Buffer) -> None:
        self._bytes -= buffer.nbytes
        buffer.release()


class _Product:
    """Descriptors of two matrices A and B, which the caller owns.

    `workspace_bytes` is the peak working memory of the last product, without C and the library's own allocations.
    """

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr) -> None:
        check_factors(a, b)
        self.workspace_bytes = 0
        self._device, self._dtype, self._shape = device, a.dtype, (a.shape[0], b.shape[1])
        with ExitStack() as stack:
            self._handle = handle = Handle(device, stack)
            self._a, self._b = (handle.make_csr(stack, m.shape, m.nnz, m.addresses, m.dtype) for m in (a, b))
            self._stack = stack.pop_all()

    def release(self) -> None:
        """Release the library's objects; matrices that were returned stay."""
        self._stack.close()

    def _describe_product(self, stack: ExitStack) -> int:
        return self._handle.make_csr(stack, self._shape, 0, (0, 0, 0), self._dtype)

    def _make_state(self, stack: ExitStack) -> int:
        return self._handle.make_directly(stack, "cusparseSpGEMM_createDescr", "cusparseSpGEMM_destroyDescr")

    def _arguments(self, c: int, algorithm: int, state: int) -> tuple[int, ...]:
        """Return the first arguments of every function of SpGEMM: handle, factors, matrices, type and algorithm."""
        plain = self._handle.plain
        one, zero = scalars(self._dtype)
        matrices = one, self._a, self._b, zero, c
        return self._handle.value, plain, plain, *matrices, TYPES[self._dtype], algorithm, state

    def _call_twice(self, name: str, arguments: tuple[int, ...], memory: _WorkingMemory, stack: ExitStack) -> None:
        """Query a function's working memory, allocate it, and call the function with it."""
        size = c_size_t()
        self._handle.run(name, *arguments, byref(size), None)
        self._handle.run(name, *arguments, byref(size), memory.allocate(size.value, stack))

    def _allocate(self, c: int) -> GpuCsr:
        """Allocate C with the size that the library has computed, and set the pointers of its descriptor."""
        nnz = int(self._handle.bound("sp_mat_get_size", c)[2])
        if nnz > MAX_CSR_ENTRIES:
            raise Unsupported(f"cuSPARSE: a product of {nnz:,} entries, more than 32-bit offsets can tell apart")
        with ExitStack() as stack:
            product = keep(stack, GpuCsr.allocate(self._device, self._shape, nnz, self._dtype))
            if not nnz:
                self._device.fill(product.offsets, 0)  # the library may not write the offsets of an empty product
            self._handle.bound("csr_set_pointers", c, *product.addresses)
            stack.pop_all()
            return product


class Gemm(_Product):
    """Products by `cusparseSpGEMM` with one of `SPGEMM_ALGORITHMS`."""

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr, algorithm: str) -> None:
        if algorithm not in SPGEMM_ALGORITHMS:
            raise ReproError(
                "unknown algorithm of SpGEMM", expected=f"one of {', '.join(SPGEMM_ALGORITHMS)}", actual=algorithm
            )
        super().__init__(device, a, b)
        self._estimates = algorithm != "ALG1"
        self._algorithm = int(self._handle.library.SpGEMMAlg[algorithm])

    def multiply(self) -> GpuCsr:
        """Return the complete C = A B, which the caller releases.

        Raises
        ------
        OutOfDeviceMemory, LaunchError, Unsupported
            C or the working memory does not fit, a kernel failed, or the library refuses.
        """
        memory = _WorkingMemory(self._device)
        with ExitStack() as product_stack, ExitStack() as stack:
            c = self._describe_product(stack)
            arguments = self._arguments(c, self._algorithm, self._make_state(stack))
            self._call_twice("cusparseSpGEMM_workEstimation", arguments, memory, stack)
            if self._estimates:
                size = self._estimate(arguments, memory)
                self._handle.run("cusparseSpGEMM_compute", *arguments, byref(size), memory.allocate(size.value, stack))
            else:
                self._call_twice("cusparseSpGEMM_compute", arguments, memory, stack)
            product = keep(product_stack, self._allocate(c))
            self._handle.run("cusparseSpGEMM_copy", *arguments)
            self._device.synchronize()
            product_stack.pop_all()
        self.workspace_bytes = memory.peak
        return product

    def _estimate(self, arguments: tuple[int, ...], memory: _WorkingMemory) -> c_size_t:
        """Return the bytes that the computation needs; working memory of the estimate itself is released here."""
        name, size, required_bytes = "cusparseSpGEMM_estimateMemory", c_size_t(), c_size_t()
        with ExitStack() as stack:
            self._handle.run(name, *arguments, CHUNK_FRACTION, byref(size), None, None)
            work_buffer = memory.allocate(size.value, stack)
            self._handle.run(name, *arguments, CHUNK_FRACTION, byref(size), work_buffer, byref(required_bytes))
        return required_bytes


class GemmReuse(_Product):
    """Products by `cusparseSpGEMMreuse`: the pattern of C is computed once, its values after each change of A and B.

    Its algorithm is the library's default, the only one in NVIDIA's sample.
    """

    def __init__(self, device: CudaDevice, a: GpuCsr, b: GpuCsr) -> None:
        super().__init__(device, a, b)
        self._state_stack = ExitStack()
        self._numeric: tuple[int, ...] | None = None

    def multiply(self) -> GpuCsr:
        """Return the complete C = A B, which the caller releases; the state for refills is kept until the next call.

        It raises the errors of `Gemm.multiply`.
        """
        self._forget()
        algorithm = int(self._handle.library.SpGEMMAlg.DEFAULT)
        plain = self._handle.plain
        memory = _WorkingMemory(self._device)
        with ExitStack() as product_stack, ExitStack() as state_stack:
            c = self._describe_product(state_stack)
            state = self._make_state(state_stack)
            pattern = self._handle.value, plain, plain, self._a, self._b, c, algorithm, state
            with ExitStack() as until_copied:
                with ExitStack() as until_counted:
                    self._call_twice("cusparseSpGEMMreuse_workEstimation", pattern, memory, until_counted)
                    self._count(pattern, memory, (until_counted, until_copied, state_stack))
                product = keep(product_stack, self._allocate(c))
                self._call_twice("cusparseSpGEMMreuse_copy", pattern, memory, state_stack)
            arguments = self._arguments(c, algorithm, state)
            self._handle.run("cusparseSpGEMMreuse_compute", *arguments)
            self._device.synchronize()
            self._state_stack, self._numeric = state_stack.pop_all(), arguments
            product_stack.pop_all()
        self.workspace_bytes = memory.peak
        return product

    def _count(self, pattern: tuple[int, ...], memory: _WorkingMemory, until: tuple[ExitStack, ...]) -> None:
        """Compute the size of C; `until` are the stacks that release the three parts of working memory."""
        sizes = [c_size_t() for _ in until]
        size_queries: list[Any] = [argument for size in sizes for argument in (byref(size), None)]
        self._handle.run("cusparseSpGEMMreuse_nnz", *pattern, *size_queries)
        work_buffers: list[Any] = []
        for size, stack in zip(sizes, until, strict=True):
            work_buffers += [byref(size), memory.allocate(size.value, stack)]
        self._handle.run("cusparseSpGEMMreuse_nnz", *pattern, *work_buffers)

    def bind(self) -> Callable[[], None]:
        """Return a launch that refills the C of the last `multiply` from the current values of A and B.

        A, B and C must exist with unchanged patterns. After the next `multiply` the launch raises `LaunchError`.
        """
        assert self._numeric is not None, "a product comes first"
        name, arguments, failure = "cusparseSpGEMMreuse_compute", self._numeric, self._handle.library.cuSPARSEError
        compute = self._handle.function(name)

        def launch() -> None:
            if status := compute(*arguments):
                raise LaunchError(f"cuSPARSE: {name}: {failure(status)}")

        return launch

    def release(self) -> None:
        """Release the library's objects and the state for refills; matrices that were returned stay."""
        self._forget()
        super().release()

    def _forget(self) -> None:
        self._numeric = None
        self._state_stack.close()
