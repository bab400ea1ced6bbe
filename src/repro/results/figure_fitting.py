"""Fit the texts of a figure to another width or font than it was drawn for, so that no texts overlap.

Legends get fewer columns; legends, titles and labels of horizontal axes are broken into lines; tick labels are rotated.
The figure becomes higher, so that its panels keep their heights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import cos, radians, sin
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from repro.results import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.legend import Legend
    from matplotlib.text import Text
    from matplotlib.transforms import BboxBase

#: Least gap in points between two texts, and between a text and the edge of the figure.
GAP = 3.0
#: Additional height in inches for texts that are broken into lines.
SPARE = 5.0


def fit_words(drawn: Canvas, width: float) -> None:
    """Change the width (inches) of a figure with a constrained layout, and break texts that are too wide into lines."""
    drawn.draw_without_rendering()
    heights = _panel_heights(drawn)
    keeps = all(axes.get_aspect() == "auto" for axes in drawn.axes)
    drawn.set_figwidth(width)
    if keeps:  # room for broken texts, until their height is known
        drawn.set_figheight(2 * drawn.get_figheight() + SPARE)
    legends = {axes: legend for axes in drawn.axes if (legend := axes.get_legend())}
    for legend in legends.values():  # a legend that is too wide would leave no room for its panel
        legend.set_in_layout(False)
    drawn.draw_without_rendering()
    gap, room = GAP * drawn.dpi / 72, drawn.bbox.width
    below = [legend for legend in drawn.legends if legend.get_window_extent().y1 < drawn.bbox.height / 2]
    for legend in drawn.legends:
        if legend not in below:
            _narrow(legend, room - 2 * gap)
    for text in drawn.texts:
        _break(text, room - 2 * gap)
    _share_line([legend.get_texts()[0] for legend in below], room, gap)
    for axes, legend in legends.items():
        _fit_panel_legend(axes, legend)
        legend.set_in_layout(True)
    drawn.draw_without_rendering()
    for axes in drawn.axes:
        _fit_ticks(axes, gap)
    titles = [(axes.title, axes) for axes in drawn.axes]
    labels = [(axes.xaxis.label, axes) for axes in drawn.axes]
    for words in (titles, labels):  # all titles get the same width, and so do all labels
        rooms = [_room(text, axes, drawn, gap) for text, axes in words if text.get_text()]
        for text, _ in words:
            _break(text, min(rooms, default=room))
    drawn.draw_without_rendering()
    _lift_common_label(drawn, below)
    for _ in range(2 if keeps else 0):  # twice, since some gaps are proportional to the height
        drawn.draw_without_rendering()
        surplus = _panel_heights(drawn) - heights
        drawn.set_figheight(drawn.get_figheight() - surplus)
        _lift_common_label(drawn, below)


def _panel_heights(drawn: Canvas) -> float:
    """Return the sum of the heights of the rows of panels in inches."""
    places = ((axes, axes.get_subplotspec()) for axes in drawn.axes)
    rows = {place.rowspan.start: axes.bbox.height for axes, place in places if place is not None}
    return sum(rows.values()) / drawn.dpi


def _break(text: Text, room: float) -> None:
    """Break a horizontal text into lines of at most `room` pixels: at blanks, if need be after `/` and `_` too."""
    # a no-break space keeps a mark († or ‡) on one line with the word after it
    words = re.sub(r"(?<![^\s(])([†‡]) ", "\\1\N{NO-BREAK SPACE}", text.get_text())
    if text.get_rotation() or text.get_window_extent().width <= room:
        return
    # `wrap` breaks lines at a vertical tab as at a blank; `_lines` removes the tabs
    inner = words if "$" in words else re.sub(r"(?<=[/_])(?=\w)", "\v", words)
    for breakable in (words, inner):
        for letters in range(len(breakable), 0, -1):
            lines = _lines(breakable, letters)
            text.set_text("\n".join(lines))
            if text.get_window_extent().width <= room:
                even = min(fewer for fewer in range(1, letters + 1) if len(_lines(breakable, fewer)) == len(lines))
                text.set_text("\n".join(_lines(breakable, even)))
                return


def _lines(words: str, letters: int) -> list[str]:
    lines = wrap(words, letters, replace_whitespace=False, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\v", "").replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _narrow(legend: Legend, room: float) -> None:
    """Reduce the columns of a legend, then break the last column's lines, until it is at most `room` pixels wide."""
    body: Any = legend.get_children()[0].get_children()[1]
    entries = [entry for column in body.get_children() for entry in column.get_children()]
    gap = body.get_children()[0].sep
    columns = len(body.get_children())
    while columns > 1 and legend.get_window_extent().width > room:
        columns -= 1
        # as in matplotlib: if the entries do not divide evenly, the first columns have one more
        ends = [-(-len(entries) * place // columns) for place in range(columns + 1)]
        body._children = [
            plotting.VPacker(pad=0, sep=gap, align="baseline", children=entries[start:end])
            for start, end in pairwise(ends)
        ]
        body.set_figure(body.get_figure(root=False))
    beside = legend.get_window_extent().width - max(text.get_window_extent().width for text in legend.get_texts())
    if beside < room:
        for text in legend.get_texts():
            _break(text, room - beside)


def _fit_panel_legend(axes: Axes, legend: Legend) -> None:
    """Make a panel's legend as narrow as the panel, and raise the panel's title above a legend that became higher."""
    box, title, top = legend.get_window_extent(), axes.title.get_window_extent(), axes.bbox.y1
    baseline = axes.title.get_transform().transform(axes.title.get_position())[1]
    _narrow(legend, axes.bbox.width - 2 * GAP * axes.figure.dpi / 72)
    needed = box.y0 + legend.get_window_extent().height + baseline - title.y0
    if axes.get_title() and box.y0 >= top - 1 and needed > baseline:
        axes.set_title(axes.get_title(), pad=(needed - top) * 72 / axes.figure.dpi)


def _share_line(texts: Sequence[Text], room: float, gap: float) -> None:
    """Break the footnote and the device's name, which are side by side below a figure, to a total of `room` pixels."""
    left = room - (len(texts) + 1) * 2 * gap
    if sum(text.get_window_extent().width for text in texts) <= left:
        return
    for number, text in enumerate(sorted(texts, key=lambda text: text.get_window_extent().width)):
        _break(text, left / (len(texts) - number))
        left -= text.get_window_extent().width


def _room(text: Text, axes: Axes, drawn: Canvas, gap: float) -> float:
    """Return the largest width in pixels of a text centred on its panel; it ends halfway to the neighbouring panels."""
    box, panel = text.get_window_extent(), axes.bbox
    left, right = gap / 2, drawn.bbox.width - gap / 2
    for other in drawn.axes:
        beside = other.bbox
        if other.get_visible() and beside.y0 < panel.y1 and beside.y1 > panel.y0:
            if beside.x0 >= panel.x1:
                right = min(right, (panel.x1 + beside.x0) / 2)
            elif beside.x1 <= panel.x0:
                left = max(left, (beside.x1 + panel.x0) / 2)
    columns = (words.get_window_extent() for words in axes.texts if words.get_visible())
    right = min([right, *(column.x0 - gap / 2 for column in columns if column.x0 >= panel.x1 and _beside(column, box))])
    middle = (panel.x0 + panel.x1) / 2
    return float(2 * min(middle - left, right - middle) - gap)


def _beside(one: BboxBase, other: BboxBase) -> bool:
    return one.y0 < other.y1 and one.y1 > other.y0


def _fit_ticks(axes: Axes, gap: float) -> None:
    """Rotate overlapping labels of an x axis with fixed ticks by 90 degrees, and remove some if they still overlap.

    Axes with other tick locators are unchanged, since these choose ticks that fit.
    """
    axis = axes.xaxis
    if not isinstance(axis.get_major_locator(), plotting.FixedLocator):
        return
    labels = [label for label in axis.get_majorticklabels() if label.get_visible() and label.get_text()]
    if not labels or _clear(axis, labels, labels[0].get_rotation(), gap):
        return
    axes.tick_params(axis="x", labelrotation=90)
    kept = labels[:1]
    for label in labels[1:]:
        if _clear(axis, [kept[-1], label], 90, 0):
            kept.append(label)
    if len(kept) < len(labels):
        names = [label.get_text() if label in kept else "" for label in axis.get_majorticklabels()]
        axis.set_ticks(axis.get_majorticklocs(), names)


def _clear(axis: Axis, labels: Sequence[Text], angle: float, gap: float) -> bool:
    """Return whether tick labels rotated by `angle` degrees are at least `gap` pixels apart."""
    sizes = []
    for label in labels:
        given = label.get_rotation()
        label.set_rotation(0)
        box = label.get_window_extent()
        label.set_rotation(given)
        sizes.append((box.width, box.height))
    places = [float(axis.axes.transData.transform((label.get_position()[0], 0))[0]) for label in labels]
    across, along = abs(sin(radians(angle))), abs(cos(radians(angle)))
    return all(
        across * abs(here - there) >= (one[1] + other[1]) / 2
        or along * abs(here - there) >= (one[0] + other[0]) / 2 + gap
        for (here, there), (one, other) in zip(pairwise(places), pairwise(sizes), strict=True)
    )


def _lift_common_label(drawn: Canvas, below: Sequence[Legend]) -> None:
    """Move the common label of the x axes above the footnote line if the two would overlap."""
    label = next((text for text in drawn.texts if text.get_text() and text.get_text() == drawn.get_supxlabel()), None)
    if label is None:
        return
    box = label.get_window_extent()
    lines = [legend.get_window_extent() for legend in below]
    engine: Any = drawn.get_layout_engine()
    if engine.get()["rect"][1] or any(line.x0 < box.x1 and box.x0 < line.x1 for line in lines):
        height, pad = drawn.bbox.height, engine.get()["h_pad"] * drawn.dpi
        drawn.supxlabel(
            label.get_text(), y=(max(line.y1 for line in lines) + pad) / height, fontsize=label.get_fontsize()
        )
        share = box.height / height
        engine.set(rect=(0, share, 1, 1 - share))
