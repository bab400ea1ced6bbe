"""What every figure has to be, whatever it shows: flaws that can be found by its artists and their boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from repro.results import figure_style
from repro.results.problem_lines import ADDED, MARK
from repro.results.tables import Figure

#: The least contrast of text with what is behind it, and of lines and marks with white (WCAG 2.2, 1.4.3 and 1.4.11).
READABLE, VISIBLE = 4.5, 3.0
#: What an axis counts: it has whole numbers at its ticks.
COUNTS = re.compile(r"(variants measured|devices|fields|defragmentations|threads.*|triangles|entries in a row)$")
#: Pixels that boxes may share: they are higher than the ink of their text.
SLACK = 1.0


def laid_out(figure: Figure, shape: figure_style.Shape | None = None) -> Canvas:
    """Return a figure as it is written."""
    with figure_style.figure_settings(), style.context({"font.family": shape.font} if shape and shape.font else {}):
        canvas = figure_style.draw_layout(replace(figure, foot=figure.foot or "A device"), shape)
        canvas.draw_without_rendering()  # which puts the texts in their places
        return canvas


def flaws(canvas: Canvas) -> list[str]:
    """Return all that is wrong with a figure that was laid out, a line each."""
    texts = _texts(canvas)
    return [
        *misplaced(canvas),
        *_struck_through(canvas),
        *_pale(canvas, texts),
        *_broken_counts(canvas),
        *_unexplained(texts),
        *_told_apart_by_colour(canvas),
    ]


def misplaced(canvas: Canvas) -> list[str]:
    """Return a line for each text that leaves the figure, and for each two that meet."""
    texts = _texts(canvas)
    return [*_cut_off(canvas, texts), *_overlapping(texts)]


def _texts(canvas: Canvas) -> list[Text]:
    beyond = {id(label) for axes in canvas.axes for label in _beyond(axes)}
    texts = [text for text in canvas.findobj(Text) if text.get_text().strip() and _shown(text)]
    return [text for text in texts if id(text) not in beyond]


def _beyond(axes: Axes) -> Iterator[Text]:
    """Return the labels of ticks that lie outside of the limits, which are not drawn."""
    for axis in (axes.xaxis, axes.yaxis):
        ends = axis.get_transform().transform(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            with np.errstate(all="ignore"):
                at = axis.get_transform().transform([tick.get_loc()])[0]
            if not axis.axes.axison or not min(ends) - 1e-9 <= at <= max(ends) + 1e-9:
                yield from (tick.label1, tick.label2)


def _shown(artist: Artist) -> bool:
    axes = artist.axes
    return artist.get_visible() and (axes is None or axes.get_visible()) and _box(artist).width > 0


def _box(artist: Artist) -> Bbox:
    return artist.get_window_extent()


def _cut_off(canvas: Canvas, texts: list[Text]) -> Iterator[str]:
    page = canvas.bbox
    for text in texts:
        box = _box(text)
        if min(box.x0 - page.x0, box.y0 - page.y0, page.x1 - box.x1, page.y1 - box.y1) < -SLACK:
            yield f"cut off: {text.get_text()!r}"


def _overlapping(texts: list[Text]) -> Iterator[str]:
    straight = [(text, _box(text)) for text in texts if text.get_rotation() % 90 == 0]
    for (one, first), (other, second) in combinations(straight, 2):
        width = min(first.x1, second.x1) - max(first.x0, second.x0)
        height = min(first.y1, second.y1) - max(first.y0, second.y0)
        if min(width, height) > SLACK:
            yield f"overlapping: {one.get_text()!r} and {other.get_text()!r}"


def _struck_through(canvas: Canvas) -> Iterator[str]:
    for axes in canvas.axes:
        legend = axes.get_legend()
        for text in legend.get_texts() if legend else ():
            for line in axes.lines:
                path = line.get_transform().transform_path(line.get_path())
                inside = Bbox.intersection(_box(text), axes.bbox)
                if inside is not None and path.intersects_bbox(inside, filled=False):
                    yield f"struck through by a line: {text.get_text()!r}"


def _pale(canvas: Canvas, texts: list[Text]) -> Iterator[str]:
    for text in texts:
        ratio = contrast(text.get_color(), _behind(text, canvas))
        if ratio < READABLE and text.get_text() != figure_style.DIAMOND:  # a sample of a mark, not a word
            yield f"contrast of {ratio:.1f}: {text.get_text()!r}"
    for legend in canvas.findobj(Legend):
        for text, handle in _entries(legend):
            if isinstance(handle, Line2D):
                ratio = contrast(_ink(handle), "white")
                if ratio < VISIBLE:
                    yield f"contrast of {ratio:.1f}: the line or mark of {text!r}"


def _behind(text: Text, canvas: Canvas) -> object:
    """Return the colour of the topmost bar that a text lies in; white where there is none."""
    patch = text.get_bbox_patch()
    if patch is not None:
        return patch.get_facecolor()
    box = _box(text)
    middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    below = [bar for axes in canvas.axes for bar in axes.patches if _box(bar).contains(*middle)]
    return max(below, key=lambda bar: bar.get_zorder()).get_facecolor() if below else "white"


def _broken_counts(canvas: Canvas) -> Iterator[str]:
    for axes in canvas.axes:
        beyond = {id(label) for label in _beyond(axes)}
        for axis in (axes.xaxis, axes.yaxis):
            if COUNTS.match(axis.label.get_text()):
                ticks = [tick.label1.get_text() for tick in axis.get_major_ticks()
                         if id(tick.label1) not in beyond]  # fmt: skip
                yield from (f"a count of {tick}" for tick in ticks if re.fullmatch(r"[\d,]*\.\d+", tick))


def _unexplained(texts: list[Text]) -> Iterator[str]:
    for mark in (MARK, ADDED):
        marked = [text.get_text() for text in texts if mark in text.get_text()]
        if marked and not any(re.search(f"{mark} \\w", text) for text in marked):
            yield f"a mark that nothing explains: {marked[0]!r}"


def _told_apart_by_colour(canvas: Canvas) -> Iterator[str]:
    for legend in canvas.findobj(Legend):
        entries = [(text, handle) for text, handle in _entries(legend) if isinstance(handle, Line2D)]
        for (one, first), (other, second) in combinations(entries, 2):
            if _shape(first) == _shape(second):
                ratio = contrast(_ink(first), _ink(second))
                if ratio < 1.2 or {"single", "double"} <= {*one.split(), *other.split()}:
                    yield f"told apart by colour alone: {one!r} and {other!r}"


def _entries(legend: Legend) -> list[tuple[str, Artist]]:
    pairs = zip(legend.get_texts(), legend.legend_handles, strict=True)
    return [(text.get_text(), handle) for text, handle in pairs if handle is not None and _drawn(handle)]


def _drawn(handle: Artist) -> bool:
    if isinstance(handle, Line2D):
        return handle.get_linestyle() != "None" or handle.get_marker() not in ("None", "", None)
    return isinstance(handle, Patch)


def _ink(line: Line2D) -> object:
    """Return the colour that a line is seen by, or a mark: that of its face or its edge that is the darker."""
    if line.get_linestyle() != "None":
        return line.get_color()
    edge, face = line.get_markeredgecolor(), line.get_markerfacecolor()
    return edge if _hollow(line) else max((edge, face), key=lambda colour: contrast(colour, "white"))


def _hollow(line: Line2D) -> bool:
    face = line.get_markerfacecolor()
    return line.get_marker() in ("|", "_", "x", "+") or face == "none" or to_rgb(face) == (1, 1, 1)


def _shape(line: Line2D) -> tuple[object, ...]:
    marked = line.get_marker() not in ("None", "", None)
    return line.get_marker(), line.get_linestyle(), str(line._dash_pattern), marked and _hollow(line)


def contrast(one: object, other: object) -> float:
    """Return the contrast of two colours, 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: object) -> float:
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
