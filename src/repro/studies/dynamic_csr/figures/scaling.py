"""The speed-up over the number of devices: the product alone as in the paper, with the exchange, and overlapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dynamic_csr.device_times import (
    CLOCK,
    NOTHING,
    DeviceTimes,
    device_times,
    stated_of_graphs,
    stated_speedups,
)
from repro.studies.dynamic_csr.paper import PAPER, STUDY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Panels side by side, and inches of one's height.
ACROSS, HEIGHT = 4, 1.45
DASHES = {"double": "-", "single": (0, (3, 1.5))}
#: What each kind of line starts with: nothing is exchanged on one device.
ONE = (1, 1.0)


@dataclass(frozen=True)
class Series:
    """One kind of line: its speed-up over so many devices."""

    label: str
    colour: str
    marker: str
    speedup: Callable[[DeviceTimes, int], float | None]


SERIES = (
    Series(
        "a launch each",
        style.MIDDLE,
        "s",
        lambda case, n: case.speedup(case.alone(n, repeated=False), repeated=False),
    ),
    Series("alone", style.DARK, "o", lambda case, n: case.speedup(case.alone(n))),
    Series("with exchange", style.ACCENT, "^", lambda case, n: case.speedup(case.exchanged(n))),
    Series("overlapped", style.GREEN, "v", lambda case, n: case.speedup(case.overlapped(n))),
)


@figure(STUDY, "figure-5-5", title="Speed-up over several devices", numbering=f"Figure 5.5 of {PAPER}")
def scaling(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem, a line a kind of product and precision."""
    by_problem: dict[str, list[DeviceTimes]] = {}
    for precision in campaign.precisions:
        for case in device_times(campaign, published, precision):
            if case.counts:
                by_problem.setdefault(case.line.problem, []).append(case)
    panels = [*by_problem.values()]
    lines = [cases[0].line for cases in panels]
    drawn = [
        "A launch each: one product a launch, y stays distributed, as in the paper. Alone: the same, products that",
        "follow each other in a launch of all devices. With exchange: y is brought to all devices before the next, in",
        "the fastest way. Overlapped: copies of x are under way while a device multiplies what it has itself. Dashed:",
        "single precision. Grey: as many times as fast as there are devices. Diamonds: published of a graph.",
        measured_on(campaign, CLOCK),
        remarks(lines),
    ]
    caption = [
        "Speed-up of y = A x with the grown matrix over one device, rows sorted by their sizes and dealt in turns.",
        *(drawn if panels else [NOTHING]),
        _sentence(published),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(panels, published, footnote(lines)), sentences(caption), not panels)


def draw(panels: Sequence[Sequence[DeviceTimes]], published: Published, mark: str | None) -> Canvas:
    """Draw the panels row by row.

    Parameters
    ----------
    panels
        Of each problem its cases, a precision each.
    published
        The paper's numbers: diamonds in the panels of their problems.
    mark
        What a mark at a name means; None where there is none.
    """
    if not panels:
        return style.empty("nothing was measured over several devices in this campaign")
    down = -(-len(panels) // ACROSS)
    drawn = style.canvas(style.TEXT, 0.6 + HEIGHT * down)
    most = max(count for cases in panels for case in cases for count in case.counts)
    printed = False
    for place, cases in enumerate(panels):
        axes = drawn.add_subplot(down, min(ACROSS, len(panels)), place + 1)
        points = [point for point in stated_speedups(published, cases[0].line.published) if point[0] <= most]
        printed = printed or bool(points)
        _draw_panel(axes, cases, points, most)
        axes.set_title(cases[0].line.label)
    handles = [Line2D([], [], color=item.colour, marker=item.marker, markersize=3, label=item.label) for item in SERIES]
    if printed:
        handles.append(
            Line2D([], [], linestyle="", marker="D", markersize=3.4, color="black", label="published, M2090")
        )
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.6, columnspacing=1.2)
    drawn.supxlabel("devices", fontsize=7)
    style.footnote(drawn, mark)
    return drawn


def _draw_panel(axes: Axes, cases: Sequence[DeviceTimes], points: Sequence[tuple[int, str]], most: int) -> None:
    counts = sorted({1, *(count for case in cases for count in case.counts)})
    axes.plot([1, most], [1, most], color=style.GREY, linewidth=0.6)
    for case in cases:
        for series in SERIES:
            line = [(count, speedup) for count in case.counts if (speedup := series.speedup(case, count)) is not None]
            if line:
                x, y = zip(ONE, *line, strict=True)
                dashes = DASHES.get(case.case.precision, "-")
                axes.plot(x, y, color=series.colour, linestyle=dashes, marker=series.marker, markersize=2.4)
    for count, published in points:
        axes.plot([count], [float(published)], "D", color="black", markersize=3.4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    ticks = [0.25, 0.5, *(1 << power for power in range(most.bit_length()))]
    low, high = axes.get_ylim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    axes.grid()


def _sentence(published: Published) -> str:
    """Return what the paper says of all graphs, empty where nothing is published."""
    means = {
        item["precision"]: item["value"]
        for item in published.tables.get("text", [])
        if item["quantity"] == "speedup of two GPUs, mean"
    }
    if not means:
        return ""
    words = " and ".join(f"{value} in {precision} precision" for precision, value in means.items())
    return (
        f"Published of two Tesla K20c, the mean of all graphs without an exchange: {words}. "
        f"{stated_of_graphs(published)}"
    )
