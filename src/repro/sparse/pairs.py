"""Pairs: of a symmetric matrix A_ij and A_ji are stored once, where both of their rows are in one tile.

Rows are cut into tiles of 64 to 256, a thread block each. One of its two rows owns a pair within a tile: it adds
A_ij x_j to its own sum and leaves A_ji x_i, A_ji being A_ij transposed or conjugated, in a slot that is row j's alone,
from which row j takes it after a barrier. So nothing is added up by atomics, and the same bits come out each time.
Entries across tiles are stored twice, as in other formats.

Diagonal entries lie apart: they need no column, and each is its own transposed or conjugated, so that some of its
members need not be stored (`repro.sparse.symmetry.diagonal_members`). Within a tile, rows stand by the other entries
that they have, the longest first, and are stored in slices of 8 (sliced ELLPACK, sorted within the tile), entry by
entry or, where a thread loads several at once, in runs of so many side by side. Each has a code of 16 bits. Below 2^15
it is that of a pair: the other row's number in the tile, and above its bits the number of the slot among those of that
row. Otherwise the bits below are a place in what the block keeps of x: the tile's own rows, and behind them those of
the other columns that its rows read, each of them once. Of these as many as most tiles have lie at the same distance
from tile to tile, so that a block finds them before it has read anything; the further ones of tiles that have more
follow behind those of all tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.codegen.targets import STATIC_SHARED
from repro.problems.matrix import Matrix
from repro.sparse.orientation import orient
from repro.sparse.slots import check_slots
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, Symmetry

#: Rows of a slice.
SLICE = 8
#: What kernels are given to tell the two apart.
SIGNS = {HERMITIAN: -1, SYMMETRIC: 1}
#: A code with this bit is no pair's, and has no slot.
NO_PAIR = 1 << 15
#: Slots that a row may have: a byte of its word counts them.
MOST_SLOTS = 255
#: A column that is none, where a tile has fewer than others.
NO_COLUMN = -1
#: Columns that have a place in each tile, at the most: so many times what tiles have in the mean. On the meshes of the
#: campaigns 98 % of the tiles have no more, and all columns take half as much again.
LEADING = 1.5


@dataclass(frozen=True)
class Rows:
    """Where rows stand.

    Attributes
    ----------
    tile, number
        Of each row its tile, and its number in the tile, by which codes name it; `(n,)`.
    place
        Of each row the place at which it is stored, `(n,)`.
    order
        The row at each place, `(n,)`.
    """

    tile: NDArray[np.int64]
    number: NDArray[np.int64]
    place: NDArray[np.int64]
    order: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """What becomes of each entry: `(nnz,)` each, entries in CSR's order.

    Attributes
    ----------
    row
        Its row.
    across
        The entry across from it.
    diagonal, foreign, owned, received
        Whether it is a row's diagonal entry, reads x in another tile, is stored for itself and the one across from it,
        or is the other one of such a pair.
    """

    row: NDArray[np.int64]
    across: NDArray[np.int32]
    diagonal: NDArray[np.bool_]
    foreign: NDArray[np.bool_]
    owned: NDArray[np.bool_]
    received: NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Where the entries of a symmetric matrix lie when each pair is stored once, and what a kernel is told of them.

    Attributes
    ----------
    index
        int32: the first slot of each slice, and one more; the first of each tile's further columns, and one more; a
        word for each place, of the number in the tile (8 bits), the first slot for what the row receives (16) and their
        count (8); and the rows at all places, if they are in another order.
    codes
        uint16, of each slot.
    columns
        int32, the foreign columns: `leading` of each tile, `NO_COLUMN` where it has fewer, and the further ones of all.
    leading
        How many have a place in each tile.
    diagonal
        Which of the matrix's entries is the diagonal one of the row at each place, -1 where there is none; of all
        places of all tiles, `(places,)`.
    entries, position
        Which of the others are stored, in CSR's order, and the slot of each; `(stored,)`.
    slots
        How many there are, padding included.
    sign
        -1 where the matrix is Hermitian, or 1.
    shared
        Vector entries that a block keeps in shared memory, at the most: of x its tile's own and the foreign ones, and
        the products that its rows receive.
    shared_gathering
        The same of a kernel that gathers the foreign ones from global memory.
    """

    index: NDArray[np.int32]
    codes: NDArray[np.uint16]
    columns: NDArray[np.int32]
    leading: int
    diagonal: NDArray[np.int64]
    entries: NDArray[np.int64]
    position: NDArray[np.int64]
    slots: int
    sign: int
    shared: int
    shared_gathering: int


