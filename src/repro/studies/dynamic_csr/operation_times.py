"""What the tables of updates and conversions share: the time of an operation on a problem, by what its row says."""

from __future__ import annotations

from statistics import fmean

from repro.artifacts.case import Case, Timed, fastest
from repro.artifacts.cells import ratio
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell
from repro.bench.runnable import Clock

#: What an update changes is put back before each launch, which no replayed batch can do.
CLOCK: Clock = "event"
#: Of a table that prints published numbers and ours of a campaign with other problems.
OWN_MEANS = "A mean is over the problems of its own column: the published are of all the paper’s graphs, ours of ours."


def precision_of(campaign: Campaign) -> str:
    """Return the precision that these tables print: the campaign's first, single where it has both."""
    return campaign.precisions[0]


def timed(case: Case, **columns: str) -> Timed | None:
    """Return the fastest row with these values of columns, None if none has a time."""
    rows = [row for row in case.rows if all(row.get(name) == value for name, value in columns.items())]
    return fastest(rows, CLOCK)


def over(operation: Timed | None, base: Timed | None) -> float | None:
    """Return the time of an operation over that of what it is measured by."""
    return operation.seconds / base.seconds if operation and base else None


def quotient(operation: Timed | None, base: Timed | None) -> Cell:
    """Return the cell of an operation's time over what it is measured by, marked where the operation's is noisy.

    What it is measured by has a column, and its mark there.
    """
    value = over(operation, base)
    return Cell() if value is None else Cell(value, f"{value:.2f}", operation.notes if operation else ())


def means(rows: list[tuple[Cell, ...]], columns: int) -> list[tuple[Cell, ...]]:
    """Return a line with the means of the first columns behind the name, over what is there."""
    if not rows:
        return []
    cells: list[Cell] = [Cell("mean")]
    for place in range(1, len(rows[0])):
        values = [float(value) for row in rows if (value := row[place].value) is not None] if place <= columns else []
        cells.append(ratio(fmean(values)) if values else Cell())
    return [tuple(cells)]
