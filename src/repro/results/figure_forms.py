"""The forms of all figures but rows: curves and points over a size; panels side by side.

A study chooses what a figure shows, as data: panels of one of the classes here and in `repro.results.figure_rows`.
`draw_panels` puts them side by side, with one legend, the reasons for what is missing, and the footnote. What a bar or
mark shows is in its tooltip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from repro.results import figure_style, plotting
from repro.results.figure_style import GREY, PUBLISHED, TEXT_WIDTH
from repro.results.problem_lines import join_sentences
from repro.results.tables import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from repro.results.significance import Interval

#: "-" for a full line, "" for none, or the offset and the lengths of dashes and gaps.
Dashes = Literal["-", "--", ""] | tuple[float, tuple[float, ...]]
DASHED: Dashes = (0, (4, 2))


class Pen(NamedTuple):
    """How marks and the line that joins them look."""

    colour: str
    marker: str = ""
    #: Empty for marks that no line joins.
    dashes: Dashes = ""
    #: Whether marks are white inside.
    is_hollow: bool = False
    #: Size of marks, and width of the line, in points.
    size: float = 3.8
    width: float = 0.8
    zorder: float = 3

    def line(self, x: Sequence[float] = (), y: Sequence[float] = (), label: str = "", **style: Any) -> Line2D:
        """Return the marks at the given places; without places, their sample in a legend."""
        is_stroke = self.marker in "|_x+"
        edge_width = (
            0.9 if self.marker == "x" else 1.3 if is_stroke else 0.9 if self.is_hollow else 0.4 if self.size > 3 else 0
        )
        return plotting.Line2D(
            x, y, label=label, color=self.colour, marker=self.marker or None, linestyle=self.dashes, zorder=self.zorder,
            linewidth=self.width, markersize=self.size, markeredgewidth=edge_width,
            markerfacecolor="white" if self.is_hollow else self.colour,
            markeredgecolor=self.colour if self.is_hollow or is_stroke else "white",
            **style,
        )  # fmt: skip


class Fill(NamedTuple):
    """How bars look."""

    colour: str
    hatch: str = ""
    edge: str = "white"

    @property
    def style(self) -> dict[str, Any]:
        """Arguments of Matplotlib."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": self.edge, "linewidth": 0}


#: Entries of a legend.
Keys = Mapping[str, Pen | Fill]

#: A number that a paper states, as a mark and as a line; a line at 1, as fast as what is compared with.
PUBLISHED_MARK = Pen(PUBLISHED.colour, PUBLISHED.marker, is_hollow=True, zorder=6)
PUBLISHED_LINE = Pen(GREY, dashes=DASHED, zorder=0.8)
UNITY = Pen("black", dashes="-", width=0.7, zorder=4)


@dataclass(frozen=True)
class Reference:
    """A line or a band across a panel, at a value of the axis with the numbers."""

    #: Two numbers are the ends of a band.
    value: float | Interval
    #: Entry in the legend; empty for none.
    label: str = ""
    pen: Pen = PUBLISHED_LINE
    #: Text beside the line in the first row, which is a heading.
    name: str = ""

    @property
    def ends(self) -> tuple[float, ...]:
        """The value, or the ends of the band."""
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def draw(self, axes: Axes, *, is_upright: bool) -> None:
        if isinstance(self.value, tuple):
            (axes.axvspan if is_upright else axes.axhspan)(*self.value, color=figure_style.BAND, zorder=0)
        else:
            pen = self.pen
            style: dict[str, Any] = {"color": pen.colour, "linewidth": pen.width, "linestyle": pen.dashes}
            (axes.axvline if is_upright else axes.axhline)(self.value, zorder=pen.zorder, **style)

    @property
    def keys(self) -> Keys:
        return {self.label: Fill(figure_style.BAND) if isinstance(self.value, tuple) else self.pen}


class Panel(Protocol):
    """One of the forms."""

    @property
    def height(self) -> float:
        """Height in inches, with title and labels."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no number to draw."""

    @property
    def keys(self) -> Keys:
        """Entries of the legend."""

    def draw(self, axes: Axes, *, is_left: bool) -> None:
        """Draw it; if `is_left`, there is no panel at its left."""


#: Height in inches of a line of a legend, and of what is below all panels.
LEGEND_LINE, FOOT = 0.14, 0.25
LEGEND: dict[str, Any] = {"handlelength": 1.6, "columnspacing": 1.2}
#: Width of a legend's sample with its gaps, in letters, and letters of legends in an inch.
SAMPLE_LETTERS, LETTERS_PER_INCH = 6.5, 19.7


