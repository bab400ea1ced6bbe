"""Arrays on a device: `DeviceArray`, and those of other libraries by `__cuda_array_interface__` or DLPack."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, Device
from repro.entries import Entry, get_entry
from repro.errors import ReproError, ReproErrorOfValue
from repro.exact_casts import cast
from repro.operators import dlpack
from repro.operators.dlpack import Memory

INTERFACE = "__cuda_array_interface__"
#: Advice in errors about numbers that overflow the working precision.
TODO = "work in double precision, or scale the numbers"
LEGACY_DEFAULT_STREAM = 1
#: Types of arrays that never lie on a device, and of which an object of no subclass has neither a mask nor a gradient.
HOST = np.ndarray, list, int, float


@dataclass(frozen=True)
class VectorType:
    """Entry type and precision of a matrix, which determine the dtypes of its vectors."""

    entry: str
    precision: str

    @cached_property
    def algebra(self) -> Entry:
        return get_entry(self.entry)

    @property
    def scalar(self) -> np.dtype[np.floating]:
        return np.dtype(DTYPES[self.precision])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of users' vectors: complex for complex entries, else real."""
        return np.result_type(self.scalar, np.complex64) if self.entry == "complex" else self.scalar

    @property
    def numbers(self) -> int:
        """Number of elements of a user's vector per vector entry: 4 for quaternions, 3 for `block3`, else 1."""
        return self.algebra.size * self.scalar.itemsize // self.dtype.itemsize

    def members(self, vector: NDArray[Any], subject: str) -> NDArray[np.floating]:
        """Return a host vector as members `(n, k)`, without a copy if possible; overflow raises `ReproError`."""
        exact = np.ascontiguousarray(cast(vector, self.dtype, subject, TODO, as_vector=True))
        return exact.reshape(-1).view(self.scalar).reshape(-1, self.algebra.size)

    def vector(self, members: NDArray[np.floating]) -> NDArray[Any]:
        """Return members `(n, k)` as a user's host vector, `(n·numbers,)`."""
        return np.ascontiguousarray(members, self.scalar).reshape(-1).view(self.dtype)


