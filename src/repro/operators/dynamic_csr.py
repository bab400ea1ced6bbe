"""A sparse matrix on a device that entries are inserted into and deleted from between products, and its readers.

A reader multiplies with the matrix while others change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike

from repro.codegen.targets import DTYPES, Target
from repro.devices.base import OutOfDeviceMemory, Program, Queue
from repro.errors import ReproError
from repro.operators.arrays import Kind, on_device
from repro.operators.base import MAX_SLACK, Capacity, StrictOperator, check_shape, one_of, whole_number
from repro.operators.interchange import Batches, described, load_module, streams_of, take_csr
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.scipy_matrices import as_rows, precision_of, precision_of_values, sound_arrays
from repro.sparse.dynamic.layout import MAX_ENTRIES, SEGMENTS, Arrays, lay_out
from repro.sparse.dynamic.matrix import DynamicMatrix, NoRoom, Reading, Unfinished, bind_product
from repro.sparse.dynamic.operations import Existing
from repro.sparse.dynamic.schedules import Schedule, usual_schedule, widths_of
from repro.sparse.dynamic.storage import Batch, Storage


class Reader(StrictOperator):
    """A matrix as others see it who multiply while it is changed; made by `DynamicCSR.reader`.

    Each row of a product is that of the matrix before a change of the row or after it, never of half a change; which
    of them may differ from row to row. A product sees all changes that were done when it began. A reader has a queue of
    its own, on which threads take turns; a matrix can have several. Its products wait for their end.

    Parameters
    ----------
    runtime
        The device.
    kind
        What the numbers of x and y are.
    matrix
        What is read.
    load
        Loads the module `reader` in the matrix's precision.
    mean
        Entries of a row, about.
    """

    def __init__(
        self, runtime: Runtime, kind: Kind, matrix: DynamicMatrix, load: Callable[[], Program], mean: float
    ) -> None:
        super().__init__(runtime, kind, matrix.storage.shape)
        self._side = runtime.device.new_queue()
        self._reading = Reading(self._side, load(), _width(runtime.device.target, mean), matrix)
        _ = self._staging  # now, while nobody else has the device

    @property
    def _queue(self) -> Queue:
        return self._side

    @contextmanager
    def _ordered(self, *streams: int | None) -> Iterator[None]:
        """Wait for what the arrays come from; nobody has to wait for a product that is waited for."""
        with self._side.current():
            if streams:
                self._runtime.finish(*streams)
            yield

    def _multiply(self, x: Any, y: Any) -> None:
        self._reading.multiply(x.buffer, y.buffer)

    def __repr__(self) -> str:
        return f"<{'x'.join(map(str, self.shape))} {type(self).__name__} on {self.device_name}>"


def _width(target: Target, mean: float) -> int:
    """Return threads of a row: each has about four entries of one of the mean size."""
    widths = widths_of(target)
    return next((width for width in widths if 4 * width >= mean), widths[-1])


class DynamicCSR(StrictOperator):
    """A real sparse matrix on a device that grows and shrinks there, and a SciPy `LinearOperator`.

    Rows are chains of segments in one buffer: dynamic CSR (King 2017). Insertions append to a row, in a new segment
    where the last one is full; where a chain or the buffer is full the matrix is brought together in a larger buffer.
    Methods wait for the device, but for products of arrays that lie there. Any thread may call them; those that work
    with one device take turns. Who wants to multiply while another thread changes the matrix takes a `reader`. What is
    copied or pickled is the matrix as it is then, of which the copy is made anew on a device of the same words.

    Parameters
    ----------
    shape
        Rows and columns of a matrix without entries.
    dtype
        float32 or float64.
    segments
        The most that a row's chain can have. More of them put off bringing the matrix together, and slow products.
    slack
        Room of a new segment beside the entries that it is made for; None: the mean length of a row, at least 4.
    capacity
        Entries that the buffer has room for at first; None: half as many again as there are. It grows by itself.
    width
        Entries that each row has room for at first, at the least.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Attributes
    ----------
    device_name
        What it runs on.

    Raises
    ------
    ReproError
        There cannot be such a matrix, or no such device, or not on that device.
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
        self._begin(open_runtime(device), precision, empty, room)

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
        """Return a matrix with entries.

        Parameters
        ----------
        matrix
            A SciPy sparse matrix or array of real numbers; or data, indices and offsets of CSR as a tuple, on the host
            or on the device, where they are copied without passing the host.
        shape
            Of the tuple's matrix.
        dtype
            None: float32 for values of that type, else float64.
        segments, slack, capacity, width, device
            As of `DynamicCSR`; there is no width for arrays on the device.

        Raises
        ------
        ReproError
            This is no such matrix, is damaged or does not fit, or has values that the dtype does not hold.
        """
        room = Capacity(segments, slack, capacity, width)
        if isinstance(matrix, (tuple, list)):
            if shape is None or len(matrix) != 3:
                raise ReproError("these are no arrays of CSR", expected="(data, indices, offsets), and a shape")
            shape = check_shape(shape, segments)
            if any(on_device(array) for array in matrix):
                return cls._from_device(tuple(matrix), shape, dtype, room, device)
            matrix = sound_arrays(matrix, shape, "matrix")
        rows, precision = as_rows(matrix, dtype, most_rows=MAX_ENTRIES // segments)
        made = cls.__new__(cls)
        made._begin(open_runtime(device), precision, rows, room)
        return made

    @classmethod
    def _from_device(
        cls, arrays: tuple[Any, Any, Any], shape: tuple[int, int], dtype: DTypeLike | None, room: Capacity, device: str
    ) -> DynamicCSR:
        if not all(on_device(array) for array in arrays):
            raise ReproError("the arrays of CSR have to be on the same side", expected="all on the device, or NumPy's")
        if room.width:
            raise ReproError("a width is for matrices of the host", expected=0, actual=room.width)
        data, indices, offsets = arrays
        own = described(data)[0]
        precision = precision_of_values(own) if dtype is None else precision_of(dtype)
        count, runtime = math.prod(described(data)[1]), open_runtime(device)
        capacity = room.for_entries(count)
        if count > capacity or capacity > MAX_ENTRIES:
            raise ReproError("the matrix does not fit into its buffer", expected=f"at most {capacity:,}", actual=count)
        made = cls.__new__(cls)
        empty = sp.csr_array(shape, dtype=DTYPES[precision])
        made._begin(runtime, precision, empty, Capacity(room.segments, room.slack_of(count, shape[0]), capacity))
        with made._changing(set()):
            storage, program = made._matrix.storage, made._load("matrix")
            made._entries = take_csr(runtime, made._batches, program, storage, data, indices, offsets)
        return made

    def _begin(self, runtime: Runtime, precision: str, matrix: sp.csr_array, room: Capacity) -> None:
        held = np.maximum(np.diff(matrix.indptr), room.width).sum(dtype=np.int64)
        arrays = lay_out(matrix, room.segments, room.for_entries(int(held)), room.width)
        self._hold(runtime, precision, arrays, matrix.nnz, room.slack_of(matrix.nnz, matrix.shape[0]))

    def _hold(self, runtime: Runtime, precision: str, start: Arrays | Storage, entries: int, slack: int) -> None:
        super().__init__(runtime, Kind("real", precision), start.shape)
        self._precision = precision
        self._batches = Batches(runtime, start.shape, self.dtype, precision)
        try:
            with runtime.after():
                matrix_module, sort_module = self._load("matrix"), self._load("sort")
                self._matrix = DynamicMatrix(runtime.device, matrix_module, sort_module, start, slack)
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
        self._entries, self._since = entries, 0

    @classmethod
    def of_storage(cls, runtime: Runtime, precision: str, storage: Storage) -> DynamicCSR:
        """Return a matrix of what lies on the device already, which becomes its own; `repro.spgemm` makes such."""
        made = cls.__new__(cls)
        entries = storage.report().pointer
        made._hold(runtime, precision, storage, entries, Capacity().slack_of(entries, storage.shape[0]))
        return made

    @contextmanager
    def lent(self) -> Iterator[Storage]:
        """Give what the matrix consists of on the device, which stays as it is until the end."""
        with self._changing(set()):
            yield self._matrix.storage

    @property
    def runtime(self) -> Runtime:
        """The device, with what compiles for it."""
        return self._runtime

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
            Arrays `(m,)`, lists, or one number for all entries. On a GPU arrays of CuPy, PyTorch or Numba are read
            where they lie if they are int32 and of the matrix's dtype; int64 indices and other real numbers are
            converted there.
        mode
            `add`: entries are appended, and those of one place count as their sum. `unique`: a place has one entry at
            the most, and what is there already decides `existing`.
        existing
            In the mode `unique`: the new value takes the old one's place (`replace`; of several in the batch the last)
            or is added to it (`add`).

        Raises
        ------
        NoRoom
            The device has no memory for all of them; its `left` says which entries are not in the matrix.
        ReproError
            The batch is none that can be inserted; nothing was done. Or it is so large that it goes in parts, and a
            later one was refused: the message says from which entry on.
        """
        one_of(mode, "mode", ("add", "unique"))
        one_of(existing, "existing", ("replace", "add"))
        how = existing if mode == "unique" else None
        self._change(lambda batch: self._matrix.insert(batch, how), rows, columns, values)

    def update(self, rows: Any, columns: Any, values: Any, existing: Existing = "replace") -> None:
        """Change the values of entries that are there, and ignore the others; as `insert` in the mode `unique`."""
        one_of(existing, "existing", ("replace", "add"))
        self._change(lambda batch: self._matrix.insert(batch, existing, grow=False), rows, columns, values)

    def delete(self, rows: Any, columns: Any) -> None:
        """Take all entries of some places out, and ignore places that have none.

        Parameters
        ----------
        rows, columns
            As of `insert`.

        Raises
        ------
        ReproError
            These are no places of the matrix; nothing was done.
        """
        self._change(self._matrix.delete, rows, columns)

    def _change(self, change: Callable[[Batch], object], *arrays: Any) -> None:
        given, count = self._batches.look(*arrays)
        if not count:
            return
        done = 0
        with self._changing(streams_of(given)):
            self._since += count
            try:
                for first, batch in self._batches.parts(given, count, self._matrix.slack):
                    change(batch)
                    done = first + batch.count
            except NoRoom as error:
                later = np.arange(done + batch.count, count)
                left = np.concatenate([done + error.left.astype(np.int64), later]).astype(np.int32)
                raise NoRoom(left, count, error.reason) from None
            except (ReproError, OutOfDeviceMemory) as error:
                if not done or isinstance(error, Unfinished):
                    raise
                raise ReproError(
                    "a part of a batch was refused, and what comes after it was not tried",
                    where=f"entries from {done:,} on, of {count:,}; those before are done",
                    actual=error,
                    todo=f"do the same again with the entries from {done:,} on, once they can be taken",
                ) from None

    def defragment(self, slack: int = 0) -> None:
        """Bring each row back into one segment, with room for so many entries more, in a new buffer.

        Products are as fast then as can be. It happens by itself where an insertion finds no room.

        Raises
        ------
        ReproError
            There is no memory for a second buffer; the matrix is as it was.
        """
        slack = whole_number(slack, "slack", 0, MAX_SLACK)
        with self._changing(set()):
            self._matrix.defragment(slack)

    def tidy(self) -> None:
        """Bring rows together whose chains are almost full, within the buffer, as far as it has room."""
        with self._changing(set()):
            self._matrix.tidy()

    @contextmanager
    def _changing(self, streams: set[int | None]) -> Iterator[None]:
        """Work behind what others queued, alone of all threads; a full device is one message."""
        try:
            with self._runtime.after(*streams):
                yield
        except OutOfDeviceMemory as error:
            raise self._runtime.no_room(error) from None

    # reading ----------------------------------------------------------------------------------------------------------

    def _multiply(self, x: Any, y: Any) -> None:
        if self.shape[0]:
            bind_product(self._multiplying, self._schedule(), self._matrix.storage, x.buffer, y.buffer)()

    @cached_property
    def _multiplying(self) -> Program:
        return _Reused(self._load("product"))

    def _schedule(self) -> Schedule:
        """Return a schedule for rows of about the mean length, counted again where that may have doubled."""
        if self._since > self._entries:
            with suppress(OutOfDeviceMemory):  # a schedule for fewer is slower, and as right
                self._entries, self._since = self._matrix.nnz, 0
        return usual_schedule(self._runtime.device.target, self._mean)

    @property
    def _mean(self) -> float:
        """Entries of a row, those counted in that were inserted since they were last counted."""
        rows: int = self.shape[0]
        return (self._entries + self._since) / max(rows, 1)

    def reader(self) -> Reader:
        """Return what multiplies while another thread changes this matrix, on a queue of its own."""
        with self._runtime.after():
            return Reader(self._runtime, self._kind, self._matrix, lambda: self._load("reader"), self._mean)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._changing(set()):
            stored = self._matrix.to_csr()
            room = self.segments, self._matrix.slack, self.capacity
        return _again, (stored, str(self.dtype), *room, self._runtime.words)

    def to_scipy(self) -> sp.csr_array:
        """Return the matrix as CSR on the host: rows in the order of columns, entries of one place added up."""
        with self._changing(set()):
            matrix = self._matrix.to_csr()
        matrix.sum_duplicates()
        return matrix

    @property
    def nnz(self) -> int:
        """Entries, those of one place counted one by one; waits for the device."""
        with self._changing(set()):
            self._entries, self._since = self._matrix.nnz, 0
            return self._entries

    @property
    def segments(self) -> int:
        """The most segments that a row can have."""
        return self._matrix.storage.segments

    @property
    def capacity(self) -> int:
        """Entries that there is memory for now."""
        return self._matrix.storage.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix on the device, room included."""
        return self._matrix.storage.nbytes

    def _load(self, module: str) -> Program:
        return load_module(self._runtime, self._precision, module)

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"<{size} {type(self).__name__}: {self.dtype}, {self.segments} segments on {self.device_name}>"


def _again(matrix: sp.csr_array, dtype: str, segments: int, slack: int, capacity: int, device: str) -> DynamicCSR:
    """Return what was copied or pickled, made anew: entries of one place stay several."""
    return DynamicCSR.from_csr(matrix, dtype=dtype, segments=segments, slack=slack, capacity=capacity, device=device)


class _Reused:
    """A program that makes each kernel once, as OpenCL is slow to: for who launches it before it is bound anew."""

    def __init__(self, program: Program) -> None:
        self.kernel = cache(program.kernel)
