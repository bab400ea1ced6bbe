"""Memory that each way to a product takes, and what one phase costs beside two."""

from __future__ import annotations

from collections.abc import Sequence

from repro.artifacts.cells import digits, from_rows, micro, ratio, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of
from repro.studies.spgemm_amg.paper import STUDY
from repro.studies.spgemm_amg.shared_cells import micro_of, named, summary
from repro.studies.spgemm_amg.times import (
    EVENT,
    HOST,
    ONE_TUNED,
    REFILL,
    TWO_TUNED,
    WAYS,
    ProductTimes,
    Way,
    all_times,
    precision_of,
    routines_of,
)

MEGA, MICRO = 1e6, 1e6
PRODUCT = Column("product", "product", numeric=False)
#: The steps of a product in one phase, and in two, as they are printed.
STEPS = {
    ONE_TUNED: {"count": "count", "compute": "compute", "settle": "settle"},
    TWO_TUNED: {"count": "count", "symbolic": "symbolic", "place": "place", "numeric": "numeric"},
}


@table(STUDY, "table-memory", title="Memory of the products", numbering="ours")
def memory(campaign: Campaign, published: Published) -> Table:
    """The most bytes that each way takes at once, over those of C."""
    cases = _products(campaign, published)
    ways = [*WAYS, *routines_of(cases)]
    columns = (
        PROBLEM,
        PRODUCT,
        Column("c_mb", "C as CSR, MB"),
        *(Column(f"{way.key}_over_c", way.title, "most bytes at once / bytes of C") for way in WAYS),
        *(Column(f"{way.key}_over_c", way.title, f"{library_of(campaign)}, the same") for way in ways[len(WAYS) :]),
    )
    rows = [_memory(times, ways) for times in cases]
    caption = [
        "The most memory that a product takes at once beside its factors, C among it, over the bytes of C as CSR with",
        "indices of 4 bytes: what the pool grows by that all of them allocate from.",
        "On the CPU there is no such pool, and nothing is counted." if campaign.on_cpu else "",
        f"{precision_of(campaign).capitalize()} precision.",
        f"Ours: {campaign.column}, campaign {campaign.name}.",
        unavailable(campaign),
    ]
    worst = {column.key: max for column in columns if column.key.endswith("_over_c")}
    return Table(columns, rows, sentences(caption), summary(columns, rows, worst, _papers(cases)))


@table(STUDY, "table-phases", title="One phase against two", numbering="ours")
def phases(campaign: Campaign, published: Published) -> Table:
    """Times of both and of their steps, and their memory."""
    cases = _products(campaign, published)
    columns = [PROBLEM, PRODUCT]
    for way, steps in STEPS.items():
        columns.append(Column(f"{way.key}_us", "whole", f"{way.title}: µs"))
        columns += [Column(f"{way.key}_{name}_us", title, f"{way.title}: µs") for name, title in steps.items()]
    columns += [
        Column("refill_us", "numeric alone, µs"),
        Column("two_over_one", "time", "two phases over one"),
        Column("two_over_one_bytes", "memory", "two phases over one"),
    ]
    caption = [
        "One phase: rows are binned by their products, computed, and stored in segments that each cuts off as it is",
        "done, so that no row waits for another; two: the sizes of all rows are found first (symbolic), places follow",
        "from them, and the numbers come last. Count: products of rows, and bins; settle: what is left over is done",
        "again, and C is cut to its size. Both with the kernels that the search chose. Whole: the product with its",
        "allocations; steps: medians of each by events in samples of their own, so that they do not add up to it.",
        f"Numeric alone: into a C whose pattern is there, by the {EVENT} clock.",
        "Memory: the most bytes at once. Ratios are above 1 where one phase is the better; the worst is that for it.",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        unavailable(campaign),
    ]
    rows = [_phases(times) for times in cases]
    worst = {"two_over_one": min, "two_over_one_bytes": min}
    return Table(tuple(columns), rows, sentences(caption), summary(columns, rows, worst, _papers(cases)))


def _products(campaign: Campaign, published: Published) -> list[ProductTimes]:
    return [times for case in all_times(campaign, published) for times in case.products]


def _papers(cases: Sequence[ProductTimes]) -> list[bool]:
    return [times.line.published is not None for times in cases]


def _named(times: ProductTimes) -> tuple[Cell, Cell]:
    return named(times.line, "" if times.product else times.case.why_not()), Cell(times.product, times.title)


def _memory(times: ProductTimes, ways: Sequence[Way]) -> tuple[Cell, ...]:
    size = times.bytes_of_c
    return (
        *_named(times),
        Cell() if size is None else Cell(size / MEGA, digits(size / MEGA)),
        *(_over_c(times, way) for way in ways),
    )


def _over_c(times: ProductTimes, way: Way) -> Cell:
    value = times.memory(way)
    return from_rows(ratio(value), times.time(way)) if value else Cell(notes=_why_not(times, way))


def _why_not(times: ProductTimes, way: Way) -> tuple[str, ...]:
    """Return why a way has no memory on record: it has no time; nothing where that is not it."""
    return () if times.time(way) else times.why_not(way)


def _phases(times: ProductTimes) -> tuple[Cell, ...]:
    one, two = times.time(ONE_TUNED), times.time(TWO_TUNED)
    cells = [*_named(times)]
    for way, steps in STEPS.items():
        timed = times.time(way)
        cells.append(micro_of(times, way))
        cells += [_step(timed.row[f"stage_{name}"] if timed else None) for name in steps]
    one_bytes, two_bytes = (timed.row["peak_bytes"] if timed else None for timed in (one, two))
    return (
        *cells,
        micro(times.time(REFILL)),
        speedup(two, one),
        ratio(two_bytes / one_bytes if one_bytes and two_bytes else None),
    )


def _step(seconds: float | None) -> Cell:
    return Cell() if seconds is None else Cell(MICRO * seconds, digits(MICRO * seconds))