def figure_of(
    panels: Sequence[Panel],
    empty: str,
    caption: Sequence[str],
    *,
    is_empty: bool = False,
    clock: str = "",
    campaigns: tuple[str, ...] = (),
    **layout: Any,
) -> Figure:
    """Return the figure of panels, laid out by `draw_panels`, with the sentences of its caption."""
    return Figure(lambda: draw_panels(panels, empty, **layout), join_sentences(caption), is_empty, clock, campaigns)


def draw_panels(
    panels: Sequence[Panel],
    empty: str,
    *,
    across: int | None = None,
    width: float = TEXT_WIDTH,
    is_shared: bool | Literal["row"] = False,
    labels: tuple[str, str] = ("", ""),
    keys: Keys | None = None,
    mark: str | None = None,
) -> Canvas:
    """Draw panels in a grid, with one common legend above.

    Parameters
    ----------
    empty
        What the figure says if no panel has a number.
    across
        Number of panels in a row; None for all.
    width
        Width in inches.
    is_shared
        Whether all panels have the same axes; "row" for the same y axis in each row, and one x axis.
    labels
        Common labels below all panels and at the left of all.
    keys
        Further entries of the legend.
    mark
        Meaning of the marks at names; None if no name is marked.
    """
    if all(panel.is_empty for panel in panels):
        return figure_style.empty_canvas(empty)
    across = min(across or len(panels), len(panels))
    keys = joined([*(panel.keys for panel in panels), keys or {}])
    columns = legend_columns([*keys], width)
    row_count = -(-len(panels) // across)
    height = max(panel.height for panel in panels) * row_count + FOOT + LEGEND_LINE * -(-len(keys) // columns)
    drawing = figure_style.canvas(width, height)
    share_y: Literal["row"] | bool = is_shared
    grid = drawing.subplots(row_count, across, squeeze=False, sharex=bool(is_shared), sharey=share_y)
    for index, (panel, axes) in enumerate(zip(panels, grid.flat, strict=False)):
        panel.draw(axes, is_left=index % across == 0)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    if is_shared:
        _label_outer(grid)
    if keys:
        drawing.legend(handles=samples(keys), loc="outside upper left", ncols=columns, **LEGEND)
    for text, write in ((labels[0], drawing.supxlabel), (labels[1], drawing.supylabel)):
        if text:
            write(text, fontsize=figure_style.RC["axes.labelsize"])
    if mark:
        figure_style.write_footnote(drawing, mark)
    return drawing


def _label_outer(grid: Any) -> None:
    """Leave labels of axes that panels share to the lowest panel of each column and to the first of each row."""
    for axes in grid.flat:
        axes.tick_params(labelbottom=True, labelleft=True)
    for column in grid.T:
        for axes in [axes for axes in column if axes.axison][:-1]:
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
    for row in grid:
        for axes in [axes for axes in row if axes.axison][1:]:
            axes.tick_params(labelleft=False)
            axes.set_ylabel("")


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return the largest number of columns of a legend that fits into a width in inches."""

    def letters(columns: int) -> float:
        ends = [-(-len(labels) * index // columns) for index in range(columns + 1)]
        return sum(SAMPLE_LETTERS + max(map(len, labels[start:end]), default=0) for start, end in pairwise(ends))

    most = next((count for count in range(len(labels), 1, -1) if letters(count) <= LETTERS_PER_INCH * width), 1)
    return -(-len(labels) // -(-len(labels) // most)) if labels else 1  # the same number of lines, evenly filled


def joined(all_keys: Iterable[Keys]) -> dict[str, Pen | Fill]:
    """Return all entries of a legend, the first of each label; lines and bands across panels come last."""
    entries: dict[str, Pen | Fill] = {}
    for label, look in (entry for keys in all_keys for entry in keys.items() if entry[0]):
        entries.setdefault(label, look)
    crossing = {
        label: not look.marker if isinstance(look, Pen) else look.colour == figure_style.BAND
        for label, look in entries.items()
    }
    return dict(sorted(entries.items(), key=lambda entry: crossing[entry[0]]))


def samples(keys: Keys) -> list[Line2D | Patch]:
    """Return what Matplotlib draws into a legend."""
    return [
        look.line(label=label) if isinstance(look, Pen) else plotting.Patch(label=label, **look.style)
        for label, look in keys.items()
    ]


# curves --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """An axis of curves."""

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    #: Ends, None for those of what is drawn.
    limits: tuple[float | None, float | None] = (None, None)
    #: Names of places; None for round numbers.
    ticks: Mapping[float, str] | None = None
    #: Whether it counts.
    is_count: bool = False

    def set_up(self, axes: Axes, name: Literal["x", "y"]) -> None:
        """Give an axes this axis, after its curves were drawn."""
        axes.set(**{f"{name}scale": self.scale, f"{name}label": self.label})
        axes.autoscale_view(scalex=name == "x", scaley=name == "y")
        if self.limits != (None, None):  # auto=None: panels that share the axis still extend it
            (axes.set_xlim if name == "x" else axes.set_ylim)(*self.limits, auto=None)
        axis: MatplotlibAxis = getattr(axes, f"{name}axis")
        if self.ticks is not None:
            low, high = axis.get_view_interval()
            ticks = [tick for tick in self.ticks if low <= tick <= high]
            axis.set_ticks(ticks, labels=[self.ticks[tick] for tick in ticks])
            axis.set_minor_locator(plotting.NullLocator())
        elif self.scale == "log":
            figure_style.log_ticks(axis)
        elif self.is_count:
            axis.set_major_locator(plotting.MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))


#: What was not timed, above a panel.
CROSS = Pen(GREY, "x", size=3.4)
_INTERVAL = Pen("black", "_", dashes="-", size=2.5, width=0.6, zorder=2.5)
#: Least distance of two values at the ends of curves, as a share of the panel's height.
VALUE_STEP = 0.11


@dataclass(frozen=True)
class Curve:
    """Points, joined by a line or not."""

    label: str
    pen: Pen
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, Interval]] = ()
    #: Places without a number, which get a cross above the panel.
    crosses: Sequence[float] = ()
    #: How many points of a page it is shifted to the right, so that marks of several curves do not overlap.
    shift: float = 0.0
    #: Every n-th point has a mark.
    mark_every: int = 1
    #: Whether the legend has it, and whether its last value is written at its end.
    has_key: bool = True
    has_value: bool = False

    @property
    def keys(self) -> Keys:
        return {self.label: self.pen} if self.has_key else {}

    def draw(self, axes: Axes) -> None:
        x, y = [point[0] for point in self.points], [point[1] for point in self.points]
        shift = plotting.ScaledTranslation(self.shift / 72, 0, axes.figure.dpi_scale_trans)
        lines = [self.pen.line(x, y, self.label, markevery=self.mark_every)]
        # intervals are drawn below the marks, since short ones would cover them
        lines += [_INTERVAL.line([place, place], ends) for place, ends in self.intervals]
        for line in lines:
            axes.add_line(line)
            if self.shift:  # only now: the limits of the axes come from the data
                line.set_transform(axes.transData + shift)
        axes.update_datalim([(place, 0) for place in self.crosses], updatey=False)
        for place in self.crosses:
            pen, above = CROSS._replace(colour=self.pen.colour), axes.get_xaxis_transform() + shift
            axes.add_artist(pen.line([place], [1.04], transform=above, clip_on=False))


@dataclass(frozen=True)
class Curves:
    """Curves or points over a size."""

    curves: Sequence[Curve]
    x: Axis
    y: Axis
    title: str = ""
    #: Lines and bands across the panel, and upright ones.
    references: Sequence[Reference] = ()
    uprights: Sequence[Reference] = ()
    #: What is written into the panel: why it has nothing.
    reason: str = ""
    height: float = 1.75

    @property
    def drawn(self) -> Sequence[Curve]:
        """The curves with points or crosses."""
        return [curve for curve in self.curves if curve.points or curve.crosses]

    @property
    def is_empty(self) -> bool:
        return not any(curve.points for curve in self.curves)

    @property
    def keys(self) -> Keys:
        lines = (*self.references, *self.uprights)
        return joined([*(curve.keys for curve in self.drawn), *(line.keys for line in lines)])

    def draw(self, axes: Axes, *, is_left: bool) -> None:
        axes.set_title(self.title, pad=8 if any(curve.crosses for curve in self.curves) else 6)
        if self.reason:
            figure_style.write_panel_reason(axes, self.reason)
            if not self.drawn:
                axes.set_axis_off()
                return
        for curve in self.drawn:
            curve.draw(axes)
        for lines, is_upright in ((self.references, False), (self.uprights, True)):
            for line in lines:
                line.draw(axes, is_upright=is_upright)
        self.x.set_up(axes, "x")
        self.y.set_up(axes, "y")
        axes.grid(axis="both")
        self._write_values(axes)

    def _write_values(self, axes: Axes) -> None:
        """Write the last values of curves at their ends; those close together are moved apart, the largest first."""
        height = inf
        for x, y in sorted((curve.points[-1] for curve in self.drawn if curve.has_value), key=lambda point: -point[1]):
            share = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1]
            height = min(share, height - VALUE_STEP)
            axes.annotate(
                f"{y:.2f}", (x, height), xycoords=axes.get_xaxis_transform(), xytext=(6, 0), va="center",
                textcoords="offset points", fontsize=6, annotation_clip=False,
            )  # fmt: skip
