"""Cells that several tables of this study have, and the lines that sum them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from repro.artifacts.case import Timed
from repro.artifacts.cells import digits, micro
from repro.artifacts.document import Cell, Column
from repro.artifacts.lineup import Line
from repro.artifacts.numbers import geometric_mean, interval_of, scaled
from repro.studies.spgemm_amg.times import ProductTimes, Way

MILLI = 1e3
Worst = Callable[[Iterable[float]], float]


def milli(timed: Timed | None, why: str = "") -> Cell:
    """Return a time in milliseconds; without one why there is none, if that is to be said."""
    if timed is None:
        return Cell(notes=(why,) if why else ())
    value = MILLI * timed.seconds
    return Cell(value, digits(value), timed.notes, (timed.key,), scaled(interval_of(timed), MILLI))


def micro_of(times: ProductTimes, way: Way) -> Cell:
    """Return the time of a way in microseconds, or why it has none."""
    timed = times.time(way)
    return micro(timed) if timed else Cell(notes=times.why_not(way))


def three_digits(value: float | None) -> Cell:
    """Return a positive number with three significant digits."""
    return Cell() if value is None else Cell(value, digits(value))


def named(line: Line, why: str = "") -> Cell:
    """Return the name of a problem, with its remark and, of one that could be had, why it has no numbers."""
    cell = line.cell
    available = line.record is not None and line.record.available
    return replace(cell, notes=(*cell.notes, why)) if why and available else cell


def summary(
    columns: Sequence[Column],
    rows: Sequence[tuple[Cell, ...]],
    worst: Mapping[str, Worst],
    of_the_papers: Sequence[bool],
) -> list[tuple[Cell, ...]]:
    """Return lines with the geometric mean and the worst of some columns: of all rows, and of the paper's problems.

    Parameters
    ----------
    columns, rows
        Of the table.
    worst
        By the key of a column which of its numbers is the worst; other columns stay empty.
    of_the_papers
        For each row whether it is of a problem of the paper. Where all are, or none is, one pair of lines says all.
    """
    theirs = [row for row, papers in zip(rows, of_the_papers, strict=True) if papers]
    groups = [(", the paper’s problems", theirs)] if theirs and len(theirs) < len(rows) else []
    lines = []
    for suffix, group in (("", rows), *groups):
        numbers = [
            [float(value) for row in group if (value := row[place].value) is not None] if column.key in worst else []
            for place, column in enumerate(columns)
        ]
        if not any(numbers):
            continue
        means = (three_digits(geometric_mean(values)) for values in numbers[1:])
        least = (
            three_digits(worst[column.key](values) if values else None)
            for column, values in zip(columns[1:], numbers[1:], strict=True)
        )
        lines += [(Cell(f"geometric mean{suffix}"), *means), (Cell(f"worst{suffix}"), *least)]
    return lines
