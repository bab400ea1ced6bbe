"""Entries as rows, columns and values: on the host, on a device, and there sorted by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.devices.base import Buffer
from repro.sparse.sort import RadixSort, bits_of
from repro.sparse.work import Work


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


class Resident(NamedTuple):
    """Memory for entries on a device: int32 rows and columns, values."""

    rows: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: Work, entries: Entries) -> Resident:
        """Bring entries to the device."""
        return cls(*(work.upload(array) for array in entries))

    @classmethod
    def allocate(cls, work: Work, count: int, number_bytes: int) -> Resident:
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
        self.sides = tuple(Resident.allocate(work, capacity, dtype.itemsize) for _ in range(2))
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

    def bind_copy(self, entries: Resident, count: int) -> Callable[[], None]:
        """Return what queues a copy of entries to the start of the first side."""
        return self.bind_append(entries, count, 0, 0)

    def bind_append(self, entries: Resident, count: int, side: int, end: int) -> Callable[[], None]:
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
