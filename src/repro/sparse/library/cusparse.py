"""cuSPARSE: every routine for y = A x that fits an entry, in every representation.

The arrays of all formats are uploaded once, for all routines that use them. SpMVOp, z = α A x + β y, works by a
plan that is made for A once; it is an experimental function of the library. The order of its calls is that of
NVIDIA's sample `spmv_op`, without code for an epilogue.
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

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Guards, Workspace
from repro.codegen.targets import INDEX_BYTES
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda import CudaDevice
from repro.sparse.expansions import Bsr, Csr, Representation, representations, to_bsr, to_coo, to_csr, to_sell
from repro.sparse.library.cusparse_bindings import TYPES, Calls, address, destroy, gpu, load, refusals, scalars, version
from repro.sparse.library.registry import baseline, suffix
from repro.sparse.operands import Multiplies, operands_of, y_on

#: Rows of a slice of sliced ELLPACK: a warp.
SLICE_ROWS = 32

#: The arrays of each format; coordinates are CSR with a row for each number.
ARRAYS = {
    "csr": ("csr offsets", "csr columns", "csr values"),
    "coo": ("coo rows", "csr columns", "csr values"),
    "sell": ("sell offsets", "sell columns", "sell values"),
    "bsr": ("bsr offsets", "bsr columns", "bsr values"),
}
VECTOR = "x"


class Resident:
    """One representation of a matrix in one ordering, as far as somebody uses it.

    Expanding tens of millions of numbers takes the host seconds, and a GPU's memory holds a large matrix only so often:
    the routines of a library are given one of these together.

    Parameters
    ----------
    representation
        What the numbers are.
    ordering
        The order of the rows and columns.
    """

    def __init__(self, representation: Representation, ordering: str) -> None:
        self._representation = representation
        self._ordering = ordering
        self._csr: Csr | None = None
        self._buffers: dict[str, Buffer] = {}
        self._users: Counter[str] = Counter()

    def take(self, workspace: Workspace, name: str) -> list[Buffer]:
        """Return the arrays of a format (offsets or rows, columns, values), and x; `give_back` ends their use.

        Raises
        ------
        OverflowError
            More numbers than 32-bit indices can count.
        OutOfDeviceMemory
        """
        wanted = (*ARRAYS[name], VECTOR)
        self._users.update(wanted)
        try:
            if any(array not in self._buffers for array in wanted):
                arrays = self._expand(workspace, name)
                for array in wanted:
                    if array not in self._buffers:
                        self._buffers[array] = workspace.device.upload(arrays[array])
        except Exception:
            self.give_back(name)
            raise
        return [self._buffers[array] for array in wanted]

    def give_back(self, name: str) -> None:
        """End the use of a format; what nobody else uses is released."""
        self._users.subtract((*ARRAYS[name], VECTOR))
        for array in [array for array in self._buffers if self._users[array] == 0]:
            self._buffers.pop(array).release()
        if not self._buffers:
            self._csr = None

    def _expand(self, workspace: Workspace, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a format on the host, and x."""
        operands, representation = operands_of(workspace), self._representation
        x = representation.arrange(operands.x_in(self._ordering))

        def blocks() -> Bsr:
            return to_bsr(operands.reordered(self._ordering), representation, operands.dtype)

        if name == "bsr":
            return self._named(name, blocks(), x)
        csr = self._csr or to_csr(blocks())
        if name == "sell":
            self._csr = None  # routines come in the order of `ARRAYS`, and this is the last that needs it
            return self._named(name, to_sell(csr, SLICE_ROWS), x)
        self._csr = csr
        return self._named(name, csr if name == "csr" else to_coo(csr), x)

    def _named(self, name: str, arrays: Iterable[NDArray[Any]], x: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip((*ARRAYS[name], VECTOR), (*arrays, x), strict=True))


#: The first version whose functions have the parameters of today, and float32; that of CUDA 13.3.
SINCE = (12, 8, 1)
#: Values of `cusparseSpMVOpAlg_t`. By NVIDIA's notes on CUDA 13.3 the first prepares less and takes values that change.
SPMVOP_ALGORITHMS = {"ALG1": 1, "ALG2": 2}


def lacks_spmvop(library_version: str) -> str | None:
    """Return why a version of the library is too old, or None."""
    if tuple(int(part) for part in library_version.split(".")) >= SINCE:
        return None
    return f"SpMVOp needs {'.'.join(map(str, SINCE))}, which came with CUDA 13.3, or newer"


