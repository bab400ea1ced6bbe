"""Every problem and precision: our winner, the papers' space, the library and the floor, warm and cold."""

from __future__ import annotations

from repro.artifacts.case import Case, Timed
from repro.artifacts.cells import digits, micro, percent, ratio, tied
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import ABBREVIATIONS, PROBLEM, launches, measured_on, sentences, unavailable
from repro.artifacts.numbers import geometric_mean, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.sparse.times import baseline, library_of, routine_text
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.standing import Standing, standings

MEGA = 1e6


@table(STUDY, "table-problems", title="Our kernels, the library and the floor, problem by problem", numbering="ours")
def problems(campaign: Campaign, published: Published) -> Table:
    """A line a problem and precision; the geometric means of the ratios at the bottom."""
    cases = standings(campaign, published)
    columns = _columns(library_of(campaign))
    rows = [_row(case) for case in cases]
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
        "Matrix: megabytes of CSR-AoS. Ours: the fastest variant of the papers’ space and of our own, chosen in the",
        "search and timed again beside the others. Papers’ space: the fastest of the papers’ layouts and schedules.",
        f"Fastest: the fastest {library} routine of any representation; papers’ choice: the routine that the",
        "papers compare with. Of floor: the streaming floor’s time over the time. Speedups are over the fastest",
        f"{library} routine unless the head says otherwise. Reordered: rows and columns in another order,",
        f"where that is faster by more than a tie, beside the fastest {library} routine on the matrix in the",
        "same order; permuting is not in the times.",
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
        Column("ours", "variant", "ours", numeric=False),
        Column("ours_us", "µs", "ours"),
        Column("ours_percent_of_floor", "of floor", "ours"),
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
        Column("reordered", "variant", "reordered", numeric=False),
        Column("reordered_us", "µs", "reordered"),
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
        Cell() if standing.bytes is None else Cell(standing.bytes / MEGA, digits(standing.bytes / MEGA)),
        _variant(best, tie),
        micro(best, case),
        percent(ratio_of(standing.floor, best)),
        ratio(ratio_of(standing.library, best)),
        ratio(ratio_of(standing.papers_choice, best)),
        _variant(standing.papers, tie, why),
        micro(standing.papers, case),
        percent(ratio_of(standing.floor, standing.papers)),
        ratio(ratio_of(standing.library, standing.papers)),
        _routine(standing.library),
        micro(standing.library),
        micro(standing.papers_choice),
        micro(standing.floor) if standing.floor else Cell(notes=no_floor),
        _variant(standing.reordered, tie),
        micro(standing.reordered, case),
        micro(standing.reordered_library),
        ratio(ratio_of(standing.reordered_library, standing.reordered)),
        *_cold(standing),
    )


def _cold(standing: Standing) -> tuple[Cell, ...]:
    """Return the same variants' times with a cold cache, which the event clock alone can take."""
    case = Case(standing.case.campaign, standing.case.problem, standing.case.precision, cache="cold")
    if standing.case.campaign.cache == "cold":
        return (Cell(),) * 4
    best, papers = (case.timed(chosen.name, "event") if chosen else None for chosen in (standing.ours, standing.papers))
    library = baseline(case, "event")
    return micro(best), micro(papers), micro(library), ratio(ratio_of(library, best))


def _variant(timed: Timed | None, tie: float, notes: tuple[str, ...] = ()) -> Cell:
    if timed is None:
        return Cell(notes=notes)
    return Cell(timed.name, notes=notes + tied(timed, tie))


def _routine(timed: Timed | None) -> Cell:
    return Cell(timed.name, routine_text(timed)) if timed else Cell()
