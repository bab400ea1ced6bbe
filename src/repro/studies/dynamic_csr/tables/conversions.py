"""Conversions between formats over a copy of CSR."""

from __future__ import annotations

from repro.artifacts.case import Case, Timed
from repro.artifacts.cells import micro
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, Line, context, lineup, measured_on, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.operation_times import CLOCK, OWN_MEANS, means, precision_of, quotient, timed
from repro.studies.dynamic_csr.paper import PAPER, STUDY
from repro.studies.dynamic_csr.printed import printed

#: From which format to which, as the paper's table has them.
CONVERSIONS = ("COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "CSR-HYB", "DCSR-CSR")


@table(STUDY, "table-5-3", title="Conversions between formats", numbering=f"Table 5.3 of {PAPER}")
def conversions(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the time of each conversion over that of a copy from CSR to CSR."""
    precision = precision_of(campaign)
    theirs = {item["problem"]: item for item in published["conversions"]}
    rows = [
        _row(line, theirs.get(line.published or ""), Case(campaign, line.problem, precision))
        for line in lineup(campaign, published)
    ]
    columns = (
        PROBLEM,
        *(Column(f"published_{name}", _head(name), "published, K20c") for name in CONVERSIONS),
        *(Column(name, _head(name), campaign.column) for name in CONVERSIONS),
        Column("copy_us", "CSR→CSR, µs", campaign.column),
    )
    caption = [
        "The time of a conversion over that of copying the three arrays of CSR.",
        f"Published in Table 5.3 of {PAPER}; ours of the grown matrix, in memory that is there already. Coordinates",
        "come sorted by row; dynamic CSR comes with one segment a row, and becomes CSR by its defragmentation. HYB’s",
        "regular part has the width that the paper’s Table 5.2 follows from.",
        f"{precision.capitalize()} precision; the paper does not say in which its conversions are.",
        OWN_MEANS,
        measured_on(campaign, CLOCK),
        context(campaign),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption), means(rows, 2 * len(CONVERSIONS)))


def _head(name: str) -> str:
    return name.replace("-", "→")


def _row(line: Line, theirs: Record | None, case: Case) -> tuple[Cell, ...]:
    copy = _timed(case, "CSR-CSR")
    cells = (printed(theirs[name]) if theirs else Cell() for name in CONVERSIONS)
    ours = (quotient(_timed(case, name), copy) for name in CONVERSIONS)
    there = line.record is not None and line.record.available
    name = line.cell
    if copy is None and there:
        name = Cell(name.value, name.text, (*name.notes, "no copy from CSR to CSR was timed"))
    return (name, *cells, *ours, micro(copy))


def _timed(case: Case, name: str) -> Timed | None:
    source, target = name.lower().split("-")
    return timed(case, what="convert", format=source, to_format=target)
