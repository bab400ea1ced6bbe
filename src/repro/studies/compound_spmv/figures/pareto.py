"""Time over bytes of the matrix, a panel for each problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, ours, remarks, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.tables.pareto import Weighed, weigh

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Panels in a row, and inches of a row of them.
COLUMNS, ROW = 3, 1.5
LARGEST, SLOWEST = 2.0, 1.5  # of the least bytes and of the best time: what lies beyond is of no use to anyone


@figure(STUDY, "figure-pareto", title="Time over bytes of the matrix", numbering=f"open in {PAPER}")
def panels(campaign: Campaign, published: Published) -> Figure:
    """Fastest variant of each layout, and the Pareto front, for each problem."""
    by_problem: dict[str, dict[str, Weighed]] = {}
    lines = ours(campaign, published)
    for line in lines:
        for precision in campaign.precisions:
            weighed = weigh(campaign, line.problem, precision)
            if weighed is not None:
                by_problem.setdefault(line.label, {})[precision] = weighed
    caption = [
        "Time of each layout’s fastest variant over the bytes of its matrix, relative to the fastest and to the",
        f"smallest one of the problem in that precision, up to {SLOWEST:g}× and {LARGEST:g}×. Filled points and steps",
        "are the Pareto front, listed in table-pareto; open points are beaten in time and in bytes.",
        measured_on(campaign, "event", "the search"),
        remarks(lines),
    ]
    return Figure(lambda: _draw(by_problem, footnote(lines)), sentences(caption))


def _draw(by_problem: Mapping[str, Mapping[str, Weighed]], mark: str | None) -> Canvas:
    if not by_problem:
        return style.empty("nothing was searched in this campaign")
    across = min(COLUMNS, len(by_problem))
    rows = -(-len(by_problem) // across)
    drawn = style.canvas(max(style.COLUMN, style.TEXT * across / COLUMNS), 0.55 + ROW * rows)
    grid = drawn.subplots(rows, across, squeeze=False, sharex=True, sharey=True)
    places = list(grid.flat)
    for axes, (problem, by_precision) in zip(places, by_problem.items(), strict=False):
        _panel(axes, by_precision)
        axes.set_title(problem)
    for axes in places[len(by_problem) :]:
        axes.set_visible(False)
    for axes in places[max(0, len(by_problem) - across) : len(by_problem)]:
        axes.tick_params(labelbottom=True)
    drawn.supxlabel("bytes of the matrix, × least", fontsize=7)
    drawn.supylabel("time, × best", fontsize=7)
    handles = [
        Line2D(
            [], [], linestyle="-", drawstyle="steps-post", marker=marker, markersize=3, color=colour, label=precision
        )
        for precision, (colour, marker) in style.PRECISIONS.items()
    ]
    drawn.legend(handles=handles, loc="outside upper right", ncols=2)
    style.footnote(drawn, mark)
    return drawn


def _panel(axes: Axes, by_precision: Mapping[str, Weighed]) -> None:
    anything = False
    for precision, weighed in by_precision.items():
        colour, marker = style.PRECISIONS[precision]
        sizes, times = weighed.matrix_bytes / weighed.matrix_bytes.min(), weighed.seconds / weighed.seconds.min()
        anything = anything or bool(((sizes <= LARGEST) & (times <= SLOWEST)).any())
        axes.plot(sizes, times, marker, color=colour, markerfacecolor="none", markersize=3, markeredgewidth=0.6)
        axes.plot(
            sizes[weighed.front],
            times[weighed.front],
            color=colour,
            drawstyle="steps-post",
            marker=marker,
            markersize=3.4,
        )
    if not anything:
        style.say_in_panel(axes, f"nothing up to {SLOWEST:g}× the best time\nhas up to {LARGEST:g}× the least bytes")
    axes.set_xlim(0.95, LARGEST)
    axes.set_ylim(0.95, SLOWEST)
    axes.grid()
