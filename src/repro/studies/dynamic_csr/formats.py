"""The formats that dynamic CSR is compared with, in the memory of a device: coordinates, CSR, and HYB.

HYB is ELLPACK as wide as the mean row, and coordinates for the entries beyond that width (King 2017, section
5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, in_turn
from repro.devices.base import Buffer
from repro.sparse.device_work import RadixSort, Work, bits_of, runs_of
from repro.sparse.dynamic.matrix import StoredRows, bind_vector
from repro.sparse.dynamic.schedules import usual_schedule


class Entries(NamedTuple):
    """Entries on the host; a place may come more than once.

    Attributes
    ----------
    rows, columns
        int32 `(m,)`.
    values
        Floating `(m,)`.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.floating]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Entries:
        """Return the entries of a matrix, row by row."""
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
        return cls(rows, matrix.indices.astype(np.int32, copy=False), matrix.data)

    def take(self, which: NDArray[np.intp]) -> Entries:
        """Return some entries, or all in another order."""
        return Entries(self.rows[which], self.columns[which], self.values[which])

    def by_row(self) -> Entries:
        """Return them by row; those of a row stay in their order."""
        if (self.rows[1:] >= self.rows[:-1]).all():
            return self
        return self.take(np.argsort(self.rows, kind="stable"))

    def to_csr(self, shape: tuple[int, int]) -> sp.csr_array:
        """Return the matrix of these entries, none of them added up."""
        ordered = self.by_row()
        pointers = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=shape[0]))]).astype(np.int64)
        return sp.csr_array((ordered.values, ordered.columns, pointers), shape=shape)


class DeviceEntries(NamedTuple):
    """Memory for entries on a device: int32 rows and columns, values."""

    rows: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: Work, entries: Entries) -> DeviceEntries:
        """Bring entries to the device."""
        return cls(*(work.upload(array) for array in entries))

    @classmethod
    def allocate(cls, work: Work, count: int, number_bytes: int) -> DeviceEntries:
        """Return memory for so many entries."""
        return cls(*(work.allocate(count * size, "coordinates") for size in (4, 4, number_bytes)))

    def download(self, work: Work, count: int, dtype: np.dtype[np.floating]) -> Entries:
        """Wait for what is queued and return the first entries."""
        return Entries(
            work.download(self.rows, count, np.dtype(np.int32)),
            work.download(self.columns, count, np.dtype(np.int32)),
            work.download(self.values, count, dtype),
        )


class SortedCoordinates:
    """Entries that are appended to and sorted by row again, from one of two sides to the other.

    Parameters
    ----------
    work
        Where the memory is; modules `sort` and `hybrid`.
    capacity
        The most entries.
    rows
        Of the matrix.
    dtype
        Of the values.

    Attributes
    ----------
    sides
        The two.

    Raises
    ------
    OutOfDeviceMemory, ModuleError
    """

    def __init__(self, work: Work, capacity: int, rows: int, dtype: np.dtype[np.floating]) -> None:
        self._work, self._bits, self._dtype = work, bits_of(rows), dtype
        self._capacity = capacity
        self.sides = tuple(DeviceEntries.allocate(work, capacity, dtype.itemsize) for _ in range(2))
        self._sort = work.keep(RadixSort(work.device, work.program("sort"), capacity, work.guards))

    def bind_sort(self, side: int, count: int) -> Callable[[], None]:
        """Return what queues the sort of the first entries of a side; they come to the other, and stay."""
        source, target = self.sides[side], self.sides[1 - side]
        by_row = self._sort.bind(source.rows, count, self._bits)
        gather = self._work.bind(
            "hybrid", "coordinates_gather", count, count, by_row.keys, by_row.order, *source[1:], *target
        )

        def launch() -> None:
            by_row.launch()
            gather()

        return launch

    def bind_copy(self, entries: DeviceEntries, count: int) -> Callable[[], None]:
        """Return what queues a copy of entries to the start of the first side."""
        return self.bind_append(entries, count, 0, 0)

    def bind_append(self, entries: DeviceEntries, count: int, side: int, end: int) -> Callable[[], None]:
        """Return what queues a copy of entries to a side, behind so many that are there."""
        return self._work.bind("hybrid", "coordinates_append", count, count, end, *entries, *self.sides[side])

    def read(self, side: int, count: int) -> Entries:
        """Wait for what is queued and return the first entries of a side, which is sorted.

        Raises
        ------
        IncorrectError
            It is not.
        """
        entries = self.sides[side].download(self._work, count, self._dtype)
        if (np.diff(entries.rows) < 0).any():
            raise IncorrectError("the coordinates are not sorted by row")
        return entries


