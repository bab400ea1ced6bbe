"""Updates and conversions: the runnables of dynamic CSR, and the base of those of all other formats.

An update starts from a matrix and inserts batches, or it inserts the whole matrix into an empty one.
Conversions are those of the paper's Table 5.3: entries are sorted by row, and memory of the target is allocated
before the clock starts. Products of a matrix that changes have its rows in bins by the sizes of an earlier
time.
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

from repro.bench.runnable import ClockName, IncorrectError, Unsupported, in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.device_work import ModuleFile, Scan, Work
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.layout import SEGMENTS, Arrays, lay_out, pitch_of, room_for
from repro.sparse.dynamic.matrix import Run, bind_bins, matrix_of
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.schedules import at_least_one, bin_rows, our_min_lengths, parts_of, usual_bins
from repro.sparse.dynamic.storage import Batch, Storage
from repro.sparse.elementwise import Scratch, in_order
from repro.sparse.operands import NAN_BYTE, x_on, y_on
from repro.studies.dynamic_csr import PRODUCTS_PER_BATCH
from repro.studies.dynamic_csr.facts import hybrid_width
from repro.studies.dynamic_csr.formats import CsrMemory, DeviceEntries, Entries, Hybrid, bind_csr_copy, overflow
from repro.studies.dynamic_csr.operands import GraphOperands, MatrixRunnable, operands_of, state_in

BASELINE_KIND = "rival"
SingleUpdate = Literal["insert", "stream", "batch"]
UpdateName = Literal[SingleUpdate, "iterate"]
EntryOrder = Literal["sorted", "any"]
#: The order of entries that come in any order.
SHUFFLE_SEED = 20170501


Launcher = Callable[[], None]


class UpdatePlan(NamedTuple):
    """What there is, and what is inserted one batch after the other."""

    start: sp.csr_array
    batches: list[Entries]

    @property
    def after(self) -> int:
        """Entries in the end."""
        return int(self.start.nnz + sum(len(batch.rows) for batch in self.batches))


def update_plan(operands: GraphOperands, what: UpdateName, order: EntryOrder, which: int | None = None) -> UpdatePlan:
    """Return what an update starts from, and its batches.

    Parameters
    ----------
    what
        `insert`: the problem's batches into its matrix. `iterate`: the same, and products after each batch. `stream`:
        the grown matrix as one batch into an empty one. `batch`: one of the problem's batches into its matrix.
    order
        `sorted`: the entries of a batch come by row. `any`: batches as they are; the grown matrix shuffled.
    which
        The one, for `batch`.

    Raises
    ------
    Unsupported
        There is no batch.
    """
    problem, grown = operands.problem, operands.grown
    if what == "stream":
        entries = Entries.of(grown)
        if order == "any":
            entries = entries.take(np.random.default_rng(SHUFFLE_SEED).permutation(grown.nnz))
        return UpdatePlan(sp.csr_array(grown.shape, dtype=grown.dtype), [entries])
    if not problem.batches:
        raise Unsupported("there is no batch to insert")
    batches = []
    for i in range(problem.batches) if which is None else [which]:
        rows, columns, values = problem.batch(i)
        batch = Entries(rows, columns, values.astype(grown.dtype))
        batches.append(batch.by_row() if order == "sorted" else batch)
    return UpdatePlan(operands.base, batches)


class MatrixOperation(MatrixRunnable):
    """A runnable of this study that leaves a matrix in another format.

    Parameters
    ----------
    built
        The modules of a precision by name.
    """

    kind = BASELINE_KIND
    #: What it reads, or most of it, is not what the launch before it read.
    cold = False
    #: Modules that it needs.
    modules: tuple[str, ...] = ()

    def __init__(self, built: Mapping[str, ModuleFile]) -> None:
        self._built = built
        self._held = ExitStack()
        self._read: Callable[[], sp.csr_array] = not_prepared
        self._restore: Callable[[], None] = not_prepared

    @property
    def identity(self) -> str:
        """The hashes of its modules."""
        return " ".join(self._built[name].module.hash for name in self.modules)

    def prepare(self, workspace: Workspace) -> None:
        """Bring what it needs to the device and bind its kernels.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self.bind(Work(workspace, self._built, held), operands_of(workspace))
            self._held = held.pop_all()

    @abstractmethod
    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Do what `prepare` does, and say how the matrix is read; what is held is given to `work`."""

    def result(self) -> sp.csr_array:
        """Wait for what is queued and return the matrix."""
        return self._read()

    def release(self) -> None:
        """Give all memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch = self._read = self._restore = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)


