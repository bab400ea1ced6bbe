"""Pair storage of a symmetric matrix: A_ij and A_ji are stored once if rows i and j are in the same tile.

Rows are cut into tiles of 64 to 256 rows, one thread block for each tile. One row of a pair, say i, owns the pair: it
adds A_ij x_j to its own sum, and writes A_ji x_i (A_ij transposed or conjugated) to a slot of row j in shared memory.
Row j adds up its slots after a barrier. There are no atomics, so results are reproducible bit for bit.

If rows i and j are in different tiles, both entries are stored, as in other formats. The distinct columns of such
entries are the tile's foreign columns. The first `leading` foreign columns of each tile are stored at a fixed stride
from tile to tile, so a block can load them at once; the others, the overflow columns, follow behind, tile by tile.

For example, with tiles of two rows, the symmetric pattern

        0 1 2 3
    0 [ d a b . ]    tile 0: rows 0 and 1
    1 [ a d . c ]
    2 [ b . d . ]    tile 1: rows 2 and 3
    3 [ . c . d ]

stores the pair a once: row 0 owns it and row 1 receives a product, or the other way round. The entry across from (0, 1)
is (1, 0). b and c are stored twice, since their rows are in different tiles: columns 2 and 3 are foreign to tile 0,
columns 0 and 1 to tile 1. If `leading` is 1, column 2 leads in tile 0 and column 0 in tile 1; columns 3 and 1 overflow.

Each stored entry has a code of 16 bits. A code below 2^15 is a pair: the low bits are the number of the other row in
the tile, the higher bits its slot. Any other code is an index into the block's part of x, which has the tile's own rows
first and then the foreign columns.

Diagonal entries are stored separately, without a column index. Some members of a diagonal entry are redundant
(`repro.sparse.symmetry.diagonal_members`). The rows of a tile are sorted by length and stored in slices of 8 rows
(sliced ELLPACK). If a thread loads several entries at once, runs of entries of a row are stored side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import STATIC_SHARED
from repro.errors import Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, Symmetry

MAX_INDEX = int(np.iinfo(np.int32).max)
#: Largest number of entries of one row that are processed in one loop step: by a warp (threads per row times unroll),
#: and by a block (for long rows of clustered layouts). Where a row's entries are adjacent, a warp of a `split` schedule
#: has a run of RUN_SLOTS of any rows.
STEPS, STEPS_OF_BLOCK, RUN_SLOTS = 128, 4 * 1024, 256


def check_slots(name: str, layout: object, slots: int, step: int, steps: int = STEPS) -> None:
    """Raise `Unsupported` if 32-bit indices cannot number a layout's slots, including padding.

    `step` is the distance between successive entries of a row, in slots. `steps` is the largest number of entries of a
    row in one loop step.
    """
    # before the loop ends, the index of a thread goes past the end by up to one loop step
    past = (max(steps, RUN_SLOTS) if step == 1 else steps) * step
    if slots + past > MAX_INDEX:
        raise Unsupported(
            f"too large for 32-bit indices: {name} in {layout} has {slots} slots, and the last step goes "
            f"{past} past them"
        )


#: Largest number of balancing rounds; meshes need about ten.
ROUNDS = 60


def orient(a: NDArray[np.integer], b: NDArray[np.integer], work: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose an owner for each pair of rows (a, b), with balanced work; return whether a is the owner, `(pairs,)`.

    The parity of a + b gives a first choice. Then, in each round, a pair moves to its other row if the owner has at
    least two entries more. At most one pair leaves and one pair enters each row per round, so the sum of squared row
    lengths decreases. `work` is the number of stored entries of each row that are not in pairs, `(n,)`.
    """
    owned_by_a = (a + b) % 2 == 0
    owner, other = np.where(owned_by_a, a, b), np.where(owned_by_a, b, a)
    work = work + np.bincount(owner, minlength=len(work))
    claims = np.empty(len(work), np.int64)
    for _ in range(ROUNDS):
        uneven = np.flatnonzero(work[owner] > work[other] + 1)
        if not len(uneven):
            break
        for end in (owner, other):  # the last of conflicting writes selects one pair for each row
            claims[end[uneven]] = uneven
            uneven = uneven[claims[end[uneven]] == uneven]
        work[owner[uneven]] -= 1
        work[other[uneven]] += 1
        owner[uneven], other[uneven] = other[uneven], owner[uneven]
    owns: NDArray[np.bool_] = owner == a
    return owns


