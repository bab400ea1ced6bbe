"""Figure 3.11: per element over per point, and ours over per element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import context, measured_on, sentences, unavailable
from repro.artifacts.numbers import interval_of_ratio, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS, Interval
from repro.studies.dg_postprocessing.figures.panels import (
    LOOKS,
    STATED,
    degrees_of,
    draw_line,
    families_of,
    line_look,
    of_family,
    over_triangles,
)
from repro.studies.dg_postprocessing.filter_times import ELEMENT, FAMILIES, OURS, POINT, Filtering, Way, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, PAPER, STUDY
from repro.studies.dg_postprocessing.printed import (
    GPU,
    LESS_OR_MORE,
    OVER_POINT,
    OVER_POINT_LEAST,
    OVER_POINT_MOST,
    stated,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: The degree of what the text states of meshes of low variance.
CUBIC = 3
ROW = 1.75


@figure(STUDY, "figure-3-11", title="Per element over per point", numbering=f"Figure 3.11 of {PAPER}")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """A panel a family: above the paper’s two ways, below ours over its per-element way."""
    fields = all_fields(campaign, published)
    lines = {
        name: value
        for name, degree in zip(FAMILIES, (CUBIC, None), strict=True)
        if (value := stated(published, OVER_POINT, name, degree))
    }
    ends = stated(published, OVER_POINT_LEAST), stated(published, OVER_POINT_MOST)
    band = (ends[0], ends[1]) if ends[0] and ends[1] else None
    caption = [
        "Above: time of the paper’s per-point way over that of its per-element way, each with its fastest block.",
        "Below: time of its per-element way over ours. Above 1 the second is the faster.",
        _published(lines, band, campaign.on_cpu),
        WHISKERS if any(map(_sure(ELEMENT, OURS), fields)) else "",
        context(campaign),
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    if campaign.on_cpu:
        lines, band = {}, None
    return Figure(lambda: draw(fields, lines, band), sentences(caption))


def _published(lines: Mapping[str, float], band: tuple[float, float] | None, on_cpu: bool) -> str:
    if not lines or not band:
        return ""
    words = " and ".join(f"over {value:g}× for {name} variance" for name, value in lines.items())
    drawn = "not drawn beside a CPU’s" if on_cpu else "the dashed lines and the band"
    return (
        f"{PAPER} states, for a {GPU}, {words} (the first for P = {CUBIC}), and {band[0]:g}× to {band[1]:g}× of all in "
        f"its conclusions: {drawn}. {LESS_OR_MORE}"
    )


def over_point(field: Filtering) -> float | None:
    """Return the time per point over that per element."""
    return ratio_of(field.time(POINT), field.time(ELEMENT))


def over_element(field: Filtering) -> float | None:
    """Return the time per element over ours."""
    return ratio_of(field.time(ELEMENT), field.time(OURS))


def _sure(slow: Way, fast: Way) -> Callable[[Filtering], Interval | None]:
    """Return what computes the interval of one way's time over another's."""
    return lambda field: interval_of_ratio(field.time(slow), field.time(fast))


def draw(fields: Sequence[Filtering], lines: Mapping[str, float], band: tuple[float, float] | None) -> Canvas:
    """Draw the panels.

    Parameters
    ----------
    fields
        All of them.
    lines, band
        By family what the text states, and the two ends that it states of all; empty where they are not drawn.
    """

    def either(field: Filtering) -> float | None:
        return over_point(field) or over_element(field)

    families, degrees = families_of(fields, either), degrees_of(fields, either)
    if not families:
        return style.empty("no two ways were timed on a field of this campaign")
    drawn = style.canvas(style.TEXT, 2 * ROW + 0.4)
    panels = drawn.subplots(2, len(families), sharex=True, sharey="row", squeeze=False)
    rows = (
        (over_point, POINT, ELEMENT, "per element over per point"),
        (over_element, ELEMENT, OURS, "ours over per element"),
    )
    for row, (number, slow, fast, label) in enumerate(rows):
        for place, (family, axes) in enumerate(zip(families, panels[row], strict=True)):
            for degree in degrees:
                draw_line(axes, of_family(fields, family, degree), number, LOOKS[degree], _sure(slow, fast))
            axes.axhline(1, color="black", linewidth=0.6, zorder=2)
            if row == 0:
                axes.set_title(f"{family} variance")
                if band:
                    axes.axhspan(*band, color=style.BAND, zorder=0)
                if family in lines:
                    axes.axhline(lines[family], zorder=2, **STATED)
            over_triangles(axes, fields, label if place == 0 else "", last=row == 1, log=False)
    handles: list[Line2D | Patch] = [
        Line2D([], [], label=f"P = {degree}", **line_look(*LOOKS[degree])) for degree in degrees
    ]
    if lines:
        handles.append(Line2D([], [], label=f"“over”, published, {GPU}", **STATED))
    if band:
        handles.append(Patch(color=style.BAND, label="its conclusions"))
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn
