"""Recorded searches of a campaign, and what is evaluated on their times without measuring again.

These are searches with a budget, predicted or random; the winners of one device on another device; and orders of
tuning, schedule and layout one after the other or jointly (2020 paper, section 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import conflicting_names
from repro.sparse.compound.ids import VariantId, point_of
from repro.sparse.compound.layouts import REFERENCE, Layout
from repro.sparse.compound.schedules import KINDS, Schedule
from repro.studies.compound_spmv.study import features, prune_mask
from repro.tuning.evaluation import Evaluation, evaluate
from repro.tuning.recordings import Recording, recordings

SPACE_TITLES = {"paper": "the papers’ space", "extended": "our space"}
#: A problem counts as searched in full if it has this share of the variants that any of its entry and precision has:
#: searches in part have less in common, and those from before and after a few variants were replaced have more.
COMPLETE = 0.7


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, in natural ordering, by problem and precision.

    A search that measured a few variants only is no truth to judge others by, and left out. Each problem is judged by
    the variants that were searched on it, without those that a search with a budget would not try.
    """
    searches = all_searched(campaign, space)
    names: dict[tuple[str, str], set[str]] = {}
    for one in searches:
        names.setdefault((one.family, one.precision), set()).update(one.seconds)
    return [one for one in searches if len(one.seconds) >= COMPLETE * len(names[one.family, one.precision])]


def all_searched(campaign: Campaign, space: str | None = None) -> list[Recording]:
    """Return what was searched of a space, or of both, in natural ordering, in full or not."""
    rows = campaign.search
    rows = rows[(rows["space"] == space if space else rows["space"].notna()) & (rows["ordering"] == "natural")]
    records = {
        record.name: {"entry": record.entry, "statistics": record.statistics, "facts": record.facts}
        for record in campaign.problems.values()
    }
    return recordings(rows, records, campaign.environments, features, prune_mask)


def judged_searches(campaign: Campaign, space: str, budget: float) -> list[Evaluation]:
    """Replay predicted and random searches of a budget on what was searched in full of a space.

    Where campaigns on other devices stand beside it, searches that learn from these alone are replayed too.
    """
    elsewhere = [one for other in campaign.beside if other.device != campaign.device for one in searched(other, space)]
    return evaluate(searched(campaign, space), budget, point_of, str(REFERENCE), elsewhere)


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
    others = conflicting_names(campaign, other)
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


#: Threads per block of the schedule that nobody tuned, as far as the device admits; blocks fill the multiprocessor.
CUSTOMARY_THREADS = 256


#: Seconds by layout and schedule.
Times = Mapping[Layout, Mapping[Schedule, float]]


@dataclass(frozen=True)
class Outcome:
    """What an order of tuning ends with.

    Attributes
    ----------
    variant
        Its answer; None where a variant it needed has no time.
    tried
        Variants that it measures on the way.
    """

    variant: VariantId | None
    tried: int


Order = Callable[[Times], Outcome]


def times_of(recording: Recording) -> Times:
    """Return the times of the papers' space by layout and schedule; what failed is left out."""
    times: dict[Layout, dict[Schedule, float]] = {}
    for name, seconds in recording.seconds.items():
        variant = VariantId.parse(name)
        if seconds is not None and variant.schedule.kind in KINDS and not variant.schedule.shape:
            times.setdefault(variant.layout, {})[variant.schedule] = seconds
    return times


def customary(times: Times) -> Schedule:
    """Return the schedule that nobody tuned: static, 256 threads per block or the most below, as many blocks as fit."""
    schedules = {one for by_schedule in times.values() for one in by_schedule if one.kind == "static"}
    fitting = [schedule for schedule in schedules if schedule.n_t <= CUSTOMARY_THREADS] or list(schedules)
    return max(fitting, key=lambda schedule: (schedule.n_t, schedule.n_b))


def jointly(times: Times) -> Outcome:
    """Try every layout under every schedule."""
    return _outcome(times, [VariantId(layout, schedule) for layout in times for schedule in times[layout]])


def schedule_alone(times: Times) -> Outcome:
    """Try every schedule of the reference layout."""
    return _outcome(times, [VariantId(REFERENCE, schedule) for schedule in times.get(REFERENCE, ())])


def layout_alone(times: Times) -> Outcome:
    """Try every layout under the customary schedule."""
    schedule = customary(times)
    return _outcome(times, [VariantId(layout, schedule) for layout in times if schedule in times[layout]])


def schedule_first(times: Times) -> Outcome:
    """Tune the schedule of the reference layout, then the layout under that schedule."""
    first = schedule_alone(times)
    if first.variant is None:
        return first
    schedule = first.variant.schedule
    then = _outcome(times, [VariantId(layout, schedule) for layout in times if schedule in times[layout]])
    return Outcome(then.variant, first.tried + then.tried - 1)  # one of them is known already


def layout_first(times: Times) -> Outcome:
    """Tune the layout under the customary schedule, then the schedule of that layout."""
    first = layout_alone(times)
    if first.variant is None:
        return first
    layout = first.variant.layout
    then = _outcome(times, [VariantId(layout, schedule) for schedule in times[layout]])
    return Outcome(then.variant, first.tried + then.tried - 1)


def by_product(prefer: Callable[[Schedule], float]) -> Order:
    """Return the joint tuning that knows n_t·n_b only: of each product it tries the schedule of the least `prefer`."""

    def order(times: Times) -> Outcome:
        schedules = {schedule for by_schedule in times.values() for schedule in by_schedule}
        kept: dict[tuple[str, int], Schedule] = {}
        for schedule in sorted(schedules, key=lambda one: (prefer(one), one)):
            kept.setdefault((schedule.kind, schedule.n_t * schedule.n_b), schedule)
        wanted = set(kept.values())
        return _outcome(
            times,
            [VariantId(layout, schedule) for layout in times for schedule in times[layout] if schedule in wanted],
        )

    return order


def _outcome(times: Times, candidates: Sequence[VariantId]) -> Outcome:
    if not candidates:
        return Outcome(None, 0)
    fastest = min(candidates, key=lambda variant: times[variant.layout][variant.schedule])
    return Outcome(fastest, len(candidates))
