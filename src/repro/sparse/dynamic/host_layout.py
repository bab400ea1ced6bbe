"""The layout of a dynamic matrix in memory, and its operations on the host, which define the results of the device.

A row is a chain of at most k segments. The table has a pair (start, end) for each slot of each row, counted in
entries: slot s of row i is at `s * pitch + 2 * i`. Slots are filled from 0 on; an empty slot has equal start and end.
A row's `sizes[i]` entries fill its segments in the order of the slots. New segments are cut off at `pointer` (King
2017, section 5.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import IncorrectError, ReproError

#: The pitch of the table is a multiple of this many words, 128 bytes, which is a GPU's cache line.
PITCH_ALIGNMENT = 32
#: Maximum number of entries: half of what 32-bit offsets address, since an allocation that fails counts up as well.
MAX_ENTRIES = 1 << 30
SEGMENTS = 4


@dataclass(frozen=True)
class Arrays:
    """A dynamic matrix on the host, in the device's arrays."""

    shape: tuple[int, int]
    #: Maximum length of a row's chain: k.
    segments: int
    #: int32 and floating `(capacity,)`; undefined outside of the rows' entries.
    columns: NDArray[np.int32]
    values: NDArray[np.floating]
    #: int32 `(segments * pitch_of(rows),)`.
    table: NDArray[np.int32]
    #: int32 `(rows,)`, entries of each row.
    sizes: NDArray[np.int32]
    pointer: int

    @property
    def capacity(self) -> int:
        return len(self.columns)

    @property
    def nnz(self) -> int:
        """Entries with duplicates."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def pairs(self) -> NDArray[np.int32]:
        """Start and end of each slot of each row: int32 `(segments, rows, 2)`, a view of the table."""
        rows = self.shape[0]
        slots = self.table.reshape(self.segments, pitch_of(rows))[:, : 2 * rows]
        return slots.reshape(self.segments, rows, 2)

    @property
    def segment_capacity(self) -> NDArray[np.int64]:
        """Entries that each segment can hold: int64 `(segments, rows)`."""
        starts, ends = self.pairs[..., 0], self.pairs[..., 1]
        return ends.astype(np.int64) - starts

    @property
    def fragments(self) -> NDArray[np.int64]:
        """Segments of each row: int64 `(rows,)`."""
        used: NDArray[np.int64] = (self.segment_capacity > 0).sum(axis=0)
        return used

    def places(self, rows: NDArray[np.int64], nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of the nth entries of rows, both `(m,)`; each row has space for its nth entry."""
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
        """Return the matrix in CSR; a row's entries keep their order, and duplicates stay.

        A damaged table or size raises `IncorrectError`.
        """
        sizes = self.sizes.astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        room = self.segment_capacity
        # each segment has the row's entries that follow those of earlier segments, up to its capacity
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


def pitch_of(n_rows: int) -> int:
    """Return the distance in words between two slots of a row."""
    return max(1, -(-2 * n_rows // PITCH_ALIGNMENT)) * PITCH_ALIGNMENT


def consecutive(starts: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return concatenated runs of consecutive numbers, given their starts and lengths, `(m,)` each."""
    before = np.cumsum(counts, dtype=np.int64) - counts
    numbers = np.repeat(starts - before, counts)
    numbers += np.arange(len(numbers))
    return numbers


def check_capacity(capacity: int, where: str = "dynamic matrix") -> int:
    """Return a capacity in entries, or refuse one that 32-bit offsets cannot address."""
    if capacity > MAX_ENTRIES:
        raise ReproError(
            "more entries than a dynamic matrix can hold",
            where=where,
            expected=f"at most {MAX_ENTRIES:,}, its slack included",
            actual=f"{capacity:,}",
        )
    return capacity


def room_for(batches: Iterable[int], n_rows: int, segments: int, slack: int) -> int:
    """Return the maximal allocation for batches of these sizes without defragmentation.

    A batch allocates at most one segment for each of its rows, and a row has a limited number of segments.
    """
    counts = list(batches)
    return sum(counts) + slack * min(sum(min(n_rows, count) for count in counts), n_rows * segments)


def lay_out(
    matrix: sp.csr_array,
    segments: int = SEGMENTS,
    capacity: int | None = None,
    width: int = 0,
    slack: int = 0,
    shared: bool = False,
) -> Arrays:
    """Return a CSR matrix, duplicates allowed, with one segment a row, in row order.

    `capacity` None: what the segments need. Each segment can hold at least `width` entries, and `slack` more than it
    has; with 0 and 0 an empty row has no segment. A capacity that is too small raises `ReproError`. With `shared` the
    arrays may be the matrix's own, and must not be written to.
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
    stored = sizes.astype(np.int32)
    if shared and capacity == needed == matrix.nnz:
        columns, values = matrix.indices[:needed].astype(np.int32, copy=False), matrix.data[:needed]
        return Arrays(matrix.shape, segments, columns, values, table, stored, needed)
    columns, values = np.zeros(capacity, np.int32), np.zeros(capacity, matrix.dtype)
    if needed == matrix.nnz:  # no free space: the same order as CSR
        columns[:needed], values[:needed] = matrix.indices, matrix.data
    else:
        places = consecutive(ends - room, sizes)
        columns[places], values[places] = matrix.indices, matrix.data
    return Arrays(matrix.shape, segments, columns, values, table, stored, needed)


def insert(
    arrays: Arrays,
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    slack: int,
    copy: bool = True,
) -> tuple[Arrays, NDArray[np.bool_]]:
    """Append a batch `(m,)` of entries, each row's in the order of the batch, as the device does.

    Each new segment has `slack` free entries. Without `copy` the given arrays are overwritten and returned. Second
    result: the entries without space, bool `(m,)`; a row takes all of its entries or none.
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
    """Return the matrix with one segment a row, each with free space for `slack` entries."""
    needed = arrays.nnz + slack * arrays.shape[0]
    wanted = arrays.capacity if capacity is None else capacity
    return lay_out(arrays.to_csr(), arrays.segments, max(needed, wanted), slack=slack)
