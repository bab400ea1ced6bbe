"""A sparse matrix that grows on a device: its operations with the memory that they need, and its products.

Products y = A x, of a dynamic matrix or of one in CSR, run the kernels of the module `product`. A reader
multiplies while others change the matrix, and takes each row as it was before a change or as it is after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Device, Kernel, OutOfDeviceMemory, Program, Queue
from repro.errors import ReproError
from repro.sparse.dynamic.kernels import Report
from repro.sparse.dynamic.layout import MAX_ENTRIES, Arrays, check_capacity, pitch_of
from repro.sparse.dynamic.operations import Existing, Insertion, Operations
from repro.sparse.dynamic.schedules import LONG_ROWS, RowBins, Schedule, widths_of
from repro.sparse.dynamic.storage import Arranged, Batch, Storage
from repro.sparse.elementwise import BLOCK_SIZE, Scratch

#: A buffer that has to grow gets so many times the entries that it has to hold.
GROWTH = 1.5


@dataclass(frozen=True)
class Inserted:
    """What an insertion came to.

    Attributes
    ----------
    moved
        Entries of the batch that found room only after the matrix was brought together.
    grown
        Entries that the buffer was made larger by.
    """

    moved: int = 0
    grown: int = 0


class NoRoom(ReproError):
    """There is no memory to make room for some entries of a batch; all others are in the matrix, which is sound.

    Attributes
    ----------
    left
        Which entries of the batch are not in the matrix, int32 `(m,)`.
    reason
        Why no room could be made.
    """

    def __init__(self, left: NDArray[np.int32], of: int, reason: object) -> None:
        self.left, self.reason = left, reason
        super().__init__(
            "there is no room on the device for all of a batch",
            expected=f"room for {of:,} entries",
            actual=f"{len(left):,} of them found none, and none could be made: {reason}",
            todo="insert those named by `left` of this error again once there is memory",
        )


class Unfinished(ReproError):
    """The matrix was left in the middle of an operation: what is in it cannot be told."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            "the matrix was left in the middle of an operation, and what is in it cannot be told",
            actual=operation,
            todo="build it again",
        )


@contextmanager
def _preparing() -> Iterator[None]:
    """Refuse a batch that there is no memory to arrange: nothing has been done to the matrix yet."""
    try:
        yield
    except OutOfDeviceMemory as error:
        raise ReproError(
            "there is no memory to sort a batch in; nothing was done", actual=error, todo="insert or delete it in parts"
        ) from None


