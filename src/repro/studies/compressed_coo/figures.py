"""Figures of the study of compressed COO: GFLOPS, memory over CSR, and speedup of BiCGSTAB, for each matrix.

Each problem is a row; rows are grouped by whether the matrix has few distinct values, which compress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repro.bench.rows import TIMED
from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, brief_reason
from repro.results.problem_lines import (
    join_sentences,
    mark_meanings,
    measurement_note,
    remarks,
    unavailable_note,
    unconfirmed_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, interval_of_ratio, median_of, ratio_of
from repro.results.tables import Figure, digits
from repro.sparse.tuning_features import library_of
from repro.studies.compressed_coo import CITED, GPUS, STUDY_NAME, results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


Number = Callable[[results.Times], float | None]
MEDIAN, LARGE_MEDIAN = "median", "median of the large"
HEADS = {results.REPEAT: "values repeat", results.DISTINCT: "values distinct", None: "not measured"}
#: Word for the paper's format in legends of figures without times.
PAPERS_COO = "papers’ compressed COO"
WIDE_BAR, NARROW_BAR = 0.6, 0.38


#: Height in inches of the bars of a row, and of each lane of marks below them.
BARS_HEIGHT, LANE_HEIGHT = 0.19, 0.055
#: Number of letters of a legend's columns that fit side by side.
LEGEND_LETTERS = 115
#: Maximum number of lanes of marks in a row.
MAX_LANES = 2


@dataclass(frozen=True)
class Bar:
    """A series drawn as bars with intervals; the first visible series also has its numbers printed."""

    label: str
    colour: str
    number: Number
    interval: Callable[[results.Times], Interval | None] = lambda case: None


@dataclass(frozen=True)
class MarkerSeries:
    """A series drawn as marks: in a lane below the bars, or on the bar of the series with the index `bar`."""

    label: str
    marker: str
    colour: str
    number: Number
    bar: int | None = None

    def line(self, x: Sequence[float], y: Sequence[float], label: str | None = None) -> Line2D:
        """Return the legend's and the panel's marks at the given places."""
        return plotting.Line2D(
            x, y, linestyle="", marker=self.marker, markersize=4.2 if self.marker == "|" else 3.0, zorder=4,
            markeredgewidth=1.3 if self.marker == "|" else 0.8, markeredgecolor=self.colour, markerfacecolor="white",
            label=label,
        )  # fmt: skip


@dataclass(frozen=True)
class BarRow:
    """One row: the head of a group (without values), or the numbers of bars and marks, with the bars' intervals."""

    label: str
    bars: tuple[float | None, ...] = ()
    marks: tuple[float | None, ...] = ()
    missing: str | None = None
    mostly_launch: bool = False
    intervals: tuple[Interval | None, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Content of one figure.

    Attributes
    ----------
    bars, marks
        Series; the legend leaves out a series without numbers.
    title, unit
        Text above the panel, and text below the panel's axis.
    printed
        Function that formats the number beside a row.
    unity
        None, or the legend entry of a line at 1; if the text is empty, the line has no legend entry.
    reference, referred
        Published numbers by GPU, drawn as dashed lines with the GPUs' names, and their legend entry.
    absent
        Function that gives the reason why a problem with a winner has no number.
    stars
        Whether to mark rows by a star if the time of the product is mostly launch overhead.
    """

    bars: tuple[Bar, ...]
    marks: tuple[MarkerSeries, ...]
    title: str
    unit: str
    printed: Callable[[float], str] = "{:.2f}".format
    unity: str | None = None
    reference: Mapping[str, float] = field(default_factory=dict)
    referred: str = "published most"
    absent: Callable[[results.Times], str] = lambda case: "not recorded"
    stars: bool = False

    @property
    def lanes(self) -> int:
        """Number of lanes of marks below the bars of a row."""
        return min(len(self.lane_marks), MAX_LANES)

    @property
    def lane_marks(self) -> list[MarkerSeries]:
        """The series of marks below the bars."""
        return [series for series in self.marks if series.bar is None]

    @property
    def row_height(self) -> float:
        """Height in inches of a row."""
        return BARS_HEIGHT + LANE_HEIGHT * self.lanes

    def below_centre(self, inches: float) -> float:
        """Return how far below a row's centre a place is that is `inches` below its top, in rows."""
        return inches / self.row_height - 0.5


def bar_rows(panel: Panel, cases: Sequence[results.Times], median_cases: Sequence[results.Times]) -> list[BarRow]:
    """Return the rows of a figure by group; a group of several problems ends with a row of medians.

    Parameters
    ----------
    median_cases
        The problems over which medians are taken.
    """
    rows: list[BarRow] = []
    for values, heading in HEADS.items():
        group = [case for case in cases if case.values == values]
        if not group:
            continue
        rows += [BarRow(heading), *(_row(panel, case) for case in group)]
        group_cases = [case for case in group if case in median_cases]
        if values and len(group_cases) > 1:
            rows.append(_median(panel, group_cases, MEDIAN if len(group_cases) == len(group) else LARGE_MEDIAN))
    return rows


def _row(panel: Panel, case: results.Times) -> BarRow:
    bars, marks = (tuple(kind.number(case) for kind in series) for series in (panel.bars, panel.marks))
    reason_text = None
    if not any(value is not None for value in (*bars, *marks)):
        reason = case.case.why_not() if case[results.COMPRESSED_COO] is None else panel.absent(case)
        reason_text = brief_reason(reason)
    launch = panel.stars and case.case.is_mostly_launch("graph", case[results.OURS] or case[results.COMPRESSED_COO])
    return BarRow(case.line.label, bars, marks, reason_text, launch, tuple(bar.interval(case) for bar in panel.bars))


def _median(panel: Panel, cases: Sequence[results.Times], label: str) -> BarRow:
    bars, marks = (
        tuple(median_of(kind.number(case) for case in cases) for kind in series) for series in (panel.bars, panel.marks)
    )
    return BarRow(label, bars, marks)


def draw(panel: Panel, rows: Sequence[BarRow], mark: str | None) -> Canvas:
    """Draw one panel.

    Parameters
    ----------
    mark
        Meaning of the marks at names; None if no name is marked.
    """
    if not any(value is not None for row in rows for value in (*row.bars, *row.marks)):
        return figure_style.empty_canvas("nothing was measured in this campaign")
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, figure_style.height(len(rows), 1.05, panel.row_height))
    axes = drawing.add_subplot()
    bar_indices = [index for index in range(len(panel.bars)) if any(row.bars and row.bars[index] for row in rows)]
    values = [value for row in rows for value in (*row.bars, *row.marks)]
    values += [*panel.reference.values(), *([1.0] if panel.unity is not None else [])]
    right = figure_style.right_end(values, [interval for row in rows for interval in row.intervals], 1.05)
    for y, row in enumerate(rows):
        _draw_row(axes, panel, y, row, bar_indices, right)
    if bar_indices:
        first = [row.bars[bar_indices[0]] if row.bars else None for row in rows]
        texts = [
            None if number is None else panel.printed(number) + "*" * row.mostly_launch
            for number, row in zip(first, rows, strict=True)
        ]
        bold = [y for y, row in enumerate(rows) if row.label in (MEDIAN, LARGE_MEDIAN)]
        figure_style.write_column(
            axes, texts, (panel.bars[bar_indices[0]].label.replace(" ", "\n"), "black"), bold=bold
        )
    axes.set_xlim(0, right)
    axes.grid(axis="x")
    axes.set_title(panel.title)
    axes.set_xlabel(panel.unit)
    figure_style.rows_axis(axes, [row.label for row in rows], reasons=[row.missing for row in rows])
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if row.label in (MEDIAN, LARGE_MEDIAN) or not row.bars else "normal")
        text.set_color(figure_style.GREY if not row.bars else "black")
    handles: list[Patch | Line2D] = [
        plotting.Patch(color=panel.bars[i].colour, label=panel.bars[i].label) for i in bar_indices
    ]
    for index, series in enumerate(panel.marks):
        if any(row.marks and row.marks[index] is not None for row in rows):
            handles.append(series.line([], [], label=series.label))
    if panel.unity is not None:
        axes.axvline(1, color=figure_style.GREY, linewidth=0.7, zorder=3)
        if panel.unity:
            handles.append(plotting.Line2D([], [], color=figure_style.GREY, linewidth=0.7, label=panel.unity))
    if panel.reference:
        label = f"{panel.referred}: " + ", ".join(f"{value:g} ({gpu})" for gpu, value in panel.reference.items())
        handles.append(plotting.Line2D([], [], label=label, **figure_style.PUBLISHED_LINE))
        _draw_reference(axes, panel)
    columns = figure_style.legend_columns([str(handle.get_label()) for handle in handles], 3, LEGEND_LETTERS)
    drawing.legend(handles=handles, loc="outside upper left", ncols=columns, handlelength=1.4, columnspacing=1.4)
    figure_style.write_footnote(drawing, mark)
    return drawing