class DeviceArray:
    """A contiguous array on the device.

    On a GPU the array has `__cuda_array_interface__` and DLPack's methods, so CuPy, PyTorch, JAX and Numba use it
    without a copy. `numpy.asarray` and `numpy.from_dlpack(array, device="cpu")` copy it to the host. The CPU's arrays
    lie where only OpenCL sees them: `from_dlpack` copies them.

    Attributes
    ----------
    device
        Device that holds the array.
    buffer
        Device memory of the array, freed when no object refers to it any more.
    shape, dtype
        As for a NumPy array.
    """

    def __init__(self, device: Device, buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.device = device
        self.buffer = buffer
        self.shape, self.dtype = shape, np.dtype(dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""
        return self.size * self.dtype.itemsize

    def get(self) -> NDArray[Any]:
        """Wait for the device and copy to a new NumPy array."""
        host = np.empty(self.shape, self.dtype)
        if host.size:
            self.device.download(self.buffer, host)
        return host

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array on the device cannot be seen from the host without a copy")
        return self.get().astype(self.dtype if dtype is None else dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of the kind of device, and the device's ordinal."""
        return (dlpack.CUDA, int(getattr(self.device, "ordinal", 0))) if self._is_on_gpu else (dlpack.CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a capsule of DLPack; later work on the consumer's `stream` finds the contents.

        None is the default stream, and -1 a stream that need not wait. For `dl_device=(1, 0)`, the host, and for an
        array of the CPU's OpenCL, the capsule has a copy.
        """
        device = self.__dlpack_device__()
        if dl_device is not None and tuple(map(int, dl_device)) not in (device, (dlpack.CPU, 0)):
            raise BufferError(f"the array lies on the device {device} of DLPack, and not on {dl_device}")
        if device[0] == dlpack.CPU or (dl_device is not None and int(dl_device[0]) == dlpack.CPU):
            if copy is False:
                raise BufferError("an array on the device cannot be seen from the host without a copy")
            return self.get().__dlpack__()
        if copy:
            raise BufferError("the array is not copied: copy what you take")
        if stream == 0:
            raise BufferError("0 is no stream: 1 is the default stream, 2 that of each thread")
        device_queue: Any = self.device
        if stream is not None and stream > LEGACY_DEFAULT_STREAM:  # CUDA itself orders it with the default stream
            device_queue.let_wait(stream)
        versioned = max_version is not None and max_version[0] >= dlpack.VERSION[0]
        return dlpack.export_array(self, pointer_of(self.buffer), self.shape, self.dtype, device[1], versioned)

    @property
    def _is_on_gpu(self) -> bool:
        return hasattr(self.buffer, "pointer")

    def __getattr__(self, name: str) -> Any:
        # libraries test for the attribute, so it exists only on a GPU
        if name == INTERFACE and self._is_on_gpu:
            return {
                "shape": self.shape,
                "typestr": self.dtype.str,
                "data": (pointer_of(self.buffer), False),
                "strides": None,
                "version": 3,
                "stream": getattr(self.device, "stream", LEGACY_DEFAULT_STREAM),
            }
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "copy it to the host by `get()`, and back by the `put` of `repro.vectors`")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device={self.device.name!r})"


def pointer_of(buffer: Any) -> int:
    return int(buffer.pointer)


@dataclass(frozen=True)
class ExternalArray:
    """GPU memory that another library owns; the reference `owner` keeps the memory alive."""

    pointer: int
    nbytes: int
    owner: object

    def release(self) -> None: ...


@dataclass(frozen=True)
class View:
    """A checked array on the device: a `DeviceArray` or an array of another library."""

    buffer: Buffer
    #: CUDA stream on which the contents are computed; None: nothing to wait for.
    stream: int | None
    shape: tuple[int, ...]


def copy_refusal(holder: object, todo: str) -> ReproError:
    """Return the error for an attempt to copy or pickle an object that is bound to a device."""
    return ReproError("an object on a device can be neither copied nor pickled", where=repr(holder), todo=todo)


def refuse_mask(array: object, subject: str) -> None:
    """Raise `ReproError` for a masked host array, whose mask NumPy and SciPy would ignore."""
    if np.ma.is_masked(array):
        todo = "replace masked numbers with `filled`"
        raise ReproErrorOfValue("an array with a mask cannot be multiplied", where=subject, todo=todo)


def host_array(array: object, subject: str) -> NDArray[Any]:
    """Return a user's array or list on the host; raise `ReproError` for a mask and for what is no array."""
    try:
        if type(array) not in HOST:
            refuse_mask(array, subject)
            array = without_gradient(array, subject)
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, ReproError):
            raise
        raise ReproErrorOfValue("not an array of numbers", where=subject, actual=error) from None


def as_tensor(array: object) -> Any:
    """Return PyTorch's tensors as they are, and None for all else; it imports nothing."""
    torch = sys.modules.get("torch")
    return array if torch is not None and isinstance(array, getattr(torch, "Tensor", ())) else None


def needs_gradient(array: object) -> bool:
    """Return whether PyTorch currently records operations on an array, so that its gradient would be lost."""
    tensor = as_tensor(array)
    return tensor is not None and getattr(tensor, "requires_grad", False) and sys.modules["torch"].is_grad_enabled()


def without_gradient(array: Any, subject: str) -> Any:
    """Return an array as it is, and PyTorch's without a gradient that is not recorded now; refuse a recorded one."""
    if needs_gradient(array):
        raise ReproErrorOfValue(
            "the gradient of a tensor would be lost",
            where=subject,
            actual="a tensor with `requires_grad`",
            todo="pass `tensor.detach()`, or multiply by `A @ x` or `repro.torch.spmv(A, x)`, which have a gradient",
        )
    return array.detach() if as_tensor(array) is not None and getattr(array, "requires_grad", False) else array


def product_shape(shape: Iterable[int], rows: int, columns: int) -> tuple[int, ...]:
    """Return the shape of a new y = A x for an x of a given shape: that of x if A is square."""
    x_shape = tuple(shape)
    if rows == columns:
        return x_shape
    return (rows, 1) if x_shape == (columns, 1) else (rows,)


def is_on_device(array: object) -> bool:
    """Return whether an object is an array on a device."""
    if isinstance(array, np.ndarray):
        return False
    return isinstance(array, DeviceArray) or dlpack.is_on_gpu(array) or hasattr(array, INTERFACE)


def memory_of(array: Any, subject: str, stream: int | None = None) -> tuple[Memory, int | None]:
    """Return another library's array on the device as it describes itself, and the stream that computes it.

    `stream` is the one that the library's work goes to, if it is known.
    """
    array = without_gradient(array, subject)
    interface = getattr(array, INTERFACE, None)
    tensor = as_tensor(array)
    # of those without a stream, a tensor's is known, and others' libraries have a stream of theirs waited for by DLPack
    if interface is not None and ("stream" in interface or tensor is not None or not hasattr(array, dlpack.METHOD)):
        if interface.get("mask") is not None:
            raise ReproErrorOfValue("an array with a mask cannot be multiplied", where=subject)
        if tensor is not None and (tensor.is_conj() or tensor.is_neg()):
            todo = "take `tensor.resolve_conj().resolve_neg()`"
            raise ReproErrorOfValue("the tensor's memory does not hold its numbers", where=subject, todo=todo)
        pointer, read_only = interface["data"]
        dtype, shape, strides = np.dtype(interface["typestr"]), tuple(interface["shape"]), interface.get("strides")
        return Memory(pointer or 0, dtype, shape, strides, read_only, array), interface.get("stream")
    stream = stream or LEGACY_DEFAULT_STREAM
    try:
        return dlpack.import_array(array, stream), stream
    except BufferError as error:
        raise ReproErrorOfValue("the array's library cannot share it", where=subject, actual=error) from None


def view(
    array: Any,
    subject: str,
    dtype: np.dtype[Any],
    count: int,
    alignment: int = 1,
    write: bool = False,
    stream: int | None = None,
) -> View:
    """Check an array on the device and return a view of its memory.

    `array` is a `DeviceArray` or has `__cuda_array_interface__` or `__dlpack__`; `subject` is its name in errors, and
    `stream` the one that its library's work goes to, if it is known. It raises `ReproError` if the array has another
    dtype or size, is not contiguous, has a mask, is not aligned to `alignment` bytes, or is read-only although `write`
    is set.
    """
    if isinstance(array, DeviceArray):
        _expect(subject, "dtype", dtype, array.dtype)
        _expect(subject, "size", count, array.size)
        return View(array.buffer, None, array.shape)
    memory, stream = memory_of(array, subject, stream)
    _expect(subject, "dtype", dtype, memory.dtype)
    _expect(subject, "size", count, math.prod(memory.shape))
    if not _is_contiguous(memory.shape, memory.strides, dtype.itemsize):
        raise ReproErrorOfValue(
            "an array on the GPU must be contiguous",
            where=subject,
            expected="C order without gaps",
            actual=f"shape {memory.shape}, strides {memory.strides}",
            todo="copy it first, with `cupy.ascontiguousarray(x)` or `x.contiguous()`",
        )
    if memory.pointer % alignment:
        raise ReproErrorOfValue(
            "an array on the GPU is not aligned for the kernel",
            where=subject,
            expected=f"a multiple of {alignment} bytes",
            actual=hex(memory.pointer),
            todo="copy it first; new arrays are aligned, slices may not be",
        )
    if write and (memory.read_only or _is_immutable(array)):
        raise ReproErrorOfValue("an array on the GPU is read-only", where=subject)
    return View(ExternalArray(memory.pointer, count * dtype.itemsize, memory.owner), stream, memory.shape)


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array on the device, also of one that only has `__cuda_array_interface__`."""
    shape = getattr(array, "shape", None)
    return tuple(getattr(array, INTERFACE)["shape"] if shape is None else shape)


def is_row_major(array: Any, subject: str) -> bool:
    """Return whether a matrix on the device is contiguous in C order, or else not so in its transpose's."""
    if isinstance(array, DeviceArray):
        return True
    memory, _ = memory_of(array, subject)
    if _is_contiguous(memory.shape, memory.strides, memory.dtype.itemsize):
        return True
    transposed_strides = None if memory.strides is None else memory.strides[::-1]
    return not _is_contiguous(memory.shape[::-1], transposed_strides, memory.dtype.itemsize)


def _is_immutable(array: object) -> bool:
    """Return whether an array is JAX's: its capsules do not say so yet."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, getattr(jax, "Array", ()))


def _expect(subject: str, quality: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise ReproErrorOfValue(
            f"an array on the device has the wrong {quality}", where=subject, expected=expected, actual=actual
        )


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    if strides is None:
        return True
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True
