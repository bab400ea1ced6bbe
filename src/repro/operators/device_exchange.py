"""Exchange of arrays with users: batches of entries, and CSR matrices on the device.

A batch is made from arrays, lists and numbers, on the host or on the device. CSR matrices on the device are taken from
CuPy and similar libraries, and returned as CuPy matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, Program
from repro.errors import ReproErrorOfValue
from repro.exact_casts import WHOLE, can_hold, cast, expectation
from repro.operators.arrays import HOST, DeviceArray, View, host_array, is_on_device, memory_of
from repro.operators.runtime import KERNELS, Runtime
from repro.operators.scipy_matrices import SCALE, check_compressed, check_extent, check_places, precision_of_values
from repro.sparse.device_primitives import LaunchContext, Load, keep
from repro.sparse.dynamic.host_layout import MAX_ENTRIES
from repro.sparse.dynamic.kernels import TEMPLATES, render_module
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.storage import EntryBatch, Storage
from repro.sparse.elementwise import Kernels, Scratch
from repro.sparse.spgemm.kernels import render_spgemm

#: Largest number of entries in one insertion or deletion; larger batches are split.
MAX_BATCH = 1 << 26
#: Up to this number of entries, the arrays of a batch of the host go to the device in one copy.
MAX_IN_ONE_COPY = 1 << 15
#: Accepted dtypes of arrays on the device.
Types = tuple[np.dtype[Any], ...]
INT32 = np.dtype(np.int32)
INDEX_TYPES: Types = INT32, np.dtype(np.int64)
VALUE_TYPES: Types = np.dtype(np.float32), np.dtype(np.float64), *INDEX_TYPES


@dataclass(frozen=True)
class BatchArray:
    """One checked array of a batch: row indices, column indices or values."""

    #: `rows`, `columns` or `values`.
    subject: str
    #: Length; None: one number for all entries.
    count: int | None
    dtype: np.dtype[Any]
    #: Host array, converted to int32 or the matrix's dtype; None if the user gave a device array.
    host: NDArray[Any] | None = None
    #: The user's device array; None if the user gave a host array.
    seen: View | None = None
    #: Indices must be below this limit; None: the array has values.
    limit: int | None = None


class BatchUpload:
    """Checks and uploads batches of entries for a matrix with the given shape and dtype."""

    def __init__(self, runtime: Runtime, shape: tuple[int, int], dtype: np.dtype[Any], precision: str) -> None:
        self._runtime, self._shape, self._dtype, self._precision = runtime, shape, dtype, precision
        self._scratch = Scratch(runtime.device)
        self._kernels: Kernels | None = None
        self._blocks: dict[int, _Block] = {}

    # checking ---------------------------------------------------------------------------------------------------------

    def check_batch(self, rows: Any, columns: Any, *values: Any) -> tuple[list[BatchArray], int]:
        """Check the arrays of a batch; return the checked arrays and the number of entries."""
        batch_arrays = [self.index(rows, "rows", self._shape[0]), self.index(columns, "columns", self._shape[1])]
        batch_arrays += map(self.value, values)
        counts = {array.count for array in batch_arrays if array.count is not None}
        if len(counts) > 1:
            raise ReproErrorOfValue(
                "the arrays of a batch differ in length",
                where=" and ".join(array.subject for array in batch_arrays),
                expected="arrays of equal length, or one number for all",
                actual=", ".join(f"{array.subject}: {array.count}" for array in batch_arrays),
            )
        return batch_arrays, counts.pop() if counts else 1

    def index(self, array: Any, subject: str, limit: int) -> BatchArray:
        if not isinstance(array, HOST) and (seen := self._on_device(array, subject, INDEX_TYPES, limit)) is not None:
            return seen
        host = host_array(array, subject)
        if host.dtype.kind == "f" and np.isnan(host).any():
            raise ReproErrorOfValue("NaN is not an index", where=subject, expected="whole numbers", actual=host.dtype)
        if host.size and host.dtype.kind not in "iu":
            raise ReproErrorOfValue("an index is not an integer", where=subject, expected="integers", actual=host.dtype)
        if host.size and (host.min() < 0 or host.max() >= limit):
            first, *others = np.flatnonzero((host < 0) | (host >= limit))
            raise ReproErrorOfValue(
                "entries are outside the matrix; nothing was changed",
                where=f"{subject}[{first}]",
                expected=f"{subject} from 0 to {limit - 1}" if limit else f"none: the matrix has no {subject}",
                actual=f"{host.ravel()[first]}" + f", and {len(others):,} more" * bool(others),
            )
        return BatchArray(
            subject, _count(host, subject), host.dtype, host=host.astype(np.int32, copy=False), limit=limit
        )

    def value(self, array: Any) -> BatchArray:
        if not isinstance(array, HOST) and (seen := self._on_device(array, "values", VALUE_TYPES, None)) is not None:
            return seen
        host = host_array(array, "values")
        if host.dtype.kind not in "fiub":
            raise ReproErrorOfValue(
                "the values are not real numbers", where="values", expected="real numbers", actual=host.dtype
            )
        return BatchArray("values", _count(host, "values"), host.dtype, host=cast(host, self._dtype, "values", SCALE))

    def _on_device(self, array: Any, subject: str, types: Types, limit: int | None) -> BatchArray | None:
        """Return a checked array on the device; None for an array of the host."""
        library = self._runtime.libraries[type(array)]
        known = None if library is None else library.dtype(array)
        if known is None and not is_on_device(array):
            return None
        dtype, shape = described(array) if known is None else (known, tuple(array.shape))
        if dtype not in types or not dtype.isnative:
            raise ReproErrorOfValue(
                "an array on the device has the wrong dtype",
                where=subject,
                expected=" or ".join(map(str, types)),
                actual=dtype,
            )
        if len(shape) != 1:
            raise ReproErrorOfValue(
                "an array on the device has more than one dimension", where=subject, actual=f"shape {shape}"
            )
        array_view = self._runtime.view(array, subject, dtype, shape[0], dtype.itemsize)
        return BatchArray(subject, shape[0], dtype, seen=array_view, limit=limit)

    # uploading --------------------------------------------------------------------------------------------------------

    def parts(self, batch_arrays: list[BatchArray], count: int, slack: int) -> Iterator[tuple[int, EntryBatch]]:
        """Queue the upload of a batch; yield (index of the first entry, part) for parts small enough for one insertion.

        An entry outside the matrix, or a value that exceeds the matrix's dtype, raises `ReproError`.
        """
        alignment = PART_ALIGNMENT // 4
        capacity = max(min(MAX_BATCH, MAX_ENTRIES // (1 + slack)) // alignment, 1) * alignment
        if count <= min(capacity, MAX_IN_ONE_COPY) and all(array.host is not None for array in batch_arrays):
            yield 0, self._in_one_copy([array.host for array in batch_arrays], count)
            return
        # an insertion checks only the indices of its part, so all indices of a split batch are checked here first
        buffers = [self.buffer(array, count, check_indices=count > capacity) for array in batch_arrays]
        if count <= capacity:
            yield 0, _batch(count, buffers)
            return
        device = self._runtime.device
        for first in range(0, count, capacity):
            part_count = min(capacity, count - first)
            sizes = (4, 4, self._dtype.itemsize)
            part_buffers = [
                device.part(buffer, first * size, part_count * size)
                for buffer, size in zip(buffers, sizes, strict=False)
            ]
            yield first, _batch(part_count, part_buffers)

    def _in_one_copy(self, arrays: list[Any], count: int) -> EntryBatch:
        size = 1 << max(8, (count - 1).bit_length())
        if size not in self._blocks:
            self._blocks[size] = _Block(self._runtime.device, size, self._dtype)
        return self._blocks[size].fill(arrays, count)

    def buffer(self, array: BatchArray, count: int, check_indices: bool = False) -> Buffer:
        """Return device memory with the `count` numbers as int32 or the matrix's dtype; indices are checked if wanted.

        A device array with this dtype is returned without a copy if its indices need no check.
        """
        dtype = self._dtype if array.limit is None else INT32
        buffer = self._scratch.take(array.subject, max(count, 1) * dtype.itemsize)
        if array.host is not None:
            host = np.broadcast_to(array.host.reshape(-1), (count,)) if array.count is None else array.host
            if count:
                self._runtime.device.write(buffer, host)
            return buffer
        assert array.seen is not None
        if array.dtype == dtype and not (check_indices and array.limit is not None):
            return array.seen.buffer
        self.convert(array, buffer)
        return buffer

    def convert(self, array: BatchArray, target: Buffer) -> None:
        """Convert a device array into `target`, int32 for indices, else the matrix's dtype.

        If numbers can be invalid, it returns once the device has counted them.

        Raises
        ------
        ReproError
            Indices lie outside of the matrix, or values do not fit into its dtype.
        """
        assert array.seen is not None and array.count is not None
        if not array.count:
            return
        m, source = np.int32(array.count), array.seen.buffer
        if array.limit is not None:
            limit = np.int32(array.limit)
            wrong = self._count_violations(f"indices_{array.dtype.name}", array.count, m, limit, source, target)
            if wrong:
                raise ReproErrorOfValue(
                    "entries are outside the matrix; nothing was changed",
                    where=array.subject,
                    expected=f"{array.subject} from 0 to {array.limit - 1}",
                    actual=f"{wrong:,} elsewhere",
                )
        elif can_hold(array.dtype, self._dtype):
            self._over(f"values_{array.dtype.name}", array.count, m, source, target)
        elif lost := self._count_violations(f"values_{array.dtype.name}", array.count, m, source, target):
            raise ReproErrorOfValue(
                f"numbers cannot be represented in {self._dtype}; nothing was changed",
                where=array.subject,
                expected=expectation(self._dtype),
                actual=f"{lost:,} others",
                todo=SCALE if array.dtype.kind == "f" else WHOLE,
            )

    def _count_violations(self, name: str, count: int, *arguments: Argument) -> int:
        host_count, counter = np.empty(1, np.int32), self._scratch.take("wrong", 4)
        self._runtime.device.fill(counter, 0)
        self._over(name, count, *arguments, counter)
        self._runtime.device.download(counter, host_count)
        return int(host_count[0])

    def _over(self, name: str, count: int, *arguments: Argument) -> None:
        if self._kernels is None:
            self._kernels = Kernels(self._runtime.device, load_module(self._runtime, self._precision, "arrays"))
        self._kernels.over(name, count, arguments)()

    def release(self) -> None:
        while self._blocks:
            self._blocks.popitem()[1].release()
        self._scratch.release()


class _Block:
    """Memory of the host and of the device for batches of up to `size` entries: rows, columns and values."""

    def __init__(self, device: Device, size: int, dtype: np.dtype[Any]) -> None:
        self._device = device
        self._offsets = offsets = 0, 4 * size, 8 * size, (8 + dtype.itemsize) * size
        self._memory = device.allocate(offsets[-1])
        with ExitStack() as undo:
            undo.callback(self._memory.release)
            self._host = device.host_array(offsets[-1], np.dtype(np.uint8))
            self._arrays, self._parts = [], []
            for (begin, end), kind in zip(pairwise(offsets), (INT32, INT32, dtype), strict=True):
                self._arrays.append(self._host[begin:end].view(kind))
                self._parts.append(keep(undo, device.part(self._memory, begin, end - begin)))
            self._undo = undo.pop_all()

    def fill(self, arrays: list[NDArray[Any]], count: int) -> EntryBatch:
        """Copy a batch to the device, without values if there are none."""
        for target, array in zip(self._arrays, arrays, strict=False):
            target[:count] = array
        end = self._offsets[len(arrays) - 1] + count * self._arrays[len(arrays) - 1].itemsize
        self._device.write(self._memory, self._host[:end])
        rows, columns, values = self._parts
        return EntryBatch(count, rows, columns, values if len(arrays) > 2 else None, in_own_memory=True)

    def release(self) -> None:
        self._undo.close()


@cache
def load_module(runtime: Runtime, precision: str, module: str) -> Program:
    """Load a kernel module of dynamic matrices once; compile it if it is not in the cache."""
    source = render_module(KERNELS, f"{precision}/{module}", runtime.device.target, "DynamicCSR")
    return runtime.kernels(source, f"dynamic/{precision}-{module}")


@cache
def load_products(runtime: Runtime, precision: str) -> Callable[[str], Program]:
    """Return a function that loads kernel modules for sparse products by name, through the compile cache."""

    @cache
    def load(module: str) -> Program:
        if module in TEMPLATES:
            return load_module(runtime, precision, module)
        source = render_spgemm(KERNELS, f"{precision}/{module}", runtime.device.target, "spgemm")
        return runtime.kernels(source, f"spgemm/{precision}-{module}")

    return load


def _batch(count: int, buffers: list[Buffer]) -> EntryBatch:
    rows, columns, *values = buffers
    return EntryBatch(count, rows, columns, values[0] if values else None)


def described(array: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(array, DeviceArray):
        return array.dtype, array.shape
    memory, _ = memory_of(array, "an array")
    return memory.dtype, memory.shape


def batch_streams(batch_arrays: list[BatchArray]) -> set[int | None]:
    return {array.seen.stream for array in batch_arrays if array.seen is not None}


def _count(host: NDArray[Any], subject: str) -> int | None:
    """Return the length of an array of a batch; None for one number."""
    if host.ndim > 1:
        raise ReproErrorOfValue(
            "an array of a batch has more than one dimension", where=subject, actual=f"shape {host.shape}"
        )
    return len(host) if host.ndim else None


CUPYS_MATRICES, CUPYS_ARRAYS = "cupyx.scipy.sparse", "cupy"


def is_from_module(array: Any, module: str) -> bool:
    """Return whether an object's class comes from a module of CuPy; CuPy need not be installed."""
    return any(f"{base.__module__}.".startswith(f"{module}.") for base in type(array).__mro__)


