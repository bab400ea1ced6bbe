"""A sparse matrix on a device that takes insertions and deletions between products, and its concurrent readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from threading import RLock
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from repro.codegen.targets import DTYPES, Target
from repro.devices.base import Call, OutOfDeviceMemory, Program, Queue
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue
from repro.operators.arrays import VectorType, is_on_device
from repro.operators.base import Closeable, DeviceOperator, DirectCall, public_methods, require_choice, whole_number
from repro.operators.device_exchange import BatchUpload, batch_streams, described, load_module, take_csr
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.scipy_matrices import as_rows, checked_csr, precision_of, precision_of_values
from repro.problems.matrix import MAX_DIMENSION
from repro.sparse.dynamic.host_layout import MAX_ENTRIES, SEGMENTS, Arrays, lay_out
from repro.sparse.dynamic.matrix import (
    GROWTH,
    ConcurrentReader,
    DynamicMatrix,
    NoRoom,
    Unfinished,
    bind_product,
    bind_product_call,
    released_error,
)
from repro.sparse.dynamic.operations import Existing
from repro.sparse.dynamic.schedules import Schedule, row_widths, usual_schedule
from repro.sparse.dynamic.storage import EntryBatch, Storage

#: Smallest default of `slack`, and largest accepted values of `slack` and `segments`.
MIN_SLACK, MAX_SLACK, MAX_SEGMENTS = 4, 1 << 20, 64


@dataclass(frozen=True)
class Capacity:
    """Arguments that control the memory of a dynamic matrix, checked; see `DynamicCSR` for their meaning."""

    segments: int = SEGMENTS
    slack: int | None = None
    capacity: int | None = None
    width: int = 0

    def __post_init__(self) -> None:
        whole_number(self.segments, "segments", 1, MAX_SEGMENTS)
        whole_number(self.width, "width", 0, MAX_ENTRIES)
        if self.slack is not None:
            whole_number(self.slack, "slack", 0, MAX_SLACK)
        if self.capacity is not None:
            whole_number(self.capacity, "capacity", 0, MAX_ENTRIES)

    def slack_of(self, entries: int, n_rows: int) -> int:
        """Return the requested slack; by default the mean row length of the initial entries, at least MIN_SLACK."""
        return max(MIN_SLACK, -(-entries // max(n_rows, 1))) if self.slack is None else self.slack

    def for_entries(self, entries: int) -> int:
        """Return the requested capacity; by default 1.5 times the number of initial entries."""
        return max(entries, min(int(GROWTH * entries), MAX_ENTRIES)) if self.capacity is None else self.capacity


def check_shape(shape: Any, segments: int) -> tuple[int, int]:
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise ReproErrorOfValue(
            "not the shape of a matrix", where="shape", expected="two whole numbers", actual=shape
        ) from None
    return (
        whole_number(rows, "shape[0], rows", 0, MAX_ENTRIES // segments),
        whole_number(columns, "shape[1], columns", 0, MAX_DIMENSION),
    )


class CurrentProduct:
    """y = A x with the arrays that a dynamic matrix has when it is called; implements `Call`.

    A change waits for the device, so a product sees all earlier changes on every stream. A change waits for earlier
    products on other streams than the device's own: each leaves an event there, for which the next change waits. A
    product of one thread waits for the end of a change by another thread.

    `schedule` returns the schedule for the matrix as it is, and `bind` the product for a schedule and its arrays.
    """

    def __init__(
        self,
        runtime: Runtime,
        matrix: DynamicMatrix,
        schedule: Callable[[], Schedule],
        bind: Callable[[Schedule, Storage], Call],
    ) -> None:
        self._runtime, self._matrix, self._schedule, self._bind = runtime, matrix, schedule, bind
        self._lock = RLock()  # of a thread that needs the device, too, the device's lock is taken first
        self._marks = runtime.marks()
        self._bound: tuple[Storage, Schedule] | None = None
        self._call: Call | None = None

    def __call__(self, stream: int, *addresses: int) -> None:
        with self._lock:
            if self._call is not None:
                self._call(stream, *addresses)
                self._marks.add(stream)
                return
        with self._runtime.after(), self._lock:
            if self._call is None:
                storage, schedule = self._matrix.storage, self._schedule()
                self._call, self._bound = self._bind(schedule, storage), (storage, schedule)
            self._call(stream, *addresses)
            self._marks.add(stream)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let earlier products end before the body changes the matrix; then drop the launch if it has become stale.

        The device is locked for this thread.
        """
        with self._lock:
            self._marks.wait()
            try:
                yield
            finally:
                if self._bound is not None and not self._is_current(*self._bound):
                    self.close()

    def _is_current(self, storage: Storage, schedule: Schedule) -> bool:
        return self._matrix.is_intact and self._matrix.storage is storage and self._schedule() == schedule

    def close(self) -> None:
        """Refuse launches with the arrays that are bound; the next product binds those that there are then."""
        with self._lock:
            call, self._call, self._bound = self._call, None, None
            if call is not None:
                call.close()


