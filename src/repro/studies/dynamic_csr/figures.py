"""The paper's figures (5.3 to 5.5): updates, GFLOPS of the products, speedup over several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, brief_reason
from repro.results.problem_lines import (
    ProblemLine,
    cpu_note,
    join_sentences,
    launch_note,
    mark_meanings,
    measurement_note,
    problem_lines,
    remarks,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, interval_of_ratio, ratio_of
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.dynamic_csr import (
    CITED,
    PRODUCTS_PER_BATCH,
    STUDY_NAME,
    number_of,
    results,
    stated_device_means,
    stated_graph_speedups,
    stated_product_means,
)
from repro.studies.dynamic_csr.figures_products import (
    draw_flops,
    draw_scaling,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


#: Height of one row of the figure in inches, and the share of it that bars fill.
UPDATES_ROW, UPDATES_FILLED = 0.3, 0.8
PUBLISHED_GPU = "K20c"


@dataclass(frozen=True)
class UpdateSeries:
    """A series with one bar in each row: the ratio of two times, the first over the second."""

    label: str
    colour: str
    times: Callable[[results.DynamicCase], results.TimePair]
    #: Pattern of the bars, for a second series of the same role.
    hatch: str = ""
    #: Whether the times are those of `Campaign.as_published`, where there is one: the paper's updates as published.
    as_published: bool = False

    @property
    def fill(self) -> dict[str, Any]:
        """Style of the bars."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": "white", "linewidth": 0}

    def number(self, case: results.DynamicCase) -> float | None:
        """Return the ratio; None if either time is missing."""
        return ratio_of(*self.pair(case))

    def pair(self, case: results.DynamicCase) -> results.TimePair:
        """Return the two times of a case, in the campaign that has the series."""
        judging = case.campaign.as_published if self.as_published else None
        return self.times(results.DynamicCase(judging, case.problem, case.precision) if judging else case)


@dataclass(frozen=True)
class UpdatePanel:
    """One panel (half) of the figure.

    Attributes
    ----------
    title
        Title above the panel.
    series
        Series of bars.
    marks
        Published number for each of the paper's problems.
    lines
        Numbers stated in the paper's text, by legend entry.
    operations
        Names of the operations (`what` of a row) that the panel shows.
    missing
        Text for a measured problem that has no bar although nothing failed.
    """

    title: str
    series: tuple[UpdateSeries, ...]
    operations: tuple[str, ...]
    missing: str
    marks: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, float] = field(default_factory=dict)


PAPERS_FILL = figure_style.PAPERS.fill
ITERATIVE_SERIES = (
    UpdateSeries("ours", figure_style.OURS.fill, results.iterative_pair(results.DCSR)),
    UpdateSeries(
        figure_style.PAPERS.label, PAPERS_FILL, results.iterative_pair(results.DCSR_PUBLISHED), as_published=True
    ),
    UpdateSeries("CSR rebuilt", figure_style.GREY, results.iterative_pair(results.REBUILD)),
    UpdateSeries("cuSPARSE csrgeam2", figure_style.LIBRARY.fill, results.iterative_pair(results.GEAM)),
)
STREAMING_SERIES = (
    UpdateSeries("ours, by row", figure_style.OURS.fill, results.streaming_pair(results.SORTED)),
    UpdateSeries("ours, any order", figure_style.OURS.fill, results.streaming_pair(results.ANY), hatch="////"),
    UpdateSeries(
        "papers’, by row",
        PAPERS_FILL,
        results.streaming_pair(results.SORTED, results.DCSR_PUBLISHED),
        as_published=True,
    ),
    UpdateSeries(
        "papers’, any order",
        PAPERS_FILL,
        results.streaming_pair(results.ANY, results.DCSR_PUBLISHED),
        "////",
        as_published=True,
    ),
)
PAPERS_SERIES = [series for series in (*ITERATIVE_SERIES, *STREAMING_SERIES) if series.as_published]


