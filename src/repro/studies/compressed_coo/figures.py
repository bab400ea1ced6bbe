"""Figures of the study of compressed COO: GFLOPS, memory over CSR, and speedup of BiCGSTAB, for each matrix.

Each problem is a row; rows are grouped by whether the matrix has few distinct values, which compress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from repro.bench.rows import TIMED
from repro.results.campaign_data import Campaign, brief_reason
from repro.results.figure_forms import UNITY, Pen, Reference, figure_of
from repro.results.figure_rows import Bars, Marks, Row, Rows, ratio_bars
from repro.results.figure_style import LIBRARY, OURS, PAPERS, Look
from repro.results.problem_lines import mark_meanings, measurement_note, remarks, unavailable_note, unconfirmed_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, median_of, ratio_of
from repro.results.tables import Figure, digits
from repro.sparse.tuning_features import library_of
from repro.studies.compressed_coo import CITED, GPUS, STUDY_NAME, results

CaseMarks = Marks[results.Times]
PickTime = Callable[[results.Times], results.Time | None]

#: Headings of the groups of problems, by what their values do.
HEADS = {results.REPEAT: "values repeat", results.DISTINCT: "values distinct", None: "not measured"}
#: Word for the paper's format in legends of figures without times.
PAPERS_COO = "papers’ compressed COO"
EMPTY = "nothing was measured in this campaign"
#: Diamonds on bars, and other marks.
DIAMOND, SMALL = (Pen(OURS.colour, marker, is_hollow=True, size=3, zorder=4) for marker in "Do")


def grouped_rows(
    cases: Sequence[results.Times],
    median_cases: Sequence[results.Times],
    absent: Callable[[results.Times], str] = lambda case: "not recorded",
    *,
    has_stars: bool = False,
) -> list[Row[results.Times]]:
    """Return the rows of a figure by group; a group of several problems ends with a row of medians.

    Parameters
    ----------
    median_cases
        The problems over which medians are taken.
    absent
        Reason why a problem with a winner has no number.
    has_stars
        Whether to mark rows by a star if the time of the product is mostly launch overhead.
    """

    def row(case: results.Times) -> Row[results.Times]:
        papers = case[results.COMPRESSED_COO]
        reason = brief_reason(case.case.why_not() if papers is None else absent(case))
        star = has_stars and case.case.is_mostly_launch("graph", case[results.OURS] or papers)
        return Row(case.line.label, [case], reason=reason, has_star=star)

    rows: list[Row[results.Times]] = []
    for values, heading in HEADS.items():
        group = [case for case in cases if case.values == values]
        averaged = [case for case in group if case in median_cases]
        rows += [Row(heading), *map(row, group)] if group else []
        if values and len(averaged) > 1:
            rows.append(Row("median" if len(averaged) == len(group) else "median of the large", averaged, median_of))
    return rows


def published_lines(label: str, by_gpu: Mapping[str, float]) -> list[Reference]:
    """Return lines at the published numbers of GPUs, with a common entry in the legend."""
    entry = f"{label}: " + ", ".join(f"{value:g} ({gpu})" for gpu, value in by_gpu.items())
    return [Reference(value, entry * (not index), name=gpu) for index, (gpu, value) in enumerate(by_gpu.items())]


def papers_coo(campaign: Campaign) -> str:
    """Return the word in legends for times of the paper's kernels, which says whether they are tuned further."""
    return PAPERS_COO + ", tuned further" * (not results.is_as_published(campaign))


