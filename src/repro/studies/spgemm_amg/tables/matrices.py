"""The matrices: their sizes as printed, and ours."""

from __future__ import annotations

from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, Line, lineup, sentences, unavailable
from repro.artifacts.published import Published, Record
from repro.artifacts.registry import table
from repro.entries import get_entry
from repro.studies.spgemm_amg.paper import PAPER, STUDY

HEADS = {"unknowns": "unknowns", "nonzeros": "non-zeros"}


@table(STUDY, "table-6-1", title="The matrices", numbering=f"Table 6.1 of {PAPER}")
def matrices(campaign: Campaign, published: Published) -> Table:
    """Unknowns and non-zeros, published beside ours."""
    by_problem = {item["problem"]: item for item in published.tables.get("sizes", [])}
    columns = (
        PROBLEM,
        Column("printed", "matrix", "published", numeric=False),
        Column("abbreviation", "name", "published", numeric=False),
        *(Column(f"published_{key}", head, "published") for key, head in HEADS.items()),
        *(Column(key, head, "ours") for key, head in HEADS.items()),
    )
    rows = [_row(line, by_problem.get(line.published or "")) for line in lineup(campaign, published)]
    caption = [
        f"Unknowns and non-zeros, published in Table 6.1 of {PAPER} and ours; they do not depend on the device. The",
        "paper’s are Poisson’s equation on a square or cubic grid, its boundary left out, by stencils of so many",
        "points.",
        _without_boundary(published),
        "Of a matrix of blocks: its unknowns, and every number of its blocks.",
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def boundless(item: Record) -> int | None:
    """Return how many entries every row has by what is printed, the grid's boundary forgotten; None where it is not."""
    entries, rest = divmod(int(item["nonzeros"]), int(item["unknowns"]))
    return None if rest else entries


def _without_boundary(published: Published) -> str:
    """Return the sentence that says what is printed wrong; empty where nothing is."""
    wrong = [(item["abbreviation"], boundless(item)) for item in published.tables.get("sizes", []) if boundless(item)]
    if not wrong:
        return ""
    names = " and ".join(name for name, _ in wrong)
    return (
        f"{names} are printed with {' and '.join(f'{entries}n' for _, entries in wrong)} non-zeros, as if no point lay "
        "at the boundary, where rows are shorter; all others are printed as they are. Ours are what the grids give."
    )


def _row(line: Line, item: Record | None) -> tuple[Cell, ...]:
    theirs = [int(item[key]) for key in HEADS] if item else [None, None]
    ours = _sizes(line)
    return (
        line.cell,
        Cell(item["printed"] if item else None),
        Cell(item["abbreviation"] if item else None),
        *map(count, theirs),
        *(_beside(own, printed, item) for own, printed in zip(ours, theirs, strict=True)),
    )


def _sizes(line: Line) -> tuple[int | None, int | None]:
    record = line.record
    if record is None or record.n is None or record.nnz is None:
        return None, None
    size = get_entry(line.entry).size
    return record.n * size, record.nnz * size**2


def _beside(own: int | None, printed: int | None, item: Record | None) -> Cell:
    """Return the cell of a size of ours, noted where another one is printed."""
    cell = count(own)
    if own is None or printed is None or item is None or own == printed:
        return cell
    entries = boundless(item)
    why = f"printed as {entries} times the unknowns: rows at the boundary are shorter" if entries else "not as printed"
    return Cell(cell.value, cell.text, (why,))