class DynamicMatrix:
    """A matrix on a device that entries are inserted into and deleted from.

    Parameters
    ----------
    device
        Where it lies.
    matrix, sort
        The modules of these names, loaded there, in the precision of the matrix.
    start
        What it starts as: on the host, or on the device, where it becomes the matrix's own.
    slack
        Room for so many entries beside those that a new segment is made for.
    """

    def __init__(self, device: Device, matrix: Program, sort: Program, start: Arrays | Storage, slack: int) -> None:
        self.slack = slack
        self._programs = matrix, sort
        self._scratch = Scratch(device)
        self._storage = start if isinstance(start, Storage) else Storage.upload(device, start)
        self._operations = Operations(self._storage, *self._programs, self._scratch)
        self._under_way: str | None = None

    @property
    def storage(self) -> Storage:
        """Its arrays; others after it was brought together or grew.

        Raises
        ------
        Unfinished
            An operation was left in the middle.
        """
        if self._under_way is not None:
            raise Unfinished(self._under_way)
        return self._storage

    def retain(self) -> Storage:
        """Return its arrays as they are now, also during an operation, kept until they are released by who asked.

        They stay a sound matrix for a reader that looks at the versions of rows, if not the newest one.

        Raises
        ------
        ReproError
            The matrix was released.
        """
        while True:
            storage = self._storage
            if storage.retain():
                return storage
            if storage is self._storage:
                raise ReproError("the matrix was released", todo="make a new one")

    @property
    def operations(self) -> Operations:
        """Its operations, to be queued one by one; they make no room."""
        return self._operations

    @property
    def nnz(self) -> int:
        """Entries, those of the same place counted one by one; waits for the device."""
        self.check()  # and no operation, for nothing is changed
        rooms, offsets = self._operations.rooms(0)
        rooms()
        self._operations.total(offsets)()
        return self._report().total

    def insert(self, batch: Batch, existing: Existing | None = None, grow: bool = True) -> Inserted:
        """Insert a batch, all of it, and wait for the device.

        Rows that have no slot or no room left take none of their entries at first. The matrix is then brought together
        with room for these, in a larger buffer where it has to be, and they are inserted.

        Parameters
        ----------
        batch
            Entries in any order.
        existing
            What becomes of the value of a place that is there: `replace` or `add`; None: entries of the same place
            come beside each other.
        grow
            Whether entries whose place is not there are inserted, where `existing` says what becomes of the others.

        Raises
        ------
        NoRoom
            The device has no memory to make room.
        ReproError
            An entry lies outside of the matrix; nothing was done. Or the batch is too large, or the matrix was left in
            the middle of an operation.
        """
        self._require_countable(batch.count)
        if not batch.count or not self._storage.shape[0]:
            return self._refuse_all(batch)
        with self._operation("insert"):
            with _preparing():
                arrange, arranged = (None, None) if existing is None else self._operations.arranged(batch)
                insertion = (
                    self._operations.insertion(batch, self.slack)
                    if existing is None or arranged is None
                    else self._operations.unique_insertion_of(batch, arranged, self.slack, existing, grow)
                )
            if arrange is not None:
                arrange()
            insertion.launch()
            report = self._report()
            if report.bad:
                raise self._outside(report.bad)
            if not report.left:
                return Inserted()
            try:
                left = insertion.left(report.left)
            except OutOfDeviceMemory as reason:
                raise NoRoom(insertion.named(report.left), batch.count, reason) from None
            before = self._storage.capacity
            self._into_new_room(batch, left, existing, grow).launch()
            remaining = self._report().left
            assert not remaining, f"{remaining} entries found no room that was made for them"
            return Inserted(left.count, self._storage.capacity - before)

    def delete(self, batch: Batch) -> None:
        """Take all entries of some places out; places that have none are ignored.

        Raises
        ------
        ReproError
            A place lies outside of the matrix; nothing was done. Or the matrix was left in the middle of an operation.
        """
        if not batch.count or not self._storage.shape[0]:
            self._refuse_all(batch)
            return
        with self._operation("delete"):
            with _preparing():
                deletion = self._operations.deletion(batch)
            deletion()
            if bad := self._report().bad:
                raise self._outside(bad)

    def defragment(self, slack: int = 0, capacity: int | None = None) -> None:
        """Bring each row back into one segment, in a new buffer.

        Parameters
        ----------
        slack
            Room beside the entries of each row.
        capacity
            Of the new buffer; None: that of the present one, or more where it is too small.

        Raises
        ------
        ReproError
            The device has no memory for a second buffer, or offsets cannot count so many entries; the matrix is as it
            was. Or it was left in the middle of an operation.
        """
        with self._operation("defragment"):
            try:
                self._move(slack, None, capacity)
            except OutOfDeviceMemory as error:
                raise ReproError(
                    "there is no memory to bring the matrix together in",
                    expected="room for a second buffer",
                    actual=error,
                    todo="use `tidy`, which works within the buffer; or make the capacity smaller",
                ) from None

    def tidy(self, at_least: int | None = None) -> None:
        """Bring rows of so many segments and more together, each into a new one of the same buffer, while it has room.

        None: those that have at most one slot left.
        """
        limit = max(2, self._storage.segments - 1) if at_least is None else at_least
        with self._operation("tidy"):
            self._operations.tidying(limit, min(self.slack, MAX_ENTRIES // max(self._storage.shape[0], 1)))()
            self._report()

    def to_csr(self) -> sp.csr_array:
        """Return the entries in CSR on the host, each row's in the order of its chain, none of them added up.

        Raises
        ------
        Unfinished
            An operation was left in the middle.
        """
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
        """Give all memory back."""
        self._operations.release()
        self._scratch.release()
        self._storage.release()

    # making room ------------------------------------------------------------------------------------------------------

    def _into_new_room(self, batch: Batch, left: Arranged, existing: Existing | None, grow: bool) -> Insertion:
        """Make room for what an insertion left; return the insertion of that."""
        try:
            self._move(0, left, None)
            if existing is None:
                return self._operations.insertion_of(batch, left, 0)
            return self._operations.unique_insertion_of(batch, left, 0, existing, grow)
        except (OutOfDeviceMemory, ReproError) as reason:
            entries = np.empty(left.count, np.int32)
            if left.order is None:
                entries = np.arange(left.count, dtype=np.int32)
            else:
                self._storage.device.download(left.order, entries)
            raise NoRoom(entries, batch.count, reason) from None

    def _move(self, slack: int, demand: Arranged | None, capacity: int | None) -> None:
        """Bring the matrix together in a new buffer."""
        old = self._storage
        check_capacity(
            slack * old.shape[0] + (demand.count if demand else 0) + 1
        )  # beside the entries: rooms are int32
        rooms, offsets = self._operations.rooms(slack, demand=demand)
        rooms()
        self._operations.total(offsets)()
        total = self._report().total
        wanted = old.capacity if capacity is None else capacity
        if total > wanted or (demand is not None and total + self.slack > wanted):
            wanted = min(max(total, int(GROWTH * total) + self.slack), MAX_ENTRIES)
        check_capacity(max(total, wanted))
        new = Storage.empty(old.device, old.shape, old.segments, max(wanted, 1), old.dtype)
        try:
            self._operations.copy(offsets, new, slack=slack > 0 or demand is not None)()
            old.device.synchronize()  # a reader of the old buffers, too, is done with them when they go
        except BaseException:
            new.release()
            raise
        self._operations.release()
        self._storage = new
        self._operations = Operations(new, *self._programs, self._scratch)
        old.release()

    # staying whole ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _operation(self, what: str) -> Iterator[None]:
        """Refuse a matrix that was left in the middle of an operation, and remember one that this leaves so."""
        self.check()
        self._under_way = what
        try:
            yield
        except (ReproError, OutOfDeviceMemory) as refusal:  # memory is taken between kernels, never within one
            if not isinstance(refusal, Unfinished):
                self._under_way = None
            raise
        self._under_way = None

    def check(self) -> None:
        """Wait for the device, and refuse a matrix that was left in the middle of an operation.

        Raises
        ------
        Unfinished
        """
        if self._under_way is None and not self._storage.report().whole:
            self._under_way = "insert or delete"
        if self._under_way is not None:
            raise Unfinished(self._under_way)

    def _report(self) -> Report:
        report = self._storage.report()
        if not report.whole:
            raise Unfinished(self._under_way or "insert or delete")
        return report

    def _require_countable(self, count: int) -> None:
        asked = count + self.slack * min(count, self._storage.shape[0])
        if asked >= MAX_ENTRIES:
            raise ReproError(
                "the batch is too large to be inserted at once",
                expected=f"fewer than {MAX_ENTRIES:,} entries with the slack of the rows that they are for",
                actual=f"{asked:,}",
                todo="insert it in parts",
            )

    def _refuse_all(self, batch: Batch) -> Inserted:
        if batch.count:
            raise self._outside(batch.count)
        return Inserted()

    def _outside(self, count: int) -> ReproError:
        rows, columns = self._storage.shape
        return ReproError(
            "entries lie outside of the matrix; nothing was done",
            expected=f"rows from 0 to {rows - 1} and columns from 0 to {columns - 1}",
            actual=f"{count:,} entries elsewhere",
        )


#: What gives a kernel of its name.
GetKernel = Callable[[str], Kernel]
Run = Callable[[], None]


@dataclass(frozen=True)
class StoredRows:
    """A matrix on the device.

    Attributes
    ----------
    rows, segments
        Rows, and the most segments of a row's chain; 0 in CSR.
    buffers
        `columns`, `values`, and `table` and `sizes`, or `offsets` of CSR.
    sizes
        Returns the entries of each row, int32 `(rows,)`, on the host.
    """

    rows: int
    segments: int
    buffers: Mapping[str, Buffer]
    sizes: Callable[[], NDArray[np.int32]]

    def arguments(self, exact: bool) -> list[Argument]:
        """Return what kernels take of it: `csr`, `exact` or `dcsr`."""
        entries = [self.buffers["columns"], self.buffers["values"]]
        if not self.segments:
            return [self.buffers["offsets"], *entries]
        if exact:
            return [self.buffers["table"], *entries]
        shape = np.int32(pitch_of(self.rows)), np.int32(self.segments)
        return [*shape, self.buffers["table"], self.buffers["sizes"], *entries]


def bind_product(program: Program, schedule: Schedule, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
    """Return what queues y = A x for a matrix on a device, whatever is inserted into it or deleted from it later.

    It is of no use once the matrix has other buffers, as after it was brought together or grew.

    Parameters
    ----------
    program
        The module `product`, in the precision of the matrix.
    schedule
        One of kind `vector` or `mixed` that is not exact; see `usual_schedule`.
    storage
        The matrix.
    x, y
        `(columns,)` and `(rows,)` in its precision.
    """
    return bind_vector(storage.device, program.kernel, schedule, matrix_of(storage), (x, y))


def matrix_of(storage: Storage) -> StoredRows:
    """Return a matrix on a device as kernels of products take it."""
    buffers = {name: getattr(storage, name) for name in ("columns", "values", "table", "sizes")}
    return StoredRows(storage.shape[0], storage.segments, buffers, lambda: storage.download().sizes)


def bind_vector(
    device: Device, kernel: GetKernel, schedule: Schedule, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Return what queues y = A x by so many threads a row; it needs nothing beside the matrix, which may change.

    Parameters
    ----------
    kernel
        Returns a kernel of the module `product`.
    schedule
        One of kind `vector` or `mixed`.
    vectors
        x and y.
    """
    n_t = BLOCK_SIZE[device.backend]
    format = "csr" if not matrix.segments else "exact" if schedule.exact else "dcsr"
    name = f"{schedule.kind}_{format}_w{schedule.width}_{suffix_of(schedule)}"
    arguments = [np.int32(matrix.rows), *matrix.arguments(schedule.exact), *vectors]
    return device.bind(kernel(name), -(-matrix.rows * schedule.width // n_t), n_t, arguments)


def bind_bins(
    device: Device,
    kernel: Kernel,
    bins: RowBins,
    parts: tuple[int, Sequence[Argument]],
    arguments: Sequence[Argument],
) -> Run:
    """Bind all of our bins to one launch.

    Parameters
    ----------
    kernel
        One that is called `bins_...`.
    bins
        Those of `our_least`.
    parts
        How many parts the longest rows have, and the buffers that the kernel takes for them.
    arguments
        What it takes from `order` on.
    """
    n_t = BLOCK_SIZE[device.backend]
    blocks, for_parts = parts
    numbers: list[Argument] = [np.int32(blocks), np.int32(LONG_ROWS[device.backend].part_length), *for_parts]
    numbers += [np.int32(bins.ends[0])]
    rows_of_block = (1, *(n_t // width for width in reversed(widths_of(device.target))))
    for (first, last), rows in zip(bins.spans[1:], rows_of_block, strict=True):
        blocks += -(-(last - first) // rows)
        numbers += [np.int32(blocks), np.int32(last)]
    return device.bind(kernel, blocks, n_t, [*numbers, *arguments])


def suffix_of(schedule: Schedule) -> str:
    """Return the end of a kernel's name."""
    return f"u{schedule.unroll}_{schedule.load}"


class Reading:
    """Products on a queue beside the one that the matrix is changed on, for the thread that has the queue.

    Parameters
    ----------
    queue
        The queue.
    program
        The module `reader`, in the precision of the matrix.
    width
        Threads of a row: one of `widths_of`.
    matrix
        What is read.
    """

    def __init__(self, queue: Queue, program: Program, width: int, matrix: DynamicMatrix) -> None:
        self._queue, self._program, self._width, self._matrix = queue, program, width, matrix
        self._bound: tuple[Storage, Buffer, Buffer, Callable[[], None]] | None = None

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Put A x into y and wait for it.

        A matrix that is brought together meanwhile leaves the arrays that are read as they are until then.

        Parameters
        ----------
        x, y
            `(columns,)` and `(rows,)` in the precision of the matrix.
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
        """Return what queues the product; the one of before, where it is of the same arrays."""
        if self._bound is not None:
            *arrays, launch = self._bound
            if all(one is other for one, other in zip(arrays, (storage, x, y), strict=True)):
                return launch
        launch = self._bind(storage, x, y)
        self._bound = storage, x, y, launch
        return launch

    def _bind(self, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
        rows, columns = storage.shape
        n_t = BLOCK_SIZE[storage.device.backend]
        arguments: list[Argument] = [
            *map(np.int32, (rows, columns, storage.capacity, storage.pitch, storage.segments)),
            *(storage.table, storage.sizes, storage.versions, storage.columns, storage.values),
            *(x, y),
        ]
        kernel = self._program.kernel(f"read_w{self._width}")
        return self._queue.bind(kernel, -(-rows * self._width // n_t), n_t, arguments)
