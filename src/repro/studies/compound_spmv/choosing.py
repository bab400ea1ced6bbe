"""Choosing winners by schedule, by layout and by both, in the papers' space and beyond it, from the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from repro.bench.rows import Row
from repro.studies.compound_spmv.layout import REFERENCE, TILE_ROWS
from repro.tuning.choose import Choice, fastest, pick

EXTENDED = "extended"
#: What is chosen in the papers' space where the reference layout was timed, beside the best of each kind of schedule.
TUNINGS = ("schedule", "layout", "joint")
#: What is chosen where our space was searched as well.
OUR_TUNINGS = (EXTENDED, "reordered")
#: The same without formats of pairs, chosen where one of these has a time: what they are compared with.
UNPAIRED, REORDERED_UNPAIRED = "unpaired", "reordered_unpaired"


def choose(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return what each tuning chooses, by both clocks.

    In the papers' space: `schedule` (best schedule of the reference layout), `layout` (best layout under that
    schedule), `joint` (best of all), `static` and `dynamic` (best of that kind in the joint winner's layout). Where our
    space was searched as well: `extended` (best of both spaces in the matrix's own order), `reordered` (best of all,
    whatever the order). Where a format of pairs has a time: `unpaired` and `reordered_unpaired` (the same two among all
    other formats).
    """
    return pick(rows, tie, _asked)


def schedules_of_reference(rows: Sequence[Row]) -> set[str]:
    """Return the names of the rows that have a best schedule of the reference layout, in any layout."""
    by_name = {row.name: row for row in rows}
    fixed = {_schedule(by_name[choice.name]) for choice in choose(rows, 0) if choice.tuning == "schedule"}
    return {row.name for row in rows if _schedule(row) in fixed}


def _asked(timed: Sequence[Row], clock: str) -> dict[str, Sequence[Row]]:
    natural = [row for row in timed if row["ordering"] == "natural"]
    asked: dict[str, Sequence[Row]] = {**_in_the_papers_space([row for row in natural if row.space != EXTENDED], clock)}
    if any(row.space == EXTENDED for row in timed):
        asked |= {EXTENDED: natural, "reordered": timed}
    if any(_of_pairs(row) for row in timed):
        asked |= {UNPAIRED: _unpaired(natural), REORDERED_UNPAIRED: _unpaired(timed)}
    return asked


def _of_pairs(row: Row) -> bool:
    return row["outer"] in TILE_ROWS


def _unpaired(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not _of_pairs(row)]


def _in_the_papers_space(rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return what each of the papers' tunings chooses from; nothing where the reference layout has no time."""
    reference = [r for r in rows if r["layout"] == str(REFERENCE)]
    schedule, joint = fastest(reference, clock), fastest(rows, clock)
    if schedule is None or joint is None:
        return {}
    in_layout = [r for r in rows if r["layout"] == joint["layout"]]
    return {
        "schedule": reference,
        "layout": [r for r in rows if _schedule(r) == _schedule(schedule)],
        "joint": [*rows],
        "static": [r for r in in_layout if r["schedule"] == "static"],
        "dynamic": [r for r in in_layout if r["schedule"] == "dynamic"],
    }


def _schedule(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("schedule", "n_t", "n_b", "width", "unroll", "load"))
