"""Rounds that something else disturbs: taken again, left out, or the row says so."""

from __future__ import annotations

import time

import numpy as np
import pytest

from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import CALM_RESTS, Samples, SamplingPlan, screen
from repro.bench.yardsticks import DeviceCopy, Empty
from repro.codegen.templates import StreamConfig
from repro.tuning.final_timing import Probe, Slowdown, join_rounds, shuffled_rounds
from repro.tuning.search import Choice, Search, pick, rank_rows
from repro.tuning.session import fastest_yardsticks

LAUNCHES = 10


class Fake(Runnable):
    kind, cold = "variant", False

    def __init__(self, name="fake", kind="variant"):
        self.name, self.kind = name, kind
        self.released = 0

    def launch(self):
        pass

    def release(self):
        self.released += 1


def taken(micro, **more):
    return Samples({"event": np.full(LAUNCHES, micro * 1e-6)}, **more)


@pytest.fixture
def bench(make_bench, small_problem, monkeypatch):
    bench = make_bench(small_problem("real"), rounds=4, launches=4 * LAUNCHES, cpu_disturbed=1.1)
    bench.rests = []
    monkeypatch.setattr(time, "sleep", bench.rests.append)
    yield bench
    bench.release()


@pytest.fixture
def script(bench, monkeypatch):
    """Let each runnable take these microseconds, sample by sample; the last one for good."""

    def script(**microseconds):
        left = {name: list(values) for name, values in microseconds.items()}

        def sample(runnable, effort):
            values = left[runnable.name]
            value = values.pop(0) if len(values) > 1 else values[0]
            return value if isinstance(value, Samples) else taken(value)

        monkeypatch.setattr(bench, "sample", sample)
        return left

    return script


COPY_IS_SLOW = Slowdown("copy median 6,500 µs, 189.0 µs before", np.inf)


class Looks:
    """A probe that is told what to say after each round; first comes the look before all."""

    def __init__(self, *said):
        self.said, self.released = list(said), 0

    def time_yardsticks(self):
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]

    def release(self):
        self.released += 1


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "rows.jsonl") as store:
        yield store


def test_a_round_far_from_the_others_is_taken_again(bench, script, store):
    left = script(one=[10, 80, 10, 10, 10.1], other=[20, 20, 20, 20])
    one, other = shuffled_rounds(bench, [Fake("one"), Fake("other")], store, seed=1)
    assert (one.status, one.event_median, one.event_max) == ("ok", pytest.approx(10e-6), pytest.approx(10.1e-6))
    assert (one.discarded, one.event_launches) == (LAUNCHES, 4 * LAUNCHES)
    assert (other.status, other.discarded) == ("ok", 0)
    assert bench.rests == [CALM_RESTS[0]]
    assert left["other"] == [20]


def test_a_round_before_which_threads_slept_is_not_far(bench, script, store):
    script(one=[6.6, 17.5, 17.5, 17.5])
    (one,) = shuffled_rounds(bench, [Fake("one")], store, seed=1)
    assert (one.status, one.discarded, one.event_launches, bench.rests) == ("ok", 0, 4 * LAUNCHES, [])


def test_the_first_round_may_be_the_far_one(bench, script, store):
    script(one=[158, 6.4, 6.4, 6.5, 6.4])
    (one,) = shuffled_rounds(bench, [Fake("one")], store, seed=1)
    assert (one.status, one.event_max, one.discarded) == ("ok", pytest.approx(6.5e-6), LAUNCHES)


def test_what_stays_far_does_not_count(bench, script, store):
    script(one=[10, 10, 10, 80, 80, 80, 80, 80])
    (one,) = shuffled_rounds(bench, [Fake("one")], store, seed=1)
    assert (one.status, one.event_launches, one.event_max) == ("ok", 3 * LAUNCHES, pytest.approx(10e-6))
    assert one.discarded == LAUNCHES * (1 + len(CALM_RESTS))
    assert bench.rests == list(CALM_RESTS)


def test_where_most_rounds_are_far_the_row_is_disturbed_and_keeps_its_numbers(bench, script, store):
    script(one=[10, 80, 81, 82, 80])
    (one,) = shuffled_rounds(bench, [Fake("one")], store, seed=1)
    assert (one.status, one.event_min, one.event_launches) == ("disturbed", pytest.approx(10e-6), 4 * LAUNCHES)
    assert one.message == "event median 80.0 µs in one round and 10.0 µs in another in 3 of 4 rounds"


