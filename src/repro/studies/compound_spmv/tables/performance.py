"""Performance of every problem: times, fractions of the streaming floor, counters of the profiler, and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from repro.bench.rows import OUTSIDE, RecordedRow
from repro.results import problem_lines
from repro.results.campaign_data import Campaign, Method
from repro.results.claims import target_device_note, time_allowance, wanted_cell
from repro.results.columns import (
    ABBREVIATIONS,
    BLANK,
    FULL_PRECISION,
    LEAST_OF_SHARES,
    MEAN_AND_LEAST,
    MICRO,
    PRECISION,
    PROBLEM,
    Pick,
    add_row_keys,
    floor_column,
    kernel_columns,
    megabytes,
    name_of,
    number_cell,
    picked,
    printed_cell,
    ratio,
    share,
    speedup_column,
    time_column,
    with_cold_cache,
)
from repro.results.common_tables import SetupCosts, register_baselines, register_setup_costs
from repro.results.comparisons import Comparison, Measured, MissingCase
from repro.results.published import Published, Record
from repro.results.registry import table
from repro.results.significance import geometric_mean
from repro.results.tables import Cell, Column, Table, table_of
from repro.sparse.compound.runnables import DEPENDENT
from repro.sparse.tuning_features import library_of, routine_text
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.results import (
    CHIP_CG,
    COPY,
    EMPTY,
    FLOOR,
    LIBRARY,
    LIBRARY_CG,
    LIBRARY_CSR,
    OUR_CG,
    OURS,
    OURS_DEPENDENT,
    PAPERS,
    PAPERS_CHOICE,
    PUBLISHED_CLOCK,
    REORDERED_WITHOUT_PAIRS,
    WITHOUT_PAIRS,
    Time,
    Times,
    all_times,
    cases_of_conjugate_gradients,
    cases_of_dependent_launches,
    kernels_note,
    pair_kernel,
)
from repro.studies.compound_spmv.study import CompoundRow

GIGA = 1e-9
_kernel_columns = partial(kernel_columns, floor=FLOOR, summary=LEAST_OF_SHARES)


def _routine(case: Times) -> Cell:
    return name_of(case[LIBRARY], routine_text)


def _bandwidth(time: Time | None, moved_bytes: Callable[[CompoundRow], int | None]) -> Cell:
    """Return the bytes that a kernel moves over its time in GB/s."""
    size = moved_bytes(time.row) if time else None
    return number_cell(size / time.seconds * GIGA if time and size else None)


def _floor_columns(library: str) -> tuple[Column[Times], ...]:
    fastest = f"fastest {library}"
    return (
        PROBLEM,
        FULL_PRECISION,
        *_kernel_columns("winner", "papers’ space", PAPERS, reasons=lambda case: case.why_not),
        Column(
            "effective_GB_per_s",
            "GB/s",
            "papers’ space",
            cell=lambda case: _bandwidth(case[PAPERS], lambda row: row.least_bytes),
        ),
        floor_column(FLOOR, PAPERS, is_marked=True),
        Column("baseline", "routine", fastest, numeric=False, cell=_routine),
        *_kernel_columns("baseline", fastest, LIBRARY)[1:],
        speedup_column("speedup_over_baseline", "speedup over it", fastest, LIBRARY, PAPERS),
        Column(
            "copy_GB_per_s",
            "GB/s",
            "copy",
            cell=lambda case: add_row_keys(_bandwidth(case[COPY], lambda row: row.bytes), case[COPY]),
        ),
        time_column("empty_us", "µs", "empty", EMPTY),
    )


@table(
    STUDY_NAME,
    "table-floor",
    title="Fraction of the streaming floor, effective bandwidth",
    numbering="ours",
    lead=("speedup_over_baseline", "winner"),
)
def floor(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision: times of winner, fastest baseline and streaming floor."""
    cases = all_times(campaign, published)
    winners = [(case, best) for case in cases if (best := case[PAPERS])]
    caption = [
        "Distance from the streaming floor, a kernel that only reads the bytes of the CSR-AoS matrix and of",
        "the vector and writes the result. Of floor: the floor’s time over the winner’s. GB/s: the bytes of the",
        "matrix (CSR-AoS), x and y, each moved once, over the winner’s time, whatever its layout; with a warm",
        "cache they need not come from memory. Beside them, the bandwidth of a device copy that is too large for",
        "the cache (bytes read and written) and the time of an empty kernel. Speedup: the fastest routine’s time",
        "over the winner’s. The papers print none of these numbers.",
        kernels_note(campaign),
        problem_lines.measurement_note(campaign, "graph"),
        problem_lines.launch_note(
            sum(case.case.is_mostly_launch("graph", best) for case, best in winners), len(winners)
        ),
        f"Winners tied with other variants in the search, within {100 * campaign.tie:g} %:",
        f"{sum(bool(best.ties) for _, best in winners)} of {len(winners)}.",
        problem_lines.unavailable_note(campaign),
    ]
    return table_of(_floor_columns(library_of(campaign)), cases, problem_lines.join_sentences(caption))


