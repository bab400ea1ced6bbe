"""The matrices: their sizes, and how long their rows are."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, Line, lineup, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.studies.dynamic_csr.paper import PAPER, STUDY
from repro.studies.dynamic_csr.shared_cells import facts_of, printed, shortened

HEADS = {
    "nonzeros": "non-zeros",
    "rows": "rows",
    "columns": "columns",
    "mean": "mean row",
    "deviation": "deviation",
    "longest": "longest row",
}
#: From here on the paper prints the longest row in thousands.
LONG = 10_000


@table(STUDY, "table-5-1", title="The matrices", numbering=f"Table 5.1 of {PAPER}")
def graphs(campaign: Campaign, published: Published) -> Table:
    """Sizes and row lengths, published beside ours."""
    by_problem = {item["problem"]: item for item in published["sizes"]}
    rows = [
        (line.cell, *_theirs(by_problem.get(line.published or "")), *_ours(line))
        for line in lineup(campaign, published)
    ]
    columns = (
        PROBLEM,
        *(Column(f"published_{key}", head, "published") for key, head in HEADS.items()),
        *(Column(key, head, "ours") for key, head in HEADS.items()),
    )
    caption = [
        "The matrices before the first batch of updates: sizes, and mean, standard deviation and maximum of the",
        f"entries in a row, published in Table 5.1 of {PAPER} and ours. Both are printed as the paper does: counts in",
        "thousands (K) and millions (M) and the mean cut off; the deviation is about the mean that is cut off, and",
        "rounded. The CSV file has ours in full.",
        "They do not depend on the device.",
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _theirs(item: Record | None) -> tuple[Cell, ...]:
    return tuple(printed(item[key] if item else None) for key in HEADS)


def _ours(line: Line) -> tuple[Cell, ...]:
    facts = facts_of(line)
    if not facts:
        return (Cell(),) * len(HEADS)
    return (
        shortened(facts["nonzeros"], "KM"),
        shortened(facts["rows"], "K"),
        shortened(facts["columns"], "K"),
        Cell(facts["mean"], str(int(facts["mean"]))),
        Cell(facts["deviation"], f"{facts['deviation']:.0f}"),
        shortened(facts["longest"], "K", LONG),
    )
