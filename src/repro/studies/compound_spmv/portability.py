"""Which winners travel: what the fastest variant of one device loses on another, by the searches of two campaigns."""

from __future__ import annotations

from dataclasses import dataclass

from repro.artifacts.beside import apart
from repro.artifacts.data import Campaign
from repro.studies.compound_spmv.searched import all_searched
from repro.tuning.recordings import Recording


@dataclass(frozen=True)
class Journey:
    """One problem in one precision on two devices, among the variants that work on both.

    Attributes
    ----------
    problem, precision
        Which.
    here, there
        The fastest variant of each search, by the event clock.
    loss_here
        By which share the other device's fastest is slower here than the fastest here; not negative.
    loss_there
        By which share ours is slower there than the fastest there.
    """

    problem: str
    precision: str
    here: str
    there: str
    loss_here: float
    loss_there: float


def journeys(campaign: Campaign, other: Campaign) -> dict[tuple[str, str], Journey]:
    """Return, by problem and precision, what was searched in both campaigns and has a variant that works in both.

    Screened times, of few launches, stand where a variant was not timed in full: one below the fastest of those timed
    in full counts as no loss. A problem whose content differs is another one, whatever its name.
    """
    others = apart(campaign, other)
    elsewhere = {(one.problem, one.precision): one for one in all_searched(other) if one.problem not in others}
    pairs = [(one, elsewhere.get((one.problem, one.precision))) for one in all_searched(campaign)]
    made = [_journey(one, far) for one, far in pairs if far is not None and far.backend == one.backend]
    return {(one.problem, one.precision): one for one in made if one is not None}


def _journey(near: Recording, far: Recording) -> Journey | None:
    works = [name for name in near.seconds if None not in (near.seconds[name], far.seconds.get(name))]
    if not works:
        return None
    near, far = near.among(works), far.among(works)
    return Journey(
        near.problem,
        near.precision,
        near.fastest,
        far.fastest,
        float(near.losses([far.fastest])[0]),
        float(far.losses([near.fastest])[0]),
    )
