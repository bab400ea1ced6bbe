"""Schedules: how rows are dealt to threads, and the papers' space of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from repro.codegen.targets import Target
from repro.studies.compound_spmv.layout import Layout
from repro.studies.compound_spmv.outer import get_outer

#: The papers' schedules, and ours beside them.
SPACES = ("paper", "extended")
KINDS = ("static", "dynamic")
#: Ours beside them.
DIRECT, CHUNK = "direct", "chunk"
LOADS = ("ca", "cg", "cs")


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
        x; `cs` nothing for long, for matrices that are larger than L2.
    """

    kind: str
    n_t: int
    n_b: int
    width: int = 1
    unroll: int = 1
    load: str = "ca"

    @property
    def shape(self) -> str:
        """How the entries of a row are dealt to threads; empty for the papers' one thread that takes one by one."""
        parts = [
            f"w{self.width}" * (self.width > 1),
            f"u{self.unroll}" * (self.unroll > 1),
            self.load * (self.load != "ca"),
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
    widths = [1 << i for i in range(1, target.warp.bit_length())]
    slice_rows = get_outer(layout.outer).constants.get("slice_rows")
    if slice_rows:
        exact = max(1, target.warp // slice_rows)
        widths = [width for width in widths if exact <= 2 * width and width <= 2 * exact]
    elif layout.outer != "CSR" or layout.ordering == "clustered":
        widths = [width for width in widths if width <= 8]
    shapes = _clustered_shapes(target) if layout.ordering == "clustered" else _shapes(target)
    return [
        Schedule(kind, n_t, n_b, width, unroll, load)
        for width, unroll, load, (kind, n_t, n_b) in product(widths, (1, 2, 4), LOADS, shapes)
    ]


def schedules(target: Target, space: str, layout: Layout) -> list[Schedule]:
    """Return every schedule of a space that the target's limits admit."""
    return paper_space(target) if space == SPACES[0] else extended_space(target, layout)


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
    return list(dict.fromkeys((kind, n_t, max(1, threads // n_t)) for kind, n_t, threads in fitted))
