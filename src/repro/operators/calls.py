"""The short path of a product: two addresses, one launch on the caller's stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from repro.devices.base import Call, LaunchError, OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray, product_shape
from repro.operators.runtime import Runtime


class DirectCall:
    """y = A x, or Y = A X, for arrays of a known library (`ArrayLibraries`) that fit as they are; made once.

    Calling it returns y, or None: then the general way serves the arrays, or says what is wrong with them. It checks
    dtype, size, contiguity, alignment, GPU and overlap, and queues one launch on the stream that the library's work
    goes to now. No event is recorded, and no stream waits.

    Parameters
    ----------
    call
        The launch, called with the addresses of x and y.
    dtype, shape
        Of the operator.
    alignment
        Of x and y, in bytes.
    vectors
        None, or the columns of X and Y, both row-major; the caller checks their shapes.
    """

    __slots__ = ("_alignment", "_call", "_dtype", "_libraries", "_ordinal", "_runtime", "_shape", "_vectors",
                 "_x_bytes", "_x_size", "_y_bytes", "_y_size")  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        call: Call,
        dtype: np.dtype[Any],
        shape: tuple[int, int],
        alignment: int,
        vectors: int | None = None,
    ) -> None:
        self._call, self._dtype, self._alignment = call, dtype, alignment
        self._runtime, self._libraries, self._ordinal = runtime, runtime.libraries, runtime.ordinal
        self._shape, self._vectors = shape, vectors
        self._y_size, self._x_size = (count * (vectors or 1) for count in shape)
        self._y_bytes, self._x_bytes = self._y_size * dtype.itemsize, self._x_size * dtype.itemsize

    def __call__(self, x: Any, out: Any = None, stream: int | None = None) -> Any:
        library, alignment = self._libraries[type(x)], self._alignment
        if library is None or (stream is not None and type(x) is DeviceArray):
            return None  # a `DeviceArray` is valid in the order of another stream
        source = library.address(x, self._dtype, self._x_size, self._ordinal)
        if not source or source % alignment or (out is not None and type(out) is not type(x)):
            return None
        if out is None:
            rows, columns = self._shape
            if rows == columns:
                shape = None
            else:
                shape = (rows, self._vectors) if self._vectors else product_shape(x.shape, rows, columns)
            out = library.empty(x, shape, self._dtype)
        else:
            library.written(out)
        target = library.address(out, self._dtype, self._y_size, self._ordinal)
        overlap = source < target + self._y_bytes and target < source + self._x_bytes
        if not target or target % alignment or overlap:
            return None
        if stream is None:
            stream = library.stream(self._ordinal) or 0
        try:
            self._call(stream, source, target)
        except LaunchError as error:
            raise refused_launch(error) from None
        except OutOfDeviceMemory as error:  # for the first call on a stream, if rows are split
            raise self._runtime.out_of_memory_error(error) from None
        return out

    def close(self) -> None:
        """Refuse further launches, before the matrix is released."""
        self._call.close()


def refused_launch(error: LaunchError) -> ReproError:
    return ReproError(
        "the GPU refused a launch",
        actual=error,
        todo="pass a live stream of the operator's GPU, and do not close an operator while it is in use",
    )
