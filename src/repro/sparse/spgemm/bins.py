"""Rows of a product in bins, on a device, by how many products or entries each has."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, Program
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels
from repro.sparse.spgemm.shapes import BINS
from repro.sparse.work import keep


def arguments_of(matrix: Storage) -> list[Argument]:
    """Return what kernels take of a matrix that they read."""
    return [np.int32(matrix.pitch), matrix.table, matrix.sizes, matrix.columns, matrix.values]


#: What there is beside the counts of rows: of each bin three numbers, and one more.
_WORDS = 3 * BINS + 1


@dataclass(frozen=True)
class Counts:
    """What the bins have.

    Attributes
    ----------
    rows
        Rows of each, `(BINS,)`.
    totals, largest
        Products, or entries, of each bin's rows, and of the largest.
    entries
        Entries of A that the rows have, where they are listed by their products; else 0.
    """

    rows: tuple[int, ...]
    totals: tuple[int, ...]
    largest: tuple[int, ...]
    entries: int = 0

    @property
    def mean_of_a(self) -> float:
        """Entries of a row of A in the mean; 0 where that is not known."""
        return self.entries / max(sum(self.rows), 1)

    @property
    def mean_row(self) -> float:
        """Entries of B's rows in the mean, as often as each is met; 0 where that is not known."""
        return sum(self.totals) / self.entries if self.entries else 0.0


class Bins:
    """Lists of rows, one a bin, with room for all rows each.

    Parameters
    ----------
    device
        Where they are.
    program
        A module `count-…`.
    rows
        Rows of the product.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, program: Program, rows: int) -> None:
        self._device, self._kernels, self.stride = device, Kernels(device, program), max(rows, 1)
        with ExitStack() as held:
            self.lists = keep(held, device.allocate(4 * BINS * self.stride))
            # counts first, from a place of their own the totals: both are cleared, and read, in one go
            self.counts = keep(held, device.allocate(PART_ALIGNMENT + 4 * _WORDS))
            self._totals = keep(held, device.part(self.counts, PART_ALIGNMENT, 4 * _WORDS))
            self._held = held.pop_all()

    def by_products(self, a: Storage, b: Storage, c: Storage, listed: tuple[Buffer, int] | None = None) -> None:
        """Queue the listing of rows of C = A B by their products; these rows of C become empty.

        Parameters
        ----------
        listed
            Which rows, int32, and how many; None: all.
        """
        rows, count = listed or (self.counts, a.shape[0])  # of all rows no list is looked at
        arguments: list[Argument] = [np.int32(count), np.int32(listed is not None), rows]
        arguments += [*arguments_of(a), *arguments_of(b), np.int32(c.segments), np.int32(c.pitch), c.table, c.sizes]
        self._list("count_products", count, arguments)

    def by_sizes(self, c: Storage) -> None:
        """Queue the listing of the rows of C by their entries."""
        self._list("list_sizes", c.shape[0], [np.int32(c.shape[0]), c.sizes])

    def _list(self, kernel: str, rows: int, arguments: list[Argument]) -> None:
        self._device.fill(self.counts, 0)
        own: list[Argument] = [np.int32(self.stride), self.lists, self.counts, self._totals]
        self._kernels.over(kernel, rows, [*arguments, *own])()

    def read(self) -> Counts:
        """Wait for what is queued and return what the bins have."""
        words = np.empty(PART_ALIGNMENT // 4 + _WORDS, np.int32)
        self._device.download(self.counts, words)
        *of_bins, entries = words[PART_ALIGNMENT // 4 :].astype(np.int64).tolist()
        totals = tuple(high * 65536 + low for high, low in zip(of_bins[::3], of_bins[1::3], strict=True))
        return Counts(tuple(words[:BINS].tolist()), totals, tuple(of_bins[2::3]), entries)

    def release(self) -> None:
        """Give the memory back."""
        self._held.close()
