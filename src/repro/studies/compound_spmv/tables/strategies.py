"""What tuning one thing after the other loses against tuning all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column, Table
from repro.artifacts.lineup import measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import table
from repro.studies.compound_spmv import orders
from repro.studies.compound_spmv.orders import Order
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.searched import searched
from repro.tuning.recordings import Recording

#: Tuning in parts, and what each part is.
SEQUENCES: Mapping[str, Order] = {
    "schedule alone": orders.schedule_alone,
    "layout alone": orders.layout_alone,
    "schedule, then layout": orders.schedule_first,
    "layout, then schedule": orders.layout_first,
    "jointly": orders.jointly,
}
#: Joint tuning of layout, kind and n_t·n_b, by the rule that splits the product.
PRODUCTS: Mapping[str, Order] = {
    "n_t·n_b, largest n_t": orders.by_product(lambda schedule: -schedule.n_t),
    "n_t·n_b, n_t nearest 256": orders.by_product(lambda schedule: abs(log2(schedule.n_t / 256))),
    "n_t·n_b, n_t nearest 128": orders.by_product(lambda schedule: abs(log2(schedule.n_t / 128))),
    "n_t·n_b, smallest n_t": orders.by_product(lambda schedule: schedule.n_t),
}


@dataclass(frozen=True)
class Lost:
    """What one order of tuning lost on one problem in one precision.

    Attributes
    ----------
    recording, tried
        The problem, and how many variants the order measures on it.
    loss
        By what share its answer is slower than the exhaustive search's; None where it has none.
    screened
        Whether its answer was timed by the screening only.
    """

    recording: Recording
    tried: int
    loss: float | None
    screened: bool


def lost(recordings: Sequence[Recording], order: Order) -> list[Lost]:
    """Replay an order of tuning on every recorded problem."""
    answers = []
    for one in recordings:
        outcome = order(orders.times_of(one))
        answer = None if outcome.variant is None else str(outcome.variant)
        loss = None if answer is None else float(one.losses([answer])[0])
        answers.append(Lost(one, outcome.tried, loss, answer not in one.full))
    return answers


@table(
    STUDY,
    "table-strategies",
    title="What tuning in parts loses against joint tuning",
    numbering=f"Section 5.4 of {PAPER}",
)
def strategies(campaign: Campaign, published: Published) -> Table:
    """Distribution of the losses over all problems and precisions, one order a row."""
    recordings = searched(campaign, "paper")
    columns = (
        Column("tuning", "tuning", numeric=False),
        Column("tried", "tried"),
        Column("exact", f"within {100 * campaign.tie:g} %"),
        *(Column(key, key, "slower than joint [%]") for key in ("median", "mean", "worst")),
        Column("where", "worst at", numeric=False),
    )
    rows = [
        _row(name, lost(recordings, order), campaign.tie)
        for name, order in {**SEQUENCES, **PRODUCTS}.items()
        if recordings
    ]
    caption = [
        "By how many percent the answers of other orders of tuning are slower than that of joint tuning (the fastest",
        f"of the papers’ space, exhaustively searched), over {len(recordings)} pairs of problem and precision, and how",
        "many variants each order tries. “Schedule” is tuned in CSR-AoS-AoS when it comes first.",
        f"“Layout” is tuned under the schedule {_customary(recordings)} when it comes first: static, 256 threads per",
        "block where the device has them, and as many blocks as fit.",
        "“n_t·n_b” tunes the product as one parameter, each with a rule that splits it, jointly with the rest.",
        f"The question is that of section 5.4 of {PAPER}; the schedule to begin with is our choice.",
        measured_on(campaign, "event", "the search"),
        "Answers timed by the few launches of the screening are rarely exact to the percent; one below the best of the",
        "full protocol counts as no loss.",
        "" if recordings else "No problem of this campaign was searched in full.",
    ]
    return Table(columns, rows, sentences(caption))


def _row(name: str, answers: Sequence[Lost], tie: float) -> tuple[Cell, ...]:
    judged = [(one.loss, one) for one in answers if one.loss is not None]
    if not judged:
        return Cell(name), *(Cell() for _ in range(6))
    losses = np.array([loss for loss, _ in judged])
    worst = max(judged, key=lambda pair: pair[0])
    exact = int((losses <= tie).sum())
    tried = [one.tried for one in answers]
    screened = sum(one.screened for one in answers)
    notes = (f"{screened} of {len(answers)} answers timed by the screening only",) if screened else ()
    where = f"{worst[1].recording.problem}, {worst[1].recording.precision}" if worst[0] > 0 else None
    return (
        Cell(name, notes=notes),
        Cell(max(tried), str(max(tried))),
        Cell(exact, f"{exact} of {len(judged)}"),
        *(
            Cell(round(100 * float(value), 6), f"{100 * value:.1f}")
            for value in (np.median(losses), losses.mean(), worst[0])
        ),
        Cell(where),
    )


def _customary(recordings: Sequence[Recording]) -> str:
    schedules = {orders.customary(orders.times_of(one)) for one in recordings}
    return ", ".join(map(str, sorted(schedules))) or "that is customary"
