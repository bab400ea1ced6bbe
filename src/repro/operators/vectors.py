"""Vectors on a device, with members of entries in AoS, SoA or Padded order, and operations for iterative solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import Argument, Buffer
from repro.entries import entries
from repro.errors import ReproError, ReproErrorOfValue, brief
from repro.exact_casts import cast
from repro.operators.arrays import TODO, DeviceArray, VectorType, View, host_array
from repro.operators.base import public, public_methods, require_choice, whole_number
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.sparse.elementwise import BLOCK_SIZE, VECTOR_BLOCKS_PER_SM, pack_vector, padded_size, render_vectors
from repro.sparse.pairs import MAX_INDEX

ORDERS = ("AoS", "SoA", "Padded")
#: Largest number of entries: kernels count on past the end, by the number of threads times the entries in flight.
MAX_LENGTH = MAX_INDEX + 1 - (1 << 24)


@public_methods
class Vectors:
    """Makes and combines vectors of n entries on a device; made by `repro.vectors`, or an operator's `vectors`.

    All vectors have the same order. A vector argument is a `DeviceArray` or, on a GPU, an object with
    `__cuda_array_interface__`, with the dtype, size and order of these vectors. Methods queue work; only `dot`, `norm`
    and `get` wait for the device. Any thread may call them; threads of one device take turns.

    Attributes
    ----------
    n
        Number of entries.
    kind
        Entry type and precision.
    order
        Order of members: `AoS`, `SoA`, or `Padded` (AoS, with each entry padded with zeros to a power of two).
    """

    def __init__(
        self, runtime: Runtime, n: int, kind: VectorType, order: str = "AoS", rows: NDArray[np.int64] | None = None
    ) -> None:
        require_choice(order, "order", ORDERS)
        self.runtime, self.n, self.kind, self.order = runtime, n, kind, order
        self._rows = rows
        self._n_t = BLOCK_SIZE[runtime.device.backend]
        self._grid = max(
            1, min(-(-n // self._n_t), runtime.device.sm_count * VECTOR_BLOCKS_PER_SM[runtime.device.backend])
        )
        self._kernels: dict[str, Any] = {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the numbers of a vector: complex for complex entries, but real in SoA order."""
        return self.kind.scalar if self.order == "SoA" else self.kind.dtype

    @property
    def size(self) -> int:
        """Length of a vector in numbers of `dtype`, including padding."""
        entry = padded_size(self.kind.algebra.size) if self.order == "Padded" else self.kind.algebra.size
        return self.n * entry * self.kind.scalar.itemsize // self.dtype.itemsize

    def empty(self) -> DeviceArray:
        """Return a new vector with undefined contents."""
        return self.runtime.empty((self.size,), self.dtype)

    def zeros(self) -> DeviceArray:
        """Return a new vector of zeros."""
        vector = self.empty()
        with self.runtime.after():
            self.runtime.device.fill(vector.buffer, 0)
        return vector

    def put(self, host: ArrayLike) -> DeviceArray:
        """Copy a NumPy array in natural order, `(n·numbers,)`, to a new vector on the device."""
        given = host_array(host, "vector")
        expected = self.n * self.kind.numbers
        if given.size != expected:
            raise ReproErrorOfValue("a vector has the wrong size", expected=expected, actual=given.size)
        members = self.kind.members(given, "vector")
        members_in_order = members if self._rows is None else members[self._rows]
        return self.runtime.put(pack_vector(members_in_order, self.order).view(self.dtype))

    def get(self, vector: Any) -> NDArray[Any]:
        """Wait for the device and copy a vector to a NumPy array in natural order, `(n·numbers,)`."""
        vector_view = self._view(vector, "vector")
        plain = self.runtime.empty((self.n * self.kind.algebra.size,), self.kind.scalar)
        with self.runtime.after(vector_view.stream, reads="the copy of a vector to the host"):
            self.restore(vector_view.buffer, plain.buffer)
        return plain.get().view(self.kind.dtype)

    def axpby(self, a: complex | ArrayLike, x: Any, b: complex | ArrayLike, y: Any) -> Any:
        """Queue ``y = a x + b y`` and return y.

        Parameters
        ----------
        a, b
            Real numbers; or entries that multiply each entry of a vector from the left: a complex number for complex
            entries, `(4,)` (w, x, y, z) for quaternions, `(3, 3)` for `block3`. If `b` is 0, y is not read.
        x, y
            Vectors; x and y may be the same.

        Raises
        ------
        ReproError
            A factor or a vector has the wrong type.
        """
        x_view, y_view = self._view(x, "x"), self._view(y, "y", write=True)
        for factor, subject in ((a, "a"), (b, "b")):
            if host_array(factor, subject).dtype.kind not in "fiubc":
                raise _factor_error(self.kind, subject, factor)
        reads = bool(np.any(b))
        real = _is_real(a) and _is_real(b)
        name = ("" if real else "entry_") + ("axpby" if reads else "ax")
        a_numbers, b_numbers = (
            self._number(f, subject) if real else self._entry(f, subject) for f, subject in ((a, "a"), (b, "b"))
        )
        arguments = [np.int32(self.n), *a_numbers, x_view.buffer, *(b_numbers if reads else ()), y_view.buffer]
        with self.runtime.after(x_view.stream, y_view.stream):
            self._launch(name, arguments)
        return y

    def dot(self, x: Any, y: Any) -> float | complex:
        """Return the inner product of conjugated x and y; complex for complex entries, else the real sum over members.

        The sum uses double precision and a fixed tree, so the same vectors give the same bits on the same device.
        """
        real, imaginary = self._sums(x, y)
        return complex(real, imaginary) if self.kind.entry == "complex" else real

    def norm(self, x: Any) -> float:
        """Return the Euclidean norm of x, over all members of all entries."""
        return math.sqrt(self._sums(x, x)[0])

    def _sums(self, x: Any, y: Any) -> tuple[float, float]:
        x_view, y_view = self._view(x, "x"), self._view(y, "y")
        host = np.zeros(2)
        # also locks the download: threads share the buffer
        with self.runtime.after(x_view.stream, y_view.stream, reads="an inner product"):
            self._sum(x_view, y_view)
            self.runtime.device.download(self._scratch[1], host)
        return float(host[0]), float(host[1])

    def _sum(self, x: View, y: View) -> None:
        partial, result = self._scratch
        self._launch("inner_product", [np.int32(self.n), x.buffer, y.buffer, partial])
        sums = 2 if self.kind.entry == "complex" else 1
        self._launch("sum_blocks", [np.int32(self._grid), partial, result], grid=sums)

    @cached_property
    def _scratch(self) -> tuple[Buffer, Buffer]:
        return self.runtime.upload(np.zeros(2 * self._grid)), self.runtime.upload(np.zeros(2))

    def arrange(self, plain: Buffer, ordered: Buffer) -> None:
        """Queue a copy from natural order with AoS (`plain`) to the order of these vectors (`ordered`)."""
        self._launch("arrange" + self._suffix, [np.int32(self.n), plain, ordered, *self._permutation])

    def restore(self, ordered: Buffer, plain: Buffer) -> None:
        """Queue a copy from the order of these vectors (`ordered`) to natural order with AoS (`plain`)."""
        self._launch("restore" + self._suffix, [np.int32(self.n), ordered, plain, *self._permutation])

    @property
    def _suffix(self) -> str:
        return "" if self._rows is None else "_rows"

    @cached_property
    def _permutation(self) -> list[Buffer]:
        return [] if self._rows is None else [self.runtime.upload(self._rows.astype(np.int32))]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.n, self.kind, self.order, self._rows, self.runtime.words)

    def __repr__(self) -> str:
        kind = f"{self.n} {self.kind.entry} entries in {self.kind.precision} precision"
        return f"<{type(self).__name__}: {kind}, {self.order}, on {self.runtime.device.name}>"

    def _number(self, value: Any, subject: str) -> list[Any]:
        return [self.kind.scalar.type(cast(value, self.kind.scalar, subject, TODO))]

    def _entry(self, value: complex | ArrayLike, subject: str) -> list[Any]:
        """Return the members of a factor of `axpby`, which is given as an entry or as a real number."""
        algebra = self.kind.algebra
        members = len(algebra.members)
        factor = np.asarray(value)
        if members and _is_real(value):
            basis = algebra.expand(np.eye(members)).reshape(members, -1)
            factor = factor * np.round(np.linalg.pinv(basis.T) @ np.eye(algebra.size).ravel())
        elif self.kind.entry == "complex" and factor.shape == ():
            factor = np.array([factor.real, factor.imag])
        if not members or factor.size != members or np.iscomplexobj(factor):
            raise _factor_error(self.kind, subject, value)
        return [self.kind.scalar.type(member) for member in cast(factor.ravel(), self.kind.scalar, subject, TODO)]

    def _view(self, vector: Any, subject: str, write: bool = False) -> View:
        return self.runtime.view(vector, subject, self.dtype, self.size, self._alignment, write)

    @property
    def _alignment(self) -> int:
        nbytes = self.size * self.dtype.itemsize // max(self.n, 1)
        return self.kind.scalar.itemsize if self.order == "SoA" else min(nbytes & -nbytes, 16)

    def _launch(self, name: str, arguments: Sequence[Argument], grid: int | None = None) -> None:
        if name not in self._kernels:
            entry, precision = self.kind.entry, self.kind.precision
            source = render_vectors(KERNELS, entry, precision, self.order, self.runtime.device.target)
            program = self.runtime.program(source, f"vectors/{entry}-{precision}-{self.order}")
            self._kernels[name] = program.kernel(name)
        self.runtime.device.bind(self._kernels[name], grid or self._grid, self._n_t, arguments)()


