"""A and x of y = A x in a working precision, what the product must be, and its verification on the device."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable
from repro.bench.workspace import Workspace
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.codegen.templates import VERIFY_BLOCK_SIZE
from repro.devices.base import Buffer
from repro.entries import Entry, get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.elementwise import pack_vector, padded_size
from repro.sparse.ordering import permutation, reorder
from repro.sparse.symmetry import Symmetry, symmetry_of

NAN_BYTE = 0xFF


class ExpectedProduct(Protocol):
    """What a product must be."""

    @property
    def precision(self) -> str:
        """That of the result, `single` or `double`."""

    @property
    def reference(self) -> NDArray[np.float64]:
        """What it must be."""

    @property
    def bound(self) -> NDArray[np.float64]:
        """By how much it may differ from that, in the shape of the reference."""


def compare(operands: ExpectedProduct, runnable: Multiplies, workspace: Workspace) -> float | None:
    """Run a product once into an output poisoned with NaN; return its largest error over the bound.

    None where the runnable has no result.

    Raises
    ------
    IncorrectError
        A number lies outside its bound, or is NaN.
    """
    y = runnable.result()
    if y is None:
        return None
    device = workspace.device
    device.fill(y, NAN_BYTE)
    runnable.before()
    runnable.launch()
    # asked for once more: a library that runs on the host brings its result to the device only now
    y = runnable.result() or y
    reference, bound = _expected(operands, runnable, workspace)
    count = reference.nbytes // operands.reference.itemsize  # more than the members where the order pads them
    report = workspace.buffer("report", lambda: device.allocate(8))
    n_t = VERIFY_BLOCK_SIZE[device.backend]
    device.fill(report, 0)
    device.bind(
        workspace.common.program.kernel(f"verify_{operands.precision}"),
        min(device.n_s * 8, -(-count // n_t)),
        n_t,
        [np.int32(count), y, reference, bound, report],
    )()
    numbers = np.empty(2, np.int32)
    device.download(report, numbers)
    wrong, error = int(numbers[0]), float(numbers.view(np.float32)[1])
    if wrong:
        worst = f"the largest error is {error:.3g} of its bound" if np.isfinite(error) else "some are NaN"
        raise IncorrectError(f"{wrong} of {count} numbers are wrong; {worst}", error)
    return error


def _expected(operands: ExpectedProduct, runnable: Multiplies, workspace: Workspace) -> tuple[Buffer, Buffer]:
    """Return reference and bound on the device, in the order of a runnable's result."""
    order, upload = runnable.arrangement, workspace.device.upload
    return (
        workspace.buffer(("reference", order), lambda: upload(runnable.arrange(operands.reference))),
        workspace.buffer(("bound", order), lambda: upload(np.abs(runnable.arrange(operands.bound)))),
    )


