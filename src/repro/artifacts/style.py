"""The one look of all figures, and bytes that depend on the data alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import style as mpl_style
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from repro.artifacts.document import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# inches: one column and the text width of a two-column paper
COLUMN = 3.45
TEXT = 7.1
ROW = 0.17

DARK = "#1f4e79"
LIGHT = "#9cc3e6"
ACCENT = "#d55e00"
GREY = "#6b6b6b"
#: Colours and markers of precisions, which have to be told apart in grey as well.
PRECISIONS = {"single": (ACCENT, "s"), "double": (DARK, "o")}
#: Heads of columns of numbers: the marks of bars and of diamonds.
BAR, DIAMOND = "■", "◇"
# sequential, even in luminance and safe for the colour-blind; dark is slow, so that the fast region is bright
HEAT = "cividis_r"

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
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
    "svg.fonttype": "path",
    "svg.hashsalt": "repro",
    "savefig.dpi": 300,
    "figure.dpi": 100,
    "path.simplify": False,
}

FORMATS = ("pdf", "svg", "png")


def canvas(width: float, height: float) -> Canvas:
    """Return an empty figure of a size in inches, laid out so that no label is cut off."""
    return Canvas(figsize=(width, height), layout="constrained")


def save(figure: Figure, paths: Iterable[Path], title: str, device: str) -> None:
    """Draw a figure once, name the device below it, and write it to files; a suffix is the format.

    There are no dates: equal data, equal bytes.
    """
    with mpl_style.context(["default", RC]):  # whatever the user's own matplotlibrc says
        drawn = figure.draw()
        _below(drawn, device, "outside lower right")
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")  # it is laid out: not again for each format
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


def rows_axis(axes: Axes, names: Sequence[str], *, missing: Sequence[str | None]) -> None:
    """Label the y axis with one name a row, the first on top, and say in its row why one is not there."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    say_missing(axes, missing)


def log_ticks(axis: Axis, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Label a logarithmic axis at some numbers of each decade, without exponents, and nowhere between."""
    axis.set_major_locator(LogLocator(10, steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


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


def say_missing(axes: Axes, missing: Sequence[str | None]) -> None:
    """Say in its row why something is not there."""
    for row, why in enumerate(missing):
        if why:
            axes.text(
                0.015, row, why, transform=axes.get_yaxis_transform(), va="center", color=GREY,
                fontsize=6, style="italic", zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
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