class PlannedProduct:
    """A product that the library has planned.

    Parameters
    ----------
    calls
        The library's calls, on the device where all lies.
    handle, matrix, vectors
        The library's handle, and its descriptions of A and of some x, y and z; other vectors can be multiplied later.
    dtype
        The type of all numbers.
    algorithm
        One of `ALGORITHMS`.
    guards
        What looks after the library's working memory.
    held
        Gives back all that the library makes, and its working memory; what it was given has to be there till then.

    Raises
    ------
    Unsupported
        The library is too old, or refuses the matrix.
    OutOfDeviceMemory, LaunchError
    """

    def __init__(
        self,
        calls: Calls,
        handle: int,
        matrix: int,
        vectors: tuple[int, int, int],
        dtype: np.dtype[Any],
        algorithm: str,
        guards: Guards,
        held: ExitStack,
    ) -> None:
        if why := lacks_spmvop(version()):
            raise Unsupported(f"cuSPARSE {version()}: {why}")
        self._calls, self._handle, self._scalars = calls, handle, scalars(dtype)
        plain = calls.library.Operation.NON_TRANSPOSE
        what = plain, matrix, *vectors, TYPES[dtype], SPMVOP_ALGORITHMS[algorithm]
        size = c_size_t()
        calls.run("cusparseSpMVOp_bufferSize", handle, *what, byref(size))
        working = guards.allocate(size.value, "the library's working memory")
        held.callback(working.release)
        given = *what, address(working.memory)
        described = calls.make_directly(
            held, "cusparseSpMVOp_createDescr", "cusparseSpMVOp_destroyDescr", (handle,), given
        )
        no_code = None, 0
        self._plan = calls.make_directly(
            held, "cusparseSpMVOp_createPlan", "cusparseSpMVOp_destroyPlan", (handle, described), no_code
        )

    def bind(self, x: int, y: int, z: int) -> Callable[[], None]:
        """Return what queues z = A x + 0 y and raises the library's error where it refuses.

        Parameters
        ----------
        x, y, z
            The library's descriptions of vectors.
        """
        compute, failure = self._calls.function("cusparseSpMVOp"), self._calls.library.cuSPARSEError
        arguments = self._handle, self._plan, *self._scalars, x, y, z

        def run() -> None:
            if status := compute(*arguments):
                raise failure(status)

        return run


#: What calls a routine with the matrix for some x and y.
_Bind = Callable[[Buffer, Buffer], Callable[[], None]]

#: What the papers compare with, by entry. csrmv, which they use for complex numbers, left the library with CUDA 11;
#: SpMV with CSR is what took its place.
PAPERS_CHOICE = {
    "real": "spmv-csr-alg1/real",
    "complex": "spmv-csr-alg1/complex",
    "quaternion": "bsrmv/real4",
    "block3": "bsrmv/real3",
}


@dataclass(frozen=True)
class Routine:
    """A routine of the library.

    Attributes
    ----------
    name
        As in a row: `spmv-csr-alg1`, …, `bsrmv`.
    format
        `csr`, `coo`, `sell` or `bsr`.
    function
        `SpMV`, `SpMVOp`, or `bsrmv`.
    algorithm
        The name in `SpMVAlg` or `cusparse_op.ALGORITHMS`; empty for `bsrmv`, which has one alone.
    """

    name: str
    format: str
    function: str
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
def cusparse(entry: str, ordering: str) -> Iterable[Multiplies]:
    """Return all routines in all representations; block formats only where there are blocks."""
    return [
        CuSparse(entry, routine, representation, ordering, resident)
        for representation in representations(entry)
        for resident in [Resident(representation, ordering)]
        for routine in ROUTINES
        if routine.format != "bsr" or representation.size > 1
    ]


