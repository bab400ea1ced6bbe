"""Variants of compound products, each a layout and a schedule. Only this module formats and parses their ids.

A layout is an outer format, an inner order, a vector order and a row order. The inner order AoSoA stores tiles of 32
slots. An entry's members are split into chunks of one load each. The same chunk of all 32 slots is contiguous, so each
load of a warp is contiguous and as wide as possible. In AoS a thread strides over entries of 36 or 72 bytes; in SoA it
needs a load for each member. A schedule assigns rows to threads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.bench.variant_id import BaseId, SearchPoint
from repro.codegen.targets import Target
from repro.codegen.templates import LOAD_BYTES
from repro.entries import Entry
from repro.errors import ReproError
from repro.sparse.compound.outer import get_outer, outer_formats
from repro.sparse.ordering import UNKNOWNS
from repro.words import EXTENDED, PAPER, Space, suggestion

F = TypeVar("F", bound=np.generic)

#: Number of slots per tile: the threads of a warp.
TILE = 32


def chunks(members: int, scalar_bytes: int) -> list[tuple[int, int]]:
    """Split an entry into loads: (first member, number of members) of each.

    The numbers of members are powers of two, the largest first.
    """
    widths, first = [], 0
    width = LOAD_BYTES // scalar_bytes
    while first < members:
        while width > members - first:
            width //= 2
        widths.append((first, width))
        first += width
    return widths


def tiled_slots(slots: int) -> int:
    return -(-slots // TILE) * TILE


def tile(entries: NDArray[F]) -> NDArray[F]:
    """Return the entries as a flat array, tile by tile of 32 slots.

    In a tile they are chunk by chunk of members (`chunks`), slot by slot; `entries` is `(slots, members)` with a
    multiple of 32 slots.
    """
    count, members = entries.shape
    tiles = entries.reshape(count // TILE, TILE, members)
    tiled = np.empty((count // TILE, TILE * members), entries.dtype)
    for first, width in chunks(members, entries.dtype.itemsize):
        part = tiled[:, TILE * first : TILE * (first + width)]
        part[:] = tiles[:, :, first : first + width].reshape(len(tiled), TILE * width)
    return tiled.ravel()


#: The papers' orders of the members of an entry.
ORDER = ("AoS", "SoA")
#: Orders of the members of matrix entries; AoSoA, in tiles of 32 slots (see `tile`), is an addition of this project,
#: like the padding of vector entries to a power of two.
INNER = (*ORDER, "AoSoA")
VECTOR = (*ORDER, "Padded")
#: Number of rows per tile, by the name of the pair format (`repro.sparse.pairs`).
TILE_ROWS = {f"Pairs-{rows}": rows for rows in (64, 128, 256)}
#: Outer formats of the space `extended`, in addition to pair formats.
EXTENDED_FORMATS = ("CSR", "ELLPACK", "Sl-4", "Sl-8")
#: A further one, for entries of few members: a thread has a row of a slice, and loads many entries at once. Entries of
#: more members fill its registers by themselves.
WIDE_SLICES, FEW_MEMBERS = "Sl-32", 2
CLUSTERED = ("CSR", "Sl-4", "Sl-8")
#: Outer formats whose rows are sorted by length in the space `extended`.
SORTED = ("Sl-8", "Sl-32")
#: (outer, vector) orders that the space `extended` omits: in 36 recorded cases none was fastest, except in a tie with
#: another variant.
NEVER_BEST = (("ELLPACK", "Padded"), ("Sl-8", "Padded"))
#: Orders in which only rows are stored, while both vectors keep theirs: `clustered`, rows with similar entries of x
#: together, and `sigma`, rows of similar length; with the name of each in `repro.sparse.ordering.permutation`. The
#: other orders renumber the unknowns, and so x and y.
STORED_ORDERS = {"clustered": "bisected", "sigma": "sigma"}
ORDERINGS = ("natural", *STORED_ORDERS, *UNKNOWNS[1:])


@dataclass(frozen=True, order=True)
class Layout:
    """A layout.

    Its text is as in the papers, `CSR-AoS-AoS` or `ELL-SoA-AoS`, with additional words for layouts of ours.
    """

    #: `CSR`, `ELL` (ELLPACK-R), `Sl-k` (sliced ELLPACK, slices of k rows), see `outer`; or `Pairs-k` (each pair of a
    #: symmetric matrix is stored once, in tiles of k rows), see `repro.sparse.pairs`.
    outer: str
    #: Order of the members of the matrix entries: `AoS`, `SoA`, or `AoSoA` (tiles of 32 slots).
    inner: str
    #: Order of the members of both vectors: `AoS`, `SoA`, or `Padded` (AoS, each entry padded to a power of two).
    vector: str
    #: Order of the rows: `natural`, or one of `repro.sparse.ordering`, which is appended to the text:
    #: `CSR-AoS-AoS@clustered`.
    ordering: str = "natural"

    def __str__(self) -> str:
        return f"{self.outer}-{self.inner}-{self.vector}" + f"@{self.ordering}" * (self.ordering != "natural")

    @property
    def stores_pairs(self) -> bool:
        """Whether each pair of a symmetric matrix is stored once, in tiles of `TILE_ROWS` rows."""
        return self.outer in TILE_ROWS

    @property
    def unknowns(self) -> str:
        """Order of the unknowns, and thus of x and y: one of `repro.sparse.ordering.UNKNOWNS`."""
        return "natural" if self.permutes_rows else self.ordering

    @property
    def permutes_rows(self) -> bool:
        """Whether rows alone are stored in another order."""
        return self.ordering in STORED_ORDERS

    @property
    def stored(self) -> Layout:
        """The layout without the order of the unknowns, or the kind of row order: its kernel depends on neither."""
        return replace(self, ordering="clustered" if self.permutes_rows else "natural")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Parse the papers' spelling, the inverse of `str`; unknown text raises `ReproError`."""
        name, _, ordering = text.strip().partition("@")
        outer, inner, vector = ([""] * 3 + name.rsplit("-", 2))[-3:]
        layout = cls(outer, inner, vector, ordering or "natural")
        outers = [*outer_formats(), *TILE_ROWS]
        if (
            layout.outer not in outers
            or layout.inner not in INNER
            or layout.vector not in VECTOR
            or layout.ordering not in ORDERINGS
            or text.endswith("@")
        ):
            near = (str(cls(*parts, ordering or "natural")) for parts in product(outers, INNER, VECTOR))
            raise ReproError(
                "unknown layout",
                expected=f"outer-inner-vector with outer one of {', '.join(outers)}, inner one of {', '.join(INNER)}, "
                f"vector one of {', '.join(VECTOR)}, and after it, where rows are reordered, "
                f"{', '.join(f'@{ordering}' for ordering in ORDERINGS[1:])}",
                actual=f"{text}{suggestion(text, near)}",
                todo="write it as the papers do, for example Sl-32-SoA-AoS; `repro list layouts` prints all",
            )
        permuted = [*CLUSTERED, WIDE_SLICES, *(TILE_ROWS if ordering == "clustered" else ())]
        if layout.permutes_rows and outer not in permuted:
            raise ReproError(
                f"this format does not support the row order {ordering}",
                expected=f"one of {', '.join(permuted)}",
                actual=text,
            )
        return layout