def cupys_rows(matrix: Any, subject: str) -> tuple[Any, str]:
    """Return a CuPy matrix as CSR with sorted columns and without duplicates, and its precision.

    A complex or damaged matrix raises `ReproError`.
    """
    if matrix.dtype.kind not in "fiub":
        raise ReproErrorOfValue("the matrix is not real", where=subject, expected="real numbers", actual=matrix.dtype)
    check_cupys(matrix, subject)
    return sorted_cupys(matrix), precision_of_values(matrix.dtype)


def sorted_cupys(matrix: Any) -> Any:
    """Return a checked CuPy matrix as CSR with sorted columns and without duplicates; it may be the same."""
    if matrix.format == "csr":  # a new object has no cached and possibly wrong flags about the order of columns
        end = int(matrix.indptr[-1])
        arrays = matrix.data[:end], matrix.indices[:end], matrix.indptr
        rows = import_module(CUPYS_MATRICES).csr_matrix(arrays, shape=matrix.shape)
    else:
        rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def check_cupys(matrix: Any, subject: str) -> None:
    """Check shape, indices and offsets of a CuPy matrix, on the GPU, before any conversion."""
    check_extent(matrix.shape, subject, MAX_ENTRIES)
    rows, columns = matrix.shape
    if matrix.format == "coo":
        check_places(len(matrix.data), (matrix.row, matrix.col), matrix.shape, subject)
    elif matrix.format in ("csr", "csc"):
        shape = (rows, columns) if matrix.format == "csr" else (columns, rows)
        check_compressed(len(matrix.data), matrix.indices, matrix.indptr, shape, subject)


