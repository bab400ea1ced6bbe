"""Filtering over several devices of one host (King 2017, Figure 3.12): by contours, and the paper's per element.

All have the whole field, which is small beside the work. By contours each device owns some points: those that follow
each other cell by cell are cut into as many parts as there are devices, of equal work by the operations that are
counted. Values stay where they are computed; what it takes to bring them to the first device is timed by itself.

Per element each device has as many patches as one alone has, and adds up its own copies of the solution; its solution
is then copied to the first device, which adds up those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Clock, Runnable, Unsupported
from repro.devices.base import PART_ALIGNMENT, Buffer, Copy
from repro.devices.several import numbers_of
from repro.filtering.direct import PerPoint, Points, Stencil
from repro.filtering.grids import Grid
from repro.filtering.parts import consecutive, work_of_cells
from repro.filtering.per_element import PerElement
from repro.filtering.sorted import Sorted
from repro.sparse.built import Built
from repro.sparse.kernels import Kernels, in_order
from repro.sparse.verify import NAN_BYTE
from repro.studies.dg_postprocessing.filter_id import FilterId
from repro.studies.dg_postprocessing.filters import OfField, OnDevices, fill
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.paper import CLOCK, FILTER, GATHER, POINT_CELL, SEVERAL
from repro.studies.dg_postprocessing.work import of_triangles
from repro.tuning.choose import Choice

Floats = NDArray[np.float64]
#: The tunings whose winners are run over several devices: ours, and the paper's.
TUNINGS = ("edges", "paper/element")
WORD = 8


class OverDevices(OfField, Filters):
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
    clocks: tuple[Clock, ...] = (CLOCK,)
    cold = False
    what = FILTER

    def __init__(self, built: Mapping[str, Built], id: FilterId, count: int) -> None:
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

    def bind(self, launches: OnDevices, operands: DgOperands) -> None:
        """Bind all devices, where there are so many."""
        if len(launches.devices) < self.devices:
            raise Unsupported(f"there are {len(launches.devices)} devices, not {self.devices}")
        self.over([launches.on(at) for at in range(self.devices)], operands, operands.stencil)

    def over(self, launches: Sequence[OnDevices], operands: DgOperands, stencil: Stencil) -> None:
        """Set `launch` and `read`, with launches on each device."""
        raise NotImplementedError


class Part(NamedTuple):
    """What a device has: the numbers of its points, in the order in which it has them, and how it filters at them."""

    numbers: NDArray[np.integer[Any]]
    direct: PerPoint


class FilterParts(OverDevices):
    """Each device filters at points of its own, and keeps their values."""

    def over(self, launches: Sequence[OnDevices], operands: DgOperands, stencil: Stencil) -> None:
        """Cut the points into parts, and bind each device's."""
        parts = self.parts(launches, operands, stencil)
        self.launch = in_order([part.direct.launch for part in parts])

        def read() -> Floats:
            values = np.empty(len(operands.points))
            for own, part in zip(launches, parts, strict=True):
                values[part.numbers] = own.download(part.direct.values, len(part.numbers), np.float64)
            return values

        self.read = read

    def parts(self, launches: Sequence[OnDevices], operands: DgOperands, stencil: Stencil) -> list[Part]:
        """Return what each device has.

        Raises
        ------
        Unsupported
            There are fewer points than devices.
        """
        mesh, id, size = operands.mesh, self.id, POINT_CELL * operands.mesh.longest
        grid = operands.host.points(size)
        of_pair = of_triangles(mesh, operands.degree, operands.scale)
        bounds = consecutive(grid, work_of_cells(mesh, grid, stencil.half, of_pair), len(launches))
        if (np.diff(bounds) < 1).any():
            raise Unsupported(f"{len(operands.points)} points are too few for {len(launches)} devices")
        parts = []
        for own, begin, end in zip(launches, bounds[:-1], bounds[1:], strict=True):
            numbers = grid.members[begin:end]
            points = Points(own, Sorted(mesh, operands.points[numbers]), size)
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
            fill(own, direct, operands)
            parts.append(Part(numbers[points.order], direct))
        return parts


class GatherParts(FilterParts):
    """The values of all devices are brought to the first, without filtering."""

    what = GATHER

    def over(self, launches: Sequence[OnDevices], operands: DgOperands, stencil: Stencil) -> None:
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


class FilterPatches(OverDevices):
    """Each device has patches of its own and adds up their copies; the first adds up the solutions of all."""

    def over(self, launches: Sequence[OnDevices], operands: DgOperands, stencil: Stencil) -> None:
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
            fill(own, direct, operands)
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
    first: OnDevices, module: str, grid: Grid, shares: int
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


def runnables(built: Mapping[str, Built], choices: Sequence[Choice], count: int) -> list[Runnable]:
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
    chosen = {choice.tuning: FilterId.parse(choice.name) for choice in choices if choice.clock == CLOCK}
    made: list[Runnable] = []
    for number in numbers_of(count):
        for id in (chosen[tuning] for tuning in TUNINGS if tuning in chosen):
            if id.way == "element":
                made.append(FilterPatches(built, id, number))
            else:
                made += [FilterParts(built, id, number), GatherParts(built, id, number)]
    return made
