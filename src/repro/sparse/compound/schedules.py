"""Schedules: how rows are dealt to threads, and the papers' space of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from repro.codegen.targets import Target
from repro.sparse.compound.layouts import TILE_ROWS, Layout
from repro.sparse.compound.outer import get_outer

#: The papers' schedules, and ours beside them.
SPACES = ("paper", "extended")
KINDS = ("static", "dynamic")
#: Ours beside them.
DIRECT, CHUNK = "direct", "chunk"
LOADS = ("ca", "cg", "cs", "el")
#: How what comes next is asked for ahead of its turn; the last of pairs alone.
AHEAD = ("", "p", "a", "f")
#: The share of L2 that loads of `el` are to fill with the matrix from one launch to the next. The rest is for x and y,
#: and for what streams through; and where L2 has two halves, what the multiprocessors of both read may be in both.
KEPT = 0.5


@dataclass(frozen=True, order=True)
class Schedule:
    """How rows are dealt to threads; the grid is n_s·n_b blocks on a device of n_s multiprocessors, unless `direct`.

    Attributes
    ----------
    kind
        `static` (grid-stride loop), `dynamic` (blocks draw n_t rows at a time from an atomic counter), `direct` (as
        many blocks as the rows take, one pass), or `chunk` (each block takes one run of neighbouring rows).
    n_t
        Threads per block.
    n_b
        Blocks per multiprocessor; of a `direct` schedule those that the compiler has to leave registers for.
    width
        Threads that share a row (King's logical vector width).
    unroll
        Entries of a row in flight per thread.
    load
        What the caches are to keep of the matrix, in PTX's words: `ca` everything; `cg` nothing in L1, which is left to
        x; `cs` nothing for long, for matrices that are larger than L2; `el` in L2 a share of it from one launch to the
        next (`evict_last`), as much as `KEPT` says, and the rest for as short as it can (`evict_first`).
    ahead
        How a thread's next entries are asked for while it adds up these: `` not, `p` (prefetch) by loads into
        registers, `a` by asynchronous copies into shared memory (PTX's `cp.async`). Of pairs both ask for the first
        entries before the barrier behind the staging of x, and `a` copies x asynchronously, entries never. Of pairs
        alone `f`: the first entries before that barrier, and no others ahead.
    """

    kind: str
    n_t: int
    n_b: int
    width: int = 1
    unroll: int = 1
    load: str = "ca"
    ahead: str = ""

    @property
    def shape(self) -> str:
        """How the entries of a row are dealt to threads; empty for the papers' one thread that takes one by one."""
        parts = [
            f"w{self.width}" * (self.width > 1),
            f"u{self.unroll}" * (self.unroll > 1),
            self.load * (self.load != "ca"),
            self.ahead,
        ]
        return "_".join(filter(None, parts))

    def blocks(self, n: int, n_s: int, long_rows: int = 0) -> int:
        """Return the blocks of the grid for n rows on a device of n_s multiprocessors.

        Of a clustered layout's rows the long ones have a block each, unless blocks draw or stride.
        """
        if self.kind == DIRECT:
            return -(-(n - long_rows) * self.width // self.n_t) + long_rows
        return n_s * self.n_b + (long_rows if self.kind == CHUNK else 0)

    def __str__(self) -> str:
        return "-".join([self.kind, str(self.n_t), str(self.n_b), *filter(None, self.shape.split("_"))])


def _steps(first: int, limit: int) -> list[int]:
    """Return first·2^i and first·3·2^i up to the limit, ascending."""
    powers = [first << i for i in range(32)]
    return sorted(step for step in {*powers, *(3 * p for p in powers)} if step <= limit)


def paper_space(target: Target) -> list[Schedule]:
    """Return every schedule of the papers' space on a target, pruned by the device's limits alone.

    n_t is w·2^i or w·3·2^i for a warp of w threads, n_b is 2^i or 3·2^i (Mueller-Roemer et al. 2020, section 4);
    60 pairs on an `sm_90`.
    """
    return [
        Schedule(kind, n_t, n_b)
        for kind, n_t, n_b in product(
            KINDS, _steps(target.warp, target.threads_per_block), _steps(1, target.blocks_per_sm)
        )
        if n_t * n_b <= target.threads_per_sm
    ]


def extended_space(target: Target, layout: Layout) -> list[Schedule]:
    """Return our schedules for a layout: threads that share a row, entries in flight, neighbouring rows together.

    What is left out lost on every matrix that it was tried on (docs/performance.md): one thread to a row, more than
    8 to a row of ELLPACK or of clusters, and numbers that make a warp's step much more or less than a slice.
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
    shapes = _clustered_shapes(target) if layout.ordering == "clustered" else _shapes(target)
    searched = [
        Schedule(kind, n_t, n_b, width, unroll, load)
        for width, unroll, load, (kind, n_t, n_b) in product(widths, (1, 2, 4), ("ca", "cg", "cs"), shapes)
    ]
    return searched + [replace(schedule, width=width) for width in widths for schedule in _loads_space(target)]


def _loads_space(target: Target) -> list[Schedule]:
    """Return, for one thread to a row, the schedules that keep a share of the matrix or ask ahead.

    Few, beside the many: what a share in L2 is worth shows in one pass and in chunks alike, and four entries in flight
    are a whole row of most matrices, after which there is nothing to ask for. Two batches of entries are registers for
    a quarter of the threads where a batch is two, and that is as much shared memory, too, as a multiprocessor has of
    copies. Copies have no word for what the caches are to keep, and blocks of chunks more threads than room.
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
    """Return the schedules of tiles of so many rows: a block each, with one thread or two to a row.

    More threads have fewer registers and fewer entries in flight. Those that ask for a next batch or keep a share in L2
    have registers for a quarter of the threads, two entries in flight, and few loads: a next batch of four would be
    beyond most rows. Entries are not copied to shared memory, whose pipe is what already holds pairs back; x, which
    goes there in any case, is.
    """
    eighth = target.threads_per_sm // 8
    schedules = []
    for width in (1, 2):
        n_t = rows * width
        if n_t > target.threads_per_block:
            continue
        # on small multiprocessors several of these are the same
        three_quarters, five_eighths, half, quarter = (
            (DIRECT, n_t, _resident(target, n_t, eighth * of)) for of in (6, 5, 4, 2)
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
def schedules(target: Target, space: str, layout: Layout) -> tuple[Schedule, ...]:
    """Return every schedule of a space that the target's limits admit; made once, since a plan asks for each case."""
    return tuple(paper_space(target) if space == SPACES[0] else extended_space(target, layout))


def _shapes(target: Target) -> list[tuple[str, int, int]]:
    """Return blocks for one pass, of few threads and with registers for half or a quarter of all; one for chunks."""
    half, quarter = target.threads_per_sm // 2, target.threads_per_sm // 4
    direct = [(DIRECT, 64, half), (DIRECT, 64, quarter), (DIRECT, 128, half), (DIRECT, 256, half)]
    return _fitted(target, [*direct, (CHUNK, 512, half)])


def _clustered_shapes(target: Target) -> list[tuple[str, int, int]]:
    """Return blocks that keep a multiprocessor within few clusters."""
    half = target.threads_per_sm // 2
    return _fitted(target, [(DIRECT, 64, half), (DIRECT, 256, half), (CHUNK, 512, half), (CHUNK, 1024, half)])


def _fitted(target: Target, shapes: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Turn (kind, threads of a block, threads of a multiprocessor) to (kind, n_t, n_b) within the target's limits."""
    fitted = [(kind, min(n_t, target.threads_per_block), threads) for kind, n_t, threads in shapes]
    return list(dict.fromkeys((kind, n_t, _resident(target, n_t, threads)) for kind, n_t, threads in fitted))


def _resident(target: Target, n_t: int, threads: int) -> int:
    """Return how many blocks of n_t threads come to so many threads of a multiprocessor; one at the least."""
    return min(target.blocks_per_sm, max(1, threads // n_t))