class Multiplies(Runnable):
    """A runnable that leaves y = A x, also for other vectors than its own, as an iterative solver needs.

    Attributes
    ----------
    arrangement
        Names the order of the numbers in `result`; equal names, equal order.
    matrix_bytes
        Bytes of the matrix in its layout, once prepared.
    """

    arrangement: str
    matrix_bytes: int = 0

    def result(self) -> Buffer | None:
        """Return y in device memory in the working precision."""
        raise NotImplementedError

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring `(n, k)` members into the order, with the signs, of `result`; flat. Linear."""
        raise NotImplementedError

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors; once prepared, and valid until `release`.

        Parameters
        ----------
        x, y
            As many numbers of the working precision as the matrix has columns and rows, in the order of `result`,
            aligned to 16 bytes.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ProductOperands:
    """A and x in the working precision, and what the product must be.

    Attributes
    ----------
    problem
        The pattern and, in `values`, the entries before they are rounded to the working precision.
    precision
        `single` or `double`.
    x
        `(columns, k)` in the working precision.
    reference, bound
        float64 `(n, k)`: the product of the rounded operands, and by how much a result may differ from it:
        (m_i + 2) k ε (|A||x|)_i for a row of m_i entries of size k.
    checksum
        Of the problem, and of the seed that x was drawn by.
    """

    problem: Matrix
    precision: str
    x: NDArray[np.floating]
    reference: NDArray[np.float64]
    bound: NDArray[np.float64]
    checksum: str = ""
    _permutations: dict[str, NDArray[np.int64]] = field(default_factory=dict, repr=False, compare=False)
    _reordered: dict[str, Matrix] = field(default_factory=dict, repr=False, compare=False)

    @property
    def entry(self) -> Entry:
        """What the non-zeros are."""
        return get_entry(self.problem.entry)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The working precision."""
        return self.x.dtype

    @cached_property
    def values(self) -> NDArray[np.floating]:
        """`(nnz, members)` in the working precision."""
        return self.problem.values.astype(self.dtype, copy=False)

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Bytes of the matrix in CSR, members side by side, and of x; and of y."""
        matrix = csr_bytes(self.problem, self.dtype.itemsize)
        return matrix + self.x.nbytes, self.reference.size * self.dtype.itemsize

    @property
    def operations(self) -> int:
        """Two for each member of an entry that a product takes: one multiplication, one addition."""
        return self.problem.nnz * self.entry.operations

    @property
    def columns(self) -> Mapping[str, Any]:
        """The entry."""
        return {"entry": self.problem.entry}

    def permutation(self, ordering: str) -> NDArray[np.int64]:
        """Return which row of the matrix as it came each row of the reordered one is, int64 `(n,)`."""
        if ordering not in self._permutations:
            self._permutations[ordering] = permutation(self.problem, ordering)
        return self._permutations[ordering]

    def x_in(self, ordering: str) -> NDArray[np.floating]:
        """Return x with its entries in an order of the unknowns; a matrix in another than its own is square."""
        return self.x if ordering == "natural" else self.x[self.permutation(ordering)]

    def reordered(self, ordering: str) -> Matrix:
        """Return the matrix with its rows and columns in an order."""
        if ordering == "natural":
            return self.problem
        if ordering not in self._reordered:
            self._reordered[ordering] = reorder(self.problem, self.permutation(ordering))
        return self._reordered[ordering]

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Run a product into an output poisoned with NaN and compare it with the reference, on the device."""
        return compare(self, runnable, workspace) if isinstance(runnable, Multiplies) else None


class WithProduct(ABC):
    """Operands of a study of more than products: what multiplies is given those of the product alone."""

    @property
    @abstractmethod
    def product(self) -> ProductOperands:
        """A, x and what their product must be."""


def csr_bytes(matrix: Matrix, number_bytes: int) -> int:
    """Return the bytes of a matrix as CSR with 4-byte indices, an entry's members side by side."""
    members = len(get_entry(matrix.entry).members)
    return matrix.nnz * (INDEX_BYTES + members * number_bytes) + (matrix.n + 1) * INDEX_BYTES


def expand(matrix: Matrix, values: NDArray[np.floating]) -> sp.bsr_array:
    """Return the real expansion of a matrix as a float64 BSR matrix of k×k blocks: `(nk, nk)`."""
    entry = get_entry(matrix.entry)
    blocks = entry.expand(values.astype(np.float64, copy=False))
    size = matrix.n * entry.size
    return sp.bsr_array((blocks, matrix.indices, matrix.indptr), shape=(size, size))


def make_operands(matrix: Matrix, precision: str, seed: int) -> ProductOperands:
    """Draw x, round A and x to the working precision, and compute the reference once, in float64 by SciPy.

    Raises
    ------
    ReproError
        The matrix has no entries or is not square, or its values or their sums are beyond the working precision.
    """
    matrix.require_product()
    entry = get_entry(matrix.entry)
    dtype = DTYPES[precision]
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (matrix.n, entry.size)).astype(dtype)
    exact = x.astype(np.float64).ravel()
    rounded = rounded_values(matrix.name, matrix.values, lambda: rows_of(matrix), precision)
    expanded = expand(matrix, rounded)
    reference = expanded @ exact
    expanded.data = np.abs(expanded.data)
    size = expanded @ np.abs(exact)
    _require_products(matrix, size, precision)
    terms = np.repeat((matrix.row_lengths + 2) * entry.size, entry.size)
    bound = terms * float(np.finfo(dtype).eps) * size
    checksum = hashlib.sha256(f"{matrix.checksum()} {seed}".encode()).hexdigest()
    return ProductOperands(matrix, precision, x, reference.reshape(x.shape), bound.reshape(x.shape), checksum)


