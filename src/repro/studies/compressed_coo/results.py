"""What the tables and figures of the study `compressed_coo` share: who is compared with whom, problem by problem."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.bench.runnable import ClockName
from repro.results.campaign_data import Campaign, Case, ReportedTime, fastest_time
from repro.results.problem_rows import ProblemRow, ours
from repro.results.published import Published
from repro.sparse.baseline_times import fastest_baseline, library_of
from repro.studies.compressed_coo import SOLVER
from repro.studies.compressed_coo.ids import PAPERS

#: The paper took matrices of more rows than this.
LARGE = 900_000
CLOCK: ClockName = "graph"
REPEAT, DISTINCT = "repeat", "distinct"
#: What formats of the library are called.
FORMATS = {"csr": "CSR", "coo": "COO", "sell": "sliced ELLPACK"}
PLAIN, COMPRESSED = PAPERS


@dataclass(frozen=True)
class Times:
    """The times of one problem at one precision by one clock, None where there is none.

    Attributes
    ----------
    line, case, clock
        Which.
    plain, compressed, ours
        The fastest balanced COO and compressed COO of the paper's space, and the fastest of all our variants.
    csr_default
        The routine that the paper compares with: cuSPARSE's default for CSR. On the CPU SciPy's takes its place.
    csr, coo, library
        The library's fastest routine for CSR, for COO, and of all.
    floor
        The streaming floor.
    plain_solver, compressed_solver, ours_solver
        The fastest BiCGSTAB with a product of balanced COO, of compressed COO, and with what was chosen in it of each
        layout's fastest.
    default_solver, library_solver
        BiCGSTAB with the library's default for CSR, and the fastest with any routine of the library.
    """

    line: ProblemRow
    case: Case
    clock: ClockName
    plain: ReportedTime | None
    compressed: ReportedTime | None
    ours: ReportedTime | None
    csr_default: ReportedTime | None
    csr: ReportedTime | None
    coo: ReportedTime | None
    library: ReportedTime | None
    floor: ReportedTime | None
    plain_solver: ReportedTime | None
    compressed_solver: ReportedTime | None
    ours_solver: ReportedTime | None
    default_solver: ReportedTime | None
    library_solver: ReportedTime | None

    @property
    def n(self) -> int:
        """Rows of the matrix; 0 where it is not known."""
        return (self.line.record and self.line.record.n) or 0

    @property
    def nnz(self) -> int:
        """The matrix's own non-zeros, without padding; 0 where they are not known."""
        return (self.line.record and self.line.record.nnz) or 0

    @property
    def csr_bytes(self) -> int:
        """Bytes of the matrix as CSR with 4-byte indices; 0 where its size is not known."""
        value = {"single": 4, "double": 8}[self.case.precision]
        return 4 * (self.n + 1) + self.nnz * (4 + value) if self.nnz else 0

    @property
    def values(self) -> str | None:
        """Whether the values `repeat`, so that most chunks of the compressed COO look them up, or are `distinct`."""
        chunks = encodings(self.compressed)
        if not chunks:
            return None
        looked_up = sum(count for name, count in chunks.items() if name.endswith("/table"))
        return REPEAT if 2 * looked_up >= sum(chunks.values()) else DISTINCT

    def memory(self, kernel: ReportedTime | None) -> float | None:
        """Return the bytes of a kernel's matrix over those of CSR."""
        held = kernel.row["matrix_bytes"] if kernel else None
        return held / self.csr_bytes if held and self.csr_bytes else None

    def gflops(self, kernel: ReportedTime | None) -> float | None:
        """Return 2 nnz / time in units of 10^9 a second, of the matrix's own non-zeros."""
        return 2e-9 * self.nnz / kernel.seconds if kernel and self.nnz else None


def all_times(campaign: Campaign, published: Published, precision: str, clock: ClockName = CLOCK) -> list[Times]:
    """Return all of a campaign at one precision, by growing numbers of non-zeros; what could not be had at the end."""
    cases = [times_of(line, precision, campaign, clock) for line in ours(campaign, published)]
    return sorted(cases, key=lambda case: case.nnz == 0)