def cupy_device(matrix: Any) -> str:
    return f"cuda:{matrix.data.device.id}"


def take_csr(
    runtime: Runtime, batches: BatchUpload, program: Program, storage: Storage, data: Any, indices: Any, offsets: Any
) -> int:
    """Copy CSR arrays on the device into `storage`, with one segment per row; return the number of entries.

    `program` is the loaded module `matrix`; `batches` has the shape and dtype of `storage`. Inconsistent arrays raise
    `ReproError`.
    """
    rows, columns = storage.shape
    values, places = batches.value(data), batches.index(indices, "columns", columns)
    ends = batches.index(offsets, "offsets", MAX_ENTRIES + 1)
    if places.count != values.count or ends.count != rows + 1 or ends.seen is None:
        raise ReproErrorOfValue(
            "the CSR arrays do not match",
            expected=f"equally many data and indices, and {rows + 1} offsets",
            actual=f"{values.count} data, {places.count} indices, {ends.count} offsets",
        )
    with runtime.after(*{array.seen.stream for array in (values, places, ends) if array.seen is not None}):
        host = np.empty(rows + 1, ends.dtype)
        runtime.device.download(ends.seen.buffer, host)
        if host[0] or host[-1] != values.count or (host[1:] < host[:-1]).any():
            raise ReproErrorOfValue("invalid CSR offsets", expected=f"ascending numbers from 0 to {values.count}")
        batches.convert(places, storage.columns)
        batches.convert(values, storage.values)
        arguments: list[Argument] = [
            np.int32(rows), np.int32(storage.segments), np.int32(storage.pitch), batches.buffer(ends, rows + 1),
            storage.table, storage.sizes, storage.state,
        ]  # fmt: skip
        Kernels(runtime.device, program).over("segments_from_offsets", rows, arguments)()
        runtime.device.synchronize()
    return int(host[-1])


