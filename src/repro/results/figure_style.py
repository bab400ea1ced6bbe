"""Common style of all figures; equal data give byte-identical files.

In SVG files, bars and points have their values as titles, which a browser shows as tooltips.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from math import inf, isfinite
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from repro.errors import ReproError
from repro.results import plotting
from repro.results.tables import Figure
from repro.words import suggestion

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D


# in inches: widths of a column and of the text in a two-column paper
COLUMN_WIDTH = 3.45
TEXT_WIDTH = 7.1


class Look(NamedTuple):
    """How a role looks in all figures: its label in legends, and what nothing else is drawn with."""

    label: str
    #: Colour of lines and marks, and colour of bars.
    colour: str
    fill: str
    marker: str


OURS = Look("ours", "#1f4e79", "#1f4e79", "o")
PAPERS = Look("papers’ kernels", "#3f88c5", "#9cc3e6", "^")
#: The library of the baselines, whose name stands in place of the label where it is known.
LIBRARY = Look("library", "#d55e00", "#d55e00", "s")
#: Numbers that a paper states of its own machine; the colours are those of a mark's edge and of its face.
PUBLISHED = Look("published", "black", "white", "D")

# colours of whatever else is drawn; PALE is too pale for lines and markers on white
GREEN = "#009e73"
PINK = "#cc79a7"
VIOLET = "#5e3c99"
GREY = "#6b6b6b"
PALE = "#c8c8c8"
#: Colour of a published range.
BAND = "#e8e4d8"
#: Colour and marker for each precision; distinguishable in greyscale too.
PRECISIONS = {"single": (PINK, "s"), "double": (VIOLET, "o")}
#: Symbols of bars and diamonds, used as heads of the columns of numbers beside a panel.
DIAMOND = "◇"

#: Font sizes of tick labels, and of what is written below a figure.
TICK_POINTS, FOOT_POINTS = 6.5, 6.0
#: Number of letters of the foot that fit into an inch.
LETTERS_PER_INCH = 20

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "xtick.labelsize": TICK_POINTS,
    "ytick.labelsize": TICK_POINTS,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 0.8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.4,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "repro",
    "savefig.dpi": 300,
    "figure.dpi": 100,
    "path.simplify": False,
}

#: Pixels per inch of figures in the report (2 pixels per point).
SCREEN = 144

#: Formats of figures; `tex` includes the PDF file, with the caption.
FORMATS = ("pdf", "svg", "png", "tex")
#: Font families that have only mathematical symbols and no letters.
SYMBOLS = re.compile(r"STIXSize|STIXNonUnicode|Last Resort|cm(ex|mi|sy)\d")


@dataclass(frozen=True)
class Shape:
    """Width, font and formats of figures, for a paper that needs other ones than the workflow's defaults."""

    #: Width in inches; None for each figure's own. Panels keep their heights.
    width: float | None = None
    #: Font family, which has to be installed; None for DejaVu Sans, which comes with matplotlib.
    font: str | None = None
    formats: tuple[str, ...] = FORMATS

    def __post_init__(self) -> None:
        if unknown_formats := [name for name in self.formats if name not in FORMATS]:
            raise ReproError(
                "unknown format of a figure",
                where="--format",
                expected=", ".join(FORMATS),
                actual=f"{unknown_formats[0]}{suggestion(unknown_formats[0], FORMATS)}",
            )
        if self.font is not None and self.font not in (fonts := plotting.get_font_names()):
            families = {name.lower(): name for name in fonts if not SYMBOLS.match(name)}
            similar_fonts = [
                families[match] for match in get_close_matches(self.font.lower(), families, n=3, cutoff=0.4)
            ]
            raise ReproError(
                "the font is not installed",
                where="--font",
                expected="a family that Matplotlib finds; it ships STIXGeneral (similar to Times), DejaVu Sans and "
                "DejaVu Serif",
                actual=f"{self.font}; did you mean {' or '.join(similar_fonts)}?" if similar_fonts else self.font,
            )


def canvas(width: float, height: float) -> Canvas:
    """Return an empty figure (size in inches) with a layout that does not cut off labels."""
    return plotting.Figure(figsize=(width, height), layout="constrained")


#: How Matplotlib's warning begins that panels have no room, so that it lays nothing out.
_NO_ROOM = "constrained_layout not applied"


