"""What the short path of a call asks of an array: its address, its library's stream, and a new array like it.

An array of CuPy or PyTorch, or a `DeviceArray`, is taken without a wait where it lies, and the result is an array of
the same library from that library's own memory. Everything else that lies on a device goes the general way, by
`repro.operators.arrays.view`, and so does an array that does not fit: that way ends in the message. The result of the
general way is an array of the same library too, where this is CuPy, PyTorch, JAX or Numba.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import numpy as np

from repro.operators.arrays import DeviceArray


class ArrayLibrary(Protocol):
    """How one library's arrays are used on the GPU with number `ordinal`."""

    def address(self, array: Any, dtype: np.dtype[Any], size: int, ordinal: int) -> int:
        """Return where an array lies; 0 unless it is contiguous, on that GPU, of this dtype and size, and plain."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        """Return the dtype of an array on a GPU as NumPy's; None for others, which are described the general way."""

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        """Return a new array on the GPU of `like`; None as the shape: that of `like`."""

    def stream(self, ordinal: int) -> int | None:
        """Return the handle of the stream that the library's work goes to now; None: each array has its own."""

    def result(self, y: Any) -> Any:
        """Return a new array of `empty`, or one of NumPy's, as an array of the library."""

    def written(self, array: Any) -> None:
        """Note that a user's array is about to be written to."""


class _Library:
    """What most libraries answer; arrays go the general way."""

    def address(self, array: Any, dtype: np.dtype[Any], size: int, ordinal: int) -> int:
        return 0

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return None

    def stream(self, ordinal: int) -> int | None:
        return None

    def result(self, y: Any) -> Any:
        return y

    def written(self, array: Any) -> None: ...


class _CuPy(_Library):
    def __init__(self, cupy: Any) -> None:
        self._empty, self._current = cupy.empty, cupy.cuda.get_current_stream

    def address(self, array: Any, dtype: np.dtype[Any], size: int, ordinal: int) -> int:
        data = array.data
        if array.dtype != dtype or array.size != size or not array.flags.c_contiguous or data.device_id != ordinal:
            return 0
        return int(data.ptr)

    def dtype(self, array: Any) -> np.dtype[Any]:
        return array.dtype  # type: ignore[no-any-return]

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        return self._empty(like.shape if shape is None else shape, dtype)

    def stream(self, ordinal: int) -> int:
        return int(self._current().ptr)


class _PyTorch(_Library):
    def __init__(self, torch: Any) -> None:
        self._empty_like, self._strided = torch.empty_like, torch.strided
        self._dtypes = {
            np.dtype(name): getattr(torch, name)
            for name in ("float32", "float64", "complex64", "complex128", "int32", "int64")
        }
        self._of_torch = {kind: dtype for dtype, kind in self._dtypes.items()}
        # the public `torch.cuda.current_stream` makes an object of two microseconds around this number
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self.stream = raw or (  # type: ignore[method-assign]
            lambda ordinal: int(torch.cuda.current_stream(ordinal).cuda_stream) if torch.cuda.is_available() else None
        )
        # a gradient whose saved tensor was written to is refused by PyTorch, which counts what it knows of
        self.written = torch.autograd.graph.increment_version  # type: ignore[method-assign]
        self._from_numpy = torch.from_numpy

    def address(self, array: Any, dtype: np.dtype[Any], size: int, ordinal: int) -> int:
        if (
            array.dtype is not self._dtypes.get(dtype)
            or array.numel() != size
            or array.get_device() != ordinal
            or array.layout is not self._strided
            or not array.is_contiguous()
            or array.requires_grad
            or array.is_conj()
            or array.is_neg()
        ):
            return 0
        return int(array.data_ptr())

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return self._of_torch.get(array.dtype) if array.is_cuda else None

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        return self._empty_like(like) if shape is None else like.new_empty(shape, dtype=self._dtypes[dtype])

    def result(self, y: Any) -> Any:
        return self._from_numpy(y) if isinstance(y, np.ndarray) else y


