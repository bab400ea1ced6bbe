"""Symmetric and Hermitian matrices: transposed entries, whether values agree, and counts of pairs.

A Hermitian matrix of quaternions is one whose real expansion is symmetric, and so is a symmetric one of blocks.
Complex numbers have both: A_ji = conj(A_ij), Hermitian, and A_ji = A_ij, complex symmetric. Pairs within tiles are
counted without storing anything, to see what storing each of them once would save.

Records of problems are made from this module, so that it imports nothing that measures.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix

HERMITIAN, SYMMETRIC = "Hermitian", "symmetric"
#: Entries that are compared at a time: few enough for the cache.
AT_ONCE = 1 << 15
#: How the reason begins where a matrix is neither.
NOT_SYMMETRIC = "not symmetric"
#: What matrices of an entry can be; those of all others are symmetric where their real expansion is.
KINDS = {"complex": (HERMITIAN, SYMMETRIC), "quaternion": (HERMITIAN,)}


@dataclass(frozen=True)
class Symmetry:
    """Whether a matrix is symmetric, entry by entry and exactly.

    Attributes
    ----------
    kind
        `Hermitian` or `symmetric`; empty where it is neither.
    why
        Where it is neither, why not: the first entry that shows it.
    across
        Of each entry the one across from it, int32 `(nnz,)`; empty where it is neither.
    """

    kind: str
    why: str = ""
    across: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32), repr=False, compare=False)


def adjoint_factors(name: str) -> NDArray[np.float64]:
    """Return the matrix, of 0 and ±1, from an entry's members to those of the entry whose expansion is transposed.

    Raises
    ------
    ReproError
        There is no such entry.
    """
    entry = get_entry(name)
    members, k = len(entry.members), entry.size
    blocks = entry.expand(np.eye(members))
    basis, swapped = (of.reshape(members, k * k) for of in (blocks, blocks.transpose(0, 2, 1)))
    factors = np.asarray(np.round(swapped @ np.linalg.pinv(basis)), np.float64)
    if not np.array_equal(factors @ basis, swapped):
        raise ReproError("a matrix of this entry has no transpose that is one", where=name)
    return factors


def adjoint_members(name: str) -> list[tuple[int, int]]:
    """Return of each member of the transposed entry which member it is, and its sign."""
    factors = adjoint_factors(name)
    return [(int(np.abs(column).argmax()), int(column[np.abs(column).argmax()])) for column in factors.T]


def diagonal_members(name: str) -> list[int | None]:
    """Return of each member of a diagonal entry the member that it equals, where the matrix is symmetric.

    The first of those that are equal stands for them; None: it is zero. Complex matrices may be of either kind, of
    which the symmetric ones have diagonal entries like all others.
    """
    adjoint = adjoint_members(name)
    if len(KINDS.get(name, (SYMMETRIC,))) > 1:
        return list(range(len(adjoint)))
    return [min(member, source) if sign > 0 else None for member, (source, sign) in enumerate(adjoint)]


def kept_on_diagonal(name: str) -> list[int]:
    """Return the members of a diagonal entry that are stored: all others are zero, or equal to one of these."""
    return [member for member, same in enumerate(diagonal_members(name)) if same == member]


def transposed_order(matrix: Matrix) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return row pointers and columns of the transpose, and which entry of the matrix each of its entries is."""
    order = np.arange(matrix.nnz, dtype=np.int32)
    columns = sp.csr_array((order, matrix.indices, matrix.indptr), shape=(matrix.n, matrix.n)).tocsc()
    return columns.indptr.astype(np.int32), columns.indices.astype(np.int32), columns.data


