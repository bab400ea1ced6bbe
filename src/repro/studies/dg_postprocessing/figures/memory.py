"""Figure 3.7: memory of the per-element way by the size of the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dg_postprocessing.figures.panels import (
    LOOKS,
    degrees_of,
    draw_line,
    families_of,
    line_look,
    of_family,
    over_triangles,
)
from repro.studies.dg_postprocessing.filter_times import Filtering, all_fields
from repro.studies.dg_postprocessing.paper import PAPER, PATCHES, STUDY
from repro.studies.dg_postprocessing.tables.memory import overhead, patch_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ROW, PERCENT = 1.75, 100


@figure(STUDY, "figure-3-7", title="Memory of the per-element way", numbering=f"Figure 3.7 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Figure:
    """A row a family, a panel a number of patches."""
    fields = all_fields(campaign, published)
    caption = [
        "Memory that the per-element way takes beside one solution, in percent of it: copies of the points around the",
        f"triangles of each patch. {PATCHES} patches as in Figure 3.7 of {PAPER}, which is of P = 1, and 132, one for",
        "each multiprocessor of an H200. It does not depend on the device. The text prints no number, only that the",
        "overhead falls as meshes grow.",
        unavailable(campaign),
    ]
    return Figure(lambda: draw(fields), sentences(caption))


def percent_of(patches: int, field: Filtering) -> float | None:
    """Return the overhead in percent; None where it was not counted."""
    share = overhead(field, patches)
    return None if share is None else PERCENT * share


def draw(fields: Sequence[Filtering]) -> Canvas:
    """Draw the panels."""
    counts = patch_counts(list(fields))
    some = partial(percent_of, counts[0])
    families, degrees = families_of(fields, some), degrees_of(fields, some)
    if not families:
        return style.empty("no copies were counted in this campaign")
    drawn = style.canvas(style.TEXT, 0.4 + ROW * len(families))
    panels = drawn.subplots(len(families), len(counts), sharex=True, sharey="row", squeeze=False)
    for row, family in enumerate(families):
        for count, axes in zip(counts, panels[row], strict=True):
            for degree in degrees:
                draw_line(axes, of_family(fields, family, degree), partial(percent_of, count), LOOKS[degree])
            if row == 0:
                axes.set_title(f"{count} patches")
            label = f"overhead in %, {family} variance" if count == counts[0] else ""
            over_triangles(axes, fields, label, last=row == len(families) - 1)
    handles = [Line2D([], [], label=f"P = {degree}", **line_look(*LOOKS[degree])) for degree in degrees]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn
