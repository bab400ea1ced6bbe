"""Schedules of compound products: assignment of rows to threads, and spaces of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from repro.codegen.targets import Target
from repro.config.spaces import EXTENDED, PAPER, Space
from repro.sparse.compound.layouts import TILE_ROWS, Layout
from repro.sparse.compound.outer import get_outer

KINDS = ("static", "dynamic")
#: Our additional kinds.
DIRECT, CHUNK = "direct", "chunk"
LOADS = ("ca", "cg", "cs", "el")
#: Words for prefetching (see `Schedule.ahead`); the last one is for pairs.
AHEAD = ("", "p", "a", "f")
#: Share of L2 that `el` loads keep for the matrix between launches. The rest is for vectors and streaming data; in an
#: L2 of two partitions data read from both sides may be stored twice.
KEPT = 0.5


@dataclass(frozen=True, order=True)
class Schedule:
    """Assignment of rows to threads."""

    #: `static` (grid-stride loop), `dynamic` (blocks draw as many rows as they have threads from an atomic counter),
    #: `direct` (one pass with as many blocks as the rows take), or `chunk` (each block takes one run of rows).
    kind: str
    block_size: int
    #: Grid size per multiprocessor; in `direct` schedules it only makes the compiler leave registers for them.
    blocks_per_sm: int
    #: Threads that share a row (King's logical vector width).
    width: int = 1
    #: Entries of a row in flight per thread.
    unroll: int = 1
    #: Caching of the matrix in PTX's words: `ca` everywhere; `cg` not in L1, which is left to x; `cs` evicted first,
    #: for matrices larger than L2; `el` keeps the share `KEPT` of L2 from one launch to the next (`evict_last`) and
    #: evicts the rest first (`evict_first`).
    load: str = "ca"
    #: How a thread's next entries are requested while it adds: empty for not at all, `p` by loads into registers, `a`
    #: by asynchronous copies into shared memory (PTX's `cp.async`). With pairs both request the first entries before
    #: the barrier behind the staging of x; `a` copies x asynchronously, but not entries. `f`, of pairs alone, requests
    #: the first entries before that barrier, and no others ahead.
    ahead: str = ""
    #: Whether the row loop is kept from being unrolled, as in the authors' code; of the papers' schedules alone.
    rolled: bool = False

    @property
    def shape(self) -> str:
        """Text of the entries' distribution over threads; empty for the papers' one thread a row."""
        parts = [
            f"w{self.width}" * (self.width > 1),
            f"u{self.unroll}" * (self.unroll > 1),
            self.load * (self.load != "ca"),
            self.ahead,
        ]
        return "_".join(filter(None, parts))

    def blocks(self, n: int, sm_count: int, long_rows: int = 0) -> int:
        """Return the blocks of the grid for n rows.

        Each long row of a clustered layout has its own block, except in `static` and `dynamic` schedules.
        """
        if self.kind == DIRECT:
            return -(-(n - long_rows) * self.width // self.block_size) + long_rows
        return sm_count * self.blocks_per_sm + (long_rows if self.kind == CHUNK else 0)

    def __str__(self) -> str:
        return "-".join(
            [
                self.kind,
                str(self.block_size),
                str(self.blocks_per_sm),
                *filter(None, self.shape.split("_")),
                *(["rolled"] if self.rolled else []),
            ]
        )


def _steps(first: int, limit: int) -> list[int]:
    """Return first·2^i and first·3·2^i up to the limit, ascending."""
    powers = [first << i for i in range(32)]
    return sorted(step for step in {*powers, *(3 * p for p in powers)} if step <= limit)


def paper_space(target: Target, *, rolled: bool = True) -> list[Schedule]:
    """Return the papers' schedules within the device's limits, with the row loop `rolled` or left to the compiler.

    Block sizes are w·2^i or w·3·2^i for a warp of w threads, blocks of a multiprocessor 2^i or 3·2^i (Mueller-Roemer et
    al. 2020, section 4): 60 combinations on an `sm_90`. Every row loop of the authors' code (FhSparseGen, state of
    2022-08-31) stands under an unroll pragma of one, so `rolled` schedules are what the papers ran.
    """
    return [
        Schedule(kind, block_size, blocks_per_sm, rolled=rolled)
        for kind, block_size, blocks_per_sm in product(
            KINDS, _steps(target.warp, target.threads_per_block), _steps(1, target.blocks_per_sm)
        )
        if block_size * blocks_per_sm <= target.threads_per_sm
    ]


def extended_space(target: Target, layout: Layout) -> list[Schedule]:
    """Return our schedules for a layout: several threads a row, entries in flight, neighbouring rows together.

    Excluded are choices that lost on every tried matrix (docs/performance.md): one thread a row, more than 8 a row of
    ELLPACK or of clusters, and widths for which a warp's step is much more or less than a slice.
    """
    if layout.of_pairs:
        return _pairs_space(target, TILE_ROWS[layout.outer])
    widths = [1 << i for i in range(1, target.warp.bit_length())]
    slice_rows = get_outer(layout.outer).constants.get("slice_rows")
    if slice_rows:
        exact = max(1, target.warp // slice_rows)
        widths = [width for width in widths if exact <= 2 * width and width <= 2 * exact]
    elif layout.outer != "CSR" or layout.ordering == "clustered":
        widths = [width for width in widths if width <= 8]
    half, quarter = target.threads_per_sm // 2, target.threads_per_sm // 4
    if layout.ordering == "clustered":  # blocks that keep a multiprocessor within few clusters
        shapes = [(DIRECT, 64, half), (DIRECT, 256, half), (CHUNK, 512, half), (CHUNK, 1024, half)]
    else:  # small one-pass blocks with registers for half or a quarter of the threads, and one shape for chunks
        shapes = [(DIRECT, 64, half), (DIRECT, 64, quarter), (DIRECT, 128, half), (DIRECT, 256, half)]
        shapes.append((CHUNK, 512, half))
    searched = [
        Schedule(kind, block_size, blocks_per_sm, width, unroll, load)
        for width, unroll, load, (kind, block_size, blocks_per_sm) in product(
            widths, (1, 2, 4), ("ca", "cg", "cs"), _fitted(target, shapes)
        )
    ]
    return searched + [replace(schedule, width=width) for width in widths for schedule in _loads_space(target)]


def _loads_space(target: Target) -> list[Schedule]:
    """Return, for one thread a row, the schedules that keep a share of the matrix in L2 or prefetch.

    They are few: the effect of L2 is the same in one pass and in chunks, and four entries in flight are a whole row of
    most matrices, which leaves nothing to prefetch. Two batches of two entries need registers for a quarter of the
    threads, and copies of them a multiprocessor's shared memory. Copies have no cache hints, and chunk blocks too many
    threads.
    """
    kept = (1, 2) if target.dialect == "cuda" else ()  # elsewhere there is no word for it, and `ca` is the same
    half, quarter = target.threads_per_sm // 2, target.threads_per_sm // 4
    one_pass, roomy, chunk = (DIRECT, 64, half), (DIRECT, 64, quarter), (CHUNK, 512, half)
    return [
        *(
            Schedule(*shape, unroll=unroll, load="el")
            for shape in _fitted(target, [one_pass, chunk])
            for unroll in kept
        ),
        *(
            Schedule(*shape, unroll=unroll, load=load, ahead="p")
            for unroll, shapes in ((1, [one_pass, chunk]), (2, [roomy]))
            for shape in _fitted(target, shapes)
            for load in ("ca", "cs")
        ),
        *(
            Schedule(*shape, unroll=unroll, ahead="a")
            for unroll, shape in ((1, one_pass), (2, roomy))
            for shape in _fitted(target, [shape])
        ),
    ]


def _pairs_space(target: Target, rows: int) -> list[Schedule]:
    """Return the schedules of tiles of `rows` rows: a block each, with one thread or two a row.

    More threads have fewer registers and entries in flight. Schedules with prefetch or L2 shares have registers for a
    quarter of the threads, two entries in flight and few load types: a prefetched batch of four exceeds most rows. Only
    x is copied to shared memory asynchronously, since shared-memory bandwidth already limits pairs.
    """
    eighth = target.threads_per_sm // 8
    schedules = []
    for width in (1, 2):
        block_size = rows * width
        if block_size > target.threads_per_block:
            continue
        # several of these coincide on small multiprocessors
        three_quarters, five_eighths, half, quarter = (
            (DIRECT, block_size, _resident(target, block_size, eighth * of)) for of in (6, 5, 4, 2)
        )
        crowded = [shape for shape in (three_quarters, five_eighths) if shape not in (half, quarter)]
        schedules += [
            Schedule(*shape, width, unroll, load)
            for shape, unrolls in ((half, (1, 2, 4)), (quarter, (1, 2, 4)), *((shape, (1, 2)) for shape in crowded))
            for unroll, load in product(unrolls, ("ca", "cs"))
        ]
        roomy = Schedule(*quarter, width, 2)
        schedules += [
            *([replace(roomy, load="el")] if target.dialect == "cuda" else []),
            replace(roomy, unroll=1, load="cs", ahead="p"),
            *(replace(roomy, load=load, ahead=ahead) for load, ahead in product(("ca", "cs"), ("p", "f"))),
            replace(roomy, load="cs", ahead="a"),
        ]
    return list(dict.fromkeys(schedules))


@cache
def schedules(target: Target, space: Space, layout: Layout) -> tuple[Schedule, ...]:
    """Return the schedules of a space within the target's limits; cached, since a plan needs them for each case."""
    if space == EXTENDED:
        return tuple(extended_space(target, layout))
    return tuple(paper_space(target, rolled=space == PAPER))


def _fitted(target: Target, shapes: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return kind, block size and blocks per multiprocessor for (kind, block size, threads per multiprocessor)."""
    fitted = [(kind, min(block_size, target.threads_per_block), threads) for kind, block_size, threads in shapes]
    return list(
        dict.fromkeys(
            (kind, block_size, _resident(target, block_size, threads)) for kind, block_size, threads in fitted
        )
    )


def _resident(target: Target, block_size: int, threads: int) -> int:
    return min(target.blocks_per_sm, max(1, threads // block_size))