@public_methods
class Reader(DeviceOperator, Closeable):
    """Products with a `DynamicCSR` while other threads change it; made by `DynamicCSR.reader`.

    A product reads each row either before or after a concurrent change of the row, never in the middle of one; some
    rows may be read before the change and others after it. A product sees all changes that were complete when it began.
    Each reader has its own queue, on which threads take turns, and a matrix can have several readers. A call returns
    when the product is complete. `close`, or the end of a `with` block, frees its memory; the matrix stays.
    """

    def __init__(
        self, runtime: Runtime, kind: VectorType, matrix: DynamicMatrix, load: Callable[[], Program], mean: float
    ) -> None:
        super().__init__(runtime, kind, matrix.storage.shape)
        self._side = runtime.device.new_queue()
        self._reading = ConcurrentReader(self._side, load(), _width(runtime.device.target, mean), matrix)
        _ = self._staging  # allocated here, while this thread has locked the device

    @property
    def _queue(self) -> Queue:
        return self._side

    @contextmanager
    def _ordered(self, *streams: int | None, reads: str | None = None) -> Iterator[None]:
        """Make the product wait for the arrays' streams.

        The streams need not wait for the product, since the call returns after it.
        """
        self._runtime.refuse_capture(reads or "the product of a reader", *streams)
        with self._side.current():
            if streams:
                self._runtime.finish(*streams)
            yield

    def _multiply(self, x: Any, y: Any) -> None:
        self._reading.multiply(x.buffer, y.buffer)

    def _require_open(self) -> None:
        if self.closed:
            raise ReproError("the reader is closed", todo="create a new one with `DynamicCSR.reader`")

    def close(self) -> None:
        """Free the reader's memory; it cannot be used afterwards."""
        with self._side.current():
            self.closed = True
            self.__dict__.pop("_staging", None)

    def __repr__(self) -> str:
        place = "closed" if self.closed else f"on {self.device_name}"
        return f"<{'x'.join(map(str, self.shape))} {type(self).__name__} {place}>"


def _width(target: Target, mean: float) -> int:
    """Return the number of threads per row, such that each thread has about four entries of a row of mean length."""
    widths = row_widths(target)
    return next((width for width in widths if 4 * width >= mean), widths[-1])


