"""Data that this study's tables and figures share: the compared products and solvers, for each problem."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median, stdev

from repro.bench.rows import ClockName
from repro.results.campaign_data import Campaign, Case, Method, ReportedTime
from repro.results.claims import CaseNumber, ClaimQuantities, JudgedBy, Measured, Quantity, StatisticName
from repro.results.energy import register_energy
from repro.results.problem_lines import MethodTimes, recorded_lines
from repro.results.published import Published
from repro.results.rivals import Contest, register_contests
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


def _has_routine(row: CooRow) -> bool:
    return row.representation is not None


LIBRARY_SOLVER = Method("library_bicgstab", "library", columns={"kind": "solver"}, predicate=_has_routine)


class Times(MethodTimes[CooRow]):
    """The times of one problem of the study in one precision by one clock."""

    @property
    def csr_default(self) -> Time | None:
        """The paper's baseline: cuSPARSE's default routine for CSR; on the CPU, SciPy's routine."""
        return self[CSR if self.case.campaign.on_cpu else PAPERS_CHOICE]

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


def all_times(campaign: Campaign, published: Published, precision: str, clock: ClockName = CLOCK) -> list[Times]:
    """Return all times in one precision, sorted by the number of non-zeros; unavailable problems come last."""
    cases = [
        Times(line, Case(campaign, line.problem, precision), clock) for line in recorded_lines(campaign, published)
    ]
    return sorted(cases, key=lambda case: case.nnz == 0)


def encodings(kernel: Time | None) -> dict[str, int]:
    """Return the number of chunks for each encoding in a kernel's format; empty if it was not recorded."""
    counts: dict[str, int] = json.loads((kernel and kernel.row.encodings) or "{}")
    return counts


def precision_of(campaign: Campaign) -> str:
    """Return the precision for artifacts that show a single one: double, as in the paper, if it was measured."""
    return campaign.precisions[-1]


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
        f"Medians are over all {len(known_cases)} problems: none has more than {LARGE:,} rows, as the paper’s have.",
    )


def fastest_formats(cases: Sequence[Times]) -> str:
    """Return the sentence that names the formats of the library's fastest routines; empty on the CPU."""
    timed_cases = [case for case in cases if case[LIBRARY]]
    if not timed_cases or timed_cases[0].case.campaign.on_cpu:
        return ""
    formats = Counter(format_of(case) for case in timed_cases)
    formats_text = ", ".join(f"for {name} on {count}" for name, count in formats.most_common())
    return (
        f"{library_of(timed_cases[0].case.campaign)}’s fastest of all is {formats_text} of {len(timed_cases)} problems."
    )


