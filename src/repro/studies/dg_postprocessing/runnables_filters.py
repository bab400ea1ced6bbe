"""Direct filtering of a field at its points, on one device and over several of one host (King 2017, Figure 3.12).

Every device has the whole field, which is small beside the work. By contours each device owns some points:
points that follow each other cell by cell are cut into as many parts as there are devices, of equal work by the
operations that are counted. Values stay where they are computed; what it takes to bring them to the first
device is timed by itself.

Per element each device has as many patches as one device alone has, and adds up its own copies of the solution.
Its solution is then copied to the first device, which adds up those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, ClockName, Runnable, Unsupported
from repro.bench.workspace import Guarded, Workspace
from repro.devices.base import PART_ALIGNMENT, Buffer, Copy
from repro.devices.device_group import Devices, numbers_of
from repro.filtering.grids import Grid, SortedCells, consecutive, work_of_cells
from repro.filtering.matrix_free import (
    LocalPerPoint,
    MatrixFree,
    PerElement,
    PerElementAtomic,
    PerPoint,
    Points,
    Stencil,
)
from repro.sparse.device_work import Launches, ModuleFile
from repro.sparse.elementwise import Kernels, in_order
from repro.sparse.operands import NAN_BYTE
from repro.studies.dg_postprocessing import FILTER, FILTER_CLOCK, GATHER, LOCAL, POINT_CELL, SEVERAL
from repro.studies.dg_postprocessing.ids import FilterId
from repro.studies.dg_postprocessing.metrics import Errors, triangle_operations
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.tuning.search import Choice

Floats = NDArray[np.float64]


class DeviceLaunches(Launches):
    """Launches on one of a case's devices, whose memory lies between guard zones.

    Parameters
    ----------
    workspace, built, held
        Whose devices and guards, the modules by name, and what gives memory back.
    at
        On which of the devices.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, ModuleFile], held: ExitStack, at: int = 0) -> None:
        super().__init__(
            workspace.devices[at], lambda module: built[module].program(workspace, at), held, workspace.guards
        )
        self._workspace, self._built = workspace, built

    @property
    def devices(self) -> Devices:
        """All devices there are."""
        return self._workspace.devices

    def on(self, at: int) -> DeviceLaunches:
        """Return launches on another of the devices, whose memory is given back with this one's."""
        return DeviceLaunches(self._workspace, self._built, self.held, at)

    def guarded(self, nbytes: int) -> Guarded:
        """Return so many bytes with their guard zones, until the end."""
        return self.keep(self._workspace.guards.allocate(nbytes, "what is filtered", self.device))


class FieldRunnable(Runnable):
    """A runnable on the field of a case.

    Parameters
    ----------
    built
        The modules by name.

    Attributes
    ----------
    modules
        Those that it uses, without their degree: `element` for `element-p2`.
    """

    errors: Errors | None = None
    modules: tuple[str, ...]

    def __init__(self, built: Mapping[str, ModuleFile]) -> None:
        self._built, self._held = built, ExitStack()
        self._said: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        hashes = (module.module.hash for name, module in self._built.items() if name.split("-")[0] in self.modules)
        return " ".join(hashes)

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it found out when it was prepared, and how far its result is from the exact function."""
        errors = self.errors
        return {**self._said, **({"l2_error": errors.l2, "max_error": errors.largest} if errors else {})}

    def prepare(self, workspace: Workspace) -> None:
        """Bring mesh and points to the device, and bind.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        operands = workspace.operands
        assert isinstance(operands, DgOperands)
        self.release()
        self.moved, self.errors = sum(operands.least_bytes), None
        with ExitStack() as held:
            self.bind(DeviceLaunches(workspace, self._built, held), operands)
            self._held = held.pop_all()

    def bind(self, launches: DeviceLaunches, operands: DgOperands) -> None:
        """Set `launch`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held.close()


class FieldFilter(FieldRunnable, Filters, Candidate):
    """A way to filter, as a search tries it.

    Parameters
    ----------
    built, id
        The modules by name, and the way.
    refuse
        Called before anything is prepared; raises `Unsupported` where the way is not to be tried.
    """

    kind = "variant"
    cold = False
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)

    def __init__(
        self, built: Mapping[str, ModuleFile], id: FilterId, refuse: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(built)
        self._refuse = refuse
        self.id, self.space, self.name = id, id.space, str(id)
        self.modules = id.module, "rows"
        self.packing, self.group = self.name, (id.way, id.space)

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is tried."""
        return {**super().columns, **self.id.columns, "what": "filter", "space": self.space}

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Bring what is sorted into cells to the device, and bind the kernel."""
        self._refuse()
        id, longest = self.id, operands.mesh.longest
        blocks = id.blocks * launches.device.n_s
        direct: MatrixFree
        if id.way in ("element", "atomic"):
            make = PerElement if id.way == "element" else PerElementAtomic
            points = Points(launches, operands.host, id.cell * longest)
            direct = make(launches, operands.stencil, points, operands.basis, patches=blocks, threads=id.threads)
            if isinstance(direct, PerElement):
                self._said = {"copies": direct.patches.copies}
        else:
            points = Points(launches, operands.host, POINT_CELL * longest)
            direct = PerPoint(
                launches,
                operands.stencil,
                points,
                operands.basis,
                way=id.way,
                threads=id.threads,
                size=id.cell * longest,
                blocks=blocks,
            )
        load_field(launches, direct, operands)
        self.launch, self.read = direct.launch, direct.result


class LocalFilter(FieldRunnable, Filters):
    """The paper's per-point way with an h of each point, which gives another result: it is in no space."""

    kind = "variant"
    cold = False
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)
    local = True
    modules = (LOCAL, "rows")
    threads = 64
    name = f"{LOCAL}-t{threads}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is."""
        return {**super().columns, "what": LOCAL}

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Bind the kernel, with each point's h."""
        scales = operands.local_scales
        stencil = Stencil(operands.mesh, operands.degree, float(scales.max()))
        points = Points(launches, operands.host, POINT_CELL * operands.mesh.longest)
        filtering = LocalPerPoint(launches, stencil, points, scales, operands.basis, threads=self.threads)
        self._said = {"mean_scale": float(scales.mean()), "local_pairs": operands.local_expected.work.pairs}
        load_field(launches, filtering, operands)
        self.launch, self.read = filtering.launch, filtering.result


