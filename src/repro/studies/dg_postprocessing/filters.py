"""Ways to filter a field at its points as runnables, and the filter as a matrix: making it, and products with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.bench import guards
from repro.bench.runnable import Candidate, Clock, Unsupported
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.devices.several import Devices
from repro.filtering.direct import Direct, PerElement, PerPoint, Points, Stencil
from repro.filtering.local import LocalPerPoint
from repro.filtering.rows import FilterMatrix, Layout, Rows
from repro.sparse.built import Built
from repro.sparse.launches import Launches
from repro.sparse.verify import NAN_BYTE
from repro.studies.dg_postprocessing.filter_id import FilterId
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.paper import LOCAL, POINT_CELL

Floats = NDArray[np.float64]
#: The share of a device's free memory that the filter's matrix may take.
SHARE = 0.8
#: Fields of a product that are timed.
FIELDS = (1, 4, 16)


def _nothing() -> Floats:
    raise AssertionError("not prepared")


class Guarded(Launches):
    """Launches whose memory for results lies between guard zones.

    Parameters
    ----------
    workspace, built, held
        Whose devices and guards, the modules by name, and what gives memory back.
    at
        On which of the devices.

    Attributes
    ----------
    held
        Gives all of it back.
    """

    def __init__(self, workspace: Workspace, built: Mapping[str, Built], held: ExitStack, at: int = 0) -> None:
        super().__init__(workspace.devices[at], lambda module: built[module].program(workspace, at), held)
        self._workspace, self._built, self._guards, self.held = workspace, built, workspace.guards, held

    @property
    def devices(self) -> Devices:
        """All devices there are."""
        return self._workspace.devices

    def on(self, at: int) -> Guarded:
        """Return launches on another of the devices, whose memory is given back with this one's."""
        return Guarded(self._workspace, self._built, self.held, at)

    def numbers(self, count: int, dtype: DTypeLike) -> Buffer:
        """Return memory for so many numbers of a type, between guard zones, until the end."""
        return self.guarded(max(count, 1) * np.dtype(dtype).itemsize).memory

    def guarded(self, nbytes: int) -> guards.Guarded:
        """Return so many bytes with their guard zones, until the end."""
        return self.keep(self._guards.allocate(nbytes, "what is filtered", self.device))


class OfField(Filters):
    """A runnable on the field of a case.

    Parameters
    ----------
    built
        The modules by name.
    """

    def __init__(self, built: Mapping[str, Built]) -> None:
        self._built, self._held = built, ExitStack()
        self._said: dict[str, Any] = {}
        self._read: Callable[[], Floats] = _nothing

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
            self.bind(Guarded(workspace, self._built, held), operands)
            self._held = held.pop_all()

    def bind(self, launches: Guarded, operands: DgOperands) -> None:
        """Set `launch`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held.close()


class FieldFilter(OfField, Candidate):
    """A way to filter, as a search tries it.

    Parameters
    ----------
    built, id
        The modules by name, and the way.
    clocks
        By which it is timed.
    """

    kind = "variant"
    cold = False

    def __init__(self, built: Mapping[str, Built], id: FilterId, clocks: tuple[Clock, ...] = Candidate.clocks) -> None:
        super().__init__(built)
        self.clocks = clocks
        self.id, self.space, self.name = id, id.space, str(id)
        self.packing, self.group = self.name, (id.way, id.space)
        self._direct: Direct | None = None

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        return " ".join(
            module.module.hash for name, module in self._built.items() if name.split("-")[0] in (self.id.way, "rows")
        )

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is tried."""
        return {**super().columns, **self.id.columns, "what": "filter", "space": self.space}

    def bind(self, launches: Guarded, operands: DgOperands) -> None:
        """Sort points and triangles into cells, and bind the kernel."""
        mesh, id = operands.mesh, self.id
        stencil = Stencil(mesh, operands.degree, operands.scale)
        size, n_s = id.cell * mesh.longest, launches.device.n_s
        if id.way == "element":
            points = Points(launches, mesh, operands.points, size)
            element = PerElement(launches, stencil, points, operands.basis, patches=id.blocks * n_s, threads=id.threads)
            self._said = {"copies": element.patches.copies}
            self._direct = element
        else:
            points = Points(launches, mesh, operands.points, POINT_CELL * mesh.longest)
            self._direct = PerPoint(
                launches,
                stencil,
                points,
                operands.basis,
                way=id.way,
                threads=id.threads,
                size=size,
                blocks=id.blocks * n_s,
            )
        self._direct.field.set(operands.modes)
        launches.device.fill(self._direct.values, NAN_BYTE)  # so that what is left out is seen
        self.launch = self._direct.launch

    def result(self) -> Floats:
        """Wait, and return the filtered field."""
        assert self._direct is not None
        return self._direct.result()


