"""Data that the study's tables and figures share: times of a campaign, claims, and the papers' published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from typing import Literal

from repro.bench.rows import ClockName
from repro.codegen.targets import INDEX_BYTES
from repro.entries import get_entry
from repro.results.campaign_data import Campaign, Case, Method, ProblemRecord, ReportedTime, Selection
from repro.results.claims import ClaimQuantities
from repro.results.columns import ABBREVIATIONS
from repro.results.comparisons import (
    ABSENT,
    CaseNumber,
    Cases,
    Comparison,
    JudgedBy,
    Measured,
    MissingCase,
    Quantity,
    Side,
    StatisticName,
    no_notes,
)
from repro.results.problem_lines import MethodTimes, join_sentences, measurement_note, times_of
from repro.results.published import Published
from repro.results.shared_artifacts import Contest, register_contests, register_energy
from repro.results.significance import geometric_mean, ratio_of
from repro.sparse.compound.runnables import DEPENDENT, OWN_FLOOR
from repro.sparse.compound.variants import TILE_ROWS
from repro.sparse.expansions import real_expansion
from repro.sparse.solvers.conjugate_gradients import OVER_PRODUCT, PERSISTENT_CG
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.study import REORDERED_UNPAIRED, UNPAIRED, CompoundRow
from repro.words import EXTENDED, PAPER, PAPER_TUNED, Space

ENTRY_WORDS = {"real": "real", "complex": "complex", "quaternion": "quaternion", "block3": "3×3"}
Time = ReportedTime[CompoundRow]

PAPERS = Method("papers_space", "papers’ space", tuning="joint")
SCHEDULE = Method("schedule", "schedule tuning alone", tuning="schedule")
OURS = Method("ours", "ours", tuning=EXTENDED)
#: The best variant without formats of pairs, if such a format was timed; these formats require symmetric matrices.
WITHOUT_PAIRS = Method("unpaired", "without pairs", tuning=UNPAIRED)
REORDERED_WITHOUT_PAIRS = Method("reordered_unpaired", "without pairs, any ordering", tuning=REORDERED_UNPAIRED)
_ANY_ORDERING = Method("reordered", "reordered", tuning="reordered")
_ROUTINES = {"kind": "baseline", "ordering": "natural"}
LIBRARY = Method("baseline", "fastest", columns=_ROUTINES)
register_energy(STUDY_NAME)
register_contests(STUDY_NAME, [Contest("SpMV", (OURS, PAPERS), LIBRARY)])
LIBRARY_CSR = Method("library_csr", "CSR", columns={**_ROUTINES, "format": "csr"})
PAPERS_CHOICE = Method("papers_choice", "papers’ choice", columns={**_ROUTINES, "papers_choice": True})


#: Our fastest variants by dependent launches, which overlap in a graph; the library's launches do not.
OURS_DEPENDENT = Method("dependent", "ours, dependent launches", columns={"kind": DEPENDENT})
#: Conjugate gradients, timed by launches of several iterations: with the matrix kept on the chip, and with our and the
#: library's fastest products.
CHIP_CG = Method("chip_cg", "on the chip", columns={"kind": "solver", "routine": PERSISTENT_CG})
OUR_CG = Method(
    "our_cg",
    "ours, in a graph",
    columns={"kind": "solver", "routine": OVER_PRODUCT},
    predicate=lambda row: row.layout is not None,
)
LIBRARY_CG = Method(
    "library_cg", "the library’s, in a graph", columns={"kind": "solver", "routine": OVER_PRODUCT},
    predicate=lambda row: row.representation is not None,
)  # fmt: skip
FLOOR, COPY, EMPTY = (Method(kind, kind, columns={"kind": kind}) for kind in ("floor", "copy", "empty"))


def gpus(published: Published) -> list[str]:
    """Return the papers' GPUs, oldest first."""
    return [device["gpu"] for device in published["devices"]]


