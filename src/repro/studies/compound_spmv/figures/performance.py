"""Matrices and performance: row statistics, and speedup over the library.

Figures 3 and 4 are box plots of row lengths and of bandwidths. Figures 5 and 6 are speedups over the library with and
without layout tuning; `figure-speedup` adds ours and the speedup of a kernel at the streaming floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from repro.results.campaign_data import Campaign, Case, Method, brief_reason
from repro.results.figure_forms import UNITY, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Boxes, Marks, Row, Rows, ratio_bars
from repro.results.figure_style import COLUMN_WIDTH, DIAMOND, GREEN
from repro.results.figure_style import LIBRARY as LIBRARY_LOOK
from repro.results.figure_style import OURS as OUR_LOOK
from repro.results.figure_style import PAPERS as PAPERS_LOOK
from repro.results.problem_lines import (
    ProblemLine,
    launch_note,
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
from repro.studies.compound_spmv import CITED, STUDY_NAME
from repro.studies.compound_spmv.results import (
    ENTRY_WORDS,
    FLOOR,
    LIBRARY,
    OURS,
    PAPERS,
    PAPERS_CHOICE,
    SCHEDULE,
    Times,
    all_times,
    clock_note,
    kernels_note,
    papers_space,
)
from repro.words import PAPER, PAPER_TUNED

BOX = "Boxes are quartiles with the median, whiskers the minimum and maximum."


@figure(STUDY_NAME, "figure-3", title="Row lengths", numbering=f"Figure 3 of {CITED}")
def row_lengths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the number of entries per row, on a logarithmic axis."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Row lengths (entries in a row) of each matrix, on a logarithmic axis; empty rows are drawn at 0.",
        BOX,
        f"Figure 3 of {CITED} prints no values; what is drawn is ours and does not depend on the device.",
        remarks(lines),
        unavailable_note(campaign),
    ]
    return _box_figure(lines, "row_length", "entries in a row", caption)


@figure(STUDY_NAME, "figure-4", title="Bandwidths", numbering=f"Figure 4 of {CITED}")
def bandwidths(campaign: Campaign, published: Published) -> Figure:
    """Box plots of the matrix bandwidth of a row, in percent of the number of columns."""
    lines = recorded_lines(campaign, published)
    caption = [
        "Bandwidth of the rows of each matrix: largest minus smallest column index, in percent of the number",
        f"of columns (equation 3 of {CITED}).",
        BOX,
        f"Figure 4 of {CITED} prints no values; what is drawn is ours and does not depend on the device.",
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


NUMBERS = {5: "single", 6: "double"}
EMPTY = "nothing was measured in this campaign"


def over(base: Method, kernel: Method) -> Callable[[Times], float | None]:
    """Return a function for the speedup of a kernel over another."""
    return lambda case: ratio_of(case[base], case[kernel])


def bars_over_library(label: str, colour: str, kernel: Method, head: str | None = None) -> Bars[Times]:
    """Return bars of a kernel's speedup over the library's fastest routine."""
    return ratio_bars(label, colour, lambda case: (case[LIBRARY], case[kernel]), head=head)


def baseline_rows(campaign: Campaign, published: Published, precision: str) -> list[Row[Times]]:
    """Return a row for every problem of the campaign, with times by the event clock."""

    def row(line: ProblemLine) -> Row[Times]:
        case = Times(line, Case(campaign, line.problem, precision), "event")
        joint, others = case[PAPERS], (case[SCHEDULE], case[LIBRARY], case[PAPERS_CHOICE])
        reason = brief_reason(case.case.why_not()) if joint is None else f"no {library_of(campaign)} routine was timed"
        is_mostly_launch = bool(joint) and case.case.is_mostly_launch("event", joint, *others)
        return Row(line.label, [case], reason=reason, has_star=is_mostly_launch)

    return [row(line) for line in recorded_lines(campaign, published)]


def _baseline_figure(campaign: Campaign, published: Published, number: int) -> Figure:
    precision = NUMBERS[number]
    lines, rows = recorded_lines(campaign, published), baseline_rows(campaign, published, precision)
    cases = [row.cases[0] for row in rows]
    published_max = published.quantity("largest speedup over cuSPARSE", precision)
    library = library_of(campaign)
    tuned = bars_over_library("papers’, layouts tuned too", PAPERS_LOOK.colour, PAPERS, "tuned")
    pen = Pen(LIBRARY_LOOK.colour, "D", is_hollow=True, size=3.6, zorder=4)
    diamonds = Marks("over the papers’ routine", pen, over(PAPERS_CHOICE, PAPERS), head=DIAMOND)
    references = [Reference(1, pen=UNITY)]
    if not campaign.on_cpu:
        references.append(Reference(float(published_max), f"published max. {float(published_max)}×"))
    panel = Rows(
        rows,
        f"speedup over {library}, {precision} precision",
        [tuned, bars_over_library("papers’, schedules alone", PAPERS_LOOK.fill, SCHEDULE)],
        [diamonds],
        references=references,
        columns=2,
        row_height=0.24,
    )
    speedups = {case.line.problem: value for case in cases if (value := tuned.number(case))}
    best = max(speedups, key=speedups.__getitem__, default="")
    noisy = sum(any(time.noisy for time in (case[PAPERS], case[LIBRARY]) if time) for case in cases)
    caption = [
        f"Speedup over {library} in {precision} precision with (dark, and in numbers at the right) and without",
        "(light) layout tuning.",
        f"The baseline is the fastest of all {library} routines and representations;"
        + (" diamonds, and the second numbers, compare the tuned kernel with the routine that the papers used."
           if any(map(diamonds.number, cases)) else " the papers’ own choice was not timed."),
        f"Figure {number} of {CITED} prints no values; the published maximum over cuSPARSE on its GPUs is",
        f"{published_max}×"
        + (", which no CPU speedup is compared with." if campaign.on_cpu
           else " (dashed), over the papers’ routine: the diamonds are its counterpart, on another GPU."),
        WHISKERS if any(map(tuned.interval, cases)) else "",
        f"Our largest: {speedups[best]:.2f}× ({best})." if best else "",
        kernels_note(campaign),
        clock_note(campaign),
        launch_note(sum(row.has_star for row in rows), len(speedups)).replace(
            ": marked.", " (marked *)."
        ),
        f"Noisy times take part in {noisy} of them." if noisy else "",
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    mark = mark_meanings(lines, launched=any(row.has_star for row in rows))
    return figure_of([panel], EMPTY, caption, clock="event", width=COLUMN_WIDTH, mark=mark)


def _register(number: int) -> None:
    precision = NUMBERS[number]

    @figure(
        STUDY_NAME,
        f"figure-{number}",
        title=f"Speedup over the library, {precision} precision",
        numbering=f"Figure {number} of {CITED}",
    )
    def make(campaign: Campaign, published: Published) -> Figure:
        return _baseline_figure(campaign, published, number)


for _number in NUMBERS:
    _register(_number)


MEAN = "geometric mean"
#: Legend text of the winner of each space of the papers' kernels.
PAPERS_WORDS = {PAPER: PAPERS_LOOK.label, PAPER_TUNED: f"{PAPERS_LOOK.label}, tuned further"}


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
    ours = bars_over_library(OUR_LOOK.label, OUR_LOOK.fill, OURS, OUR_LOOK.label)
    papers = bars_over_library(PAPERS_WORDS[papers_space(campaign)], PAPERS_LOOK.fill, PAPERS, "papers’")
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
        "ours (dark, and in numbers) and the papers’ kernels (light), the winner of each." if extended
        else "the winner of the papers’ kernels (light, and in numbers); the space `extended` was not searched.",
        "The mark is what a kernel at the streaming floor would reach, which reads the bytes of CSR-AoS: one that",
        "needs fewer bytes, or finds them in the cache, can pass it.",
        WHISKERS if any(bars.interval(case) for bars in (ours, papers) for case in cases) else "",
        f"Geometric means: {'; '.join(summaries)}." if summaries else "",
        unconfirmed_note((case.case, case[OURS], case[PAPERS]) for case in cases),
        "Nothing of this is published.",
        kernels_note(campaign),
        measurement_note(campaign, "graph"),
        f"In {marked_count} cases (marked *) a time is mostly launch." if marked_count else "",
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    mark = mark_meanings(lines, launched=marked_count > 0)
    return figure_of(panels, EMPTY, caption, clock="graph", mark=mark)
