"""Schedules of y = A x for a dynamic matrix: how entries are assigned to threads, and the bins of rows.

A schedule has a spelling, which is part of a variant's id. What a schedule is given beside the matrix, rows binned
by their sizes and rows assigned to blocks, is made on the host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import TARGETS, Target
from repro.errors import ReproError
from repro.sparse.dynamic.layout import Arrays, pitch_of

#: Entries that a row of each of the paper's bins has at the least; the bin of the longest rows has a block a row, the
#: others so many threads.
PAPERS_MIN_LENGTHS = (0, 2, 4, 8, 16, 32, 512)
PAPERS_WIDTHS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class LongRows:
    """From how many entries on a row has a block, or several, and how many each of those takes."""

    block: int
    parts: int
    part_length: int


#: By dialect. A block of the CPU has a quarter of the threads, and no other to hide its waiting.
LONG_ROWS = {"cuda": LongRows(1024, 8192, 4096), "opencl": LongRows(128, 512, 256)}


@dataclass(frozen=True)
class RowBins:
    """Rows in the order of their bins, the longest first; those of one bin as they lie in the matrix.

    Attributes
    ----------
    order
        int32 `(rows,)`.
    ends
        Where each bin ends in that order, the bin of the longest rows first.
    """

    order: NDArray[np.int32]
    ends: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each bin starts and ends."""
        return list(zip((0, *self.ends[:-1]), self.ends, strict=True))


def bin_rows(sizes: NDArray[np.int32], least: Sequence[int]) -> RowBins:
    """Bin rows by their sizes.

    Parameters
    ----------
    sizes
        Entries of each row, `(rows,)`.
    least
        Entries that a row of each bin has at the least, ascending from 0.
    """
    labels = (len(least) - np.searchsorted(np.asarray(least), sizes, side="right")).astype(np.uint8)
    order = np.argsort(labels, kind="stable").astype(np.int32)
    return RowBins(order, tuple(np.cumsum(np.bincount(labels, minlength=len(least))).tolist()))


def widths_of(target: Target) -> tuple[int, ...]:
    """Return by how many threads a row can be multiplied: those of a warp at the most."""
    return tuple(width for width in PAPERS_WIDTHS if width <= target.warp)


def our_min_lengths(target: Target, per_thread: int) -> tuple[int, ...]:
    """Return the least entries of our bins: twice as many threads from `per_thread` entries for each of them on.

    The bins are those of `widths_of`, then of a block a row, then of several blocks a row.
    """
    long = LONG_ROWS[target.dialect]
    return (0, *(width * per_thread for width in widths_of(target)[1:]), long.block, long.parts)


