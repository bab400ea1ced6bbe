"""The medians that the paper states, beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from repro.artifacts.case import Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import context, measured_on, sentences, unavailable
from repro.artifacts.numbers import median_of, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of
from repro.studies.compressed_coo.paper import GPUS, PAPER, STUDY
from repro.studies.compressed_coo.times import (
    DISTINCT,
    REPEAT,
    Times,
    all_times,
    counted,
    fastest_formats,
    not_searched,
    precision_of,
    solved_with,
)

Pick = Callable[[Times], Timed | None]


@dataclass(frozen=True)
class Line:
    """One line: a statistic of speedups over `base`, or the largest of a rate where there is no base.

    Attributes
    ----------
    what
        As printed; `{library}` is the library's name.
    published
        The quantity of the paper's text that stands beside it, empty for none.
    base
        What is compared with.
    kernels
        The paper's compressed COO, and ours.
    values
        Of which problems, by their values; None for all.
    statistic
        Of the speedups.
    """

    what: str
    published: str
    base: Pick | None
    kernels: tuple[Pick, Pick]
    values: str | None = None
    statistic: Callable[[Iterable[float | None]], float | None] = median_of

    def measure(self, cases: list[Times], pick: Pick) -> float | None:
        """Return the number of one column."""
        if self.base is None:
            return max((rate for case in cases if (rate := case.gflops(pick(case)))), default=None)
        base = self.base
        those = [case for case in cases if self.values in (None, case.values)]
        return self.statistic(ratio_of(base(case), pick(case)) for case in those)


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


_PRODUCTS: tuple[Pick, Pick] = (lambda s: s.compressed, lambda s: s.ours)
_SOLVERS: tuple[Pick, Pick] = (lambda s: s.compressed_solver, lambda s: s.ours_solver)
LINES = (
    Line("SpMV over {library}’s default for CSR, median", "median speedup of SpMV over cuSPARSE",
         lambda s: s.csr_default, _PRODUCTS),
    Line("SpMV over {library}’s fastest for CSR, median", "", lambda s: s.csr, _PRODUCTS),
    Line("SpMV over {library}’s fastest for COO, median", "", lambda s: s.coo, _PRODUCTS),
    Line("SpMV over {library}’s fastest of all, median", "", lambda s: s.library, _PRODUCTS),
    Line("SpMV over {library}’s fastest of all, values repeat, median", "", lambda s: s.library, _PRODUCTS,
         REPEAT),
    Line("SpMV over {library}’s fastest of all, values distinct, median", "", lambda s: s.library, _PRODUCTS,
         DISTINCT),
    Line("SpMV over {library}’s fastest of all, least", "", lambda s: s.library, _PRODUCTS,
         None, _least),
    Line("BiCGSTAB over that with {library}’s default for CSR, median", "median speedup of BiCGSTAB over cuSPARSE",
         lambda s: s.default_solver, _SOLVERS),
    Line("BiCGSTAB over the fastest with a routine of {library}, median", "", lambda s: s.library_solver, _SOLVERS),
    Line("GFLOPS of SpMV, largest", "largest GFLOPS of SpMV", None, _PRODUCTS),
)  # fmt: skip


@table(STUDY, "table-medians", title="The paper’s medians beside ours", numbering=f"text of {PAPER}")
def medians(campaign: Campaign, published: Published) -> Table:
    """A line a statement of the paper, and the same over the library's faster routines."""
    precision = precision_of(campaign)
    cases, over = counted(all_times(campaign, published, precision))
    printed = {(item["quantity"], item["gpu"]): item["value"] for item in published["text"]}
    rows = [
        (
            Cell(line.what.format(library=library_of(campaign))),
            *(Cell(printed.get((line.published, gpu))) for gpu in GPUS),
            *(_number(line.measure(cases, pick), line.base is None) for pick in line.kernels),
        )
        for line in LINES
    ]
    columns = (
        Column("quantity", "", numeric=False),
        *(Column(f"published_{gpu}", gpu, "published") for gpu in GPUS),
        Column("compressed", "paper’s compressed COO", campaign.column),
        Column("ours", "ours", campaign.column),
    )
    caption = [
        f"What the text of {PAPER} states for a V100 and an A100 (cuSPARSE of CUDA 11.0) in double precision, over the",
        "routine that it compares with, and what we measured over the same routine and over faster ones. Paper’s",
        "compressed COO: the fastest K and number of chunks a block of its format. Ours: the fastest of all our",
        "variants, its own included. GFLOPS: two operations for each of the matrix’s own non-zeros, none for padding.",
        solved_with(cases),
        f"{precision.capitalize()} precision.",
        over,
        fastest_formats(cases),
        not_searched(cases),
        measured_on(campaign, "graph"),
        context(campaign),
        unavailable(campaign),
    ]
    return Table(columns, rows, sentences(caption))


def _number(value: float | None, rate: bool) -> Cell:
    return Cell() if value is None else Cell(value, f"{value:.0f}" if rate and value >= 10 else f"{value:.2f}")