def _draw_reference(axes: Axes, panel: Panel) -> None:
    """Draw the published numbers as lines behind the bars, with the names of their GPUs in the first row, a heading."""
    by_value: dict[float, list[str]] = {}
    for gpu, value in panel.reference.items():
        by_value.setdefault(value, []).append(gpu)
    for value, gpus in by_value.items():
        axes.axvline(value, zorder=0.8, **figure_style.PUBLISHED_LINE)
        last = value == max(by_value)  # names of two lines stand on their outer sides
        axes.annotate(
            ", ".join(gpus), (value, 0), xytext=(2.5 if last else -2.5, 0), textcoords="offset points",
            ha="left" if last else "right", va="center", fontsize=6,
        )  # fmt: skip


def _draw_row(axes: Axes, panel: Panel, y: int, row: BarRow, bar_indices: Sequence[int], right: float) -> None:
    if not row.bars:
        if y:
            axes.axhline(y - 0.5, color=figure_style.GREY, linewidth=0.4)
        return
    row_indices = [index for index in bar_indices if row.bars[index] is not None]
    bars, scale = y + panel.below_centre(BARS_HEIGHT / 2), BARS_HEIGHT / panel.row_height
    centres: dict[int | None, float] = {}
    for bar_index, index in enumerate(row_indices):
        has_several_bars = len(row_indices) > 1
        centre = centres[index] = bars + scale * (0.4 * bar_index - 0.2) * has_several_bars
        series, value = panel.bars[index], row.bars[index] or 0.0
        height = scale * (NARROW_BAR if has_several_bars else WIDE_BAR)
        axes.barh(centre, value, height=height, color=series.colour, linewidth=0)
        figure_style.draw_whisker(axes, row.intervals[index] if row.intervals else None, centre, right)
    for mark, number in zip(panel.marks, row.marks, strict=True):
        if number is None:
            continue
        if mark.bar is None:  # lanes below the bars, so that marks cover neither bars nor each other
            lane = panel.lane_marks.index(mark) * panel.lanes // len(panel.lane_marks)
            height = y + panel.below_centre(BARS_HEIGHT + LANE_HEIGHT * (lane + 0.1))
        else:
            height = centres.get(mark.bar, bars)
        axes.add_line(mark.line([number], [height]))


