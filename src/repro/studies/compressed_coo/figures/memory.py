"""Memory of balanced COO, plain and compressed, over that of CSR."""

from __future__ import annotations

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import footnote, remarks, sentences, unavailable
from repro.artifacts.numbers import median_of
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compressed_coo.figures.panels import Bar, Mark, Panel, draw, rows_of
from repro.studies.compressed_coo.paper import PAPER, STUDY
from repro.studies.compressed_coo.times import (
    DISTINCT,
    REPEAT,
    all_times,
    counted,
    not_searched,
    precision_of,
)


@figure(STUDY, "figure-3", title="Memory of COO and compressed COO over CSR", numbering=f"Figure 3 of {PAPER}")
def memory(campaign: Campaign, published: Published) -> Figure:
    """A row a problem; the median of each group below it."""
    precision = precision_of(campaign)
    cases = all_times(campaign, published, precision)
    large, over = counted(cases)
    panel = Panel(
        bars=(
            Bar("compressed COO", style.DARK, lambda s: s.memory(s.compressed)),
            Bar("balanced COO", style.LIGHT, lambda s: s.memory(s.plain)),
        ),
        marks=(Mark("our fastest", "D", style.ACCENT, lambda s: s.memory(s.ours)),),
        title=f"{precision} precision, K as tuned",
        unit="memory over that of CSR",
        one="CSR",
    )
    lines = [case.line for case in cases]
    medians = [
        f"{value:.2f} where values {'repeat' if kind == REPEAT else 'are distinct'}"
        for kind in (REPEAT, DISTINCT)
        if (value := median_of(case.memory(case.compressed) for case in large if case.values == kind)) is not None
    ]
    caption = [
        "Memory of the matrix, padding, chunks’ starts and table of values included, over that of CSR with 4-byte",
        "indices: compressed COO (dark, and in numbers) and plain balanced COO (light), each with the K that was",
        "fastest, and the format of our fastest variant. Values repeat: most chunks look them up in the table.",
        f"Medians of compressed COO: {'; '.join(medians)}." if medians else "",
        over,
        not_searched(cases),
        remarks(lines),
        unavailable(campaign),
    ]
    rows = rows_of(panel, cases, large)
    return Figure(lambda: draw(panel, rows, footnote(lines)), sentences(caption))
