"""Products with the filter's matrix by libraries, as scalars in CSR: cuSPARSE's on a GPU, SciPy's on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.bench.guards import Guards
from repro.bench.runnable import Unsupported, not_prepared
from repro.config.models import StudySettings
from repro.filtering.stored import CSR_ENTRY_BYTES, Stored
from repro.sparse.built import Built
from repro.sparse.launches import Launches
from repro.sparse.library.csr_products import CsrRoutine, bind_csr_product, csr_routines
from repro.sparse.library.cusparse_library import gpu, load, version
from repro.sparse.library.gpu_csr import MOST_ENTRIES, GpuCsr
from repro.sparse.library.registry import among
from repro.sparse.verify import NAN_BYTE
from repro.sparse.work import keep
from repro.studies.dg_postprocessing.matrix import FIELDS, SHARE, Floats, OfFields, Shared, cell_of
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.paper import STUDY

#: Bytes that SciPy's matrix may have: it is made on the host, scalar by scalar.
HOST_BYTES = 1_000_000_000
#: SciPy's one routine.
SCIPY = "csr"


def names(backend: str) -> list[str]:
    """Return the names of the routines of a backend's library."""
    if backend == "opencl":
        return [SCIPY]
    return list(dict.fromkeys(routine.name for fields in FIELDS for routine in csr_routines(fields)))


def asked(settings: StudySettings, backend: str) -> list[str]:
    """Return the names of the routines that are asked for on a backend.

    Raises
    ------
    ReproError
        One is none.
    """
    return among(STUDY, settings.baselines, names(backend))


def library_products(built: Mapping[str, Built], wanted: Sequence[str], backend: str) -> list[LibraryProduct]:
    """Return the routines of these names for all numbers of fields; they share a matrix."""
    if backend == "opencl":
        shared = OnHost()
        return [ScipyProduct(built, shared, fields) for fields in FIELDS if SCIPY in wanted]
    scalars = Scalars()
    return [
        CusparseProduct(built, scalars, fields, routine)
        for fields in FIELDS
        for routine in csr_routines(fields)
        if routine.name in wanted
    ]


class Scalars(Shared[GpuCsr]):
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
        if entries > MOST_ENTRIES:
            raise Unsupported(f"CSR of scalars: {entries:,} entries, and 32-bit offsets count {MOST_ENTRIES:,}")
        if needed > SHARE * free:
            raise Unsupported(f"CSR of scalars: {needed / 1e9:.1f} GB with its blocks, and {free / 1e9:.1f} are free")
        csr, expand = Stored(rows.make(layout, launches.held)).expand()
        keep(own, csr)
        expand()
        return csr


class OnHost(Shared[csr_array]):
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
        if nbytes > HOST_BYTES:
            raise Unsupported(f"SciPy's matrix has {nbytes / 1e9:.1f} GB; at most {HOST_BYTES / 1e9:g} are made")
        return rows.make(layout, launches.held).download()


class LibraryProduct(OfFields, Filters):
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

    def __init__(self, built: Mapping[str, Built], scalars: Scalars, fields: int, routine: CsrRoutine) -> None:
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
        order = operands.host.points(cell_of(operands)).members  # rows are in the order of cells

        def read() -> Floats:
            result = np.empty((count, fields))
            result[order] = launches.download(values, count * fields, np.float64).reshape(count, fields)
            return result

        self.read = read


class ScipyProduct(LibraryProduct):
    """A product by SciPy, on the host; it is timed as a kernel is."""

    routine_name = SCIPY
    identity = f"scipy {scipy.__version__} numpy {np.__version__}"

    def __init__(self, built: Mapping[str, Built], on_host: OnHost, fields: int) -> None:
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
