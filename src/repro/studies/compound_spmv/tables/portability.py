"""What the fastest variant of one device loses on another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.artifacts.beside import column_beside, others_on, set_apart
from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, ours, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.portability import Journey, journeys

SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "median": lambda losses: float(np.median(losses)),
    "worst": lambda losses: float(np.max(losses)),
}


@table(STUDY, "table-portability", title="What a winner loses on another GPU", numbering="ours", several=True)
def portability(campaign: Campaign, published: Published) -> Table:
    """Loss in percent of the other device's winner here, and of ours there, for each problem and precision."""
    travelled = {other.name: journeys(campaign, other) for other in campaign.beside}
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for other in campaign.beside:
        group = column_beside(campaign, other)
        columns += [
            Column(f"{other.name}_here", "winner here", group, numeric=False),
            Column(f"{other.name}_loss_there", "slower there [%]", group),
            Column(f"{other.name}_there", "winner there", group, numeric=False),
            Column(f"{other.name}_loss_here", "slower here [%]", group),
        ]
    rows = []
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            cases = [travelled[other.name].get((line.problem, precision)) for other in campaign.beside]
            if any(cases):
                rows.append((line.cell, Cell(precision), *(cell for case in cases for cell in _case(case))))
    summary = []
    counted = _counted({name: len(cases) for name, cases in travelled.items()})
    for word, over in SUMMARIES.items() if rows else ():
        cells = (cell for cases in travelled.values() for cell in _over([*cases.values()], over))
        summary.append((Cell(f"{word} of {counted}"), Cell(None, " "), *cells))
    caption = [
        f"By how many percent the winner of a search on {campaign.column} is slower on another device than the fastest",
        "there, and the winner there on this one: among the variants that both searches have timed, in the problem’s",
        "own order of unknowns. Variants that are no finalists have the screening’s times, of few launches; one below",
        "the best of the full protocol counts as no loss.",
        measured_on(campaign, "event", "the search"),
        others_on(campaign),
        set_apart(campaign),
        "" if rows else "No case was searched in two campaigns on devices of one kind.",
    ]
    return Table(tuple(columns), rows, sentences(caption), summary)


def _counted(counts: Mapping[str, int]) -> str:
    """Return of how many cases a median is, campaign by campaign where these differ."""
    if len({*counts.values()}) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{count} ({name})" for name, count in counts.items())


def _case(case: Journey | None) -> tuple[Cell, ...]:
    if case is None:
        return (Cell(), Cell(), Cell(), Cell())
    return Cell(case.here), _percent(case.loss_there), Cell(case.there), _percent(case.loss_here)


def _over(cases: Sequence[Journey], over: Callable[[Sequence[float]], float]) -> tuple[Cell, ...]:
    blank = Cell(None, " ")
    if not cases:
        return (blank, Cell(), blank, Cell())
    there, here = ([getattr(case, name) for case in cases] for name in ("loss_there", "loss_here"))
    return blank, _percent(over(there)), blank, _percent(over(here))


def _percent(share: float) -> Cell:
    return Cell(round(100 * share, 6), f"{100 * share:.1f}")