def load_field(launches: Launches, direct: MatrixFree, operands: DgOperands) -> None:
    """Give a device the field, and make NaN of what it is to write, so that what is left out is seen."""
    direct.field.set(operands.modes)
    launches.device.fill(direct.values, NAN_BYTE)


#: The tunings whose winners are run over several devices: ours, and the paper's.
DEVICE_TUNINGS = ("edges", "paper/element")
WORD = 8


class DistributedFilter(FieldRunnable, Filters):
    """A runnable over several devices.

    Parameters
    ----------
    built
        The modules by name.
    id
        The way, as it was chosen on one device.
    count
        So many devices, the first ones.
    """

    kind = SEVERAL
    clocks: tuple[ClockName, ...] = (FILTER_CLOCK,)
    cold = False
    what = FILTER

    def __init__(self, built: Mapping[str, ModuleFile], id: FilterId, count: int) -> None:
        super().__init__(built)
        self.id, self.devices, self.modules = id, count, (id.module, "rows")
        self.name = f"{self.what}-{count}/{id}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it does, and over how many devices."""
        return {
            **super().columns,
            **self.id.columns,
            "what": self.what,
            "devices": self.devices,
            "space": self.id.space,
        }

    def bind(self, launches: DeviceLaunches, operands: DgOperands) -> None:
        """Bind all devices, where there are so many."""
        if len(launches.devices) < self.devices:
            raise Unsupported(f"there are {len(launches.devices)} devices, not {self.devices}")
        self.over([launches.on(at) for at in range(self.devices)], operands, operands.stencil)

    def over(self, launches: Sequence[DeviceLaunches], operands: DgOperands, stencil: Stencil) -> None:
        """Set `launch` and `read`, with launches on each device."""
        raise NotImplementedError


class DevicePoints(NamedTuple):
    """What a device has: the numbers of its points, in the order in which it has them, and how it filters at them."""

    numbers: NDArray[np.integer[Any]]
    direct: PerPoint


class FilterParts(DistributedFilter):
    """Each device filters at points of its own, and keeps their values."""

    def over(self, launches: Sequence[DeviceLaunches], operands: DgOperands, stencil: Stencil) -> None:
        """Cut the points into parts, and bind each device's."""
        parts = self.parts(launches, operands, stencil)
        self.launch = in_order([part.direct.launch for part in parts])

        def read() -> Floats:
            values = np.empty(len(operands.points))
            for own, part in zip(launches, parts, strict=True):
                values[part.numbers] = own.download(part.direct.values, len(part.numbers), np.float64)
            return values

        self.read = read

    def parts(self, launches: Sequence[DeviceLaunches], operands: DgOperands, stencil: Stencil) -> list[DevicePoints]:
        """Return what each device has.

        Raises
        ------
        Unsupported
            There are fewer points than devices.
        """
        mesh, id, size = operands.mesh, self.id, POINT_CELL * operands.mesh.longest
        grid = operands.host.points(size)
        of_pair = triangle_operations(mesh, operands.degree, operands.scale)
        bounds = consecutive(grid, work_of_cells(mesh, grid, stencil.half, of_pair), len(launches))
        if (np.diff(bounds) < 1).any():
            raise Unsupported(f"{len(operands.points)} points are too few for {len(launches)} devices")
        parts = []
        for own, begin, end in zip(launches, bounds[:-1], bounds[1:], strict=True):
            numbers = grid.members[begin:end]
            points = Points(own, SortedCells(mesh, operands.points[numbers]), size)
            direct = PerPoint(
                own,
                stencil,
                points,
                operands.basis,
                way=id.way,
                threads=id.threads,
                size=id.cell * mesh.longest,
                blocks=id.blocks * own.device.n_s,
            )
            load_field(own, direct, operands)
            parts.append(DevicePoints(numbers[points.order], direct))
        return parts


