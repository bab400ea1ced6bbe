"""The filter's matrix against filtering directly, by how many fields there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.panels import LOOKS, line_look, of_family, short
from repro.studies.dg_postprocessing.filter_times import FAMILIES, OURS, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import CLOCK, HOST, PRODUCT_CLOCK, STUDY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEIGHT = 2.3
#: How much of the axis lies below 1, as a part of what lies above: the legend's lines, without that at 1 through them.
ROOM = 0.8
#: The fields, one after the other, that the making of the matrix is divided among: 1, 2, 4, … of them.
SHARED = tuple(2**power for power in range(11))


@figure(STUDY, "figure-fields", title="The matrix against direct filtering, by the fields", numbering="ours")
def by_fields(campaign: Campaign, published: Published) -> Figure:
    """A panel a family; of each degree the largest mesh whose matrix there is."""
    fields = all_fields(campaign, published)
    caption = [
        "How many times faster fields are filtered by the matrix than directly by contours, over how many there are:",
        "of each family and degree the largest mesh whose matrix fits. Lines: all fields with one matrix that is made",
        "for them, its making with them, multiplied with as many at a time as is fastest of those that were timed;",
        "above 1 making it has paid. Marks: products alone, of so many fields at once.",
        measured_on(campaign, PRODUCT_CLOCK),
        f"Filtering directly by the {CLOCK} clock, making by the {HOST} clock.",
        unavailable(campaign),
    ]
    return Figure(lambda: draw(fields), sentences(caption))


def gain(field: Filtering, count: int) -> float | None:
    """Return the time of filtering so many fields directly over that of making the matrix and multiplying with them.

    Fields are multiplied in batches of one of the numbers that were timed, the last of them as full as the others.
    """
    make, direct = field.make, field.time(OURS)
    products = [
        -(-count // number) * timed.seconds for number in field.fields if (timed := field.apply(number)) is not None
    ]
    return count * direct.seconds / (make.seconds + min(products)) if make and direct and products else None


def alone(field: Filtering, count: int) -> float | None:
    """Return the time of filtering so many fields directly over that of a product with them at once."""
    direct, timed = field.time(OURS), field.apply(count)
    return count * direct.seconds / timed.seconds if direct and timed else None


def largest(fields: Sequence[Filtering], family: str, degree: int) -> Filtering | None:
    """Return the largest mesh of a family and degree whose matrix was made; None where there is none."""
    made = [field for field in of_family(fields, family, degree) if gain(field, 1) is not None]
    return made[-1] if made else None


def draw(fields: Sequence[Filtering]) -> Canvas:
    """Draw both panels."""
    chosen = {family: {degree: largest(fields, family, degree) for degree in LOOKS} for family in FAMILIES}
    families = [family for family in FAMILIES if any(chosen[family].values())]
    if not families:
        return style.empty("no matrix was made in this campaign")
    drawn = style.canvas(style.TEXT if len(families) > 1 else style.COLUMN, HEIGHT)
    panels = drawn.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for family, axes in zip(families, panels, strict=True):
        there = {degree: field for degree, field in chosen[family].items() if field is not None}
        for degree, field in there.items():
            _draw_field(axes, field, degree)
        axes.axhline(1, color="black", linewidth=0.6, zorder=2)
        axes.set_title(f"{family} variance")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(SHARED[::2], [str(count) for count in SHARED[::2]])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(axis="both")
        axes.set_xlabel("fields")
        labels = {degree: f"P = {degree}, {short(field.triangles or 0)} triangles" for degree, field in there.items()}
        axes.legend(
            handles=[Line2D([], [], label=label, **line_look(*LOOKS[degree])) for degree, label in labels.items()],
            loc="lower right",
        )
    least, most = panels[0].get_ylim()
    if most > 1:
        panels[0].set_ylim(bottom=min(least, most**-ROOM))
    panels[0].set_ylabel("direct over matrix")
    handles = [
        Line2D([], [], color=style.GREY, label="with its making"),
        Line2D([], [], label="products alone", **(line_look(style.GREY, "o") | {"linestyle": ""})),
    ]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def _draw_field(axes: Axes, field: Filtering, degree: int) -> None:
    """Draw the line and the marks of a field."""
    colour, marker = LOOKS[degree]
    along = [value for count in SHARED if (value := gain(field, count)) is not None]
    axes.plot(SHARED, along, color=colour, zorder=3)
    for count in field.fields:
        if (value := alone(field, count)) is not None:
            axes.plot([count], [value], **(line_look(colour, marker) | {"linestyle": ""}))
