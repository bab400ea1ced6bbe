"""Timing: plans the number of launches for each clock, rejects disturbed samples, and summarises the rest.

Different clocks time the same runnable and check each other. If another process disturbs the device, a launch usually
takes a whole time slice longer, which is milliseconds. A reading much longer than the others counts as stalled and is
dropped. If most readings are stalled, or the clocks contradict each other, the sample is disturbed and has no valid
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import QUANTILES
from repro.bench.runnable import Runnable
from repro.devices.base import CaptureError
from repro.devices.device_group import Devices

if TYPE_CHECKING:
    from repro.config.models import Timing

Seconds = NDArray[np.float64]

#: How much longer than the others a reading may be before it counts as stalled. Limits are multiples of the tolerance:
#: `SCATTER` for graph replays and for launches longer than `LONG_LAUNCH` seconds, and `SHORT_SCATTER` for short single
#: launches, which vary by a factor of up to 2.6. A short launch must also be `STALL` seconds longer; time slices of
#: other processes always are. Of 128,000 undisturbed rows on an H200, 302 had one stalled launch, one had a stalled
#: replay, and none had many.
SCATTER, SHORT_SCATTER, LONG_LAUNCH, STALL = 2.0, 5.0, 1e-3, 1e-4
#: Seconds by which a single launch may exceed a launch in a graph (on the CPU: in a batch), because of clock overhead
#: and gaps between the kernels of a launch.
ALONE = {"cuda": 10e-6, "opencl": 1e-3}
#: Resolution of a GPU's event clock in seconds.
RESOLUTION = 0.5e-6
#: Seconds by which rounds may differ because the CPU has to wake threads: on an otherwise idle CPU, an empty launch
#: takes 5 µs for some minutes, then 12 µs. Within one sample, which takes less than a second, this does not change.
WAKING = {"cuda": 0.0, "opencl": 20e-6}


@dataclass(frozen=True)
class ClockVerdict:
    #: Readings of each clock without stalled ones; all readings if the sample is disturbed.
    seconds: Mapping[str, Seconds]
    stalled: int = 0
    #: Reason why the sample is disturbed, with numbers; None if the sample counts.
    disturbed: str | None = None


def judge_clocks(seconds: Mapping[str, Seconds], tolerance: float, alone: float | None) -> ClockVerdict:
    """Drop stalled readings and decide whether the sample counts.

    `tolerance` is the factor by which a median may be wrong. `alone` is the number of seconds by which a single launch
    may exceed a launch in a graph; None: no limit, for several devices, where each step of a launch adds waiting time.
    """
    plausible = {clock: readings[readings <= _limit(readings, clock, tolerance)] for clock, readings in seconds.items()}
    reasons = [
        f"{len(readings) - len(plausible[clock])} of {len(readings)} "
        f"{'replays of a graph' if clock == 'graph' else 'launches'} stalled"
        for clock, readings in seconds.items()
        if 2 * len(plausible[clock]) < len(readings)
    ]
    if not reasons and "graph" in plausible:
        reasons = _contradiction(plausible, tolerance, alone)
    if reasons:
        return ClockVerdict(seconds, disturbed=f"{', '.join(reasons)} ({clocks_text(seconds)})")
    return ClockVerdict(plausible, sum(len(readings) - len(plausible[clock]) for clock, readings in seconds.items()))


def _limit(readings: Seconds, clock: str, tolerance: float) -> float:
    """Return the longest reading that counts. It is computed from the lower quartile, or from the minimum if the
    quartile may be stalled.
    """
    least, quartile = np.quantile(readings, [0, 0.25], method="lower")

    def limit(usual: float) -> float:
        if clock == "graph" or usual > LONG_LAUNCH:
            return usual * (1 + SCATTER * (tolerance - 1))
        return max(usual * (1 + SHORT_SCATTER * (tolerance - 1)), usual + STALL)

    return float(limit(quartile) if quartile <= limit(least) else limit(least))


def _contradiction(seconds: Mapping[str, Seconds], tolerance: float, alone: float | None) -> list[str]:
    """Return messages if launches in a graph and single launches differ by more than the tolerance."""
    graph_median, scatter_limit = float(np.median(seconds["graph"])), 1 + SHORT_SCATTER * (tolerance - 1)
    for clock in ("event", "host"):
        if clock in seconds:
            single = float(np.median(seconds[clock]))
            if graph_median > tolerance * single:
                return ["a launch in a graph takes longer than one alone"]
            if clock == "event" and alone is not None and single > scatter_limit * graph_median + alone:
                return ["a launch alone takes much longer than one in a graph"]
    return []


def outliers(
    rounds: Sequence[Mapping[str, Seconds]], tolerance: float, host_tolerance: float, waking: float = 0.0
) -> dict[int, str]:
    """Return the rounds whose median by any clock is far above that of the best round, with a message for each."""
    far: dict[int, str] = {}
    for clock in dict.fromkeys(clock for seconds in rounds for clock in seconds):
        medians = {i: float(np.median(seconds[clock])) for i, seconds in enumerate(rounds) if clock in seconds}
        least = min(medians.values())
        for i, median in medians.items():
            if is_outlier(median, least, host_tolerance if clock == "host" else tolerance, waking):
                comparison = f"{microseconds_text(median)} in one round and {microseconds_text(least)} in another"
                far.setdefault(i, f"{clock} median {comparison}")
    return far


def is_outlier(median: float, best: float, tolerance: float, waking: float = 0.0) -> bool:
    """Return whether a median exceeds the best one by more than the tolerance and the clock's resolution."""
    return median > tolerance * best + RESOLUTION + waking


