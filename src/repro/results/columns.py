"""Cells and columns that tables of several studies share: names, times, ratios, shares and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from repro.results.campaign_data import Case, Method, ReportedTime
from repro.results.significance import geometric_mean, interval_of, interval_of_ratio, ratio_of, scaled_interval
from repro.results.tables import Cell, Column, Statistic, digits

Time = ReportedTime[Any]
#: Which time of a case a column shows: that of a method, `case[method]`, or the result of a function.
Pick = Method | Callable[[Any], Time | None]

MILLI, MICRO, MEGA = 1e3, 1e6, 1e6
ABBREVIATIONS = {"single": "SP", "double": "DP"}
#: Cell without a number and without the dash of a missing one.
BLANK = Cell(None, " ")


def number_cell(value: float | None, unit: float = 1, spec: str = "") -> Cell:
    """Return a number times `unit`, formatted by `spec`; without it the number is positive and has three digits."""
    if value is None:
        return Cell()
    value *= unit
    return Cell(value, format(value, spec) if spec else digits(value))


def ratio(value: float | None) -> Cell:
    return number_cell(value, spec=".2f")


def percent(fraction: float | None, decimals: int = 0) -> Cell:
    return Cell() if fraction is None else Cell(100 * fraction, f"{100 * fraction:.{decimals}f} %")


def count(number: int | None) -> Cell:
    return Cell() if number is None else Cell(number, f"{number:,}".replace(",", "\N{NO-BREAK SPACE}"))


def megabytes(nbytes: float | None) -> Cell:
    return number_cell(None if nbytes is None else nbytes / MEGA)


def precision_cell(precision: str) -> Cell:
    return Cell(precision, ABBREVIATIONS[precision])


def printed_cell(text: str | None) -> Cell:
    """Return a published number as it is printed; an empty cell without one."""
    return Cell(float(text), text) if text else Cell()


def add_row_keys(cell: Cell, *times: Time | None) -> Cell:
    """Add to a cell the keys of the rows from which its value was computed."""
    return replace(cell, keys=tuple(dict.fromkeys((*cell.keys, *(time.key for time in times if time)))))


def time_cell(time: Time | None, unit: float, reason: str | None = None, spec: str = "") -> Cell:
    """Return a time with its interval and notes; a missing one has the reason as a note."""
    if time is None:
        return Cell(notes=(reason,) if reason else ())
    number = number_cell(time.seconds, unit, spec)
    return replace(number, notes=time.notes, keys=(time.key,), interval=scaled_interval(interval_of(time), unit))


def microseconds(time: Time | None, case: Case | None = None, reason: str | None = None) -> Cell:
    """Return a time in microseconds; `case` adds a note on mostly launch overhead, `reason` one on a missing time."""
    cell = time_cell(time, MICRO, reason)
    return replace(cell, notes=(*cell.notes, *case.launch_note("graph", time))) if case and time else cell


def speedup(base: Time | None, divisor: Time | None) -> Cell:
    """Return the speedup of `divisor` relative to `base`, with its confidence interval."""
    cell = replace(ratio(ratio_of(base, divisor)), interval=interval_of_ratio(base, divisor))
    return add_row_keys(cell, base, divisor)


def share(part: Time | None, total: Time | None) -> Cell:
    """Return `part` as a percentage of `total`, with its confidence interval."""
    cell = replace(percent(ratio_of(part, total)), interval=scaled_interval(interval_of_ratio(part, total), 100))
    return add_row_keys(cell, part, total)


def name_of(time: Time | None, text: Callable[[Time], str] | None = None, notes: tuple[str, ...] = ()) -> Cell:
    """Return the cell with the name of the timed variant or routine, formatted by `text`."""
    return Cell(time.name, text(time) if text else "", notes) if time else Cell(notes=notes)


def tie_notes(time: Time | None, tie: float) -> tuple[str, ...]:
    """Return a note with the number of other variants that tie with a winner; empty if there are none."""
    return (f"tie: {len(time.ties)} more within {100 * tie:g} %",) if time and time.ties else ()


def statistics(
    cell: Callable[[float | None], Cell], functions: Mapping[str, Callable[[Sequence[float]], float | None]]
) -> dict[str, Statistic]:
    """Return the statistics of a column's summary lines (`Column.summary`), whose cells `cell` makes of a number."""

    def statistic(function: Callable[[Sequence[float]], float | None]) -> Statistic:
        return lambda numbers: cell(function(numbers))

    return {name: statistic(function) for name, function in functions.items()}