def find_pairs(
    problem: Matrix, symmetry: Symmetry, tile_rows: int, rows: NDArray[np.int64] | None = None, run: int = 1
) -> Pairs:
    """Say where the entries of a symmetric matrix lie when each pair is stored once.

    Parameters
    ----------
    problem
        The pattern.
    symmetry
        What `repro.sparse.symmetry.symmetry_of` says of it and of its values; of the matrix in this very order.
    tile_rows
        Rows of a tile: 64, 128 or 256.
    rows
        The order that tiles are cut from, `(n,)`; it follows in `index`. None: that of the matrix.
    run
        Entries of a row that lie side by side.

    Raises
    ------
    Unsupported
        The matrix is not symmetric, or too large for what codes or indices can say.
    """
    if not symmetry.kind:
        raise Unsupported(symmetry.why)
    size = tile_rows
    tiles = -(-problem.n // size)
    tile = np.empty(problem.n, np.int64)
    tile[np.arange(problem.n) if rows is None else rows] = np.arange(problem.n) // size
    split = _split(problem, symmetry.across, tile)
    stored = split.owned | split.foreign
    lengths = np.bincount(split.row[stored], minlength=problem.n)
    standing = _stand(tile, lengths, size, natural=rows is None)
    starts = _slices(lengths[standing.order], tiles * size // SLICE, run)
    slots = int(starts[-1])
    check_slots(problem, f"pairs within {size} rows", slots, SLICE)
    kept = np.flatnonzero(stored)
    place = np.repeat(standing.place.astype(np.int32), problem.row_lengths)[kept]
    step, within = _rank(stored, problem)[kept], place % SLICE
    position = starts[place // SLICE] + SLICE * (step - step % run) + run * within + step % run
    diagonal = np.full(tiles * size, -1)
    diagonal[standing.place[split.row[split.diagonal]]] = np.flatnonzero(split.diagonal)
    counts, columns, foreign = _foreign_columns(problem, split, tile, tiles)
    words, received = _words(problem, split, standing, tiles, size)
    _check(received, size, int(counts.max(initial=0)))
    leading = min(int(counts.max(initial=0)), int(LEADING * counts.sum() / tiles))
    check_slots(problem, f"columns of pairs within {size} rows", tiles * leading + len(columns), 0)
    columns, first_further = _led(counts, columns, leading)
    numbers = words & (size - 1)
    codes = _padding(numbers, starts, run)
    code = np.empty(problem.nnz, np.uint16)
    code[split.foreign] = NO_PAIR + size + foreign
    slot_of_pair = _rank(split.received, problem)[split.across[split.owned]]
    code[split.owned] = standing.number[problem.indices[split.owned]] + size * slot_of_pair
    codes[position] = code[stored]

    index = np.concatenate([starts, first_further, words.view(np.int32), *([] if rows is None else [standing.order])])
    received_in = np.bincount(tile, received, minlength=tiles).astype(np.int64)
    return Pairs(
        index.astype(np.int32),
        codes,
        columns,
        leading,
        diagonal,
        kept,
        position,
        slots,
        SIGNS[symmetry.kind],
        size + leading + int((received_in + np.diff(first_further)).max()),
        size + int(received_in.max()),
    )


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


def _split(problem: Matrix, across: NDArray[np.int32], tile: NDArray[np.int64]) -> Split:
    """Say what becomes of each entry when rows are in tiles."""
    row = np.repeat(np.arange(problem.n), problem.row_lengths)
    diagonal = row == problem.indices
    foreign = tile[row] != tile[problem.indices]
    pairs = np.flatnonzero(~foreign & (row < problem.indices))
    first_owns = orient(row[pairs], problem.indices[pairs], np.bincount(row[foreign], minlength=problem.n))
    owned = np.zeros(problem.nnz, bool)
    owned[pairs], owned[across[pairs]] = first_owns, ~first_owns
    return Split(row, across, diagonal, foreign, owned, ~(foreign | diagonal | owned))


def _stand(tile: NDArray[np.int64], lengths: NDArray[np.int64], size: int, *, natural: bool) -> Rows:
    """Stand the rows of each tile by their lengths; numbers are those of the matrix's order, or else of the places."""
    order = np.lexsort((-lengths, tile))
    place = np.empty(len(tile), np.int64)
    place[order] = np.arange(len(tile))
    return Rows(tile, (np.arange(len(tile)) if natural else place) % size, place, order)


def _slices(lengths: NDArray[np.int64], slices: int, run: int) -> NDArray[np.int64]:
    """Return the first slot of each slice, and one more: whole runs of its longest row."""
    padded = np.zeros(slices * SLICE, np.int64)
    padded[: len(lengths)] = lengths
    longest = padded.reshape(slices, SLICE).max(axis=1)
    return np.concatenate([[0], np.cumsum(SLICE * run * -(-longest // run))])


def _rank(of: NDArray[np.bool_], problem: Matrix) -> NDArray[np.int32]:
    """Return how many entries of a kind stand before each in its row."""
    before = np.zeros(len(of) + 1, np.int32)
    np.cumsum(of, out=before[1:])
    ranks: NDArray[np.int32] = before[:-1] - np.repeat(before[problem.indptr[:-1]], problem.row_lengths)
    return ranks


def _words(
    problem: Matrix, split: Split, standing: Rows, tiles: int, size: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the word of each place, and how many slots each row has."""
    received = np.bincount(split.row[split.received], minlength=problem.n)
    counts = np.zeros(tiles * size, np.int64)
    counts[standing.tile * size + standing.number] = received
    first = (np.cumsum(counts.reshape(tiles, size), axis=1) - counts.reshape(tiles, size)).ravel()
    number = np.tile(np.arange(size), tiles)
    number[standing.place] = standing.number
    at = np.repeat(np.arange(tiles) * size, size) + number
    return (number + (first[at] << 8) + (counts[at] << 24)).astype(np.uint32), received


def _foreign_columns(
    problem: Matrix, split: Split, tile: NDArray[np.int64], tiles: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return how many foreign columns each tile has; all, tile by tile; and which of its tile's each entry reads."""
    tile_of_entry = tile[split.row[split.foreign]]
    keys, which = np.unique(tile_of_entry * problem.n + problem.indices[split.foreign], return_inverse=True)
    counts = np.bincount(keys // problem.n, minlength=tiles)
    first = np.cumsum(counts) - counts
    return counts, (keys % problem.n).astype(np.int32), which - first[tile_of_entry]


def _led(
    counts: NDArray[np.int64], columns: NDArray[np.int32], leading: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Give so many columns a place in each tile; return all, the others behind, and where these start and end."""
    tiles = len(counts)
    tile = np.repeat(np.arange(tiles), counts)
    rank = np.arange(len(columns)) - np.repeat(np.cumsum(counts) - counts, counts)
    leads = rank < leading
    led = np.full((tiles, leading), NO_COLUMN, np.int32)
    led[tile[leads], rank[leads]] = columns[leads]
    further = np.cumsum(np.maximum(counts - leading, 0))
    return np.concatenate([led.ravel(), columns[~leads]]), tiles * leading + np.concatenate([[0], further])


def _padding(numbers: NDArray[np.integer], starts: NDArray[np.int64], run: int) -> NDArray[np.uint16]:
    """Return codes for all slots, those of padding, which reads what the row has in the tile."""
    slots = np.diff(starts)
    place = np.repeat(np.arange(len(slots)) * SLICE, slots) + np.arange(slots.sum()) // run % SLICE
    codes: NDArray[np.uint16] = (NO_PAIR + numbers[place]).astype(np.uint16)
    return codes


def _check(received: NDArray[np.int64], size: int, foreign: int) -> None:
    """Refuse more than a code or a word can say."""
    most = min(MOST_SLOTS, NO_PAIR // size)
    if received.max(initial=0) > most:
        raise Unsupported(f"a row receives {received.max()} products in its tile, more than {most}")
    if size + foreign > NO_PAIR:
        raise Unsupported(f"a tile of {size} rows reads {foreign} columns of others, more than {NO_PAIR - size}")
