"""The filter as a sparse matrix on a device: one 1 × m block for each point and each triangle that its stencil meets.

m is the number of modes per triangle. Rows are grouped into tiles, which share the list of their columns (triangles).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.bench.yardsticks import STREAM_WORD_BYTES
from repro.devices.base import Argument, Buffer
from repro.filtering.kernels import FIELDS, TILE_ROWS
from repro.filtering.matrix_free import FILTER_BLOCKS_PER_SM, Cells, Points, Stencil
from repro.galerkin import mode_count
from repro.sparse.device_primitives import LaunchContext
from repro.sparse.elementwise import BLOCK_SIZE, in_order
from repro.sparse.library.cusparse_csr import MAX_CSR_ENTRIES, GpuCsr

Floats = NDArray[np.float64]
#: Bytes per column of a tile (index and mask), per value of a block, and per tile (offsets).
COLUMN_BYTES, VALUE_BYTES, TILE_BYTES = 6, 8, 20
#: Possible numbers of shares into which the columns of a tile are divided among warps, and the smallest number of
#: columns per share. On H200, dividing tiles of 160 columns into shares of 80 made a product a quarter slower; dividing
#: tiles of 600 columns into shares of 150 made it faster.
SHARES, SHARE_COLUMNS = (1, 2, 4, 8), 128
WARP = 32


@dataclass(frozen=True)
class MatrixSize:
    #: Number of rows, one for each point.
    points: int
    #: Number of blocks in all rows.
    pairs: int
    #: m, the number of values per block.
    modes: int
    #: Total number of columns of all tiles.
    columns: int
    tiles: int

    @property
    def nbytes(self) -> int:
        return VALUE_BYTES * self.modes * self.pairs + COLUMN_BYTES * self.columns + TILE_BYTES * (self.tiles + 1)

    def shares(self, warps: int) -> int:
        """Return into how many shares to divide a tile's columns, so that all warps have work and no share is tiny."""
        max_shares = max(1, self.columns // (SHARE_COLUMNS * max(self.tiles, 1)))
        usable = [shares for shares in SHARES if shares <= max_shares]
        return next((shares for shares in usable if shares * self.tiles >= warps), usable[-1])


@dataclass(frozen=True, eq=False)
class TileLayout:
    """Offsets at which each tile's rows, columns and entries (blocks) begin; arrays have `tiles + 1` elements."""

    #: Rows are sorted like the points in their grid, by cell.
    rows: NDArray[np.int32]
    columns: NDArray[np.int64]
    entries: NDArray[np.int64]
    modes: int

    @property
    def size(self) -> MatrixSize:
        points, pairs, columns = (int(starts[-1]) for starts in (self.rows, self.entries, self.columns))
        return MatrixSize(points, pairs, self.modes, columns, len(self.rows) - 1)


class MatrixRows:
    """Counts the blocks of a filter's matrix, and makes it.

    `make` requires that no triangle is wider than a lattice square of the stencil; `count` always works. `size` is the
    cell width of the grid of triangles; None: the longest edge.
    """

    def __init__(
        self,
        launches: LaunchContext,
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
        self._kernels = launches.kernels(f"rows-p{stencil.degree}")
        self._blocks = launches.device.sm_count * FILTER_BLOCKS_PER_SM[launches.device.backend]
        self._tiles = points.host.tiles(TILE_ROWS, points.size)
        self._search: list[Argument] = [
            np.int32(len(self._tiles) - 1), launches.upload(self._tiles), points.x, points.y, *stencil.arguments,
            *cells.arguments, *map(float, cells.grid.reach), np.int32(self._triangles), self._geometry,
        ]  # fmt: skip
        self._counts = [launches.numbers(len(self._tiles) - 1, np.int32) for _ in range(2)]

    def count(self) -> TileLayout:
        launches, count = self._launches, len(self._tiles) - 1
        self._kernels.blocks("count", self._blocks, [*self._search, *self._counts])()
        columns, entries = (
            np.concatenate([[0], np.cumsum(launches.download(counts, count, np.int32), dtype=np.int64)])
            for counts in self._counts
        )
        return TileLayout(self._tiles, columns, entries, mode_count(self._stencil.degree, 2))

    def make(self, layout: TileLayout, stack: ExitStack) -> FilterMatrix:
        """Allocate the matrix, which `stack` releases, and queue the kernels that fill it.

        If a triangle is wider than a lattice square, it raises `ReproError`.
        """
        self._stencil.for_contours()
        launches = self._launches.within(stack)
        size = layout.size
        matrix = FilterMatrix(
            size,
            self._triangles,
            launches.upload(layout.rows),
            launches.upload(layout.columns),
            launches.upload(layout.entries),
            launches.numbers(size.columns, np.int32),
            launches.numbers(size.columns, np.uint16),
            launches.numbers(size.modes * size.pairs, np.float64),
            launches.upload(self._points.order),
            launches,
            self._stencil.degree,
        )
        self.fill(matrix)()
        return matrix

    def fill(self, matrix: FilterMatrix) -> Callable[[], None]:
        """Return a launch that computes all blocks of the matrix."""
        arguments: list[Argument] = [
            *self._search, self._members, self._clockwise, self._basis, self._pieces, matrix.column_starts,
            matrix.entry_starts, np.int64(matrix.size.pairs), matrix.columns, matrix.masks, matrix.values,
        ]  # fmt: skip
        return self._kernels.blocks(f"rows_t{self._threads}", self._blocks, arguments, self._threads)


@dataclass(frozen=True, eq=False)
class FilterMatrix:
    """The complete matrix of a filter on a device; see the module's docstring for its tiles, columns and blocks."""

    size: MatrixSize
    #: Number of triangles of the mesh.
    triangles: int
    row_starts: Buffer
    column_starts: Buffer
    entry_starts: Buffer
    #: int32 `(columns,)`, the triangle of each column.
    columns: Buffer
    #: uint16 `(columns,)`, one bit per row of the tile: whether the row has a block in the column.
    masks: Buffer
    #: float64 `(m, pairs)`, values of blocks; the blocks of a tile are sorted by column, then by row.
    values: Buffer
    #: int32 `(n,)`, the point of each row.
    order: Buffer
    launches: LaunchContext
    #: Degree k of the field.
    degree: int

    def bind(self, modes: Buffer, result: Buffer, fields: int = 1, shares: int | None = None) -> Callable[[], None]:
        """Return a launch that multiplies modes `(t, m, fields)` by the matrix, into result `(n, fields)`.

        `shares`, one of `SHARES`, is the number of parts into which the columns of a tile are divided among warps;
        None: chosen by the sizes of matrix and device. On the CPU, one thread computes a whole tile.
        """
        device = self.launches.device
        kernels = self.launches.kernels(f"apply-p{self.degree}")
        blocks = device.sm_count * FILTER_BLOCKS_PER_SM[device.backend]
        shares = shares or self.size.shares(blocks * BLOCK_SIZE[device.backend] // WARP)
        dealt = shares > 1 and device.backend == "cuda"
        runs: list[Callable[[], None]] = []
        first_field = 0
        while first_field < fields:
            n_fields = max(number for number in FIELDS if number <= fields - first_field)
            arguments: list[Argument] = [
                np.int32(self.size.tiles), self.row_starts, self.column_starts, self.entry_starts,
                np.int64(self.size.pairs), self.columns, self.masks, self.values, self.order,
                np.int32(fields), np.int32(first_field), modes, result,
            ]  # fmt: skip
            if dealt:
                runs.append(kernels.blocks(f"dealt_f{n_fields}", blocks, [np.int32(shares), *arguments]))
            else:
                runs.append(kernels.blocks(f"apply_f{n_fields}", blocks, arguments))
            first_field += n_fields
        return in_order(runs)

    def download(self) -> csr_array:
        """Return the matrix as SciPy CSR, `(n, t m)`; the blocks of all periodic images of a triangle are added up."""
        size, get = self.size, self.launches.download
        columns = get(self.columns, size.columns, np.int32).astype(np.int64)
        masks = get(self.masks, size.columns, np.uint16)
        values = get(self.values, size.modes * size.pairs, np.float64).reshape(size.modes, -1)
        tiles = np.repeat(np.arange(size.tiles), np.diff(get(self.column_starts, size.tiles + 1, np.int64)))
        column, row = np.nonzero(masks[:, None] >> np.arange(TILE_ROWS) & 1)  # in the order in which blocks are stored
        places = get(self.row_starts, size.tiles + 1, np.int32)[tiles[column]] + row
        rows = get(self.order, size.points, np.int32)[places]
        numbers = (columns[column, None] * size.modes + np.arange(size.modes)).ravel()
        shape = (size.points, self.triangles * size.modes)
        return csr_array((values.T.ravel(), (np.repeat(rows, size.modes), numbers)), shape=shape)


#: Bytes of a column index and a value in CSR.
CSR_ENTRY_BYTES = 12


class StoredMatrix:
    """Kernels that read a complete matrix: one only streams its bytes, one expands it to CSR."""

    def __init__(self, matrix: FilterMatrix) -> None:
        self._matrix, self._device = matrix, matrix.launches.device
        self._kernels = matrix.launches.kernels(f"stored-p{matrix.degree}")
        threads = self._device.target.threads_per_sm // BLOCK_SIZE[self._device.backend]
        self._blocks = self._device.sm_count * max(1, threads)

    def stream(self, modes: Buffer, result: Buffer, unroll: int) -> tuple[Callable[[], None], int]:
        """Return a launch that reads and writes the same bytes as a product, and the number of bytes, in whole words.

        The kernel overwrites `result` with the exclusive or of the data that each thread has read.
        """
        matrix, size = self._matrix, self._matrix.size
        word = STREAM_WORD_BYTES[self._device.backend]
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
        bytes_moved = word * sum(nbytes // word for nbytes in (*(nbytes for nbytes, _ in read), result.nbytes))
        return self._kernels.blocks(f"stream_u{unroll}", self._blocks, arguments), bytes_moved

    @property
    def fits_csr(self) -> bool:
        size = self._matrix.size
        return size.modes * max(size.pairs, self._matrix.triangles) <= MAX_CSR_ENTRIES

    def expand(self) -> tuple[GpuCsr, Callable[[], None]]:
        """Allocate a CSR matrix, and return it with a launch that expands this matrix into it.

        Rows are sorted by the grid cell of their points. Periodic images of a triangle have separate entries, and the
        columns of a row are not sorted.
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
