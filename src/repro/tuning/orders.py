"""Orders of tuning on recorded problems: schedule and layout one after the other or jointly (2020 paper, § 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from repro.formats.layout import REFERENCE
from repro.tuning.recordings import Recording

#: Threads per block of the schedule that nobody tuned, as far as the device admits; blocks fill the multiprocessor.
CUSTOMARY_THREADS = 256


@dataclass(frozen=True, order=True)
class Pair:
    """A schedule of the papers' space."""

    kind: str
    n_t: int
    n_b: int

    @property
    def threads(self) -> int:
        """n_t·n_b, the threads on a multiprocessor."""
        return self.n_t * self.n_b


Times = Mapping[str, Mapping[Pair, float]]


@dataclass(frozen=True)
class Outcome:
    """What an order of tuning ends with.

    Attributes
    ----------
    name
        The variant; None where a variant it needed has no time.
    tried
        Variants that it measures on the way.
    """

    name: str | None
    tried: int


Order = Callable[[Times], Outcome]


def times_of(recording: Recording) -> Times:
    """Return the times of the papers' space by layout and schedule; what failed is left out."""
    found: dict[str, dict[Pair, float]] = {}
    for name, seconds in recording.seconds.items():
        layout, _, schedule = name.partition("/")
        parts = schedule.split("-")
        if seconds is not None and len(parts) == 3:
            found.setdefault(layout, {})[Pair(parts[0], int(parts[1]), int(parts[2]))] = seconds
    return found


def customary(times: Times) -> Pair:
    """Return the schedule that nobody tuned: static, 256 threads per block or the most below, as many blocks as fit."""
    pairs = {pair for by_pair in times.values() for pair in by_pair if pair.kind == "static"}
    fitting = [pair for pair in pairs if pair.n_t <= CUSTOMARY_THREADS] or list(pairs)
    return max(fitting, key=lambda pair: (pair.n_t, pair.n_b))


def jointly(times: Times) -> Outcome:
    """Try every layout under every schedule."""
    return _outcome(times, [(layout, pair) for layout in times for pair in times[layout]])


def schedule_alone(times: Times) -> Outcome:
    """Try every schedule of the reference layout."""
    layout = str(REFERENCE)
    return _outcome(times, [(layout, pair) for pair in times.get(layout, ())])


def layout_alone(times: Times) -> Outcome:
    """Try every layout under the customary schedule."""
    pair = customary(times)
    return _outcome(times, [(layout, pair) for layout in times if pair in times[layout]])


def schedule_first(times: Times) -> Outcome:
    """Tune the schedule of the reference layout, then the layout under that schedule."""
    first = schedule_alone(times)
    if first.name is None:
        return first
    pair = _split(first.name)[1]
    then = _outcome(times, [(layout, pair) for layout in times if pair in times[layout]])
    return Outcome(then.name, first.tried + then.tried - 1)  # one of them is known already


def layout_first(times: Times) -> Outcome:
    """Tune the layout under the customary schedule, then the schedule of that layout."""
    first = layout_alone(times)
    if first.name is None:
        return first
    layout = _split(first.name)[0]
    then = _outcome(times, [(layout, pair) for pair in times[layout]])
    return Outcome(then.name, first.tried + then.tried - 1)


def by_product(prefer: Callable[[Pair], float]) -> Order:
    """Return the joint tuning that knows n_t·n_b only: of each product it tries the pair of the least `prefer`."""

    def order(times: Times) -> Outcome:
        pairs = {pair for by_pair in times.values() for pair in by_pair}
        kept: dict[tuple[str, int], Pair] = {}
        for pair in sorted(pairs, key=lambda each: (prefer(each), each)):
            kept.setdefault((pair.kind, pair.threads), pair)
        wanted = set(kept.values())
        return _outcome(times, [(layout, pair) for layout in times for pair in times[layout] if pair in wanted])

    return order


def _outcome(times: Times, candidates: Iterable[tuple[str, Pair]]) -> Outcome:
    tried = list(candidates)
    if not tried:
        return Outcome(None, 0)
    layout, pair = min(tried, key=lambda each: times[each[0]][each[1]])
    return Outcome(f"{layout}/{pair.kind}-{pair.n_t}-{pair.n_b}", len(tried))


def _split(name: str) -> tuple[str, Pair]:
    layout, _, schedule = name.partition("/")
    kind, n_t, n_b = schedule.split("-")
    return layout, Pair(kind, int(n_t), int(n_b))