def deal_parts(rows: NDArray[Any], sizes: NDArray[np.int32], part_length: int) -> NDArray[np.int32]:
    """Return the parts of long rows, a block each: int32 `(parts, 4)`.

    What names the row, the part's first entry, the number of the row's first part, parts of the row.

    Parameters
    ----------
    rows, sizes
        What names each long row, and its entries.
    part_length
        Entries of a part.
    """
    counts = -(-sizes.astype(np.int64) // part_length)
    firsts = np.cumsum(counts) - counts
    of = np.repeat(np.arange(len(rows)), counts)
    begins = (np.arange(len(of)) - firsts[of]) * part_length
    return np.stack([rows[of], begins, firsts[of], counts[of]], axis=1).astype(np.int32)


def parts_of(bins: RowBins, sizes: NDArray[np.int32], target: Target, by_place: bool = False) -> NDArray[np.int32]:
    """Return the parts of the rows in the bin of the longest, as `deal_parts`.

    Parameters
    ----------
    bins
        Those of `our_least`.
    sizes
        Entries of each row, `(rows,)`.
    by_place
        Whether a row is named by its place in the order of the bins, as where rows are given in that order.
    """
    long_rows = bins.order[: bins.ends[0]]
    names = np.arange(len(long_rows)) if by_place else long_rows
    return deal_parts(names, sizes[long_rows], LONG_ROWS[target.dialect].part_length)


def at_least_one(parts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the parts as the device gets them: one of zeros where there is none, which may be loaded but not used."""
    return parts if len(parts) else np.zeros((1, 4), np.int32)


def spans_of(sizes: NDArray[np.int32], order: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Return where each row's entries start and end, rows without room one after the other: int32 `(rows, 2)`.

    Parameters
    ----------
    sizes
        Entries of each row, `(rows,)`.
    order
        Which row's entries come where, `(rows,)`; None: that of the rows.
    """
    lengths = sizes if order is None else sizes[order]
    ends = np.cumsum(lengths, dtype=np.int32)
    spans = np.stack([ends - lengths, ends], axis=1)
    if order is None:
        return spans
    of_rows = np.empty_like(spans)
    of_rows[order] = spans
    return of_rows


def deal_chunks(sizes: NDArray[np.int32], most: int, part_length: int) -> NDArray[np.int32]:
    """Deal rows to blocks, each as many consecutive ones as have together at most `most` entries.

    Parameters
    ----------
    sizes
        Entries of each row, `(rows,)`; the entries of all rows lie one after the other.
    most
        Also the most rows of a block, which empty ones could be.
    part_length
        Entries that a block takes of a row that alone has more than `most`.

    Returns
    -------
    ndarray
        int32 `(blocks, 4)`: first row, row behind the last, first entry, entry behind the last; or of a part of a row
        the row, which part it is, 0, and how many parts there are, negative.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    long_rows = np.flatnonzero(sizes > most)
    blocks: list[NDArray[np.int64]] = []
    first = 0
    for row in (*long_rows.tolist(), len(sizes)):
        blocks.append(_short_rows(ends, first, row, most))
        if row < len(sizes):
            parts = np.arange(-(-int(sizes[row]) // part_length))
            same = np.full(len(parts), row)
            blocks.append(np.stack([same, parts, np.zeros_like(parts), np.full(len(parts), -len(parts))], axis=1))
        first = row + 1
    return np.concatenate(blocks).astype(np.int32)


def _short_rows(ends: NDArray[np.int64], first: int, last: int, most: int) -> NDArray[np.int64]:
    """Return the blocks of rows from `first` to before `last`, none of which is too long for a block."""
    starts = [first]
    before = int(ends[first - 1]) if first else 0
    begin = before
    while first < last:
        # the rows of a block are few: to search among all of them would take longer
        window = ends[first : min(last, first + most)]
        first += int(np.searchsorted(window, before + most, side="right"))
        before = int(ends[first - 1])
        starts.append(first)
    rows = np.array(starts, np.int64)
    entries = np.concatenate([[begin], ends[rows[1:] - 1]])
    return np.stack([rows[:-1], rows[1:], entries[:-1], entries[1:]], axis=1)


def lay_out_sorted(matrix: sp.csr_array, order: NDArray[np.int32], segments: int) -> Arrays:
    """Return a matrix with one segment a row, without room, the rows' segments in an order of theirs.

    Parameters
    ----------
    matrix
        In CSR; rows may have columns more than once, in any order.
    order
        Which row's segment comes where, `(rows,)`.
    segments
        The most that a row's chain can have.
    """
    rows = matrix.shape[0]
    sizes = np.diff(matrix.indptr)
    room = sizes[order].astype(np.int64)
    ends = np.cumsum(room)
    table = np.zeros(segments * pitch_of(rows), np.int32)
    filled = room > 0
    table[2 * order.astype(np.int64)] = np.where(filled, ends - room, 0)
    table[2 * order.astype(np.int64) + 1] = np.where(filled, ends, 0)
    entries = np.arange(matrix.nnz) + np.repeat(matrix.indptr[order] - (ends - room), room)
    return Arrays(
        matrix.shape, segments, matrix.indices[entries], matrix.data[entries], table, sizes.astype(np.int32), matrix.nnz
    )


ScheduleKind = Literal["vector", "mixed", "streams", "adaptive", "chunks"]
#: Entries of a thread that are under way at a time, and how columns and values are loaded: as anything else (`ca`), or
#: as what is read once (`cs`). By dialect; and those of `mixed` and of `chunks`.
WAYS = {"cuda": ((1, "ca"), (2, "ca"), (2, "cs"), (4, "cs")), "opencl": ((1, "ca"), (2, "ca"))}
MIXED_WAYS = {"cuda": ((2, "ca"), (4, "cs")), "opencl": ((2, "ca"),)}
CHUNK_WAYS = {"cuda": ((4, "ca"), (4, "cs"), (8, "cs")), "opencl": ((2, "ca"), (4, "ca"))}
#: Entries for each thread from which on a row of our bins has twice as many.
PER_THREAD = (2, 4)
_TEXT = re.compile(
    r"(?P<kind>vector|mixed|streams|adaptive|chunks)(-w(?P<width>\d+))?(-e(?P<per_thread>\d+))?(-u(?P<unroll>\d+))?"
    r"(?P<cs>-cs)?(?P<exact>-exact)?"
)


@dataclass(frozen=True, order=True)
class Schedule:
    """One way to deal the entries, spelt `vector-w8-u2-cs`, `streams`, `adaptive-e4-u2`, `chunks-u4-exact`.

    Attributes
    ----------
    kind
        `vector`: so many threads for each row. `mixed`: the same, but a warp for a longer row, and a block for a row
        that is longer still; it knows nothing of the rows beforehand. `streams`: the paper's bins of rows, each by a
        kernel on a stream of its own. `adaptive`: our bins, all in one launch. `chunks`: consecutive rows of about
        equally many entries for each block.
    width
        Threads of a row, for `vector` and `mixed`; else 0.
    per_thread
        For `adaptive`: entries for each thread from which on a row has twice as many threads; else 0.
    unroll
        Entries of a thread under way at a time.
    load
        `ca` or `cs`: whether columns and values stay in the caches or are read as once.
    exact
        Whether it relies on each row being in one segment without room.
    """

    kind: ScheduleKind
    width: int = 0
    per_thread: int = 0
    unroll: int = 1
    load: str = "ca"
    exact: bool = False

    def __str__(self) -> str:
        words: list[str] = [self.kind]
        words += [f"w{self.width}"] if self.width else []
        words += [f"e{self.per_thread}"] if self.per_thread else []
        words += [f"u{self.unroll}"] if self.unroll > 1 else []
        words += [self.load] if self.load != "ca" else []
        words += ["exact"] if self.exact else []
        return "-".join(words)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read a schedule's text; the inverse of `str`.

        Raises
        ------
        ReproError
            It is no schedule's.
        """
        match = _TEXT.fullmatch(text)
        if match:
            kind: ScheduleKind = match["kind"]  # type: ignore[assignment]  # the expression has these alone
            schedule = cls(
                kind,
                int(match["width"] or 0),
                int(match["per_thread"] or 0),
                int(match["unroll"] or 1),
                "cs" if match["cs"] else "ca",
                bool(match["exact"]),
            )
            if str(schedule) == text and schedule in _EVERY:
                return schedule
        raise ReproError(
            "unknown schedule of a product",
            expected="one like vector-w8-u2-cs, streams-u2, adaptive-e4-u2-exact or chunks-u4",
            actual=text,
        )

    @property
    def papers(self) -> bool:
        """Whether the paper has it: one entry of a thread at a time, no hints, sizes read."""
        return self.kind in ("vector", "streams") and self.unroll == 1 and self.load == "ca" and not self.exact


def schedules(target: Target) -> list[Schedule]:
    """Return all schedules of a device generation, exact ones and others."""
    made: list[Schedule] = []
    for unroll, load in WAYS[target.dialect]:
        if load == "ca":
            made += [Schedule("streams", 0, 0, unroll, load)]
        for exact in (False, True):
            made += [Schedule("vector", width, 0, unroll, load, exact) for width in widths_of(target)]
            if unroll > 1:
                made += [Schedule("adaptive", 0, per_thread, unroll, load, exact) for per_thread in PER_THREAD]
    made += [
        Schedule("mixed", width, 0, unroll, load, exact)
        for unroll, load in MIXED_WAYS[target.dialect]
        for exact in (False, True)
        for width in widths_of(target)
    ]
    made += [Schedule("chunks", 0, 0, unroll, load, True) for unroll, load in CHUNK_WAYS[target.dialect]]
    return made


def usual_schedule(target: Target, mean: float) -> Schedule:
    """Return a schedule for products that are not searched, of a matrix whose rows change.

    Each thread has about four entries of a row of the mean size.
    """
    widths = widths_of(target)
    width = next((width for width in widths if 4 * width >= mean), widths[-1])
    return Schedule("mixed", width, 0, *MIXED_WAYS[target.dialect][-1])


def usual_bins(target: Target) -> Schedule:
    """Return a schedule by our bins for products that are not searched, of a matrix whose rows change little."""
    return Schedule("adaptive", 0, PER_THREAD[0], *WAYS[target.dialect][-1])


#: Those of any device.
_EVERY = frozenset(schedule for target in TARGETS.values() for schedule in schedules(target))
