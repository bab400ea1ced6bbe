"""Panels of fields on tetrahedra, over the threads of a region, which several figures of this study have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.artifacts import style
from repro.artifacts.lineup import footnote
from repro.studies.dg_postprocessing.width_times import WidthTimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Panels beside each other, and inches of a row of them.
ACROSS, ROW = 2, 2.4


def grid(items: Sequence[WidthTimes]) -> tuple[Canvas, list[Axes]]:
    """Return a figure with a panel a problem, two beside each other, and the panels with their titles."""
    rows = -(-len(items) // ACROSS)
    drawn = style.canvas(style.TEXT, 0.2 + ROW * rows)
    panels = list(drawn.subplots(rows, min(ACROSS, len(items)), squeeze=False).flat)
    for axes in panels[len(items) :]:
        axes.remove()
    for axes, item in zip(panels, items, strict=False):
        axes.set_title(f"{item.line.label}, degree {item.degree}")
    style.footnote(drawn, footnote(item.line for item in items))
    return drawn, panels[: len(items)]


def widths_axis(axes: Axes, widths: Sequence[int], *others: str) -> None:
    """Label the places 0, 1, … of widths, and after them those of other kernels."""
    labels = [*map(str, widths), *others]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("threads of a region")