#: Additional columns of a table in which a format of pairs has won.
OWN = ("ours_own_MB", "ours_percent_of_own_floor", "own_floor_us", "reordered_percent_of_floor",
       "reordered_percent_of_own_floor")  # fmt: skip
OWN_SAID = (
    "Ours, own MB: if the winner stores each symmetric pair once, the megabytes of that format and both vectors. Of its"
    " own floor: the time of a streaming kernel that moves these bytes, over the winner’s time. Such a winner moves"
    " fewer bytes than the floor and may exceed it, but not its own floor."
)


#: Additional columns of a table if dependent launches were timed.
CHAIN = ("dependent", "dependent_us", "dependent_percent_of_floor", "dependent_speedup", "dependent_speedup_over_ours")
CHAIN_SAID = (
    "Dependent launches of our fastest variants: each launch in the graph starts before the previous one has ended,"
    " loads the matrix meanwhile, and then waits for it before reading x. The library and all other columns use"
    " ordinary launches."
)


@table(
    STUDY_NAME,
    "table-problems",
    title="Our kernels, the library and the floor, problem by problem",
    numbering="ours",
    lead=("speedup", "ours", "event_speedup", "cold_speedup"),
    lead_instead=("papers_space_speedup", "papers_space", "event_papers_space_speedup", "cold_papers_space_speedup"),
)
def problems(campaign: Campaign, published: Published) -> Table:
    """One line for each problem and precision: times, speedups, fractions of the floor; means and minima below."""
    cases = all_times(campaign, published)
    has_pairs = any(pair_kernel(kernel) for case in cases for kernel in (case[OURS], case.reordered))
    chained = bool(cases_of_dependent_launches(cases))
    timed_cases = [case for case in cases if case[PAPERS] or case[OURS]]
    searched = any(case[OURS] for case in cases)
    library = library_of(campaign)
    caption = [
        "" if searched else "Ours is absent: the space `extended` was not searched.",
        "Matrix: megabytes of CSR-AoS, and with both vectors.",
        "Ours: the fastest variant of the papers’ space and ours," if searched else "Winners are",
        "chosen in the search and timed again beside the others. Papers’ space: the fastest of the papers’ layouts",
        "and schedules.",
        f"Fastest: the fastest {library} routine of any representation; papers’ choice: the routine that the",
        "papers compare with. Of floor: the streaming floor’s time over the kernel’s. Speedups are over the fastest",
        f"{library} routine unless the heading names another. Reordered: rows and columns in another order, shown if",
        f"it is faster by more than a tie, with the fastest {library} routine on the matrix in that order; times",
        "exclude the permutation.",
        OWN_SAID if has_pairs else "",
        CHAIN_SAID if chained else "",
        "By events: the variants and routines that are fastest by the event clock.",
        "Cold: the same variants and the fastest routine, with L2 overwritten before each launch, by the event"
        " clock." if "cold" in campaign.caches and campaign.cache == "warm" else "",
        "The papers print none of these numbers.",
        kernels_note(campaign),
        problem_lines.measurement_note(campaign, "graph"),
        problem_lines.launch_note(sum(case.is_mostly_launch for case in timed_cases), len(timed_cases)),
        problem_lines.unconfirmed_note((case.case, case[OURS], case[PAPERS]) for case in cases),
        problem_lines.unavailable_note(campaign),
    ]  # fmt: skip
    omitted_columns = {*(() if has_pairs else OWN), *(() if chained else CHAIN)}
    columns = [column for column in _problem_columns(library) if column.key not in omitted_columns]
    return table_of(columns, cases, problem_lines.join_sentences(caption), MEAN_AND_LEAST)