class CuSparse(Multiplies):
    """One routine of the library.

    Parameters
    ----------
    entry, routine, representation, ordering
        What it is.
    resident
        The matrix in that representation and ordering, which several routines share.
    """

    kind = "baseline"

    def __init__(
        self, entry: str, routine: Routine, representation: Representation, ordering: str, resident: Resident
    ) -> None:
        self._routine = routine
        self._representation = representation
        self._ordering = ordering
        self._resident = resident
        what = f"{routine.name}/{representation.name}"
        self.name = f"cusparse/{what}{suffix(ordering)}"
        self.arrangement = f"{representation.arrangement}@{ordering}"
        self._papers_choice = PAPERS_CHOICE.get(entry) == what
        self._preprocess: float | None = None
        self._held = ExitStack()
        self._bind: _Bind | None = None
        self._permutation = np.empty(0, np.int64)
        self._y: Buffer | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Routine, format and representation, and the seconds of the library's analysis once there was one."""
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
        """The library's version."""
        return version()

    def prepare(self, workspace: Workspace) -> None:
        """Convert and upload the matrix, let the library analyse it, and run once.

        The seconds that the library's own analysis takes are the column `preprocess`.

        Raises
        ------
        Unsupported
            The library is not there or refuses; the message is its own.
        """
        library, device = load(), gpu(workspace.device)
        self.release()
        with ExitStack() as held, refusals(library, device):
            handle = library.create()
            held.callback(destroy, library, library.destroy, handle)
            library.set_stream(handle, device.stream)
            try:
                *matrix, x = self._resident.take(workspace, self._routine.format)
            except OverflowError as error:
                raise Unsupported(str(error)) from None
            held.callback(self._resident.give_back, self._routine.format)
            operands, y, size = operands_of(workspace), y_on(workspace), self._representation.size
            dtype = self._representation.dtype(operands.dtype)
            call = _Call(
                library,
                device,
                handle,
                _Matrix(*operands.problem.shape, operands.problem.nnz, size, dtype, matrix),
                (x, y),
                workspace.guards,
                held,
            )
            bind, seconds = self._analyse(call)
            run = bind(x, y)
            run()
            device.synchronize()
            self._held = call.held = held.pop_all()
        self._preprocess = seconds
        self._permutation = operands.permutation(self._ordering)
        self.matrix_bytes = sum(buffer.nbytes for buffer in matrix)
        self.moved = self.matrix_bytes + x.nbytes + y.nbytes
        self._y = y
        self._bind = lambda x, y: _launcher(bind(x, y), library.cuSPARSEError)
        self.launch = _launcher(run, library.cuSPARSEError)

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors, in the representation's order, with its signs; once prepared.

        Matrix, analysis and working memory are those of `launch`.
        """
        assert self._bind is not None
        return self._bind(x, y)

    def _analyse(self, call: _Call) -> tuple[_Bind, float]:
        """Return what binds the routine to x and y, and the seconds of the library's analysis."""
        if self._routine.function == "bsrmv":
            return call.bsrmv(), 0.0
        if self._routine.function == "SpMVOp":
            return call.spmvop(self._routine.algorithm)
        algorithm = getattr(call.library.SpMVAlg, self._routine.algorithm, None)
        if algorithm is None:
            raise Unsupported(f"nvmath-python does not know SpMVAlg.{self._routine.algorithm}")
        return call.spmv(self._routine.format, algorithm)

    def result(self) -> Buffer | None:
        """Return y, in the representation's order."""
        return self._y

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring `(n, k)` members into the ordering and the representation's order, with its signs; once prepared."""
        return self._representation.arrange(values[self._permutation])

    def release(self) -> None:
        """Give handle, descriptors and matrix back."""
        self._bind = None
        self._held, held = ExitStack(), self._held
        held.close()


@dataclass(frozen=True)
class _Matrix:
    """A matrix of n×m blocks of size×size numbers, and its arrays on the GPU: offsets or rows, columns, values."""

    n: int
    m: int
    blocks: int
    size: int
    dtype: np.dtype[Any]
    arrays: list[Buffer]

    @property
    def rows(self) -> int:
        """Rows, counted in numbers."""
        return self.n * self.size

    @property
    def columns(self) -> int:
        """Columns, counted in numbers."""
        return self.m * self.size

    @property
    def count(self) -> int:
        """Numbers that are no padding."""
        return self.blocks * self.size**2


