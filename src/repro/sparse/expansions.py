"""Conversion of matrices with compound entries to plain real or complex matrices, in the formats of libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.problems.matrix import Matrix

Numbers = NDArray[np.inexact[Any]]
INDEX_LIMIT = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Representation:
    """One way to write an entry as a square block of real or complex numbers."""

    #: `real`, `complex`, `real3`, `real4` or `complex2`: number type and block size.
    name: str
    #: Number of rows, and of columns, of a block.
    size: int
    is_complex: bool
    #: Maps `(nnz, members)` to `(nnz, size, size)`, in the same precision.
    blocks: Callable[[NDArray[Any]], Numbers]
    #: Sign with which each vector member is stored in the library's vectors x and y.
    signs: tuple[int, ...]

    @property
    def arrangement(self) -> str:
        """Name of the order of the library's vectors.

        It is `AoS`, followed by the indices of the members with changed signs.
        """
        negated = "".join(str(i) for i, sign in enumerate(self.signs) if sign < 0)
        return f"AoS-minus-{negated}" if negated else "AoS"

    def dtype(self, real: np.dtype[np.floating[Any]]) -> np.dtype[np.inexact[Any]]:
        """Return the number type of the expansion: `real` itself, or the complex type of the same precision."""
        return np.dtype(np.result_type(real, np.complex64)) if self.is_complex else real

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return vector members `(n, k)` as a flat vector with the order and signs that the library needs."""
        signed_values: NDArray[Any] = values * np.asarray(self.signs, values.dtype)
        return signed_values.ravel()


def complex_blocks(values: NDArray[Any]) -> Numbers:
    return _pairs(values).reshape(-1, 1, 1)


def quaternion_as_complex(values: NDArray[Any]) -> Numbers:
    """Return w + xi + yj + zk as ((a, −b), (b*, a*)) with a = w + xi and b = y + zi.

    As j i = −i j, the product (a + bj)(c + dj) is (ac − bd*) + (ad + bc*)j. The block times (c, d*) gives (ac − bd*)
    and the conjugate of (ad + bc*), so a quaternion in a vector must be stored as w, x, y, −z.
    """
    a, b = _pairs(values).T
    return np.stack([a, -b, b.conj(), a.conj()], axis=1).reshape(-1, 2, 2)


def _pairs(values: NDArray[Any]) -> Numbers:
    """Return pairs of adjacent members as complex numbers of the same precision, `(nnz, members / 2)`."""
    pairs: Numbers = np.ascontiguousarray(values).view(np.result_type(values.dtype, np.complex64))
    return pairs


COMPLEX = Representation("complex", 1, True, complex_blocks, (1, 1))
COMPLEX2 = Representation("complex2", 2, True, quaternion_as_complex, (1, 1, 1, -1))


def real_expansion(entry: str) -> Representation:
    """Return the representation of an entry type as real k×k blocks, which every entry type has."""
    algebra = get_entry(entry)
    name = "real" if algebra.size == 1 else f"real{algebra.size}"
    return Representation(name, algebra.size, False, algebra.expand, (1,) * algebra.size)


def representations(entry: str) -> list[Representation]:
    """Return the representations of an entry type that are used; complex entries are not expanded to real blocks."""
    if entry == "complex":
        return [COMPLEX]
    return [real_expansion(entry), COMPLEX2] if entry == "quaternion" else [real_expansion(entry)]


class Csr(NamedTuple):
    """Compressed sparse rows; shapes: offsets `(rows + 1,)`, columns and values `(nnz,)`."""

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Coo(NamedTuple):
    """Coordinates sorted by row; all arrays are `(nnz,)`."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Bsr(NamedTuple):
    """Block sparse rows; shapes: offsets `(n + 1,)`, columns `(blocks,)`, values `(blocks, size, size)`."""

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Sell(NamedTuple):
    """cuSPARSE's sliced ELLPACK.

    Shapes: offsets `(slices + 1,)`, counted in slots; columns `(slots,)`, −1 for padding; values `(slots,)`, 0 for
    padding. The slots of a slice are stored column by column. The last slice is padded to full height.
    """

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


def to_bsr(problem: Matrix, representation: Representation, real: np.dtype[np.floating[Any]]) -> Bsr:
    blocks = representation.blocks(problem.values.astype(real, copy=False))
    return Bsr(problem.indptr, problem.indices, np.ascontiguousarray(blocks))


def to_csr(bsr: Bsr) -> Csr:
    """Expand blocks to single numbers, including zeros; raise `OverflowError` above 2³¹ − 1 numbers."""
    size = bsr.values.shape[1]
    _check(bsr.values.size)
    if size == 1:
        return Csr(bsr.offsets, bsr.columns, bsr.values.ravel())
    n = len(bsr.offsets) - 1
    matrix = sp.bsr_array((bsr.values, bsr.columns, bsr.offsets), shape=(n * size, n * size)).tocsr()
    return Csr(np.asarray(matrix.indptr, np.int32), np.asarray(matrix.indices, np.int32), matrix.data)


def to_coo(csr: Csr) -> Coo:
    rows = np.repeat(np.arange(len(csr.offsets) - 1, dtype=np.int32), np.diff(csr.offsets))
    return Coo(rows, csr.columns, csr.values)


def to_sell(csr: Csr, slice_rows: int) -> Sell:
    """Convert CSR to sliced ELLPACK; more than 2³¹ − 1 slots raise `OverflowError`."""
    lengths = np.diff(csr.offsets)
    n = len(lengths)
    slices = -(-n // slice_rows)
    widths = np.pad(lengths, (0, slices * slice_rows - n)).reshape(slices, slice_rows).max(axis=1)
    offsets = np.concatenate([[0], np.cumsum(widths.astype(np.int64) * slice_rows)])
    _check(int(offsets[-1]))
    rows = np.arange(n)
    # slot of the first number of each row, minus `slice_rows` times the count of numbers in earlier rows
    first = offsets[rows // slice_rows] + rows % slice_rows - csr.offsets[:-1].astype(np.int64) * slice_rows
    slots = np.repeat(first, lengths)
    slots += np.arange(0, len(csr.columns) * slice_rows, slice_rows)
    columns = np.full(offsets[-1], -1, np.int32)
    columns[slots] = csr.columns
    values = np.zeros(offsets[-1], csr.values.dtype)
    values[slots] = csr.values
    return Sell(offsets.astype(np.int32), columns, values)


def _check(count: int) -> None:
    if count > INDEX_LIMIT:
        raise OverflowError(f"{count} numbers are more than 32-bit indices can count")