def _problem_columns(library: str) -> tuple[Column[Times], ...]:
    fastest, events, cold_group, chain = (
        f"fastest {library}",
        "by events",
        "cold, by events",
        "ours, dependent launches",
    )
    reordered, reordered_library = attrgetter("reordered"), attrgetter("reordered_library")
    cold_ours, cold_papers, cold_library = map(with_cold_cache, (OURS, PAPERS, LIBRARY))
    event_ours, event_papers, event_library = map(_by_events, (OURS, PAPERS, LIBRARY))

    return (
        PROBLEM,
        PRECISION,
        Column("matrix_MB", "MB", "matrix", cell=lambda case: megabytes(case.bytes)),
        Column("operands_MB", "with vectors, MB", "matrix", cell=lambda case: megabytes(case.operands)),
        *_kernel_columns("ours", "ours", OURS),
        Column("ours_own_MB", "own MB", "ours", cell=_own_megabytes_cell),
        _own_share_column("ours", itemgetter(OURS)),
        speedup_column("speedup", "speedup", "ours", LIBRARY, OURS),
        speedup_column("speedup_over_papers_choice", "over papers’ choice", "ours", PAPERS_CHOICE, OURS),
        Column("dependent", "variant", chain, numeric=False, cell=_dependent_variant_cell),
        *_kernel_columns("dependent", chain, OURS_DEPENDENT)[1:],
        speedup_column("dependent_speedup", "speedup", chain, LIBRARY, OURS_DEPENDENT),
        speedup_column("dependent_speedup_over_ours", "over ordinary ones", chain, OURS, OURS_DEPENDENT),
        *_kernel_columns("papers_space", "papers’ space", PAPERS, reasons=lambda case: case.why_not),
        speedup_column("papers_space_speedup", "speedup", "papers’ space", LIBRARY, PAPERS),
        Column("baseline", "routine", fastest, numeric=False, cell=_routine),
        time_column("baseline_us", "µs", fastest, LIBRARY),
        time_column("papers_choice_us", "µs", "papers’ choice", PAPERS_CHOICE),
        floor_column(FLOOR, PAPERS),
        time_column("own_floor_us", "ours’ own, µs", "floor", lambda case: case.own_floor(case[OURS])),
        *_kernel_columns("reordered", "reordered", reordered),
        _own_share_column("reordered", reordered),
        time_column("reordered_baseline_us", f"{library} µs", "reordered", reordered_library),
        speedup_column("reordered_speedup", "speedup", "reordered", reordered_library, reordered),
        time_column("event_us", "ours µs", events, event_ours),
        time_column("event_papers_space_us", "papers’ space µs", events, event_papers),
        time_column("event_baseline_us", f"{library} µs", events, event_library),
        speedup_column("event_speedup", "speedup", events, event_library, event_ours),
        speedup_column("event_papers_space_speedup", "of papers’ space", events, event_library, event_papers),
        time_column("cold_us", "ours µs", cold_group, cold_ours),
        time_column("cold_papers_space_us", "papers’ space µs", cold_group, cold_papers),
        time_column("cold_baseline_us", f"{library} µs", cold_group, cold_library),
        speedup_column("cold_speedup", "speedup", cold_group, cold_library, cold_ours),
        speedup_column("cold_papers_space_speedup", "of papers’ space", cold_group, cold_library, cold_papers),
    )


