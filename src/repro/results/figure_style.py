"""The one look of all figures, and bytes that depend on the data alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from matplotlib import style as mpl_style
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from repro.results.tables import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


# inches: one column and the text width of a two-column paper
COLUMN = 3.45
TEXT = 7.1
ROW = 0.17

# of bars, lines and marks; the next two are too pale for lines and marks on white
DARK = "#1f4e79"
MIDDLE = "#3f88c5"
ACCENT = "#d55e00"
GREEN = "#009e73"
PINK = "#cc79a7"
GREY = "#6b6b6b"
LIGHT = "#9cc3e6"
PALE = "#c8c8c8"
#: Of a range that is published.
BAND = "#e8e4d8"
#: Colours and markers of precisions, which have to be told apart in grey as well.
PRECISIONS = {"single": (ACCENT, "s"), "double": (DARK, "o")}
#: Heads of columns of numbers: the marks of bars and of diamonds.
BAR, DIAMOND = "■", "◇"
#: A thin light edge, which thin lines are seen by on dark bars.
ON_BARS: dict[str, Any] = {"path_effects": [withStroke(linewidth=1.4, foreground="white")]}
# sequential, even in luminance and safe for the colour-blind; dark is slow, so that the fast region is bright
HEAT = "cividis_r"

#: Points of labels of ticks and between two of them, and the width of a digit over its height.
TICK_POINTS, APART, DIGIT = 6.5, 3.0, 0.64

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

#: Pixels an inch of a figure in the report: two a point.
SCREEN = 144

FORMATS = ("pdf", "svg", "png")


def canvas(width: float, height: float) -> Canvas:
    """Return an empty figure of a size in inches, laid out so that no label is cut off."""
    return Canvas(figsize=(width, height), layout="constrained")


def laid_out(figure: Figure, device: str) -> Canvas:
    """Draw a figure once, name the device below it, and lay it out for good: the same for each format."""
    drawn = figure.draw()
    _below(drawn, device, "outside lower right")
    _take_words_as_they_are(drawn)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    return drawn


def _take_words_as_they_are(drawn: Canvas) -> None:
    """Have nothing but the labels of axes and ticks be mathematics: a reason may name `$HOME/$USER`."""
    legends = [*drawn.legends, *(legend for axes in drawn.axes if (legend := axes.get_legend()))]
    texts = [*drawn.texts, *(text for axes in drawn.axes for text in (*axes.texts, axes.title))]
    for text in (*texts, *(text for legend in legends for text in legend.get_texts())):
        text.set_parse_math(False)


def save(figure: Figure, paths: Iterable[Path], title: str, device: str, *, screen: bool = False) -> None:
    """Write a figure to files, the device named below it; a suffix is the format.

    There are no dates: equal data, equal bytes. Letters of an SVG are outlines, which look the same everywhere; for a
    screen they are text, which can be searched and is far smaller, and images are no finer than can be seen there.
    """
    with look(screen=screen):
        drawn = laid_out(figure, device)
        for path in paths:
            metadata: dict[str, str | None]
            match path.suffix.lstrip("."):
                case "pdf":
                    metadata = {"Title": title, "Subject": figure.caption, "CreationDate": None}
                case "svg":
                    metadata = {"Title": title, "Description": figure.caption, "Date": None}
                case _:
                    metadata = {"Title": title, "Description": figure.caption}
            drawn.savefig(path, format=path.suffix.lstrip("."), metadata=metadata)


def look(*, screen: bool = False) -> AbstractContextManager[None]:
    """Return the context that figures are drawn in, whatever the user's own matplotlibrc says."""
    medium = {"svg.fonttype": "none", "savefig.dpi": SCREEN} if screen else {"svg.fonttype": "path"}
    return mpl_style.context(["default", RC, medium])