REFERENCE = Layout("CSR", "AoS", "AoS")


def all_layouts() -> list[Layout]:
    """Return the papers' 16 layouts and those of added formats, the reference layout first."""
    outers = [outer.name for outer in outer_formats().values() if outer.space == "paper"]
    layouts = [Layout(*parts) for parts in product(outers, ORDER, ORDER)]
    return sorted(layouts, key=lambda layout: layout != REFERENCE)


def extended_layouts(entry: Entry) -> list[Layout]:
    """Return the layouts of the space `extended` for an entry.

    All have the inner order AoSoA, as no matrix gained by another one. Of the papers' outer formats with padding there
    are only slices of 32 rows, and rows are sorted only for slices, both for entries of few members: no matrix of
    others gained more than 1 % by them, or by ELLPACK-R or slices of 16 rows (docs/performance.md). Pair formats need
    entries with values.
    """
    vectors = ["AoS"] if entry.size & (entry.size - 1) == 0 else ["AoS", "Padded"]
    combinations = [
        (outer, vector) for outer, vector in product(EXTENDED_FORMATS, vectors) if (outer, vector) not in NEVER_BEST
    ]
    natural = [Layout(outer, "AoSoA", vector) for outer, vector in combinations]
    few_members = len(entry.members) <= FEW_MEMBERS
    natural += [Layout(WIDE_SLICES, "AoSoA", "AoS")] if few_members else []
    natural += [Layout(outer, "AoSoA", "AoS") for outer in TILE_ROWS if entry.members]
    clustered = (*CLUSTERED, *TILE_ROWS)
    return [
        *natural,
        *(replace(layout, ordering="clustered") for layout in natural if layout.outer in clustered),
        *(replace(layout, ordering="sigma") for layout in natural if few_members and layout.outer in SORTED),
    ]


