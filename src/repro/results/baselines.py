"""Table of all baselines and layouts of a study with their times; it includes newly added ones automatically."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Case
from repro.results.problem_rows import ABBREVIATIONS, CLOCK_WORDS, join_sentences, unavailable_note
from repro.results.recorded_rows import Method, R_co, Selection
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column, Table, count, ratio, seconds_cell, table_of


@dataclass
class Contestant:
    """The fastest times of one baseline or layout in one task, for each case."""

    task: str
    name: str
    #: Time in seconds by (problem, precision).
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Time divided by that of the fastest contestant in the same case.
    ratios: dict[tuple[str, str], float] = field(default_factory=dict)
    #: Statuses of cases without a time.
    failures: dict[tuple[str, str], str] = field(default_factory=dict)


def baselines_table(
    campaign: Campaign, tasks: Sequence[Method], name: Callable[[R_co], str | None], clock: ClockName = "event"
) -> Table:
    """Return a table with one line per task and contestant, over all problems and precisions.

    Parameters
    ----------
    campaign
        The campaign; times of the search phase are used for contestants without a time of the report phase.
    tasks
        Tasks to compare; each selects rows, and may override `clock`.
    name
        Function that returns the name of a row's baseline or layout; None for rows that are neither.
    clock
        Clock of the compared times.
    """
    contestants: dict[tuple[str, str], Contestant] = {}
    for task in tasks:
        for problem in campaign.problems:
            for precision in campaign.precisions:
                case = Case[R_co](campaign, problem, precision)
                _add_case(contestants, task, case, name, task.clock or clock)
    lines = sorted(contestants.values(), key=lambda one: ([task.title for task in tasks].index(one.task), one.name))
    clocks = dict.fromkeys(task.clock or clock for task in tasks)
    caption = [
        "All baselines and layouts that have rows, over all problems and precisions: the fastest of each in each case,",
        "as reported, or as searched where it was not reported. Cases: how many have a time. Over the fastest: its",
        "time over that of the fastest in the same case. Means are geometric. Fastest in: how many cases.",
        f"Ours and others alike by the clock {' or '.join(f'{one} ({CLOCK_WORDS[one]})' for one in clocks)}, cache",
        f"{campaign.cache}, on {campaign.device or 'no device yet'}.",
        unavailable_note(campaign),
    ]
    return table_of(COLUMNS, lines, join_sentences(caption), nothing=not lines)


def _add_case(
    contestants: dict[tuple[str, str], Contestant],
    task: Method,
    case: Case[R_co],
    name: Callable[[R_co], str | None],
    clock: ClockName,
) -> None:
    by_name: dict[str, list[Selection[R_co]]] = {}
    for rows in (Selection(case.rows), case.searched.select(cache=case.campaign.cache)):
        named: dict[str, list[R_co]] = {}
        for row in rows.select(task.predicate, **task.columns):
            if (label := name(row)) is not None:
                named.setdefault(label, []).append(row)
        for label, group in named.items():
            by_name.setdefault(label, []).append(Selection(group))
    here = case.problem, case.precision
    timed = {}
    for label, groups in by_name.items():
        one = contestants.setdefault((task.title, label), Contestant(task.title, label))
        if fastest := next((time for group in groups if (time := group.fastest(clock))), None):
            one.seconds[here] = timed[label] = fastest.seconds
        else:
            one.failures[here] = groups[0].rows[0].status
    least = min(timed.values(), default=0.0)
    for label, seconds in timed.items():
        contestants[task.title, label].ratios[here] = seconds / least


def _cases(one: Contestant) -> Cell:
    statuses: dict[str, int] = {}
    for status in one.failures.values():
        statuses[status] = statuses.get(status, 0) + 1
    without = ", ".join(f"{status.replace('_', ' ')} in {number}" for status, number in sorted(statuses.items()))
    return Cell(len(one.seconds), notes=(f"without a time: {without}",) if without else ())


def _worst(one: Contestant) -> Cell:
    if not one.ratios:
        return Cell()
    problem, precision = max(one.ratios, key=one.ratios.__getitem__)
    return Cell(f"{problem} ({ABBREVIATIONS[precision]})")


COLUMNS: tuple[Column[Contestant], ...] = (
    Column("task", "task", numeric=False, cell=lambda one: Cell(one.task)),
    Column("name", "baseline or layout", numeric=False, cell=lambda one: Cell(one.name)),
    Column("cases", "cases", cell=_cases),
    Column("least_us", "least", "µs", cell=lambda one: seconds_cell(min(one.seconds.values(), default=None))),
    Column("mean_us", "geometric mean", "µs", cell=lambda one: seconds_cell(geometric_mean(one.seconds.values()))),
    Column("most_us", "largest", "µs", cell=lambda one: seconds_cell(max(one.seconds.values(), default=None))),
    Column("mean_ratio", "mean", "over the fastest", cell=lambda one: ratio(geometric_mean(one.ratios.values()))),
    Column("most_ratio", "largest", "over the fastest", cell=lambda one: ratio(max(one.ratios.values(), default=None))),
    Column("worst_case", "in", "over the fastest", numeric=False, cell=_worst),
    Column("fastest_in", "fastest in", cell=lambda one: count(sum(value == 1 for value in one.ratios.values()))),
)
