"""Conjugate gradients: time of an iteration over the bytes of the matrix; a line marks the size of shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, Method
from repro.results.columns import MICRO
from repro.results.problem_lines import join_sentences, measurement_note, remarks, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.compound_spmv import CONJUGATE_GRADIENTS, STUDY_NAME
from repro.studies.compound_spmv.results import (
    CHIP_CG,
    LIBRARY_CG,
    OUR_CG,
    Times,
    all_times,
    cases_of_conjugate_gradients,
)
from repro.studies.compound_spmv.tables.conjugate_gradients import how_solved, missing_problems_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D


MEGA = 1e6
MIB = 1 << 20


@dataclass(frozen=True)
class Series:
    """A series of points: its legend text, its role, and whether its marks are hollow."""

    label: str
    style: figure_style.Look
    hollow: bool = False

    def points(self, x: Sequence[float], y: Sequence[float]) -> Line2D:
        """Return marks of the series, also the legend's, for which there are no places."""
        return plotting.Line2D(
            x, y, linestyle="", marker=self.style.marker, markersize=4.2, markeredgewidth=0.9, label=self.label,
            markerfacecolor="white" if self.hollow else self.style.fill, markeredgecolor=self.style.colour, zorder=3,
        )  # fmt: skip


@figure(
    STUDY_NAME,
    "figure-conjugate-gradients",
    title="Conjugate gradients: the time of an iteration",
    numbering="ours",
    part=CONJUGATE_GRADIENTS,
)
def conjugate_gradients(campaign: Campaign, published: Published) -> Figure:
    """One panel per precision: solvers with the matrix kept on the chip, and with our and the library's products."""
    everything = all_times(campaign, published)
    cases = [case for case in cases_of_conjugate_gradients(everything) if case[CHIP_CG]]
    chip = max((time.row.chip_bytes or 0 for case in cases if (time := case[CHIP_CG])), default=0)
    caption = [
        "Time of an iteration over the bytes of the matrix as the solver on the chip stores it, both on logarithmic",
        f"axes: on the chip, and over the fastest of our products and of {library_of(campaign)}’s in a graph.",
        how_solved(campaign),
        f"The vertical line is what the multiprocessors’ shared memory holds, {chip / MIB:.0f} MiB; values that repeat"
        " let more of a matrix fit." if chip else "",
        "Hollow: a part of the matrix is kept there." if any(map(_is_partly_on_chip, cases)) else "",
        missing_problems_note(campaign, everything),
        measurement_note(campaign, "graph"),
        remarks([case.line for case in cases]),
        unavailable_note(campaign),
    ]  # fmt: skip
    library = library_of(campaign)
    return Figure(
        lambda: _draw(cases, campaign.precisions, library, chip),
        join_sentences(caption),
        is_empty=not cases,
        clock="graph",
    )


def _draw(cases: Sequence[Times], precisions: Sequence[str], library: str, chip: int) -> Canvas:
    if not cases:
        return figure_style.empty_canvas("conjugate gradients were not timed in this campaign")
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, 2.6)
    panels = drawing.subplots(1, len(precisions), sharex=True, sharey=True, squeeze=False)[0]
    series = {
        CHIP_CG: Series("ours, on the chip", figure_style.OURS),
        OUR_CG: Series("ours, products in a graph", figure_style.OURS._replace(marker="v"), hollow=True),
        LIBRARY_CG: Series(f"{library}, products in a graph", figure_style.LIBRARY),
    }
    partial_series = replace(series[CHIP_CG], label="ours, partly on the chip", hollow=True)
    for axes, precision in zip(panels, precisions, strict=True):
        for case in cases:
            if case.case.precision == precision:
                _draw_case(axes, case, series | {CHIP_CG: partial_series} if _is_partly_on_chip(case) else series)
        axes.set_xscale("log")
        axes.set_yscale("log")
        if chip:
            axes.axvline(chip / MEGA, color=figure_style.GREY, linewidth=0.8, linestyle=(0, (4, 2)))
        axes.set_title(f"{precision} precision")
        axes.set_xlabel("matrix [MB]")
        figure_style.log_ticks(axes.xaxis)
        figure_style.log_ticks(axes.yaxis)
        axes.grid()
    panels[0].set_ylabel("time of an iteration [µs]")
    handles = [line.points([], []) for line in series.values()]
    if any(map(_is_partly_on_chip, cases)):
        handles.insert(1, partial_series.points([], []))
    if chip:
        label = f"shared memory, {chip / MIB:.0f} MiB"
        handles.append(plotting.Line2D([], [], color=figure_style.GREY, linestyle=(0, (4, 2)), label=label))
    drawing.legend(handles=handles, loc="outside upper left", ncols=4, handletextpad=0.4, columnspacing=1.2)
    return drawing


def _is_partly_on_chip(case: Times) -> bool:
    """Return whether the device has memory on the chip for the matrix, but only a part of the matrix stays there."""
    chip = case[CHIP_CG]
    return chip is not None and bool(chip.row.chip_bytes) and (case.kept or 0) < 1


def _draw_case(axes: Axes, case: Times, series: Mapping[Method, Series]) -> None:
    """Draw the points of one problem in a panel, joined by a line."""
    chip = case[CHIP_CG]
    megabytes = (chip.row.matrix_bytes or 0) / MEGA if chip else 0
    solvers = (OUR_CG, LIBRARY_CG, CHIP_CG)  # drawn last, the solver on the chip covers others with equal times
    points = [(time.seconds * MICRO, series[solver]) for solver in solvers if (time := case.iteration(solver))]
    _draw_points(axes, megabytes, points)


def _draw_points(axes: Axes, x: float, points: Sequence[tuple[float, Series]]) -> None:
    """Draw the points of one problem (pairs of value and series) at the same x, joined by a line."""
    if len(points) > 1:
        values = [value for value, _ in points]
        ends = [min(values), max(values)]
        axes.plot([x, x], ends, color=figure_style.GREY, linewidth=0.5, alpha=0.6, zorder=1)
    for value, series in points:
        axes.add_line(series.points([x], [value]))
    axes.autoscale_view()
