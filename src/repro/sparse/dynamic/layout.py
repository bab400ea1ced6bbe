"""How a dynamic matrix lies in memory, and what its operations leave there, as arrays on the host.

A row is a chain of at most k segments. The table has a pair (start, end) for each slot of each row, counted in
entries: slot s of row i is at `s * pitch + 2 * i`. Slots are filled from 0 on; an empty one has an end that is its
start. A row's entries fill its segments in the order of the slots; there are `sizes[i]` of them, and what is left of
the last segments is room. New segments are cut off at `pointer` (King 2017, section 5.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.errors import ReproError

#: The first pairs of two slots of a row lie so many words apart, or a multiple: 128 bytes, as a GPU's cache lines.
PITCH_ALIGNMENT = 32
#: As many entries can be told apart by 32-bit offsets while allocations that found no room still count up.
MAX_ENTRIES = 1 << 30
SEGMENTS = 4


@dataclass(frozen=True)
class Arrays:
    """A dynamic matrix on the host, in the arrays that the device has.

    Attributes
    ----------
    shape
        Rows and columns.
    segments
        The most that a row's chain has: k.
    columns, values
        int32 and floating `(capacity,)`; what no row's entries lie in is undefined.
    table
        int32 `(segments * pitch_of(rows),)`.
    sizes
        int32 `(rows,)`, entries of each row.
    pointer
        Where the next segment is cut off.
    """

    shape: tuple[int, int]
    segments: int
    columns: NDArray[np.int32]
    values: NDArray[np.floating]
    table: NDArray[np.int32]
    sizes: NDArray[np.int32]
    pointer: int

    @property
    def capacity(self) -> int:
        """Entries that there is memory for."""
        return len(self.columns)

    @property
    def nnz(self) -> int:
        """Entries, those of the same place counted one by one."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def pairs(self) -> NDArray[np.int32]:
        """Start and end of each slot of each row: int32 `(segments, rows, 2)`, a view of the table."""
        rows = self.shape[0]
        slots = self.table.reshape(self.segments, pitch_of(rows))[:, : 2 * rows]
        return slots.reshape(self.segments, rows, 2)

    @property
    def segment_capacity(self) -> NDArray[np.int64]:
        """Slots of memory of each segment: int64 `(segments, rows)`."""
        starts, ends = self.pairs[..., 0], self.pairs[..., 1]
        return ends.astype(np.int64) - starts

    @property
    def fragments(self) -> NDArray[np.int64]:
        """Segments that each row's chain has: int64 `(rows,)`."""
        used: NDArray[np.int64] = (self.segment_capacity > 0).sum(axis=0)
        return used

    def places(self, rows: NDArray[np.int64], nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the nth entries of rows lie, both `(m,)`; each row has room for its nth."""
        places = np.full(len(rows), -1, np.int64)
        before = np.zeros(len(rows), np.int64)
        for starts, ends in np.moveaxis(self.pairs, 2, 1):
            start = starts[rows].astype(np.int64)
            room = ends[rows] - start
            here = (places < 0) & (nth < before + room)
            places[here] = (start + nth - before)[here]
            before += room
        return places

    def to_csr(self) -> sp.csr_array:
        """Return the entries in CSR, each row's in the order of its chain, none of them added up.

        Raises
        ------
        IncorrectError
            A row has more entries than its segments have room for: its table or its size is damaged.
        """
        sizes = self.sizes.astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        room = self.segment_capacity
        # what the slots before it leave of a row is in a slot, as far as it has room
        counts = np.minimum(room, np.maximum(sizes - (np.cumsum(room, axis=0) - room), 0))
        lacking = np.flatnonzero(counts.sum(axis=0) != sizes)
        if len(lacking):
            row = int(lacking[0])
            raise IncorrectError(
                f"{len(lacking)} rows have more entries than their segments have room for: "
                f"the first, row {row}, has {sizes[row]}, and room for {room[:, row].sum()}"
            )
        used = counts.T > 0
        places = consecutive(self.pairs[..., 0].T[used], counts.T[used])
        return sp.csr_array((self.values[places], self.columns[places], indptr), shape=self.shape)


def pitch_of(rows: int) -> int:
    """Return the words from one slot of a row to the next."""
    return max(1, -(-2 * rows // PITCH_ALIGNMENT)) * PITCH_ALIGNMENT


def consecutive(starts: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return runs of consecutive numbers, one behind the other, from their starts and lengths, `(m,)` each."""
    before = np.cumsum(counts, dtype=np.int64) - counts
    numbers = np.repeat(starts - before, counts)
    numbers += np.arange(len(numbers))
    return numbers


def check_capacity(capacity: int, where: str = "dynamic matrix") -> int:
    """Return a number of entries that there shall be memory for, if offsets can tell them apart.

    Raises
    ------
    ReproError
        They are too many.
    """
    if capacity > MAX_ENTRIES:
        raise ReproError(
            "more entries than a dynamic matrix can hold",
            where=where,
            expected=f"at most {MAX_ENTRIES:,}, its slack included",
            actual=f"{capacity:,}",
        )
    return capacity


def room_for(batches: Iterable[int], rows: int, segments: int, slack: int) -> int:
    """Return the entries that inserting batches cuts off at the most, without bringing the matrix together.

    A batch cuts a segment off for each of its rows at the most, and a row has room for so many segments.

    Parameters
    ----------
    batches
        Entries of each.
    """
    counts = list(batches)
    return sum(counts) + slack * min(sum(min(rows, count) for count in counts), rows * segments)


def lay_out(
    matrix: sp.csr_array, segments: int = SEGMENTS, capacity: int | None = None, width: int = 0, slack: int = 0
) -> Arrays:
    """Return a matrix with one segment a row, one after the other.

    Parameters
    ----------
    matrix
        In CSR; rows may have columns more than once, in any order.
    segments
        The most that a row's chain can have.
    capacity
        Entries that there shall be memory for; None: as many as the segments need.
    width, slack
        Each segment has room for so many entries at the least, and for so many beside those that it has: with 0 and 0
        an empty row has none.

    Raises
    ------
    ReproError
        More entries than offsets can tell apart, or than the capacity.
    """
    rows = matrix.shape[0]
    sizes = np.diff(matrix.indptr).astype(np.int64)
    room = np.maximum(sizes + slack, width)
    ends = np.cumsum(room)
    needed = int(ends[-1]) if rows else 0
    capacity = check_capacity(needed if capacity is None else capacity)
    if capacity < needed:
        raise ReproError(
            "the matrix does not fit into its buffer", expected=f"room for {needed:,} entries", actual=f"{capacity:,}"
        )
    pitch = pitch_of(rows)
    table = np.zeros(segments * pitch, np.int32)
    filled = room > 0
    table[: 2 * rows : 2] = np.where(filled, ends - room, 0)
    table[1 : 2 * rows : 2] = np.where(filled, ends, 0)
    columns, values = np.zeros(capacity, np.int32), np.zeros(capacity, matrix.dtype)
    if needed == matrix.nnz:  # one row behind the other, as in CSR
        columns[:needed], values[:needed] = matrix.indices, matrix.data
    else:
        places = consecutive(ends - room, sizes)
        columns[places], values[places] = matrix.indices, matrix.data
    return Arrays(matrix.shape, segments, columns, values, table, sizes.astype(np.int32), needed)


def insert(
    arrays: Arrays,
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    slack: int,
    copy: bool = True,
) -> tuple[Arrays, NDArray[np.bool_]]:
    """Append a batch of entries, each row's in the order of the batch, as the device does.

    Parameters
    ----------
    rows, columns, values
        The batch, in any order: `(m,)` each.
    slack
        Room for so many entries beside those that a new segment is made for.
    copy
        Whether the given matrix stays as it is; else its arrays are written to, and are the result's.

    Returns
    -------
    tuple
        The matrix, and which entries of the batch found no room, `(m,)`: those of rows whose chain is full, and of
        rows that the buffer has no segment for. A row takes all of its entries or none.
    """
    if copy:
        owned = {name: getattr(arrays, name).copy() for name in ("columns", "values", "table", "sizes")}
        arrays = replace(arrays, **owned)
    order = np.argsort(rows, kind="stable")
    touched, first, counts = np.unique(rows[order], return_index=True, return_counts=True)
    sizes = arrays.sizes[touched].astype(np.int64)
    pairs = arrays.pairs[:, touched].astype(np.int64)
    rooms = pairs[..., 1] - pairs[..., 0]
    used = (rooms > 0).sum(axis=0)
    lacking = sizes + counts - rooms.sum(axis=0)
    asks = lacking > 0
    full = asks & (used == arrays.segments)
    lengths = np.where(asks & ~full, lacking + slack, 0)
    starts = arrays.pointer + np.cumsum(lengths) - lengths
    over = (lengths > 0) & (starts + lengths > arrays.capacity)
    refused = full | over
    new = (lengths > 0) & ~over
    arrays.pairs[used[new], touched[new]] = np.stack([starts[new], starts[new] + lengths[new]], axis=1)
    arrays = replace(arrays, pointer=min(arrays.pointer + int(lengths.sum()), arrays.capacity))
    of_touched = np.repeat(np.arange(len(touched)), counts)
    kept = ~refused[of_touched]
    nth = sizes[of_touched] + np.arange(len(order)) - first[of_touched]
    places = arrays.places(touched[of_touched[kept]], nth[kept])
    arrays.columns[places], arrays.values[places] = columns[order[kept]], values[order[kept]]
    arrays.sizes[touched[~refused]] += counts[~refused].astype(np.int32)
    left = np.zeros(len(order), bool)
    left[order[~kept]] = True
    return arrays, left


def defragment(arrays: Arrays, capacity: int | None = None, slack: int = 0) -> Arrays:
    """Bring each row back into one segment, with room for so many entries more."""
    needed = arrays.nnz + slack * arrays.shape[0]
    wanted = arrays.capacity if capacity is None else capacity
    return lay_out(arrays.to_csr(), arrays.segments, max(needed, wanted), slack=slack)
