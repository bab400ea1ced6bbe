"""Choosing winners, by schedule, by layout, by both, in the papers' space and beyond it, from the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.bench.rows import CLOCKS, Row
from repro.formats.layout import REFERENCE

EXTENDED = "extended"


@dataclass(frozen=True)
class Choice:
    """One answer to "which variant?".

    Attributes
    ----------
    clock
        The clock whose medians were compared: `event` or `graph`.
    tuning
        In the papers' space: `schedule` (best schedule of the reference layout), `layout` (best layout under that
        schedule), `joint` (best of all), `static` and `dynamic` (best of that kind in the joint winner's layout).
        Where our space was searched as well: `extended` (best of both spaces in the matrix's own order), `reordered`
        (best of all, whatever the order). Of layouts of coordinates: `plain`, `joint` and `extended` (best of the plain
        ones, of the paper's compressed ones, and of all). Where memory has a weight: `memory` (`repro.tuning.pareto`).
    name
        The variant.
    ties
        Variants it could be told from by less than the tie.
    """

    clock: str
    tuning: str
    name: str
    ties: tuple[str, ...] = ()


def choose_layout_and_schedule(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return what tuning the schedule, the layout and both choose, by both clocks."""
    return pick(rows, tie, _asked)


def pick(
    rows: Sequence[Row], tie: float, asked: Callable[[Sequence[Row], str], Mapping[str, Sequence[Row]]]
) -> list[Choice]:
    """Return the best row of each tuning by both clocks; an answer that no row can give is left out.

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
    for clock in CLOCKS:
        timed = [row for row in rows if row.median(clock) is not None and row.status in {"ok", "noisy"}]
        for tuning, candidates in asked(timed, clock).items():
            best = _best(candidates, clock)
            if best is not None:
                choices.append(Choice(clock, tuning, best.name, _ties(candidates, best, clock, tie)))
    return choices


def _asked(timed: Sequence[Row], clock: str) -> dict[str, Sequence[Row]]:
    natural = [row for row in timed if row.ordering == "natural"]
    asked: dict[str, Sequence[Row]] = {**_in_the_papers_space([row for row in natural if row.space != EXTENDED], clock)}
    if any(row.space == EXTENDED for row in timed):
        asked |= {EXTENDED: natural, "reordered": timed}
    return asked


def _in_the_papers_space(rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return what each of the papers' tunings chooses from; nothing where the reference layout has no time."""
    reference = [r for r in rows if r.layout == str(REFERENCE)]
    schedule, joint = _best(reference, clock), _best(rows, clock)
    if schedule is None or joint is None:
        return {}
    in_layout = [r for r in rows if r.layout == joint.layout]
    return {
        "schedule": reference,
        "layout": [r for r in rows if _schedule(r) == _schedule(schedule)],
        "joint": [*rows],
        "static": [r for r in in_layout if r.schedule == "static"],
        "dynamic": [r for r in in_layout if r.schedule == "dynamic"],
    }


def _schedule(row: Row) -> tuple[object, ...]:
    return row.schedule, row.n_t, row.n_b, row.width, row.unroll


def _best(rows: Sequence[Row], clock: str) -> Row | None:
    """Return the fastest row; full before screened, ok before noisy."""
    return min(rows, key=lambda r: (r.protocol != "full", r.status != "ok", r.median(clock)), default=None)


def _ties(rows: Sequence[Row], best: Row, clock: str, tie: float) -> tuple[str, ...]:
    limit = (best.median(clock) or 0.0) * (1 + tie)
    close = [r for r in rows if r is not best and r.protocol == best.protocol and (r.median(clock) or limit) < limit]
    return tuple(row.name for row in sorted(close, key=lambda r: r.median(clock) or 0.0))
