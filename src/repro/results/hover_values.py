"""Values of bars and points of a figure, as titles in its SVG file that a browser shows where the pointer is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.ticker import FixedLocator

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

    FloatArray = npt.NDArray[np.float64]

#: Most points of a figure that get a title; a title is about as large as the point itself.
MOST = 4000
_MARK = re.compile(r'<g id="(mark-\d+)"[^>]*>')


def name_marks(drawn: Canvas) -> dict[str, list[str]]:
    """Give ids to the bars and points of a figure, and return the text of each bar, or of the points of each series."""
    texts: dict[str, list[str]] = {}
    count = 0
    for axes in drawn.axes:
        for artist, said in _marks(axes):
            count += len(said)
            if said and count <= MOST:
                name = f"mark-{len(texts)}"
                artist.set_gid(name)
                texts[name] = said
    return texts


def _marks(axes: Axes) -> Iterator[tuple[Any, list[str]]]:
    """Yield the bars and the series of points of a panel, with their texts."""
    for container in axes.containers:
        if isinstance(container, BarContainer):
            lying = container.orientation == "horizontal"
            rows, values = (axes.yaxis, axes.xaxis) if lying else (axes.xaxis, axes.yaxis)
            for bar in container.patches:
                at = bar.get_y() + bar.get_height() / 2 if lying else bar.get_x() + bar.get_width() / 2
                value = bar.get_width() if lying else bar.get_height()
                yield bar, [_text(container.get_label(), ((rows, at), (values, value)))] if isfinite(value) else []
    for line in axes.lines:
        if line.get_marker() not in (None, "None", "", " "):
            yield line, _points(axes, line.get_label(), np.asarray(line.get_xydata(), float))
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            yield collection, _points(axes, collection.get_label(), np.asarray(collection.get_offsets(), float))


def _points(axes: Axes, label: object, points: FloatArray) -> list[str]:
    """Return the text of each point of an (n, 2) array; those that are not finite are not drawn."""
    return [_text(label, ((axes.xaxis, x), (axes.yaxis, y))) for x, y in points if isfinite(x) and isfinite(y)]


def _text(label: object, values: Iterable[tuple[Axis, float]]) -> str:
    """Return the label of a series and a value for each axis, a line each: the name of a row, or a number."""
    name = str(label or "")
    lines = [] if name.startswith("_") or not name else [name]
    for axis, value in values:
        row = _row(axis, value)
        title = axis.get_label_text().replace("\n", " ")
        number = f"{title}: {value:.4g}" if title else f"{value:.4g}"
        lines += [number] if row is None else [row] if row else []
    return "\n".join(lines)


def _row(axis: Axis, value: float) -> str | None:
    """Return the name of the row in which a value lies, empty if it has none; None if the axis has numbers."""
    if not isinstance(axis.get_major_locator(), FixedLocator):
        return None
    written = axis.get_major_formatter()
    names = [written(place) for place in axis.get_majorticklocs() if abs(place - value) < 0.5]
    return names[0] if names and not re.fullmatch(r"[\d.,\s]+", names[0]) else None


def with_titles(svg: str, texts: Mapping[str, list[str]]) -> str:
    """Return an SVG with the texts of `name_marks` as titles; a series of which not all points are drawn gets none."""
    parts = []
    end = 0
    for match in _MARK.finditer(svg):
        start, stop = match.end(), _end_of_group(svg, match.end())
        said = texts.get(match[1], [])
        parts += [svg[end:start], _titled(svg[start:stop], said)]
        end = stop
    return "".join([*parts, svg[end:]])


def _end_of_group(svg: str, start: int) -> int:
    """Return where the group that begins before `start` ends."""
    depth = 1
    for tag in re.finditer(r"<(/?)g\b[^>]*?(/?)>", svg[start:]):
        depth += -1 if tag[1] else 0 if tag[2] else 1
        if depth == 0:
            return start + tag.start()
    return len(svg)


def _titled(group: str, texts: list[str]) -> str:
    titles = [f"<title>{escape(text)}</title>" for text in texts]
    uses = len(re.findall(r"<use\b", group))
    if len(titles) == 1 and not uses:
        return titles[0] + group
    if uses != len(titles):
        return group
    left = iter(titles)
    return re.sub(r"<use\b([^>]*?)/>", lambda use: f"<use{use[1]}>{next(left)}</use>", group)