@figure(STUDY_NAME, "figure-5-3", title="Streaming and iterative updates over HYB", numbering=f"Figure 5.3 of {CITED}")
def updates(campaign: Campaign, published: Published) -> Figure:
    """Speedups of updates, one row for each problem: iterative updates on the left, streaming updates on the right."""
    sweeps = {sweep.line.problem for sweep in results.batch_sweeps(campaign, published)}
    recorded_problems = [line for line in problem_lines(campaign, published) if line.record is not None]
    lines = [line for line in recorded_problems if line.problem not in sweeps]
    cases = [results.DynamicCase(campaign, line.problem, results.operation_precision(campaign)) for line in lines]
    mean, best, max_rate = (
        published.quantity(f"speedup of {updates} updates over HYB, {rank}", gpu=PUBLISHED_GPU)
        for updates, rank in (("streaming", "mean"), ("streaming", "largest"), ("iterative", "largest"))
    )
    has_whiskers = any(
        interval_of_ratio(*series.pair(case))
        for series in (*ITERATIVE_SERIES, *STREAMING_SERIES)
        for case in cases
        if not (series.as_published and campaign.as_published)
    )
    has_papers = any(series.number(case) for series in PAPERS_SERIES for case in cases)
    is_gpu = not campaign.on_cpu
    marks_text = "diamonds" if is_gpu else "they are not drawn beside a CPU’s"
    panels = (
        UpdatePanel(
            f"iterative: a batch and {PRODUCTS_PER_BATCH} products",
            ITERATIVE_SERIES,
            ("iterate",),
            "was not iterated with HYB",
            lines={f"published largest, {max_rate}": float(max_rate)} if is_gpu else {},
        ),
        UpdatePanel(
            "streaming: the whole matrix",
            STREAMING_SERIES,
            ("stream",),
            "was not streamed into both",
            marks=published_bars(published) if is_gpu else {},
            lines={f"published: mean {mean}, largest {best}": float(mean), "": float(best)} if is_gpu else {},
        ),
    )
    caption = [
        "How many times faster than HYB. Left (the paper’s upper half): batch after batch is inserted, each followed",
        f"by {PRODUCTS_PER_BATCH} products; the time of all of it, HYB’s over that of each format. Batches come by",
        "row. A product needs nothing that a batch would change: dynamic CSR has its rows in bins by their sizes",
        "before the first batch (the paper’s adaptive product), CSR has as many threads a row as suit its mean size,",
        "more for longer rows.",
        "HYB sorts its coordinates with every batch. CSR is made again with every batch: rows are counted, sizes added",
        "up and rows copied, or cuSPARSE’s csrgeam2 adds the batch.",
        results.geam_sentence(campaign),
        _papers_note(campaign) if has_papers else "",
        "The paper’s graphs, and those in their place, have 50 batches of random entries, each 0.2 % of the matrix.",
        "Sweeps, whose batches are of growing sizes, are not drawn." if sweeps else "",
        "Right (its lower half): the grown matrix as one batch into an empty one, whose rows have a segment of mean",
        "size; HYB’s time, its sort included, over dynamic CSR’s, the entries in the order of their rows or in any.",
        WHISKERS if has_whiskers else "",
        _means_sentence(cases),
        f"{CITED} states, for a {PUBLISHED_GPU}, {mean}× in the mean and as much as {best}× for streaming, and as much",
        f"as {max_rate}× for iterative updates. Its bars for streaming are recovered from Table 5.4, HYB’s update over",
        f"DCSR’s, where an update is “1000 updates”, which it does not define: {marks_text}.",
        f"{results.operation_precision(campaign).capitalize()} precision; the paper does not say in which its updates",
        "are.",
        measurement_note(campaign, results.OPERATION_CLOCK),
        cpu_note(campaign),
        remarks(lines),
        unavailable_note(campaign),
    ]
    judging = campaign.as_published if has_papers else None
    return Figure(
        lambda: draw_updates(panels, lines, cases, mark_meanings(lines)),
        join_sentences(caption),
        clock=results.OPERATION_CLOCK,
        campaigns=(campaign.name, judging.name) if judging else (),
    )