def memory_of(record: ProblemRecord | None) -> Mapping[str, Mapping[str, int]]:
    """Return a matrix's bytes by precision and outer format; empty if they are not recorded."""
    memory: Mapping[str, Mapping[str, int]] = record.facts.get(STUDY_NAME, {}).get("memory", {}) if record else {}
    return memory


def papers_space(campaign: Campaign) -> Space:
    """Return the space of the papers' kernels that tables show: as published if searched, else as tuned further."""
    return PAPER if campaign.tuning(PAPERS.tuning) == PAPERS.tuning else PAPER_TUNED


def kernels_note(campaign: Campaign) -> str:
    """Return the sentence on differences between the campaign's kernels of the papers and the published kernels."""
    if papers_space(campaign) == PAPER:
        return "The papers’ kernels are as published: their row loops are not unrolled."
    return "The papers’ kernels are tuned further than published: the compiler unrolls their row loops."


#: Sentence on the clock by which our times are compared with published times.
PUBLISHED_CLOCK = (
    "Published times are by events around calls on Windows 10, so they most likely include the host’s latency; ours do "
    "not."
)


def clock_note(campaign: Campaign) -> str:
    """Return the sentences on the event clock of times beside published ones."""
    return join_sentences(["" if campaign.on_cpu else PUBLISHED_CLOCK, measurement_note(campaign, "event")])


def paper_rows(campaign: Campaign, problem_name: str, precision: str) -> Selection[CompoundRow]:
    """Return the rows of the papers' kernels in the problem's own ordering, with the cache state that tables use."""
    searched = Case[CompoundRow](campaign, problem_name, precision).searched
    return searched.select(space=papers_space(campaign), ordering="natural", cache=campaign.cache)


def tied_layouts(case: Case[CompoundRow], best: Time | None) -> tuple[str, ...]:
    """Return the other layouts that have a variant whose time ties with the winner's."""
    if best is None or not best.ties:
        return ()
    layouts = {str(row.layout) for row in case.searched.select(name=best.ties)}
    return tuple(sorted(layouts - {str(best.row.layout)}))


class Times(MethodTimes[CompoundRow]):
    """The times of one problem of the study in one precision by one clock."""

    @property
    def bytes(self) -> int | None:
        """Bytes of the matrix as CSR-AoS."""
        return memory_of(self.line.record).get(self.case.precision, {}).get("CSR")

    @property
    def operands(self) -> int | None:
        """Bytes of the matrix as CSR-AoS and of both vectors; the bandwidth floor streams as many bytes."""
        floor = self[FLOOR]
        return (floor.row.least_bytes or None) if floor else None

    @property
    def reordered(self) -> Time | None:
        """The best variant of all orderings of the unknowns; None if it uses the problem's own ordering."""
        best = self[_ANY_ORDERING]
        return best if best and best.row.ordering != "natural" else None

    @property
    def reordered_library(self) -> Time | None:
        """The fastest library routine in the ordering of `reordered`."""
        return self.routine(self.reordered) if self.reordered else None

    @property
    def best(self) -> tuple[Time | None, Time | None]:
        """The best variant of any ordering, and the fastest library routine in the same ordering."""
        reordered, library = self.reordered, self.reordered_library
        return (reordered, library) if reordered and library else (self[OURS], self[LIBRARY])

    def own_floor(self, kernel: Time | None) -> Time | None:
        """Return the streaming floor for the bytes of a kernel's own format; None unless it is a format of pairs."""
        return self.case.select(kind=OWN_FLOOR, layout=kernel.row.layout).fastest(self.clock) if kernel else None

    def routine(self, kernel: Time | None, *, papers_choice: bool = False) -> Time | None:
        """Return the fastest routine (of all, or of those in the papers) in a kernel's ordering."""
        columns = {"kind": "baseline", "ordering": kernel.row.ordering if kernel else "natural"}
        return self.case.select(**columns, **({"papers_choice": True} if papers_choice else {})).fastest(self.clock)

    def iteration(self, solver: Method) -> Time | None:
        """Return the time of one iteration of conjugate gradients."""
        solver_time = self[solver]
        if solver_time is None or not solver_time.row.iterations:
            return None
        count = solver_time.row.iterations
        rounds = [[seconds / count for seconds in part] for part in solver_time.rounds]
        return replace(solver_time, seconds=solver_time.seconds / count, rounds=rounds)

    @property
    def kept(self) -> float | None:
        """Fraction of the matrix that stays in shared memory during conjugate gradients; None if not timed."""
        chip = self[CHIP_CG]
        return (chip.row.kept_bytes or 0) / chip.row.matrix_bytes if chip and chip.row.matrix_bytes else None

    @property
    def why_not(self) -> tuple[str, ...]:
        """Why an available problem has no time in the papers' space."""
        return (self.case.why_not(),) if self.line.is_available and self[PAPERS] is None else ()

    @property
    def is_mostly_launch(self) -> bool:
        return self.case.is_mostly_launch(self.clock, self[OURS] or self[PAPERS])


