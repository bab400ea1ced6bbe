"""Filtering of a field in the plane: directly on one or several devices (King 2017, Figure 3.12), and as a matrix.

All devices have the whole field, which is small compared to the work. With our contour method, each device filters at
consecutive points with an equal share of the work, and gathering the values is timed separately. With the per-element
method, each device has as many patches as a single device and a solution of its own, and the first device adds up the
solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.bench.guards import Guards
from repro.bench.rows import ClockName
from repro.bench.runnable import Candidate, Runnable, Workspace, not_prepared
from repro.config.models import StudySettings
from repro.devices.base import PART_ALIGNMENT, Buffer, Copy
from repro.devices.device_group import device_counts
from repro.errors import Unsupported
from repro.filtering.grids import Grid, SortedCells, consecutive, work_of_cells
from repro.filtering.kernels import IN_FLIGHT_COUNTS
from repro.filtering.matrix import CSR_ENTRY_BYTES, FilterMatrix, MatrixRows, MatrixSize, StoredMatrix, TileLayout
from repro.filtering.matrix_free import (
    LocalPerPoint,
    MatrixFree,
    PerElement,
    PerElementAtomic,
    PerPoint,
    Points,
    Stencil,
)
from repro.sparse.device_primitives import LaunchContext, ModuleFile, RunnableContext, keep
from repro.sparse.elementwise import in_order
from repro.sparse.library import among
from repro.sparse.library.cusparse_bindings import gpu, load, version
from repro.sparse.library.cusparse_csr import MAX_CSR_ENTRIES, CsrProduct, CsrRoutine, GpuCsr, csr_routines
from repro.sparse.operands import NAN_BYTE
from repro.studies.dg_postprocessing import (
    FILTER,
    FILTER_CLOCK,
    GATHER,
    HOST_CLOCK,
    LOCAL,
    POINT_CELL,
    SEVERAL,
    STUDY_NAME,
)
from repro.studies.dg_postprocessing.ids import FilterId
from repro.studies.dg_postprocessing.operands import DgOperands, Errors, Filters, triangle_operations
from repro.tuning.search import Choice

Floats = NDArray[np.float64]


class FieldRunnable(Runnable):
    """A runnable on a case's field, with its modules by name."""

    errors: Errors | None = None
    #: Names of the modules that the runnable uses, without the degree: `element` stands for `element-p2`.
    modules: tuple[str, ...]

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        self._built, self._stack = modules, ExitStack()
        self._columns: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        hashes = (module.module.hash for name, module in self._built.items() if name.split("-")[0] in self.modules)
        return " ".join(hashes)

    @property
    def columns(self) -> Mapping[str, Any]:
        errors = self.errors
        return {**self._columns, **({"l2_error": errors.l2, "max_error": errors.largest} if errors else {})}

    def prepare(self, workspace: Workspace) -> None:
        operands = workspace.operands
        assert isinstance(operands, DgOperands)
        self.release()
        self.bytes_moved, self.errors = sum(operands.min_bytes), None
        with ExitStack() as stack:
            self.bind(RunnableContext(workspace, self._built, stack), operands)
            self._stack = stack.pop_all()

    def bind(self, launches: RunnableContext, operands: DgOperands) -> None:
        """Bind the kernels to their arguments and set `launch`."""
        raise NotImplementedError

    def release(self) -> None:
        self._stack.close()


class FieldFilter(FieldRunnable, Filters, Candidate):
    """A variant of direct filtering; if it must not be tried, `refuse` raises Unsupported before preparation."""

    id: FilterId
    kind = "variant"
    cold = False
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)

    def __init__(
        self, modules: Mapping[str, ModuleFile], id: FilterId, refuse: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(modules)
        self._refuse = refuse
        self.id, self.space, self.name = id, id.space, str(id)
        self.modules = id.module, "rows"
        self.packing, self.group = self.name, (id.method, id.space)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, **self.id.columns, "what": "filter", "space": self.space}

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        self._refuse()
        id, longest_edge = self.id, operands.mesh.longest
        blocks = id.blocks * launches.device.sm_count
        direct: MatrixFree
        if id.method in ("element", "atomic"):
            make = PerElement if id.method == "element" else PerElementAtomic
            points = Points(launches, operands.host, id.cell * longest_edge)
            direct = make(launches, operands.stencil, points, operands.basis, patches=blocks, threads=id.threads)
            if isinstance(direct, PerElement):
                self._columns = {"copies": direct.patches.copies}
        else:
            points = Points(launches, operands.host, POINT_CELL * longest_edge)
            direct = PerPoint(
                launches,
                operands.stencil,
                points,
                operands.basis,
                method=id.method,
                threads=id.threads,
                size=id.cell * longest_edge,
                blocks=blocks,
            )
        load_field(launches, direct, operands)
        self.launch, self.read = direct.launch, direct.result