#: Value of the kernels' argument `sign` for each kind of symmetry.
SIGNS = {HERMITIAN: -1, SYMMETRIC: 1}
#: Bit that is set in the code of an entry that is not in a pair.
NO_PAIR = 1 << 15
#: Largest number of slots per row: the number is stored in one byte of the row's word.
MAX_SLOTS = 255
#: Value that pads the leading columns of a tile.
NO_COLUMN = -1
#: Limit of `leading`, as a multiple of the mean number of foreign columns per tile. On the campaigns' meshes, 98 % of
#: the tiles have fewer foreign columns than this limit, and padding increases the number of stored columns by one half.
LEADING = 1.5


@dataclass(frozen=True)
class Tiles:
    """Assignment of rows to tiles, and the stored entries, before `lay_out_pairs` assigns them to slots."""

    problem: Matrix
    tile_rows: int
    #: -1 for a Hermitian matrix, 1 for a symmetric one.
    sign: int
    #: Row stored at each place, `(n,)`; None: tiles follow the matrix's order.
    order: NDArray[np.int64] | None
    #: Number of stored off-diagonal entries of the row at each place, `(n,)`.
    lengths: NDArray[np.int64]
    #: One 32-bit word per place, `(places,)`: row number in the tile (8 bits), first slot (16), number of slots (8).
    words: NDArray[np.uint32]
    #: CSR index of the diagonal entry of the row at each place, `(places,)`; -1: no diagonal entry.
    diagonal: NDArray[np.int64]
    #: CSR indices of the stored off-diagonal entries, ascending, `(stored,)`; `codes`, `place` and `step` have the same
    #: order.
    entries: NDArray[np.int64]
    codes: NDArray[np.uint16]
    #: Storage position of the row that contains each entry, `(stored,)`.
    place: NDArray[np.int32]
    #: Number of stored entries before the entry in the same row.
    step: NDArray[np.int32]
    #: Foreign columns: first `leading` for each tile, padded with `NO_COLUMN`; then the overflow columns of all tiles.
    columns: NDArray[np.int32]
    #: Offset in `columns` at which the overflow columns of each tile begin, `(tiles + 1,)`.
    first_overflow: NDArray[np.int64]
    leading: int
    #: Largest number of vector entries that a block keeps in shared memory: x of own rows and foreign columns, and
    #: slots.
    shared: int

    @property
    def count(self) -> int:
        return len(self.words) // self.tile_rows