@public
def vectors(
    n: int, entry: str = "real", precision: str = "double", order: str = "AoS", device: str = "auto"
) -> Vectors:
    """Return a `Vectors` object, which makes and combines vectors of n entries on a device.

    Raises
    ------
    ReproError
        There is no such entry, precision, order or device, or n is not a whole number from 0 to 2³¹ - 2²⁴.
    """
    require_choice(precision, "precision", tuple(DTYPES))
    require_choice(entry, "entry", tuple(sorted(entries())))
    kind = VectorType(entry, precision)
    return Vectors(open_runtime(device), whole_number(n, "n", 0, MAX_LENGTH), kind, order)


def _unpickle(n: int, kind: VectorType, order: str, rows: NDArray[np.int64] | None, device: str) -> Vectors:
    return Vectors(open_runtime(device), n, kind, order, rows)


def _factor_error(kind: VectorType, subject: str, value: object) -> ReproError:
    members = len(kind.algebra.members)
    return ReproErrorOfValue(
        "a factor is neither a number nor an entry",
        where=subject,
        expected="a real number" + f", or the {members} members of a {kind.entry} entry" * bool(members),
        actual=brief(value),
    )


def _is_real(value: complex | ArrayLike) -> bool:
    return np.ndim(value) == 0 and not np.iscomplexobj(value)
