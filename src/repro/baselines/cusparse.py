"""cuSPARSE: every routine for y = A x that fits an entry, in every representation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.baselines.cusparse_library import TYPES, address, gpu, load, refusals, version
from repro.baselines.expansions import Bsr, Representation, representations, to_bsr, to_coo, to_csr, to_sell
from repro.baselines.registry import baseline
from repro.bench.runnable import Runnable, Unsupported
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer, LaunchError
from repro.devices.cuda import CudaDevice

#: Rows of a slice of sliced ELLPACK: a warp.
SLICE_ROWS = 32

#: 1 and 0 of each type, which calls point to for as long as they may be made.
SCALARS = {dtype: np.array([1, 0], dtype) for dtype in TYPES}

#: What the papers compare with, by entry. csrmv, which they use for complex numbers, left the library with CUDA 11;
#: SpMV with CSR is what took its place.
PAPERS_CHOICE = {"complex": "spmv-csr-alg1/complex", "quaternion": "bsrmv/real4", "block3": "bsrmv/real3"}


@dataclass(frozen=True)
class Routine:
    """A routine of the library.

    Attributes
    ----------
    name
        As in a row: `spmv-csr-alg1`, …, `bsrmv`.
    format
        `csr`, `coo`, `sell` or `bsr`.
    algorithm
        The name in `SpMVAlg`; None for `bsrmv`, which has a function of its own.
    """

    name: str
    format: str
    algorithm: str | None


ROUTINES = (
    Routine("spmv-csr-alg1", "csr", "CSR_ALG1"),
    Routine("spmv-csr-alg2", "csr", "CSR_ALG2"),
    Routine("spmv-coo-alg1", "coo", "COO_ALG1"),
    Routine("spmv-coo-alg2", "coo", "COO_ALG2"),
    Routine("spmv-sell-alg1", "sell", "SELL_ALG1"),
    Routine("spmv-bsr-alg1", "bsr", "BSR_ALG1"),
    Routine("bsrmv", "bsr", None),
)


@baseline("cuda")
def cusparse(entry: str) -> Iterable[Runnable]:
    """Return all routines in all representations; block formats only where there are blocks."""
    return [
        CuSparse(entry, routine, representation)
        for representation in representations(entry)
        for routine in ROUTINES
        if routine.format != "bsr" or representation.size > 1
    ]


class CuSparse:
    """A `Runnable` that calls one routine of the library.

    Parameters
    ----------
    entry, routine, representation
        What it is.
    """

    kind = "baseline"
    launch: Callable[[], None]

    def __init__(self, entry: str, routine: Routine, representation: Representation) -> None:
        self._routine = routine
        self._representation = representation
        what = f"{routine.name}/{representation.name}"
        self.name = f"cusparse/{what}"
        self.arrangement = representation.arrangement
        self.columns: dict[str, Any] = {
            "routine": routine.name,
            "representation": representation.name,
            "papers_choice": PAPERS_CHOICE.get(entry) == what,
        }
        self._held = ExitStack()
        self._y: Buffer | None = None
        self._moved = (0, 0)

    @property
    def identity(self) -> str:
        """The library's version."""
        return version()

    @property
    def moved(self) -> tuple[int, int]:
        """(matrix in the routine's format + x once + y, matrix alone), in bytes."""
        return self._moved

    def prepare(self, workspace: Workspace) -> None:
        """Convert and upload the matrix, let the library analyse it, and run once.

        The seconds that the library's own analysis takes are the column `preprocess`.

        Raises
        ------
        Unsupported
            The library is not there or refuses; the message is its own.
        """
        library, device, operands = load(), gpu(workspace.device), workspace.operands
        self.release()
        with ExitStack() as held, refusals(library, device):
            handle = library.create()
            held.callback(_destroy, library, library.destroy, handle)
            library.set_stream(handle, device.stream)
            x = workspace.x("AoS")
            if min(self._representation.signs) < 0:
                x = _upload(held, device, self._representation.arrange(operands.x))
            call = _Call(library, device, handle, x, workspace.y, held)
            try:
                matrix = to_bsr(operands, self._representation)
                run, matrix_bytes, seconds = self._bind(call, matrix)
            except OverflowError as error:
                raise Unsupported(str(error)) from None
            run()
            device.synchronize()
            self._held = held.pop_all()
        self.columns["preprocess"] = seconds
        self._moved = matrix_bytes + 2 * operands.x.nbytes, matrix_bytes
        self._y = workspace.y
        self.launch = _launcher(run, library.cuSPARSEError)

    def _bind(self, call: _Call, bsr: Bsr) -> tuple[Callable[[], None], int, float]:
        """Return what runs the routine, the bytes of the matrix, and the seconds of the library's analysis."""
        if self._routine.algorithm is None:
            return call.bsrmv(bsr)
        algorithm = getattr(call.library.SpMVAlg, self._routine.algorithm, None)
        if algorithm is None:
            raise Unsupported(f"nvmath-python does not know SpMVAlg.{self._routine.algorithm}")
        return call.spmv(self._routine.format, bsr, algorithm)

    def result(self) -> Buffer | None:
        """Return y, in the representation's order."""
        return self._y

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring `(n, k)` members into the representation's order, with its signs."""
        return self._representation.arrange(values)

    def release(self) -> None:
        """Give handle, descriptors and matrix back."""
        self._held.close()
        self._held = ExitStack()


