"""Conversions between formats over a copy of CSR."""

from __future__ import annotations

from repro.artifacts.case import Case, Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, Line, context, measured_on, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.operation_times import (
    CLOCK,
    OWN_MEANS,
    lined_up,
    means,
    precision_of,
    row_over,
    timed,
)
from repro.studies.dynamic_csr.paper import PAPER, STUDY

#: From which format to which, as the paper's table has them.
CONVERSIONS = ("COO-CSR", "COO-DCSR", "COO-HYB", "CSR-DCSR", "CSR-HYB", "DCSR-CSR")


@table(STUDY, "table-5-3", title="Conversions between formats", numbering=f"Table 5.3 of {PAPER}")
def conversions(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the time of each conversion over that of a copy from CSR to CSR."""
    precision = precision_of(campaign)
    rows = [_row(*given) for given in lined_up(campaign, published, "conversions")]
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
    numbers = (theirs[name] if theirs else None for name in CONVERSIONS)
    ours = (_timed(case, name) for name in CONVERSIONS)
    return row_over(line, numbers, ours, _timed(case, "CSR-CSR"), "no copy from CSR to CSR was timed")


def _timed(case: Case, name: str) -> Timed | None:
    source, target = name.lower().split("-")
    return timed(case, what="convert", format=source, to_format=target)
