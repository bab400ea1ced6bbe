"""How many entries rows of a product have, from some rows of each bin: what tables and memory are chosen by."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from repro.codegen.targets import Target
from repro.devices.base import Argument, Buffer, Device
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels
from repro.sparse.launches import Load
from repro.sparse.spgemm.bins import Bins, Counts
from repro.sparse.spgemm.factors import Factors
from repro.sparse.spgemm.plan import Plan, plan_entries, plan_products, roomy_plan
from repro.sparse.spgemm.rows import Rows
from repro.sparse.spgemm.shapes import BINS, EXPECTED
from repro.sparse.work import keep

#: Rows of a bin that are looked at, and the least products for which that is worth the wait.
ROWS, LEAST_PRODUCTS = 128, 30_000_000
#: A bin with fewer of all products is not looked at.
LEAST_SHARE = 0.05
#: Entries to have memory for, over those that a sample speaks for.
SPARE = 1.15


@dataclass(frozen=True)
class Listed:
    """Rows in lists, one a bin, so many numbers apart, and on the device how many each has."""

    stride: int
    lists: Buffer
    counts: Buffer


@dataclass(frozen=True)
class Sample:
    """What some rows of each bin came to.

    Attributes
    ----------
    rows
        How many they are, `(BINS,)`.
    entries
        Of all of them; of rows with more columns than the largest table has slots none are counted.
    largest
        Entries of the largest; 0 where none was looked at.
    products
        The most that a row of each bin is the sum of, whether it was looked at or not.
    mean_row
        Entries of B's rows in the mean.
    """

    rows: tuple[int, ...]
    entries: tuple[int, ...]
    largest: tuple[int, ...]
    products: tuple[int, ...]
    mean_row: float

    def plan(self, target: Target, scalar_bytes: int) -> Plan:
        """Return the plan for rows like these: for the largest of a bin there are slots."""
        fitting = plan_entries(target, scalar_bytes, self.largest, self.products, self.mean_row)
        usual = plan_products(target, scalar_bytes, largest=self.products, mean_row=self.mean_row)
        given = zip(self.rows, self.largest, fitting.shapes, usual.shapes, strict=True)
        return Plan(tuple(shape if rows and size else kept for rows, size, shape, kept in given))

    def entries_of(self, counts: Counts) -> int:
        """Return how many entries all rows of the bins have, about; where none was counted as many as are expected."""
        expected = zip(self.rows, self.entries, counts.rows, expected_entries(counts), strict=True)
        return sum(
            int(SPARE * all_rows * entries / rows) + rows if rows and entries else most
            for rows, entries, all_rows, most in expected
        )


def expected_entries(counts: Counts) -> list[int]:
    """Return the entries of each bin to have memory for where nothing was counted: about twice as many as expected."""
    return [2 * total // max(fewer, 2) for total, fewer in zip(counts.totals, EXPECTED, strict=True)]


def take_sample(device: Device, load: Load, factors: Factors, c: Storage, bins: Bins, counts: Counts) -> Sample:
    """Find the sizes of some rows of each bin, and wait for them; of other rows of C nothing changes.

    Raises
    ------
    OutOfDeviceMemory
    """
    with ExitStack() as held:
        kernels = Kernels(device, load(f"count-{factors.format}"))
        listed = Listed(ROWS, keep(held, device.allocate(4 * BINS * ROWS)), keep(held, device.allocate(4 * BINS)))
        left, sums = keep(held, device.allocate(4 * BINS * ROWS)), keep(held, device.allocate(8 * BINS))
        given: list[Argument] = [np.int32(bins.stride), bins.lists, bins.counts, listed.lists, listed.counts]
        kernels.blocks("take_sample", BINS, [np.int32(ROWS), *given])()
        least = LEAST_SHARE * sum(counts.totals)
        given_rows = zip(counts.rows, counts.totals, strict=True)
        some = replace(counts, rows=tuple(min(rows, ROWS) if total >= least else 0 for rows, total in given_rows))
        plan = roomy_plan(device.target, c.dtype.itemsize)
        Rows(device, load, factors, c, listed, left).bind("symbolic", some, plan, held)()
        kernels.blocks("sum_sample", BINS, [np.int32(ROWS), listed.lists, listed.counts, c.sizes, sums])()
        device.fill(c.state, 0)  # rows that the largest table has no slots for are done in their turn
        numbers = np.empty((BINS, 2), np.int32)
        device.download(sums, numbers)
    entries, largest = numbers.T.tolist()
    return Sample(some.rows, tuple(entries), tuple(largest), counts.largest, counts.mean_row)
