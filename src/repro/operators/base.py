"""What all operators share: checks of arguments, and a product on a device as a SciPy `LinearOperator`.

Such an operator also takes arrays that lie on its device. `Capacity` is what a matrix that grows can be asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from repro.casts import cast
from repro.devices.base import Queue
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray, Kind, not_copied, on_device, refuse_mask
from repro.operators.runtime import Runtime
from repro.problems.matrix import MAX_DIMENSION
from repro.sparse.dynamic.layout import MAX_ENTRIES, SEGMENTS
from repro.sparse.dynamic.matrix import GROWTH

#: The least room that a new segment has beside its entries, and limits of what can be asked for.
MIN_SLACK, MAX_SLACK, MAX_SEGMENTS = 4, 1 << 20, 64


@dataclass(frozen=True)
class Capacity:
    """How much room a matrix has, as `DynamicCSR` explains it."""

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

    def slack_of(self, entries: int, rows: int) -> int:
        """Return the slack for so many entries at first: that asked for, or the mean length of a row."""
        return max(MIN_SLACK, -(-entries // max(rows, 1))) if self.slack is None else self.slack

    def for_entries(self, entries: int) -> int:
        """Return the capacity for so many entries at first: that asked for, or half as much again."""
        return max(entries, min(int(GROWTH * entries), MAX_ENTRIES)) if self.capacity is None else self.capacity


def check_shape(shape: Any, segments: int) -> tuple[int, int]:
    """Return the shape of a matrix, if there can be one.

    Raises
    ------
    ReproError
    """
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise ReproError(
            "this is no shape of a matrix", where="shape", expected="two whole numbers", actual=shape
        ) from None
    return (
        whole_number(rows, "shape[0], rows", 0, MAX_ENTRIES // segments),
        whole_number(columns, "shape[1], columns", 0, MAX_DIMENSION),
    )


def whole_number(value: Any, what: str, least: int, most: int) -> int:
    """Return a whole number of a user's within limits.

    Raises
    ------
    ReproError
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise ReproError(
            "this is no such number",
            where=what,
            expected=f"a whole number from {least:,} to {most:,}",
            actual=repr(value),
        )
    return int(value)


def real_number(value: Any, what: str, least: float = -np.inf) -> float:
    """Return a real number of a user's that is finite and not below a limit.

    Raises
    ------
    ReproError
    """
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        number = float(value) if real else np.nan
    except OverflowError:
        number = np.inf
    if not (np.isfinite(number) and number >= least):
        limit = "" if least == -np.inf else f" of at least {least:g}"
        expected = f"a finite real number{limit}"
        raise ReproError("this is no such number", where=what, expected=expected, actual=repr(value))
    return number


def one_of(word: Any, what: str, words: tuple[str, ...]) -> None:
    """Refuse a word that is none of these.

    Raises
    ------
    ReproError
    """
    if not isinstance(word, str) or word not in words:
        raise ReproError(f"unknown {what}", where=what, expected=" or ".join(words), actual=repr(word))


