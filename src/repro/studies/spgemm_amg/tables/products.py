"""Every product of every problem: ours, the paper's, the sort of all products and the library's."""

from __future__ import annotations

from repro.artifacts.cells import count, ratio, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of
from repro.studies.spgemm_amg.paper import STUDY
from repro.studies.spgemm_amg.shared_cells import micro_of, named, summary, three_digits
from repro.studies.spgemm_amg.times import (
    COORDINATES,
    EVENT,
    HOST,
    LIBRARY,
    ONE,
    ONE_TUNED,
    OURS,
    PAPER,
    REFILL,
    REUSE,
    TWO_TUNED,
    ProductTimes,
    Way,
    all_times,
)

#: What our column may name: the way by a row's mode and method.
OUR_WAYS = {
    ("one", "default"): ONE.title,
    ("one", "tuned"): ONE_TUNED.title,
    ("two", "tuned"): TWO_TUNED.title,
    ("refill", "default"): "untuned",
    ("refill", "tuned"): "tuned",
}
RATIOS = {"paper_over_ours": min, "coordinates_over_ours": min, "library_over_ours": min, "reuse_over_refill": min}
WORST = {**RATIOS, "gflops": min, "library_gflops": min}


@table(STUDY, "table-products", title="The products, problem by problem", numbering="ours")
def products(campaign: Campaign, published: Published) -> Table:
    """A line a problem, product and precision; geometric means and the worst of ratios and GFLOPS below."""
    by_precision = [all_times(campaign, published, precision) for precision in campaign.precisions]
    cases = [times for cases in zip(*by_precision, strict=True) for case in cases for times in case.products]
    library = library_of(campaign)
    columns = _columns(library)
    caption = [
        "C = A B of A·A and of the two products of the first level’s set-up, A·P with the prolongator P and R·(A·P)",
        "with its transpose R. Products: multiplications that C takes; compression: of them an entry of C is the sum",
        "of, in the mean. Whole products, from factors on the device to C there, memory allocated on the way: ours,",
        "the fastest of one phase, which cuts segments off as rows are done, with the expected kernels and with those",
        "that the search chose for each bin, and of two phases, sizes first, with those; the paper’s: one phase, rows",
        "sorted in shared memory; all products sorted by row and column, the method that the paper compares with;",
        f"{library}: its fastest routine. GFLOPS: two operations a product. Numeric phase: the numbers alone, into a C",
        f"whose pattern is there, {'which SciPy has not' if campaign.on_cpu else 'the library’s of SpGEMMreuse'}.",
        "Ratios: times over ours, above 1 where ours is the faster.",
        measured_on(campaign, HOST),
        f"Numeric phases by the {EVENT} clock.",
        unavailable(campaign),
    ]
    rows = [_row(times) for times in cases]
    return Table(
        columns,
        rows,
        sentences(caption),
        summary(columns, rows, WORST, [times.line.published is not None for times in cases]),
    )


def _columns(library: str) -> tuple[Column, ...]:
    over = "times over ours"
    return (
        PROBLEM,
        Column("product", "product", numeric=False),
        Column("precision", "precision", numeric=False),
        Column("products", "products"),
        Column("nonzeros", "entries of C"),
        Column("compression", "compression"),
        Column("ours", "way", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("paper_us", "the paper’s", "µs"),
        Column("coordinates_us", "sort of all", "µs"),
        Column("library", "routine", library, numeric=False),
        Column("library_us", "µs", library),
        Column("paper_over_ours", "the paper’s", over),
        Column("coordinates_over_ours", "sort of all", over),
        Column("library_over_ours", library, over),
        Column("gflops", "ours", "GFLOPS"),
        Column("library_gflops", library, "GFLOPS"),
        Column("refill", "kernels", "numeric phase", numeric=False),
        Column("refill_us", "ours, µs", "numeric phase"),
        Column("reuse_us", f"{library}, µs", "numeric phase"),
        Column("reuse_over_refill", "over ours", "numeric phase"),
    )


def _row(times: ProductTimes) -> tuple[Cell, ...]:
    ours, library = times.time(OURS), times.time(LIBRARY)
    return (
        named(times.line, "" if times.product else times.case.why_not()),
        Cell(times.product, times.title),
        Cell(times.case.precision, ABBREVIATIONS[times.case.precision]),
        count(times.products),
        count(times.nonzeros),
        ratio(times.compression),
        _way(times, OURS),
        micro_of(times, OURS),
        micro_of(times, PAPER),
        micro_of(times, COORDINATES),
        Cell(library.row["routine"] if library else None),
        micro_of(times, LIBRARY),
        *(speedup(times.time(way), ours) for way in (PAPER, COORDINATES, LIBRARY)),
        three_digits(times.gflops(ours)),
        three_digits(times.gflops(library)),
        _way(times, REFILL),
        micro_of(times, REFILL),
        micro_of(times, REUSE),
        speedup(times.time(REUSE), times.time(REFILL)),
    )


def _way(times: ProductTimes, way: Way) -> Cell:
    """Return the cell that names the fastest of ours."""
    timed = times.time(way)
    return Cell(timed.name, OUR_WAYS.get((timed.row["mode"], timed.row["method"]), timed.name)) if timed else Cell()
