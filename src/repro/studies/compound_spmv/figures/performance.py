"""Matrices and performance: row statistics, and speedup over the library.

Figures 3 and 4 are box plots of row lengths and of bandwidths. Figures 5 and 6 are speedups over the library with and
without layout tuning; `figure-speedup` adds ours and the speedup of a kernel at the streaming floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, Case, brief_reason
from repro.results.problem_lines import (
    ProblemLine,
    join_sentences,
    launch_note,
    mark_meanings,
    measurement_note,
    recorded_lines,
    remarks,
    unavailable_note,
    unconfirmed_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, geometric_mean, interval_of_ratio, ratio_of
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.compound_spmv import CITED, STUDY_NAME
from repro.studies.compound_spmv.results import (
    ENTRY_WORDS,
    FLOOR,
    LIBRARY,
    OURS,
    PAPERS,
    PAPERS_CHOICE,
    SCHEDULE,
    Times,
    all_times,
    clock_note,
    kernels_note,
    papers_space,
)
from repro.words import PAPER, PAPER_TUNED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


BOX = "Boxes are quartiles with the median, whiskers the minimum and maximum."


@figure(STUDY_NAME, "figure-3", title="Row lengths", numbering=f"Figure 3 of {CITED}")
def row_lengths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the number of entries per row, on a logarithmic axis."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Row lengths (entries in a row) of each matrix, on a logarithmic axis; empty rows are drawn at 0.",
        BOX,
        f"Figure 3 of {CITED} prints no values; what is drawn is ours and does not depend on the device.",
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(lambda: _draw_boxes(lines, "row_length", "entries in a row", log=True), join_sentences(caption))


@figure(STUDY_NAME, "figure-4", title="Bandwidths", numbering=f"Figure 4 of {CITED}")
def bandwidths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the matrix bandwidth of a row, in percent of the number of columns."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Bandwidth of the rows of each matrix: largest minus smallest column index, in percent of the number",
        f"of columns (equation 3 of {CITED}).",
        BOX,
        f"Figure 4 of {CITED} prints no values; what is drawn is ours and does not depend on the device.",
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: _draw_boxes(lines, "bandwidth_percent", "bandwidth of a row [% of n]", log=False),
        join_sentences(caption),
    )


def _draw_boxes(lines: list[ProblemLine], key: str, label: str, *, log: bool) -> Canvas:
    if not lines:
        return figure_style.empty_canvas("no problem was built in this campaign")
    drawing = figure_style.canvas(figure_style.COLUMN_WIDTH, figure_style.height(len(lines)))
    axes = drawing.add_subplot()
    boxes: list[dict[str, Any]] = []
    rows, missing_reasons = [], []
    for row, line in enumerate(lines):
        quartiles = (line.record.statistics or {}).get(key) if line.record else None
        missing_reasons.append(None if quartiles else ("no statistics" if line.is_available else "unavailable"))
        if quartiles:
            rows.append(row)
            boxes.append(
                {
                    "med": quartiles["median"], "q1": quartiles["q1"], "q3": quartiles["q3"],
                    "whislo": quartiles["min"], "whishi": quartiles["max"], "fliers": [],
                }
            )  # fmt: skip
    if boxes:
        axes.bxp(
            boxes,
            positions=rows,
            orientation="horizontal",
            widths=0.6,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": figure_style.PALE, "edgecolor": figure_style.GREY, "linewidth": 0.7},
            medianprops={"color": "black", "linewidth": 1.5},
            whiskerprops={"color": figure_style.GREY, "linewidth": 0.7},
            capprops={"color": figure_style.GREY, "linewidth": 0.7},
        )
    if log:
        lower_limit = min([box["whislo"] for box in boxes], default=1)
        upper_limit = max([box["whishi"] for box in boxes], default=10)
        if lower_limit < 1:  # empty rows: a logarithmic axis has no place for 0
            axes.set_xscale("symlog", linthresh=1, linscale=0.4)
        else:
            axes.set_xscale("log")
        axes.set_xlim(0 if lower_limit < 1 else 0.8, 2 * upper_limit)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    else:
        axes.set_xlim(-1.5, 101.5)  # whiskers end at 0 and at 100: their caps stay visible
    axes.set_xlabel(label)
    axes.grid(axis="x")
    figure_style.rows_axis(axes, [line.label for line in lines], reasons=missing_reasons)
    figure_style.write_footnote(drawing, mark_meanings(lines))
    return drawing


NUMBERS = {5: "single", 6: "double"}


@dataclass(frozen=True)
class LibraryBars:
    """Speedups on one problem over the library's fastest routine and over the papers' choice; None if missing."""

    problem: str
    #: The name as figures print it.
    label: str
    tuned: float | None
    untuned: float | None
    papers: float | None
    missing: str | None
    #: Whether one of the times is mostly launch overhead.
    mostly_launch: bool = False
    noisy: bool = False
    tuned_interval: Interval | None = None
    untuned_interval: Interval | None = None


def speedups(campaign: Campaign, published: Published, precision: str) -> list[LibraryBars]:
    """Return the bars of every problem of the campaign, by the event clock."""
    bars = []
    for line in recorded_lines(campaign, published):
        case = Times(line, Case(campaign, line.problem, precision), "event")
        joint, schedule, base, papers = case[PAPERS], case[SCHEDULE], case[LIBRARY], case[PAPERS_CHOICE]
        reason = None
        if joint is None:
            reason = brief_reason(case.case.why_not())
        elif base is None:
            reason = f"no {library_of(campaign)} routine was timed"
        bars.append(
            LibraryBars(
                line.problem,
                line.label,
                ratio_of(base, joint),
                ratio_of(base, schedule),
                ratio_of(papers, joint),
                reason,
                bool(joint) and case.case.is_mostly_launch("event", joint, schedule, base, papers),
                any(time.noisy for time in (joint, base) if time),
                interval_of_ratio(base, joint),
                interval_of_ratio(base, schedule),
            )
        )
    return bars


def _baseline_figure(campaign: Campaign, published: Published, number: int) -> Figure:
    precision = NUMBERS[number]
    bars = speedups(campaign, published, precision)
    published_max = published.quantity("largest speedup over cuSPARSE", precision)
    library = library_of(campaign)
    best = max((bar for bar in bars if bar.tuned), key=lambda bar: bar.tuned or 0, default=None)
    noisy = sum(bar.noisy for bar in bars)
    caption = [
        f"Speedup over {library} in {precision} precision with (dark, and in numbers at the right) and without",
        "(light) layout tuning.",
        f"The baseline is the fastest of all {library} routines and representations;"
        + (" diamonds, and the second numbers, compare the tuned kernel with the routine that the papers used."
           if any(bar.papers for bar in bars) else " the papers’ own choice was not timed."),
        f"Figure {number} of {CITED} prints no values; the published maximum over cuSPARSE on its GPUs is",
        f"{published_max}×"
        + (", which no CPU speedup is compared with." if campaign.on_cpu
           else " (dashed), over the papers’ routine: the diamonds are its counterpart, on another GPU."),
        WHISKERS if any(bar.tuned_interval for bar in bars) else "",
        f"Our largest: {best.tuned:.2f}× ({best.problem})." if best and best.tuned else "",
        kernels_note(campaign),
        clock_note(campaign),
        launch_note(sum(bar.mostly_launch for bar in bars), sum(bar.tuned is not None for bar in bars)).replace(
            ": marked.", " (marked *)."
        ),
        f"Noisy times take part in {noisy} of them." if noisy else "",
        remarks(recorded_lines(campaign, published)),
        unavailable_note(campaign),
    ]  # fmt: skip
    limit = None if campaign.on_cpu else float(published_max)
    mark = mark_meanings(recorded_lines(campaign, published), launched=any(bar.mostly_launch for bar in bars))
    return Figure(lambda: _draw_baseline(bars, library, precision, limit, mark), join_sentences(caption), clock="event")


def _draw_baseline(
    bars: list[LibraryBars], library: str, precision: str, published_max: float | None, mark: str | None
) -> Canvas:
    if not bars:
        return figure_style.empty_canvas("nothing was measured in this campaign")
    drawing = figure_style.canvas(
        figure_style.COLUMN_WIDTH, figure_style.height(len(bars), extra_height=1.15, per_row=0.24)
    )
    axes = drawing.add_subplot()
    values = [1.0, published_max, *(v for bar in bars for v in (bar.tuned, bar.untuned, bar.papers))]
    intervals = [interval for bar in bars for interval in (bar.tuned_interval, bar.untuned_interval)]
    right = figure_style.right_end(values, intervals, 1.15)
    for row, bar in enumerate(bars):
        for value, interval, offset, colour in (
            (bar.tuned, bar.tuned_interval, -0.2, figure_style.PAPERS.colour),
            (bar.untuned, bar.untuned_interval, 0.2, figure_style.PAPERS.fill),
        ):
            if value is not None:
                axes.barh(row + offset, value, height=0.38, color=colour, linewidth=0)
                figure_style.draw_whisker(axes, interval, row + offset, right)
        if bar.papers is not None:
            axes.plot(
                bar.papers, row, "D", markersize=3.6, markerfacecolor="white", zorder=4,
                markeredgecolor=figure_style.LIBRARY.colour, markeredgewidth=1.0,
            )  # fmt: skip
    # numbers are printed in columns to the right, because beside a bar they would overlap the diamond
    tuned_texts = [None if bar.tuned is None else f"{bar.tuned:.2f}{'*' * bar.mostly_launch}" for bar in bars]
    figure_style.write_column(axes, tuned_texts, ("tuned", "black"))
    if any(bar.papers is not None for bar in bars):
        papers = [None if bar.papers is None else f"{bar.papers:.2f}" for bar in bars]
        figure_style.write_column(axes, papers, (figure_style.DIAMOND, figure_style.LIBRARY.colour), points=27)
    axes.set_xlim(0, right)
    axes.axvline(1, color=figure_style.GREY, linewidth=0.7)
    if published_max is not None:
        axes.axvline(published_max, **figure_style.PUBLISHED_LINE)
    axes.set_xlabel(f"speedup over {library}, {precision} precision")
    axes.grid(axis="x")
    figure_style.rows_axis(axes, [bar.label for bar in bars], reasons=[bar.missing for bar in bars])
    _draw_legend(drawing, published_max, papers=any(bar.papers is not None for bar in bars))
    figure_style.write_footnote(drawing, mark)
    return drawing


def _draw_legend(drawing: Canvas, published_max: float | None, *, papers: bool) -> None:
    handles: list[Patch | Line2D] = [
        plotting.Patch(color=figure_style.PAPERS.colour, label="papers’, layouts tuned too"),
        plotting.Patch(color=figure_style.PAPERS.fill, label="papers’, schedules alone"),
    ]
    if papers:
        handles.append(
            plotting.Line2D([], [], linestyle="", marker="D", markersize=3.6, markerfacecolor="white",
                            markeredgecolor=figure_style.LIBRARY.colour, label="over the papers’ routine")
        )  # fmt: skip
    if published_max is not None:
        handles.append(plotting.Line2D([], [], label=f"published max. {published_max}×", **figure_style.PUBLISHED_LINE))
    drawing.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.6, columnspacing=1.2)


def _register(number: int) -> None:
    precision = NUMBERS[number]

    @figure(
        STUDY_NAME,
        f"figure-{number}",
        title=f"Speedup over the library, {precision} precision",
        numbering=f"Figure {number} of {CITED}",
    )
    def make(campaign: Campaign, published: Published) -> Figure:
        return _baseline_figure(campaign, published, number)


for _number in NUMBERS:
    _register(_number)


MEAN = "geometric mean"
#: Legend text of the winner of each space of the papers' kernels.
PAPERS_WORDS = {PAPER: figure_style.PAPERS.label, PAPER_TUNED: f"{figure_style.PAPERS.label}, tuned further"}


@dataclass(frozen=True)
class SpeedupBars:
    """One row of a panel: its speedups, None for a missing one; and the reason if the whole row is empty."""

    label: str
    ours: float | None = None
    papers: float | None = None
    #: The speedup of a kernel that would run at the streaming floor.
    floor: float | None = None
    missing: str | None = None
    mostly_launch: bool = False
    ours_interval: Interval | None = None
    papers_interval: Interval | None = None
    #: Whether the row is a heading: the entry type of the problems below it.
    heading: bool = False


def speedup_bars(cases: Sequence[Times]) -> list[SpeedupBars]:
    """Return the rows of one precision; with several entry types, each has a heading; the last row is the mean."""
    by_entry = {entry: [*group] for entry, group in groupby(cases, key=lambda case: case.line.entry)}
    rows: list[SpeedupBars] = []
    for entry, group in by_entry.items():
        if len(by_entry) > 1:
            rows.append(SpeedupBars(f"{ENTRY_WORDS.get(entry, entry)} entries", heading=True))
        rows += [_bars_of_case(case) for case in group]
    if any(row.papers or row.ours for row in rows):
        means = [geometric_mean(values) for values in zip(*((r.ours, r.papers, r.floor) for r in rows), strict=True)]
        rows.append(SpeedupBars(MEAN, means[0], means[1], means[2]))
    return rows


def _bars_of_case(case: Times) -> SpeedupBars:
    own_ratio, papers, floor = (ratio_of(case[LIBRARY], kernel) for kernel in (case[OURS], case[PAPERS], case[FLOOR]))
    reason = None
    if own_ratio is None and papers is None:
        reason = brief_reason(case.case.why_not()) if case[PAPERS] is None else "no routine of the library was timed"
    ours_interval, papers_interval = (interval_of_ratio(case[LIBRARY], kernel) for kernel in (case[OURS], case[PAPERS]))
    return SpeedupBars(
        case.line.label,
        own_ratio,
        papers,
        floor,
        reason,
        case.is_mostly_launch,
        ours_interval=ours_interval,
        papers_interval=papers_interval,
    )


@figure(STUDY_NAME, "figure-speedup", title="Speedup over the fastest routine of the library", numbering="ours")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over the library: one panel for each precision, one row for each problem."""
    lines = recorded_lines(campaign, published)
    cases = all_times(campaign, published)
    panels = {
        precision: speedup_bars([case for case in cases if case.case.precision == precision])
        for precision in campaign.precisions
    }
    library = library_of(campaign)
    extended = any(case[OURS] for case in cases)
    summaries = []
    for precision, rows in panels.items():
        mean = next((row for row in rows if row.label == MEAN), None)
        best = (mean.ours or mean.papers) if mean else None
        if mean and best:
            speedups = [value for row in rows[:-1] if (value := row.ours or row.papers)]
            space_text = "ours" if extended else "the papers’"
            summaries.append(
                f"{precision}: {best:.2f}× ({space_text}; from {min(speedups):.2f} to {max(speedups):.2f}×)"
            )
    marked_count = sum(row.mostly_launch for rows in panels.values() for row in rows)
    caption = [
        f"Speedup over the fastest {library} routine of any representation:",
        "ours (dark, and in numbers) and the papers’ kernels (light), the winner of each." if extended
        else "the winner of the papers’ kernels (light, and in numbers); the space `extended` was not searched.",
        "The mark is what a kernel at the streaming floor would reach, which reads the bytes of CSR-AoS: one that",
        "needs fewer bytes, or finds them in the cache, can pass it.",
        WHISKERS if any(row.ours_interval or row.papers_interval for rows in panels.values() for row in rows) else "",
        f"Geometric means: {'; '.join(summaries)}." if summaries else "",
        unconfirmed_note((case.case, case[OURS], case[PAPERS]) for case in cases),
        "Nothing of this is published.",
        kernels_note(campaign),
        measurement_note(campaign, "graph"),
        f"In {marked_count} cases (marked *) a time is mostly launch." if marked_count else "",
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    papers, mark = PAPERS_WORDS[papers_space(campaign)], mark_meanings(lines, launched=marked_count > 0)
    return Figure(
        lambda: _draw_speedup(panels, library, papers, mark),
        join_sentences(caption),
        clock="graph",
    )


def _draw_speedup(panels: dict[str, list[SpeedupBars]], library: str, papers: str, mark: str | None) -> Canvas:
    row_count = max((len(rows) for rows in panels.values()), default=0)
    if not row_count:
        return figure_style.empty_canvas("nothing was measured in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(row_count, extra_height=0.95, per_row=0.22)
    )
    all_axes = drawing.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    panel_rows = [row for rows in panels.values() for row in rows]
    values = [1.0, *(value for row in panel_rows for value in (row.ours, row.papers, row.floor))]
    right = figure_style.right_end(
        values, [interval for row in panel_rows for interval in (row.ours_interval, row.papers_interval)], 1.05
    )
    for axes, (precision, rows) in zip(all_axes, panels.items(), strict=True):
        _speedup_panel(axes, rows, right)
        axes.set_title(f"{precision} precision")
        axes.set_xlabel(f"speedup over the fastest {library} routine")
    longest_panel = max(panels.values(), key=len)
    figure_style.rows_axis(all_axes[0], [row.label for row in longest_panel], reasons=[])
    for label, row in zip(all_axes[0].get_yticklabels(), longest_panel, strict=True):
        label.set_fontweight("bold" if row.heading else "normal")
    for axes, rows in zip(all_axes, panels.values(), strict=True):
        figure_style.write_missing_reasons(axes, [row.missing for row in rows])
    for axes in all_axes[1:]:
        axes.tick_params(axis="y", labelleft=False, length=0)
    handles: list[Patch | Line2D] = []
    if any(row.ours for row in panel_rows):
        handles.append(plotting.Patch(color=figure_style.OURS.fill, label=figure_style.OURS.label))
    handles.append(plotting.Patch(color=figure_style.PAPERS.fill, label=papers))
    handles.append(_floor_mark([], [], label="floor of CSR’s bytes (pairs need fewer)"))
    handles.append(plotting.Line2D([], [], label=f"as fast as {library}", **_UNITY))
    drawing.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.4, columnspacing=1.2)
    figure_style.write_footnote(drawing, mark)
    return drawing


_UNITY: dict[str, Any] = {"color": figure_style.GREY, "linewidth": 0.7}


def _floor_mark(x: list[float], y: list[float], label: str | None = None) -> Line2D:
    return plotting.Line2D(
        x, y, linestyle="", marker="|", markersize=7, markeredgewidth=1.3, color=figure_style.GREEN, label=label
    )


def _speedup_panel(axes: Axes, rows: list[SpeedupBars], right: float) -> None:
    for y, row in enumerate(rows):
        has_both = row.ours is not None and row.papers is not None
        if row.ours is not None:
            axes.barh(
                y - 0.19 * has_both,
                row.ours,
                height=0.4 if has_both else 0.6,
                color=figure_style.OURS.fill,
                linewidth=0,
            )
            figure_style.draw_whisker(axes, row.ours_interval, y - 0.19 * has_both, right)
        if row.papers is not None:
            axes.barh(
                y + 0.21 * has_both,
                row.papers,
                height=0.36 if has_both else 0.6,
                color=figure_style.PAPERS.fill,
                linewidth=0,
            )
            figure_style.draw_whisker(axes, row.papers_interval, y + 0.21 * has_both, right)
        if row.floor is not None:
            axes.add_line(_floor_mark([row.floor], [y]))
    searched = any(row.ours is not None for row in rows)
    numbers = [row.ours if searched else row.papers for row in rows]
    texts = [
        None if number is None else f"{number:.2f}{'*' * row.mostly_launch}"
        for number, row in zip(numbers, rows, strict=True)
    ]
    bold = [y for y, row in enumerate(rows) if row.label == MEAN]
    figure_style.write_column(axes, texts, (figure_style.OURS.label if searched else "papers’", "black"), bold=bold)
    for y, row in enumerate(rows):
        if row.heading and y > 0:
            axes.axhline(y - 0.5, color=figure_style.GREY, linewidth=0.4)
    if rows and rows[-1].label == MEAN:
        axes.axhline(len(rows) - 1.5, color="black", linewidth=0.6)
    axes.set_xlim(0, right)
    axes.xaxis.set_major_locator(plotting.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.axvline(1, **_UNITY)
    axes.grid(axis="x")
