"""GFLOPS of every way and every routine: a panel a product, a row a problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.times import library_of
from repro.studies.spgemm_amg.paper import PRODUCTS, STUDY, ProductName
from repro.studies.spgemm_amg.times import (
    COORDINATES,
    HOST,
    ONE,
    ONE_TUNED,
    PAPER,
    TWO_TUNED,
    WAYS,
    ProblemTimes,
    Way,
    all_times,
    precision_of,
    routines_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Inches of a row of the figure, and the share of it that marks are spread over, so that equal ones are seen.
ROW, SPREAD = 0.34, 0.56
#: Colour and marker of our ways; routines of the library take the markers below in turns.
LOOKS = {
    COORDINATES.key: (style.GREY, "o"),
    PAPER.key: (style.PINK, "s"),
    ONE.key: (style.MIDDLE, "d"),
    ONE_TUNED.key: (style.DARK, "D"),
    TWO_TUNED.key: (style.GREEN, "h"),
}
ROUTINE_MARKERS = ("<", ">", "^", "v", "P", "X")


@figure(STUDY, "figure-gflops", title="GFLOPS of the products", numbering="ours")
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
        measured_on(campaign, HOST),
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(cases, library, footnote(lines)), sentences(caption))


def draw(cases: Sequence[ProblemTimes], library: str, mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    library
        The name of the library.
    mark
        What a mark at a name means; None where there is none.
    """
    routines = routines_of([times for case in cases for times in case.products])
    shown = [way for way in (*WAYS, *routines) if any(_timed(case, name, way) for case in cases for name in PRODUCTS)]
    if not shown:
        return style.empty("no product was measured in this campaign")
    looks = LOOKS | {
        way.key: (style.ACCENT, ROUTINE_MARKERS[place % len(ROUTINE_MARKERS)]) for place, way in enumerate(routines)
    }
    drawn = style.canvas(style.TEXT, style.height(len(cases), extra=1.15, per_row=ROW))
    names = [case.line.label for case in cases]
    panels = drawn.subplots(1, len(PRODUCTS))
    for number, (product, axes) in enumerate(zip(PRODUCTS, panels, strict=True)):
        missing = [_draw_row(axes, at, case, product, shown, looks) for at, case in enumerate(cases)]
        axes.set_xscale("log")
        style.log_ticks(axes.xaxis, (1, 3))
        axes.grid(axis="both")
        axes.set_title(PRODUCTS[product])
        axes.set_xlabel("GFLOPS: 2 × products / time")
        style.rows_axis(axes, names if number == 0 else [""] * len(names), missing=missing)
    titles = {way.key: f"{library} {way.title}" for way in routines}
    handles = [Line2D([], [], label=titles.get(way.key, way.title), **_look(*looks[way.key])) for way in shown]
    across = -(-len(handles) // 2) if len(handles) > len(LOOKS) + 1 else len(handles)
    drawn.legend(handles=handles, loc="outside upper left", ncols=across, handlelength=1.0, columnspacing=1.4)
    style.footnote(drawn, mark)
    return drawn


def _draw_row(
    axes: Axes,
    at: int,
    case: ProblemTimes,
    product: ProductName,
    shown: Sequence[Way],
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
    axes.plot([min(rates.values()), max(rates.values())], [at, at], color=style.PALE, linewidth=0.8, zorder=2)
    for place, way in enumerate(shown):
        if way.key in rates:
            here = at + SPREAD * (place / max(len(shown) - 1, 1) - 0.5)
            axes.plot([rates[way.key]], [here], **_look(*looks[way.key]))
    return None


def _timed(case: ProblemTimes, product: ProductName, way: Way) -> bool:
    return case.product(product).time(way) is not None


def _look(colour: str, marker: str) -> dict[str, Any]:
    return {
        "color": colour, "marker": marker, "markersize": 3.8, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "linestyle": "", "zorder": 3,
    }  # fmt: skip
