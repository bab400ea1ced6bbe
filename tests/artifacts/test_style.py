"""What all figures are drawn by."""

from itertools import pairwise

import pytest

from repro.artifacts import style


@pytest.mark.parametrize("limits", [(2.2, 35), (30, 62), (0.5, 900), (1e-3, 1e5)])
def test_labels_of_a_logarithmic_axis_do_not_collide(limits):
    drawn = style.canvas(style.COLUMN, 1.5)
    axes = drawn.add_subplot()
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    style.log_ticks(axes.xaxis, (1, 2, 5) if limits[1] / limits[0] < 1e5 else (1,))
    drawn.draw_without_rendering()
    low, high = limits
    shown = [tick.label1 for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = sorted((label.get_window_extent() for label in shown), key=lambda box: box.x0)
    assert shown and all("$" not in label.get_text() for label in shown)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert not [tick for tick in axes.xaxis.get_minor_ticks() if tick.label1.get_text()]