class LocalFilter(FieldRunnable, Filters):
    """The paper's per-point method with a separate h for each point; not searched, because its result differs."""

    kind = "variant"
    cold = False
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)
    local = True
    modules = (LOCAL, "rows")
    threads = 64
    name = f"{LOCAL}-t{threads}"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "what": LOCAL}

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        scales = operands.local_scales
        stencil = Stencil(operands.mesh, operands.degree, float(scales.max()))
        points = Points(launches, operands.host, POINT_CELL * operands.mesh.longest)
        filtering = LocalPerPoint(launches, stencil, points, scales, operands.basis, threads=self.threads)
        self._columns = {"mean_scale": float(scales.mean()), "local_pairs": operands.local_expected.work.pairs}
        load_field(launches, filtering, operands)
        self.launch, self.read = filtering.launch, filtering.result


def load_field(launches: LaunchContext, direct: MatrixFree, operands: DgOperands) -> None:
    """Write the field to the device, and fill the values with NaN, so that missing values are detected."""
    direct.field.set(operands.modes)
    launches.device.fill(direct.values, NAN_BYTE)


#: Tunings whose winners also run over several devices: ours and the paper's.
DEVICE_TUNINGS = ("edges", "paper/element")
DOUBLE_BYTES = 8


class DistributedFilter(FieldRunnable, Filters):
    """Filtering over the first `count` devices, with a variant that was chosen on one device."""

    kind = SEVERAL
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)
    cold = False
    operation = FILTER

    def __init__(self, modules: Mapping[str, ModuleFile], id: FilterId, count: int) -> None:
        super().__init__(modules)
        self.id, self.devices, self.modules = id, count, (id.module, "rows")
        self.name = f"{self.operation}-{count}/{id}"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {
            **super().columns,
            **self.id.columns,
            "what": self.operation,
            "devices": self.devices,
            "space": self.id.space,
        }

    def bind(self, launches: RunnableContext, operands: DgOperands) -> None:
        if len(launches.workspace.devices) < self.devices:
            raise Unsupported(f"there are {len(launches.workspace.devices)} devices, not {self.devices}")
        self.over([launches.on(index) for index in range(self.devices)], operands, operands.stencil)

    def over(self, launches: Sequence[RunnableContext], operands: DgOperands, stencil: Stencil) -> None:
        """Set `launch` and `read` for filtering over all devices."""
        raise NotImplementedError


class DevicePoints(NamedTuple):
    """A device's number of points, the points in its order, and its filter."""

    numbers: NDArray[np.integer[Any]]
    direct: PerPoint


class FilterParts(DistributedFilter):
    """Filtering by points: each device filters at its own points and keeps the values."""

    def over(self, launches: Sequence[RunnableContext], operands: DgOperands, stencil: Stencil) -> None:
        parts = self.parts(launches, operands, stencil)
        self.launch = in_order([part.direct.launch for part in parts])

        def read() -> Floats:
            values = np.empty(len(operands.points))
            for launcher, part in zip(launches, parts, strict=True):
                values[part.numbers] = launcher.download(part.direct.values, len(part.numbers), np.float64)
            return values

        self.read = read

    def parts(self, launches: Sequence[RunnableContext], operands: DgOperands, stencil: Stencil) -> list[DevicePoints]:
        mesh, id, size = operands.mesh, self.id, POINT_CELL * operands.mesh.longest
        grid = operands.host.points(size)
        pair_operations = triangle_operations(mesh, operands.degree, operands.scale)
        bounds = consecutive(grid, work_of_cells(mesh, grid, stencil.half, pair_operations), len(launches))
        if (np.diff(bounds) < 1).any():
            raise Unsupported(f"{len(operands.points)} points are too few for {len(launches)} devices")
        parts = []
        for launcher, begin, end in zip(launches, bounds[:-1], bounds[1:], strict=True):
            numbers = grid.members[begin:end]
            points = Points(launcher, SortedCells(mesh, operands.points[numbers]), size)
            direct = PerPoint(
                launcher,
                stencil,
                points,
                operands.basis,
                method=id.method,
                threads=id.threads,
                size=id.cell * mesh.longest,
                blocks=id.blocks * launcher.device.sm_count,
            )
            load_field(launcher, direct, operands)
            parts.append(DevicePoints(numbers[points.order], direct))
        return parts