def _dependent_variant_cell(case: Times) -> Cell:
    time = case[OURS_DEPENDENT]
    if time is not None:
        return Cell(time.row.product)
    failure = case.case.select(kind=DEPENDENT).failure
    return Cell(notes=(failure,) if failure else ())


def _own_megabytes_cell(case: Times) -> Cell:
    kernel = pair_kernel(case[OURS])
    return megabytes(kernel.row.bytes if kernel else None)


def _own_share_column(key: str, pick: Pick) -> Column[Times]:
    def cell(case: Times) -> Cell:
        return share(case.own_floor(time := picked(pick, case)), time)

    return Column(f"{key}_percent_of_own_floor", "of its own floor", key, cell=cell, summary=LEAST_OF_SHARES)


def _by_events(method: Method) -> Callable[[Times], Time | None]:
    return lambda case: case.by_events[method]


class CounterRow(NamedTuple):
    """Counters of a kernel, read by a profiler."""

    line: problem_lines.ProblemLine
    row: RecordedRow


def _counter(
    counter_name: str, cell: Callable[[float], Cell], key: str, title: str, group: str = ""
) -> Column[CounterRow]:
    def counter_cell(counter_row: CounterRow) -> Cell:
        value = counter_row.row[counter_name]
        return Cell() if value is None else cell(value)

    return Column(key, title, group, cell=counter_cell)


def _millions(value: float) -> Cell:
    return number_cell(value, 1e-6)


def _percent_cell(value: float) -> Cell:
    return Cell(value, f"{value:.0f} %")


def _integer_cell(value: float) -> Cell:
    return Cell(round(value), f"{value:.0f}")


COUNTERS: tuple[Column[CounterRow], ...] = (
    PROBLEM,
    Column("precision", "precision", numeric=False, cell=lambda counter_row: Cell(counter_row.row.precision)),
    Column("name", "what runs", numeric=False, cell=lambda counter_row: Cell(counter_row.row.name)),
    _counter("gpu_time", lambda seconds: number_cell(seconds, MICRO), "gpu_us", "µs"),
    _counter("dram_read_bytes", _millions, "dram_read_MB", "from memory", "MB"),
    _counter("l2_to_l1_bytes", _millions, "l2_to_l1_MB", "L2 to L1", "MB"),
    _counter("l1_hit_percent", _percent_cell, "l1_hit_percent", "hits", "L1"),
    _counter("l1_throughput_percent", _percent_cell, "l1_percent_of_peak", "of peak", "L1"),
    _counter("l2_hit_percent", _percent_cell, "l2_hit_percent", "hits", "L2"),
    _counter("l2_throughput_percent", _percent_cell, "l2_percent_of_peak", "of peak", "L2"),
    _counter("load_requests", _millions, "load_requests_million", "requests, 10⁶", "loads"),
    _counter("sectors_per_request", number_cell, "sectors_per_request", "sectors each", "loads"),
    _counter("long_scoreboard_per_issue", number_cell, "stall", "stall", "warps"),
    _counter("occupancy_percent", _percent_cell, "occupancy_percent", "active", "warps"),
    _counter("warps", _integer_cell, "warps", "launched", "warps"),
    _counter("waves", number_cell, "waves", "waves", "warps"),
    _counter("registers", _integer_cell, "registers", "registers", "warps"),
)


