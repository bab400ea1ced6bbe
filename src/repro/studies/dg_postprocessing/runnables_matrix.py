"""The filter as a matrix: making it, products with it, the streaming of its bytes, and products by libraries.

Libraries take the matrix as scalars in CSR: cuSPARSE on a GPU, SciPy on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.bench.runnable import ClockName, Unsupported, not_prepared
from repro.bench.workspace import Guards
from repro.config.models import StudySettings
from repro.filtering.kernels import UNROLLS
from repro.filtering.matrix import CSR_ENTRY_BYTES, FilterMatrix, MatrixRows, MatrixSize, StoredMatrix, TileLayout
from repro.filtering.matrix_free import Points
from repro.sparse.device_work import Launches, ModuleFile, keep
from repro.sparse.library.cusparse_bindings import gpu, load, version
from repro.sparse.library.cusparse_csr import MAX_CSR_ENTRIES, CsrRoutine, GpuCsr, bind_csr_product, csr_routines
from repro.sparse.library.registry import among
from repro.sparse.operands import NAN_BYTE
from repro.studies.dg_postprocessing import HOST_CLOCK, POINT_CELL, STUDY
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.runnables_filters import FieldRunnable

Floats = NDArray[np.float64]
T = TypeVar("T")
#: The share of a device's free memory that the filter's matrix may take.
MAX_MEMORY_SHARE = 0.8
#: Fields of a product that are timed.
FIELD_COUNTS = (1, 4, 16)


def row_cell_size(operands: DgOperands) -> float:
    """Return the size of the cells whose order the matrix's rows have."""
    return POINT_CELL * operands.mesh.longest


class SharedMatrix(Generic[T]):
    """What is made of a filter's matrix, for the first who uses it, and given back by the last.

    Attributes
    ----------
    size
        The matrix's rows and entries, once they are counted.
    """

    def __init__(self) -> None:
        self.size: MatrixSize | None = None
        self._users, self._held = 0, ExitStack()
        self._made: T | None = None
        self._refused = ""

    @staticmethod
    def rows(launches: Launches, operands: DgOperands) -> MatrixRows:
        """Return what counts the entries and makes them."""
        points = Points(launches, operands.host, row_cell_size(operands))
        return MatrixRows(launches, operands.stencil, points, operands.basis)

    def count(self, launches: Launches, rows: MatrixRows) -> TileLayout:
        """Return where tiles begin.

        Raises
        ------
        Unsupported
            The matrix is larger than the device's memory.
        """
        layout = rows.count()
        self.size = size = layout.size
        free = launches.device.free_bytes()
        if size.nbytes > MAX_MEMORY_SHARE * free:
            raise Unsupported(f"the matrix has {size.nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} are free")
        return layout

    def make(self, launches: Launches, operands: DgOperands, own: ExitStack) -> T:
        """Return it; what it is made of goes with the launches, its own memory with the stack."""
        raise NotImplementedError

    def take(self, launches: Launches, operands: DgOperands) -> T:
        """Return it, until the memory of the launches is given back.

        Raises
        ------
        Unsupported
            There is no room for it; once it was refused nothing is counted again.
        OutOfDeviceMemory
        """
        if self._refused:
            raise Unsupported(self._refused)
        if self._made is None:
            with ExitStack() as passing, ExitStack() as own:
                try:
                    made = self.make(launches.within(passing), operands, own)
                except Unsupported as why_not:
                    self._refused = str(why_not)
                    raise
                launches.device.synchronize()  # what it is made of is given back
                self._held, self._made = own.pop_all(), made
        self._users += 1
        launches.held.callback(self._give_back)
        return self._made

    def _give_back(self) -> None:
        self._users -= 1
        if not self._users:
            self._made = None
            self._held.close()


class BlockMatrix(SharedMatrix[FilterMatrix]):
    """The matrix as products of ours take it."""

    def make(self, launches: Launches, operands: DgOperands, own: ExitStack) -> FilterMatrix:
        """Count the entries, and make them."""
        rows = self.rows(launches, operands)
        return rows.make(self.count(launches, rows), own)


class FilterMatrixRunnable(FieldRunnable):
    """A runnable of the filter's matrix.

    Parameters
    ----------
    built
        The modules by name.
    shared
        What it works with.
    """

    kind = "variant"
    cold = False
    what: str
    modules = ("rows", "apply")

    def __init__(self, built: Mapping[str, ModuleFile], shared: SharedMatrix[Any]) -> None:
        super().__init__(built)
        self._shared = shared

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is, and the matrix's size where it was counted."""
        size = self._shared.size
        sizes = {"matrix_pairs": size.pairs, "matrix_bytes": size.nbytes} if size else {}
        return {**super().columns, "what": self.what, **sizes}


