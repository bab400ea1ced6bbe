"""Matrices with compound entries as the libraries take them: expanded to real or complex numbers, in their formats."""

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
    """One way to write an entry as a square block of plain numbers.

    Attributes
    ----------
    name
        `real`, `complex`, `real3`, `real4`, `complex2`: what the numbers are, and how many in a row of a block.
    size
        Numbers in a row of a block.
    is_complex
        Whether they are complex.
    blocks
        Maps `(nnz, members)` to `(nnz, size, size)`, in the same precision.
    signs
        What each member of a vector entry is multiplied by before the members, side by side, are the numbers of the
        vector; the same for x and for y.
    """

    name: str
    size: int
    is_complex: bool
    blocks: Callable[[NDArray[Any]], Numbers]
    signs: tuple[int, ...]

    @property
    def arrangement(self) -> str:
        """The name of the vectors' order: `AoS`, marked by the members that change their sign."""
        changed = "".join(str(i) for i, sign in enumerate(self.signs) if sign < 0)
        return f"AoS-minus-{changed}" if changed else "AoS"

    def dtype(self, real: np.dtype[np.floating[Any]]) -> np.dtype[np.inexact[Any]]:
        """Return the type of the numbers for a working precision."""
        return np.dtype(np.result_type(real, np.complex64)) if self.is_complex else real

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring vector members `(n, k)` into the order, with the signs, of the library's vector; flat."""
        signed: NDArray[Any] = values * np.asarray(self.signs, values.dtype)
        return signed.ravel()


def complex_blocks(values: NDArray[Any]) -> Numbers:
    """Return complex numbers as 1×1 blocks."""
    return _pairs(values).reshape(-1, 1, 1)


def quaternion_as_complex(values: NDArray[Any]) -> Numbers:
    """Return w + xi + yj + zk as ((a, −b), (b*, a*)) with a = w + xi and b = y + zi.

    With j i = −i j the product (a + bj)(c + dj) is (ac − bd*) + (ad + bc*)j, so on (c, d*) the block gives the first
    part and the conjugate of the second: in members, x and y are w, x, y, −z.
    """
    a, b = _pairs(values).T
    return np.stack([a, -b, b.conj(), a.conj()], axis=1).reshape(-1, 2, 2)


def _pairs(values: NDArray[Any]) -> Numbers:
    """Return each two members as a complex number of the same precision: `(nnz, members / 2)`."""
    pairs: Numbers = np.ascontiguousarray(values).view(np.result_type(values.dtype, np.complex64))
    return pairs


COMPLEX = Representation("complex", 1, True, complex_blocks, (1, 1))
COMPLEX2 = Representation("complex2", 2, True, quaternion_as_complex, (1, 1, 1, -1))


def real_expansion(entry: str) -> Representation:
    """Return the real k×k expansion that every entry has."""
    what = get_entry(entry)
    name = "real" if what.size == 1 else f"real{what.size}"
    return Representation(name, what.size, False, what.expand, (1,) * what.size)


def representations(entry: str) -> list[Representation]:
    """Return every representation that is no larger than it has to be: complex numbers stay complex."""
    if entry == "complex":
        return [COMPLEX]
    return [real_expansion(entry), COMPLEX2] if entry == "quaternion" else [real_expansion(entry)]


class Csr(NamedTuple):
    """Compressed sparse rows: int32 `(rows + 1,)`, int32 `(nnz,)`, `(nnz,)`."""

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Coo(NamedTuple):
    """Coordinates, sorted by row: int32 `(nnz,)`, int32 `(nnz,)`, `(nnz,)`."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Bsr(NamedTuple):
    """Block sparse rows, blocks by rows: int32 `(n + 1,)`, int32 `(blocks,)`, `(blocks, size, size)`."""

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


class Sell(NamedTuple):
    """Sliced ELLPACK as cuSPARSE has it.

    int32 `(slices + 1,)` counted in slots, int32 `(slots,)` with −1 in the padding, `(slots,)` with 0. The slots of a
    slice lie column by column, the last slice has as many rows as the others.
    """

    offsets: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Numbers


def to_bsr(problem: Matrix, representation: Representation, real: np.dtype[np.floating[Any]]) -> Bsr:
    """Return a matrix as blocks, in a working precision."""
    blocks = representation.blocks(problem.values.astype(real, copy=False))
    return Bsr(problem.indptr, problem.indices, np.ascontiguousarray(blocks))


def to_csr(bsr: Bsr) -> Csr:
    """Return the single numbers; zeros within a block stay stored.

    Raises
    ------
    OverflowError
        More numbers than 32-bit indices can count.
    """
    size = bsr.values.shape[1]
    _check(bsr.values.size)
    if size == 1:
        return Csr(bsr.offsets, bsr.columns, bsr.values.ravel())
    n = len(bsr.offsets) - 1
    matrix = sp.bsr_array((bsr.values, bsr.columns, bsr.offsets), shape=(n * size, n * size)).tocsr()
    return Csr(np.asarray(matrix.indptr, np.int32), np.asarray(matrix.indices, np.int32), matrix.data)


def to_coo(csr: Csr) -> Coo:
    """Return the numbers with the row of each."""
    rows = np.repeat(np.arange(len(csr.offsets) - 1, dtype=np.int32), np.diff(csr.offsets))
    return Coo(rows, csr.columns, csr.values)


def to_sell(csr: Csr, slice_rows: int) -> Sell:
    """Return sliced ELLPACK with slices of so many rows.

    Raises
    ------
    OverflowError
        More slots than 32-bit indices can count.
    """
    lengths = np.diff(csr.offsets)
    n = len(lengths)
    slices = -(-n // slice_rows)
    widths = np.pad(lengths, (0, slices * slice_rows - n)).reshape(slices, slice_rows).max(axis=1)
    offsets = np.concatenate([[0], np.cumsum(widths.astype(np.int64) * slice_rows)])
    _check(int(offsets[-1]))
    rows = np.arange(n)
    # the slot of a row's first number, less those that the numbers of the rows before it would take
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
