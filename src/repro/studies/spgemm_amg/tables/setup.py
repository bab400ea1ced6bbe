"""The set-up of multigrid: as a whole by three kinds of products, its phases, and level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from repro.artifacts.cells import count, digits, percent, ratio, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, context, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.spgemm_amg.paper import PAPER, STUDY
from repro.studies.spgemm_amg.printed import GPU, SET_UP, SHARE_LEAST, SHARE_MOST, stated, stated_range
from repro.studies.spgemm_amg.shared_cells import MILLI, milli, named, summary, three_digits
from repro.studies.spgemm_amg.times import HOST, METHODS, PHASES, LevelTimes, ProblemTimes, all_times, precision_of

NANO, MEGA = 1e9, 1e6
IN_STEPS = (
    "Phases: medians of each by events in samples of their own; one that waits for a size reads what the host takes as "
    "well, and together they are not the whole."
)


@table(STUDY, "table-setup", title="The set-up of multigrid", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Table:
    """A line a problem: three times, what they are a unit, and the phases."""
    cases = all_times(campaign, published)
    columns = (
        PROBLEM,
        Column("unknowns", "unknowns"),
        Column("levels", "levels"),
        Column("complexity", "complexity"),
        *(Column(f"{method}_ms", title, "whole set-up, ms") for method, title in METHODS.items()),
        Column("coordinates_over_default", METHODS["default"], "speedup over the sort of all"),
        Column("coordinates_over_sort", METHODS["sort"], "speedup over the sort of all"),
        Column("published_speedup", f"published, {GPU}", "speedup over the sort of all"),
        Column("ns_an_unknown", "ns an unknown", "ours"),
        Column("peak_mb", "most MB at once", "ours"),
        *(Column(f"{name}_ms", title, "phases on all levels, ms") for name, title in PHASES.items()),
        Column("galerkin_share", "ours", "share of Galerkin products"),
        Column("published_share", f"published, {GPU}", "share of Galerkin products"),
    )
    caption = [
        "The set-up of smoothed aggregation, from the matrix on the device to all levels there: its whole time with",
        "the Galerkin products R·(A·P) by our kernels, by the paper’s, and by a sort of all products. Complexity:",
        "non-zeros of all levels over those of the finest.",
        IN_STEPS,
        "Share: of the Galerkin products in the phases of all levels.",
        _published(published),
        context(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        unavailable(campaign),
    ]
    share = stated_range(published, SHARE_LEAST, SHARE_MOST)
    rows = [_row(case, published, share) for case in cases]
    worst = {"coordinates_over_default": min, "coordinates_over_sort": min, "ns_an_unknown": max}
    papers = [case.line.published is not None for case in cases]
    return Table(columns, rows, sentences(caption), summary(columns, rows, worst, papers))


@table(STUDY, "table-levels", title="The set-up level by level", numbering="ours")
def levels(campaign: Campaign, published: Published) -> Table:
    """A line a problem and level."""
    columns = (
        PROBLEM,
        Column("level", "level"),
        Column("rows", "rows"),
        Column("nonzeros", "non-zeros"),
        Column("whole_ms", "whole, ms"),
        *(Column(f"{name}_ms", title, "phases, ms") for name, title in PHASES.items()),
        Column("galerkin_share", "share of the Galerkin product"),
    )
    rows = []
    for case in all_times(campaign, published):
        rows += [_level(case, level) for level in case.levels]
        if not case.levels:
            rows.append((named(case.line, case.why_not("level")), *(Cell(),) * (len(columns) - 1)))
    caption = [
        "What makes the next level of each: its matrix’s sizes, all of it, and its phases. The levels before it are",
        "there.",
        IN_STEPS,
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _row(case: ProblemTimes, published: Published, share: tuple[float, float] | None) -> tuple[Cell, ...]:
    times = {method: case.set_up(method) for method in METHODS}
    ours = times["default"]
    row: Mapping[str, Any] = ours.row if ours else {}
    unknowns, peak = row.get("rows"), row.get("peak_bytes")
    printed = stated(published, SET_UP, case.line.published) if case.line.published else None
    return (
        named(case.line, "" if case.case.measured else case.case.why_not()),
        count(unknowns),
        Cell(row.get("levels")),
        ratio(row.get("complexity")),
        *(milli(timed, case.why_not("setup", method) * case.case.measured) for method, timed in times.items()),
        speedup(times["coordinates"], ours),
        speedup(times["coordinates"], times["sort"]),
        ratio(printed),
        three_digits(NANO * ours.seconds / unknowns if ours and unknowns else None),
        three_digits(peak / MEGA if peak else None),
        *_phases(case.phases),
        percent(case.galerkin_share),
        Cell(share[1], _percents(share)) if share and case.line.published else Cell(),
    )


def _level(case: ProblemTimes, level: LevelTimes) -> tuple[Cell, ...]:
    return (
        named(case.line),
        Cell(level.level),
        count(level.rows),
        count(level.nonzeros),
        milli(level.timed),
        *_phases(level.stages),
        percent(level.galerkin_share),
    )


def _phases(seconds: Mapping[str, float]) -> Sequence[Cell]:
    return [
        Cell(MILLI * seconds[name], digits(MILLI * seconds[name])) if name in seconds else Cell() for name in PHASES
    ]


def _percents(share: tuple[float, float]) -> str:
    return f"{100 * share[0]:.0f}–{100 * share[1]:.0f} %"


def _published(published: Published) -> str:
    share = stated_range(published, SHARE_LEAST, SHARE_MOST)
    if share is None:
        return ""
    return f"Published, {GPU}: {PAPER} states a share of {_percents(share)}, of all its problems; single times are not."
