"""Speedup of BiCGSTAB with our products over that with the library's, per matrix."""

from __future__ import annotations

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.numbers import median_of, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.bench.rows import TIMED
from repro.sparse.times import library_of
from repro.studies.compressed_coo.figures.panels import Bar, Mark, Panel, draw, rows_of
from repro.studies.compressed_coo.paper import PAPER, STUDY
from repro.studies.compressed_coo.times import Times, all_times, counted, not_searched, precision_of


@figure(STUDY, "figure-5", title="Speedup of BiCGSTAB", numbering=f"Figure 5 of {PAPER}")
def bicgstab(campaign: Campaign, published: Published) -> Figure:
    """A row a problem; the median of each group below it."""
    precision = precision_of(campaign)
    cases = all_times(campaign, published, precision)
    large, over = counted(cases)
    library = library_of(campaign)
    defaults = Mark(
        f"ours over that with {library}’s default for CSR",
        "D",
        style.ACCENT,
        lambda s: ratio_of(s.default_solver, s.ours_solver or s.compressed_solver),
    )
    panel = Panel(
        bars=(
            Bar("ours", style.DARK, lambda s: ratio_of(s.library_solver, s.ours_solver)),
            Bar("compressed COO", style.LIGHT, lambda s: ratio_of(s.library_solver, s.compressed_solver)),
        ),
        marks=() if campaign.on_cpu else (defaults,),
        title=f"{precision} precision",
        unit=f"speedup of BiCGSTAB over the fastest with a routine of {library}",
        one="",
        absent=_why_not,
    )
    lines = [case.line for case in cases]
    pairs = [(series.label, median_of(series.number(case) for case in large)) for series in panel.bars]
    medians = [f"{label} {value:.2f}×" for label, value in pairs if value is not None]
    compared = any(defaults.number(case) for case in cases) and not campaign.on_cpu
    caption = [
        f"Speedup of ten iterations of BiCGSTAB over those with the product of {library} that makes them fastest: with",
        "the product of ours that does (dark, and in numbers), and with compressed COO (light). Those products were",
        "tried in it that were the fastest alone.",
        f"Diamonds: ours over the one with {library}’s default for CSR, as in the paper." if compared else "",
        f"Medians: {'; '.join(medians)}." if medians else "",
        over,
        f"{PAPER[0].upper()}{PAPER[1:]} states about "
        f"{published.quantity('median speedup of BiCGSTAB over cuSPARSE', 'double', 'V100')}× on a V100 and on an A100."
        if not campaign.on_cpu else "",
        measured_on(campaign, "graph"),
        not_searched(cases),
        remarks(lines),
        unavailable(campaign),
    ]  # fmt: skip
    rows = rows_of(panel, cases, large)
    return Figure(lambda: draw(panel, rows, footnote(lines)), sentences(caption))


def _why_not(case: Times) -> str:
    """Return why there is no speedup where there are products."""
    statuses = {str(row["status"]) for row in case.case.rows if row["kind"] == "solver"}
    failed = ", ".join(sorted(statuses - set(TIMED)))
    return f"BiCGSTAB failed: {failed}" if failed else "BiCGSTAB was not timed with both"
