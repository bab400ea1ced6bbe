"""cuSPARSE: every routine for y = A x that fits an entry, in every representation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.codegen.precisions import INDEX_BYTES
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda import CudaDevice
from repro.sparse.expansions import Representation, representations
from repro.sparse.library.cusparse_calls import Calls
from repro.sparse.library.cusparse_library import TYPES, address, destroy, gpu, load, refusals, scalars, version
from repro.sparse.library.cusparse_op import PlannedProduct
from repro.sparse.library.registry import baseline, suffix
from repro.sparse.library.resident import SLICE_ROWS, Resident
from repro.sparse.operands import Multiplies, operands_of, y_on

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
