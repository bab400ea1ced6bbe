"""What was aimed at in the study of compressed COO, and what was reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from repro.artifacts.case import Timed
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.numbers import median_of, ratio_of
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.artifacts.targets import wanted_on
from repro.sparse.times import library_of
from repro.studies.compressed_coo.paper import STUDY
from repro.studies.compressed_coo.times import (
    DISTINCT,
    REPEAT,
    Times,
    all_times,
    counted,
    each_of,
    not_searched,
    precision_of,
    solved_with,
)

#: How quantities begin that are by the event clock.
BY_EVENTS = "event_"
Number = Callable[[Times], float | None]


@dataclass(frozen=True)
class Side:
    """One group of columns: the product that is judged, and BiCGSTAB with it."""

    key: str
    title: str
    product: Callable[[Times], Timed | None]
    solver: Callable[[Times], Timed | None]


SIDES = (
    Side("compressed", "paper’s compressed COO", lambda s: s.compressed, lambda s: s.compressed_solver),
    Side("ours", "ours", lambda s: s.ours, lambda s: s.ours_solver),
)


@table(STUDY, "table-targets", title="Targets, and what was reached", numbering="ours")
def targets(campaign: Campaign, published: Published) -> Table:
    """Each target with the wanted number, the measured ones, and the worst cases."""
    precision = precision_of(campaign)
    cases, over = counted(all_times(campaign, published, precision))
    by_events, _ = counted(all_times(campaign, published, precision, "event"))
    columns = [Column("target", "target", numeric=False), Column("wanted", "wanted")]
    for side in SIDES:
        columns += [
            Column(side.key, "measured", side.title),
            Column(f"{side.key}_reached", "reached", side.title, numeric=False),
            Column(f"{side.key}_problems", "problems", side.title),
            Column(f"{side.key}_worst", "worst", side.title),
            Column(f"{side.key}_worst_case", "worst case", side.title, numeric=False),
        ]
    rows = []
    for item in published.targets:
        quantity, wanted = item["quantity"].removeprefix(BY_EVENTS), item["wanted"]
        timed = by_events if item["quantity"].startswith(BY_EVENTS) else cases
        limit = "≤" if quantity.startswith("memory_") else "≥"
        asked = Cell(float(wanted), f"{limit} {wanted}") if wanted else Cell(None, "reported")
        measured = (cell for side in SIDES for cell in _measured(quantity, wanted, timed, side))
        rows.append((Cell(item["what"].replace("'", "’")), asked, *measured))
    library = library_of(campaign)
    caption = [
        f"What was aimed at and what was reached: speedups over routines of {library}, and memory over that",
        "of CSR with 4-byte indices. Paper’s compressed COO: the fastest K and number of chunks a block of its format.",
        "Ours: the fastest of all our variants, its own included. Values repeat where most chunks of the paper’s",
        "compressed COO look them up in the table, else they are distinct. Worst: the least speedup, or the largest",
        "memory. By the event clock all are chosen by it, too. Reported: no number is wanted.",
        solved_with(cases),
        f"{precision.capitalize()} precision.",
        over,
        measured_on(campaign, "graph"),
        not_searched(cases),
        wanted_on(campaign),
        "SciPy is asked for CSR alone." * campaign.on_cpu,
        unavailable(campaign),
    ]  # fmt: skip
    return Table(tuple(columns), rows, sentences(caption))


def _measured(quantity: str, wanted: str, cases: list[Times], side: Side) -> tuple[Cell, ...]:
    """Return the measured number, whether it is reached, over how many problems, and the worst with its name."""
    what, *kind, statistic = quantity.split("_")
    values = {"repeat": REPEAT, "distinct": DISTINCT}[kind[0]] if kind else None
    numbers = each_of([case for case in cases if values in (None, case.values)], _number(what, side))
    if not numbers:
        return (Cell(), Cell(None, " "), Cell(0), Cell(), Cell(None, " "))
    at_most = what == "memory"
    worst, case = (max if at_most else min)(numbers, key=lambda item: item[0])
    value = worst if statistic == "worst" else median_of(number for number, _ in numbers)
    assert value is not None
    if not wanted:
        verdict = Cell(None, " ")
    else:
        verdict = Cell("yes" if (value <= float(wanted) if at_most else value >= float(wanted)) else "no")
    remark = case.line.record.remark if case.line.record else None
    notes = ((remark,) if remark else ()) + case.case.launch_note(case.clock, side.product(case))
    return (
        Cell(value, f"{value:.2f}"),
        verdict,
        Cell(len(numbers)),
        Cell(worst, f"{worst:.2f}"),
        Cell(case.line.problem, notes=notes),
    )


def _number(what: str, side: Side) -> Number:
    match what:
        case "library":
            return lambda s: ratio_of(s.library, side.product(s))
        case "coo":
            return lambda s: ratio_of(s.coo, side.product(s))
        case "csr":
            return lambda s: ratio_of(s.csr, side.product(s))
        case "bicgstab":
            return lambda s: ratio_of(s.library_solver, side.solver(s))
        case "memory":
            return lambda s: s.memory(side.product(s))
        case _:
            raise ValueError(f"no way to measure {what}")