def store_cupys(runtime: Runtime, matrix: Any, precision: str) -> Storage:
    """Copy a CuPy CSR matrix from `cupys_rows` to new device storage, with one full segment per row.

    If the matrix is on another device, it raises `ReproError`.
    """
    dtype, nnz = np.dtype(DTYPES[precision]), int(matrix.data.size)
    if nnz > MAX_ENTRIES:
        raise ReproErrorOfValue(
            "the matrix has more entries than its offsets can count", expected=MAX_ENTRIES, actual=nnz
        )
    storage = Storage.empty(runtime.device, matrix.shape, 1, nnz, dtype)
    batches = BatchUpload(runtime, matrix.shape, dtype, precision)
    try:
        program = load_module(runtime, precision, "matrix")
        take_csr(runtime, batches, program, storage, matrix.data, matrix.indices, matrix.indptr)
    except BaseException:
        storage.release()
        raise
    finally:
        batches.release()
    return storage


def csr_arrays(runtime: Runtime, load: Load, storage: Storage) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Copy a matrix to CSR arrays on the device: data, indices and offsets."""
    device, rows = runtime.device, storage.shape[0]
    with ExitStack() as stack, ExitStack() as temporaries:
        run = LaunchContext(device, load, stack)
        offsets = keep(temporaries, device.allocate(4 * (rows + 1)))
        nnz = run.offsets(storage.sizes, offsets, rows)
        compact = keep(temporaries, Storage.empty(device, storage.shape, 1, nnz, storage.dtype))
        operations = Operations(storage, load("matrix"), load("sort"), run.keep(Scratch(device)))
        operations.copy(offsets, compact, slack=False)()
        device.synchronize()
        temporaries.pop_all()
        compact.release_rows()
    return (
        DeviceArray(device, compact.values, (nnz,), storage.dtype),
        DeviceArray(device, compact.columns, (nnz,), np.int32),
        DeviceArray(device, offsets, (rows + 1,), np.int32),
    )


def to_cupy(runtime: Runtime, load: Load, storage: Storage) -> Any:
    """Return a matrix as CuPy's `csr_matrix`; columns within a row are not sorted."""
    arrays = [as_cupy_array(array) for array in csr_arrays(runtime, load, storage)]
    with arrays[0].device:
        return import_module(CUPYS_MATRICES).csr_matrix(tuple(arrays), shape=storage.shape)


def as_cupy_array(array: DeviceArray) -> Any:
    return import_module(CUPYS_ARRAYS).asarray(array)
