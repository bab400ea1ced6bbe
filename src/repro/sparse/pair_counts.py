"""How many pairs of a symmetric matrix lie within tiles, and what that saves: counted, without storing anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.codegen.precisions import INDEX_BYTES
from repro.problems.matrix import Matrix

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
