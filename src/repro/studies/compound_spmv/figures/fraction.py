"""Fraction of the streaming floor over the size of the operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, ours, remarks, sentences, unavailable
from repro.artifacts.numbers import ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.times import library_of
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, standings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MEGA = 1e6
MIB = 1 << 20
OWN_SAID = (
    "A winner that stores each pair of a symmetric matrix once moves fewer bytes than the floor and may pass it; where"
    " one has won, a diamond is its fraction of its own floor, the time in which its own bytes and both vectors stream."
)


@dataclass(frozen=True)
class Series:
    """One kind of point: how it looks, and fraction over bytes."""

    label: str
    colour: str
    face: str
    marker: str

    def handle(self) -> Line2D:
        """Return its line of the legend."""
        return Line2D(
            [], [], linestyle="", marker=self.marker, markersize=4.2, markerfacecolor=self.face,
            markeredgecolor=self.colour, markeredgewidth=0.9, label=self.label,
        )  # fmt: skip


@figure(STUDY, "figure-fraction", title="Fraction of the streaming floor over the size", numbering="ours")
def fraction(campaign: Campaign, published: Published) -> Figure:
    """A panel a precision; our space, the papers' and the library, and pairs by their own floor."""
    lines = ours(campaign, published)
    cases = [case for case in standings(campaign, published) if case.operands]
    cache = cache_bytes(campaign)
    left_out = len(lines) * len(campaign.precisions) - len(cases)
    caption = [
        "Fraction of the streaming floor (the floor’s time over the time) over the bytes of the matrix as CSR-AoS and",
        "both vectors, on a logarithmic axis: our space, the papers’, and the fastest",
        f"{library_of(campaign)} routine of any kind.",
        OWN_SAID if any(case.own_floor(case.ours) for case in cases) else "",
        f"The vertical line is the size of the last-level cache, {cache / MIB:.0f} MiB: times are with a"
        f" {campaign.cache} cache, so that what is smaller need not come from memory." if cache else "",
        "" if any(case.ours for case in cases) else "The space `extended` was not searched.",
        f"{left_out} pairs of problem and precision have no floor." if left_out else "",
        "Nothing of this is published.",
        measured_on(campaign, "graph"),
        remarks(lines),
        unavailable(campaign),
    ]  # fmt: skip
    return Figure(lambda: _draw(cases, campaign.precisions, library_of(campaign), cache), sentences(caption))


def cache_bytes(campaign: Campaign) -> int | None:
    """Return the size of the device's last-level cache, where the environment has it."""
    sizes = [int(record.get("cache_bytes") or 0) for record in campaign.environments.values()]
    return max(sizes, default=0) or None


def _draw(cases: list[Standing], precisions: tuple[str, ...], library: str, cache: int | None) -> Canvas:
    if not cases:
        return style.empty("no floor was timed in this campaign")
    drawn = style.canvas(style.TEXT, 2.6)
    panels = drawn.subplots(1, len(precisions), sharex=True, sharey=True, squeeze=False)[0]
    series = {
        "library": Series(f"fastest {library}", style.ACCENT, "white", "s"),
        "papers": Series("the papers’ space", style.DARK, style.LIGHT, "^"),
        "ours": Series("our space", style.DARK, style.DARK, "o"),
        "own": Series("our space, of its own floor", style.DARK, "white", "D"),
    }
    used: dict[str, Series] = {}
    for axes, precision in zip(panels, precisions, strict=True):
        for case in cases:
            if case.case.precision == precision:
                used |= _case(axes, case, series)
        axes.set_xscale("log")
        axes.axhline(1, color=style.GREY, linewidth=0.7)
        if cache:
            axes.axvline(cache / MEGA, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 2)))
        axes.set_title(f"{precision} precision")
        axes.set_xlabel("matrix as CSR-AoS and both vectors [MB]")
        style.log_ticks(axes.xaxis)
        axes.grid()
    panels[0].set_ylabel("fraction of the streaming floor")
    panels[0].set_ylim(bottom=0)
    handles = [series[name].handle() for name in reversed(series) if name in used]
    if cache:
        handles.append(
            Line2D([], [], color=style.GREY, linestyle=(0, (4, 2)), label=f"last-level cache, {cache / MIB:.0f} MiB")
        )
    drawn.legend(handles=handles, loc="outside upper left", ncols=4, handletextpad=0.4, columnspacing=1.2)
    return drawn


def _case(axes: Axes, case: Standing, series: dict[str, Series]) -> dict[str, Series]:
    """Draw the points of one problem, joined by a line; return the series that it has."""
    timed = {"library": case.library, "papers": case.papers, "ours": case.ours}
    fractions = {name: ratio_of(case.floor, one) for name, one in timed.items()}
    fractions["own"] = ratio_of(case.own_floor(case.ours), case.ours)
    points = {name: value for name, value in fractions.items() if value is not None}
    at = (case.operands or 0) / MEGA
    if len(points) > 1:
        ends = [min(points.values()), max(points.values())]
        axes.plot([at, at], ends, color=style.GREY, linewidth=0.5, alpha=0.6, zorder=1)
    for name, value in points.items():
        one = series[name]
        axes.plot(
            at, value, one.marker, markersize=4.2, markerfacecolor=one.face, markeredgecolor=one.colour,
            markeredgewidth=0.9, zorder=3,
        )  # fmt: skip
    return {name: series[name] for name in points}
