"""Figures 4.4 to 4.6: times by width and regions of a block, and gains over the full width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import context, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.region_panels import grid, widths_axis
from repro.studies.dg_postprocessing.paper import MACHINE, PAPER, STUDY
from repro.studies.dg_postprocessing.printed import ROOM_CONTRADICTS, WIDTHS_CONTRADICT
from repro.studies.dg_postprocessing.region_space import CPU_REGIONS, REGIONS, WIDTHS, full_width
from repro.studies.dg_postprocessing.width_times import CLOCK, WidthTimes, published_gains, width_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure as Canvas

NO_TIMES = "no kernels of regions were timed in this campaign"
#: Of what the text states.
STATED: dict[str, Any] = {"marker": "D", "markersize": 4, "color": style.ACCENT, "linestyle": ""}
#: Share of a width's place that the marks of all its numbers of regions spread over.
SPREAD = 0.7
#: Colours of the numbers of regions, and the share of them that is dark enough.
COLOURS, DARKEST = "plasma", 0.85


@figure(STUDY, "figure-4-4", title="Times by width and regions of a block", numbering=f"Figure 4.4 of {PAPER}")
def pairs(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem on tetrahedra: the fastest over the numbers of blocks."""
    items = width_times(campaign, published)
    caption = [
        "Time of a region in nanoseconds, the fastest over the numbers of blocks, by the threads of a region and the",
        "regions that a block has at a time. Black: a block has no room for so many threads, or they were not timed.",
        f"The paper shows colours and no numbers, of a {MACHINE}, where other pairs fit. {ROOM_CONTRADICTS}",
        measured_on(campaign, CLOCK, "the search"),
        unavailable(campaign),
    ]
    return Figure(lambda: draw_pairs(items, counts_of(campaign)), sentences(caption))


def counts_of(campaign: Campaign) -> Sequence[int]:
    """Return the numbers of regions of a block that a device is tried with."""
    return CPU_REGIONS if campaign.on_cpu else REGIONS


def draw_pairs(items: Sequence[WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw a heat map a problem; `counts` are the numbers of regions of a block."""
    items = [item for item in items if item.pairs]
    if not items:
        return style.empty(NO_TIMES)
    drawn, panels = grid(items)
    for axes, item in zip(panels, items, strict=True):
        widths, times = WIDTHS[item.degree], item.pairs
        cells = [[times.get((width, count), np.nan) for width in widths] for count in counts]
        axes.set_facecolor("black")
        axes.set_axisbelow(False)
        image = axes.imshow(np.array(cells), cmap=style.HEAT, origin="lower", aspect="auto")
        widths_axis(axes, widths)
        axes.set_yticks(range(len(counts)), [str(count) for count in counts])
        axes.set_ylabel("regions of a block")
        drawn.colorbar(image, ax=axes, label="ns a region")
    return drawn


@figure(STUDY, "figure-4-5", title="All times by width", numbering=f"Figure 4.5 of {PAPER}")
def times(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem: a mark a kernel."""
    items = width_times(campaign, published)
    caption = [
        "Time of a region in nanoseconds by the threads of a region, a mark for each kernel of the paper’s that the",
        "search has timed: for each width all numbers of regions of a block, by colour and from left to right, and all",
        f"numbers of blocks, above each other. The paper prints no number of its figure, of a {MACHINE}.",
        measured_on(campaign, CLOCK, "the search"),
        unavailable(campaign),
    ]
    return Figure(lambda: draw_times(items, counts_of(campaign)), sentences(caption))


def draw_times(items: Sequence[WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw the marks of each problem; `counts` are the numbers of regions of a block."""
    items = [item for item in items if item.searched]
    if not items:
        return style.empty(NO_TIMES)
    drawn, panels = grid(items)
    colours = _colours(len(counts))
    norm = BoundaryNorm(np.arange(len(counts) + 1) - 0.5, len(counts))
    for axes, item in zip(panels, items, strict=True):
        widths = WIDTHS[item.degree]
        searched = [one for one in item.searched if one.width in widths and one.regions in counts]
        ranks = [counts.index(one.regions) for one in searched]
        beside = [SPREAD * ((rank + 0.5) / len(counts) - 0.5) for rank in ranks]
        places = [widths.index(one.width) + aside for one, aside in zip(searched, beside, strict=True)]
        axes.scatter(places, [one.nano for one in searched], c=ranks, cmap=colours, norm=norm, s=5, linewidths=0)
        widths_axis(axes, widths)
        axes.set_xlim(-0.5, len(widths) - 0.5)
        axes.set_yscale("log")
        style.log_ticks(axes.yaxis)
        axes.set_ylabel("ns a region")
        axes.grid(axis="y")
    bar = drawn.colorbar(ScalarMappable(norm, colours), ax=panels, label="regions of a block")
    bar.set_ticks(range(len(counts)), labels=[str(count) for count in counts])
    bar.ax.minorticks_off()
    return drawn


def _colours(count: int) -> Colormap:
    """Return so many colours in a sequence, without the palest, which are hard to see on white."""
    return ListedColormap([mpl.colormaps[COLOURS](DARKEST * place / max(1, count - 1)) for place in range(count)])


@figure(STUDY, "figure-4-6", title="Gain over the full width", numbering=f"Figure 4.6 of {PAPER}")
def gains(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem: how much faster each width is than as many threads as quadrature points."""
    items = width_times(campaign, published)
    gains_of = {degree: published_gains(published, degree) for degree in WIDTHS}
    stated = "; ".join(
        f"degree {degree}: {', '.join(f'width {width} {100 * gain:+.0f} %' for width, gain in numbers.items())}"
        for degree, numbers in gains_of.items()
        if numbers
    )
    drawn = "not drawn beside a CPU’s" if campaign.on_cpu else "the diamonds"
    caption = [
        "By how much each width is faster than a region with a thread for each of its quadrature points, 36 or 150:",
        "its time over that of the width, less one; of each width the fastest over regions and numbers of blocks.",
        f"{PAPER} states, for a {MACHINE}, {stated}: {drawn}. {WIDTHS_CONTRADICT}" if stated else "",
        context(campaign),
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    beside = {} if campaign.on_cpu else gains_of
    return Figure(lambda: draw_gains(items, beside), sentences(caption))


def draw_gains(items: Sequence[WidthTimes], stated: dict[int, dict[int, float]]) -> Canvas:
    """Draw a panel a problem; `stated` has the paper's gains by degree and width."""
    items = [item for item in items if any(item.gain(width) is not None for width in WIDTHS[item.degree])]
    if not items:
        return style.empty("no width was timed beside the full one in this campaign")
    drawn, panels = grid(items)
    for axes, item in zip(panels, items, strict=True):
        _draw_gains(axes, item, stated.get(item.degree, {}))
    if any(stated.get(item.degree) for item in items):
        handles = [Patch(color=style.DARK, label="measured"), Line2D([], [], label=f"published, {MACHINE}", **STATED)]
        drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def _draw_gains(axes: Axes, item: WidthTimes, stated: dict[int, float]) -> None:
    widths = sorted({*WIDTHS[item.degree], *stated})
    for place, width in enumerate(widths):
        gain = item.gain(width)
        if gain is not None:
            axes.bar(place, 100 * gain, color=style.DARK, width=0.7, zorder=2)
        if width in stated:
            axes.plot([place], [100 * stated[width]], zorder=3, **STATED)
    axes.axhline(0, color="black", linewidth=0.7, zorder=1)
    axes.grid(axis="y")
    widths_axis(axes, widths)
    axes.set_ylabel(f"gain over width {full_width(item.degree)}, %")
