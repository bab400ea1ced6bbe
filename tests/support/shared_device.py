"""A GPU in simulated time that something else uses now and then: it keeps whoever runs waiting for 5 to 10 ms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Runnable

#: Seconds that the host takes to queue a batch of launches; launches of a batch, as on a GPU.
QUEUEING, BATCH = 50e-6, 4
#: What a launch alone and one in a graph read beside what it takes.
EVENT, GRAPH = 2.2e-6, 0.5e-6


class Kernel(Runnable):
    """A kernel that takes a given number of seconds and has no result."""

    kind, clocks, stages = "variant", ("event", "graph"), {}
    identity = "kernel"

    def __init__(self, seconds: float, name: str = "kernel") -> None:
        self.seconds, self.name = seconds, name

    def before(self) -> None:
        pass

    def launch(self) -> None:
        pass


class SharedDevice:
    """Keeps time for one kernel; stalls come at random, `gap` seconds apart in the mean.

    Attributes
    ----------
    now
        Seconds since it was made.
    """

    backend = "cuda"

    def __init__(self, gap: float | None, seed: int, scatter: float = 0.01) -> None:
        self._random, self._gap, self._scatter = np.random.default_rng(seed), gap, scatter
        self.now, self._next = 0.0, np.inf if gap is None else self._random.exponential(gap)
        self.kernel = Kernel(1e-6)
        self.first = self

    def __len__(self) -> int:
        return 1

    def leading(self, count: int) -> SharedDevice:
        return self

    def _run(self, seconds: float) -> float:
        """Simulate a run of the given seconds; return the seconds that it takes, stalls included."""
        start, end = self.now, self.now + seconds * (1 + self._scatter * abs(self._random.normal()))
        while self._next < end:
            if self._next >= self.now:
                end += self._random.uniform(5e-3, 10e-3)
            self._next += 10e-3 + self._random.exponential(self._gap)
        self.now = end
        return end - start

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        while self._next < self.now:  # stalls that nobody noticed
            self._next += 10e-3 + self._random.exponential(self._gap)

    def flush(self) -> None:
        pass

    synchronize = reset_persisting_l2 = flush

    def clocks(self) -> tuple[None, None]:
        return None, None

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        times = []
        for number in range(count):
            if number % BATCH == 0:
                self.sleep(QUEUEING)
            times.append(self._run(self.kernel.seconds) + EVENT)
        return np.array(times)

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        times = []
        for _ in range(replays):
            self.sleep(QUEUEING)
            times.append(self._run(launches * (self.kernel.seconds + GRAPH)) / launches)
        return np.array(times)
