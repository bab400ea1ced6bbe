"""Symmetric and Hermitian matrices: exact comparison with the transpose, and counts of pairs within tiles.

A pair is an entry A_ij and its transposed entry A_ji. The real expansion is symmetric for a Hermitian matrix of
quaternions and for a symmetric matrix of blocks. A complex matrix can be Hermitian, A_ji = conj(A_ij), or complex
symmetric, A_ji = A_ij. Code that records problems imports this module, so the module must not import code that
measures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix

HERMITIAN, SYMMETRIC = "Hermitian", "symmetric"
#: Number of entries compared at once; so few that they fit into the cache.
AT_ONCE = 1 << 15
#: First words of the reason why a matrix is not symmetric (`Symmetry.why`).
NOT_SYMMETRIC = "not symmetric"


def kinds_of(entry: str) -> tuple[str, ...]:
    """Return the possible kinds of symmetry; a matrix is `symmetric` if its real expansion is, unless it is complex."""
    return {"complex": (HERMITIAN, SYMMETRIC), "quaternion": (HERMITIAN,)}.get(entry, (SYMMETRIC,))


def not_square(rows: int, columns: int) -> str:
    return f"{NOT_SYMMETRIC}: it has {rows} rows and {columns} columns"


def without_pair(row: int, column: int) -> str:
    return f"{NOT_SYMMETRIC}: there is an entry in row {row}, column {column}, and none across from it"


def unlike_values(row: int, column: int) -> str:
    return f"{NOT_SYMMETRIC}: the values of row {row}, column {column}, and across from it do not agree exactly"


@dataclass(frozen=True)
class Symmetry:
    """Result of the exact test of a matrix for symmetry, entry by entry."""

    #: `Hermitian` or `symmetric`; empty: the matrix is neither.
    kind: str
    #: Reason why the matrix is not symmetric, with the first entry that breaks the symmetry.
    why: str = ""
    #: Index of the transposed entry of each entry, int32 `(nnz,)`; empty if the matrix is not symmetric.
    across: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32), repr=False, compare=False)


def adjoint_factors(name: str) -> NDArray[np.float64]:
    """Return a matrix of 0 and ±1 that maps the members of an entry to the members of the transposed entry.

    The transposed entry is the one whose real block is the transpose. If there is none, it raises `ReproError`.
    """
    entry = get_entry(name)
    members, k = len(entry.members), entry.size
    blocks = entry.expand(np.eye(members))
    basis, transposed_products = (products.reshape(members, k * k) for products in (blocks, blocks.transpose(0, 2, 1)))
    factors = np.asarray(np.round(transposed_products @ np.linalg.pinv(basis)), np.float64)
    if not np.array_equal(factors @ basis, transposed_products):
        raise ReproError("the transpose of this entry has a different entry type", where=name)
    return factors


def adjoint_members(name: str) -> list[tuple[int, int]]:
    """Return, for each member of the transposed entry, the equal member of the entry and its sign."""
    factors = adjoint_factors(name)
    return [(int(np.abs(column).argmax()), int(column[np.abs(column).argmax()])) for column in factors.T]


def diagonal_members(name: str) -> list[int | None]:
    """Return, for each member of a diagonal entry of a symmetric matrix, the first member equal to it.

    None: always zero.

    For complex matrices all members are kept, as the diagonal entries of a complex symmetric matrix are arbitrary.
    """
    adjoint = adjoint_members(name)
    if len(kinds_of(name)) > 1:
        return list(range(len(adjoint)))
    return [min(member, source) if sign > 0 else None for member, (source, sign) in enumerate(adjoint)]


def kept_on_diagonal(name: str) -> list[int]:
    """Return the members of a diagonal entry that are stored; all others are zero or equal to a stored member."""
    return [member for member, same in enumerate(diagonal_members(name)) if same == member]


def transposed_order(matrix: Matrix) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return row pointers and columns of the transpose, and, for each transpose entry, its index in the matrix."""
    order = np.arange(matrix.nnz, dtype=np.int32)
    columns = sp.csr_array((order, matrix.indices, matrix.indptr), shape=matrix.shape).tocsc()
    return columns.indptr.astype(np.int32), columns.indices.astype(np.int32), columns.data


def transposed(matrix: Matrix, *, conjugate: bool = False) -> Matrix:
    """Return the transpose of a matrix, or the matrix itself if both are the same bit for bit.

    Entries are transposed too: blocks are transposed and quaternions conjugated, which transposes the real expansion.
    Raises `ReproError`: the transpose of an entry has another type.

    Parameters
    ----------
    matrix
        Any matrix, square or not.
    conjugate
        Also conjugate complex entries.
    """
    indptr, indices, order = transposed_order(matrix)
    values = matrix.values[order]
    if conjugate or matrix.entry != "complex":
        values = values @ adjoint_factors(matrix.entry)
    rows, columns = matrix.shape
    arrays: dict[str, Any] = {"indptr": indptr, "indices": indices, "values": values}
    if matrix.square and all(np.array_equal(array, arrays[name]) for name, array in matrix.arrays().items()):
        return matrix
    return replace(matrix, n=columns, columns=None if matrix.square else rows, statistics={}, **arrays)


