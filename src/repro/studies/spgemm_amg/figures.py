"""Figures of sparse products and multigrid: reach of sorts, GFLOPS, phases of the set-up, and speedups.

Figure 6.1 shows products and set-up over those with the sort of all products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.problem_rows import cpu_note, footnote, join_sentences, measurement_note, remarks, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, geometric_mean, interval_of_ratio, ratio_of
from repro.results.tables import Figure
from repro.sparse.baseline_times import library_of
from repro.sparse.spgemm.kernels import LIMITS
from repro.studies.spgemm_amg import PAPER, PRODUCTS, STUDY_NAME, ProductName
from repro.studies.spgemm_amg import PAPER as NAME
from repro.studies.spgemm_amg.results import (
    COORDINATES,
    EVENT,
    GALERKIN,
    HOST,
    METHODS,
    MILLI,
    OF_THE_SEARCH,
    ONE,
    ONE_TUNED,
    OURS,
    PAPER_KERNELS,
    PHASES,
    TWO_TUNED,
    BinTimes,
    Method,
    ProblemTimes,
    SetUpMethod,
    all_times,
    bins_of,
    precision_of,
    routines_of,
)
from repro.studies.spgemm_amg.study import (
    BEST,
    GPU,
    SET_UP,
    SHARE_MAX,
    SHARE_MIN,
    SHORT_MAX,
    SHORT_MIN,
    published_range,
    published_value,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


HEIGHT = 2.6
PRODUCT_LOOKS: dict[ProductName, tuple[str, str]] = {
    "AA": (figure_style.GREY, "s"),
    "AP": (figure_style.DARK, "o"),
    "RAP": (figure_style.ACCENT, "^"),
}
#: How far the marks of products lie beside each other, in bins.
APART = 0.22


@figure(STUDY_NAME, "figure-bins", title="A sort over a hash table, bin by bin", numbering="ours")
def bins(campaign: Campaign, published: Published) -> Figure:
    """A mark a bin of a product of a problem: by its products on the left, by its compression on the right."""
    items = [item for times in all_times(campaign, published) for item in bins_of(times) if item.mode == "one"]
    caption = [
        "Rows of one bin of a product alone, in one phase: time of the fastest kernel that sorts in shared memory, as",
        "the paper’s do, over that of the fastest with a hash table there. Above the line the hash table is the",
        "faster. Left: by the most products of a row of the bin; right: by its compression, the products that an",
        "entry of C is the sum of in the mean. The larger a mark, the more products the bin has. Rows of more products",
        "are not sorted.",
        OF_THE_SEARCH,
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, EVENT),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_bins(items), join_sentences(caption))


def draw_bins(items: Sequence[BinTimes]) -> Canvas:
    """Draw both panels."""
    compared = [item for item in items if item.sort_over_hash]
    if not compared:
        return figure_style.empty("no bin has times of a sort and of a hash table")
    drawn = figure_style.canvas(figure_style.TEXT, HEIGHT)
    by_bin, by_compression = drawn.subplots(1, 2, sharey=True)
    products = [product for product in PRODUCTS if any(item.product == product for item in compared)]
    for item in compared:
        apart = APART * (products.index(item.product) - (len(products) - 1) / 2)
        by_bin.plot([item.bin + apart], [item.sort_over_hash], **_bin_look(item))
        by_compression.plot([item.compression], [item.sort_over_hash], **_bin_look(item))
    last = max(item.bin for item in compared)
    by_bin.set_xticks(range(last + 1), [f"{limit:,}" for limit in LIMITS[: last + 1]])
    by_bin.set_xlim(-0.6, last + 0.6)
    by_bin.set_xlabel("most products of a row of the bin")
    by_bin.set_ylabel("time of a sort / time of a hash table")
    by_compression.set_xscale("log", base=2)
    by_compression.set_xlabel("products / entries of the bin")
    for axes in (by_bin, by_compression):
        axes.axhline(1, color="black", linewidth=0.7, zorder=1)
        axes.grid(axis="both")
    _plain(by_compression)
    by_bin.set_yscale("log")
    low, high = by_bin.get_ylim()
    by_bin.set_ylim(min(low, 0.5), max(high, 2.0))
    figure_style.log_ticks(by_bin.yaxis)
    handles = [
        Line2D([], [], label=PRODUCTS[product], **_style(product, 4.0)) for product in products
    ]  # fmt: skip
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.0, columnspacing=1.4)
    return drawn


def _plain(axes: Axes) -> None:
    """Write numbers of the x axis without exponents."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _bin_look(item: BinTimes) -> dict[str, Any]:
    return _style(item.product, 2.0 + 0.45 * len(str(item.products)))