class BatchUpdate(MatrixOperation):
    """A rival that is updated.

    Several batches are one operation of the device, a graph: one by one they would be more than its queue holds.

    Parameters
    ----------
    built
        The modules of a precision by name.
    what, order, which
        As of `updating`.
    """

    format: str
    #: What is put back before a launch cannot be put back within a graph.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(
        self,
        built: Mapping[str, ModuleFile],
        what: UpdateName = "insert",
        order: EntryOrder = "any",
        which: int | None = None,
    ) -> None:
        super().__init__(built)
        self.what, self.order, self._which = what, order, which
        self.name = f"{self.format}/{what}{'' if which is None else f'-{which}'}/{order}"
        self._batch: int | None = None
        self._y: Buffer | None = None
        self._read_y: Callable[[], NDArray[np.floating]] | None = None
        if which is not None:
            self.leaves = which
        if what == "iterate":
            self.modules = (*self.modules, "product")

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, and with how many entries a batch."""
        return {
            "what": self.what,
            "format": self.format,
            "order": self.order,
            "mode": "unique" if self.sums else "add",
            "batch": self._batch,
        }

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bind the update; the batch of its row is the mean of all."""
        key = "updating", self.what, self.order, self._which
        plan = work.fact(key, lambda: update_plan(operands, self.what, self.order, self._which))
        self._batch = round((plan.after - plan.start.nnz) / len(plan.batches))
        self.bind_updates(work, plan)
        if len(plan.batches) > 1 and "event" in self.clocks:
            self.before()
            self.launch, self.clocks = work.captured(self.launch), ("event",)
        if self._y:
            work.device.fill(self._y, NAN_BYTE)

    @abstractmethod
    def bind_updates(self, work: Work, plan: UpdatePlan) -> None:
        """Bring start and batches to the device, and bind the kernels that insert them."""

    def with_products(
        self, work: Work, updates: Sequence[Launcher], product: Callable[[int, Buffer, Buffer], Launcher]
    ) -> list[Launcher]:
        """Return the updates, and where it iterates products behind each of them.

        Parameters
        ----------
        updates
            One a batch.
        product
            Given the number of a batch, x and y, returns what queues y = A x with the matrix that it leaves.
        """
        if self.what != "iterate":
            return [*updates]
        x, y = x_on(work.workspace, "AoS"), y_on(work.workspace)
        shape = operands_of(work.workspace).reference.shape
        self._y = y
        self._read_y = lambda: work.download(y, shape[0], operands_of(work.workspace).x.dtype)
        return [run for i, update in enumerate(updates) for run in (update, *[product(i, x, y)] * PRODUCTS_PER_BATCH)]

    def product(self) -> NDArray[np.floating] | None:
        """Wait for what is queued and return the last product."""
        return self._read_y() if self._read_y else None

    def release(self) -> None:
        """Give all memory back."""
        super().release()
        self._y = self._read_y = None


StoredFormat = Literal["coo", "csr", "dcsr", "hyb"]
#: Conversions of formats that are not dynamic; that of CSR to CSR is the copy which the others are held against.
STATIC_PAIRS: tuple[tuple[StoredFormat, StoredFormat], ...] = (
    ("csr", "csr"),
    ("coo", "csr"),
    ("coo", "hyb"),
    ("csr", "hyb"),
)


class FormatConversion(MatrixOperation):
    """The grown matrix from one format into another, whose memory is there already.

    Coordinates come sorted by row, those of a row in the order of the matrix, as in the paper's tests.

    Parameters
    ----------
    built
        The modules of a precision by name.
    source, target
        The formats.
    """

    def __init__(self, built: Mapping[str, ModuleFile], source: StoredFormat, target: StoredFormat) -> None:
        super().__init__(built)
        self._source, self._target = source, target
        self.name = f"convert/{source}-{target}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is converted into what."""
        return {"what": "convert", "format": self._source, "to_format": self._target}

    def bind_offsets(self, work: Work, matrix: sp.csr_array) -> tuple[Buffer, Buffer, Callable[[], None]]:
        """Bring the rows of coordinates to the device; return them, the offsets of CSR, and what queues these."""
        rows = matrix.shape[0]
        entry_rows = work.upload(Entries.of(matrix).rows)
        offsets = work.allocate(4 * (rows + 1), "the offsets of CSR")
        launch = work.bind("rebuild", "offsets_of_rows", rows + 1, rows, int(matrix.nnz), entry_rows, offsets)
        return entry_rows, offsets, launch