def cases_of_conjugate_gradients(cases: Sequence[Times]) -> list[Times]:
    """Return the cases in which conjugate gradients were tried; older records have none."""
    return [case for case in cases if case.case.select(kind="solver")]


def cases_of_dependent_launches(cases: Sequence[Times]) -> list[Times]:
    """Return the cases in which dependent launches were tried; older records and devices without them have none."""
    return [case for case in cases if case.case.select(kind=DEPENDENT)]


def pair_kernel(kernel: Time | None) -> Time | None:
    """Return the kernel if its format is one of pairs, else None."""
    return kernel if kernel and kernel.row.outer in TILE_ROWS else None


def all_times(campaign: Campaign, published: Published, clock: ClockName = "graph") -> list[Times]:
    """Return all times of a campaign, problem by problem, single precision first."""
    return times_of(Times, campaign, published, clock=clock)


# claims --------------------------------------------------------------------------------------------------------------

LAYOUT = Method("layout", "layout tuning alone", tuning="layout")
STATIC, DYNAMIC = (Method(kind, kind, tuning=kind) for kind in ("static", "dynamic"))
#: Name of the smallest matrix of 3×3 blocks, which a claim of section 5.3 excludes.
SMALLEST_BLOCKS = "fem/armadillo_1000.1"
#: Matrices of 3×3 blocks that section 5.3 excludes from those whose vectors are fastest as arrays of structures.
SOA_VECTORS = ("fem/armadillo_1000.1", "fem/nut_37k")
#: The matrix and the layouts, in double precision and with static schedules, whose registers section 5.4 counts.
COUNTED_MATRIX, COUNTED_LAYOUTS = "fem/NX_MotorH67k", ("CSR-AoS-AoS", "ELL-SoA-AoS")
LAYOUT_OF_FIGURE_7 = "ELL-AoS-SoA"
#: Bytes of a unit of memory in Table 9, and of a real and a complex number in double precision.
BYTES, REAL_BYTES, COMPLEX_BYTES = {"KiB": 2**10, "MiB": 2**20}, 8, 16
#: Values of a quaternion, and of a quaternion in real numbers.
QUATERNION, EXPANDED = len(get_entry("quaternion").members), real_expansion("quaternion").size ** 2
#: A matrix whose ELL takes more times CSR's memory has a few long rows; section 5.5 names these four.
MANY_TIMES = 5


def claim_cases(campaign: Campaign, published: Published, variants: JudgedBy) -> Cases[Times] | None:
    """Return a campaign's cases of the papers' problems, and of all, by the papers' clock, to judge claims.

    None if it measured the papers' kernels in another space than `variants` names; with `none`, any space will do.
    Variants as published prevent the unrolling of row loops, as the authors' code does; the further tuned variants let
    the compiler decide.
    """
    searched_space: JudgedBy = "as_published" if papers_space(campaign) == PAPER else "paper_tuned"
    if variants not in (searched_space, "none"):
        return None
    every = all_times(campaign, published, "event")
    cases = [times for times in every if times.line.published is not None]
    return Cases(campaign, published, cases, variants, every)