DYNAMIC = "dynamic"
PAPERS_KINDS = ("static", DYNAMIC)
#: Kinds of schedules that this project adds.
DIRECT, CHUNK, SPLIT = "direct", "chunk", "split"
#: Kinds whose kernels write to memory of their own, so that two launches must not overlap.
WITH_SCRATCH = (DYNAMIC, SPLIT)
#: Entries of a run for each lane of a warp, in `split` schedules.
RUN_OF_LANE = 8
LOADS = ("ca", "cg", "cs", "el")
#: Share of L2 that `el` loads keep for the matrix between launches. The rest is for vectors and streaming data; in an
#: L2 of two partitions, data that both sides read may be stored twice.
L2_SHARE = 0.5


#: Recorded columns of the fields of a schedule that have other names there.
RECORDED_AS = {
    "kind": "schedule",
    "block_size": "n_t",
    "blocks_per_sm": "n_b",
    "in_flight": "unroll",
    "prefetch": "ahead",
}


@dataclass(frozen=True, order=True)
class Schedule:
    """Assignment of rows to threads."""

    #: `static` (grid-stride loop), `dynamic` (a block draws as many rows as it has threads from an atomic counter),
    #: `direct` (one pass with as many blocks as the rows need), `chunk` (each block takes one run of rows), or `split`
    #: (each warp takes an equal run of entries, which may begin and end within a row; CSR only).
    kind: str
    block_size: int
    #: Blocks per multiprocessor. They set the grid size; in `direct` and `split` schedules they only limit the
    #: registers per thread.
    blocks_per_sm: int
    #: Threads that share a row (King's logical vector width).
    width: int = 1
    #: Number of entries of a row that a thread loads at once; in `split` schedules, entries of any rows.
    in_flight: int = 1
    #: Cache hint for loads of the matrix, in PTX's words: `ca`, cached at all levels; `cg`, not in L1, which is left to
    #: x; `cs`, evicted first, for matrices larger than L2; `el`, the share `L2_SHARE` of L2 is kept from one launch to
    #: the next (`evict_last`) and the rest is evicted first (`evict_first`).
    load: str = "ca"
    #: How a thread prefetches its next entries while it adds: empty, not at all; `p`, by loads into registers; `a`, by
    #: asynchronous copies into shared memory (PTX's `cp.async`). In pair formats, `p` and `a` request the first entries
    #: before the barrier that follows the loading of x into shared memory; `a` copies x asynchronously, but not
    #: entries. `f`, of pair formats only, requests the first entries before that barrier, and prefetches no others.
    prefetch: str = ""
    #: Whether the compiler must not unroll the row loop, as in the authors' code; only for the papers' schedules.
    rolled: bool = False

    @classmethod
    def column_names(cls) -> dict[str, str]:
        """Return the recorded column of each field."""
        return {field.name: RECORDED_AS.get(field.name, field.name) for field in fields(cls)}

    @property
    def shape(self) -> str:
        """Text of how entries are distributed over threads; empty for one thread per row, as in the papers."""
        parts = [
            f"w{self.width}" * (self.width > 1),
            f"u{self.in_flight}" * (self.in_flight > 1),
            self.load * (self.load != "ca"),
            self.prefetch,
        ]
        return "_".join(filter(None, parts))

    def blocks(self, n: int, sm_count: int, long_rows: int = 0) -> int:
        """Return the number of blocks of the grid for n rows.

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

    Block sizes are w·2^i or w·3·2^i for a warp of w threads, blocks per multiprocessor 2^i or 3·2^i (Mueller-Roemer et
    al. 2020, section 4): 60 combinations on an `sm_90`. Every row loop of the authors' code (FhSparseGen, state of
    2022-08-31) has the pragma `unroll 1`, so `rolled` schedules are what the papers ran.
    """
    return [
        Schedule(kind, block_size, blocks_per_sm, rolled=rolled)
        for kind, block_size, blocks_per_sm in product(
            PAPERS_KINDS, _steps(target.warp, target.threads_per_block), _steps(1, target.blocks_per_sm)
        )
        if block_size * blocks_per_sm <= target.threads_per_sm
    ]