@figure(STUDY_NAME, "figure-4", title="GFLOPS of the library and of compressed COO", numbering=f"Figure 4 of {CITED}")
def gflops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS of products: one row for each problem; below each group of problems, its median."""
    precision = campaign.main_precision
    cases = results.all_times(campaign, published, precision)
    median_cases, median_note = results.median_cases_and_note(cases)
    is_gpu = not campaign.on_cpu
    best = {gpu: published.quantity("largest GFLOPS of SpMV", "double", gpu) for gpu in GPUS}
    library = library_of(campaign)
    formats = dict.fromkeys(results.format_of(case) for case in median_cases if case[results.LIBRARY])

    def bars(label: str, look: Look, pick: PickTime) -> Bars[results.Times]:
        return Bars(label, look.fill, lambda case: case.gflops(pick(case)), head=label, printed=digits)

    def marks(label: str, marker: str, pick: PickTime) -> Marks[results.Times]:
        pen = SMALL._replace(colour=LIBRARY.colour, marker=marker, size=4.2 if marker == "|" else 3)
        return Marks(f"{library}{label}", pen, lambda case: case.gflops(pick(case)), "below")

    csr = marks(" CSR" + ", fastest" * is_gpu, "|", lambda case: case[results.CSR])
    rows = grouped_rows(cases, median_cases, has_stars=True)
    panel = Rows(
        rows,
        "GFLOPS: 2 × non-zeros / time",
        bars=[
            bars(OURS.label, OURS, lambda case: case[results.OURS]),
            bars(papers_coo(campaign), PAPERS, lambda case: case[results.COMPRESSED_COO]),
        ],
        marks=[
            marks(" CSR, default", "o", lambda case: case.csr_default),
            csr,
            marks(" COO, fastest", "s", lambda case: case[results.COO]),
            marks(f", fastest of all: {' or '.join(formats)}", "^", lambda case: case[results.LIBRARY]),
        ]
        if is_gpu
        else [csr],
        title=f"{precision} precision",
        references=published_lines(
            "published most", {gpu: float(value) for gpu, value in best.items()} if is_gpu else {}
        ),
    )
    marks_note = (
        f"Marks: {library}’s product with CSR by the default algorithm, as in the paper, and by the fastest one; its "
        f"fastest with COO; and its fastest of all, not compared in the paper. {results.fastest_formats(median_cases)}"
        if is_gpu
        else "Mark: SciPy’s product with CSR, in place of cuSPARSE’s."
    )
    lines = [case.line for case in cases]
    caption = [
        "GFLOPS of y = A x, counting two operations for each of the matrix’s own non-zeros and none for padding.",
        "Ours (dark bars, and numbers) is the fastest of all our variants; compressed COO (light bars) is the fastest",
        "of the paper’s kernels.",
        marks_note,
        f"Dashed: the maxima stated by {CITED}, {best['V100']} on a V100, {best['A100']} on an A100." if is_gpu else "",
        median_note,
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        results.launch_sentence(cases),
        results.unsearched_note(cases),
        unconfirmed_note((case.case, case[results.OURS], case[results.COMPRESSED_COO]) for case in cases),
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    mark = mark_meanings(lines, launched=any(row.has_star for row in rows))
    return figure_of([panel], EMPTY, caption, clock="graph", mark=mark)


@figure(STUDY_NAME, "figure-5", title="Speedup of BiCGSTAB", numbering=f"Figure 5 of {CITED}")
def bicgstab(campaign: Campaign, published: Published) -> Figure:
    """Speedup of BiCGSTAB over the library's: one row for each problem; below each group, its median."""
    precision = campaign.main_precision
    cases = results.all_times(campaign, published, precision)
    median_cases, median_note = results.median_cases_and_note(cases)
    library, is_gpu = library_of(campaign), not campaign.on_cpu
    judging = campaign.as_published or campaign
    judged_cases = {case.line.problem: case for case in results.all_times(judging, published, precision)}

    def bars(label: str, look: Look, pick: PickTime) -> Bars[results.Times]:
        return ratio_bars(label, look.fill, lambda case: (case[results.LIBRARY_SOLVER], pick(case)), head=label)

    ours = bars(OURS.label, OURS, lambda case: case.ours_solver)
    papers = bars(papers_coo(campaign), PAPERS, lambda case: case[results.COMPRESSED_SOLVER])
    defaults = CaseMarks(
        "ours, over the default", DIAMOND, lambda case: ratio_of(case.default_solver, case.ours_solver), ours.label
    )
    judged = CaseMarks(
        f"papers’{', as published' * results.is_as_published(judging)}, over the default",
        DIAMOND._replace(colour=PAPERS.colour),
        lambda case: _over_default(judged_cases.get(case.line.problem)),
        papers.label,
    )
    chip = CaseMarks(
        "ours, on the chip",
        SMALL,
        lambda case: ratio_of(case[results.LIBRARY_SOLVER], case[results.ON_CHIP_SOLVER]),
        "below",
    )
    chips = [chip] if results.has_solver_on_chip(cases) else []
    published_medians = {
        gpu: float(published.quantity("median speedup of BiCGSTAB over cuSPARSE", "double", gpu))
        for gpu in GPUS
        if is_gpu
    }
    rows = grouped_rows(cases, median_cases, _missing_reason)
    panel = Rows(
        rows,
        f"speedup of BiCGSTAB over the fastest with a routine of {library}"
        + "; diamonds: over its default for CSR" * is_gpu,
        bars=[ours, papers],
        marks=[*([defaults, judged] if is_gpu else []), *chips],
        title=f"{precision} precision",
        references=[Reference(1, pen=UNITY), *published_lines("published median over the default", published_medians)],
    )
    medians_text = " and ".join(
        f"{value:g}× on {'an' if gpu[0] == 'A' else 'a'} {gpu}" for gpu, value in published_medians.items()
    )
    lines = [case.line for case in cases]
    series = [(ours.label, ours.number), (papers.label, papers.number), *((chip.label, chip.single) for chip in chips)]
    pairs = [(label, median_of(map(number, median_cases))) for label, number in series]
    medians = [f"{label} {value:.2f}×" for label, value in pairs if value is not None]
    judged_median = median_of(map(judged.single, median_cases)) if is_gpu else None
    tuned_median = median_of(map(_over_default, median_cases))
    caption = [
        "Speedup of ten BiCGSTAB iterations with our best product for them (dark, and numbers) and with compressed",
        f"COO (light) over ten iterations with the best product of {library} for them.",
        results.solver_note(cases),
        _diamonds_note(campaign, judging, library) if judged_median else "",
        "Circles: our solver on the chip, all iterations in one launch, over the library’s fastest." if chips else "",
        WHISKERS if any(bars.interval(case) for bars in (ours, papers) for case in cases) else "",
        f"Medians: {'; '.join(medians)}." if medians else "",
        median_note,
        f"Dashed: the median over the default that {CITED} states, about {medians_text}." if published_medians else "",
        f"Only the light diamonds correspond to it; their median is {judged_median:.2f}×"
        f"{f', or {tuned_median:.2f}× tuned further' if judging is not campaign and tuned_median else ''}."
        if published_medians and judged_median else "",
        results.kernels_note(campaign),
        measurement_note(campaign, "graph"),
        results.unsearched_note(cases),
        remarks(lines),
        unavailable_note(campaign),
    ]  # fmt: skip
    return figure_of(
        [panel],
        EMPTY,
        caption,
        clock="graph",
        campaigns=(campaign.name, judging.name) if judging is not campaign and judged_median else (),
        mark=mark_meanings(lines),
    )


def _over_default(case: results.Times | None) -> float | None:
    """Return the speedup of the paper's kernels over the library's default for CSR, which the paper compares with."""
    return ratio_of(case.default_solver, case[results.COMPRESSED_SOLVER]) if case else None


def _diamonds_note(campaign: Campaign, judging: Campaign, library: str) -> str:
    """Return the sentence on the diamonds; those of the paper's kernels are of the campaign that judges its claims."""
    source = "" if judging is campaign else f" as published, of campaign {judging.name} on the same model of GPU"
    return (
        f"Diamonds: speedup over BiCGSTAB with {library}’s default for CSR, as in the paper, of ours (dark) and the "
        f"paper’s kernels{source} (light)."
    )


def _missing_reason(case: results.Times) -> str:
    """Return the reason why a problem with timed products has no speedup."""
    statuses = {row.status for row in case.case.select(kind="solver")}
    failures = ", ".join(sorted(statuses - set(TIMED)))
    return f"BiCGSTAB failed: {failures}" if failures else "BiCGSTAB was not timed with both"