def times_of(line: ProblemRow, precision: str, campaign: Campaign, clock: ClockName = CLOCK) -> Times:
    """Return where the kernels stand on one problem at one precision, chosen and timed by a clock."""
    case = Case(campaign, line.problem, precision)
    best = case.winner("extended", clock)
    csr = fastest_baseline(case, clock, form="csr")
    default = csr if campaign.on_cpu else fastest_baseline(case, clock, papers_choice=True)
    return Times(
        line=line,
        case=case,
        clock=clock,
        plain=case.winner("plain", clock),
        compressed=case.winner("joint", clock),
        ours=best,
        csr_default=default,
        csr=csr,
        coo=fastest_baseline(case, clock, form="coo"),
        library=fastest_baseline(case, clock),
        floor=case.bound("floor", clock),
        plain_solver=_solver(case, clock, lambda row: row["layout"] == PLAIN),
        compressed_solver=_solver(case, clock, lambda row: row["layout"] == COMPRESSED),
        ours_solver=_our_solver(case, clock) if best else None,
        default_solver=_solver(case, clock, lambda row: default is not None and row["product"] == default.name),
        library_solver=_solver(case, clock, lambda row: row["representation"] is not None),
    )


def _our_solver(case: Case, clock: ClockName) -> ReportedTime | None:
    """Return the BiCGSTAB that was chosen of those tried; where none were, the fastest of those reported."""
    chosen = case.winner(SOLVER, clock, "solver")
    return chosen or _solver(case, clock, lambda row: row["layout"] is not None)


def _solver(case: Case, clock: ClockName, chosen: Callable[[Mapping[str, Any]], bool]) -> ReportedTime | None:
    """Return the fastest BiCGSTAB of those whose rows are chosen."""
    return fastest_time([row for row in case.rows if row["kind"] == "solver" and chosen(row)], clock)


def encodings(kernel: ReportedTime | None) -> dict[str, int]:
    """Return how many chunks of a kernel's format have which encoding; empty where nothing is recorded."""
    counts: dict[str, int] = json.loads((kernel and kernel.row["encodings"]) or "{}")
    return counts


def precision_of(campaign: Campaign) -> str:
    """Return the precision that tables and figures of one precision print: double, the paper's, where there is any."""
    return campaign.precisions[-1]


def counted(cases: Sequence[Times]) -> tuple[list[Times], str]:
    """Return the problems that medians are taken over, and the sentence that says which."""
    large = [case for case in cases if case.n > LARGE]
    if large:
        return large, f"Medians are over the {len(large)} problems of more than {LARGE:,} rows, as in the paper."
    there = [case for case in cases if case.n]
    return there, f"Medians are over all {len(there)} problems: none has more than {LARGE:,} rows, as the paper’s have."


def each_of(cases: Iterable[Times], number: Callable[[Times], float | None]) -> list[tuple[float, Times]]:
    """Return a number of all problems that have it."""
    return [(value, case) for case in cases if (value := number(case)) is not None]


def fastest_formats(cases: Sequence[Times]) -> str:
    """Return the sentence that says of which formats the library's fastest routines are; empty on the CPU."""
    timed = [case for case in cases if case.library]
    if not timed or timed[0].case.campaign.on_cpu:
        return ""
    formats = Counter(format_of(case) for case in timed)
    words = ", ".join(f"for {name} on {count}" for name, count in formats.most_common())
    return f"{library_of(timed[0].case.campaign)}’s fastest of all is {words} of {len(timed)} problems."


def solved_with(cases: Sequence[Times]) -> str:
    """Return the sentences that say which products BiCGSTAB is run with, and of which layouts of ours they are."""
    chosen = [choice for case in cases for choice in case.case.choices if choice["tuning"] == SOLVER]
    if not chosen:
        return "BiCGSTAB: ten iterations, with the products that were the fastest alone."
    layouts = Counter(str(case.ours_solver.row["layout"]) for case in cases if case.ours_solver)
    words = ", ".join(f"{name} on {count}" for name, count in layouts.most_common())
    return (
        "BiCGSTAB: ten iterations, ours with the product that was the fastest in it of each layout’s fastest, the "
        "library’s with the fastest in it of its routines that were the fastest alone."
        + f" Ours is with {words} of {layouts.total()} problems."
        * bool(layouts)
    )


def format_of(case: Times) -> str:
    """Return what the format of the library's fastest routine is called; empty where there is none."""
    name = str(case.library.row["format"]) if case.library else ""
    return FORMATS.get(name, name)


def near_launch(cases: Sequence[Times]) -> str:
    """Return the sentence that counts the problems whose times are mostly launch, empty where none is."""
    near = sum(case.case.mostly_launch(CLOCK, case.ours or case.compressed) for case in cases)
    return f"In {near} problems (marked *) a time is mostly launch." if near else ""


def not_searched(cases: Iterable[Times]) -> str:
    """Return the sentence that says why there is nothing of our variants, empty where there is."""
    return "" if any(case.ours for case in cases) else "Ours is absent: the space `extended` was not searched."
