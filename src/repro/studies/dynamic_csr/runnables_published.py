"""Updates and defragmentation as published: King 2017, algorithms 4, 5 and 7, launched as in the text and its code.

Text and code leave choices open; each of `READINGS` fixes all of them. A batch is grouped by row, with the bounds of
each row's entries; both are prepared before the clock starts. For entries in any order, sorting and bounds are part of
the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from repro.devices.base import Buffer
from repro.errors import Unsupported
from repro.sparse.device_primitives import ModuleFile, RadixSort, RunnableContext, Scan, bit_count
from repro.sparse.dynamic.host_layout import SEGMENTS, table_pitch
from repro.sparse.dynamic.kernels import STATE_WORDS
from repro.sparse.dynamic.matrix import Run, stored_rows
from repro.sparse.dynamic.schedules import PAPERS_MIN_LENGTHS, Schedule, bin_rows
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import in_order
from repro.studies.dynamic_csr import TEXT_READING
from repro.studies.dynamic_csr.operands import DeviceEntries, Entries, bind_csr_copy
from repro.studies.dynamic_csr.runnables_products import bind_streams
from repro.studies.dynamic_csr.runnables_updates import (
    DYNAMIC_FORMAT,
    VARIANT_KIND,
    BatchUpdate,
    Defragmentation,
    EntryOrder,
    Launcher,
    UpdateName,
    UpdatePlan,
    guarded_storage,
    initial_matrix,
    state_words,
)
from repro.words import PAPER


class Interpretation(NamedTuple):
    """Values of parameters that the paper's text does not state, or states differently from its published code."""

    name: str
    #: Threads per row: four in the code, one in its iterative test; the text has no number.
    width: int
    #: Free entries of a new segment; None: the mean row size, as in the text.
    slack: int | None = None
    #: Number of batches between defragmentations; None: only when a chain is full, as in the text.
    period: int | None = None


#: The reading by the text, with the code's number of threads per row.
TEXT = Interpretation(TEXT_READING, 4)
#: The code's two sets of constants.
SLACK_4, SLACK_0 = Interpretation("slack-4", 1, 4), Interpretation("slack-0", 4, 0)
#: Number of batches after which the published iterative test defragments; rows keep their bins.
PERIOD = 5
FIFTH = TEXT._replace(name="fifth", period=PERIOD)
#: The readings of each update.
READINGS: Mapping[UpdateName, tuple[Interpretation, ...]] = {
    "stream": (TEXT, SLACK_4, SLACK_0),
    "iterate": (TEXT, FIFTH, SLACK_4._replace(period=PERIOD), SLACK_0._replace(period=PERIOD)),
    "insert": (TEXT,),
    "batch": (TEXT,),
}
PUBLISHED_FORMAT = "dcsr-published"
PUBLISHED_MODULES = ("published", "sort", "rebuild")
#: The paper's adaptive product.
STREAMS = Schedule("streams")


