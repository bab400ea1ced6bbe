"""What the tables of updates and conversions share: the time of an operation on a problem, by what its row says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.cells import from_rows, micro, ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell
from repro.artifacts.lineup import Line, lineup
from repro.artifacts.published import Published, Record
from repro.bench.runnable import Clock
from repro.studies.dynamic_csr.precision import precision_of_operations
from repro.studies.dynamic_csr.shared_cells import printed

#: What an update changes is put back before each launch, which no replayed batch can do.
CLOCK: Clock = "event"
#: Of a table that prints published numbers and ours of a campaign with other problems.
OWN_MEANS = "A mean is over the problems of its own column: the published are of all the paper’s graphs, ours of ours."


def precision_of(campaign: Campaign) -> str:
    """Return the precision that these tables print: the one that operations are timed in."""
    return precision_of_operations(campaign.precisions)


def timed(case: Case, **columns: str) -> Timed | None:
    """Return the fastest row with these values of columns, None if none has a time."""
    rows = [row for row in case.rows if all(row.get(name) == value for name, value in columns.items())]
    return fastest(rows, CLOCK)


def over(operation: Timed | None, base: Timed | None) -> float | None:
    """Return the time of an operation over that of what it is measured by."""
    return operation.seconds / base.seconds if operation and base else None


def lined_up(campaign: Campaign, published: Published, file: str) -> Iterator[tuple[Line, Record | None, Case]]:
    """Yield the problems of a table, what a published file has of each, and each as it was timed."""
    theirs = {item["problem"]: item for item in published[file]}
    precision = precision_of(campaign)
    for line in lineup(campaign, published):
        yield line, theirs.get(line.published or ""), Case(campaign, line.problem, precision)


def row_over(
    line: Line, theirs: Iterable[str | None], ours: Iterable[Timed | None], base: Timed | None, lacking: str
) -> tuple[Cell, ...]:
    """Return the cells of a problem: its name, what is printed of it, our times over that of a base, and that one.

    Parameters
    ----------
    line
        The problem.
    theirs
        Numbers as printed, None where there is none.
    ours
        The operations that are measured by the base.
    base
        None where it was not timed.
    lacking
        What the name is told then, of a problem that could be had.
    """
    name = line.cell
    if base is None and line.record is not None and line.record.available:
        name = Cell(name.value, name.text, (*name.notes, lacking))
    return (name, *map(printed, theirs), *(quotient(operation, base) for operation in ours), micro(base))


def quotient(operation: Timed | None, base: Timed | None) -> Cell:
    """Return the cell of an operation's time over what it is measured by, marked where the operation's is noisy.

    What it is measured by has a column, and its mark there.
    """
    value = over(operation, base)
    if value is None:
        return Cell()
    return from_rows(Cell(value, f"{value:.2f}", operation.notes if operation else ()), operation)


def means(rows: list[tuple[Cell, ...]], columns: int) -> list[tuple[Cell, ...]]:
    """Return a line with the means of the first columns behind the name, over what is there."""
    if not rows:
        return []
    cells: list[Cell] = [Cell("mean")]
    for place in range(1, len(rows[0])):
        values = [float(value) for row in rows if (value := row[place].value) is not None] if place <= columns else []
        cells.append(ratio(fmean(values)) if values else Cell())
    return [tuple(cells)]
