"""Matrices and performance: row statistics, speedup over the library, and conjugate gradients.

Figures 3 and 4 are box plots of row lengths and of bandwidths. The last figure has the time of an iteration over the
bytes of the matrix; a line marks the size of shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Method, brief_reason
from repro.results.columns import MICRO
from repro.results.figure_forms import DASHED, UNITY, Axis, Curve, Curves, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Boxes, Marks, Row, Rows, ratio_bars
from repro.results.figure_style import COLUMN_WIDTH, GREEN, GREY
from repro.results.problem_lines import (
    ProblemLine,
    mark_meanings,
    measurement_note,
    recorded_lines,
    remarks,
    unavailable_note,
    unconfirmed_note,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, geometric_mean, ratio_of
from repro.results.tables import Figure
from repro.sparse.tuning_features import library_of
from repro.studies.compound_spmv import CITED, CONJUGATE_GRADIENTS, STUDY_NAME
from repro.studies.compound_spmv.results import (
    CHIP_CG,
    ENTRY_WORDS,
    FLOOR,
    LIBRARY,
    LIBRARY_CG,
    OUR_CG,
    OURS,
    PAPERS,
    Times,
    all_times,
    cases_of_conjugate_gradients,
    kernels_note,
    papers_space,
)
from repro.studies.compound_spmv.tables.conjugate_gradients import how_solved, missing_problems_note
from repro.words import PAPER, PAPER_TUNED

BOX = "Boxes are quartiles with the median, whiskers the minimum and maximum."


@figure(STUDY_NAME, "figure-3", title="Row lengths", numbering=f"Figure 3 of {CITED}")
def row_lengths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the number of entries per row, on a logarithmic axis."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Row lengths (entries per row) of each matrix, on a logarithmic axis; empty rows are drawn at 0.",
        BOX,
        f"Figure 3 of {CITED} prints no values; these are ours and do not depend on the device.",
        remarks(lines),
        unavailable_note(campaign),
    ]
    return _box_figure(lines, "row_length", "entries in a row", caption)


@figure(STUDY_NAME, "figure-4", title="Bandwidths", numbering=f"Figure 4 of {CITED}")
def bandwidths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the matrix bandwidth of a row, in percent of the number of columns."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Bandwidth of each matrix’s rows: largest minus smallest column index, as a percentage of the number",
        f"of columns (equation 3 of {CITED}).",
        BOX,
        f"Figure 4 of {CITED} prints no values; these are ours and do not depend on the device.",
        remarks(lines),
        unavailable_note(campaign),
    ]
    return _box_figure(lines, "bandwidth_percent", "bandwidth of a row [% of n]", caption, percent=True)


def _box_figure(
    lines: Sequence[ProblemLine], key: str, unit: str, caption: Sequence[str], *, percent: bool = False
) -> Figure:
    def quartiles(line: ProblemLine) -> dict[str, float] | None:
        return (line.record.statistics or {}).get(key) if line.record else None

    has_zero = any(box["min"] < 1 for line in lines if (box := quartiles(line)))  # which a logarithm has not
    panel = Rows(
        [Row(line.label, [line], reason="no statistics" if line.is_available else "unavailable") for line in lines],
        unit,
        [Boxes(quartiles)],
        scale="linear" if percent else "symlog" if has_zero else "log",
        within=(0, 100) if percent else (0.8,),
        row_height=0.17,
    )
    empty = "no problem was built in this campaign"
    return figure_of([panel], empty, caption, width=COLUMN_WIDTH, mark=mark_meanings(lines))


def over(base: Method, kernel: Method) -> Callable[[Times], float | None]:
    """Return a function for the speedup of a kernel over another."""
    return lambda case: ratio_of(case[base], case[kernel])


def bars_over_library(label: str, colour: str, kernel: Method, head: str | None = None) -> Bars[Times]:
    """Return bars of a kernel's speedup over the library's fastest routine."""
    return ratio_bars(label, colour, lambda case: (case[LIBRARY], case[kernel]), head=head)


MEAN = "geometric mean"
#: Legend text of the winner of each space of the papers' kernels.
PAPERS_WORDS = {PAPER: figure_style.PAPERS.label, PAPER_TUNED: f"{figure_style.PAPERS.label}, tuned further"}


def speedup_rows(cases: Sequence[Times]) -> list[Row[Times]]:
    """Return the rows of one precision; with several entry types, each has a heading; the last row is the mean."""
    by_entry = {entry: [*group] for entry, group in groupby(cases, key=lambda case: case.line.entry)}
    rows: list[Row[Times]] = []
    for entry, group in by_entry.items():
        if len(by_entry) > 1:
            rows.append(Row(f"{ENTRY_WORDS.get(entry, entry)} entries"))
        rows += [
            Row(case.line.label, [case], reason=_missing_reason(case), has_star=case.is_mostly_launch) for case in group
        ]
    return [*rows, Row(MEAN, cases, geometric_mean)] if cases else []


def _missing_reason(case: Times) -> str:
    return brief_reason(case.case.why_not()) if case[PAPERS] is None else "no routine of the library was timed"


@figure(STUDY_NAME, "figure-speedup", title="Speedup over the fastest routine of the library", numbering="ours")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over the library: one panel for each precision, one row for each problem."""
    lines = recorded_lines(campaign, published)
    cases = all_times(campaign, published)
    library = library_of(campaign)
    extended = any(case[OURS] for case in cases)
    ours = bars_over_library(figure_style.OURS.label, figure_style.OURS.fill, OURS, figure_style.OURS.label)
    papers = bars_over_library(PAPERS_WORDS[papers_space(campaign)], figure_style.PAPERS.fill, PAPERS, "papers’")
    floor = Marks("floor of CSR’s bytes (pairs need fewer)", Pen(GREEN, "|", size=7, zorder=4), over(LIBRARY, FLOOR))
    panels = [
        Rows(
            speedup_rows([case for case in cases if case.case.precision == precision]),
            f"speedup over the fastest {library} routine",
            [ours, papers],
            [floor],
            f"{precision} precision",
            [Reference(1, f"as fast as {library}", UNITY)],
        )
        for precision in campaign.precisions
    ]
    panels = [replace(panel, right=max(panel.end for panel in panels)) for panel in panels]
    summaries = []
    for precision in campaign.precisions:
        of_precision = [case for case in cases if case.case.precision == precision]
        speedups = [value for case in of_precision if (value := ours.number(case) or papers.number(case))]
        best = geometric_mean(map(ours.number, of_precision)) or geometric_mean(map(papers.number, of_precision))
        if best:
            space_text = "ours" if extended else "the papers’"
            summaries.append(
                f"{precision}: {best:.2f}× ({space_text}; from {min(speedups):.2f} to {max(speedups):.2f}×)"
            )
    marked_count = sum(row.has_star for panel in panels for row in panel.rows)
    caption = [
        f"Speedup over the fastest {library} routine of any representation:",
        "our winner (dark bars, and numbers) and the winner of the papers’ kernels (light bars)." if extended
        else "the winner of the papers’ kernels (light bars, and numbers); the space `extended` was not searched.",
        "The mark shows the streaming floor, which reads the bytes of CSR-AoS. Kernels that need fewer bytes, or find",
        "them in the cache, can exceed it.",
        WHISKERS if any(bars.interval(case) for bars in (ours, papers) for case in cases) else "",
        f"Geometric means: {'; '.join(summaries)}." if summaries else "",
        unconfirmed_note((case.case, case[OURS], case[PAPERS]) for case in cases),
        "The papers print none of these numbers.",
        kernels_note(campaign),
        measurement_note(campaign, "graph"),
        f"In {marked_count} cases (marked *) a time is mostly launch overhead." if marked_count else "",
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    mark = mark_meanings(lines, launched=marked_count > 0)
    return figure_of(panels, "nothing was measured in this campaign", caption, clock="graph", mark=mark)


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
        "Time of an iteration, against the bytes of the matrix as the solver on the chip stores it, on logarithmic",
        f"axes: on the chip, and in a graph with our fastest product and with {library_of(campaign)}’s.",
        how_solved(campaign),
        f"The vertical line marks the size of the multiprocessors’ shared memory, {chip / MIB:.0f} MiB; larger matrices"
        " fit if values repeat." if chip else "",
        "Hollow marks: only a part of the matrix stays there." if any(map(_is_partly_on_chip, cases)) else "",
        missing_problems_note(everything),
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
    of_library = Pen(figure_style.LIBRARY.colour, figure_style.LIBRARY.marker, size=4.2)
    # where times are equal, the solver on the chip covers others
    on_chip = Pen(figure_style.OURS.colour, figure_style.OURS.marker, size=4.2, zorder=3.5)
    curves = [
        Curve(label, pen, [(_megabytes(case), MICRO * time.seconds) for case in of if (time := case.iteration(solver))])
        for label, pen, solver, of in (
            ("ours, on the chip", on_chip, CHIP_CG, whole),
            ("ours, partly on the chip", on_chip._replace(is_hollow=True), CHIP_CG, partly),
            ("ours, products in a graph", Pen(figure_style.OURS.colour, "v", is_hollow=True, size=4.2), OUR_CG, cases),
            (f"{library}, products in a graph", of_library, LIBRARY_CG, cases),
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
