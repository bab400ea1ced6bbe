"""Assignment of matrix rows to blocks of a persistent solver, and the slices that each block keeps in shared memory.

Slices are 32 slots wide, one for each lane of a warp; a step is one row of 32 slots. A row of the matrix has one lane,
or several if it is long or if rows are few, so that rows of any length cost little padding. A block keeps its first
slices: plain, or as a table of their different values and a code of 32 bits for each slot. The table stores a value
once for a pair A_ij and A_ji whose rows lie in the same block, for repeated entries, and for all padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import adjoint_members

#: Slots per step of a slice: one for each lane of a warp.
LANES = 32
#: Unit of the lanes per row in the second number of a slice; what is below it is the number of rows, at most `LANES`.
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


@dataclass(frozen=True)
class Slices:
    """A square matrix with m ≥ 1 members per entry, as the kernels of a persistent solver read it."""

    #: int64 `(n,)`: row of the matrix for each row of the solver; columns are renumbered in the same way.
    rows: NDArray[np.int64]
    #: int32 `(blocks + 1,)`: first slice of each block.
    starts: NDArray[np.int32]
    #: int32 `(slices, 4)`: first row; number of rows + `LANES_UNIT` · lanes per row; first step; number of steps.
    slices: NDArray[np.int32]
    #: int32 `(steps, 32)`: column of each slot; a padding slot has value 0 and a column of its row.
    columns: NDArray[np.int32]
    #: `(steps, m, 32)`: members of the entry in each slot.
    values: NDArray[np.floating]
    #: `(n, k)`: reciprocal of the diagonal's real expansion, or 1 where the diagonal is 0 or absent.
    scale: NDArray[np.floating]
    #: Smallest number on the diagonal of the real expansion, and its row in the matrix.
    least: tuple[float, int]

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
        return (self.slices[:, 2] + self.slices[:, 3]).astype(np.int64)

    def first_steps(self) -> NDArray[np.int64]:
        """Return the first step of each block, followed by the number of all steps, `(blocks + 1,)`."""
        return np.append(self.slices[:, 2], len(self.columns)).astype(np.int64)[self.starts]


def assign_rows(
    matrix: Matrix, dtype: np.dtype[Any], blocks: int, warps: int, order: NDArray[np.int64] | None = None
) -> Slices:
    """Assign the rows of a matrix, of n ≥ 1 rows, to at most `blocks` blocks of `warps` warps each.

    Each block gets successive rows of `order`, int64 `(n,)`, by default the matrix's order. Blocks get about equal
    cost; or equal numbers of lanes, if this reduces the largest number of slices per warp. Within a block, rows are
    sorted by their number of lanes, stably. Raise `ReproError` if the matrix has too many slots.
    """
    n, indptr = matrix.n, matrix.indptr.astype(np.int64)
    lengths = np.diff(indptr)
    lanes = _lanes_of_rows(lengths, blocks * warps)
    steps = -(-lengths // lanes)
    order = np.arange(n) if order is None else order
    dealt = None
    for costs in (lanes * (steps + ROW_COST), lanes):
        owners = _owners(costs[order], lanes[order], blocks)
        sequence = np.lexsort((np.arange(n), lanes[order], owners))
        rows = order[sequence]
        slices, starts, row_slices, row_places = _cut_slices(owners[sequence], lanes[rows], steps[rows])
        rounds = -(-np.diff(starts).max() // warps)
        if dealt is None or rounds < dealt[0]:
            dealt = rounds, rows, slices, starts, row_slices, row_places
    assert dealt is not None
    _, rows, slices, starts, row_slices, row_places = dealt
    count = int(slices[-1, 2] + slices[-1, 3])
    if count * LANES > MAX_SLOTS:
        raise ReproError(
            "the matrix is too large for a persistent solver",
            expected=f"at most {MAX_SLOTS:,} slots",
            actual=f"{count * LANES:,}",
            todo="solve with SciPy and the operator's product",
        )
    columns, values = _fill(matrix, dtype, rows, lanes, slices, row_slices, row_places, count)
    scale, least = invert_diagonal(matrix, dtype)
    return Slices(rows, starts, slices.astype(np.int32), columns, values, scale[rows], least)


def _lanes_of_rows(lengths: NDArray[np.int64], n_warps: int) -> NDArray[np.int64]:
    """Return the number of lanes of each row, a power of two, `(n,)`; long rows have more."""
    mean, lanes = float(lengths.mean()), 1
    while lanes < LANES and len(lengths) * lanes < FILLED * n_warps * LANES and mean >= 2 * MIN_STEPS * lanes:
        lanes *= 2
    max_steps = max(SHORT, LONG * mean / lanes)
    excess = np.maximum(lengths / (max_steps * lanes), 1)
    multiples = np.exp2(np.ceil(np.log2(excess))).astype(np.int64)
    return np.minimum(lanes * multiples, LANES)


def _owners(costs: NDArray[np.int64], lanes: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Return the block of each row, `(n,)`.

    Blocks get successive rows of about equal cost. There are at most as many blocks as slices.
    """
    blocks = min(blocks, -(-int(lanes.sum()) // LANES))
    before = np.cumsum(costs) - costs / 2
    owners: NDArray[np.int64] = np.minimum((before * blocks / costs.sum()).astype(np.int64), blocks - 1)
    return np.unique(owners, return_inverse=True)[1].astype(np.int64)


def _cut_slices(
    owners: NDArray[np.int64], lanes: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut rows, in the solver's order, into slices.

    Return the slices, the first slice of each block, and for each row its slice and its place in the slice.
    """
    n = len(owners)
    runs = np.flatnonzero(np.append(True, (owners[1:] != owners[:-1]) | (lanes[1:] != lanes[:-1])))
    run_numbers = np.repeat(np.arange(len(runs)), np.diff(np.append(runs, n)))
    heights = LANES // lanes
    run_places = np.arange(n) - runs[run_numbers]
    slices_of_run = -(-np.diff(np.append(runs, n)) // heights[runs])
    row_slices = (np.cumsum(slices_of_run) - slices_of_run)[run_numbers] + run_places // heights
    row_places = run_places % heights
    firsts = np.flatnonzero(row_places == 0)
    widths = np.maximum.reduceat(steps, firsts)
    counts = np.diff(np.append(firsts, n))
    slices = np.stack([firsts, counts + LANES_UNIT * lanes[firsts], np.cumsum(widths) - widths, widths], axis=1)
    starts = np.searchsorted(owners[firsts], np.arange(owners[-1] + 2)).astype(np.int32)
    return slices, starts, row_slices, row_places


def _fill(
    matrix: Matrix, dtype: np.dtype[Any], rows: NDArray[np.int64], lanes: NDArray[np.int64],
    slices: NDArray[np.int64], row_slices: NDArray[np.int64], row_places: NDArray[np.int64], count: int,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:  # fmt: skip
    """Return columns and values of all slots of `Slices`; `count` is the number of steps."""
    number = np.empty(matrix.n, np.int64)
    number[rows] = np.arange(matrix.n)
    lengths = np.diff(matrix.indptr).astype(np.int64)
    row = np.repeat(number, lengths)  # the solver's row of each entry
    row_lanes = lanes[rows][row]
    place = np.arange(len(row)) - np.repeat(matrix.indptr[:-1].astype(np.int64), lengths)
    step = slices[row_slices[row], 2] + place // row_lanes
    lane = row_places[row] * row_lanes + place % row_lanes
    columns = np.repeat(slices[:, 0], slices[:, 3]).astype(np.int32)[:, None].repeat(LANES, axis=1)
    columns[step, lane] = number[matrix.indices]
    members = matrix.values.shape[1]
    values = np.zeros((count, members, LANES), dtype)
    values[step[:, None], np.arange(members), lane[:, None]] = matrix.values
    return columns, values


def invert_diagonal(matrix: Matrix, dtype: np.dtype[Any]) -> tuple[NDArray[np.floating], tuple[float, int]]:
    """Return `scale` and `least` of `Slices`, with `scale` in the matrix's own order."""
    entry = get_entry(matrix.entry)
    diagonal = np.zeros((matrix.n, entry.size))
    row = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    diagonal_entries = np.flatnonzero(row == matrix.indices)
    blocks = entry.expand(matrix.values[diagonal_entries].astype(np.float64))
    np.add.at(diagonal, row[diagonal_entries], np.diagonal(blocks, axis1=1, axis2=2))
    with np.errstate(divide="ignore", over="ignore"):
        scale = (1 / diagonal).astype(dtype)
    scale[~np.isfinite(scale) | (scale == 0)] = 1
    least = np.unravel_index(int(np.argmin(diagonal)), diagonal.shape)
    return scale, (float(diagonal[least]), int(least[0]))


Form = Literal["slices", "table"]
#: Forms of kept slices in shared memory.
FORMS: tuple[Form, ...] = ("slices", "table")
#: Bits of a code. The lower bits are the slot's column minus the smallest column of its step; the higher bits are the
#: index of its value in the table. The highest bit says that the slot holds the transposed value.
COLUMN_BITS, VALUE_BITS = 16, 15
#: Bytes of a coded step: 32 codes, and the smallest column.
CODED_STEP_BYTES = LANES * 4 + 4
#: Blocks copy their image to shared memory in words of this size.
IMAGE_WORD_BYTES = 16


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
    #: int32 `(blocks, 3)`, for the form `table`: first word of a block's image, number of words, number of values.
    places: NDArray[np.int32]


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
    steps = np.append(slices.slices[:, 2], len(slices.columns))[ends] - firsts
    max_bytes = int(steps.max(initial=0)) * slices.step_bytes
    return Kept("slices", ends, int(steps.sum()), max_bytes, np.empty(0, np.uint8), np.zeros((0, 3), np.int32))


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
    return Kept("table", kept_ends, steps, max_bytes, np.concatenate(images), np.array(places, np.int32))


@dataclass(frozen=True)
class _Table:
    """Coded form of some steps.

    `values` are the different values, `(values, m)`. `numbers`, `(steps, 32)`, is the index of each slot's value, and
    `transposed` says whether the slot holds the transposed value. `least`, `(steps,)`, is the smallest column of each
    step, and `offsets` are the columns minus it.
    """

    values: NDArray[np.floating]
    numbers: NDArray[np.int64]
    transposed: NDArray[np.bool_]
    least: NDArray[np.int32]
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
        parts = (self.values[:count].T, codes.astype(np.uint32), self.least[:steps])
        image = b"".join(part.tobytes() for part in parts)
        return np.frombuffer(image + bytes(-len(image) % IMAGE_WORD_BYTES), np.uint8), count


def _encode(columns: NDArray[np.int32], values: NDArray[np.floating], entry: str) -> _Table:
    """Return the coded form of some steps.

    Of a value and its transposed value, the table has the larger. Padding has the value 0 and the smallest column.
    """
    members = values.shape[1]
    nonzero: NDArray[np.bool_] = (values != 0).any(axis=1)
    least = np.where(nonzero, columns, np.iinfo(np.int32).max).min(axis=1)
    least[~nonzero.any(axis=1)] = 0
    sources, signs = (np.array(column) for column in zip(*adjoint_members(entry), strict=True))
    slot_values = np.moveaxis(values, 1, 2).reshape(-1, members) + 0  # adding 0 turns -0 into 0, as their bits differ
    transposed_values = slot_values[:, sources] * signs.astype(values.dtype) + 0
    slots = np.arange(len(slot_values))
    differs = (transposed_values != slot_values).argmax(axis=1)
    smaller = slot_values[slots, differs] < transposed_values[slots, differs]
    larger = np.where(smaller[:, None], transposed_values, slot_values)
    byte_values = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(larger[0].nbytes), len(larger), [None, pa.py_buffer(larger)]
    )
    dictionary = byte_values.dictionary_encode()
    different = np.frombuffer(dictionary.dictionary.buffers()[1], values.dtype).reshape(-1, members)
    return _Table(
        different,
        dictionary.indices.to_numpy().astype(np.int64).reshape(columns.shape),
        smaller.reshape(columns.shape),
        least.astype(np.int32),
        np.where(nonzero, columns - least[:, None], 0),
    )