class GatherParts(FilterParts):
    """Gathering: values of all devices are copied to the first device, without filtering."""

    operation = GATHER

    def over(self, launches: Sequence[RunnableContext], operands: DgOperands, stencil: Stencil) -> None:
        first, devices = launches[0], launches[0].workspace.devices.leading(self.devices)
        parts = self.parts(launches, operands, stencil)
        gathered_parts: list[Buffer] = []
        copies: list[Copy] = []
        for index, part in enumerate(parts):
            part.direct.launch()
            count = len(part.numbers)
            gathered_parts.append(first.numbers(count, np.float64) if index else part.direct.values)
            if index:
                first.device.fill(gathered_parts[index], NAN_BYTE)
                copies.append(Copy(part.direct.values, index, gathered_parts[index], 0, count * DOUBLE_BYTES))
        self.bytes_moved = sum(copy.nbytes for copy in copies)
        self.launch = lambda: devices.exchange(copies)

        def read() -> Floats:
            values = np.empty(len(operands.points))
            for part, buffer in zip(parts, gathered_parts, strict=True):
                values[part.numbers] = first.download(buffer, len(part.numbers), np.float64)
            return values

        self.read = read


class FilterPatches(DistributedFilter):
    """Filtering by patches: each device adds up its own patches' copies, then the first adds up all solutions."""

    def over(self, launches: Sequence[RunnableContext], operands: DgOperands, stencil: Stencil) -> None:
        mesh, id, count = operands.mesh, self.id, len(operands.points)
        shares = len(launches)
        if len(mesh.triangles) < shares:
            raise Unsupported(f"{len(mesh.triangles)} triangles are too few for {shares} devices")
        filters = []
        for index, launcher in enumerate(launches):
            points = Points(launcher, operands.host, id.cell * mesh.longest)
            patches = shares * id.blocks * launcher.device.sm_count
            direct = PerElement(
                launcher, stencil, points, operands.basis, patches=patches, threads=id.threads, share=(index, shares)
            )
            load_field(launcher, direct, operands)
            filters.append(direct)
        self._columns = {"copies": sum(direct.patches.copies for direct in filters) + shares * count}
        first, grid, order = launches[0], points.cells.grid, points.order
        solutions, values, add = _second_stage(first, f"element-p{stencil.degree}", grid, shares)
        copies = [
            Copy(direct.values, index, solutions[index], 0, count * DOUBLE_BYTES)
            for index, direct in enumerate(filters)
        ]
        devices = first.workspace.devices.leading(self.devices)
        self.launch = in_order([*(direct.launch for direct in filters), lambda: devices.exchange(copies), add])

        def read() -> Floats:
            result = np.empty(count)
            result[order] = first.download(values, count, np.float64)
            return result

        self.read = read


