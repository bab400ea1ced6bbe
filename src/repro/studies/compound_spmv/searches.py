"""Recorded searches of a campaign, and evaluations that replay their times without measuring again.

The evaluations are of searches with a budget (predicted or random), of the winners of one device on another device, and
of orders of tuning: schedule and layout one after the other, or jointly (2020 paper, section 5.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import conflicting_names
from repro.sparse.compound.variants import PAPERS_KINDS, REFERENCE, Layout, Schedule, VariantId
from repro.studies.compound_spmv.study import features, prune_mask
from repro.tuning.recordings import Recording, recordings
from repro.tuning.strategies import Evaluation, evaluate, read_ids
from repro.words import EXTENDED, PAPER, PAPER_TUNED

SPACE_TITLES: Mapping[str, str] = {
    PAPER: "the papers’ space",
    PAPER_TUNED: "the papers’ kernels, tuned further",
    EXTENDED: "our space",
}
#: A search counts as complete if it timed at least this fraction of all variants for its entry type and precision.
#: Searches with a budget are below it; searches before and after a small change of the set of variants are above it.
COMPLETE = 0.7


def recordings_of_space(campaign: Campaign, space: str) -> list[Recording]:
    """Return the complete searches of a space, in natural ordering, by problem and precision.

    Partial searches are left out, since replays need a complete reference. The reference of a problem has all searched
    variants, except those that a search with a budget would not try.
    """
    searches = all_recordings(campaign, space)
    names: dict[tuple[str, str], set[str]] = {}
    for recording in searches:
        names.setdefault((recording.family, recording.precision), set()).update(recording.seconds)
    return [
        recording
        for recording in searches
        if len(recording.seconds) >= COMPLETE * len(names[recording.family, recording.precision])
    ]


def all_recordings(campaign: Campaign, space: str | None = None) -> list[Recording]:
    """Return complete and partial searches of a space, or of both spaces, in natural ordering."""
    rows = campaign.search
    rows = rows[(rows.space == space if space else rows.space.notna()) & (rows.ordering == "natural")]
    records = {
        record.name: {"entry": record.entry, "statistics": record.statistics, "facts": record.facts}
        for record in campaign.problems.values()
    }
    return recordings(rows, records, campaign.environments, features, prune_mask)


def replayed_searches(campaign: Campaign, space: str, budget: float) -> list[Evaluation]:
    """Replay predicted and random searches with a budget on the complete searches of a space.

    If `campaign.beside` has campaigns on other devices, searches that learn only from these are replayed too.
    """
    reference_recordings = [
        recording
        for reference in campaign.beside
        if reference.device != campaign.device
        for recording in recordings_of_space(reference, space)
    ]
    return evaluate(recordings_of_space(campaign, space), budget, VariantId, str(REFERENCE), reference_recordings)


@dataclass(frozen=True)
class Transfer:
    """One problem in one precision on two devices, restricted to variants that work on both devices."""

    problem: str
    precision: str
    #: The fastest variant on this device and on the other device, by the event clock.
    here: str
    there: str
    #: Relative loss here of the other device's fastest variant against the fastest variant here; at least 0.
    loss_here: float
    #: Relative loss on the other device of our fastest variant against the fastest variant there.
    loss_there: float


def transfers(campaign: Campaign, reference: Campaign) -> dict[tuple[str, str], Transfer]:
    """Return a `Transfer` for each problem and precision that both campaigns searched on the same backend.

    At least one variant works on both devices. A variant that was not timed in full has its screened time from few
    launches; a screened time below the best full time is noise and counts as no loss. Problems with equal names but
    different content are not compared.
    """
    conflicts = conflicting_names(campaign, reference)
    reference_recordings = {
        (recording.problem, recording.precision): recording
        for recording in all_recordings(reference)
        if recording.problem not in conflicts
    }
    pairs = [
        (recording, reference_recordings.get((recording.problem, recording.precision)))
        for recording in all_recordings(campaign)
    ]
    transfers = [
        _transfer(recording, target_recording)
        for recording, target_recording in pairs
        if target_recording is not None and target_recording.backend == recording.backend
    ]
    return {(recording.problem, recording.precision): recording for recording in transfers if recording is not None}


def _transfer(source: Recording, target: Recording) -> Transfer | None:
    common_names = [name for name in source.seconds if None not in (source.seconds[name], target.seconds.get(name))]
    if not common_names:
        return None
    source, target = source.among(common_names), target.among(common_names)
    return Transfer(
        source.problem,
        source.precision,
        source.fastest,
        target.fastest,
        float(source.losses([target.fastest])[0]),
        float(target.losses([source.fastest])[0]),
    )


#: Threads per block of the untuned schedule, if the device allows them; its blocks fill each multiprocessor.
CUSTOMARY_THREADS = 256
#: Seconds by layout and schedule.
Times = Mapping[Layout, Mapping[Schedule, float]]


@dataclass(frozen=True)
class OrderOutcome:
    """Result of an order of tuning."""

    #: The chosen layout and schedule; None if a required variant has no time.
    variant: VariantId | None
    #: Number of variants that this order of tuning measures.
    tried: int


Order = Callable[[Times], OrderOutcome]


def times_of(recording: Recording) -> Times:
    """Return the times in the papers' space by layout and schedule; failed variants are left out."""
    times: dict[Layout, dict[Schedule, float]] = {}
    ids = read_ids(recording.seconds, VariantId)
    for variant, seconds in zip(ids, recording.seconds.values(), strict=True):
        if seconds is not None and variant.schedule.kind in PAPERS_KINDS and not variant.schedule.shape:
            times.setdefault(variant.layout, {})[variant.schedule] = seconds
    return times


