"""What all figures are drawn by."""

from itertools import pairwise

import pytest

from repro.artifacts import style
from repro.artifacts.document import Figure


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


def test_the_device_stands_below_every_figure_beside_its_footnote(tmp_path):
    def draw():
        drawn = style.canvas(style.COLUMN, 1.5)
        drawn.add_subplot().set_xlabel("time")
        style.footnote(drawn, "† a stand-in")
        made.append(drawn)
        return drawn

    made = []
    style.save(Figure(draw, "A caption."), [tmp_path / "figure.svg"], "A title", "NVIDIA H200")
    left, right = (legend.get_window_extent() for legend in made[0].legends)
    assert [legend.get_texts()[0].get_text() for legend in made[0].legends] == ["† a stand-in", "NVIDIA H200"]
    assert left.x1 < right.x0 and right.x1 <= made[0].bbox.x1 and right.y0 >= 0
    label = made[0].axes[0].xaxis.label.get_window_extent()
    assert max(left.y1, right.y1) <= label.y0 + 2