def _second_stage(
    first: RunnableContext, module: str, grid: Grid, shares: int
) -> tuple[list[Buffer], Buffer, Callable[[], None]]:
    """Return memory for all devices' solutions and their sum, and the kernel that adds up these and patches' copies."""
    starts, count, cells = grid.starts, len(grid.members), len(grid.starts) - 1
    step = PART_ALIGNMENT // DOUBLE_BYTES
    stride = -(-count // step) * step
    stack = first.keep(first.guards.allocate(shares * stride * DOUBLE_BYTES, "what is filtered", first.device))
    first.device.fill(stack.memory, NAN_BYTE)
    solutions = [stack.part(index * stride * DOUBLE_BYTES, count * DOUBLE_BYTES) for index in range(shares)]
    values = first.numbers(count, np.float64)
    first.device.fill(values, NAN_BYTE)
    offsets = starts[:-1, None].astype(np.int64) + stride * np.arange(shares)
    add = first.kernels(module).over(
        "reduce",
        count,
        [
            np.int32(count), first.upload(grid.cell_of_member), first.upload(starts),
            first.upload(shares * np.arange(cells + 1, dtype=np.int32)),
            first.upload(offsets.astype(np.int32).ravel()), stack.memory, values
        ]
    )  # fmt: skip
    return solutions, values, add


def device_filters(modules: Mapping[str, ModuleFile], choices: Sequence[Choice], count: int) -> list[Runnable]:
    """Return the runnables over 2, 4, 8, … and all of `count` devices; none for a single device."""
    filter_ids = {
        choice.tuning: choice.id
        for choice in choices
        if choice.clock == FILTER_CLOCK and isinstance(choice.id, FilterId)
    }
    runnables: list[Runnable] = []
    for number in device_counts(count):
        for id in (filter_ids[tuning] for tuning in DEVICE_TUNINGS if tuning in filter_ids):
            if id.method == "element":
                runnables.append(FilterPatches(modules, id, number))
            else:
                runnables += [FilterParts(modules, id, number), GatherParts(modules, id, number)]
    return runnables


T = TypeVar("T")
#: The largest share of a device's free memory that the filter's matrix may take.
MAX_MEMORY_SHARE = 0.8
#: Numbers of fields for which products are timed.
FIELD_COUNTS = (1, 4, 16)


def row_cell_size(operands: DgOperands) -> float:
    """Return the size of the cells that determine the order of the matrix's rows."""
    return POINT_CELL * operands.mesh.longest


class SharedMatrix(Generic[T]):
    """A form of the filter's matrix for several runnables: made for the first user, released by the last user."""

    def __init__(self) -> None:
        self.size: MatrixSize | None = None
        self._users, self._stack = 0, ExitStack()
        self._made: T | None = None
        self._refused = ""

    @staticmethod
    def rows(launches: LaunchContext, operands: DgOperands) -> MatrixRows:
        points = Points(launches, operands.host, row_cell_size(operands))
        return MatrixRows(launches, operands.stencil, points, operands.basis)

    def count(self, launches: LaunchContext, rows: MatrixRows) -> TileLayout:
        """Return where each tile begins; raise Unsupported if the matrix does not fit into the device's memory."""
        layout = rows.count()
        self.size = size = layout.size
        free_bytes = launches.device.free_bytes()
        if size.nbytes > MAX_MEMORY_SHARE * free_bytes:
            raise Unsupported(f"the matrix has {size.nbytes / 1e9:.1f} GB, and {free_bytes / 1e9:.1f} are free")
        return layout

    def make(self, launches: LaunchContext, operands: DgOperands, resources: ExitStack) -> T:
        """Return the matrix, whose memory `resources` releases; `launches` holds intermediate memory."""
        raise NotImplementedError

    def take(self, launches: LaunchContext, operands: DgOperands) -> T:
        """Return the matrix, and hold it until the memory of `launches` is released.

        Raise Unsupported if there is not enough memory; a later call then raises it again without counting again.
        """
        if self._refused:
            raise Unsupported(self._refused)
        if self._made is None:
            with ExitStack() as passing, ExitStack() as stack:
                try:
                    matrix = self.make(launches.within(passing), operands, stack)
                except Unsupported as error:
                    self._refused = str(error)
                    raise
                launches.device.synchronize()  # kernels must end before `passing` frees their memory
                self._stack, self._made = stack.pop_all(), matrix
        self._users += 1
        launches.stack.callback(self._give_back)
        return self._made

    def _give_back(self) -> None:
        self._users -= 1
        if not self._users:
            self._made = None
            self._stack.close()


class BlockMatrix(SharedMatrix[FilterMatrix]):
    """The filter's matrix in the format of our products."""

    def make(self, launches: LaunchContext, operands: DgOperands, resources: ExitStack) -> FilterMatrix:
        rows = self.rows(launches, operands)
        return rows.make(self.count(launches, rows), resources)


class FilterMatrixRunnable(FieldRunnable):
    """A runnable that uses the filter's matrix."""

    kind = "variant"
    cold = False
    operation: str
    modules = ("rows", "apply")

    def __init__(self, modules: Mapping[str, ModuleFile], shared: SharedMatrix[Any]) -> None:
        super().__init__(modules)
        self._shared = shared

    @property
    def columns(self) -> Mapping[str, Any]:
        size = self._shared.size
        sizes = {"matrix_pairs": size.pairs, "matrix_bytes": size.nbytes} if size else {}
        return {**super().columns, "what": self.operation, **sizes}


class MakeMatrix(FilterMatrixRunnable, Filters):
    """Making the filter's matrix: count, allocate and compute its blocks; points and triangles are sorted already."""

    clocks: tuple[ClockName, ...] = (HOST_CLOCK,)
    name, operation = "matrix/make", "make"

    def __init__(self, modules: Mapping[str, ModuleFile], shared: SharedMatrix[Any]) -> None:
        super().__init__(modules, shared)
        self._matrix: FilterMatrix | None = None
        self._own = ExitStack()

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        rows = self._shared.rows(launches, operands)
        self._shared.count(launches, rows)
        modes = launches.upload(operands.modes[:, :, None])
        values = launches.numbers(len(operands.points), np.float64)

        def launch() -> None:
            self._matrix = rows.make(rows.count(), self._own)
            launches.device.synchronize()

        def read() -> Floats:
            """Multiply with the new matrix and return the product."""
            assert self._matrix is not None
            self._matrix.bind(modes, values)()
            return launches.download(values, len(operands.points), np.float64)

        self.launch, self.read = launch, read

    def before(self) -> None:
        """Release the matrix that the previous launch made."""
        self._own.close()
        self._matrix = None

    def release(self) -> None:
        self._own.close()
        super().release()


class MultiFieldRunnable(FilterMatrixRunnable):
    """A product of the filter's matrix with several equal fields at once, or a launch to compare it with."""

    def __init__(self, modules: Mapping[str, ModuleFile], shared: SharedMatrix[Any], fields: int) -> None:
        super().__init__(modules, shared)
        self.fields = fields

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "fields": self.fields}

    def modes(self, operands: DgOperands) -> Floats:
        """Return the modes of all fields, `(t, m, fields)`."""
        return np.ascontiguousarray(np.repeat(operands.modes[:, :, None], self.fields, axis=2))