def _papers_note(campaign: Campaign) -> str:
    """Return the sentence on the bars of the paper's updates."""
    judging = campaign.as_published
    source = f", of campaign {judging.name} on the same model of GPU, over HYB there" if judging else ""
    intervals = " Whiskers on them: 95 % intervals over the rounds of that campaign." if judging else ""
    return (
        f"Light: the paper’s updates as we wrote them by its algorithms 4, 5 and 7{source}; they judge its claims, and "
        f"have no bar where they were not timed.{intervals}"
    )


def published_bars(published: Published) -> dict[str, float]:
    """Return the published bars of streaming updates for each problem, computed from Table 5.4."""
    pairs = {
        item["problem"]: (number_of(item["HYB_update"]), number_of(item["DCSR_update"]))
        for item in published["operations"]
    }
    return {problem: hybrid / dynamic for problem, (hybrid, dynamic) in pairs.items() if hybrid and dynamic}


def _means_sentence(cases: Sequence[results.DynamicCase]) -> str:
    """Return the sentence with the means and the largest ratios of ours and the paper's; empty if there are none."""
    texts = []
    kinds = {"iterative": ITERATIVE_SERIES[:2], "streaming": STREAMING_SERIES}
    for updates, series in ((updates, series) for updates, all_series in kinds.items() for series in all_series):
        numbers = [number for case in cases if (number := series.number(case)) is not None]
        if numbers:
            mean = f"{fmean(numbers):.2f}× in the mean of {len(numbers)}"
            texts.append(f"{updates}, {series.label}: {mean}, as much as {max(numbers):.2f}×")
    return f"Measured: {'; '.join(texts)}." if texts else ""


def draw_updates(
    panels: Sequence[UpdatePanel], lines: Sequence[ProblemLine], cases: Sequence[results.DynamicCase], mark: str | None
) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    mark
        Meaning of the marks at names; None if no name is marked.
    """
    if not any(series.number(case) is not None for panel in panels for series in panel.series for case in cases):
        return figure_style.empty_canvas("no updates were measured in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(len(lines), extra_height=1.45, per_row=UPDATES_ROW)
    )
    for number, (panel, axes) in enumerate(zip(panels, drawing.subplots(1, len(panels)), strict=True)):
        missing_reasons = [
            _draw_bars(axes, panel, y, line, case) for y, (line, case) in enumerate(zip(lines, cases, strict=True))
        ]
        for value in panel.lines.values():
            axes.axvline(value, zorder=1, **figure_style.PUBLISHED_LINE)
        axes.axvline(1, color="black", linewidth=0.7, zorder=4)
        axes.set_xlim(left=0)
        axes.grid(axis="x")
        axes.set_xlabel("speedup over HYB")
        names = [line.label for line in lines]
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), reasons=missing_reasons)
        _update_legend(axes, panel, cases)
    figure_style.write_footnote(drawing, mark)
    return drawing


def _draw_bars(axes: Axes, panel: UpdatePanel, y: int, line: ProblemLine, case: results.DynamicCase) -> str | None:
    """Draw the bars of one problem; if there are none, return the reason."""
    numbers = [series.number(case) for series in panel.series]
    shown_bars = [(series, number) for series, number in zip(panel.series, numbers, strict=True) if number is not None]
    thickness = UPDATES_FILLED / max(len(shown_bars), 1)
    for index, (series, number) in enumerate(shown_bars):
        offset = (index - (len(shown_bars) - 1) / 2) * thickness
        axes.barh(y + offset, number, height=thickness, zorder=2, **series.fill)
        figure_style.draw_whisker(axes, interval_of_ratio(*series.pair(case)), y + offset)
    published_mark = panel.marks.get(line.published or "")
    if published_mark is not None:
        axes.plot([published_mark], [y], **figure_style.PUBLISHED_MARK)
    if shown_bars:
        return None
    if case.is_measured:
        return results.update_failure(case, (results.DCSR, results.HYB), *panel.operations) or panel.missing
    return brief_reason(case.why_not())


def _update_legend(axes: Axes, panel: UpdatePanel, cases: Sequence[results.DynamicCase]) -> None:
    handles: list[Patch | Line2D] = [
        plotting.Patch(label=series.label, **series.fill)
        for series in panel.series
        if any(series.number(case) is not None for case in cases)
    ]
    if panel.marks:
        handles.append(plotting.Line2D([], [], label=f"published, {PUBLISHED_GPU}", **figure_style.PUBLISHED_MARK))
    handles += [plotting.Line2D([], [], label=label, **figure_style.PUBLISHED_LINE) for label in panel.lines if label]
    columns = figure_style.legend_columns([str(handle.get_label()) for handle in handles])
    axes.set_title(panel.title, pad=12 * -(-len(handles) // columns))
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, handlelength=1.4, columnspacing=1.2,
        borderaxespad=0.2,
    )  # fmt: skip


@figure(STUDY_NAME, "figure-5-4", title="GFLOPS of the products", numbering=f"Figure 5.4 of {CITED}")
def flops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS of products: one panel for each precision, one row for each problem, one bar for each format."""
    panels = {precision: results.product_times(campaign, published, precision) for precision in campaign.precisions}
    cases = [case for panel in panels.values() for case in panel]
    lines = [case.line for case in next(iter(panels.values()))]
    timed_cases = [case for case in cases if case[results.CSR] or case[results.DEFRAGMENTED]]
    near_count = sum(
        case.case.is_mostly_launch(results.PRODUCT_CLOCK, case[results.CSR], case[results.DEFRAGMENTED])
        for case in timed_cases
    )
    caption = [
        "GFLOPS of y = A x with the grown matrix: two operations for each of its entries, none for padding.",
        "CSR, DCSR: so many threads a row, the best number of them; DCSR as the batches left it, and with one segment",
        "a row. ADCSR: rows in bins by their sizes, a kernel a bin on a stream of its own, in the best state of the",
        f"matrix. Lines: the fastest routine of {library_of(campaign)} for CSR. Circles: the fastest of all in one",
        "launch, with one segment a row.",
        stated_product_means(published),
        measurement_note(campaign, results.PRODUCT_CLOCK),
        launch_note(near_count, len(timed_cases)),
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_flops(panels, library_of(campaign), mark_meanings(lines)),
        join_sentences(caption),
        clock=results.PRODUCT_CLOCK,
    )