def extended_space(target: Target, layout: Layout) -> list[Schedule]:
    """Return our schedules for a layout.

    Several threads per row, several entries in flight, and runs of rows per block.

    Excluded are choices that lost on every tried matrix (docs/performance.md): one thread per row, more than 8 per row
    of ELLPACK or of clusters, and widths for which a warp's step is much more or less than a slice.
    """
    if layout.stores_pairs:
        return _pairs_space(target, TILE_ROWS[layout.outer])
    if layout.outer == WIDE_SLICES or layout.ordering == "sigma":
        return _slices_space(target, layout.outer)
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
    else:  # `direct` with small blocks and registers for half or a quarter of the threads; one shape for `chunk`
        shapes = [(DIRECT, 64, half), (DIRECT, 64, quarter), (DIRECT, 128, half), (DIRECT, 256, half)]
        shapes.append((CHUNK, 512, half))
    split = _split_space(target) if layout.outer == "CSR" and layout.ordering == "natural" else []
    searched = [
        Schedule(kind, block_size, blocks_per_sm, width, in_flight, load)
        for width, in_flight, load, (kind, block_size, blocks_per_sm) in product(
            widths, (1, 2, 4), ("ca", "cg", "cs"), _fit_shapes(target, shapes)
        )
    ]
    prefetched = [replace(schedule, width=width) for width in widths for schedule in _loads_space(target)]
    return searched + prefetched + split


def _slices_space(target: Target, outer: str) -> list[Schedule]:
    """Return the schedules of slices of 32 rows, of a thread per row or two, and of sorted ones of 8, of 4 or 8."""
    half = target.threads_per_sm // 2
    wide = outer == WIDE_SLICES
    return [
        Schedule(*shape, width, in_flight, load)
        for shape in _fit_shapes(target, [(DIRECT, 128, half), (DIRECT, 256, half)])
        for width, in_flight in (((1, 4), (1, 8), (2, 2), (2, 4)) if wide else ((4, 2), (4, 4), (8, 2), (8, 4)))
        for load in ("ca", "cg", "cs")
    ]


