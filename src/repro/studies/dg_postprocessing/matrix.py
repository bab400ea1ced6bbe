"""The filter as a matrix as runnables: making it, products with it, and the streaming of its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Clock, Unsupported
from repro.filtering.direct import Points
from repro.filtering.render import UNROLLS
from repro.filtering.rows import FilterMatrix, Layout, Rows, Size
from repro.filtering.stored import Stored
from repro.sparse.built import Built
from repro.sparse.launches import Launches
from repro.sparse.verify import NAN_BYTE
from repro.studies.dg_postprocessing.filters import OfField
from repro.studies.dg_postprocessing.operands import DgOperands, Filters
from repro.studies.dg_postprocessing.paper import HOST, POINT_CELL

Floats = NDArray[np.float64]
T = TypeVar("T")
#: The share of a device's free memory that the filter's matrix may take.
SHARE = 0.8
#: Fields of a product that are timed.
FIELDS = (1, 4, 16)


def cell_of(operands: DgOperands) -> float:
    """Return the size of the cells whose order the matrix's rows have."""
    return POINT_CELL * operands.mesh.longest


class Shared(Generic[T]):
    """What is made of a filter's matrix, for the first who uses it, and given back by the last.

    Attributes
    ----------
    size
        The matrix's rows and entries, once they are counted.
    """

    def __init__(self) -> None:
        self.size: Size | None = None
        self._users, self._held = 0, ExitStack()
        self._made: T | None = None
        self._refused = ""

    @staticmethod
    def rows(launches: Launches, operands: DgOperands) -> Rows:
        """Return what counts the entries and makes them."""
        points = Points(launches, operands.host, cell_of(operands))
        return Rows(launches, operands.stencil, points, operands.basis)

    def count(self, launches: Launches, rows: Rows) -> Layout:
        """Return where tiles begin.

        Raises
        ------
        Unsupported
            The matrix is larger than the device's memory.
        """
        layout = rows.count()
        self.size = size = layout.size
        free = launches.device.free_bytes()
        if size.nbytes > SHARE * free:
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


class Blocks(Shared[FilterMatrix]):
    """The matrix as products of ours take it."""

    def make(self, launches: Launches, operands: DgOperands, own: ExitStack) -> FilterMatrix:
        """Count the entries, and make them."""
        rows = self.rows(launches, operands)
        return rows.make(self.count(launches, rows), own)


class OfMatrix(OfField):
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

    def __init__(self, built: Mapping[str, Built], shared: Shared[Any]) -> None:
        super().__init__(built)
        self._shared = shared

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is, and the matrix's size where it was counted."""
        size = self._shared.size
        sizes = {"matrix_pairs": size.pairs, "matrix_bytes": size.nbytes} if size else {}
        return {**super().columns, "what": self.what, **sizes}


class MakeMatrix(OfMatrix, Filters):
    """Counting the entries, taking memory for them, and computing them; positions are in cells already."""

    clocks: tuple[Clock, ...] = (HOST,)
    name, what = "matrix/make", "make"

    def __init__(self, built: Mapping[str, Built], shared: Shared[Any]) -> None:
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


class OfFields(OfMatrix):
    """A product with the filter's matrix of one field or of several at a time, or what it is held against.

    Parameters
    ----------
    fields
        How many, which are all the same.
    """

    def __init__(self, built: Mapping[str, Built], shared: Shared[Any], fields: int) -> None:
        super().__init__(built, shared)
        self.fields = fields

    @property
    def columns(self) -> Mapping[str, Any]:
        """What it is, and of how many fields."""
        return {**super().columns, "fields": self.fields}

    def modes(self, operands: DgOperands) -> Floats:
        """Return the modes of all fields, `(t, m, fields)`."""
        return np.ascontiguousarray(np.repeat(operands.modes[:, :, None], self.fields, axis=2))


class ApplyMatrix(OfFields, Filters):
    """A product with the filter's matrix."""

    what = "apply"

    def __init__(self, built: Mapping[str, Built], shared: Shared[Any], fields: int) -> None:
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


class StreamMatrix(OfFields):
    """Reading the bytes of the matrix and of a field's modes, and writing those of a result: a product's floor.

    Parameters
    ----------
    unroll
        Words that a thread has in flight.
    """

    what = "stream"
    modules = ("rows", "stored")

    def __init__(self, built: Mapping[str, Built], shared: Shared[Any], unroll: int) -> None:
        super().__init__(built, shared, 1)
        self.name, self._unroll = f"matrix/stream-u{unroll}", unroll

    def bind(self, launches: Launches, operands: DgOperands) -> None:
        """Take the matrix, and bind the kernel."""
        matrix = self._shared.take(launches, operands)
        modes = launches.upload(self.modes(operands))
        result = launches.numbers(len(operands.points), np.float64)
        self.launch, self.moved = Stored(matrix).stream(modes, result, self._unroll)


def of_matrix(built: Mapping[str, Built]) -> list[list[OfMatrix]]:
    """Return all that is timed of the filter's matrix, what is timed side by side together.

    The making has a matrix of its own; products and streaming share one.
    """
    shared = Blocks()
    applies = [ApplyMatrix(built, shared, fields) for fields in FIELDS]
    streams = [StreamMatrix(built, shared, unroll) for unroll in UNROLLS]
    return [[MakeMatrix(built, shared)], [*applies, *streams]]
