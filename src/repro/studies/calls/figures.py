"""The figure of calls: a product's time over the entries of its matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.bench.user_calls import OURS
from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.problem_lines import join_sentences, measurement_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import MICRO, Figure
from repro.studies.calls import ARRAYS, STUDY_NAME
from repro.studies.calls.tables import PROTOCOLS, CallCase, absent_note, call_cases

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Height of the figure in inches.
HEIGHT = 2.9
NEW, OUT = "-", (0, (3, 1.5))
LIBRARIES = {"CuPy": (figure_style.LIBRARY.colour, "s"), "PyTorch": (figure_style.GREEN, "^"),
             "SciPy": (figure_style.PINK, "v")}  # fmt: skip


@dataclass(frozen=True)
class CallSeries:
    """A line: one library's calls with arrays of one library."""

    label: str
    colour: str
    marker: str
    dashes: Any
    arrays: str
    seconds: Callable[[CallCase, str], float | None]

    def points(self, cases: Sequence[CallCase], protocol: str) -> list[tuple[int, float]]:
        """Return entries and microseconds, in ascending order."""
        of_arrays = [case for case in cases if case.arrays == self.arrays]
        points = [(case.case.rows[0].entries, self.seconds(case, protocol)) for case in of_arrays]
        return sorted((entries, MICRO * seconds) for entries, seconds in points if entries and seconds)


def _seconds(library: str, result: str) -> Callable[[CallCase, str], float | None]:
    def seconds(case: CallCase, protocol: str) -> float | None:
        if protocol == "queued":
            return case.queued(library, result)
        time = case.time(library, result)
        return time.seconds if time else None

    return seconds


def _series(cases: Sequence[CallCase]) -> list[CallSeries]:
    """Return the lines: ours with arrays on the device, each library's own, and the kernel alone."""
    device = next((name for name in ("CuPy", "PyTorch", "own") if any(case.arrays == name for case in cases)), "NumPy")
    named = f"{device}’s arrays" if device in LIBRARIES else "own arrays" if device == "own" else "NumPy’s arrays"
    ours = figure_style.OURS
    series = [
        CallSeries(f"ours, {named}, new", ours.colour, ours.marker, NEW, device, _seconds(OURS, "new")),
        CallSeries(f"ours, {named}, out", ours.colour, ours.marker, OUT, device, _seconds(OURS, "out")),
    ]
    for arrays, library in ARRAYS.items():
        if library in LIBRARIES:
            colour, marker = LIBRARIES[library]
            series += [
                CallSeries(f"{library}, new", colour, marker, NEW, arrays, _seconds(library, "new")),
                CallSeries(f"{library}, out", colour, marker, OUT, arrays, _seconds(library, "out")),
            ]
    series.append(
        CallSeries(
            "our kernel alone", figure_style.GREY, "D", NEW, device,
            lambda case, protocol: case.kernel.seconds if case.kernel else None,
        )
    )  # fmt: skip
    return [item for item in series if item.points(cases, "waited")]


@figure(STUDY_NAME, "figure-calls", title="What a product’s call takes", numbering="ours")
def drawn(campaign: Campaign, published: Published) -> Figure:
    """Two panels, one for each protocol; real matrices in the last precision of the campaign."""
    precision = "double" if "double" in campaign.precisions else next(iter(campaign.precisions), "")
    cases = [
        case
        for case in call_cases(campaign, published)
        if case.function == "product" and case.case.precision == precision and case.line.entry == "real"
    ]
    series = _series(cases)

    def draw() -> Canvas:
        if not series:
            return figure_style.empty_canvas("no product was called in this campaign")
        drawing = figure_style.canvas(figure_style.TEXT_WIDTH, HEIGHT)
        first: Axes | None = None
        for number, protocol in enumerate(("queued", "waited")):
            axes = drawing.add_subplot(1, 2, number + 1, sharey=first)
            first = first or axes
            for item in series:
                points = item.points(cases, protocol)
                axes.plot(
                    *zip(*points, strict=True), color=item.colour, marker=item.marker, markersize=3.4, label=item.label,
                    linestyle=item.dashes, markeredgecolor="white", markeredgewidth=0.3,
                )  # fmt: skip
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title("queued, one wait at the end" if protocol == "queued" else "waited for")
            axes.set_xlabel("entries of the matrix")
            axes.grid()
        assert first is not None
        first.set_ylabel("µs of a call of A @ x")
        handles, labels = first.get_legend_handles_labels()
        drawing.legend(
            handles, labels, loc="outside upper left", ncols=figure_style.legend_columns(labels, 4), handlelength=2.2
        )
        return drawing

    caption = [
        f"Products of real matrices in {precision} precision: time of a call over the entries of the matrix.",
        PROTOCOLS,
        absent_note(campaign),
        measurement_note(campaign, "host"),
    ]
    return Figure(draw, join_sentences(caption), nothing=not series, clock="host")
