"""The product of two sparse matrices through coordinates: all products laid out, sorted, and added up, in slices.

What King 2017, section 6.1, compares with, as CUSP had it (Bell, Dalton, Olson 2012).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Buffer, Device
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.launches import Launches, Load
from repro.sparse.sort import RadixSort, bits_of
from repro.sparse.spgemm.bins import arguments_of
from repro.sparse.spgemm.factors import Factors, too_many

#: The most products of a slice, unless one row alone has more: as CUSP's.
SLICE = 16 << 20


class Slice(NamedTuple):
    """The entries of some rows of C, until they are brought together."""

    first: int
    rows: int
    entries: int
    columns: Buffer
    values: Buffer


class CoordinateMultiplication:
    """Products of matrices on a device by sorting.

    Parameters
    ----------
    device
        The device.
    load
        Gives the modules of the matrices' precision.
    most
        The most products of a slice.
    """

    def __init__(self, device: Device, load: Load, most: int = SLICE) -> None:
        self._device, self._load, self._most = device, load, most

    def multiply(self, factors: Factors) -> Storage:
        """Return C = A B, rows one behind the other, each in the order of its columns.

        Raises
        ------
        ReproError
            C, or the products of one of its rows, are too many.
        OutOfDeviceMemory
        """
        rows, dtype = factors.shape[0], factors.a.dtype
        with self._device.pooling(), ExitStack() as held:
            run = Launches(self._device, self._load, held)
            module, given = f"expand-{factors.format}", [*arguments_of(factors.a), *arguments_of(factors.b)]
            products = run.numbers(rows, np.int32)
            run.over(module, "count_row_products", rows, rows, *given, products)
            counts = run.download(products, rows, np.int32)
            if (counts >= MOST_ENTRIES).any():
                raise too_many(int(counts.max()))
            c = Storage.empty(self._device, factors.shape, 1, 1, dtype)
            try:
                begins = run.numbers(rows, np.int32)
                self._device.fill(c.sizes, 0)
                slices = [self._slice(run, factors, c, begins, *part) for part in _parts(counts, self._most)]
                total = sum(part.entries for part in slices)
                if total > MOST_ENTRIES:
                    raise too_many(total)
                c.make_room(total)
                base = 0
                for first, of_slice, entries, columns, values in slices:
                    run.over(module, "copy_slice", entries, entries, base, columns, values, c.columns, c.values)
                    run.over(module, "place_slice", of_slice, first, of_slice, base, begins, c.sizes, c.table)
                    base += entries
                c.set_pointer(total)
            except BaseException:
                c.release()
                raise
            self._device.synchronize()
        return c

    def _slice(
        self, run: Launches, factors: Factors, c: Storage, begins: Buffer, first: int, counts: NDArray[np.int32]
    ) -> Slice:
        """Return the entries of the rows from one on, whose products are counted."""
        rows, m, dtype = len(counts), int(counts.sum(dtype=np.int64)), c.dtype
        module, given = f"expand-{factors.format}", [*arguments_of(factors.a), *arguments_of(factors.b)]
        with ExitStack() as of_slice:
            own = Launches(self._device, self._load, of_slice)
            offsets = own.upload(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
            columns, row_of, places = (own.numbers(m + 1, np.int32) for _ in range(3))
            values = own.numbers(m, dtype)
            lanes = self._device.target.warp if self._device.backend == "cuda" else 1
            expanded = first, rows, offsets, *given, columns, row_of, values
            own.over(module, "expand_rows", rows, *expanded, lanes=lanes)
            sort = own.keep(RadixSort(self._device, self._load("sort"), max(m, 1)))
            by_column = sort.bind(columns, m, bits_of(c.shape[1]))
            by_column.launch()
            by_row = sort.bind(row_of, m, bits_of(rows), by_column.order)
            by_row.launch()
            own.over(module, "mark_places", m, m, by_row.keys, by_row.order, columns, places)
            entries = own.offsets(places, places, m)
            c_columns, c_values = run.numbers(entries, np.int32), run.numbers(entries, dtype)
            added = by_row.keys, by_row.order, places, columns, values, c_columns, c_values, begins, c.sizes
            own.over(module, "add_up", m, m, first, *added)
            self._device.synchronize()
        return Slice(first, rows, entries, c_columns, c_values)


def _parts(counts: NDArray[np.int32], most: int) -> list[tuple[int, NDArray[np.int32]]]:
    """Return rows that follow each other, with at most so many products together: the first, and the counts of all."""
    parts: list[tuple[int, NDArray[np.int32]]] = []
    ends = np.cumsum(counts, dtype=np.int64)
    first, before = 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        parts.append((first, counts[first:last]))
        first, before = last, int(ends[last - 1])
    return parts
