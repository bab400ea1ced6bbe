"""A tuned kernel as a SciPy `LinearOperator` that also takes arrays on the GPU."""

from __future__ import annotations

import warnings
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from weakref import ref

from repro.errors import ReproError
from repro.operators.arrays import DeviceArray, on_device
from repro.operators.base import Closing, DeviceOperator
from repro.operators.choice import fastest, find_variant
from repro.operators.matrix import as_problem, transposed
from repro.operators.product import Product
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix


class SlowOnCpuWarning(UserWarning):
    """An operator runs on the CPU, where SciPy's own product is as fast or faster."""


class SpmvOperator(DeviceOperator, Closing):
    """y = A x by one of our kernels; made by `repro.operator`.

    Shape and dtype are those of the matrix as SciPy has it: a matrix of n×n blocks of 3×3 is 3n×3n, one of quaternions
    4n×4n, one of complex numbers n×n and complex.

    `A.T`, and `A.H` with complex numbers conjugated, are operators of the transposed matrix by the same variant, made
    at first use and kept: as much memory again, one for real entries, two for complex ones where both are asked for. A
    symmetric matrix is its own `A.T`, a Hermitian one its own `A.H`, where they are bit for bit. Close it, or use it in
    a `with`, to give its memory back before it is forgotten, and that of these two.

    It is for any thread: those that work with one device take turns. What is copied or pickled is the matrix with the
    variant's name, of which the copy is made anew on a device of the same words.

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
        super().__init__(product.runtime, kind, (size, size))
        self._problem = problem
        self._product: Product | None = product
        # by whether they are conjugated: those that belong to this one; and all, whoever made them
        self._made: dict[bool, SpmvOperator] = {}
        self._transposes: dict[bool, ref[SpmvOperator]] = {}
        self.name = str(product.id)
        self.entry, self.precision, self.n, self.nbytes = problem.entry, kind.precision, problem.n, product.nbytes

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors that it multiplies as they are: on the same device, in natural order, members side by side."""
        product = self._open()
        return product.vectors if product.direct else Vectors(self._runtime, self.n, self._kind)

    def rmatvec(self, x: Any, out: Any = None, *, stream: int | None = None) -> Any:
        """Return the product of the conjugate transpose, `A.H @ x`; arguments and errors are those of `matvec`."""
        return self.H.matvec(x, out, stream=stream)

    def matmat(self, X: Any) -> Any:
        """Return A X of a NumPy array `(columns, vectors)`.

        Raises
        ------
        ReproError
            It lies on a device.
        """
        if on_device(X):
            raise ReproError(
                "several vectors on the device are not multiplied at once",
                where="X",
                todo="multiply one after the other by `matvec`, or bring them to the host",
            )
        return super().matmat(X)

    def rmatmat(self, X: Any) -> Any:
        """Return the product of the conjugate transpose, `A.H @ X`, as `matmat`."""
        return self.H.matmat(X)

    def close(self) -> None:
        """Give the memory of the matrix, and of its transposes, back; it is of no use afterwards."""
        with self._runtime.after():  # no other thread is in the middle of a product
            product, self._product = self._product, None
            for transpose in self._made.values():
                transpose.close()
            self._made.clear()
            if product is not None:
                product.release()  # waits, before what it worked on goes
                for name in ("_staging", "_in_order"):
                    self.__dict__.pop(name, None)

    def __rmul__(self, x: Any) -> Any:
        """Return `x A`, which is `A.T x`; of anything else what SciPy returns."""
        return self.T.matvec(x) if on_device(x) else super().__rmul__(x)

    def _transpose(self) -> SpmvOperator:
        return self._transposed(self.dtype.kind != "c")

    def _adjoint(self) -> SpmvOperator:
        return self._transposed(True)

    def _transposed(self, conjugate: bool) -> SpmvOperator:
        """Return the transpose, that of real entries always by the name of the conjugated one."""
        with self._runtime.after():  # one for all threads
            product, kept = self._open(), self._transposes.get(conjugate)
            there = None if kept is None else kept()
            if there is None or there._product is None:
                matrix = transposed(self._problem, conjugate)
                if matrix is self._problem:
                    there = self
                else:
                    there = SpmvOperator(matrix, Product(self._runtime, matrix, self.precision, product.id))
                    there._transposes[conjugate] = ref(self)  # not held by it: whoever forgets this one frees both
                    self._made[conjugate] = there
                self._transposes[conjugate] = ref(there)
            return there

    def _open(self) -> Product:
        if self._product is None:
            raise ReproError("the operator is closed", where=repr(self), todo="make a new one")
        return self._product

    def _require_open(self) -> None:
        self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._problem, str(self._open().id), self.precision, self._runtime.words)

    def _multiply(self, x: Any, y: Any) -> None:
        product = self._open()
        if product.direct:
            product.multiply(x.buffer, y.buffer)
            return
        ordered_x, ordered_y = self._in_order
        product.vectors.arrange(x.buffer, ordered_x.buffer)
        product.multiply(ordered_x.buffer, ordered_y.buffer)
        product.vectors.restore(ordered_y.buffer, y.buffer)

    @cached_property
    def _in_order(self) -> tuple[DeviceArray, DeviceArray]:
        """Arrays in the layout's own order, where that is not the user's."""
        vectors = self._open().vectors
        return vectors.empty(), vectors.empty()

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

    Warns
    -----
    SlowOnCpuWarning
        The device is the CPU; once in a process.
    """
    problem, precision = as_problem(matrix, entry, precision)
    runtime: Runtime = open_runtime(device)
    if runtime.device.backend == "opencl":
        _say_that_the_cpu_is_slow()
    if tuned == "now":
        variant = fastest(runtime, problem, precision)
    else:
        variant = find_variant(tuned, problem, precision, runtime.device.target, Path(results))
    return SpmvOperator(problem, Product(runtime, problem, precision, variant))


def _again(problem: Matrix, name: str, precision: str, device: str) -> SpmvOperator:
    """Return what was copied or pickled, made anew."""
    return operator(problem, name, precision=precision, device=device)


@cache
def _say_that_the_cpu_is_slow() -> None:
    """Say it once: what is kept is the first call that returns."""
    warnings.warn(
        "the operator runs on the CPU, where SciPy's own product of the matrix is as fast or faster: it is there to "
        "try out what will run on a GPU (docs/operator.md)",
        SlowOnCpuWarning,
        stacklevel=3,
    )
