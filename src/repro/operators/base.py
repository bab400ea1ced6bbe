"""Code shared by all operators: checks of arguments, and a `LinearOperator` base class for products on a device."""

from __future__ import annotations

import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property, wraps
from inspect import isfunction, signature
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator

from repro.devices.base import Call, LaunchError, OutOfDeviceMemory, Queue
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, brief
from repro.exact_casts import cast
from repro.operators import dlpack
from repro.operators.array_libraries import ArrayLibrary
from repro.operators.arrays import (
    DeviceArray,
    VectorType,
    View,
    as_tensor,
    copy_refusal,
    host_array,
    is_on_device,
    needs_gradient,
    product_shape,
    without_gradient,
)
from repro.operators.runtime import Runtime, refused_launch
from repro.words import nearest, shorten, suggestion

#: Operators with gradients, by the number that stands for one in PyTorch's graphs, which hold no Python objects.
OPERATORS: WeakValueDictionary[int, Any] = WeakValueDictionary()


def whole_number(value: Any, subject: str, minimum: int, maximum: int) -> int:
    """Return a user's argument as an int; raise `ReproError` unless it is an integer from `minimum` to `maximum`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not minimum <= value <= maximum:
        kind = ReproErrorOfValue if whole else ReproErrorOfType
        expected = f"a whole number from {minimum:,} to {maximum:,}"
        raise kind("not a valid number", where=subject, expected=expected, actual=brief(value))
    return int(value)


def real_number(value: Any, subject: str, least: float = -np.inf) -> float:
    """Return a user's argument as a float; raise `ReproError` unless it is finite and at least `least`."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        number = float(value) if real else np.nan
    except OverflowError:
        number = np.inf
    if not (np.isfinite(number) and number >= least):
        limit = "" if least == -np.inf else f" of at least {least:g}"
        expected = f"a finite real number{limit}"
        kind = ReproErrorOfValue if real else ReproErrorOfType
        raise kind("not a valid number", where=subject, expected=expected, actual=brief(value))
    return number


def as_bool(value: Any, subject: str) -> bool:
    if not isinstance(value, bool | np.bool_ | int) or value not in (0, 1):
        raise ReproErrorOfType("not a Boolean", where=subject, expected="True or False", actual=brief(value))
    return bool(value)


def require_text(value: Any, subject: str) -> None:
    if not isinstance(value, str | os.PathLike):
        raise ReproErrorOfType("not a string", where=subject, expected="a string", actual=brief(value))


def require_choice(word: Any, subject: str, words: tuple[str, ...]) -> None:
    if not isinstance(word, str) or word not in words:
        kind = ReproErrorOfValue if isinstance(word, str) else ReproErrorOfType
        name = word if isinstance(word, str) else getattr(word, "__name__", "")  # as of np.float32
        actual = brief(word) + suggestion(name, words)
        raise kind(f"unknown {subject}", where=subject, expected=" or ".join(words), actual=actual)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)
#: Methods of operators that `public_methods` does not wrap, since they are called often.
OFTEN_CALLED = {"matvec", "rmatvec", "matmat", "rmatmat", "dot"}


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a public function: a wrong keyword, and missing or surplus arguments, raise `ReproErrorOfType`."""

    @wraps(function)
    def call(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            if not isinstance(error, ReproError):
                _refuse_arguments(function, arguments, keywords)
            raise

    return call


def public_methods(decorated: Class) -> Class:
    """Decorate the public methods and the constructor that a class defines as `public` does."""
    for name, member in list(vars(decorated).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if name in OFTEN_CALLED and issubclass(decorated, LinearOperator):
            continue
        if isinstance(member, classmethod):
            setattr(decorated, name, classmethod(public(member.__func__)))
        elif isfunction(member):
            setattr(decorated, name, public(member))
    return decorated


def _refuse_arguments(function: Callable[..., object], arguments: Any, keywords: Mapping[str, object]) -> None:
    """Raise `ReproErrorOfType` if a function cannot be called with these arguments."""
    function_signature = signature(function)
    names = [name for name in function_signature.parameters if name not in ("self", "cls")]
    name = function.__qualname__.removesuffix(".__init__")
    for keyword in keywords:
        if keyword not in names:
            near = nearest(keyword, names) or next((name for name in names if name in keyword or keyword in name), None)
            raise ReproErrorOfType(
                "unknown argument",
                where=f"{name}({shorten(keyword)}=)",
                expected=", ".join(names) or "none",
                todo=f"did you mean {near}?" if near else None,
            ) from None
    try:
        function_signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise ReproErrorOfType(
            "wrong arguments", where=f"{name}()", expected=", ".join(names) or "none", actual=error
        ) from None


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, with the place of the first caller outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "repro":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class Closeable:
    """Base class of objects that free their device memory in `close`, which the end of a `with` block calls."""

    #: Whether `close` was called.
    closed: bool = False

    @abstractmethod
    def close(self) -> None:
        """Free the device memory of this object, which cannot be used afterwards; a second call has no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LengthError(ReproErrorOfValue):
    """A vector has the wrong length for an operator."""


