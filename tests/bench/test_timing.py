"""What is timed of a launch: by which clocks, after which reset, in which stages, and again where it was throttled."""

from __future__ import annotations

import time
from dataclasses import fields, replace

import numpy as np
import pytest

from repro.bench import timing
from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Samples, SamplingPlan
from repro.devices import base
from repro.devices.base import CaptureError
from repro.sparse.operands import ProductRunnable, y_on
from repro.tuning.final_timing import shuffled_rounds
from repro.tuning.search import Search, pick
from repro.tuning.strategies import Exhaustive

FULL = SamplingPlan(20, 5, 5)
SCREEN = SamplingPlan(20, screening=True)


@pytest.fixture
def bench(make_bench, small_problem):
    """A bench whose budget cuts no effort short."""
    bench = make_bench(small_problem("real"), cpu_budget=10.0)
    yield bench
    bench.release()


def numbers_of(row: Row, clock: str) -> list[float | int | None]:
    """Return all that a row says by a clock."""
    return [getattr(row, field.name) for field in fields(Row) if field.name.startswith(f"{clock}_")]


class Fake(Runnable):
    """Does nothing on the host, and keeps a log."""

    kind = "variant"

    def __init__(self, name: str = "fake", seconds: float = 0.0) -> None:
        self.name, self._seconds = name, seconds
        self.log: list[str] = []

    def launch(self) -> None:
        self.log.append("launch")
        if self._seconds:
            time.sleep(self._seconds)


class Consuming(Fake):
    """Uses its operand up."""

    clocks = ("event", "host")

    def before(self) -> None:
        self.log.append("before")


class OnHost(Fake):
    """Needs the host on the way."""

    clocks = ("host",)


class Staged(Fake):
    """Counts, then fills; `launch` does both."""

    clocks = ("event", "host")

    def prepare(self, workspace) -> None:
        self.stages = {name: lambda name=name: self.log.append(name) for name in ("count", "fill")}


OWN = {"entry": str, "stage_count": float, "stage_fill": float}


# before()


@pytest.fixture
def log_readings(monkeypatch):
    """Let the clock by which the CPU's launches are timed write into a log when it is read."""

    def into(log: list[str]) -> None:
        def read() -> float:
            log.append("read")
            return time.perf_counter()

        monkeypatch.setattr(base, "perf_counter", read)

    return into


def test_what_a_launch_changes_is_put_back_before_each_launch_and_outside_its_time(bench, log_readings):
    fake = Consuming()
    log_readings(fake.log)
    row = bench.try_once(fake, "search", FULL)
    assert (row.status, row.event_launches, row.host_launches) == ("ok", 20, 20)
    # the first says how long a launch takes
    assert fake.log == ["before", "launch"] + ["before", "read", "launch", "read"] * (20 + 20)
    assert numbers_of(row, "graph") == [None] * 8


def test_where_the_cache_is_flushed_that_comes_after_the_reset(bench, monkeypatch):
    fake = Consuming()
    monkeypatch.setattr(bench.devices, "flush_seconds", 0.0)
    monkeypatch.setattr(bench.devices, "flush", lambda: fake.log.append("flush"))
    row = bench.try_once(fake, "search", SamplingPlan(3, 5, 5, cold=True))
    assert (row.cache, row.event_launches, row.host_launches) == ("cold", 3, 3)
    assert fake.log == ["before", "launch", *["before", "flush", "launch"] * 6]


def test_a_product_is_put_back_before_it_is_verified(bench):
    class Adding(ProductRunnable):
        """Adds the product to y, which has to be zero then."""

        kind, name, arrangement, clocks = "variant", "adding", "AoS", ("host",)

        def prepare(self, workspace):
            self._device, self._y = workspace.device, y_on(workspace)
            self._product = workspace.operands.reference

        def before(self):
            self._device.fill(self._y, 0)

        def launch(self):
            y = np.empty_like(self._product)
            self._device.download(self._y, y)
            self._device.write(self._y, y + self._product)

        def result(self):
            return self._y

        def arrange(self, values):
            return values.ravel()

    row = bench.try_once(Adding(), "search", FULL)
    assert (row.status, row.message, row.error) == ("ok", None, 0)


