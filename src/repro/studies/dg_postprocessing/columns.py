"""Cells and columns that several tables of this study have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from repro.results.campaign_data import Method
from repro.results.problem_lines import PROBLEM
from repro.results.significance import geometric_mean, interval_of, scaled
from repro.results.tables import Cell, Column, Statistic, SummaryLine, count, digits, speedup
from repro.studies.dg_postprocessing.results import MILLI, NOT_TUNED, PUBLISHED_PAIRS, Filtering, Time

KILO, MEGA, GIGA = 1e3, 1e6, 1e9
FieldCell = Callable[[Filtering], Cell]


def digits_cell(value: float | None) -> Cell:
    return Cell() if value is None else Cell(value, digits(value))


def formatted(value: float | None, spec: str) -> Cell:
    return Cell() if value is None else Cell(value, format(value, spec))


def gain_cell(value: float | None) -> Cell:
    """Return the cell of an order of convergence or of a ratio of two errors, which may be far from 1 or below 1."""
    return formatted(value, ".2f" if value is None or abs(value) < 100 else ".0f")


def milli_cell(timed: Time | None, why: tuple[str, ...] = ()) -> Cell:
    """Return the cell of a time in milliseconds. If there is no time, the cell shows the reason `why`, if any."""
    if timed is None:
        return Cell(notes=why)
    value = MILLI * timed.seconds
    # keep three digits even for a time of one microsecond
    text = digits(value) if value >= 1 else f"{value:.3f}"
    return Cell(value, text, timed.notes, (timed.key,), scaled(interval_of(timed), MILLI))


def field_columns(why: Callable[[Filtering], str]) -> tuple[Column[Filtering], ...]:
    """Return the first columns, which name the field; `why` gives the reason if an available field has no numbers."""

    def name(field: Filtering) -> Cell:
        return field.line.noted(why(field) if field.line.available else None)

    return (
        replace(PROBLEM, cell=name),
        Column("variance", "variance", numeric=False, cell=lambda field: Cell(field.family or None)),
        Column("degree", "P", cell=lambda field: Cell(field.degree)),
        Column("triangles", "triangles", cell=lambda field: count(field.triangles)),
    )


def milli_column(
    key: str, title: str, group: str, method: Method, why: Callable[[Filtering], tuple[str, ...]] = lambda field: ()
) -> Column[Filtering]:
    return Column(key, title, group, cell=lambda field: milli_cell(timed := field[method], () if timed else why(field)))


def method_milli_column(key: str, title: str, group: str, method: Method) -> Column[Filtering]:
    """Return the column of a filtering method's time, with the reason if there is no time."""
    return milli_column(key, title, group, method, lambda field: field.why_not(method))


#: Summary lines below a table: statistics of its ratio columns.
SUMMARY = (SummaryLine[Filtering]("geometric mean", "mean"), SummaryLine[Filtering]("least", "least"))
RATIO_SUMMARY: Mapping[str, Statistic] = {
    "mean": lambda values: digits_cell(geometric_mean(values)),
    "least": lambda values: digits_cell(min(values)),
}


def ratio_column(key: str, title: str, group: str, cell: FieldCell) -> Column[Filtering]:
    return Column(key, title, group, cell=cell, summary=RATIO_SUMMARY)


def over_column(key: str, title: str, group: str, base: Method, over: Method) -> Column[Filtering]:
    """Return the column that says how many times faster the method `over` is than the method `base`."""

    def cell(field: Filtering) -> Cell:
        if any(field[method] is None and field.why_not(method) == (NOT_TUNED,) for method in (base, over)):
            return Cell(None, "not tuned", (NOT_TUNED,))
        made = speedup(field[base], field[over])
        unequal = (base, over) in PUBLISHED_PAIRS and made.value is not None
        return replace(made, notes=(*made.notes, *field.unequal_settings(base, over))) if unequal else made

    return ratio_column(key, title, group, cell)