def _style(product: ProductName, size: float) -> dict[str, Any]:
    colour, marker = PRODUCT_LOOKS[product]
    return {
        "color": colour, "marker": marker, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "linestyle": "", "alpha": 0.85, "zorder": 3,
    }  # fmt: skip


#: Inches of a row of the figure, and the share of it that marks are spread over, so that equal ones are seen.
FLOPS_ROW, SPREAD = 0.34, 0.56
#: Colour and marker of our ways; routines of the library take the markers below in turns.
METHOD_LOOKS = {
    COORDINATES.key: (figure_style.GREY, "o"),
    PAPER_KERNELS.key: (figure_style.PINK, "s"),
    ONE.key: (figure_style.MIDDLE, "d"),
    ONE_TUNED.key: (figure_style.DARK, "D"),
    TWO_TUNED.key: (figure_style.GREEN, "h"),
}
ROUTINE_MARKERS = ("<", ">", "^", "v", "P", "X")


@figure(STUDY_NAME, "figure-gflops", title="GFLOPS of the products", numbering="ours")
def flops(campaign: Campaign, published: Published) -> Figure:
    """A panel a product with a mark a way."""
    cases = all_times(campaign, published)
    lines = [case.line for case in cases]
    library = library_of(campaign)
    caption = [
        "GFLOPS of whole products, from factors on the device to C there: two operations for each multiplication that",
        "C takes, over the time. All products sorted by row and column; the paper’s kernels, rows sorted in shared",
        "memory; ours in one phase with the kernels that are expected to be the fastest, and with those that the",
        f"search chose, and in two phases with those. Triangles and crosses: the routines of {library}.",
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_flops(cases, library, footnote(lines)), join_sentences(caption))


