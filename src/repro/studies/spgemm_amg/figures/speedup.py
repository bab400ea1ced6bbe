"""Figure 6.1: products and set-up over those with the sort of all products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import context, footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.numbers import geometric_mean, interval_of_ratio, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS, Interval
from repro.studies.spgemm_amg.paper import PAPER as NAME
from repro.studies.spgemm_amg.paper import PRODUCTS, STUDY, ProductName
from repro.studies.spgemm_amg.printed import BEST, GPU, SET_UP, SHORT_LEAST, SHORT_MOST, stated, stated_range
from repro.studies.spgemm_amg.times import (
    COORDINATES,
    GALERKIN,
    HOST,
    OURS,
    PAPER,
    Method,
    ProblemTimes,
    Way,
    all_times,
    precision_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of the figure, and the share of it that bars fill.
ROW, FILLED = 0.32, 0.76
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


def _galerkin(way: Way) -> Number:
    def number(times: ProblemTimes) -> float | None:
        base, over = times.galerkin(COORDINATES), times.galerkin(way)
        return base / over if base and over else None

    return number


def _single(way: Way, product: ProductName) -> Number:
    return lambda times: ratio_of(times.product(product).time(COORDINATES), times.product(product).time(way))


def _set_up(label: str, colour: str, method: Method) -> Series:
    return Series(
        label,
        colour,
        lambda times: ratio_of(times.set_up("coordinates"), times.set_up(method)),
        lambda times: interval_of_ratio(times.set_up("coordinates"), times.set_up(method)),
    )


def _products(label: str, colour: str, way: Way) -> Series:
    return Series(label, colour, _galerkin(way), marks={product: _single(way, product) for product in GALERKIN})


PRODUCT_SERIES = (
    _products("the paper’s kernels", style.LIGHT, PAPER),
    _products("ours", style.DARK, OURS),
)
SET_UP_SERIES = (
    _set_up("the paper’s kernels", style.LIGHT, "sort"),
    _set_up("ours", style.DARK, "default"),
)


@figure(
    STUDY, "figure-6-1", title="Products and set-up over the sort of all products", numbering=f"Figure 6.1 of {NAME}"
)
def speedup(campaign: Campaign, published: Published) -> Figure:
    """A row a problem: products on the left, the set-up on the right."""
    cases = all_times(campaign, published)
    on_gpu = not campaign.on_cpu
    band = stated_range(published, SHORT_LEAST, SHORT_MOST)
    panels = (
        Panel(
            "the first level’s R·(A·P)",
            PRODUCT_SERIES,
            "products were not timed",
            _stated(published, BEST) if on_gpu else {},
            band if on_gpu else None,
            stated(published, BEST) if on_gpu else None,
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
        _published(published, on_gpu),
        context(campaign),
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(panels, cases, footnote(lines)), sentences(caption))


def _stated(published: Published, quantity: str) -> dict[str, float]:
    numbers = {name: stated(published, quantity, name) for name in published.problems}
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


def _published(published: Published, on_gpu: bool) -> str:
    """Return what the paper's text states; empty where nothing is published."""
    best, short = stated(published, BEST), stated_range(published, SHORT_LEAST, SHORT_MOST)
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


def draw(panels: Sequence[Panel], cases: Sequence[ProblemTimes], mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    mark
        What a mark at a name means; None where there is none.
    """
    if not any(series.number(case) for panel in panels for series in panel.series for case in cases):
        return style.empty("neither products nor set-ups were measured in this campaign")
    drawn = style.canvas(style.TEXT, style.height(len(cases), extra=1.2, per_row=ROW))
    names = [case.line.label for case in cases]
    for number, (panel, axes) in enumerate(zip(panels, drawn.subplots(1, len(panels)), strict=True)):
        missing = [_draw_row(axes, panel, at, case) for at, case in enumerate(cases)]
        if panel.band:
            axes.axvspan(*panel.band, color=style.BAND, zorder=0)
        if panel.best is not None:
            axes.axvline(panel.best, color=style.GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
        axes.axvline(1, color="black", linewidth=0.7, zorder=4)
        axes.set_xlim(left=0)
        axes.grid(axis="x")
        axes.set_xlabel("speedup over the sort of all products")
        style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
        axes.set_title(panel.title)
    handles = _handles(panels)
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.2, columnspacing=1.0)
    style.footnote(drawn, mark)
    return drawn


def _draw_row(axes: Axes, panel: Panel, at: int, case: ProblemTimes) -> str | None:
    """Draw the bars of a problem; return why there are none."""
    thickness, drawn = FILLED / len(panel.series), False
    for place, series in enumerate(panel.series):
        here = at + (place - (len(panel.series) - 1) / 2) * thickness
        number = series.number(case)
        if number is not None:
            drawn = True
            axes.barh(here, number, height=thickness, color=series.colour, linewidth=0, zorder=2)
            style.whisker(axes, series.sure(case), here)
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
        "marker": MARKS[product], "markersize": 3.2, "markerfacecolor": style.ACCENT, "markeredgecolor": "white",
        "markeredgewidth": 0.4, "linestyle": "", "zorder": 5,
    }  # fmt: skip


def _handles(panels: Sequence[Panel]) -> list[Patch | Line2D]:
    """Return what the legend of both panels has; their bars are the same two."""
    handles: list[Patch | Line2D] = [Patch(color=series.colour, label=series.label) for series in panels[0].series]
    handles += [Line2D([], [], label=f"{PRODUCTS[product]} alone", **_triangle(product)) for product in MARKS]
    if any(panel.diamonds for panel in panels):
        handles.append(Line2D([], [], label=f"published, {GPU}", **_DIAMOND))
    if any(panel.best is not None for panel in panels):
        dashes: dict[str, Any] = {"color": style.GREY, "linewidth": 0.7, "linestyle": (0, (4, 2))}
        handles.append(Line2D([], [], label="published best", **dashes))
    if any(panel.band for panel in panels):
        handles.append(Patch(color=style.BAND, label="published, rows ≤ 2,048"))
    return handles
