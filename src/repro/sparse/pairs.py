"""Pairs: of a symmetric matrix A_ij and A_ji are stored once, where both of their rows are in one tile.

Rows are cut into tiles of 64 to 256, a thread block each. One of the two rows owns a pair: it adds A_ij x_j to its
own sum and writes A_ji x_i, A_ji being A_ij transposed or conjugated, to a slot that is row j's alone, from which
row j takes it after a barrier. So nothing is added up by atomics, and the same bits come out each time.

Entries across tiles are stored by both of their rows, as in other formats, and read x in another tile: their
columns, each of them once, are the tile's foreign columns. As many of these as most tiles have lie at the same
distance from tile to tile, so that a block finds them before it has read anything; the further ones of tiles that
have more follow behind those of all tiles.

Each stored entry has a code of 16 bits. Below 2^15 it is that of a pair: the other row's number in the tile, and
above its bits the number of the slot among those of that row. Otherwise the bits below are a place in what the
block keeps of x: the tile's own rows, and behind them its foreign columns.

Diagonal entries are stored separately: they need no column, and each is its own transposed or conjugated, so that
some of its members need not be stored (`repro.sparse.symmetry.diagonal_members`). Within a tile, rows are ordered
by the number of their other entries, the longest first, and are stored in slices of 8 (sliced ELLPACK, sorted
within the tile), entry by entry or, where a thread loads several at once, in runs of so many side by side.

32-bit indices limit how many slots a matrix may be stored in, whatever its layout; `check_slots` refuses more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.codegen.targets import STATIC_SHARED
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, Symmetry

MAX_INDEX = int(np.iinfo(np.int32).max)
#: Entries of a row that its threads take at once, at the most: those of a warp, width times unroll; and those of a
#: block, which long rows of clustered layouts have.
STEPS, STEPS_OF_BLOCK = 128, 4 * 1024


def check_slots(problem: Matrix, layout: object, slots: int, step: int, steps: int = STEPS) -> None:
    """Refuse more slots than 32-bit indices can count, those of a row so far apart.

    Parameters
    ----------
    problem
        What is stored.
    layout
        How, as the message says it.
    slots
        Entries stored, padding included.
    step
        Slots from one entry of a row to the next.
    steps
        Entries of a row that are taken at once.

    Raises
    ------
    Unsupported
    """
    # a thread's last step takes it past the end, before it looks
    if slots + steps * step > MAX_INDEX:
        raise Unsupported(
            f"too large for 32-bit indices: {problem.name} in {layout} has {slots} slots, and the last step goes "
            f"{steps * step} past them"
        )


#: Rounds of evening out after which what is left uneven stays so; meshes take about ten.
ROUNDS = 60


def orient(a: NDArray[np.integer], b: NDArray[np.integer], work: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Deal pairs of rows out to one of the two, so that rows have equally much to do.

    By turns at first; then a pair goes to its other row wherever its owner has at least two entries more than that one,
    each row giving away and taking on one at the most in a round: the sum of squares falls with each pair.

    Parameters
    ----------
    a, b
        `(pairs,)`, the two rows of each.
    work
        `(n,)`, entries that each row has beside the pairs.

    Returns
    -------
    numpy.ndarray
        `(pairs,)`, whether row a owns it.
    """
    owned_by_a = (a + b) % 2 == 0
    owner, other = np.where(owned_by_a, a, b), np.where(owned_by_a, b, a)
    work = work + np.bincount(owner, minlength=len(work))
    taken = np.empty(len(work), np.int64)
    for _ in range(ROUNDS):
        uneven = np.flatnonzero(work[owner] > work[other] + 1)
        if not len(uneven):
            break
        for end in (owner, other):  # of those of one row the last that is written stays
            taken[end[uneven]] = uneven
            uneven = uneven[taken[end[uneven]] == uneven]
        work[owner[uneven]] -= 1
        work[other[uneven]] += 1
        owner[uneven], other[uneven] = other[uneven], owner[uneven]
    owned: NDArray[np.bool_] = owner == a
    return owned


