"""The filter as a matrix on a device: for each point and each triangle that meets its stencil a block of 1 × m.

It is made by kernels, multiplied with the modes of one field or of several, streamed to see what its bytes cost,
and expanded to CSR for a library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.bench.yardsticks import WORD
from repro.devices.base import Argument, Buffer
from repro.filtering.kernels import FIELDS, TILE_ROWS
from repro.filtering.matrix_free import BLOCKS_PER_SM, Cells, Points, Stencil
from repro.galerkin.basis import mode_count
from repro.sparse.device_work import Launches
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, in_order
from repro.sparse.library.cusparse_csr import MAX_CSR_ENTRIES, GpuCsr

Floats = NDArray[np.float64]
#: Bytes of a column of a tile, of each of an entry's values, and of a tile.
COLUMN_BYTES, VALUE_BYTES, TILE_BYTES = 6, 8, 20
#: Into how many shares, of how many columns at the least, a product deals the columns of a tile among warps. On H200s,
#: shares of 80 columns took a quarter longer than tiles of 160 did whole; shares of 150 of tiles of 600 were faster.
SHARES, SHARE_COLUMNS = (1, 2, 4, 8), 128
WARP = 32


@dataclass(frozen=True)
class MatrixSize:
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
class TileLayout:
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
    def size(self) -> MatrixSize:
        """How large that is."""
        points, pairs, columns = (int(starts[-1]) for starts in (self.rows, self.entries, self.columns))
        return MatrixSize(points, pairs, self.modes, columns, len(self.rows) - 1)


class MatrixRows:
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
        self._blocks = launches.device.n_s * BLOCKS_PER_SM[launches.device.backend]
        self._tiles = points.host.tiles(TILE_ROWS, points.size)
        self._search: list[Argument] = [
            np.int32(len(self._tiles) - 1), launches.upload(self._tiles), points.x, points.y, *stencil.arguments,
            *cells.arguments, *map(float, cells.grid.reach), np.int32(self._triangles), self._geometry,
        ]  # fmt: skip
        self._counts = [launches.numbers(len(self._tiles) - 1, np.int32) for _ in range(2)]

    def count(self) -> TileLayout:
        """Return where tiles begin; rows are in the order of cells."""
        launches, count = self._launches, len(self._tiles) - 1
        self._kernels.blocks("count", self._blocks, [*self._search, *self._counts])()
        columns, entries = (
            np.concatenate([[0], np.cumsum(launches.download(counts, count, np.int32), dtype=np.int64)])
            for counts in self._counts
        )
        return TileLayout(self._tiles, columns, entries, mode_count(self._stencil.degree, 2))

    def make(self, layout: TileLayout, held: ExitStack) -> FilterMatrix:
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

    size: MatrixSize
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
        blocks = device.n_s * BLOCKS_PER_SM[device.backend]
        shares = shares or self.size.shares(blocks * BLOCK_SIZE[device.backend] // WARP)
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


#: Of a scalar in CSR: its column, and its value.
CSR_ENTRY_BYTES = 12


class StoredMatrix:
    """The kernels for a matrix that was made.

    Parameters
    ----------
    matrix
        The matrix; its launches give the module `stored-p…`.
    """

    def __init__(self, matrix: FilterMatrix) -> None:
        self._matrix, self._device = matrix, matrix.launches.device
        self._kernels = Kernels(self._device, matrix.launches.load(f"stored-p{matrix.degree}"))
        threads = self._device.target.threads_per_sm // BLOCK_SIZE[self._device.backend]
        self._blocks = self._device.n_s * max(1, threads)

    def stream(self, modes: Buffer, result: Buffer, unroll: int) -> tuple[Callable[[], None], int]:
        """Return what queues the streaming of a product's bytes, and how many these are: whole words of each array.

        Parameters
        ----------
        modes, result
            As of `FilterMatrix.bind`, of as many fields as their bytes say; the result is overwritten with no number
            of any meaning: the exclusive or of what a thread has read.
        unroll
            One of `UNROLLS`.
        """
        matrix, size = self._matrix, self._matrix.size
        word = WORD[self._device.backend]
        read = (
            (8 * size.modes * size.pairs, matrix.values),
            (4 * size.columns, matrix.columns),
            (2 * size.columns, matrix.masks),
            (4 * (size.tiles + 1), matrix.row_starts),
            (8 * (size.tiles + 1), matrix.column_starts),
            (8 * (size.tiles + 1), matrix.entry_starts),
            (modes.nbytes, modes),
        )
        arguments: list[Argument] = []
        for nbytes, buffer in read:
            arguments += [np.int64(nbytes // word), buffer]
        arguments += [np.int64(result.nbytes // word), result]
        moved = word * sum(nbytes // word for nbytes in (*(nbytes for nbytes, _ in read), result.nbytes))
        return self._kernels.blocks(f"stream_u{unroll}", self._blocks, arguments), moved

    @property
    def fits_csr(self) -> bool:
        """Whether 32 bits count the scalars of the matrix, and its columns."""
        size = self._matrix.size
        return size.modes * max(size.pairs, self._matrix.triangles) <= MAX_CSR_ENTRIES

    def expand(self) -> tuple[GpuCsr, Callable[[], None]]:
        """Return memory for the matrix in CSR, a row a point in the order of cells, and what queues its making.

        Images of the same triangle stay entries of their own, and columns are in no order. Release it when done.

        Raises
        ------
        OutOfDeviceMemory
        """
        assert self.fits_csr, "more scalars than 32 bits count"
        matrix, size = self._matrix, self._matrix.size
        shape = size.points, matrix.triangles * size.modes
        csr = GpuCsr.allocate(self._device, shape, size.modes * size.pairs, np.dtype(np.float64))
        arguments: list[Argument] = [
            np.int32(size.points), np.int32(size.tiles), matrix.row_starts, matrix.column_starts, matrix.entry_starts,
            np.int64(size.pairs), matrix.columns, matrix.masks, matrix.values, csr.offsets, csr.columns, csr.values,
        ]  # fmt: skip
        return csr, self._kernels.over("expand", TILE_ROWS * size.tiles, arguments)