# the host's clock


@pytest.fixture
def simulated(monkeypatch):
    """Let time go on while a launch sleeps alone."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    for module in (base, timing):
        monkeypatch.setattr(module, "perf_counter", lambda: now[0])


@pytest.mark.usefixtures("simulated")
def test_a_runnable_that_needs_the_host_has_the_hosts_clock_alone(bench):
    row = bench.try_once(OnHost(seconds=0.001), "search", FULL)
    assert (row.status, row.host_launches) == ("ok", 20)
    assert row.host_min == pytest.approx(0.001) == row.host_max
    assert row.screened_by == row.median("host") == row.host_median
    assert numbers_of(row, "event") == numbers_of(row, "graph") == [None] * 8


def test_a_runnable_by_events_and_the_hosts_clock_is_screened_by_events(bench):
    class Both(Fake):
        clocks = ("event", "host")

    row = bench.try_once(Both(), "search", FULL)
    assert (row.event_launches, row.host_launches) == (20, 20)
    assert replace(row, event_median=1.0, host_median=2.0).screened_by == 1.0


@pytest.mark.usefixtures("simulated")
def test_the_hosts_clock_decides_which_get_the_full_effort_and_which_is_chosen(make_bench, small_problem, tmp_path):
    bench = make_bench(small_problem("real"), cpu_budget=10.0, finalists=1, screen_launches=5)
    told = []

    class Spy(Exhaustive):
        def __call__(self, space, measure, compilation):
            super().__call__(space, lambda index: told.append((space[index], measure(index))), compilation)

    fakes = [OnHost("slow", 0.008), OnHost("quick", 0.001), OnHost("slower", 0.02)]
    with Store(tmp_path / "rows.jsonl") as store:
        screened = {row.name: row.host_median for row in Search(bench, store, cold=False).screen_candidates(fakes)}
        rows = Search(bench, store, cold=False).search(Spy(), fakes)
    assert told == [*screened.items()]
    assert screened["quick"] < screened["slow"] < screened["slower"]
    assert {row.name: row.protocol for row in rows} == {"slow": "screen", "quick": "full", "slower": "screen"}
    choices = pick(rows, 0.01, lambda timed, clock: {"joint": timed})
    assert [(choice.clock, choice.tuning, choice.name) for choice in choices] == [("host", "joint", "quick")]
    bench.release()


@pytest.mark.usefixtures("simulated")
def test_what_is_far_slower_than_the_fastest_is_screened_by_one_launch(make_bench, small_problem, tmp_path):
    bench = make_bench(small_problem("real"), cpu_budget=10.0, finalists=1, screen_launches=5)
    fakes = [OnHost("slow at first", 0.02), OnHost("quick", 0.001), OnHost("slower", 0.008), OnHost("far slower", 0.02)]
    with Store(tmp_path / "rows.jsonl") as store:
        rows = Search(bench, store, cold=False).screen_candidates(fakes)
    assert [row.host_launches for row in rows] == [5, 5, 5, 1]
    assert rows[3].host_median == pytest.approx(0.02)
    bench.release()


def test_rounds_go_by_the_hosts_clock(make_bench, small_problem, tmp_path):
    bench = make_bench(small_problem("real"), cpu_budget=10.0, rounds=3, launches=12, cold_launches=6)
    with Store(tmp_path / "rows.jsonl") as store:
        rows = shuffled_rounds(bench, [OnHost("one"), OnHost("other")], store, seed=1)
    assert [(row.name, row.cache, row.host_launches) for row in rows] == [
        ("one", "warm", 12),
        ("other", "warm", 12),
        ("one", "cold", 6),
        ("other", "cold", 6),
    ]
    assert {row.event_median for row in rows} == {None}
    bench.release()


# stages


def test_stages_have_samples_of_their_own(bench, monkeypatch):
    bench.own = OWN
    fake = Staged()
    row = bench.try_once(fake, "search", SamplingPlan(4))
    assert row.status == "ok"
    assert fake.log == ["launch"] * (1 + 4 + 4) + ["count", "fill"] * 4
    assert row["stage_count"] > 0
    assert row["stage_fill"] > 0

    taken = np.array([[1.0, 10.0], [3.0, 30.0], [8.0, 20.0]])
    monkeypatch.setattr(bench.devices, "time_stages", lambda stages, count, before: taken)
    row = bench.try_once(fake, "search", SamplingPlan(3))
    assert row.own == {"entry": "real", "stage_count": 3.0, "stage_fill": 20.0}


def test_before_stages_the_operand_is_put_back_once(bench, log_readings):
    class StagedConsuming(Consuming, Staged):
        pass

    bench.own = OWN
    fake = StagedConsuming()
    log_readings(fake.log)
    bench.try_once(fake, "search", SamplingPlan(3))
    launches, stages = ["before", "read", "launch", "read"], ["before", "read", "count", "read", "fill", "read"]
    assert fake.log == ["before", "launch"] + launches * (3 + 3) + stages * 3


def test_a_screened_row_has_no_stages(bench):
    bench.own = OWN
    fake = Staged()
    row = bench.try_once(fake, "search", SCREEN)
    assert (row.status, row.protocol) == ("ok", "screen")
    assert set(fake.log) == {"launch"}
    assert row.own == {"entry": "real"}


def test_stages_of_several_rounds_are_joined():
    first, second = (Samples({"host": np.array([s])}, stages={"fill": np.array([s, s])}) for s in (1.0, 5.0))
    said = timing.columns(first.join(second))
    assert (said["stage_fill"], said["host_launches"], said["host_median"]) == (3.0, 2, 3.0)


# what is kept of the samples


def test_a_reported_row_keeps_the_samples_of_each_clock_and_a_searched_one_none(bench):
    searched, reported = (bench.try_once(OnHost(seconds=0.001), phase, FULL) for phase in ("search", "report"))
    assert searched.host_samples is reported.event_samples is reported.graph_samples is None
    [kept] = reported.host_samples
    assert len(kept) == reported.host_launches == 20
    assert np.median(kept) == pytest.approx(reported.host_median, rel=1e-6)
    assert (min(kept), max(kept)) == pytest.approx((reported.host_min, reported.host_max), rel=1e-6)


def test_samples_are_kept_by_round_and_of_a_long_round_some_evenly_spread():
    rounds = [Samples({"event": np.arange(1.0, 1001) + number, "graph": np.array([number])}) for number in range(3)]
    kept = timing.sampled(rounds[0].join(rounds[1]).join(rounds[2]))
    assert kept["graph_samples"] == [[0.0], [1.0], [2.0]]
    assert [len(part) for part in kept["event_samples"]] == [timing.MAX_SAMPLES_KEPT] * 3
    for number, part in enumerate(kept["event_samples"]):
        assert (part[0], part[-1]) == (1 + number, 1000 + number)
        assert np.ptp(np.diff(part)) <= 1


# a device that holds its clock down


@pytest.fixture
def throttled(bench, monkeypatch):
    """Let the device say, sample by sample, why its clock is held down; return how long was rested between them."""

    def say(*reasons):
        rests, left = [], list(reasons)
        monkeypatch.setattr(bench.devices, "clocks", lambda: (1500.0, left.pop(0)))
        monkeypatch.setattr(time, "sleep", rests.append)
        return rests, left

    return say


def test_a_row_that_stayed_throttled_says_so_and_how_often_it_was_tried(bench, throttled):
    rests, left = throttled(*["power cap"] * 3)
    fake = Fake()
    row = bench.try_once(fake, "search", SamplingPlan(4))
    assert (row.status, row.throttle) == ("ok", "power cap")
    assert row.message == "throttled (power cap) in each of 3 samples"
    assert rests == list(timing.RESTS)
    assert min(rests) > 0
    assert left == []
    assert len(fake.log) == 1 + 3 * 4


@pytest.mark.parametrize("before", [1, 2])
def test_a_row_that_recovers_says_nothing(bench, throttled, before):
    rests, left = throttled(*["hot"] * before, None)
    row = bench.try_once(Fake(), "search", SamplingPlan(4))
    assert (row.status, row.throttle, row.message, row.event_launches) == ("ok", None, None, 4)
    assert len(rests) == before
    assert left == []


def test_screening_does_not_wait_for_the_clock(bench, throttled):
    rests, left = throttled("power cap")
    row = bench.try_once(Fake(), "search", SCREEN)
    assert (row.status, row.throttle, row.message) == ("ok", "power cap", "throttled (power cap)")
    assert rests == left == []


def test_a_long_launch_is_screened_by_the_launch_that_estimates_it(make_bench, small_problem):
    bench, fake = make_bench(small_problem("real"), cpu_budget=1e-3), Fake(seconds=0.02)
    row = bench.try_once(fake, "search", SCREEN)
    assert (row.status, row.event_launches, fake.log) == ("ok", 1, ["launch"])
    assert row.event_median >= 0.02
    bench.release()


@pytest.mark.wording
@pytest.mark.parametrize("effort", [FULL, SCREEN, SamplingPlan(3, cold=True)])
def test_what_has_no_clock_for_single_launches_is_refused(bench, effort):
    class Replayed(Fake):
        clocks = ("graph",)

    with pytest.raises(ValueError, match="fake has no clock for single launches"):
        bench.try_once(Replayed(), "search", effort)


@pytest.mark.wording
def test_a_round_without_a_graph_clock_is_told_of(bench):
    first, second = Samples({}, graph_message="no graph clock: a wait"), Samples({})
    assert first.join(second).message == second.join(first).message == "no graph clock: a wait"


def test_where_nothing_is_held_down_there_is_no_rest(bench, throttled):
    rests, left = throttled(None)
    assert bench.try_once(Fake(), "search", SamplingPlan(4)).message is None
    assert rests == left == []


def test_as_many_samples_as_rests_and_one_are_taken(bench, throttled, monkeypatch):
    monkeypatch.setattr(timing, "RESTS", (0.0,) * 4)
    _, left = throttled(*["hot", "hotter", "hot", "hot", "power cap"])
    row = bench.try_once(Fake(), "search", SamplingPlan(4))
    assert row.message == "throttled (power cap) in each of 5 samples"
    assert left == []


def test_one_throttled_round_marks_the_row(make_bench, small_problem, tmp_path, monkeypatch):
    bench = make_bench(small_problem("real"), rounds=2)
    monkeypatch.setattr(timing, "RESTS", (0.0, 0.0))
    warm = ["hot", "hot", "hot", None]  # the first round stays throttled, the second is not
    cold = ["hot", None, None]  # the first round recovers
    reasons = iter([*warm, *cold])
    monkeypatch.setattr(bench.devices, "clocks", lambda: (None, next(reasons)))
    with Store(tmp_path / "rows.jsonl") as store:
        rows = shuffled_rounds(bench, [Fake()], store, seed=1)
    assert [(row.cache, row.throttle, row.message) for row in rows] == [
        ("warm", "hot", "throttled (hot) in 1 of 2 rounds"),
        ("cold", None, None),
    ]
    bench.release()


def test_a_throttled_row_without_a_graph_says_both(bench, throttled, monkeypatch):
    def refuse(launch, launches, replays):
        raise CaptureError("a wait")

    monkeypatch.setattr(bench.devices, "time_graph", refuse)
    throttled(*["hot"] * 3)
    row = bench.try_once(Fake(), "search", FULL)
    assert row.message == "throttled (hot) in each of 3 samples; no graph clock: a wait"
    assert row.graph_median is None
