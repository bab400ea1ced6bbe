"""Set-up and solution together."""

from __future__ import annotations

from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.spgemm_amg.paper import STUDY, TOLERANCE
from repro.studies.spgemm_amg.shared_cells import MILLI, milli, named, three_digits
from repro.studies.spgemm_amg.times import HOST, ProblemTimes, all_times, precision_of

NANO = 1e9


@table(STUDY, "table-solve", title="Set-up and solution", numbering="ours")
def solve(campaign: Campaign, published: Published) -> Table:
    """A line a problem: iterations, and what they take beside the set-up."""
    columns = (
        PROBLEM,
        Column("unknowns", "unknowns"),
        Column("levels", "levels"),
        Column("iterations", "iterations"),
        Column("setup_ms", "set-up", "ms"),
        Column("solve_ms", "solution", "ms"),
        Column("sum_ms", "together", "ms"),
        Column("iteration_ms", "an iteration", "ms"),
        Column("ns_an_unknown", "together, ns an unknown"),
    )
    caption = [
        "Conjugate gradients with a V-cycle each, from x = 0 until the residual is",
        f"{TOLERANCE:.0e} of the right side, which is A times a random vector; the set-up with our kernels. Both begin",
        "with all that they need on the device. Nothing of this is published.",
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, HOST),
        unavailable(campaign),
    ]
    rows = [_row(case) for case in all_times(campaign, published)]
    return Table(columns, rows, sentences(caption))


def _row(case: ProblemTimes) -> tuple[Cell, ...]:
    set_up, solution = case.set_up("default"), case.solution
    row = next((timed.row for timed in (solution, set_up) if timed), {})
    unknowns, iterations = row.get("rows"), row.get("iterations")
    both = set_up.seconds + solution.seconds if set_up and solution else None
    measured = case.case.measured
    return (
        named(case.line, "" if measured else case.case.why_not()),
        count(unknowns),
        Cell(row.get("levels")),
        Cell(iterations),
        milli(set_up, case.why_not("setup", "default") * measured),
        milli(solution, case.why_not("solve") * measured),
        three_digits(MILLI * both if both else None),
        three_digits(MILLI * solution.seconds / iterations if solution and iterations else None),
        three_digits(NANO * both / unknowns if both and unknowns else None),
    )