def clocks_text(seconds: Mapping[str, Seconds]) -> str:
    """Format each clock: `graph median 80.1 µs, its least 4.1 µs, its largest 95.0 µs; event median 6.4 µs, …`."""
    texts = []
    for clock, readings in sorted(seconds.items(), reverse=True):
        median, least = float(np.median(readings)), float(readings.min())
        texts.append(f"{clock} median {microseconds_text(median)}, its least {microseconds_text(least)}")
        texts[-1] += f", its largest {microseconds_text(float(readings.max()))}"
    return "; ".join(texts)


def microseconds_text(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.1f} µs" if value < 1000 else f"{value:,.0f} µs"


#: Seconds to wait before each new attempt after a throttled sample. Screening does not wait: on a device with a
#: permanent power cap, waiting would take hours.
RESTS = (0.5, 2.0)
#: Seconds to wait before each new attempt after a disturbed sample, in full timing and in screening.
CALM_RESTS = (0.05, 0.2, 1.0)
SCREENING_RESTS = (0.01, 0.1)
#: Maximum number of samples for each clock and round that a reported row keeps. The median of the kept samples differs
#: from the median of all samples by at most a sixth of the spread.
MAX_SAMPLES_KEPT = 64
QUARTERS = np.array([0, 0.25, 0.5, 0.75, 1])


@dataclass(frozen=True)
class SamplingPlan:
    """How often a runnable is launched for one sample by each clock, and with which cache."""

    launches: int
    #: Number of launches in one graph; 0 if the graph clock is not used.
    graph_launches: int = 0
    graph_replays: int = 0
    #: Whether the last-level cache is flushed before each launch.
    cold: bool = False
    #: Screening only selects variants for full timing. Its times are never marked as noisy and never reported.
    screening: bool = False
    #: Seconds for which a launch is repeated to measure its energy; 0: not measured.
    energy_seconds: float = 0.0
    #: Relative half-width of the interval of a median until which rounds go on, and the maximum number of rounds.
    until: tuple[float, int] | None = field(default=None, repr=False)
    #: Seconds of a launch from which on screening does not repeat it. They depend on what was screened before, so they
    #: are no part of the plan's identity.
    hopeless: float = field(default=np.inf, repr=False, compare=False)


