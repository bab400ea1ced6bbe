"""Performance of every problem: times, fractions of the streaming floor, counters of the profiler, and targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from repro.results.campaign_data import Campaign, Case, ReportedTime
from repro.results.problem_rows import (
    ABBREVIATIONS,
    PROBLEM,
    join_sentences,
    launch_note,
    measurement_note,
    ours,
    remarks,
    unavailable_note,
)
from repro.results.published import Published
from repro.results.registry import table
from repro.results.significance import geometric_mean, ratio_of
from repro.results.tables import (
    MICRO,
    Cell,
    Column,
    Table,
    digits,
    from_rows,
    microseconds,
    percent,
    ratio,
    share,
    speedup,
    tied,
    wanted_on,
)
from repro.sparse.baseline_times import fastest_baseline, library_of, routine_text
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.results import Comparison, comparisons, of_pairs_or_none, worst

GIGA = 1e-9


@table(STUDY_NAME, "table-floor", title="Fraction of the streaming floor, effective bandwidth", numbering="ours")
def floor(campaign: Campaign, published: Published) -> Table:
    """Winner, fastest baseline and floor of every problem and precision."""
    rows: list[tuple[Cell, ...]] = []
    ties = timed = marked = 0
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            case = Case(campaign, line.problem, precision)
            best = case.winner("joint", "graph")
            base = fastest_baseline(case, "graph")
            bound, copy, empty = (case.bound(k, "graph") for k in ("floor", "copy", "empty"))
            ties, timed = ties + bool(best and best.ties), timed + (best is not None)
            why = (case.why_not(),) if best is None and line.record and line.record.available else ()
            no_floor = (case.why_no_floor(),) if best and not bound else ()
            marked += case.mostly_launch("graph", best)
            rows.append(
                (
                    line.cell,
                    Cell(precision),
                    Cell(best.name if best else None, notes=why + tied(best, campaign.tie)),
                    microseconds(best, case),
                    share(bound, best),
                    bandwidth(best),
                    microseconds(bound, case) if bound else Cell(notes=no_floor),
                    Cell(base.name, routine_text(base)) if base else Cell(),
                    microseconds(base, case),
                    share(bound, base),
                    speedup(base, best),
                    copied(copy),
                    microseconds(empty),
                )
            )
    library = library_of(campaign)
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("winner", "variant", "winner", numeric=False),
        Column("winner_us", "µs", "winner"),
        Column("winner_percent_of_floor", "of floor", "winner"),
        Column("effective_GB_per_s", "GB/s", "winner"),
        Column("floor_us", "µs", "floor"),
        Column("baseline", "routine", f"fastest {library}", numeric=False),
        Column("baseline_us", "µs", f"fastest {library}"),
        Column("baseline_percent_of_floor", "of floor", f"fastest {library}"),
        Column("speedup_over_baseline", "speedup over it", f"fastest {library}"),
        Column("copy_GB_per_s", "GB/s", "copy"),
        Column("empty_us", "µs", "empty"),
    )
    caption = join_sentences(
        [
            "Distance from the streaming floor: a kernel that only reads the bytes of the CSR-AoS matrix and of",
            "the vector and writes the result. Of floor: the floor’s time over the time. GB/s: the bytes of",
            "matrix (CSR-AoS), x read once and y written once, over the winner’s time, whatever its layout; with a",
            "warm cache they need not come from memory. Beside them the bandwidth of a device copy that is",
            "too large for the cache (bytes read and written) and what an empty kernel reads. Speedup: the",
            "fastest routine’s time over the winner’s. Nothing of this is published.",
            measurement_note(campaign, "graph"),
            launch_note(marked, timed),
            f"Winners with other variants within {100 * campaign.tie:g} % in the search: {ties} of {timed}.",
            unavailable_note(campaign),
        ]
    )
    return Table(columns, rows, caption)


def bandwidth(timed: ReportedTime | None) -> Cell:
    """Return GB/s by the count of bytes that is the same for all rows of a problem."""
    if timed is None or not timed.row["least_bytes"]:
        return Cell()
    value = timed.row["least_bytes"] / timed.seconds * GIGA
    return Cell(value, digits(value))


def copied(timed: ReportedTime | None) -> Cell:
    """Return the bandwidth of a device copy in GB/s, by its own bytes."""
    if timed is None or not timed.row["bytes"]:
        return Cell()
    value = timed.row["bytes"] / timed.seconds * GIGA
    return from_rows(Cell(value, digits(value)), timed)


MEGA = 1e6
#: Columns that there are where a format of pairs has won.
OWN = ("ours_own_MB", "ours_percent_of_own_floor", "own_floor_us", "reordered_percent_of_floor",
       "reordered_percent_of_own_floor")  # fmt: skip
OWN_SAID = (
    "Ours, own MB: of a winner that stores each pair of a symmetric matrix once, the megabytes of the matrix so stored"
    " and of both vectors. Of its own floor: the time of a streaming kernel that moves these bytes, over the time; such"
    " a winner moves fewer bytes than the floor, and may pass it, but not its own."
)


@table(
    STUDY_NAME, "table-problems", title="Our kernels, the library and the floor, problem by problem", numbering="ours"
)
def problems(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision; the geometric means of the ratios at the bottom."""
    cases = comparisons(campaign, published)
    of_pairs = any(of_pairs_or_none(kernel) for case in cases for kernel in (case.ours, case.reordered))
    all_columns = _problem_columns(library_of(campaign))
    kept = [index for index, column in enumerate(all_columns) if of_pairs or column.key not in OWN]
    columns = tuple(all_columns[index] for index in kept)
    rows = [tuple(row[index] for index in kept) for row in map(_problem_row, cases)]
    means = []
    for index, column in enumerate(columns):
        mean = None
        if "speedup" in column.key or "percent" in column.key:
            mean = geometric_mean(float(cell.value) for row in rows if (cell := row[index]).value is not None)
        shown = percent(mean / 100 if mean else None) if "percent" in column.key else ratio(mean)
        means.append(Cell(None, " ") if mean is None else shown)
    timed = [case for case in cases if case.papers or case.ours]
    marked = sum(case.case.mostly_launch("graph", case.ours or case.papers) for case in timed)
    cold = "cold" in campaign.caches and campaign.cache == "warm"
    library = library_of(campaign)
    caption = [
        "Matrix: megabytes of CSR-AoS, and with both vectors.",
        "Ours: the fastest variant of the papers’ space and of our own, chosen in the",
        "search and timed again beside the others. Papers’ space: the fastest of the papers’ layouts and schedules.",
        f"Fastest: the fastest {library} routine of any representation; papers’ choice: the routine that the",
        "papers compare with. Of floor: the streaming floor’s time over the time. Speedups are over the fastest",
        f"{library} routine unless the head says otherwise. Reordered: rows and columns in another order,",
        f"where that is faster by more than a tie, beside the fastest {library} routine on the matrix in the",
        "same order; permuting is not in the times.",
        OWN_SAID if of_pairs else "",
        "Cold: the same variants and the fastest routine with the L2 cache overwritten before each launch, by the event"
        " clock." if cold else "",
        "Nothing of this is published.",
        measurement_note(campaign, "graph"),
        launch_note(marked, len(timed)),
        "" if any(case.ours for case in cases) else "Ours is absent: the space `extended` was not searched.",
        unavailable_note(campaign),
    ]  # fmt: skip
    summary = [(Cell("geometric mean"), *means[1:])]
    return Table(columns, rows, join_sentences(caption), summary if rows else [])