#: What kernels are given to tell the two apart.
SIGNS = {HERMITIAN: -1, SYMMETRIC: 1}
#: A code with this bit is no pair's, and has no slot.
NO_PAIR = 1 << 15
#: Slots that a row may have: a byte of its word counts them.
MAX_SLOTS = 255
#: A column that is none, where a tile has fewer than others.
NO_COLUMN = -1
#: Columns that have a place in each tile, at the most: so many times what tiles have in the mean. On the meshes of the
#: campaigns 98 % of the tiles have no more, and all columns take half as much again.
LEADING = 1.5


@dataclass(frozen=True)
class Tiles:
    """Rows in tiles, and what becomes of their entries, however these are then laid out.

    Attributes
    ----------
    problem
        The pattern.
    tile_rows
        Rows of a tile.
    sign
        -1 where the matrix is Hermitian, or 1.
    order
        The row at each place, `(n,)`; None where places are within the matrix's own tiles.
    lengths
        Of the row at each place, its stored entries beside the diagonal one, `(n,)`.
    words
        uint32, of each place of all tiles, `(places,)`: the number in the tile of its row (8 bits), the first slot for
        what the row receives (16) and their count (8).
    diagonal
        Which of the matrix's entries is the diagonal one of the row at each place, -1 where there is none; `(places,)`.
    entries, codes, place, step
        Which of the others are stored, in CSR's order; of each its code, the place of its row, and how many stored
        entries of the row come before it; `(stored,)`.
    columns
        int32, the foreign columns: `leading` of each tile, `NO_COLUMN` where it has fewer, and the further ones of all.
    first_further
        The first further one of each tile, and one more; `(tiles + 1,)`.
    leading
        Columns that have a place in each tile.
    shared
        Vector entries that a block keeps in shared memory, at the most: of x its tile's own and the foreign ones, and
        the products that its rows receive.
    """

    problem: Matrix
    tile_rows: int
    sign: int
    order: NDArray[np.int64] | None
    lengths: NDArray[np.int64]
    words: NDArray[np.uint32]
    diagonal: NDArray[np.int64]
    entries: NDArray[np.int64]
    codes: NDArray[np.uint16]
    place: NDArray[np.int32]
    step: NDArray[np.int32]
    columns: NDArray[np.int32]
    first_further: NDArray[np.int64]
    leading: int
    shared: int

    @property
    def count(self) -> int:
        """How many tiles there are."""
        return len(self.words) // self.tile_rows


@dataclass(frozen=True)
class Placement:
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


