"""Symmetric pairs of real numbers: each pair within a tile is stored once, repeating values are looked up in a table.

Where entries lie is said by `repro.sparse.pairs`, in runs as long as a thread has slots. Numbers are small beside a
code of 16 bits, so that a thread loads the codes of a run at once, and its values in words of 16 bytes. Those of a tile
are indices of 8 bits into a table of 256 where all of them are in it, as in the chunks of compressed coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.sparse.pairs import SLICE, Pairs
from repro.studies.compressed_coo.coordinate_format import UNIT, UNSIGNED, Lookup, frequent_with_zero, interleave

#: Encoding of a tile in names, for codes and values: no row offsets, codes of 16 bits.
PLAIN, TABLED = "none/16/plain", "none/16/table"


@dataclass(frozen=True)
class SymmetricPairs:
    """A symmetric matrix of real numbers, ready to upload.

    Attributes
    ----------
    pairs
        Places of the matrix's entries.
    tiles
        int32 `(tiles, 4)`, for each tile: position of its first value, in units of 16 bytes; position of its first
        code; 1 if its values are table indices, else 0; the constant 0.
    values
        uint8 `(bytes,)`, for each tile: values of the diagonal entries, in the order of the rows' places; then values
        of the slots that have codes. The latter are in slot order, but words are interleaved: word w of the runs of
        all eight rows in a slice comes before word w + 1.
    table
        `(256,)`: zero, and the most frequent values.
    """

    pairs: Pairs
    tiles: NDArray[np.int32]
    values: NDArray[np.uint8]
    table: NDArray[np.floating]

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Arrays that a kernel reads, in the order of its arguments."""
        return {
            "index": self.pairs.index,
            "codes": self.pairs.codes,
            "columns": self.pairs.tiles.columns,
            "tiles": self.tiles,
            "values": self.values,
            "table": self.table,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def encodings(self) -> dict[str, int]:
        """Count the tiles for each encoding that occurs."""
        tabled = int(np.count_nonzero(self.tiles[:, 2]))
        counts = {PLAIN: len(self.tiles) - tabled, TABLED: tabled}
        return {name: count for name, count in counts.items() if count}


def store_pairs(pairs: Pairs, values: NDArray[np.floating], tile_rows: int, entries: int) -> SymmetricPairs:
    """Store each pair of a symmetric real matrix once.

    Parameters
    ----------
    pairs
        Places of the matrix's entries, in tiles of `tile_rows` rows and runs of `entries` entries.
    values
        `(nnz,)` in the working precision.
    tile_rows
        Number of rows per tile.
    entries
        Number of entries of a row that a thread loads at once.
    """
    coded = np.zeros(pairs.slots, values.dtype)
    coded[pairs.position] = values[pairs.tiles.entries]
    diagonal = np.where(pairs.tiles.diagonal < 0, 0, values[pairs.tiles.diagonal])
    count = len(diagonal) // tile_rows
    first_codes = pairs.index[: count * tile_rows // SLICE + 1 : tile_rows // SLICE]
    codes_of_tiles = np.diff(first_codes)

    bits = UNSIGNED[values.itemsize]
    lookup = Lookup(frequent_with_zero(values.view(bits)))
    missed = np.asarray(~lookup.holds(diagonal.view(bits)).reshape(count, tile_rows).all(axis=1))
    tile_of_code = np.repeat(np.arange(count), codes_of_tiles)
    missed[tile_of_code[~lookup.holds(coded.view(bits))]] = True

    tiles = np.zeros((count, 4), np.int32)
    tiles[:, 1], tiles[:, 2] = first_codes[:-1], ~missed
    units = -(-(tile_rows + codes_of_tiles) * np.where(missed, values.itemsize, 1) // UNIT.itemsize)
    tiles[:, 0] = np.cumsum(units) - units
    blob = np.zeros(int(units.sum()), UNIT).view(np.uint8)
    # positions of the tile's rows, followed by those of its codes
    number_of_code = tile_rows + np.arange(len(coded)) - tiles[tile_of_code, 1]
    for chosen, item_bytes in ((~missed, 1), (missed, values.itemsize)):
        first = tiles[:, 0].astype(np.int64) * (UNIT.itemsize // item_bytes)
        of_rows, of_codes = np.repeat(chosen, tile_rows), chosen[tile_of_code]
        rows_of_kind, codes_of_kind = diagonal.view(bits)[of_rows], coded.view(bits)[of_codes]
        if item_bytes == 1:
            rows_of_kind, codes_of_kind = lookup.places(rows_of_kind), lookup.places(codes_of_kind)
        numbers = blob.view(UNSIGNED[item_bytes])
        numbers[np.add.outer(first, np.arange(tile_rows)).ravel()[of_rows]] = rows_of_kind
        numbers[(first[tile_of_code] + number_of_code)[of_codes]] = interleave(codes_of_kind, SLICE, entries)
    return SymmetricPairs(pairs, tiles, blob, lookup.table.view(values.dtype))
