"""The rows of a sparse matrix product on a device, binned by size, and computed bin by bin.

Rows are binned by how many products or entries each has. A plan says which kernel the rows of each bin are
computed by. A sample, some rows of each bin, tells how many entries rows have; tables and memory are chosen by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np

from repro.codegen.targets import Target
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, Launch, Program
from repro.errors import ReproError
from repro.sparse.device_work import Load, keep
from repro.sparse.dynamic.layout import MAX_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, in_order
from repro.sparse.spgemm.kernels import (
    BINS,
    EXPECTED,
    LIMITS,
    PAPERS_BINS,
    Format,
    HashShape,
    Mode,
    SortShape,
    hash_shapes,
    smallest,
    sort_shapes,
    spread,
)


@dataclass(frozen=True)
class Factors:
    """Two matrices on a device.

    Attributes
    ----------
    a, b
        The matrices.
    format
        `exact`: each row of both lies in one segment without room, and has no column twice. `chain`: anyhow.

    Raises
    ------
    ReproError
        They cannot be multiplied.
    """

    a: Storage
    b: Storage
    format: Format = "exact"

    def __post_init__(self) -> None:
        if self.a.shape[1] != self.b.shape[0]:
            raise ReproError(
                "the matrices cannot be multiplied",
                expected=f"a second matrix with {self.a.shape[1]} rows, as the first has columns",
                actual=f"{self.b.shape[0]} rows",
            )
        if self.a.dtype != self.b.dtype:
            raise ReproError(
                "the matrices are in two precisions", expected=f"both of {self.a.dtype}", actual=self.b.dtype
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the product."""
        return self.a.shape[0], self.b.shape[1]


def too_many(entries: int) -> ReproError:
    """Return what to say of a product with so many entries."""
    return ReproError(
        "the product has more entries than a matrix can hold",
        expected=f"at most {MAX_ENTRIES:,}",
        actual=f"up to {entries:,}",
    )


def arguments_of(matrix: Storage) -> list[Argument]:
    """Return what kernels take of a matrix that they read."""
    return [np.int32(matrix.pitch), matrix.table, matrix.sizes, matrix.columns, matrix.values]


#: What there is beside the counts of rows: of each bin three numbers, and one more.
_WORDS = 3 * BINS + 1


@dataclass(frozen=True)
class BinCounts:
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


