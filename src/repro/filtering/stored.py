"""What is done with the filter's matrix on a device beside products: streaming its bytes, and expanding it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.bench.yardsticks import WORD
from repro.devices.base import Argument, Buffer
from repro.filtering.render import TILE_ROWS
from repro.filtering.rows import FilterMatrix
from repro.sparse.kernels import N_T, Kernels
from repro.sparse.library.gpu_csr import MOST_ENTRIES, GpuCsr

#: Of a scalar in CSR: its column, and its value.
CSR_ENTRY_BYTES = 12


class Stored:
    """The kernels for a matrix that was made.

    Parameters
    ----------
    matrix
        The matrix; its launches give the module `stored-p…`.
    """

    def __init__(self, matrix: FilterMatrix) -> None:
        self._matrix, self._device = matrix, matrix.launches.device
        self._kernels = Kernels(self._device, matrix.launches.load(f"stored-p{matrix.degree}"))
        threads = self._device.target.threads_per_sm // N_T[self._device.backend]
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
        return size.modes * max(size.pairs, self._matrix.triangles) <= MOST_ENTRIES

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
