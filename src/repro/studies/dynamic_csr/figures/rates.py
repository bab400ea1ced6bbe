"""Updates a second over the size of the batch: a row of panels a problem, a column a protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.update_times import (
    CONTESTANTS,
    COO,
    DCSR,
    GEAM,
    HYB,
    PROTOCOLS,
    REBUILD,
    ROOMY,
    Contestant,
    Sweep,
    sweeps_of,
    unique_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of panels.
ROW = 1.6
#: Colour and mark of each format.
LOOKS: Mapping[Contestant, tuple[str, str]] = {
    DCSR: (style.DARK, "o"),
    REBUILD: (style.GREY, "s"),
    GEAM: (style.ACCENT, "^"),
    HYB: (style.GREEN, "D"),
    COO: (style.PINK, "v"),
}


@figure(STUDY, "figure-rates", title="Updates a second by the size of the batch", numbering="ours")
def rates(campaign: Campaign, published: Published) -> Figure:
    """Small multiples with logarithmic axes."""
    sweeps = [sweep for sweep in sweeps_of(campaign, published) if sweep.sizes]
    by_geam = any(sweep.has(GEAM) for sweep in sweeps)
    caption = [
        "Updates a second over the entries of a batch that is inserted alone into the matrix before the first batch:",
        "in the order of its rows or in any, where sorting counts; with entries of the same place beside each other",
        "(added) or each place once (unique).",
        unique_of(by_geam),
        ROOMY,
        "CSR rebuilt: counted, summed up and copied. HYB and COO: appended, then sorted by row.",
        f"{GEAM.label}: by the host’s clock." if by_geam else "",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, CLOCK),
        remarks(sweep.line for sweep in sweeps),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(sweeps), sentences(caption))


def draw(sweeps: Sequence[Sweep]) -> Canvas:
    """Draw a row of panels a problem."""
    if not sweeps:
        return style.empty("no batches of growing sizes were measured in this campaign")
    drawn = style.canvas(style.TEXT, 0.55 + ROW * len(sweeps))
    panels = drawn.subplots(len(sweeps), len(PROTOCOLS), sharex=True, sharey=True, squeeze=False)
    for row, sweep in zip(panels, sweeps, strict=True):
        for axes, protocol in zip(row, PROTOCOLS, strict=True):
            for contestant in CONTESTANTS:
                points = [
                    (size, rate)
                    for size in sweep.sizes
                    if size and (rate := sweep.rate(contestant, protocol, size)) is not None
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), **_look(contestant))
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.grid(axis="both")
            axes.minorticks_off()
        row[0].set_ylabel(f"{sweep.line.label}\nupdates/s")
    for axes, protocol in zip(panels[0], PROTOCOLS, strict=True):
        axes.set_title(protocol.title)
    for axes in panels[-1]:
        axes.set_xlabel("entries of the batch")
    shown = [contestant for contestant in CONTESTANTS if any(sweep.has(contestant) for sweep in sweeps)]
    handles = [Line2D([], [], label=contestant.label, **_look(contestant)) for contestant in shown]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.8, columnspacing=1.4)
    style.footnote(drawn, footnote(sweep.line for sweep in sweeps))
    return drawn


def _look(contestant: Contestant) -> dict[str, Any]:
    colour, marker = LOOKS[contestant]
    ours = contestant is DCSR
    return {
        "color": colour, "marker": marker, "markersize": 3.4 if ours else 2.6, "linewidth": 1.5 if ours else 0.9,
        "zorder": 4 if ours else 3,
    }  # fmt: skip
