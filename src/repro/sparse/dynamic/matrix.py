"""A sparse matrix on a device, with insertion and deletion of entries.

It allocates the memory that its operations need, and multiplies. A product may run during a change: for each row, it
reads either the state before the change or the state after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import (
    ADDRESS,
    Argument,
    Buffer,
    Call,
    Device,
    Kernel,
    OutOfDeviceMemory,
    Program,
    Queue,
)
from repro.errors import ReproError, ReproErrorOfValue
from repro.sparse.dynamic.host_layout import MAX_ENTRIES, Arrays, check_capacity, table_pitch
from repro.sparse.dynamic.kernels import Report
from repro.sparse.dynamic.operations import Existing, Insertion, Operations
from repro.sparse.dynamic.schedules import LONG_ROWS, RowBins, Schedule, row_widths
from repro.sparse.dynamic.storage import EntryBatch, SortedBatch, Storage
from repro.sparse.elementwise import BLOCK_SIZE, Scratch, in_order

#: Ratio of the capacity of an enlarged buffer to the number of its entries.
GROWTH = 1.5


@dataclass(frozen=True)
class Inserted:
    #: Number of entries that were inserted only after a defragmentation.
    moved: int = 0
    #: Capacity, in entries, by which the buffer was enlarged.
    grown: int = 0


class NoRoom(ReproError):
    """The device has no memory for some entries of a batch; all others were inserted, and the matrix is intact."""

    def __init__(self, left: NDArray[np.int32], total: int, reason: object) -> None:
        self.left, self.reason = left, reason
        super().__init__(
            "there is no room on the device for all of a batch",
            expected=f"room for {total:,} entries",
            actual=f"{len(left):,} of them found none, and none could be made: {reason}",
            todo="insert those named by `left` of this error again once there is memory",
        )


class Unfinished(ReproError):
    """An operation on the matrix was interrupted, so its content is unknown."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            "the matrix was left in the middle of an operation, and what is in it cannot be told",
            actual=operation,
            todo="build it again",
        )


@contextmanager
def _preparation() -> Iterator[None]:
    """Raise `ReproError` for the batch if there is no memory to sort it; the matrix is unchanged."""
    try:
        yield
    except OutOfDeviceMemory as error:
        raise ReproError(
            "not enough memory to sort a batch; nothing was changed", actual=error, todo="split it into parts"
        ) from None


def released_error() -> ReproError:
    return ReproError("the matrix is closed", todo="create a new one")