def _name(times: Times) -> str:
    return f"{times.line.problem} ({ABBREVIATIONS[times.case.precision]})"


def _missing(times: Times) -> MissingCase:
    return MissingCase(_name(times), next(iter(times.why_not), "not timed"), notes=times.line.remarks)


_compared = partial(
    Comparison[Times], name=_name, reason=_missing, empty_reason="no problem of the papers is in this campaign"
)


def _over(base: Side[Times]) -> Comparison[Times]:
    """Return the speedup of the papers' kernels over `base`; a note says if a time is mostly launch."""
    return _compared(
        base, PAPERS, notes=lambda case, *times: case.line.remarks + case.case.launch_note("event", *times)
    )


def _separate(times: Times) -> Time | None:
    """Return the better time of schedule tuning alone and layout tuning alone."""
    separate_times = [time for method in (SCHEDULE, LAYOUT) if (time := times[method])]
    return min(separate_times, key=lambda time: time.seconds, default=None)


def _share(holds: Callable[[CompoundRow], bool], *conditions: Callable[[Times], bool]) -> Quantity[Cases[Times]]:
    """Return the share of cases whose fastest variant fulfils a condition."""

    def answer(times: Times) -> float | None:
        return float(holds(best.row)) if (best := times[PAPERS]) else None

    return _compared(answer).where(*conditions).mean()


def _entry(entry: str, precision: str | None = None) -> Callable[[Times], bool]:
    return lambda times: times.line.entry == entry and precision in (None, times.case.precision)


def _of_precision(precision: str) -> Callable[[Times], bool]:
    return lambda times: times.case.precision == precision


def _but(*problems: str) -> Callable[[Times], bool]:
    return lambda times: not {times.line.problem, times.line.published} & {*problems}


def _most_frequent_outer(data: Cases[Times]) -> Measured:
    """Return the share of complex cases whose fastest variant has the outer format that is fastest most often."""
    outers = [best.row.outer for times in data if times.line.entry == "complex" and (best := times[PAPERS])]
    if not outers:
        return Measured.one(None, "all matrices of complex numbers", "not timed")
    name, number = Counter(outers).most_common(1)[0]
    return Measured.one(number / len(outers), f"{name}, {number} of {len(outers)} cases")


def _prefers_dynamic(times: Times) -> float | None:
    """Return 100 if the best dynamic schedule is faster than the best static one by more than a tie, else 0."""
    ratio = ratio_of(times[STATIC], times[DYNAMIC])
    return 100.0 * (ratio > 1 + times.case.campaign.tie) if ratio else None


def _loss_ratio(times: Times, layout: str | None = None) -> float | None:
    """Return slowest / fastest time of dynamic schedules in a layout (the best one), over that ratio of static ones."""
    best = times.case.winner("joint", "event")
    layout = layout or (best.row.layout if best else None)
    rows = paper_rows(times.case.campaign, times.case.problem, times.case.precision).select(layout=layout)
    static, dynamic = (
        [seconds for row in rows.select(schedule=kind) if (seconds := row.seconds("event")) is not None]
        for kind in ("static", "dynamic")
    )
    return max(dynamic) / min(dynamic) / (max(static) / min(static)) if layout and static and dynamic else None


NOT_COUNTED = COUNTED_MATRIX, "not searched in this campaign"


def _counted_rows(data: Cases[Times]) -> dict[str, Selection[CompoundRow]]:
    """Return the static variants that section 5.4 of CGF 2020 is about, by layout; empty if they were not searched."""
    searched = [
        paper_rows(times.case.campaign, times.case.problem, times.case.precision)
        for times in data
        if (times.line.published, times.case.precision) == (COUNTED_MATRIX, "double")
    ]
    rows = {name: one.select(layout=name, schedule="static") for one in searched for name in COUNTED_LAYOUTS}
    return rows if all(rows.values()) else {}


