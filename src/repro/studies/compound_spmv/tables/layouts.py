"""Tables 2 to 7: best layout, and what layout tuning gains over schedule tuning alone."""

from __future__ import annotations

from dataclasses import replace

from repro.artifacts.beside import column_beside, others_on, together, why_blank
from repro.artifacts.case import Case
from repro.artifacts.cells import from_rows, speedup
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import (
    PROBLEM,
    Line,
    context,
    launches,
    lineup,
    measured_on,
    sentences,
    unavailable,
)
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.printed import ENTRY_WORDS, gpus
from repro.studies.compound_spmv.recorded import tied_layouts

NUMBERS = {
    2: ("complex", "single"),
    3: ("complex", "double"),
    4: ("quaternion", "single"),
    5: ("quaternion", "double"),
    6: ("block3", "single"),
    7: ("block3", "double"),
}


def best_layouts(campaign: Campaign, published: Published, number: int) -> Table:
    """Return one of the six tables."""
    entry, precision = NUMBERS[number]
    printed = {(i["problem"], i["gpu"]): i for i in published["layouts"] if i["table"] == str(number)}
    rows = []
    ties = timed = marked = 0
    for line in lineup(together(campaign), published, entry):
        cells = [line.cell]
        for gpu in gpus(published):
            if line.published:
                item = printed[line.published, gpu]
                cells += [Cell(item["layout"]), Cell(float(item["speedup"]), item["speedup"])]
            else:
                cells += [Cell(), Cell()]
        case = Case(campaign, line.problem, precision)
        best = case.winner("joint", "event")
        ties, timed = ties + bool(tied_layouts(case, best)), timed + (best is not None)
        marked += case.mostly_launch("event", best)
        for one in (campaign, *campaign.beside):
            cells += _ours(Case(one, line.problem, precision), line)
        rows.append(tuple(cells))
    columns = [PROBLEM]
    for group, prefix, name in [
        *((f"published: {gpu}", f"published_{gpu}".replace(" ", "_"), "") for gpu in gpus(published)),
        (f"ours: {campaign.column}", "ours", ""),
        *((f"ours: {column_beside(campaign, other)}", f"ours_{other.name}", other.name) for other in campaign.beside),
    ]:
        columns.append(Column(f"{prefix}_layout", "layout", group, numeric=False, campaign=name))
        columns.append(Column(f"{prefix}_speedup", "speedup", group, campaign=name))
    caption = sentences(
        [
            f"Best layout for {ENTRY_WORDS[entry]} entries in {precision} precision, and the speedup of layout",
            "tuning: time of the best schedule for CSR-AoS-AoS over time of the best layout and schedule.",
            f"Published in Table {number} of {PAPER}.",
            measured_on(campaign, "event"),
            launches(marked, timed),
            f"Other layouts within {100 * campaign.tie:g} % of the best in the search are a tie and named below:",
            f"{ties} of {timed} cases.",
            others_on(campaign),
            context(campaign),
            unavailable(campaign, entry),
        ]
    )
    return Table(tuple(columns), rows, caption)


def _ours(case: Case, line: Line) -> tuple[Cell, Cell]:
    """Return layout and speedup of a campaign's case in a line, which may be of another campaign's problem."""
    blank = why_blank(case.campaign.problems.get(case.problem), line.record)
    if blank is not None:
        return Cell(notes=blank), Cell()
    best = case.winner("joint", "event")
    if best is None:
        return Cell(notes=(case.why_not(),)), Cell()
    tied = tied_layouts(case, best)
    ties = (f"tie with {', '.join(tied)}",) if tied else ()
    layout = from_rows(Cell(best.row["layout"], notes=ties), best)
    base = case.winner("schedule", "event")
    if base is None:
        return layout, Cell(notes=("no time for CSR-AoS-AoS",))
    notes = (*base.notes, *best.notes, *case.launch_note("event", base, best))
    return layout, replace(speedup(base, best), notes=notes)


def _register(number: int) -> None:
    entry, precision = NUMBERS[number]

    @table(
        STUDY,
        f"table-{number}",
        title=f"Best layout and speedup by layout tuning, {ENTRY_WORDS[entry]}, {precision} precision",
        numbering=f"Table {number} of {PAPER}",
    )
    def make(campaign: Campaign, published: Published) -> Table:
        return best_layouts(campaign, published, number)


for _number in NUMBERS:
    _register(_number)
