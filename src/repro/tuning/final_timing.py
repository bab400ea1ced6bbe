"""Times chosen variants again together with the baselines, in several rounds with shuffled order.

All runnables stay on the device. Between rounds, a probe times an empty kernel and a device copy. If either has become
slower, the device is disturbed, and the round is repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from repro.bench.energy import Energy, NoEnergy, energy_columns, is_repeatable
from repro.bench.rows import AGAIN, REPORT, TIMED, Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import CALM_RESTS, WAKING, Samples, SamplingPlan, is_outlier, microseconds_text, outliers
from repro.bench.trial import FAILURES, Bench, with_remark
from repro.bench.worker import ContextLost, Watchdog
from repro.bench.yardsticks import EMPTY
from repro.config.models import Timing
from repro.devices.base import LaunchError
from repro.tuning.search import ProgressCallback, attempt

#: Launches of each yardstick in one look of the probe.
PROBE_LAUNCHES = 5


@dataclass(frozen=True)
class Slowdown:
    """Result of a probe in which some yardsticks were slower than before."""

    #: Names of the slow yardsticks, with their times.
    words: str
    #: Extra seconds for each launch if only the empty kernel is slow. Infinite if the copy is slow, because the
    #: slowdown of a launch then depends on its number of bytes.
    each_launch: float

    def disturbs(self, samples: Samples, tolerance: float) -> bool:
        shortest = min(float(np.median(seconds)) for seconds in samples.seconds.values())
        return self.each_launch > (tolerance - 1) * shortest


class Probe:
    """Times one yardstick of each kind and compares it with its best time in this case.

    A yardstick that does not fit into device memory is left out.
    """

    def __init__(self, bench: Bench, yardsticks: Sequence[Runnable] = ()) -> None:
        self._bench = bench
        self._yardsticks = yardsticks
        self._ready_yardsticks: list[Runnable] | None = None
        self._best: dict[tuple[str, int], float] = {}

    def time_yardsticks(self) -> Slowdown | None:
        """Time the yardsticks; return a `Slowdown` if any is slower than before, else None."""
        if self._ready_yardsticks is None:
            self._ready_yardsticks = self._prepare_yardsticks()
        slow = [slowdown for yardstick in self._ready_yardsticks if (slowdown := self._slow(yardstick))]
        if not slow:
            return None
        return Slowdown("; ".join(slowdown.words for slowdown in slow), max(slowdown.each_launch for slowdown in slow))

    def release(self) -> None:
        ready, self._ready_yardsticks = self._ready_yardsticks or [], None
        if not self._bench.lost:
            for yardstick in ready:
                yardstick.release()

    def _prepare_yardsticks(self) -> list[Runnable]:
        ready = []
        for yardstick in self._yardsticks:
            try:
                # Not prepared through the bench, which skips preparation if it has cached samples of earlier cases.
                yardstick.prepare(self._bench.workspace)
                self._bench.devices.synchronize()
                ready.append(yardstick)
            except tuple(FAILURES):
                yardstick.release()
        return ready

    def _slow(self, yardstick: Runnable) -> Slowdown | None:
        kind, bench = yardstick.kind, self._bench
        backend = bench.devices.backend
        yardstick_key = kind, yardstick.bytes_moved  # the size of a copy depends on free memory
        best = self._best.get(yardstick_key, np.inf)
        median = np.inf
        for _ in range(2):  # a second try, since an idle device starts slowly
            try:
                median = float(np.median(bench.devices.time_events(yardstick.launch, PROBE_LAUNCHES)))
            except LaunchError:
                return None  # the next launch of a runnable will report the failure
            self._best[yardstick_key] = min(self._best.get(yardstick_key, median), median)
            if not is_outlier(median, best, bench.timing.tolerance(backend), WAKING[backend]):
                return None
        words = f"{kind} median {microseconds_text(median)}, {microseconds_text(best)} before"
        return Slowdown(words, median - best if kind == EMPTY else np.inf)


def twin_of(runnable: Runnable) -> Runnable:
    """Return a copy of a runnable that is not prepared yet, with another name; it is prepared and timed by itself."""
    kind, name, twin = type(runnable), runnable.name + AGAIN, copy(runnable)
    # a property, since the name can be an attribute, a field that is frozen, or a property itself
    twin.__class__ = type(kind.__name__, (kind,), {"name": property(lambda self: name), "__module__": kind.__module__})
    return twin


COLD_ROUNDS = 2


@dataclass(frozen=True)
class Rounds:
    """Least number of rounds, and sampling plan for each round."""

    name: str
    count: int
    effort: SamplingPlan


def warm_rounds(timing: Timing) -> Rounds:
    """Return the least number of shuffled rounds, whose launches add up to the full protocol's."""
    effort = SamplingPlan(
        -(-timing.launches // timing.rounds),
        timing.graph_launches,
        -(-timing.graph_replays // timing.rounds),
        energy_seconds=timing.energy_seconds,
        until=(timing.precision, timing.max_rounds) if timing.precision else None,
    )
    return Rounds("rounds", timing.rounds, effort)


def cold_rounds(timing: Timing) -> Rounds:
    """Return rounds that flush the cache before each launch. They use no graphs, since no flush is possible inside a
    graph.
    """
    return Rounds("cold rounds", COLD_ROUNDS, SamplingPlan(-(-timing.cold_launches // COLD_ROUNDS), cold=True))


def shuffled_rounds(
    bench: Bench,
    runnables: Sequence[Runnable],
    store: Store,
    seed: int,
    progress: ProgressCallback = lambda *_: None,
    probe: Probe | None = None,
) -> list[Row]:
    """Time all runnables in shuffled rounds, first with warm and then with cold cache; return one row for each.

    These samples are independent of the search. The times in the search are biased low, because the winner is the
    minimum of many noisy times. Shuffling spreads slow drifts over all runnables. A runnable that fails gets a row with
    the reason.

    A round is repeated if the probe after it is slower by more than the launches' tolerance. A sample that is far from
    the other rounds of its runnable is repeated too. Samples that remain far are dropped; if most are dropped, the
    row's status is disturbed.
    """
    probe = probe or Probe(bench)
    timer = _RoundTimer(bench, store, np.random.default_rng(seed), progress, probe)
    with Watchdog(bench.timing.timeout) as timer.watchdog:
        try:
            warm = timer.time(runnables, warm_rounds(bench.timing))
            cold_runnables = [r for r in runnables if r.cold and warm[r.name].status in TIMED]
            cold = timer.time(cold_runnables, cold_rounds(bench.timing))
        finally:
            probe.release()
            if not bench.lost:
                for runnable in runnables:
                    runnable.release()
    rows = [(warm[runnable.name], runnable) for runnable in runnables]
    rows += [(cold[runnable.name], runnable) for runnable in cold_runnables]
    return [_with_remark(row, runnable, store) for row, runnable in rows]


def _with_remark(row: Row, runnable: Runnable, store: Store) -> Row:
    """Return a row with the remark from the release of its runnable; store the row again if the remark is new."""
    message = with_remark(row.message, runnable)
    return row if message == row.message else store.add(replace(row, message=message))


class _RoundTimer:
    """Runnables that stay on the device, and the rounds to time them in."""

    watchdog: Watchdog

    def __init__(
        self, bench: Bench, store: Store, random: np.random.Generator, progress: ProgressCallback, probe: Probe
    ) -> None:
        self._bench = bench
        self._store = store
        self._random = random
        self._progress = progress
        self._probe = probe
        self._preparations: dict[str, tuple[float, float | None]] = {}

    def time(self, runnables: Sequence[Runnable], rounds: Rounds) -> dict[str, Row]:
        """Return one row for each runnable; skip measuring if the store already has all rows."""
        bench, effort = self._bench, rounds.effort
        stored_rows = {r.name: row for r in runnables if (row := self._store.get(bench.key(r, REPORT, effort)))}
        if len(stored_rows) == len(runnables):
            return stored_rows
        # Times of an earlier process are not comparable with new ones, so only failures are kept.
        rows = {name: row for name, row in stored_rows.items() if row.status not in TIMED}
        todo = {r.name: r for r in runnables if r.name not in rows}
        unprepared = [(name, runnable) for name, runnable in todo.items() if name not in self._preparations]
        for number, (name, runnable) in enumerate(unprepared):
            self._progress("preparing", number, len(unprepared))
            with self._failing_alone(runnable, effort, todo, rows):
                self._preparations[name] = bench.prepare(runnable), bench.check(runnable)
        if unprepared:
            self._progress("preparing", len(unprepared), len(unprepared))
        samples_by_name: dict[str, list[Samples]] = {name: [] for name in todo}
        self._probe.time_yardsticks()
        for number in range(max(rounds.count, effort.until[1] if effort.until else 0)):
            if number >= rounds.count and self._is_precise(samples_by_name, todo, effort):
                break
            self._progress(rounds.name, min(number, rounds.count - 1), rounds.count)
            for name, samples in self._quiet_round(todo, effort, rows).items():
                samples_by_name[name].append(samples)
        self._retake_outliers(samples_by_name, todo, effort, rows)
        self._progress(rounds.name, rounds.count, rounds.count)
        energies = self._energies(samples_by_name, rounds, todo, rows) if effort.energy_seconds else {}
        for runnable in list(todo.values()):
            with self._failing_alone(runnable, effort, todo, rows):
                bench.check_again(runnable)
        for name, runnable in todo.items():
            preprocess, error = self._preparations[name]
            samples = join_rounds(samples_by_name[name], *self._tolerances(runnable))
            columns = {"rounds": len(samples_by_name[name]), **energy_columns(runnable, energies.get(name, []))}
            row = bench.measured_row(runnable, REPORT, effort, samples, error=error, preprocess=preprocess, **columns)
            rows[name] = self._store.add(row)
        return rows

    def _quiet_round(self, todo: dict[str, Runnable], effort: SamplingPlan, rows: dict[str, Row]) -> dict[str, Samples]:
        """Time one round. If the probe reports a disturbance, wait and repeat the round, a few times at most."""
        round_ = self._round(todo, todo, effort, rows)
        disturbances = self._disturbances(self._probe.time_yardsticks(), round_)
        for pause in CALM_RESTS:
            if not disturbances:
                return round_
            time.sleep(pause)
            repeated_round = self._round(todo, todo, effort, rows)
            round_ = {name: _replacement(samples, round_[name]) for name, samples in repeated_round.items()}
            disturbances = self._disturbances(self._probe.time_yardsticks(), round_)
        return {name: _mark_disturbed(disturbances.get(name), samples) for name, samples in round_.items()}

    def _is_precise(
        self, samples_by_name: Mapping[str, Sequence[Samples]], todo: Mapping[str, Runnable], effort: SamplingPlan
    ) -> bool:
        """Return whether the median of each runnable is precise enough, without rounds that do not count."""
        assert effort.until is not None
        for name, runnable in todo.items():
            rounds = samples_by_name[name]
            far = outlying_rounds(rounds, *self._tolerances(runnable))
            if half_width([samples for number, samples in enumerate(rounds) if number not in far]) > effort.until[0]:
                return False
        return True

    def _disturbances(self, slowdown: Slowdown | None, round_: dict[str, Samples]) -> dict[str, str]:
        """Return a message for each sample of a round that the slowdown disturbed."""
        tolerance = self._bench.timing.tolerance(self._bench.devices.backend)
        return {
            name: slowdown.words
            for name, samples in round_.items()
            if slowdown and slowdown.disturbs(samples, tolerance)
        }

    def _retake_outliers(
        self,
        samples_by_name: dict[str, list[Samples]],
        todo: dict[str, Runnable],
        effort: SamplingPlan,
        rows: dict[str, Row],
    ) -> None:
        """Repeat samples that are far from other rounds of the same runnable, as long as repeating helps."""
        for pause in CALM_RESTS:
            far = {
                name: set(outlying_rounds(samples_by_name[name], *self._tolerances(runnable)))
                for name, runnable in todo.items()
            }
            if not any(far.values()):
                return
            time.sleep(pause)
            while any(far.values()):
                round_ = self._round([name for name, numbers in far.items() if numbers], todo, effort, rows)
                disturbances = self._disturbances(self._probe.time_yardsticks(), round_)
                for name, samples in round_.items():
                    number = far[name].pop()
                    samples_by_name[name][number] = _replacement(
                        _mark_disturbed(disturbances.get(name), samples), samples_by_name[name][number]
                    )
                far = {name: numbers for name, numbers in far.items() if name in todo}

    def _energies(
        self,
        samples_by_name: Mapping[str, Sequence[Samples]],
        rounds: Rounds,
        todo: dict[str, Runnable],
        rows: dict[str, Row],
    ) -> dict[str, list[Energy]]:
        """Measure the energy of a launch of the fastest contenders in shuffled rounds; empty if it is not possible."""
        bench, meter = self._bench, self._bench.meter
        seconds = fastest_contenders([*todo.values()], samples_by_name)
        energies: dict[str, list[Energy]] = {name: [] for name in seconds}
        try:
            idle = meter.idle_watts() if seconds else 0.0
            for number in range(rounds.count if seconds else 0):
                self._progress("energy rounds", number, rounds.count)
                busy = {}
                for name in map(str, self._random.permutation(sorted({*seconds} & {*todo}))):
                    with self._failing_alone(todo[name], rounds.effort, todo, rows):
                        busy[name] = bench.energy(todo[name], seconds[name])
                idle_before, idle = idle, meter.idle_watts()
                for name, (watts, launch_seconds, launches) in busy.items():
                    energies[name].append(Energy(watts, (idle_before + idle) / 2, launch_seconds, launches))
        except NoEnergy as reason:
            meter.say(reason)
            return {}
        return energies

    def _tolerances(self, runnable: Runnable) -> tuple[float, float, float]:
        """Return the arguments `tolerance`, `host_tolerance` and `waking` for `outlying_rounds`."""
        timing, devices = self._bench.timing, self._bench.devices
        tolerance = timing.tolerance(devices.backend, runnable.devices or len(devices))
        return tolerance, max(tolerance, timing.cpu_disturbed), WAKING[devices.backend]

    def _round(
        self, names: Iterable[str], todo: dict[str, Runnable], effort: SamplingPlan, rows: dict[str, Row]
    ) -> dict[str, Samples]:
        """Take one sample of each runnable in shuffled order; runnables that fail are left out."""
        samples_by_name = {}
        for name in self._random.permutation(sorted(names)):
            with self._failing_alone(todo[name], effort, todo, rows):
                samples_by_name[str(name)] = self._bench.sample(todo[name], effort)
        return samples_by_name

    @contextmanager
    def _failing_alone(
        self, runnable: Runnable, effort: SamplingPlan, todo: dict[str, Runnable], rows: dict[str, Row]
    ) -> Iterator[None]:
        """If the body fails or hangs, move the runnable from `todo` to `rows` as a failure and continue with other
        runnables.
        """
        bench = self._bench
        try:
            with attempt(bench, self._store, runnable, REPORT, effort, self.watchdog):
                yield
        except tuple(FAILURES) as failure:
            rows[runnable.name] = self._store.add(bench.failure_row(runnable, REPORT, effort, failure))
            del todo[runnable.name]
            if bench.lost:
                raise ContextLost(f"{runnable.name}: {failure}") from None
            runnable.release()


def fastest_contenders(
    runnables: Sequence[Runnable], samples_by_name: Mapping[str, Sequence[Samples]]
) -> dict[str, float]:
    """Return by name the seconds of a launch of the fastest runnable of each contender whose energy can be measured.

    The result is empty for a single contender, since energies are compared.
    """
    fastest: dict[tuple[str, str], tuple[float, str]] = {}
    for runnable in runnables:
        if (contender := runnable.contender) is not None and is_repeatable(runnable):
            median = _median_seconds(samples_by_name[runnable.name])
            fastest[contender] = min(fastest.get(contender, (np.inf, "")), (median, runnable.name))
    return {name: seconds for seconds, name in fastest.values()} if len(fastest) > 1 else {}


def _median_seconds(rounds: Sequence[Samples]) -> float:
    """Return the median seconds of a launch by the first of the clocks graph, event and host that was used."""
    clock = next(clock for clock in ("graph", "event", "host") if clock in rounds[0].seconds)
    return float(np.median(np.concatenate([samples.seconds[clock] for samples in rounds if clock in samples.seconds])))


def half_width(rounds: Sequence[Samples]) -> float:
    """Return half the length of a median's 95 % interval, relative to the median, by the least precise clock.

    The interval is that of Student's t over the medians of the rounds; it is infinite for fewer than two rounds.
    """
    from scipy.stats import t

    by_clock: dict[str, list[float]] = {}
    for samples in rounds:
        for clock, seconds in samples.seconds.items():
            by_clock.setdefault(clock, []).append(float(np.median(seconds)))
    widths = []
    for medians in by_clock.values():
        count = len(medians)
        if count < 2:
            return math.inf
        error = float(np.std(medians, ddof=1)) / math.sqrt(count)
        widths.append(float(t.ppf(0.975, count - 1)) * error / float(np.median(medians)))
    return max(widths, default=math.inf)


def join_rounds(rounds: Sequence[Samples], tolerance: float, host_tolerance: float, waking: float = 0.0) -> Samples:
    """Join the samples of all valid rounds. If fewer than half are valid, join all and mark the result as disturbed."""
    far = outlying_rounds(rounds, tolerance, host_tolerance, waking)
    calm_rounds = [samples for number, samples in enumerate(rounds) if number not in far]
    if 2 * len(calm_rounds) < len(rounds):
        reason = f"{next(iter(far.values()))} in {len(far)} of {len(rounds)} rounds"
        return replace(reduce(Samples.join, rounds), disturbed=reason)
    discarded_samples = sum(rounds[number].taken for number in far)
    samples_of_rounds = reduce(Samples.join, calm_rounds)
    return replace(samples_of_rounds, discarded=samples_of_rounds.discarded + discarded_samples)


def outlying_rounds(
    rounds: Sequence[Samples], tolerance: float, host_tolerance: float, waking: float = 0.0
) -> dict[int, str]:
    """Return the invalid rounds and the reasons: disturbed, or much slower than the best other round.

    Medians may differ between rounds by the factor `tolerance` for device clocks and `host_tolerance` for the host's
    clock, plus `waking` seconds for waking CPU threads.
    """
    disturbances = {number: samples.disturbed for number, samples in enumerate(rounds) if samples.disturbed}
    calm = [number for number in range(len(rounds)) if number not in disturbances]
    far = outliers([rounds[number].seconds for number in calm], tolerance, host_tolerance, waking)
    return disturbances | {calm[number]: reason for number, reason in far.items()}


def _replacement(new: Samples, old: Samples) -> Samples:
    return replace(new, discarded=new.discarded + old.taken)


def _mark_disturbed(disturbance: str | None, samples: Samples) -> Samples:
    return replace(samples, disturbed=samples.disturbed or disturbance)