class Closing:
    """What gives its memory back by `close`, and at the end of a `with`."""

    @abstractmethod
    def close(self) -> None:
        """Give its memory on the device back; it is of no use afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DeviceOperator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """y = A x on a device, for any thread: those that work with one device take turns.

    Parameters
    ----------
    runtime
        The device.
    kind
        What the numbers of x and y are.
    shape
        Of the matrix as SciPy has it.

    Attributes
    ----------
    device_name
        What it runs on.
    """

    def __init__(self, runtime: Runtime, kind: Kind, shape: tuple[int, int]) -> None:
        super().__init__(kind.dtype, shape)
        self._runtime, self._kind = runtime, kind
        self.device_name = runtime.device.name

    @abstractmethod
    def _multiply(self, x: Any, y: Any) -> None:
        """Queue y = A x; both have a `buffer` on the device."""

    @property
    def _queue(self) -> Queue:
        """What the product, and the copies between it and the host, are queued on."""
        return self._runtime.device

    def _ordered(self, *streams: int | None) -> AbstractContextManager[object]:
        """Order the body's product among what others queued on these streams, and keep other threads from it."""
        return self._runtime.after(*streams)

    def _require_open(self) -> None:
        """Refuse to work once its memory was given back."""

    def matvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return A x.

        Parameters
        ----------
        x
            A NumPy array `(columns,)` or `(columns, 1)`; or an array on the device, a `DeviceArray` or, on a GPU, one
            with `__cuda_array_interface__`: contiguous, of the operator's dtype, so many numbers in any shape. It is
            read where it lies.
        out
            Where to write the product, an array of the same kind. On the device it does not overlap with x; NumPy's has
            a dtype of the product's kind or of a wider one, as NumPy's own functions ask for (`same_kind`). Without it
            there is a new NumPy array, or `DeviceArray`: of x's shape where the matrix is square, else `(rows,)`.
        stream
            Handle of the CUDA stream that x was computed on and the product will be used on. Without it, it is what x
            says in its interface, else the default stream (the case of PyTorch, whose arrays do not say).
            The product is only queued, behind that stream's work, and what comes later on that stream waits for it.

        Raises
        ------
        ReproError
            An array on the device is of another type, size or layout, or overlaps with the other one; a number of x, or
            of the product where `out` is narrower, does not fit into the type that it gets.
        """
        if on_device(x):
            return self._on_device(x, out, stream)
        if out is not None and on_device(out):
            raise ReproError("x and out have to be on the same side", expected="both on the device, or both NumPy's")
        refuse_mask(x, "x")
        y = super().matvec(np.asarray(x))
        if out is None:
            return y
        _write(out, y)
        return out

    def dot(self, x: Any) -> Any:
        """Return A x, as `matvec`; of anything else what SciPy returns."""
        refuse_mask(x, "x")
        return self.matvec(x) if on_device(x) else super().dot(x)

    def __matmul__(self, x: Any) -> Any:
        return self.dot(x)

    def __mul__(self, x: Any) -> Any:
        return self.matvec(x) if on_device(x) else super().__mul__(x)

    def __call__(self, x: Any) -> Any:
        """Return A x."""
        return self.dot(x)

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """Multiply a host array."""
        if np.iscomplexobj(x) and self.dtype.kind != "c":
            return self._matvec(x.real) + 1j * self._matvec(x.imag)
        members = self._kind.members(x, "x")
        y = np.empty(self.shape[0], self._kind.dtype)
        with self._ordered():  # from the first copy to the last: all threads share the arrays on the device
            self._require_open()
            from_host, to_host = self._staging
            if members.size:
                self._queue.write(from_host.buffer, members)
            self._multiply(from_host, to_host)
            if y.size:
                self._queue.download(to_host.buffer, y)
        return y

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Multiply the columns of a host array, of which there may be none, one after the other."""
        product = np.empty((self.shape[0], X.shape[1]), _type_of_product(X, self.dtype))
        for column, x in zip(product.T, X.T, strict=True):
            column[:] = self._matvec(x)
        return product

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        raise ReproError(
            "it has no transpose on the device",
            where=type(self).__name__,
            todo="take that of SciPy's matrix: `A.to_scipy().T @ x`, where A is the matrix, or what a reader reads",
        )

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._rmatvec(X)

    def __reduce__(self) -> tuple[Any, ...]:
        raise not_copied(self, "make it anew of what it was made of, in the process that uses it")

    @cached_property
    def _staging(self) -> tuple[DeviceArray, DeviceArray]:
        """Arrays on the device for what comes from the host and goes back."""
        rows, columns = self.shape
        return self._runtime.empty((columns,), self._kind.dtype), self._runtime.empty((rows,), self._kind.dtype)

    def _on_device(self, x: Any, out: Any, stream: int | None) -> Any:
        if out is not None and not on_device(out):
            raise ReproError("x and out have to be on the same side", expected="both on the device, or both NumPy's")
        rows, columns = self.shape
        entry = self._kind.algebra.size * self._kind.scalar.itemsize
        aligned = min(entry & -entry, 16)
        from_x = self._runtime.view(x, "x", self._kind.dtype, columns, aligned)
        shape = from_x.shape if rows == columns else (rows,)
        y = self._runtime.empty(shape, self._kind.dtype) if out is None else out
        to_y = self._runtime.view(y, "out", self._kind.dtype, rows, aligned, write=True)
        if _overlap(from_x.buffer, to_y.buffer):
            raise ReproError("x and out overlap", expected="two arrays", todo="give another `out`, or none")
        streams = (from_x.stream, to_y.stream) if stream is None else (stream,)
        with self._ordered(*streams):
            self._require_open()
            self._multiply(from_x, to_y)
        return y


class StrictOperator(DeviceOperator):
    """One that refuses host arrays of another length in our words, where SciPy's are a ValueError."""

    def matvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return A x; see `DeviceOperator.matvec`."""
        self._check(x)
        return super().matvec(x, out, stream=stream)

    def dot(self, x: Any) -> Any:
        """Return A x, or A X for a NumPy array of several columns."""
        self._check(x)
        return super().dot(x)

    def _check(self, x: Any) -> None:
        shape, columns = (() if on_device(x) else np.shape(x)), self.shape[1]
        if len(shape) > 2 or (shape and shape[0] != columns):
            raise ReproError("x has another length", where="x", expected=columns, actual=f"shape {shape}")
        if shape and np.asarray(x).dtype.kind not in "fiubc":
            raise ReproError("x is not made of numbers", where="x", actual=np.asarray(x).dtype)


def _write(out: Any, y: NDArray[Any]) -> None:
    """Write a product to a user's array, if that can hold it."""
    if not isinstance(out, np.ndarray) or not out.flags.writeable:
        actual = "one that is read-only" if isinstance(out, np.ndarray) else type(out).__name__
        raise ReproError("out cannot be written to", where="out", expected="a NumPy array", actual=actual)
    if out.shape != y.shape:
        raise ReproError("out has another shape", where="out", expected=y.shape, actual=out.shape)
    if out.dtype.kind not in "fc" or not np.can_cast(y.dtype, out.dtype, "same_kind"):
        raise ReproError(
            "out cannot hold the product",
            where="out",
            expected=f"{y.dtype}, or another dtype of its kind",
            actual=out.dtype,
            todo="give an array of the product's dtype, or none",
        )
    out[...] = cast(y, out.dtype, "the product", "give `out` the product's own dtype", as_vector=True)


def _type_of_product(X: NDArray[Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a product's numbers: complex where those of X are."""
    return np.result_type(dtype, np.complex64) if X.dtype.kind == "c" else dtype


def _overlap(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if not hasattr(x, "pointer") or not hasattr(y, "pointer"):
        return False
    return bool(x.pointer < y.pointer + y.nbytes and y.pointer < x.pointer + x.nbytes)