#: Summary lines over all cases, and their statistics of speedups and of shares in percent.
MEAN_AND_LEAST = ("geometric mean", "least")
LEAST_OF_SPEEDUPS = statistics(ratio, {"geometric mean": geometric_mean, "least": min})
LEAST_OF_SHARES = statistics(
    percent,
    {
        "geometric mean": lambda shares: geometric_mean(share / 100 for share in shares),
        "least": lambda shares: min(shares) / 100,
    },
)


def problem_column(reason: Callable[[Any], str | None] = lambda case: None) -> Column[Any]:
    """Return the column of problem names; a note at a name gives the reason if the problem has no number."""
    return Column("problem", "problem", numeric=False, cell=lambda case: case.line.noted_cell(reason(case)))


PROBLEM = problem_column()
#: The same for cases with a cell `name` of their own.
NAME = Column[Any]("problem", "problem", numeric=False, cell=lambda case: case.name)
PRECISION = Column[Any]("precision", "precision", numeric=False, cell=lambda case: precision_cell(case.case.precision))
#: The precision in full.
FULL_PRECISION = replace(PRECISION, cell=lambda case: Cell(case.case.precision))


def picked(pick: Pick, case: Any) -> Time | None:
    return case[pick] if isinstance(pick, Method) else pick(case)


def with_cold_cache(method: Method) -> Pick:
    """Return the pick of a method's time with a cold cache (`MethodTimes.cold`)."""
    return lambda case: cold_case[method] if (cold_case := case.cold) else None


def time_column(
    key: str, title: str, group: str, time: Pick, reason: Callable[[Any], str | None] = lambda case: None
) -> Column[Any]:
    """Return the column of a time in microseconds; `reason` returns why a case has no time, as `Case.why_no_time` does.

    If `reason` is not given, another column must state why, such as that of the problem's name.
    """
    return Column(
        key,
        title,
        group,
        cell=lambda case: microseconds(found := picked(time, case), None, None if found else reason(case)),
    )


def speedup_column(
    key: str, title: str, group: str, base: Pick, divisor: Pick, summary: Mapping[str, Statistic] = LEAST_OF_SPEEDUPS
) -> Column[Any]:
    """Return a column with the speedup of `divisor` relative to `base`, its mean and its least for `MEAN_AND_LEAST`."""
    return Column(
        key, title, group, cell=lambda case: speedup(picked(base, case), picked(divisor, case)), summary=summary
    )


def kernel_columns(
    key: str,
    group: str,
    time: Pick,
    floor: Method,
    reasons: Callable[[Any], tuple[str, ...]] = lambda case: (),
    summary: Mapping[str, Statistic] | None = None,
) -> tuple[Column[Any], ...]:
    """Return three columns: a variant, its time (marked if mostly launch overhead), and the floor's time / its time.

    `reasons` returns the notes of a case without a variant, and `summary` has the statistics of the last column.
    """

    def name(case: Any) -> Cell:
        found = picked(time, case)
        return name_of(found, notes=reasons(case) + tie_notes(found, case.case.campaign.tie))

    return (
        Column(key, "variant", group, numeric=False, cell=name),
        Column(f"{key}_us", "µs", group, cell=lambda case: microseconds(picked(time, case), case.case)),
        Column(
            f"{key}_percent_of_floor",
            "of floor",
            group,
            cell=lambda case: share(case[floor], picked(time, case)),
            summary=summary or {},
        ),
    )


def floor_column(floor: Method, kernel: Pick, *, is_marked: bool = False) -> Column[Any]:
    """Return the column of the floor's time; a case with a kernel's time has the reason for a missing floor.

    With `is_marked`, times that are mostly launch overhead have a note.
    """

    def cell(case: Any) -> Cell:
        reason = case.case.why_no_floor() if picked(kernel, case) else None
        return microseconds(case[floor], case.case if is_marked else None, reason)

    return Column("floor_us", "µs", "floor", cell=cell)
