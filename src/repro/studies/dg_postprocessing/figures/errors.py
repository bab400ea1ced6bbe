"""Errors before and after the filter by the size of the mesh, the family and the degree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.field_errors import before, filtered
from repro.studies.dg_postprocessing.figures.panels import (
    LOOKS,
    degrees_of,
    families_of,
    line_look,
    of_family,
    over_triangles,
)
from repro.studies.dg_postprocessing.filter_times import Filtering, all_fields
from repro.studies.dg_postprocessing.paper import STUDY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEIGHT = 2.6
#: Errors that lie further apart have a tick a power of ten.
DECADES = 300


@figure(STUDY, "figure-errors", title="Errors before and after the filter", numbering="ours")
def errors(campaign: Campaign, published: Published) -> Figure:
    """A panel a family."""
    fields = all_fields(campaign, published)
    caption = [
        "Errors in L² of fields against the function that they are the projection of, over triangles: dashed lines and",
        "hollow marks before the filter, full ones after it, with h the longest edge. Numbers, orders and the largest",
        "errors are in table-errors.",
        unavailable(campaign),
    ]
    return Figure(lambda: draw(fields), sentences(caption))


def l2_before(field: Filtering) -> float | None:
    """Return the error in L² of the field itself."""
    errors = before(field)
    return errors.l2 if errors else None


def l2_filtered(field: Filtering) -> float | None:
    """Return that of the filtered field."""
    errors = filtered(field)
    return errors.l2 if errors else None


def draw(fields: Sequence[Filtering]) -> Canvas:
    """Draw the panels."""
    families, degrees = families_of(fields, l2_filtered), degrees_of(fields, l2_filtered)
    if not families:
        return style.empty("no errors are known in this campaign")
    drawn = style.canvas(style.TEXT if len(families) > 1 else style.COLUMN, HEIGHT)
    panels = drawn.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for place, (family, axes) in enumerate(zip(families, panels, strict=True)):
        for degree in degrees:
            _draw_degree(axes, of_family(fields, family, degree), degree)
        over_triangles(axes, fields, "error in L²" if place == 0 else "")
        least, most = axes.get_ylim()
        few = most < DECADES * least
        axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 5) if few else (1,)))
        axes.yaxis.set_major_formatter(LogFormatterSciNotation(10, minor_thresholds=(np.inf, np.inf)))
        axes.set_title(f"{family} variance")
    handles = [Line2D([], [], label=f"P = {degree}", **_look(degree, after=True)) for degree in degrees]
    handles += [
        Line2D([], [], label=label, **(_look(degrees[0], after=after) | {"color": style.GREY, "marker": ""}))
        for label, after in (("dG", False), ("filtered", True))
    ]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def _draw_degree(axes: Axes, fields: Sequence[Filtering], degree: int) -> None:
    """Draw both lines of a degree."""
    for number, after in ((l2_before, False), (l2_filtered, True)):
        pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
        if pairs:
            across, along = zip(*pairs, strict=True)
            axes.plot(across, along, **_look(degree, after=after))


def _look(degree: int, *, after: bool) -> dict[str, Any]:
    colour, marker = LOOKS[degree]
    look = line_look(colour, marker)
    if after:
        return look
    return look | {
        "linestyle": (0, (4, 2)),
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "markeredgewidth": 0.8,
    }
