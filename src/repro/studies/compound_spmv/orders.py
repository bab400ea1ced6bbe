"""Orders of tuning on recorded problems: schedule and layout one after the other or jointly (2020 paper, § 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from repro.studies.compound_spmv.layout import REFERENCE, Layout
from repro.studies.compound_spmv.schedules import KINDS, Schedule
from repro.studies.compound_spmv.variant_id import VariantId
from repro.tuning.recordings import Recording

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