@table(STUDY_NAME, "table-counters", title="Counters of the profiler", numbering="ours")
def counters(campaign: Campaign, published: Published) -> Table:
    """A line for each kernel that `repro counters` was run on."""
    counter_rows = [
        CounterRow(line, row)
        for line in problem_lines.recorded_lines(campaign, published)
        for precision in campaign.precisions
        for row in campaign.counter_rows(line.problem, precision)
    ]
    profilers = dict.fromkeys(str(row["profiler"]) for _, row in counter_rows)
    caption = [
        "The GPU’s counters for some of the kernels: medians over several whole launches with a warm cache. Times are",
        "the profiler’s, which are longer than by our clocks. From memory: bytes read from DRAM; L2 to L1: bytes that",
        "missed L1. Hits: in sectors of 32 bytes. Of peak: the busiest part of the cache’s pipeline. Loads: a warp’s",
        "requests to global memory, and sectors per request. Stall: warps that wait for loaded data, per instruction",
        "issued. Active: share of the warps that a multiprocessor can hold. For a routine of several kernels, amounts",
        "are added and rates averaged by time; waves and registers are the maximum.",
        f"Read by {' and '.join(profilers)} on {campaign.device}." if counter_rows else "",
        "" if counter_rows else "No counters were recorded in this campaign; `repro counters` records them, on a GPU.",
    ]
    return table_of(COUNTERS, counter_rows, problem_lines.join_sentences(caption), is_empty=not counter_rows)


MEDIUM, LARGE = 20_000_000, 60_000_000
NOT_SEARCHED = "the space `extended` was not searched in this campaign"


class Kernel(NamedTuple):
    """One column of measured ratios: a kernel, the library's routine, and the best without formats of pairs."""

    title: str
    kernel: Pick
    library: Pick
    unpaired: Pick


#: Columns of measured ratios, by key.
SIDES: Mapping[str, Kernel] = {
    PAPERS.key: Kernel(PAPERS.title, PAPERS, LIBRARY, lambda case: None),
    OURS.key: Kernel(OURS.title, OURS, LIBRARY, WITHOUT_PAIRS),
    "reordered": Kernel(
        "ours, any ordering", lambda case: case.best[0], lambda case: case.best[1], REORDERED_WITHOUT_PAIRS
    ),
}
Clocked = Literal["graph", "event", "cold"]


def _case_name(case: Times) -> str:
    return f"{case.line.problem}, {ABBREVIATIONS[case.case.precision]}"


@dataclass(frozen=True)
class Target:
    """How the quantity of a target is measured: a ratio of times, and its worst case or geometric mean."""

    #: Returns the two times of a column of `SIDES`.
    sides: Callable[[Kernel], tuple[Pick, Pick]]
    #: Whether the worst case is wanted, else the geometric mean.
    worst: bool = False
    #: Clock by which variants were chosen and timed; `cold`: chosen by the graph clock, timed by events with a cold
    #: cache.
    clock: Clocked = "graph"
    #: Function that returns whether a case is included.
    counts: Callable[[Times], bool] = lambda case: True
    #: Key in `SIDES` of the only column with a number, which is compared with the wanted one; if empty, all columns
    #: have one, and that of `ours` is compared.
    only: str = ""
    #: Times from which the ratio is computed; the first is the one that may be mostly launch overhead.
    times: tuple[Pick, ...] = (OURS, LIBRARY, FLOOR)

    def measure(self, cases: Sequence[Times], side: str) -> Measured:
        """Return the numbers for one column of `SIDES`."""
        if side == "reordered" and not any(case.reordered for case in cases):
            return Measured([])
        ratios = Comparison[Times](*self.sides(SIDES[side]), name=_case_name)
        measured = [(case, ratios.of(case)) for case in cases if self.counts(case)]
        missing = [MissingCase(_case_name(case), "not timed") for case, number in measured if number is None]
        return Measured([number for _, number in measured if number], missing)

    def value(self, measured: Measured) -> float | None:
        values = [number.value for number in measured.numbers]
        return min(values, default=None) if self.worst else geometric_mean(values)