def draw_layout(figure: Figure, shape: Shape | None = None) -> Canvas:
    """Draw a figure with its foot below it, and fix its layout, so that all file formats look the same."""
    shape = shape or Shape()
    drawing = figure.draw()
    from repro.results.figure_fitting import fit_texts, lift_common_label  # after Matplotlib, which `plotting` imports

    if not drawing.axes:  # no case has what it shows; Matplotlib would warn that there is nothing to lay out
        drawing.set_layout_engine(None)
    if figure.foot:
        _write_foot(drawing, figure.foot, is_fitted=bool(shape.width or shape.font))
    _disable_math_text(drawing)
    is_fitted = bool(shape.width or shape.font)
    with warnings.catch_warnings():
        # matplotlib warns of too little room before texts are fitted, and for very long names
        warnings.filterwarnings("ignore", _NO_ROOM, UserWarning)
        if is_fitted:
            fit_texts(drawing, shape.width or drawing.get_figwidth())
        elif drawing.get_supxlabel():
            drawing.draw_without_rendering()
            lift_common_label(drawing, [legend for legend in drawing.legends if legend.get_gid() == FOOT])
        if engine := drawing.get_layout_engine():
            warnings.filterwarnings("error" if is_fitted else "ignore", _NO_ROOM, UserWarning)
            try:
                engine.execute(drawing)
            except UserWarning:
                raise ReproError(
                    "the figure has no room for its panels beside its text",
                    where="--width, --font",
                    actual=f"{drawing.get_figwidth():g} inches",
                    todo="use a greater width, or another font",
                ) from None
    drawing.set_layout_engine(None)  # with "none", a placeholder remains, and each `savefig` draws the figure twice
    return drawing


def _disable_math_text(drawing: Canvas) -> None:
    """Turn off math mode (`$`) in all texts but axis and tick labels: a message may contain `$HOME/$USER`."""
    legends = [*drawing.legends, *(legend for axes in drawing.axes if (legend := axes.get_legend()))]
    texts = [*drawing.texts, *(text for axes in drawing.axes for text in (*axes.texts, axes.title))]
    for text in (*texts, *(text for legend in legends for text in legend.get_texts())):
        text.set_parse_math(False)


def save(
    figure: Figure, paths: Iterable[Path], title: str, *, screen: bool = False, shape: Shape | None = None
) -> dict[str, list[str]]:
    """Write a figure with its foot to files; their suffixes select the formats.

    Files contain no dates, so that equal data give equal bytes. SVG files draw letters as outlines, which look the same
    everywhere. With `screen` letters are text (searchable and smaller), images have screen resolution, and the ids and
    texts of bars and points are returned, for `repro.results.figure_style.add_titles`.
    """
    shape = shape or Shape()
    # letters that the font lacks come from the usual one
    family = {"font.family": [shape.font, RC["font.family"]]} if shape.font else {}
    with figure_settings(screen=screen), plotting.style.context(family), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from|cmr10 font should", UserWarning)
        drawing = draw_layout(figure, shape)
        texts = name_marks(drawing) if screen else {}
        for path in paths:
            metadata: dict[str, str | None]
            match path.suffix.lstrip("."):
                case "pdf":
                    metadata = {"Title": title, "Subject": figure.caption, "CreationDate": None}
                case "svg":
                    metadata = {"Title": title, "Description": figure.caption, "Date": None}
                case _:
                    metadata = {"Title": title, "Description": figure.caption}
            drawing.savefig(path, format=path.suffix.lstrip("."), metadata=metadata)
            if path.suffix == ".svg":
                path.write_text(numbered_ids(rounded(path.read_text("utf-8"))), "utf-8")
    return texts


#: Decimals of a point that coordinates in SVG files keep.
PLACES = 3
_COORDINATES = re.compile(r' (?:d|x|y|width|height)="[^"]*"|translate\([^)]*\)')
_DECIMALS = re.compile(rf"-?\d+\.\d{{{PLACES + 1},}}")


def rounded(svg: str) -> str:
    """Return an SVG with coordinates of `PLACES` decimals: the last of Matplotlib's six differs between machines."""

    def short(number: re.Match[str]) -> str:
        return f"{round(float(number[0]), PLACES) + 0.0:.{PLACES}f}".rstrip("0").rstrip(".")

    return _COORDINATES.sub(lambda match: _DECIMALS.sub(short, match[0]), svg)


#: An id that Matplotlib derives from a hash of unrounded coordinates, whose last bits differ between machines.
_HASHED_ID = re.compile(r'\bid="(\w*?)([0-9a-f]{10})"')
_ID_OR_REFERENCE = re.compile(r"""(\bid="|#)(\w+)(?=["')])""")


