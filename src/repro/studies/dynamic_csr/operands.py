"""The operands of a growing matrix: the matrix before and after its batches, its states, x, and expected results.

All products are with the grown matrix. An entry that comes twice counts twice. A state (fragmented,
defragmented, sorted) is a layout of the grown matrix, made on the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable
from repro.bench.workspace import Workspace
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.updates import Updates
from repro.sparse.dynamic.layout import SEGMENTS, Arrays, defragment, insert, lay_out, room_for
from repro.sparse.dynamic.schedules import PAPERS_MIN_LENGTHS, bin_rows, lay_out_sorted
from repro.sparse.operands import Multiplies, ProductOperands, WithProduct, compare, rounded_values, rows_of

#: The matrix before the first batch, with all of them, or with the one of a number.
MatrixVersion = Literal["base", "grown"] | int


class MatrixRunnable(Runnable):
    """A runnable that leaves a matrix.

    Attributes
    ----------
    leaves
        What it should be: the matrix before the first batch, with all of them, or with one.
    sums
        Whether an entry that comes twice is to be left once, as the sum; else as often as it came.
    """

    leaves: MatrixVersion = "grown"
    sums: bool = False

    def result(self) -> sp.csr_array | None:
        """Return the matrix on the host; columns of a row in any order."""
        raise NotImplementedError

    def product(self) -> NDArray[np.floating] | None:
        """Return A x on the host, `(rows,)`, where the launch multiplies with the matrix that it leaves."""
        return None


class DistributedRunnable(Runnable):
    """A runnable whose results lie on several devices, so that it brings them to the host by itself to be compared."""

    def check(self, operands: GraphOperands) -> float:
        """Launch once; return the largest error over its bound.

        Raises
        ------
        IncorrectError
            A number is wrong, or is not the same on all devices.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Canonical:
    """A matrix with the columns of each row in ascending order, for comparing.

    Attributes
    ----------
    sizes
        Entries of each row, int64 `(rows,)`.
    columns
        `(nnz,)`, equal ones as often as they come.
    starts
        Where the first entry of each place lies, int64 `(places,)`.
    sums, sizes_of_terms
        Of each place the sum of its values and of their magnitudes, float64 `(places,)`.
    """

    sizes: NDArray[np.int64]
    columns: NDArray[np.integer[Any]]
    starts: NDArray[np.int64]
    sums: NDArray[np.float64]
    sizes_of_terms: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Canonical:
        """Return the matrix so; it is left as it is."""
        ordered = sorted_columns(matrix)
        sizes = np.diff(ordered.indptr).astype(np.int64)
        first = np.ones(ordered.nnz, bool)
        if ordered.nnz:
            np.not_equal(ordered.indices[1:], ordered.indices[:-1], out=first[1:])
            first[ordered.indptr[:-1][sizes > 0]] = True
        starts = np.flatnonzero(first)
        values = ordered.data.astype(np.float64, copy=False)
        if len(starts) == len(values):
            return cls(sizes, ordered.indices, starts, values, np.abs(values))
        sums, magnitudes = (np.add.reduceat(terms, starts) for terms in (values, np.abs(values)))
        return cls(sizes, ordered.indices, starts, sums, magnitudes)

    @cached_property
    def terms(self) -> NDArray[np.int64]:
        """How often each place comes, int64 `(places,)`."""
        return np.diff(self.starts, append=len(self.columns))

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]]]:
        """How many different places each row has, int64 `(rows,)`, and the columns of them all, `(places,)`."""
        ends = np.cumsum(self.sizes)
        pointers = np.searchsorted(self.starts, np.concatenate([[0], ends]))
        return np.diff(pointers), self.columns[self.starts]