@figure(
    STUDY_NAME,
    "figure-5-5",
    title="Speed-up over several devices",
    numbering=f"Figure 5.5 of {CITED}",
    needs="devices",
)
def scaling(campaign: Campaign, published: Published) -> Figure:
    """Speedup over the number of devices: a panel for each problem, a line for each kind of product and precision."""
    cases_by_problem: dict[str, list[results.DeviceTimes]] = {}
    for precision in campaign.precisions:
        for case in results.device_times(campaign, published, precision):
            if case.counts:
                cases_by_problem.setdefault(case.line.problem, []).append(case)
    panels = [*cases_by_problem.values()]
    lines = [cases[0].line for cases in panels]
    drawn_cases = [
        "A launch each: one product a launch, y stays distributed, as in the paper. Alone: the same, products that",
        "follow each other in a launch of all devices. With exchange: y is brought to all devices before the next, in",
        "the fastest way. Overlapped: copies of x are under way while a device multiplies what it has itself.",
        "Grey: as many times as fast as there are devices. Behind the lines: their values on the most devices.",
        "Dashed: single precision." if len(campaign.precisions) > 1 else "",
        measurement_note(campaign, results.DEVICE_CLOCK),
        remarks(lines),
    ]
    caption = [
        "Speed-up of y = A x with the grown matrix over one device, rows sorted by their sizes and dealt in turns.",
        *(drawn_cases if panels else [results.NO_DEVICES]),
        _published_sentence(published),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_scaling(panels, published, mark_meanings(lines)),
        join_sentences(caption),
        not panels,
        clock=results.DEVICE_CLOCK,
    )


def _published_sentence(published: Published) -> str:
    """Return the sentence with the paper's number for all graphs; empty if none is published."""
    means_text = " and ".join(stated_device_means(published))
    if not means_text:
        return ""
    return (
        f"Published of two Tesla K20c, the mean of all graphs without an exchange: {means_text}. "
        f"{stated_graph_speedups(published)}"
    )
