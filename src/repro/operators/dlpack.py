"""DLPack, by which libraries share arrays without a copy: memory of others as a `Memory`, and a `DeviceArray` for them.

A producer packs an array into a capsule. The capsule's memory stays valid until the capsule's deleter is called.
"""

from __future__ import annotations

import atexit
import ctypes
import math
from typing import Any, NamedTuple

import numpy as np

#: Numbers of kinds of devices (`DLDeviceType`).
CPU, CUDA, CUDA_MANAGED = 1, 2, 13
#: Methods of a producer.
METHOD, DEVICE_METHOD = "__dlpack__", "__dlpack_device__"
#: Version of the structures below, and the capsules' names while nobody has taken them.
VERSION = (1, 0)
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_READ_ONLY = 1
#: NumPy's kinds of numbers by `DLDataTypeCode`.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_STRUCTURES: dict[bytes, type[_Managed] | type[_ManagedVersioned]] = {_PLAIN: _Managed, _VERSIONED: _ManagedVersioned}

_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_name = _python("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# a destructor gets a capsule that has no reference any more, and must not make one
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class Share(NamedTuple):
    """An array that its library lends, and the capsule that keeps its memory alive."""

    capsule: object
    array: object


class Memory(NamedTuple):
    """What a library says of an array's memory."""

    pointer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    #: In bytes; None: C order without gaps.
    strides: tuple[int, ...] | None
    read_only: bool
    #: Keeps the memory alive.
    owner: object


def is_on_gpu(array: Any) -> bool:
    """Return whether an array has DLPack's methods and lies on an NVIDIA GPU."""
    if not hasattr(array, METHOD):
        return False
    try:
        kind, _ = getattr(array, DEVICE_METHOD)()
    except Exception:  # of a library that has the method for arrays that it cannot share
        return False
    return int(kind) in (CUDA, CUDA_MANAGED)


def import_array(array: Any, stream: int) -> Memory:
    """Return the memory of an array on a GPU, whose contents are there for later work on a stream.

    It raises `BufferError` if the array's library does not share it, or if NumPy has no such dtype.
    """
    export = getattr(array, METHOD)
    try:
        try:
            capsule = export(stream=stream, max_version=VERSION)
        except TypeError:  # from before version 1.0
            capsule = export(stream=stream)
        # the capsule is not taken: when it goes, it calls the deleter itself
        name = _name(capsule)
        structure = _STRUCTURES[name]
    except Exception as error:
        raise BufferError(str(error)) from None
    managed = structure.from_address(_pointer(capsule, name))
    if structure is _ManagedVersioned and managed.major > VERSION[0]:
        raise BufferError(f"version {managed.major} of DLPack")
    tensor = managed.tensor
    if tensor.code not in _KINDS or tensor.lanes != 1 or tensor.bits % 8:
        raise BufferError(f"numbers of code {tensor.code}, {tensor.bits} bits and {tensor.lanes} lanes")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    read_only = structure is _ManagedVersioned and bool(managed.flags & _READ_ONLY)
    strides = tuple(n * dtype.itemsize for n in tensor.strides[: tensor.ndim]) if tensor.strides else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return Memory(pointer, dtype, tuple(tensor.shape[: tensor.ndim]), strides, read_only, Share(capsule, array))


#: What consumers still use, by the address of its structure.
_exported: dict[int, tuple[object, ...]] = {}


def export_array(
    owner: object, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], ordinal: int, versioned: bool
) -> object:
    """Return a capsule of a contiguous array on a GPU, whose memory `owner` keeps alive until the deleter is called."""
    managed: Any = _ManagedVersioned(*VERSION) if versioned else _Managed()
    dimensions = (ctypes.c_int64 * len(shape))(*shape)
    strides = (ctypes.c_int64 * len(shape))(*(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))
    pointers = (ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64)) for lengths in (dimensions, strides))
    code = next(code for code, kind in _KINDS.items() if kind == dtype.kind)
    managed.tensor = _Tensor(pointer, CUDA, ordinal, len(shape), code, 8 * dtype.itemsize, 1, *pointers, 0)
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    _exported[address] = owner, managed, dimensions, strides
    return _new(address, _VERSIONED if versioned else _PLAIN, _destroy)


def _forget(address: int) -> None:
    _exported.pop(address, None)


def _forget_untaken(capsule: int) -> None:
    """Free the array of a capsule that nobody took: who takes one renames it."""
    for name in _STRUCTURES:
        if _is_valid(capsule, name):
            _forget(_raw_pointer(capsule, name))


_delete, _destroy = _Destructor(_forget), _Destructor(_forget_untaken)


@atexit.register
def _leave() -> None:
    """Replace the deleters, which are Python's: libraries in C++ may call them after the interpreter has ended."""
    harmless = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p)  # ignores the address
    for kept in _exported.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # read by those that call it
        kept[1].deleter = harmless  # type: ignore[attr-defined]
