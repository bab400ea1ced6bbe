"""Figure 4.7: GFLOPS of both degrees, by width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.region_panels import grid, widths_axis
from repro.studies.dg_postprocessing.paper import MACHINE, PAPER, STUDY
from repro.studies.dg_postprocessing.region_space import WIDTHS
from repro.studies.dg_postprocessing.region_work import formula
from repro.studies.dg_postprocessing.width_times import CLOCK, LANE, WidthTimes, gflops, width_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LOOKS = {"the paper’s kernel": style.LIGHT, "ours, a thread a region": style.DARK}


@figure(STUDY, "figure-4-7", title="GFLOPS by width", numbering=f"Figure 4.7 of {PAPER}")
def region_flops(campaign: Campaign, published: Published) -> Figure:
    """A panel a problem: a bar a width, and one of ours."""
    items = width_times(campaign, published)
    peaks = sorted({round(item.peak) for item in items if item.peak})
    caption = [
        "GFLOPS in double precision of the paper’s kernel by the threads of a region, of each width the fastest over",
        "regions and numbers of blocks, and of ours with a thread a region, whose rule has fewer points: it does less",
        "for the same integrals, so that times, not rates, say which is the faster.",
        formula(),
        f"The device does at most {' or '.join(map(str, peaks))} GFLOPS." if peaks else "",
        f"The paper prints no number of its figure, of a {MACHINE}, and does not say which operations it counts.",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(items), sentences(caption))


def draw(items: Sequence[WidthTimes]) -> Canvas:
    """Draw the bars of each problem."""
    items = [item for item in items if rates(item)]
    if not items:
        return style.empty("no kernels of regions were timed in this campaign")
    drawn, panels = grid(items)
    papers, ours = LOOKS.values()
    for axes, item in zip(panels, items, strict=True):
        widths = WIDTHS[item.degree]
        for name, rate in rates(item).items():
            place, colour = (len(widths), ours) if name == LANE else (widths.index(int(name)), papers)
            axes.bar(place, rate, color=colour, width=0.7, zorder=2)
        widths_axis(axes, widths, "ours")
        axes.set_xlim(-0.5, len(widths) + 0.5)
        axes.set_ylabel("GFLOPS")
        axes.grid(axis="y")
    handles = [Patch(color=colour, label=label) for label, colour in LOOKS.items()]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def rates(item: WidthTimes) -> dict[str, float]:
    """Return the rates of a problem's kernels that were timed, by width, and `lane` for ours."""
    timed = {str(width): item.of_width(width) for width in WIDTHS[item.degree]} | {LANE: item.of_method(LANE)}
    return {name: rate for name, one in timed.items() if (rate := gflops(one)) is not None}