@public_methods
class DynamicCSR(DeviceOperator, Closeable):
    """A real sparse matrix on a device that grows and shrinks there, and a SciPy `LinearOperator`.

    Each row is a chain of segments in one buffer: dynamic CSR (King 2017). An insertion appends to a row, in a new
    segment if the last one is full. If the chain or the buffer is full, the matrix is defragmented into a larger
    buffer. Methods wait for the device, except products of device arrays. Any thread may call them; threads of one
    device take turns. A `reader` multiplies while another thread changes the matrix. A copy or pickle contains the
    current matrix and is uploaded to the device with the same name (`cuda:N` or `opencl:N`). `close`, or the end of a
    `with` block, frees the device memory; without it, the memory is freed when nothing refers to the matrix any more.

    Parameters
    ----------
    shape
        Rows and columns of an empty matrix.
    dtype
        float32 or float64.
    segments
        Largest number of segments per row. With more segments, defragmentation is rarer, and products are slower.
    slack
        Number of free entries in a new segment; None: the mean row length, at least 4.
    capacity
        Initial capacity of the buffer in entries; None: 1.5 times the number of entries. The buffer grows if needed.
    width
        Minimal initial capacity of each row.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Attributes
    ----------
    device_name
        Name of the device.

    Raises
    ------
    ReproError
        An argument is invalid, or there is no such device or not enough memory.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: DTypeLike = np.float64,
        *,
        segments: int = SEGMENTS,
        slack: int | None = None,
        capacity: int | None = None,
        width: int = 0,
        device: str = "auto",
    ) -> None:
        room = Capacity(segments, slack, capacity, width)
        precision = precision_of(dtype)
        empty = sp.csr_array(check_shape(shape, segments), dtype=DTYPES[precision])
        self._init_from_csr(open_runtime(device), precision, empty, room)

    @classmethod
    def from_csr(
        cls,
        matrix: Any,
        shape: tuple[int, int] | None = None,
        dtype: DTypeLike | None = None,
        *,
        segments: int = SEGMENTS,
        slack: int | None = None,
        capacity: int | None = None,
        width: int = 0,
        device: str = "auto",
    ) -> DynamicCSR:
        """Return a matrix with initial entries.

        Parameters
        ----------
        matrix
            A sparse matrix of real numbers, of SciPy or PyTorch, or with `indptr`, `indices`, `data` and `shape`; or a
            tuple of data, indices and offsets of CSR, on the host
            or on the device. Device arrays are copied on the device.
        shape
            Shape of the matrix, needed only for a tuple; for a matrix, its own.
        dtype
            float32 or float64; None: float32 if the values are float32, else float64.
        segments, slack, capacity, width, device
            As in `DynamicCSR`; with arrays on the device, `width` must be 0.

        Raises
        ------
        ReproError
            The matrix is invalid, damaged or too large, or a value exceeds the dtype.
        """
        room = Capacity(segments, slack, capacity, width)
        if isinstance(matrix, (tuple, list)):
            if shape is None or len(matrix) != 3:
                raise ReproErrorOfValue("not CSR arrays", expected="(data, indices, offsets), and a shape")
            shape = check_shape(shape, segments)
            if any(is_on_device(array) for array in matrix):
                return cls._from_device(tuple(matrix), shape, dtype, room, device)
            matrix = checked_csr(matrix, shape, "matrix")
        rows, precision = as_rows(matrix, dtype, max_rows=MAX_ENTRIES // segments)
        if shape is not None and check_shape(shape, segments) != rows.shape:
            expected = f"{rows.shape}, or None"
            raise ReproErrorOfValue("the matrix has another shape", where="shape", expected=expected, actual=shape)
        operator = cls.__new__(cls)
        operator._init_from_csr(open_runtime(device), precision, rows, room)
        return operator

    @classmethod
    def _from_device(
        cls, arrays: tuple[Any, Any, Any], shape: tuple[int, int], dtype: DTypeLike | None, room: Capacity, device: str
    ) -> DynamicCSR:
        if not all(is_on_device(array) for array in arrays):
            raise ReproErrorOfType(
                "the CSR arrays must be in the same place", expected="all on the device, or all NumPy arrays"
            )
        if room.width:
            raise ReproErrorOfValue("a width is only for matrices on the host", expected=0, actual=room.width)
        data, indices, offsets = arrays
        data_dtype = described(data)[0]
        precision = precision_of_values(data_dtype) if dtype is None else precision_of(dtype)
        count, runtime = math.prod(described(data)[1]), open_runtime(device)
        capacity = room.for_entries(count)
        if count > capacity or capacity > MAX_ENTRIES:
            raise ReproErrorOfValue(
                "the matrix does not fit in its buffer", expected=f"at most {capacity:,}", actual=count
            )
        operator = cls.__new__(cls)
        empty = sp.csr_array(shape, dtype=DTYPES[precision])
        room = Capacity(room.segments, room.slack_of(count, shape[0]), capacity)
        operator._init_from_csr(runtime, precision, empty, room)
        with operator._changing(set()):
            storage, program = operator._matrix.storage, operator._load("matrix")
            operator._entries = take_csr(runtime, operator._batches, program, storage, data, indices, offsets)
        return operator

    def _init_from_csr(self, runtime: Runtime, precision: str, matrix: sp.csr_array, room: Capacity) -> None:
        places = np.maximum(np.diff(matrix.indptr), room.width).sum(dtype=np.int64)
        arrays = lay_out(matrix, room.segments, room.for_entries(int(places)), room.width)
        self._init_storage(runtime, precision, arrays, matrix.nnz, room.slack_of(matrix.nnz, matrix.shape[0]))

    def _init_storage(self, runtime: Runtime, precision: str, data: Arrays | Storage, entries: int, slack: int) -> None:
        super().__init__(runtime, VectorType("real", precision), data.shape)
        self._precision = precision
        self._batches = BatchUpload(runtime, data.shape, self.dtype, precision)
        try:
            with runtime.after():
                matrix_module, sort_module = self._load("matrix"), self._load("sort")
                self._matrix = DynamicMatrix(runtime.device, matrix_module, sort_module, data, slack)
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None
        self._entries, self._since = entries, 0
        self._product = CurrentProduct(runtime, self._matrix, self._schedule, self._bind_call)
        if data.shape[0] and runtime.device.backend == "cuda":
            self._direct = DirectCall(runtime, self._product, self.dtype, data.shape, self.dtype.itemsize)

    @classmethod
    def _of_storage(cls, runtime: Runtime, precision: str, storage: Storage) -> DynamicCSR:
        """Return a matrix that takes over existing device storage, such as the result of `repro.spgemm`."""
        operator = cls.__new__(cls)
        entries = storage.report().pointer
        operator._init_storage(runtime, precision, storage, entries, Capacity().slack_of(entries, storage.shape[0]))
        return operator

    @contextmanager
    def _lent(self) -> Iterator[Storage]:
        """Yield the device storage; nobody can change the matrix inside the `with` block."""
        with self._changing(set()):
            yield self._matrix.storage

    # changing ---------------------------------------------------------------------------------------------------------

    def insert(
        self,
        rows: ArrayLike | Any,
        columns: ArrayLike | Any,
        values: ArrayLike | Any,
        mode: Literal["add", "unique"] = "add",
        existing: Existing = "replace",
    ) -> None:
        """Insert a batch of entries in any order.

        Parameters
        ----------
        rows, columns, values
            Arrays `(m,)`, lists, or one number for all entries. On a GPU, arrays of CuPy, PyTorch or Numba are read in
            place if indices are int32 and values have the matrix's dtype; int64 indices and other real values are
            converted on the device.
        mode
            `add`: entries are appended; several entries at one place count as their sum. `unique`: a place has at most
            one entry, see `existing`.
        existing
            What `unique` does if a place has an entry. `replace`: the new value replaces the old one; if the batch has
            several values for a place, the last one counts. `add`: the new value is added to the old one.

        Raises
        ------
        NoRoom
            The device has no memory for all entries; the error's `left` has the batch indices of the entries that were
            not inserted.
        ReproError
            The batch is invalid; the matrix is unchanged. Or a large batch was inserted in parts, and a later part was
            refused; the message says at which entry this part begins.
        """
        require_choice(mode, "mode", ("add", "unique"))
        require_choice(existing, "existing", ("replace", "add"))
        unique_existing = existing if mode == "unique" else None
        self._change(lambda batch: self._matrix.insert(batch, unique_existing), rows, columns, values)

    def update(self, rows: Any, columns: Any, values: Any, existing: Existing = "replace") -> None:
        """Change the values of existing entries, by `existing`; entries at other coordinates are ignored."""
        require_choice(existing, "existing", ("replace", "add"))
        self._change(lambda batch: self._matrix.insert(batch, existing, grow=False), rows, columns, values)

    def delete(self, rows: Any, columns: Any) -> None:
        """Delete all entries at the given places; places without an entry are ignored.

        `rows` and `columns` are as in `insert`. A place outside the matrix raises `ReproError`; the matrix is
        unchanged.
        """
        self._change(self._matrix.delete, rows, columns)

    def _change(self, change: Callable[[EntryBatch], object], *arrays: Any) -> None:
        batch_arrays, count = self._batches.check_batch(*arrays)
        if not count:
            return
        n_inserted = 0
        with self._changing(batch_streams(batch_arrays)):
            self._since += count
            try:
                for first, batch in self._batches.parts(batch_arrays, count, self._matrix.slack):
                    change(batch)
                    n_inserted = first + batch.count
                self._count_again()
            except NoRoom as error:
                later_indices = np.arange(n_inserted + batch.count, count)
                remaining_indices = np.concatenate([n_inserted + error.left.astype(np.int64), later_indices]).astype(
                    np.int32
                )
                raise NoRoom(remaining_indices, count, error.reason) from None
            except (ReproError, OutOfDeviceMemory) as error:
                if not n_inserted or isinstance(error, Unfinished):
                    raise
                raise ReproError(
                    "part of a batch failed, and the entries after it were not tried",
                    where=f"entries from {n_inserted:,} on, of {count:,}; those before are done",
                    actual=error,
                    todo=f"repeat the call with the entries from {n_inserted:,} on once the cause is removed",
                ) from None

    def defragment(self, slack: int = 0) -> None:
        """Copy each row into one segment with `slack` free entries, in a new buffer.

        Products are fastest afterwards. An insertion that finds no space defragments by itself. If there is no memory
        for the second buffer, this raises `ReproError`, and the matrix is unchanged.
        """
        slack = whole_number(slack, "slack", 0, MAX_SLACK)
        with self._changing(set()):
            self._matrix.defragment(slack)

    def tidy(self) -> None:
        """Defragment only rows whose chain has almost no segments left, within the free space of the buffer."""
        with self._changing(set()):
            self._matrix.tidy()

    @contextmanager
    def _changing(self, streams: set[int | None]) -> Iterator[None]:
        """Lock the device, and order later work after the streams' work; report a lack of memory as `ReproError`."""
        try:
            with self._runtime.after(*streams, reads=type(self).__name__):
                self._require_open()
                with self._product.changing():
                    yield
        except OutOfDeviceMemory as error:
            raise self._runtime.out_of_memory_error(error) from None

    # reading ----------------------------------------------------------------------------------------------------------

    def _multiply(self, x: Any, y: Any) -> None:
        if not self.shape[0]:
            return
        if self._direct is not None:
            self._product(self._runtime.stream, x.buffer.pointer, y.buffer.pointer)
            return
        bind_product(self._multiplying, self._schedule(), self._matrix.storage, x.buffer, y.buffer)()

    @cached_property
    def _multiplying(self) -> Program:
        return _Reused(self._load("product"))

    def _bind_call(self, schedule: Schedule, storage: Storage) -> Call:
        call = bind_product_call(self._runtime.device, self._load("product"), schedule, storage)
        assert call is not None
        return call

    def _schedule(self) -> Schedule:
        """Return a schedule for the mean row length."""
        return usual_schedule(self._runtime.device.target, self._mean)

    def _count_again(self) -> None:
        """Count the entries after a change, if their number may have doubled since they were counted."""
        if self._since > self._entries:
            with suppress(OutOfDeviceMemory):  # an outdated schedule is slower but correct
                self._entries, self._since = self._matrix.nnz, 0

    @property
    def _mean(self) -> float:
        """Estimated mean row length: entries at the last count, plus all entries of insertions since then, per row."""
        rows: int = self.shape[0]
        return (self._entries + self._since) / max(rows, 1)

    def reader(self) -> Reader:
        """Return a `Reader`, which multiplies on its own queue while another thread changes this matrix."""
        with self._runtime.after():
            return Reader(self._runtime, self._kind, self._matrix, lambda: self._load("reader"), self._mean)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._changing(set()):
            host_matrix = self._matrix.to_csr()
            room = self.segments, self._matrix.slack, self.capacity
        return _unpickle, (host_matrix, str(self.dtype), *room, self._runtime.words)

    def close(self) -> None:
        """Free the device memory of the matrix; neither it nor its readers can be used afterwards."""
        with self._runtime.after():
            if not self.closed:
                self.closed, self._direct = True, None
                self._product.close()
                self._runtime.device.synchronize()
                self._matrix.release()
                self.__dict__.pop("_staging", None)

    def _require_open(self) -> None:
        if self.closed:
            raise released_error()

    def diagonal(self, k: int = 0) -> NDArray[Any]:
        """Return the k-th diagonal as a NumPy array, duplicates added."""
        diagonal: NDArray[Any] = self.to_scipy().diagonal(k)
        return diagonal

    def to_scipy(self) -> sp.csr_array:
        """Return the matrix as CSR on the host, with sorted columns and duplicates added."""
        with self._changing(set()):
            matrix = self._matrix.to_csr()
        matrix.sum_duplicates()
        return matrix

    @property
    def nnz(self) -> int:
        """Number of entries, including duplicates; waits for the device."""
        with self._changing(set()):
            self._entries, self._since = self._matrix.nnz, 0
            return self._entries

    @property
    def segments(self) -> int:
        """Largest number of segments per row."""
        return self._matrix.storage.segments

    @property
    def capacity(self) -> int:
        """Current capacity of the buffer in entries."""
        return self._matrix.storage.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix on the device, including free space; 0 after `close`."""
        return 0 if self.closed else self._matrix.storage.nbytes

    def _load(self, module: str) -> Program:
        return load_module(self._runtime, self._precision, module)

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        place = "closed" if self.closed else f"{self.segments} segments on {self.device_name}"
        return f"<{size} {type(self).__name__}: {self.dtype}, {place}>"


def _unpickle(matrix: sp.csr_array, dtype: str, segments: int, slack: int, capacity: int, device: str) -> DynamicCSR:
    return DynamicCSR.from_csr(matrix, dtype=dtype, segments=segments, slack=slack, capacity=capacity, device=device)


class _Reused:
    """A program that caches its kernel objects, since OpenCL creates them slowly and products bind kernels often."""

    def __init__(self, program: Program) -> None:
        self.kernel = cache(program.kernel)