@dataclass(frozen=True)
class Samples:
    """Times that the clocks measured for one runnable, and clock rate, throttling and disturbances meanwhile."""

    #: Readings of each clock: seconds of each launch (`event`, `host`), or seconds per launch for each replay
    #: (`graph`).
    seconds: Mapping[str, Seconds]
    graph_launches: int | None = None
    graph_message: str | None = None
    #: Seconds of each stage of a launch, from separate launches.
    stages: Mapping[str, Seconds] = field(default_factory=dict)
    #: SM clock in MHz and throttle reason, both read after the last launch.
    sm_clock: float | None = None
    throttle: str | None = None
    #: Number of consecutive samples that were throttled.
    attempts: int = 1
    #: Number of rounds joined in this sample, and number of rounds in which the device stayed throttled.
    rounds: int = 1
    throttled: int = 0
    #: Number of launches and replays that do not count: stalled ones, and all of rejected samples.
    discarded: int = 0
    #: Reason why the sample is disturbed, with numbers; None if it is valid.
    disturbed: str | None = None
    #: Seconds of each round by clock, if the sample joins several rounds.
    joined: tuple[Mapping[str, Seconds], ...] = ()

    @property
    def by_round(self) -> tuple[Mapping[str, Seconds], ...]:
        return self.joined or (self.seconds,)

    @property
    def taken(self) -> int:
        return self.discarded + sum(map(len, self.seconds.values()))

    @property
    def launches(self) -> int:
        """Number of timed launches in the samples."""
        launches_per_reading = {"graph": self.graph_launches or 1}
        return sum(launches_per_reading.get(clock, 1) * len(readings) for clock, readings in self.seconds.items())

    def join(self, other: Samples) -> Samples:
        return replace(
            other,
            seconds=_join_clocks(self.seconds, other.seconds),
            stages=_join_clocks(self.stages, other.stages),
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
        """Message for the row: why the sample is disturbed or throttled, or why it has no graph clock."""
        frequency = ""
        if self.rounds > 1:
            frequency = f" in {self.throttled} of {self.rounds} rounds"
        elif self.attempts > 1:
            frequency = f" in each of {self.attempts} samples"
        throttle_message = f"throttled ({self.throttle}){frequency}" if self.throttle else None
        return "; ".join(filter(None, (self.disturbed, throttle_message, self.graph_message))) or None


def _join_clocks(first: Mapping[str, Seconds], second: Mapping[str, Seconds]) -> dict[str, Seconds]:
    names = dict.fromkeys((*first, *second))
    return {name: np.concatenate([part[name] for part in (first, second) if name in part]) for name in names}


#: Minimum number of samples for each clock. If one launch takes `LONG_BUDGETS` times the budget, one sample is enough.
MIN_SAMPLES, LONG_BUDGETS = 5, 10


class TooSlow(Exception):
    """A single launch takes longer than the timeout."""


def screen(timing: Timing, cold: bool = False) -> SamplingPlan:
    return SamplingPlan(timing.screen_launches, cold=cold, screening=True)


def full(timing: Timing, cold: bool = False) -> SamplingPlan:
    return SamplingPlan(timing.launches, timing.search_graph_launches, timing.search_graph_replays, cold)


#: Function that verifies the result of a runnable's last timed launch, given what was changed before the launches.
Verify = Callable[[str], None]


def take_samples(
    devices: Devices,
    runnable: Runnable,
    effort: SamplingPlan,
    timing: Timing,
    verify: Verify = lambda disturbance: None,
) -> Samples:
    """Time a prepared runnable by its clocks.

    A rival's operands change between rounds of launches, after each of which `verify` is called; neither is timed.

    A throttled or disturbed sample is repeated a few times, each time after a pause. In screening, a launch that is
    hopeless or takes `LONG_BUDGETS` budgets is not repeated: the estimate by the host's clock is the sample. The
    configured time budget is meant for `timing.launches` launches, with the flushes of cold ones; a plan with fewer
    launches gets a proportional share of the budget.

    Raises
    ------
    TooSlow
        One launch exceeds the timeout.
    ValueError
        The runnable has no clock for single launches.
    """
    if not {"event", "host"} & set(runnable.clocks):
        raise ValueError(f"{runnable.name} has no clock for single launches, event or host: {runnable.clocks}")
    devices = devices.leading(runnable.devices or len(devices))
    whole = timing.budget(devices.first.backend)
    budget = whole * min(1.0, effort.launches / timing.launches)
    if devices.first.backend == "cuda":
        # Reset the L2 cache, so that each variant starts without data that earlier variants loaded (with `cs` loads) or
        # reserved (with `el` loads).
        devices.reset_persisting_l2()
        devices.flush()
    launch_seconds = _estimate(devices, runnable, budget / effort.launches, LONG_BUDGETS * whole, timing.timeout)
    if effort.screening and launch_seconds >= min(LONG_BUDGETS * whole, effort.hopeless):
        clock = "event" if "event" in runnable.clocks else "host"
        return Samples({clock: np.array([launch_seconds])})
    paid_seconds = launch_seconds + (devices.flush_seconds if effort.cold else 0.0)
    fitted_effort = fit_to_budget(effort, paid_seconds, budget, initial_launches(paid_seconds, whole))
    tolerance = timing.tolerance(devices.backend, len(devices))
    samples = _sample(devices, runnable, fitted_effort, tolerance, verify)
    # A pause does not help if a single launch is long enough to throttle a cool device.
    is_long = initial_launches(launch_seconds, whole) < MIN_SAMPLES
    clock_pauses = [] if effort.screening or is_long else [*RESTS]
    calm_pauses = [*(SCREENING_RESTS if effort.screening else CALM_RESTS)]
    while True:
        waits_for_clock = samples.throttle is not None and bool(clock_pauses)
        if not waits_for_clock and (samples.disturbed is None or not calm_pauses):
            return samples
        time.sleep((clock_pauses if waits_for_clock else calm_pauses).pop(0))
        repeated_samples = _sample(devices, runnable, fitted_effort, tolerance, verify)
        attempts = samples.attempts + 1 if samples.throttle and repeated_samples.throttle else 1
        samples = replace(repeated_samples, attempts=attempts, discarded=repeated_samples.discarded + samples.taken)


def _estimate(
    devices: Devices, runnable: Runnable, enough_seconds: float, long_seconds: float, timeout: float
) -> float:
    """Run a few warm-up launches and return the approximate seconds of one launch.

    The first launch is slower than later ones. A second launch is timed, unless the first was short enough for the
    budget (`enough_seconds`) or so long (`long_seconds`) that its start-up cost is negligible.
    """
    first = host_seconds(devices, runnable)
    if first > timeout:  # try again: the process or the machine may have been suspended
        first = host_seconds(devices, runnable)
    if first > timeout:
        raise TooSlow(f"one launch takes {first:.1f} s, the time-out is {timeout:g} s")
    return first if first <= enough_seconds or first >= long_seconds else host_seconds(devices, runnable)


def host_seconds(devices: Devices, runnable: Runnable) -> float:
    """Return the seconds of one launch by the host's clock, from idle devices to idle devices."""
    runnable.before()
    devices.synchronize()
    start = perf_counter()
    runnable.launch()
    devices.synchronize()
    return perf_counter() - start


def initial_launches(launch_seconds: float, budget: float) -> int:
    """Return the minimum number of samples: `MIN_SAMPLES`, or fewer if one launch takes much longer than the budget."""
    return round(min(MIN_SAMPLES, max(1.0, LONG_BUDGETS * budget / max(launch_seconds, 1e-7))))


def fit_to_budget(effort: SamplingPlan, launch_seconds: float, budget: float, least: int = MIN_SAMPLES) -> SamplingPlan:
    """Reduce a plan so that each clock takes at most `budget` seconds, but keep at least `least` samples."""
    launch_seconds = max(launch_seconds, 1e-7)
    affordable = max(1, int(budget / launch_seconds))
    graph_launches = min(effort.graph_launches, max(2, affordable // 5)) if effort.graph_launches else 0
    replays = min(effort.graph_replays, max(least, affordable // max(graph_launches, 1)))
    return replace(
        effort,
        launches=min(effort.launches, max(least, affordable)),
        graph_launches=graph_launches,
        graph_replays=replays,
    )


def _sample(devices: Devices, runnable: Runnable, effort: SamplingPlan, tolerance: float, verify: Verify) -> Samples:
    before = _before(devices, runnable, effort.cold)
    seconds: dict[str, Seconds] = {}
    message = None

    def rounds(clock: Callable[[int], Seconds], lengths: Sequence[int]) -> Seconds:
        parts = []
        for length in lengths:
            disturbance = runnable.disturb()
            parts.append(clock(length))
            if disturbance:
                verify(disturbance)
        return np.concatenate(parts)

    if "event" in runnable.clocks:
        by_events = runnable.rounds(effort.launches)
        seconds["event"] = rounds(lambda count: devices.time_events(runnable.launch, count, before), by_events)
    if "host" in runnable.clocks:
        by_host = runnable.rounds(effort.launches)
        seconds["host"] = rounds(lambda count: devices.time_host(runnable.launch, count, before), by_host)
    # The cache cannot be flushed between launches in a graph, so cold timing uses no graph.
    if "graph" in runnable.clocks and effort.graph_launches and not effort.cold:
        try:
            seconds["graph"] = rounds(
                lambda replays: devices.time_graph(runnable.launch, effort.graph_launches, replays),
                [effort.graph_replays],
            )
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
    """Return the function to run before each launch, which is not timed; None if there is none."""
    resets = type(runnable).before is not Runnable.before
    if not cold:
        return runnable.before if resets else None

    def before() -> None:
        runnable.before()
        devices.flush()

    return before


def time_quantiles(samples: Seconds) -> dict[str, float]:
    """Return least, quartiles, largest and mean of samples in seconds, by column suffix (`q1`)."""
    # Own code for quantiles: np.quantile takes longer than timing a variant in screening.
    last = len(samples) - 1
    values = np.interp(last * QUARTERS, np.arange(last + 1), np.sort(samples))
    return dict(zip(QUANTILES, [*map(float, values), float(samples.mean())], strict=True))


def columns(samples: Samples) -> dict[str, float | int | str | None]:
    """Return the columns of a row that samples fill: launches and quantiles of each clock, medians of stages."""
    sample_columns: dict[str, float | int | str | None] = {
        "sm_clock": samples.sm_clock,
        "throttle": samples.throttle,
        "discarded": samples.discarded,
    }
    for clock, seconds in samples.seconds.items():
        sample_columns[f"{clock}_launches"] = samples.graph_launches if clock == "graph" else len(seconds)
        sample_columns |= {f"{clock}_{name}": value for name, value in time_quantiles(seconds).items()}
    return sample_columns | {f"stage_{name}": float(np.median(seconds)) for name, seconds in samples.stages.items()}


def sampled(samples: Samples) -> dict[str, list[list[float]]]:
    """Return the samples that a reported row keeps, evenly spaced: `MAX_SAMPLES_KEPT` of each clock and round."""
    kept: dict[str, list[list[float]]] = {f"{clock}_samples": [] for clock in samples.seconds}
    for part in samples.by_round:
        for clock, seconds in part.items():
            indices = np.linspace(0, len(seconds) - 1, min(MAX_SAMPLES_KEPT, len(seconds))).round().astype(int)
            kept[f"{clock}_samples"].append([float(f"{value:.7g}") for value in seconds[indices]])
    return kept


def relative_iqr(samples: Samples) -> float:
    """Return the interquartile range divided by the median, for the clock for which this ratio is smallest."""
    spreads = []
    for seconds in samples.seconds.values():
        quantiles = time_quantiles(seconds)
        spreads.append((quantiles["q3"] - quantiles["q1"]) / quantiles["median"])
    return min(spreads)
