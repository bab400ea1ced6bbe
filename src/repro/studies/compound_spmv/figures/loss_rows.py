"""Losses in percent as rows of dots: a row for each way of tuning or running, a dot a problem in one precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from repro.artifacts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

OFFSETS = {"single": -0.16, "double": 0.16}
TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw_losses(rows: Mapping[str, Mapping[str, Sequence[float]]], label: str, empty: str) -> Canvas:
    """Draw rows of dots with a bar at the median; the axis is linear up to 1 % and logarithmic beyond.

    Parameters
    ----------
    rows
        Losses in percent by the row's name and precision.
    label
        Of the axis.
    empty
        What is said where there are no rows.
    """
    if not rows:
        return style.empty(empty)
    drawn = style.canvas(style.COLUMN, style.height(len(rows), extra=0.9, per_row=0.36))
    axes = drawn.add_subplot()
    largest = 1.0
    for row, losses in enumerate(rows.values()):
        for precision, (colour, marker) in style.PRECISIONS.items():
            values = losses.get(precision, ())
            if not values:
                continue
            at = row + OFFSETS[precision]
            spread = np.linspace(-0.09, 0.09, len(values))  # so that equal losses do not hide each other
            axes.plot(values, at + spread, marker, color=colour, markersize=2.6, markeredgewidth=0, alpha=0.7)
            axes.plot([np.median(values)] * 2, [at - 0.14, at + 0.14], color=colour, linewidth=1.6)
            largest = max(largest, *values)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    axes.set_xlim(-0.1, 1.2 * largest)
    ticks = [tick for tick in TICKS if tick <= 1.2 * largest]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])
    axes.set_xlabel(label)
    axes.grid(axis="x")
    style.rows_axis(axes, [*rows], missing=[None] * len(rows))
    handles = [
        Line2D([], [], linestyle="", marker=marker, markersize=3, color=colour, label=precision)
        for precision, (colour, marker) in style.PRECISIONS.items()
    ]
    drawn.legend(handles=handles, loc="outside upper right", ncols=2, handletextpad=0.3)
    return drawn
