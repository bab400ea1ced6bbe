"""Updates and conversions: the runnables of dynamic CSR, and the base classes for all other formats.

An update starts from a matrix and inserts batches, or it inserts the whole matrix into an empty one. Conversions are
the same as in the paper's Table 5.3: entries are sorted by row, and the target's memory is allocated before the clock
starts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import ClockName
from repro.bench.runnable import Workspace, not_prepared
from repro.config.models import Rival
from repro.devices.base import Buffer
from repro.errors import IncorrectError, Unsupported
from repro.sparse.device_primitives import ModuleFile, RunnableContext, Scan
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.host_layout import SEGMENTS, Arrays, buffer_capacity, lay_out, table_pitch
from repro.sparse.dynamic.matrix import Run, bind_bins, stored_rows
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.schedules import bin_rows, nonempty_parts, our_min_lengths, parts_of, usual_bins
from repro.sparse.dynamic.storage import EntryBatch, Storage
from repro.sparse.elementwise import Scratch, in_order
from repro.sparse.operands import NAN_BYTE, x_on, y_on
from repro.sparse.rivals.runnables import RivalUpdates
from repro.studies.dynamic_csr import PRODUCTS_PER_BATCH
from repro.studies.dynamic_csr.facts import hybrid_width
from repro.studies.dynamic_csr.operands import (
    CsrMemory,
    DeviceEntries,
    Entries,
    GraphOperands,
    Hybrid,
    MatrixRunnable,
    bind_csr_copy,
    operands_of,
    overflow,
    state_in,
)
from repro.words import EXTENDED

#: Kind of rows of updates in other formats. The word `rival` is older than the rivals from outside, whose rows have the
#: kind `outside`; it is kept so that recorded rows remain readable.
BASELINE_KIND = "rival"
SingleUpdate = Literal["insert", "stream", "batch"]
UpdateName = Literal[SingleUpdate, "iterate"]
EntryOrder = Literal["sorted", "any"]
#: Seed for shuffling entries into random order.
SHUFFLE_SEED = 20170501


Launcher = Callable[[], None]


class UpdatePlan(NamedTuple):
    """The initial matrix, and the batches that are inserted one after the other."""

    start: sp.csr_array
    batches: list[Entries]

    @property
    def after(self) -> int:
        """Number of entries after all batches."""
        return int(self.start.nnz + sum(len(batch.rows) for batch in self.batches))

    @property
    def mean_batch(self) -> int:
        """Mean number of entries per batch."""
        return round((self.after - int(self.start.nnz)) / len(self.batches))


def update_plan(
    operands: GraphOperands, operation: UpdateName, order: EntryOrder, batch_index: int | None = None
) -> UpdatePlan:
    """Return the initial matrix of an update, and its batches.

    Parameters
    ----------
    operation
        `insert`: all batches into the problem's initial matrix. `iterate`: like `insert`, with products after each
        batch. `stream`: the grown matrix as one batch into an empty matrix. `batch`: one batch into the initial matrix.
    order
        `sorted`: the entries of a batch are sorted by row. `any`: given order; random order for `stream`.
    batch_index
        Number of the batch, for `batch`.
    """
    problem, grown_matrix = operands.problem, operands.grown
    if operation == "stream":
        entries = Entries.of(grown_matrix)
        if order == "any":
            entries = entries.take(np.random.default_rng(SHUFFLE_SEED).permutation(grown_matrix.nnz))
        return UpdatePlan(sp.csr_array(grown_matrix.shape, dtype=grown_matrix.dtype), [entries])
    if not problem.batches:
        raise Unsupported("there is no batch to insert")
    batches = []
    for i in range(problem.batches) if batch_index is None else [batch_index]:
        rows, columns, values = problem.batch(i)
        batch = Entries(rows, columns, values.astype(grown_matrix.dtype))
        batches.append(batch.by_row() if order == "sorted" else batch)
    return UpdatePlan(operands.base, batches)


def plan_on(
    workspace: Workspace, operation: UpdateName, order: EntryOrder, batch_index: int | None = None
) -> UpdatePlan:
    """Return an update's plan, which the workspace keeps."""
    key = "updating", operation, order, batch_index
    return workspace.cached(key, lambda: update_plan(operands_of(workspace), operation, order, batch_index))