def _compiled(column: Literal["registers", "spills"], statistic: StatisticName) -> Quantity[Cases[Times]]:
    """Return a property of the compiled variants that section 5.4 of CGF 2020 is about."""

    def measure(data: Cases[Times]) -> Measured:
        rows = [row for found in _counted_rows(data).values() for row in found]
        numbers = [CaseNumber(float(value), row.name) for row in rows if (value := row[column]) is not None]
        return Measured.any_of(numbers, *NOT_COUNTED)

    return Quantity(measure, statistic)


def _threads(row: CompoundRow) -> int:
    """Threads of a static variant on a multiprocessor: those of a block times the blocks."""
    return (row.n_t or 0) * (row.n_b or 0)


def _peak_threads(data: Cases[Times]) -> Measured:
    """Return the threads of the fastest static CSR-AoS-AoS variant over those of the fastest ELL-SoA-AoS variant."""
    best = {name: time for name, rows in _counted_rows(data).items() if (time := rows.fastest("event"))}
    if len(best) < len(COUNTED_LAYOUTS):
        return Measured.one(None, *NOT_COUNTED)
    csr, ell = (_threads(best[name].row) for name in COUNTED_LAYOUTS)
    return Measured.one(csr / ell, f"{csr:,} and {ell:,} threads")


def _tuned_as_one(data: Cases[Times]) -> Measured:
    """Return the slowest time over the fastest of the static variants of one layout with equally many threads."""
    numbers = []
    for name, rows in _counted_rows(data).items():
        times: dict[int, list[float]] = {}
        for row in rows:
            if (seconds := row.seconds("event")) is not None:
                times.setdefault(_threads(row), []).append(seconds)
        numbers += [
            CaseNumber(max(of) / min(of), f"{name}, {threads:,} threads")
            for threads, of in sorted(times.items())
            if len(of) > 1
        ]
    return Measured.any_of(numbers, *NOT_COUNTED)


def _prefers_as_published(data: Cases[Times]) -> Measured:
    """Return, for each case for which Table 8 prefers dynamic schedules on the newest GPU, 1 if it does so here."""
    gpu = gpus(data.published)[-1]
    preferred = {item["problem"]: item["preferred"] for item in data.published["dynamic"] if item["gpu"] == gpu}

    def is_published(times: Times) -> bool:
        return preferred.get(str(times.line.published)) in ("both", ABBREVIATIONS[times.case.precision])

    return _compared(_prefers_dynamic).where(is_published).answers(data, lambda share: share > 0)


def _similar_layouts(data: Cases[Times]) -> Measured:
    """Return 1 for each two matrices of the same entries and precision that are fastest in one outer format, else 0."""
    timed = [(times, best.row.outer) for times in data if (best := times[PAPERS])]
    numbers = [
        CaseNumber(
            float(outer == other_outer), f"{_name(times)} and {_name(other)}", times.line.remarks + other.line.remarks
        )
        for (times, outer), (other, other_outer) in combinations(timed, 2)
        if (times.line.entry, times.case.precision) == (other.line.entry, other.case.precision)
    ]
    return Measured.any_of(numbers, "two matrices of the same entries", "not timed")


def _layouts(times: Times) -> Mapping[str, int]:
    """Return the bytes of the matrix by outer format, in double precision."""
    return memory_of(times.line.record).get("double", {})


def _memory(outer: str, problem_name: str) -> Quantity[Cases[Times]]:
    """Return a format's bytes over CSR's bytes of a matrix in double precision; kernels do not matter."""

    def fraction(times: Times) -> float | None:
        layouts = _layouts(times)
        return layouts[outer] / layouts["CSR"] if layouts.get("CSR") and layouts.get(outer) else None

    bytes_over_csr = Comparison[Times](fraction, notes=no_notes, empty=MissingCase(problem_name, ABSENT))
    is_named = (_of_precision("double"), lambda times: problem_name in (times.line.problem, times.line.published))
    return bytes_over_csr.where(*is_named).worst()


