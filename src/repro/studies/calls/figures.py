"""The figure of calls: the time of a product by the number of the matrix's entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.columns import MICRO
from repro.results.figure_forms import Axis, Curve, Curves, Dashes, Pen, figure_of
from repro.results.problem_lines import measurement_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure
from repro.studies.calls import LIBRARIES, OURS, STUDY_NAME
from repro.studies.calls.tables import PROTOCOL, CallCase, absent_note, call_cases

PENS = {
    OURS: Pen(figure_style.OURS.colour, figure_style.OURS.marker, "-"),
    "CuPy": Pen(figure_style.LIBRARY.colour, "s", "-"),
    "PyTorch": Pen(figure_style.GREEN, "^", "-"),
    "SciPy": Pen(figure_style.PINK, "v", "-"),
}
RESULTS: Mapping[str, Dashes] = {"new": "-", "out": (0, (3, 1.5))}


def call_curves(cases: Sequence[CallCase]) -> list[Curve]:
    """Return microseconds over entries: ours with arrays of one library, each library's, and the kernel alone."""

    def points(arrays: str, seconds: Callable[[CallCase], float | None]) -> list[tuple[float, float]]:
        pairs = ((case.entries, seconds(case)) for case in cases if case.arrays == arrays)
        return sorted((entries, MICRO * time) for entries, time in pairs if entries and time)

    def timed(library: str, result: str) -> Callable[[CallCase], float | None]:
        return lambda case: time.seconds if (time := case.time(library, result)) else None

    arrays = next((name for name in LIBRARIES if any(case.arrays == name for case in cases)), "")
    callers = {
        f"ours, {arrays}’s arrays": (OURS, arrays),
        **{library: (library, name) for name, library in LIBRARIES.items()},
    }
    curves = [
        Curve(f"{label}, {result}", PENS[whose]._replace(dashes=dashes, size=3.4), points(of, timed(whose, result)))
        for label, (whose, of) in callers.items()
        for result, dashes in RESULTS.items()
    ]
    kernel = points(arrays, lambda case: case.kernel)
    return [*curves, Curve("our kernel alone", Pen(figure_style.GREY, "D", "-", size=3.4), kernel)]


@figure(STUDY_NAME, "figure-calls", title="Time of a product’s call", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """Products in the last precision of the campaign."""
    precision = campaign.precisions[-1] if campaign.precisions else "double"
    cases = [
        case
        for case in call_cases(campaign, published)
        if case.function == "product" and case.case.precision == precision
    ]
    axes = Axis("entries of the matrix", "log"), Axis("µs of a call of A @ x", "log")
    panel = Curves(call_curves(cases), *axes, height=2.1)
    caption = [
        f"Products in {precision} precision: time of a call, against the number of entries of the matrix.",
        PROTOCOL,
        "Kernel alone is timed by the graph clock.",
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    empty = "no product was called in this campaign"
    return figure_of([panel], empty, caption, is_empty=panel.is_empty, clock="host")
