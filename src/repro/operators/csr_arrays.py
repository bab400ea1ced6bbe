"""Matrices in CSR whose arrays lie on the device: those of CuPy, and what our matrices are handed over as."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from typing import Any

import numpy as np

from repro.codegen.precisions import DTYPES
from repro.devices.base import Argument, Program
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray
from repro.operators.batches import Batches, load_module
from repro.operators.formats import check_compressed, check_extent, check_places
from repro.operators.matrix import precision_of_values
from repro.operators.runtime import Runtime
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels, Scratch
from repro.sparse.launches import Launches, Load

CUPYS_MATRICES, CUPYS_ARRAYS = "cupyx.scipy.sparse", "cupy"


def is_cupys(thing: Any, module: str) -> bool:
    """Say whether something is of a class of CuPy's, which need not be installed."""
    return any(f"{base.__module__}.".startswith(f"{module}.") for base in type(thing).__mro__)


def cupys_rows(matrix: Any, what: str) -> tuple[Any, str]:
    """Return a sparse matrix of CuPy as CSR with its columns in order, none of a row twice, and its precision.

    Raises
    ------
    ReproError
        It is not real, or damaged.
    """
    if matrix.dtype.kind not in "fiub":
        raise ReproError("the matrix is not real", where=what, expected="real numbers", actual=matrix.dtype)
    precision = precision_of_values(matrix.dtype)
    _check_cupys(matrix, what)
    if matrix.format == "csr":  # as a new one, which does not say yet whether its columns are in order
        end = int(matrix.indptr[-1])
        arrays = matrix.data[:end], matrix.indices[:end], matrix.indptr
        rows = import_module(CUPYS_MATRICES).csr_matrix(arrays, shape=matrix.shape)
    else:
        rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows, precision


def _check_cupys(matrix: Any, what: str) -> None:
    """Look at the numbers of a matrix of CuPy's on its GPU, before anything there converts it."""
    check_extent(matrix.shape, what, MOST_ENTRIES)
    rows, columns = matrix.shape
    if matrix.format == "coo":
        check_places(len(matrix.data), (matrix.row, matrix.col), matrix.shape, what)
    elif matrix.format in ("csr", "csc"):
        shape = (rows, columns) if matrix.format == "csr" else (columns, rows)
        check_compressed(len(matrix.data), matrix.indices, matrix.indptr, shape, what)


def device_of(matrix: Any) -> str:
    """Return the name of the GPU that CSR of CuPy lies on."""
    return f"cuda:{matrix.data.device.id}"


def take_csr(
    runtime: Runtime, batches: Batches, program: Program, storage: Storage, data: Any, indices: Any, offsets: Any
) -> int:
    """Copy the arrays of CSR on the device into a matrix, a segment each row, and return its entries.

    Parameters
    ----------
    batches
        For a matrix of this shape and dtype.
    program
        The module `matrix`.
    storage
        Has room for the entries, and is written to.

    Raises
    ------
    ReproError
        They are none that fit each other.
    """
    rows, columns = storage.shape
    values, places = batches.value(data), batches.index(indices, "columns", columns)
    ends = batches.index(offsets, "offsets", MOST_ENTRIES + 1)
    if places.count != values.count or ends.count != rows + 1 or ends.seen is None:
        raise ReproError(
            "the arrays of CSR do not fit each other",
            expected=f"as many data as indices, and {rows + 1} offsets",
            actual=f"{values.count} data, {places.count} indices, {ends.count} offsets",
        )
    with runtime.after(*{array.seen.stream for array in (values, places, ends) if array.seen is not None}):
        host = np.empty(rows + 1, ends.dtype)
        runtime.device.download(ends.seen.buffer, host)
        if host[0] or host[-1] != values.count or (host[1:] < host[:-1]).any():
            raise ReproError("these are no offsets of CSR", expected=f"numbers that ascend from 0 to {values.count}")
        batches.convert(places, storage.columns)
        batches.convert(values, storage.values)
        arguments: list[Argument] = [
            np.int32(rows), np.int32(storage.segments), np.int32(storage.pitch), batches.buffer(ends, rows + 1),
            storage.table, storage.sizes, storage.state,
        ]  # fmt: skip
        Kernels(runtime.device, program).over("adopt", rows, arguments)()
        runtime.device.synchronize()
    return int(host[-1])


def store_cupys(runtime: Runtime, matrix: Any, precision: str) -> Storage:
    """Return what `cupys_rows` returned as a matrix of ours, each row in one segment without room.

    Raises
    ------
    ReproError
        It does not lie on this device.
    OutOfDeviceMemory
    """
    dtype, nnz = np.dtype(DTYPES[precision]), int(matrix.data.size)
    if nnz > MOST_ENTRIES:
        raise ReproError("the matrix has more entries than offsets can tell apart", expected=MOST_ENTRIES, actual=nnz)
    storage = Storage.empty(runtime.device, matrix.shape, 1, nnz, dtype)
    batches = Batches(runtime, matrix.shape, dtype, precision)
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
    """Return the entries of a matrix as arrays on the device: data, indices and offsets of CSR, copied.

    Raises
    ------
    OutOfDeviceMemory
    """
    device, rows = runtime.device, storage.shape[0]
    with ExitStack() as held:
        run = Launches(device, load, held)
        offsets = device.allocate(4 * (rows + 1))
        nnz = run.offsets(storage.sizes, offsets, rows)
        copied = Storage.empty(device, storage.shape, 1, nnz, storage.dtype)
        operations = Operations(storage, load("matrix"), load("sort"), run.keep(Scratch(device)))
        operations.copy(offsets, copied, slack=False)()
        device.synchronize()
        for buffer in (copied.table, copied.sizes, copied.versions, copied.state):
            buffer.release()
    return (
        DeviceArray(device, copied.values, (nnz,), storage.dtype),
        DeviceArray(device, copied.columns, (nnz,), np.int32),
        DeviceArray(device, offsets, (rows + 1,), np.int32),
    )


def to_cupy(runtime: Runtime, load: Load, storage: Storage) -> Any:
    """Return a matrix as CuPy's `csr_matrix`, its columns in any order.

    Raises
    ------
    OutOfDeviceMemory
    """
    arrays = [as_cupys(array) for array in csr_arrays(runtime, load, storage)]
    with arrays[0].device:
        return import_module(CUPYS_MATRICES).csr_matrix(tuple(arrays), shape=storage.shape)


def as_cupys(array: DeviceArray) -> Any:
    """Return an array on the device as CuPy's, without a copy."""
    return import_module(CUPYS_ARRAYS).asarray(array)