class GatherParts(FilterParts):
    """The values of all devices are brought to the first, without filtering."""

    what = GATHER

    def over(self, launches: Sequence[DeviceLaunches], operands: DgOperands, stencil: Stencil) -> None:
        """Filter once, and bind the copies."""
        first, devices = launches[0], launches[0].devices.leading(self.devices)
        parts = self.parts(launches, operands, stencil)
        brought: list[Buffer] = []
        copies: list[Copy] = []
        for at, part in enumerate(parts):
            part.direct.launch()
            count = len(part.numbers)
            brought.append(first.numbers(count, np.float64) if at else part.direct.values)
            if at:
                first.device.fill(brought[at], NAN_BYTE)
                copies.append(Copy(part.direct.values, at, brought[at], 0, count * WORD))
        self.moved = sum(copy.nbytes for copy in copies)
        self.launch = lambda: devices.exchange(copies)

        def read() -> Floats:
            values = np.empty(len(operands.points))
            for part, buffer in zip(parts, brought, strict=True):
                values[part.numbers] = first.download(buffer, len(part.numbers), np.float64)
            return values

        self.read = read


class FilterPatches(DistributedFilter):
    """Each device has patches of its own and adds up their copies; the first adds up the solutions of all."""

    def over(self, launches: Sequence[DeviceLaunches], operands: DgOperands, stencil: Stencil) -> None:
        """Deal the patches, and bind both stages.

        Raises
        ------
        Unsupported
            There are fewer triangles than devices.
        """
        mesh, id, count = operands.mesh, self.id, len(operands.points)
        shares = len(launches)
        if len(mesh.triangles) < shares:
            raise Unsupported(f"{len(mesh.triangles)} triangles are too few for {shares} devices")
        filters = []
        for at, own in enumerate(launches):
            points = Points(own, operands.host, id.cell * mesh.longest)
            patches = shares * id.blocks * own.device.n_s
            direct = PerElement(
                own, stencil, points, operands.basis, patches=patches, threads=id.threads, share=(at, shares)
            )
            load_field(own, direct, operands)
            filters.append(direct)
        self._said = {"copies": sum(direct.patches.copies for direct in filters) + shares * count}
        first, grid, order = launches[0], points.cells.grid, points.order
        solutions, values, add = _second_stage(first, f"element-p{stencil.degree}", grid, shares)
        copies = [Copy(direct.values, at, solutions[at], 0, count * WORD) for at, direct in enumerate(filters)]
        devices = first.devices.leading(self.devices)
        self.launch = in_order([*(direct.launch for direct in filters), lambda: devices.exchange(copies), add])

        def read() -> Floats:
            result = np.empty(count)
            result[order] = first.download(values, count, np.float64)
            return result

        self.read = read


def _second_stage(
    first: DeviceLaunches, module: str, grid: Grid, shares: int
) -> tuple[list[Buffer], Buffer, Callable[[], None]]:
    """Return room for the solutions of all devices, for their sum, and what queues adding them up on the first.

    It is the kernel that adds up the copies of patches, with a patch a device on all cells.
    """
    starts, count, cells = grid.starts, len(grid.members), len(grid.starts) - 1
    step = PART_ALIGNMENT // WORD
    stride = -(-count // step) * step
    stack = first.guarded(shares * stride * WORD)
    first.device.fill(stack.memory, NAN_BYTE)
    solutions = [stack.part(at * stride * WORD, count * WORD) for at in range(shares)]
    values = first.numbers(count, np.float64)
    first.device.fill(values, NAN_BYTE)
    offsets = starts[:-1, None].astype(np.int64) + stride * np.arange(shares)
    add = Kernels(first.device, first.load(module)).over(
        "reduce",
        count,
        [
            np.int32(count), first.upload(grid.cell_of_member), first.upload(starts),
            first.upload(shares * np.arange(cells + 1, dtype=np.int32)),
            first.upload(offsets.astype(np.int32).ravel()), stack.memory, values,
        ],
    )  # fmt: skip
    return solutions, values, add


def device_filters(built: Mapping[str, ModuleFile], choices: Sequence[Choice], count: int) -> list[Runnable]:
    """Return all that is timed over 2, 4, 8, … and all devices; nothing where there is one.

    Parameters
    ----------
    built
        The modules by name.
    choices
        Of what was searched on one device.
    count
        How many devices there are.
    """
    chosen = {choice.tuning: FilterId.parse(choice.name) for choice in choices if choice.clock == FILTER_CLOCK}
    made: list[Runnable] = []
    for number in numbers_of(count):
        for id in (chosen[tuning] for tuning in DEVICE_TUNINGS if tuning in chosen):
            if id.way == "element":
                made.append(FilterPatches(built, id, number))
            else:
                made += [FilterParts(built, id, number), GatherParts(built, id, number)]
    return made
