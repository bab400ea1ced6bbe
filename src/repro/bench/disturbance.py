"""Disturbance: what the clocks say of each other where something else used the device while it was timed.

Whatever disturbs a launch makes it longer, most of them by as long as the device is lent to somebody else, which is
milliseconds. A single reading that is much longer than its fellows is stalled and does not count. Where most are, or
where the clocks contradict each other, nothing is known of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

#: By how many times the tolerated share a reading may be longer than the others: a replay is a mean of many launches,
#: as is a launch of `LONG` seconds of its blocks; a shorter one alone scatters more, some by a factor of 2.6. So such a
#: one is stalled only if it is longer by `STALL` seconds as well: no other process's turn is shorter than that. Of
#: 128,000 undisturbed rows on an H200, 302 had such a launch, one such a replay, and none had many.
SCATTER, SHORT_SCATTER, LONG, STALL = 2.0, 5.0, 1e-3, 1e-4
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
class Verdict:
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


def judge(seconds: Mapping[str, Seconds], tolerance: float, alone: float | None) -> Verdict:
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
        return Verdict(seconds, disturbed=f"{', '.join(why)} ({numbers(seconds)})")
    return Verdict(kept, sum(len(readings) - len(kept[clock]) for clock, readings in seconds.items()))


def _limit(readings: Seconds, clock: str, tolerance: float) -> float:
    """Return how long a reading may be: by the lower quartile, or by the least where three quarters may be stalled."""
    least, quartile = np.quantile(readings, [0, 0.25], method="lower")

    def limit(usual: float) -> float:
        if clock == "graph" or usual > LONG:
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
