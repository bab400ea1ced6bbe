"""The forms of all figures: rows of bars, stacks, boxes and marks; curves; columns; and fields.

A study chooses what a figure shows, as data: panels of one of the classes here. `draw_panels` puts them side by side,
with one legend, the reasons for what is missing, and the footnote. What a bar or mark shows is in its tooltip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from repro.results import figure_style, plotting
from repro.results.figure_style import GREY, PUBLISHED, TEXT_WIDTH

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from repro.results.significance import Interval

Case = TypeVar("Case")
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
    #: Whether the line goes from point to point in steps.
    has_steps: bool = False

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
            drawstyle="steps-post" if self.has_steps else "default", **style,
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
    bar: ColourBar | None = None,
) -> Canvas:
    """Draw panels in rows of so many, with one legend above all.

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
    bar
        A bar of colours beside all panels.
    """
    if all(panel.is_empty for panel in panels):
        return figure_style.empty_canvas(empty)
    across = min(across or len(panels), len(panels))
    keys = _joined([*(panel.keys for panel in panels), keys or {}])
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
    if bar:
        bar.draw(drawing, [axes for axes in grid.flat if axes.axison])
    if keys:
        drawing.legend(handles=samples(keys), loc="outside upper left", ncols=columns, **LEGEND)
    for text, write in zip(labels, (drawing.supxlabel, drawing.supylabel), strict=True):
        if text:
            write(text, fontsize=figure_style.RC["axes.labelsize"])
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
    """Return the number of columns of a legend: as many as fit into so many inches."""

    def letters(columns: int) -> float:
        ends = [-(-len(labels) * index // columns) for index in range(columns + 1)]
        return sum(SAMPLE_LETTERS + max(map(len, labels[start:end]), default=0) for start, end in pairwise(ends))

    most = next((count for count in range(len(labels), 1, -1) if letters(count) <= LETTERS_PER_INCH * width), 1)
    return -(-len(labels) // -(-len(labels) // most)) if labels else 1  # the same number of lines, evenly filled


def _joined(all_keys: Iterable[Keys]) -> dict[str, Pen | Fill]:
    """Return all entries of a legend, the first of each label."""
    joined: dict[str, Pen | Fill] = {}
    for label, look in (entry for keys in all_keys for entry in keys.items() if entry[0]):
        joined.setdefault(label, look)
    return joined


def samples(keys: Keys) -> list[Line2D | Patch]:
    """Return what Matplotlib draws into a legend."""
    return [
        look.line(label=label) if isinstance(look, Pen) else plotting.Patch(label=label, **look.style)
        for label, look in keys.items()
    ]


# rows ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row(Generic[Case]):
    """A row of a panel: one case, several whose mean is drawn, or none, for a heading."""

    label: str
    cases: Sequence[Case] = ()
    #: Mean of the numbers of several cases.
    mean: Callable[[Iterable[float | None]], float | None] | None = None
    #: Why it has no bar, if it has none.
    reason: str | None = None
    #: Whether its printed numbers have a star.
    has_star: bool = False

    def number(self, number: Callable[[Case], float | None]) -> float | None:
        """Return a number of its case, or the mean of all."""
        if self.mean:
            return self.mean(map(number, self.cases))
        return number(self.cases[0]) if self.cases else None


@dataclass(frozen=True)
class Bars(Generic[Case]):
    """A bar in each row, with a whisker."""

    label: str
    colour: str
    number: Callable[[Case], float | None]
    interval: Callable[[Case], Interval | None] = lambda case: None
    hatch: str = ""
    #: Head of the column of its numbers at the right of the panel; None for no column.
    head: str | None = None
    printed: Callable[[float], str] = "{:.2f}".format
    #: What the column has for a case without number.
    absent: str | None = None

    @property
    def keys(self) -> Keys:
        return {self.label: Fill(self.colour, self.hatch)}

    def ends(self, row: Row[Case]) -> list[float]:
        """Return where the bar of a row ends, if it has one."""
        return [] if (number := row.number(self.number)) is None else [number]

    def intervals(self, row: Row[Case]) -> Interval | None:
        return self.interval(row.cases[0]) if row.cases and not row.mean else None

    def draw(self, axes: Axes, row: Row[Case], y: float, height: float, right: float) -> None:
        number = row.number(self.number)
        if number is not None:
            begin = 1 if axes.get_xscale() == "log" else 0
            style = Fill(self.colour, self.hatch).style
            axes.barh(y, number - begin, left=begin, height=height, label=self.label, zorder=2, **style)
            figure_style.draw_whisker(axes, self.intervals(row), y, right)


class Segment(NamedTuple):
    """A part of a stacked bar."""

    label: str
    width: float
    colour: str
    hatch: str = ""
    #: What is written into it.
    text: str = ""


@dataclass(frozen=True)
class Stack(Generic[Case]):
    """A bar of parts in each row."""

    #: Groups of parts of a case; a line parts two groups.
    groups: Callable[[Case], Sequence[Sequence[Segment]]]
    keys: Keys = field(default_factory=dict)
    label: str = ""

    def ends(self, row: Row[Case]) -> list[float]:
        widths = [part.width for case in row.cases for group in self.groups(case) for part in group]
        return [sum(widths)] if widths else []

    def draw(self, axes: Axes, row: Row[Case], y: float, height: float, right: float) -> None:
        begin = 0.0
        for index, group in enumerate(self.groups(row.cases[0])):
            if index:
                axes.plot([begin, begin], [y - height * 0.7, y + height * 0.7], color="black", linewidth=0.9, zorder=4)
            for part in group:
                style = Fill(part.colour, part.hatch).style
                axes.barh(y, part.width, left=begin, height=height, label=part.label, zorder=2, **style)
                axes.text(begin + 1.5, y, part.text, va="center", fontsize=6, color="white", zorder=5)
                begin += part.width


@dataclass(frozen=True)
class Boxes(Generic[Case]):
    """Quartiles in each row: the keys are min, q1, median, q3 and max."""

    quartiles: Callable[[Case], Mapping[str, float] | None]
    keys: Keys = field(default_factory=dict)
    label: str = ""

    def ends(self, row: Row[Case]) -> list[float]:
        boxes = map(self.quartiles, row.cases)
        return [box[end] for box in boxes if box for end in ("min", "max")]

    def draw(self, axes: Axes, row: Row[Case], y: float, height: float, right: float) -> None:
        if box := self.quartiles(row.cases[0]):
            names = {"whislo": "min", "q1": "q1", "med": "median", "q3": "q3", "whishi": "max"}
            grey = {"color": GREY, "linewidth": 0.7}
            axes.bxp(
                [{name: box[key] for name, key in names.items()} | {"fliers": []}],
                positions=[y],
                orientation="horizontal",
                widths=height,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": figure_style.PALE, "edgecolor": GREY, "linewidth": 0.7},
                medianprops={"color": "black", "linewidth": 1.5},
                whiskerprops=grey,
                capprops=grey,
            )


@dataclass(frozen=True)
class Marks(Generic[Case]):
    """Marks in each row."""

    label: str
    pen: Pen
    #: A number of a case, or several.
    number: Callable[[Case], float | Sequence[float] | None]
    #: In the middle of the row, below its bars, apart from other marks, or on the bar or marks with this label.
    place: str = "middle"
    #: Whether the legend has them.
    has_key: bool = True
    #: Head of the column of its numbers at the right of the panel; None for no column.
    head: str | None = None
    printed: Callable[[float], str] = "{:.2f}".format
    absent: str | None = None
    #: Height in rows over which several numbers of a case are spread, so that they do not hide each other.
    spread: float = 0.0

    @property
    def keys(self) -> Keys:
        return {self.label: self.pen} if self.has_key else {}

    def single(self, case: Case) -> float | None:
        numbers = self.number(case)
        return numbers if isinstance(numbers, float | int | None) else None

    def ends(self, row: Row[Case]) -> list[float]:
        """Return the places of the marks of a row."""
        if row.mean:
            return [] if (mean := row.number(self.single)) is None else [mean]
        numbers = self.number(row.cases[0]) if row.cases else None
        return [] if numbers is None else [numbers] if isinstance(numbers, float | int) else [*numbers]

    def draw(self, axes: Axes, row: Row[Case], y: float) -> None:
        if numbers := self.ends(row):
            heights = y + self.spread * np.linspace(-0.5, 0.5, len(numbers)) if len(numbers) > 1 else [y]
            axes.add_line(self.pen.line(numbers, [*map(float, heights)], self.label))


#: Height in inches of the bars of a row that has lanes of marks below them, of a lane, and the most lanes.
BARS_HEIGHT, LANE_HEIGHT, MAX_LANES = 0.19, 0.055, 2
#: Share of a row that its bars fill, and the most that a single bar fills.
FILLED, WIDEST = 0.8, 0.6
#: Widths in points of a letter of a column of numbers, and height of a line of a legend.
LETTER_POINTS, LEGEND_POINTS = 3.4, 10
#: Scale of numbers that can be 0: linear up to 1.
SYMLOG: dict[str, Any] = {"linthresh": 1, "linscale": 0.5}


@dataclass(frozen=True)
class Rows(Generic[Case]):
    """A row for each case, with bars, stacks or boxes, and marks."""

    rows: Sequence[Row[Case]]
    unit: str
    bars: Sequence[Bars[Case] | Stack[Case] | Boxes[Case]] = ()
    marks: Sequence[Marks[Case]] = ()
    title: str = ""
    references: Sequence[Reference] = ()
    #: Scale of the axis: bars of ratios begin at 1 on a logarithmic one; "symlog" is linear up to 1.
    scale: Literal["linear", "log", "symlog"] = "linear"
    #: Numbers that the axis contains, whatever is drawn.
    within: Sequence[float] = ()
    #: Right end of the axis; None for the end of the longest bar.
    right: float | None = None
    #: Steps of the ticks of a logarithmic axis in a decade.
    steps: Sequence[float] = (1, 2, 5)
    #: The most columns of numbers.
    columns: int = 1
    row_height: float = 0.22
    has_own_legend: bool = False
    #: Whether lines part the rows.
    has_lines: bool = False

    @property
    def lanes(self) -> int:
        """Number of lanes of marks below the bars of a row."""
        return min(sum(marks.place == "below" for marks in self.marks), MAX_LANES)

    @property
    def _row_height(self) -> float:
        return BARS_HEIGHT + LANE_HEIGHT * self.lanes if self.lanes else self.row_height

    @property
    def _own_legend_columns(self) -> tuple[int, int]:
        """Columns and lines of a legend between title and panel."""
        if not self.has_own_legend:
            return 1, 0
        columns = legend_columns([*self._all_keys], TEXT_WIDTH / 2)
        return columns, -(-len(self._all_keys) // columns)

    @property
    def height(self) -> float:
        return self._row_height * max(len(self.rows), 2) + 0.55 + LEGEND_LINE * self._own_legend_columns[1]

    @property
    def is_empty(self) -> bool:
        measured = [*self.bars, *(marks for marks in self.marks if marks.pen != PUBLISHED_MARK)]
        return not any(series.ends(row) for row in self.rows for series in measured)

    def _reason(self, row: Row[Case]) -> str | None:
        """Return why a row has no bar, or in a panel of marks no mark."""
        return None if any(series.ends(row) for series in self.bars or self.marks) else row.reason

    def _ends(self, row: Row[Case]) -> list[float]:
        """Return all numbers of a row."""
        return [end for series in (*self.bars, *self.marks) for end in series.ends(row)]

    @property
    def drawn_bars(self) -> Sequence[Bars[Case] | Stack[Case] | Boxes[Case]]:
        """The series of bars with a number."""
        return [series for series in self.bars if any(map(series.ends, self.rows))]

    @property
    def _all_keys(self) -> Keys:
        drawn_marks = [marks for marks in self.marks if any(map(marks.ends, self.rows))]
        return _joined(series.keys for series in (*self.drawn_bars, *drawn_marks, *self.references))

    @property
    def keys(self) -> Keys:
        return {} if self.has_own_legend else self._all_keys

    @property
    def end(self) -> float:
        """Right end of a linear axis."""
        intervals = [bars.intervals(row) for bars in self.bars if isinstance(bars, Bars) for row in self.rows]
        return figure_style.right_end(self._numbers, intervals, 1.05)

    @property
    def _numbers(self) -> list[float]:
        """All numbers that the axis has to contain."""
        ends = [end for row in self.rows for end in self._ends(row)]
        return [*ends, *self.within, *(end for line in self.references for end in line.ends)]

    def draw(self, axes: Axes, *, is_left: bool) -> None:
        axes.set_xscale(self.scale, **(SYMLOG if self.scale == "symlog" else {}))
        right = self.right or (self.end if self.scale == "linear" else inf)
        figure_style.rows_axis(
            axes,
            [row.label for row in self.rows],
            reasons=[*map(self._reason, self.rows)],
        )
        axes.tick_params(axis="y", labelleft=is_left)
        for y, (row, tick) in enumerate(zip(self.rows, axes.yaxis.get_major_ticks(), strict=True)):
            tick.label1.set_fontweight("bold" if row.mean or not row.cases else "normal")
            tick.label1.set_color("black" if row.cases else GREY)
            if row.cases:
                self._draw_row(axes, y, row, right)
            if y and (self.has_lines or not row.cases):
                axes.axhline(y - 0.5, color=figure_style.PALE if row.cases else GREY, linewidth=0.4, zorder=1)
        for line in self.references:
            line.draw(axes, is_upright=True)
        self._name_references(axes)
        self._set_axis(axes, right)
        self._write_columns(axes)
        axes.set_title(self.title, pad=LEGEND_POINTS * self._own_legend_columns[1] + 6)
        if self.has_own_legend:
            axes.legend(
                handles=samples(self._all_keys), loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2,
                ncols=self._own_legend_columns[0], **LEGEND,
            )  # fmt: skip

    def _draw_row(self, axes: Axes, y: int, row: Row[Case], right: float) -> None:
        share = BARS_HEIGHT / self._row_height if self.lanes else 1.0
        middle = y - 0.5 + share / 2
        shown = [series for series in self.bars if series.ends(row)]
        thickness = share * (FILLED / len(shown) if len(shown) > 1 else WIDEST)
        places: dict[str, float] = {"middle": y}
        for index, series in enumerate(shown):
            place = places[series.label] = middle + (index - (len(shown) - 1) / 2) * thickness
            series.draw(axes, row, place, 0.95 * thickness, right)
        below, apart = ([marks for marks in self.marks if marks.place == place] for place in ("below", "apart"))
        for marks in self.marks:
            if marks in below:
                lane = below.index(marks) * self.lanes // len(below)
                place = y - 0.5 + (BARS_HEIGHT + LANE_HEIGHT * (lane + 0.1)) / self._row_height
            elif marks in apart:
                place = places[marks.label] = y + FILLED * ((apart.index(marks) + 0.5) / len(apart) - 0.5)
            else:
                place = places.get(marks.place, middle)
            marks.draw(axes, row, place)

    def _name_references(self, axes: Axes) -> None:
        """Write the names of lines into the first row, a heading; those of two lines stand on their outer sides."""
        names: dict[float, list[str]] = {}
        for line in self.references:
            if line.name and not isinstance(line.value, tuple):
                names.setdefault(line.value, []).append(line.name)
        for value, texts in names.items():
            is_last = value == max(names)
            axes.annotate(
                ", ".join(texts), (value, 0), xytext=(2.5 if is_last else -2.5, 0), textcoords="offset points",
                ha="left" if is_last else "right", va="center", fontsize=6,
            )  # fmt: skip

    def _set_axis(self, axes: Axes, right: float) -> None:
        axes.set_xlabel(self.unit)
        axes.grid(axis="x")
        if self.scale == "linear":
            has_caps = any(isinstance(series, Boxes) for series in self.bars)  # those of whiskers at 0 stay visible
            axes.set_xlim(-0.015 * right if has_caps else 0, right)
            axes.xaxis.set_major_locator(plotting.MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10]))
        elif self.scale == "log":
            axes.autoscale_view()
            low, high = axes.get_xlim()
            axes.set_xlim(min(low, *self._numbers), max(high, *self._numbers))
            figure_style.log_ticks(axes.xaxis, self.steps)
        else:
            largest = 1.2 * max(1.0, *self._numbers)
            axes.set_xlim(-0.1, largest)
            steps = (1, 10, 100) if largest > 2000 else (1, 2, 5, 10, 20, 50, 100, 200, 500)
            ticks = [0.0, *(step * 1000.0**power for power in range(6) for step in steps)]
            axes.set_xticks([tick for tick in ticks if tick <= largest])
            axes.xaxis.set_major_formatter(plotting.FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(plotting.NullLocator())

    def _write_columns(self, axes: Axes) -> None:
        """Write columns of numbers at the right, since beside bars they would overlap marks."""
        series = [
            one for one in (*self.drawn_bars, *self.marks) if isinstance(one, Bars | Marks) and one.head is not None
        ]
        points = 3.0
        for one in [one for one in series if any(map(one.ends, self.rows))][: self.columns]:
            head, numbers = (one.head or "").replace(" ", "\n"), [one.ends(row) for row in self.rows]
            texts = [
                one.printed(number[0]) + "*" * row.has_star if number else one.absent if row.cases else None
                for row, number in zip(self.rows, numbers, strict=True)
            ]
            colour = one.pen.colour if isinstance(one, Marks) else "black"
            bold = [y for y, row in enumerate(self.rows) if row.mean]
            figure_style.write_column(axes, texts, (head, colour), points=points, bold=bold)
            points += LETTER_POINTS * (2 + max(len(text or "") for text in (*texts, *head.split("\n"))))


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
    """Points, joined by a line or not, or upright bars."""

    label: str
    pen: Pen
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, Interval]] = ()
    #: Places without a number, which get a cross above the panel.
    crosses: Sequence[float] = ()
    #: How many points of a page it is shifted to the right, so that marks of several curves do not overlap.
    shift: float = 0.0
    #: Width of bars; 0 for marks and lines.
    bar_width: float = 0.0
    #: Only every so manieth point has a mark.
    mark_every: int = 1
    #: Whether the legend has it, and whether its last value is written at its end.
    has_key: bool = True
    has_value: bool = False

    @property
    def keys(self) -> Keys:
        look = Fill(self.pen.colour) if self.bar_width else self.pen
        return {self.label: look} if self.has_key else {}

    def draw(self, axes: Axes) -> None:
        x, y = [point[0] for point in self.points], [point[1] for point in self.points]
        if self.bar_width:
            axes.bar(x, y, self.bar_width, color=self.pen.colour, label=self.label, zorder=2)
            return
        shift = plotting.ScaledTranslation(self.shift / 72, 0, axes.figure.dpi_scale_trans)
        lines = [self.pen.line(x, y, self.label, markevery=self.mark_every)]
        # intervals are drawn below the marks, since short ones would cover them
        lines += [_INTERVAL.line([place, place], ends) for place, ends in self.intervals]
        for line in lines:
            axes.add_line(line)
            if self.shift:  # only now: the limits of the axes come from the data
                line.set_transform(axes.transData + shift)
        for place in self.crosses:
            pen, above = CROSS._replace(colour=self.pen.colour), axes.get_xaxis_transform() + shift
            axes.add_artist(pen.line([place], [1.04], transform=above, clip_on=False))


@dataclass(frozen=True)
class Curves:
    """Curves, points or upright bars over a size."""

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
        return _joined([*(curve.keys for curve in self.drawn), *(line.keys for line in lines)])

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
        axes.grid(axis="y" if any(curve.bar_width for curve in self.curves) else "both")
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


# fields --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColourBar:
    """What colours mean: numbers from one end to another, or each colour a name."""

    label: str
    limits: Interval
    #: Places with their names.
    ticks: Mapping[float, str] | None = None
    #: One for each place, 0, 1, …; None for all colours of a field on a logarithmic scale.
    colours: Sequence[str] | None = None

    def draw(self, drawing: Canvas, panels: list[Axes]) -> None:
        """Draw it beside panels."""
        colours = plotting.ListedColormap(self.colours) if self.colours else figure_style.HEAT
        norm: Any = plotting.LogNorm(*self.limits)
        if self.colours:
            norm = plotting.BoundaryNorm(np.arange(len(self.colours) + 1) - 0.5, len(self.colours))
        bar = drawing.colorbar(plotting.ScalarMappable(norm, colours), ax=panels, label=self.label, pad=0.02, aspect=25)
        if self.ticks:
            bar.set_ticks(list(self.ticks), labels=list(self.ticks.values()))
        bar.ax.yaxis.set_minor_locator(plotting.NullLocator())


@dataclass(frozen=True)
class Field:
    """Numbers by two settings, as colours: bright is small."""

    #: A row for each of `y_names`, a column for each of `x_names`; NaN for none.
    values: npt.NDArray[np.float64]
    x_names: Sequence[str]
    y_names: Sequence[str]
    x_label: str
    y_label: str
    title: str = ""
    #: Ends of a logarithmic scale, which several panels share; None for a linear one with a bar of its own.
    limits: Interval | None = None
    bar_label: str = ""
    #: Where a cross is drawn; the smallest number then gets a star.
    crosses: npt.NDArray[np.bool_] | None = None
    #: What the legend says about numbers that are missing, which are hatched; empty for blanks.
    missing: str = ""
    height: float = 2.4

    @property
    def is_empty(self) -> bool:
        return not np.isfinite(self.values).any()

    @property
    def keys(self) -> Keys:
        return {} if np.isfinite(self.values).all() else {self.missing: Fill("white", "////", GREY)}

    def draw(self, axes: Axes, *, is_left: bool) -> None:
        axes.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label if is_left or self.limits is None else "")
        for axis, names in ((axes.xaxis, self.x_names), (axes.yaxis, self.y_names)):
            axis.set_ticks(np.arange(len(names)) + 0.5, labels=list(names))
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        if not self.values.size:
            figure_style.write_panel_reason(axes, "not searched")
            return
        if self.missing:
            axes.patch.set(facecolor="white", edgecolor=figure_style.PALE, hatch="////", linewidth=0)
        norm = plotting.LogNorm(*self.limits) if self.limits else None
        style: dict[str, Any] = {"cmap": figure_style.HEAT, "edgecolors": "white", "linewidth": 0.3}
        mesh = axes.pcolormesh(np.ma.masked_invalid(self.values), norm=norm, **style)
        if self.bar_label:
            axes.figure.colorbar(mesh, ax=axes, label=self.bar_label)
        if self.crosses is not None:
            for y, x in zip(*np.nonzero(self.crosses), strict=True):
                axes.plot(x + 0.5, y + 0.5, "x", color="black", markersize=5, markeredgewidth=1)
            if not self.is_empty:
                y, x = np.unravel_index(int(np.nanargmin(self.values)), self.values.shape)
                axes.plot(
                    x + 0.5, y + 0.5, "*", color="white", markeredgecolor="black", markeredgewidth=0.6, markersize=8
                )
