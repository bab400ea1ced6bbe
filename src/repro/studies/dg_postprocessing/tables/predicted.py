"""How much a search that measures a few kernels of regions loses against the exhaustive one."""

from __future__ import annotations

import numpy as np

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.config.models import StudySettings
from repro.studies.dg_postprocessing.paper import STUDY
from repro.studies.dg_postprocessing.searched_regions import judged_searches
from repro.studies.dg_postprocessing.width_times import width_times
from repro.tuning.judging import NOTHING, SEEDS, Array, Judged, sampled

BUDGET = float(StudySettings.model_fields["budget"].default)
SPACES = {"paper": "the paper’s kernels", "extended": "ours"}
ALONE = "no other field of this degree was searched in full: there is nothing to learn from"


@table(STUDY, "table-predicted", title="Loss of the predicted search in space", numbering="ours")
def losses(campaign: Campaign, published: Published) -> Table:
    """A line a field on tetrahedra: loss in percent, left out of what the search learns from."""
    replays = {space: judged_searches(campaign, space, BUDGET) for space in SPACES}
    judged = {space: {one.recording.problem: one for one in replays[space]} for space in SPACES}
    columns = [PROBLEM, Column("degree", "P")]
    for space, title in SPACES.items():
        columns.append(Column(f"{space}_variants", "kernels", title))
        columns.append(Column(f"{space}_tried", "tried", title))
        columns.append(Column(f"{space}_problem_unknown", "predicted", title))
        columns.append(Column(f"{space}_random", "random", title))
    rows = []
    for item in width_times(campaign, published):
        cases = [judged[space].get(item.line.problem) for space in SPACES]
        if any(cases):
            rows.append((item.line.cell, Cell(item.degree), *(cell for case in cases for cell in _case(case))))
    caption = [
        f"By how many percent the fastest kernel that `search: predicted` finds with {100 * BUDGET:g} % of them, at",
        "least one, is slower than the fastest of the exhaustive search, on recorded times. It has learnt from the",
        f"other fields of this campaign with the same degree; random: the mean over {SEEDS} samples of as many,",
        f"{100 * NOTHING:g} at the most.",
        "Most times are the screening’s, of few launches; one below the best of the full protocol counts as no loss.",
        sampled(replays.values()),
        measured_on(campaign, "event", "the search"),
        "" if rows else "No field on tetrahedra of this campaign was searched in full.",
        unavailable(campaign),
    ]
    return Table(tuple(columns), rows, sentences(caption))


def _case(one: Judged | None) -> tuple[Cell, ...]:
    if one is None:
        return (Cell(), Cell(), Cell(), Cell())
    predicted = Cell(notes=(ALONE,)) if one.problem_unknown is None else _last(one.problem_unknown)
    return Cell(len(one.recording.seconds)), Cell(one.tried), predicted, _last(one.random)


def _last(curve: Array) -> Cell:
    share = float(curve[-1])
    return Cell(round(100 * share, 6), f"{100 * share:.1f}") if np.isfinite(share) else Cell(None, "none works")
