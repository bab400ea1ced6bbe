"""Launches timed between events on a GPU that is none: in batches behind a blocker, and again where it gave up."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from repro.devices.base import LaunchError
from repro.devices.cuda import GROUPS, Timer, may_block


class Clock:
    """A device whose time is a counter: each launch takes one millisecond of it."""

    def __init__(self):
        self.now = 0
        self.queued = []
        self.worked = 0  # until when the device has worked, for queries of events

    def Event(self):  # noqa: N802
        return Event(self)

    def launch(self):
        self.now += 1
        self.queued.append("launch")

    def flush(self):
        self.now += 100
        self.queued.append("flush")


class Event:
    def __init__(self, clock):
        self.clock = clock

    def record(self, stream):
        assert stream == "stream"
        self.at = self.clock.now
        self.clock.queued.append("event")

    def query(self):
        return self.clock.worked >= self.at

    def time_since(self, start):
        return float(self.at - start.at)


class Blocker:
    """Counts what is queued while it holds, and gives up if that is more than `patience` launches."""

    def __init__(self, clock, patience=10**6):
        self.clock, self.patience = clock, patience
        self.batches = []
        self.has_expired = False

    @contextmanager
    def block(self, short=False):
        self.clock.queued.clear()
        yield
        self.batches.append(self.clock.queued.count("launch"))
        self.has_expired = self.batches[-1] > self.patience


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timer(clock):
    return Timer(clock, "stream", lambda: None, LaunchError)


def test_each_launch_is_timed_between_two_events_and_in_batches_that_are_fetched_ahead(clock, timer):
    timer.blocker = Blocker(clock)
    times = timer.events(clock.launch, 2 * GROUPS + 1)
    np.testing.assert_allclose(times, 1e-3)
    assert times.shape == (2 * GROUPS + 1,)
    assert timer.blocker.batches == [GROUPS, GROUPS, 1]
    assert clock.queued[:3] == ["event", "launch", "event"]
    assert 5 * GROUPS <= 32


def test_the_flush_stays_outside_the_timed_region(clock, timer):
    np.testing.assert_allclose(timer.events(clock.launch, 3, clock.flush), 1e-3)
    assert clock.queued[-4:] == ["flush", "event", "launch", "event"]


def test_what_was_timed_while_the_blocker_gave_up_is_timed_again_in_smaller_batches(clock, timer):
    timer.blocker = Blocker(clock, patience=GROUPS - 1)
    times = timer.events(clock.launch, GROUPS + 1)
    assert times.shape == (GROUPS + 1,)
    np.testing.assert_allclose(times, 1e-3)
    assert timer.blocker.batches == [GROUPS] + [GROUPS // 4] * (GROUPS + 1)


def test_what_gave_up_once_is_queued_in_smaller_batches_from_then_on(clock, timer):
    timer.blocker = Blocker(clock, patience=GROUPS - 1)

    def launch():
        clock.launch()

    timer.events(launch, GROUPS)
    timer.events(launch, 2)
    assert timer.blocker.batches == [GROUPS, *[GROUPS // 4] * (GROUPS + 2)]


def test_what_gave_up_once_is_known_again_where_it_is_forked_to_all_devices(clock, timer):
    timer.blocker = Blocker(clock, patience=GROUPS - 1)

    def launch():
        clock.launch()

    def forked():
        @functools.wraps(launch, assigned=(), updated=())
        def over_all():
            launch()

        return over_all

    timer.events(forked(), GROUPS)
    timer.events(forked(), 2)
    assert timer.blocker.batches == [GROUPS, *[GROUPS // 4] * (GROUPS + 2)]


def test_stages_are_timed_between_events_and_never_behind_a_blocker(clock, timer):
    timer.blocker = Blocker(clock)
    times = timer.stages([clock.launch, clock.flush, lambda: None], 2, clock.flush)
    np.testing.assert_allclose(times, np.tile([1e-3, 100e-3, 0], (2, 1)))
    assert clock.queued == ["flush", "event", "launch", "event", "flush", "event", "event"] * 2
    assert timer.blocker.batches == []


def test_a_launch_that_can_never_be_queued_behind_a_blocker_is_an_error(clock, timer):
    timer.blocker = Blocker(clock, patience=0)
    with pytest.raises(LaunchError, match="REPRO_BLOCKING=0"):
        timer.events(clock.launch, 60)


def test_a_launch_is_timed_again_after_the_host_stalled(clock, timer):
    timer.blocker = Blocker(clock, patience=0)

    def launch():
        clock.launch()
        timer.blocker.patience = int(len(timer.blocker.batches) >= 4)  # of a batch each, the last two of one

    np.testing.assert_allclose(timer.events(launch, 2), 1e-3)
    assert timer.blocker.batches[-4:] == [1] * 4


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, True),
        ({"REPRO_BLOCKING": "1", "CUDA_LAUNCH_BLOCKING": "0", "LD_PRELOAD": "libjemalloc.so"}, True),
        ({"REPRO_BLOCKING": "0"}, False),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, False),
        ({"CUDA_INJECTION64_PATH": "/opt/injection.so"}, False),
        ({"NV_COMPUTE_PROFILER_PERFWORKS_DIR": "/opt/ncu"}, False),
        ({"LD_PRELOAD": "/opt/compute-sanitizer/libsanitizer-collection.so"}, False),
    ],
)
def test_a_stream_is_not_blocked_under_tools_that_wait_for_each_launch(environment, expected):
    assert may_block(environment) is expected


class Graph:
    """Replays launches; `closed` are the graphs that were given back."""

    closed: ClassVar[list[Graph]] = []

    def __init__(self, stream, launch, launches, failure):
        self.replay = lambda: [launch() for _ in range(launches)]

    def close(self):
        self.closed.append(self)


@pytest.mark.parametrize(("polls", "replays"), [(1, 1), (2, 2), (4, 3), (5, 4), (12, 7)])
def test_a_device_is_kept_busy_by_a_replay_ahead(clock, monkeypatch, polls, replays):
    """A replay of ten launches is queued when the one before it begins; the device works 5 ms between two polls."""
    bindings = ModuleType("repro.devices.cuda_bindings")
    bindings.Graph = Graph
    monkeypatch.setitem(sys.modules, "repro.devices.cuda_bindings", bindings)
    stream = SimpleNamespace(handle=1)
    monkeypatch.setattr(Event, "record", lambda self, _: setattr(self, "at", clock.now))
    ahead = []

    def goes_on():
        if not ahead:
            clock.worked = clock.now - 10  # the first replay begins
        ahead.append(clock.now - clock.worked)
        clock.worked += 5
        return len(ahead) < polls

    timer = Timer(clock, stream, lambda: None, LaunchError)
    count, seconds = timer.keep_busy(clock.launch, 10, goes_on)
    assert (count, seconds) == (10 * replays, pytest.approx(10e-3 * replays))
    assert len(ahead) == polls
    assert min(ahead) > 0  # the device always has work
    assert len(Graph.closed) == 1
    Graph.closed.clear()