def _long_rows(published: Published) -> list[str]:
    return [item["problem"] for item in published["memory"] if float(item["ELL"]) > MANY_TIMES]


def _ell_memory(data: Cases[Times]) -> Measured:
    """Return ELL's bytes over CSR's for the matrices to which Table 9 gives many times CSR's memory."""
    numbers, missing_cases = [], []
    for name in _long_rows(data.published):
        found = [times for times in data if times.line.published == name and times.case.precision == "double"]
        layouts = _layouts(found[0]) if found else {}
        if not layouts:
            missing_cases.append(MissingCase(name, ABSENT))
        elif found[0].line.record and found[0].line.record.stand_in:
            missing_cases.append(MissingCase(found[0].line.problem, "a stand-in, made with the published memory"))
        else:
            numbers.append(CaseNumber(layouts["ELL"] / layouts["CSR"], found[0].line.problem, found[0].line.remarks))
    return Measured(numbers, missing_cases)


def _time_of_overhead(data: Cases[Times]) -> Measured:
    """Return the time of the fastest ELL variant over that of the fastest variant, both by the search."""

    def ell_over_best(times: Times) -> float | None:
        searched = paper_rows(times.case.campaign, times.case.problem, times.case.precision)
        return ratio_of(searched.select(outer="ELL").fastest("event"), searched.fastest("event"))

    names = _long_rows(data.published)
    return _compared(ell_over_best).where(lambda times: times.line.published in names).measure(data)


def _library_memory(data: Cases[Times]) -> Measured:
    """Return the bytes of quaternions as 4×4 real blocks over those of CSR in double precision, by Table 1's sizes."""
    numbers = []
    for item in data.published["sizes"]:
        if item["entry"] == "quaternion":
            rows, entries = int(item["rows"]), int(item["nonzeros"])
            blocks, csr = (
                entries * (INDEX_BYTES + REAL_BYTES * values) + INDEX_BYTES * (rows + 1)
                for values in (EXPANDED, QUATERNION)
            )
            numbers.append(CaseNumber(blocks / csr, item["problem"]))
    return Measured(numbers)


def _published_gain(data: Cases[Times], gpu: str, entry: str) -> float:
    """Return the geometric mean of the gains by layouts that Tables 2 to 7 print for one GPU and kind of entry."""
    items = [item for item in data.published["layouts"] if (item["gpu"], item["entry"]) == (gpu, entry)]
    return geometric_mean([float(item["speedup"]) for item in items]) or 0.0


def _gain_by_gpu(*entries: str, numerator: str, denominators: Sequence[str]) -> Quantity[Cases[Times]]:
    """Return one GPU's published gain by layouts over the largest of other GPUs."""

    def gain(data: Cases[Times], entry: str) -> float:
        return _published_gain(data, numerator, entry) / max(_published_gain(data, gpu, entry) for gpu in denominators)

    return Quantity(
        lambda data: Measured([CaseNumber(gain(data, entry), ENTRY_WORDS[entry]) for entry in entries]), "least"
    )


def _falling_gains(data: Cases[Times]) -> Measured:
    """Return each GPU's published gain by layouts for 3×3 blocks over that of the next newer one."""
    gains = [(gpu, _published_gain(data, gpu, "block3")) for gpu in gpus(data.published)]
    return Measured(
        [CaseNumber(gain / newer, f"{gpu} over {other}") for (gpu, gain), (other, newer) in pairwise(gains)]
    )


def _dense_over_ell(data: Cases[Times]) -> Measured:
    """Return the bytes of RFdevice as a dense matrix over those of ELL, by Tables 1 and 9 of CGF 2020."""
    size = next(item for item in data.published["sizes"] if item["problem"] == "RFdevice")
    memory = next(item for item in data.published["memory"] if item["problem"] == "RFdevice")
    ell = float(memory["ELL"]) * float(memory["csr_size"]) * BYTES[memory["csr_unit"]]
    return Measured.one(int(size["rows"]) ** 2 * COMPLEX_BYTES / ell, "RFdevice")


