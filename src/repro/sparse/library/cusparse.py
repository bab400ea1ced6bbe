"""cuSPARSE baselines for y = A x: all routines that suit an entry, in all representations.

All routines share one upload of each format's arrays. SpMVOp, z = α A x + β y, is an experimental function, for which a
plan is created once per matrix; calls follow NVIDIA's sample `spmv_op`, without epilogue code.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from ctypes import byref, c_size_t
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Workspace
from repro.codegen.targets import INDEX_BYTES
from repro.devices.base import Buffer
from repro.errors import Unsupported
from repro.sparse.expansions import Bsr, Csr, Representation, representations, to_bsr, to_coo, to_csr, to_sell
from repro.sparse.library import baseline, suffix
from repro.sparse.library.cusparse_bindings import TYPES, WORKING_MEMORY, Handle, address, scalars, version
from repro.sparse.operands import ProductRunnable, operands_of, y_on

#: Rows of a slice of sliced ELLPACK: a warp.
SLICE_ROWS = 32

#: Names of each format's arrays. COO shares columns and values with CSR.
ARRAYS = {
    "csr": ("csr offsets", "csr columns", "csr values"),
    "coo": ("coo rows", "csr columns", "csr values"),
    "sell": ("sell offsets", "sell columns", "sell values"),
    "bsr": ("bsr offsets", "bsr columns", "bsr values"),
}
VECTOR_NAME = "x"


class SharedRepresentation:
    """One representation of a matrix in one ordering; routines share its device arrays by reference counts.

    Expanding tens of millions of numbers takes the host seconds, and GPU memory holds few copies of a large matrix.
    """

    def __init__(self, representation: Representation, ordering: str) -> None:
        self._representation = representation
        self._ordering = ordering
        self._csr: Csr | None = None
        self._buffers: dict[str, Buffer] = {}
        self._users: Counter[str] = Counter()

    def take(self, workspace: Workspace, name: str) -> list[Buffer]:
        """Return the device arrays of a format (offsets or rows, columns, values) and x; `give_back` ends their use.

        A matrix with more numbers than 32-bit indices can address raises `OverflowError`.
        """
        array_names = (*ARRAYS[name], VECTOR_NAME)
        self._users.update(array_names)
        try:
            if any(array not in self._buffers for array in array_names):
                arrays = self._expand(workspace, name)
                for array in array_names:
                    if array not in self._buffers:
                        self._buffers[array] = workspace.device.upload(arrays[array])
        except Exception:
            self.give_back(name)
            raise
        return [self._buffers[array] for array in array_names]

    def give_back(self, name: str) -> None:
        """End one use of a format, and release the arrays that no routine uses any more."""
        self._users.subtract((*ARRAYS[name], VECTOR_NAME))
        for array in [array for array in self._buffers if self._users[array] == 0]:
            self._buffers.pop(array).release()
        if not self._buffers:
            self._csr = None

    def _expand(self, workspace: Workspace, name: str) -> dict[str, NDArray[Any]]:
        operands, representation = operands_of(workspace), self._representation
        x = representation.arrange(operands.x_in(self._ordering))

        def blocks() -> Bsr:
            return to_bsr(operands.reordered(self._ordering), representation, operands.dtype)

        if name == "bsr":
            return self._named_arrays(name, blocks(), x)
        csr = self._csr or to_csr(blocks())
        if name == "sell":
            self._csr = None  # routines use formats in the order of `ARRAYS`, so no later format needs CSR
            return self._named_arrays(name, to_sell(csr, SLICE_ROWS), x)
        self._csr = csr
        return self._named_arrays(name, csr if name == "csr" else to_coo(csr), x)

    def _named_arrays(self, name: str, arrays: Iterable[NDArray[Any]], x: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip((*ARRAYS[name], VECTOR_NAME), (*arrays, x), strict=True))


#: First cuSPARSE version whose SpMVOp supports float32 and has the current parameters; released with CUDA 13.3.
SINCE = (12, 8, 1)
#: Values of `cusparseSpMVOpAlg_t`. By NVIDIA's CUDA 13.3 notes, ALG1 has less preparation, and values may change.
SPMVOP_ALGORITHMS = {"ALG1": 1, "ALG2": 2}


def lacks_spmvop(library_version: str) -> str | None:
    """Return why a library version is too old for SpMVOp, or None."""
    if tuple(int(part) for part in library_version.split(".")) >= SINCE:
        return None
    return f"SpMVOp needs {'.'.join(map(str, SINCE))}, which came with CUDA 13.3, or newer"


#: Function that binds a routine to vectors x and y, and returns the call.
_Bind = Callable[[Buffer, Buffer], Callable[[], None]]

#: Baseline of the papers, by entry. csrmv, their choice for complex numbers, left the library with CUDA 11; its
#: replacement is SpMV with CSR.
PAPERS_BASELINE = {
    "real": "spmv-csr-alg1/real",
    "complex": "spmv-csr-alg1/complex",
    "quaternion": "bsrmv/real4",
    "block3": "bsrmv/real3",
}


@dataclass(frozen=True)
class Routine:
    #: Name of the routine in result rows: `spmv-csr-alg1`, …, `bsrmv`.
    name: str
    #: `csr`, `coo`, `sell` or `bsr`.
    format: str
    #: `SpMV`, `SpMVOp` or `bsrmv`.
    function: str
    #: Name in `SpMVAlg` or `SPMVOP_ALGORITHMS`; empty for `bsrmv`, which has only one.
    algorithm: str


ROUTINES = (
    Routine("spmv-csr-alg1", "csr", "SpMV", "CSR_ALG1"),
    Routine("spmv-csr-alg2", "csr", "SpMV", "CSR_ALG2"),
    Routine("spmvop-csr-alg1", "csr", "SpMVOp", "ALG1"),
    Routine("spmvop-csr-alg2", "csr", "SpMVOp", "ALG2"),
    Routine("spmv-coo-alg1", "coo", "SpMV", "COO_ALG1"),
    Routine("spmv-coo-alg2", "coo", "SpMV", "COO_ALG2"),
    Routine("spmv-sell-alg1", "sell", "SpMV", "SELL_ALG1"),
    Routine("spmv-bsr-alg1", "bsr", "SpMV", "BSR_ALG1"),
    Routine("bsrmv", "bsr", "bsrmv", ""),
)


@baseline("cuda")
def cusparse(entry: str, ordering: str) -> Iterable[ProductRunnable]:
    """Return all cuSPARSE routines for an entry, in all representations; block formats only for entries with blocks."""
    return [
        CuSparse(entry, routine, representation, ordering, resident)
        for representation in representations(entry)
        for resident in [SharedRepresentation(representation, ordering)]
        for routine in ROUTINES
        if routine.format != "bsr" or representation.size > 1
    ]


class CuSparse(ProductRunnable):
    """A baseline: one routine for one representation and ordering.

    `resident` has the arrays that several routines share.
    """

    kind = "baseline"

    def __init__(
        self,
        entry: str,
        routine: Routine,
        representation: Representation,
        ordering: str,
        resident: SharedRepresentation,
    ) -> None:
        self._routine = routine
        self._representation = representation
        self._ordering = ordering
        self._resident = resident
        choice = f"{routine.name}/{representation.name}"
        self.name = f"cusparse/{choice}{suffix(ordering)}"
        self.arrangement = f"{representation.arrangement}@{ordering}"
        self._papers_choice = PAPERS_BASELINE.get(entry) == choice
        self._preprocess: float | None = None
        self._stack = ExitStack()
        self._bind: _Bind | None = None
        self._permutation = np.empty(0, np.int64)
        self._y: Buffer | None = None

    @property
    def columns(self) -> dict[str, Any]:
        columns = {
            "ordering": self._ordering,
            "routine": self._routine.name,
            "format": self._routine.format,
            "representation": self._representation.name,
            "papers_choice": self._papers_choice,
            "matrix_bytes": self.matrix_bytes or None,
        }
        return columns if self._preprocess is None else {**columns, "preprocess": self._preprocess}

    @property
    def identity(self) -> str:
        return version()

    def prepare(self, workspace: Workspace) -> None:
        """Upload the matrix, let the library analyse it, and run once.

        The seconds of the library's analysis become the column `preprocess` of the result row. `Unsupported` is raised
        if cuSPARSE is missing or refuses the matrix.
        """
        self.release()
        with ExitStack() as stack:
            handle = Handle(workspace.device, stack, label="")
            with handle.refusals():
                try:
                    *matrix, x = self._resident.take(workspace, self._routine.format)
                except OverflowError as error:
                    raise Unsupported(str(error)) from None
                stack.callback(self._resident.give_back, self._routine.format)
                operands, y, size = operands_of(workspace), y_on(workspace), self._representation.size
                dtype, problem = self._representation.dtype(operands.dtype), operands.problem
                product = _Product(
                    handle, *problem.shape, problem.nnz, size, dtype, matrix, (x, y), workspace.guards, stack
                )
                if self._routine.function == "bsrmv":
                    bind, seconds = product.bsrmv(), 0.0
                elif self._routine.function == "SpMVOp":
                    bind, seconds = product.spmvop(self._routine.algorithm)
                else:
                    algorithm = handle.algorithm("SpMVAlg", self._routine.algorithm)
                    bind, seconds = product.spmv(self._routine.format, algorithm)
                run = bind(x, y)
                run()
                handle.device.synchronize()
            self._stack = product.stack = stack.pop_all()
        self._preprocess = seconds
        self._permutation = operands.permutation(self._ordering)
        self.matrix_bytes = sum(buffer.nbytes for buffer in matrix)
        self.bytes_moved = self.matrix_bytes + x.nbytes + y.nbytes
        self._y = y
        self._bind = lambda x, y: handle.launcher(bind(x, y))
        self.launch = handle.launcher(run)

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x for vectors in the representation's order and signs.

        It shares matrix, analysis results and working memory with `launch`.
        """
        assert self._bind is not None
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        return self._y

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the members of a vector, `(n, k)`, as a flat array in the order of `result`.

        Vector entries are reordered like the matrix's rows; members have the order and signs of the expansion.
        """
        return self._representation.arrange(values[self._permutation])

    def release(self) -> None:
        self._bind = None
        self._stack, stack = ExitStack(), self._stack
        stack.close()


@dataclass
class _Product:
    """An n×m matrix of size×size blocks on the GPU, with vectors x and y for the library's analysis."""

    handle: Handle
    n: int
    m: int
    blocks: int
    size: int
    dtype: np.dtype[Any]
    #: Offsets or rows, columns, values.
    arrays: list[Buffer]
    vectors: tuple[Buffer, Buffer]
    guards: Guards
    #: Releases the routine's descriptors and memory.
    stack: ExitStack

    @property
    def rows(self) -> int:
        return self.n * self.size

    def spmv(self, name: str, algorithm: int) -> tuple[_Bind, float]:
        """Let `cusparseSpMV` analyse a format; return the binding and the seconds of the analysis."""
        handle, matrix = self.handle, self._describe(name)
        one, zero = scalars(self.dtype)

        def arguments(x: Buffer, y: Buffer) -> tuple[int, ...]:
            x_vector, y_vector = self._describe_vectors(x, y)
            return handle.value, handle.plain, one, matrix, x_vector, zero, y_vector, TYPES[self.dtype], algorithm

        first = arguments(*self.vectors)
        handle.device.synchronize()
        start = time.perf_counter()
        workspace_address = handle.prepare(self.stack, "sp_mv", first, self.guards)
        handle.device.synchronize()
        seconds = time.perf_counter() - start
        return lambda x, y: partial(handle.library.sp_mv, *arguments(x, y), workspace_address), seconds

    def spmvop(self, algorithm: str) -> tuple[_Bind, float]:
        """Create a plan of CSR for `cusparseSpMVOp`; return the binding and the seconds that the plan took."""
        handle, matrix = self.handle, self._describe("csr")
        # z = A x + 0 y: the library's manual does not promise to ignore an uninitialised y
        zeros = handle.device.allocate(self.rows * self.dtype.itemsize)
        self.stack.callback(zeros.release)
        handle.device.fill(zeros, 0)

        def vectors(x: Buffer, z: Buffer) -> tuple[int, int, int]:
            x_vector, z_vector = self._describe_vectors(x, z)
            return x_vector, handle.make_vector(self.stack, zeros, self.rows, self.dtype), z_vector

        first = vectors(*self.vectors)
        handle.device.synchronize()
        start = time.perf_counter()
        if shortcoming := lacks_spmvop(version()):
            raise Unsupported(f"cuSPARSE {version()}: {shortcoming}")
        operands = handle.plain, matrix, *first, TYPES[self.dtype], SPMVOP_ALGORITHMS[algorithm]
        size = c_size_t()
        handle.run("cusparseSpMVOp_bufferSize", handle.value, *operands, byref(size))
        work_buffer = self.guards.allocate(size.value, WORKING_MEMORY)
        self.stack.callback(work_buffer.release)
        descriptor = self._make("Descr", handle.value, after=(*operands, address(work_buffer.memory)))
        plan = self._make("Plan", handle.value, descriptor, after=(None, 0))  # no code for an epilogue
        handle.device.synchronize()
        seconds = time.perf_counter() - start
        compute, failure = handle.function("cusparseSpMVOp"), handle.library.cuSPARSEError

        def bind(x: Buffer, z: Buffer) -> Callable[[], None]:
            arguments = handle.value, plan, *scalars(self.dtype), *vectors(x, z)

            def run() -> None:
                if status := compute(*arguments):
                    raise failure(status)

            return run

        return bind, seconds

    def _make(self, suffix: str, *before: int, after: tuple[Any, ...]) -> int:
        create, destroyer = f"cusparseSpMVOp_create{suffix}", f"cusparseSpMVOp_destroy{suffix}"
        return self.handle.make_directly(self.stack, create, destroyer, before, after)

    def bsrmv(self) -> _Bind:
        """Return the binding of the older block function `cusparse?bsrmv`, which has no analysis."""
        handle, library = self.handle, self.handle.library
        function = getattr(library, {"f": "s", "d": "d", "F": "c", "D": "z"}[self.dtype.char] + "bsrmv")
        # a new descriptor describes a general matrix with indices from 0
        description = handle.make(self.stack, "create_mat_descr", "destroy_mat_descr")
        offsets, columns, values = (address(buffer) for buffer in self.arrays)
        one, zero = scalars(self.dtype)
        orders = library.Direction.ROW, handle.plain
        blocks = description, values, offsets, columns, self.size
        before = handle.value, *orders, self.n, self.m, self.blocks, one, *blocks
        return lambda x, y: partial(function, *before, address(x), zero, address(y))

    def _describe_vectors(self, x: Buffer, y: Buffer) -> tuple[int, int]:
        make = partial(self.handle.make_vector, self.stack, dtype=self.dtype)
        return make(x, self.m * self.size), make(y, self.rows)

    def _describe(self, name: str) -> int:
        library, size = self.handle.library, self.size
        shape, count = (self.rows, self.m * size), self.blocks * size**2
        pointers = [address(buffer) for buffer in self.arrays]
        if name == "csr":
            return self.handle.make_csr(self.stack, shape, count, pointers, self.dtype)
        index, base, kind = library.IndexType.INDEX_32I, library.IndexBase.ZERO, TYPES[self.dtype]
        make = partial(self.handle.make, self.stack)
        if name == "coo":
            return make("create_coo", "destroy_sp_mat", *shape, count, *pointers, index, base, kind)
        if name == "sell":
            slots = self.arrays[1].nbytes // INDEX_BYTES
            sizes = *shape, count, slots, SLICE_ROWS
            return make("create_sliced_ell", "destroy_sp_mat", *sizes, *pointers, index, index, base, kind)
        sizes = self.n, self.m, self.blocks, size, size
        kinds = index, index, base, kind, library.Order.ROW
        return make("create_bsr", "destroy_sp_mat", *sizes, *pointers, *kinds)
