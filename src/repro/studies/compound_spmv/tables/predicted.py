"""How much a search that measures a few variants loses against the exhaustive one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import PROBLEM, measured_on, ours, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.config.models import StudySettings
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.searched import SPACES, judged_searches
from repro.tuning.judging import SEEDS, Array, Judged, sampled

BUDGET = float(StudySettings.model_fields["budget"].default)
Learnt = Mapping[str, tuple[str, Callable[[Judged], Array | None]]]
#: What is judged: its column's key, its head, and its losses.
JUDGED: Learnt = {
    "problem_unknown": ("problem unknown", lambda one: one.problem_unknown),
    "entry_unknown": ("entry unknown", lambda one: one.family_unknown),
    "random": ("random", lambda one: one.random),
}
#: The same of searches that learn from other devices, where campaigns on such stand beside this one.
ELSEWHERE: Learnt = {
    "device_unknown": ("GPU unknown", lambda one: one.device_unknown),
    "both_unknown": ("GPU and problem unknown", lambda one: one.both_unknown),
}


LEARNT_ELSEWHERE = (
    "“GPU unknown” has learnt from the campaigns beside this one on other GPUs alone; “GPU and problem unknown” from "
    "them without that problem."
)


@table(STUDY, "table-predicted", title="Loss of the predicted search against the exhaustive one", numbering="ours")
def losses(campaign: Campaign, published: Published) -> Table:
    """Loss in percent for each problem and precision, left out of what the search learns from."""
    judged = {space: judged_searches(campaign, space, BUDGET) for space in SPACES}
    judged = {space: replays for space, replays in judged.items() if replays}
    by_case = {space: {(j.recording.problem, j.recording.precision): j for j in judged[space]} for space in judged}
    learnt = {**JUDGED, **(ELSEWHERE if any(other.device != campaign.device for other in campaign.beside) else {})}
    columns = [PROBLEM, Column("precision", "precision", numeric=False)]
    for space in judged:
        columns.append(Column(f"{space}_variants", "variants", SPACES[space]))
        columns.append(Column(f"{space}_tried", "tried", SPACES[space]))
        columns += [Column(f"{space}_{key}", head, SPACES[space]) for key, (head, _) in learnt.items()]
    rows = []
    for line in ours(campaign, published):
        for precision in campaign.precisions:
            cells = [line.cell, Cell(precision)]
            cases = [by_case[space].get((line.problem, precision)) for space in judged]
            for case in cases:
                cells += _case(case, learnt)
            if any(cases):
                rows.append(tuple(cells))
    summary = []
    for word, over in (("median", np.median), ("worst", np.max)) if rows else ():
        cells = [cell for space in judged for cell in _over(judged[space], over, learnt)]
        summary.append((Cell(f"{word} of {len(rows)}"), Cell(None, " "), *cells))
    caption = [
        f"By how many percent the fastest variant that `search: predicted` finds with {100 * BUDGET:g} % of the",
        "variants is slower than the fastest of the exhaustive search. Every search is replayed on recorded times.",
        "“Problem unknown” has learnt from all other problems of this campaign, in both precisions; “entry unknown”",
        f"from those of other entries alone; “random” is the mean over {SEEDS} random samples of as many variants.",
        LEARNT_ELSEWHERE if len(learnt) > len(JUDGED) else "",
        "Most times are the screening’s, of few launches; one below the best of the full protocol counts as no loss.",
        sampled(judged.values()),
        measured_on(campaign, "event", "the search"),
        "" if judged else "No problem of this campaign was searched in full.",
    ]
    return Table(tuple(columns), rows, sentences(caption), summary)


def _case(one: Judged | None, learnt: Learnt) -> list[Cell]:
    if one is None:
        return [Cell() for _ in range(2 + len(learnt))]
    curves = [losses_of(one) for _, losses_of in learnt.values()]
    return [
        Cell(len(one.recording.seconds)),
        Cell(one.tried),
        *(Cell() if curve is None else _percent(float(curve[-1])) for curve in curves),
    ]


def _over(judged: Sequence[Judged], over: Callable[[list[float]], float], learnt: Learnt) -> list[Cell]:
    cells = [Cell(None, " "), Cell(None, " ")]
    for _, losses_of in learnt.values():
        final = [float(curve[-1]) for one in judged if (curve := losses_of(one)) is not None]
        cells.append(_percent(float(over(final))) if final else Cell())
    return cells


def _percent(share: float) -> Cell:
    return Cell(round(100 * share, 6), f"{100 * share:.1f}") if np.isfinite(share) else Cell(None, "none works")