def default_schedule(times: Times) -> Schedule:
    """Return the untuned schedule: static, 256 threads per block (or the most below), as many blocks as fit."""
    schedules = {candidate for by_schedule in times.values() for candidate in by_schedule if candidate.kind == "static"}
    fitting = [schedule for schedule in schedules if schedule.block_size <= CUSTOMARY_THREADS] or list(schedules)
    return max(fitting, key=lambda schedule: (schedule.block_size, schedule.blocks_per_sm))


def joint_tuning(times: Times) -> OrderOutcome:
    """Try every layout with every schedule."""
    return _outcome(times, [VariantId(layout, schedule) for layout in times for schedule in times[layout]])


def schedule_alone(times: Times) -> OrderOutcome:
    """Try every schedule with the reference layout."""
    return _outcome(times, [VariantId(REFERENCE, schedule) for schedule in times.get(REFERENCE, ())])


def layout_alone(times: Times) -> OrderOutcome:
    """Try every layout with the untuned schedule."""
    schedule = default_schedule(times)
    return _outcome(times, [VariantId(layout, schedule) for layout in times if schedule in times[layout]])


def schedule_first(times: Times) -> OrderOutcome:
    """Tune the schedule for the reference layout, then tune the layout for this schedule."""
    first = schedule_alone(times)
    if first.variant is None:
        return first
    schedule = first.variant.schedule
    second_outcome = _outcome(times, [VariantId(layout, schedule) for layout in times if schedule in times[layout]])
    return OrderOutcome(second_outcome.variant, first.tried + second_outcome.tried - 1)  # one variant is in both stages


def layout_first(times: Times) -> OrderOutcome:
    """Tune the layout for the untuned schedule, then tune the schedule for this layout."""
    first = layout_alone(times)
    if first.variant is None:
        return first
    layout = first.variant.layout
    second_outcome = _outcome(times, [VariantId(layout, schedule) for schedule in times[layout]])
    return OrderOutcome(second_outcome.variant, first.tried + second_outcome.tried - 1)


def by_product(preference: Callable[[Schedule], float]) -> Order:
    """Return joint tuning by n_t·n_b only: for each product n_t·n_b, it tries the schedule of least `preference`."""

    def order(times: Times) -> OrderOutcome:
        schedules = {schedule for by_schedule in times.values() for schedule in by_schedule}
        kept_schedules: dict[tuple[str, int], Schedule] = {}
        for schedule in sorted(schedules, key=lambda candidate: (preference(candidate), candidate)):
            kept_schedules.setdefault((schedule.kind, schedule.block_size * schedule.blocks_per_sm), schedule)
        selected_schedules = set(kept_schedules.values())
        return _outcome(
            times,
            [
                VariantId(layout, schedule)
                for layout in times
                for schedule in times[layout]
                if schedule in selected_schedules
            ],
        )

    return order


def _outcome(times: Times, candidates: Sequence[VariantId]) -> OrderOutcome:
    if not candidates:
        return OrderOutcome(None, 0)
    fastest = min(candidates, key=lambda variant: times[variant.layout][variant.schedule])
    return OrderOutcome(fastest, len(candidates))
