"""Figures of sparse products and multigrid: GFLOPS, stages of the set-up, and speedups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, Method, brief_reason
from repro.results.problem_lines import (
    cpu_note,
    join_sentences,
    mark_meanings,
    measurement_note,
    remarks,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import (
    WHISKERS,
    Interval,
    geometric_mean,
    interval_of_ratio,
    ratio_of,
    relative_interval,
    scaled_interval,
)
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.spgemm_amg import CITED, PRODUCTS, SETUP_STAGES, STUDY_NAME, results, study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


#: Height of one row in inches, and the share of it over which the marks are spread.
FLOPS_ROW, SPREAD = 0.34, 0.7


@dataclass(frozen=True)
class RateSeries:
    """The marks of one method, one for each product."""

    label: str
    colour: str
    marker: str
    method: Method
    hollow: bool = False

    def points(self, x: Sequence[float], y: Sequence[float]) -> Line2D:
        """Return the marks, also the legend's, for which there are no places."""
        return plotting.Line2D(
            x, y, linestyle="", marker=self.marker, markersize=3.6 if self.hollow else 4.2, label=self.label, zorder=3,
            color=self.colour, markerfacecolor="white" if self.hollow else self.colour, markeredgewidth=0.8,
            markeredgecolor=self.colour if self.hollow else "white",
        )  # fmt: skip


def rate_series(library: str) -> list[RateSeries]:
    """Return the series from the top of a row to its bottom; marks of ours that is not in one launch are hollow."""
    ours = figure_style.OURS.colour
    return [
        RateSeries("sort of all products", figure_style.GREY, "X", results.COORDINATES),
        RateSeries(
            figure_style.PAPERS.label, figure_style.PAPERS.colour, figure_style.PAPERS.marker, results.PAPER_KERNELS
        ),
        RateSeries("ours, two phases", ours, "D", results.TWO_TUNED, hollow=True),
        RateSeries("ours, one phase", ours, "v", results.ONE, hollow=True),
        RateSeries("ours, one phase, tuned", ours, "h", results.ONE_TUNED, hollow=True),
        RateSeries("ours, one launch", ours, figure_style.OURS.marker, results.SINGLE),
        RateSeries(f"{library}, fastest", figure_style.LIBRARY.colour, figure_style.LIBRARY.marker, results.LIBRARY),
    ]


def other_routines(x: Sequence[float], y: Sequence[float], label: str | None = None) -> Line2D:
    """Return the ticks of the library's routines that are not its fastest."""
    return plotting.Line2D(
        x, y, linestyle="", marker="|", markersize=4.5, markeredgewidth=0.9, color=figure_style.LIBRARY.colour,
        label=label, zorder=2.5,
    )  # fmt: skip


