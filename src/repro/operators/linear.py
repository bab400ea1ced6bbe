"""A tuned kernel as a SciPy `LinearOperator` that also takes arrays on the GPU."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from repro.errors import ReproError
from repro.operators.arrays import DeviceArray, on_device
from repro.operators.choice import fastest, find_variant
from repro.operators.matrix import as_problem
from repro.operators.product import Product
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix


class SpmvOperator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """y = A x by one of our kernels; made by `repro.operator`.

    Shape and dtype are those of the matrix as SciPy has it: a matrix of n×n blocks of 3×3 is 3n×3n, one of quaternions
    4n×4n, one of complex numbers n×n and complex. It has no adjoint (`rmatvec`).

    Attributes
    ----------
    name
        The variant, `Sl-32-SoA-AoS/static-256-4`.
    entry, precision
        What the non-zeros are, and in which precision they are multiplied.
    n
        Rows, counted in entries.
    device_name
        What it runs on.
    nbytes
        Bytes of the matrix on the device.
    """

    def __init__(self, problem: Matrix, product: Product) -> None:
        kind = product.vectors.kind
        size = problem.n * kind.numbers
        super().__init__(kind.dtype, (size, size))
        self._product, self._kind, self._runtime = product, kind, product.runtime
        self.name = str(product.id)
        self.device_name = self._runtime.device.name
        self.entry, self.precision, self.n, self.nbytes = problem.entry, kind.precision, problem.n, product.nbytes

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors that it multiplies as they are: on the same device, in natural order, members side by side."""
        return self._product.vectors if self._product.direct else Vectors(self._runtime, self.n, self._kind)

    def matvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return A x.

        Parameters
        ----------
        x
            A NumPy array `(N,)` or `(N, 1)`; or an array on the device, a `DeviceArray` or, on a GPU, one with
            `__cuda_array_interface__`: contiguous, of the operator's dtype, N numbers in any shape. It is read where
            it lies.
        out
            Where to write the product, an array of the same kind that does not overlap with x. Without it there is a
            new NumPy array, or `DeviceArray` of x's shape.
        stream
            Handle of the CUDA stream that x was computed on and the product will be used on. Without it, it is what x
            says in its interface, else the default stream (the case of PyTorch, whose arrays do not say).
            The product is only queued, behind that stream's work, and what comes later on that stream waits for it.

        Raises
        ------
        ReproError
            An array on the device is of another type, size or layout, or overlaps with the other one.
        """
        if on_device(x):
            return self._on_device(x, out, stream)
        if out is not None and on_device(out):
            raise ReproError("x and out have to be on the same side", expected="both on the device, or both NumPy's")
        y = super().matvec(np.asarray(x))
        if out is None:
            return y
        out[...] = y
        return out

    def dot(self, x: Any) -> Any:
        """Return A x, as `matvec`; of anything else what SciPy returns."""
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
        plain = self._kind.members(x)
        from_host, to_host = self._staging
        self._runtime.device.write(from_host.buffer, plain)
        with self._runtime.after():
            self._multiply(from_host, to_host)
        return to_host.get()

    @cached_property
    def _staging(self) -> tuple[DeviceArray, DeviceArray]:
        """Arrays on the device for what comes from the host and goes back."""
        first, second = (self._runtime.empty((self.shape[0],), self._kind.dtype) for _ in range(2))
        return first, second

    def _on_device(self, x: Any, out: Any, stream: int | None) -> Any:
        if out is not None and not on_device(out):
            raise ReproError("x and out have to be on the same side", expected="both on the device, or both NumPy's")
        size = self.shape[0]
        entry = self._kind.algebra.size * self._kind.scalar.itemsize
        aligned = min(entry & -entry, 16)
        from_x = self._runtime.view(x, "x", self._kind.dtype, size, aligned)
        y = self._runtime.empty(from_x.shape, self._kind.dtype) if out is None else out
        to_y = self._runtime.view(y, "out", self._kind.dtype, size, aligned, write=True)
        if _overlap(from_x.buffer, to_y.buffer):
            raise ReproError("x and out overlap", expected="two arrays", todo="give another `out`, or none")
        streams = (from_x.stream, to_y.stream) if stream is None else (stream,)
        with self._runtime.after(*streams):
            self._multiply(from_x, to_y)
        return y

    def _multiply(self, x: Any, y: Any) -> None:
        if self._product.direct:
            self._product.multiply(x.buffer, y.buffer)
            return
        ordered_x, ordered_y = self._ordered
        self._product.vectors.arrange(x.buffer, ordered_x.buffer)
        self._product.multiply(ordered_x.buffer, ordered_y.buffer)
        self._product.vectors.restore(ordered_y.buffer, y.buffer)

    @cached_property
    def _ordered(self) -> tuple[DeviceArray, DeviceArray]:
        """Arrays in the layout's own order, where that is not the user's."""
        return self._product.vectors.empty(), self._product.vectors.empty()

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"<{size} {type(self).__name__}: {self.entry}, {self.name} on {self.device_name}>"


def operator(
    matrix: Any,
    tuned: str = "default",
    *,
    entry: str | None = None,
    precision: str | None = None,
    device: str = "auto",
    results: Path | str = "results",
) -> SpmvOperator:
    """Return a matrix as a SciPy `LinearOperator` that multiplies by one of our kernels.

    Parameters
    ----------
    matrix
        A square SciPy sparse matrix or array, or a `repro.problems.matrix.Matrix`. Real BSR of 3×3 blocks is
        multiplied block by block, real BSR of 4×4 blocks as quaternions (each block has to be the expansion of one),
        complex and other real matrices number by number.
    tuned
        The variant to run: `default`, one that does well on many matrices; a name, `Sl-32-SoA-AoS/static-256-4`;
        `campaign:problem`, what a campaign chose for a problem like this one (`h200:fem/nut_37k`); or `now`, the
        fastest of a few, timed on this matrix.
    entry
        `real`, `complex`, `quaternion`, `block3` or `pattern` where it should not be read off the matrix: `block3` for
        a 3n×3n matrix in CSR, `pattern` for one of ones, whose values are then not stored.
    precision
        `single` or `double`; that of the values unless given.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.
    results
        Folder of the campaigns.

    Raises
    ------
    ReproError
        The matrix, the variant or the device is none that can be used, there is no compiler, or not enough memory.
    """
    problem, precision = as_problem(matrix, entry, precision)
    runtime: Runtime = open_runtime(device)
    if tuned == "now":
        variant = fastest(runtime, problem, precision)
    else:
        variant = find_variant(tuned, problem, precision, runtime.device.target, Path(results))
    return SpmvOperator(problem, Product(runtime, problem, precision, variant))


def _overlap(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if not hasattr(x, "pointer") or not hasattr(y, "pointer"):
        return False
    return bool(x.pointer < y.pointer + y.nbytes and y.pointer < x.pointer + x.nbytes)