def _split_space(target: Target) -> list[Schedule]:
    """Return the schedules that split rows over warps."""
    threads = [target.threads_per_sm * quarters // 4 for quarters in (2, 3, 4)]
    return [
        Schedule(*shape, in_flight=in_flight, load=load)
        for shape in _fit_shapes(target, [(SPLIT, 128, resident) for resident in threads])
        for in_flight, load in product((4, RUN_OF_LANE), ("ca", "cs"))
    ]


def _loads_space(target: Target) -> list[Schedule]:
    """Return, for one thread per row, the schedules that keep a share of the matrix in L2 or that prefetch.

    There are few of them. The effect of L2 is the same for `direct` and `chunk`. Four entries in flight are a whole row
    of most matrices, so nothing remains to prefetch. Two batches of two entries need so many registers that a quarter
    of the threads is resident, or, if copied, all of the shared memory. Asynchronous copies have no cache hints, and
    blocks of `chunk` have too many threads for them.
    """
    # OpenCL has no such cache hint, and `ca` would be the same
    evict_last_depths = (1, 2) if target.dialect == "cuda" else ()
    half, quarter = target.threads_per_sm // 2, target.threads_per_sm // 4
    one_pass, roomy, chunk = (DIRECT, 64, half), (DIRECT, 64, quarter), (CHUNK, 512, half)
    return [
        *(
            Schedule(*shape, in_flight=in_flight, load="el")
            for shape in _fit_shapes(target, [one_pass, chunk])
            for in_flight in evict_last_depths
        ),
        *(
            Schedule(*shape, in_flight=in_flight, load=load, prefetch="p")
            for in_flight, shapes in ((1, [one_pass, chunk]), (2, [roomy]))
            for shape in _fit_shapes(target, shapes)
            for load in ("ca", "cs")
        ),
        *(
            Schedule(*shape, in_flight=in_flight, prefetch="a")
            for in_flight, shape in ((1, one_pass), (2, roomy))
            for shape in _fit_shapes(target, [shape])
        ),
    ]


def _pairs_space(target: Target, n_rows: int) -> list[Schedule]:
    """Return the schedules of tiles of `n_rows` rows: one block per tile, with one thread or two per row.

    More threads leave fewer registers and entries in flight for each. Schedules with prefetch or L2 shares have
    registers for a quarter of the threads, two entries in flight and few cache hints: a prefetched batch of four
    exceeds most rows. Only x is copied to shared memory asynchronously, since shared-memory bandwidth already limits
    pair formats.
    """
    eighth = target.threads_per_sm // 8
    schedules = []
    for width in (1, 2):
        block_size = n_rows * width
        if block_size > target.threads_per_block:
            continue
        # several of these coincide on small multiprocessors
        three_quarters, five_eighths, half, quarter = (
            (DIRECT, block_size, _resident(target, block_size, eighth * eighths)) for eighths in (6, 5, 4, 2)
        )
        crowded_shapes = [shape for shape in (three_quarters, five_eighths) if shape not in (half, quarter)]
        schedules += [
            Schedule(*shape, width, in_flight, load)
            for shape, unrolls in (
                (half, (1, 2, 4)),
                (quarter, (1, 2, 4)),
                *((shape, (1, 2)) for shape in crowded_shapes),
            )
            for in_flight, load in product(unrolls, ("ca", "cs"))
        ]
        roomy = Schedule(*quarter, width, 2)
        schedules += [
            *([replace(roomy, load="el")] if target.dialect == "cuda" else []),
            replace(roomy, in_flight=1, load="cs", prefetch="p"),
            *(replace(roomy, load=load, prefetch=prefetch) for load, prefetch in product(("ca", "cs"), ("p", "f"))),
            replace(roomy, load="cs", prefetch="a"),
        ]
    return list(dict.fromkeys(schedules))


@cache
def schedules(target: Target, space: Space, layout: Layout) -> tuple[Schedule, ...]:
    """Return the schedules of a space within the target's limits; cached, as a plan asks for them once per case."""
    if space == EXTENDED:
        return tuple(extended_space(target, layout))
    return tuple(paper_space(target, rolled=space == PAPER))


def _fit_shapes(target: Target, shapes: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return kind, block size and blocks per multiprocessor for (kind, block size, threads per multiprocessor)."""
    limited_shapes = [
        (kind, min(block_size, target.threads_per_block), threads) for kind, block_size, threads in shapes
    ]
    return list(
        dict.fromkeys(
            (kind, block_size, _resident(target, block_size, threads)) for kind, block_size, threads in limited_shapes
        )
    )


def _resident(target: Target, block_size: int, threads: int) -> int:
    return min(target.blocks_per_sm, max(1, threads // block_size))


_SCHEDULE = re.compile(
    rf"(?P<kind>{'|'.join((*PAPERS_KINDS, DIRECT, CHUNK, SPLIT))})-(?P<n_t>\d+)-(?P<n_b>\d+)"
    r"(-w(?P<width>\d+))?(-u(?P<in_flight>\d+))?(-(?P<load>cg|cs|el))?(-(?P<prefetch>p|a|f))?(-(?P<rolled>rolled))?"
)


@dataclass(frozen=True, order=True)
class VariantId(BaseId):
    """A layout with a schedule; its text is such as `Sl-32-SoA-AoS/static-256-4`."""

    layout: Layout
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.layout}/{self.schedule}"

    @classmethod
    def _read(cls, text: str) -> VariantId:
        layout_text, _, schedule_text = text.partition("/")
        layout = Layout.parse(layout_text)
        parts = _SCHEDULE.fullmatch(schedule_text)
        if parts is None:
            raise ReproError(
                "unknown schedule",
                where=text,
                expected="kind-n_t-n_b, kind static, dynamic, direct, chunk or split, after it -w and -u with numbers, "
                "-cg, -cs or -el, and -p, -a or -f; or -rolled alone, of static and dynamic",
                actual=schedule_text or "only a layout",
                todo="write the variant as in the tables, for example Sl-32-SoA-AoS/static-256-4",
            )
        schedule = Schedule(
            parts["kind"],
            int(parts["n_t"]),
            int(parts["n_b"]),
            int(parts["width"] or 1),
            int(parts["in_flight"] or 1),
            parts["load"] or "ca",
            parts["prefetch"] or "",
            bool(parts["rolled"]),
        )
        rows, splits = TILE_ROWS.get(layout.outer, 0), schedule.kind == SPLIT
        refused = {
            "only the papers' schedules have a loop that is not unrolled": (
                schedule.rolled and (schedule.kind not in PAPERS_KINDS or schedule.shape),
                "static or dynamic, one thread a row, before -rolled", schedule,
            ),
            "only CSR splits rows over warps": (
                splits and (layout.outer != "CSR" or layout.permutes_rows),
                "CSR-…/split-…, rows in their order", layout,
            ),
            "a schedule that splits rows over warps has neither threads a row nor prefetches": (
                splits and (schedule.width > 1 or schedule.prefetch or RUN_OF_LANE % schedule.in_flight),
                f"split-n_t-n_b, after it -u with a divisor of {RUN_OF_LANE}, -cg, -cs or -el", schedule,
            ),
            "only tiles can be loaded so": (
                (schedule.load != "ca" or schedule.prefetch) and layout.inner != "AoSoA",
                "AoSoA with -cg, -cs, -el, -p, -a or -f", layout.inner,
            ),
            "a schedule that there is for pairs alone": (
                not rows and (schedule.prefetch == "f" or (schedule.prefetch == "a" and schedule.load != "ca")),
                "-f for pairs; for others no word of loads beside -a, whose copies have none",
                schedule,
            ),
            "pairs use one block per tile": (
                rows and (schedule.kind != DIRECT or schedule.block_size != rows * schedule.width),
                f"{DIRECT}-{rows}-… for one thread to a row, {DIRECT}-{2 * rows}-…-w2 for two, and so on", schedule,
            ),
        }  # fmt: skip
        for message, (is_refused, expected, actual) in refused.items():
            if is_refused:
                raise ReproError(message, where=text, expected=expected, actual=actual)
        return cls(layout, schedule)

    @property
    def columns(self) -> dict[str, Any]:
        layout, schedule = self.layout, self.schedule
        return {
            "layout": str(layout),
            "ordering": layout.unknowns,
            "outer": layout.outer,
            "inner": layout.inner,
            "vector": layout.vector,
            "clustered": layout.ordering == "clustered",
            **{column: getattr(schedule, name) for name, column in schedule.column_names().items()},
        }

    @property
    def point(self) -> SearchPoint:
        layout, schedule = self.layout, self.schedule
        outer, _, rows = layout.outer.partition("-")
        sizes = (int(rows or 1), schedule.block_size, schedule.blocks_per_sm, schedule.width, schedule.in_flight)
        load = schedule.load if schedule.load != "ca" else ""
        kind = f"{schedule.kind}-rolled" if schedule.rolled else schedule.kind
        words = (outer, layout.inner, layout.vector, layout.ordering, kind, load, schedule.prefetch)
        return SearchPoint.of(str(layout), words, sizes)


#: Names of routines that an operator can run in place of a variant: cuSPARSE's for CSR and one vector.
ROUTINES = ("cuSPARSE CSR ALG1", "cuSPARSE CSR ALG2")


@dataclass(frozen=True, order=True)
class RoutineId(VariantId):
    """A library's routine for a matrix in plain CSR; our schedule is for products with several vectors."""

    layout: Layout = Layout("CSR", "AoS", "AoS")
    schedule: Schedule = Schedule(SPLIT, 128, 8, in_flight=8)
    name: str = ROUTINES[0]

    def __str__(self) -> str:
        return self.name


def fitting_variant(name: str, target: Target) -> VariantId:
    """Return the variant of a given name; raise `ReproError` if it is unknown, or exceeds the target's limits."""
    return fitting(VariantId.parse(name), target)


def fitting(id: VariantId, target: Target) -> VariantId:
    """Return the variant if its schedule is within the target's limits; otherwise raise `ReproError`."""
    schedule = id.schedule
    threads, blocks, width = schedule.block_size, schedule.blocks_per_sm, schedule.width
    resident, widths = threads * blocks, [1 << i for i in range(target.warp.bit_length())]
    requirements = {
        f"{threads} threads a block, not 1 to {target.threads_per_block}": 0 < threads <= target.threads_per_block,
        f"{threads} threads a block, no multiple of {target.warp}": threads % target.warp == 0,
        f"{blocks} blocks a multiprocessor, not 1 to {target.blocks_per_sm}": 0 < blocks <= target.blocks_per_sm,
        f"{resident} threads a multiprocessor, over {target.threads_per_sm}": resident <= target.threads_per_sm,
        f"{width} threads a row, no power of two up to {target.warp}": width in widths,
        f"{schedule.in_flight} entries in flight": schedule.in_flight > 0,
    }
    if unmet := next((words for words, met in requirements.items() if not met), None):
        raise ReproError(
            f"{target.name} does not support the schedule: {unmet}",
            where=id,
            todo="choose another schedule, or " + ("another target" if target.dialect == "cuda" else "run it on a GPU"),
        )
    return id
