"""Conjugate gradients: time of an iteration over the bytes of the matrix; a line marks the size of shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from repro.results.campaign_data import Campaign
from repro.results.columns import MICRO
from repro.results.figure_forms import DASHED, Axis, Curve, Curves, Pen, Reference, figure_of
from repro.results.figure_style import GREY, LIBRARY, OURS
from repro.results.problem_lines import measurement_note, remarks, unavailable_note
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

MEGA = 1e6
MIB = 1 << 20


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
    line = Reference(chip / MEGA, f"shared memory, {chip / MIB:.0f} MiB", Pen(GREY, dashes=DASHED))
    panels = [
        Curves(
            _curves([case for case in cases if case.case.precision == precision], library_of(campaign)),
            Axis("matrix [MB]", "log"),
            Axis("time of an iteration [µs]", "log"),
            f"{precision} precision",
            uprights=[line] if chip else [],
            height=2.1,
        )
        for precision in campaign.precisions
    ]
    empty = "conjugate gradients were not timed in this campaign"
    return figure_of(panels, empty, caption, is_empty=not cases, clock="graph", is_shared=True)


def _curves(cases: Sequence[Times], library: str) -> list[Curve]:
    """Return the points of each solver, and lines that join the points of each problem."""
    whole = [case for case in cases if not _is_partly_on_chip(case)]
    partly = [case for case in cases if _is_partly_on_chip(case)]
    # where times are equal, the solver on the chip covers others
    on_chip = Pen(OURS.colour, OURS.marker, size=4.2, zorder=3.5)
    curves = [
        Curve(label, pen, [(_megabytes(case), MICRO * time.seconds) for case in of if (time := case.iteration(solver))])
        for label, pen, solver, of in (
            ("ours, on the chip", on_chip, CHIP_CG, whole),
            ("ours, partly on the chip", on_chip._replace(is_hollow=True), CHIP_CG, partly),
            ("ours, products in a graph", Pen(OURS.colour, "v", is_hollow=True, size=4.2), OUR_CG, cases),
            (f"{library}, products in a graph", Pen(LIBRARY.colour, LIBRARY.marker, size=4.2), LIBRARY_CG, cases),
        )
    ]
    for case in cases:
        times = [MICRO * time.seconds for solver in (CHIP_CG, OUR_CG, LIBRARY_CG) if (time := case.iteration(solver))]
        ends = [(_megabytes(case), end) for end in (min(times), max(times))]
        curves.append(Curve("", Pen(GREY, dashes="-", width=0.3, zorder=1), ends))
    return curves


def _megabytes(case: Times) -> float:
    """Return the size of the matrix as the solver on the chip stores it."""
    chip = case[CHIP_CG]
    return (chip.row.matrix_bytes or 0) / MEGA if chip else 0.0


def _is_partly_on_chip(case: Times) -> bool:
    """Return whether the device has memory on the chip for the matrix, but only a part of the matrix stays there."""
    chip = case[CHIP_CG]
    return chip is not None and bool(chip.row.chip_bytes) and (case.kept or 0) < 1
