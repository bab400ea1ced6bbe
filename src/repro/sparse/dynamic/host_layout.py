"""The layout of a dynamic matrix in memory, and its operations on the host, which define the results of the device.

A row is a chain of at most k segments, runs of consecutive entries. The segment table has a pair (start, end), counted
in entries, for each of the k slots of each row: slot s of row i is at `s * pitch + 2 * i`. Slots are filled from 0 on;
an empty slot has equal start and end. A row's `sizes[i]` entries fill its segments in the order of the slots. New
segments are allocated from `pointer` on, the end of the used part of the buffer (King 2017, section 5.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.errors import IncorrectError, ReproErrorOfValue

#: The pitch of the table is a multiple of this many words, 128 bytes, which is a GPU's cache line.
PITCH_ALIGNMENT = 32
#: Largest number of entries: half of what 32-bit offsets address, since a failed allocation increases the offset, too.
MAX_ENTRIES = 1 << 30
SEGMENTS = 4


@dataclass(frozen=True)
class Arrays:
    """A dynamic matrix on the host, in the same arrays as on the device."""

    shape: tuple[int, int]
    #: Largest number of segments of a row: k.
    segments: int
    #: Columns and values of entries, int32 and floating, `(capacity,)`; undefined outside of the rows' entries.
    columns: NDArray[np.int32]
    values: NDArray[np.floating]
    #: Segment table, int32 `(segments * table_pitch(rows),)`.
    table: NDArray[np.int32]
    #: Number of entries of each row, int32 `(rows,)`.
    sizes: NDArray[np.int32]
    pointer: int

    @property
    def capacity(self) -> int:
        return len(self.columns)

    @property
    def nnz(self) -> int:
        """Number of entries, including duplicates."""
        return int(self.sizes.sum(dtype=np.int64))

    @property
    def pairs(self) -> NDArray[np.int32]:
        """Start and end of the segment in each slot: int32 `(segments, rows, 2)`, a view of the table."""
        rows = self.shape[0]
        slots = self.table.reshape(self.segments, table_pitch(rows))[:, : 2 * rows]
        return slots.reshape(self.segments, rows, 2)

    @property
    def segment_capacity(self) -> NDArray[np.int64]:
        """Number of entries that each segment can hold: int64 `(segments, rows)`."""
        starts, ends = self.pairs[..., 0], self.pairs[..., 1]
        return ends.astype(np.int64) - starts

    @property
    def fragments(self) -> NDArray[np.int64]:
        """Number of segments of each row: int64 `(rows,)`."""
        segment_counts: NDArray[np.int64] = (self.segment_capacity > 0).sum(axis=0)
        return segment_counts

    def places(self, rows: NDArray[np.int64], nth: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the offset of entry number `nth[i]` of row `rows[i]` for each i, `(m,)`.

        Each row must have space for it.
        """
        places = np.full(len(rows), -1, np.int64)
        before = np.zeros(len(rows), np.int64)
        for starts, ends in np.moveaxis(self.pairs, 2, 1):
            start = starts[rows].astype(np.int64)
            room = ends[rows] - start
            segment_mask = (places < 0) & (nth < before + room)
            places[segment_mask] = (start + nth - before)[segment_mask]
            before += room
        return places

    def to_csr(self) -> sp.csr_array:
        """Return the matrix in CSR; the entries of a row keep their order, and duplicates stay.

        If table and sizes contradict each other, `IncorrectError` is raised.
        """
        sizes = self.sizes.astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        room = self.segment_capacity
        # each segment has the row's entries that follow those of earlier segments, up to its capacity
        counts = np.minimum(room, np.maximum(sizes - (np.cumsum(room, axis=0) - room), 0))
        overfull_rows = np.flatnonzero(counts.sum(axis=0) != sizes)
        if len(overfull_rows):
            row = int(overfull_rows[0])
            raise IncorrectError(
                f"{len(overfull_rows)} rows have more entries than their segments have room for: "
                f"the first, row {row}, has {sizes[row]}, and room for {room[:, row].sum()}"
            )
        filled_segments = counts.T > 0
        places = consecutive(self.pairs[..., 0].T[filled_segments], counts.T[filled_segments])
        return sp.csr_array((self.values[places], self.columns[places], indptr), shape=self.shape)