OVER_CHOICE = _over(PAPERS_CHOICE)
IS_FASTER = _compared(PAPERS_CHOICE, PAPERS)
#: Quantities by name in `config/claims/compound_spmv.csv`.
CLAIM_QUANTITIES: ClaimQuantities[Cases[Times]] = {
    "layout_gain_most": _over(SCHEDULE).most(),
    "joint_over_separate_mean": _over(_separate).geometric_mean(),
    "library_most_single": OVER_CHOICE.where(_of_precision("single")).most(),
    "library_most_double": OVER_CHOICE.where(_of_precision("double")).most(),
    "library_most_blocks": OVER_CHOICE.where(_entry("block3", "double")).most(),
    "complex_double_range": OVER_CHOICE.where(_entry("complex", "double")).median(),
    "complex_slower_share": IS_FASTER.where(_entry("complex")).share(lambda speedup: speedup <= 1),
    "blocks_over_bsr_share": IS_FASTER.where(_entry("block3"), _but(SMALLEST_BLOCKS)).share(),
    "complex_outer_share": Quantity(_most_frequent_outer),
    "complex_inner_share": _share(lambda best: best.inner == "AoS", _entry("complex")),
    "quaternion_inner_share": _share(lambda best: best.inner == "AoS", _entry("quaternion", "single")),
    "quaternion_soa_share": _share(lambda best: best.inner == "SoA", _entry("quaternion", "double")),
    "quaternion_vector_share": _share(lambda best: best.vector == "AoS", _entry("quaternion", "double")),
    "blocks_inner_share": _share(lambda best: best.inner == "SoA", _entry("block3")),
    "blocks_vector_share": _share(lambda best: best.vector == "AoS", _entry("block3"), _but(*SOA_VECTORS)),
    "aos_share": _share(lambda best: best.vector == "AoS"),
    "ell_quaternion_share": _share(lambda best: best.outer == "ELL", _entry("quaternion")),
    "dynamic_share": _compared(_prefers_dynamic).mean(),
    "dynamic_over_static_loss": _compared(_loss_ratio).geometric_mean(),
    "dynamic_over_static_loss_in_figure": _compared(lambda times: _loss_ratio(times, LAYOUT_OF_FIGURE_7))
    .where(_of_precision("double"), lambda times: times.line.published == COUNTED_MATRIX)
    .worst(),
    "dynamic_as_published": Quantity(_prefers_as_published, "arithmetic mean"),
    "similar_layouts": Quantity(_similar_layouts, "arithmetic mean"),
    "registers_least": _compiled("registers", "least"),
    "registers_most": _compiled("registers", "most"),
    "spilled_most": _compiled("spills", "most"),
    "peak_threads": Quantity(_peak_threads),
    "tuned_as_one": Quantity(_tuned_as_one, "median"),
    "memory_sl16_rfdevice": _memory("Sl-16", "RFdevice"),
    "memory_sl32_rfdevice": _memory("Sl-32", "RFdevice"),
    "memory_dense_over_ell": Quantity(_dense_over_ell),
    "ell_over_csr": Quantity(_ell_memory, "mean"),
    "ell_over_best": Quantity(_time_of_overhead, "mean"),
    "library_over_csr": Quantity(_library_memory, "mean"),
    "unit_quaternion_share": Quantity.constant(1 / QUATERNION, "any matrix of unit quaternions"),
    "expansion_growth": Quantity.constant(EXPANDED / QUATERNION, "any matrix of quaternions"),
    "layout_gain_k2000": _gain_by_gpu(
        "complex", "quaternion", "block3", numerator="K2000", denominators=("GTX 980", "GP100")
    ),
    "complex_gain_by_gpu": _gain_by_gpu("complex", numerator="GP100", denominators=("GTX 980",)),
    "quaternion_gain_by_gpu": _gain_by_gpu("quaternion", numerator="GP100", denominators=("GTX 980",)),
    "block_gain_by_gpu": Quantity(_falling_gains, "least"),
}