def solver_note(cases: Sequence[Times]) -> str:
    """Return the sentences that say with which products, and with which of our layouts, BiCGSTAB runs."""
    choices = [choice for case in cases for choice in case.case.choices if choice.tuning == SOLVER]
    if not choices:
        return "BiCGSTAB: ten iterations, with the products that were the fastest alone."
    layouts = Counter(str(case.ours_solver.row.layout) for case in cases if case.ours_solver)
    layouts_text = ", ".join(f"{name} on {count}" for name, count in layouts.most_common())
    return (
        "BiCGSTAB: ten iterations. Of each layout’s fastest product, ours has the one with the fastest iterations; the "
        "library’s has the same choice of those of its routines that were the fastest alone."
        + f" Ours is with {layouts_text} of {layouts.total()} problems." * bool(layouts)
        + " On the chip: all iterations in one launch, the matrix in shared memory as far as it fits."
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
    return f"In {near_count} problems (marked *) a time is mostly launch." if near_count else ""


def unsearched_note(cases: Iterable[Times]) -> str:
    """Return the sentence that says why our variants have no times; empty if they have times."""
    return "" if any(case[OURS] for case in cases) else "Ours is absent: the space `extended` was not searched."


def is_as_published(campaign: Campaign) -> bool:
    """Return whether the campaign's times of the paper's kernels are those as published, not tuned further."""
    return campaign.tuning(COMPRESSED_COO.tuning) == COMPRESSED_COO.tuning


def kernels_note(campaign: Campaign) -> str:
    """Return the sentence on differences between the campaign's kernels of the paper and the published ones."""
    if is_as_published(campaign):
        return "The paper’s kernels are as published: 256 threads and one chunk a block, no cache hints, K tuned."
    return "The paper’s kernels are tuned further than published: fewer threads, more chunks a block, cache hints."


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


@dataclass(frozen=True)
class ClaimTimes:
    """The times of one problem by the variants by which a claim is judged."""

    times: Times
    variants: JudgedBy
    published: Published

    @property
    def compressed(self) -> Time | None:
        """Time of compressed COO; as published, the fastest with a K that the paper names, by the search's events."""
        return self.literal(PAPERS_K) if self.variants == "as_published" else self.times[COMPRESSED_COO]

    def literal(self, entries_per_thread: Sequence[int] | None = None, **other: object) -> Time | None:
        """Return the fastest kernel as published, by the search's events, of any K that was searched by default.

        `other` columns differ from the paper's.
        """
        case = self.times.case
        named = {"per_thread": tuple(entries_per_thread)} if entries_per_thread else {}
        columns = {**LITERAL.columns, **named, **other}
        return case.searched.select(cache=case.campaign.cache, **columns).fastest("event")

    @property
    def plain_bytes(self) -> int | None:
        """Bytes of plain COO with the same number of slots, however slots are assigned to threads."""
        rows = self.times.case.searched.select(layout="COO")
        return next((row.matrix_bytes for row in rows if row.matrix_bytes), None)


def _number(case: ClaimTimes, value: float | None) -> CaseNumber | None:
    return None if value is None else CaseNumber(value, case.times.line.problem, case.times.line.remarks)


def _over(case: ClaimTimes, base: Time | None, time: Time | None) -> CaseNumber | None:
    return CaseNumber.over(base, time, case.times.line.problem, case.times.line.remarks)


def _speedup_over_csr(case: ClaimTimes) -> CaseNumber | None:
    return _over(case, case.times.csr_default, case.compressed)


def _speedup_over_coo(case: ClaimTimes) -> CaseNumber | None:
    return _over(case, case.times[COO], case.compressed)


def _bicgstab(case: ClaimTimes) -> CaseNumber | None:
    if case.variants == "as_published":
        return None  # the solver ran with the fastest K, which is seldom one that the paper names
    return _over(case, case.times.default_solver, case.times[COMPRESSED_SOLVER])


def _gflops(case: ClaimTimes) -> CaseNumber | None:
    return _number(case, case.times.gflops(case.compressed))


def _more_than_coo(case: ClaimTimes) -> CaseNumber | None:
    """60, as many as the paper's matrices, if compressed COO with the fastest K needs more bytes than COO; else 0."""
    nbytes = case.compressed.row.matrix_bytes if case.compressed else None
    coo_bytes = case.plain_bytes
    return _number(case, float(PAPERS_MATRICES * (nbytes > coo_bytes))) if nbytes and coo_bytes else None


def _k_suffices(case: ClaimTimes) -> CaseNumber | None:
    """Return the time with the better K of those that the paper names, over that with the best of all."""
    if case.variants != "as_published":
        return None
    return _over(case, case.literal(PAPERS_K), case.literal())


def _fewer_threads(case: ClaimTimes) -> CaseNumber | None:
    """Return the time with blocks of 128 threads over that with the paper's 256, each with its best K."""
    if case.variants != "as_published":
        return None
    return _over(case, case.literal(n_t=FEWER_THREADS), case.literal())


def _less_than_csr(case: ClaimTimes) -> CaseNumber | None:
    """Return 1 if compressed COO takes fewer bytes than CSR, else 0."""
    memory = case.times.memory(case.compressed)
    return None if memory is None else _number(case, float(memory < 1))


def _is_faster_solver(case: ClaimTimes) -> CaseNumber | None:
    number = _bicgstab(case)
    return number and number._replace(value=float(number.value > 1), interval=None)


def _damped(case: ClaimTimes) -> CaseNumber | None:
    """Return the speedup of BiCGSTAB over that of the product, of the same kernels by the same clock."""
    solver, product = _bicgstab(case), _speedup_over_csr(case)
    return _number(case, solver.value / product.value) if solver and product else None


def _gain_by_gpu(cases: list[ClaimTimes]) -> Measured:
    """Return the median speedup over CSR that the paper prints for the V100, over the larger end of the A100's."""
    if not cases:
        return Measured([])
    volta, ampere = (
        max(map(float, cases[0].published.quantity(MEDIAN_SPEEDUP, "double", gpu).split(" to ")))
        for gpu in ("V100", "A100")
    )
    return Measured([CaseNumber(volta / ampere, "60 matrices")])


def _second_csr(case: ClaimTimes) -> CaseNumber | None:
    """Return the time of the library's second routine for CSR over that of its default."""
    routines = case.times.case.select(lambda row: "spmv-csr-alg2" in row.name, **CSR.columns)
    return _over(case, routines.fastest(case.times.clock), case.times.csr_default)


def _spread(number: Callable[[ClaimTimes], CaseNumber | None], cases: Sequence[ClaimTimes]) -> float | None:
    """Return the standard deviation of the logarithms of a ratio; None if there are fewer than two cases."""
    logarithms = [log(value.value) for case in cases if (value := number(case))]
    return stdev(logarithms) if len(logarithms) > 1 else None


def _consistency(cases: list[ClaimTimes]) -> Measured:
    """Return the spread of the speedups over CSR, over that of the speedups over COO."""
    over_csr, over_coo = _spread(_speedup_over_csr, cases), _spread(_speedup_over_coo, cases)
    return Measured([CaseNumber(over_csr / over_coo, f"{len(cases)} matrices")] if over_csr and over_coo else [])


def _gain_of_repeats(cases: list[ClaimTimes]) -> Measured:
    """Return the median speedup over CSR where values repeat, over that where they are distinct."""
    gains: dict[str | None, list[float]] = {REPEAT: [], DISTINCT: []}
    for case in cases:
        if number := _speedup_over_csr(case):
            gains.setdefault(case.times.values, []).append(number.value)
    if not (gains[REPEAT] and gains[DISTINCT]):
        return Measured([])
    return Measured([CaseNumber(median(gains[REPEAT]) / median(gains[DISTINCT]), f"{len(cases)} matrices")])


def _quantity(
    number: Callable[[ClaimTimes], CaseNumber | None], statistic: StatisticName
) -> Quantity[list[ClaimTimes]]:
    def measure(cases: list[ClaimTimes]) -> Measured:
        return Measured([value for case in cases if (value := number(case)) is not None])

    return Quantity(measure, statistic)


#: Functions that measure claims, by name in `config/claims/compressed_coo.csv`.
CLAIMS: ClaimQuantities[list[ClaimTimes]] = {
    "csr_median": _quantity(_speedup_over_csr, "median"),
    "coo_median": _quantity(_speedup_over_coo, "median"),
    "bicgstab_median": _quantity(_bicgstab, "median"),
    "gflops_most": _quantity(_gflops, "most"),
    "memory_above_coo": _quantity(_more_than_coo, "arithmetic mean"),
    "bicgstab_share": _quantity(_is_faster_solver, "arithmetic mean"),
    "bicgstab_over_product": _quantity(_damped, "median"),
    "memory_below_csr": _quantity(_less_than_csr, "sum"),
    "fewer_threads": _quantity(_fewer_threads, "median"),
    "gain_by_gpu": Quantity(_gain_by_gpu),
    "k_suffices": _quantity(_k_suffices, "median"),
    "csr_least": _quantity(_speedup_over_csr, "least"),
    "second_csr_median": _quantity(_second_csr, "median"),
    "consistency": Quantity(_consistency),
    "gain_of_repeats": Quantity(_gain_of_repeats),
}
