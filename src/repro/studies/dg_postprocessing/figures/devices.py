"""Figure 3.12: the speed-up over the number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.panels import LOOKS, line_look, of_family, short
from repro.studies.dg_postprocessing.filter_times import ELEMENT, FAMILIES, OURS, Filtering, Way, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, PAPER, STUDY
from repro.studies.dg_postprocessing.several_times import NOTHING, SHARED, counts, speedup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEIGHT = 2.3
DASHES: dict[Way, Any] = {OURS: "-", ELEMENT: (0, (3, 1.5))}


@figure(STUDY, "figure-3-12", title="Speed-up over several GPUs", numbering=f"Figure 3.12 of {PAPER}")
def scaling(campaign: Campaign, published: Published) -> Figure:
    """A panel a family; of each degree and way the largest mesh that was filtered over several devices."""
    fields = all_fields(campaign, published)
    nothing = not counts(fields)
    caption = [
        "Time on one device over that over several of the same host, of each family and degree on the largest mesh",
        "that was filtered so. Full lines: ours, values stay where they are computed; dashed: the paper’s per-element",
        "way, whose second stage brings them to the first device. Grey: as many times as fast as there are devices.",
        "The paper draws P = 1 over the size of the mesh, on 1, 2, 4 and 8 Tesla M2090; no speed-up is printed there.",
        NOTHING if nothing else "",
        measured_on(campaign, CLOCK),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(fields), sentences(caption), nothing)


def largest(fields: Sequence[Filtering], way: Way, family: str, degree: int) -> Filtering | None:
    """Return the largest mesh of a family and degree with a speed-up of a way; None where there is none."""
    those = of_family(fields, family, degree)
    timed = [field for field in those if any(speedup(field, way, number) for number in counts([field]))]
    return timed[-1] if timed else None


def draw(fields: Sequence[Filtering]) -> Canvas:
    """Draw the panels."""
    chosen = {
        (family, way, degree): field
        for family in FAMILIES
        for way in SHARED
        for degree in LOOKS
        if (field := largest(fields, way, family, degree)) is not None
    }
    families = [family for family in FAMILIES if any(key[0] == family for key in chosen)]
    if not families:
        return style.empty("nothing was filtered over several devices in this campaign")
    drawn = style.canvas(style.TEXT if len(families) > 1 else style.COLUMN, HEIGHT)
    panels = drawn.subplots(1, len(families), sharey=True, squeeze=False)[0]
    numbers = [1, *counts([*chosen.values()])]
    for family, axes in zip(families, panels, strict=True):
        axes.plot(numbers, numbers, color=style.GREY, linewidth=0.6, zorder=1)
        for (name, way, degree), field in chosen.items():
            if name == family:
                _draw_field(axes, field, way, degree)
        axes.set_title(f"{family} variance")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.set_yticks(numbers, [str(number) for number in numbers])
        axes.minorticks_off()
        axes.grid(axis="both")
        axes.set_xlabel("devices")
        axes.legend(loc="upper left")
    panels[0].set_ylabel("speed-up over one")
    ways = [way for way in SHARED if any(key[1] is way for key in chosen)]
    handles = [Line2D([], [], color="black", linestyle=DASHES[way], label=way.title) for way in ways]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def _draw_field(axes: Axes, field: Filtering, way: Way, degree: int) -> None:
    points = [(1, 1.0)]
    points += [(number, value) for number in counts([field]) if (value := speedup(field, way, number)) is not None]
    label = f"P = {degree}, {short(field.triangles or 0)} triangles" if way is OURS else None
    axes.plot(*zip(*points, strict=True), **line_look(*LOOKS[degree]), linestyle=DASHES[way], label=label)
