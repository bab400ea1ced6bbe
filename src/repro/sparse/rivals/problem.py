"""The input of a rival: a task, its operands, and the arrays for its result.

All arrays are copies between guard zones, in host memory or on a GPU.
"""

from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.bench.guards import Guarded, GuardedArray, Guards
from repro.config.models import Rival, RivalTask
from repro.devices.base import Buffer, Device
from repro.errors import IncorrectError, Unsupported
from repro.sparse.expansions import INDEX_LIMIT, Bsr, to_csr


@dataclass(frozen=True)
class GpuArray:
    """A C-contiguous array on a GPU, with `__cuda_array_interface__` for CuPy, PyTorch and Numba."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Handle of the stream whose queued work may still write the array.
    stream: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if math.prod(self.shape) else 0, False),  # PyTorch refuses read-only arrays
            "strides": None,
            "stream": self.stream,
        }


RivalArray = NDArray[Any] | GpuArray


#: Byte value that makes every floating-point number NaN.
NAN_BYTE = 0xFF


def as_array(array_like: object) -> RivalArray:
    """Return an array that a rival has allocated, by `__cuda_array_interface__` if it is on a GPU."""
    interface = getattr(array_like, "__cuda_array_interface__", None)
    if interface is None:
        return np.asarray(array_like)
    dtype = np.dtype(interface["typestr"])
    if interface.get("strides") not in (None, (dtype.itemsize,)):
        raise IncorrectError("an array of c is not contiguous")
    return GpuArray(interface["data"][0], tuple(interface["shape"]), dtype, 0)


def address_of(array: RivalArray) -> int:
    return array.pointer if isinstance(array, GpuArray) else array.ctypes.data


class RivalArrays:
    """Allocates the arrays of one rival, and records which of them the rival may write.

    On a CPU they are in host memory, since foreign code does not use OpenCL.
    """

    def __init__(self, device: Device, guards: Guards) -> None:
        self._device, self._guards = device, guards
        self.on_gpu = device.backend == "cuda"
        self._allocated: list[Guarded | GuardedArray] = []
        #: Read-only arrays: name, array, its buffer on a GPU, and checksum of the content.
        self._read_only: list[tuple[str, RivalArray, Buffer | None, int]] = []
        #: Memory that the rival requested in its last run, in the order of its requests; and how many of these the
        #: current run has reused.
        self._results: list[tuple[int, RivalArray, Guarded | GuardedArray]] = []
        self._taken = 0

    @property
    def stream(self) -> int:
        """Handle of the CUDA stream; 0 on the host."""
        return int(getattr(self._device, "stream", 0))

    def give(self, array: NDArray[Any], name: str) -> RivalArray:
        """Return a copy of an array that the rival may only read; error messages call it `name`."""
        copy, buffer = self._allocate(array.shape, array.dtype, name)
        if isinstance(copy, GpuArray):
            if array.size:
                assert buffer is not None
                self._device.write(buffer, array)
        else:
            copy[...] = array
            copy.flags.writeable = False
        self._read_only.append((name, copy, buffer, zlib.crc32(np.ascontiguousarray(array).data)))
        return copy

    def rewrite(self, array: RivalArray, content: NDArray[Any]) -> None:
        """Replace the content of an array from `give`, after waiting for the device."""
        for place, (name, copy, buffer, _) in enumerate(self._read_only):
            if copy is not array:
                continue
            if isinstance(copy, np.ndarray):
                copy.flags.writeable = True
                copy[...] = content.reshape(copy.shape)
                copy.flags.writeable = False
            elif buffer is not None and content.size:
                self._device.write(buffer, content)
            self._read_only[place] = name, copy, buffer, zlib.crc32(np.ascontiguousarray(content).data)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, name: str) -> tuple[RivalArray, Buffer | None]:
        """Return an array for a result, filled with bytes 0xFF, which are NaN; on a GPU also its buffer."""
        array, buffer = self._allocate(shape, np.dtype(dtype), name)
        self.fill(array, buffer, NAN_BYTE)
        return array, buffer

    def fill(self, array: RivalArray, buffer: Buffer | None, byte: int) -> None:
        """Fill an array from `empty` with a byte."""
        if buffer is not None:
            self._device.fill(buffer, byte)
        elif isinstance(array, np.ndarray):
            array.view(np.uint8)[...] = byte

    def overwrite(self, array: RivalArray, byte: int) -> None:
        """Fill an array that the rival has allocated, or a result, with a byte, unless it is read-only."""
        if isinstance(array, GpuArray):
            if array.nbytes:
                self._device.fill(cast("Buffer", array), byte)  # it has a `pointer` and bytes, as buffers do
        elif array.flags.writeable and np.issubdtype(array.dtype, np.floating):
            array.fill(np.full(array.dtype.itemsize, byte, np.uint8).view(array.dtype)[0])

    def allocate_result(self, nbytes: int) -> RivalArray:
        """Return memory that a run requests for its result.

        Repeated runs request the same sizes: they get the memory of the previous run, which costs no time.
        """
        if self._taken < len(self._results) and self._results[self._taken][0] == nbytes:
            array = self._results[self._taken][1]
        else:
            self._drop_results(self._taken)
            array, _ = self.empty((nbytes,), np.uint8, "its result")
            self._results.append((nbytes, array, self._allocated.pop()))
        self._taken += 1
        return array

    def reuse_results(self) -> None:
        """Make the memory of the last run's results available to the next run."""
        self._taken = 0

    def _drop_results(self, start: int) -> None:
        for _, _, buffer in self._results[start:]:
            buffer.release()
        del self._results[start:]

    def at(self, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> RivalArray:
        """Return the array of a given shape at an address in the rival's own memory."""
        if self.on_gpu:
            return GpuArray(address or 0, shape, dtype, self.stream)
        nbytes = math.prod(shape) * dtype.itemsize
        if not nbytes:
            return np.empty(shape, dtype)
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address or 0))
        return memory.view(dtype).reshape(shape)

    def read(self, array: RivalArray) -> NDArray[Any]:
        """Wait for the device and return a copy of the array in host memory."""
        if isinstance(array, np.ndarray):
            return array.copy()
        host = np.empty(array.shape, array.dtype)
        if host.size:
            self._device.download(cast("Buffer", array), host)  # it has a `pointer`, as buffers do
        return host

    def _allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> tuple[RivalArray, Buffer | None]:
        if not self.on_gpu:
            host = self._guards.allocate_array(shape, dtype, name)
            self._allocated.append(host)
            return host.array, None
        buffer = self._guards.allocate(math.prod(shape) * dtype.itemsize, name)
        self._allocated.append(buffer)
        pointer: int = getattr(buffer.memory, "pointer")  # noqa: B009 (of CUDA's buffers)
        return GpuArray(pointer, shape, dtype, self.stream), buffer.memory

    def check_read_only(self) -> None:
        """Raise `IncorrectError` if the rival has changed a read-only operand."""
        for name, array, _, checksum in self._read_only:
            current = array if isinstance(array, np.ndarray) else self.read(array)
            if zlib.crc32(np.ascontiguousarray(current).data) != checksum:
                raise IncorrectError(f"writes to {name}, which it may only read")

    def release(self) -> None:
        self._drop_results(0)
        buffers, self._allocated = self._allocated, []
        self._read_only.clear()
        for buffer in buffers:
            buffer.release()


#: Names of the functions that a rival provides, by task: methods in Python, `repro_rival_…` in C.
FUNCTIONS: Mapping[RivalTask, tuple[str, ...]] = {
    "spmv": ("setup", "run", "teardown"),
    "spgemm": ("setup", "run", "teardown"),
    "solve": ("setup", "run", "teardown"),
    "updates": ("setup", "update", "run", "teardown"),
}


@dataclass(frozen=True)
class RivalMatrix:
    """A matrix in compressed sparse rows, or with `block` k > 1 in blocks of k×k numbers.

    Attributes
    ----------
    shape
        Rows and columns, counted in numbers.
    offsets
        `(shape[0] / block + 1,)`, int32 or int64.
    indices
        Column of each entry, counted in blocks, int32 `(entries,)`; ascending within a row.
    values
        `(entries,)`, or `(entries, block, block)` of blocks; float32 or float64.
    """

    shape: tuple[int, int]
    block: int
    offsets: RivalArray
    indices: RivalArray
    values: RivalArray

    @property
    def entries(self) -> int:
        """Number of stored entries, which are blocks if `block` > 1."""
        return self.indices.shape[0]


@dataclass(frozen=True)
class RivalBatch:
    """Entries to insert into a matrix, in any order.

    Coordinates may be repeated, or have an entry in the matrix already.

    Attributes
    ----------
    rows, columns
        int32 `(entries,)`.
    values
        float32 or float64 `(entries,)`.
    """

    rows: RivalArray
    columns: RivalArray
    values: RivalArray

    @property
    def entries(self) -> int:
        return self.rows.shape[0]


