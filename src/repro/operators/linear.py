"""A tuned kernel as a SciPy `LinearOperator` that also takes arrays on the GPU."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from repro.operators.arrays import DeviceArray
from repro.operators.base import DeviceOperator
from repro.operators.choice import fastest, find_variant
from repro.operators.matrix import as_problem
from repro.operators.product import Product
from repro.operators.runtime import Runtime, open_runtime
from repro.operators.vectors import Vectors
from repro.problems.matrix import Matrix


class SpmvOperator(DeviceOperator):
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
        super().__init__(product.runtime, kind, (size, size))
        self._product = product
        self.name = str(product.id)
        self.entry, self.precision, self.n, self.nbytes = problem.entry, kind.precision, problem.n, product.nbytes

    @cached_property
    def vectors(self) -> Vectors:
        """Vectors that it multiplies as they are: on the same device, in natural order, members side by side."""
        return self._product.vectors if self._product.direct else Vectors(self._runtime, self.n, self._kind)

    def _multiply(self, x: Any, y: Any) -> None:
        if self._product.direct:
            self._product.multiply(x.buffer, y.buffer)
            return
        ordered_x, ordered_y = self._in_order
        self._product.vectors.arrange(x.buffer, ordered_x.buffer)
        self._product.multiply(ordered_x.buffer, ordered_y.buffer)
        self._product.vectors.restore(ordered_y.buffer, y.buffer)

    @cached_property
    def _in_order(self) -> tuple[DeviceArray, DeviceArray]:
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