class StaticConversion(FormatConversion):
    """A conversion of formats that are not dynamic, one of `PAIRS`."""

    modules = ("hybrid", "rebuild", "sort")

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the matrix to the device in the source's format, and bind the kernels."""
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        given = CsrMemory.upload(work, matrix)
        index = {"csr": 4 * (rows + 1), "coo": 4 * nnz}
        self.moved = index[self._source] + 2 * nnz * (4 + number) + index["csr"]
        entry_rows, offsets, launches = None, given.offsets, []
        if self._source == "coo":
            entry_rows, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        if self._target == "csr":
            to = CsrMemory.allocate(work, rows, nnz, number)._replace(offsets=offsets)
            copied = 0
            if entry_rows is None:
                to, copied = CsrMemory.allocate(work, rows, nnz, number), rows + 1
            launches.append(bind_csr_copy(work, (copied, nnz, nnz * number // 4), given, to))
            self._read = lambda: to.read(work, matrix.shape, matrix.dtype)
            self.launch = in_order(launches)
            return
        width = hybrid_width(rows, nnz)
        over = overflow(np.diff(matrix.indptr), width)
        hybrid = Hybrid(work, sp.csr_array(matrix.shape, dtype=matrix.dtype), width, over)
        starts = work.allocate(4 * (rows + 1), "the sums of coordinates")
        scan = work.keep(Scan(work.device, work.program("sort"), rows, work.guards))
        coordinates: DeviceEntries = hybrid.coordinates.sides[0]
        shape = nnz, rows, width, hybrid.pitch
        fill = work.bind(
            "hybrid", "hybrid_fill_from_offsets" if entry_rows is None else "hybrid_fill_from_rows", nnz,
            *shape, offsets, starts, *given[1:], hybrid.columns, hybrid.values, *coordinates,
            *(() if entry_rows is None else (entry_rows,)),
        )  # fmt: skip
        launches += [
            work.bind("hybrid", "hybrid_count", rows, rows, width, offsets, hybrid.counts, starts),
            in_turn(scan.bind(starts, starts, rows), fill),
        ]
        self._read = lambda: hybrid.read(0, over)
        self.launch = in_order(launches)


def binned_products(work: Work, storage: Storage, sizes: NDArray[np.int32]) -> Callable[[Buffer, Buffer], Run]:
    """Bin rows by their sizes now, and return what binds y = A x with them.

    The products stay right whatever is inserted into the rows, or deleted; they get slower as rows grow out of their
    bins.

    Parameters
    ----------
    work
        What holds the bins; module `product`.
    storage
        The matrix, which keeps its buffers.
    sizes
        Entries of each row at the time, `(rows,)`.
    """
    device = work.device
    schedule = usual_bins(device.target)
    bins = bin_rows(sizes, our_min_lengths(device.target, schedule.per_thread))
    parts = parts_of(bins, sizes, device.target)
    order, parts_on_device = work.upload(bins.order), work.upload(at_least_one(parts))
    sums = work.upload(np.zeros(max(len(parts), 1), storage.dtype))
    done = work.upload(np.zeros(max(len(parts), 1), np.int32))
    matrix = matrix_of(storage)
    kernel = f"bins_dcsr_u{schedule.unroll}_{schedule.load}"

    def bind(x: Buffer, y: Buffer) -> Run:
        return bind_bins(
            device,
            work.program("product").kernel(kernel),
            bins,
            (len(parts), [parts_on_device, sums, done]),
            [order, *matrix.arguments(False), x, y],
        )

    return bind


VARIANT_KIND = "variant"
DYNAMIC_FORMAT = "dcsr"
DYNAMIC_MODULES = ("matrix", "rebuild", "sort")
InsertionMode = Literal["add", "unique"]
#: Entries that a row has room for at the least where batches of their own come into rows with room.
MIN_CAPACITY = 16


class DynamicUpdate(BatchUpdate):
    """Batches into a dynamic matrix, one after the other.

    What is streamed as a whole comes into rows with one segment of the mean size, as in the paper; batches into rows
    with one segment of their size, and a batch of its own into rows with room for it in the mean.

    Parameters
    ----------
    built
        The modules of a precision by name.
    what, order, which
        As of `updating`.
    mode
        `add`: entries of a place come beside each other. `unique`: they are added to the one that is there.
    """

    kind = VARIANT_KIND
    format = DYNAMIC_FORMAT
    modules = DYNAMIC_MODULES

    def __init__(
        self,
        built: Mapping[str, ModuleFile],
        what: UpdateName = "insert",
        order: EntryOrder = "any",
        which: int | None = None,
        mode: InsertionMode = "add",
    ) -> None:
        super().__init__(built, what, order, which)
        self.sums = mode == "unique"
        self.name += f"/{mode}"
        self._slack: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, and the chains of the matrix."""
        return {**super().columns, "segments": SEGMENTS, "slack": self._slack}

    def bind_updates(self, work: Work, plan: UpdatePlan) -> None:
        """Bring the matrix and the batches to the device, and bind what inserts them.

        Raises
        ------
        Unsupported
            Chains are full in the middle of the batches, so that a launch would have to stop.
        """
        arrays, self._slack = _initial_matrix(plan, self.what)
        storage = guarded_storage(work, arrays)
        operations = operations_on(work, storage)
        pristine = [work.upload(array) for array in (arrays.table, _state_words(arrays), arrays.sizes)]
        self._restore = _bind_state_copy(work, arrays, pristine, [storage.table, storage.state, storage.sizes])
        if self.sums:  # values are added to
            given = arrays.values[: arrays.pointer]
            values = bind_csr_copy(work, (given.nbytes // 4, 0, 0), 3 * [work.upload(given)], 3 * [storage.values])
            self._restore = in_turn(self._restore, values)
        launches, lacking = [], []
        for entries in plan.batches:
            batch = Batch(len(entries.rows), *DeviceEntries.upload(work, entries), grouped=self.order == "sorted")
            launches.append(self._bind_batch(operations, batch))
        self._restore()
        for launch in launches:
            launch()
            lacking.append(storage.report().left)
        if any(lacking):
            raise Unsupported(
                f"{sum(lacking)} entries of {sum(map(bool, lacking))} batches found no room: the matrix would have to "
                "be brought together on the way"
            )
        self._read = lambda: storage.download().to_csr()
        products = cache(partial(binned_products, work, storage, arrays.sizes))  # binned once, as rows are at first
        self.launch = in_order(self.with_products(work, launches, lambda _, x, y: products()(x, y)))

    def _bind_batch(self, operations: Operations, batch: Batch) -> Callable[[], None]:
        if not batch.count:
            return lambda: None
        assert self._slack is not None
        if not self.sums:
            return operations.insertion(batch, self._slack).launch
        arrange, arranged = operations.arranged(batch)
        return in_turn(arrange, operations.unique_insertion_of(batch, arranged, self._slack, "add").launch)

    def before(self) -> None:
        """Take all batches out again."""
        self._restore()


class Defragmentation(MatrixOperation):
    """All rows of the grown matrix, as the batches left it, into one segment each of another buffer."""

    kind = VARIANT_KIND
    modules = DYNAMIC_MODULES
    name = f"{DYNAMIC_FORMAT}/defragment"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is brought together."""
        return {"what": "defragment", "format": DYNAMIC_FORMAT, "state": "fragmented", "segments": SEGMENTS}

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Lay the matrix out as the batches leave it, and bind what brings it together."""
        arrays = state_in(work.workspace, operands, "fragmented")
        storage = guarded_storage(work, arrays)
        nnz, rows, number = arrays.nnz, arrays.shape[0], arrays.values.itemsize
        target = guarded_storage(work, lay_out(sp.csr_array(arrays.shape, dtype=arrays.values.dtype), SEGMENTS, nnz))
        # entries twice; pairs in use and sizes read, pairs of all slots and sizes written
        pairs = 8 * int(arrays.fragments.sum()) + 8 * SEGMENTS * rows
        self.moved = 2 * nnz * (4 + number) + pairs + 8 * rows
        self.launch = bind_defragmentation(operations_on(work, storage), target)
        self._read = lambda: _read_exact(target, nnz)


class DynamicConversion(FormatConversion):
    """A conversion into dynamic CSR, from `csr` or `coo`, or out of it, into `csr`.

    A dynamic matrix comes with one segment a row.
    """

    kind = VARIANT_KIND
    modules = DYNAMIC_MODULES

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the matrix to the device in the source's format, and bind the kernels."""
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        self.moved = 2 * nnz * (4 + number) + 12 * rows
        if self._source == DYNAMIC_FORMAT:
            compact = lay_out(matrix, SEGMENTS)
            operations = operations_on(work, guarded_storage(work, compact))
            target = guarded_storage(work, lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz))
            self.launch = bind_defragmentation(operations, target)
            self._read = lambda: _read_exact(target, nnz)
            return
        given = CsrMemory.upload(work, matrix)
        blank = lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz)
        storage = guarded_storage(work, blank)
        launches, offsets = [], given.offsets
        if self._source == "coo":
            _, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        launches += [
            bind_csr_copy(work, (0, nnz, nnz * number // 4), given, (offsets, storage.columns, storage.values)),
            operations_on(work, storage).adoption(offsets),
        ]
        self._read = lambda: storage.download().to_csr()
        self.launch = in_order(launches)


def guarded_storage(work: Work, arrays: Arrays) -> Storage:
    """Bring a matrix to the device, its arrays between guard zones."""
    names: dict[str, NDArray[Any]] = {
        "columns": arrays.columns,
        "values": arrays.values,
        "table": arrays.table,
        "sizes": arrays.sizes,
    }
    names |= {"versions": np.zeros_like(arrays.sizes), "state": _state_words(arrays)}
    # where no segment is cut off yet, entries are undefined: that may be most of the memory
    used = dict.fromkeys(("columns", "values"), arrays.pointer)
    buffers = (work.load(array, f"the {name} of the matrix", used.get(name)) for name, array in names.items())
    dtype = arrays.values.dtype
    return Storage(work.device, arrays.shape, arrays.segments, arrays.capacity, dtype, *buffers)


def operations_on(work: Work, storage: Storage) -> Operations:
    """Return the operations of a matrix, with memory for what passes between their kernels."""
    scratch = work.keep(Scratch(work.device))
    return work.keep(Operations(storage, work.program("matrix"), work.program("sort"), scratch))


def bind_defragmentation(operations: Operations, target: Storage) -> Callable[[], None]:
    """Return what queues a defragmentation into a matrix that is large enough, without slack."""
    rooms, offsets = operations.rooms(0)
    return in_turn(rooms, operations.copy(offsets, target, slack=False))


def _initial_matrix(plan: UpdatePlan, what: UpdateName) -> tuple[Arrays, int]:
    """Return the matrix before the first batch, and the slack: the mean row size of what the rows are to hold."""
    rows, start = plan.start.shape[0], plan.start
    counts = [len(batch.rows) for batch in plan.batches]
    mean = (plan.after if what == "stream" else start.nnz) // max(rows, 1)
    coming = room_for(counts, rows, SEGMENTS, mean)
    if what == "stream":
        return lay_out(start, SEGMENTS, rows * mean + coming, width=mean), mean
    if what in ("insert", "iterate"):
        return lay_out(start, SEGMENTS, start.nnz + coming), mean
    # a batch of its own: twice the room that it takes in the mean, and some, so that rows drawn at random have it
    room = 2 * (-(-sum(counts) // max(rows, 1))) + MIN_CAPACITY
    return lay_out(start, SEGMENTS, start.nnz + rows * room + coming, slack=room), mean


def _state_words(arrays: Arrays) -> NDArray[np.int32]:
    words = np.zeros(kernels.STATE_WORDS, np.int32)
    words[kernels.STATE_POINTER] = arrays.pointer
    return words


def _bind_state_copy(work: Work, arrays: Arrays, sources: list[Buffer], targets: list[Buffer]) -> Callable[[], None]:
    """Return what queues a copy of table, state and sizes."""
    words = arrays.segments * pitch_of(arrays.shape[0]), kernels.STATE_WORDS, arrays.shape[0]
    return bind_csr_copy(work, words, sources, targets)


def _read_exact(storage: Storage, nnz: int) -> sp.csr_array:
    """Return a matrix that has to have one segment a row without slack.

    Raises
    ------
    IncorrectError
        It has others.
    """
    arrays = storage.download()
    if (arrays.fragments > 1).any() or arrays.pointer != nnz or int(arrays.segment_capacity.sum()) != nnz:
        raise IncorrectError("rows have more than one segment, or room")
    return arrays.to_csr()
