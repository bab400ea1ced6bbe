"""Assignment of matrix rows to blocks of a persistent solver, and the slices that each block keeps in shared memory.

Slices are 32 slots wide, one for each lane of a warp; a step is one row of 32 slots. A row of the matrix has one lane,
or several if it is long or if rows are few, so that rows of any length cost little padding. A block keeps its first
slices: plain, or as a table of their different values and a code of 32 bits for each slot. The table stores a value
once for a pair A_ij and A_ji whose rows lie in the same block, for repeated entries, and for all padding.

The matrix of 20 rows whose first row, first column and diagonal are full shows what comes out. One block takes it. Its
long first row gets four lanes and comes last, so the solver numbers it 19, and row i > 0 of the matrix is i - 1:

    >>> import numpy as np
    >>> from repro.problems.matrix import Matrix
    >>> from repro.sparse.solvers.slices import assign_rows
    >>> full = np.eye(20)
    >>> full[0] = full[:, 0] = 1
    >>> rows, columns = np.nonzero(full)
    >>> indptr = np.searchsorted(rows, np.arange(21)).astype(np.int32)
    >>> matrix = Matrix("arrow", "real", 20, indptr, columns.astype(np.int32), full[rows, columns][:, None])
    >>> arrow = assign_rows(matrix, np.dtype(float), blocks=1, warps=1)
    >>> arrow.rows.tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0]

A slice has the 19 short rows, one lane and two steps each; another one has the long row, on 4 lanes in 5 steps:

    >>> arrow.slices.dtype.names
    ('first_row', 'rows_and_lanes', 'first_step', 'steps')
    >>> arrow.slices.tolist() == [(0, 19 + 64 * 1, 0, 2), (19, 1 + 64 * 4, 2, 5)]
    True

In each step a lane has a slot. Lane 0 of the first slice has the entries (1, 0) and (1, 1) of the matrix, in the
solver's numbers columns 19 and 0. The lanes of the long row share its 20 entries, and the other 28 lanes are padding,
with the value 0 and the first row of the slice as their column:

    >>> arrow.columns[:2, :4].tolist()
    [[19, 19, 19, 19], [0, 1, 2, 3]]
    >>> arrow.columns[2:, :5].tolist()
    [[19, 0, 1, 2, 19], [3, 4, 5, 6, 19], [7, 8, 9, 10, 19], [11, 12, 13, 14, 19], [15, 16, 17, 18, 19]]
    >>> arrow.values[2, 0, :5].tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproErrorOfValue
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import adjoint_members

#: Slots per step of a slice: one for each lane of a warp.
LANES = 32
#: A slice, which kernels read as an int4: its first row, its number of rows (at most `LANES`) + `LANES_UNIT` · lanes of
#: each row, its first step, and its number of steps.
SLICE = np.dtype([("first_row", "i4"), ("rows_and_lanes", "i4"), ("first_step", "i4"), ("steps", "i4")])
LANES_UNIT = 64
#: Cost of a row in addition to its slots, in units of a slot: one for each vector of conjugate gradients. This and the
#: limits below are choices of this project, without a published source; `_lanes_of_rows` and `assign_rows` use them.
ROW_COST = 6
#: The lanes of a row are doubled as long as each has more than `SHORT` slots, and more than `LONG` times the slots per
#: lane of a mean row.
LONG, SHORT = 2, 8
#: The lanes of all rows are doubled as long as rows fill less than this share of all warps, and each lane of a mean row
#: keeps at least `MIN_STEPS` slots.
FILLED, MIN_STEPS = 0.5, 4
#: Bytes of a sector, the smallest unit that a GPU loads.
SECTOR_BYTES = 32
#: Largest number of slots: kernels count them in int32.
MAX_SLOTS = (1 << 31) - 1


class SmallestDiagonal(NamedTuple):
    """Smallest number on the diagonal of a matrix's real expansion, and its row in the matrix, counted in entries."""

    number: float
    row: int


