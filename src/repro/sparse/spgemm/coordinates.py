"""The product of two sparse matrices through coordinates: all products laid out, sorted, and added up, in slices.

What King 2017, section 6.1, compares with, as CUSP had it (Bell, Dalton, Olson 2012).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Device
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels
from repro.sparse.scan import Scan, read_total
from repro.sparse.sort import RadixSort, bits_of
from repro.sparse.spgemm.bins import arguments_of
from repro.sparse.spgemm.product import Factors, Load, too_many

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
        with ExitStack() as held:
            run = _Run(self._device, self._load, factors, held)
            products = run.ints(rows)
            run.over("count_row_products", rows, np.int32(rows), *run.factors, products)
            counts = run.download(products, rows)
            if (counts >= MOST_ENTRIES).any():
                raise too_many(int(counts.max()))
            c = Storage.empty(self._device, factors.shape, 1, 1, dtype)
            try:
                begins = run.ints(rows)
                self._device.fill(c.sizes, 0)
                slices = [self._slice(run, c, begins, *part) for part in _parts(counts, self._most)]
                total = sum(part.entries for part in slices)
                if total > MOST_ENTRIES:
                    raise too_many(total)
                c.make_room(total)
                base = 0
                for part in slices:
                    copied = np.int32(part.entries), np.int32(base), part.columns, part.values, c.columns, c.values
                    run.over("copy_slice", part.entries, *copied)
                    placed = np.int32(part.first), np.int32(part.rows), np.int32(base)
                    run.over("place_slice", part.rows, *placed, begins, c.sizes, c.table)
                    base += part.entries
                c.set_pointer(total)
            except BaseException:
                c.release()
                raise
            self._device.synchronize()
        return c

    def _slice(self, run: _Run, c: Storage, begins: Buffer, first: int, counts: NDArray[np.int32]) -> Slice:
        """Return the entries of the rows from one on, whose products are counted."""
        rows, m, size = len(counts), int(counts.sum(dtype=np.int64)), c.dtype.itemsize
        with ExitStack() as of_slice:
            own = _Run(self._device, self._load, run.given, of_slice)
            # the kernel counts from the first row on
            offsets = own.upload(np.concatenate([np.zeros(first, np.int32), [0], np.cumsum(counts)]).astype(np.int32))
            columns, row_of, places = own.ints(m), own.ints(m), own.ints(m + 1)
            values = own.memory(m * size)
            lanes = self._device.target.warp if self._device.backend == "cuda" else 1
            expanded = np.int32(first), np.int32(rows), offsets, *run.factors
            own.over("expand_rows", rows * lanes, *expanded, columns, row_of, values)
            sort = own.keep(RadixSort(self._device, self._load("sort"), max(m, 1)))
            by_column = sort.bind(columns, m, bits_of(c.shape[1]))
            by_column.launch()
            by_row = sort.bind(row_of, m, bits_of(rows), by_column.order)
            by_row.launch()
            own.over("mark_places", m, np.int32(m), by_row.keys, by_row.order, columns, places)
            own.keep(Scan(self._device, self._load("sort"), max(m, 1))).bind(places, places, m)()
            entries = read_total(self._device, places, m)
            c_columns, c_values = run.ints(entries), run.memory(entries * size)
            added = np.int32(m), np.int32(first), by_row.keys, by_row.order, places, columns, values
            own.over("add_up", m, *added, c_columns, c_values, begins, c.sizes)
            self._device.synchronize()
        return Slice(first, rows, entries, c_columns, c_values)


class _Run:
    """Launches of a product, and the memory that is held until its end or that of a slice."""

    def __init__(self, device: Device, load: Load, given: Factors, held: ExitStack) -> None:
        self.given, self._device, self._held = given, device, held
        self.factors = [*arguments_of(given.a), *arguments_of(given.b)]
        self._kernels = Kernels(device, load(f"expand-{given.format}"))

    def keep(self, thing: Any) -> Any:
        self._held.callback(thing.release)
        return thing

    def memory(self, nbytes: int) -> Buffer:
        buffer: Buffer = self.keep(self._device.allocate(max(nbytes, 4)))
        return buffer

    def ints(self, count: int) -> Buffer:
        return self.memory(4 * count)

    def upload(self, array: NDArray[Any]) -> Buffer:
        buffer: Buffer = self.keep(self._device.upload(array))
        return buffer

    def download(self, buffer: Buffer, count: int) -> NDArray[np.int32]:
        array = np.empty(count, np.int32)
        if count:
            self._device.download(buffer, array)
        return array

    def over(self, kernel: str, count: int, *arguments: Argument) -> None:
        self._kernels.over(kernel, count, arguments)()


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