@dataclass
class RivalProblem:
    """The input of a rival, the same in Python as in C (`include/repro_rival.h`).

    Arrays are NumPy's on a CPU. On a GPU they have `__cuda_array_interface__`. A rival may write only `y` and `c`.

    Attributes
    ----------
    task
        `spmv` (y = A x), `spgemm` (C = A B), `solve` (A y = x, from y = 0) or `updates` (C = A + batches).
    precision
        `single` or `double`.
    stream
        Handle of the CUDA stream to queue work on; None on a CPU.
    device
        Number of the CUDA device; None on a CPU.
    a, b
        The matrices; `b` only for `spgemm`.
    x, y
        Vectors `(columns,)` and `(rows,)`; None for `spgemm` and `updates`.
    c
        For `spgemm` and `updates`: the result that `run` sets, (offsets, indices, values).
    tolerance, iterations
        For `solve`: the largest |x − A y| over |x|, and the largest number of iterations.
    coming, largest_batch
        For `updates`: total number of entries of all batches, and number of entries of the largest batch.
    """

    task: RivalTask
    precision: str
    stream: int | None
    device: int | None
    a: RivalMatrix
    b: RivalMatrix | None = None
    x: RivalArray | None = None
    y: RivalArray | None = None
    c: tuple[Any, Any, Any] | None = None
    tolerance: float = 0.0
    iterations: int = 0
    coming: int = 0
    largest_batch: int = 0
    #: Allocator for results of unknown size, for the tasks `spgemm` and `updates`.
    arrays: RivalArrays | None = field(default=None, repr=False)


def give_matrix(arrays: RivalArrays, rival: Rival, bsr: Bsr, columns: int, name: str) -> tuple[RivalMatrix, int]:
    """Copy a matrix to the arrays of a rival, in the format that the rival wants; return it, and its bytes.

    `columns` counts blocks. If 32-bit offsets cannot count the numbers of the matrix, `Unsupported` is raised.
    """
    k = bsr.values.shape[1]
    shape = (len(bsr.offsets) - 1) * k, columns * k
    block = k if rival.format == "bsr" else 1
    offsets, indices, values = (bsr.offsets, bsr.columns, bsr.values) if block > 1 else _expanded_blocks(bsr)
    if rival.offsets == 32 and len(indices) > INDEX_LIMIT:
        raise Unsupported(f"{len(indices)} entries are more than 32-bit offsets can count: say `offsets: 64`")
    parts: dict[str, NDArray[Any]] = {
        "offsets": np.asarray(offsets, np.int32 if rival.offsets == 32 else np.int64),
        "indices": np.asarray(indices, np.int32),
        "values": values,
    }
    arrays_by_part = {part: arrays.give(array, f"{name}'s {part}") for part, array in parts.items()}
    return RivalMatrix(shape, block, **arrays_by_part), sum(array.nbytes for array in parts.values())


def _expanded_blocks(bsr: Bsr) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    try:
        return to_csr(bsr)
    except OverflowError as error:
        raise Unsupported(str(error)) from None