@figure(STUDY_NAME, "figure-gflops", title="GFLOPS of the products", numbering="ours")
def flops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS of whole products: one panel for each product, one row for each problem, one mark for each method."""
    cases = results.all_times(campaign, published)
    lines = [case.line for case in cases]
    library = library_of(campaign)
    caption = [
        "GFLOPS of whole products, from factors on the device to C there: two operations for each multiplication that",
        "C takes, over the time. All products sorted by row and column; the paper’s kernels, rows sorted in shared",
        "memory; ours in one phase with the kernels that are expected to be the fastest, and with those that the",
        f"search chose, and in two phases with those; and in one launch. {library}: its fastest routine for each",
        "product, and ticks for its others.",
        "Where the search had sorts alone, what it chose for one phase is left out." * searched_sorts_alone(cases),
        f"{results.precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, results.HOST),
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_flops(cases, library, mark_meanings(lines)), join_sentences(caption), clock=results.HOST)


def draw_flops(cases: Sequence[results.ProblemTimes], library: str, mark: str | None) -> Canvas:
    """Draw the panels side by side; `mark` is the footnote for marked names."""
    products = {name: [case.product(name) for case in cases] for name in PRODUCTS}
    all_times_of_products = [times for product_times in products.values() for times in product_times]
    shown_series = [
        series
        for series in rate_series(library)
        if any(times[series.method] for times in all_times_of_products)
        and not (series.method is results.ONE_TUNED and searched_sorts_alone(cases))
    ]
    if not shown_series:
        return figure_style.empty_canvas("no product was measured in this campaign")
    routines = results.routines_of(all_times_of_products)
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(len(cases), extra_height=1.15, per_row=FLOPS_ROW)
    )
    names = [case.line.label for case in cases]
    panels = drawing.subplots(1, len(PRODUCTS))
    for number, (product, axes) in enumerate(zip(PRODUCTS, panels, strict=True)):
        missing_reasons = [
            _draw_flops_row(axes, y, times, shown_series, routines) for y, times in enumerate(products[product])
        ]
        axes.set_xscale("log")
        axes.autoscale_view()
        figure_style.log_ticks(axes.xaxis, (1, 3))
        axes.grid(axis="x")
        axes.set_title(PRODUCTS[product])
        axes.set_xlabel("GFLOPS: 2 × products / time")
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), reasons=missing_reasons)
        for y in range(1, len(cases)):
            axes.axhline(y - 0.5, color=figure_style.PALE, linewidth=0.4, zorder=1)
    handles = [series.points([], []) for series in shown_series]
    if len(routines) > 1:
        handles.append(other_routines([], [], f"{library}, other routines"))
    drawing.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.0, columnspacing=1.4)
    figure_style.write_footnote(drawing, mark)
    return drawing


def searched_sorts_alone(cases: Sequence[results.ProblemTimes]) -> bool:
    """Return whether one-phase kernels were chosen only among the paper's sorts, as with the setting `space: paper`."""
    return not any(case.case.searched.select(what="bin", mode="one", method="hash") for case in cases)


def _draw_flops_row(
    axes: Axes, y: int, times: results.ProductTimes, shown_series: Sequence[RateSeries], routines: Sequence[Method]
) -> str | None:
    """Draw the marks of one problem's product; if there are none, return the reason."""
    rates = {series: rate for series in shown_series if (rate := times.gflops(series.method))}
    if not rates:
        if times.case.is_measured:
            return "not timed" if times.rows else "not made coarser"
        return brief_reason(times.case.why_not())
    for index, series in enumerate(shown_series):
        if series in rates:
            mark_y = y + SPREAD * (index / max(len(shown_series) - 1, 1) - 0.5)
            axes.add_line(series.points([rates[series]], [mark_y]))
            if series.method is results.LIBRARY:
                others = [rate for routine in routines if (rate := times.gflops(routine)) and rate < rates[series]]
                axes.add_line(other_routines(others, [mark_y] * len(others)))
    return None


#: Height of one row in inches, and the share of it that bars fill.
PHASE_ROW, STAGE_FILLED = 0.26, 0.7
COLOURS = {
    "galerkin": figure_style.VIOLET,
    "radius": figure_style.PINK,
    "aggregates": figure_style.GREEN,
    "tentative": "#f0e442",
    "prolongator": figure_style.PALE,
    "transpose": figure_style.GREY,
}
#: Hatch patterns of stages whose colours look alike in greyscale.
HATCHES = {"radius": "////", "prolongator": "---", "transpose": "xxxx"}


def stage_style(name: str) -> dict[str, Any]:
    """Return the fill of a stage's bar: its colour and, if other stages look alike in greyscale, a hatch pattern."""
    return {"facecolor": COLOURS[name], "hatch": HATCHES.get(name), "edgecolor": "white", "linewidth": 0}


