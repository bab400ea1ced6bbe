"""Choosing winners: schedule tuning alone, layout tuning, joint tuning, from the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.bench.rows import CLOCKS, Row
from repro.formats.layout import REFERENCE


@dataclass(frozen=True)
class Choice:
    """One answer to "which variant?".

    Attributes
    ----------
    clock
        The clock whose medians were compared: `event` or `graph`.
    tuning
        `schedule` (best schedule of the reference layout), `layout` (best layout under that schedule), `joint` (best of
        all), `static` and `dynamic` (best of that kind in the joint winner's layout).
    name
        The variant.
    ties
        Variants it could be told from by less than the tie.
    """

    clock: str
    tuning: str
    name: str
    ties: tuple[str, ...] = ()


def choose(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return all answers by both clocks; an answer that no row can give is left out.

    Rows of the full protocol are preferred to screened ones, which are too few launches to choose by; noisy rows are
    taken only where there is nothing else.
    """
    return [choice for clock in CLOCKS for choice in _choose_by(rows, clock, tie)]


def _choose_by(rows: Sequence[Row], clock: str, tie: float) -> list[Choice]:
    timed = [row for row in rows if _time(row, clock) is not None and row.status in {"ok", "noisy"}]
    schedule = _best([r for r in timed if r.layout == str(REFERENCE)], clock)
    joint = _best(timed, clock)
    if schedule is None or joint is None:
        return []
    in_layout = [r for r in timed if r.layout == joint.layout]
    answers = {
        "schedule": ([r for r in timed if r.layout == str(REFERENCE)], schedule),
        "layout": (same := [r for r in timed if _schedule(r) == _schedule(schedule)], _best(same, clock)),
        "joint": (timed, joint),
        "static": (static := [r for r in in_layout if r.schedule == "static"], _best(static, clock)),
        "dynamic": (dynamic := [r for r in in_layout if r.schedule == "dynamic"], _best(dynamic, clock)),
    }
    return [
        Choice(clock, tuning, best.name, _ties(candidates, best, clock, tie))
        for tuning, (candidates, best) in answers.items()
        if best is not None
    ]


def _time(row: Row, clock: str) -> float | None:
    value: float | None = getattr(row, f"{clock}_median")
    return value


def _schedule(row: Row) -> tuple[object, ...]:
    return row.schedule, row.n_t, row.n_b, row.width, row.unroll


def _best(rows: Sequence[Row], clock: str) -> Row | None:
    """Return the fastest row; full before screened, ok before noisy."""
    return min(rows, key=lambda r: (r.protocol != "full", r.status != "ok", _time(r, clock)), default=None)


def _ties(rows: Sequence[Row], best: Row, clock: str, tie: float) -> tuple[str, ...]:
    limit = (_time(best, clock) or 0.0) * (1 + tie)
    close = [r for r in rows if r is not best and r.protocol == best.protocol and (_time(r, clock) or limit) < limit]
    return tuple(row.name for row in sorted(close, key=lambda r: _time(r, clock) or 0.0))
