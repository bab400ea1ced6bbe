"""Figures 4.4 and 4.6: times by width and regions of a block, and gains over the full width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.paper import MACHINE, PAPER, STUDY
from repro.studies.dg_postprocessing.region_space import CPU_REGIONS, REGIONS, WIDTHS, full_width
from repro.studies.dg_postprocessing.width_times import CLOCK, WidthTimes, published_gains, width_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEIGHT = 2.6
#: Nanoseconds of a second: times are those of a region, so that lists of several lengths can be read alike.
NANO = 1e9


@figure(STUDY, "figure-4-4", title="Times by width and regions of a block", numbering=f"Figure 4.4 of {PAPER}")
def pairs(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem on tetrahedra: the fastest over the numbers of blocks."""
    items = width_times(campaign, published)
    caption = [
        "Time of a region in nanoseconds, the fastest over the numbers of blocks, by the threads of a region and the",
        "regions that a block has at a time. Black: a block has no room for so many threads, or they were not timed.",
        f"The paper shows colours and no numbers, of a {MACHINE}, where other pairs fit.",
        measured_on(campaign, CLOCK, "the search"),
        unavailable(campaign),
    ]
    counts = CPU_REGIONS if campaign.on_cpu else REGIONS
    return Figure(lambda: draw_pairs(items, counts), sentences(caption))


def draw_pairs(items: Sequence[WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw a heat map a problem; `counts` are the numbers of regions of a block."""
    items = [item for item in items if item.pairs]
    if not items:
        return style.empty("no kernels of regions were timed in this campaign")
    drawn = style.canvas(style.TEXT, HEIGHT)
    for axes, item in zip(drawn.subplots(1, len(items), squeeze=False)[0], items, strict=True):
        widths, times = WIDTHS[item.degree], item.pairs
        regions = next(row["regions"] for row in item.searched if row["regions"])
        cells = [[NANO * times.get((width, count), np.nan) / regions for width in widths] for count in counts]
        axes.set_facecolor("black")
        axes.set_axisbelow(False)
        image = axes.imshow(np.array(cells), cmap=style.HEAT, origin="lower", aspect="auto")
        axes.set_xticks(range(len(widths)), [str(width) for width in widths])
        axes.set_yticks(range(len(counts)), [str(count) for count in counts])
        axes.set_xlabel("threads of a region")
        axes.set_title(f"{item.line.label}, degree {item.degree}")
        drawn.colorbar(image, ax=axes, label="ns a region")
        if item is items[0]:
            axes.set_ylabel("regions of a block")
    return drawn


@figure(STUDY, "figure-4-6", title="Gain over the full width", numbering=f"Figure 4.6 of {PAPER}")
def gains(campaign: Campaign, published: Published) -> Figure:
    """A panel a degree: how much faster each width is than as many threads as quadrature points."""
    items = width_times(campaign, published)
    stated = "; ".join(
        f"degree {degree}: {', '.join(f'{width}: {gain:+.0%}' for width, gain in numbers.items())}"
        for degree in WIDTHS
        if (numbers := published_gains(published, degree))
    )
    caption = [
        "By how much each width is faster than a region with a thread for each of its quadrature points, 36 or 150:",
        "its time over that of the width, less one; of each width the fastest over regions and numbers of blocks.",
        f"{PAPER}, on a {MACHINE}: {stated}; it names the width 8 of degree 2 that its own space does not have."
        if stated
        else "",
        "Diamonds, not drawn beside a CPU’s: other machines have other gains.",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    drawn = {} if campaign.on_cpu else {degree: published_gains(published, degree) for degree in WIDTHS}
    return Figure(lambda: draw_gains(items, drawn), sentences(caption))


def draw_gains(items: Sequence[WidthTimes], stated: dict[int, dict[int, float]]) -> Canvas:
    """Draw a panel a problem; `stated` has the paper's gains by degree and width."""
    items = [item for item in items if any(item.gain(width) is not None for width in WIDTHS[item.degree])]
    if not items:
        return style.empty("no width was timed beside the full one in this campaign")
    drawn = style.canvas(style.TEXT, HEIGHT)
    for axes, item in zip(drawn.subplots(1, len(items), squeeze=False)[0], items, strict=True):
        _draw_gains(axes, item, stated.get(item.degree, {}))
        axes.set_title(f"{item.line.label}, degree {item.degree}")
        if item is items[0]:
            axes.set_ylabel(f"gain over width {full_width(item.degree)}, %")
    return drawn


def _draw_gains(axes: Axes, item: WidthTimes, stated: dict[int, float]) -> None:
    widths = sorted({*WIDTHS[item.degree], *stated})
    for place, width in enumerate(widths):
        gain = item.gain(width)
        if gain is not None:
            axes.bar(place, 100 * gain, color=style.DARK, width=0.7, zorder=2)
        if width in stated:
            axes.plot([place], [100 * stated[width]], marker="D", markersize=4, color=style.ACCENT, zorder=3)
    axes.axhline(0, color="black", linewidth=0.7, zorder=1)
    axes.grid(axis="y")
    axes.set_xticks(range(len(widths)), [str(width) for width in widths])
    axes.set_xlabel("threads of a region")