@figure(STUDY_NAME, "figure-setup", title="Phases of the set-up", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Figure:
    """Times of the set-up's stages, one row for each problem: milliseconds on the left, shares on the right."""
    all_cases = results.all_times(campaign, published)
    cases = [case for case in all_cases if not case.is_squared_alone]
    squared = [case.line.problem for case in all_cases if case.is_squared_alone]
    lines = [case.line for case in cases]
    share = study.published_range(published, study.SHARE_MIN, study.SHARE_MAX)
    caption = [
        "The phases of the set-up with our kernels, medians of each by events in samples of their own; one that waits",
        "for a size reads what the host takes as well. Left: level by level, the finest first; a line parts two",
        "levels. Right: shares of the phases, all levels together, the Galerkin products R·(A·P) first.",
        f"Left out, as they are only squared: {', '.join(squared)}." if squared else "",
        _published_share(share, campaign.on_cpu),
        cpu_note(campaign),
        f"{results.precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, results.EVENT),
        remarks(lines),
        unavailable_note(campaign),
    ]
    band = None if campaign.on_cpu else share
    return Figure(lambda: draw_stages(cases, band, mark_meanings(lines)), join_sentences(caption), clock=results.EVENT)


def _published_share(share: tuple[float, float] | None, is_cpu: bool) -> str:
    if share is None:
        return ""
    drawn_text = "not drawn beside a CPU’s" if is_cpu else "between the dashed lines"
    return (
        f"{CITED} states, for a {study.GPU}, that the Galerkin products are {100 * share[0]:.0f} to "
        f"{100 * share[1]:.0f} % of the set-up: {drawn_text}."
    )


def draw_stages(cases: Sequence[results.ProblemTimes], band: tuple[float, float] | None, mark: str | None) -> Canvas:
    """Draw both panels; `band` is the published range of the Galerkin products' share, drawn if given."""
    if not any(case.stages for case in cases):
        return figure_style.empty_canvas("no set-up was timed phase by phase in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(len(cases), extra_height=1.35, per_row=PHASE_ROW)
    )
    times, shares = drawing.subplots(1, 2)
    for y, case in enumerate(cases):
        if case.stages:
            _draw_times(times, y, case)
            _draw_shares(shares, y, case)
    times.set_xlabel("time of the phases, level by level [ms]")
    shares.set_xlabel("share of all phases [%]")
    shares.set_xlim(0, 100)
    if band:
        for end in band:
            shares.axvline(100 * end, zorder=4, **_ENDS)
    times.set_xlim(left=0)
    times.grid(axis="x")
    missing_reasons = [None if case.stages else brief_reason(case.why_not(results.LEVEL)) for case in cases]
    figure_style.rows_axis(times, [case.line.label for case in cases], reasons=missing_reasons)
    figure_style.rows_axis(shares, [""] * len(cases), reasons=[])
    handles: list[Patch | Line2D] = [plotting.Patch(label=SETUP_STAGES[name], **stage_style(name)) for name in COLOURS]
    if any(len(case.levels) > 1 for case in cases):
        handles.append(plotting.Line2D([], [], label="between two levels", **_BETWEEN))
    if band:
        handles.append(plotting.Line2D([], [], label=f"published Galerkin share, {study.GPU}", **_ENDS))
    drawing.legend(handles=handles, loc="outside upper left", ncols=-(-len(handles) // 2), handlelength=1.1)
    figure_style.write_footnote(drawing, mark)
    return drawing


_BETWEEN: dict[str, Any] = {"color": "black", "linewidth": 0.9}
_ENDS: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": (0, (4, 2))}


def _draw_times(axes: Axes, y: int, case: results.ProblemTimes) -> None:
    begin = 0.0
    for number, level in enumerate(case.levels):
        if number:
            axes.plot([begin, begin], [y - 0.5, y + 0.5], zorder=4, **_BETWEEN)
        for name, seconds in results.stages_of(level.row).items():
            width = results.MILLI * seconds
            axes.barh(y, width, left=begin, height=STAGE_FILLED, zorder=2, **stage_style(name))
            begin += width


def _draw_shares(axes: Axes, y: int, case: results.ProblemTimes) -> None:
    stages, begin = case.stages, 0.0
    total = sum(stages.values())
    for name in COLOURS:
        width = 100 * stages[name] / total
        axes.barh(y, width, left=begin, height=STAGE_FILLED, zorder=2, **stage_style(name))
        if name == "galerkin":
            axes.text(
                1.5, y, f"{width:.0f} %", va="center", fontsize=6, color="white", zorder=5
            )  # left of the published range
        begin += width


#: Height of one row in inches, and the share of it that bars fill.
SPEEDUP_ROW, SPEEDUP_FILLED = 0.36, 0.8
#: Markers of the two products within the set-up, which are hollow.
MARKS: Mapping[str, str] = {"AP": "o", "RAP": "s"}
Number = Callable[[results.ProblemTimes], float | None]


@dataclass(frozen=True)
class Series:
    """A series with one bar in each row, its interval, and marks at the bar's height."""

    label: str
    style: figure_style.Look
    number: Number
    interval: Callable[[results.ProblemTimes], Interval | None]
    marks: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One panel (half) of the figure: title, bars, and the paper's stated numbers per problem and for all problems."""

    title: str
    series: tuple[Series, ...]
    missing: str
    diamonds: Mapping[str, float]
    band: tuple[float, float] | None = None
    best: float | None = None


def _pairs_of_times(
    problem: results.ProblemTimes, method: Method, products: Sequence[str]
) -> list[tuple[results.Time, results.Time]]:
    """Return for each product the times of sorting all products and of a method; empty if one is missing."""
    times = [problem.product(name) for name in products]
    pairs = [(base, own_time) for time in times if (base := time[results.COORDINATES]) and (own_time := time[method])]
    return pairs if len(pairs) == len(products) else []


def _galerkin(method: Method, *products: str) -> Number:
    """Return a function for the speedup of the Galerkin products together over sorting all products."""

    def number(problem: results.ProblemTimes) -> float | None:
        pairs = _pairs_of_times(problem, method, products)
        return (
            sum(base.seconds for base, _ in pairs) / sum(own_time.seconds for _, own_time in pairs) if pairs else None
        )

    return number


def _galerkin_interval(method: Method, *products: str) -> Callable[[results.ProblemTimes], Interval | None]:
    """Return a function for the interval of `_galerkin`, over the sums of the products' medians in each round."""

    def interval(problem: results.ProblemTimes) -> Interval | None:
        sides = zip(*_pairs_of_times(problem, method, products), strict=True)
        rounds = [
            [[sum(map(median, samples))] for samples in zip(*(time.rounds for time in side), strict=False)]
            for side in sides
        ]
        number, factors = _galerkin(method, *products)(problem), relative_interval(*rounds) if rounds else None
        return scaled_interval(factors, number) if number else None

    return interval


def _set_up(style: figure_style.Look, method: Method) -> Series:
    return Series(
        style.label,
        style,
        lambda times: ratio_of(times[results.COORDINATE_SET_UP], times[method]),
        lambda times: interval_of_ratio(times[results.COORDINATE_SET_UP], times[method]),
    )


def _products(style: figure_style.Look, method: Method, label: str = "") -> Series:
    marks = {product: _galerkin(method, product) for product in MARKS}
    return Series(label or style.label, style, _galerkin(method, *MARKS), _galerkin_interval(method, *MARKS), marks)


def product_series(library: str) -> tuple[Series, ...]:
    """Return the series of the Galerkin products."""
    return (
        _products(figure_style.OURS, results.OURS),
        _products(figure_style.PAPERS, results.PAPER_KERNELS),
        _products(figure_style.LIBRARY, results.LIBRARY, f"{library}, fastest"),
    )


SET_UP_SERIES = (_set_up(figure_style.OURS, results.OUR_SET_UP), _set_up(figure_style.PAPERS, results.PAPERS_SET_UP))


@figure(
    STUDY_NAME,
    "figure-6-1",
    title="Products and set-up over a sort of all products, not over the library",
    numbering=f"Figure 6.1 of {CITED}",
)
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over sorting all products, one row for each problem: products on the left, set-up on the right."""
    all_cases = results.all_times(campaign, published)
    cases = [case for case in all_cases if not case.case.is_measured or _was_tried(case)]
    omitted_problems = [case.line.problem for case in all_cases if case not in cases]
    is_gpu = not campaign.on_cpu
    band = study.published_range(published, study.SHORT_MIN, study.SHORT_MAX)
    panels = (
        Panel(
            "the first level’s A·P and R·(A·P)",
            product_series(library_of(campaign)),
            "products were not timed",
            _stated(published, study.BEST) if is_gpu else {},
            band if is_gpu else None,
            study.published_value(published, study.BEST) if is_gpu else None,
        ),
        Panel(
            "the set-up of all levels",
            SET_UP_SERIES,
            "set-ups were not timed",
            _stated(published, study.SET_UP) if is_gpu else {},
        ),
    )
    lines = [case.line for case in cases]
    caption = [
        "How many times faster than with all products sorted by row and column, the method that the paper compares",
        "with; axes are logarithmic, and bars begin at 1.",
        "Left: the two products of the first level’s set-up, A·P and R·(A·P), their times added up; circles and",
        "squares: each alone. Right: the whole set-up, in which everything else is the same. The paper’s kernels: rows",
        "in bins by their products, sorted in shared memory. Ours: products by the fastest of ours in one phase and in",
        "two, the set-up by the kernels that are expected to be the fastest, in one phase.",
        f"{library_of(campaign)}: its fastest routine for each product, which the paper does not compare with.",
        WHISKERS if any(series.interval(case) for panel in panels for series in panel.series for case in cases) else "",
        f"Neither was tried of {', '.join(omitted_problems)}: not drawn." if omitted_problems else "",
        _means(panels, cases),
        _published_speedups(published, is_gpu),
        cpu_note(campaign),
        f"{results.precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, results.HOST),
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_speedups(panels, cases, mark_meanings(lines)), join_sentences(caption), clock=results.HOST
    )


def _was_tried(case: results.ProblemTimes) -> bool:
    """Return whether the problem has rows, timed or failed, for the figure; some problems only have rows of A·A."""
    return any(case.product(product).rows for product in MARKS) or bool(case.case.select(what="setup"))


def _stated(published: Published, quantity: str) -> dict[str, float]:
    numbers = {name: study.published_value(published, quantity, name) for name in published.problems}
    return {name: number for name, number in numbers.items() if number is not None}


def _means(panels: Sequence[Panel], cases: Sequence[results.ProblemTimes]) -> str:
    """Return the sentence with the geometric means; empty if there are none."""
    texts = []
    for task, panel in zip(("A·P and R·(A·P)", "set-up"), panels, strict=True):
        for series in panel.series:
            mean = geometric_mean(series.number(case) for case in cases)
            if mean:
                texts.append(f"{task}, {series.label}: {mean:.2f}×")
    return f"Geometric means: {'; '.join(texts)}." if texts else ""


def _published_speedups(published: Published, is_gpu: bool) -> str:
    """Return the speedups stated in the paper's text; empty if none are published."""
    best, short = (
        study.published_value(published, study.BEST),
        study.published_range(published, study.SHORT_MIN, study.SHORT_MAX),
    )
    if best is None or short is None:
        return ""
    drawn = "line, band and diamonds" if is_gpu else "not drawn beside a CPU’s"
    ratios = [
        f"{number:g}× for the {task} of {name}"
        for task, quantity in (("products", study.BEST), ("set-up", study.SET_UP))
        for name, number in _stated(published, quantity).items()
    ]
    return (
        f"{CITED} states, for a {study.GPU}, upwards of {best:g}× at best, {short[0]:g}× to {short[1]:g}× for "
        f"products no row of which has more than 2,048, and {', '.join(ratios)}: {drawn}. Its other bars are in the "
        "figure alone."
    )


def draw_speedups(panels: Sequence[Panel], cases: Sequence[results.ProblemTimes], mark: str | None) -> Canvas:
    """Draw the panels side by side; `mark` is the footnote for marked names."""
    if not any(series.number(case) for panel in panels for series in panel.series for case in cases):
        return figure_style.empty_canvas("neither products nor set-ups were measured in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(len(cases), extra_height=1.2, per_row=SPEEDUP_ROW)
    )
    names = [case.line.label for case in cases]
    for number, (panel, axes) in enumerate(zip(panels, drawing.subplots(1, len(panels)), strict=True)):
        missing_reasons = [_draw_speedup_row(axes, panel, y, case) for y, case in enumerate(cases)]
        if panel.band:
            axes.axvspan(*panel.band, color=figure_style.BAND, zorder=0)
        if panel.best is not None:
            axes.axvline(panel.best, zorder=1, **figure_style.PUBLISHED_LINE)
        axes.axvline(1, color="black", linewidth=0.7, zorder=4)
        axes.set_xscale("log")
        axes.set_xlim(min(0.9, axes.get_xlim()[0]), max(2.0, axes.get_xlim()[1]))
        figure_style.log_ticks(axes.xaxis)
        axes.grid(axis="x")
        axes.set_xlabel("speedup over the sort of all products")
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), reasons=missing_reasons)
        axes.set_title(panel.title)
    handles = _handles(panels)
    drawing.legend(handles=handles, loc="outside upper left", ncols=4, handlelength=1.2, columnspacing=1.4)
    figure_style.write_footnote(drawing, mark)
    return drawing


def _draw_speedup_row(axes: Axes, panel: Panel, y: int, case: results.ProblemTimes) -> str | None:
    """Draw the bars of one problem; if there are none, return the reason."""
    thickness, has_bar = SPEEDUP_FILLED / len(panel.series), False
    for index, series in enumerate(panel.series):
        bar_y = y + (index - (len(panel.series) - 1) / 2) * thickness
        number = series.number(case)
        if number is not None:
            has_bar = True
            axes.barh(bar_y, number - 1, left=1, height=thickness, color=series.style.fill, linewidth=0, zorder=2)
            figure_style.draw_whisker(axes, series.interval(case), bar_y)
        for product, ratio_of_product in series.marks.items():
            product_ratio = ratio_of_product(case)
            if product_ratio is not None:
                axes.plot([product_ratio], [bar_y], **_mark(product, series.style.colour))
    published_mark = panel.diamonds.get(case.line.published or "")
    if published_mark is not None:
        axes.plot([published_mark], [y], **figure_style.PUBLISHED_MARK)
    if has_bar:
        return None
    if case.case.is_measured:
        return panel.missing
    return brief_reason(case.case.why_not())


def _mark(product: str, colour: str) -> dict[str, Any]:
    return {
        "marker": MARKS[product], "markersize": 3.0, "markerfacecolor": "white", "markeredgecolor": colour,
        "markeredgewidth": 0.8, "linestyle": "", "zorder": 5,
    }  # fmt: skip


def _handles(panels: Sequence[Panel]) -> list[Patch | Line2D]:
    """Return the legend's handles; the first panel has all series of bars."""
    handles: list[Patch | Line2D] = [
        plotting.Patch(color=series.style.fill, label=series.label) for series in panels[0].series
    ]
    for product in MARKS:
        style = _mark(product, figure_style.GREY)
        handles.append(plotting.Line2D([], [], label=f"{PRODUCTS[product]} alone", **style))
    if any(panel.diamonds for panel in panels):
        handles.append(plotting.Line2D([], [], label=f"published, {study.GPU}", **figure_style.PUBLISHED_MARK))
    if any(panel.best is not None for panel in panels):
        handles.append(plotting.Line2D([], [], label="published best", **figure_style.PUBLISHED_LINE))
    if any(panel.band for panel in panels):
        handles.append(plotting.Patch(color=figure_style.BAND, label="published, rows ≤ 2,048"))
    return handles
