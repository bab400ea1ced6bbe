"""How the figures of the study of compressed COO are drawn: a row a problem, grouped by whether the values repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.numbers import median_of
from repro.artifacts.significance import Interval
from repro.studies.compressed_coo.times import DISTINCT, REPEAT, Times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Number = Callable[[Times], float | None]
MEDIAN, LARGE_MEDIAN = "median", "median of the large"
HEADS = {REPEAT: "values repeat", DISTINCT: "values distinct", None: "not measured"}
WIDE_BAR, NARROW_BAR = 0.6, 0.38


@dataclass(frozen=True)
class Bar:
    """Numbers that are drawn as bars, with their intervals; those of the first series that is shown are printed."""

    label: str
    colour: str
    number: Number
    sure: Callable[[Times], Interval | None] = lambda case: None


@dataclass(frozen=True)
class Mark:
    """Numbers that are drawn as marks over the bars."""

    label: str
    marker: str
    colour: str
    number: Number

    def line(self, x: Sequence[float], y: Sequence[float], label: str | None = None) -> Line2D:
        """Return the marks."""
        return Line2D(
            x, y, linestyle="", marker=self.marker, markersize=6.5 if self.marker == "|" else 3.6, zorder=4,
            markeredgewidth=1.3 if self.marker == "|" else 0.9, markeredgecolor=self.colour, markerfacecolor="white",
            label=label,
        )  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row: a head of a group where there are no values, else numbers of bars and marks, and bars' intervals."""

    label: str
    bars: tuple[float | None, ...] = ()
    marks: tuple[float | None, ...] = ()
    missing: str | None = None
    mostly_launch: bool = False
    sure: tuple[Interval | None, ...] = ()


@dataclass(frozen=True)
class Panel:
    """What one figure shows.

    Attributes
    ----------
    bars, marks
        Series; one without any number is left out of the legend.
    title, unit
        Above the panel and below its axis.
    printed
        How the number beside a row is printed.
    one
        Whether 1 is drawn as a line, and what is said of it in the legend (nothing if empty).
    reference, referred
        Published numbers by GPU, drawn as dashed lines, and what they are called.
    absent
        Why a problem with a winner has no number here.
    stars
        Whether a row is marked by a star where its product's time is mostly launch.
    """

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    title: str
    unit: str
    printed: Callable[[float], str] = "{:.2f}".format
    one: str | None = None
    reference: Mapping[str, float] = field(default_factory=dict)
    referred: str = "published most"
    absent: Callable[[Times], str] = lambda case: "not recorded"
    stars: bool = False


def rows_of(panel: Panel, cases: Sequence[Times], counted: Sequence[Times]) -> list[Row]:
    """Return the rows of a figure, group by group, each group of several problems with its median.

    Parameters
    ----------
    counted
        The problems that medians are taken over.
    """
    rows: list[Row] = []
    for values, head in HEADS.items():
        group = [case for case in cases if case.values == values]
        if not group:
            continue
        rows += [Row(head), *(_row(panel, case) for case in group)]
        over = [case for case in group if case in counted]
        if values and len(over) > 1:
            rows.append(_median(panel, over, MEDIAN if len(over) == len(group) else LARGE_MEDIAN))
    return rows


def _row(panel: Panel, case: Times) -> Row:
    bars, marks = (tuple(kind.number(case) for kind in series) for series in (panel.bars, panel.marks))
    missing = None
    if not any(value is not None for value in (*bars, *marks)):
        why = case.case.why_not() if case.compressed is None else panel.absent(case)
        missing = "unavailable" if why.startswith("unavailable") else why
    launch = panel.stars and case.case.mostly_launch("graph", case.ours or case.compressed)
    return Row(case.line.label, bars, marks, missing, launch, tuple(bar.sure(case) for bar in panel.bars))


def _median(panel: Panel, cases: Sequence[Times], label: str) -> Row:
    bars, marks = (
        tuple(median_of(kind.number(case) for case in cases) for kind in series) for series in (panel.bars, panel.marks)
    )
    return Row(label, bars, marks)


def draw(panel: Panel, rows: Sequence[Row], mark: str | None) -> Canvas:
    """Draw one panel.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(value is not None for row in rows for value in (*row.bars, *row.marks)):
        return style.empty("nothing was measured in this campaign")
    drawn = style.canvas(style.TEXT, style.height(len(rows), extra=1.05, per_row=0.19))
    axes = drawn.add_subplot()
    shown = [index for index in range(len(panel.bars)) if any(row.bars and row.bars[index] for row in rows)]
    for at, row in enumerate(rows):
        _draw_row(axes, panel, at, row, shown)
    if shown:
        first = [row.bars[shown[0]] if row.bars else None for row in rows]
        texts = [
            None if number is None else panel.printed(number) + "*" * row.mostly_launch
            for number, row in zip(first, rows, strict=True)
        ]
        bold = [at for at, row in enumerate(rows) if row.label in (MEDIAN, LARGE_MEDIAN)]
        style.column(axes, texts, (style.BAR, panel.bars[shown[0]].colour), bold=bold)
    values = [value for row in rows for value in (*row.bars, *row.marks) if value is not None]
    axes.set_xlim(0, 1.05 * max([*values, *panel.reference.values(), *([1.0] if panel.one is not None else [])]))
    axes.grid(axis="x")
    axes.set_title(panel.title)
    axes.set_xlabel(panel.unit)
    style.rows_axis(axes, [row.label for row in rows], missing=[row.missing for row in rows])
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if row.label in (MEDIAN, LARGE_MEDIAN) or not row.bars else "normal")
        text.set_color(style.GREY if not row.bars else "black")
    handles: list[Patch | Line2D] = [Patch(color=panel.bars[i].colour, label=panel.bars[i].label) for i in shown]
    for index, series in enumerate(panel.marks):
        if any(row.marks and row.marks[index] is not None for row in rows):
            handles.append(series.line([], [], label=series.label))
    if panel.one is not None:
        axes.axvline(1, color=style.GREY, linewidth=0.7, zorder=3)
        if panel.one:
            handles.append(Line2D([], [], color=style.GREY, linewidth=0.7, label=panel.one))
    if panel.reference:
        label = f"{panel.referred}: " + ", ".join(f"{value:g} ({gpu})" for gpu, value in panel.reference.items())
        dashed: dict[str, Any] = {"color": style.GREY, "linewidth": 0.7, "linestyle": (0, (4, 2))}
        handles.append(Line2D([], [], label=label, **dashed))
        for value in panel.reference.values():
            axes.axvline(value, zorder=3, **dashed)
    drawn.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.4, columnspacing=1.4)
    style.footnote(drawn, mark)
    return drawn


def _draw_row(axes: Axes, panel: Panel, at: int, row: Row, shown: Sequence[int]) -> None:
    if not row.bars:
        if at:
            axes.axhline(at - 0.5, color=style.GREY, linewidth=0.4)
        return
    there = [index for index in shown if row.bars[index] is not None]
    for place, index in enumerate(there):
        two = len(there) > 1
        offset = (0.4 * place - 0.2) if two else 0.0
        series, value = panel.bars[index], row.bars[index] or 0.0
        axes.barh(at + offset, value, height=NARROW_BAR if two else WIDE_BAR, color=series.colour, linewidth=0)
        style.whisker(axes, row.sure[index] if row.sure else None, at + offset)
    for mark, number in zip(panel.marks, row.marks, strict=True):
        if number is not None:
            axes.add_line(mark.line([number], [at]))
