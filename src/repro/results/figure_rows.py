"""Rows of bars, stacks, boxes and marks: a form of figures for what is measured on each problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from repro.results import figure_style, plotting
from repro.results.figure_forms import CROSS, PUBLISHED_MARK, Fill, Keys, Pen, Reference, joined
from repro.results.figure_style import GREY
from repro.results.significance import Interval, interval_of_ratio, ratio_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from repro.results.campaign_data import ReportedTime

Case = TypeVar("Case")


@dataclass(frozen=True)
class Row(Generic[Case]):
    """A row of a panel: one case, several whose mean is drawn, or none, for a heading."""

    label: str
    cases: Sequence[Case] = ()
    #: Mean of the numbers of several cases.
    mean: Callable[[Iterable[float | None]], float | None] | None = None
    #: Why it has no bar, if it has none.
    reason: str | None = None
    #: Whether its printed numbers have a star, and whether a cross at the axis says that others are missing.
    has_star: bool = False
    has_cross: bool = False

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
            draw_whisker(axes, self.intervals(row), y, right)


def ratio_bars(
    label: str,
    colour: str,
    times: Callable[[Case], tuple[ReportedTime | None, ReportedTime | None]],
    *,
    hatch: str = "",
    head: str | None = None,
) -> Bars[Case]:
    """Return bars of the ratio of two times of a case, the first over the second, with its interval."""
    return Bars(
        label, colour, lambda case: ratio_of(*times(case)), lambda case: interval_of_ratio(*times(case)), hatch, head
    )


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

    parts: Callable[[Case], Sequence[Segment]]
    keys: Keys = field(default_factory=dict)
    label: str = ""

    def ends(self, row: Row[Case]) -> list[float]:
        widths = [part.width for case in row.cases for part in self.parts(case)]
        return [sum(widths)] if widths else []

    def draw(self, axes: Axes, row: Row[Case], y: float, height: float, right: float) -> None:
        begin = 0.0
        for part in self.parts(row.cases[0]):
            style = Fill(part.colour, part.hatch).style
            axes.barh(y, part.width, left=begin, height=height, label=part.label, zorder=2, **style)
            style = {"textcoords": "offset points", "va": "center", "fontsize": 6, "color": "white", "zorder": 5}
            axes.annotate(part.text, (begin, y), (4, 0), **style)
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
    #: Return the number, or numbers, to mark for a case; None: no mark.
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
#: Largest end of a whisker that is drawn in full, as a multiple of the largest bar.
LONGEST = 1.5
#: Width in points of a letter of a column of numbers.
LETTER_POINTS = 3.4
#: Scale of numbers that can be 0: linear up to 1.
SYMLOG: dict[str, Any] = {"linthresh": 1, "linscale": 0.5}


def _write_column(
    axes: Axes, texts: Sequence[str | None], header: tuple[str, str], points: float, bold: Sequence[int]
) -> None:
    """Write a column of numbers to the right of an axes, one number per row, with a head if there are any numbers.

    `header` has the name or symbol, and the colour, of the series of the numbers; `points` is the gap to the
    axes; the numbers of the rows `bold` are bold.
    """
    name, colour = header
    text_style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 6, "annotation_clip": False}
    if any(text is not None for text in texts):
        axes.annotate(
            name, (1, 1), xycoords="axes fraction", xytext=(points, 2), color=colour, va="bottom", **text_style
        )
    for row, text in enumerate(texts):
        if text is not None:
            axes.annotate(
                text, (1, row), xycoords=axes.get_yaxis_transform(), xytext=(points, 0), va="center", color="black",
                fontweight="bold" if row in bold else "normal", **text_style,
            )  # fmt: skip


def draw_whisker(axes: Axes, interval: tuple[float, float] | None, y: float, right: float = inf) -> None:
    """Draw a confidence interval (None: nothing) over the end of a horizontal bar at height `y`.

    An interval that extends beyond `right`, the end of the axis, ends there in an arrow.
    """
    if interval is None:
        return
    # a white outline makes thin lines visible on dark bars
    outline = plotting.withStroke(linewidth=1.4, foreground="white")
    marker_style: dict[str, Any] = {"color": "black", "markersize": 2.5, "zorder": 4, "path_effects": [outline]}
    low, high = interval
    ends = [0] if high > right else None
    axes.plot((low, min(high, right)), (y, y), linewidth=0.6, marker="|", markevery=ends, **marker_style)
    if high > right:
        axes.plot(right, y, linestyle="", marker=">", clip_on=False, **marker_style)


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
    #: The most columns of numbers.
    columns: int = 1
    row_height: float = 0.22

    @property
    def lanes(self) -> int:
        """Number of lanes of marks below the bars of a row."""
        return min(sum(marks.place == "below" for marks in self.marks), MAX_LANES)

    @property
    def _row_height(self) -> float:
        return BARS_HEIGHT + LANE_HEIGHT * self.lanes if self.lanes else self.row_height

    @property
    def height(self) -> float:
        return self._row_height * max(len(self.rows), 2) + 0.55

    @property
    def is_empty(self) -> bool:
        measured = [*self.bars, *(marks for marks in self.marks if marks.pen != PUBLISHED_MARK)]
        return not any(series.ends(row) for row in self.rows for series in measured)

    def _reason(self, row: Row[Case]) -> str | None:
        """Return why a row has no bar, or in a panel of marks no mark."""
        return None if any(series.ends(row) for series in self.bars or self.marks) else row.reason

    @property
    def drawn_bars(self) -> Sequence[Bars[Case] | Stack[Case] | Boxes[Case]]:
        """The series of bars with a number."""
        return [series for series in self.bars if any(map(series.ends, self.rows))]

    @property
    def keys(self) -> Keys:
        drawn_marks = [marks for marks in self.marks if any(map(marks.ends, self.rows))]
        return joined(series.keys for series in (*self.drawn_bars, *drawn_marks, *self.references))

    @property
    def end(self) -> float:
        """Right end of a linear axis."""
        whiskers = [bars.intervals(row) for bars in self.bars if isinstance(bars, Bars) for row in self.rows]
        largest = max(self._numbers, default=1.0)
        # a whisker longer than that is cut off, so that it does not make all bars short
        longest_whisker = min(1.02 * max((ends[1] for ends in whiskers if ends), default=0.0), LONGEST * largest)
        return max(1.05 * largest, longest_whisker)

    @property
    def _numbers(self) -> list[float]:
        """All numbers that the axis has to contain."""
        ends = [end for row in self.rows for series in (*self.bars, *self.marks) for end in series.ends(row)]
        return [*ends, *self.within, *(end for line in self.references for end in line.ends)]

    def draw(self, axes: Axes, *, is_left: bool) -> None:
        axes.set_xscale(self.scale, **(SYMLOG if self.scale == "symlog" else {}))
        right = self.right or (self.end if self.scale == "linear" else inf)
        axes.set_yticks(range(len(self.rows)), [row.label for row in self.rows])
        axes.set_ylim(len(self.rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0, labelleft=is_left)
        for y, (row, tick) in enumerate(zip(self.rows, axes.yaxis.get_major_ticks(), strict=True)):
            tick.label1.set_fontweight("bold" if row.mean or not row.cases else "normal")
            tick.label1.set_color("black" if row.cases else GREY)
            if row.cases:
                self._draw_row(axes, y, row, right)
            if reason := self._reason(row):
                place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 6}
                axes.text(0.015, y, reason, **place, **figure_style.REASON)
            if y and not row.cases:
                axes.axhline(y - 0.5, color=GREY, linewidth=0.4, zorder=1)
        for line in self.references:
            line.draw(axes, is_upright=True)
        self._name_references(axes)
        self._set_axis(axes, right)
        self._write_columns(axes)
        axes.set_title(self.title)

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
        if row.has_cross and not self._reason(row):
            cross = CROSS._replace(colour="black", size=4)
            axes.add_artist(cross.line([0.012], [y], transform=axes.get_yaxis_transform()))

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
            figure_style.log_ticks(axes.xaxis)
        else:
            largest = 1.2 * max(1.0, *self._numbers)
            axes.set_xlim(-0.1, largest)
            steps = (1, 10, 100) if largest > 1000 else (1, 2, 5, 10, 20, 50, 100, 200, 500)
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
                one.printed(number[0]) + "*" * (row.has_star and isinstance(one, Bars))
                if number
                else one.absent
                if row.cases
                else None
                for row, number in zip(self.rows, numbers, strict=True)
            ]
            colour = one.pen.colour if isinstance(one, Marks) else "black"
            bold = [y for y, row in enumerate(self.rows) if row.mean]
            _write_column(axes, texts, (head, colour), points=points, bold=bold)
            points += LETTER_POINTS * (2 + max(len(text or "") for text in (*texts, *head.split("\n"))))
