"""CSR that is made again with every batch: rows counted, sizes added up, old rows copied, new entries behind them.

What remains of the old matrix is the next batch's to overwrite: memory for two matrices beside that at first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.bench.runnable import Clock
from repro.devices.base import Buffer
from repro.sparse.kernels import in_order
from repro.sparse.scan import Scan
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Entries, Resident
from repro.studies.dynamic_csr.csr_memory import CsrMemory
from repro.studies.dynamic_csr.rival import Updates, Updating

#: Entries of a row that a block copies for itself, and that a thread copies at least of any other row in the mean.
LONG_ROW, PER_THREAD = 1024, 2


class Rebuild(Updates):
    """Batches into CSR, each of which rebuilds it; the entries of a batch may come in any order."""

    format = "csr"
    modules = ("rebuild", "sort")
    clocks: tuple[Clock, ...] = ("event", "graph")  # the matrix at first stays as it is

    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Bring start and batches to the device, and bind the kernels."""
        shape, dtype = plan.start.shape, plan.start.dtype
        now, entries = CsrMemory.upload(work, plan.start), int(plan.start.nnz)
        targets = [
            CsrMemory.allocate(work, shape[0], plan.after, dtype.itemsize) for _ in range(min(len(plan.batches), 2))
        ]
        step = _Step(work, shape[0])
        updates: list[Callable[[], None]] = []
        for i, batch in enumerate(plan.batches):
            target = targets[i % 2]
            updates.append(in_order(step.bind(now, entries, batch, target)))
            now, entries = target, entries + len(batch.rows)
        self._read = lambda: now.read(work, shape, dtype)
        mean = plan.after / max(shape[0], 1)
        self.launch = in_order(
            self.with_products(work, updates, lambda i, x, y: targets[i % 2].bind_product(work, shape[0], mean, x, y))
        )


class _Step:
    """What the rebuilding with a batch needs beside the two matrices."""

    def __init__(self, work: Work, rows: int) -> None:
        self._work, self._rows = work, rows
        self._scan = work.keep(Scan(work.device, work.program("sort"), rows, work.guards))
        self._counts = work.load(
            np.zeros(rows, np.int32), "the counts of rows"
        )  # the last kernel counts them down to zero again
        self._long_count: Buffer = work.allocate(4, "the number of long rows")
        self._long_rows = work.load(np.zeros(max(rows, 1), np.int32), "long rows")

    def bind(self, old: CsrMemory, entries: int, batch: Entries, new: CsrMemory) -> list[Callable[[], None]]:
        """Return what queues the new matrix, given the old one and how many entries it has."""
        work, rows, count = self._work, self._rows, len(batch.rows)
        resident = Resident.upload(work, batch)
        warp = work.device.target.warp
        width = min(1 << (entries // max(rows, 1) // PER_THREAD).bit_length(), warp)
        long_rows = self._long_count, self._long_rows
        copied = *old, *new

        def bind(kernel: str, size: int, *arguments: Buffer | int) -> Callable[[], None]:
            return work.bind("rebuild", kernel, size, *arguments)

        return [
            lambda: work.device.fill(self._long_count, 0),
            bind("rebuild_count", count, count, resident.rows, self._counts),
            bind("rebuild_sizes", rows, rows, LONG_ROW, old.offsets, self._counts, new.offsets, *long_rows),
            self._scan.bind(new.offsets, new.offsets, rows),
            bind("rebuild_copy", rows * width, rows, width, LONG_ROW, *copied),
            bind("rebuild_copy_long", entries, *long_rows, *copied),
            bind("rebuild_scatter", count, count, *resident, self._counts, *new),
        ]
