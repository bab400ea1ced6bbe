"""The filter as a matrix on a device: for each point and each triangle that meets its stencil a block of 1 × m."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.devices.base import Argument, Buffer
from repro.filtering.direct import BLOCKS, Cells, Points, Stencil, batch_of
from repro.filtering.grids import grid_of_triangles
from repro.filtering.render import FIELDS
from repro.galerkin.basis import mode_count
from repro.sparse.kernels import Kernels, in_order
from repro.sparse.launches import Launches

Floats = NDArray[np.float64]
#: Of an entry: its column, and each of its values.
COLUMN_BYTES, VALUE_BYTES, START_BYTES = 4, 8, 8


@dataclass(frozen=True)
class Size:
    """How large a filter's matrix is.

    Attributes
    ----------
    points, pairs
        Rows, and entries of all rows, a triangle each.
    modes
        Values of an entry.
    """

    points: int
    pairs: int
    modes: int

    @property
    def nbytes(self) -> int:
        """Bytes on a device."""
        return self.pairs * (COLUMN_BYTES + VALUE_BYTES * self.modes) + (self.points + 1) * START_BYTES


class Rows:
    """Counts the entries of a filter's matrix, and makes it.

    Parameters
    ----------
    launches
        Keeps what is needed on the way; its module is `rows-p…`.
    stencil
        The filter; rows are made only where no triangle is wider than a square of its lattice, and counted always.
    points
        The rows.
    basis
        Of the modes.
    threads
        Of a block.
    size
        Of a cell of the triangles' grid; None: s.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(
        self,
        launches: Launches,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        threads: int = 64,
        size: float | None = None,
    ) -> None:
        self._launches, self._stencil, self._points, self._threads = launches, stencil, points, threads
        cells = Cells(launches, grid_of_triangles(stencil.mesh, size))
        order = cells.grid.members
        self._triangles = len(order)
        self._members = launches.upload(order)
        self._geometry = launches.upload(stencil.geometry(order))
        self._clockwise = launches.upload(stencil.exchanged)
        self._basis = launches.upload(stencil.functions(basis))
        self._pieces = launches.upload(stencil.pieces)
        self._kernels = Kernels(launches.device, launches.load(f"rows-p{stencil.degree}"))
        self._blocks = launches.device.n_s * BLOCKS[launches.device.backend]
        self._search: list[Argument] = [
            points.x, points.y, *stencil.arguments, *cells.arguments,
            *map(float, cells.grid.reach), np.int32(self._triangles), self._geometry,
        ]  # fmt: skip
        self._counts = launches.numbers(points.count, np.int32)

    def count(self) -> NDArray[np.int64]:
        """Return where each row begins and the last one ends, int64 `(n + 1,)`; rows are in the order of cells."""
        launches, count = self._launches, self._points.count
        self._kernels.blocks("count", self._blocks, [np.int32(count), *self._search, self._counts])()
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(launches.download(self._counts, count, np.int32), out=starts[1:], dtype=np.int64)
        return starts

    def make(self, starts: NDArray[np.int64], held: ExitStack) -> FilterMatrix:
        """Return the matrix; queues its making.

        Parameters
        ----------
        starts
            As `count` returns them.
        held
            Gives the matrix's memory back.

        Raises
        ------
        ReproError
            A triangle is too wide.
        OutOfDeviceMemory
        """
        self._stencil.for_contours()
        own = Launches(self._launches.device, self._launches.load, held)
        modes, pairs = mode_count(self._stencil.degree, 2), int(starts[-1])
        matrix = FilterMatrix(
            Size(self._points.count, pairs, modes),
            self._triangles,
            own.upload(starts),
            own.numbers(pairs, np.int32),
            own.numbers(modes * pairs, np.float64),
            own.upload(self._points.order),
            own,
            self._stencil.degree,
        )
        self.fill(matrix)()
        return matrix

    def fill(self, matrix: FilterMatrix) -> Callable[[], None]:
        """Return what queues the making of all entries of a matrix."""
        batch = batch_of(
            self._points.count, self._stencil.degree, self._launches.device, self._blocks, self._threads
        )
        arguments: list[Argument] = [
            np.int32(self._points.count), batch, *self._search, self._members, self._clockwise, self._basis, self._pieces,
            matrix.starts, np.int64(matrix.size.pairs), matrix.columns, matrix.values,
        ]  # fmt: skip
        return self._kernels.blocks(f"rows_t{self._threads}", self._blocks, arguments, self._threads)


@dataclass(frozen=True, eq=False)
class FilterMatrix:
    """A filter's matrix on a device.

    Attributes
    ----------
    size
        Rows, entries, modes.
    triangles
        Of the mesh.
    starts, columns, values
        int64 `(n + 1,)`; int32 `(pairs,)`, triangles; float64 `(m, pairs)`.
    order
        int32 `(n,)`, the point that each row is of.
    launches, degree
        Where it is, and k.
    """

    size: Size
    triangles: int
    starts: Buffer
    columns: Buffer
    values: Buffer
    order: Buffer
    launches: Launches
    degree: int

    def bind(self, modes: Buffer, result: Buffer, fields: int = 1) -> Callable[[], None]:
        """Return what queues a product.

        Parameters
        ----------
        modes
            float64 `(t, m, fields)`.
        result
            float64 `(n, fields)`, in the points' order.
        fields
            How many there are; as many at a time as one of `FIELDS` is.
        """
        device = self.launches.device
        kernels = Kernels(device, self.launches.load(f"apply-p{self.degree}"))
        blocks = device.n_s * BLOCKS[device.backend]
        runs: list[Callable[[], None]] = []
        done = 0
        while done < fields:
            at_once = max(number for number in FIELDS if number <= fields - done)
            arguments: list[Argument] = [
                np.int32(self.size.points), self.starts, np.int64(self.size.pairs), self.columns, self.values,
                self.order, np.int32(fields), np.int32(done), modes, result,
            ]  # fmt: skip
            runs.append(kernels.blocks(f"apply_f{at_once}", blocks, arguments))
            done += at_once
        return in_order(runs)

    def download(self) -> csr_array:
        """Wait, and return it as a scalar matrix, `(n, t m)`, the same triangle of several images added up."""
        size, launches = self.size, self.launches
        starts = launches.download(self.starts, size.points + 1, np.int64)
        columns = launches.download(self.columns, size.pairs, np.int32)
        values = launches.download(self.values, size.modes * size.pairs, np.float64).reshape(size.modes, -1)
        order = launches.download(self.order, size.points, np.int32)
        rows = np.repeat(order, np.diff(starts))
        numbers = (columns[:, None].astype(np.int64) * size.modes + np.arange(size.modes)).ravel()
        shape = (size.points, self.triangles * size.modes)
        return csr_array((values.T.ravel(), (np.repeat(rows, size.modes), numbers)), shape=shape)
