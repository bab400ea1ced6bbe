"""The product of two sparse matrices on a device, C = A B, row by row.

The sizes of C's rows are not known beforehand. In one phase a row is computed in shared memory, a segment is cut off
for it, and it is stored there (King 2017, section 6.1), so that C is dynamic CSR whose rows lie in any order. In two
phases the sizes come first, and rows are stored one behind the other; the second phase alone can be done again for
other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from repro.devices.base import Argument, Buffer, Device, Launch
from repro.errors import ReproError
from repro.sparse.dynamic import state
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels
from repro.sparse.launches import Load
from repro.sparse.scan import Scan
from repro.sparse.spgemm.bins import Bins, Counts, arguments_of
from repro.sparse.spgemm.plan import Plan, plan_for_any, plan_products
from repro.sparse.spgemm.render import Format, Mode
from repro.sparse.spgemm.shapes import EXPECTED
from repro.sparse.work import keep

#: Blocks for each multiprocessor at most: they go through the rows of a bin in steps of the grid.
BLOCKS = {"cuda": 32, "opencl": 4}
#: Blocks that have a sum for every column, and the bytes that these may take if there are several.
DENSE_BLOCKS, DENSE_BYTES = 256, 1 << 28


@dataclass(frozen=True)
class Factors:
    """What is multiplied.

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