#: What a product of an array on the host does, for the message that a CUDA graph cannot contain it.
HOST_PRODUCT = "the product of an array on the host"


class DeviceOperator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """A product y = A x on a device; any thread may use it, and threads of one device take turns.

    Attributes
    ----------
    device_name
        Name of the device.
    """

    def __init__(self, runtime: Runtime, kind: VectorType, shape: tuple[int, int]) -> None:
        super().__init__(kind.dtype, shape)
        self._runtime, self._kind = runtime, kind
        self.device_name = runtime.device.name
        #: The short path; None while there is none.
        self._direct: DirectCall | None = None

    @abstractmethod
    def _multiply(self, x: Any, y: Any) -> None:
        """Queue y = A x; x and y have an attribute `buffer`, their device memory."""

    @property
    def _queue(self) -> Queue:
        """Queue for the product and for the copies of x and y from and to the host."""
        return self._runtime.device

    def _ordered(self, *streams: int | None, reads: str | None = None) -> AbstractContextManager[object]:
        """Lock the device for the `with` body, and order the product with other streams; see `Runtime.after`."""
        return self._runtime.after(*streams, reads=reads)

    def _require_open(self) -> None: ...

    def _with_gradient(self, x: Any) -> Any:
        """Return A x for a tensor whose gradient is recorded, if the operator has one."""
        return without_gradient(x, "x")

    def matvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return A x.

        Parameters
        ----------
        x
            A NumPy array `(columns,)` or `(columns, 1)`, or one of another library on the host. Or an array on the
            device: a `DeviceArray` or, on a GPU, any contiguous object with `__cuda_array_interface__` or
            `__dlpack__`, with the operator's dtype and size, in any shape. A device array is read in place.
        out
            Output array: one on the host if x is there, else a device array that does not overlap x. The dtype of an
            array on the host must accept the product by the rule `same_kind`. None: a new array of x's library (NumPy,
            CuPy, PyTorch, JAX, Numba), else a new `DeviceArray`, with x's shape for a square matrix, else
            `(rows,)`, or `(rows, 1)` for an x `(columns, 1)`.
        stream
            Handle of the CUDA stream that computed x and will use the product. None: the current stream of CuPy or
            PyTorch; for other arrays the stream that `__cuda_array_interface__` of x names, else the default stream.
            The product runs after earlier and before later work of the stream.

        Raises
        ------
        LengthError
            A NumPy array has the wrong length; the error is also a `ValueError`.
        ReproError
            A device array has the wrong dtype, size or layout, or x and `out` overlap. Or a number overflows: of x,
            when it is converted to the operator's dtype, or of the product, when it is converted to a narrower `out`.
            Or `out` is a tensor that requires a gradient, or x is one and `out` is given.
        """
        if self._direct is not None and (y := self._direct(x, out, stream)) is not None:
            return y
        if as_tensor(out) is not None and getattr(out, "requires_grad", False):
            raise _no_gradient("out")
        if needs_gradient(x):
            if out is not None or stream is not None:
                raise _no_gradient("x")
            return self._with_gradient(x)
        if is_on_device(x):
            return self._on_device(x, out, stream)
        if out is not None and is_on_device(out):
            raise ReproErrorOfType(
                "x and out must be in the same place", expected="both on the device, or both NumPy arrays"
            )
        vector = host_array(x, "x")
        self._check(vector)
        if vector.shape not in ((self.shape[1],), (self.shape[1], 1)):
            raise LengthError("x has the wrong shape", where="x", expected=(self.shape[1],), actual=vector.shape)
        y = super().matvec(vector)
        if out is None:
            return self._as_given(x, y)
        if (library := self._runtime.libraries[type(out)]) is not None:
            library.written(out)
        _write(out, y)
        return out

    def dot(self, x: Any) -> Any:
        """Return A x as `matvec` does, or A X as `matmat` does; SciPy handles numbers and operators."""
        if is_on_device(x) or needs_gradient(x):
            return self.matvec(x)
        host = without_gradient(x, "x")
        self._check(host)
        return self._as_given(x, super().dot(host))

    def _as_given(self, x: Any, y: Any) -> Any:
        """Return a product on the host as an array of x's library."""
        library = self._runtime.libraries[type(x)] if isinstance(y, np.ndarray) else None
        return y if library is None else library.result(y)

    def matmat(self, X: Any) -> Any:
        """Return A X for a NumPy array X `(columns, vectors)`; errors as in `matvec`."""
        self._check(X)
        if np.ndim(X) != 2:
            expected = f"({self.shape[1]}, vectors)"
            raise LengthError("X has the wrong shape", where="X", expected=expected, actual=np.shape(X))
        return super().matmat(X)

    def __matmul__(self, x: Any) -> Any:
        if self._direct is not None and (y := self._direct(x)) is not None:
            return y
        return self.dot(x)

    def __mul__(self, x: Any) -> Any:
        return self.dot(x) if is_on_device(x) else super().__mul__(x)

    def __call__(self, x: Any) -> Any:
        return self.dot(x)

    def _check(self, x: Any) -> None:
        """Refuse unsuitable host arrays; SciPy handles numbers, operators and sparse matrices."""
        if is_on_device(x) or isinstance(x, LinearOperator) or issparse(x):
            return
        array, columns = host_array(x, "x"), self.shape[1]
        shape = array.shape
        if len(shape) > 2 or (shape and shape[0] != columns):
            raise LengthError("x has the wrong length", where="x", expected=columns, actual=f"shape {shape}")
        if shape and array.dtype.kind not in "fiubc":
            raise ReproErrorOfValue("x does not hold numbers", where="x", actual=array.dtype)

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        if np.iscomplexobj(x) and self.dtype.kind != "c":
            return self._matvec(x.real) + 1j * self._matvec(x.imag)
        members = self._kind.members(x, "x")
        y = self._runtime.device.host_array(self.shape[0], self._kind.dtype)
        # the lock also covers the copies, since threads share the staging arrays
        with self._ordered(reads=HOST_PRODUCT):
            self._require_open()
            x_array, y_array = self._staging
            if members.size:
                self._queue.write(x_array.buffer, members)
            self._multiply(x_array, y_array)
            if y.size:
                self._queue.download(y_array.buffer, y)
        return y

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Multiply the columns of a host array one by one; there may be no columns."""
        dtype = np.result_type(self.dtype, np.complex64) if X.dtype.kind == "c" else self.dtype
        product = np.empty((self.shape[0], X.shape[1]), dtype)
        for column, x in zip(product.T, X.T, strict=True):
            column[:] = self._matvec(x)
        return product

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        raise ReproError(
            "the object has no transpose on the device",
            where=type(self).__name__,
            todo="use SciPy's: `A.to_scipy().T @ x`, where A is the matrix",
        )

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._rmatvec(X)

    def __reduce__(self) -> tuple[Any, ...]:
        raise copy_refusal(self, "make it anew of what it was made of, in the process that uses it")

    @cached_property
    def _staging(self) -> tuple[DeviceArray, DeviceArray]:
        """Temporary arrays x and y on the device, for products of host arrays."""
        rows, columns = self.shape
        return self._runtime.empty((columns,), self._kind.dtype), self._runtime.empty((rows,), self._kind.dtype)

    def _on_device(self, x: Any, out: Any, stream: int | None) -> Any:
        if out is not None and not is_on_device(out):
            raise ReproErrorOfType(
                "x and out must be in the same place", expected="both on the device, or both NumPy arrays"
            )
        rows, columns = self.shape
        entry = self._kind.algebra.size * self._kind.scalar.itemsize
        alignment = min(entry & -entry, 16)
        x_view = self._runtime.view(x, "x", self._kind.dtype, columns, alignment, stream=stream)
        shape, library = product_shape(x_view.shape, rows, columns), self._runtime.libraries[type(x)]
        if out is not None:
            y = out
        else:
            y = self._runtime.empty(shape, self.dtype) if library is None else library.empty(x, shape, self.dtype)
        y_view = self._runtime.view(y, "out", self._kind.dtype, rows, alignment, write=True, stream=stream)
        return self._queued(x_view, y_view, library, y, out, stream, lambda: self._multiply(x_view, y_view))

    def _queued(
        self,
        x_view: View,
        y_view: View,
        library: ArrayLibrary | None,
        y: Any,
        out: Any,
        stream: int | None,
        multiply: Callable[[], None],
    ) -> Any:
        """Queue a product of x and y in the order of their streams, and return y as an array of x's library."""
        x_memory, y_memory = x_view.buffer, y_view.buffer
        if x_memory is y_memory or (
            hasattr(x_memory, "pointer")
            and hasattr(y_memory, "pointer")
            and x_memory.pointer < y_memory.pointer + y_memory.nbytes
            and y_memory.pointer < x_memory.pointer + x_memory.nbytes
        ):
            raise ReproErrorOfValue("x and out overlap", expected="two arrays", todo="pass a different `out`, or none")
        if stream is not None:
            streams: tuple[int | None, ...] = (stream,)
        else:
            streams = (x_view.stream, y_view.stream)
            if library is not None:
                streams = (*streams, library.stream(self._runtime.ordinal))
        if library is not None and out is not None:
            library.written(out)
        with self._ordered(*streams):
            self._require_open()
            multiply()
        return y if out is not None or library is None else library.result(y)


