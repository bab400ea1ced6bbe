"""Figure 3.10: GFLOPS by the size of the mesh, the family and the degree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import context, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.panels import (
    degrees_of,
    draw_line,
    families_of,
    line_look,
    of_family,
    over_triangles,
    say_empty,
)
from repro.studies.dg_postprocessing.filter_times import DEGREES, ELEMENT, OURS, POINT, Filtering, Way, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, PAPER, STUDY
from repro.studies.dg_postprocessing.printed import FLOPS_LEAST, FLOPS_MOST, GPU, LARGEST, stated
from repro.studies.dg_postprocessing.work import formula

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LOOKS = {POINT: (style.GREY, "o"), ELEMENT: (style.MIDDLE, "s"), OURS: (style.DARK, "D")}
#: Triangles of the mesh that the text states its largest rate of, and inches of a row.
LARGEST_MESH, ROW = 2**20, 1.75
#: By family and degree the least and the largest rate that the text states.
Ranges = dict[tuple[str, int], tuple[float, float]]


@figure(STUDY, "figure-3-10", title="GFLOPS by the size of the mesh", numbering=f"Figure 3.10 of {PAPER}")
def flops(campaign: Campaign, published: Published) -> Figure:
    """A row a family, a panel a degree."""
    fields = all_fields(campaign, published)
    ranges = ranges_of(published)
    caption = [
        "GFLOPS of the paper’s two ways, each with its fastest block, and of ours; above meshes of low variance, below",
        "of high.",
        formula(),
        _published(ranges, campaign.on_cpu),
        context(campaign),
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(fields, {} if campaign.on_cpu else ranges), sentences(caption))


def ranges_of(published: Published) -> Ranges:
    """Return the rates that the text states, the same twice where it is one."""
    largest = stated(published, LARGEST, "low", 1)
    ranges = {("low", 1): (largest, largest)} if largest else {}
    for degree in DEGREES:
        least, most = (stated(published, name, "low", degree) for name in (FLOPS_LEAST, FLOPS_MOST))
        if least and most:
            ranges["low", degree] = least, most
    return ranges


def _published(ranges: Ranges, on_cpu: bool) -> str:
    if not ranges:
        return ""
    words = [
        f"{least:g} for P = {degree} per element on the largest mesh"
        if least == most
        else f"{least:g} to {most:g} for P = {degree}"
        for (_, degree), (least, most) in ranges.items()
    ]
    drawn = "not drawn beside a CPU’s" if on_cpu else "the bands and the mark"
    return (
        f"{PAPER} states, for a {GPU} and meshes of low variance, {', '.join(words)}: {drawn}. It does not say which "
        "operations it counts, so that its rates and ours are not of the same numbers of them."
    )


def draw(fields: Sequence[Filtering], ranges: Ranges) -> Canvas:
    """Draw the panels; ranges are what is stated, where it is drawn."""

    def rate(way: Way, field: Filtering) -> float | None:
        return field.gflops(field.time(way))

    def fastest(field: Filtering) -> float | None:
        return max((value for way in LOOKS if (value := rate(way, field))), default=None)

    families, degrees = families_of(fields, fastest), degrees_of(fields, fastest)
    if not families:
        return style.empty("no field was filtered in this campaign")
    drawn = style.canvas(style.TEXT, style.height(0, extra=0.25) + ROW * len(families))
    panels = drawn.subplots(len(families), len(degrees), sharex=True, sharey="row", squeeze=False)

    def full(family: str, degree: int) -> bool:
        return (family, degree) in ranges or any(
            fastest(field) is not None for field in of_family(fields, family, degree)
        )

    lowest = {
        degree: max((row for row, family in enumerate(families) if full(family, degree)), default=0)
        for degree in degrees
    }
    for row, family in enumerate(families):
        for degree, axes in zip(degrees, panels[row], strict=True):
            if row == 0:
                axes.set_title(f"P = {degree}")
            if not full(family, degree):
                say_empty(axes)
                continue
            those = of_family(fields, family, degree)
            for way, look in LOOKS.items():
                draw_line(axes, those, partial(rate, way), look)
            if (family, degree) in ranges:
                least, most = ranges[family, degree]
                if least == most:
                    axes.plot([LARGEST_MESH], [most], marker="*", markersize=7, color=style.ACCENT, zorder=4)
                else:
                    axes.axhspan(least, most, color=style.BAND, zorder=1)
            first = next(item for item in degrees if full(family, item))
            last = row == lowest[degree]
            over_triangles(axes, fields, f"GFLOPS, {family} variance" if degree == first else "", last=last)
            axes.tick_params(labelbottom=last, labelleft=degree == first)
    handles: list[Line2D | Patch] = [Line2D([], [], label=way.title, **line_look(*look)) for way, look in LOOKS.items()]
    if ranges:
        star: dict[str, Any] = {"marker": "*", "markersize": 7, "linestyle": "", "color": style.ACCENT}
        handles += [
            Patch(color=style.BAND, label=f"published, {GPU}"),
            Line2D([], [], label="the same, largest", **star),
        ]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn
