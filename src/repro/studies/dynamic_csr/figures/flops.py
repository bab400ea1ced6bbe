"""GFLOPS of the products: own CSR, segments in both states and by bins, and HYB; a panel a precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.case import Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, launches, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.times import library_of
from repro.studies.dynamic_csr.paper import PAPER, STUDY
from repro.studies.dynamic_csr.product_times import CLOCK, ProductTimes, all_times, stated_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of the figure, and the share of it that bars fill.
ROW, FILLED = 0.4, 0.8


@dataclass(frozen=True)
class Series:
    """One product of every problem."""

    label: str
    colour: str
    pick: Callable[[ProductTimes], Timed | None]


SERIES = (
    Series("CSR", style.GREY, lambda case: case.csr),
    Series("DCSR, fragmented", style.LIGHT, lambda case: case.fragmented),
    Series("DCSR, defragmented", style.DARK, lambda case: case.defragmented),
    Series("ADCSR", style.ACCENT, lambda case: case.adaptive),
    Series("HYB", style.GREEN, lambda case: case.hyb),
)


@figure(STUDY, "figure-5-4", title="GFLOPS of the products", numbering=f"Figure 5.4 of {PAPER}")
def flops(campaign: Campaign, published: Published) -> Figure:
    """A row a problem with a bar a format, a panel a precision."""
    panels = {precision: all_times(campaign, published, precision) for precision in campaign.precisions}
    cases = [case for panel in panels.values() for case in panel]
    lines = [case.line for case in next(iter(panels.values()))]
    timed = [case for case in cases if case.csr or case.defragmented]
    near = sum(case.case.mostly_launch(CLOCK, case.csr, case.defragmented) for case in timed)
    caption = [
        "GFLOPS of y = A x with the grown matrix: two operations for each of its entries, none for padding.",
        "CSR, DCSR: so many threads a row, the best number of them; DCSR as the batches left it, and with one segment",
        "a row. ADCSR: rows in bins by their sizes, a kernel a bin on a stream of its own, in the best state of the",
        f"matrix. Lines: the fastest routine of {library_of(campaign)} for CSR. Diamonds: the fastest of all in one",
        "launch, with one segment a row.",
        stated_means(published),
        measured_on(campaign, CLOCK),
        launches(near, len(timed)),
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(panels, footnote(lines)), sentences(caption))


def draw(panels: dict[str, list[ProductTimes]], mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    shown = [series for series in SERIES if any(series.pick(case) for panel in panels.values() for case in panel)]
    if not shown:
        return style.empty("nothing was measured in this campaign")
    names = [case.line.label for case in next(iter(panels.values()))]
    drawn = style.canvas(style.TEXT, style.height(len(names), extra=1.0, per_row=ROW))
    for number, (precision, cases) in enumerate(panels.items()):
        axes = drawn.add_subplot(1, len(panels), number + 1)
        _draw_panel(axes, cases, shown)
        axes.set_title(f"{precision} precision")
        axes.set_xlabel("GFLOPS: 2 × entries / time")
        missing = [None if _any(case, shown) else case.case.why_not() for case in cases]
        style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
    handles: list[Patch | Line2D] = [Patch(color=series.colour, label=series.label) for series in shown]
    if any(case.library_csr for panel in panels.values() for case in panel):
        handles.append(_mark("|", 9, 1.2, "library’s CSR"))
    if any(case.ours for panel in panels.values() for case in panel):
        handles.append(_mark("D", 3.6, 0.5, "ours"))
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.2, columnspacing=1.2)
    style.footnote(drawn, mark)
    return drawn


def _mark(marker: str, size: float, edge: float, label: str) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker=marker, markersize=size, markeredgewidth=edge, color="black", label=label
    )


def _any(case: ProductTimes, shown: Sequence[Series]) -> bool:
    return any(series.pick(case) for series in shown)


def _draw_panel(axes: Axes, cases: Sequence[ProductTimes], shown: Sequence[Series]) -> None:
    thickness = FILLED / len(shown)
    for at, case in enumerate(cases):
        for place, series in enumerate(shown):
            rate = case.gflops(series.pick(case))
            if rate is not None:
                offset = (place - (len(shown) - 1) / 2) * thickness
                axes.barh(at + offset, rate, height=thickness, color=series.colour, linewidth=0)
        library = case.gflops(case.library_csr)
        if library is not None:
            axes.plot([library, library], [at - FILLED / 2, at + FILLED / 2], color="black", linewidth=1.2, zorder=4)
        fastest = case.gflops(case.ours)
        if fastest is not None:
            axes.plot([fastest], [at], "D", color="black", markersize=3.6, markeredgewidth=0.5, zorder=5)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