class DynamicMatrix:
    """A matrix on a device with insertion and deletion of entries.

    After an interrupted operation, every further operation raises `Unfinished`. `matrix` and `sort` are the loaded
    modules of these names. `start` is the initial content, on the host, or on the device, in which case the matrix owns
    it. Each new segment has `slack` free entries.
    """

    def __init__(self, device: Device, matrix: Program, sort: Program, start: Arrays | Storage, slack: int) -> None:
        self.slack = slack
        self._programs = matrix, sort
        self._scratch = Scratch(device)
        self._storage = start if isinstance(start, Storage) else Storage.upload(device, start)
        self._operations = Operations(self._storage, *self._programs, self._scratch)
        self._under_way: str | None = None
        self._released = False
        #: Whether the last report said that its operation finished, and nobody else has queued one since.
        self._finished = False

    @property
    def storage(self) -> Storage:
        """The arrays of the matrix on the device; a defragmentation or growth replaces them."""
        if self._under_way is not None:
            raise Unfinished(self._under_way)
        if self._released:
            raise released_error()
        return self._storage

    @property
    def is_intact(self) -> bool:
        """Whether no operation was interrupted."""
        return self._under_way is None

    def retain(self) -> Storage:
        """Return the current arrays, even during an operation, and keep them until the caller releases them.

        They stay a valid matrix for a reader that checks row versions, but later changes may be missing.
        """
        while True:
            storage = self._storage
            if storage.retain():
                return storage
            if storage is self._storage:
                raise released_error()

    @property
    def operations(self) -> Operations:
        """The operations that can be queued one by one; they do not enlarge the buffer."""
        self._finished = False
        return self._operations

    @property
    def nnz(self) -> int:
        """Number of entries, including duplicates; waits for the device."""
        self.check()
        rooms, offsets = self._operations.rooms(0)
        rooms()
        self._operations.total(offsets)()
        return self._report().total

    def insert(self, batch: EntryBatch, existing: Existing | None = None, grow: bool = True) -> Inserted:
        """Insert a batch of entries, in any order, and wait; raise `NoRoom` if the device has no memory for more space.

        Into rows without a free slot, or without space in the buffer, nothing is inserted at first. The matrix is then
        defragmented with space for these entries, in a larger buffer if necessary, and they are inserted. `existing` is
        `replace` or `add` to the value of an entry with the same coordinates; None: duplicates stay side by side.
        Without `grow`, entries at new coordinates are ignored.
        """
        self._require_countable(batch.count)
        if not batch.count or not self._storage.shape[0]:
            return self._refuse_all(batch)
        with self._operation("insert"):
            with _preparation():
                insertion = self._operations.kept(
                    batch, lambda: self._insertion(batch, existing, grow), self.slack, existing, grow
                )
            insertion.launch()
            report = self._report()
            if report.bad:
                raise self._index_error(report.bad)
            if not report.unplaced:
                return Inserted()
            try:
                unplaced_batch = insertion.gather_unplaced(report.unplaced)
            except OutOfDeviceMemory as reason:
                raise NoRoom(insertion.unplaced_indices(report.unplaced), batch.count, reason) from None
            before = self._storage.capacity
            self._reinsert(batch, unplaced_batch, existing, grow).launch()
            unplaced_count = self._report().unplaced
            assert not unplaced_count, f"{unplaced_count} entries found no room that was made for them"
            return Inserted(unplaced_batch.count, self._storage.capacity - before)

    def _insertion(self, batch: EntryBatch, existing: Existing | None, grow: bool) -> Insertion:
        if existing is None:
            return self._operations.insertion(batch, self.slack)
        arrange, sorted_batch = self._operations.sorting(batch)
        insertion = self._operations.unique_insertion(batch, sorted_batch, self.slack, existing, grow)
        return replace(insertion, launch=in_order([arrange, insertion.launch]))

    def delete(self, batch: EntryBatch) -> None:
        """Delete all entries at the coordinates of a batch; coordinates without an entry are ignored.

        Coordinates outside the matrix raise `ReproError`, and the matrix is unchanged.
        """
        if not batch.count or not self._storage.shape[0]:
            self._refuse_all(batch)
            return
        with self._operation("delete"):
            with _preparation():
                deletion = self._operations.kept(batch, lambda: self._operations.deletion(batch), "delete")
            deletion()
            if bad := self._report().bad:
                raise self._index_error(bad)

    def defragment(self, slack: int = 0, capacity: int | None = None) -> None:
        """Copy all rows to a new buffer, each into one segment with `slack` free entries.

        `capacity` is that of the new buffer; None: the present one, or more if necessary. If there is no memory for the
        new buffer, `ReproError` is raised, and the matrix is unchanged.
        """
        with self._operation("defragment"):
            try:
                self._move(slack, None, capacity)
            except OutOfDeviceMemory as error:
                raise ReproError(
                    "not enough memory to defragment the matrix",
                    expected="memory for a second buffer",
                    actual=error,
                    todo="use `tidy`, which works within the buffer, or a smaller capacity",
                ) from None

    def tidy(self, min_segments: int | None = None) -> None:
        """Merge the segments of single rows within the buffer, while it has space.

        Rows with `min_segments` segments get a single new segment each; None: rows with at most one free slot.
        """
        limit = max(2, self._storage.segments - 1) if min_segments is None else min_segments
        with self._operation("tidy"):
            self._operations.tidying(limit, min(self.slack, MAX_ENTRIES // max(self._storage.shape[0], 1)))()
            self._report()

    def to_csr(self) -> sp.csr_array:
        """Return the matrix in CSR on the host; the entries of a row keep their order, and duplicates stay."""
        self.check()
        storage = self._storage
        rooms, offsets = self._operations.rooms(0)
        rooms()
        self._operations.total(offsets)()
        total = self._report().total
        compact = Storage.empty(storage.device, storage.shape, storage.segments, max(total, 1), storage.dtype)
        try:
            self._operations.copy(offsets, compact, slack=False)()
            indptr = np.zeros(storage.shape[0] + 1, np.int32)
            columns, values = np.empty(total, np.int32), np.empty(total, storage.dtype)
            for buffer, array in ((offsets, indptr), (compact.columns, columns), (compact.values, values)):
                if array.size:
                    storage.device.download(buffer, array)
            return sp.csr_array((values, columns, indptr), shape=storage.shape)
        finally:
            compact.release()

    def release(self) -> None:
        if self._released:
            return
        self._released = True
        self._operations.release()
        self._scratch.release()
        self._storage.release()

    # making room ------------------------------------------------------------------------------------------------------

    def _reinsert(
        self, batch: EntryBatch, unplaced_batch: SortedBatch, existing: Existing | None, grow: bool
    ) -> Insertion:
        """Defragment the matrix with space for the entries `unplaced_batch`, and return their insertion."""
        try:
            self._move(0, unplaced_batch, None)
            if existing is None:
                return self._operations.sorted_insertion(batch, unplaced_batch, 0)
            return self._operations.unique_insertion(batch, unplaced_batch, 0, existing, grow)
        except (OutOfDeviceMemory, ReproError) as reason:
            entries = np.empty(unplaced_batch.count, np.int32)
            if unplaced_batch.order is None:
                entries = np.arange(unplaced_batch.count, dtype=np.int32)
            else:
                self._storage.device.download(unplaced_batch.order, entries)
            raise NoRoom(entries, batch.count, reason) from None

    def _move(self, slack: int, demand: SortedBatch | None, capacity: int | None) -> None:
        """Defragment the matrix into a new buffer of `capacity` entries or more, with space for `demand` in rows."""
        old = self._storage
        # the space beside the entries is checked, since row capacities are int32
        check_capacity(slack * old.shape[0] + (demand.count if demand else 0) + 1)
        rooms, offsets = self._operations.rooms(slack, demand=demand)
        rooms()
        self._operations.total(offsets)()
        total = self._report().total
        new_capacity = old.capacity if capacity is None else capacity
        if total > new_capacity or (demand is not None and total + self.slack > new_capacity):
            new_capacity = min(max(total, int(GROWTH * total) + self.slack), MAX_ENTRIES)
        check_capacity(max(total, new_capacity))
        new = Storage.empty(old.device, old.shape, old.segments, max(new_capacity, 1), old.dtype)
        try:
            self._operations.copy(offsets, new, slack=slack > 0 or demand is not None)()
            old.device.synchronize()  # waits for readers of the old buffers, too
        except BaseException:
            new.release()
            raise
        self._operations.release()
        self._storage = new
        self._operations = Operations(new, *self._programs, self._scratch)
        self._finished = False
        old.release()

    # interrupted operations -------------------------------------------------------------------------------------------

    @contextmanager
    def _operation(self, operation: str) -> Iterator[None]:
        """Raise `Unfinished` after an interrupted operation; record an interruption of the operation in the body."""
        self.check()
        self._under_way = operation
        try:
            yield
        except (ReproError, OutOfDeviceMemory) as refusal:  # raised between kernels, so the matrix is intact
            if not isinstance(refusal, Unfinished):
                self._under_way = None
            raise
        self._under_way = None

    def check(self) -> None:
        """Raise `Unfinished` if an operation was interrupted; wait for one that was queued by itself."""
        if self._under_way is None and not self._finished:
            self._finished = self._storage.report().finished
            if not self._finished:
                self._under_way = "insert or delete"
        if self._under_way is not None:
            raise Unfinished(self._under_way)

    def _report(self) -> Report:
        report = self._storage.report()
        self._finished = report.finished
        if not report.finished:
            raise Unfinished(self._under_way or "insert or delete")
        return report

    def _require_countable(self, count: int) -> None:
        requested_entries = count + self.slack * min(count, self._storage.shape[0])
        if requested_entries >= MAX_ENTRIES:
            raise ReproErrorOfValue(
                "the batch is too large for one insertion",
                expected=f"fewer than {MAX_ENTRIES:,} entries, including the slack of their rows",
                actual=f"{requested_entries:,}",
                todo="insert it in parts",
            )

    def _refuse_all(self, batch: EntryBatch) -> Inserted:
        if batch.count:
            raise self._index_error(batch.count)
        return Inserted()

    def _index_error(self, count: int) -> ReproError:
        rows, columns = self._storage.shape
        return ReproErrorOfValue(
            "entries are outside the matrix; nothing was changed",
            expected=f"rows from 0 to {rows - 1} and columns from 0 to {columns - 1}",
            actual=f"{count:,} entries elsewhere",
        )


#: Function that returns a kernel by name.
GetKernel = Callable[[str], Kernel]
Run = Callable[[], None]


@dataclass(frozen=True)
class StoredRows:
    """A matrix on the device, as the kernels of products take it."""

    rows: int
    #: Largest number of segments of a row; 0 for CSR.
    segments: int
    #: Buffers by name: `columns`, `values`, and `table` and `sizes`, or for CSR `offsets`.
    buffers: Mapping[str, Buffer]
    #: Function that returns the number of entries of each row, int32 `(rows,)`, on the host.
    sizes: Callable[[], NDArray[np.int32]]

    def arguments(self, exact: bool) -> list[Argument]:
        entries = [self.buffers["columns"], self.buffers["values"]]
        if not self.segments:
            return [self.buffers["offsets"], *entries]
        if exact:
            return [self.buffers["table"], *entries]
        shape = np.int32(table_pitch(self.rows)), np.int32(self.segments)
        return [*shape, self.buffers["table"], self.buffers["sizes"], *entries]


def bind_product(program: Program, schedule: Schedule, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
    """Return a launch of y = A x, which stays valid after insertions and deletions.

    A defragmentation or growth replaces the buffers, and needs a new launch. `program` is the module `product`; the
    schedule is of kind `vector` or `mixed` and not `exact`, see `usual_schedule`. x and y are `(columns,)` and
    `(rows,)`.
    """
    return bind_vector(storage.device, program.kernel, schedule, stored_rows(storage), (x, y))


def bind_product_call(device: Device, program: Program, schedule: Schedule, storage: Storage) -> Call | None:
    """Return y = A x on any stream, called with the addresses of x and y; otherwise as `bind_product`.

    It is None if the device's memory has no addresses.
    """
    name, grid, block_size, arguments = _vector_launch(device, schedule, stored_rows(storage), (ADDRESS, ADDRESS))
    return device.bind_call(program, name, grid, block_size, arguments)


def stored_rows(storage: Storage) -> StoredRows:
    buffers = {name: getattr(storage, name) for name in ("columns", "values", "table", "sizes")}
    return StoredRows(storage.shape[0], storage.segments, buffers, lambda: storage.download().sizes)


def bind_vector(
    device: Device, kernel: GetKernel, schedule: Schedule, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Return a launch of y = A x with a fixed number of threads per row, for a schedule `vector` or `mixed`.

    The host prepares nothing from the matrix, so the matrix may change. `kernel` returns a kernel of the module
    `product`.
    """
    name, grid, block_size, arguments = _vector_launch(device, schedule, matrix, vectors)
    return device.bind(kernel(name), grid, block_size, arguments)


def _vector_launch(
    device: Device, schedule: Schedule, matrix: StoredRows, vectors: tuple[Argument, Argument]
) -> tuple[str, int, int, list[Argument]]:
    """Return name, number of blocks, threads per block and arguments of the kernel of `bind_vector`."""
    block_size = BLOCK_SIZE[device.backend]
    format = "csr" if not matrix.segments else "exact" if schedule.exact else "dcsr"
    name = f"{schedule.kind}_{format}_w{schedule.width}_{schedule_suffix(schedule)}"
    arguments: list[Argument] = [np.int32(matrix.rows), *matrix.arguments(schedule.exact), *vectors]
    return name, -(-matrix.rows * schedule.width // block_size), block_size, arguments


def bind_bins(
    device: Device,
    kernel: Kernel,
    bins: RowBins,
    parts: tuple[int, Sequence[Argument]],
    arguments: Sequence[Argument],
) -> Run:
    """Return one launch of a kernel `bins_…` for all bins, which are those of `our_min_lengths`.

    `parts` are the number of parts of the longest rows and their buffers; `arguments` are the kernel's from `order` on.
    """
    block_size = BLOCK_SIZE[device.backend]
    blocks, part_arguments = parts
    numbers: list[Argument] = [np.int32(blocks), np.int32(LONG_ROWS[device.backend].part_length), *part_arguments]
    numbers += [np.int32(bins.ends[0])]
    rows_of_block = (1, *(block_size // width for width in reversed(row_widths(device.target))))
    for (first, last), rows in zip(bins.spans[1:], rows_of_block, strict=True):
        blocks += -(-(last - first) // rows)
        numbers += [np.int32(blocks), np.int32(last)]
    return device.bind(kernel, blocks, block_size, [*numbers, *arguments])


def schedule_suffix(schedule: Schedule) -> str:
    return f"u{schedule.in_flight}_{schedule.load}"


class ConcurrentReader:
    """Products on a second queue while other threads change the matrix; used by the thread that owns the queue.

    `program` is the module `reader` in the precision of the matrix, `width` one of `row_widths`.
    """

    def __init__(self, queue: Queue, program: Program, width: int, matrix: DynamicMatrix) -> None:
        self._queue, self._program, self._width, self._matrix = queue, program, width, matrix
        self._bound: tuple[Storage, Buffer, Buffer, Callable[[], None]] | None = None

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Compute y = A x, and wait; a concurrent defragmentation does not change the arrays that are read.

        x is `(columns,)` and y `(rows,)`, in the precision of the matrix.
        """
        with self._queue.current():
            storage = self._matrix.retain()
            try:
                if storage.shape[0]:
                    self._launch(storage, x, y)()
                    self._queue.synchronize()
            finally:
                storage.release()

    def _launch(self, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return a launch of y = A x; the last one is reused if the arrays are the same."""
        if self._bound is not None:
            *arrays, launch = self._bound
            if all(bound is other for bound, other in zip(arrays, (storage, x, y), strict=True)):
                return launch
        launch = self._bind(storage, x, y)
        self._bound = storage, x, y, launch
        return launch

    def _bind(self, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
        rows, columns = storage.shape
        block_size = BLOCK_SIZE[storage.device.backend]
        arguments: list[Argument] = [
            *map(np.int32, (rows, columns, storage.capacity, storage.pitch, storage.segments)),
            *(storage.table, storage.sizes, storage.versions, storage.columns, storage.values),
            *(x, y),
        ]
        kernel = self._program.kernel(f"read_w{self._width}")
        return self._queue.bind(kernel, -(-rows * self._width // block_size), block_size, arguments)