@dataclass(frozen=True)
class Placement:
    """Tile of each row, its number within the tile, and its place in storage."""

    #: Tile of each row, `(n,)`.
    tile: NDArray[np.int64]
    #: Number of each row within its tile, as used in codes, `(n,)`.
    number: NDArray[np.int64]
    #: Storage position of each row, `(n,)`.
    place: NDArray[np.int64]
    #: Row stored at each place, `(n,)`.
    order: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Role of each entry of the matrix in pair storage. All arrays are `(nnz,)`, in CSR order."""

    row: NDArray[np.int64]
    #: CSR index of the transposed entry of each entry.
    across: NDArray[np.int32]
    diagonal: NDArray[np.bool_]
    #: Whether the entry reads x of a row in another tile.
    foreign: NDArray[np.bool_]
    #: Whether the entry is the stored one of a pair.
    owned: NDArray[np.bool_]
    #: Whether the entry is the one of a pair that is not stored.
    received: NDArray[np.bool_]


def cut_into_tiles(problem: Matrix, symmetry: Symmetry, tile_rows: int, rows: NDArray[np.int64] | None = None) -> Tiles:
    """Cut the rows of a symmetric matrix into tiles of 64, 128 or 256, and assign roles to its entries.

    `symmetry` is the symmetry of `problem`. `rows` is the order in which rows are cut into tiles, `(n,)`; None: the
    matrix's order. It raises `Unsupported` if the matrix is not symmetric, or too large for codes or indices.
    """
    if not symmetry.kind:
        raise Unsupported(symmetry.why)
    count = -(-problem.n // tile_rows)
    tile = np.empty(problem.n, np.int64)
    tile[np.arange(problem.n) if rows is None else rows] = np.arange(problem.n) // tile_rows
    split = _split(problem, symmetry.across, tile)
    stored_entries = split.owned | split.foreign
    entries = np.flatnonzero(stored_entries)
    lengths = np.bincount(split.row[stored_entries], minlength=problem.n)
    placement = _place_rows(tile, lengths, tile_rows, natural=rows is None)
    received_products = np.bincount(split.row[split.received], minlength=problem.n)
    counts, columns, foreign = _foreign_columns(problem, split, tile, count)
    n_leading = leading_columns(
        problem.name, tile_rows, int(received_products.max()), int(counts.max()), len(columns), count
    )
    columns, first_overflow = _leading_first(counts, columns, n_leading)
    diagonal = np.full(count * tile_rows, -1)
    diagonal[placement.place[split.row[split.diagonal]]] = np.flatnonzero(split.diagonal)
    products = np.bincount(tile, received_products, minlength=count).astype(np.int64)
    return Tiles(
        problem,
        tile_rows,
        SIGNS[symmetry.kind],
        None if rows is None else placement.order,
        lengths[placement.order],
        _words(placement, received_products, count, tile_rows),
        diagonal,
        entries,
        _codes(problem, split, placement, foreign, tile_rows)[entries],
        np.repeat(placement.place.astype(np.int32), problem.row_lengths)[entries],
        _rank(stored_entries, problem)[entries],
        columns,
        first_overflow,
        n_leading,
        tile_rows + n_leading + int((products + np.diff(first_overflow)).max()),
    )


def _split(problem: Matrix, partner: NDArray[np.int32], tile: NDArray[np.int64]) -> Split:
    row = np.repeat(np.arange(problem.n), problem.row_lengths)
    diagonal = row == problem.indices
    foreign = tile[row] != tile[problem.indices]
    pairs = np.flatnonzero(~foreign & (row < problem.indices))
    first_owns = orient(row[pairs], problem.indices[pairs], np.bincount(row[foreign], minlength=problem.n))
    owns = np.zeros(problem.nnz, bool)
    owns[pairs], owns[partner[pairs]] = first_owns, ~first_owns
    return Split(row, partner, diagonal, foreign, owns, ~(foreign | diagonal | owns))


def _place_rows(tile: NDArray[np.int64], lengths: NDArray[np.int64], tile_rows: int, *, natural: bool) -> Placement:
    """Sort the rows of each tile by length.

    Row numbers within a tile follow the matrix if `natural`, else the sorted order.
    """
    order = np.lexsort((-lengths, tile))
    place = np.empty(len(tile), np.int64)
    place[order] = np.arange(len(tile))
    return Placement(tile, (np.arange(len(tile)) if natural else place) % tile_rows, place, order)


def _rank(mask: NDArray[np.bool_], problem: Matrix) -> NDArray[np.int32]:
    """Return, for each entry, the number of entries marked by `mask` before it in the same row."""
    before = np.zeros(len(mask) + 1, np.int32)
    np.cumsum(mask, out=before[1:])
    ranks: NDArray[np.int32] = before[:-1] - np.repeat(before[problem.indptr[:-1]], problem.row_lengths)
    return ranks


def _codes(
    problem: Matrix, split: Split, placement: Placement, foreign: NDArray[np.int64], tile_rows: int
) -> NDArray[np.uint16]:
    """Return an array `(nnz,)` with the codes of stored entries; its other elements are undefined."""
    codes = np.empty(problem.nnz, np.uint16)
    codes[split.foreign] = NO_PAIR + tile_rows + foreign
    slots = _rank(split.received, problem)[split.across[split.owned]]
    codes[split.owned] = placement.number[problem.indices[split.owned]] + tile_rows * slots
    return codes


def _words(
    placement: Placement, received_products: NDArray[np.int64], count: int, tile_rows: int
) -> NDArray[np.uint32]:
    """Return the 32-bit words of `Tiles.words`, one for each place."""
    slots = np.zeros((count, tile_rows), np.int64)
    slots[placement.tile, placement.number] = received_products
    first = np.cumsum(slots, axis=1) - slots
    number = np.tile(np.arange(tile_rows), count)
    number[placement.place] = placement.number
    tile = np.repeat(np.arange(count), tile_rows)
    words: NDArray[np.uint32] = (number + (first[tile, number] << 8) + (slots[tile, number] << 24)).astype(np.uint32)
    return words


def _foreign_columns(
    problem: Matrix, split: Split, tile: NDArray[np.int64], tiles: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of foreign columns per tile, these columns tile by tile, and an index per foreign entry.

    The index of a foreign entry is the position of its column among the foreign columns of its tile.
    """
    tile_of_entry = tile[split.row[split.foreign]]
    keys, column_numbers = np.unique(tile_of_entry * problem.n + problem.indices[split.foreign], return_inverse=True)
    counts = np.bincount(keys // problem.n, minlength=tiles)
    first = np.cumsum(counts) - counts
    return counts, (keys % problem.n).astype(np.int32), column_numbers - first[tile_of_entry]


def _leading_first(
    counts: NDArray[np.int64], columns: NDArray[np.int32], leading: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Reorder the foreign columns: up to `leading` columns of each tile first.

    Return `Tiles.columns` and `first_overflow`.
    """
    tiles = len(counts)
    tile = np.repeat(np.arange(tiles), counts)
    rank = np.arange(len(columns)) - np.repeat(np.cumsum(counts) - counts, counts)
    leads = rank < leading
    leading_columns = np.full((tiles, leading), NO_COLUMN, np.int32)
    leading_columns[tile[leads], rank[leads]] = columns[leads]
    overflow = np.cumsum(np.maximum(counts - leading, 0))
    return np.concatenate([leading_columns.ravel(), columns[~leads]]), tiles * leading + np.concatenate([[0], overflow])


def leading_columns(name: str, tile_rows: int, received: int, most: int, columns: int, tiles: int) -> int:
    """Return the number of leading foreign columns of each tile.

    `received` are the products that a row receives at most, and `most` and `columns` the foreign columns of a tile at
    most, and of all tiles. It raises `Unsupported` if the bits of a code or word, or indices, cannot express these.
    """
    limit = min(MAX_SLOTS, NO_PAIR // tile_rows)
    if received > limit:
        raise Unsupported(f"a row receives {received} products in its tile, more than {limit}")
    if most > (limit := NO_PAIR - tile_rows):
        raise Unsupported(f"a tile of {tile_rows} rows reads {most} columns of others, more than {limit}")
    leading = min(most, int(LEADING * columns / tiles))
    check_slots(name, f"columns of pairs within {tile_rows} rows", tiles * leading + columns, 0)
    return leading


#: Number of rows per slice.
SLICE = 8


@dataclass(frozen=True)
class Pairs:
    """A symmetric matrix with each pair stored once, laid out in slots."""

    tiles: Tiles
    #: Concatenation of the offsets of slices, `first_overflow`, `words`, and, if rows are reordered, the row at each
    #: place.
    index: NDArray[np.int32]
    #: 16-bit code of each slot, including padding.
    codes: NDArray[np.uint16]
    #: Slot of each stored entry, `(stored,)`.
    position: NDArray[np.int64]
    #: Number of slots, including padding.
    slots: int


def find_pairs(
    problem: Matrix, symmetry: Symmetry, tile_rows: int, rows: NDArray[np.int64] | None = None, run: int = 1
) -> Pairs:
    """Cut a matrix into tiles and lay it out; runs of `run` entries of a row are stored side by side."""
    return lay_out_pairs(cut_into_tiles(problem, symmetry, tile_rows, rows), run)


def lay_out_pairs(tiles: Tiles, run: int) -> Pairs:
    """Assign the stored entries of tiles to slots; runs of `run` entries of a row are stored side by side."""
    padded_lengths = np.zeros(tiles.count * tiles.tile_rows, np.int64)
    padded_lengths[: len(tiles.lengths)] = tiles.lengths
    runs = -(-padded_lengths.reshape(-1, SLICE).max(axis=1) // run)  # number of runs of the longest row of each slice
    starts = np.concatenate([[0], np.cumsum(SLICE * run * runs)])
    slots = int(starts[-1])
    check_slots(tiles.problem.name, f"pairs within {tiles.tile_rows} rows", slots, SLICE)
    slice_of_entry, place_in_slice = np.divmod(tiles.place, SLICE)
    position = (
        starts[slice_of_entry] + SLICE * (tiles.step - tiles.step % run) + run * place_in_slice + tiles.step % run
    )
    codes = _padding(tiles.words & (tiles.tile_rows - 1), starts, run)
    codes[position] = tiles.codes
    orders = [] if tiles.order is None else [tiles.order]
    index = np.concatenate([starts, tiles.first_overflow, tiles.words.view(np.int32), *orders]).astype(np.int32)
    return Pairs(tiles, index, codes, position, slots)


def shared_entries(tile_rows: int, entry_bytes: int) -> int:
    """Return the number of vector entries that fit into shared memory next to the table of each row's first slot."""
    return (STATIC_SHARED - 2 * tile_rows) // entry_bytes


def shared_bytes(entries: int, tile_rows: int, entry_bytes: int) -> int:
    """Return the bytes of dynamic shared memory per block; raise `Unsupported` if they exceed the limit."""
    capacity = shared_entries(tile_rows, entry_bytes)
    if entries > capacity:
        raise Unsupported(f"a tile keeps {entries} vector entries in shared memory, which has room for {capacity}")
    return entries * entry_bytes


def _padding(numbers: NDArray[np.integer], starts: NDArray[np.int64], run: int) -> NDArray[np.uint16]:
    """Return `(slots,)` codes, all of them padding; a padding code reads x of the row itself."""
    slots = np.diff(starts)
    place = np.repeat(np.arange(len(slots)) * SLICE, slots) + np.arange(slots.sum()) // run % SLICE
    codes: NDArray[np.uint16] = (NO_PAIR + numbers[place]).astype(np.uint16)
    return codes