class MatrixOperation(MatrixRunnable):
    """A runnable that leaves a matrix, made from the modules (by name) of one precision."""

    kind = BASELINE_KIND
    #: Caches are not flushed, since a launch mostly reads other data than the launch before it.
    cold = False
    #: Names of the required modules.
    modules: tuple[str, ...] = ()

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        self._built = modules
        self._stack = ExitStack()
        self._read: Callable[[], sp.csr_array] = not_prepared
        self._restore: Callable[[], None] = not_prepared

    @property
    def identity(self) -> str:
        return " ".join(self._built[name].module.hash for name in self.modules)

    def prepare(self, workspace: Workspace) -> None:
        self.release()
        with ExitStack() as stack:
            self.bind(RunnableContext(workspace, self._built, stack), operands_of(workspace))
            self._stack = stack.pop_all()

    @abstractmethod
    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        """Prepare the launch and set `_read`; `work` keeps everything that must be released."""

    def result(self) -> sp.csr_array:
        return self._read()

    def release(self) -> None:
        self._stack, stack = ExitStack(), self._stack
        stack.close()
        self.launch = self._read = self._restore = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)


class BatchUpdate(MatrixOperation):
    """An update of a format by batches; the parameters are those of `update_plan`.

    Several batches are captured in one graph: launched one by one, they would overflow the device's queue.
    """

    format: str
    #: Event clock only: before each launch the initial state is restored, which is impossible within a graph.
    clocks: tuple[ClockName, ...] = ("event",)
    #: Stages of a stream's single batch that are timed separately.
    stages_of_stream: tuple[str, ...] = ()

    def __init__(
        self,
        modules: Mapping[str, ModuleFile],
        operation: UpdateName = "insert",
        order: EntryOrder = "any",
        batch_index: int | None = None,
    ) -> None:
        super().__init__(modules)
        self.operation, self.order, self._which = operation, order, batch_index
        self.name = f"{self.format}/{operation}{'' if batch_index is None else f'-{batch_index}'}/{order}"
        self._batch: int | None = None
        self._y: Buffer | None = None
        self._read_y: Callable[[], NDArray[np.floating]] | None = None
        if batch_index is not None:
            self.leaves = batch_index
        if operation == "iterate":
            self.modules = (*self.modules, "product")
        if operation == "stream":
            self.stages = dict.fromkeys(self.stages_of_stream, not_prepared)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {
            "what": self.operation,
            "format": self.format,
            "order": self.order,
            "mode": "unique" if self.sums else "add",
            "batch": self._batch,
        }

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        """Bind the update; its row records the mean batch size."""
        plan = plan_on(work.workspace, self.operation, self.order, self._which)
        self._batch = plan.mean_batch
        self.bind_updates(work, plan)
        if len(plan.batches) > 1 and "event" in self.clocks:
            self.before()
            self.launch, self.clocks = work.captured(self.launch), ("event",)
        if self._y:
            work.device.fill(self._y, NAN_BYTE)

    @abstractmethod
    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        """Upload the initial matrix and the batches, and bind the kernels that insert the batches."""

    def with_products(
        self, work: RunnableContext, updates: Sequence[Launcher], product: Callable[[int, Buffer, Buffer], Launcher]
    ) -> list[Launcher]:
        """Return the updates; if the update iterates, each is followed by products.

        Parameters
        ----------
        updates
            One launch for each batch.
        product
            Returns a launch of y = A x with the matrix after a batch, given its number, x and y.
        """
        if self.operation != "iterate":
            return [*updates]
        x, y = x_on(work.workspace, "AoS"), y_on(work.workspace)
        shape = operands_of(work.workspace).reference.shape
        self._y = y
        self._read_y = lambda: work.download(y, shape[0], operands_of(work.workspace).x.dtype)
        return [run for i, update in enumerate(updates) for run in (update, *[product(i, x, y)] * PRODUCTS_PER_BATCH)]

    def product(self) -> NDArray[np.floating] | None:
        return self._read_y() if self._read_y else None

    def release(self) -> None:
        super().release()
        self._y = self._read_y = None


