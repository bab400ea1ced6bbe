"""Ticks of logarithmic axes; imported only when a figure is drawn, since the class derives from one of Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, cast

from matplotlib.ticker import LogLocator, MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axis import Axis

#: Least gap between tick labels in points; width / height of a digit.
MIN_TICK_SPACING, DIGIT_WIDTH = 3.0, 0.64


class Decades(LogLocator):
    """Tick locator for a logarithmic axis that omits ticks whose labels would overlap, but keeps at least two.

    Parameters
    ----------
    steps
        Positions of ticks in each decade, as multiples of its power of ten.
    points
        Font size of the labels.
    """

    def __init__(self, steps: Sequence[float], points: float) -> None:
        super().__init__(10)
        self.steps = steps
        self.points = points

    def __call__(self) -> Any:
        axis = cast("Axis", self.axis)
        low, high = sorted(axis.get_view_interval())
        powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
        finest = [[step * power for power in powers for step in steps] for steps in (self.steps, range(1, 10))]
        # on an axis of less than a factor of 2 these can be too few; evenly spaced ticks are just as readable there
        uniform_ticks = [
            MaxNLocator(most_ticks, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high) for most_ticks in range(6, 0, -1)
        ]
        choices = [*finest, *(powers[::stride] for stride in range(1, len(powers) + 1)), *uniform_ticks]
        visible_ticks = [[tick for tick in ticks if low <= tick <= high] for ticks in choices]
        fit = [ticks for ticks in visible_ticks if not _meet(axis, ticks, self.points)]
        return next((ticks for ticks in fit if len(ticks) > 1), fit[0])


def _meet(axis: Axis, ticks: Sequence[float], height: float) -> bool:
    """Return whether neighbouring tick labels of a font size (`height`, in points) would overlap."""
    low, high = sorted(axis.get_view_interval())
    is_horizontal = axis is axis.axes.xaxis
    box, dpi = axis.axes.bbox, axis.axes.figure.dpi
    points = 72 * (box.width if is_horizontal else box.height) / dpi
    sizes = [height * (DIGIT_WIDTH * len(f"{tick:g}") if is_horizontal else 1.0) + MIN_TICK_SPACING for tick in ticks]
    positions = [points * log10(tick / low) / log10(high / low) for tick in ticks]
    pairs = zip(pairwise(positions), pairwise(sizes), strict=True)
    return any(pair[1] - pair[0] < sum(size) / 2 for pair, size in pairs)
