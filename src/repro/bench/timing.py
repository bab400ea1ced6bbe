"""Timing: how many launches by which clocks, which samples count, and what is reported of them.

The clocks of one runnable judge each other. Any disturbance makes a launch longer, in most cases by the time for
which the device serves somebody else, which is milliseconds. A single reading that is much longer than the others
is stalled and does not count. Where most readings are stalled, or the clocks contradict each other, nothing is
known of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import QUANTILES
from repro.bench.runnable import Runnable
from repro.config.models import Timing
from repro.devices.base import CaptureError
from repro.devices.device_group import Devices

Seconds = NDArray[np.float64]

#: By how many times the tolerated share a reading may be longer than the others: a replay is a mean of many launches,
#: as is a launch of `LONG` seconds of its blocks; a shorter one alone scatters more, some by a factor of 2.6. So such a
#: one is stalled only if it is longer by `STALL` seconds as well: no other process's turn is shorter than that. Of
#: 128,000 undisturbed rows on an H200, 302 had such a launch, one such a replay, and none had many.
SCATTER, SHORT_SCATTER, LONG_LAUNCH, STALL = 2.0, 5.0, 1e-3, 1e-4
#: Seconds that a launch alone may take beside what it takes in a graph (on the CPU: in a batch): the clock's own, and
#: what the parts of a launch wait for each other.
ALONE = {"cuda": 10e-6, "opencl": 1e-3}
#: Seconds that the clock of a GPU resolves: two readings of a few microseconds differ by that.
STEP = 0.5e-6
#: Seconds that a launch may take longer because a core's threads have to be woken: of an empty one 5 or 12 µs, either
#: of them for minutes, on a CPU that nothing else uses. So looks and rounds differ by that; the clocks of one sample,
#: which takes less than a second, do not.
WAKING = {"cuda": 0.0, "opencl": 20e-6}


@dataclass(frozen=True)
class ClockVerdict:
    """What counts of a sample.

    Attributes
    ----------
    seconds
        The readings by clock without the stalled ones; all where the sample is disturbed.
    stalled
        How many were left out.
    disturbed
        Why the sample does not count, with the numbers; None where it does.
    """

    seconds: Mapping[str, Seconds]
    stalled: int = 0
    disturbed: str | None = None


def judge_clocks(seconds: Mapping[str, Seconds], tolerance: float, alone: float | None) -> ClockVerdict:
    """Say what counts of a sample by one or several clocks.

    Parameters
    ----------
    seconds
        Readings by clock: of each launch, and per launch of each replay of a graph.
    tolerance
        The factor by which a median may be off.
    alone
        Seconds that a launch alone may take beside what it takes in a graph; None for any, as over several devices,
        which wait for each other the longer the more steps a launch has.
    """
    kept = {clock: readings[readings <= _limit(readings, clock, tolerance)] for clock, readings in seconds.items()}
    why = [
        f"{len(readings) - len(kept[clock])} of {len(readings)} {_unit(clock)} stalled"
        for clock, readings in seconds.items()
        if 2 * len(kept[clock]) < len(readings)
    ]
    if not why and "graph" in kept:
        why = _contradiction(kept, tolerance, alone)
    if why:
        return ClockVerdict(seconds, disturbed=f"{', '.join(why)} ({numbers(seconds)})")
    return ClockVerdict(kept, sum(len(readings) - len(kept[clock]) for clock, readings in seconds.items()))


def _limit(readings: Seconds, clock: str, tolerance: float) -> float:
    """Return how long a reading may be: by the lower quartile, or by the least where three quarters may be stalled."""
    least, quartile = np.quantile(readings, [0, 0.25], method="lower")

    def limit(usual: float) -> float:
        if clock == "graph" or usual > LONG_LAUNCH:
            return usual * (1 + SCATTER * (tolerance - 1))
        return max(usual * (1 + SHORT_SCATTER * (tolerance - 1)), usual + STALL)

    return float(limit(quartile) if quartile <= limit(least) else limit(least))


def _contradiction(seconds: Mapping[str, Seconds], tolerance: float, alone: float | None) -> list[str]:
    """Hold launches in a graph against launches alone: neither can take much longer than the other."""
    in_graph, most = float(np.median(seconds["graph"])), 1 + SHORT_SCATTER * (tolerance - 1)
    for clock in ("event", "host"):
        if clock in seconds:
            single = float(np.median(seconds[clock]))
            if in_graph > tolerance * single:
                return ["a launch in a graph takes longer than one alone"]
            if clock == "event" and alone is not None and single > most * in_graph + alone:
                return ["a launch alone takes much longer than one in a graph"]
    return []


def outlying(
    rounds: Sequence[Mapping[str, Seconds]], tolerance: float, of_host: float, waking: float = 0.0
) -> dict[int, str]:
    """Return which rounds of a runnable are far from the best of its own rounds by any clock, with the numbers.

    Parameters
    ----------
    tolerance
        The factor by which a median may be off.
    of_host
        The same by the clock `host`.
    waking
        Seconds that a launch may take longer because threads have to be woken.
    """
    far: dict[int, str] = {}
    for clock in dict.fromkeys(clock for seconds in rounds for clock in seconds):
        medians = {i: float(np.median(seconds[clock])) for i, seconds in enumerate(rounds) if clock in seconds}
        least = min(medians.values())
        for i, median in medians.items():
            if is_far(median, least, of_host if clock == "host" else tolerance, waking):
                far.setdefault(i, f"{clock} median {micro(median)} in one round and {micro(least)} in another")
    return far


def is_far(median: float, best: float, tolerance: float, waking: float = 0.0) -> bool:
    """Say whether a median is longer than the best of its kind by more than is tolerated and the clock resolves."""
    return median > tolerance * best + STEP + waking


def numbers(seconds: Mapping[str, Seconds]) -> str:
    """Return what the clocks read: `graph median 80.1 µs, its least 4.1 µs, event median 6.4 µs, …`."""
    words = []
    for clock, readings in sorted(seconds.items(), reverse=True):
        words.append(f"{clock} median {micro(float(np.median(readings)))}, its least {micro(float(readings.min()))}")
        words[-1] += f", its largest {micro(float(readings.max()))}"
    return "; ".join(words)


def micro(seconds: float) -> str:
    """Return seconds in microseconds, to a tenth where they are few."""
    value = seconds * 1e6
    return f"{value:.1f} µs" if value < 1000 else f"{value:,.0f} µs"


def _unit(clock: str) -> str:
    return "replays of a graph" if clock == "graph" else "launches"


#: Seconds of rest before each further sample of a launch that was timed while the device was throttled. Screening does
#: not wait: on a device whose power is capped for good that would take hours.
RESTS = (0.5, 2.0)
#: The same where it was disturbed, which may be over in milliseconds; and where it is only screened.
CALM_RESTS = (0.05, 0.2, 1.0)
SCREENING_RESTS = (0.01, 0.1)
#: Samples of a clock and round that a reported row keeps at the most: the median of so many is within a sixth of their
#: spread of the median of all, and the rows of a campaign stay small.
KEPT = 64
QUARTERS = np.array([0, 0.25, 0.5, 0.75, 1])


@dataclass(frozen=True)
class SamplingPlan:
    """How much to time, and how.

    Attributes
    ----------
    launches
        Launches one by one.
    graph_launches, graph_replays
        Launches in a graph and replays of it; 0 for no graph clock.
    cold
        Whether the last-level cache is flushed before each launch.
    screening
        Whether it only finds out what is worth more; such a time is never called noisy, and never reported.
    """

    launches: int
    graph_launches: int = 0
    graph_replays: int = 0
    cold: bool = False
    screening: bool = False


@dataclass(frozen=True)
class Samples:
    """What was timed of a launch.

    Attributes
    ----------
    seconds
        By clock: of each launch (`event`, `host`), and per launch of each replay (`graph`). A clock that was not asked
        for, or cannot be had because `graph_message`, is not there.
    graph_launches
        Launches in one graph.
    stages
        Of each stage, in samples of their own, seconds of each launch.
    sm_clock, throttle
        MHz, and why the device held its clock down, as read after the last launch.
    attempts
        Samples one after the other that were throttled, until it was given up.
    rounds, throttled
        Of how many rounds it is, and how many of them stayed throttled.
    discarded
        Launches and replays that were taken beside and do not count.
    disturbed
        Why the clocks cannot be believed, with the numbers; None where they can.
    joined
        Where it is of several rounds, the seconds of each.
    """

    seconds: Mapping[str, Seconds]
    graph_launches: int | None = None
    graph_message: str | None = None
    stages: Mapping[str, Seconds] = field(default_factory=dict)
    sm_clock: float | None = None
    throttle: str | None = None
    attempts: int = 1
    rounds: int = 1
    throttled: int = 0
    discarded: int = 0
    disturbed: str | None = None
    joined: tuple[Mapping[str, Seconds], ...] = ()

    @property
    def by_round(self) -> tuple[Mapping[str, Seconds], ...]:
        """Seconds by clock of each round."""
        return self.joined or (self.seconds,)

    @property
    def taken(self) -> int:
        """Launches and replays, with those that do not count."""
        return self.discarded + sum(map(len, self.seconds.values()))

    def join(self, other: Samples) -> Samples:
        """Return the samples of both."""
        return replace(
            other,
            seconds=_joined(self.seconds, other.seconds),
            stages=_joined(self.stages, other.stages),
            throttle=self.throttle or other.throttle,
            graph_message=self.graph_message or other.graph_message,
            rounds=self.rounds + other.rounds,
            throttled=self.throttled + other.throttled,
            discarded=self.discarded + other.discarded,
            disturbed=self.disturbed or other.disturbed,
            joined=(*self.by_round, *other.by_round),
        )

    @property
    def message(self) -> str | None:
        """What a reader of the row has to know: that it stayed disturbed or throttled, and has no graph clock."""
        often = ""
        if self.rounds > 1:
            often = f" in {self.throttled} of {self.rounds} rounds"
        elif self.attempts > 1:
            often = f" in each of {self.attempts} samples"
        throttled = f"throttled ({self.throttle}){often}" if self.throttle else None
        return "; ".join(filter(None, (self.disturbed, throttled, self.graph_message))) or None


def _joined(first: Mapping[str, Seconds], second: Mapping[str, Seconds]) -> dict[str, Seconds]:
    names = dict.fromkeys((*first, *second))
    return {name: np.concatenate([part[name] for part in (first, second) if name in part]) for name in names}


#: Samples of a clock at the least, and the budgets that a launch has to be as long as for a single one to do.
MIN_SAMPLES, LONG_BUDGETS = 5, 10


class TooSlow(Exception):
    """A single launch takes longer than the time-out."""


def screen(timing: Timing, cold: bool = False) -> SamplingPlan:
    """Return the effort that finds out which variants are worth the full one."""
    return SamplingPlan(timing.screen_launches, cold=cold, screening=True)


def full(timing: Timing, cold: bool = False) -> SamplingPlan:
    """Return the effort that winners are chosen by."""
    return SamplingPlan(timing.launches, timing.search_graph_launches, timing.search_graph_replays, cold)


def take_samples(devices: Devices, runnable: Runnable, effort: SamplingPlan, timing: Timing) -> Samples:
    """Time a prepared runnable by the clocks that it has.

    A sample that was taken while the device was throttled, or in which the clocks contradict each other, is taken again
    after a rest; where it stays so, the last one says so. The budget is for the full number of launches; fewer have
    their share of it.

    Raises
    ------
    TooSlow
        One launch alone takes longer than the time-out.
    ValueError
        It has no clock for single launches.
    """
    if not {"event", "host"} & set(runnable.clocks):
        raise ValueError(f"{runnable.name} has no clock for single launches, event or host: {runnable.clocks}")
    devices = devices.leading(runnable.devices or len(devices))
    whole = timing.budget(devices.first.backend)
    budget = whole * min(1.0, effort.launches / timing.launches)
    if devices.first.backend == "cuda":
        # An operand has to get into the cache by its own launches: what leaves nothing there (loads by `cs`) would
        # otherwise profit from what another variant left, and any would lose what one before it (loads by `el`) asked
        # the cache to keep.
        devices.reset_kept()
        devices.flush()
    once = _estimate(devices, runnable, budget / effort.launches, LONG_BUDGETS * whole, timing.timeout)
    least = few(once, whole)
    fitted = fit(effort, once, budget, least)
    tolerance = timing.tolerance(devices.backend, len(devices))
    samples = _sample(devices, runnable, fitted, tolerance)
    # a launch that is long enough to throttle a cool device would do so again
    for_clock = [] if effort.screening or least < MIN_SAMPLES else [*RESTS]
    for_calm = [*(SCREENING_RESTS if effort.screening else CALM_RESTS)]
    while True:
        throttled = samples.throttle is not None and bool(for_clock)
        if not throttled and (samples.disturbed is None or not for_calm):
            return samples
        time.sleep((for_clock if throttled else for_calm).pop(0))
        again = _sample(devices, runnable, fitted, tolerance)
        attempts = samples.attempts + 1 if samples.throttle and again.throttle else 1
        samples = replace(again, attempts=attempts, discarded=again.discarded + samples.taken)


def _estimate(devices: Devices, runnable: Runnable, enough: float, long: float, timeout: float) -> float:
    """Warm up; return roughly how long a launch takes, in seconds.

    The first one takes longer than the others, so that where it takes no more than `enough` nothing else need be known.
    Nor where it is `long`: a single sample is taken of it, and what makes a first launch longer is little beside it.
    """
    first = _host_seconds(devices, runnable)
    if first > timeout:  # once more: the process, or the machine, may have been stopped meanwhile
        first = _host_seconds(devices, runnable)
    if first > timeout:
        raise TooSlow(f"one launch takes {first:.1f} s, the time-out is {timeout:g} s")
    return first if first <= enough or first >= long else _host_seconds(devices, runnable)


def _host_seconds(devices: Devices, runnable: Runnable) -> float:
    runnable.before()
    devices.synchronize()
    start = time.perf_counter()
    runnable.launch()
    devices.synchronize()
    return time.perf_counter() - start


def few(once: float, budget: float) -> int:
    """Return how many samples are taken at the least: fewer of launches that are longer than the whole budget alone."""
    return round(min(MIN_SAMPLES, max(1.0, LONG_BUDGETS * budget / max(once, 1e-7))))


def fit(effort: SamplingPlan, once: float, budget: float, least: int = MIN_SAMPLES) -> SamplingPlan:
    """Return an effort that stays within a budget of seconds for each clock, but never below a few samples."""
    once = max(once, 1e-7)
    affordable = max(1, int(budget / once))
    graph_launches = min(effort.graph_launches, max(2, affordable // 5)) if effort.graph_launches else 0
    replays = min(effort.graph_replays, max(least, affordable // max(graph_launches, 1)))
    return replace(
        effort,
        launches=min(effort.launches, max(least, affordable)),
        graph_launches=graph_launches,
        graph_replays=replays,
    )


def _sample(devices: Devices, runnable: Runnable, effort: SamplingPlan, tolerance: float) -> Samples:
    before = _before(devices, runnable, effort.cold)
    seconds: dict[str, Seconds] = {}
    message = None
    if "event" in runnable.clocks:
        seconds["event"] = devices.time_events(runnable.launch, effort.launches, before)
    if "host" in runnable.clocks:
        seconds["host"] = devices.time_host(runnable.launch, effort.launches, before)
    # between the launches of a graph nothing could flush the cache
    if "graph" in runnable.clocks and effort.graph_launches and not effort.cold:
        try:
            seconds["graph"] = devices.time_graph(runnable.launch, effort.graph_launches, effort.graph_replays)
        except CaptureError as error:
            message = f"no graph clock: {error}"
    stages: dict[str, Seconds] = {}
    if runnable.stages and not effort.screening:
        parts = devices.time_stages(list(runnable.stages.values()), effort.launches, before)
        stages = dict(zip(runnable.stages, parts.T, strict=True))
    sm_clock, throttle = devices.clocks()
    verdict = judge_clocks(seconds, tolerance, ALONE[devices.backend] if len(devices) == 1 else None)
    return Samples(
        verdict.seconds,
        effort.graph_launches or None,
        message,
        stages,
        sm_clock,
        throttle,
        throttled=int(throttle is not None),
        discarded=verdict.stalled,
        disturbed=verdict.disturbed,
    )


def _before(devices: Devices, runnable: Runnable, cold: bool) -> Callable[[], None] | None:
    """Return what to do before each launch outside of its time; None where that is nothing."""
    resets = type(runnable).before is not Runnable.before
    if not cold:
        return runnable.before if resets else None

    def before() -> None:
        runnable.before()
        devices.flush()

    return before


def time_quantiles(samples: Seconds) -> dict[str, float]:
    """Return minimum, quartiles, median, maximum and mean."""
    # as np.quantile, which takes longer than a screened variant does
    last = len(samples) - 1
    values = np.interp(last * QUARTERS, np.arange(last + 1), np.sort(samples))
    return dict(zip(QUANTILES, [*map(float, values), float(samples.mean())], strict=True))


def columns(samples: Samples) -> dict[str, float | int | str | None]:
    """Return what a row says of the samples."""
    said: dict[str, float | int | str | None] = {
        "sm_clock": samples.sm_clock,
        "throttle": samples.throttle,
        "discarded": samples.discarded,
    }
    for clock, seconds in samples.seconds.items():
        said[f"{clock}_launches"] = samples.graph_launches if clock == "graph" else len(seconds)
        said |= {f"{clock}_{name}": value for name, value in time_quantiles(seconds).items()}
    return said | {f"stage_{name}": float(np.median(seconds)) for name, seconds in samples.stages.items()}


def sampled(samples: Samples) -> dict[str, list[list[float]]]:
    """Return what a reported row keeps of the samples themselves: by clock a list for each round."""
    return {
        f"{clock}_samples": [_thinned(part[clock]) for part in samples.by_round if clock in part]
        for clock in samples.seconds
    }


def _thinned(seconds: Seconds) -> list[float]:
    """Return samples in their order, of more than are kept some that are evenly spread, with seven digits."""
    kept = np.linspace(0, len(seconds) - 1, min(KEPT, len(seconds))).round().astype(int)
    return [float(f"{value:.7g}") for value in seconds[kept]]


def spread(samples: Samples) -> float:
    """Return the distance of the quartiles in medians, of the steadiest clock."""
    spreads = []
    for seconds in samples.seconds.values():
        numbers = time_quantiles(seconds)
        spreads.append((numbers["q3"] - numbers["q1"]) / numbers["median"])
    return min(spreads)