StoredFormat = Literal["coo", "csr", "dcsr", "hyb"]
#: Conversions between static formats; CSR to CSR is the plain copy with which the others are compared.
STATIC_PAIRS: tuple[tuple[StoredFormat, StoredFormat], ...] = (
    ("csr", "csr"),
    ("coo", "csr"),
    ("coo", "hyb"),
    ("csr", "hyb"),
)


class FormatConversion(MatrixOperation):
    """Conversion of the grown matrix to another format whose memory is allocated beforehand.

    Coordinates are sorted by row; within a row, entries have the matrix's order, as in the paper's tests.
    """

    def __init__(self, modules: Mapping[str, ModuleFile], source: StoredFormat, target: StoredFormat) -> None:
        super().__init__(modules)
        self._source, self._target = source, target
        self.name = f"convert/{source}-{target}"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "convert", "format": self._source, "to_format": self._target}

    def bind_offsets(self, work: RunnableContext, matrix: sp.csr_array) -> tuple[Buffer, Buffer, Callable[[], None]]:
        """Upload the rows of coordinates; return these, CSR's offsets, and a launch that computes the offsets."""
        rows = matrix.shape[0]
        entry_rows = work.upload(Entries.of(matrix).rows)
        offsets = work.allocate(4 * (rows + 1), "the offsets of CSR")
        launch = work.bind("rebuild", "offsets_of_rows", rows + 1, rows, int(matrix.nnz), entry_rows, offsets)
        return entry_rows, offsets, launch


