"""Fit the texts of a figure, so that none overlap: its ticks, and all texts to another width or font.

For another width or font, legends get fewer columns; legends, titles and labels of horizontal axes are broken into
lines; tick labels are rotated. The figure becomes higher, so that its panels keep their heights.

Imported when a figure is drawn, since a class derives from one of Matplotlib.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, cos, floor, log10, radians, sin
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

from matplotlib.ticker import LogLocator, MaxNLocator

from repro.results import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.legend import Legend
    from matplotlib.text import Text

#: Least gap in points between two texts, and between a text and the edge of the figure.
GAP = 3.0
#: Additional height in inches for texts that are broken into lines.
SPARE = 5.0


def fit_texts(drawing: Canvas, width: float) -> None:
    """Change the width (inches) of a figure with a constrained layout, and break texts that are too wide into lines."""
    drawing.draw_without_rendering()
    heights = _panel_heights(drawing)
    keeps_heights = all(axes.get_aspect() == "auto" for axes in drawing.axes)
    drawing.set_figwidth(width)
    if keeps_heights:  # room for broken texts, until their height is known
        drawing.set_figheight(2 * drawing.get_figheight() + SPARE)
    legends = {axes: legend for axes in drawing.axes if (legend := axes.get_legend())}
    for legend in legends.values():  # a legend that is too wide would leave no room for its panel
        legend.set_in_layout(False)
    drawing.draw_without_rendering()
    gap, room = GAP * drawing.dpi / 72, drawing.bbox.width
    footnotes = [legend for legend in drawing.legends if legend.get_window_extent().y1 < drawing.bbox.height / 2]
    for legend in drawing.legends:
        if legend not in footnotes:
            _narrow(legend, room - 2 * gap)
    for text in drawing.texts:
        _break(text, room - 2 * gap)
    _share_line([legend.get_texts()[0] for legend in footnotes], room, gap)
    for axes, legend in legends.items():
        _fit_panel_legend(axes, legend)
        legend.set_in_layout(True)
    drawing.draw_without_rendering()
    for axes in drawing.axes:
        _fit_ticks(axes, gap)
    titles = [(axes.title, axes) for axes in drawing.axes]
    labels = [(axes.xaxis.label, axes) for axes in drawing.axes]
    for texts in (titles, labels):  # all titles get the same width, and so do all labels
        rooms = [_room(text, axes, drawing, gap) for text, axes in texts if text.get_text()]
        for text, _ in texts:
            _break(text, min(rooms, default=room))
    drawing.draw_without_rendering()
    lift_common_label(drawing, footnotes)
    for _ in range(2 if keeps_heights else 0):  # twice, since some gaps are proportional to the height
        drawing.draw_without_rendering()
        surplus = _panel_heights(drawing) - heights
        drawing.set_figheight(drawing.get_figheight() - surplus)
        lift_common_label(drawing, footnotes)


def _panel_heights(drawing: Canvas) -> float:
    """Return the sum of the heights of the rows of panels in inches."""
    specs = ((axes, axes.get_subplotspec()) for axes in drawing.axes)
    rows = {spec.rowspan.start: axes.bbox.height for axes, spec in specs if spec is not None}
    return sum(rows.values()) / drawing.dpi


def _break(text: Text, room: float) -> None:
    """Break a horizontal text into lines of at most `room` pixels: at blanks, if need be after `/` and `_` too."""
    # a no-break space keeps a mark († or ‡) on one line with the word after it
    content = re.sub(r"(?<![^\s(])([†‡]) ", "\\1\N{NO-BREAK SPACE}", text.get_text())
    if text.get_rotation() or text.get_window_extent().width <= room:
        return
    # `wrap` breaks lines at a vertical tab as at a blank; `_lines` removes the tabs
    inner = content if "$" in content else re.sub(r"(?<=[/_])(?=\w)", "\v", content)
    for breakable in (content, inner):
        for letters in range(len(breakable), 0, -1):
            lines = _lines(breakable, letters)
            text.set_text("\n".join(lines))
            if text.get_window_extent().width <= room:
                even_length = min(
                    length for length in range(1, letters + 1) if len(_lines(breakable, length)) == len(lines)
                )
                text.set_text("\n".join(_lines(breakable, even_length)))
                return


def _lines(text: str, letters: int) -> list[str]:
    lines = wrap(text, letters, replace_whitespace=False, break_long_words=False, break_on_hyphens=False)
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
        ends = [-(-len(entries) * index // columns) for index in range(columns + 1)]
        body._children = [
            plotting.VPacker(pad=0, sep=gap, align="baseline", children=entries[start:end])
            for start, end in pairwise(ends)
        ]
        body.set_figure(body.get_figure(root=False))
    marker_width = legend.get_window_extent().width - max(text.get_window_extent().width for text in legend.get_texts())
    if marker_width < room:
        for text in legend.get_texts():
            _break(text, room - marker_width)


def _fit_panel_legend(axes: Axes, legend: Legend) -> None:
    """Make a panel's legend as narrow as the panel, and raise the panel's title above a legend that became higher."""
    box, title, top = legend.get_window_extent(), axes.title.get_window_extent(), axes.bbox.y1
    baseline = axes.title.get_transform().transform(axes.title.get_position())[1]
    _narrow(legend, axes.bbox.width - 2 * GAP * axes.figure.dpi / 72)
    required_height = box.y0 + legend.get_window_extent().height + baseline - title.y0
    if axes.get_title() and box.y0 >= top - 1 and required_height > baseline:
        axes.set_title(axes.get_title(), pad=(required_height - top) * 72 / axes.figure.dpi)


def _share_line(texts: Sequence[Text], room: float, gap: float) -> None:
    """Break the footnote and the device's name, which are side by side below a figure, to a total of `room` pixels."""
    free_width = room - (len(texts) + 1) * 2 * gap
    if sum(text.get_window_extent().width for text in texts) <= free_width:
        return
    for number, text in enumerate(sorted(texts, key=lambda text: text.get_window_extent().width)):
        _break(text, free_width / (len(texts) - number))
        free_width -= text.get_window_extent().width


