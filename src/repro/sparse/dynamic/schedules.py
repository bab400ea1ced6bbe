"""Schedules of y = A x for a dynamic matrix: how entries are assigned to threads, and the index arrays for it.

A schedule's text is part of a variant's id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import TARGETS, Target
from repro.errors import ReproError
from repro.sparse.dynamic.host_layout import Arrays, table_pitch

#: Smallest row sizes of the paper's bins, and threads per row; the last bin has a block for each row.
PAPERS_MIN_LENGTHS = (0, 2, 4, 8, 16, 32, 512)
PAPERS_WIDTHS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class LongRows:
    """Smallest row sizes for one block (`block`) and for several blocks (`parts`), each with `part_length` entries."""

    block: int
    parts: int
    part_length: int


#: Limits by dialect. A CPU block has a quarter of the threads, and no other block hides its latencies.
LONG_ROWS = {"cuda": LongRows(1024, 8192, 4096), "opencl": LongRows(128, 512, 256)}


@dataclass(frozen=True)
class RowBins:
    """Rows in the order of their bins, the longest rows first; within a bin in the order of the matrix."""

    #: Row numbers in that order, int32 `(rows,)`.
    order: NDArray[np.int32]
    #: End of each bin in `order`, exclusive.
    ends: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each bin in `order`."""
        return list(zip((0, *self.ends[:-1]), self.ends, strict=True))


def bin_rows(sizes: NDArray[np.int32], least: Sequence[int]) -> RowBins:
    """Bin rows by their sizes `(rows,)`; `least` is the smallest size of each bin, ascending from 0."""
    labels = (len(least) - np.searchsorted(np.asarray(least), sizes, side="right")).astype(np.uint8)
    order = np.argsort(labels, kind="stable").astype(np.int32)
    return RowBins(order, tuple(np.cumsum(np.bincount(labels, minlength=len(least))).tolist()))


def row_widths(target: Target) -> tuple[int, ...]:
    """Return the possible numbers of threads per row, at most a warp."""
    return tuple(width for width in PAPERS_WIDTHS if width <= target.warp)


def our_min_lengths(target: Target, entries_per_thread: int) -> tuple[int, ...]:
    """Return the smallest row sizes of our bins.

    One for each of `row_widths`, one block per row, several blocks per row.

    The number of threads per row doubles when each would have `entries_per_thread` entries.
    """
    long = LONG_ROWS[target.dialect]
    return (0, *(width * entries_per_thread for width in row_widths(target)[1:]), long.block, long.parts)