def table_pitch(n_rows: int) -> int:
    """Return the distance, in words of the table, between two slots of a row."""
    return max(1, -(-2 * n_rows // PITCH_ALIGNMENT)) * PITCH_ALIGNMENT


def consecutive(starts: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return concatenated runs of consecutive numbers, given their starts and lengths, `(m,)` each."""
    before = np.cumsum(counts, dtype=np.int64) - counts
    numbers = np.repeat(starts - before, counts)
    numbers += np.arange(len(numbers))
    return numbers


def check_capacity(capacity: int) -> int:
    """Return a capacity in entries; raise `ReproError` if 32-bit offsets cannot address it."""
    if capacity > MAX_ENTRIES:
        raise ReproErrorOfValue(
            "a dynamic matrix cannot hold so many entries",
            where="dynamic matrix",
            expected=f"at most {MAX_ENTRIES:,}, including slack",
            actual=f"{capacity:,}",
        )
    return capacity


def buffer_capacity(batches: Iterable[int], n_rows: int, segments: int, slack: int) -> int:
    """Return the largest number of entries that may be allocated for batches of these sizes, without defragmentation.

    A batch allocates at most one segment for each row that it changes, and a row has at most `segments` segments.
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
    """Return a CSR matrix, duplicates allowed, as a dynamic matrix with one segment per row, in row order.

    `capacity` None: the sum of all segments. Each segment can hold at least `width` entries, and at least `slack` more
    than the row has; if both are 0, an empty row has no segment. A capacity that is too small raises `ReproError`. With
    `shared` the arrays may be those of `matrix`, and must not be written to.
    """
    rows = matrix.shape[0]
    sizes = np.diff(matrix.indptr).astype(np.int64)
    room = np.maximum(sizes + slack, width)
    ends = np.cumsum(room)
    required = int(ends[-1]) if rows else 0
    capacity = check_capacity(required if capacity is None else capacity)
    if capacity < required:
        raise ReproErrorOfValue(
            "the matrix does not fit in its buffer", expected=f"room for {required:,} entries", actual=f"{capacity:,}"
        )
    pitch = table_pitch(rows)
    table = np.zeros(segments * pitch, np.int32)
    nonempty = room > 0
    table[: 2 * rows : 2] = np.where(nonempty, ends - room, 0)
    table[1 : 2 * rows : 2] = np.where(nonempty, ends, 0)
    row_sizes = sizes.astype(np.int32)
    if shared and capacity == required == matrix.nnz:
        columns, values = matrix.indices[:required].astype(np.int32, copy=False), matrix.data[:required]
        return Arrays(matrix.shape, segments, columns, values, table, row_sizes, required)
    columns, values = np.zeros(capacity, np.int32), np.zeros(capacity, matrix.dtype)
    if required == matrix.nnz:  # without free space, entries have the same order as in CSR
        columns[:required], values[:required] = matrix.indices, matrix.data
    else:
        places = consecutive(ends - room, sizes)
        columns[places], values[places] = matrix.indices, matrix.data
    return Arrays(matrix.shape, segments, columns, values, table, row_sizes, required)


def insert(
    arrays: Arrays,
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    slack: int,
    copy: bool = True,
) -> tuple[Arrays, NDArray[np.bool_]]:
    """Append a batch of m entries as the device does; entries of the same row keep their order in the batch.

    `rows`, `columns` and `values` are `(m,)`. Each new segment has `slack` free entries. Without `copy` the given
    arrays are overwritten and returned. The second result, bool `(m,)`, marks entries without space; all entries of a
    row are inserted, or none.
    """
    if copy:
        copies = {name: getattr(arrays, name).copy() for name in ("columns", "values", "table", "sizes")}
        arrays = replace(arrays, **copies)
    order = np.argsort(rows, kind="stable")
    batch_rows, first, counts = np.unique(rows[order], return_index=True, return_counts=True)
    sizes = arrays.sizes[batch_rows].astype(np.int64)
    pairs = arrays.pairs[:, batch_rows].astype(np.int64)
    rooms = pairs[..., 1] - pairs[..., 0]
    segment_counts = (rooms > 0).sum(axis=0)
    missing_room = sizes + counts - rooms.sum(axis=0)
    overfull = missing_room > 0
    full = overfull & (segment_counts == arrays.segments)
    lengths = np.where(overfull & ~full, missing_room + slack, 0)
    starts = arrays.pointer + np.cumsum(lengths) - lengths
    overflow = (lengths > 0) & (starts + lengths > arrays.capacity)
    rejected = full | overflow
    extended = (lengths > 0) & ~overflow
    arrays.pairs[segment_counts[extended], batch_rows[extended]] = np.stack(
        [starts[extended], starts[extended] + lengths[extended]], axis=1
    )
    arrays = replace(arrays, pointer=min(arrays.pointer + int(lengths.sum()), arrays.capacity))
    entry_rows = np.repeat(np.arange(len(batch_rows)), counts)
    accepted = ~rejected[entry_rows]
    nth = sizes[entry_rows] + np.arange(len(order)) - first[entry_rows]
    places = arrays.places(batch_rows[entry_rows[accepted]], nth[accepted])
    arrays.columns[places], arrays.values[places] = columns[order[accepted]], values[order[accepted]]
    arrays.sizes[batch_rows[~rejected]] += counts[~rejected].astype(np.int32)
    unplaced = np.zeros(len(order), bool)
    unplaced[order[~accepted]] = True
    return arrays, unplaced


def defragment(arrays: Arrays, capacity: int | None = None, slack: int = 0) -> Arrays:
    """Return the matrix with one segment per row, each with free space for `slack` entries."""
    required = arrays.nnz + slack * arrays.shape[0]
    requested = arrays.capacity if capacity is None else capacity
    return lay_out(arrays.to_csr(), arrays.segments, max(required, requested), slack=slack)
