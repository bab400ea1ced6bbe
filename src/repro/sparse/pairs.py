"""Pairs: of a symmetric matrix A_ij and A_ji are stored once, where both of their rows are in one tile.

Rows are cut into tiles of 64 to 256 (`repro.sparse.pair_tiles`), a thread block each. The row that owns a pair adds
A_ij x_j to its own sum and leaves A_ji x_i, A_ji being A_ij transposed or conjugated, in a slot that is row j's alone,
from which row j takes it after a barrier. So nothing is added up by atomics, and the same bits come out each time.
Entries across tiles are stored twice, as in other formats.

Diagonal entries lie apart: they need no column, and each is its own transposed or conjugated, so that some of its
members need not be stored (`repro.sparse.symmetry.diagonal_members`). Within a tile, rows stand by the other entries
that they have, the longest first, and are stored in slices of 8 (sliced ELLPACK, sorted within the tile), entry by
entry or, where a thread loads several at once, in runs of so many side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.codegen.targets import STATIC_SHARED
from repro.problems.matrix import Matrix
from repro.sparse.pair_tiles import NO_PAIR, Tiles, cut_into_tiles
from repro.sparse.slots import check_slots
from repro.sparse.symmetry import Symmetry

#: Rows of a slice.
SLICE = 8


@dataclass(frozen=True)
class Pairs:
    """Where the entries of a symmetric matrix lie when each pair is stored once, and what a kernel is told of them.

    Attributes
    ----------
    tiles
        Which entries are stored, and what else a kernel is told of the tiles.
    index
        int32: the first slot of each slice, and one more; the first of each tile's further columns, and one more; a
        word for each place, of the number in the tile (8 bits), the first slot for what the row receives (16) and their
        count (8); and the rows at all places, if they are in another order.
    codes
        uint16, of each slot.
    position
        The slot of each stored entry, `(stored,)`.
    slots
        How many there are, padding included.
    """

    tiles: Tiles
    index: NDArray[np.int32]
    codes: NDArray[np.uint16]
    position: NDArray[np.int64]
    slots: int


def find_pairs(
    problem: Matrix, symmetry: Symmetry, tile_rows: int, rows: NDArray[np.int64] | None = None, run: int = 1
) -> Pairs:
    """Say where the entries of a symmetric matrix lie when each pair is stored once.

    Parameters
    ----------
    problem, symmetry, tile_rows, rows
        As `repro.sparse.pair_tiles.cut_into_tiles`.
    run
        Entries of a row that lie side by side.

    Raises
    ------
    Unsupported
        The matrix is not symmetric, or too large for what codes or indices can say.
    """
    return lay_out(cut_into_tiles(problem, symmetry, tile_rows, rows), run)


def lay_out(tiles: Tiles, run: int) -> Pairs:
    """Say where the stored entries of tiles lie, runs of so many of a row side by side.

    Raises
    ------
    Unsupported
        There are more slots than 32-bit indices can count.
    """
    starts = _slices(tiles.lengths, tiles.count * tiles.tile_rows // SLICE, run)
    slots = int(starts[-1])
    check_slots(tiles.problem, f"pairs within {tiles.tile_rows} rows", slots, SLICE)
    slice_of_entry, within = np.divmod(tiles.place, SLICE)
    position = starts[slice_of_entry] + SLICE * (tiles.step - tiles.step % run) + run * within + tiles.step % run
    codes = _padding(tiles.words & (tiles.tile_rows - 1), starts, run)
    codes[position] = tiles.codes
    orders = [] if tiles.order is None else [tiles.order]
    index = np.concatenate([starts, tiles.first_further, tiles.words.view(np.int32), *orders]).astype(np.int32)
    return Pairs(tiles, index, codes, position, slots)


def shared_entries(tile_rows: int, entry_bytes: int) -> int:
    """Return how many vector entries of so many bytes a block can keep in shared memory, beside its first slots."""
    return (STATIC_SHARED - 2 * tile_rows) // entry_bytes


def shared_bytes(entries: int, tile_rows: int, entry_bytes: int) -> int:
    """Return the bytes of shared memory that a launch gives to a block for so many vector entries.

    Raises
    ------
    Unsupported
        There is not so much.
    """
    most = shared_entries(tile_rows, entry_bytes)
    if entries > most:
        raise Unsupported(f"a tile keeps {entries} vector entries in shared memory, which has room for {most}")
    return entries * entry_bytes


def _slices(lengths: NDArray[np.int64], slices: int, run: int) -> NDArray[np.int64]:
    """Return the first slot of each slice, and one more: whole runs of its longest row."""
    padded = np.zeros(slices * SLICE, np.int64)
    padded[: len(lengths)] = lengths
    longest = padded.reshape(slices, SLICE).max(axis=1)
    return np.concatenate([[0], np.cumsum(SLICE * run * -(-longest // run))])


def _padding(numbers: NDArray[np.integer], starts: NDArray[np.int64], run: int) -> NDArray[np.uint16]:
    """Return codes for all slots, those of padding, which reads what the row has in the tile."""
    slots = np.diff(starts)
    place = np.repeat(np.arange(len(slots)) * SLICE, slots) + np.arange(slots.sum()) // run % SLICE
    codes: NDArray[np.uint16] = (NO_PAIR + numbers[place]).astype(np.uint16)
    return codes