def _is_medium_or_large(case: Times) -> bool:
    return (case.bytes or 0) >= MEDIUM


def _is_medium(case: Times) -> bool:
    return MEDIUM <= (case.bytes or 0) < LARGE


def _is_large_symmetric(case: Times) -> bool:
    return (case.bytes or 0) >= LARGE and case[WITHOUT_PAIRS] is not None


def _is_paper_problem(case: Times) -> bool:
    return case.line.published is not None


def _alone(base: Pick, divisor: Pick, counts: Callable[[Times], bool], *, worst: bool = False) -> Target:
    """Return the speedup of `divisor` over `base`, whatever the column."""
    return Target(lambda side: (base, divisor), worst=worst, counts=counts, only=OURS.key, times=(divisor, base))


def _iteration(solver: Method) -> Pick:
    return lambda case: case.iteration(solver)


def _fits(case: Times) -> bool:
    return case.kept == 1


_chip = partial(_alone, divisor=_iteration(CHIP_CG))
#: Quantities of conjugate gradients on the chip, by their names in `config/targets/compound_spmv.csv`.
CG_QUANTITIES: Mapping[str, Target] = {
    "cg_mean": _chip(_iteration(OUR_CG), counts=_fits),
    "cg_worst": _chip(_iteration(OUR_CG), counts=_fits, worst=True),
    "cg_library_mean": _chip(_iteration(LIBRARY_CG), counts=_fits),
    "cg_mean_beyond": _chip(_iteration(OUR_CG), counts=lambda case: case.kept is not None and 0.5 <= case.kept < 1),
}
_chain = partial(_alone, divisor=OURS_DEPENDENT)
#: Quantities of our fastest variants by dependent launches, by their names in `config/targets/compound_spmv.csv`.
CHAIN_QUANTITIES: Mapping[str, Target] = {
    "chain_worst": _chain(LIBRARY, counts=lambda case: True, worst=True),
    "chain_mean": _chain(LIBRARY, counts=lambda case: True),
    "chain_floor_worst_medium": _chain(FLOOR, counts=_is_medium, worst=True),
    "chain_floor_mean_medium": _chain(FLOOR, counts=_is_medium),
}


def _papers_choice(side: Kernel) -> tuple[Pick, Pick]:
    """Return the papers' choice of routine in the ordering of the kernel, and the kernel."""
    return lambda case: case.routine(picked(side.kernel, case), papers_choice=True), side.kernel


_over_library = partial(Target, lambda side: (side.library, side.kernel))
_over_floor = partial(Target, lambda side: (FLOOR, side.kernel))
_over_own_floor = partial(Target, lambda side: (lambda case: case.own_floor(picked(side.kernel, case)), side.kernel))
_over_unpaired = partial(Target, lambda side: (side.unpaired, side.kernel))
_STATISTICS: Mapping[str, Mapping[str, Any]] = {
    "worst": {"worst": True},
    "mean": {},
    "mean_papers": {"counts": _is_paper_problem},
}
_CLOCKS: Mapping[str, Clocked] = {"speedup": "graph", "event": "event", "cold": "cold"}
#: All quantities, by their names in `config/targets/compound_spmv.csv`.
TARGET_QUANTITIES: Mapping[str, Target] = {
    **{
        f"{name}_{statistic}": _over_library(clock=clock, **options)
        for name, clock in _CLOCKS.items()
        for statistic, options in _STATISTICS.items()
    },
    "speedup_worst_least": _over_library(worst=True),
    "papers_choice_mean": Target(_papers_choice),
    "event_papers_choice_mean": Target(_papers_choice, clock="event"),
    "floor_worst": _over_floor(worst=True, counts=_is_medium_or_large),
    "floor_mean": _over_floor(),
    "floor_worst_medium": _over_floor(worst=True, counts=_is_medium),
    "floor_mean_medium": _over_floor(counts=_is_medium),
    "floor_mean_large": _over_floor(counts=_is_large_symmetric, only="ours"),
    "floor_mean_large_reordered": _over_floor(counts=_is_large_symmetric, only="reordered"),
    "own_floor_mean_large": _over_own_floor(counts=_is_large_symmetric),
    "unpaired_mean_large": _over_unpaired(counts=_is_large_symmetric, only="ours"),
    "unpaired_mean_large_reordered": _over_unpaired(counts=_is_large_symmetric, only="reordered"),
    **CG_QUANTITIES,
    **CHAIN_QUANTITIES,
}