@dataclass(frozen=True)
class Slices:
    """A square matrix with m ≥ 1 members per entry, as the kernels of a persistent solver read it."""

    #: int64 `(n,)`: row of the matrix for each row of the solver; columns are renumbered in the same way.
    rows: NDArray[np.int64]
    #: int32 `(blocks + 1,)`: first slice of each block.
    starts: NDArray[np.int32]
    #: `SLICE` `(slices,)`
    slices: NDArray[np.void]
    #: int32 `(steps, 32)`: column of each slot; a padding slot has value 0 and the first row of its slice as column.
    columns: NDArray[np.int32]
    #: `(steps, m, 32)`: members of the entry in each slot.
    values: NDArray[np.floating]
    #: `(n, k)`: reciprocal of the diagonal's real expansion, or 1 where the diagonal is 0 or absent.
    scale: NDArray[np.floating]
    smallest_diagonal: SmallestDiagonal

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    @property
    def step_bytes(self) -> int:
        """Bytes of a step: values and columns of 32 slots."""
        return int(LANES * (self.values.shape[1] * self.values.itemsize + self.columns.itemsize))

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        return len(self.columns) * self.step_bytes

    def max_slices_per_warp(self, warps: int) -> int:
        """Return the largest number of slices per warp, if a block distributes its slices to `warps` warps in turn."""
        return int(-(-np.diff(self.starts).max(initial=0) // warps))

    def sectors(self) -> int:
        """Return the number of sectors of x that all warps load in an iteration.

        A step loads each of its sectors once.
        """
        entry_bytes = self.scale.shape[1] * self.scale.itemsize
        sector_numbers = np.sort(self.columns.astype(np.int64) * entry_bytes // SECTOR_BYTES, axis=1)
        return int((np.diff(sector_numbers, axis=1) != 0).sum()) + len(sector_numbers)

    def ends(self) -> NDArray[np.int64]:
        """Return the step at which each slice ends, `(slices,)`."""
        ends: NDArray[np.int32] = self.slices["first_step"] + self.slices["steps"]
        return ends.astype(np.int64)

    def first_steps(self) -> NDArray[np.int64]:
        """Return the first step of each block, followed by the number of all steps, `(blocks + 1,)`."""
        return np.append(self.slices["first_step"], len(self.columns)).astype(np.int64)[self.starts]


def assign_rows(
    matrix: Matrix, dtype: np.dtype[Any], blocks: int, warps: int, order: NDArray[np.int64] | None = None
) -> Slices:
    """Assign the rows of a matrix, of n ≥ 1 rows, to at most `blocks` blocks of `warps` warps each.

    Each block gets successive rows of `order`, int64 `(n,)`, by default the matrix's order. Blocks get about equal
    cost; or equal numbers of lanes, if this reduces the largest number of slices per warp. Within a block, rows are
    sorted by their number of lanes, stably. Raise `ReproError` if the matrix has too many slots.
    """
    indptr = matrix.indptr.astype(np.int64)
    lengths = np.diff(indptr)
    lanes = _lanes_of_rows(lengths, blocks * warps)
    steps = -(-lengths // lanes)
    order = np.arange(matrix.n) if order is None else order
    cuts = []
    for costs in (lanes * (steps + ROW_COST), lanes):
        row_blocks = _share_out(costs[order], lanes[order], blocks)
        sequence = np.lexsort((lanes[order], row_blocks))
        rows = order[sequence]
        cuts.append(_cut_slices(rows, row_blocks[sequence], lanes[rows], steps[rows]))
    cut = min(cuts, key=lambda cut: cut.max_slices_per_warp(warps))
    n_steps = int(cut.steps.sum())
    if n_steps * LANES > MAX_SLOTS:
        raise ReproErrorOfValue(
            "the matrix is too large for a persistent solver",
            expected=f"at most {MAX_SLOTS:,} slots",
            actual=f"{n_steps * LANES:,}",
            todo="use a SciPy solver with the operator's product",
        )
    columns, values = _fill(matrix, dtype, cut)
    scale, smallest_diagonal = invert_diagonal(matrix, dtype)
    return Slices(cut.rows, cut.starts, cut.packed(), columns, values, scale[cut.rows], smallest_diagonal)


def _lanes_of_rows(lengths: NDArray[np.int64], n_warps: int) -> NDArray[np.int64]:
    """Return the number of lanes of each row, a power of two, `(n,)`; long rows have more."""
    mean, lanes = float(lengths.mean()), 1
    while lanes < LANES and len(lengths) * lanes < FILLED * n_warps * LANES and mean >= 2 * MIN_STEPS * lanes:
        lanes *= 2
    max_steps = max(SHORT, LONG * mean / lanes)
    excess = np.maximum(lengths / (max_steps * lanes), 1)
    multiples = np.exp2(np.ceil(np.log2(excess))).astype(np.int64)
    return np.minimum(lanes * multiples, LANES)


def _share_out(costs: NDArray[np.int64], lanes: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Return the block of each row, `(n,)`.

    Blocks get successive rows of about equal cost. There are at most as many blocks as slices, and none without a row.
    """
    blocks = min(blocks, -(-int(lanes.sum()) // LANES))
    middles = np.cumsum(costs) - costs / 2
    row_blocks: NDArray[np.int64] = np.minimum((middles * blocks / costs.sum()).astype(np.int64), blocks - 1)
    return np.unique(row_blocks, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class _Cut:
    """Rows in the solver's order, cut into slices; arrays of rows are `(n,)`, those of slices `(slices,)`."""

    #: Row of the matrix, lanes, slice, and place within the slice, for each row of the solver.
    rows: NDArray[np.int64]
    lanes: NDArray[np.int64]
    slice_of_row: NDArray[np.int64]
    place_of_row: NDArray[np.int64]
    #: First row, number of rows, and number of steps of each slice.
    first_rows: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    steps: NDArray[np.int64]
    #: int32 `(blocks + 1,)`: first slice of each block.
    starts: NDArray[np.int32]

    @property
    def first_steps(self) -> NDArray[np.int64]:
        return np.cumsum(self.steps) - self.steps

    def max_slices_per_warp(self, warps: int) -> int:
        return int(-(-np.diff(self.starts).max() // warps))

    def packed(self) -> NDArray[np.void]:
        """Return the slices as kernels read them."""
        slices = np.empty(len(self.steps), SLICE)
        slices["first_row"] = self.first_rows
        slices["rows_and_lanes"] = self.row_counts + LANES_UNIT * self.lanes[self.first_rows]
        slices["first_step"] = self.first_steps
        slices["steps"] = self.steps
        return slices


def _cut_slices(
    rows: NDArray[np.int64], blocks: NDArray[np.int64], lanes: NDArray[np.int64], steps: NDArray[np.int64]
) -> _Cut:
    """Cut rows, in the solver's order and with block, lanes and steps of each, into slices.

    The rows of a slice belong to one block and have the same number of lanes.
    """
    n = len(rows)
    run_starts = np.flatnonzero(np.append(True, (blocks[1:] != blocks[:-1]) | (lanes[1:] != lanes[:-1])))
    run_lengths = np.diff(np.append(run_starts, n))
    run_of_row = np.repeat(np.arange(len(run_starts)), run_lengths)
    rows_per_slice = LANES // lanes
    place_in_run = np.arange(n) - run_starts[run_of_row]
    slices_of_run = -(-run_lengths // rows_per_slice[run_starts])
    slice_of_row = (np.cumsum(slices_of_run) - slices_of_run)[run_of_row] + place_in_run // rows_per_slice
    place_of_row = place_in_run % rows_per_slice
    first_rows = np.flatnonzero(place_of_row == 0)
    starts = np.searchsorted(blocks[first_rows], np.arange(blocks[-1] + 2)).astype(np.int32)
    row_counts, slice_steps = np.diff(np.append(first_rows, n)), np.maximum.reduceat(steps, first_rows)
    return _Cut(rows, lanes, slice_of_row, place_of_row, first_rows, row_counts, slice_steps, starts)


def _fill(matrix: Matrix, dtype: np.dtype[Any], cut: _Cut) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return columns and values of all slots of `Slices`."""
    solver_row = np.empty(matrix.n, np.int64)
    solver_row[cut.rows] = np.arange(matrix.n)
    lengths = np.diff(matrix.indptr).astype(np.int64)
    row = np.repeat(solver_row, lengths)  # of each entry, like the arrays below
    place_in_row = np.arange(len(row)) - np.repeat(matrix.indptr[:-1].astype(np.int64), lengths)
    lanes = cut.lanes[row]
    step = cut.first_steps[cut.slice_of_row[row]] + place_in_row // lanes
    lane = cut.place_of_row[row] * lanes + place_in_row % lanes
    columns = np.repeat(cut.first_rows, cut.steps).astype(np.int32)[:, None].repeat(LANES, axis=1)
    columns[step, lane] = solver_row[matrix.indices]
    members = matrix.values.shape[1]
    values = np.zeros((len(columns), members, LANES), dtype)
    values[step[:, None], np.arange(members), lane[:, None]] = matrix.values
    return columns, values


def invert_diagonal(matrix: Matrix, dtype: np.dtype[Any]) -> tuple[NDArray[np.floating], SmallestDiagonal]:
    """Return `scale` and `smallest_diagonal` of `Slices`, with `scale` in the matrix's own order."""
    entry = get_entry(matrix.entry)
    diagonal = np.zeros((matrix.n, entry.size))
    row = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    diagonal_entries = np.flatnonzero(row == matrix.indices)
    blocks = entry.expand(matrix.values[diagonal_entries].astype(np.float64))
    np.add.at(diagonal, row[diagonal_entries], np.diagonal(blocks, axis1=1, axis2=2))
    with np.errstate(divide="ignore", over="ignore"):
        scale = (1 / diagonal).astype(dtype)
    scale[~np.isfinite(scale) | (scale == 0)] = 1
    smallest = np.unravel_index(int(np.argmin(diagonal)), diagonal.shape)
    return scale, SmallestDiagonal(float(diagonal[smallest]), int(smallest[0]))


Form = Literal["slices", "table"]
#: Forms of kept slices in shared memory.
FORMS: tuple[Form, ...] = ("slices", "table")
#: Bits of a code. The lower bits are the slot's column minus the smallest column of its step; the higher bits are the
#: index of its value in the table. The highest bit says that the slot holds the transposed value.
COLUMN_BITS, VALUE_BITS = 16, 15
#: Bytes of a coded step: 32 codes, and the smallest column.
CODED_STEP_BYTES = LANES * 4 + 4
#: Bytes of a word in which blocks copy their image to shared memory. An image is a block's part of the matrix in the
#: form `table`: the values, then the codes.
IMAGE_WORD_BYTES = 16
#: Where the image of a block lies, and what is in it: first word, number of words, number of values.
IMAGE_PLACE = np.dtype([("first_word", "i4"), ("words", "i4"), ("values", "i4")])


@dataclass(frozen=True)
class Kept:
    """The first slices of each block, in the form in which the block keeps them in shared memory."""

    form: Form
    #: int32 `(blocks,)`: one past the index of the last slice that each block keeps.
    ends: NDArray[np.int32]
    #: Total number of steps that blocks keep, and largest number of bytes of a block.
    steps: int
    max_bytes: int
    #: uint8, for the form `table`: images of all blocks. An image has the table's values, member by member; the codes
    #: of the steps (32 uint32 each); the smallest column of each step (int32).
    images: NDArray[np.uint8]
    #: `IMAGE_PLACE` `(blocks,)`, for the form `table`.
    image_places: NDArray[np.void]


def keep_slices(slices: Slices, entry: str, capacity: int, forms: tuple[Form, ...] = FORMS) -> Kept:
    """Return the slices that each block keeps in `capacity` bytes.

    The form is `table` if `forms` has it and more slices fit then, else `slices`.
    """
    plain = _keep_plain(slices, capacity)
    if "table" not in forms or plain.steps == len(slices.columns):
        return plain
    table = _keep_table(slices, entry, capacity)
    return table if table.steps > plain.steps else plain


def _keep_plain(slices: Slices, capacity: int) -> Kept:
    firsts = slices.first_steps()[:-1]
    kept_ends = np.searchsorted(slices.ends(), firsts + capacity // slices.step_bytes, side="right")
    ends = np.clip(kept_ends, slices.starts[:-1], slices.starts[1:]).astype(np.int32)
    steps = np.append(slices.slices["first_step"], len(slices.columns))[ends] - firsts
    max_bytes = int(steps.max(initial=0)) * slices.step_bytes
    return Kept("slices", ends, int(steps.sum()), max_bytes, np.empty(0, np.uint8), np.empty(0, IMAGE_PLACE))


def _keep_table(slices: Slices, entry: str, capacity: int) -> Kept:
    first_steps, ends = slices.first_steps(), slices.ends()
    kept_ends, images, places, steps = slices.starts[:-1].copy(), [], [], 0
    word, first_word = IMAGE_WORD_BYTES, 0
    for block, first in enumerate(first_steps[:-1]):
        last = min(int(first_steps[block + 1]), int(first) + capacity // CODED_STEP_BYTES)
        block_ends = ends[slices.starts[block] : slices.starts[block + 1]] - first
        kept_steps, image, values = 0, np.empty(0, np.uint8), 0
        if last > first:
            table = _encode(slices.columns[first:last], slices.values[first:last], entry)
            whole = int(np.searchsorted(block_ends, table.fitting_steps(capacity // word * word), side="right"))
            kept_ends[block] += whole
            if kept_steps := int(block_ends[whole - 1]) if whole else 0:
                image, values = table.image(kept_steps)
        words = len(image) // word
        images.append(image)
        places.append((first_word, words, values))
        first_word, steps = first_word + words, steps + kept_steps
    max_bytes = max(words for _, words, _ in places) * word
    return Kept("table", kept_ends, steps, max_bytes, np.concatenate(images), np.array(places, IMAGE_PLACE))


@dataclass(frozen=True)
class _Table:
    """Coded form of some steps.

    `values` are the different values, `(values, m)`. `numbers`, `(steps, 32)`, is the index of each slot's value, and
    `transposed` says whether the slot holds the transposed value. `smallest_columns`, `(steps,)`, are those of the
    steps, and `offsets`, `(steps, 32)`, the columns minus them.
    """

    values: NDArray[np.floating]
    numbers: NDArray[np.int64]
    transposed: NDArray[np.bool_]
    smallest_columns: NDArray[np.int32]
    offsets: NDArray[np.int32]

    def _values_of_first(self) -> NDArray[np.int64]:
        """Return how many values the steps up to and including each one need.

        Values are numbered in order of appearance.
        """
        return np.maximum.accumulate(self.numbers.max(axis=1)) + 1

    def fitting_steps(self, capacity: int) -> int:
        """Return how many of the first steps fit into `capacity` bytes and into the bits of codes."""
        value_counts = self._values_of_first()
        nbytes = value_counts * self.values[0].nbytes + np.arange(1, len(value_counts) + 1) * CODED_STEP_BYTES
        narrow = self.offsets.max(axis=1) < 1 << COLUMN_BITS
        fits = (nbytes <= capacity) & (value_counts <= 1 << VALUE_BITS) & narrow
        return int(np.logical_and.accumulate(fits).sum())

    def image(self, steps: int) -> tuple[NDArray[np.uint8], int]:
        """Return the image of the first `steps` steps as bytes, and the number of their values."""
        count = int(self._values_of_first()[steps - 1])
        codes = self.numbers[:steps] | self.transposed[:steps].astype(np.int64) << VALUE_BITS
        codes = codes << COLUMN_BITS | self.offsets[:steps]
        parts = (self.values[:count].T, codes.astype(np.uint32), self.smallest_columns[:steps])
        image = b"".join(part.tobytes() for part in parts)
        return np.frombuffer(image + bytes(-len(image) % IMAGE_WORD_BYTES), np.uint8), count


def _distinct(rows: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Return the rows that differ, bit for bit, in the order of their first places, and the number of each row."""
    width = rows[0].nbytes
    words = np.ascontiguousarray(rows).view(np.uint64 if width % 8 == 0 else np.uint32)
    codes = np.zeros(len(rows), np.int64)
    for word in words.T:  # integers are sorted faster than rows
        numbers = np.unique(word, return_inverse=True)[1]
        codes = np.unique(codes * len(rows) + numbers, return_inverse=True)[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return rows[first[order]], places[codes]


def _encode(columns: NDArray[np.int32], values: NDArray[np.floating], entry: str) -> _Table:
    """Return the coded form of some steps.

    Of a value and its transposed value, the table has the larger. Padding has the value 0 and the smallest column.
    """
    members = values.shape[1]
    nonzero: NDArray[np.bool_] = (values != 0).any(axis=1)
    smallest_columns = np.where(nonzero, columns, np.iinfo(np.int32).max).min(axis=1)
    smallest_columns[~nonzero.any(axis=1)] = 0
    sources, signs = (np.array(column) for column in zip(*adjoint_members(entry), strict=True))
    slot_values = np.moveaxis(values, 1, 2).reshape(-1, members) + 0  # adding 0 turns -0 into 0, as their bits differ
    transposed_values = slot_values[:, sources] * signs.astype(values.dtype) + 0
    slots = np.arange(len(slot_values))
    differs = (transposed_values != slot_values).argmax(axis=1)
    smaller = slot_values[slots, differs] < transposed_values[slots, differs]
    larger = np.where(smaller[:, None], transposed_values, slot_values)
    different, codes = _distinct(larger)
    return _Table(
        different,
        codes.reshape(columns.shape),
        smaller.reshape(columns.shape),
        smallest_columns.astype(np.int32),
        np.where(nonzero, columns - smallest_columns[:, None], 0),
    )
