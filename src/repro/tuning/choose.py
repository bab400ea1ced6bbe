"""Choosing winners from searched rows: the fastest of what each tuning may choose from, by each clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.bench.rows import ALL_CLOCKS, TIMED, Row


@dataclass(frozen=True)
class Choice:
    """One answer to "which variant?".

    Attributes
    ----------
    clock
        The clock whose medians were compared.
    tuning
        What was tuned, as the study names it: `joint`, `extended`, …
    name
        The variant.
    ties
        Variants it could be told from by less than the tie.
    """

    clock: str
    tuning: str
    name: str
    ties: tuple[str, ...] = ()


def pick(
    rows: Sequence[Row], tie: float, asked: Callable[[Sequence[Row], str], Mapping[str, Sequence[Row]]]
) -> list[Choice]:
    """Return the best row of each tuning by each clock; an answer that no row can give is left out.

    Rows of the full protocol are preferred to screened ones, which are too few launches to choose by; noisy rows are
    taken only where there is nothing else.

    Parameters
    ----------
    rows
        What was searched.
    tie
        Share of the best time within which another is a tie.
    asked
        Returns by tuning what it chooses from, of the rows that have a time by a clock.
    """
    choices = []
    for clock in ALL_CLOCKS:
        timed = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
        for tuning, candidates in asked(timed, clock).items() if timed else ():
            best = fastest(candidates, clock)
            if best is not None:
                choices.append(Choice(clock, tuning, best.name, _ties(candidates, best, clock, tie)))
    return choices


def fastest(rows: Sequence[Row], clock: str) -> Row | None:
    """Return the fastest row; full before screened, ok before noisy."""
    return min(rows, key=lambda r: (r.protocol != "full", r.status != "ok", r.median(clock)), default=None)


def ranked(rows: Sequence[Row], clock: str = "event") -> list[Row]:
    """Return the rows that have a time to choose by, rows of the full protocol first, the fastest of them first."""
    timed = [row for row in rows if row.median(clock) is not None and row.status in TIMED]
    return sorted(timed, key=lambda row: (row.protocol != "full", row.median(clock)))


def _ties(rows: Sequence[Row], best: Row, clock: str, tie: float) -> tuple[str, ...]:
    limit = (best.median(clock) or 0.0) * (1 + tie)
    close = [r for r in rows if r is not best and r.protocol == best.protocol and (r.median(clock) or limit) < limit]
    return tuple(row.name for row in sorted(close, key=lambda r: r.median(clock) or 0.0))