class TargetResult(NamedTuple):
    """A target, how it is measured, and the numbers for each column of `SIDES`."""

    item: Record
    target: Target
    cases: Sequence[Times]
    measured: Mapping[str, Measured]
    #: Result of `time_allowance`.
    allowance: float | None

    @property
    def held_against(self) -> Measured:
        """The numbers that are compared with the wanted value."""
        return self.measured[self.target.only or OURS.key]


def _target_columns() -> tuple[Column[TargetResult], ...]:
    return (
        Column("target", "target", numeric=False, cell=lambda line: Cell(line.item["what"].replace("'", "’"))),
        Column("prototype", "prototype", cell=lambda line: printed_cell(line.item["prototype"])),
        Column("wanted", "wanted", cell=lambda line: wanted_cell(line.item, line.allowance)),
        *(_side_column(key, side.title) for key, side in SIDES.items()),
        Column("over_wanted", "over wanted", "ours", cell=_target_quotient_cell),
        Column("worst_case", "worst case", "ours", numeric=False, cell=_worst_case_cell),
    )


def _side_column(key: str, title: str) -> Column[TargetResult]:
    def number_cell(line: TargetResult) -> Cell:
        if line.target.only not in ("", key):
            return BLANK
        measured = line.measured[key]
        value = line.target.value(measured)
        is_unmeasured = value is None and line.target.counts is _is_large_symmetric
        return Cell(None, "not measured") if is_unmeasured else replace(ratio(value), sample=measured.sample)

    return Column(key, title, "measured", cell=number_cell)


def _target_quotient_cell(line: TargetResult) -> Cell:
    measured_value, target_value = line.target.value(line.held_against), line.item["wanted"] if line.allowance else ""
    if measured_value is None or not target_value:
        return Cell() if target_value else BLANK
    quotient = measured_value / float(target_value)
    return Cell(quotient, f"{100 * (quotient - 1):+.0f} %".replace("-", "−"))


