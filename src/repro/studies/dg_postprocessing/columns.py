"""Cells and columns that several tables of this study share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

from repro.results.campaign_data import Method
from repro.results.columns import count, number_cell, problem_column, speedup, statistics, time_cell
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column
from repro.studies.dg_postprocessing import results
from repro.studies.dg_postprocessing.operands import Errors

KILO, GIGA = 1e3, 1e9
FieldCell = Callable[[results.Filtering], Cell]


def gigabytes_cell(field: results.Filtering) -> Cell:
    nbytes = field.number(lambda row: row.matrix_bytes)
    return Cell() if nbytes is None else number_cell(nbytes / GIGA, spec=".3f" if nbytes < GIGA else ".1f")


def function_cell(field: results.Filtering) -> Cell:
    row = results.filtered_row(field)
    return Cell(field.function, keys=(row.key,) if row else ())


def gain_cell(value: float | None) -> Cell:
    """Return the cell of an order of convergence or of a ratio of two errors, which may be far from 1 or below 1."""
    return number_cell(value, spec=".2f" if value is None or abs(value) < 100 else ".0f")


def milli_cell(time: results.Time | None, reason: str | None = None) -> Cell:
    """Return the cell of a time in milliseconds, with three decimals below 1 ms; a missing time has a reason."""
    return time_cell(time, results.MILLI, reason, spec=".3f" if time and results.MILLI * time.seconds < 1 else "")


def field_columns(reason_of: Callable[[results.Filtering], str]) -> tuple[Column[results.Filtering], ...]:
    """Return the first columns, which name the field; `reason_of` says why an available field has no numbers."""

    return (
        problem_column(lambda field: reason_of(field) if field.line.is_available else None),
        Column("variance", "variance", numeric=False, cell=lambda field: Cell(field.family or None)),
        Column("degree", "P", cell=lambda field: Cell(field.degree)),
        Column("triangles", "triangles", cell=lambda field: count(field.triangles)),
    )


def milli_column(
    key: str,
    title: str,
    group: str,
    method: Method,
    reason_of: Callable[[results.Filtering], str | None] = lambda field: None,
) -> Column[results.Filtering]:
    return Column(
        key, title, group, cell=lambda field: milli_cell(time := field[method], None if time else reason_of(field))
    )


def method_milli_column(key: str, title: str, group: str, method: Method) -> Column[results.Filtering]:
    """Return the column of a filtering method's time, with the reason if there is no time."""
    return milli_column(key, title, group, method, lambda field: field.why_not(method))


RATIO_SUMMARY = statistics(number_cell, {"geometric mean": geometric_mean, "least": min})


def ratio_column(key: str, title: str, group: str, cell: FieldCell) -> Column[results.Filtering]:
    return Column(key, title, group, cell=cell, summary=RATIO_SUMMARY)


def method_speedup_column(
    key: str, title: str, group: str, base: Method, compared: Method
) -> Column[results.Filtering]:
    """Return the column with the speedup of the method `compared` relative to the method `base`."""

    def cell(field: results.Filtering) -> Cell:
        if any(field[method] is None and field.why_not(method) == results.NOT_TUNED for method in (base, compared)):
            return Cell(None, "not tuned", (results.NOT_TUNED,))
        ratio_cell = speedup(field[base], field[compared])
        if ratio_cell.value is None:
            return ratio_cell
        notes = field.unequal_settings(base, compared) if (base, compared) in results.PUBLISHED_PAIRS else ()
        if compared is results.OURS and (chosen_from := results.choice_text([field], base)):
            notes = (*notes, chosen_from)
        return replace(ratio_cell, notes=(*ratio_cell.notes, *notes))

    return ratio_column(key, title, group, cell)


def rate_columns(
    suffix: str, group: str, cell: Callable[[results.Filtering, results.Time | None], Cell]
) -> tuple[Column[results.Filtering], ...]:
    def column(method: Method) -> Column[results.Filtering]:
        return Column(f"{method.key}_{suffix}", method.title, group, cell=lambda field: cell(field, field[method]))

    return tuple(column(method) for method in (results.POINT, results.ELEMENT, results.OURS))


def million_points_cell(field: results.Filtering, time: results.Time | None) -> Cell:
    return number_cell(1e-6 * field.points / time.seconds if time and field.points else None)


ErrorNumber = Callable[[Errors], float]
L2: ErrorNumber = attrgetter("l2")
LARGEST: ErrorNumber = attrgetter("largest")


def error_cell(errors_of: results.ErrorsOf, number: ErrorNumber) -> FieldCell:
    return lambda field: number_cell(number(errors) if (errors := errors_of(field)) else None, spec=".2e")


def error_gain_cell(errors_of: results.ErrorsOf, better_errors_of: results.ErrorsOf, number: ErrorNumber) -> FieldCell:
    def cell(field: results.Filtering) -> Cell:
        first, second = errors_of(field), better_errors_of(field)
        return gain_cell(number(first) / number(second) if first and second and number(second) else None)

    return cell


def error_columns(
    key: str, title: str, errors_of: results.ErrorsOf, fields: Sequence[results.Filtering]
) -> tuple[Column[results.Filtering], ...]:
    orders = results.convergence_orders(fields, errors_of)

    def norm_columns(name: str, norm: str, number: ErrorNumber) -> tuple[Column[results.Filtering], ...]:
        def order(field: results.Filtering) -> Cell:
            errors = orders.get(field.line.problem)
            return gain_cell(number(errors) if errors else None)

        return (
            Column(f"{key}_{name}", norm, title, cell=error_cell(errors_of, number)),
            Column(f"{key}_{name}_order", f"{norm} order", title, cell=order),
        )

    return *norm_columns("l2", "L²", L2), *norm_columns("max", "max", LARGEST)


def local_error_columns(key: str, group: str, number: ErrorNumber) -> tuple[Column[results.Filtering], ...]:
    return (
        Column(f"dg_{key}", "dG", group, cell=error_cell(results.unfiltered_errors, number)),
        Column(f"whole_{key}", "one h", group, cell=error_cell(results.filtered_errors, number)),
        Column(f"local_{key}", "local h", group, cell=error_cell(results.local_errors, number)),
        Column(
            f"{key}_gain",
            "one over local",
            group,
            cell=error_gain_cell(results.filtered_errors, results.local_errors, number),
        ),
    )