def symmetry_of(matrix: Matrix, values: NDArray[np.floating]) -> Symmetry:
    """Test whether a matrix is symmetric or Hermitian.

    `values` are the entries `(nnz, members)` in the working precision; they must agree exactly.
    """
    if not matrix.square:
        return Symmetry("", not_square(*matrix.shape))
    indptr, columns, order = transposed_order(matrix)
    if not (np.array_equal(indptr, matrix.indptr) and np.array_equal(columns, matrix.indices)):
        return Symmetry("", without_pair(*_unpaired_entry(matrix)))
    adjoint = adjoint_members(matrix.entry)
    first_kind, *other_kinds = kinds_of(matrix.entry)
    first = _first_difference(values, order, adjoint)
    if first is None:
        return Symmetry(first_kind, across=order)
    if other_kinds:
        other = _first_difference(values, order, [(member, 1) for member, _ in enumerate(adjoint)])
        if other is None:
            return Symmetry(SYMMETRIC, across=order)
        first = max(first, other)  # the matrix is neither Hermitian nor symmetric only at the later of both entries
    row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
    return Symmetry("", unlike_values(row, int(matrix.indices[first])))


def _first_difference(
    values: NDArray[np.floating], order: NDArray[np.int32], adjoint: list[tuple[int, int]]
) -> int | None:
    """Return the index of the first entry that differs from its transposed entry, or None.

    `order` has the index of each transposed entry, and `adjoint` is from `adjoint_members`.
    """
    members, signs = [member for member, _ in adjoint], np.array([sign for _, sign in adjoint], values.dtype)
    for first in range(0, len(order), AT_ONCE):
        others = values[order[first : first + AT_ONCE]]
        differs = (others[:, members] * signs != values[first : first + AT_ONCE]).any(axis=1)
        if differs.any():
            return first + int(differs.argmax())
    return None


def _unpaired_entry(matrix: Matrix) -> tuple[int, int]:
    """Return row and column of the first entry A_ij for which there is no entry A_ji."""
    shape = (matrix.n, matrix.n)
    pattern = sp.csr_array((np.ones(matrix.nnz, np.int8), matrix.indices, matrix.indptr), shape=shape)
    unpaired = (pattern - pattern.T).tocsr()
    unpaired.eliminate_zeros()
    unpaired.sort_indices()
    unpaired = unpaired.tocoo()
    first = int((unpaired.data > 0).argmax())
    return int(unpaired.coords[0][first]), int(unpaired.coords[1][first])


#: Bytes per entry for the code that replaces the column index in pair storage.
CODE_BYTES = 2


@dataclass(frozen=True)
class PairCounts:
    """Numbers of entries of a symmetric matrix inside and outside tiles of consecutive rows."""

    rows: int
    tiles: int
    #: Number of off-diagonal entries with row and column in the same tile; they form pairs stored once.
    within: int
    #: Number of entries whose column is in another tile than the row; all are stored.
    across: int
    #: Number of distinct columns of other tiles that a tile reads, summed over all tiles.
    foreign: int

    @property
    def inside(self) -> float:
        """Share of off-diagonal entries whose row and column are in the same tile; 1 for a diagonal matrix."""
        return self.within / (self.within + self.across) if self.within + self.across else 1.0

    @property
    def foreign_per_tile(self) -> float:
        return self.foreign / self.tiles

    def nbytes(self, members: int, diagonal_numbers: int, number_bytes: int) -> int:
        """Return the bytes of the matrix if each pair within a tile is stored once, without padding.

        Each row takes a diagonal entry of `diagonal_numbers` numbers and one word. Each tile takes one offset, and an
        index for each foreign column. Each other stored entry takes `members` numbers and a code. A number takes
        `number_bytes`.
        """
        stored_pairs = self.within // 2 + self.across
        numbers = stored_pairs * members + self.rows * diagonal_numbers
        return (
            numbers * number_bytes + stored_pairs * CODE_BYTES + (self.rows + self.tiles + self.foreign) * INDEX_BYTES
        )


def count_pairs(matrix: Matrix, tile_rows: int) -> PairCounts:
    """Count pairs within tiles of `tile_rows` consecutive rows; the pattern of the matrix must be symmetric."""
    row = np.repeat(np.arange(matrix.n), matrix.row_lengths)
    tile = row // tile_rows
    crosses_tiles = tile != matrix.indices // tile_rows
    foreign = np.unique(tile[crosses_tiles] * matrix.n + matrix.indices[crosses_tiles])
    off_diagonal = int(np.count_nonzero(row != matrix.indices))
    crossing = int(np.count_nonzero(crosses_tiles))
    return PairCounts(matrix.n, -(-matrix.n // tile_rows), off_diagonal - crossing, crossing, len(foreign))