class _Call:
    """A handle of the library with both vectors, from which calls are made; all that it makes is kept in `held`."""

    def __init__(self, library: Any, device: CudaDevice, handle: int, x: Buffer, y: Buffer, held: ExitStack) -> None:
        self.library = library
        self._device = device
        self._handle = handle
        self._x, self._y = address(x), address(y)
        self._held = held

    def spmv(self, name: str, bsr: Bsr, algorithm: int) -> tuple[Callable[[], None], int, float]:
        """Bind `cusparseSpMV` to a matrix in the format of that name."""
        library, dtype = self.library, bsr.values.dtype
        kind = TYPES[dtype]
        rows = (len(bsr.offsets) - 1) * bsr.values.shape[1]
        matrix, nbytes = self._matrix(name, bsr, rows, kind)
        self._held.callback(_destroy, library, library.destroy_sp_mat, matrix)
        x, y = (library.create_dn_vec(rows, vector, kind) for vector in (self._x, self._y))
        self._held.callback(_destroy, library, library.destroy_dn_vec, x)
        self._held.callback(_destroy, library, library.destroy_dn_vec, y)
        one, zero = _scalars(dtype)
        arguments = (self._handle, library.Operation.NON_TRANSPOSE, one, matrix, x, zero, y, kind, algorithm)
        self._device.synchronize()
        start = time.perf_counter()
        buffer = self._device.allocate(library.sp_mv_buffer_size(*arguments))
        self._held.callback(buffer.release)
        try:
            library.sp_mv_preprocess(*arguments, buffer.pointer)
        except (library.cuSPARSEError, RuntimeError) as error:  # optional, and not there for every format and version
            if getattr(error, "status", library.Status.NOT_SUPPORTED) != library.Status.NOT_SUPPORTED:
                raise
        self._device.synchronize()
        return partial(library.sp_mv, *arguments, buffer.pointer), nbytes, time.perf_counter() - start

    def _matrix(self, name: str, bsr: Bsr, rows: int, kind: int) -> tuple[int, int]:
        """Return the descriptor of a matrix in a format, and its bytes."""
        library = self.library
        index, base = library.IndexType.INDEX_32I, library.IndexBase.ZERO
        if name == "bsr":
            pointers, nbytes = self._upload(bsr)
            size, n = bsr.values.shape[1], len(bsr.offsets) - 1
            order = library.Order.ROW
            shape = (n, n, len(bsr.columns), size, size)
            return library.create_bsr(*shape, *pointers, index, index, base, kind, order), nbytes
        csr = to_csr(bsr)
        count = len(csr.columns)
        if name == "csr":
            pointers, nbytes = self._upload(csr)
            return library.create_csr(rows, rows, count, *pointers, index, index, base, kind), nbytes
        if name == "coo":
            pointers, nbytes = self._upload(to_coo(csr))
            return library.create_coo(rows, rows, count, *pointers, index, base, kind), nbytes
        sell = to_sell(csr, SLICE_ROWS)
        pointers, nbytes = self._upload(sell)
        sizes = (rows, rows, count, len(sell.columns), SLICE_ROWS)
        return library.create_sliced_ell(*sizes, *pointers, index, index, base, kind), nbytes

    def bsrmv(self, bsr: Bsr) -> tuple[Callable[[], None], int, float]:
        """Bind the older function for blocks, `cusparse?bsrmv`; it has no analysis."""
        library, dtype = self.library, bsr.values.dtype
        function = getattr(library, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype.char] + "bsrmv")
        description = library.create_mat_descr()  # general, counted from 0
        self._held.callback(_destroy, library, library.destroy_mat_descr, description)
        (offsets, columns, values), nbytes = self._upload(bsr)
        one, zero = _scalars(dtype)
        n = len(bsr.offsets) - 1
        orders = (library.Direction.ROW, library.Operation.NON_TRANSPOSE)
        matrix = (description, values, offsets, columns, bsr.values.shape[1])
        call = partial(function, self._handle, *orders, n, n, len(bsr.columns), one, *matrix, self._x, zero, self._y)
        return call, nbytes, 0.0

    def _upload(self, arrays: Iterable[NDArray[Any]]) -> tuple[list[int], int]:
        """Return the addresses of arrays brought to the GPU, and their bytes."""
        buffers = [_upload(self._held, self._device, array) for array in arrays]
        return [address(buffer) for buffer in buffers], sum(buffer.nbytes for buffer in buffers)


def _scalars(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the addresses, in the host's memory, of 1 and 0."""
    scalars = SCALARS[dtype]
    return scalars.ctypes.data, scalars.ctypes.data + dtype.itemsize


def _upload(held: ExitStack, device: CudaDevice, array: NDArray[Any]) -> Buffer:
    buffer = device.upload(array)
    held.callback(buffer.release)
    return buffer


def _destroy(library: Any, destroy: Callable[[int], None], what: int) -> None:
    with suppress(library.cuSPARSEError):  # a lost context has nothing to give back, and its own error to tell
        destroy(what)


def _launcher(run: Callable[[], None], failure: type[Exception]) -> Callable[[], None]:
    def launch() -> None:
        try:
            run()
        except failure as error:
            raise LaunchError(f"cuSPARSE: {error}") from None

    return launch