class ProductBins:
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

    def read(self) -> BinCounts:
        """Wait for what is queued and return what the bins have."""
        words = np.empty(PART_ALIGNMENT // 4 + _WORDS, np.int32)
        self._device.download(self.counts, words)
        *of_bins, entries = words[PART_ALIGNMENT // 4 :].astype(np.int64).tolist()
        totals = tuple(high * 65536 + low for high, low in zip(of_bins[::3], of_bins[1::3], strict=True))
        return BinCounts(tuple(words[:BINS].tolist()), totals, tuple(of_bins[2::3]), entries)

    def release(self) -> None:
        """Give the memory back."""
        self._held.close()


#: Where so many times the lanes that a bin's rows have are not all that the device has, rows have more.
IDLE = 8


@dataclass(frozen=True)
class Plan:
    """A kernel for each bin.

    Attributes
    ----------
    shapes
        What the rows of each bin are computed in, `(BINS,)`; None: with a sum for every column.
    """

    shapes: tuple[HashShape | SortShape | None, ...]


def plan_products(
    target: Target,
    scalar_bytes: int,
    expected: tuple[int, ...] = EXPECTED,
    largest: tuple[int, ...] = (*LIMITS, MAX_ENTRIES),
    mean_row: float = 0.0,
) -> Plan:
    """Return a plan for rows that are binned by their products.

    Parameters
    ----------
    expected
        How many products an entry is expected to be the sum of, `(BINS,)`.
    largest
        The most products of a row of each bin, `(BINS,)`.
    mean_row
        Entries of B's rows in the mean; 0: not known.
    """
    entries = [-(-products // fewer) for products, fewer in zip(largest, expected, strict=True)]
    return plan_entries(target, scalar_bytes, entries, largest, mean_row)


def plan_entries(
    target: Target,
    scalar_bytes: int,
    entries: Sequence[int],
    products: Sequence[int] | None = None,
    mean_row: float = 0.0,
) -> Plan:
    """Return a plan by which no row of so many entries has more than its table has slots.

    Parameters
    ----------
    entries
        Of the largest row of each bin, `(BINS,)`.
    products
        Of each bin's rows at the most; None: not known.
    mean_row
        Entries of B's rows in the mean; 0: not known.
    """
    given = zip(entries, products or [0] * BINS, strict=True)
    return Plan(tuple(smallest(target, scalar_bytes, count, of_products, mean_row) for count, of_products in given))


@dataclass(frozen=True)
class Demand:
    """How much there is to share out.

    Attributes
    ----------
    rows
        Of each bin, `(BINS,)`.
    lanes
        That the device has.
    of_a, of_b
        Entries of a row of A in the mean, and of a row of B.
    """

    rows: Sequence[int]
    lanes: int
    of_a: float
    of_b: float


def spread_out(plan: Plan, target: Target, scalar_bytes: int, demand: Demand) -> Plan:
    """Return a plan by which few rows have more lanes, where most of the device would have nothing to do.

    A warp has as many as a row of B has entries, about; several warps are for rows of A that have enough for all.
    """
    made: list[HashShape | SortShape | None] = []
    for shape, rows in zip(plan.shapes, demand.rows, strict=True):
        if isinstance(shape, HashShape) and 0 < rows * shape.width * IDLE < demand.lanes:
            in_warp, warps = min(2 * demand.of_b, target.warp), demand.of_a / target.warp
            most = in_warp if warps < 2 else target.warp * min(warps, demand.lanes / rows / target.warp)
            made.append(spread(shape, target, scalar_bytes, max(most, in_warp)))
        else:
            made.append(shape)
    return Plan(tuple(made))


@cache
def plan_for_any(target: Target, scalar_bytes: int) -> Plan:
    """Return a plan by which no row has more columns than a table has slots, binned by its entries or its products."""
    return plan_entries(target, scalar_bytes, (*LIMITS, MAX_ENTRIES))


@cache
def roomy_plan(target: Target, scalar_bytes: int) -> Plan:
    """Return a plan by which rows are given slots for all their products, or the largest table that there is."""
    shapes = hash_shapes(target, scalar_bytes)
    largest = max(shapes, key=lambda shape: (shape.table, shape.width))
    fitting = (smallest(target, scalar_bytes, limit) for limit in (*LIMITS, MAX_ENTRIES))
    return Plan(tuple(shape or largest for shape in fitting))


def papers_plan(target: Target, scalar_bytes: int, width: int = 32, rows: int = 1) -> Plan:
    """Return the plan of King 2017, section 6.1: rows of up to 2,048 products are sorted in shared memory.

    How the longer rows are done it does not say; here they are those of `plan_products`.

    Parameters
    ----------
    width, rows
        Threads of a row, and rows of a block, where a bin has such a kernel; else the nearest that it has.
    """
    shapes = sort_shapes(target, scalar_bytes)
    made: list[HashShape | SortShape | None] = list(plan_products(target, scalar_bytes).shapes)
    for bin in range(PAPERS_BINS):
        own = [shape for shape in shapes if shape.most == LIMITS[bin]]
        if own:
            made[bin] = min(own, key=lambda shape: (abs(shape.width - width), abs(shape.rows - rows)))
    return Plan(tuple(made))


#: Blocks for each multiprocessor at most: they go through the rows of a bin in steps of the grid.
BLOCKS_PER_SM = {"cuda": 32, "opencl": 4}
#: Blocks that have a sum for every column, and the bytes that these may take if there are several.
DENSE_BLOCKS, DENSE_BYTES = 256, 1 << 28


class Lists(Protocol):
    """Rows in lists, one a bin.

    Attributes
    ----------
    stride
        Numbers from one list to the next.
    lists, counts
        int32 on the device: numbers of rows, and how many each list has, `(BINS,)`.
    """

    @property
    def stride(self) -> int: ...  # noqa: D102
    @property
    def lists(self) -> Buffer: ...  # noqa: D102
    @property
    def counts(self) -> Buffer: ...  # noqa: D102


class ProductRows:
    """The rows of C = A B, listed in bins.

    Parameters
    ----------
    device, load
        The device, and what gives the modules of the factors' precision.
    factors
        What is multiplied.
    c
        The product.
    bins
        The lists.
    left
        Room for the numbers of all rows: those that a kernel leaves undone are listed here.
    """

    def __init__(self, device: Device, load: Load, factors: Factors, c: Storage, bins: Lists, left: Buffer) -> None:
        self._device, self._load = device, load
        self._factors, self._c, self._bins, self._left = factors, c, bins, left

    def bind(self, mode: Mode, counts: BinCounts, plan: Plan, held: ExitStack) -> Callable[[], None]:
        """Return what queues the rows of all bins, which have no order among themselves.

        Parameters
        ----------
        mode
            What the kernels leave; C has to have the memory for it.
        counts
            What the bins have.
        plan
            Which kernel the rows of each bin are for.
        held
            What gives the kernels' working memory back, once they are done.

        Raises
        ------
        OutOfDeviceMemory
        """
        launches: list[Launch] = []
        dense: dict[int, int] = {}
        for bin, (shape, rows) in enumerate(zip(plan.shapes, counts.rows, strict=True)):
            if rows and shape is None:
                dense[bin] = rows
            elif rows and shape is not None:
                module, name = shape.kernel(mode)
                kernel = self._load(f"{module}-{self._factors.format}").kernel(name)
                blocks = min(-(-rows // shape.rows), self._device.n_s * BLOCKS_PER_SM[self._device.backend])
                launches.append(Launch(kernel, blocks, shape.threads, [np.int32(bin), *self._arguments()]))
        bound: list[Callable[[], None]] = []
        if len(launches) == 1:
            bound.append(self._device.bind(*launches[0]))
        elif launches:
            bound.append(self._device.bind_concurrent(launches))
        if dense:
            bound.append(self._bind_dense(mode, dense, held))
        return in_order(bound)

    def _bind_dense(self, mode: Mode, rows: Mapping[int, int], held: ExitStack) -> Callable[[], None]:
        """Return what queues some bins' rows, each with a sum for every column in global memory."""
        columns, c = self._c.shape[1], self._c
        sums, words = columns * c.dtype.itemsize, -(-columns // 32)
        blocks = max(1, min(sum(rows.values()), DENSE_BLOCKS, DENSE_BYTES // (sums + 4 * words)))
        kernels = Kernels(self._device, self._load(f"{mode}-{self._factors.format}"))
        memory = [keep(held, self._device.allocate(blocks * nbytes)) for nbytes in (4 * words, sums)]
        given = [*self._arguments(), np.int32(columns), *memory]
        launches = [
            kernels.blocks(f"{mode}_dense", min(blocks, count), [np.int32(bin), *given]) for bin, count in rows.items()
        ]

        def launch() -> None:
            for buffer in memory:
                self._device.fill(buffer, 0)
            for run in launches:
                run()

        return launch

    def _arguments(self) -> list[Argument]:
        bins, c, factors = self._bins, self._c, self._factors
        return [
            np.int32(bins.stride), bins.lists, bins.counts, *arguments_of(factors.a), *arguments_of(factors.b),
            c.table, c.sizes, c.columns, c.values, np.int32(c.capacity), self._left, c.state,
        ]  # fmt: skip


#: Rows of a bin that are looked at, and the least products for which that is worth the wait.
SAMPLE_ROWS, MIN_PRODUCTS = 128, 30_000_000
#: A bin with fewer of all products is not looked at.
MIN_SHARE = 0.05
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

    def entries_of(self, counts: BinCounts) -> int:
        """Return how many entries all rows of the bins have, about; where none was counted as many as are expected."""
        expected = zip(self.rows, self.entries, counts.rows, expected_entries(counts), strict=True)
        return sum(
            int(SPARE * all_rows * entries / rows) + rows if rows and entries else most
            for rows, entries, all_rows, most in expected
        )


def expected_entries(counts: BinCounts) -> list[int]:
    """Return the entries of each bin to have memory for where nothing was counted: about twice as many as expected."""
    return [2 * total // max(fewer, 2) for total, fewer in zip(counts.totals, EXPECTED, strict=True)]


def take_sample(
    device: Device, load: Load, factors: Factors, c: Storage, bins: ProductBins, counts: BinCounts
) -> Sample:
    """Find the sizes of some rows of each bin, and wait for them; of other rows of C nothing changes.

    Raises
    ------
    OutOfDeviceMemory
    """
    with ExitStack() as held:
        kernels = Kernels(device, load(f"count-{factors.format}"))
        listed = Listed(
            SAMPLE_ROWS, keep(held, device.allocate(4 * BINS * SAMPLE_ROWS)), keep(held, device.allocate(4 * BINS))
        )
        left, sums = keep(held, device.allocate(4 * BINS * SAMPLE_ROWS)), keep(held, device.allocate(8 * BINS))
        given: list[Argument] = [np.int32(bins.stride), bins.lists, bins.counts, listed.lists, listed.counts]
        kernels.blocks("take_sample", BINS, [np.int32(SAMPLE_ROWS), *given])()
        least = MIN_SHARE * sum(counts.totals)
        given_rows = zip(counts.rows, counts.totals, strict=True)
        some = replace(
            counts, rows=tuple(min(rows, SAMPLE_ROWS) if total >= least else 0 for rows, total in given_rows)
        )
        plan = roomy_plan(device.target, c.dtype.itemsize)
        ProductRows(device, load, factors, c, listed, left).bind("symbolic", some, plan, held)()
        kernels.blocks("sum_sample", BINS, [np.int32(SAMPLE_ROWS), listed.lists, listed.counts, c.sizes, sums])()
        device.fill(c.state, 0)  # rows that the largest table has no slots for are done in their turn
        numbers = np.empty((BINS, 2), np.int32)
        device.download(sums, numbers)
    entries, largest = numbers.T.tolist()
    return Sample(some.rows, tuple(entries), tuple(largest), counts.largest, counts.mean_row)
