"""How many chunks of each problem use which encoding, at the tuned K."""

from __future__ import annotations

from itertools import product

from repro.artifacts.cells import count, from_rows
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compressed_coo.paper import PAPER, STUDY
from repro.studies.compressed_coo.times import Times, all_times, encodings, precision_of

#: All encodings of a chunk of the paper's format; 16-bit rows are ours and need no padding.
ENCODINGS = {
    f"{rows}/{columns}/{values}": (rows, columns, values)
    for rows, columns, values in product(("none", "8"), ("8", "16", "32"), ("table", "plain"))
}
HEADS = {"none": "one row: no row offsets", "8": "8-bit row offsets"}


@table(STUDY, "table-1", title="Encodings of the chunks", numbering=f"Table 1 of {PAPER}")
def chunks(campaign: Campaign, published: Published) -> Table:
    """A line a problem: the share of its chunks that each encoding has."""
    cases = all_times(campaign, published, precision_of(campaign))
    used = {name for case in cases for name in encodings(case.compressed)}
    shown = [name for name in ENCODINGS if name in used]
    unused = [name for name in ENCODINGS if name not in used]
    columns = (
        PROBLEM,
        Column("K", "K"),
        Column("K_event", "K, by events"),
        Column("chunks", "chunks"),
        *(_column(name) for name in shown),
    )
    caption = [
        f"The encodings of Table 1 of {PAPER}, and how many of each problem’s chunks have which, in percent, in the",
        "compressed COO with the fastest K: row indices none (the chunk is one row) or as 8-bit offsets from the",
        "chunk’s first row; column indices as 8-, 16- or 32-bit offsets from its base column; values as 8-bit indices",
        "into the table of the 256 most frequent (table), or as they are (plain). K by events: the fastest by the",
        "other clock.",
        f"Used by no chunk (rows/columns/values): {', '.join(unused)}." if used and unused else "",
        f"{precision_of(campaign).capitalize()} precision. Nothing of the shares is published.",
        measured_on(campaign, "graph"),
        unavailable(campaign),
    ]
    return Table(columns, [_row(case, shown) for case in cases], sentences(caption))


def _column(name: str) -> Column:
    rows, columns, values = ENCODINGS[name]
    return Column(f"percent_{name}".replace("/", "_"), f"{columns}-bit, {values}", HEADS[rows])


def _row(case: Times, shown: list[str]) -> tuple[Cell, ...]:
    best, other = case.compressed, case.case.winner("joint", "event")
    chunks = encodings(best)
    total = sum(chunks.values())
    there = case.line.record is not None and case.line.record.available
    why = (case.case.why_not(),) if best is None and there else ()
    return (
        case.line.cell,
        from_rows(Cell(best.row["per_thread"] if best else None, notes=why), best),
        from_rows(Cell(other.row["per_thread"] if other else None), other),
        count(total or None),
        *(_share(chunks.get(name, 0), total) for name in shown),
    )


def _share(chunks: int, total: int) -> Cell:
    if not total:
        return Cell()
    value = 100 * chunks / total
    return Cell(value, f"{value:.1f}" if value >= 0.05 else "< 0.1" if chunks else "0")
