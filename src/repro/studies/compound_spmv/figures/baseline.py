"""Figures 5 and 6: speedup over the library, with and without layout tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.case import Case
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, launches, measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import interval_of_ratio, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS, Interval
from repro.sparse.times import baseline, library_of
from repro.studies.compound_spmv.paper import PAPER, STUDY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NUMBERS = {5: "single", 6: "double"}


@dataclass(frozen=True)
class Bars:
    """One problem: speedups over the fastest routine, and over the papers' choice; None where there is none.

    `label` is the name as figures print it.
    `mostly_launch` says that one of the times is hardly more than an empty kernel's.
    `tuned_sure` and `untuned_sure` are intervals.
    """

    problem: str
    label: str
    tuned: float | None
    untuned: float | None
    papers: float | None
    missing: str | None
    mostly_launch: bool = False
    tuned_sure: Interval | None = None
    untuned_sure: Interval | None = None


def speedups(campaign: Campaign, published: Published, precision: str) -> list[Bars]:
    """Return the bars of every problem of the campaign, by the event clock."""
    bars = []
    for line in ours(campaign, published):
        case = Case(campaign, line.problem, precision)
        joint, schedule = case.winner("joint", "event"), case.winner("schedule", "event")
        base, papers = baseline(case, "event"), baseline(case, "event", papers_choice=True)
        missing = None
        if joint is None:
            why = case.why_not()
            missing = "unavailable" if why.startswith("unavailable") else why
        elif base is None:
            missing = f"no {library_of(campaign)} routine was timed"
        bars.append(
            Bars(
                line.problem,
                line.label,
                ratio_of(base, joint),
                ratio_of(base, schedule),
                ratio_of(papers, joint),
                missing,
                bool(joint) and case.mostly_launch("event", joint, schedule, base, papers),
                interval_of_ratio(base, joint),
                interval_of_ratio(base, schedule),
            )
        )
    return bars


def _make(campaign: Campaign, published: Published, number: int) -> Figure:
    precision = NUMBERS[number]
    bars = speedups(campaign, published, precision)
    largest = published.quantity("largest speedup over cuSPARSE", precision)
    library = library_of(campaign)
    best = max((bar for bar in bars if bar.tuned), key=lambda bar: bar.tuned or 0, default=None)
    noisy = sum(
        any(t.noisy for t in (case.winner("joint", "event"), baseline(case, "event")) if t)
        for case in (Case(campaign, bar.problem, precision) for bar in bars)
    )
    caption = [
        f"Speedup over {library} in {precision} precision with (dark, and in numbers at the right) and without",
        "(light) layout tuning.",
        f"The baseline is the fastest of all {library} routines and representations;"
        + (" diamonds, and the second numbers, compare the tuned kernel with the routine that the papers used."
           if any(bar.papers for bar in bars) else " the papers’ own choice was not timed."),
        f"Figure {number} of {PAPER} prints no values; the published maximum over cuSPARSE on its GPUs is",
        f"{largest}×"
        + (", which no CPU speedup is compared with." if campaign.on_cpu
           else " (dashed), over the papers’ routine: the diamonds are its counterpart, on another GPU."),
        WHISKERS if any(bar.tuned_sure for bar in bars) else "",
        f"Our largest: {best.tuned:.2f}× ({best.problem})." if best and best.tuned else "",
        measured_on(campaign, "event"),
        launches(sum(bar.mostly_launch for bar in bars), sum(bar.tuned is not None for bar in bars)).replace(
            ": marked.", " (marked *)."
        ),
        f"Noisy times take part in {noisy} of them." if noisy else "",
        remarks(ours(campaign, published)),
        unavailable(campaign),
    ]  # fmt: skip
    limit = None if campaign.on_cpu else float(largest)
    mark = footnote(ours(campaign, published))
    return Figure(lambda: _draw(bars, library, precision, limit, mark), sentences(caption))


def _draw(bars: list[Bars], library: str, precision: str, published_max: float | None, mark: str | None) -> Canvas:
    if not bars:
        return style.empty("nothing was measured in this campaign")
    drawn = style.canvas(style.COLUMN, style.height(len(bars), extra=1.15, per_row=0.24))
    axes = drawn.add_subplot()
    for row, bar in enumerate(bars):
        for value, sure, offset, colour in (
            (bar.tuned, bar.tuned_sure, -0.2, style.DARK),
            (bar.untuned, bar.untuned_sure, 0.2, style.LIGHT),
        ):
            if value is not None:
                axes.barh(row + offset, value, height=0.38, color=colour, linewidth=0)
                style.whisker(axes, sure, row + offset)
        if bar.papers is not None:
            axes.plot(
                bar.papers, row, "D", markersize=3.6, markerfacecolor="white", markeredgecolor=style.ACCENT,
                markeredgewidth=1.0, zorder=4,
            )  # fmt: skip
    # columns at the right: beside a bar's end a number would meet the diamond
    tuned = [None if bar.tuned is None else f"{bar.tuned:.2f}{'*' * bar.mostly_launch}" for bar in bars]
    style.column(axes, tuned, (style.BAR, style.DARK))
    if any(bar.papers is not None for bar in bars):
        papers = [None if bar.papers is None else f"{bar.papers:.2f}" for bar in bars]
        style.column(axes, papers, (style.DIAMOND, style.ACCENT), points=27)
    values = [v for bar in bars for v in (bar.tuned, bar.untuned, bar.papers) if v is not None]
    right = 1.15 * max([*values, published_max or 1.0, 1.0])
    axes.set_xlim(0, right)
    axes.axvline(1, color=style.GREY, linewidth=0.7)
    if published_max is not None:
        axes.axvline(published_max, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set_xlabel(f"speedup over {library}, {precision} precision")
    axes.grid(axis="x")
    style.rows_axis(axes, [bar.label for bar in bars], missing=[bar.missing for bar in bars])
    _legend(drawn, published_max, papers=any(bar.papers is not None for bar in bars))
    style.footnote(drawn, mark)
    return drawn


def _legend(drawn: Canvas, published_max: float | None, *, papers: bool) -> None:
    handles: list[Patch | Line2D] = [
        Patch(color=style.DARK, label="with layout tuning"),
        Patch(color=style.LIGHT, label="schedule tuning alone"),
    ]
    if papers:
        handles.append(
            Line2D([], [], linestyle="", marker="D", markersize=3.6, markerfacecolor="white",
                   markeredgecolor=style.ACCENT, label="over the papers’ routine")
        )  # fmt: skip
    if published_max is not None:
        handles.append(
            Line2D([], [], color=style.GREY, linestyle=(0, (4, 2)), label=f"published max. {published_max}×")
        )
    drawn.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.6, columnspacing=1.2)


def _register(number: int) -> None:
    precision = NUMBERS[number]

    @figure(
        STUDY,
        f"figure-{number}",
        title=f"Speedup over the library, {precision} precision",
        numbering=f"Figure {number} of {PAPER}",
    )
    def make(campaign: Campaign, published: Published) -> Figure:
        return _make(campaign, published, number)


for _number in NUMBERS:
    _register(_number)
