"""Streaming and iterative updates: how many times faster than HYB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.case import Case
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import Line, context, footnote, lineup, measured_on, remarks, sentences, unavailable
from repro.artifacts.numbers import interval_of_ratio, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.over_hybrid import Pair, iterative, streamed
from repro.studies.dynamic_csr.paper import PAPER, PRODUCTS, STUDY
from repro.studies.dynamic_csr.printed import number_of
from repro.studies.dynamic_csr.update_times import (
    DCSR,
    GEAM,
    HYB,
    REBUILD,
    about_geam,
    failure_of,
    sweeps_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of the figure, and the share of it that bars fill.
ROW, FILLED = 0.3, 0.8
GPU = "K20c"


@dataclass(frozen=True)
class Series:
    """One bar of every row: how many times faster the second of two times is than the first."""

    label: str
    colour: str
    times: Callable[[Case], Pair]

    def number(self, case: Case) -> float | None:
        """Return the ratio, None without both."""
        return ratio_of(*self.times(case))


@dataclass(frozen=True)
class Panel:
    """One half of the figure.

    Attributes
    ----------
    title
        Above it.
    series
        Its bars.
    marks
        Published numbers by problem of the paper.
    lines
        What the paper's text states, by what it is called.
    whats
        What the rows that it is made from are called.
    missing
        What is said of a problem that was measured but has no bar, where nothing failed.
    """

    title: str
    series: tuple[Series, ...]
    whats: tuple[str, ...]
    missing: str
    marks: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, float] = field(default_factory=dict)


ITERATIVE = (
    Series("DCSR", style.DARK, iterative(DCSR)),
    Series("CSR rebuilt", style.GREY, iterative(REBUILD)),
    Series("CSR by csrgeam2", style.ACCENT, iterative(GEAM)),
)
STREAMING = (
    Series("DCSR, by row", style.DARK, streamed("sorted")),
    Series("DCSR, any order", style.LIGHT, streamed("any")),
)


@figure(STUDY, "figure-5-3", title="Streaming and iterative updates over HYB", numbering=f"Figure 5.3 of {PAPER}")
def updates(campaign: Campaign, published: Published) -> Figure:
    """A row a problem: iterative updates on the left, streaming ones on the right."""
    sweeps = {sweep.line.problem for sweep in sweeps_of(campaign, published)}
    lines = [line for line in lineup(campaign, published) if line.problem not in sweeps and line.record is not None]
    cases = [Case(campaign, line.problem, precision_of(campaign)) for line in lines]
    mean, best, most = (
        published.quantity(f"speedup of {what}", gpu=GPU)
        for what in (
            "streaming updates over HYB, mean",
            "streaming updates over HYB, largest",
            "iterative updates over HYB, largest",
        )
    )
    on_gpu = not campaign.on_cpu
    drawn = "diamonds" if on_gpu else "they are not drawn beside a CPU’s"
    panels = (
        Panel(
            f"iterative: a batch and {PRODUCTS} products",
            ITERATIVE,
            ("iterate",),
            "was not iterated with HYB",
            lines={f"published largest, {most}": float(most)} if on_gpu else {},
        ),
        Panel(
            "streaming: the whole matrix",
            STREAMING,
            ("stream",),
            "was not streamed into both",
            marks=bars_of(published) if on_gpu else {},
            lines={f"published mean, {mean}, and largest, {best}": float(mean), "": float(best)} if on_gpu else {},
        ),
    )
    caption = [
        "How many times faster than HYB. Left (the paper’s upper half): batch after batch is inserted, each followed",
        f"by {PRODUCTS} products; the time of all of it, HYB’s over that of each format. Batches come by row. A",
        "product needs nothing that a batch would change: dynamic CSR has its rows in bins by their sizes before",
        "the first batch (the paper’s adaptive product), CSR has as many threads a row as suit its mean size, more",
        "for longer rows.",
        "HYB sorts its coordinates with every batch. CSR is made again with every batch: rows are counted, sizes added",
        "up and rows copied, or cuSPARSE’s csrgeam2 adds the batch.",
        about_geam(campaign),
        "The paper’s graphs, and those in their place, have 50 batches of random entries, each 0.2 % of the matrix.",
        "Sweeps, whose batches are of growing sizes, are in figure-rates." if sweeps else "",
        "Right (its lower half): the grown matrix as one batch into an empty one, whose rows have a segment of mean",
        "size; HYB’s time, its sort included, over dynamic CSR’s, the entries in the order of their rows or in any.",
        WHISKERS
        if any(interval_of_ratio(*series.times(case)) for series in (*ITERATIVE, *STREAMING) for case in cases)
        else "",
        _means(cases),
        f"{PAPER} states, for a {GPU}, {mean}× in the mean and as much as {best}× for streaming, and as much as",
        f"{most}× for iterative updates. Its bars for streaming are recovered from Table 5.4, HYB’s update over",
        f"DCSR’s, where an update is “1000 updates”, which it does not define: {drawn}.",
        f"{precision_of(campaign).capitalize()} precision; the paper does not say in which its updates are.",
        measured_on(campaign, CLOCK),
        context(campaign),
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(panels, lines, cases, footnote(lines)), sentences(caption))


def bars_of(published: Published) -> dict[str, float]:
    """Return the paper's bars of streaming updates by problem, as Table 5.4 implies them; none where one has none."""
    pairs = {
        item["problem"]: (number_of(item["HYB_update"]), number_of(item["DCSR_update"]))
        for item in published["operations"]
    }
    return {problem: hybrid / dynamic for problem, (hybrid, dynamic) in pairs.items() if hybrid and dynamic}


