"""The default variant of a product, chosen by the lengths of the rows; its set-up only packs the matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, INDEX_BYTES, Target
from repro.entries import get_entry
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.variants import FEW_MEMBERS, RUN_OF_LANE, WIDE_SLICES, VariantId, fitting_variant
from repro.sparse.ordering import longest_short

#: Of entries of many members, by entry and precision: among all recorded variants without an ordering, it has the
#: smallest mean slowdown relative to the fastest variant of each problem of the campaign `h200` (geometric mean 1.23 to
#: 1.33, at most 2.1). Entries of users have that of block3.
RECORDED = {
    ("block3", "single"): "CSR-AoSoA-AoS/direct-128-8-w8-u2",
    ("block3", "double"): "CSR-AoSoA-AoS/direct-64-8-w8-u2",
    ("quaternion", "single"): "CSR-AoSoA-AoS/direct-64-16-w4-u2-cs",
    ("quaternion", "double"): "CSR-AoSoA-AoS/direct-64-8-w4-u2",
}
#: On the CPU, which runs the threads of a block in sequence, a block's rows are contiguous for caching. A row that has
#: more than a `SHARE_OF_CPU`-th of all entries, and more than LONG_ON_CPU, is split over the cores.
ON_CPU, LONG_ON_CPU, SHARE_OF_CPU = "CSR-AoS-AoS/direct-64-3", 10_000, 4
SPLIT_ON_CPU = "CSR-AoS-AoS/split-64-3-u8"
#: With more slots per entry than this, rows are sorted by length before they are cut into slices. From SOME entries of
#: the mean row on, a thread then has IN_FLIGHT entries in flight, else SHARED_IN_FLIGHT.
MAX_SLICED_PADDING, SOME = 1.1, 4
#: Threads that keep a GPU busy, by which few rows have several threads each, of at least MIN_SHARE entries. Slices are
#: for up to MAX_SLICED_WIDTH threads per row, and at least MIN_SLICED_ROWS rows; of more threads, CSR's are faster.
BUSY_THREADS, MIN_SHARE, MAX_SLICED_WIDTH, MIN_SLICED_ROWS = 1 << 16, 3, 4, 12_000
#: Largest numbers of entries in flight of one thread, for entries of up to 8 bytes and of more; more would not fit in
#: the registers. At most SHARED_IN_FLIGHT in CSR, whose rows are more uneven, and where three or more threads share a
#: row.
IN_FLIGHT, WIDE_IN_FLIGHT, NARROW_BYTES, SHARED_IN_FLIGHT = 8, 5, 8, 4
#: A row is long if its threads take more steps for it than MAX_STEPS, and than one step for each BYTES_OF_STEP of the
#: matrix, which a GPU reads while a thread waits for the loads of a step: then most of the GPU would wait for this row.
MAX_STEPS, BYTES_OF_STEP = 32, 3 << 20
#: Long rows of up to MOST_OF_BLOCK entries have a block each in matrices of at most SMALL_ENTRIES entries, since these
#: blocks end sooner than a second launch would begin.
SMALL_ENTRIES, MOST_OF_BLOCK = 1 << 19, 1 << 13
#: If matrix and vectors have more bytes, too little of the matrix stays in a GPU's L2 from one product to the next, so
#: caches evict it first; of schedules that split rows, more stays there.
LARGE_BYTES, LARGE_SPLIT_BYTES = 40 << 20, 48 << 20


@dataclass(frozen=True)
class Rows:
    """What the choice depends on: number of rows and entries, the longest row, and slots in slices of 32 rows."""

    count: int
    entries: int
    longest: int
    sliced: int

    @classmethod
    def of(cls, lengths: NDArray[np.int32]) -> Rows:
        """Return those of rows of given lengths, `(n,)`."""
        slots, _ = get_outer(WIDE_SLICES).count(lengths, 1)
        return cls(len(lengths), int(lengths.sum(dtype=np.int64)), int(lengths.max(initial=0)), slots)

    @classmethod
    def described(cls, count: int, entries: int, lengths: Mapping[str, float] | None = None) -> Rows:
        """Return an estimate by a matrix's statistics: quantiles of its row lengths; without them, rows are even."""
        if lengths is None:
            return cls(count, entries, -(-entries // max(count, 1)), entries)
        return cls(count, entries, int(lengths["max"]), max(entries, int(count * lengths["q3"])))

    @property
    def mean(self) -> float:
        return self.entries / max(self.count, 1)


def default_variant(entry: str, precision: str, rows: Rows, target: Target) -> VariantId:
    """Return the default variant for vectors in the user's order.

    Rows of entries of few members are stored in slices, with one thread per row, or up to four if rows are few; before,
    uneven rows are sorted by length. Fewer rows, and those of other entries, are stored in CSR, with about a thread for
    two to four entries of the mean row. If a row is too long for either, rows are split over warps, but in small
    matrices, where long rows have a block each. Thresholds are from times of 24 matrices on an H200.
    """
    on_cpu = SPLIT_ON_CPU if rows.longest > max(LONG_ON_CPU, rows.entries / SHARE_OF_CPU) else ON_CPU
    return fitting_variant(_on_gpu(entry, precision, rows, target) if target.dialect == "cuda" else on_cpu, target)


def _on_gpu(entry: str, precision: str, rows: Rows, target: Target) -> str:
    members = len(get_entry(entry).members)
    entry_bytes = members * DTYPES[precision]().nbytes
    nbytes = rows.entries * (entry_bytes + INDEX_BYTES)
    total_bytes = nbytes + 2 * rows.count * entry_bytes
    hint = "-cs" if total_bytes > LARGE_BYTES else ""
    steps = max(MAX_STEPS, nbytes // BYTES_OF_STEP)
    few_members, padding = members <= FEW_MEMBERS, rows.sliced / max(rows.entries, 1)
    is_few, is_small = rows.count < MIN_SLICED_ROWS, rows.entries <= SMALL_ENTRIES
    has_long = rows.longest > longest_short(rows.count, rows.entries)  # in slices, each has a block
    if few_members and is_small and has_long and rows.longest <= MOST_OF_BLOCK:
        return f"Sl-8-AoSoA-AoS@sigma/direct-128-8-w{8 if is_few else 4}-u2"
    if few_members and not is_few:
        wanted = 1 << max(0, round(math.log2(BUSY_THREADS / rows.count)))
        width = min(wanted, MAX_SLICED_WIDTH, _power_of_two(rows.mean / MIN_SHARE))
        most = IN_FLIGHT if entry_bytes <= NARROW_BYTES else WIDE_IN_FLIGHT
        most = min(most, SHARED_IN_FLIGHT) if width > 2 else most
        # equal batches, so that few loads are in vain: 5 entries in flight for rows of 5, 7 for rows of 27
        share = max(1.0, (rows.mean - 0.1) / width)  # regardless of a few longer rows
        in_flight = math.ceil(share / math.ceil(share / most))
        layout = f"{WIDE_SLICES if width <= 2 else 'Sl-8'}-AoSoA-AoS"
        schedule = f"direct-{'256-4' if width == 1 else '128-8'}"
        if padding <= MAX_SLICED_PADDING and rows.longest <= steps * in_flight * width:
            return f"{layout}/{schedule}{_threads(width, in_flight)}{hint}"
        if not has_long:
            is_short = rows.mean < SOME * width or rows.longest <= MAX_STEPS * width
            in_flight = min(most, SHARED_IN_FLIGHT) if is_short else most
            return f"{layout}@sigma/{schedule}{_threads(width, in_flight)}{hint}"
    width = min(target.warp, _power_of_two(rows.mean if is_few else rows.mean / 2))
    if rows.longest > steps * width:
        is_large = total_bytes > LARGE_SPLIT_BYTES
        blocks = (16 if is_large else 12) if entry_bytes < NARROW_BYTES else 12 if members < FEW_MEMBERS else 8
        in_flight = RUN_OF_LANE if members < FEW_MEMBERS else 4 if few_members else 2
        blocks = 8 if is_small else min(blocks, target.threads_per_sm // 128)
        return f"CSR-AoSoA-AoS/split-128-{blocks}-u{in_flight}{'-cs' if is_large else ''}"
    if not few_members:
        return RECORDED.get((entry, precision), RECORDED["block3", precision])
    in_flight = 2 if rows.mean <= 2 * width else SHARED_IN_FLIGHT
    return f"CSR-AoSoA-AoS/direct-128-8{_threads(width, in_flight)}{hint}"


def _power_of_two(number: float) -> int:
    """Return the largest power of two up to a number; at least 1."""
    return 1 << (max(1, int(number)).bit_length() - 1)


def _threads(width: int, in_flight: int) -> str:
    return f"-w{width}" * (width > 1) + f"-u{in_flight}" * (in_flight > 1)