class StaticConversion(FormatConversion):
    """A conversion between static formats, one of `STATIC_PAIRS`."""

    modules = ("hybrid", "rebuild", "sort")

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        csr = CsrMemory.upload(work, matrix)
        index = {"csr": 4 * (rows + 1), "coo": 4 * nnz}
        self.bytes_moved = index[self._source] + 2 * nnz * (4 + number) + index["csr"]
        entry_rows, offsets, launches = None, csr.offsets, []
        if self._source == "coo":
            entry_rows, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        if self._target == "csr":
            target, copied_offsets = CsrMemory.allocate(work, rows, nnz, number), rows + 1
            if entry_rows is not None:
                target, copied_offsets = target._replace(offsets=offsets), 0
            launches.append(bind_csr_copy(work, (copied_offsets, nnz, nnz * number // 4), csr, target))
            self._read = lambda: target.read(work, matrix.shape, matrix.dtype)
            self.launch = in_order(launches)
            return
        width = hybrid_width(rows, nnz)
        overflow_count = overflow(np.diff(matrix.indptr), width)
        hybrid = Hybrid(work, sp.csr_array(matrix.shape, dtype=matrix.dtype), width, overflow_count)
        starts = work.allocate(4 * (rows + 1), "the sums of coordinates")
        scan = work.keep(Scan(work.device, work.load("sort"), rows, work.guards))
        coordinates: DeviceEntries = hybrid.coordinates.sides[0]
        shape = nnz, rows, width, hybrid.pitch
        fill = work.bind(
            "hybrid", "hybrid_fill_from_offsets" if entry_rows is None else "hybrid_fill_from_rows", nnz,
            *shape, offsets, starts, *csr[1:], hybrid.columns, hybrid.values, *coordinates,
            *(() if entry_rows is None else (entry_rows,)),
        )  # fmt: skip
        launches += [
            work.bind("hybrid", "hybrid_count", rows, rows, width, offsets, hybrid.counts, starts),
            in_order([scan.bind(starts, starts, rows), fill]),
        ]
        self._read = lambda: hybrid.read(0, overflow_count)
        self.launch = in_order(launches)


def binned_products(
    work: RunnableContext, storage: Storage, sizes: NDArray[np.int32]
) -> Callable[[Buffer, Buffer], Run]:
    """Bin rows by their current sizes, and return a function that binds y = A x with these bins.

    The products stay correct after insertions and deletions, but get slower as rows outgrow their bins.
    """
    device = work.device
    schedule = usual_bins(device.target)
    bins = bin_rows(sizes, our_min_lengths(device.target, schedule.per_thread))
    parts = parts_of(bins, sizes, device.target)
    order, parts_on_device = work.upload(bins.order), work.upload(nonempty_parts(parts))
    sums = work.upload(np.zeros(max(len(parts), 1), storage.dtype))
    part_counts = work.upload(np.zeros(max(len(parts), 1), np.int32))
    matrix = stored_rows(storage)
    kernel = f"bins_dcsr_u{schedule.in_flight}_{schedule.load}"

    def bind(x: Buffer, y: Buffer) -> Run:
        return bind_bins(
            device,
            work.load("product").kernel(kernel),
            bins,
            (len(parts), [parts_on_device, sums, part_counts]),
            [order, *matrix.arguments(False), x, y],
        )

    return bind


VARIANT_KIND = "variant"
DYNAMIC_FORMAT = "dcsr"
DYNAMIC_MODULES = ("matrix", "rebuild", "sort")
InsertionMode = Literal["add", "unique"]
#: Minimum free entries per row if a single batch is inserted into rows with free space.
MIN_CAPACITY = 16


class DynamicUpdate(BatchUpdate):
    """Inserting batches into a dynamic matrix, one after the other.

    Initially each row has one segment. For a streamed matrix its capacity is the mean row size (as in the paper); for
    all batches, the row's own size; for a single batch, a larger size with space for the batch's mean number of entries
    per row.

    Mode `add` keeps duplicates of a place as separate entries; `unique` adds to the existing value.
    """

    kind = VARIANT_KIND
    format = DYNAMIC_FORMAT
    modules = DYNAMIC_MODULES

    def __init__(
        self,
        modules: Mapping[str, ModuleFile],
        operation: UpdateName = "insert",
        order: EntryOrder = "any",
        batch_index: int | None = None,
        mode: InsertionMode = "add",
    ) -> None:
        super().__init__(modules, operation, order, batch_index)
        self.sums = mode == "unique"
        self.name += f"/{mode}"
        self._slack: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "space": EXTENDED, "segments": SEGMENTS, "slack": self._slack}

    def bind_updates(self, work: RunnableContext, plan: UpdatePlan) -> None:
        """Upload the matrix and the batches; raise Unsupported if the batches would need a defragmentation."""
        arrays, self._slack = initial_matrix(plan, self.operation)
        storage = guarded_storage(work, arrays)
        operations = operations_on(work, storage)
        pristine = [work.upload(array) for array in (arrays.table, state_words(arrays), arrays.sizes)]
        word_counts = arrays.segments * table_pitch(arrays.shape[0]), kernels.STATE_WORDS, arrays.shape[0]
        self._restore = bind_csr_copy(work, word_counts, pristine, [storage.table, storage.state, storage.sizes])
        if self.sums:  # mode `unique` adds to existing values
            initial_values = arrays.values[: arrays.pointer]
            values = bind_csr_copy(
                work, (initial_values.nbytes // 4, 0, 0), 3 * [work.upload(initial_values)], 3 * [storage.values]
            )
            self._restore = in_order([self._restore, values])
        launches, unplaced = [], []
        for entries in plan.batches:
            batch = EntryBatch(len(entries.rows), *DeviceEntries.upload(work, entries), grouped=self.order == "sorted")
            launches.append(self._bind_batch(operations, batch))
        self._restore()
        for launch in launches:
            launch()
            unplaced.append(storage.report().unplaced)
        if any(unplaced):
            raise Unsupported(
                f"{sum(unplaced)} entries of {sum(map(bool, unplaced))} batches found no room: the matrix would have "
                "to be brought together on the way"
            )
        self._read = lambda: storage.download().to_csr()
        products = cache(partial(binned_products, work, storage, arrays.sizes))  # bins of the initial row sizes
        self.launch = in_order(self.with_products(work, launches, lambda _, x, y: products()(x, y)))

    def _bind_batch(self, operations: Operations, batch: EntryBatch) -> Callable[[], None]:
        if not batch.count:
            return lambda: None
        assert self._slack is not None
        if not self.sums:
            return operations.insertion(batch, self._slack).launch
        arrange, arranged = operations.sorting(batch)
        return in_order([arrange, operations.unique_insertion(batch, arranged, self._slack, "add").launch])

    def before(self) -> None:
        self._restore()


class RivalUpdate(RivalUpdates, MatrixRunnable):
    """An update by a rival, which adds to the value of an existing entry; parameters as for `update_plan`."""

    sums = True

    def __init__(
        self, rival: Rival, operation: SingleUpdate, order: EntryOrder, batch_index: int | None = None
    ) -> None:
        super().__init__(rival)
        self.operation, self.order, self._which = operation, order, batch_index
        self.name += f"/{operation}{'' if batch_index is None else f'-{batch_index}'}/{order}"
        self._batch: int | None = None
        if batch_index is not None:
            self.leaves = batch_index

    @property
    def columns(self) -> Mapping[str, Any]:
        return {
            "what": self.operation,
            "routine": self.label,
            "format": self.rival.format,
            "order": self.order,
            "mode": "unique",
            "batch": self._batch,
            **({} if self.setup_seconds is None else {"preprocess": self.setup_seconds}),
        }

    def _growth(self, workspace: Workspace) -> tuple[sp.csr_array, Sequence[Entries]]:
        plan = plan_on(workspace, self.operation, self.order, self._which)
        self._batch = plan.mean_batch
        return plan


class Defragmentation(MatrixOperation):
    """Defragmentation: rows of the grown matrix are copied to another buffer, where each has one segment."""

    kind = VARIANT_KIND
    modules: tuple[str, ...] = DYNAMIC_MODULES
    name = f"{DYNAMIC_FORMAT}/defragment"

    @property
    def columns(self) -> Mapping[str, Any]:
        state = {"state": "fragmented", "segments": SEGMENTS}
        return {"what": "defragment", "format": DYNAMIC_FORMAT, "space": EXTENDED, **state}

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        arrays = state_in(work.workspace, operands, "fragmented")
        storage = guarded_storage(work, arrays)
        nnz, rows, number = arrays.nnz, arrays.shape[0], arrays.values.itemsize
        target = guarded_storage(work, lay_out(sp.csr_array(arrays.shape, dtype=arrays.values.dtype), SEGMENTS, nnz))
        # entries: read and write; pairs in use and sizes: read; pairs of all slots and sizes: write
        pairs = 8 * int(arrays.fragments.sum()) + 8 * SEGMENTS * rows
        self.bytes_moved = 2 * nnz * (4 + number) + pairs + 8 * rows
        self.launch = self.bind_copy(work, storage, target)
        self._read = lambda: read_exact(target, nnz)

    def bind_copy(self, work: RunnableContext, storage: Storage, target: Storage) -> Launcher:
        """Return a launch that copies the rows of a matrix to another one, where each row has one segment."""
        return operations_on(work, storage).together(target)


class DynamicConversion(FormatConversion):
    """Conversion from `csr` or `coo` to dynamic CSR with one segment per row, or from dynamic CSR to `csr`."""

    kind = VARIANT_KIND
    modules = DYNAMIC_MODULES

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "space": EXTENDED}

    def bind(self, work: RunnableContext, operands: GraphOperands) -> None:
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        self.bytes_moved = 2 * nnz * (4 + number) + 12 * rows
        if self._source == DYNAMIC_FORMAT:
            compact = lay_out(matrix, SEGMENTS)
            operations = operations_on(work, guarded_storage(work, compact))
            target = guarded_storage(work, lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz))
            self.launch = operations.together(target)
            self._read = lambda: read_exact(target, nnz)
            return
        csr = CsrMemory.upload(work, matrix)
        blank = lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz)
        storage = guarded_storage(work, blank)
        launches, offsets = [], csr.offsets
        if self._source == "coo":
            _, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        launches += [
            bind_csr_copy(work, (0, nnz, nnz * number // 4), csr, (offsets, storage.columns, storage.values)),
            operations_on(work, storage).adoption(offsets),
        ]
        self._read = lambda: storage.download().to_csr()
        self.launch = in_order(launches)


def guarded_storage(work: RunnableContext, arrays: Arrays) -> Storage:
    """Upload a matrix, with guard zones around its arrays."""
    names: dict[str, NDArray[Any]] = {
        "columns": arrays.columns,
        "values": arrays.values,
        "table": arrays.table,
        "sizes": arrays.sizes,
    }
    names |= {"versions": np.zeros_like(arrays.sizes), "state": state_words(arrays)}
    # memory without segments has undefined contents and may be most of the buffer
    used_entries = dict.fromkeys(("columns", "values"), arrays.pointer)
    buffers = (
        work.upload_writable(array, f"the {name} of the matrix", used_entries.get(name))
        for name, array in names.items()
    )
    dtype = arrays.values.dtype
    return Storage(work.device, arrays.shape, arrays.segments, arrays.capacity, dtype, *buffers)


def operations_on(work: RunnableContext, storage: Storage) -> Operations:
    scratch = work.keep(Scratch(work.device))
    return work.keep(Operations(storage, work.load("matrix"), work.load("sort"), scratch))


def initial_matrix(plan: UpdatePlan, operation: UpdateName, slack: int | None = None) -> tuple[Arrays, int]:
    """Return the initial matrix of dynamic CSR, and the slack of new segments.

    If `slack` is None, it is the mean row size (for a streamed matrix, that of the grown matrix).
    """
    rows, start = plan.start.shape[0], plan.start
    counts = [len(batch.rows) for batch in plan.batches]
    mean = (plan.after if operation == "stream" else start.nnz) // max(rows, 1)
    slack = mean if slack is None else slack
    batch_room = buffer_capacity(counts, rows, SEGMENTS, slack)
    if operation == "stream":
        return lay_out(start, SEGMENTS, rows * mean + batch_room, width=mean), slack
    if operation in ("insert", "iterate"):
        return lay_out(start, SEGMENTS, start.nnz + batch_room), slack
    # a single batch: twice the mean space that it needs, and a margin for rows drawn at random
    room = 2 * (-(-sum(counts) // max(rows, 1))) + MIN_CAPACITY
    return lay_out(start, SEGMENTS, start.nnz + rows * room + batch_room, slack=room), slack


def state_words(arrays: Arrays) -> NDArray[np.int32]:
    state = np.zeros(kernels.STATE_WORDS, np.int32)
    state[kernels.STATE_BUFFER_END] = arrays.pointer
    return state


def read_exact(storage: Storage, nnz: int) -> sp.csr_array:
    """Return a matrix that must have one segment per row, without slack."""
    arrays = storage.download()
    if (arrays.fragments > 1).any() or arrays.pointer != nnz or int(arrays.segment_capacity.sum()) != nnz:
        raise IncorrectError("rows have more than one segment, or room")
    return arrays.to_csr()