def papers_coo(campaign: Campaign) -> str:
    """Return the word in legends for times of the paper's kernels, which says whether they are tuned further."""
    return PAPERS_COO + ", tuned further" * (not results.is_as_published(campaign))


@figure(STUDY_NAME, "figure-4", title="GFLOPS of the library and of compressed COO", numbering=f"Figure 4 of {CITED}")
def gflops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS of products: one row for each problem; below each group of problems, its median."""
    precision = results.precision_of(campaign)
    cases = results.all_times(campaign, published, precision)
    median_cases, median_note = results.median_cases_and_note(cases)
    is_gpu = not campaign.on_cpu
    best = {gpu: published.quantity("largest GFLOPS of SpMV", "double", gpu) for gpu in GPUS}
    library = library_of(campaign)
    default = MarkerSeries(
        f"{library} CSR, default", "o", figure_style.LIBRARY.colour, lambda s: s.gflops(s.csr_default)
    )
    fastest = MarkerSeries(
        f"{library} CSR{', fastest' * is_gpu}", "|", figure_style.LIBRARY.colour, lambda s: s.gflops(s[results.CSR])
    )
    coo = MarkerSeries(f"{library} COO, fastest", "s", figure_style.LIBRARY.colour, lambda s: s.gflops(s[results.COO]))
    formats = dict.fromkeys(results.format_of(case) for case in median_cases if case[results.LIBRARY])
    library_marks = MarkerSeries(
        f"{library}, fastest of all: {' or '.join(formats)}",
        "^",
        figure_style.LIBRARY.colour,
        lambda s: s.gflops(s[results.LIBRARY]),
    )
    panel = Panel(
        bars=(
            Bar(figure_style.OURS.label, figure_style.OURS.fill, lambda s: s.gflops(s[results.OURS])),
            Bar(papers_coo(campaign), figure_style.PAPERS.fill, lambda s: s.gflops(s[results.COMPRESSED_COO])),
        ),
        marks=(default, fastest, coo, library_marks) if is_gpu else (fastest,),
        title=f"{precision} precision",
        unit="GFLOPS: 2 × non-zeros / time",
        printed=digits,
        stars=True,
        reference={gpu: float(value) for gpu, value in best.items()} if is_gpu else {},
    )
    marks = (
        f"Marks: {library}’s product of CSR, by default as in the paper and by its fastest algorithm, its fastest of "
        f"COO, and its fastest of all, which the paper does not compare with. {results.fastest_formats(median_cases)}"
        if is_gpu
        else "Mark: SciPy’s product of CSR, in place of cuSPARSE’s."
    )
    lines = [case.line for case in cases]
    caption = [
        "GFLOPS of y = A x: two operations for each of the matrix’s own non-zeros, none for padding.",
        "Ours (dark, and in numbers): the fastest of all our variants; compressed COO (light): the fastest of the",
        "paper’s kernels.",
        marks,
        f"Dashed: the most that {CITED} states, {best['V100']} on a V100, {best['A100']} on an A100." if is_gpu else "",
        median_note,
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        results.launch_sentence(cases),
        results.unsearched_note(cases),
        unconfirmed_note((case.case, case[results.OURS], case[results.COMPRESSED_COO]) for case in cases),
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    rows = bar_rows(panel, cases, median_cases)
    mark = mark_meanings(lines, launched=any(row.mostly_launch for row in rows))
    return Figure(lambda: draw(panel, rows, mark), join_sentences(caption), clock="graph")


@figure(STUDY_NAME, "figure-3", title="Memory of COO and compressed COO over CSR", numbering=f"Figure 3 of {CITED}")
def memory(campaign: Campaign, published: Published) -> Figure:
    """Bytes of the matrix over CSR: one row for each problem; below each group of problems, its median."""
    precision = results.precision_of(campaign)
    cases = results.all_times(campaign, published, precision)
    median_cases, median_note = results.median_cases_and_note(cases)
    panel = Panel(
        bars=(
            Bar(PAPERS_COO, figure_style.PAPERS.fill, lambda s: s.memory(s[results.COMPRESSED_COO])),
            Bar("balanced COO", figure_style.PALE, lambda s: s.memory(s[results.PLAIN_COO])),
        ),
        marks=(
            MarkerSeries(figure_style.OURS.label, "o", figure_style.OURS.colour, lambda s: s.memory(s[results.OURS])),
        ),
        title=f"{precision} precision, K as tuned",
        unit="memory over that of CSR",
        unity="CSR",
    )
    lines = [case.line for case in cases]
    medians = [
        f"{value:.2f} where values {'repeat' if kind == results.REPEAT else 'are distinct'}"
        for kind in (results.REPEAT, results.DISTINCT)
        if (
            value := median_of(
                case.memory(case[results.COMPRESSED_COO]) for case in median_cases if case.values == kind
            )
        )
        is not None
    ]
    caption = [
        "Memory of the matrix, padding, chunks’ starts and table of values included, over that of CSR with 4-byte",
        "indices: compressed COO (blue, and in numbers) and plain balanced COO (grey), each with the K that was",
        "fastest, and the format of our fastest variant. Values repeat: most chunks look them up in the table.",
        f"Medians of compressed COO: {'; '.join(medians)}." if medians else "",
        median_note,
        results.unsearched_note(cases),
        remarks(lines),
        unavailable_note(campaign),
    ]
    rows = bar_rows(panel, cases, median_cases)
    return Figure(lambda: draw(panel, rows, mark_meanings(lines)), join_sentences(caption))


@figure(STUDY_NAME, "figure-5", title="Speedup of BiCGSTAB", numbering=f"Figure 5 of {CITED}")
def bicgstab(campaign: Campaign, published: Published) -> Figure:
    """Speedup of BiCGSTAB over the library's: one row for each problem; below each group, its median."""
    precision = results.precision_of(campaign)
    cases = results.all_times(campaign, published, precision)
    median_cases, median_note = results.median_cases_and_note(cases)
    library = library_of(campaign)
    judging = campaign.as_published or campaign
    judged_cases = {case.line.problem: case for case in results.all_times(judging, published, precision)}
    defaults = MarkerSeries(
        "ours, over the default",
        "D",
        figure_style.OURS.colour,
        lambda s: ratio_of(s.default_solver, s.ours_solver),
        bar=0,
    )
    judged = MarkerSeries(
        f"papers’{', as published' * results.is_as_published(judging)}, over the default",
        "D",
        figure_style.PAPERS.colour,
        lambda s: _over_default(judged_cases.get(s.line.problem)),
        bar=1,
    )
    published_medians = {
        gpu: float(published.quantity("median speedup of BiCGSTAB over cuSPARSE", "double", gpu))
        for gpu in GPUS
        if not campaign.on_cpu
    }
    chip = MarkerSeries(
        "ours, on the chip",
        "o",
        figure_style.OURS.colour,
        lambda s: ratio_of(s[results.LIBRARY_SOLVER], s[results.ON_CHIP_SOLVER]),
    )
    chips = (chip,) if results.has_solver_on_chip(cases) else ()
    marks = (*(() if campaign.on_cpu else (defaults, judged)), *chips)
    panel = Panel(
        bars=(
            _bar(figure_style.OURS.label, figure_style.OURS.fill, lambda s: s.ours_solver),
            _bar(papers_coo(campaign), figure_style.PAPERS.fill, lambda s: s[results.COMPRESSED_SOLVER]),
        ),
        marks=marks,
        title=f"{precision} precision",
        unit=f"speedup of BiCGSTAB over the fastest with a routine of {library}"
        + "; diamonds: over its default for CSR" * (not campaign.on_cpu),
        unity="",
        reference=published_medians,
        referred="published median over the default",
        absent=_missing_reason,
    )
    medians_text = " and ".join(
        f"{value:g}× on {'an' if gpu[0] == 'A' else 'a'} {gpu}" for gpu, value in published_medians.items()
    )
    lines = [case.line for case in cases]
    series = (*panel.bars, *chips)
    pairs = [(one_series.label, median_of(one_series.number(case) for case in median_cases)) for one_series in series]
    medians = [f"{label} {value:.2f}×" for label, value in pairs if value is not None]
    judged_median = None if campaign.on_cpu else median_of(judged.number(case) for case in median_cases)
    tuned_median = median_of(_over_default(case) for case in median_cases)
    rows = bar_rows(panel, cases, median_cases)
    caption = [
        f"Speedup of ten iterations of BiCGSTAB over those with the product of {library} that makes them fastest: with",
        "the product of ours that does (dark, and in numbers), and with compressed COO (light).",
        results.solver_note(cases),
        _diamonds_note(campaign, judging, library) if judged_median else "",
        "Circles: all iterations in one launch, on the chip, over the library’s fastest." if chips else "",
        WHISKERS if any(interval for row in rows for interval in row.intervals) else "",
        f"Medians: {'; '.join(medians)}." if medians else "",
        median_note,
        f"Dashed: what {CITED} states, a median over the default of about {medians_text}." if published_medians else "",
        f"The light diamonds alone are its counterpart: {judged_median:.2f}× in the median"
        f"{f', and {tuned_median:.2f}× tuned further' if judging is not campaign and tuned_median else ''}."
        if published_medians and judged_median else "",
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        results.unsearched_note(cases),
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    mark = mark_meanings(lines, launched=any(row.mostly_launch for row in rows))
    return Figure(
        lambda: draw(panel, rows, mark),
        join_sentences(caption),
        clock="graph",
        campaigns=(campaign.name, judging.name) if judging is not campaign and judged_median else (),
    )


def _over_default(case: results.Times | None) -> float | None:
    """Return the speedup of the paper's kernels over the library's default for CSR, which the paper compares with."""
    return ratio_of(case.default_solver, case[results.COMPRESSED_SOLVER]) if case else None


def _diamonds_note(campaign: Campaign, judging: Campaign, library: str) -> str:
    """Return the sentence on the diamonds; those of the paper's kernels are of the campaign that judges its claims."""
    source = "" if judging is campaign else f" as published, of campaign {judging.name} on the same model of GPU"
    return (
        f"Diamonds on a bar: over the one with {library}’s default for CSR, as in the paper, ours (dark) and the "
        f"paper’s kernels{source} (light)."
    )


def _bar(label: str, colour: str, pick: Callable[[results.Times], results.Time | None]) -> Bar:
    """Return the bars for the time of the library's fastest solver over the time of one of our solvers."""
    return Bar(
        label,
        colour,
        lambda case: ratio_of(case[results.LIBRARY_SOLVER], pick(case)),
        lambda case: interval_of_ratio(case[results.LIBRARY_SOLVER], pick(case)),
    )


def _missing_reason(case: results.Times) -> str:
    """Return the reason why a problem with timed products has no speedup."""
    statuses = {row.status for row in case.case.select(kind="solver")}
    failures = ", ".join(sorted(statuses - set(TIMED)))
    return f"BiCGSTAB failed: {failures}" if failures else "BiCGSTAB was not timed with both"