def _means(cases: Sequence[Case]) -> str:
    """Return the sentence with the means and the largest of ours; empty without any."""
    words = []
    for what, series in (("iterative", ITERATIVE[0]), ("streaming", STREAMING[0]), ("streaming", STREAMING[1])):
        numbers = [number for case in cases if (number := series.number(case)) is not None]
        if numbers:
            words.append(f"{what}, {series.label}: {fmean(numbers):.2f}× in the mean, as much as {max(numbers):.2f}×")
    return f"Ours: {'; '.join(words)}." if words else ""


def draw(panels: Sequence[Panel], lines: Sequence[Line], cases: Sequence[Case], mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(series.number(case) is not None for panel in panels for series in panel.series for case in cases):
        return style.empty("no updates were measured in this campaign")
    drawn = style.canvas(style.TEXT, style.height(len(lines), extra=1.45, per_row=ROW))
    for number, (panel, axes) in enumerate(zip(panels, drawn.subplots(1, len(panels)), strict=True)):
        missing = [
            _draw_row(axes, panel, at, line, case) for at, (line, case) in enumerate(zip(lines, cases, strict=True))
        ]
        for value in panel.lines.values():
            axes.axvline(value, color=style.GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        axes.axvline(1, color="black", linewidth=0.7, zorder=4)
        axes.set_xlim(left=0)
        axes.grid(axis="x")
        axes.set_xlabel("speedup over HYB")
        names = [line.label for line in lines]
        style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
        _legend(axes, panel, cases)
    style.footnote(drawn, mark)
    return drawn


def _draw_row(axes: Axes, panel: Panel, at: int, line: Line, case: Case) -> str | None:
    """Draw the bars of a problem; return why there are none."""
    numbers = [series.number(case) for series in panel.series]
    shown = [(series, number) for series, number in zip(panel.series, numbers, strict=True) if number is not None]
    thickness = FILLED / max(len(shown), 1)
    for place, (series, number) in enumerate(shown):
        offset = (place - (len(shown) - 1) / 2) * thickness
        axes.barh(at + offset, number, height=thickness, color=series.colour, linewidth=0, zorder=2)
        style.whisker(axes, interval_of_ratio(*series.times(case)), at + offset)
    theirs = panel.marks.get(line.published or "")
    if theirs is not None:
        axes.plot([theirs], [at], **_DIAMOND)
    if shown:
        return None
    if case.measured:
        return failure_of(case, (DCSR, HYB), *panel.whats) or panel.missing
    why = case.why_not()
    return "unavailable" if why.startswith("unavailable") else why


_DIAMOND: dict[str, Any] = {
    "marker": "D", "markersize": 3.6, "markerfacecolor": "white", "markeredgecolor": "black", "markeredgewidth": 0.8,
    "linestyle": "", "zorder": 5,
}  # fmt: skip


def _legend(axes: Axes, panel: Panel, cases: Sequence[Case]) -> None:
    handles: list[Patch | Line2D] = [
        Patch(color=series.colour, label=series.label)
        for series in panel.series
        if any(series.number(case) is not None for case in cases)
    ]
    if panel.marks:
        handles.append(Line2D([], [], label=f"published, {GPU}", **_DIAMOND))
    handles += [
        Line2D([], [], color=style.GREY, linewidth=0.7, linestyle=(0, (4, 2)), label=label)
        for label in panel.lines
        if label
    ]
    axes.set_title(panel.title, pad=6 + 9 * -(-len(handles) // 2))
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handlelength=1.4, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip
