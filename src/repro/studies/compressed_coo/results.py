"""Data that this study's tables and figures share: the compared products and solvers, for each problem."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log
from operator import attrgetter
from statistics import median, stdev

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Method, ReportedTime
from repro.results.claims import ClaimQuantities
from repro.results.columns import Pick
from repro.results.comparisons import Cases, Comparison, JudgedBy, Measured, Quantity
from repro.results.problem_lines import MethodTimes, times_of
from repro.results.published import Published
from repro.results.shared_artifacts import Contest, register_contests, register_energy
from repro.sparse.solvers.persistent import ROUTINE
from repro.sparse.tuning_features import library_of
from repro.studies.compressed_coo import SOLVER, STUDY_NAME
from repro.studies.compressed_coo.ids import PAPERS
from repro.studies.compressed_coo.study import CooRow

#: The paper selected matrices with more rows than this.
LARGE = 900_000
CLOCK: ClockName = "graph"
REPEAT, DISTINCT = "repeat", "distinct"
#: Printed names of the library's formats.
FORMATS = {"csr": "CSR", "coo": "COO", "sell": "sliced ELLPACK"}
PLAIN, COMPRESSED = PAPERS
Time = ReportedTime[CooRow]

OURS = Method("ours", "ours", tuning="extended")
COMPRESSED_COO = Method("compressed", "compressed COO", tuning="joint")
PLAIN_COO = Method("plain", "COO", tuning="plain")
_ROUTINES = {"kind": "baseline", "ordering": "natural"}
CSR = Method("csr", "CSR", columns={**_ROUTINES, "format": "csr"})
COO = Method("coo", "COO", columns={**_ROUTINES, "format": "coo"})
LIBRARY = Method("library", "fastest", columns=_ROUTINES)
register_energy(STUDY_NAME)
register_contests(STUDY_NAME, [Contest("SpMV", (OURS, COMPRESSED_COO), LIBRARY)])
PAPERS_CHOICE = Method("papers_choice", "default", columns={**_ROUTINES, "papers_choice": True})
FLOOR = Method("floor", "floor", columns={"kind": "floor"})
PLAIN_SOLVER = Method("plain_bicgstab", "COO", columns={"kind": "solver", "layout": PLAIN})
COMPRESSED_SOLVER = Method("compressed_bicgstab", "compressed COO", columns={"kind": "solver", "layout": COMPRESSED})
ON_CHIP_SOLVER = Method("on_chip_bicgstab", "on the chip", columns={"kind": "solver", "routine": ROUTINE})


LIBRARY_SOLVER = Method(
    "library_bicgstab", "library", columns={"kind": "solver"}, predicate=lambda row: row.representation is not None
)


class Times(MethodTimes[CooRow]):
    """The times of one problem of the study in one precision by one clock."""

    @property
    def csr_default(self) -> Time | None:
        """The paper's baseline: cuSPARSE's default routine for CSR; on the CPU, SciPy's routine."""
        return self[CSR if self.case.campaign.on_cpu else PAPERS_CHOICE]

    @property
    def compressed(self) -> Time | None:
        """The paper's compressed COO by which claims are judged."""
        return self[COMPRESSED_COO]

    def literal(self, entries_per_thread: Sequence[int] | None = None, **other: object) -> Time | None:
        """Return the fastest kernel as published by the search's events, of any K that was searched by default.

        `other` columns differ from the paper's.
        """
        named = {"per_thread": tuple(entries_per_thread)} if entries_per_thread else {}
        columns = {**LITERAL.columns, **named, **other}
        return self.case.searched.select(cache=self.case.campaign.cache, **columns).fastest("event")

    @property
    def ours_solver(self) -> Time | None:
        """The fastest BiCGSTAB among solvers with each layout's best product; if none was tried, among reported
        solvers.
        """
        if self[OURS] is None:
            return None
        choice = self.case.winner(SOLVER, self.clock, "solver")
        return choice or self.case.select(lambda row: row.layout is not None, kind="solver").fastest(self.clock)

    @property
    def default_solver(self) -> Time | None:
        """BiCGSTAB with the library's default routine for CSR."""
        default = self.csr_default
        return self.case.select(kind="solver", product=default.name).fastest(self.clock) if default else None

    @property
    def n(self) -> int:
        """Number of rows of the matrix; 0 if it is not known."""
        return (self.line.record and self.line.record.n) or 0

    @property
    def nnz(self) -> int:
        """Number of non-zeros of the matrix, without padding; 0 if it is not known."""
        return (self.line.record and self.line.record.nnz) or 0

    @property
    def csr_bytes(self) -> int:
        """Bytes of the matrix as CSR with 4-byte indices; 0 if its size is not known."""
        value = {"single": 4, "double": 8}[self.case.precision]
        return 4 * (self.n + 1) + self.nnz * (4 + value) if self.nnz else 0

    @property
    def values(self) -> str | None:
        """`repeat` if most chunks of compressed COO look their values up in the table, else `distinct`."""
        chunks = encodings(self[COMPRESSED_COO])
        if not chunks:
            return None
        lookup_chunks = sum(count for name, count in chunks.items() if name.endswith("/table"))
        return REPEAT if 2 * lookup_chunks >= sum(chunks.values()) else DISTINCT

    def memory(self, kernel: Time | None) -> float | None:
        """Return the bytes of the matrix in a kernel's format, over the bytes of CSR."""
        nbytes = kernel.row.matrix_bytes if kernel else None
        return nbytes / self.csr_bytes if nbytes and self.csr_bytes else None

    def gflops(self, kernel: Time | None) -> float | None:
        """Return a kernel's rate in GFLOPS: 2 nnz / time, without padding."""
        return 2e-9 * self.nnz / kernel.seconds if kernel and self.nnz else None


def all_times(
    campaign: Campaign, published: Published, precision: str, clock: ClockName = CLOCK, kind: type[Times] = Times
) -> list[Times]:
    """Return all times in one precision, sorted by the number of non-zeros; unavailable problems come last."""
    return sorted(times_of(kind, campaign, published, [precision], clock=clock), key=lambda case: case.nnz == 0)


def having(*values: str | None) -> Callable[[Times], bool]:
    """Return a function that says whether a problem has such values: `repeat`, `distinct`; any if none is named."""
    return lambda case: not values or case.values in values


def encodings(kernel: Time | None) -> dict[str, int]:
    """Return the number of chunks for each encoding in a kernel's format; empty if it was not recorded."""
    counts: dict[str, int] = json.loads((kernel and kernel.row.encodings) or "{}")
    return counts


def median_cases_and_note(cases: Sequence[Times]) -> tuple[list[Times], str]:
    """Return the problems over which medians are taken, and the sentence that names them."""
    large_cases = [case for case in cases if case.n > LARGE]
    if large_cases:
        return (
            large_cases,
            f"Medians are over the {len(large_cases)} problems of more than {LARGE:,} rows, as in the paper.",
        )
    known_cases = [case for case in cases if case.n]
    return (
        known_cases,
        f"Medians are over all {len(known_cases)} problems; unlike the paper’s, none has more than {LARGE:,} rows.",
    )


def fastest_formats(cases: Sequence[Times]) -> str:
    """Return the sentence that names the formats of the library's fastest routines; empty on the CPU."""
    timed_cases = [case for case in cases if case[LIBRARY]]
    if not timed_cases or timed_cases[0].case.campaign.on_cpu:
        return ""
    formats = Counter(format_of(case) for case in timed_cases)
    formats_text = ", ".join(f"for {name} on {count}" for name, count in formats.most_common())
    library = library_of(timed_cases[0].case.campaign)
    return f"{library}’s fastest routine is {formats_text} of {len(timed_cases)} problems."


def solver_note(cases: Sequence[Times]) -> str:
    """Return the sentences that say with which products, and with which of our layouts, BiCGSTAB runs."""
    choices = [choice for case in cases for choice in case.case.choices if choice.tuning == SOLVER]
    if not choices:
        return "BiCGSTAB: ten iterations, with the products that are fastest alone."
    layouts = Counter(str(case.ours_solver.row.layout) for case in cases if case.ours_solver)
    layouts_text = ", ".join(f"{name} on {count}" for name, count in layouts.most_common())
    return (
        "BiCGSTAB: ten iterations. Ours uses, among the fastest products of all layouts, the one with the fastest "
        "iterations; the library’s is chosen likewise among its routines that are fastest alone."
        + f" Ours uses {layouts_text} of {layouts.total()} problems." * bool(layouts)
        + " On the chip: all iterations in one launch, with the matrix in shared memory as far as it fits."
        * has_solver_on_chip(cases)
    )


def has_solver_on_chip(cases: Iterable[Times]) -> bool:
    """Return whether the solver that keeps the matrix on the chip was timed; older records have none."""
    return any(case[ON_CHIP_SOLVER] for case in cases)


def format_of(case: Times) -> str:
    """Return the printed name of the format that the library's fastest routine uses; empty if there is no routine."""
    name = (routine.row.format or "") if (routine := case[LIBRARY]) else ""
    return FORMATS.get(name, name)


def launch_sentence(cases: Sequence[Times]) -> str:
    """Return the sentence that counts problems whose times are mostly launch overhead; empty if there are none."""
    near_count = sum(case.case.is_mostly_launch(CLOCK, case[OURS] or case[COMPRESSED_COO]) for case in cases)
    return f"On {near_count} problems (marked *) a time is mostly launch overhead." if near_count else ""


def unsearched_note(cases: Iterable[Times]) -> str:
    """Return the sentence that says why our variants have no times; empty if they have times."""
    return "" if any(case[OURS] for case in cases) else "Ours is absent: the space `extended` was not searched."


def is_as_published(campaign: Campaign) -> bool:
    """Return whether the campaign's times of the paper's kernels are those as published, not tuned further."""
    return campaign.tuning(COMPRESSED_COO.tuning) == COMPRESSED_COO.tuning


def kernels_note(campaign: Campaign) -> str:
    """Return the sentence on differences between the campaign's kernels of the paper and the published ones."""
    if is_as_published(campaign):
        return "The paper’s kernels are as published: 256 threads and one chunk per block, no cache hints, K tuned."
    return "The paper’s kernels are tuned further than published: fewer threads, more chunks per block, cache hints."


# claims --------------------------------------------------------------------------------------------------------------

#: The paper's blocking: 256 threads per block (section 3), one chunk per block (section 2: n_z/(B·K) blocks), no cache
#: hint; only K is tuned.
AS_PUBLISHED: Mapping[str, object] = {"n_t": 256, "chunks": 1, "load": "ca"}
#: The numbers of entries per thread that the paper names: "typically 2 or 4 elements suffice".
PAPERS_K = (2, 4)
#: Fewer threads of a block than the 192 that the paper finds too few; the least that were searched.
FEWER_THREADS = 128
#: The speedup that the paper prints for both of its GPUs.
MEDIAN_SPEEDUP = "median speedup of SpMV over cuSPARSE"
#: Matrices of the paper's Table 2.
PAPERS_MATRICES = 60
LITERAL = Method(
    "literal", "compressed COO as published", columns={"layout": "CCOO", "kind": "variant", **AS_PUBLISHED}
)


class PublishedTimes(Times):
    """The times of one problem by the paper's kernels exactly as published, by the search's events."""

    @property
    def compressed(self) -> Time | None:
        """The fastest compressed COO with a K that the paper names."""
        return self.literal(PAPERS_K)


def claim_cases(campaign: Campaign, published: Published, variants: JudgedBy) -> Cases[Times]:
    precision = campaign.main_precision
    if variants == "as_published":
        cases = all_times(campaign, published, precision, "event", PublishedTimes)
    else:
        cases = all_times(campaign, published, precision)
    return Cases(campaign, published, median_cases_and_note(cases)[0], variants)


def _more_than_coo(case: Times) -> float | None:
    """60, as many as the paper's matrices, if compressed COO with the fastest K needs more bytes than COO; else 0."""
    nbytes = case.compressed.row.matrix_bytes if case.compressed else None
    rows = case.case.searched.select(layout="COO")  # its slots are as many however they are assigned to threads
    coo_bytes = next((row.matrix_bytes for row in rows if row.matrix_bytes), None)
    return float(PAPERS_MATRICES * (nbytes > coo_bytes)) if nbytes and coo_bytes else None


def _damped(case: Times) -> float | None:
    """Return the speedup of BiCGSTAB over that of the product, of the same kernels by the same clock."""
    solver, product = BICGSTAB_SPEEDUP.of(case), CSR_SPEEDUP.of(case)
    return solver.value / product.value if solver and product else None