class Multiplication:
    """Products of matrices on a device.

    Parameters
    ----------
    device
        The device.
    load
        Gives the modules of a precision: those of `repro.sparse.spgemm.render.MODULES`, `matrix` and `sort`.
    dtype
        That of all matrices, in that precision.
    plan
        Which kernels rows are for by their products; None: those that are expected to fit.
    """

    def __init__(self, device: Device, load: Load, dtype: DTypeLike, plan: Plan | None = None) -> None:
        self._device, self._load = device, load
        scalar_bytes = np.dtype(dtype).itemsize
        self._usual = plan or plan_products(device.target, scalar_bytes)
        self._careful = plan_for_any(device.target, scalar_bytes)

    def in_one_phase(self, factors: Factors, segments: int = 1) -> Storage:
        """Return C = A B, each row in one segment without room; rows lie in any order, and so do their columns.

        Parameters
        ----------
        segments
            The most segments that a row of C can have later on.

        Raises
        ------
        ReproError
            C has more entries than offsets can tell apart.
        OutOfDeviceMemory
        """
        with self._rows_in_bins(factors, segments) as (bins, counts, c, held):
            left = keep(held, self._device.allocate(4 * bins.stride))
            capacity = _expected(counts)
            while True:
                c.make_room(capacity)
                self._device.fill(c.state, 0)
                self._compute("one", factors, c, bins, counts, self._usual, left)
                words = self._state(c)
                if not words[state.LEFT]:
                    return c
                # rows with more columns than their table has slots, or that found no room
                bins.by_products(factors.a, factors.b, c, (left, int(words[state.LEFT])))
                again, used = bins.read(), min(int(words[state.POINTER]), capacity)
                needed = used + sum(again.totals)
                if needed <= capacity:
                    words[state.LEFT] = 0
                    self._device.write(c.state, words)
                    self._compute("one", factors, c, bins, again, self._careful, left)
                    return c
                if capacity == MOST_ENTRIES:
                    raise too_many(needed)
                capacity = min(needed, MOST_ENTRIES)
                bins.by_products(factors.a, factors.b, c)

    def in_two_phases(self, factors: Factors) -> Storage:
        """Return C = A B, its rows one behind the other, their columns in any order.

        Raises
        ------
        ReproError
            C has more entries than offsets can tell apart.
        OutOfDeviceMemory
        """
        with self._rows_in_bins(factors, 1) as (bins, counts, c, held):
            left = keep(held, self._device.allocate(4 * bins.stride))
            self._compute("symbolic", factors, c, bins, counts, self._usual, left)
            if count := int(self._state(c)[state.LEFT]):
                bins.by_products(factors.a, factors.b, c, (left, count))
                self._compute("symbolic", factors, c, bins, bins.read(), self._careful, left)
            bins.by_sizes(c)
            entries = bins.read()
            total, rows = sum(entries.totals), c.shape[0]
            if total > MOST_ENTRIES:
                raise too_many(total)
            c.make_room(total)
            offsets = keep(held, self._device.allocate(4 * (rows + 1)))
            scan = keep(held, Scan(self._device, self._load("sort"), rows))
            scan.bind(c.sizes, offsets, rows)()
            adopt: list[Argument] = [np.int32(rows), np.int32(1), np.int32(c.pitch), offsets, c.table, c.sizes, c.state]
            Kernels(self._device, self._load("matrix")).over("adopt", rows, adopt)()
            self._compute("numeric", factors, c, bins, entries, self._careful, left)
            return c

    @contextmanager
    def refilled(self, factors: Factors, c: Storage) -> Iterator[Callable[[], None]]:
        """Give what puts C = A B into a matrix that was one of factors with the same patterns, and waits for it."""
        with self._device.pooling(), ExitStack() as held:
            bins = keep(held, Bins(self._device, self._load(f"count-{factors.format}"), c.shape[0]))
            bins.by_sizes(c)
            counts = bins.read()
            yield lambda: self._compute("numeric", factors, c, bins, counts, self._careful, bins.counts)

    # ------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _rows_in_bins(self, factors: Factors, segments: int) -> Iterator[tuple[Bins, Counts, Storage, ExitStack]]:
        """Give the rows of C by their products, and C without entries, which is released where the body fails."""
        with self._device.pooling(), ExitStack() as held:
            c = Storage.empty(self._device, factors.shape, segments, 1, factors.a.dtype)
            try:
                bins = keep(held, Bins(self._device, self._load(f"count-{factors.format}"), factors.shape[0]))
                bins.by_products(factors.a, factors.b, c)
                yield bins, bins.read(), c, held
            except BaseException:
                c.release()
                raise

    def _compute(
        self, mode: Mode, factors: Factors, c: Storage, bins: Bins, counts: Counts, plan: Plan, left: Buffer
    ) -> None:
        """Queue the rows of all bins, which have no order among themselves."""
        launches: list[Launch] = []
        dense: dict[int, int] = {}
        for bin, (shape, rows) in enumerate(zip(plan.shapes, counts.rows, strict=True)):
            if rows and shape is None:
                dense[bin] = rows
            elif rows and shape is not None:
                module, name = shape.kernel(mode)
                kernel = self._load(f"{module}-{factors.format}").kernel(name)
                blocks = min(-(-rows // shape.rows), self._device.n_s * BLOCKS[self._device.backend])
                arguments = [np.int32(bin), *self._arguments(factors, c, bins, left)]
                launches.append(Launch(kernel, blocks, shape.threads, arguments))
        if len(launches) == 1:
            self._device.bind(*launches[0])()
        elif launches:
            self._device.bind_concurrent(launches)()
        if dense:
            self._compute_dense(mode, factors, c, bins, dense, left)

    def _compute_dense(
        self, mode: Mode, factors: Factors, c: Storage, bins: Bins, rows: Mapping[int, int], left: Buffer
    ) -> None:
        """Compute the rows of some bins, and wait for them."""
        columns = c.shape[1]
        sums, words = columns * c.dtype.itemsize, -(-columns // 32)
        blocks = max(1, min(sum(rows.values()), DENSE_BLOCKS, DENSE_BYTES // (sums + 4 * words)))
        kernels = Kernels(self._device, self._load(f"{mode}-{factors.format}"))
        with ExitStack() as held:
            memory = [keep(held, self._device.allocate(blocks * nbytes)) for nbytes in (4 * words, sums)]
            for buffer in memory:
                self._device.fill(buffer, 0)
            given = [*self._arguments(factors, c, bins, left), np.int32(columns), *memory]
            for bin, count in rows.items():
                kernels.blocks(f"{mode}_dense", min(blocks, count), [np.int32(bin), *given])()
            self._device.synchronize()

    def _arguments(self, factors: Factors, c: Storage, bins: Bins, left: Buffer) -> list[Argument]:
        return [
            np.int32(bins.stride), bins.lists, bins.counts, *arguments_of(factors.a), *arguments_of(factors.b),
            c.table, c.sizes, c.columns, c.values, np.int32(c.capacity), left, c.state,
        ]  # fmt: skip

    def _state(self, c: Storage) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        words = np.empty(state.WORDS, np.int32)
        self._device.download(c.state, words)
        return words


def _expected(counts: Counts) -> int:
    """Return the entries to have memory for at first: about twice as many as are expected."""
    products = zip(counts.totals, EXPECTED, strict=True)
    return min(sum(2 * total // max(fewer, 2) for total, fewer in products), MOST_ENTRIES)


def too_many(entries: int) -> ReproError:
    """Return what to say of a product with so many entries."""
    return ReproError(
        "the product has more entries than a matrix can hold",
        expected=f"at most {MOST_ENTRIES:,}",
        actual=f"up to {entries:,}",
    )