class LocalFilter(OfField):
    """The paper's per-point way with an h of each point, which gives another result: it is in no space."""

    kind = "variant"
    cold = False
    local = True
    threads = 64
    name = f"{LOCAL}-t{threads}"

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        return " ".join(module.module.hash for name, module in self._built.items() if name.startswith((LOCAL, "rows")))

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is."""
        return {**super().columns, "what": LOCAL}

    def bind(self, launches: Guarded, operands: DgOperands) -> None:
        """Bind the kernel, with each point's h."""
        scales = operands.local_scales
        stencil = Stencil(operands.mesh, operands.degree, float(scales.max()))
        points = Points(launches, operands.mesh, operands.points, POINT_CELL * operands.mesh.longest)
        filtering = LocalPerPoint(launches, stencil, points, scales, operands.basis, threads=self.threads)
        self._said = {"mean_scale": float(scales.mean()), "local_pairs": operands.local_expected.work.pairs}
        filtering.field.set(operands.modes)
        launches.device.fill(filtering.values, NAN_BYTE)  # so that what is left out is seen
        self.launch, self._read = filtering.launch, filtering.result

    def result(self) -> Floats:
        """Wait, and return the filtered field."""
        return self._read()


class OfMatrix(OfField):
    """A runnable of the filter's matrix."""

    kind = "variant"
    cold = False
    what: str

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        return " ".join(module.module.hash for name, module in self._built.items() if name[:4] in ("rows", "appl"))

    def rows(self, launches: Launches, operands: DgOperands) -> Rows:
        """Return what counts the entries and makes them."""
        points = Points(launches, operands.mesh, operands.points, POINT_CELL * operands.mesh.longest)
        return Rows(launches, Stencil(operands.mesh, operands.degree, operands.scale), points, operands.basis)

    def counted(self, launches: Launches, rows: Rows) -> Layout:
        """Return where tiles begin.

        Raises
        ------
        Unsupported
            The matrix is larger than the device's memory.
        """
        layout = rows.count()
        size = layout.size
        self._said |= {"matrix_pairs": size.pairs, "matrix_bytes": size.nbytes}
        free = launches.device.free_bytes()
        if size.nbytes > SHARE * free:
            raise Unsupported(f"the matrix has {size.nbytes / 1e9:.1f} GB, and {free / 1e9:.1f} are free")
        return layout


class MakeMatrix(OfMatrix):
    """Counting the entries, taking memory for them, and computing them; positions are in cells already."""

    clocks: tuple[Clock, ...] = ("host",)
    name, what = "matrix/make", "make"

    def __init__(self, built: Mapping[str, Built]) -> None:
        super().__init__(built)
        self._matrix: FilterMatrix | None = None
        self._own = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is."""
        return {**super().columns, "what": self.what}

    def bind(self, launches: Guarded, operands: DgOperands) -> None:
        """Look whether there is room, and bind the making of it."""
        rows = self.rows(launches, operands)
        self.counted(launches, rows)
        modes = launches.upload(operands.modes[:, :, None])
        values = launches.numbers(len(operands.points), np.float64)
        self._read = lambda: launches.download(values, len(operands.points), np.float64)

        def launch() -> None:
            self._matrix = rows.make(rows.count(), self._own)
            launches.device.synchronize()

        def multiply() -> None:
            assert self._matrix is not None
            self._matrix.bind(modes, values)()

        self.launch, self._multiply = launch, multiply

    def before(self) -> None:
        """Give the matrix of the launch before back."""
        self._own.close()
        self._matrix = None

    def result(self) -> Floats:
        """Multiply with the matrix that was made, wait, and return the filtered field."""
        self._multiply()
        return self._read()

    def release(self) -> None:
        """Give all memory back."""
        self._own.close()
        super().release()


class ApplyMatrix(OfMatrix):
    """A product with the filter's matrix, of one field or of several at a time.

    Parameters
    ----------
    fields
        How many.
    """

    def __init__(self, built: Mapping[str, Built], fields: int) -> None:
        super().__init__(built)
        self.fields, self.name = fields, f"matrix/apply-{fields}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is."""
        return {**super().columns, "what": "apply", "fields": self.fields}

    def bind(self, launches: Guarded, operands: DgOperands) -> None:
        """Make the matrix, and bind the product."""
        rows = self.rows(launches, operands)
        matrix = rows.make(self.counted(launches, rows), launches.held)
        shape = len(operands.points), self.fields
        modes = launches.upload(np.ascontiguousarray(np.repeat(operands.modes[:, :, None], self.fields, axis=2)))
        values = launches.numbers(shape[0] * shape[1], np.float64)
        launches.device.fill(values, NAN_BYTE)
        self.moved = matrix.size.nbytes + 8 * self.fields * (operands.modes.size + shape[0])
        self.launch = matrix.bind(modes, values, self.fields)
        self._read = lambda: launches.download(values, shape[0] * shape[1], np.float64).reshape(shape)

    def result(self) -> Floats:
        """Wait, and return the filtered fields, which are all the same."""
        return self._read()


def of_matrix(built: Mapping[str, Built]) -> list[OfMatrix]:
    """Return all that is timed of the filter's matrix."""
    return [MakeMatrix(built), *(ApplyMatrix(built, fields) for fields in FIELDS)]
