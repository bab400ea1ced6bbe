"""GFLOPS of the library's products and of compressed COO, per matrix."""

from __future__ import annotations

from repro.artifacts import style
from repro.artifacts.cells import digits
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.times import library_of
from repro.studies.compressed_coo.figures.panels import Bar, Mark, Panel, draw, rows_of
from repro.studies.compressed_coo.paper import GPUS, PAPER, STUDY
from repro.studies.compressed_coo.times import (
    all_times,
    counted,
    fastest_formats,
    format_of,
    near_launch,
    not_searched,
    precision_of,
)


@figure(STUDY, "figure-4", title="GFLOPS of the library and of compressed COO", numbering=f"Figure 4 of {PAPER}")
def gflops(campaign: Campaign, published: Published) -> Figure:
    """A row a problem; the median of each group below it."""
    precision = precision_of(campaign)
    cases = all_times(campaign, published, precision)
    large, over = counted(cases)
    on_gpu = not campaign.on_cpu
    best = {gpu: published.quantity("largest GFLOPS of SpMV", "double", gpu) for gpu in GPUS}
    library = library_of(campaign)
    default = Mark(f"{library} CSR, default", "o", style.ACCENT, lambda s: s.gflops(s.csr_default))
    fastest = Mark(f"{library} CSR{', fastest' * on_gpu}", "|", style.ACCENT, lambda s: s.gflops(s.csr))
    coo = Mark(f"{library} COO, fastest", "s", style.GREY, lambda s: s.gflops(s.coo))
    formats = dict.fromkeys(format_of(case) for case in large if case.library)
    of_all = Mark(f"{library}, fastest of all: {' or '.join(formats)}", "^", "black", lambda s: s.gflops(s.library))
    panel = Panel(
        bars=(
            Bar("ours", style.DARK, lambda s: s.gflops(s.ours)),
            Bar("compressed COO", style.LIGHT, lambda s: s.gflops(s.compressed)),
        ),
        marks=(default, fastest, coo, of_all) if on_gpu else (fastest,),
        title=f"{precision} precision",
        unit="GFLOPS: 2 × non-zeros / time",
        printed=digits,
        stars=True,
        reference={gpu: float(value) for gpu, value in best.items()} if on_gpu else {},
    )
    marks = (
        f"Marks: {library}’s product of CSR, by default as in the paper and by its fastest algorithm, its fastest of "
        f"COO, and its fastest of all, which the paper does not compare with. {fastest_formats(large)}"
        if on_gpu
        else "Mark: SciPy’s product of CSR, in place of cuSPARSE’s."
    )
    lines = [case.line for case in cases]
    caption = [
        "GFLOPS of y = A x: two operations for each of the matrix’s own non-zeros, none for padding.",
        "Ours (dark, and in numbers): the fastest of all our variants; compressed COO (light): the fastest of the",
        "paper’s space.",
        marks,
        f"Dashed: the most that {PAPER} states, {best['V100']} on a V100, {best['A100']} on an A100." if on_gpu else "",
        over,
        measured_on(campaign, "graph"),
        near_launch(cases),
        not_searched(cases),
        remarks(lines),
        unavailable(campaign),
    ]  # fmt: skip
    rows = rows_of(panel, cases, large)
    return Figure(lambda: draw(panel, rows, footnote(lines)), sentences(caption))