def symmetry_of(matrix: Matrix, values: NDArray[np.floating]) -> Symmetry:
    """Say whether a square matrix is symmetric or Hermitian.

    Parameters
    ----------
    matrix
        The pattern.
    values
        `(nnz, members)` in the precision that they are to agree in: they have to be equal, not close.
    """
    indptr, columns, order = transposed_order(matrix)
    if not (np.array_equal(indptr, matrix.indptr) and np.array_equal(columns, matrix.indices)):
        where = "row {}, column {}".format(*_without_partner(matrix))
        return Symmetry("", f"{NOT_SYMMETRIC}: there is an entry in {where}, and none across from it")
    adjoint = adjoint_members(matrix.entry)
    first_kind, *other_kinds = KINDS.get(matrix.entry, (SYMMETRIC,))
    first = _first_that_differs(values, order, adjoint)
    if first is None:
        return Symmetry(first_kind, across=order)
    if other_kinds:
        other = _first_that_differs(values, order, [(member, 1) for member, _ in enumerate(adjoint)])
        if other is None:
            return Symmetry(SYMMETRIC, across=order)
        first = max(first, other)  # it is neither, and until there could have been one of them
    row = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
    where = f"row {row}, column {matrix.indices[first]}"
    return Symmetry("", f"{NOT_SYMMETRIC}: the values of {where}, and across from it do not agree exactly")


def _first_that_differs(
    values: NDArray[np.floating], order: NDArray[np.int32], adjoint: list[tuple[int, int]]
) -> int | None:
    """Return the first entry that is not, by members and signs, the one across from it; None where all are."""
    members, signs = [member for member, _ in adjoint], np.array([sign for _, sign in adjoint], values.dtype)
    for first in range(0, len(order), AT_ONCE):
        others = values[order[first : first + AT_ONCE]]
        differs = (others[:, members] * signs != values[first : first + AT_ONCE]).any(axis=1)
        if differs.any():
            return first + int(differs.argmax())
    return None


def _without_partner(matrix: Matrix) -> tuple[int, int]:
    """Return row and column of the first entry that has none across from it; of a matrix that has one."""
    shape = (matrix.n, matrix.n)
    pattern = sp.csr_array((np.ones(matrix.nnz, np.int8), matrix.indices, matrix.indptr), shape=shape)
    alone = (pattern - pattern.T).tocsr()
    alone.eliminate_zeros()
    alone.sort_indices()
    alone = alone.tocoo()
    first = int((alone.data > 0).argmax())
    return int(alone.coords[0][first]), int(alone.coords[1][first])


#: Bytes of the code that an entry has in place of its column.
CODE_BYTES = 2


@dataclass(frozen=True)
class PairCounts:
    """A symmetric matrix in tiles of consecutive rows.

    Attributes
    ----------
    rows, tiles
        Of the matrix.
    within
        Entries beside the diagonal whose column is in the tile of their row: two a pair, one of which is stored.
    across
        Entries whose column is in another tile, all of which are stored.
    foreign
        Columns of other tiles that the rows of a tile read, each once a tile; the sum over all tiles.
    """

    rows: int
    tiles: int
    within: int
    across: int
    foreign: int

    @property
    def inside(self) -> float:
        """Share of the entries beside the diagonal that are stored once for two; 1 where there are none."""
        return self.within / (self.within + self.across) if self.within + self.across else 1.0

    @property
    def foreign_per_tile(self) -> float:
        """Columns of other tiles that a tile reads, in the mean."""
        return self.foreign / self.tiles

    def nbytes(self, members: int, on_diagonal: int, number_bytes: int) -> int:
        """Return the bytes of the matrix with each pair within a tile stored once, padding left out.

        Of each row there are a diagonal entry and a word, of each tile the place of its foreign columns.

        Parameters
        ----------
        members, on_diagonal
            Numbers of an entry, and of one on the diagonal.
        number_bytes
            4 or 8.
        """
        stored = self.within // 2 + self.across
        numbers = stored * members + self.rows * on_diagonal
        return numbers * number_bytes + stored * CODE_BYTES + (self.rows + self.tiles + self.foreign) * INDEX_BYTES


def count_pairs(matrix: Matrix, tile_rows: int) -> PairCounts:
    """Count the pairs of a matrix of symmetric pattern within tiles of so many rows, in the order of its rows."""
    row = np.repeat(np.arange(matrix.n), matrix.row_lengths)
    tile = row // tile_rows
    across = tile != matrix.indices // tile_rows
    foreign = np.unique(tile[across] * matrix.n + matrix.indices[across])
    beside = int(np.count_nonzero(row != matrix.indices))
    crossing = int(np.count_nonzero(across))
    return PairCounts(matrix.n, -(-matrix.n // tile_rows), beside - crossing, crossing, len(foreign))