def cut_into_tiles(problem: Matrix, symmetry: Symmetry, tile_rows: int, rows: NDArray[np.int64] | None = None) -> Tiles:
    """Cut the rows of a symmetric matrix into tiles, and say what becomes of its entries.

    Parameters
    ----------
    problem
        The pattern.
    symmetry
        What `repro.sparse.symmetry.symmetry_of` says of it and of its values; of the matrix in this very order.
    tile_rows
        Rows of a tile: 64, 128 or 256.
    rows
        The order that tiles are cut from, `(n,)`. None: that of the matrix.

    Raises
    ------
    Unsupported
        The matrix is not symmetric, or too large for what codes or indices can say.
    """
    if not symmetry.kind:
        raise Unsupported(symmetry.why)
    count = -(-problem.n // tile_rows)
    tile = np.empty(problem.n, np.int64)
    tile[np.arange(problem.n) if rows is None else rows] = np.arange(problem.n) // tile_rows
    split = _split(problem, symmetry.across, tile)
    stored = split.owned | split.foreign
    entries = np.flatnonzero(stored)
    lengths = np.bincount(split.row[stored], minlength=problem.n)
    placement = _place_rows(tile, lengths, tile_rows, natural=rows is None)
    received = np.bincount(split.row[split.received], minlength=problem.n)
    counts, columns, foreign = _foreign_columns(problem, split, tile, count)
    most = int(counts.max())
    _check(received, tile_rows, most)
    leading = min(most, int(LEADING * counts.sum() / count))
    check_slots(problem, f"columns of pairs within {tile_rows} rows", count * leading + len(columns), 0)
    columns, first_further = _led(counts, columns, leading)
    diagonal = np.full(count * tile_rows, -1)
    diagonal[placement.place[split.row[split.diagonal]]] = np.flatnonzero(split.diagonal)
    products = np.bincount(tile, received, minlength=count).astype(np.int64)
    return Tiles(
        problem,
        tile_rows,
        SIGNS[symmetry.kind],
        None if rows is None else placement.order,
        lengths[placement.order],
        _words(placement, received, count, tile_rows),
        diagonal,
        entries,
        _codes(problem, split, placement, foreign, tile_rows)[entries],
        np.repeat(placement.place.astype(np.int32), problem.row_lengths)[entries],
        _rank(stored, problem)[entries],
        columns,
        first_further,
        leading,
        tile_rows + leading + int((products + np.diff(first_further)).max()),
    )


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


def _place_rows(tile: NDArray[np.int64], lengths: NDArray[np.int64], tile_rows: int, *, natural: bool) -> Placement:
    """Stand the rows of each tile by their lengths; numbers are those of the matrix's order, or else of the places."""
    order = np.lexsort((-lengths, tile))
    place = np.empty(len(tile), np.int64)
    place[order] = np.arange(len(tile))
    return Placement(tile, (np.arange(len(tile)) if natural else place) % tile_rows, place, order)


def _rank(of: NDArray[np.bool_], problem: Matrix) -> NDArray[np.int32]:
    """Return how many entries of a kind stand before each in its row."""
    before = np.zeros(len(of) + 1, np.int32)
    np.cumsum(of, out=before[1:])
    ranks: NDArray[np.int32] = before[:-1] - np.repeat(before[problem.indptr[:-1]], problem.row_lengths)
    return ranks


def _codes(
    problem: Matrix, split: Split, placement: Placement, foreign: NDArray[np.int64], tile_rows: int
) -> NDArray[np.uint16]:
    """Return the code of each entry that is stored; of others there is none."""
    codes = np.empty(problem.nnz, np.uint16)
    codes[split.foreign] = NO_PAIR + tile_rows + foreign
    slots = _rank(split.received, problem)[split.across[split.owned]]
    codes[split.owned] = placement.number[problem.indices[split.owned]] + tile_rows * slots
    return codes


def _words(placement: Placement, received: NDArray[np.int64], count: int, tile_rows: int) -> NDArray[np.uint32]:
    """Return the word of each place."""
    slots = np.zeros((count, tile_rows), np.int64)
    slots[placement.tile, placement.number] = received
    first = np.cumsum(slots, axis=1) - slots
    number = np.tile(np.arange(tile_rows), count)
    number[placement.place] = placement.number
    tile = np.repeat(np.arange(count), tile_rows)
    words: NDArray[np.uint32] = (number + (first[tile, number] << 8) + (slots[tile, number] << 24)).astype(np.uint32)
    return words


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


def _check(received: NDArray[np.int64], tile_rows: int, foreign: int) -> None:
    """Refuse more than a code or a word can say."""
    most = min(MAX_SLOTS, NO_PAIR // tile_rows)
    if received.max(initial=0) > most:
        raise Unsupported(f"a row receives {received.max()} products in its tile, more than {most}")
    if foreign > (most := NO_PAIR - tile_rows):
        raise Unsupported(f"a tile of {tile_rows} rows reads {foreign} columns of others, more than {most}")


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
        As `repro.sparse.pairs.cut_into_tiles`.
    run
        Entries of a row that lie side by side.

    Raises
    ------
    Unsupported
        The matrix is not symmetric, or too large for what codes or indices can say.
    """
    return lay_out_pairs(cut_into_tiles(problem, symmetry, tile_rows, rows), run)


def lay_out_pairs(tiles: Tiles, run: int) -> Pairs:
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