def _room(text: Text, axes: Axes, drawing: Canvas, gap: float) -> float:
    """Return the largest width in pixels of a text centred on its panel; it ends halfway to the neighbouring panels."""
    box, panel = text.get_window_extent(), axes.bbox
    left_end, right_end = gap / 2, drawing.bbox.width - gap / 2
    for panel_axes in drawing.axes:
        neighbour = panel_axes.bbox
        if panel_axes.get_visible() and neighbour.y0 < panel.y1 and neighbour.y1 > panel.y0:
            if neighbour.x0 >= panel.x1:
                right_end = min(right_end, (panel.x1 + neighbour.x0) / 2)
            elif neighbour.x1 <= panel.x0:
                left_end = max(left_end, (neighbour.x1 + panel.x0) / 2)
    columns = (text.get_window_extent() for text in axes.texts if text.get_visible())
    right_end = min(
        [
            right_end,
            *(
                column.x0 - gap / 2
                for column in columns
                if column.x0 >= panel.x1 and column.y0 < box.y1 and column.y1 > box.y0
            ),
        ]
    )
    middle = (panel.x0 + panel.x1) / 2
    return float(2 * min(middle - left_end, right_end - middle) - gap)


def _fit_ticks(axes: Axes, gap: float) -> None:
    """Rotate overlapping labels of an x axis with fixed ticks by 90 degrees, and remove some if they still overlap.

    Axes with other tick locators are unchanged, since these choose ticks that fit.
    """
    axis = axes.xaxis
    if not isinstance(axis.get_major_locator(), plotting.FixedLocator):
        return
    labels = [label for label in axis.get_majorticklabels() if label.get_visible() and label.get_text()]
    if not labels or _has_clearance(axis, labels, labels[0].get_rotation(), gap):
        return
    axes.tick_params(axis="x", labelrotation=90)
    kept_labels = labels[:1]
    for label in labels[1:]:
        if _has_clearance(axis, [kept_labels[-1], label], 90, 0):
            kept_labels.append(label)
    if len(kept_labels) < len(labels):
        names = [label.get_text() if label in kept_labels else "" for label in axis.get_majorticklabels()]
        axis.set_ticks(axis.get_majorticklocs(), names)


def _has_clearance(axis: Axis, labels: Sequence[Text], angle: float, gap: float) -> bool:
    """Return whether tick labels rotated by `angle` degrees are at least `gap` pixels apart."""
    sizes = []
    for label in labels:
        rotation = label.get_rotation()
        label.set_rotation(0)
        box = label.get_window_extent()
        label.set_rotation(rotation)
        sizes.append((box.width, box.height))
    positions = [float(axis.axes.transData.transform((label.get_position()[0], 0))[0]) for label in labels]
    sine, cosine = abs(sin(radians(angle))), abs(cos(radians(angle)))
    return all(
        sine * abs(position - next_position) >= (size[1] + next_size[1]) / 2
        or cosine * abs(position - next_position) >= (size[0] + next_size[0]) / 2 + gap
        for (position, next_position), (size, next_size) in zip(pairwise(positions), pairwise(sizes), strict=True)
    )


def lift_common_label(drawing: Canvas, footnotes: Sequence[Legend]) -> None:
    """Move the common label of the x axes above the footnote line if the two would overlap."""
    label = next(
        (text for text in drawing.texts if text.get_text() and text.get_text() == drawing.get_supxlabel()), None
    )
    if label is None:
        return
    box = label.get_window_extent()
    lines = [legend.get_window_extent() for legend in footnotes]
    engine: Any = drawing.get_layout_engine()
    if engine.get()["rect"][1] or any(line.x0 < box.x1 and box.x0 < line.x1 for line in lines):
        height, pad = drawing.bbox.height, engine.get()["h_pad"] * drawing.dpi
        drawing.supxlabel(
            label.get_text(), y=(max(line.y1 for line in lines) + pad) / height, fontsize=label.get_fontsize()
        )
        share = box.height / height
        engine.set(rect=(0, share, 1, 1 - share))


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