class MakeMatrix(FilterMatrixRunnable, Filters):
    """Counting the entries, taking memory for them, and computing them; positions are in cells already."""

    clocks: tuple[ClockName, ...] = (HOST_CLOCK,)
    name, what = "matrix/make", "make"

    def __init__(self, built: Mapping[str, ModuleFile], shared: SharedMatrix[Any]) -> None:
        super().__init__(built, shared)
        self._matrix: FilterMatrix | None = None
        self._own = ExitStack()

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Look whether there is room, and bind the making of it."""
        rows = self._shared.rows(launches, operands)
        self._shared.count(launches, rows)
        modes = launches.upload(operands.modes[:, :, None])
        values = launches.numbers(len(operands.points), np.float64)

        def launch() -> None:
            self._matrix = rows.make(rows.count(), self._own)
            launches.device.synchronize()

        def read() -> Floats:
            """Multiply with the matrix that was made."""
            assert self._matrix is not None
            self._matrix.bind(modes, values)()
            return launches.download(values, len(operands.points), np.float64)

        self.launch, self.read = launch, read

    def before(self) -> None:
        """Give the matrix of the launch before back."""
        self._own.close()
        self._matrix = None

    def release(self) -> None:
        """Give all memory back."""
        self._own.close()
        super().release()


class MultiFieldRunnable(FilterMatrixRunnable):
    """A product with the filter's matrix of one field or of several at a time, or what it is held against.

    Parameters
    ----------
    fields
        How many, which are all the same.
    """

    def __init__(self, built: Mapping[str, ModuleFile], shared: SharedMatrix[Any], fields: int) -> None:
        super().__init__(built, shared)
        self.fields = fields

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is, and of how many fields."""
        return {**super().columns, "fields": self.fields}

    def modes(self, operands: DgOperands) -> Floats:
        """Return the modes of all fields, `(t, m, fields)`."""
        return np.ascontiguousarray(np.repeat(operands.modes[:, :, None], self.fields, axis=2))


class ApplyMatrix(MultiFieldRunnable, Filters):
    """A product with the filter's matrix."""

    what = "apply"

    def __init__(self, built: Mapping[str, ModuleFile], shared: SharedMatrix[Any], fields: int) -> None:
        super().__init__(built, shared, fields)
        self.name = f"matrix/apply-{fields}"

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Take the matrix, and bind the product."""
        matrix = self._shared.take(launches, operands)
        shape = len(operands.points), self.fields
        modes = launches.upload(self.modes(operands))
        values = launches.numbers(shape[0] * shape[1], np.float64)
        launches.device.fill(values, NAN_BYTE)
        self.moved = matrix.size.nbytes + modes.nbytes + 8 * shape[0] * shape[1]
        self.launch = matrix.bind(modes, values, self.fields)
        self.read = lambda: launches.download(values, shape[0] * shape[1], np.float64).reshape(shape)


class StreamMatrix(MultiFieldRunnable):
    """Reading the bytes of the matrix and of a field's modes, and writing those of a result: a product's floor.

    Parameters
    ----------
    unroll
        Words that a thread has in flight.
    """

    what = "stream"
    modules = ("rows", "stored")

    def __init__(self, built: Mapping[str, ModuleFile], shared: SharedMatrix[Any], unroll: int) -> None:
        super().__init__(built, shared, 1)
        self.name, self._unroll = f"matrix/stream-u{unroll}", unroll

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Take the matrix, and bind the kernel."""
        matrix = self._shared.take(launches, operands)
        modes = launches.upload(self.modes(operands))
        result = launches.numbers(len(operands.points), np.float64)
        self.launch, self.moved = StoredMatrix(matrix).stream(modes, result, self._unroll)


def matrix_runnables(built: Mapping[str, ModuleFile]) -> list[list[FilterMatrixRunnable]]:
    """Return all that is timed of the filter's matrix, what is timed side by side together.

    The making has a matrix of its own; products and streaming share one.
    """
    shared = BlockMatrix()
    applies = [ApplyMatrix(built, shared, fields) for fields in FIELD_COUNTS]
    streams = [StreamMatrix(built, shared, unroll) for unroll in UNROLLS]
    return [[MakeMatrix(built, shared)], [*applies, *streams]]


#: Bytes that SciPy's matrix may have: it is made on the host, scalar by scalar.
MAX_HOST_BYTES = 1_000_000_000
#: SciPy's one routine.
SCIPY = "csr"


def routine_names(backend: str) -> list[str]:
    """Return the names of the routines of a backend's library."""
    if backend == "opencl":
        return [SCIPY]
    return list(dict.fromkeys(routine.name for fields in FIELD_COUNTS for routine in csr_routines(fields)))


def asked_routines(settings: StudySettings, backend: str) -> list[str]:
    """Return the names of the routines that are asked for on a backend.

    Raises
    ------
    ReproError
        One is none.
    """
    return among(STUDY, settings.baselines, routine_names(backend))


def library_products(built: Mapping[str, ModuleFile], wanted: Sequence[str], backend: str) -> list[LibraryProduct]:
    """Return the routines of these names for all numbers of fields; they share a matrix."""
    if backend == "opencl":
        shared = HostMatrix()
        return [ScipyProduct(built, shared, fields) for fields in FIELD_COUNTS if SCIPY in wanted]
    scalars = ScalarMatrix()
    return [
        CusparseProduct(built, scalars, fields, routine)
        for fields in FIELD_COUNTS
        for routine in csr_routines(fields)
        if routine.name in wanted
    ]