def draw_flops(cases: Sequence[ProblemTimes], library: str, mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    library
        The name of the library.
    mark
        What a mark at a name means; None where there is none.
    """
    routines = routines_of([times for case in cases for times in case.products])
    shown = [
        way for way in (*METHODS, *routines) if any(_timed(case, name, way) for case in cases for name in PRODUCTS)
    ]
    if not shown:
        return figure_style.empty("no product was measured in this campaign")
    looks = METHOD_LOOKS | {
        way.key: (figure_style.ACCENT, ROUTINE_MARKERS[place % len(ROUTINE_MARKERS)])
        for place, way in enumerate(routines)
    }
    drawn = figure_style.canvas(figure_style.TEXT, figure_style.height(len(cases), extra=1.15, per_row=FLOPS_ROW))
    names = [case.line.label for case in cases]
    panels = drawn.subplots(1, len(PRODUCTS))
    for number, (product, axes) in enumerate(zip(PRODUCTS, panels, strict=True)):
        missing = [_draw_flops_row(axes, at, case, product, shown, looks) for at, case in enumerate(cases)]
        axes.set_xscale("log")
        figure_style.log_ticks(axes.xaxis, (1, 3))
        axes.grid(axis="both")
        axes.set_title(PRODUCTS[product])
        axes.set_xlabel("GFLOPS: 2 × products / time")
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
    titles = {way.key: f"{library} {way.title}" for way in routines}
    handles = [Line2D([], [], label=titles.get(way.key, way.title), **_method_look(*looks[way.key])) for way in shown]
    across = -(-len(handles) // 2) if len(handles) > len(METHOD_LOOKS) + 1 else len(handles)
    drawn.legend(handles=handles, loc="outside upper left", ncols=across, handlelength=1.0, columnspacing=1.4)
    figure_style.footnote(drawn, mark)
    return drawn


def _draw_flops_row(
    axes: Axes,
    at: int,
    case: ProblemTimes,
    product: ProductName,
    shown: Sequence[Method],
    looks: dict[str, tuple[str, str]],
) -> str | None:
    """Draw the marks of a product of a problem; return why there are none."""
    times = case.product(product)
    rates = {way.key: rate for way in shown if (rate := times.gflops(times.time(way)))}
    if not rates:
        why = case.case.why_not()
        if case.case.measured:
            return "not timed" if times.rows else "not made coarser"
        return "unavailable" if why.startswith("unavailable") else why
    axes.plot([min(rates.values()), max(rates.values())], [at, at], color=figure_style.PALE, linewidth=0.8, zorder=2)
    for place, way in enumerate(shown):
        if way.key in rates:
            here = at + SPREAD * (place / max(len(shown) - 1, 1) - 0.5)
            axes.plot([rates[way.key]], [here], **_method_look(*looks[way.key]))
    return None


def _timed(case: ProblemTimes, product: ProductName, way: Method) -> bool:
    return case.product(product).time(way) is not None


def _method_look(colour: str, marker: str) -> dict[str, Any]:
    return {
        "color": colour, "marker": marker, "markersize": 3.8, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "linestyle": "", "zorder": 3,
    }  # fmt: skip


#: Inches of a row of the figure, and the share of it that bars fill.
PHASE_ROW, PHASE_FILLED = 0.26, 0.7
COLOURS = {
    "galerkin": figure_style.DARK,
    "diagonal": figure_style.PALE,
    "aggregates": figure_style.GREEN,
    "tentative": "#f0e442",
    "radius": figure_style.PINK,
    "prolongator": figure_style.LIGHT,
    "transpose": figure_style.GREY,
}


@figure(STUDY_NAME, "figure-setup", title="Phases of the set-up", numbering="ours")
def setup(campaign: Campaign, published: Published) -> Figure:
    """A row a problem: milliseconds on the left, shares on the right."""
    cases = all_times(campaign, published)
    lines = [case.line for case in cases]
    share = published_range(published, SHARE_MIN, SHARE_MAX)
    caption = [
        "The phases of the set-up with our kernels, medians of each by events in samples of their own; one that waits",
        "for a size reads what the host takes as well. Left: level by level, the finest first; a line parts two",
        "levels. Right: shares of the phases, all levels together, the Galerkin products R·(A·P) first.",
        _published_share(share, campaign.on_cpu),
        cpu_note(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, EVENT),
        remarks(lines),
        unavailable_note(campaign),
    ]
    band = None if campaign.on_cpu else share
    return Figure(lambda: draw_phases(cases, band, footnote(lines)), join_sentences(caption))


def _published_share(share: tuple[float, float] | None, on_cpu: bool) -> str:
    if share is None:
        return ""
    drawn = "not drawn beside a CPU’s" if on_cpu else "between the dashed lines"
    return (
        f"{PAPER} states, for a {GPU}, that the Galerkin products are {100 * share[0]:.0f} to {100 * share[1]:.0f} % "
        f"of the set-up: {drawn}."
    )


def draw_phases(cases: Sequence[ProblemTimes], band: tuple[float, float] | None, mark: str | None) -> Canvas:
    """Draw both panels.

    Parameters
    ----------
    band
        The published ends of the Galerkin products' share; None where they are not drawn.
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(case.phases for case in cases):
        return figure_style.empty("no set-up was timed phase by phase in this campaign")
    drawn = figure_style.canvas(figure_style.TEXT, figure_style.height(len(cases), extra=1.35, per_row=PHASE_ROW))
    times, shares = drawn.subplots(1, 2)
    for at, case in enumerate(cases):
        if case.phases:
            _draw_times(times, at, case)
            _draw_shares(shares, at, case)
    times.set_xlabel("time of the phases, level by level, ms")
    shares.set_xlabel("share of all phases, %")
    shares.set_xlim(0, 100)
    if band:
        for end in band:
            shares.axvline(100 * end, zorder=4, **_ENDS)
    times.set_xlim(left=0)
    times.grid(axis="x")
    missing = [None if case.phases else _why_not(case) for case in cases]
    figure_style.rows_axis(times, [case.line.label for case in cases], missing=missing)
    figure_style.rows_axis(shares, [""] * len(cases), missing=[])
    handles: list[Patch | Line2D] = [Patch(color=colour, label=PHASES[name]) for name, colour in COLOURS.items()]
    if band:
        handles.append(Line2D([], [], label=f"published, {GPU}", **_ENDS))
    drawn.legend(handles=handles, loc="outside upper left", ncols=-(-len(handles) // 2), handlelength=1.1)
    figure_style.footnote(drawn, mark)
    return drawn


_ENDS: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": (0, (4, 2))}


def _why_not(case: ProblemTimes) -> str:
    why = case.why_not("level")
    return "unavailable" if why.startswith("unavailable") else why


def _draw_times(axes: Axes, at: int, case: ProblemTimes) -> None:
    begin = 0.0
    for number, level in enumerate(case.levels):
        if number:
            axes.plot([begin, begin], [at - 0.5, at + 0.5], color="black", linewidth=0.9, zorder=4)
        for name in PHASES:
            width = MILLI * level.stages[name]
            axes.barh(at, width, left=begin, height=PHASE_FILLED, color=COLOURS[name], linewidth=0, zorder=2)
            begin += width


def _draw_shares(axes: Axes, at: int, case: ProblemTimes) -> None:
    phases, begin = case.phases, 0.0
    whole = sum(phases.values())
    for name, colour in COLOURS.items():
        width = 100 * phases[name] / whole
        axes.barh(at, width, left=begin, height=PHASE_FILLED, color=colour, linewidth=0, zorder=2)
        if name == "galerkin":
            axes.text(width / 2, at, f"{width:.0f} %", ha="center", va="center", fontsize=6, color="white", zorder=5)
        begin += width


#: Inches of a row of the figure, and the share of it that bars fill.
SPEEDUP_ROW, SPEEDUP_FILLED = 0.32, 0.76
#: Markers of the two products alone.
MARKS: Mapping[ProductName, str] = {"AP": "<", "RAP": ">"}
Number = Callable[[ProblemTimes], float | None]


@dataclass(frozen=True)
class Series:
    """One bar of every row, marks beside it, and its interval where it is a ratio of two times."""

    label: str
    colour: str
    number: Number
    sure: Callable[[ProblemTimes], Interval | None] = lambda times: None
    marks: Mapping[ProductName, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One half of the figure: its title, its bars, and what the paper's text states, by problem and of all."""

    title: str
    series: tuple[Series, ...]
    missing: str
    diamonds: Mapping[str, float]
    band: tuple[float, float] | None = None
    best: float | None = None


def _galerkin(way: Method) -> Number:
    def number(times: ProblemTimes) -> float | None:
        base, over = times.galerkin(COORDINATES), times.galerkin(way)
        return base / over if base and over else None

    return number


def _single(way: Method, product: ProductName) -> Number:
    return lambda times: ratio_of(times.product(product).time(COORDINATES), times.product(product).time(way))


def _set_up(label: str, colour: str, method: SetUpMethod) -> Series:
    return Series(
        label,
        colour,
        lambda times: ratio_of(times.set_up("coordinates"), times.set_up(method)),
        lambda times: interval_of_ratio(times.set_up("coordinates"), times.set_up(method)),
    )


def _products(label: str, colour: str, way: Method) -> Series:
    return Series(label, colour, _galerkin(way), marks={product: _single(way, product) for product in GALERKIN})


PRODUCT_SERIES = (
    _products("the paper’s kernels", figure_style.LIGHT, PAPER_KERNELS),
    _products("ours", figure_style.DARK, OURS),
)
SET_UP_SERIES = (
    _set_up("the paper’s kernels", figure_style.LIGHT, "sort"),
    _set_up("ours", figure_style.DARK, "default"),
)


@figure(
    STUDY_NAME,
    "figure-6-1",
    title="Products and set-up over the sort of all products",
    numbering=f"Figure 6.1 of {NAME}",
)
def speedup(campaign: Campaign, published: Published) -> Figure:
    """A row a problem: products on the left, the set-up on the right."""
    cases = all_times(campaign, published)
    on_gpu = not campaign.on_cpu
    band = published_range(published, SHORT_MIN, SHORT_MAX)
    panels = (
        Panel(
            "the first level’s R·(A·P)",
            PRODUCT_SERIES,
            "products were not timed",
            _stated(published, BEST) if on_gpu else {},
            band if on_gpu else None,
            published_value(published, BEST) if on_gpu else None,
        ),
        Panel(
            "the set-up of all levels",
            SET_UP_SERIES,
            "set-ups were not timed",
            _stated(published, SET_UP) if on_gpu else {},
        ),
    )
    lines = [case.line for case in cases]
    caption = [
        "How many times faster than with all products sorted by row and column, the method that the paper compares",
        "with. Left: the two products of the first level’s set-up, A·P and R·(A·P), their times added up; triangles:",
        "each alone. Right: the whole set-up, in which everything else is the same. The paper’s kernels: rows in bins",
        "by their products, sorted in shared memory. Ours: products by the fastest of ours in one phase and in two,",
        "the set-up by the kernels that are expected to be the fastest, in one phase.",
        WHISKERS if any(series.sure(case) for series in SET_UP_SERIES for case in cases) else "",
        _means(cases),
        _published_speedups(published, on_gpu),
        cpu_note(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measurement_note(campaign, HOST),
        remarks(lines),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_speedups(panels, cases, footnote(lines)), join_sentences(caption))


def _stated(published: Published, quantity: str) -> dict[str, float]:
    numbers = {name: published_value(published, quantity, name) for name in published.problems}
    return {name: number for name, number in numbers.items() if number is not None}


def _means(cases: Sequence[ProblemTimes]) -> str:
    """Return the sentence with the geometric means; empty without any."""
    words = []
    for what, all_series in (("R·(A·P)", PRODUCT_SERIES), ("set-up", SET_UP_SERIES)):
        for series in all_series:
            mean = geometric_mean(series.number(case) for case in cases)
            if mean:
                words.append(f"{what}, {series.label}: {mean:.2f}×")
    return f"Geometric means: {'; '.join(words)}." if words else ""


def _published_speedups(published: Published, on_gpu: bool) -> str:
    """Return what the paper's text states; empty where nothing is published."""
    best, short = published_value(published, BEST), published_range(published, SHORT_MIN, SHORT_MAX)
    if best is None or short is None:
        return ""
    drawn = "line, band and diamonds" if on_gpu else "not drawn beside a CPU’s"
    single = [
        f"{number:g}× for the {what} of {name}"
        for what, quantity in (("products", BEST), ("set-up", SET_UP))
        for name, number in _stated(published, quantity).items()
    ]
    return (
        f"{NAME} states, for a {GPU}, upwards of {best:g}× at best, {short[0]:g}× to {short[1]:g}× for products no row "
        f"of which has more than 2,048, and {', '.join(single)}: {drawn}. Its other bars are in the figure alone."
    )


def draw_speedups(panels: Sequence[Panel], cases: Sequence[ProblemTimes], mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(series.number(case) for panel in panels for series in panel.series for case in cases):
        return figure_style.empty("neither products nor set-ups were measured in this campaign")
    drawn = figure_style.canvas(figure_style.TEXT, figure_style.height(len(cases), extra=1.2, per_row=SPEEDUP_ROW))
    names = [case.line.label for case in cases]
    for number, (panel, axes) in enumerate(zip(panels, drawn.subplots(1, len(panels)), strict=True)):
        missing = [_draw_speedup_row(axes, panel, at, case) for at, case in enumerate(cases)]
        if panel.band:
            axes.axvspan(*panel.band, color=figure_style.BAND, zorder=0)
        if panel.best is not None:
            axes.axvline(panel.best, color=figure_style.GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        axes.axvline(1, color="black", linewidth=0.7, zorder=4)
        axes.set_xlim(left=0)
        axes.grid(axis="x")
        axes.set_xlabel("speedup over the sort of all products")
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
        axes.set_title(panel.title)
    handles = _handles(panels)
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.2, columnspacing=1.0)
    figure_style.footnote(drawn, mark)
    return drawn


def _draw_speedup_row(axes: Axes, panel: Panel, at: int, case: ProblemTimes) -> str | None:
    """Draw the bars of a problem; return why there are none."""
    thickness, drawn = SPEEDUP_FILLED / len(panel.series), False
    for place, series in enumerate(panel.series):
        here = at + (place - (len(panel.series) - 1) / 2) * thickness
        number = series.number(case)
        if number is not None:
            drawn = True
            axes.barh(here, number, height=thickness, color=series.colour, linewidth=0, zorder=2)
            figure_style.whisker(axes, series.sure(case), here)
        for product, of_product in series.marks.items():
            single = of_product(case)
            if single is not None:
                axes.plot([single], [here], **_triangle(product))
    theirs = panel.diamonds.get(case.line.published or "")
    if theirs is not None:
        axes.plot([theirs], [at], **_DIAMOND)
    if drawn:
        return None
    if case.case.measured:
        return panel.missing
    why = case.case.why_not()
    return "unavailable" if why.startswith("unavailable") else why


_DIAMOND: dict[str, Any] = {
    "marker": "D", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": "black", "markeredgewidth": 0.8,
    "linestyle": "", "zorder": 6,
}  # fmt: skip


def _triangle(product: ProductName) -> dict[str, Any]:
    return {
        "marker": MARKS[product], "markersize": 3.2, "markerfacecolor": figure_style.ACCENT, "markeredgecolor": "white",
        "markeredgewidth": 0.4, "linestyle": "", "zorder": 5,
    }  # fmt: skip


def _handles(panels: Sequence[Panel]) -> list[Patch | Line2D]:
    """Return what the legend of both panels has; their bars are the same two."""
    handles: list[Patch | Line2D] = [Patch(color=series.colour, label=series.label) for series in panels[0].series]
    handles += [Line2D([], [], label=f"{PRODUCTS[product]} alone", **_triangle(product)) for product in MARKS]
    if any(panel.diamonds for panel in panels):
        handles.append(Line2D([], [], label=f"published, {GPU}", **_DIAMOND))
    if any(panel.best is not None for panel in panels):
        dashes: dict[str, Any] = {"color": figure_style.GREY, "linewidth": 0.7, "linestyle": (0, (4, 2))}
        handles.append(Line2D([], [], label="published best", **dashes))
    if any(panel.band for panel in panels):
        handles.append(Patch(color=figure_style.BAND, label="published, rows ≤ 2,048"))
    return handles
