"""Every problem and precision: our winner, the papers' space, the library and the floor, warm and cold."""

from __future__ import annotations

from repro.artifacts.case import Timed
from repro.artifacts.cells import digits, micro, percent, ratio, share, speedup, tied
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, launches, measured_on, sentences, unavailable
from repro.artifacts.numbers import geometric_mean
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import library_of, routine_text
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, of_pairs_or_none, standings

MEGA = 1e6
#: Columns that there are where a format of pairs has won.
OWN = ("ours_own_MB", "ours_percent_of_own_floor", "own_floor_us", "reordered_percent_of_floor",
       "reordered_percent_of_own_floor")  # fmt: skip
OWN_SAID = (
    "Ours, own MB: of a winner that stores each pair of a symmetric matrix once, the megabytes of the matrix so stored"
    " and of both vectors. Of its own floor: the time of a streaming kernel that moves these bytes, over the time; such"
    " a winner moves fewer bytes than the floor, and may pass it, but not its own."
)


@table(STUDY, "table-problems", title="Our kernels, the library and the floor, problem by problem", numbering="ours")
def problems(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision; the geometric means of the ratios at the bottom."""
    cases = standings(campaign, published)
    of_pairs = any(of_pairs_or_none(kernel) for case in cases for kernel in (case.ours, case.reordered))
    all_columns = _columns(library_of(campaign))
    kept = [index for index, column in enumerate(all_columns) if of_pairs or column.key not in OWN]
    columns = tuple(all_columns[index] for index in kept)
    rows = [tuple(row[index] for index in kept) for row in map(_row, cases)]
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
        measured_on(campaign, "graph"),
        launches(marked, len(timed)),
        "" if any(case.ours for case in cases) else "Ours is absent: the space `extended` was not searched.",
        unavailable(campaign),
    ]  # fmt: skip
    summary = [(Cell("geometric mean"), *means[1:])]
    return Table(columns, rows, sentences(caption), summary if rows else [])


def _columns(library: str) -> tuple[Column, ...]:
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


def _row(standing: Standing) -> tuple[Cell, ...]:
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
        micro(best, case),
        share(standing.floor, best),
        _mega(kernel.row["bytes"] if (kernel := of_pairs_or_none(best)) else None),
        share(standing.own_floor(best), best),
        speedup(standing.library, best),
        speedup(standing.papers_choice, best),
        _variant(standing.papers, tie, why),
        micro(standing.papers, case),
        share(standing.floor, standing.papers),
        speedup(standing.library, standing.papers),
        _routine(standing.library),
        micro(standing.library),
        micro(standing.papers_choice),
        micro(standing.floor) if standing.floor else Cell(notes=no_floor),
        micro(standing.own_floor(best)),
        _variant(standing.reordered, tie),
        micro(standing.reordered, case),
        share(standing.floor, standing.reordered),
        share(standing.own_floor(standing.reordered), standing.reordered),
        micro(standing.reordered_library),
        speedup(standing.reordered_library, standing.reordered),
        *_cold(standing),
    )


def _cold(standing: Standing) -> tuple[Cell, ...]:
    """Return the same variants' times with a cold cache, which the event clock alone can take."""
    cold = standing.cold
    if cold is None:
        return (Cell(),) * 4
    return micro(cold.ours), micro(cold.papers), micro(cold.library), speedup(cold.library, cold.ours)


def _mega(size: int | None) -> Cell:
    return Cell() if size is None else Cell(size / MEGA, digits(size / MEGA))


def _variant(timed: Timed | None, tie: float, notes: tuple[str, ...] = ()) -> Cell:
    if timed is None:
        return Cell(notes=notes)
    return Cell(timed.name, notes=notes + tied(timed, tie))


def _routine(timed: Timed | None) -> Cell:
    return Cell(timed.name, routine_text(timed)) if timed else Cell()
