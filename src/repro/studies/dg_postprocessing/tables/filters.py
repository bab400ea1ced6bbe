"""Every field: the paper's two ways, the same tuned, and ours."""

from __future__ import annotations

from repro.artifacts.cells import percent, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.dg_postprocessing.filter_times import (
    ATOMIC,
    ELEMENT,
    ELEMENT_TUNED,
    OURS,
    POINT,
    POINT_TUNED,
    WAYS,
    Filtering,
    all_fields,
)
from repro.studies.dg_postprocessing.paper import CLOCK, STUDY
from repro.studies.dg_postprocessing.shared_cells import FIELD, heads, milli_of, summary, three_digits
from repro.studies.dg_postprocessing.work import formula

RATED = (POINT, ELEMENT, OURS)
OVERS = (POINT, ELEMENT, POINT_TUNED, ELEMENT_TUNED, ATOMIC)


@table(STUDY, "table-filters", title="Filtering, field by field", numbering="ours")
def filters(campaign: Campaign, published: Published) -> Table:
    """A line a field; geometric means and the least of ratios below."""
    fields = all_fields(campaign, published)
    peaks = any(field.peak for field in fields)
    columns = (
        *FIELD,
        *(Column(f"{way.key}_ms", way.title, "ms") for way in WAYS),
        Column("chosen", "ours", numeric=False),
        Column("element_over_point", "per element over per point", "speedup"),
        *(Column(f"{way.key}_over_ours", f"ours over {way.title}", "speedup") for way in OVERS),
        *(Column(f"{way.key}_mpoints", way.title, "M points/s") for way in RATED),
        *(Column(f"{way.key}_gflops", way.title, "GFLOPS") for way in RATED),
        *(Column(f"{way.key}_peak", way.title, "of the peak") for way in RATED if peaks),
    )
    rows = [_row(field, peaks) for field in fields]
    caption = [
        "A field filtered at its quadrature points. Per point and per element: the paper’s algorithms, a block or a",
        "patch a multiprocessor and its sizes of cells; tuned: the same with other numbers and sizes; ours: contours,",
        "per point. Atomics: per element without copies, all patches add to one solution by atomic operations, in",
        "any order, so that the last bits of its values differ from launch to launch; those of all other ways do not.",
        "Each with the fastest threads and sizes that the search chose. Speedups are above 1 where the",
        "first is the faster.",
        formula(),
        peak_words(fields),
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    keys = ("element_over_point", *(f"{way.key}_over_ours" for way in OVERS))
    return Table(columns, rows, sentences(caption), summary(columns, rows, keys))


def peak_words(fields: list[Filtering]) -> str:
    """Return the sentence about the device's largest rate in double precision."""
    peak = next((field.peak for field in fields if field.peak), None)
    if peak is None:
        return "The device’s largest rate in double precision is not known, so that no share of it is printed."
    rate = f"{peak:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"Of the peak: of {rate} GFLOPS, two operations a cycle and lane at the device’s highest clock."


def _row(field: Filtering, peaks: bool) -> tuple[Cell, ...]:
    ours = field.time(OURS)
    timed = any(field.time(way) for way in WAYS)
    times = {way: field.time(way) for way in RATED}
    return (
        *heads(field, "" if timed else field.case.why_not()),
        *(milli_of(field, way) for way in WAYS),
        Cell(ours.name if ours else None),
        speedup(times[POINT], times[ELEMENT]),
        *(speedup(field.time(way), ours) for way in OVERS),
        *(three_digits(field.million_points(time)) for time in times.values()),
        *(three_digits(field.gflops(time)) for time in times.values()),
        *(percent(field.peak_share(time)) for time in times.values() if peaks),
    )