def _gain_by_gpu(cases: Cases[Times]) -> Measured:
    """Return the median speedup over CSR that the paper prints for the V100, over the larger end of the A100's."""
    printed = (cases.published.quantity(MEDIAN_SPEEDUP, "double", gpu) for gpu in ("V100", "A100"))
    volta, ampere = (max(map(float, text.split(" to "))) for text in printed)
    return Measured.one(volta / ampere if cases.cases else None, f"{PAPERS_MATRICES} matrices")


def _consistency(cases: Cases[Times]) -> Measured:
    """Return the spread of the speedups over CSR, over that of the speedups over COO: deviations of logarithms."""
    speedups = (comparison.measure(cases).numbers for comparison in (CSR_SPEEDUP, COO_SPEEDUP))
    over_csr, over_coo = (stdev(log(number.value) for number in of) if len(of) > 1 else None for of in speedups)
    return Measured.one(over_csr / over_coo if over_csr and over_coo else None, f"{len(cases.cases)} matrices")


def _coo_over_csr(cases: Cases[Times]) -> Measured:
    """Return the median speedup over COO, over that over CSR."""
    csr, coo = (comparison.median() for comparison in (CSR_SPEEDUP, COO_SPEEDUP))
    over_csr, over_coo = csr.measure(cases).numbers, coo.measure(cases).numbers
    ratio = coo.value(over_coo) / csr.value(over_csr) if over_csr and over_coo else None
    return Measured.one(ratio, f"{len(cases.cases)} matrices")


def _gain_of_repeats(cases: Cases[Times]) -> Measured:
    """Return the median speedup over CSR where values repeat, over that where they are distinct."""
    measured = (CSR_SPEEDUP.where(having(kind)).measure(cases) for kind in (REPEAT, DISTINCT))
    repeat, distinct = ([number.value for number in speedups.numbers] for speedups in measured)
    gain = median(repeat) / median(distinct) if repeat and distinct else None
    return Measured.one(gain, f"{len(cases.cases)} matrices")


JUDGED: Pick = attrgetter("compressed")
CSR_SPEEDUP = Comparison[Times](attrgetter("csr_default"), JUDGED)
COO_SPEEDUP = Comparison[Times](COO, JUDGED)
#: Not as published: the solver ran with the fastest K, which is seldom one that the paper names.
BICGSTAB_SPEEDUP = Comparison[Times](
    attrgetter("default_solver"), COMPRESSED_SOLVER, judged_by=("paper_tuned", "ours", "none")
)
#: The times of the kernels exactly as published over that of the best of them.
LITERALLY = Comparison[Times](
    lambda case: case.literal(PAPERS_K), lambda case: case.literal(), judged_by=("as_published",)
)
#: Quantities by name in `config/claims/compressed_coo.csv`.
CLAIM_QUANTITIES: ClaimQuantities[Cases[Times]] = {
    "csr_median": CSR_SPEEDUP.median(),
    "csr_share": CSR_SPEEDUP.share(),
    "csr_least": CSR_SPEEDUP.least(),
    "coo_median": COO_SPEEDUP.median(),
    "coo_share": COO_SPEEDUP.share(),
    "coo_least": COO_SPEEDUP.least(),
    "coo_over_csr": Quantity(_coo_over_csr),
    "consistency": Quantity(_consistency),
    "gain_of_repeats": Quantity(_gain_of_repeats),
    "gain_by_gpu": Quantity(_gain_by_gpu),
    "second_csr_median": Comparison[Times](
        lambda case: case.case.select(lambda row: "spmv-csr-alg2" in row.name, **CSR.columns).fastest(case.clock),
        attrgetter("csr_default"),
    ).median(),
    "k_suffices": LITERALLY.median(),
    "fewer_threads": replace(LITERALLY, numerator=lambda case: case.literal(n_t=FEWER_THREADS)).median(),
    "bicgstab_median": BICGSTAB_SPEEDUP.median(),
    "bicgstab_share": BICGSTAB_SPEEDUP.share(),
    "bicgstab_over_product": replace(BICGSTAB_SPEEDUP, numerator=_damped, denominator=None).median(),
    "gflops_most": Comparison[Times](lambda case: case.gflops(case.compressed)).most(),
    "memory_above_coo": Comparison(_more_than_coo).mean(),
    "memory_below_csr": Comparison[Times](lambda case: case.memory(case.compressed)).count(lambda memory: memory < 1),
}