def deal_parts(rows: NDArray[Any], sizes: NDArray[np.int32], part_length: int) -> NDArray[np.int32]:
    """Cut long rows into parts, one for each block; return int32 `(parts, 4)`.

    The columns are: the row's number from `rows`, the part's first entry, the index of the row's first part, and the
    number of the row's parts.
    """
    counts = -(-sizes.astype(np.int64) // part_length)
    firsts = np.cumsum(counts) - counts
    row_of_part = np.repeat(np.arange(len(rows)), counts)
    begins = (np.arange(len(row_of_part)) - firsts[row_of_part]) * part_length
    return np.stack([rows[row_of_part], begins, firsts[row_of_part], counts[row_of_part]], axis=1).astype(np.int32)


def parts_of(bins: RowBins, sizes: NDArray[np.int32], target: Target, by_place: bool = False) -> NDArray[np.int32]:
    """Return the parts, as `deal_parts`, of the rows in the bin with several blocks per row, the first one of `bins`.

    With `by_place`, rows are numbered by their places in `bins.order`.
    """
    long_rows = bins.order[: bins.ends[0]]
    names = np.arange(len(long_rows)) if by_place else long_rows
    return deal_parts(names, sizes[long_rows], LONG_ROWS[target.dialect].part_length)


def nonempty_parts(parts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return `parts` if there are any, else one unused part of zeros, since device buffers cannot be empty."""
    return parts if len(parts) else np.zeros((1, 4), np.int32)


def row_spans(sizes: NDArray[np.int32], order: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Return start and end of each row's entries, for rows without free space: int32 `(rows, 2)`.

    `order` is the order of rows in memory; None: by row number.
    """
    lengths = sizes if order is None else sizes[order]
    ends = np.cumsum(lengths, dtype=np.int32)
    spans = np.stack([ends - lengths, ends], axis=1)
    if order is None:
        return spans
    row_spans_in_order = np.empty_like(spans)
    row_spans_in_order[order] = spans
    return row_spans_in_order


def deal_chunks(sizes: NDArray[np.int32], capacity: int, part_length: int) -> NDArray[np.int32]:
    """Assign consecutive rows to blocks, each with at most `capacity` entries and at most as many rows.

    Longer rows are cut into parts of `part_length` entries. The result is int32 `(blocks, 4)`: first row, end row,
    first entry, end entry; for a part of a long row: row, part number, 0, and the negative number of parts.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    long_rows = np.flatnonzero(sizes > capacity)
    blocks: list[NDArray[np.int64]] = []
    first = 0
    for row in (*long_rows.tolist(), len(sizes)):
        blocks.append(_short_rows(ends, first, row, capacity))
        if row < len(sizes):
            parts = np.arange(-(-int(sizes[row]) // part_length))
            row_numbers = np.full(len(parts), row)
            blocks.append(
                np.stack([row_numbers, parts, np.zeros_like(parts), np.full(len(parts), -len(parts))], axis=1)
            )
        first = row + 1
    return np.concatenate(blocks).astype(np.int32)


def _short_rows(ends: NDArray[np.int64], first: int, last: int, capacity: int) -> NDArray[np.int64]:
    """Return the blocks of `deal_chunks` for rows `first` to `last` - 1, each of which fits into a block."""
    starts = [first]
    before = int(ends[first - 1]) if first else 0
    begin = before
    while first < last:
        # a block has few rows, so the search is limited to a window
        window = ends[first : min(last, first + capacity)]
        first += int(np.searchsorted(window, before + capacity, side="right"))
        before = int(ends[first - 1])
        starts.append(first)
    rows = np.array(starts, np.int64)
    entries = np.concatenate([[begin], ends[rows[1:] - 1]])
    return np.stack([rows[:-1], rows[1:], entries[:-1], entries[1:]], axis=1)


def lay_out_sorted(matrix: sp.csr_array, order: NDArray[np.int32], segments: int) -> Arrays:
    """Return a CSR matrix with one segment per row without free space.

    The segments have the given order of the rows.
    """
    rows = matrix.shape[0]
    sizes = np.diff(matrix.indptr)
    room = sizes[order].astype(np.int64)
    ends = np.cumsum(room)
    table = np.zeros(segments * table_pitch(rows), np.int32)
    nonempty = room > 0
    table[2 * order.astype(np.int64)] = np.where(nonempty, ends - room, 0)
    table[2 * order.astype(np.int64) + 1] = np.where(nonempty, ends, 0)
    entries = np.arange(matrix.nnz) + np.repeat(matrix.indptr[order] - (ends - room), room)
    return Arrays(
        matrix.shape, segments, matrix.indices[entries], matrix.data[entries], table, sizes.astype(np.int32), matrix.nnz
    )


ScheduleKind = Literal["vector", "mixed", "streams", "adaptive", "chunks"]
#: Numbers of entries in flight per thread, with a cache hint for columns and values, by dialect: `ca` for cached, `cs`
#: for read once. Schedules of kind `mixed` and `chunks` have choices of their own.
WAYS = {"cuda": ((1, "ca"), (2, "ca"), (2, "cs"), (4, "cs")), "opencl": ((1, "ca"), (2, "ca"))}
MIXED_WAYS = {"cuda": ((2, "ca"), (4, "cs")), "opencl": ((2, "ca"),)}
CHUNK_WAYS = {"cuda": ((2, "cs"), (4, "ca"), (4, "cs"), (8, "cs")), "opencl": ((2, "ca"), (4, "ca"))}
#: Numbers of entries per thread above which a row of our bins gets twice as many threads.
PER_THREAD = (2, 4)
_TEXT = re.compile(
    r"(?P<kind>vector|mixed|streams|adaptive|chunks)(-w(?P<width>\d+))?(-e(?P<per_thread>\d+))?(-u(?P<in_flight>\d+))?"
    r"(?P<cs>-cs)?(?P<exact>-exact)?"
)


@dataclass(frozen=True, order=True)
class Schedule:
    """An assignment of entries to threads.

    Its text is such as `vector-w8-u2-cs`, `streams`, `adaptive-e4-u2`, `chunks-u4-exact`.
    """

    #: `vector`: `width` threads per row. `mixed`: the same, with a warp or a block for long rows. `streams`: the
    #: paper's bins of rows, one kernel per bin, each on its own stream. `adaptive`: our bins in one launch. `chunks`:
    #: each block gets consecutive rows with about equally many entries.
    kind: ScheduleKind
    #: Threads per row, for `vector` and `mixed`.
    width: int = 0
    #: Entries per thread above which a row gets twice as many threads, for `adaptive`.
    per_thread: int = 0
    #: Number of entries that a thread loads at once.
    in_flight: int = 1
    #: `ca` or `cs`: whether caches keep columns and values, or treat them as read once.
    load: str = "ca"
    #: Whether the kernel requires rows of one segment without free space.
    exact: bool = False

    def __str__(self) -> str:
        words: list[str] = [self.kind]
        words += [f"w{self.width}"] if self.width else []
        words += [f"e{self.per_thread}"] if self.per_thread else []
        words += [f"u{self.in_flight}"] if self.in_flight > 1 else []
        words += [self.load] if self.load != "ca" else []
        words += ["exact"] if self.exact else []
        return "-".join(words)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse a schedule's text; the inverse of `str`."""
        match = _TEXT.fullmatch(text)
        if match:
            kind: ScheduleKind = match["kind"]  # type: ignore[assignment]  # the expression has these alone
            schedule = cls(
                kind,
                int(match["width"] or 0),
                int(match["per_thread"] or 0),
                int(match["in_flight"] or 1),
                "cs" if match["cs"] else "ca",
                bool(match["exact"]),
            )
            tried = replace(schedule, in_flight=1, per_thread=bool(schedule.per_thread), load="ca")
            if str(schedule) == text and tried in _EVERY:
                return schedule
        raise ReproError(
            "unknown schedule of a product",
            expected="one like vector-w8-u2-cs, streams-u2, adaptive-e4-u2-exact or chunks-u4",
            actual=text,
        )

    @property
    def is_papers(self) -> bool:
        """Whether the paper has this schedule: one entry in flight, no cache hints, any dynamic matrix."""
        return self.kind in ("vector", "streams") and self.in_flight == 1 and self.load == "ca" and not self.exact


#: Schedule of a product on several devices, one kernel of which also exchanges y: all bins in one launch, with a
#: suitable number of threads for each row.
DEVICE_SCHEDULE = Schedule("adaptive", 0, 4, 2, "ca", True)


def schedules(target: Target) -> list[Schedule]:
    candidates: list[Schedule] = []
    for in_flight, load in WAYS[target.dialect]:
        if load == "ca":
            candidates += [Schedule("streams", 0, 0, in_flight, load)]
        for exact in (False, True):
            candidates += [Schedule("vector", width, 0, in_flight, load, exact) for width in row_widths(target)]
            if in_flight > 1:
                candidates += [Schedule("adaptive", 0, per_thread, in_flight, load, exact) for per_thread in PER_THREAD]
    candidates += [
        Schedule("mixed", width, 0, in_flight, load, exact)
        for in_flight, load in MIXED_WAYS[target.dialect]
        for exact in (False, True)
        for width in row_widths(target)
    ]
    candidates += [Schedule("chunks", 0, 0, in_flight, load, True) for in_flight, load in CHUNK_WAYS[target.dialect]]
    return candidates


def usual_schedule(target: Target, mean: float) -> Schedule:
    """Return the schedule that is used without a search, for a matrix whose rows change.

    Each thread gets about four entries of a row of mean size.
    """
    widths = row_widths(target)
    width = next((width for width in widths if 4 * width >= mean), widths[-1])
    return Schedule("mixed", width, 0, *MIXED_WAYS[target.dialect][-1])


def usual_bins(target: Target) -> Schedule:
    """Return the schedule of kind `adaptive` that is used without a search, for a matrix whose rows change little."""
    return Schedule("adaptive", 0, PER_THREAD[0], *WAYS[target.dialect][-1])


#: Schedules of all devices, but for the entries in flight, those of each thread, and cache hints.
_EVERY = frozenset(
    replace(schedule, in_flight=1, per_thread=bool(schedule.per_thread), load="ca")
    for target in TARGETS.values()
    for schedule in schedules(target)
)