class PublishedUpdate(BatchUpdate):
    """Inserting batches into a dynamic matrix by algorithms 4 and 5, one launch for each batch.

    All rows are defragmented after a batch that has filled a chain (unless it is the last batch), and periodically if
    the reading has a `period`. The batches that fill a chain are determined beforehand, so that the timed update need
    not read the flag back; memory for the copies is allocated beforehand.
    """

    kind = VARIANT_KIND
    format = DYNAMIC_FORMAT
    modules: tuple[str, ...] = PUBLISHED_MODULES

    def __init__(
        self,
        modules: Mapping[str, ModuleFile],
        operation: UpdateName = "insert",
        order: EntryOrder = "sorted",
        batch_index: int | None = None,
        reading: Interpretation = TEXT,
    ) -> None:
        super().__init__(modules, operation, order, batch_index)
        self.name = f"{PUBLISHED_FORMAT}/{self.name.partition('/')[2]}/{reading.name}"
        self.reading = reading
        if order == "any":
            self.modules = (*self.modules, "hybrid")
        self._slack: int | None = None
        self._defragmentations: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {
            **super().columns,
            "space": PAPER,
            "reading": self.reading.name,
            "width": self.reading.width,
            "segments": SEGMENTS,
            "slack": self._slack,
            "defragmentations": self._defragmentations,
        }

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        """Upload the matrix and the batches, and insert them once, to learn when a chain is full."""
        arrays, self._slack = initial_matrix(plan, self.operation, self.reading.slack)
        storage = first = guarded_storage(work, arrays)
        word_counts = arrays.segments * table_pitch(arrays.shape[0]), STATE_WORDS, arrays.shape[0]
        pristine = [work.upload(array) for array in (arrays.table, state_words(arrays), arrays.sizes)]
        self._restore = bind_csr_copy(work, word_counts, pristine, [storage.table, storage.state, storage.sizes])
        bind_batch = self._grouping(work, plan) if self.order == "any" else _grouped
        bins = bin_rows(arrays.sizes, PAPERS_MIN_LENGTHS)
        order = work.upload(bins.order) if self.operation == "iterate" else None
        other_storage: Storage | None = None
        updates: list[Launcher] = []
        products: list[Callable[[Buffer, Buffer], Run]] = []

        def bind_streams_of(storage: Storage) -> Callable[[Buffer, Buffer], Run]:
            assert order is not None
            rows = [order, *stored_rows(storage).arguments(False)]
            return lambda x, y: bind_streams(work.device, work.load("product").kernel, STREAMS, bins, [*rows, x, y])

        self._restore()
        self._defragmentations = 0
        for i, batch in enumerate(plan.batches):
            update = in_order(bind_batch(work, storage, batch, self._slack, self.reading.width))
            update()
            report = storage.report()
            if report.unplaced:
                raise Unsupported(
                    f"{report.unplaced} entries of batch {i} found no room: a chain is full, or the buffer"
                )
            is_due = self.reading.period and i and i % self.reading.period == 0
            if (is_due or report.full) and i + 1 < len(plan.batches):
                if other_storage is None:
                    other_storage = replace(
                        storage,
                        columns=work.allocate(max(arrays.columns.nbytes, 4), "the other columns"),
                        values=work.allocate(max(arrays.values.nbytes, 4), "the other values"),
                    )
                copy = bind_published_copy(work, storage, other_storage, self.reading.width)
                copy()
                update = in_order([update, copy])
                storage, other_storage = other_storage, storage
                self._defragmentations += 1
            updates.append(update)
            if self.operation == "iterate":
                products.append(bind_streams_of(storage))
        if self._defragmentations > 1:  # the first buffer is written over
            initial_arrays = arrays.columns[: arrays.pointer], arrays.values[: arrays.pointer]
            word_counts = initial_arrays[0].nbytes // 4, initial_arrays[1].nbytes // 4, 0
            device_arrays = [work.upload(array) for array in initial_arrays]
            entries = bind_csr_copy(
                work, word_counts, [*device_arrays, device_arrays[0]], [first.columns, first.values, first.columns]
            )
            self._restore = in_order([self._restore, entries])
        self._read = lambda: storage.download().to_csr()
        self.launch = in_order(self.with_products(work, updates, lambda i, x, y: products[i](x, y)))

    def _grouping(self, work: RunnableContext, plan: UpdatePlan) -> Callable[..., list[Launcher]]:
        """Return a function that binds the launches for an unsorted batch: sort, bounds of rows, insertion.

        All batches share the working memory.
        """
        max_batch = max(*(len(batch.rows) for batch in plan.batches), 1)
        shape, dtype = plan.start.shape, plan.start.dtype
        sort = work.keep(RadixSort(work.device, work.load("sort"), max_batch, work.guards))
        arranged = DeviceEntries.allocate(work, max_batch, dtype.itemsize)
        bounds = work.allocate(8 * max(shape[0], 1), "the bounds of rows in a batch")

        def bind(work: RunnableContext, storage: Storage, batch: Entries, slack: int, width: int) -> list[Launcher]:
            count = len(batch.rows)
            if not count:
                return _grouped(work, storage, batch, slack, width)
            device_batch = DeviceEntries.upload(work, batch)
            row_sort = sort.bind(device_batch.rows, count, bit_count(shape[0]))
            return [
                row_sort.launch,
                work.bind(
                    "hybrid",
                    "coordinates_gather",
                    count,
                    count,
                    row_sort.keys,
                    row_sort.order,
                    *device_batch[1:],
                    *arranged,
                ),
                lambda: work.device.fill(bounds, 0),
                work.bind("published", "bounds_of_rows", count, count, arranged.rows, bounds),
                _bind_insertion(work, storage, (bounds, *arranged[1:]), slack, width),
            ]

        return bind

    def before(self) -> None:
        self._restore()


def _grouped(work: RunnableContext, storage: Storage, batch: Entries, slack: int, width: int) -> list[Launcher]:
    """Bind the insertion of a batch that is sorted by row, with bounds made on the host."""
    ends = np.cumsum(np.bincount(batch.rows, minlength=storage.shape[0])).astype(np.int32)
    bounds = np.stack([np.concatenate([[0], ends[:-1]]).astype(np.int32), ends], axis=1)
    return [_bind_insertion(work, storage, tuple(map(work.upload, (bounds, *batch[1:]))), slack, width)]


def _bind_insertion(
    work: RunnableContext, storage: Storage, batch: tuple[Buffer, ...], slack: int, width: int
) -> Launcher:
    rows = storage.shape[0]
    return work.bind(
        "published", f"insert_w{width}", rows * width, rows, *batch, slack, storage.capacity, storage.pitch,
        storage.segments, storage.table, storage.sizes, storage.columns, storage.values, storage.state,
    )  # fmt: skip


def bind_published_copy(work: RunnableContext, storage: Storage, target: Storage, width: int) -> Launcher:
    """Return a launch of algorithm 7; `target` has the row sizes already, and may share the table of `storage`."""
    rows = storage.shape[0]
    offsets = work.allocate(4 * (rows + 1), "the offsets of rows")
    scan = work.keep(Scan(work.device, work.load("sort"), rows, work.guards))
    return in_order(
        [
            scan.bind(storage.sizes, offsets, rows),
            work.bind(
                "published", f"copy_segments_w{width}", rows * width, rows, offsets, storage.pitch, storage.table,
                storage.sizes, storage.columns, storage.values, target.columns, target.values,
            ),
            work.bind(
                "published", "set_table", rows, rows, offsets, target.pitch, target.segments, target.table,
                target.state,
            ),
        ]
    )  # fmt: skip


class PublishedDefragmentation(Defragmentation):
    """Defragmentation by algorithm 7: a vector of threads copies the segments of a row."""

    modules = PUBLISHED_MODULES
    name = f"{PUBLISHED_FORMAT}/defragment"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "space": PAPER, "reading": TEXT.name, "width": TEXT.width}

    def bind_copy(self, work: RunnableContext, storage: Storage, target: Storage) -> Launcher:
        rows = storage.shape[0]
        if rows:  # a defragmentation leaves the sizes as they are
            work.device.write(target.sizes, work.download(storage.sizes, rows, np.int32))
        return bind_published_copy(work, storage, target, TEXT.width)