class ScalarMatrix(SharedMatrix[GpuCsr]):
    """The matrix expanded to scalars on the device."""

    def make(self, launches: Launches, operands: DgOperands, own: ExitStack) -> GpuCsr:
        """Make the matrix, and expand it.

        Raises
        ------
        Unsupported
            It has more scalars than 32 bits count, or there is no room for both.
        """
        rows = self.rows(launches, operands)
        layout, free = self.count(launches, rows), launches.device.free_bytes()
        entries = layout.size.modes * layout.size.pairs
        needed = layout.size.nbytes + CSR_ENTRY_BYTES * entries
        if entries > MAX_CSR_ENTRIES:
            raise Unsupported(f"CSR of scalars: {entries:,} entries, and 32-bit offsets count {MAX_CSR_ENTRIES:,}")
        if needed > MAX_MEMORY_SHARE * free:
            raise Unsupported(f"CSR of scalars: {needed / 1e9:.1f} GB with its blocks, and {free / 1e9:.1f} are free")
        csr, expand = StoredMatrix(rows.make(layout, launches.held)).expand()
        keep(own, csr)
        expand()
        return csr


class HostMatrix(SharedMatrix[csr_array]):
    """The matrix as SciPy's."""

    def make(self, launches: Launches, operands: DgOperands, own: ExitStack) -> csr_array:
        """Make the matrix, and bring it to the host.

        Raises
        ------
        Unsupported
            It is too large for that.
        """
        rows = self.rows(launches, operands)
        layout = self.count(launches, rows)
        nbytes = CSR_ENTRY_BYTES * layout.size.modes * layout.size.pairs
        if nbytes > MAX_HOST_BYTES:
            raise Unsupported(f"SciPy's matrix has {nbytes / 1e9:.1f} GB; at most {MAX_HOST_BYTES / 1e9:g} are made")
        return rows.make(layout, launches.held).download()


class LibraryProduct(MultiFieldRunnable, Filters):
    """A product by a library."""

    kind = "baseline"
    what = "library"
    modules = ("rows", "stored")
    routine_name: str

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is, and the routine."""
        return {**super().columns, "routine": self.routine_name}


class CusparseProduct(LibraryProduct):
    """A product by a routine of cuSPARSE.

    Parameters
    ----------
    scalars
        Shares the matrix.
    routine
        Which.
    """

    def __init__(
        self, built: Mapping[str, ModuleFile], scalars: ScalarMatrix, fields: int, routine: CsrRoutine
    ) -> None:
        super().__init__(built, scalars, fields)
        self._scalars, self._routine, self.routine_name = scalars, routine, routine.name
        self.name = f"cusparse/{routine.name}-{fields}"

    @property
    def identity(self) -> str:
        """The library's version, and what makes the matrix."""
        return f"{version()} {super().identity}"

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Take the matrix, and let the library analyse it.

        Raises
        ------
        Unsupported
            As `Scalars.make`, or the library is not there or refuses.
        """
        load()  # before anything is made
        gpu(launches.device)
        csr = self._scalars.take(launches, operands)
        fields, count = self.fields, len(operands.points)
        modes = launches.upload(self.modes(operands))
        values = launches.numbers(count * fields, np.float64)
        launches.device.fill(values, NAN_BYTE)
        guards = launches.guards or Guards(launches.device)
        self.launch = bind_csr_product(csr, self._routine, modes, values, fields, guards, launches.held)
        self.moved = csr.nbytes + modes.nbytes + 8 * count * fields
        order = operands.host.points(row_cell_size(operands)).members  # rows are in the order of cells

        def read() -> Floats:
            result = np.empty((count, fields))
            result[order] = launches.download(values, count * fields, np.float64).reshape(count, fields)
            return result

        self.read = read


class ScipyProduct(LibraryProduct):
    """A product by SciPy, on the host; it is timed as a kernel is."""

    routine_name = SCIPY
    identity = f"scipy {scipy.__version__} numpy {np.__version__}"

    def __init__(self, built: Mapping[str, ModuleFile], on_host: HostMatrix, fields: int) -> None:
        super().__init__(built, on_host, fields)
        self.name, self._on_host = f"scipy/{SCIPY}-{fields}", on_host
        self._product: NDArray[np.float64] = np.empty(0)

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Take the matrix.

        Raises
        ------
        Unsupported
            As `OnHost.make`.
        """
        csr = self._on_host.take(launches, operands)
        modes = self.modes(operands).reshape(-1, self.fields)
        self._product = np.full((csr.shape[0], self.fields), np.nan)
        self.moved = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes + modes.nbytes + self._product.nbytes

        def launch() -> None:
            self._product = csr @ modes

        self.launch, self.read = launch, lambda: self._product

    def release(self) -> None:
        """Drop the matrix."""
        super().release()
        self.launch, self._product = not_prepared, np.empty(0)