class ApplyMatrix(MultiFieldRunnable, Filters):
    operation = "apply"

    def __init__(self, modules: Mapping[str, ModuleFile], shared: SharedMatrix[Any], fields: int) -> None:
        super().__init__(modules, shared, fields)
        self.name = f"matrix/apply-{fields}"

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        matrix = self._shared.take(launches, operands)
        shape = len(operands.points), self.fields
        modes = launches.upload(self.modes(operands))
        values = launches.numbers(shape[0] * shape[1], np.float64)
        launches.device.fill(values, NAN_BYTE)
        self.bytes_moved = matrix.size.nbytes + modes.nbytes + 8 * shape[0] * shape[1]
        self.launch = matrix.bind(modes, values, self.fields)
        self.read = lambda: launches.download(values, shape[0] * shape[1], np.float64).reshape(shape)


class StreamMatrix(MultiFieldRunnable):
    """Lower bound of a product's time: read matrix and modes, write a result; `unroll` words in flight."""

    operation = "stream"
    modules = ("rows", "stored")

    def __init__(self, modules: Mapping[str, ModuleFile], shared: SharedMatrix[Any], unroll: int) -> None:
        super().__init__(modules, shared, 1)
        self.name, self._unroll = f"matrix/stream-u{unroll}", unroll

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        matrix = self._shared.take(launches, operands)
        modes = launches.upload(self.modes(operands))
        result = launches.numbers(len(operands.points), np.float64)
        self.launch, self.bytes_moved = StoredMatrix(matrix).stream(modes, result, self._unroll)


def matrix_runnables(modules: Mapping[str, ModuleFile]) -> list[list[FilterMatrixRunnable]]:
    """Return the runnables of the filter's matrix, in groups that are timed side by side.

    The runnable `MakeMatrix` has its own matrix; products and streaming share one matrix.
    """
    shared = BlockMatrix()
    applies = [ApplyMatrix(modules, shared, fields) for fields in FIELD_COUNTS]
    streams = [StreamMatrix(modules, shared, unroll) for unroll in IN_FLIGHT_COUNTS]
    return [[MakeMatrix(modules, shared)], [*applies, *streams]]


#: Maximum bytes of SciPy's matrix, which the host makes scalar by scalar.
MAX_HOST_BYTES = 1_000_000_000
#: Name of the only routine of SciPy.
SCIPY = "csr"


def routine_names(backend: str) -> list[str]:
    if backend == "opencl":
        return [SCIPY]
    return list(dict.fromkeys(routine.name for fields in FIELD_COUNTS for routine in csr_routines(fields)))


def configured_routines(settings: StudySettings, backend: str) -> list[str]:
    """Return the names of the configured routines for a backend; raise ReproError if a routine does not exist."""
    return among(STUDY_NAME, settings.baselines, routine_names(backend))


def library_products(modules: Mapping[str, ModuleFile], routines: Sequence[str], backend: str) -> list[LibraryProduct]:
    """Return the library products with the wanted routines, for all numbers of fields; all products share a matrix."""
    if backend == "opencl":
        shared = HostMatrix()
        return [ScipyProduct(modules, shared, fields) for fields in FIELD_COUNTS if SCIPY in routines]
    scalars = ScalarMatrix()
    return [
        CusparseProduct(modules, scalars, fields, routine)
        for fields in FIELD_COUNTS
        for routine in csr_routines(fields)
        if routine.name in routines
    ]


