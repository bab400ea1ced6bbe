"""Arrays on a device: `DeviceArray`, and arrays of CuPy, PyTorch or Numba through `__cuda_array_interface__`."""

from __future__ import annotations

import math
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

INTERFACE = "__cuda_array_interface__"
#: Advice in errors about numbers that overflow the working precision.
TODO = "work in double precision, or scale the numbers"
LEGACY_DEFAULT_STREAM = 1


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

    On a GPU the array has `__cuda_array_interface__`, so CuPy, PyTorch and Numba use it without a copy. `numpy.asarray`
    copies it to the host.

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

    def __getattr__(self, name: str) -> Any:
        # libraries test for the attribute, so it exists only on a GPU
        if name == INTERFACE and hasattr(self.buffer, "pointer"):
            return {
                "shape": self.shape,
                "typestr": self.dtype.str,
                "data": (self.buffer.pointer, False),
                "strides": None,
                "version": 3,
                "stream": getattr(self.device, "stream", LEGACY_DEFAULT_STREAM),
            }
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "copy it to the host by `get()`, and back by the `put` of `repro.vectors`")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, device={self.device.name!r})"


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
    return ReproError("it lies on a device, and can be neither copied nor pickled", where=repr(holder), todo=todo)


def refuse_mask(array: object, subject: str) -> None:
    """Raise `ReproError` for a masked host array, whose mask NumPy and SciPy would ignore."""
    if np.ma.is_masked(array):
        todo = "say what masked numbers are by `filled`"
        raise ReproErrorOfValue("an array with a mask cannot be multiplied", where=subject, todo=todo)


def host_array(array: object, subject: str) -> NDArray[Any]:
    """Return a user's array or list on the host; raise `ReproError` for a mask and for what is no array."""
    refuse_mask(array, subject)
    try:
        return np.asarray(array)
    except (TypeError, ValueError) as error:
        raise ReproErrorOfValue("this is no array of numbers", where=subject, actual=error) from None


def is_on_device(array: object) -> bool:
    """Return whether an object is an array on a device."""
    return isinstance(array, DeviceArray) or hasattr(array, INTERFACE)


def view(array: Any, subject: str, dtype: np.dtype[Any], count: int, alignment: int = 1, write: bool = False) -> View:
    """Check an array on the device and return a view of its memory.

    `array` is a `DeviceArray` or has `__cuda_array_interface__`; `subject` is its name in errors. It raises
    `ReproError` if the array has another dtype or size, is not contiguous, has a mask, is not aligned to `alignment`
    bytes, or is read-only although `write` is set.
    """
    if isinstance(array, DeviceArray):
        _expect(subject, "dtype", dtype, array.dtype)
        _expect(subject, "size", count, array.size)
        return View(array.buffer, None, array.shape)
    interface = getattr(array, INTERFACE)
    shape = tuple(interface["shape"])
    pointer, read_only = interface["data"]
    _expect(subject, "dtype", dtype, np.dtype(interface["typestr"]))
    _expect(subject, "size", count, math.prod(shape))
    if interface.get("mask") is not None:
        raise ReproErrorOfValue("an array with a mask cannot be multiplied", where=subject)
    if not _is_contiguous(shape, interface.get("strides"), dtype.itemsize):
        raise ReproErrorOfValue(
            "an array on the GPU has to be contiguous",
            where=subject,
            expected="C order without gaps",
            actual=f"shape {shape}, strides {interface['strides']}",
            todo="copy it first, with `cupy.ascontiguousarray(x)` or `x.contiguous()`",
        )
    if pointer % alignment:
        raise ReproErrorOfValue(
            "an array on the GPU starts at an address that the kernel cannot load from",
            where=subject,
            expected=f"a multiple of {alignment} bytes",
            actual=hex(pointer),
            todo="copy it first: new arrays are aligned, slices need not be",
        )
    if write and read_only:
        raise ReproErrorOfValue("an array on the GPU cannot be written to", where=subject)
    return View(ExternalArray(pointer, count * dtype.itemsize, array), interface.get("stream"), shape)


def _expect(subject: str, quality: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise ReproErrorOfValue(
            f"an array on the device has another {quality}", where=subject, expected=expected, actual=actual
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
