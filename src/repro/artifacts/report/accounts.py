"""What became of all rows and problems: by status, what failed, what is missing."""

from __future__ import annotations

from collections import Counter

from repro.artifacts.case import Case, Timed
from repro.artifacts.data import Campaign, one_line
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import name_cell
from repro.bench.runnable import Clock

#: In the order in which a time is looked for.
CLOCKS: tuple[Clock, ...] = ("event", "graph", "host")
# campaigns hold thousands of failed variants of one cause: so many names are printed of each
NAMES_SHOWN = 12


def statuses(campaign: Campaign) -> Table:
    """Return how many rows have which status, by phase, state of the cache and kind."""
    titles = ("phase", "cache", "kind", "status")
    counts: Counter[tuple[str, ...]] = Counter()
    for frame in (campaign.search, campaign.report):
        counts.update(zip(*(frame[title] for title in titles), strict=True))
    rows = [(*map(Cell, key), Cell(count)) for key, count in sorted(counts.items())]
    columns = (*(Column(title, title, numeric=False) for title in titles), Column("rows", "rows"))
    return Table(columns, rows, "Rows by status. Only `ok` and `noisy` rows have a time.")


def failures(campaign: Campaign) -> Table:
    """Return every row that is not `ok`, those of one cause together."""
    causes: dict[tuple[str, ...], list[str]] = {}
    for problem in campaign.problems.values():
        for precision in campaign.precisions if problem.available else ():
            for row in campaign.search_rows(problem.name, precision) + campaign.report_rows(problem.name, precision):
                if row["status"] != "ok":
                    message = one_line(str(row["message"] or ""))
                    key = (problem.name, precision, row["phase"], row["kind"], row["status"], message)
                    causes.setdefault(key, []).append(str(row["name"]))
    rows: list[tuple[Cell, ...]] = []
    for (name, precision, phase, kind, status, message), names in causes.items():
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        shown = ", ".join(names[:NAMES_SHOWN]) + more
        texts = (name, precision, phase, kind, status, message)
        first, *rest = texts
        rows.append((name_cell(campaign.problems[first]), *map(Cell, rest), Cell(len(names)), Cell(shown)))
    titles = ("problem", "precision", "phase", "kind", "status", "message")
    columns = (
        *(Column(title, title, numeric=False) for title in titles),
        Column("rows", "rows"),
        Column("names", "names", numeric=False),
    )
    return Table(columns, rows, "Every row that is not ok; those of one cause stand together.")


def missing(campaign: Campaign, headline: str) -> Table:
    """Return what has no winner or no floor: unavailable problems, cases not measured or not chosen, and why."""
    rows: list[tuple[Cell, ...]] = []
    floor = has_floor(campaign)
    for problem in campaign.problems.values():
        if not problem.available:
            reason = one_line(problem.reason or "no reason recorded", 2000)
            rows.append((Cell(problem.name), Cell("all"), Cell("unavailable"), Cell(reason)))
            continue
        for precision in campaign.precisions:
            case = Case(campaign, problem.name, precision)
            if winner_of(case, headline) is None:
                rows.append((name_cell(problem), Cell(precision), Cell("no winner"), Cell(case.why_not())))
            elif floor and not any(case.bound("floor", clock) for clock in CLOCKS):
                rows.append((name_cell(problem), Cell(precision), Cell("no floor"), Cell(case.why_no_floor())))
    titles = ("problem", "precision", "what", "why")
    return Table(
        tuple(Column(title, title, numeric=False) for title in titles),
        rows,
        "Problems and precisions without a result, and why.",
    )


def winner_of(case: Case, headline: str) -> Timed | None:
    """Return the winner of a tuning by the first clock that has one."""
    return next((winner for clock in CLOCKS if (winner := case.winner(headline, clock))), None)


def has_floor(campaign: Campaign) -> bool:
    """Return whether a floor was tried on anything: a study need not have one."""
    return bool((campaign.report["kind"] == "floor").any())
