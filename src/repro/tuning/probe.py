"""An empty kernel and a copy, timed between rounds: where they take longer than they did, something disturbs all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.bench.disturbance import WAKING, is_far, micro
from repro.bench.runnable import Runnable
from repro.bench.timing import Samples
from repro.bench.trial import FAILURES, Bench
from repro.bench.yardsticks import EMPTY
from repro.devices.base import LaunchError

#: Launches of each.
LAUNCHES = 5


@dataclass(frozen=True)
class Slow:
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

    def look(self) -> Slow | None:
        """Time the yardsticks; return which of them takes longer than it did before."""
        if self._ready is None:
            self._ready = self._prepared()
        slow = [one for yardstick in self._ready if (one := self._slow(yardstick))]
        if not slow:
            return None
        return Slow("; ".join(one.words for one in slow), max(one.each_launch for one in slow))

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

    def _slow(self, yardstick: Runnable) -> Slow | None:
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
        return Slow(words, median - best if kind == EMPTY else np.inf)