class ScalarMatrix(SharedMatrix[GpuCsr]):
    """The filter's matrix, expanded to scalars on the device."""

    def make(self, launches: LaunchContext, operands: DgOperands, resources: ExitStack) -> GpuCsr:
        rows = self.rows(launches, operands)
        layout, free_bytes = self.count(launches, rows), launches.device.free_bytes()
        entries = layout.size.modes * layout.size.pairs
        required_bytes = layout.size.nbytes + CSR_ENTRY_BYTES * entries
        if entries > MAX_CSR_ENTRIES:
            raise Unsupported(f"CSR of scalars: {entries:,} entries, and 32-bit offsets count {MAX_CSR_ENTRIES:,}")
        if required_bytes > MAX_MEMORY_SHARE * free_bytes:
            raise Unsupported(
                f"CSR of scalars: {required_bytes / 1e9:.1f} GB with its blocks, and {free_bytes / 1e9:.1f} are free"
            )
        csr, expand = StoredMatrix(rows.make(layout, launches.stack)).expand()
        keep(resources, csr)
        expand()
        return csr


class HostMatrix(SharedMatrix[csr_array]):
    """The filter's matrix on the host, for SciPy."""

    def make(self, launches: LaunchContext, operands: DgOperands, resources: ExitStack) -> csr_array:
        rows = self.rows(launches, operands)
        layout = self.count(launches, rows)
        nbytes = CSR_ENTRY_BYTES * layout.size.modes * layout.size.pairs
        if nbytes > MAX_HOST_BYTES:
            raise Unsupported(f"SciPy's matrix has {nbytes / 1e9:.1f} GB; at most {MAX_HOST_BYTES / 1e9:g} are made")
        return rows.make(layout, launches.stack).download()


class LibraryProduct(MultiFieldRunnable, Filters):
    kind = "baseline"
    operation = "library"
    modules = ("rows", "stored")
    routine_name: str

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "routine": self.routine_name}


class CusparseProduct(LibraryProduct):
    def __init__(
        self, modules: Mapping[str, ModuleFile], scalars: ScalarMatrix, fields: int, routine: CsrRoutine
    ) -> None:
        super().__init__(modules, scalars, fields)
        self._scalars, self._routine, self.routine_name = scalars, routine, routine.name
        self.name = f"cusparse/{routine.name}-{fields}"

    @property
    def identity(self) -> str:
        return f"{version()} {super().identity}"

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        load()  # the library is checked before anything is made
        gpu(launches.device)
        csr = self._scalars.take(launches, operands)
        fields, count = self.fields, len(operands.points)
        modes = launches.upload(self.modes(operands))
        values = launches.numbers(count * fields, np.float64)
        launches.device.fill(values, NAN_BYTE)
        guards = launches.guards or Guards(launches.device)
        self.launch = CsrProduct(csr, self._routine, modes, values, fields, guards, launches.stack).launch
        self.bytes_moved = csr.nbytes + modes.nbytes + 8 * count * fields
        order = operands.host.points(row_cell_size(operands)).members  # the matrix's rows are in the order of cells

        def read() -> Floats:
            result = np.empty((count, fields))
            result[order] = launches.download(values, count * fields, np.float64).reshape(count, fields)
            return result

        self.read = read


class ScipyProduct(LibraryProduct):
    """A product by SciPy on the host, timed like a kernel."""

    routine_name = SCIPY
    identity = f"scipy {scipy.__version__} numpy {np.__version__}"

    def __init__(self, modules: Mapping[str, ModuleFile], host_matrix: HostMatrix, fields: int) -> None:
        super().__init__(modules, host_matrix, fields)
        self.name, self._on_host = f"scipy/{SCIPY}-{fields}", host_matrix
        self._product: NDArray[np.float64] = np.empty(0)

    def bind(self, launches: LaunchContext, operands: DgOperands) -> None:
        csr = self._on_host.take(launches, operands)
        modes = self.modes(operands).reshape(-1, self.fields)
        self._product = np.full((csr.shape[0], self.fields), np.nan)
        self.bytes_moved = (
            csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes + modes.nbytes + self._product.nbytes
        )

        def launch() -> None:
            self._product = csr @ modes

        self.launch, self.read = launch, lambda: self._product

    def release(self) -> None:
        super().release()
        self.launch, self._product = not_prepared, np.empty(0)