def _no_gradient(subject: str) -> ReproError:
    return ReproErrorOfValue(
        "a product with `out` or `stream` has no gradient",
        where=subject,
        actual="a tensor with `requires_grad`",
        todo="use `A @ x`, or pass `x.detach()` and an `out` without `requires_grad`",
    )


def _write(out: Any, y: NDArray[Any]) -> None:
    if hasattr(out, dlpack.METHOD):
        out = np.asarray(out)  # of another library on the host
    if not isinstance(out, np.ndarray) or not out.flags.writeable:
        actual = "one that is read-only" if isinstance(out, np.ndarray) else type(out).__name__
        kind = ReproErrorOfValue if isinstance(out, np.ndarray) else ReproErrorOfType
        raise kind("out cannot be written to", where="out", expected="a NumPy array", actual=actual)
    if out.shape != y.shape:
        raise ReproErrorOfValue("out has the wrong shape", where="out", expected=y.shape, actual=out.shape)
    if out.dtype.kind not in "fc" or not np.can_cast(y.dtype, out.dtype, "same_kind"):
        raise ReproErrorOfValue(
            "out cannot hold the product",
            where="out",
            expected=f"{y.dtype}, or a wider dtype of its kind",
            actual=out.dtype,
            todo="pass an array of the product's dtype, or none",
        )
    out[...] = cast(y, out.dtype, "the product", "give `out` the product's own dtype", as_vector=True)


class DirectCall:
    """y = A x, or Y = A X, for arrays of a known library (`ArrayLibraries`) that fit as they are; made once.

    Calling it returns y, or None: then the general way serves the arrays, or says what is wrong with them. It checks
    dtype, size, contiguity, alignment, GPU and overlap, and queues one launch on the stream that the library's work
    goes to now. No event is recorded, and no stream waits.

    `alignment` is that of x and y in bytes. `vectors` is None, or the number of columns of X and Y, both row-major; the
    caller checks their shapes.
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