def numbered_ids(svg: str) -> str:
    """Return an SVG whose hashed ids (of clip paths, markers and hatches) are numbered by order of appearance."""
    kinds = {kind + digits: kind for kind, digits in _HASHED_ID.findall(svg)}
    in_order = dict.fromkeys(name for _, name in _ID_OR_REFERENCE.findall(svg) if name in kinds)
    names = {name: f"{kinds[name]}{number}" for number, name in enumerate(in_order, 1)}
    return _ID_OR_REFERENCE.sub(lambda match: match[1] + names.get(match[2], match[2]), svg)


def figure_settings(*, screen: bool = False) -> AbstractContextManager[None]:
    """Return a context manager with the project's matplotlib settings; it ignores the user's matplotlibrc."""
    medium = {"svg.fonttype": "none", "savefig.dpi": SCREEN} if screen else {"svg.fonttype": "path"}
    return plotting.style.context(["default", RC, medium])


#: Numbers that are written without powers of ten, and ratio of an axis's ends from which only these have ticks.
PLAIN, WIDE = (1e-4, 1e6), 300.0


def log_ticks(axis: Axis) -> None:
    """Put ticks with plain numbers on a logarithmic axis at 1, 2 and 5 in each decade, without minor ticks.

    If the labels would overlap, only powers of ten, or some of them, are labelled. Numbers that are very small or very
    large are written as powers of ten.
    """
    from repro.results.figure_fitting import Decades

    low, high = axis.get_view_interval()
    formatter: Any = plotting.FuncFormatter(lambda value, _: f"{value:g}")
    steps: tuple[int, ...] = (1, 2, 5)
    if low < PLAIN[0] or high > PLAIN[1]:
        formatter = plotting.LogFormatterSciNotation(10, minor_thresholds=(inf, inf))
        steps = (1,) if high > WIDE * low else steps
    axis.set_major_locator(Decades(steps, TICK_POINTS))
    axis.set_major_formatter(formatter)
    axis.set_minor_locator(plotting.NullLocator())


#: Style of the reason why nothing is drawn.
REASON: dict[str, Any] = {
    "color": GREY, "style": "italic", "zorder": 5, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1},
}  # fmt: skip


def write_panel_reason(axes: Axes, reason: str) -> None:
    """Write the reason why nothing is drawn into the middle of an empty panel."""
    axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center", **REASON)


def _write_foot(figure: Canvas, foot: str, *, is_fitted: bool) -> None:
    """Write the foot at the lower right; if it has no room beside the footnote, below that.

    If the figure's texts are fitted to another width or font later, both stand side by side until then.
    """
    footnotes = [legend.get_texts()[0] for legend in figure.legends if legend.get_gid() == FOOT]
    letters = int(LETTERS_PER_INCH * figure.get_figwidth())
    is_beside = sum(len(text.get_text()) for text in footnotes) + len(foot) <= letters
    lines = "\n".join(wrap(foot, letters))
    if is_fitted or is_beside or not footnotes:
        write_footnote(figure, foot if is_fitted else lines, "outside lower right")
    else:
        footnotes[0].set_text(f"{footnotes[0].get_text()}\n{lines}")


#: Id of the texts below a figure.
FOOT = "foot"


def write_footnote(
    figure: Canvas, text: str, location: Literal["outside lower left", "outside lower right"] = "outside lower left"
) -> None:
    """Write a line of text below the figure, as a legend without handles, for which the layout reserves space."""
    handle = plotting.Line2D([], [], linestyle="")
    legend = figure.legend(
        [handle], [text], loc=location, handlelength=0, handletextpad=0, borderpad=0.1, labelcolor=GREY,
        fontsize=FOOT_POINTS,
    )  # fmt: skip
    legend.set_gid(FOOT)


def empty_canvas(reason: str) -> Canvas:
    """Return an empty figure with the reason as text."""
    figure = canvas(COLUMN_WIDTH, 1.0)
    figure.text(0.5, 0.5, reason, ha="center", va="center", color=GREY, style="italic", wrap=True)
    return figure


#: Maximum number of points of a figure that get a title; a title is about as large as the point itself.
MAX_TITLED_POINTS = 4000
_MARK = re.compile(r'<g id="(mark-\d+)"[^>]*>')


def name_marks(drawing: Canvas) -> dict[str, list[str]]:
    """Give ids to the bars and points of a figure, and return the text of each bar, or of the points of each series."""
    texts: dict[str, list[str]] = {}
    count = 0
    for axes in drawing.axes:
        for artist, mark_texts in _marks(axes):
            count += len(mark_texts)
            if mark_texts and count <= MAX_TITLED_POINTS:
                name = f"mark-{len(texts)}"
                artist.set_gid(name)
                texts[name] = mark_texts
    return texts


