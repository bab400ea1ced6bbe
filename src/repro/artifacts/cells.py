"""Cells that many tables have: times, fractions, ratios, counts."""

from __future__ import annotations

from repro.artifacts.case import Case, Timed
from repro.artifacts.document import Cell

MICRO = 1e6


def micro(timed: Timed | None, case: Case | None = None) -> Cell:
    """Return a time in microseconds, three significant digits; with its case, noted where it is mostly launch."""
    if timed is None:
        return Cell()
    value = timed.seconds * MICRO
    near = case.launch_note("graph", timed) if case else ()
    return Cell(value, digits(value), (*timed.notes, *near))


def digits(value: float) -> str:
    """Return a positive number with three significant digits and no exponent."""
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


def count(number: int | None) -> Cell:
    """Return a number with its thousands apart."""
    return Cell() if number is None else Cell(number, f"{number:,}".replace(",", "\N{NO-BREAK SPACE}"))


def tied(timed: Timed | None, tie: float) -> tuple[str, ...]:
    """Note how many other variants the search found within a tie of a winner."""
    return (f"tie: {len(timed.ties)} more within {100 * tie:g} %",) if timed and timed.ties else ()
