"""Figures: row statistics, speedup over the library, conjugate gradients, and losses of winners and searches.

Figures 3 and 4 are box plots of row lengths and of bandwidths. The figure of conjugate gradients has the time of an
iteration over the bytes of the matrix; a line marks the size of shared memory. Losses in percent are rows of dots, a
row for each device, a dot for each problem in one precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from repro.results import figure_style
from repro.results.campaign_data import Campaign, Method, brief_reason
from repro.results.columns import MICRO
from repro.results.cross_campaign import campaign_label, conflict_note, others_note
from repro.results.figure_forms import DASHED, UNITY, Axis, Curve, Curves, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Boxes, Marks, Row, Rows, ratio_bars
from repro.results.figure_style import COLUMN_WIDTH, GREEN, GREY, PRECISIONS, TEXT_WIDTH
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
from repro.studies.compound_spmv.searches import SPACE_TITLES, replayed_searches, transfers
from repro.studies.compound_spmv.tables.conjugate_gradients import how_solved, missing_problems_note
from repro.studies.compound_spmv.tables.search import (
    BUDGET,
    JUDGED,
)
from repro.tuning.strategies import SEEDS, Array, Evaluation, sample_note
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


Losses = Mapping[str, Sequence[float]]


def loss_panel(rows: Mapping[str, Losses], unit: str) -> Rows[Losses]:
    """Return losses in percent, given by row name and precision, as dots, and a bar at the median.

    The axis is linear up to 1 % and logarithmic beyond.
    """

    def dots(precision: str, colour: str, marker: str) -> list[Marks[Losses]]:
        def median(losses: Losses) -> float | None:
            return float(np.median(values)) if (values := losses.get(precision)) else None

        return [
            Marks(precision, Pen(colour, marker, size=2.6), lambda losses: losses.get(precision), "apart", spread=0.2),
            Marks(f"median, {precision}", Pen(colour, "|", size=7), median, precision, has_key=False),
        ]

    marks = [series for precision, look in PRECISIONS.items() for series in dots(precision, *look)]
    return Rows(
        [Row(name, [losses]) for name, losses in rows.items()], unit, marks=marks, scale="symlog", row_height=0.36
    )


@figure(STUDY_NAME, "figure-portability", title="Winners of one GPU on another", numbering="ours", needs="beside")
def portability(campaign: Campaign, published: Published) -> Figure:
    """For each campaign in `beside`: losses of its winners on this campaign's device, and of our winners on its own."""
    rows: dict[str, dict[str, list[float]]] = {}
    for reference in campaign.beside:
        cases = [*transfers(campaign, reference).values()]
        own_label, reference_label = campaign_label(campaign, campaign), campaign_label(campaign, reference)
        rows[f"won on {reference_label},\nrun on {own_label}"] = _losses_by_precision(
            (journey.precision, journey.loss_here) for journey in cases
        )
        rows[f"won on {own_label},\nrun on {reference_label}"] = _losses_by_precision(
            (journey.precision, journey.loss_there) for journey in cases
        )
    rows = {name: losses for name, losses in rows.items() if losses}
    caption = [
        "How much slower, in percent, one device’s winner is on another device than the fastest variant there, as in",
        "table-portability. A dot is a problem in one precision, a bar the median of a precision. The axis is linear",
        "up to 1 % and logarithmic beyond.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        others_note(campaign),
        conflict_note(campaign),
    ]
    panel, empty = loss_panel(rows, "slower than the fastest [%]"), "no case was searched in two campaigns"
    return figure_of(
        [panel],
        empty,
        caption,
        clock="event",
        campaigns=(campaign.name, *(reference.name for reference in campaign.beside)),
        width=COLUMN_WIDTH,
    )


def _losses_by_precision(losses: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    """Return losses in percent by precision, from (precision, relative loss) pairs; missing losses are omitted."""
    percent_losses: dict[str, list[float]] = {}
    for precision, loss in losses:
        if loss is not None:
            percent_losses.setdefault(precision, []).append(100 * loss)
    return percent_losses


#: Label and look of each search: learned without this problem, without problems of its entry type, or random.
LOOKS = {
    "problem_unknown": ("learnt from other problems", Pen(figure_style.VIOLET, "o", "-", size=3, width=1.2)),
    "entry_unknown": ("learnt from other entries", Pen(figure_style.PINK, "s", "-", size=3, width=1.2)),
    "random": ("random", Pen(GREY, "^", "-", size=3, width=1.2)),
}
#: Number of markers on a line.
MARKS = 8
LIMIT = 60.0  # upper end of the axis in percent, since the first variants of a search can be arbitrarily slow


@figure(
    STUDY_NAME, "figure-predicted", title="Loss of a search over the variants that it has measured", numbering="ours"
)
def progress(campaign: Campaign, published: Published) -> Figure:
    """Median and worst loss over all problems and precisions, over the number of measured variants."""
    replays_by_space = {space: replayed_searches(campaign, space, BUDGET) for space in SPACE_TITLES}
    replays_by_space = {space: replays for space, replays in replays_by_space.items() if replays}
    cases = ", ".join(f"{len(replays)} cases in {SPACE_TITLES[space]}" for space, replays in replays_by_space.items())
    panel_replays = {
        space: replays
        for space, replays in replays_by_space.items()
        if _step_count(replays) > 1 and _has_losses(replays)
    }
    one_step_spaces = [SPACE_TITLES[space] for space, replays in replays_by_space.items() if _step_count(replays) <= 1]
    empty_spaces = [
        SPACE_TITLES[space]
        for space, replays in replays_by_space.items()
        if _step_count(replays) > 1 and space not in panel_replays
    ]
    caption = [
        "How much slower, in percent, the fastest variant found so far is than the fastest of the exhaustive search,",
        f"against the number of measured variants: median (solid) and worst (dashed) of all cases ({cases}).",
        f"The axis ends at {LIMIT:g} %: the first variants of a search can be arbitrarily slow.",
        "The predicted search learns from the other problems of the campaign, or only from those of other entries;",
        f"random is the mean over {SEEDS} samples.",
        f"Not drawn, as all losses exceed {LIMIT:g} %: {' and '.join(empty_spaces)}." if empty_spaces else "",
        f"Not drawn, as the budget is one variant: {' and '.join(one_step_spaces)}." if one_step_spaces else "",
        sample_note(replays_by_space.values()),
        measurement_note(campaign, "event", "the search"),
    ]
    last_step = max(map(_step_count, panel_replays.values()), default=0)
    has_title = len(panel_replays) > 1
    panels = [
        _curve_panel(replays, SPACE_TITLES[space] * has_title, last_step) for space, replays in panel_replays.items()
    ]
    keys = {label: pen for panel in panels for label, pen in panel.keys.items()}
    keys |= {"median": Pen(GREY, dashes="-"), "worst": Pen(GREY, dashes="--")}
    reason = _missing_panel_reason(replays_by_space, empty_spaces)
    width = TEXT_WIDTH if has_title else COLUMN_WIDTH
    return figure_of(panels, reason, caption, clock="event", width=width, is_shared=True, keys=keys)


def _missing_panel_reason(replays_by_space: Mapping[str, Sequence[Evaluation]], empty_spaces: Sequence[str]) -> str:
    if empty_spaces:
        return f"every loss is above {LIMIT:g} %"
    return "the budget is one variant" if replays_by_space else "no problem of this campaign was searched in full"


def _step_count(replays: Sequence[Evaluation]) -> int:
    """Return the number of measured variants of the longest curve."""
    return max((losses.shape[1] for key in LOOKS if (losses := curves(replays, key)) is not None), default=0)


def _has_losses(replays: Sequence[Evaluation]) -> bool:
    """Return whether the median loss of a strategy ends below `LIMIT`, so that a panel shows it. Losses never rise."""
    return any(
        losses is not None and np.median(losses[:, -1]) < LIMIT for losses in (curves(replays, key) for key in LOOKS)
    )


def curves(replays: Sequence[Evaluation], key: str) -> Array | None:
    """Return the losses in percent of all cases after each measured variant, `(cases, tried)`; None if none."""
    losses = [curve for evaluation in replays if (curve := JUDGED[key][1](evaluation)) is not None]
    step_count = min((len(curve) for curve in losses), default=0)
    return 100 * np.array([curve[:step_count] for curve in losses]) if step_count else None


def _curve_panel(replays: Sequence[Evaluation], title: str, last_step: int) -> Curves:
    drawn = []
    for key, (label, pen) in LOOKS.items():
        losses = curves(replays, key)
        if losses is not None:
            stride = -(-losses.shape[1] // MARKS)
            steps = range(1, losses.shape[1] + 1)
            for word, dashed, numbers in (
                ("", pen, np.median(losses, axis=0)),
                (", worst", pen._replace(dashes="--", width=0.8), losses.max(axis=0)),
            ):
                points = [*zip(steps, numbers.tolist(), strict=True)]
                drawn.append(Curve(label + word, dashed, points, mark_every=stride, has_key=not word))
    y_label = "slower than the fastest of\nthe exhaustive search [%]"
    x = Axis("variants measured", limits=(0.5, last_step + 0.5), is_count=True)
    return Curves(drawn, x, Axis(y_label, limits=(0, LIMIT)), title, height=2.1)