def test_rounds_that_the_clocks_call_disturbed_do_not_count(bench, script, store):
    bad = taken(10, disturbed="18 of 20 replays stalled", discarded=5)
    script(one=[bad, 10, 10, 10, 10], other=[bad])
    one, other = shuffled_rounds(bench, [Fake("one"), Fake("other")], store, seed=1)
    assert (one.status, one.message, one.discarded) == ("ok", None, 15)
    assert (other.status, other.message) == ("disturbed", "18 of 20 replays stalled in 4 of 4 rounds")


def test_a_round_after_which_the_yardsticks_are_slow_is_taken_again(bench, script, store):
    left = script(one=[10, 10.1, 10.2, 10.3, 10.4])
    probe = Looks(None, None, COPY_IS_SLOW, None)
    (one,) = shuffled_rounds(bench, [Fake("one")], store, 1, probe=probe)
    assert (one.status, one.discarded, one.event_launches) == ("ok", LAUNCHES, 4 * LAUNCHES)
    assert bench.rests == [CALM_RESTS[0]]
    assert left["one"] == [10.4]  # five rounds for four
    assert probe.released == 1


def test_where_they_stay_slow_all_rows_are_disturbed(bench, script, store):
    script(one=[10], other=[20])
    probe = Looks(None, COPY_IS_SLOW)
    rows = shuffled_rounds(bench, [Fake("one"), Fake("other")], store, 1, probe=probe)
    assert {(row.status, row.message) for row in rows} == {
        ("disturbed", "copy median 6,500 µs, 189.0 µs before in 4 of 4 rounds")
    }


def test_a_slow_empty_launch_disturbs_short_launches_alone(bench, script, store):
    script(short=[10], long=[100_000])
    late = bench.timing.tolerance("opencl") - 1
    probe = Looks(None, Slowdown("empty median 16.5 µs, 7.7 µs before", 10.1e-6 * late))
    rows = {row.name: row for row in shuffled_rounds(bench, [Fake("short"), Fake("long")], store, 1, probe=probe)}
    assert {name: row.status for name, row in rows.items()} == {"short": "disturbed", "long": "ok"}
    assert rows["short"].message == "empty median 16.5 µs, 7.7 µs before in 4 of 4 rounds"


def test_long_launches_are_not_taken_again_for_a_slow_empty_one(bench, script, store):
    script(long=[100_000])
    (row,) = shuffled_rounds(bench, [Fake("long")], store, 1, probe=Looks(None, Slowdown("empty median 16.5 µs", 9e-6)))
    assert (row.status, row.discarded, bench.rests) == ("ok", 0, [])


def test_of_rounds_that_agree_nothing_is_discarded():
    rounds = [taken(micro) for micro in (10, 10.2, 10.4, 10.1, 10.3)]
    joined = join_rounds(rounds, 1.1, 2.0)
    assert (joined.disturbed, joined.discarded, len(joined.seconds["event"])) == (None, 0, 5 * LAUNCHES)


# the probe


@pytest.fixture
def probe(bench, monkeypatch):
    """Yardsticks, and what their medians are, launch by launch."""
    medians = {"empty": [3.0], "copy": [189.0]}
    yardsticks = [Fake("empty", "empty"), Fake("copy/1", "copy")]
    for yardstick in yardsticks:
        yardstick.launch = lambda kind=yardstick.kind: kind

    def time_events(launch, count, before=None):
        values = medians[launch()]
        return np.full(count, (values.pop(0) if len(values) > 1 else values[0]) * 1e-6)

    monkeypatch.setattr(bench.devices, "time_events", time_events)
    return Probe(bench, yardsticks), medians, yardsticks


def test_yardsticks_are_held_against_their_own_best(probe):
    look, medians, yardsticks = probe
    assert look.time_yardsticks() is None
    medians["copy"] = [6500.0]
    assert look.time_yardsticks() == Slowdown("copy median 6,500 µs, 189.0 µs before", np.inf)
    medians["copy"], medians["empty"] = [189.5], [35.0]
    assert look.time_yardsticks() == Slowdown("empty median 35.0 µs, 3.0 µs before", pytest.approx(32e-6))
    medians["empty"] = [12.0]  # as waking the threads of a CPU takes
    assert look.time_yardsticks() is None
    medians["empty"] = [3.4]
    assert look.time_yardsticks() is None
    look.release()
    assert [yardstick.released for yardstick in yardsticks] == [1, 1]
    medians["copy"] = [300.0]
    assert look.time_yardsticks() == Slowdown(
        "copy median 300.0 µs, 189.0 µs before", np.inf
    )  # the best is that of the whole case