def sorted_columns(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix with the columns of each row in ascending order; the one that is given is left as it is."""
    return matrix if matrix.has_sorted_indices else matrix.sorted_indices()


class ExpectedMatrix(NamedTuple):
    """What a matrix that is left is compared with: as it is, and with the columns of each row in order."""

    matrix: sp.csr_array
    canonical: Canonical


@dataclass(frozen=True)
class GraphOperands(WithProduct):
    """A matrix that grows, and x, in the working precision; what their product must be.

    Attributes
    ----------
    problem
        The matrix and its batches, before they are rounded.
    precision
        `single` or `double`.
    base, grown
        The matrix before the first batch, and with all of them: each row has its entries of `base` first, then those
        of the batches in their order. They share memory where there are no batches.
    x
        `(columns,)`.
    reference, bound
        float64 `(rows,)`: grown @ x, and by how much a result may differ from it: (m_i + 2) ε (|A||x|)_i for a row of
        m_i entries.
    checksum
        Of the problem, and of the seed that x was drawn by.
    """

    problem: Updates
    precision: str
    base: sp.csr_array
    grown: sp.csr_array
    x: NDArray[np.floating]
    reference: NDArray[np.float64]
    bound: NDArray[np.float64]
    checksum: str

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Bytes of the grown matrix in CSR and of x, and of y."""
        rows, number = len(self.reference), self.x.itemsize
        matrix = self.grown.nnz * (INDEX_BYTES + number) + (rows + 1) * INDEX_BYTES
        return matrix + self.x.nbytes, rows * number

    @property
    def operations(self) -> int:
        """A multiplication and an addition for each entry of the grown matrix."""
        return 2 * int(self.grown.nnz)

    @property
    def columns(self) -> Mapping[str, Any]:
        """Nothing that all rows share."""
        return {}

    @cached_property
    def summed(self) -> sp.csr_array:
        """The grown matrix with each place once and the columns of a row in order, as libraries take it."""
        if not self.problem.entries:
            return self.base
        grown = self.grown
        ordered = sp.csr_array((grown.data.astype(np.float64), grown.indices.copy(), grown.indptr.copy()), grown.shape)
        ordered.sum_duplicates()
        values = ordered.data.astype(grown.dtype, copy=False)
        return _csr(values, ordered.indices, ordered.indptr, grown.shape)

    @cached_property
    def product(self) -> ProductOperands:
        """The product with each place summed up before: A, x, and the reference and bound of the grown matrix."""
        rows, columns = self.grown.shape
        summed = self.summed
        matrix = Matrix(
            self.problem.name, "real", rows,
            summed.indptr.astype(np.int32, copy=False), summed.indices.astype(np.int32, copy=False),
            summed.data.reshape(-1, 1), columns,
        )  # fmt: skip
        return ProductOperands(
            matrix, self.precision, self.x.reshape(-1, 1), self.reference.reshape(-1, 1), self.bound.reshape(-1, 1),
            self.checksum,
        )  # fmt: skip

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once and compare y with the reference, or the matrix that is left with the one that it should be.

        Raises
        ------
        IncorrectError
            A number lies outside its bound or is NaN, or entries are missing or too many.
        """
        if isinstance(runnable, Multiplies):
            return compare(self, runnable, workspace)
        if isinstance(runnable, DistributedRunnable):
            return runnable.check(self)
        if not isinstance(runnable, MatrixRunnable):
            return None
        runnable.before()
        runnable.launch()
        left, y = runnable.result(), runnable.product()
        errors = [
            *([] if left is None else [self._compare(left, runnable.leaves, runnable.sums)]),
            *([] if y is None else [self.error_of(y)]),
        ]
        return max(errors, default=None)

    def error_of(self, y: NDArray[np.floating]) -> float:
        """Return the largest error over its bound of a product on the host, `(rows,)`.

        Raises
        ------
        IncorrectError
            A number lies outside its bound, or is NaN.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.abs(y.astype(np.float64) - self.reference)
            outside = ~(error <= self.bound)
            largest = float(np.max(np.where(error > 0, error / self.bound, 0.0), initial=0.0))
        if outside.any():
            worst = "some are NaN" if np.isnan(error).any() else f"the largest error is {largest:.3g} of its bound"
            raise IncorrectError(f"{np.count_nonzero(outside)} of {len(y)} numbers are wrong; {worst}", largest)
        return largest

    @cached_property
    def _expected(self) -> dict[MatrixVersion, ExpectedMatrix]:
        return {}

    def expected(self, leaves: MatrixVersion) -> ExpectedMatrix:
        """Return what a matrix is compared with.

        Of the matrices with one batch only that of the latest number is kept: all of them would fill the memory.
        """
        if leaves not in self._expected:
            if isinstance(leaves, int):
                for number in [key for key in self._expected if isinstance(key, int)]:
                    del self._expected[number]
                matrix = self.with_batch(leaves)
            else:
                matrix = self.base if leaves == "base" else self.grown
            self._expected[leaves] = ExpectedMatrix(matrix, Canonical.of(matrix))
        return self._expected[leaves]

    def with_batch(self, i: int) -> sp.csr_array:
        """Return the matrix before the first batch with one of them, a place as often as it comes."""
        rows, columns, values = self.problem.batch(i)
        pointers, ends = np.array([0, len(rows)]), values.astype(self.x.dtype)
        alone = replace(
            self.problem, batch_pointers=pointers, batch_rows=rows, batch_columns=columns, batch_values=values
        )
        return _with_batches(self.base, alone, ends)

    def _compare(self, left: sp.csr_array, leaves: MatrixVersion, sums: bool) -> float:
        """Return the largest error of a sum over its bound: (t + 1) ε Σ|v| for a sum of t values."""
        if left.shape != self.grown.shape:
            raise IncorrectError(f"the matrix is {left.shape[0]} x {left.shape[1]}, not {self.grown.shape}")
        expected, wanted = self.expected(leaves)
        # where no place comes twice, there is nothing to be added up
        if (not sums or len(wanted.starts) == len(wanted.columns)) and _identical(left, expected):
            return 0.0
        sizes, columns = wanted.places if sums else (wanted.sizes, wanted.columns)
        given = np.diff(left.indptr)
        other = np.flatnonzero(given != sizes)
        if len(other):
            row = int(other[0])
            raise IncorrectError(
                f"{len(other)} rows have too few or too many entries: "
                f"the first, row {row}, has {given[row]}, not {sizes[row]}"
            )
        ordered = sorted_columns(left)
        wrong = np.count_nonzero(ordered.indices != columns)
        if wrong:
            raise IncorrectError(f"{wrong} of {len(columns)} entries are in other columns")
        # the columns being the same, so are the places where a column begins
        added = ordered.data.astype(np.float64, copy=False)
        if not sums and len(wanted.starts) < len(added):
            added = np.add.reduceat(added, wanted.starts)
        error = np.abs(added - wanted.sums)
        if not error.any():  # NaN is something
            return 0.0
        bound = (wanted.terms + 1) * float(np.finfo(self.x.dtype).eps) * wanted.sizes_of_terms
        outside = ~(error <= bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            largest = float(np.max(np.where(error > 0, error / bound, 0.0), initial=0.0))
        if outside.any():
            raise IncorrectError(
                f"{np.count_nonzero(outside)} of {len(bound)} values are wrong; "
                f"the largest error is {largest:.3g} of its bound",
                largest,
            )
        return largest


def make_operands(problem: Updates, precision: str, seed: int) -> GraphOperands:
    """Draw x, round the matrix, the batches and x to the working precision, and compute the product in float64.

    Raises
    ------
    ReproError
        There are values, or sums, beyond the working precision.
    """
    dtype = DTYPES[precision]
    shape = problem.base.shape
    values = rounded_values(problem.name, problem.values, lambda: rows_of(problem.base), precision).ravel()
    added = rounded_values(problem.name, problem.batch_values[:, None], lambda: problem.batch_rows, precision).ravel()
    base = _csr(values, problem.indices, problem.indptr, shape)
    grown = _with_batches(base, problem, added) if problem.entries else base
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, shape[1]).astype(dtype)
    exact = x.astype(np.float64)
    magnitude = _csr(np.abs(grown.data), grown.indices, grown.indptr, shape) @ np.abs(exact)
    largest = float(np.finfo(dtype).max)
    beyond = ~(magnitude <= largest)
    if beyond.any():
        raise ReproError(
            f"values or products are too large for {precision} precision",
            where=problem.name,
            expected=f"|A||x| of at most {largest:.3g}",
            actual=f"{np.count_nonzero(beyond)} of {shape[0]} rows’ are larger",
            todo="leave single out of the study's `precisions`, or scale the matrix"
            if precision == "single" else "scale the matrix",
        )  # fmt: skip
    bound = (np.diff(grown.indptr) + 2) * float(np.finfo(dtype).eps) * magnitude
    checksum = hashlib.sha256(f"{problem.checksum()} {seed}".encode()).hexdigest()
    return GraphOperands(problem, precision, base, grown, x, grown @ exact, bound, checksum)


def _csr(
    values: NDArray[np.floating], columns: NDArray[Any], pointers: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    return sp.csr_array((values, columns, pointers), shape=shape, copy=False)


def _identical(one: sp.csr_array, other: sp.csr_array) -> bool:
    """Return whether two matrices are the same entry for entry, which is seen long before they are put in order."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("indptr", "indices", "data"))


def _with_batches(base: sp.csr_array, problem: Updates, added: NDArray[np.floating]) -> sp.csr_array:
    """Return the matrix with the entries of all batches behind those that each row has."""
    order = np.argsort(problem.batch_rows, kind="stable")
    rows = problem.batch_rows[order]
    behind = base.indptr[rows + 1]
    pointers = base.indptr.astype(np.int64)
    pointers[1:] += np.cumsum(np.bincount(rows, minlength=base.shape[0]))
    columns = np.insert(base.indices, behind, problem.batch_columns[order])
    if len(columns) <= np.iinfo(np.int32).max:
        pointers = pointers.astype(np.int32)
    return _csr(np.insert(base.data, behind, added[order]), columns, pointers, base.shape)


def operands_of(workspace: Workspace) -> GraphOperands:
    """Return the operands of a workspace as those of a growing matrix, which they have to be."""
    operands = workspace.operands
    assert isinstance(operands, GraphOperands), "a runnable of another study"
    return operands


State = Literal["fragmented", "defragmented", "sorted"]
STATES: tuple[State, ...] = ("fragmented", "defragmented", "sorted")


def slack_of(operands: GraphOperands) -> int:
    """Return the room that a new segment has beside its entries: the mean row size, as in the paper."""
    rows = operands.base.shape[0]
    return operands.base.nnz // rows if rows else 0


def grow(operands: GraphOperands, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix as the batches leave it, inserted one after the other.

    It begins with one segment a row without room. Whenever a row's chain is full all rows are brought back into one
    segment, with slack, and the entries that found no room are inserted again.
    """
    problem, slack = operands.problem, slack_of(operands)
    counts = np.diff(problem.batch_pointers)
    rows_of_all = operands.base.shape[0]
    arrays = lay_out(operands.base, segments, operands.base.nnz + room_for(counts, rows_of_all, segments, slack))
    values = problem.batch_values.astype(operands.x.dtype, copy=False)
    for batch in range(problem.batches):
        begin, end = problem.batch_pointers[batch : batch + 2]
        rows, columns, added = problem.batch_rows[begin:end], problem.batch_columns[begin:end], values[begin:end]
        arrays, left = insert(arrays, rows, columns, added, slack, copy=False)
        if left.any():
            # where a chain has one segment, that has to have the room
            most = int(np.bincount(rows[left]).max())
            room = slack if segments > 1 else max(slack, most)
            coming = room_for(counts[batch:], rows_of_all, segments, slack)
            arrays = defragment(arrays, arrays.nnz + room * len(arrays.sizes) + coming, room)
            arrays, left = insert(arrays, rows[left], columns[left], added[left], slack, copy=False)
        assert not left.any(), "there is room for all"
    # nothing more is cut off: what lies behind the last segment would only take memory
    used = arrays.pointer
    return replace(arrays, columns=arrays.columns[:used], values=arrays.values[:used])


def lay_out_state(operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the grown matrix in a state: as the batches leave it, in one segment a row, or also ordered by size.

    In the last two no row has any room. `sorted` has the rows in the order of the paper's bins, the longest first.
    """
    if state == "fragmented":
        return grow(operands, segments)
    if state == "defragmented":
        return lay_out_sorted(operands.grown, np.arange(operands.grown.shape[0], dtype=np.int32), segments)
    sizes = np.diff(operands.grown.indptr).astype(np.int32)
    return lay_out_sorted(operands.grown, bin_rows(sizes, PAPERS_MIN_LENGTHS).order, segments)


def state_in(workspace: Workspace, operands: GraphOperands, state: State, segments: int = SEGMENTS) -> Arrays:
    """Return the same, laid out once for all of a workspace: with many batches that takes seconds."""
    return workspace.fact(("state", state, segments), lambda: lay_out_state(operands, state, segments))
