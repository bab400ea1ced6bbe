"""Timing the chosen variants again, side by side with the baselines, in shuffled rounds.

All runnables stay resident on the device. Between rounds a probe times an empty kernel and a copy: where these take
longer than before, something disturbs the device, and the round does not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from repro.bench.rows import REPORT, TIMED, Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import CALM_RESTS, WAKING, Samples, SamplingPlan, is_far, micro, outlying
from repro.bench.trial import FAILURES, Bench
from repro.bench.worker import ContextLost, Watchdog
from repro.bench.yardsticks import EMPTY
from repro.config.models import Timing
from repro.devices.base import LaunchError
from repro.tuning.search import ProgressCallback, attempt

#: Launches of each.
LAUNCHES = 5


@dataclass(frozen=True)
class Slowdown:
    """What takes longer than it did.

    Attributes
    ----------
    words
        Which yardsticks, with the numbers.
    each_launch
        Seconds by which every launch takes longer, where it is the empty one alone that does; infinite where it is the
        copy: of what moves bytes, a launch takes the longer the more there are.
    """

    words: str
    each_launch: float

    def disturbs(self, samples: Samples, tolerance: float) -> bool:
        """Say whether launches of a sample may have been longer by more than the tolerated factor."""
        shortest = min(float(np.median(seconds)) for seconds in samples.seconds.values())
        return self.each_launch > (tolerance - 1) * shortest


class Probe:
    """Yardsticks held against their own best of a whole case.

    Parameters
    ----------
    bench
        What they are timed on.
    yardsticks
        What is timed, each kind once; one that there is no room for is left out.
    """

    def __init__(self, bench: Bench, yardsticks: Sequence[Runnable] = ()) -> None:
        self._bench = bench
        self._yardsticks = yardsticks
        self._ready: list[Runnable] | None = None
        self._best: dict[tuple[str, int], float] = {}

    def look(self) -> Slowdown | None:
        """Time the yardsticks; return which of them takes longer than it did before."""
        if self._ready is None:
            self._ready = self._prepared()
        slow = [one for yardstick in self._ready if (one := self._slow(yardstick))]
        if not slow:
            return None
        return Slowdown("; ".join(one.words for one in slow), max(one.each_launch for one in slow))

    def release(self) -> None:
        """Give back what the yardsticks hold; the next look prepares them again."""
        ready, self._ready = self._ready or [], None
        if not self._bench.lost:
            for yardstick in ready:
                yardstick.release()

    def _prepared(self) -> list[Runnable]:
        ready = []
        for yardstick in self._yardsticks:
            try:
                # not by the bench, which spares a batch what an earlier case has timed: this is launched in every case
                yardstick.prepare(self._bench.workspace)
                self._bench.devices.synchronize()
                ready.append(yardstick)
            except tuple(FAILURES):
                yardstick.release()
        return ready

    def _slow(self, yardstick: Runnable) -> Slowdown | None:
        kind, bench = yardstick.kind, self._bench
        backend = bench.devices.backend
        same = kind, yardstick.moved  # a copy is shorter where there is less room for it
        best = self._best.get(same, np.inf)
        median = np.inf
        for _ in range(2):  # the second time only where it is slow: a device that has idled starts slowly
            try:
                median = float(np.median(bench.devices.time_events(yardstick.launch, LAUNCHES)))
            except LaunchError:
                return None  # whose failure it is, the next launch of a runnable will say
            self._best[same] = min(self._best.get(same, median), median)
            if not is_far(median, best, bench.timing.tolerance(backend), WAKING[backend]):
                return None
        words = f"{kind} median {micro(median)}, {micro(best)} before"
        return Slowdown(words, median - best if kind == EMPTY else np.inf)


COLD_ROUNDS = 2


@dataclass(frozen=True)
class Rounds:
    """So many rounds, and the effort of each."""

    name: str
    count: int
    effort: SamplingPlan


def warm_rounds(timing: Timing) -> Rounds:
    """Return rounds that come to the full protocol: launches one by one, and replays of a graph."""
    effort = SamplingPlan(
        -(-timing.launches // timing.rounds),
        timing.graph_launches,
        -(-timing.graph_replays // timing.rounds),
    )
    return Rounds("rounds", timing.rounds, effort)


def cold_rounds(timing: Timing) -> Rounds:
    """Return rounds of launches before which the cache is flushed; what a graph does between its launches is warm."""
    return Rounds("cold rounds", COLD_ROUNDS, SamplingPlan(-(-timing.cold_launches // COLD_ROUNDS), cold=True))


def shuffled_rounds(
    bench: Bench,
    runnables: Sequence[Runnable],
    store: Store,
    seed: int,
    progress: ProgressCallback = lambda *_: None,
    probe: Probe | None = None,
) -> list[Row]:
    """Time all runnables side by side, warm and then cold; return the rows of both, of the samples of all rounds.

    A winner is the smallest of many noisy numbers and would look faster than it is if those numbers were reported;
    these samples were not chosen by. The shuffled order spreads drift over all. What cannot be timed has one row, that
    says why.

    A round after which the probe's yardsticks take longer than they did, by more than is tolerated of its launches, is
    taken again, and so is a sample that is far from the other rounds of its runnable. What stays far does not count;
    where that is most, the row is disturbed.
    """
    probe = probe or Probe(bench)
    stage = _Stage(bench, store, np.random.default_rng(seed), progress, probe)
    with Watchdog(bench.timing.timeout) as stage.watchdog:
        try:
            warm = stage.time(runnables, warm_rounds(bench.timing))
            timed = [r for r in runnables if r.cold and warm[r.name].status in TIMED]
            cold = stage.time(timed, cold_rounds(bench.timing))
        finally:
            probe.release()
            if not bench.lost:
                for runnable in runnables:
                    runnable.release()
    return [*(warm[runnable.name] for runnable in runnables), *(cold[runnable.name] for runnable in timed)]


class _Stage:
    """All that is resident on the device."""

    watchdog: Watchdog

    def __init__(
        self, bench: Bench, store: Store, random: np.random.Generator, progress: ProgressCallback, probe: Probe
    ) -> None:
        self._bench = bench
        self._store = store
        self._random = random
        self._progress = progress
        self._probe = probe
        self._ready: dict[str, tuple[float, float | None]] = {}

    def time(self, runnables: Sequence[Runnable], rounds: Rounds) -> dict[str, Row]:
        """Return a row of each; where the store has them all, nothing is measured."""
        bench, effort = self._bench, rounds.effort
        stored = {r.name: row for r in runnables if (row := self._store.get(bench.key(r, REPORT, effort)))}
        if len(stored) == len(runnables):
            return stored
        # times taken in another process are not compared with these: only what failed is not tried again
        rows = {name: row for name, row in stored.items() if row.status not in TIMED}
        todo = {r.name: r for r in runnables if r.name not in rows}
        unprepared = [(name, runnable) for name, runnable in todo.items() if name not in self._ready]
        for number, (name, runnable) in enumerate(unprepared):
            self._progress("preparing", number, len(unprepared))
            with self._failing_alone(runnable, effort, todo, rows):
                self._ready[name] = bench.prepare(runnable), bench.check(runnable)
        if unprepared:
            self._progress("preparing", len(unprepared), len(unprepared))
        taken: dict[str, list[Samples]] = {name: [] for name in todo}
        self._probe.look()
        for number in range(rounds.count):
            self._progress(rounds.name, number, rounds.count)
            for name, samples in self._quiet_round(todo, effort, rows).items():
                taken[name].append(samples)
        self._take_far_ones_again(taken, todo, effort, rows)
        self._progress(rounds.name, rounds.count, rounds.count)
        for name, runnable in todo.items():
            preprocess, error = self._ready[name]
            samples = join_rounds(taken[name], *self._tolerances(runnable))
            row = bench.measured(runnable, REPORT, effort, samples, error=error, preprocess=preprocess)
            rows[name] = self._store.add(row)
        return rows

    def _quiet_round(self, todo: dict[str, Runnable], effort: SamplingPlan, rows: dict[str, Row]) -> dict[str, Samples]:
        """Take a round, and again after a rest where something disturbs the probe, until it is given up."""
        round_ = self._round(todo, todo, effort, rows)
        slow = self._disturbed_by(self._probe.look(), round_)
        for rest in CALM_RESTS:
            if not slow:
                return round_
            time.sleep(rest)
            again = self._round(todo, todo, effort, rows)
            round_ = {name: _replacement(samples, round_[name]) for name, samples in again.items()}
            slow = self._disturbed_by(self._probe.look(), round_)
        return {name: _with_disturbance(slow.get(name), samples) for name, samples in round_.items()}

    def _disturbed_by(self, slow: Slowdown | None, round_: dict[str, Samples]) -> dict[str, str]:
        """Return the samples of a round that are disturbed by what the probe found, with its words."""
        tolerance = self._bench.timing.tolerance(self._bench.devices.backend)
        return {name: slow.words for name, samples in round_.items() if slow and slow.disturbs(samples, tolerance)}

    def _take_far_ones_again(
        self, taken: dict[str, list[Samples]], todo: dict[str, Runnable], effort: SamplingPlan, rows: dict[str, Row]
    ) -> None:
        """Replace samples that are far from the other rounds of their runnable by new ones, while that helps."""
        for rest in CALM_RESTS:
            far = {name: set(far_rounds(taken[name], *self._tolerances(runnable))) for name, runnable in todo.items()}
            if not any(far.values()):
                return
            time.sleep(rest)
            while any(far.values()):
                round_ = self._round([name for name, numbers in far.items() if numbers], todo, effort, rows)
                slow = self._disturbed_by(self._probe.look(), round_)
                for name, samples in round_.items():
                    number = far[name].pop()
                    taken[name][number] = _replacement(_with_disturbance(slow.get(name), samples), taken[name][number])
                far = {name: numbers for name, numbers in far.items() if name in todo}

    def _tolerances(self, runnable: Runnable) -> tuple[float, float, float]:
        """Return by how much rounds of a runnable may differ: `tolerance`, `of_host` and `waking` of `far_rounds`."""
        timing, devices = self._bench.timing, self._bench.devices
        tolerance = timing.tolerance(devices.backend, runnable.devices or len(devices))
        return tolerance, max(tolerance, timing.cpu_disturbed), WAKING[devices.backend]

    def _round(
        self, names: Iterable[str], todo: dict[str, Runnable], effort: SamplingPlan, rows: dict[str, Row]
    ) -> dict[str, Samples]:
        """Return a sample each, taken in a shuffled order, of those that do not fail."""
        taken = {}
        for name in self._random.permutation(sorted(names)):
            with self._failing_alone(todo[name], effort, todo, rows):
                taken[str(name)] = self._bench.sample(todo[name], effort)
        return taken

    @contextmanager
    def _failing_alone(
        self, runnable: Runnable, effort: SamplingPlan, todo: dict[str, Runnable], rows: dict[str, Row]
    ) -> Iterator[None]:
        """Where the body fails, or never ends, move the runnable from `todo` to `rows`; the others go on."""
        bench = self._bench
        try:
            with attempt(bench, self._store, runnable, REPORT, effort, self.watchdog):
                yield
        except tuple(FAILURES) as failure:
            rows[runnable.name] = self._store.add(bench.failed(runnable, REPORT, effort, failure))
            del todo[runnable.name]
            if bench.lost:
                raise ContextLost(f"{runnable.name}: {failure}") from None
            runnable.release()


def join_rounds(rounds: Sequence[Samples], tolerance: float, of_host: float, waking: float = 0.0) -> Samples:
    """Return the samples of all rounds that count; of all, disturbed, where fewer than half of them do."""
    far = far_rounds(rounds, tolerance, of_host, waking)
    kept = [samples for number, samples in enumerate(rounds) if number not in far]
    if 2 * len(kept) < len(rounds):
        why = f"{next(iter(far.values()))} in {len(far)} of {len(rounds)} rounds"
        return replace(reduce(Samples.join, rounds), disturbed=why)
    dropped = sum(rounds[number].taken for number in far)
    joined = reduce(Samples.join, kept)
    return replace(joined, discarded=joined.discarded + dropped)


def far_rounds(rounds: Sequence[Samples], tolerance: float, of_host: float, waking: float = 0.0) -> dict[int, str]:
    """Return which rounds of a runnable do not count, and why: disturbed, or far from the best of the others.

    Parameters
    ----------
    tolerance, of_host
        By which factor they may differ, by the devices' clocks and by the host's.
    waking
        Seconds by which they may differ beside, because threads have to be woken.
    """
    disturbed = {number: samples.disturbed for number, samples in enumerate(rounds) if samples.disturbed}
    calm = [number for number in range(len(rounds)) if number not in disturbed]
    far = outlying([rounds[number].seconds for number in calm], tolerance, of_host, waking)
    return disturbed | {calm[number]: why for number, why in far.items()}


def _replacement(new: Samples, old: Samples) -> Samples:
    """Return a sample that was taken in the place of another, which is discarded."""
    return replace(new, discarded=new.discarded + old.taken)


def _with_disturbance(why: str | None, samples: Samples) -> Samples:
    """Return a sample as disturbed where there is a reason."""
    return replace(samples, disturbed=samples.disturbed or why)