class _Numba(_Library):
    def __init__(self, numba: Any) -> None:
        self._class = numba.DeviceNDArray

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        shape = like.shape if shape is None else shape
        strides = tuple(dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return self._class(shape=shape, strides=strides, dtype=dtype, stream=like.stream)


class _Jax(_Library):
    """Its arrays cannot be written to: a product is written to an own array, which JAX takes over."""

    def __init__(self, jax: Any, empty: Callable[[tuple[int, ...], np.dtype[Any]], DeviceArray]) -> None:
        self._jax, self._empty = jax, empty

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        return self._empty(like.shape if shape is None else shape, dtype)

    def result(self, y: Any) -> Any:
        return self._jax.numpy.asarray(y) if isinstance(y, np.ndarray) else self._jax.dlpack.from_dlpack(y)


class _Own(_Library):
    def __init__(self, device: Any, empty: Callable[[tuple[int, ...], np.dtype[Any]], DeviceArray]) -> None:
        self._device, self._empty = device, empty

    def address(self, array: Any, dtype: np.dtype[Any], size: int, ordinal: int) -> int:
        if array.device is not self._device or array.dtype != dtype or array.size != size:
            return 0
        return int(array.buffer.pointer)

    def dtype(self, array: Any) -> np.dtype[Any]:
        return array.dtype  # type: ignore[no-any-return]

    def empty(self, like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> Any:
        return self._empty(like.shape if shape is None else shape, dtype)

    def stream(self, ordinal: int) -> int:
        return int(getattr(self._device, "stream", 0))  # a CPU's queue has no handle


class ArrayLibraries(dict[type, ArrayLibrary | None]):
    """Libraries by the exact type of an array; None: its arrays go the general way.

    Libraries are found when the first of their arrays comes: nothing imports them.
    """

    def __init__(self, device: Any, empty: Callable[[tuple[int, ...], np.dtype[Any]], DeviceArray]) -> None:
        super().__init__({DeviceArray: _Own(device, empty)})
        self._empty = empty
        #: The libraries whose modules were found, by name; see `streams`.
        self._found: dict[str, ArrayLibrary] = {}

    def __missing__(self, kind: type) -> ArrayLibrary | None:
        self[kind] = None
        for module, names, library in _LIBRARIES:
            package = sys.modules.get(module)
            if package is not None and any(kind is _attribute(package, name) for name in names):
                self[kind] = library(package)
        jax = sys.modules.get("jax")
        if jax is not None and kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
            self[kind] = _Jax(jax, self._empty)
        return self[kind]

    def streams(self, ordinal: int) -> set[int]:
        """Return the streams that the work of all libraries in use goes to now."""
        streams = {self[DeviceArray].stream(ordinal)}  # type: ignore[union-attr]
        for module, (name, *_), _ in _LIBRARIES:
            package = sys.modules.get(module)
            if package is None or not _uses_gpu(package):
                continue
            if module not in self._found and (kind := _attribute(package, name)) is not None:
                found = self[kind]
                assert found is not None
                self._found[module] = found
            if module in self._found:
                streams.add(self._found[module].stream(ordinal))
        streams.discard(None)
        return streams  # type: ignore[return-value]


#: Modules, their classes of arrays and what is made of the module.
_LIBRARIES: tuple[tuple[str, tuple[str, ...], Callable[[Any], ArrayLibrary]], ...] = (
    ("cupy", ("ndarray",), _CuPy),
    ("torch", ("Tensor", "nn.Parameter"), _PyTorch),
    ("numba.cuda.cudadrv.devicearray", ("DeviceNDArray",), _Numba),
)


def _attribute(module: Any, name: str) -> Any:
    return reduce(lambda holder, word: getattr(holder, word, None), name.split("."), module)


def _uses_gpu(package: Any) -> bool:
    """Return whether a library may have queued work on a GPU; PyTorch says so, and may lack CUDA."""
    is_initialized = getattr(getattr(package, "cuda", None), "is_initialized", None)
    return is_initialized is None or bool(is_initialized())
