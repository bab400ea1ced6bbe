"""The matrices of the study."""

from __future__ import annotations

from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compressed_coo.paper import PAPER, STUDY
from repro.studies.compressed_coo.times import LARGE, Times, all_times, precision_of


@table(STUDY, "table-2", title="The matrices", numbering=f"Table 2 of {PAPER}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """A line a problem, by growing numbers of non-zeros."""
    cases = all_times(campaign, published, precision_of(campaign))
    columns = (
        PROBLEM,
        Column("rows", "rows"),
        Column("nonzeros", "non-zeros"),
        Column("nonzeros_per_row", "per row"),
        Column("values", "values", numeric=False),
        Column("remark", "remark", numeric=False),
    )
    sizes = [case.n for case in cases if case.n]
    caption = [
        f"The matrices. The paper took real, square matrices of more than {LARGE:,} rows from the SuiteSparse",
        f"collection; here {sum(n > LARGE for n in sizes)} of {len(sizes)} are as large. Values repeat: most chunks of",
        "the compressed COO with the fastest K look their values up in the table of the 256 most frequent; else they",
        "are distinct.",
        unavailable(campaign),
    ]
    return Table(columns, [_row(case) for case in cases], sentences(caption))


def _row(case: Times) -> tuple[Cell, ...]:
    record = case.line.record
    remark: str | None = (record.remark or (record.origin or {}).get("note")) if record else None
    mean = case.nnz / case.n if case.n else None
    return (
        Cell(case.line.problem),
        count(case.n or None),
        count(case.nnz or None),
        Cell() if mean is None else Cell(mean, f"{mean:.1f}"),
        Cell(case.values),
        Cell(remark, remark or " "),
    )
