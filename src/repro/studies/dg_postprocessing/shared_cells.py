"""Cells that several tables of this study have."""

from __future__ import annotations

from collections.abc import Sequence

from repro.artifacts.case import Timed
from repro.artifacts.cells import count, digits
from repro.artifacts.document import Cell, Column
from repro.artifacts.lineup import PROBLEM
from repro.artifacts.numbers import geometric_mean, interval_of, scaled
from repro.studies.dg_postprocessing.filter_times import Filtering, Way

MILLI, MEGA, GIGA = 1e3, 1e6, 1e9
#: The first columns of a table with a line a field.
FIELD = (
    PROBLEM,
    Column("variance", "variance", numeric=False),
    Column("degree", "P"),
    Column("triangles", "triangles"),
)


def milli(timed: Timed | None, why: tuple[str, ...] = ()) -> Cell:
    """Return a time in milliseconds; without one why there is none, if that is to be said."""
    if timed is None:
        return Cell(notes=why)
    value = MILLI * timed.seconds
    # a microsecond has three digits still
    text = digits(value) if value >= 1 else f"{value:.3f}"
    return Cell(value, text, timed.notes, (timed.key,), scaled(interval_of(timed), MILLI))


def milli_of(field: Filtering, way: Way) -> Cell:
    """Return the time of a way in milliseconds, or why it has none."""
    timed = field.time(way)
    return milli(timed, () if timed else field.why_not(way))


def three_digits(value: float | None) -> Cell:
    """Return a positive number with three significant digits."""
    return Cell() if value is None else Cell(value, digits(value))


def scientific(value: float | None) -> Cell:
    """Return a number of any size, with three significant digits and an exponent."""
    return Cell() if value is None else Cell(value, f"{value:.2e}")


def gain(value: float | None) -> Cell:
    """Return an order, or the ratio of two errors, which may be far from 1 or below."""
    return Cell() if value is None else Cell(value, f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}")


def heads(field: Filtering, why: str = "") -> tuple[Cell, ...]:
    """Return the cells of `FIELD`; of one that could be had also why it has no numbers."""
    cell = field.line.cell
    available = field.line.record is not None and field.line.record.available
    named = Cell(cell.value, cell.text, (*cell.notes, why)) if why and available else cell
    return named, Cell(field.family or None), Cell(field.degree), count(field.triangles)


def summary(columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]], keys: Sequence[str]) -> list[tuple[Cell, ...]]:
    """Return two lines with the geometric mean and the least of some columns; none where nothing is in them.

    Parameters
    ----------
    columns, rows
        Of the table.
    keys
        Of the columns; others stay empty.
    """
    numbers = [
        [float(value) for row in rows if (value := row[place].value) is not None] if column.key in keys else []
        for place, column in enumerate(columns)
    ]
    if not any(numbers):
        return []
    return [
        (Cell("geometric mean"), *(three_digits(geometric_mean(values)) for values in numbers[1:])),
        (Cell("least"), *(three_digits(min(values, default=None)) for values in numbers[1:])),
    ]
