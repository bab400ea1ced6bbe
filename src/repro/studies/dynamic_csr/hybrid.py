"""The hybrid format: ELLPACK as wide as the mean row, and coordinates for what is longer (King 2017, section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import in_turn
from repro.devices.base import Buffer
from repro.sparse.scan import runs_of
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Entries, Resident, SortedCoordinates

#: Rows of a column of ELLPACK are padded to a multiple, so that columns begin at whole cache lines.
ROWS_ALIGNMENT = 32
#: Warps for each multiprocessor that multiply with coordinates.
WARPS = {"cuda": 64, "opencl": 4}


def ell_pitch(rows: int) -> int:
    """Return the entries from one column of ELLPACK to the next."""
    return max(1, -(-rows // ROWS_ALIGNMENT)) * ROWS_ALIGNMENT


def overflow(sizes: NDArray[np.integer], width: int) -> int:
    """Return the entries that ELLPACK has no room for, given the sizes of the rows."""
    return int(np.maximum(sizes.astype(np.int64) - width, 0).sum())


class HybridArrays(NamedTuple):
    """A matrix in the hybrid format on the host.

    Attributes
    ----------
    counts
        Entries of each row, in both parts: int32 `(rows,)`.
    columns, values
        ELLPACK, column-major: `(width * ell_pitch(rows),)`; 0 where a row has no entry.
    over
        The other entries, by row.
    """

    counts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.floating]
    over: Entries

    @classmethod
    def of(cls, matrix: sp.csr_array, width: int) -> HybridArrays:
        """Return a matrix in the format; the entries of a row stay in their order."""
        rows = matrix.shape[0]
        counts = np.diff(matrix.indptr).astype(np.int32)
        inside = np.minimum(counts, width)
        here = _first_of_rows(inside, counts - inside)
        filled = np.arange(width) < inside[:, None]
        indices = matrix.indices.astype(np.int32, copy=False)
        parts = []
        for numbers in (indices, matrix.data):
            part = np.zeros((width, ell_pitch(rows)), numbers.dtype)
            part[:, :rows].T[filled] = numbers[here]
            parts.append(part.ravel())
        over = np.repeat(np.arange(rows, dtype=np.int32), counts - inside)
        columns, values = parts
        return cls(counts, columns, values, Entries(over, indices[~here], matrix.data[~here]))

    def to_csr(self, shape: tuple[int, int], width: int) -> sp.csr_array:
        """Return the matrix; what ELLPACK has behind the entries of a row is not looked at."""
        rows = shape[0]
        inside = np.minimum(self.counts, width)
        over = np.bincount(self.over.rows, minlength=rows)
        here = _first_of_rows(inside, over)
        filled = np.arange(width) < inside[:, None]
        parts = []
        for given, behind in ((self.columns, self.over.columns), (self.values, self.over.values)):
            part = np.empty(len(here), given.dtype)
            part[here] = given.reshape(width, ell_pitch(rows))[:, :rows].T[filled]
            part[~here] = behind
            parts.append(part)
        columns, values = parts
        pointers = np.concatenate([[0], np.cumsum(inside + over)])
        return sp.csr_array((values, columns, pointers), shape=shape)


def _first_of_rows(inside: NDArray[np.integer], over: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return of the entries of all rows whether they are among their row's first, given how many are and are not."""
    here = np.zeros(2 * len(inside), bool)
    here[::2] = True
    return np.repeat(here, np.stack([inside, over], axis=1).ravel())


class Hybrid:
    """A matrix in the hybrid format on a device.

    Parameters
    ----------
    work
        Where the memory is; modules `hybrid` and `sort`.
    start
        The matrix that it has at first.
    width
        Of ELLPACK.
    room
        Entries that the coordinates have memory for.

    Raises
    ------
    OutOfDeviceMemory, ModuleError
    """

    def __init__(self, work: Work, start: sp.csr_array, width: int, room: int) -> None:
        self._work, self.shape, self.width, self.dtype = work, start.shape, width, start.dtype
        self.pitch, self._room = ell_pitch(start.shape[0]), room
        arrays = HybridArrays.of(start, width)
        self._over = len(arrays.over.rows)
        self.columns, self.values = (work.load(array, "ELLPACK") for array in (arrays.columns, arrays.values))
        self.counts = work.allocate(arrays.counts.nbytes, "the counts of rows")
        self.coordinates = SortedCoordinates(work, room, start.shape[0], start.dtype)
        self._end = work.allocate(4, "the end of the coordinates")
        self._start = (work.upload(arrays.counts), work.upload(np.array([self._over], np.int32)))
        self._start_over = Resident.upload(work, arrays.over)

    def bind_restore(self) -> Callable[[], None]:
        """Return what queues the way back to the matrix at first; its coordinates are on the first side.

        What lies in ELLPACK behind the entries of a row is undefined.
        """
        copies = [
            self._work.bind("rebuild", "copy_ints", count, count, source, target)
            for count, source, target in zip(
                (self.shape[0], 1), self._start, (self.counts, self._end), strict=True
            )
        ]  # fmt: skip
        over = self.coordinates.bind_copy(self._start_over, self._over)

        def restore() -> None:
            for copy in copies:
                copy()
            over()

        return restore

    def bind_append(self, batch: Resident, count: int, side: int) -> Callable[[], None]:
        """Return what queues a batch: entries that ELLPACK has no room for go behind the coordinates of a side."""
        return self._work.bind(
            "hybrid", "hybrid_append", count, count, self.width, self.pitch, self._room, *batch,
            self.counts, self.columns, self.values, self._end, *self.coordinates.sides[side],
        )  # fmt: skip

    def bind_product(self, side: int, over: int, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x, with so many coordinates of a side, which are sorted."""
        work, rows = self._work, self.shape[0]
        ellpack = work.bind(
            "hybrid", "hybrid_multiply_rows", rows,
            rows, self.width, self.pitch, self.counts, self.columns, self.values, x, y,
        )  # fmt: skip
        if not over:
            return ellpack
        warp = work.device.target.warp
        run, warps = runs_of(over, warp, work.device.n_s * WARPS[work.device.backend])
        rest = work.bind(
            "hybrid", "hybrid_multiply_coordinates", warps * warp, over, run, *self.coordinates.sides[side], x, y
        )
        return in_turn(ellpack, rest)

    def read(self, side: int, over: int) -> sp.csr_array:
        """Wait for what is queued and return the matrix, with so many coordinates of a side.

        Raises
        ------
        IncorrectError
            These are not sorted.
        """
        counts = self._work.download(self.counts, self.shape[0], np.dtype(np.int32))
        size = self.width * self.pitch
        columns = self._work.download(self.columns, size, np.dtype(np.int32))
        values = self._work.download(self.values, size, self.dtype)
        arrays = HybridArrays(counts, columns, values, self.coordinates.read(side, over))
        return arrays.to_csr(self.shape, self.width)
