"""A CPU under bursts of other processes, in simulated time: times are right, within the tolerance, or disturbed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from repro.bench import timing
from repro.bench.runnable import Runnable
from repro.bench.timing import SamplingPlan
from repro.devices import base

TOLERANCE = 1.25
#: Seconds of a launch.
LAUNCH = 50e-6
EFFORT = SamplingPlan(200, 300, 8)
#: Mean seconds between two bursts: with the last, no batch of launches escapes them, however often it is repeated.
RARELY, OFTEN, ALWAYS = 0.3, 0.03, 2e-3


class HoggedCpu:
    """Keeps simulated time: other processes take the core for 10 to 60 ms, again and again, or never.

    Parameters
    ----------
    gap
        Mean seconds between two bursts.
    """

    def __init__(self, gap: float | None, seed: int) -> None:
        self._random, self._gap = np.random.default_rng(seed), gap
        self.now, self._next = 0.0, 0.0
        self._schedule()

    def _schedule(self) -> None:
        self._next = np.inf if self._gap is None else self.now + self._random.exponential(self._gap)

    def work(self, seconds: float) -> None:
        """Go on until so many seconds of the core were our own."""
        while self.now + seconds > self._next:
            seconds -= max(0.0, self._next - self.now)
            self.now = max(self.now, self._next) + self._random.uniform(0.01, 0.06)
            self._schedule()
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> float:
        return self.now


class Launched(Runnable):
    """Takes so many seconds of a core, and has no result."""

    kind, name, clocks = "variant", "launched", ("event", "graph")

    def __init__(self, cpu: HoggedCpu) -> None:
        self._cpu = cpu

    def launch(self) -> None:
        self._cpu.work(LAUNCH)


@pytest.fixture
def timed(make_bench, small_problem, monkeypatch):
    """Time a launch of `LAUNCH` seconds with bursts so often; return its row."""
    bench = make_bench(small_problem("real"), cpu_disturbed=TOLERANCE, cpu_budget=1.0, launches=200)

    def time_it(gap: float | None, seed: int = 0):
        cpu = HoggedCpu(gap, seed)
        for module in (base, timing):
            monkeypatch.setattr(module, "perf_counter", cpu.read)
        monkeypatch.setattr(time, "sleep", cpu.sleep)
        return bench.try_once(Launched(cpu), "search", EFFORT)

    yield time_it
    bench.release()


@pytest.mark.parametrize(("gap", "least", "most"), [(RARELY, 0, 3), (OFTEN, 0, 3), (ALWAYS, 30, 30)])
def test_no_time_is_off_by_more_than_the_tolerance_or_it_is_disturbed(timed, gap, least, most):
    rows = [timed(gap, seed) for seed in range(30)]
    assert {row.status for row in rows} <= {"ok", "noisy", "disturbed"}
    for row in rows:
        if row.status == "disturbed":
            assert "µs" in row.message
            assert np.isfinite(row.event_median)
        else:
            for clock in ("event", "graph"):
                assert row.median(clock) <= TOLERANCE * LAUNCH, (clock, row.discarded)
    assert sum(row.discarded for row in rows) > 0
    assert least <= sum(row.status == "disturbed" for row in rows) <= most


def test_alone_nothing_is_discarded(timed):
    row = timed(None)
    assert (row.status, row.discarded) == ("ok", 0)
    assert row.event_median == pytest.approx(LAUNCH) == row.graph_median
