"""How close winners and baselines come to the streaming floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.case import NEAR_EMPTY, Case
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.times import baseline, library_of
from repro.studies.compound_spmv.paper import STUDY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

OFFSETS = {"single": -0.17, "double": 0.17}


@dataclass(frozen=True)
class Point:
    """Fractions of the floor in one problem and precision, None where there is none."""

    row: int
    precision: str
    winner: float | None
    baseline: float | None


@figure(STUDY, "figure-floor", title="Fraction of the streaming floor", numbering="ours")
def fractions(campaign: Campaign, published: Published) -> Figure:
    """Floor's time over the winner's and over the fastest baseline's."""
    names: list[str] = []
    missing: list[str | None] = []
    points: list[Point] = []
    launched: list[Case] = []
    lines = ours(campaign, published)
    for row, line in enumerate(lines):
        names.append(line.label)
        cases = [Case(campaign, line.problem, precision) for precision in campaign.precisions]
        for case in cases:
            floor = case.bound("floor", "graph")
            winner, routine = case.winner("joint", "graph"), baseline(case, "graph")
            launched += [case] if floor and case.mostly_launch("graph", winner) else []
            points.append(Point(row, case.precision, ratio_of(floor, winner), ratio_of(floor, routine)))
        if any(p.winner is not None for p in points[-len(cases) :]):
            missing.append(None)
        elif any(case.winner("joint", "graph") for case in cases):
            missing.append(next(case for case in cases if case.winner("joint", "graph")).why_no_floor())
        else:
            why = cases[0].why_not()
            missing.append("unavailable" if why.startswith("unavailable") else why)
    shown = sum(point.winner is not None for point in points)
    near = ", ".join(f"{case.problem} ({case.precision})" for case in launched)
    caption = [
        "Fraction of the streaming floor (the floor’s time over the time) that the winner of the joint tuning",
        f"(filled) and the fastest {library_of(campaign)} routine (open) reach. A winner in a layout with fewer",
        "bytes than CSR-AoS, or one that stays in the cache, can pass 1. Nothing of this is published.",
        f"Shown are {shown} of {len(points)} pairs of problem and precision; the others have no winner or no floor.",
        measured_on(campaign, "graph"),
        f"Within {NEAR_EMPTY:g}× of that, so that the fraction says little: {near}." if near else "",
        remarks(lines),
        unavailable(campaign),
    ]
    mark = footnote(lines)
    return Figure(lambda: _draw(names, missing, points, library_of(campaign), mark), sentences(caption))


def _draw(names: list[str], missing: list[str | None], points: list[Point], library: str, mark: str | None) -> Canvas:
    if not names:
        return style.empty("nothing was measured in this campaign")
    drawn = style.canvas(style.COLUMN, style.height(len(names), extra=1.1, per_row=0.22))
    axes = drawn.add_subplot()
    for point in points:
        at, (colour, marker) = point.row + OFFSETS[point.precision], style.PRECISIONS[point.precision]
        if point.winner is not None and point.baseline is not None:
            axes.plot([point.baseline, point.winner], [at, at], color=colour, linewidth=0.8, alpha=0.5)
        for value, face in ((point.baseline, "white"), (point.winner, colour)):
            if value is not None:
                axes.plot(value, at, marker, markersize=3.8, markerfacecolor=face, markeredgecolor=colour,
                          markeredgewidth=0.9, zorder=3)  # fmt: skip
    largest = max([v for p in points for v in (p.winner, p.baseline) if v is not None], default=1.0)
    axes.set_xlim(0, 1.08 * max(1.0, largest))
    axes.axvline(1, color=style.GREY, linewidth=0.7)
    axes.set_xlabel("fraction of the streaming floor")
    axes.grid(axis="x")
    style.rows_axis(axes, names, missing=missing)
    handles = [
        Line2D([], [], linestyle="", marker=marker, markersize=3.8, markerfacecolor=colour if filled else "white",
               markeredgecolor=colour, label=f"{what}, {precision}")
        for precision, (colour, marker) in style.PRECISIONS.items()
        for what, filled in (("winner", True), (f"fastest {library}", False))
    ]  # fmt: skip
    drawn.legend(handles=handles, loc="outside upper left", ncols=2, handletextpad=0.3, columnspacing=1.2)
    style.footnote(drawn, mark)
    return drawn
