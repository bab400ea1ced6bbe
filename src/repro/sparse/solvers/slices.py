"""Rows dealt to the blocks of a persistent solver, in sliced ELLPACK: what a block keeps in shared memory and what not.

A block has the same rows in every iteration. It takes them in slices of 32 slots, one for each lane of a warp. A row
has one lane, or several if it is long or if rows are few, so that rows of any length cost little padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix

#: Slots of a step of a slice: the lanes of a warp.
LANES = 32
#: Cost of a row beside its slots, in slots: the vectors.
ROW_COST = 6
#: A row gets more lanes while it is longer than this multiple of the mean, and than `SHORT` slots.
LONG, SHORT = 2, 8
#: While a multiprocessor has less than this share of its warps, rows get more lanes, of at least `MIN_STEPS` slots.
FILLED, MIN_STEPS = 0.5, 4
#: Largest number of slots: kernels count them in int32.
MAX_SLOTS = (1 << 31) - 1


@dataclass(frozen=True)
class Slices:
    """A square matrix with m members per entry, as the kernels of a persistent solver read it."""

    #: int64 `(n,)`: row of the matrix for each row of the solver; columns are numbered alike.
    rows: NDArray[np.int64]
    #: int32 `(blocks + 1,)`: first slice of each block.
    starts: NDArray[np.int32]
    #: int32 `(slices, 4)`: first row, number of rows and lanes per row (rows + 64 · lanes), first step, steps.
    slices: NDArray[np.int32]
    #: int32 `(steps, 32)`: column of each slot; padding has value 0 and a column of its row.
    columns: NDArray[np.int32]
    #: `(steps, m, 32)`: members of each slot.
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

    def most_rows(self, warps: int) -> int:
        """Return the largest number of slices of a warp, if a block's slices are dealt to so many warps in turn."""
        return int(-(-np.diff(self.starts).max(initial=0) // warps))

    def kept(self, capacity: int) -> NDArray[np.int32]:
        """Return the end of the slices that a block keeps in `capacity` bytes, for each block: its first ones."""
        ends = (self.slices[:, 2] + self.slices[:, 3]).astype(np.int64)
        firsts = self._first_steps()
        limits = firsts[:-1] + capacity // self.step_bytes
        kept = np.searchsorted(ends, limits, side="right").astype(np.int32)
        return np.clip(kept, self.starts[:-1], self.starts[1:]).astype(np.int32)

    def kept_bytes(self, kept: NDArray[np.int32]) -> tuple[int, int]:
        """Return the bytes that all blocks keep, and the most that one of them does."""
        ends = np.append(self.slices[:, 2], len(self.columns)).astype(np.int64)
        steps = ends[kept] - self._first_steps()[:-1]
        return int(steps.sum()) * self.step_bytes, int(steps.max(initial=0)) * self.step_bytes

    def _first_steps(self) -> NDArray[np.int64]:
        return np.append(self.slices[:, 2], len(self.columns)).astype(np.int64)[self.starts]


def deal(matrix: Matrix, dtype: np.dtype[Any], blocks: int, warps: int) -> Slices:
    """Deal the rows of a matrix, of n ≥ 1 rows, to at most `blocks` blocks of `warps` warps each.

    Blocks get successive rows of about equal cost; or of equal number, where the most slices of a warp are fewer then.
    Inside a block, rows with as many lanes lie together, otherwise in
    their order. Raise `ReproError` if the matrix has too many slots.
    """
    n, indptr = matrix.n, matrix.indptr.astype(np.int64)
    lengths = np.diff(indptr)
    lanes = _lanes_of_rows(lengths, blocks * warps)
    steps = -(-lengths // lanes)
    dealt = None
    for costs in (lanes * (steps + ROW_COST), lanes):
        owners = _owners(costs, lanes, blocks)
        rows = np.lexsort((np.arange(n), lanes, owners))
        slices, starts, slice_of, place_of = _cut(owners[rows], lanes[rows], steps[rows])
        rounds = -(-np.diff(starts).max() // warps)
        if dealt is None or rounds < dealt[0]:
            dealt = rounds, rows, slices, starts, slice_of, place_of
    assert dealt is not None
    _, rows, slices, starts, slice_of, place_of = dealt
    count = int(slices[-1, 2] + slices[-1, 3])
    if count * LANES > MAX_SLOTS:
        raise ReproError(
            "the matrix is too large for a persistent solver",
            expected=f"at most {MAX_SLOTS:,} slots",
            actual=f"{count * LANES:,}",
            todo="solve with SciPy and the operator's product",
        )
    columns, values = _fill(matrix, dtype, rows, lanes, slices, slice_of, place_of, count)
    scale, least = invert_diagonal(matrix, dtype)
    return Slices(rows, starts, slices.astype(np.int32), columns, values, scale[rows], least)


def _lanes_of_rows(lengths: NDArray[np.int64], all_warps: int) -> NDArray[np.int64]:
    """Return the number of lanes of each row, a power of two: of all rows, and more of long ones."""
    mean, lanes = float(lengths.mean()), 1
    while lanes < LANES and len(lengths) * lanes < FILLED * all_warps * LANES and mean >= 2 * MIN_STEPS * lanes:
        lanes *= 2
    most = max(SHORT, LONG * mean / lanes)
    excess = np.maximum(lengths / (most * lanes), 1)
    more = np.exp2(np.ceil(np.log2(excess))).astype(np.int64)
    return np.minimum(lanes * more, LANES)


def _owners(costs: NDArray[np.int64], lanes: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Return the block of each row: successive rows of equal cost, and at most as many blocks as there are slices."""
    blocks = min(blocks, -(-int(lanes.sum()) // LANES))
    before = np.cumsum(costs) - costs / 2
    owners: NDArray[np.int64] = np.minimum((before * blocks / costs.sum()).astype(np.int64), blocks - 1)
    return np.unique(owners, return_inverse=True)[1].astype(np.int64)


def _cut(
    owners: NDArray[np.int64], lanes: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut rows, in the solver's order, into slices; return these, the first of each block, and each row's slice and
    place in it.
    """
    n = len(owners)
    runs = np.flatnonzero(np.append(True, (owners[1:] != owners[:-1]) | (lanes[1:] != lanes[:-1])))
    run_of = np.repeat(np.arange(len(runs)), np.diff(np.append(runs, n)))
    heights = LANES // lanes
    in_run = np.arange(n) - runs[run_of]
    slices_of_run = -(-np.diff(np.append(runs, n)) // heights[runs])
    slice_of = (np.cumsum(slices_of_run) - slices_of_run)[run_of] + in_run // heights
    place_of = in_run % heights
    firsts = np.flatnonzero(place_of == 0)
    widths = np.maximum.reduceat(steps, firsts)
    counts = np.diff(np.append(firsts, n))
    slices = np.stack([firsts, counts + 64 * lanes[firsts], np.cumsum(widths) - widths, widths], axis=1)
    starts = np.searchsorted(owners[firsts], np.arange(owners[-1] + 2)).astype(np.int32)
    return slices, starts, slice_of, place_of


def _fill(
    matrix: Matrix, dtype: np.dtype[Any], rows: NDArray[np.int64], lanes: NDArray[np.int64],
    slices: NDArray[np.int64], slice_of: NDArray[np.int64], place_of: NDArray[np.int64], count: int,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:  # fmt: skip
    """Return columns and values of all slots."""
    number = np.empty(matrix.n, np.int64)
    number[rows] = np.arange(matrix.n)
    lengths = np.diff(matrix.indptr).astype(np.int64)
    row = np.repeat(number, lengths)  # the solver's row of each entry
    of_row = lanes[rows][row]
    at = np.arange(len(row)) - np.repeat(matrix.indptr[:-1].astype(np.int64), lengths)
    step = slices[slice_of[row], 2] + at // of_row
    lane = place_of[row] * of_row + at % of_row
    columns = np.repeat(slices[:, 0], slices[:, 3]).astype(np.int32)[:, None].repeat(LANES, axis=1)
    columns[step, lane] = number[matrix.indices]
    members = matrix.values.shape[1]
    values = np.zeros((count, members, LANES), dtype)
    values[step[:, None], np.arange(members), lane[:, None]] = matrix.values
    return columns, values


def invert_diagonal(matrix: Matrix, dtype: np.dtype[Any]) -> tuple[NDArray[np.floating], tuple[float, int]]:
    """Return `scale` and `least` of `Slices`, the former in the matrix's own order."""
    entry = get_entry(matrix.entry)
    diagonal = np.zeros((matrix.n, entry.size))
    row = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    on = np.flatnonzero(row == matrix.indices)
    blocks = entry.expand(matrix.values[on].astype(np.float64))
    np.add.at(diagonal, row[on], np.diagonal(blocks, axis1=1, axis2=2))
    with np.errstate(divide="ignore", over="ignore"):
        scale = (1 / diagonal).astype(dtype)
    scale[~np.isfinite(scale) | (scale == 0)] = 1
    least = np.unravel_index(int(np.argmin(diagonal)), diagonal.shape)
    return scale, (float(diagonal[least]), int(least[0]))
