"""Speedup of BiCGSTAB with our products over that with the library's, per matrix."""

from __future__ import annotations

from collections.abc import Callable

from repro.artifacts import style
from repro.artifacts.case import Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.numbers import interval_of_ratio, median_of, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.artifacts.significance import WHISKERS
from repro.bench.rows import TIMED
from repro.sparse.times import library_of
from repro.studies.compressed_coo.figures.panels import Bar, Mark, Panel, draw, rows_of
from repro.studies.compressed_coo.paper import GPUS, PAPER, STUDY
from repro.studies.compressed_coo.times import Times, all_times, counted, not_searched, precision_of, solved_with


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
    stated = {
        gpu: float(published.quantity("median speedup of BiCGSTAB over cuSPARSE", "double", gpu))
        for gpu in GPUS
        if not campaign.on_cpu
    }
    panel = Panel(
        bars=(
            _bar("ours", style.DARK, lambda s: s.ours_solver),
            _bar("compressed COO", style.LIGHT, lambda s: s.compressed_solver),
        ),
        marks=() if campaign.on_cpu else (defaults,),
        title=f"{precision} precision",
        unit=f"speedup of BiCGSTAB over the fastest with a routine of {library}",
        one="",
        reference=stated,
        referred="published median over the default",
        absent=_why_not,
    )
    words = " and ".join(f"{value:g}× on a {gpu}" for gpu, value in stated.items())
    lines = [case.line for case in cases]
    pairs = [(series.label, median_of(series.number(case) for case in large)) for series in panel.bars]
    medians = [f"{label} {value:.2f}×" for label, value in pairs if value is not None]
    compared = any(defaults.number(case) for case in cases) and not campaign.on_cpu
    rows = rows_of(panel, cases, large)
    caption = [
        f"Speedup of ten iterations of BiCGSTAB over those with the product of {library} that makes them fastest: with",
        "the product of ours that does (dark, and in numbers), and with compressed COO (light).",
        solved_with(cases),
        f"Diamonds: ours over the one with {library}’s default for CSR, as in the paper." if compared else "",
        WHISKERS if any(sure for row in rows for sure in row.sure) else "",
        f"Medians: {'; '.join(medians)}." if medians else "",
        over,
        f"Dashed: what {PAPER} states, a median over the default of about {words}: the diamonds are its counterpart."
        if stated else "",
        measured_on(campaign, "graph"),
        not_searched(cases),
        remarks(lines),
        unavailable(campaign),
    ]  # fmt: skip
    return Figure(lambda: draw(panel, rows, footnote(lines)), sentences(caption))


def _bar(label: str, colour: str, pick: Callable[[Times], Timed | None]) -> Bar:
    """Return the bars of the library's fastest solver over one of ours."""
    return Bar(
        label,
        colour,
        lambda case: ratio_of(case.library_solver, pick(case)),
        lambda case: interval_of_ratio(case.library_solver, pick(case)),
    )


def _why_not(case: Times) -> str:
    """Return why there is no speedup where there are products."""
    statuses = {str(row["status"]) for row in case.case.rows if row["kind"] == "solver"}
    failed = ", ".join(sorted(statuses - set(TIMED)))
    return f"BiCGSTAB failed: {failed}" if failed else "BiCGSTAB was not timed with both"
