"""Ways to filter a field at its points as runnables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench import guards
from repro.bench.runnable import Candidate, Clock, Runnable
from repro.bench.workspace import Workspace
from repro.devices.several import Devices
from repro.filtering.direct import Direct, PerPoint, Points, Stencil
from repro.filtering.local import LocalPerPoint
from repro.filtering.per_element import PerElement, PerElementAtomic
from repro.sparse.built import Built
from repro.sparse.launches import Launches
from repro.sparse.verify import NAN_BYTE
from repro.studies.dg_postprocessing.accuracy import Errors
from repro.studies.dg_postprocessing.filter_id import FilterId
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.paper import CLOCK, LOCAL, POINT_CELL

Floats = NDArray[np.float64]


class OnDevices(Launches):
    """Launches on one of a case's devices, whose memory lies between guard zones.

    Parameters
    ----------
    workspace, built, held
        Whose devices and guards, the modules by name, and what gives memory back.
    at
        On which of the devices.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, Built], held: ExitStack, at: int = 0) -> None:
        super().__init__(
            workspace.devices[at], lambda module: built[module].program(workspace, at), held, workspace.guards
        )
        self._workspace, self._built = workspace, built

    @property
    def devices(self) -> Devices:
        """All devices there are."""
        return self._workspace.devices

    def on(self, at: int) -> OnDevices:
        """Return launches on another of the devices, whose memory is given back with this one's."""
        return OnDevices(self._workspace, self._built, self.held, at)

    def guarded(self, nbytes: int) -> guards.Guarded:
        """Return so many bytes with their guard zones, until the end."""
        return self.keep(self._workspace.guards.allocate(nbytes, "what is filtered", self.device))


class OfField(Runnable):
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

    def __init__(self, built: Mapping[str, Built]) -> None:
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
            self.bind(OnDevices(workspace, self._built, held), operands)
            self._held = held.pop_all()

    def bind(self, launches: OnDevices, operands: DgOperands) -> None:
        """Set `launch`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held.close()


class FieldFilter(OfField, Filters, Candidate):
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
    clocks: tuple[Clock, ...] = (CLOCK,)

    def __init__(self, built: Mapping[str, Built], id: FilterId, refuse: Callable[[], None] = lambda: None) -> None:
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
        direct: Direct
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
        fill(launches, direct, operands)
        self.launch, self.read = direct.launch, direct.result


class LocalFilter(OfField, Filters):
    """The paper's per-point way with an h of each point, which gives another result: it is in no space."""

    kind = "variant"
    cold = False
    clocks: tuple[Clock, ...] = (CLOCK,)
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
        fill(launches, filtering, operands)
        self.launch, self.read = filtering.launch, filtering.result


def fill(launches: Launches, direct: Direct, operands: DgOperands) -> None:
    """Give a device the field, and make NaN of what it is to write, so that what is left out is seen."""
    direct.field.set(operands.modes)
    launches.device.fill(direct.values, NAN_BYTE)