def _problem_columns(library: str) -> tuple[Column, ...]:
    fastest, cold = f"fastest {library}", "cold, by events"
    return (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("matrix_MB", "MB", "matrix"),
        Column("operands_MB", "with vectors, MB", "matrix"),
        Column("ours", "variant", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("ours_percent_of_floor", "of floor", "ours"),
        Column("ours_own_MB", "own MB", "ours"),
        Column("ours_percent_of_own_floor", "of its own floor", "ours"),
        Column("speedup", "speedup", "ours"),
        Column("speedup_over_papers_choice", "over papers’ choice", "ours"),
        Column("papers_space", "variant", "papers’ space", numeric=False),
        Column("papers_space_us", "µs", "papers’ space"),
        Column("papers_space_percent_of_floor", "of floor", "papers’ space"),
        Column("papers_space_speedup", "speedup", "papers’ space"),
        Column("baseline", "routine", fastest, numeric=False),
        Column("baseline_us", "µs", fastest),
        Column("papers_choice_us", "µs", "papers’ choice"),
        Column("floor_us", "µs", "floor"),
        Column("own_floor_us", "ours’ own, µs", "floor"),
        Column("reordered", "variant", "reordered", numeric=False),
        Column("reordered_us", "µs", "reordered"),
        Column("reordered_percent_of_floor", "of floor", "reordered"),
        Column("reordered_percent_of_own_floor", "of its own floor", "reordered"),
        Column("reordered_baseline_us", f"{library} µs", "reordered"),
        Column("reordered_speedup", "speedup", "reordered"),
        Column("cold_us", "ours µs", cold),
        Column("cold_papers_space_us", "papers’ space µs", cold),
        Column("cold_baseline_us", f"{library} µs", cold),
        Column("cold_speedup", "speedup", cold),
    )


def _problem_row(standing: Comparison) -> tuple[Cell, ...]:
    line, case = standing.line, standing.case
    there = line.record is not None and line.record.available
    why = (case.why_not(),) if standing.papers is None and there else ()
    no_floor = (case.why_no_floor(),) if standing.papers and not standing.floor else ()
    best, tie = standing.ours, case.campaign.tie
    return (
        line.cell,
        Cell(case.precision, ABBREVIATIONS[case.precision]),
        _mega(standing.bytes),
        _mega(standing.operands),
        _variant(best, tie),
        microseconds(best, case),
        share(standing.floor, best),
        _mega(kernel.row["bytes"] if (kernel := of_pairs_or_none(best)) else None),
        share(standing.own_floor(best), best),
        speedup(standing.library, best),
        speedup(standing.papers_choice, best),
        _variant(standing.papers, tie, why),
        microseconds(standing.papers, case),
        share(standing.floor, standing.papers),
        speedup(standing.library, standing.papers),
        _routine(standing.library),
        microseconds(standing.library),
        microseconds(standing.papers_choice),
        microseconds(standing.floor) if standing.floor else Cell(notes=no_floor),
        microseconds(standing.own_floor(best)),
        _variant(standing.reordered, tie),
        microseconds(standing.reordered, case),
        share(standing.floor, standing.reordered),
        share(standing.own_floor(standing.reordered), standing.reordered),
        microseconds(standing.reordered_library),
        speedup(standing.reordered_library, standing.reordered),
        *_cold(standing),
    )


def _cold(standing: Comparison) -> tuple[Cell, ...]:
    """Return the same variants' times with a cold cache, which the event clock alone can take."""
    cold = standing.cold
    if cold is None:
        return (Cell(),) * 4
    return (
        microseconds(cold.ours),
        microseconds(cold.papers),
        microseconds(cold.library),
        speedup(cold.library, cold.ours),
    )


def _mega(size: int | None) -> Cell:
    return Cell() if size is None else Cell(size / MEGA, digits(size / MEGA))


def _variant(timed: ReportedTime | None, tie: float, notes: tuple[str, ...] = ()) -> Cell:
    if timed is None:
        return Cell(notes=notes)
    return Cell(timed.name, notes=notes + tied(timed, tie))


def _routine(timed: ReportedTime | None) -> Cell:
    return Cell(timed.name, routine_text(timed)) if timed else Cell()


TO_MILLIONS = 1e-6


def _scaled(factor: float) -> Callable[[float], Cell]:
    return lambda value: Cell(value * factor, digits(value * factor))


def _percent_cell(value: float) -> Cell:
    return Cell(value, f"{value:.0f} %")


def _integer_cell(value: float) -> Cell:
    return Cell(round(value), f"{value:.0f}")


#: A recorded column, its column here, and how a value is printed.
COUNTERS: Mapping[str, tuple[Column, Callable[[float], Cell]]] = {
    "gpu_time": (Column("gpu_us", "µs"), _scaled(MICRO)),
    "dram_read_bytes": (Column("dram_read_MB", "from memory", "MB"), _scaled(TO_MILLIONS)),
    "l2_to_l1_bytes": (Column("l2_to_l1_MB", "L2 to L1", "MB"), _scaled(TO_MILLIONS)),
    "l1_hit_percent": (Column("l1_hit_percent", "hits", "L1"), _percent_cell),
    "l1_throughput_percent": (Column("l1_percent_of_peak", "of peak", "L1"), _percent_cell),
    "l2_hit_percent": (Column("l2_hit_percent", "hits", "L2"), _percent_cell),
    "l2_throughput_percent": (Column("l2_percent_of_peak", "of peak", "L2"), _percent_cell),
    "load_requests": (Column("load_requests_million", "requests, 10⁶", "loads"), _scaled(TO_MILLIONS)),
    "sectors_per_request": (Column("sectors_per_request", "sectors each", "loads"), _scaled(1.0)),
    "long_scoreboard_per_issue": (Column("stall", "stall", "warps"), _scaled(1.0)),
    "occupancy_percent": (Column("occupancy_percent", "active", "warps"), _percent_cell),
    "warps": (Column("warps", "launched", "warps"), _integer_cell),
    "waves": (Column("waves", "waves", "warps"), _scaled(1.0)),
    "registers": (Column("registers", "registers", "warps"), _integer_cell),
}


@table(STUDY_NAME, "table-counters", title="Counters of the profiler", numbering="ours")
def counters(campaign: Campaign, published: Published) -> Table:
    """A line for each kernel that `repro counters` was run on."""
    rows = []
    profilers: dict[str, None] = {}
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            for row in campaign.counter_rows(line.problem, precision):
                profilers[str(row["profiler"])] = None
                rows.append((line.cell, Cell(precision), Cell(row["name"]), *_counter_cells(row)))
    columns = (
        PROBLEM,
        Column("precision", "precision", numeric=False),
        Column("name", "what runs", numeric=False),
        *(column for column, _ in COUNTERS.values()),
    )
    caption = [
        "What the GPU’s counters say of some of the kernels, for whole launches with a warm cache, medians over some",
        "launches. Time by the profiler, which is longer than by our clocks. From memory: bytes read from DRAM; L2 to",
        "L1: bytes that L1 missed. Hits in sectors of 32 bytes. Of peak: the busiest part of the cache’s pipeline.",
        "Loads: requests of a warp to global memory, and sectors to each of them. Stall: for each instruction issued,",
        "how many warps wait for data of a load. Active: of the warps that a multiprocessor can hold. Of a routine of",
        "several kernels amounts are added, rates averaged by time, of waves and registers the most.",
        f"Read by {' and '.join(profilers)} on {campaign.device}." if rows else "",
        "" if rows else "No counters were recorded in this campaign; `repro counters` does, on a GPU.",
    ]
    return Table(columns, rows, join_sentences(caption))


def _counter_cells(row: Mapping[str, Any]) -> list[Cell]:
    return [Cell() if row[key] is None else printed(row[key]) for key, (_, printed) in COUNTERS.items()]


MEDIUM, LARGE = 20_000_000, 60_000_000
NOT_SEARCHED = "the space `extended` was not searched in this campaign"


class Compared(NamedTuple):
    """A kernel, the library's fastest routine that it is compared with, and the fastest variant without pairs."""

    kernel: ReportedTime | None
    library: ReportedTime | None
    unpaired: ReportedTime | None


@dataclass(frozen=True)
class Side:
    """One column, and what is compared in it."""

    key: str
    title: str
    pick: Callable[[Comparison], Compared]


Clocked = Literal["graph", "event", "cold"]


@dataclass(frozen=True)
class Quantity:
    """How a quantity is measured.

    Attributes
    ----------
    ratio
        Returns it of a case, given what is compared in a column.
    worst
        Whether the worst case is wanted, else the geometric mean.
    clock
        What chose and timed the variants: both clocks with a warm cache, or with a cold one those that the graph clock
        chose, by events.
    counts
        Which cases it is of.
    only
        The one column that it has a number in, which is then held against the wanted one; empty: all, and that is ours.
    """

    ratio: Callable[[Comparison, Compared], float | None]
    worst: bool = False
    clock: Clocked = "graph"
    counts: Callable[[Comparison], bool] = lambda case: True
    only: str = ""


def _over_library(case: Comparison, compared: Compared) -> float | None:
    return ratio_of(compared.library, compared.kernel)


def _over_papers_choice(case: Comparison, compared: Compared) -> float | None:
    """Return the speedup over the papers' choice of routine in the ordering of the kernel."""
    return ratio_of(case.routine(compared.kernel, papers_choice=True), compared.kernel)


def _over_unpaired(case: Comparison, compared: Compared) -> float | None:
    return ratio_of(compared.unpaired, compared.kernel)


def _of_floor(case: Comparison, compared: Compared) -> float | None:
    return ratio_of(case.floor, compared.kernel)


def _of_own_floor(case: Comparison, compared: Compared) -> float | None:
    return ratio_of(case.own_floor(compared.kernel), compared.kernel)


def _medium_or_large(case: Comparison) -> bool:
    return (case.bytes or 0) >= MEDIUM


def _medium(case: Comparison) -> bool:
    return MEDIUM <= (case.bytes or 0) < LARGE


def _large_symmetric(case: Comparison) -> bool:
    return (case.bytes or 0) >= LARGE and case.unpaired is not None


def _papers(case: Comparison) -> bool:
    return case.line.published is not None


#: By their names in `config/targets/compound_spmv.csv`.
QUANTITIES: Mapping[str, Quantity] = {
    "speedup_worst": Quantity(_over_library, worst=True),
    "speedup_worst_least": Quantity(_over_library, worst=True),
    "speedup_mean": Quantity(_over_library),
    "speedup_mean_papers": Quantity(_over_library, counts=_papers),
    "event_worst": Quantity(_over_library, worst=True, clock="event"),
    "event_mean": Quantity(_over_library, clock="event"),
    "event_mean_papers": Quantity(_over_library, clock="event", counts=_papers),
    "cold_worst": Quantity(_over_library, worst=True, clock="cold"),
    "cold_mean": Quantity(_over_library, clock="cold"),
    "cold_mean_papers": Quantity(_over_library, clock="cold", counts=_papers),
    "papers_choice_mean": Quantity(_over_papers_choice),
    "event_papers_choice_mean": Quantity(_over_papers_choice, clock="event"),
    "floor_worst": Quantity(_of_floor, worst=True, counts=_medium_or_large),
    "floor_mean": Quantity(_of_floor),
    "floor_worst_medium": Quantity(_of_floor, worst=True, counts=_medium),
    "floor_mean_medium": Quantity(_of_floor, counts=_medium),
    "floor_mean_large": Quantity(_of_floor, counts=_large_symmetric, only="ours"),
    "floor_mean_large_reordered": Quantity(_of_floor, counts=_large_symmetric, only="reordered"),
    "own_floor_mean_large": Quantity(_of_own_floor, counts=_large_symmetric),
    "unpaired_mean_large": Quantity(_over_unpaired, counts=_large_symmetric, only="ours"),
    "unpaired_mean_large_reordered": Quantity(_over_unpaired, counts=_large_symmetric, only="reordered"),
}

OURS = "ours"
SIDES = (
    Side("papers_space", "papers’ space", lambda s: Compared(s.papers, s.library, None)),
    Side(OURS, "ours", lambda s: Compared(s.ours, s.library, s.unpaired)),
    Side("reordered", "ours, any ordering", lambda s: Compared(*s.best, s.reordered_unpaired)),
)


@table(STUDY_NAME, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the prototype's number, the wanted one and the measured ones."""
    cases = comparisons(campaign, published)
    by_clock: dict[Clocked, list[Comparison]] = {
        "graph": cases,
        "event": comparisons(campaign, published, "event"),
        "cold": [cold for case in cases if (cold := case.cold)],
    }
    columns = [
        Column("target", "target", numeric=False),
        Column("prototype", "prototype"),
        Column("wanted", "wanted"),
        *(Column(side.key, side.title, "measured") for side in SIDES),
        Column("over_wanted", "over wanted", "ours"),
        Column("worst_case", "worst case", "ours", numeric=False),
    ]
    rows = []
    for item in published.targets:
        quantity = QUANTITIES[item["quantity"]]
        cells = {side.key: _measured(quantity, by_clock[quantity.clock], side) for side in SIDES}
        mine, where = cells[quantity.only or OURS]
        rows.append(
            (
                Cell(item["what"].replace("'", "’")),
                Cell(float(item["prototype"]), item["prototype"]) if item["prototype"] else Cell(),
                Cell(float(item["wanted"]), item["wanted"]) if item["wanted"] else Cell(None, "reported"),
                *(_shown(quantity, key, value) for key, (value, _) in cells.items()),
                _over_wanted(mine, item["wanted"]),
                _place(where) if where else Cell(None, " "),
            )
        )
    moved = sum(case.reordered is not None for case in cases)
    count = sum(case.ours is not None for case in cases)
    sizes = [sum(map(counts, cases)) for counts in (_medium_or_large, _medium, _large_symmetric)]
    theirs = [case for case in cases if _papers(case)]
    library = library_of(campaign)
    caption = [
        "What was aimed at and what was reached: speedups of the best variant over routines of",
        f"{library}, and its fraction of the streaming floor, over all problems and precisions that have the",
        "times. Papers’ space: the best of the papers’ layouts and schedules. Ours: the best of those and of our own.",
        "Any ordering: where a reordered matrix is faster, it is compared with the library’s fastest routine on the",
        f"matrix in the same order: {moved} of {len(cases)} cases; permuting is not in the times.",
        "The papers’ choice: 4×4 and 3×3 BSR for quaternions and 3×3 blocks, CSR for complex numbers.",
        "By the event clock, as in the papers, variants and routines are chosen by it, too. With a cold cache the",
        "variants are those that the graph clock chose, timed by events after the L2 cache was overwritten, and the",
        "routines those that are the fastest then. Reported: no number is wanted.",
        f"The papers’ own problems: {len({case.line.problem for case in theirs})}, rebuilt ones and stand-ins among",
        f"them, {len(theirs)} cases. The fastest routine: of any representation.",
        f"By the bytes of CSR-AoS {sizes[0]} cases are of 20 MB and more, and {sizes[1]} of these below 60 MB.",
        _pairs_said(sizes[2]),
        "Prototype: a C++ prototype on an H200, on eight other matrices; of symmetric matrices one of pairs, on four",
        "of these, seven cases.",
        measurement_note(campaign, "graph"),
        "" if count else f"Ours is absent: {NOT_SEARCHED}.",
        wanted_on(campaign),
        remarks(ours(campaign, published)),
        unavailable_note(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, join_sentences(caption))


def _measured(quantity: Quantity, cases: Sequence[Comparison], side: Side) -> tuple[float | None, Comparison | None]:
    """Return one number of one column, and the case that it is from where it is the worst."""
    if side.key == "reordered" and not any(case.reordered for case in cases):
        return None, None
    ratios = [(quantity.ratio(case, side.pick(case)), case) for case in cases if quantity.counts(case)]
    if quantity.worst:
        return worst(ratios) or (None, None)
    return geometric_mean(value for value, _ in ratios), None


def _shown(quantity: Quantity, side: str, value: float | None) -> Cell:
    if quantity.only not in ("", side):
        return Cell(None, " ")
    return Cell(None, "not measured") if value is None and quantity.counts is _large_symmetric else ratio(value)


def _pairs_said(large: int) -> str:
    """Return the sentences on formats of pairs; or that none has a time."""
    if not large:
        return "Symmetric: no format of pairs was timed on a matrix of 60 MB and more."
    return (
        f"Symmetric: those on which a format of pairs was timed, {large} cases of 60 MB and more, by the graph clock."
        " Without pairs:"
        " the fastest variant of all other formats, chosen by the same search and timed in the same rounds. The floor"
        " streams the bytes of CSR-AoS, and a format of pairs, which moves fewer, may pass it; its own floor streams"
        " its own."
    )


def _over_wanted(measured: float | None, wanted: str) -> Cell:
    if measured is None or not wanted:
        return Cell(None, " " if not wanted else "")
    over = measured / float(wanted)
    return Cell(over, f"{100 * (over - 1):+.0f} %".replace("-", "−"))


def _place(where: Comparison) -> Cell:
    remark = where.line.record.remark if where.line.record else None
    name = f"{where.line.problem}, {ABBREVIATIONS[where.case.precision]}"
    notes = where.case.launch_note(where.clock, where.ours) if where.case.cache is None else ()
    return from_rows(Cell(name, notes=((remark,) if remark else ()) + notes), where.ours, where.library, where.floor)