def _marks(axes: Axes) -> Iterator[tuple[Any, list[str]]]:
    """Yield the bars and the series of points of a panel, with their texts."""
    for container in axes.containers:
        if isinstance(container, plotting.BarContainer):
            is_horizontal = container.orientation == "horizontal"
            rows, values = (axes.yaxis, axes.xaxis) if is_horizontal else (axes.xaxis, axes.yaxis)
            for bar in container.patches:
                centre = bar.get_y() + bar.get_height() / 2 if is_horizontal else bar.get_x() + bar.get_width() / 2
                value = bar.get_width() if is_horizontal else bar.get_height()
                if values.get_scale() == "log":  # bars of ratios begin at 1 there
                    value += bar.get_x() if is_horizontal else bar.get_y()
                yield bar, [_text(container.get_label(), ((rows, centre), (values, value)))] if isfinite(value) else []
    for line in axes.lines:
        if line.get_marker() not in (None, "None", "", " "):
            yield line, _points(axes, line.get_label(), line.get_xydata()) if _has_values(line, axes) else []
    for collection in axes.collections:
        if isinstance(collection, plotting.PathCollection):
            yield collection, _points(axes, collection.get_label(), collection.get_offsets())


def _has_values(line: Line2D, axes: Axes) -> bool:
    """Return whether places of marks are numbers of the axes, perhaps shifted on the page, and not beside the panel."""
    corners = np.transpose([axes.get_xlim(), axes.get_ylim()])
    size, size_of_axes = (np.diff(t.transform(corners), axis=0) for t in (line.get_transform(), axes.transData))
    return np.allclose(size, size_of_axes)


def _points(axes: Axes, label: object, points: npt.ArrayLike) -> list[str]:
    """Return the text of each point of an (n, 2) array; those that are not finite are not drawn."""
    return [
        _text(label, ((axes.xaxis, x), (axes.yaxis, y)))
        for x, y in np.asarray(points, float)
        if isfinite(x) and isfinite(y)
    ]


def _text(label: object, values: Iterable[tuple[Axis, float]]) -> str:
    """Return a text of several lines: the label of a series, then for each axis the value or the row's name."""
    name = str(label or "")
    lines = [] if name.startswith("_") or not name else [name]
    for axis, value in values:
        row = _row(axis, value)
        title = axis.get_label_text().replace("\n", " ")
        number = f"{title}: {value:.4g}" if title else f"{value:.4g}"
        lines += [number] if row is None else [row] if row else []
    return "\n".join(lines)


def _row(axis: Axis, value: float) -> str | None:
    """Return the name of the axis's row that contains a value, empty if no row does; None if the axis has numbers."""
    if not isinstance(axis.get_major_locator(), plotting.FixedLocator):
        return None
    formatter = axis.get_major_formatter()
    names = [formatter(tick) for tick in axis.get_majorticklocs() if abs(tick - value) < 0.5]
    return names[0] if names and not re.fullmatch(r"[\d.,\s]+", names[0]) else None


def add_titles(svg: str, texts: Mapping[str, list[str]]) -> str:
    """Return an SVG with the texts of `name_marks` as titles; a series with undrawn points gets no titles."""
    parts = []
    end = 0
    for match in _MARK.finditer(svg):
        start, stop = match.end(), _end_of_group(svg, match.end())
        mark_texts = texts.get(match[1], [])
        parts += [svg[end:start], _add_group_titles(svg[start:stop], mark_texts)]
        end = stop
    return "".join([*parts, svg[end:]])


def _end_of_group(svg: str, start: int) -> int:
    """Return the position of the closing tag of the SVG group (`<g>`) whose content begins at `start`."""
    depth = 1
    for tag in re.finditer(r"<(/?)g\b[^>]*?(/?)>", svg[start:]):
        depth += -1 if tag[1] else 0 if tag[2] else 1
        if depth == 0:
            return start + tag.start()
    return len(svg)


def _add_group_titles(group: str, texts: list[str]) -> str:
    titles = [f"<title>{escape(text)}</title>" for text in texts]
    use_count = len(re.findall(r"<use\b", group))
    if len(titles) == 1 and not use_count:
        return titles[0] + group
    if use_count != len(titles):
        return group
    remaining_titles = iter(titles)
    return re.sub(r"<use\b([^>]*?)/>", lambda use: f"<use{use[1]}>{next(remaining_titles)}</use>", group)