def rounded_values(
    name: str, values: NDArray[np.float64], rows: Callable[[], NDArray[np.integer[Any]]], precision: str
) -> NDArray[np.floating]:
    """Round entries to a precision, if none becomes infinite, and something is left of each row that is not zero.

    What is lost beside larger numbers of its row is less than the rounding of a product's sum.

    Parameters
    ----------
    name
        Of the problem.
    values
        `(nnz, members)`.
    rows
        Gives the row of each entry, `(nnz,)`.
    precision
        `single` or `double`.

    Raises
    ------
    ReproError
        There are values beyond the precision.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(DTYPES[precision], copy=False)
    limits = np.finfo(rounded.dtype)
    infinite = (np.isfinite(values) & ~np.isfinite(rounded)).any(axis=1)
    if infinite.any():
        raise _beyond(
            f"values are too large for {precision} precision",
            name,
            f"at most {limits.max:.3g} in magnitude",
            f"{np.count_nonzero(infinite)} of {len(values)} entries are larger, up to {np.abs(values).max():.3g}",
            precision,
        )
    if values.shape[1] and ((values != 0) & (np.abs(rounded) < limits.tiny)).any():
        largest, row = np.abs(values).max(axis=1), rows()
        kept, was = (np.zeros(int(row.max()) + 1) for _ in range(2))
        np.maximum.at(was, row, largest)
        np.maximum.at(kept, row, np.abs(rounded).max(axis=1))
        lost = (kept < limits.tiny) & (was > 0)
        if lost.any():
            raise _beyond(
                f"values are too small for {precision} precision",
                name,
                f"at least {limits.tiny:.3g} in magnitude, once in each row that is not zero",
                f"{np.count_nonzero(lost)} rows have smaller ones alone",
                precision,
            )
    return rounded


def rows_of(matrix: Matrix) -> NDArray[np.int64]:
    """Return the row of each entry, `(nnz,)`."""
    return np.repeat(np.arange(matrix.n), matrix.row_lengths)


def _require_products(matrix: Matrix, size: NDArray[np.float64], precision: str) -> None:
    """Refuse a matrix whose product with x may not be a number of the working precision."""
    largest = np.finfo(DTYPES[precision]).max
    too_large = (size > largest) & np.isfinite(matrix.values).all()
    if too_large.any():
        raise _beyond(
            f"products are too large for {precision} precision",
            matrix.name,
            f"|A||x| of at most {largest:.3g}",
            f"{np.count_nonzero(too_large)} of {len(size)} rows' are larger",
            precision,
        )


def _beyond(what: str, name: str, expected: str, actual: str, precision: str) -> ReproError:
    other = "leave single out of the study's `precisions`, or scale" if precision == "single" else "scale"
    return ReproError(what, where=name, expected=expected, actual=actual, todo=f"{other} the matrix")


def operands_of(workspace: Workspace) -> ProductOperands:
    """Return the operands of a workspace as those of a product, which they have to be or to have."""
    operands = workspace.operands
    if isinstance(operands, WithProduct):
        return operands.product
    assert isinstance(operands, ProductOperands), "a runnable of another study"
    return operands


def x_on(workspace: Workspace, order: str, ordering: str = "natural") -> Buffer:
    """Return x on the device: members in AoS, SoA or Padded order, entries in the order of the rows."""
    operands = operands_of(workspace)

    def upload() -> Buffer:
        return workspace.device.upload(pack_vector(operands.x_in(ordering), order))

    return workspace.buffer(("x", order, ordering), upload)


def y_on(workspace: Workspace, order: str = "AoS") -> Buffer:
    """Return device memory for y, members in AoS, SoA or Padded order; runnables use it one after the other.

    It is between guard zones, which start where y ends: padded and plain vectors share none.
    """
    operands = operands_of(workspace)
    n, size = operands.reference.shape
    nbytes = n * (padded_size(size) if order == "Padded" else size) * operands.dtype.itemsize
    return workspace.written(("y", nbytes), nbytes, "its result")


def symmetry_on(workspace: Workspace, ordering: str = "natural") -> Symmetry:
    """Return whether a workspace's matrix, in an ordering, is symmetric in the working precision; found out once."""
    operands = operands_of(workspace)

    def symmetry() -> Symmetry:
        matrix = operands.reordered(ordering)
        return symmetry_of(matrix, matrix.values.astype(operands.dtype, copy=False))

    return workspace.fact(("symmetry", ordering), symmetry)
