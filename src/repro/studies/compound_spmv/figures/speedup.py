"""Speedup over the library's fastest routine: our space and the papers', with what the floor allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import geometric_mean, interval_of_ratio, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS, Interval
from repro.sparse.times import library_of
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, standings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MEAN = "geometric mean"


@dataclass(frozen=True)
class Bars:
    """One row of one panel: speedups, None where there is none, and why there is nothing.

    `floor` is the speedup of a kernel that would run at the streaming floor, `ours_sure` and `papers_sure` are
    intervals.
    """

    label: str
    ours: float | None
    papers: float | None
    floor: float | None
    missing: str | None = None
    mostly_launch: bool = False
    ours_sure: Interval | None = None
    papers_sure: Interval | None = None


def bars(cases: Sequence[Standing]) -> list[Bars]:
    """Return the rows of one precision, the geometric mean last."""
    rows = [_bars(case) for case in cases]
    if any(row.papers or row.ours for row in rows):
        means = [geometric_mean(values) for values in zip(*((r.ours, r.papers, r.floor) for r in rows), strict=True)]
        rows.append(Bars(MEAN, means[0], means[1], means[2]))
    return rows


def _bars(case: Standing) -> Bars:
    ours, papers, floor = (ratio_of(case.library, kernel) for kernel in (case.ours, case.papers, case.floor))
    missing = None
    if ours is None and papers is None:
        why = case.case.why_not()
        missing = "unavailable" if why.startswith("unavailable") else why
        if case.papers is not None:
            missing = "no routine of the library was timed"
    launch = case.case.mostly_launch("graph", case.ours or case.papers)
    sure = [interval_of_ratio(case.library, kernel) for kernel in (case.ours, case.papers)]
    return Bars(case.line.label, ours, papers, floor, missing, launch, *sure)


@figure(STUDY, "figure-speedup", title="Speedup over the fastest routine of the library", numbering="ours")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Both precisions side by side, problem by problem."""
    lines = ours(campaign, published)
    cases = standings(campaign, published)
    panels = {
        precision: bars([case for case in cases if case.case.precision == precision])
        for precision in campaign.precisions
    }
    library = library_of(campaign)
    extended = any(case.ours for case in cases)
    summaries = []
    for precision, rows in panels.items():
        mean = next((row for row in rows if row.label == MEAN), None)
        best = (mean.ours or mean.papers) if mean else None
        if mean and best:
            speedups = [value for row in rows[:-1] if (value := row.ours or row.papers)]
            whose = "ours" if extended else "the papers’ space"
            summaries.append(f"{precision}: {best:.2f}× ({whose}; from {min(speedups):.2f} to {max(speedups):.2f}×)")
    near = sum(row.mostly_launch for rows in panels.values() for row in rows)
    caption = [
        f"Speedup over the fastest {library} routine of any representation:",
        "our space (dark, and in numbers) and the papers’ (light), the winner of each." if extended
        else "the winner of the papers’ space (light, and in numbers); the space `extended` was not searched.",
        "The mark is what a kernel at the streaming floor would reach, which reads the bytes of CSR-AoS: one that",
        "needs fewer bytes, or finds them in the cache, can pass it.",
        WHISKERS if any(row.ours_sure or row.papers_sure for rows in panels.values() for row in rows) else "",
        f"Geometric means: {'; '.join(summaries)}." if summaries else "",
        "Nothing of this is published.",
        measured_on(campaign, "graph"),
        f"In {near} cases (marked *) a time is mostly launch." if near else "",
        remarks(lines),
        unavailable(campaign),
    ]  # fmt: skip
    kinds = _kinds(cases, campaign.precisions[0])
    return Figure(lambda: _draw(panels, kinds, library, footnote(lines)), sentences(caption))


def _kinds(cases: Sequence[Standing], precision: str) -> list[int]:
    """Return the rows that begin another kind of entry."""
    entries = [case.line.entry for case in cases if case.case.precision == precision]
    return [row for row in range(1, len(entries)) if entries[row] != entries[row - 1]]


def _draw(panels: dict[str, list[Bars]], kinds: list[int], library: str, mark: str | None) -> Canvas:
    most = max((len(rows) for rows in panels.values()), default=0)
    if not most:
        return style.empty("nothing was measured in this campaign")
    drawn = style.canvas(style.TEXT, style.height(most, extra=0.95, per_row=0.22))
    every = drawn.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    largest = max((v for rows in panels.values() for r in rows for v in (r.ours, r.papers, r.floor) if v), default=1.0)
    for axes, (precision, rows) in zip(every, panels.items(), strict=True):
        _panel(axes, rows, kinds, 1.05 * max(largest, 1.0))
        axes.set_title(f"{precision} precision")
        axes.set_xlabel(f"speedup over the fastest {library} routine")
    labelled = max(panels.values(), key=len)
    style.rows_axis(every[0], [row.label for row in labelled], missing=[])
    for axes, rows in zip(every, panels.values(), strict=True):
        style.say_missing(axes, [row.missing for row in rows])
    for axes in every[1:]:
        axes.tick_params(axis="y", labelleft=False, length=0)
    shown = [row for rows in panels.values() for row in rows]
    handles: list[Patch | Line2D] = []
    if any(row.ours for row in shown):
        handles.append(Patch(color=style.DARK, label="our space"))
    handles.append(Patch(color=style.LIGHT, label="the papers’ space"))
    handles.append(_floor_mark([], [], label="at the streaming floor"))
    drawn.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.4, columnspacing=1.4)
    style.footnote(drawn, mark)
    return drawn


def _floor_mark(x: list[float], y: list[float], label: str | None = None) -> Line2D:
    return Line2D(x, y, linestyle="", marker="|", markersize=7, markeredgewidth=1.3, color=style.ACCENT, label=label)


def _panel(axes: Axes, rows: list[Bars], kinds: list[int], right: float) -> None:
    for at, row in enumerate(rows):
        both = row.ours is not None and row.papers is not None
        if row.ours is not None:
            axes.barh(at - 0.19 * both, row.ours, height=0.4 if both else 0.6, color=style.DARK, linewidth=0)
            style.whisker(axes, row.ours_sure, at - 0.19 * both)
        if row.papers is not None:
            axes.barh(at + 0.21 * both, row.papers, height=0.36 if both else 0.6, color=style.LIGHT, linewidth=0)
            style.whisker(axes, row.papers_sure, at + 0.21 * both)
        if row.floor is not None:
            axes.add_line(_floor_mark([row.floor], [at]))
    searched = any(row.ours is not None for row in rows)
    numbers = [row.ours if searched else row.papers for row in rows]
    texts = [
        None if number is None else f"{number:.2f}{'*' * row.mostly_launch}"
        for number, row in zip(numbers, rows, strict=True)
    ]
    bold = [at for at, row in enumerate(rows) if row.label == MEAN]
    style.column(axes, texts, (style.BAR, style.DARK if searched else style.LIGHT), bold=bold)
    for row_of_kind in kinds:
        axes.axhline(row_of_kind - 0.5, color=style.GREY, linewidth=0.4)
    if rows and rows[-1].label == MEAN:
        axes.axhline(len(rows) - 1.5, color="black", linewidth=0.6)
    axes.set_xlim(0, right)
    axes.axvline(1, color=style.GREY, linewidth=0.7)
    axes.grid(axis="x")