def rows_axis(axes: Axes, names: Sequence[str], *, missing: Sequence[str | None]) -> None:
    """Label the y axis with one name a row, the first on top, and say in its row why one is not there."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    say_missing(axes, missing)


def log_ticks(axis: Axis, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Label a logarithmic axis at some numbers of each decade, without exponents, and nowhere between.

    Where the labels would meet only powers of ten have one, or some of them.
    """
    axis.set_major_locator(_Decades(steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


class _Decades(LogLocator):
    """As many ticks of a logarithmic axis as there is room for."""

    def __init__(self, steps: Sequence[float]) -> None:
        super().__init__(10)
        self.steps = steps

    def __call__(self) -> Any:
        axis = cast("Axis", self.axis)
        low, high = sorted(axis.get_view_interval())
        powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
        finest = [[step * power for power in powers for step in steps] for steps in (self.steps, range(1, 10))]
        choices = [*finest, *(powers[::apart] for apart in range(1, len(powers) + 1))]
        shown = [[tick for tick in ticks if low <= tick <= high] for ticks in choices]
        fit = [ticks for ticks in shown if not _meet(axis, ticks)]
        return next((ticks for ticks in fit if len(ticks) > 1), fit[0])


def _meet(axis: Axis, ticks: Sequence[float]) -> bool:
    """Return whether labels of ticks would meet."""
    low, high = sorted(axis.get_view_interval())
    wide = axis is axis.axes.xaxis
    box, dpi = axis.axes.bbox, axis.axes.figure.dpi
    points = 72 * (box.width if wide else box.height) / dpi
    sizes = [TICK_POINTS * (DIGIT * len(f"{tick:g}") if wide else 1.0) + APART for tick in ticks]
    places = [points * log10(tick / low) / log10(high / low) for tick in ticks]
    pairs = zip(pairwise(places), pairwise(sizes), strict=True)
    return any(place[1] - place[0] < sum(size) / 2 for place, size in pairs)


def column(
    axes: Axes, texts: Sequence[str | None], head: tuple[str, str], *, points: float = 3, bold: Sequence[int] = ()
) -> None:
    """Write a column of numbers at the right of an axes, a row each.

    Parameters
    ----------
    head
        What stands above them, the mark of the series that they are of, and its colour.
    points
        Between the axes and the column.
    bold
        Rows whose number is bold.
    """
    mark, colour = head
    beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6, "annotation_clip": False}
    axes.annotate(mark, (1, 1), xycoords="axes fraction", xytext=(points, 2), color=colour, va="bottom", **beside)
    for row, text in enumerate(texts):
        if text is not None:
            axes.annotate(
                text, (1, row), xycoords=axes.get_yaxis_transform(), xytext=(points, 0), va="center", color="black",
                fontweight="bold" if row in bold else "normal", **beside,
            )  # fmt: skip


def whisker(axes: Axes, interval: tuple[float, float] | None, at: float) -> None:
    """Draw the interval of a horizontal bar's number over its end; nothing where there is none."""
    if interval is not None:
        axes.plot(interval, (at, at), color="black", linewidth=0.6, marker="|", markersize=2.5, zorder=4, **ON_BARS)


def say_missing(axes: Axes, missing: Sequence[str | None]) -> None:
    """Say in its row why something is not there."""
    for row, why in enumerate(missing):
        if why:
            axes.text(
                0.015, row, why, transform=axes.get_yaxis_transform(), va="center", color=GREY,
                fontsize=6, style="italic", zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip


def say_in_panel(axes: Axes, why: str) -> None:
    """Say in the middle of a panel why nothing is drawn there."""
    axes.text(
        0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY, style="italic",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )  # fmt: skip


def footnote(figure: Canvas, text: str | None) -> None:
    """Write a line below everything else, where there is one."""
    if text is not None:
        _below(figure, text, "outside lower left")


def _below(figure: Canvas, text: str, place: Literal["outside lower left", "outside lower right"]) -> None:
    """Write a line below everything else: a legend without handles, so that room is kept for it."""
    handle = Line2D([], [], linestyle="")
    figure.legend([handle], [text], loc=place, handlelength=0, handletextpad=0, borderpad=0.1)


def height(rows: int, extra: float = 0.75, per_row: float = ROW) -> float:
    """Return the height in inches of a figure with so many rows."""
    return extra + per_row * max(rows, 2)


def empty(why: str) -> Canvas:
    """Return a figure that says why there is nothing to draw."""
    figure = canvas(COLUMN, 1.0)
    figure.text(0.5, 0.5, why, ha="center", va="center", color=GREY, style="italic", wrap=True)
    return figure