class _Call:
    """A handle of the library with matrix and vectors, from which calls are made.

    The vectors are what the library's analysis sees.

    Attributes
    ----------
    guards
        What looks after the library's working memory.
    held
        What is to be given back with the routine; all that is made goes there.
    """

    def __init__(
        self,
        library: Any,
        device: CudaDevice,
        handle: int,
        matrix: _Matrix,
        vectors: tuple[Buffer, Buffer],
        guards: Guards,
        held: ExitStack,
    ) -> None:
        self.library = library
        self._device = device
        self._handle = handle
        self._matrix = matrix
        self._vectors = vectors
        self._guards = guards
        self.held = held

    def spmv(self, name: str, algorithm: int) -> tuple[_Bind, float]:
        """Analyse the matrix in the format of that name for `cusparseSpMV`; return the seconds that took as well."""
        library, kind = self.library, TYPES[self._matrix.dtype]
        matrix = self._describe(name)
        one, zero = scalars(self._matrix.dtype)

        def arguments(x: Buffer, y: Buffer) -> tuple[int, ...]:
            plain = library.Operation.NON_TRANSPOSE
            described = self._describe_vectors(x, y)
            return self._handle, plain, one, matrix, described[0], zero, described[1], kind, algorithm

        first = arguments(*self._vectors)
        self._device.synchronize()
        start = time.perf_counter()
        guarded = self._guards.allocate(library.sp_mv_buffer_size(*first), "the library's working memory")
        self.held.callback(guarded.release)
        buffer = address(guarded.memory)
        try:
            library.sp_mv_preprocess(*first, buffer)
        except (library.cuSPARSEError, RuntimeError) as error:  # optional, and not there for every format and version
            if getattr(error, "status", library.Status.NOT_SUPPORTED) != library.Status.NOT_SUPPORTED:
                raise
        self._device.synchronize()
        seconds = time.perf_counter() - start
        return lambda x, y: partial(library.sp_mv, *arguments(x, y), buffer), seconds

    def spmvop(self, algorithm: str) -> tuple[_Bind, float]:
        """Plan the product of CSR for `cusparseSpMVOp`; return the seconds that took as well."""
        calls, dtype = Calls(self._device), self._matrix.dtype
        matrix = self._describe("csr")
        # z = A x + 0 y: nothing says that y, if it is the unset z, is left alone
        zeros = self._device.allocate(self._matrix.rows * dtype.itemsize)
        self.held.callback(zeros.release)
        self._device.fill(zeros, 0)

        def vectors(x: Buffer, z: Buffer) -> tuple[int, int, int]:
            of_x, of_z = self._describe_vectors(x, z)
            return of_x, self._vector(zeros, self._matrix.rows), of_z

        first = vectors(*self._vectors)
        self._device.synchronize()
        start = time.perf_counter()
        planned = PlannedProduct(calls, self._handle, matrix, first, dtype, algorithm, self._guards, self.held)
        self._device.synchronize()
        seconds = time.perf_counter() - start
        return lambda x, z: planned.bind(*vectors(x, z)), seconds

    def _describe_vectors(self, x: Buffer, y: Buffer) -> tuple[int, int]:
        """Return the descriptors of x and y."""
        return self._vector(x, self._matrix.columns), self._vector(y, self._matrix.rows)

    def _vector(self, vector: Buffer, size: int) -> int:
        """Return the descriptor of a vector of so many numbers."""
        library = self.library
        described = int(library.create_dn_vec(size, address(vector), TYPES[self._matrix.dtype]))
        self.held.callback(destroy, library, library.destroy_dn_vec, described)
        return described

    def _describe(self, name: str) -> int:
        """Return the descriptor of the matrix in a format."""
        described = self._create(name)
        self.held.callback(destroy, self.library, self.library.destroy_sp_mat, described)
        return described

    def _create(self, name: str) -> int:
        """Make the descriptor of the matrix in a format, which is the caller's to destroy."""
        library, matrix = self.library, self._matrix
        kind = TYPES[matrix.dtype]
        index, base = library.IndexType.INDEX_32I, library.IndexBase.ZERO
        rows, columns, count, size = matrix.rows, matrix.columns, matrix.count, matrix.size
        pointers = [address(buffer) for buffer in matrix.arrays]
        if name == "csr":
            return int(library.create_csr(rows, columns, count, *pointers, index, index, base, kind))
        if name == "coo":
            return int(library.create_coo(rows, columns, count, *pointers, index, base, kind))
        if name == "sell":
            slots = matrix.arrays[1].nbytes // INDEX_BYTES
            shape = (rows, columns, count, slots, SLICE_ROWS)
            return int(library.create_sliced_ell(*shape, *pointers, index, index, base, kind))
        shape = (matrix.n, matrix.m, matrix.blocks, size, size)
        return int(library.create_bsr(*shape, *pointers, index, index, base, kind, library.Order.ROW))

    def bsrmv(self) -> _Bind:
        """Return what binds the older function for blocks, `cusparse?bsrmv`; it has no analysis."""
        library, matrix = self.library, self._matrix
        function = getattr(library, {"f": "s", "d": "d", "F": "c", "D": "z"}[matrix.dtype.char] + "bsrmv")
        description = library.create_mat_descr()  # general, counted from 0
        self.held.callback(destroy, library, library.destroy_mat_descr, description)
        offsets, columns, values = (address(buffer) for buffer in matrix.arrays)
        one, zero = scalars(matrix.dtype)
        orders = (library.Direction.ROW, library.Operation.NON_TRANSPOSE)
        blocks = (description, values, offsets, columns, matrix.size)
        shape = (matrix.n, matrix.m, matrix.blocks)
        before = (self._handle, *orders, *shape, one, *blocks)
        return lambda x, y: partial(function, *before, address(x), zero, address(y))


def _launcher(run: Callable[[], None], failure: type[Exception]) -> Callable[[], None]:
    def launch() -> None:
        try:
            run()
        except failure as error:
            raise LaunchError(f"cuSPARSE: {error}") from None

    return launch
