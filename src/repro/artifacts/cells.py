"""Cells that many tables have: times, fractions, ratios, counts."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log10

from repro.artifacts.case import Case, Timed
from repro.artifacts.document import Cell
from repro.artifacts.numbers import interval_of, interval_of_ratio, ratio_of, scaled

MICRO = 1e6


def micro(timed: Timed | None, case: Case | None = None) -> Cell:
    """Return a time in microseconds, three significant digits; with its case, noted where it is mostly launch."""
    if timed is None:
        return Cell()
    value = timed.seconds * MICRO
    near = case.launch_note("graph", timed) if case else ()
    return Cell(value, digits(value), (*timed.notes, *near), (timed.key,), scaled(interval_of(timed), MICRO))


def from_rows(cell: Cell, *times: Timed | None) -> Cell:
    """Return a cell with the keys of the rows that its value is from."""
    return replace(cell, keys=tuple(dict.fromkeys((*cell.keys, *(timed.key for timed in times if timed)))))


def digits(value: float) -> str:
    """Return a positive number with three significant digits and no exponent; below 1 with two, which say enough."""
    if 0 < value < 0.0995:
        return f"{value:.{1 - floor(log10(value))}f}"
    for limit, places in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def percent(fraction: float | None) -> Cell:
    """Return a fraction in percent."""
    return Cell() if fraction is None else Cell(100 * fraction, f"{100 * fraction:.0f} %")


def ratio(value: float | None) -> Cell:
    """Return a speedup."""
    return Cell() if value is None else Cell(value, f"{value:.2f}")


def speedup(base: Timed | None, over: Timed | None) -> Cell:
    """Return how many times faster the second is than the first, with the interval of that."""
    return from_rows(replace(ratio(ratio_of(base, over)), interval=interval_of_ratio(base, over)), base, over)


def share(part: Timed | None, whole: Timed | None) -> Cell:
    """Return one time as a fraction of another in percent, with the interval of that."""
    cell = replace(percent(ratio_of(part, whole)), interval=scaled(interval_of_ratio(part, whole), 100))
    return from_rows(cell, part, whole)


def count(number: int | None) -> Cell:
    """Return a number with its thousands apart."""
    return Cell() if number is None else Cell(number, f"{number:,}".replace(",", "\N{NO-BREAK SPACE}"))


def tied(timed: Timed | None, tie: float) -> tuple[str, ...]:
    """Note how many other variants the search found within a tie of a winner."""
    return (f"tie: {len(timed.ties)} more within {100 * tie:g} %",) if timed and timed.ties else ()
