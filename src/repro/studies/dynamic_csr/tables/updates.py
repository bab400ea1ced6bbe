"""Updates, defragmentation and HYB's sort over a product."""

from __future__ import annotations

from typing import NamedTuple

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


class Operation(NamedTuple):
    """One column of ours.

    Attributes
    ----------
    key, head
        Of the column.
    what, format, order
        Of the rows that it is about; any order where there is none.
    """

    key: str
    head: str
    what: str
    format: str
    order: str | None = None


#: Columns of the published table, and their heads.
PRINTED = {
    "DCSR_defragment": "DCSR defragmentation",
    "HYB_sort": "HYB sort",
    "DCSR_update": "DCSR update",
    "HYB_update": "HYB update",
}
OPERATIONS = (
    Operation("DCSR_defragment", "DCSR defragmentation", "defragment", "dcsr"),
    Operation("HYB_sort", "HYB sort", "sort", "hyb"),
    Operation("DCSR_sorted", "DCSR, by row", "stream", "dcsr", "sorted"),
    Operation("HYB_sorted", "HYB, by row", "stream", "hyb", "sorted"),
    Operation("DCSR_any", "DCSR, any order", "stream", "dcsr", "any"),
    Operation("HYB_any", "HYB, any order", "stream", "hyb", "any"),
)


@table(STUDY, "table-5-4", title="Updates, defragmentation and sort", numbering=f"Table 5.4 of {PAPER}")
def updates(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the time of each operation over that of a product with CSR."""
    precision = precision_of(campaign)
    rows = [_row(*given) for given in lined_up(campaign, published, "operations")]
    columns = (
        PROBLEM,
        *(Column(f"published_{key}", head, "published, K20c") for key, head in PRINTED.items()),
        *(Column(operation.key, operation.head, campaign.column) for operation in OPERATIONS),
        Column("product_us", "CSR product, µs", campaign.column),
    )
    caption = [
        "The time of an operation over that of one product with CSR.",
        f"Published in Table 5.4 of {PAPER}, where an update is “1000 updates”, which it does not define. Ours is",
        "another protocol: the whole grown matrix is streamed as one batch into an empty one, its entries by row or in",
        "any order, those of the same place side by side; HYB’s update includes the sort of its coordinates that a",
        "product asks for, and is spared reading back how many there are. HYB sort: of the coordinates that come in",
        "any order. CSR product: our fastest with CSR.",
        f"{precision.capitalize()} precision; the paper does not say in which its updates are.",
        OWN_MEANS,
        measured_on(campaign, CLOCK),
        context(campaign),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption), means(rows, len(PRINTED) + len(OPERATIONS)))


def _row(line: Line, theirs: Record | None, case: Case) -> tuple[Cell, ...]:
    product = timed(case, kind="variant", what="product", format="csr")
    numbers = (theirs[key] if theirs else None for key in PRINTED)
    ours = (_of(case, operation) for operation in OPERATIONS)
    return row_over(line, numbers, ours, product, "no product with CSR was timed")


def _of(case: Case, operation: Operation) -> Timed | None:
    added = {"order": operation.order, "mode": "add"} if operation.order else {}
    return timed(case, what=operation.what, format=operation.format, **added)
