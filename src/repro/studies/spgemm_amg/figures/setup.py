"""The set-up by phase: level by level in milliseconds, and the share of each phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import context, footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.spgemm_amg.paper import PAPER, STUDY
from repro.studies.spgemm_amg.printed import GPU, SHARE_LEAST, SHARE_MOST, stated_range
from repro.studies.spgemm_amg.shared_cells import MILLI
from repro.studies.spgemm_amg.times import EVENT, PHASES, ProblemTimes, all_times, precision_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of the figure, and the share of it that bars fill.
ROW, FILLED = 0.26, 0.7
COLOURS = {
    "galerkin": style.DARK,
    "diagonal": style.PALE,
    "aggregates": style.GREEN,
    "tentative": "#f0e442",
    "radius": style.PINK,
    "prolongator": style.LIGHT,
    "transpose": style.GREY,
}


@figure(STUDY, "figure-setup", title="Phases of the set-up", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Figure:
    """A row a problem: milliseconds on the left, shares on the right."""
    cases = all_times(campaign, published)
    lines = [case.line for case in cases]
    share = stated_range(published, SHARE_LEAST, SHARE_MOST)
    caption = [
        "The phases of the set-up with our kernels, medians of each by events in samples of their own; one that waits",
        "for a size reads what the host takes as well. Left: level by level, the finest first; a line parts two",
        "levels. Right: shares of the phases, all levels together, the Galerkin products R·(A·P) first.",
        _published(share, campaign.on_cpu),
        context(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, EVENT),
        remarks(lines),
        unavailable(campaign),
    ]
    band = None if campaign.on_cpu else share
    return Figure(lambda: draw(cases, band, footnote(lines)), sentences(caption))


def _published(share: tuple[float, float] | None, on_cpu: bool) -> str:
    if share is None:
        return ""
    drawn = "not drawn beside a CPU’s" if on_cpu else "between the dashed lines"
    return (
        f"{PAPER} states, for a {GPU}, that the Galerkin products are {100 * share[0]:.0f} to {100 * share[1]:.0f} % "
        f"of the set-up: {drawn}."
    )


def draw(cases: Sequence[ProblemTimes], band: tuple[float, float] | None, mark: str | None) -> Canvas:
    """Draw both panels.

    Parameters
    ----------
    band
        The published ends of the Galerkin products' share; None where they are not drawn.
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(case.phases for case in cases):
        return style.empty("no set-up was timed phase by phase in this campaign")
    drawn = style.canvas(style.TEXT, style.height(len(cases), extra=1.35, per_row=ROW))
    times, shares = drawn.subplots(1, 2)
    for at, case in enumerate(cases):
        if case.phases:
            _draw_times(times, at, case)
            _draw_shares(shares, at, case)
    times.set_xlabel("time of the phases, level by level, ms")
    shares.set_xlabel("share of all phases, %")
    shares.set_xlim(0, 100)
    if band:
        for end in band:
            shares.axvline(100 * end, zorder=4, **_ENDS)
    times.set_xlim(left=0)
    times.grid(axis="x")
    missing = [None if case.phases else _why_not(case) for case in cases]
    style.rows_axis(times, [case.line.label for case in cases], missing=missing)
    style.rows_axis(shares, [""] * len(cases), missing=[])
    handles: list[Patch | Line2D] = [Patch(color=colour, label=PHASES[name]) for name, colour in COLOURS.items()]
    if band:
        handles.append(Line2D([], [], label=f"published, {GPU}", **_ENDS))
    drawn.legend(handles=handles, loc="outside upper left", ncols=-(-len(handles) // 2), handlelength=1.1)
    style.footnote(drawn, mark)
    return drawn


_ENDS: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": (0, (4, 2))}


def _why_not(case: ProblemTimes) -> str:
    why = case.why_not("level")
    return "unavailable" if why.startswith("unavailable") else why


def _draw_times(axes: Axes, at: int, case: ProblemTimes) -> None:
    begin = 0.0
    for number, level in enumerate(case.levels):
        if number:
            axes.plot([begin, begin], [at - 0.5, at + 0.5], color="black", linewidth=0.9, zorder=4)
        for name in PHASES:
            width = MILLI * level.stages[name]
            axes.barh(at, width, left=begin, height=FILLED, color=COLOURS[name], linewidth=0, zorder=2)
            begin += width


def _draw_shares(axes: Axes, at: int, case: ProblemTimes) -> None:
    phases, begin = case.phases, 0.0
    whole = sum(phases.values())
    for name, colour in COLOURS.items():
        width = 100 * phases[name] / whole
        axes.barh(at, width, left=begin, height=FILLED, color=colour, linewidth=0, zorder=2)
        if name == "galerkin":
            axes.text(width / 2, at, f"{width:.0f} %", ha="center", va="center", fontsize=6, color="white", zorder=5)
        begin += width