def test_a_copy_is_held_against_those_of_its_size_alone(probe):
    look, medians, (_, copy) = probe
    copy.bytes_moved = 1 << 28  # there was less room
    assert look.time_yardsticks() is None
    look.release()
    copy.bytes_moved, medians["copy"] = 1 << 29, [378.0]
    assert look.time_yardsticks() is None
    medians["copy"] = [700.0]
    assert look.time_yardsticks() == Slowdown("copy median 700.0 µs, 378.0 µs before", np.inf)


def test_the_clock_of_a_gpu_tells_5_from_3_microseconds(probe, bench, monkeypatch):
    look, medians, _ = probe
    assert look.time_yardsticks() is None
    monkeypatch.setattr(bench.devices, "backend", "cuda")
    medians["empty"] = [5.2]
    assert look.time_yardsticks() == Slowdown("empty median 5.2 µs, 3.0 µs before", pytest.approx(2.2e-6))
    medians["empty"] = [3.4]  # as the clock resolves
    assert look.time_yardsticks() is None


def test_a_device_that_has_idled_is_timed_once_more(probe):
    look, medians, _ = probe
    assert look.time_yardsticks() is None
    medians["copy"] = [400.0, 190.0]
    assert look.time_yardsticks() is None


def test_a_yardstick_that_there_is_no_room_for_is_left_out(bench, monkeypatch):
    yardstick = Fake("copy/1", "copy")

    def refuse(workspace):
        raise MemoryError

    yardstick.prepare = refuse
    assert Probe(bench, [yardstick, Empty()]).time_yardsticks() is None
    assert yardstick.released == 1


def test_the_probe_is_launched_in_a_batch_which_has_the_copy_s_times_already(make_bench, small_problem):
    timed = {}
    for _ in range(2):  # the case that times the copy, and one that is spared it
        bench = make_bench(small_problem("real"), timed=timed)
        bench.try_once(DeviceCopy(StreamConfig(256, 4)), "search", screen(bench.timing))
        probe = Probe(bench, [DeviceCopy(StreamConfig(256, 4))])
        probe.time_yardsticks()
        assert [kind for kind, _ in probe._best] == ["copy"]
        probe.release()
        bench.release()
    assert [*timed] == ["copy/256-4"]


# what a disturbed row is good for


def test_a_disturbed_row_is_measured_again_by_the_next_run(bench, script, tmp_path):
    def measured(*samples):
        script(one=samples)
        with Store(tmp_path / "rows.jsonl") as store:
            rows = Search(bench, store, cold=False).screen_candidates([Fake("one")])
            return [*rows, *shuffled_rounds(bench, [Fake("one")], store, seed=1)]

    assert [row.status for row in measured(taken(10, disturbed="why"))] == ["disturbed", "disturbed"]
    rows = measured(10)
    assert [row.status for row in rows] == ["ok", "ok"]
    assert measured(11) == rows


def test_nothing_is_chosen_by_it(bench):
    effort = SamplingPlan(5)
    rows = [
        bench.row(Fake(name), "search", effort, status, event_median=seconds)
        for name, status, seconds in (("lucky", "disturbed", 1e-6), ("right", "ok", 2e-6), ("noisy", "noisy", 3e-6))
    ]
    assert [row.name for row in rank_rows(rows)] == ["right", "noisy"]
    assert pick(rows, 0.01, lambda timed, clock: {"joint": timed}) == [Choice("event", "joint", "right")]


def test_yardsticks_are_timed_again_where_all_were_disturbed(bench):
    def yardsticks(*statuses):
        fakes = [Fake(f"copy/{number}", "copy") for number in range(len(statuses))]
        return [
            (fake, bench.row(fake, "search", SamplingPlan(5), status, event_median=1e-6))
            for fake, status in zip(fakes, statuses, strict=True)
        ]

    for statuses, names in (
        (["disturbed", "ok", "incorrect"], ["copy/1"]),
        (["disturbed", "incorrect", "disturbed"], ["copy/0", "copy/2"]),
    ):
        assert [fake.name for fake in fastest_yardsticks(yardsticks(*statuses))] == names