def _worst_case_cell(line: TargetResult) -> Cell:
    worst = min(line.held_against.numbers, key=lambda number: number.value, default=None)
    if worst is None or not line.target.worst:
        return BLANK
    case = next(case for case in line.cases if _case_name(case) == worst.case)
    times = [picked(time, case) for time in line.target.times]
    launch_notes = case.case.launch_note(case.clock, times[0]) if case.case.cache is None else ()
    return add_row_keys(Cell(worst.case, notes=worst.notes + launch_notes), *times)


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """One line for each target: the number of our prototype, the wanted and the measured numbers."""
    cases = all_times(campaign, published)
    by_clock: dict[Clocked, list[Times]] = {
        "graph": cases,
        "event": all_times(campaign, published, "event"),
        "cold": [cold_case for case in cases if (cold_case := case.cold)],
    }
    results = []
    has_solvers, has_chains = bool(cases_of_conjugate_gradients(cases)), bool(cases_of_dependent_launches(cases))
    untried_quantities = {*(() if has_solvers else CG_QUANTITIES), *(() if has_chains else CHAIN_QUANTITIES)}
    for item in published.targets:
        if item["quantity"] in untried_quantities:
            continue
        target = TARGET_QUANTITIES[item["quantity"]]
        target_cases = by_clock[target.clock]
        measured = {side: target.measure(target_cases, side) for side in SIDES}
        results.append(TargetResult(item, target, target_cases, measured, time_allowance(campaign)))
    reordered_count = sum(case.reordered is not None for case in cases)
    count = sum(case[OURS] is not None for case in cases)
    sizes = [sum(map(counts, cases)) for counts in (_is_medium_or_large, _is_medium, _is_large_symmetric)]
    paper_cases = [case for case in cases if _is_paper_problem(case)]
    library = library_of(campaign)
    caption = [
        "Goals and measurements: speedups of the best variant over routines of",
        f"{library}, and its fraction of the streaming floor, over all problems and precisions with these times.",
        "Papers’ space: the best of the papers’ layouts and schedules. Ours: the best of those and ours.",
        "Any ordering: if a reordered matrix is faster, it is compared with the library’s fastest routine on the",
        f"matrix in that order ({reordered_count} of {len(cases)} cases); times exclude the permutation. The papers’",
        "choice: 4×4 and 3×3 BSR for quaternions and 3×3 blocks, CSR for complex numbers. Lines by the event clock",
        "compare variants and routines chosen by that clock.",
        problem_lines.events_note(campaign),
        "" if campaign.on_cpu else PUBLISHED_CLOCK,
        "With a cold cache, the variants are those that the graph clock chose, timed by events after L2 was",
        "overwritten, and the routines are the fastest in that state. Reported: there is no goal.",
        f"The papers’ own problems: {len({case.line.problem for case in paper_cases})}, including rebuilt ones and",
        f"stand-ins, {len(paper_cases)} cases. The fastest routine: of any representation.",
        f"By the bytes of CSR-AoS, {sizes[0]} cases have 20 MB or more, {sizes[1]} of these less than 60 MB.",
        _pairs_note(sizes[2]),
        "Conjugate gradients: µs per iteration; a matrix fits if all of it stays in shared memory." * has_solvers,
        CHAIN_SAID * has_chains,
        "Prototype: a C++ prototype on an H200, on eight other matrices; for symmetric matrices a prototype with",
        "pairs, on four of these, seven cases.",
        kernels_note(campaign),
        problem_lines.measurement_note(campaign, "graph"),
        "" if count else f"Ours is absent: {NOT_SEARCHED}.",
        target_device_note(campaign),
        problem_lines.remarks(problem_lines.recorded_lines(campaign, published)),
        problem_lines.unavailable_note(campaign),
    ]  # fmt: skip
    return table_of(_target_columns(), results, problem_lines.join_sentences(caption))


def _pairs_note(large: int) -> str:
    """Return the sentences on formats of pairs; `large` is the number of large symmetric matrices with a time."""
    if not large:
        return "Symmetric: no format of pairs was timed on a matrix of 60 MB or more."
    return (
        f"Symmetric: matrices on which a format of pairs was timed, {large} cases of 60 MB and more, by the graph "
        "clock. Without pairs: the fastest variant of all other formats, chosen by the same search and timed in the "
        "same rounds. The floor streams the bytes of CSR-AoS; a format of pairs moves fewer, so it may exceed the "
        "floor. Its own floor streams its own bytes."
    )


def _baseline_or_layout(row: CompoundRow) -> str:
    return row.layout or row.name


SPMV = Method("product", "SpMV", columns={"kind": ("variant", "baseline", OUTSIDE)})
register_baselines(STUDY_NAME, [SPMV], _baseline_or_layout)


register_setup_costs(
    STUDY_NAME,
    library_of,
    all_times,
    lambda case: SetupCosts.packed(case, case[LIBRARY], case[LIBRARY_CSR], case[OURS] or case[PAPERS]),
    setup="Set-up: packing from CSR on the device (in older records on one core of the host), with "
    "clustering and the symmetry test. Exported libraries (`repro export`) convert on the GPU instead.",
)