class CsrMemory(NamedTuple):
    """Memory for a matrix: int32 offsets `(rows + 1,)` and columns, values."""

    offsets: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: Work, matrix: sp.csr_array) -> CsrMemory:
        """Bring a matrix to the device."""
        arrays = (numbers.astype(np.int32, copy=False) for numbers in (matrix.indptr, matrix.indices))
        return cls(*(work.upload(array) for array in (*arrays, matrix.data)))

    @classmethod
    def allocate(cls, work: Work, rows: int, count: int, number_bytes: int) -> CsrMemory:
        """Return memory for a matrix of so many rows and entries."""
        sizes = {"offsets": 4 * (rows + 1), "columns": 4 * count, "values": number_bytes * count}
        return cls(*(work.allocate(size, f"the {name} of CSR") for name, size in sizes.items()))

    def bind_product(self, work: Work, rows: int, mean: float, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x by the schedule that is usual for rows of a mean size."""
        matrix = StoredRows(
            rows, 0, self._asdict(), lambda: np.diff(work.download(self.offsets, rows + 1, np.dtype(np.int32)))
        )
        schedule = usual_schedule(work.device.target, mean)
        return bind_vector(work.device, work.program("product").kernel, schedule, matrix, (x, y))

    def read(self, work: Work, shape: tuple[int, int], dtype: np.dtype[np.floating]) -> sp.csr_array:
        """Wait for what is queued and return the matrix."""
        offsets = work.download(self.offsets, shape[0] + 1, np.dtype(np.int32))
        columns = work.download(self.columns, int(offsets[-1]), np.dtype(np.int32))
        values = work.download(self.values, int(offsets[-1]), dtype)
        return sp.csr_array((values, columns, offsets), shape=shape)


def bind_csr_copy(
    work: Work, words: tuple[int, int, int], sources: Sequence[Buffer], targets: Sequence[Buffer]
) -> Callable[[], None]:
    """Return what queues a copy of three arrays, by one kernel of the module `rebuild`.

    Parameters
    ----------
    words
        So many 4-byte words of each; of one that has none, the buffers are not looked at.
    sources, targets
        Three buffers each.
    """
    # a thread copies four words at a time, and some have a rest beside them
    return work.bind("rebuild", "copy_matrix", max(words) // 4 + 1, *words, *sources, *targets)


#: Rows of a column of ELLPACK are padded to a multiple, so that columns begin at whole cache lines.
ROWS_ALIGNMENT = 32
#: Warps for each multiprocessor that multiply with coordinates.
PRODUCT_WARPS = {"cuda": 64, "opencl": 4}


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
        here = _ellpack_mask(inside, counts - inside)
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
        here = _ellpack_mask(inside, over)
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


def _ellpack_mask(inside: NDArray[np.integer], over: NDArray[np.integer]) -> NDArray[np.bool_]:
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
        self._start_over = DeviceEntries.upload(work, arrays.over)

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

    def bind_append(self, batch: DeviceEntries, count: int, side: int) -> Callable[[], None]:
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
        run, warps = runs_of(over, warp, work.device.n_s * PRODUCT_WARPS[work.device.backend])
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
