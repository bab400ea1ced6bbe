"""The filter as a matrix on a device: for each point and each triangle that meets its stencil a block of 1 × m."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.devices.base import Argument, Buffer
from repro.filtering.direct import BLOCKS, Cells, Points, Stencil
from repro.filtering.render import FIELDS, TILE_ROWS
from repro.galerkin.basis import mode_count
from repro.sparse.kernels import N_T, Kernels, in_order
from repro.sparse.launches import Launches

Floats = NDArray[np.float64]
#: Bytes of a column of a tile, of each of an entry's values, and of a tile.
COLUMN_BYTES, VALUE_BYTES, TILE_BYTES = 6, 8, 20
#: Into how many shares, of how many columns at the least, a product deals the columns of a tile among warps. On H200s,
#: shares of 80 columns took a quarter longer than tiles of 160 did whole; shares of 150 of tiles of 600 were faster.
SHARES, SHARE_COLUMNS = (1, 2, 4, 8), 128
WARP = 32


@dataclass(frozen=True)
class Size:
    """How large a filter's matrix is.

    Attributes
    ----------
    points, pairs
        Rows, and entries of all rows, a triangle each.
    modes
        Values of an entry.
    columns, tiles
        Tiles of rows, and the columns of all tiles.
    """

    points: int
    pairs: int
    modes: int
    columns: int
    tiles: int

    @property
    def nbytes(self) -> int:
        """Bytes on a device."""
        return VALUE_BYTES * self.modes * self.pairs + COLUMN_BYTES * self.columns + TILE_BYTES * (self.tiles + 1)

    def shares(self, warps: int) -> int:
        """Return into how many shares a tile's columns are dealt: all warps have one, where shares are not tiny."""
        most = max(1, self.columns // (SHARE_COLUMNS * max(self.tiles, 1)))
        usable = [shares for shares in SHARES if shares <= most]
        return next((shares for shares in usable if shares * self.tiles >= warps), usable[-1])


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the tiles of a filter's matrix begin, and the last one ends.

    Attributes
    ----------
    rows
        int32 `(tiles + 1,)`, its rows, in the order of cells.
    columns, entries
        int64 `(tiles + 1,)`.
    modes
        Values of an entry.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int64]
    entries: NDArray[np.int64]
    modes: int

    @property
    def size(self) -> Size:
        """How large that is."""
        points, pairs, columns = (int(starts[-1]) for starts in (self.rows, self.entries, self.columns))
        return Size(points, pairs, self.modes, columns, len(self.rows) - 1)


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
        cells = Cells(launches, points.host.triangles(size))
        order = cells.grid.members
        self._triangles = len(order)
        self._members = launches.upload(order)
        self._geometry = launches.upload(stencil.geometry(order))
        self._clockwise = launches.upload(stencil.exchanged)
        self._basis = launches.upload(stencil.functions(basis))
        self._pieces = launches.upload(stencil.pieces)
        self._kernels = Kernels(launches.device, launches.load(f"rows-p{stencil.degree}"))
        self._blocks = launches.device.n_s * BLOCKS[launches.device.backend]
        self._tiles = points.host.tiles(TILE_ROWS, points.size)
        self._search: list[Argument] = [
            np.int32(len(self._tiles) - 1), launches.upload(self._tiles), points.x, points.y, *stencil.arguments,
            *cells.arguments, *map(float, cells.grid.reach), np.int32(self._triangles), self._geometry,
        ]  # fmt: skip
        self._counts = [launches.numbers(len(self._tiles) - 1, np.int32) for _ in range(2)]

    def count(self) -> Layout:
        """Return where tiles begin; rows are in the order of cells."""
        launches, count = self._launches, len(self._tiles) - 1
        self._kernels.blocks("count", self._blocks, [*self._search, *self._counts])()
        columns, entries = (
            np.concatenate([[0], np.cumsum(launches.download(counts, count, np.int32), dtype=np.int64)])
            for counts in self._counts
        )
        return Layout(self._tiles, columns, entries, mode_count(self._stencil.degree, 2))

    def make(self, layout: Layout, held: ExitStack) -> FilterMatrix:
        """Return the matrix; queues its making.

        Parameters
        ----------
        layout
            As `count` returns it.
        held
            Gives the matrix's memory back.

        Raises
        ------
        ReproError
            A triangle is too wide.
        OutOfDeviceMemory
        """
        self._stencil.for_contours()
        own = self._launches.within(held)
        size = layout.size
        matrix = FilterMatrix(
            size,
            self._triangles,
            own.upload(layout.rows),
            own.upload(layout.columns),
            own.upload(layout.entries),
            own.numbers(size.columns, np.int32),
            own.numbers(size.columns, np.uint16),
            own.numbers(size.modes * size.pairs, np.float64),
            own.upload(self._points.order),
            own,
            self._stencil.degree,
        )
        self.fill(matrix)()
        return matrix

    def fill(self, matrix: FilterMatrix) -> Callable[[], None]:
        """Return what queues the making of all entries of a matrix."""
        arguments: list[Argument] = [
            *self._search, self._members, self._clockwise, self._basis, self._pieces, matrix.column_starts,
            matrix.entry_starts, np.int64(matrix.size.pairs), matrix.columns, matrix.masks, matrix.values,
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
    row_starts, column_starts, entry_starts
        int32, int64, int64 `(tiles + 1,)`: where the tiles begin, and the last one ends.
    columns, masks
        int32, triangles, and uint16, a bit for each row of the tile that has an entry, `(columns,)`.
    values
        float64 `(m, pairs)`: column by column, those of the lowest row first.
    order
        int32 `(n,)`, the point that each row is of.
    launches, degree
        Where it is, and k.
    """

    size: Size
    triangles: int
    row_starts: Buffer
    column_starts: Buffer
    entry_starts: Buffer
    columns: Buffer
    masks: Buffer
    values: Buffer
    order: Buffer
    launches: Launches
    degree: int

    def bind(self, modes: Buffer, result: Buffer, fields: int = 1, shares: int | None = None) -> Callable[[], None]:
        """Return what queues a product.

        Parameters
        ----------
        modes
            float64 `(t, m, fields)`.
        result
            float64 `(n, fields)`, in the points' order.
        fields
            How many there are; as many at a time as one of `FIELDS` is.
        shares
            One of `SHARES`, of a tile's columns, a warp each; None: as the size and the device suggest. On the CPU,
            where a thread has a tile, nothing is dealt.
        """
        device = self.launches.device
        kernels = Kernels(device, self.launches.load(f"apply-p{self.degree}"))
        blocks = device.n_s * BLOCKS[device.backend]
        shares = shares or self.size.shares(blocks * N_T[device.backend] // WARP)
        dealt = shares > 1 and device.backend == "cuda"
        runs: list[Callable[[], None]] = []
        done = 0
        while done < fields:
            at_once = max(number for number in FIELDS if number <= fields - done)
            arguments: list[Argument] = [
                np.int32(self.size.tiles), self.row_starts, self.column_starts, self.entry_starts,
                np.int64(self.size.pairs), self.columns, self.masks, self.values, self.order,
                np.int32(fields), np.int32(done), modes, result,
            ]  # fmt: skip
            if dealt:
                runs.append(kernels.blocks(f"dealt_f{at_once}", blocks, [np.int32(shares), *arguments]))
            else:
                runs.append(kernels.blocks(f"apply_f{at_once}", blocks, arguments))
            done += at_once
        return in_order(runs)

    def download(self) -> csr_array:
        """Wait, and return it as a scalar matrix, `(n, t m)`, the same triangle of several images added up."""
        size, get = self.size, self.launches.download
        columns = get(self.columns, size.columns, np.int32).astype(np.int64)
        masks = get(self.masks, size.columns, np.uint16)
        values = get(self.values, size.modes * size.pairs, np.float64).reshape(size.modes, -1)
        tiles = np.repeat(np.arange(size.tiles), np.diff(get(self.column_starts, size.tiles + 1, np.int64)))
        column, row = np.nonzero(masks[:, None] >> np.arange(TILE_ROWS) & 1)  # in the order of the entries
        places = get(self.row_starts, size.tiles + 1, np.int32)[tiles[column]] + row
        rows = get(self.order, size.points, np.int32)[places]
        numbers = (columns[column, None] * size.modes + np.arange(size.modes)).ravel()
        shape = (size.points, self.triangles * size.modes)
        return csr_array((values.T.ravel(), (np.repeat(rows, size.modes), numbers)), shape=shape)
