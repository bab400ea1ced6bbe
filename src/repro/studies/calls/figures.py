"""The figure of calls: the time of a product by the number of the matrix's entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.columns import MICRO
from repro.results.problem_lines import join_sentences, measurement_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure
from repro.studies.calls import LIBRARIES, OURS, STUDY_NAME
from repro.studies.calls.tables import PROTOCOL, CallCase, absent_note, call_cases

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: Height of the figure in inches.
HEIGHT = 2.9
DASHES = {"new": "-", "out": (0, (3, 1.5))}
MARKS = {
    OURS: (figure_style.OURS.colour, figure_style.OURS.marker),
    "CuPy": (figure_style.LIBRARY.colour, "s"),
    "PyTorch": (figure_style.GREEN, "^"),
    "SciPy": (figure_style.PINK, "v"),
}
Points = list[tuple[int, float]]


def _lines(cases: Sequence[CallCase]) -> Iterator[tuple[str, Points, dict[str, Any]]]:
    """Yield label, points (entries and microseconds) and style: ours with arrays of one library, each library's, and
    the kernel alone.
    """

    def points(arrays: str, seconds: Callable[[CallCase], float | None]) -> Points:
        pairs = ((case.entries, seconds(case)) for case in cases if case.arrays == arrays)
        return sorted((entries, MICRO * time) for entries, time in pairs if entries and time)

    def timed(library: str, result: str) -> Callable[[CallCase], float | None]:
        return lambda case: time.seconds if (time := case.time(library, result)) else None

    arrays = next((name for name in LIBRARIES if any(case.arrays == name for case in cases)), "")
    for whose, of in ((OURS, arrays), *((library, name) for name, library in LIBRARIES.items())):
        colour, marker = MARKS[whose]
        for result, dashes in DASHES.items():
            label = f"ours, {of}’s arrays, {result}" if whose == OURS else f"{whose}, {result}"
            yield label, points(of, timed(whose, result)), {"color": colour, "marker": marker, "linestyle": dashes}
    yield "our kernel alone", points(arrays, lambda case: case.kernel), {"color": figure_style.GREY, "marker": "D"}


@figure(STUDY_NAME, "figure-calls", title="Time of a product’s call", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """Products in the last precision of the campaign."""
    precision = campaign.precisions[-1] if campaign.precisions else "double"
    cases = [
        case
        for case in call_cases(campaign, published)
        if case.function == "product" and case.case.precision == precision
    ]
    lines = [line for line in _lines(cases) if line[1]]

    def draw() -> Canvas:
        if not lines:
            return figure_style.empty_canvas("no product was called in this campaign")
        drawing = figure_style.canvas(figure_style.TEXT_WIDTH, HEIGHT)
        axes = drawing.add_subplot()
        for label, points, style in lines:
            axes.plot(
                *zip(*points, strict=True), label=label, markersize=3.4, markeredgecolor="white", markeredgewidth=0.3,
                **style,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("entries of the matrix")
        axes.set_ylabel("µs of a call of A @ x")
        axes.grid()
        handles, labels = axes.get_legend_handles_labels()
        columns = figure_style.legend_columns(labels)
        drawing.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=2.2)
        return drawing

    caption = [
        f"Products in {precision} precision: time of a call over the entries of the matrix.",
        PROTOCOL,
        "Kernel alone: by the graph clock.",
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    return Figure(draw, join_sentences(caption), is_empty=not lines, clock="host")
