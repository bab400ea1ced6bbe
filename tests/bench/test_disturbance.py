"""What something else on the device does to times: it is seen by the clocks themselves, and no row is wrong by it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from repro.bench import timing
from repro.bench.timing import ALONE, WAKING, Samples, SamplingPlan, full, judge_clocks, outliers, screen, take_samples
from repro.bench.trial import ContentionMonitor
from repro.config.models import Timing
from repro.tuning.final_timing import warm_rounds
from support.shared_device import EVENT, GRAPH, Kernel, SharedDevice

TOLERANCE = Timing().gpu_disturbed
MICRO = 1e-6


def judged(tolerance=TOLERANCE, **seconds):
    return judge_clocks({c: np.array(s) * MICRO for c, s in seconds.items()}, tolerance, ALONE["cuda"])


#: A kernel that takes 6.4 µs alone and 4.1 in a graph, on a GPU that something else used.
EVENTS = [*[6.4] * 990, *[9500.0] * 10]
REPLAYS = [4.1, 4.2, *[80.1] * 18]


# what is seen in one sample


def test_a_graph_that_stalls_most_of_the_time_is_disturbed_and_the_message_has_the_numbers():
    verdict = judged(event=EVENTS, graph=REPLAYS)
    assert verdict.disturbed == (
        "18 of 20 replays of a graph stalled (graph median 80.1 µs, its least 4.1 µs, its largest 80.1 µs; "
        "event median 6.4 µs, its least 6.4 µs, its largest 9,500 µs)"
    )
    assert len(verdict.seconds["graph"]) == 20  # it keeps its numbers


@pytest.mark.wording
def test_a_graph_that_stalls_every_time_is_disturbed_by_what_one_launch_takes():
    verdict = judged(event=EVENTS, graph=np.linspace(150, 165, 20))
    assert verdict.disturbed.startswith("a launch in a graph takes longer than one alone (graph median 157.5 µs")


@pytest.mark.wording
def test_launches_that_stall_every_time_are_disturbed_by_what_one_in_a_graph_takes():
    """As the copies: 189 µs and 6,500."""
    verdict = judged(event=np.linspace(6500, 7000, 20), graph=[189.0] * 20)
    assert verdict.disturbed.startswith("a launch alone takes much longer than one in a graph")


def test_single_stalled_launches_do_not_count_and_the_others_do():
    verdict = judged(event=EVENTS, graph=[4.1] * 18 + [80.0, 90.0])
    assert (verdict.disturbed, verdict.stalled) == (None, 12)
    assert (len(verdict.seconds["event"]), len(verdict.seconds["graph"])) == (990, 18)
    assert verdict.seconds["event"].max() == pytest.approx(6.4e-6)


@pytest.mark.parametrize("clock", ["event", "host", "graph"])
def test_where_only_few_of_few_launches_count_the_sample_does_not(clock):
    assert judged(**{clock: [5.0, 5.1, 500, 600, 7000]}).disturbed
    assert not judged(**{clock: [5.0, 5.1, 5.2, 6000, 7000]}).disturbed
    assert judged(**{clock: [5.0, 5.1, 5.2, 6000, 7000]}).stalled == 2


def test_the_configuration_says_how_much_is_tolerated():
    assert not judged(1e9, event=EVENTS, graph=REPLAYS).disturbed
    assert judged(1e9, event=EVENTS, graph=REPLAYS).stalled == 0
    assert Timing().tolerance("opencl") == Timing().cpu_disturbed > Timing().tolerance("cuda") == TOLERANCE
    assert Timing(gpu_disturbed=3.0).tolerance("cuda") == 3.0
    assert Timing().tolerance("cuda", devices=2) == pytest.approx(1.3)


def test_launches_over_several_devices_may_take_any_time_beside_a_graph():
    readings = {"event": np.full(20, 37e-6), "graph": np.full(20, 8e-6)}
    assert judge_clocks(readings, 1.3, 10e-6).disturbed
    assert not judge_clocks(readings, 1.3, None).disturbed
    assert judge_clocks({"event": readings["graph"], "graph": readings["event"]}, 1.3, None).disturbed


def test_short_kernels_are_not_disturbed_by_what_the_clocks_themselves_read():
    """As an H200 reads them: an empty kernel, a launch of two parts, a short and a long kernel."""
    for event, graph in ((2.7, 0.52), (9.0, 3.1), (6.4, 4.1), (90.0, 88.0), (101.0, 104.0)):
        scatter = np.linspace(0.97, 1.06, 100)
        verdict = judged(event=event * scatter, graph=graph * scatter)
        assert (verdict.disturbed, verdict.stalled) == (None, 0)


def test_what_a_short_launch_scatters_by_of_its_own_accord_is_no_disturbance():
    """As dynamic schedules do on an H200: 68 µs at the least, mostly 100."""
    verdict = judged(event=[68, 93, 95, 99, 100, 101, 104, 106, 120, 131])
    assert (verdict.disturbed, verdict.stalled) == (None, 0)


# what is seen among rounds


def test_a_round_that_is_far_from_the_best_of_its_own_is_seen_by_any_clock():
    rounds = [{"event": np.full(9, 6.4e-6), "graph": np.full(4, g)} for g in (4.1e-6, 4.2e-6, 5.9e-6, 4.1e-6)]
    assert outliers(rounds, TOLERANCE, TOLERANCE) == {2: "graph median 5.9 µs in one round and 4.1 µs in another"}
    assert outliers(rounds, 2.0, TOLERANCE) == {}
    close = [{"event": np.array([2.6e-6])}, {"event": np.array([2.9e-6])}]
    assert outliers(close, TOLERANCE, TOLERANCE) == {}  # as it resolves


def test_rounds_by_the_hosts_clock_may_differ_by_more():
    rounds = [{"host": np.full(9, seconds)} for seconds in (19.7e-3, 27.8e-3)]
    assert outliers(rounds, TOLERANCE, 2.0) == {}
    assert outliers(rounds, TOLERANCE, 1.4) == {1: "host median 27,800 µs in one round and 19,700 µs in another"}


def test_rounds_before_which_the_threads_of_a_cpu_slept_are_not_far():
    """As the floor of a small problem: 6.6 µs in two rounds and 17.5 in three."""
    rounds = [{"event": np.full(9, micro * MICRO)} for micro in (6.6, 17.5, 17.5, 6.7, 17.5)]
    tolerance = Timing().cpu_disturbed
    assert outliers(rounds, tolerance, tolerance, WAKING["opencl"]) == {}
    assert [*outliers(rounds, tolerance, tolerance, WAKING["cuda"])] == [1, 2, 4]
    far = [{"event": np.full(9, micro * MICRO)} for micro in (6.6, 35.0)]
    assert [*outliers(far, tolerance, tolerance, WAKING["opencl"])] == [1]


# taking samples again


@pytest.fixture
def simulate(monkeypatch):
    """Take samples of a kernel of so many seconds on a shared device; return them and how long was rested."""

    def simulate(seconds, gap, seed, effort, scatter=0.01):
        device, rests = SharedDevice(gap, seed, scatter), []
        monkeypatch.setattr(time, "sleep", lambda rest: (rests.append(rest), device.sleep(rest)))
        monkeypatch.setattr(timing, "host_seconds", lambda devices, runnable: seconds)
        device.kernel = Kernel(seconds)
        return take_samples(device, device.kernel, effort, Timing()), rests

    return simulate


@pytest.mark.parametrize("gap", [2e-3, 10e-3, 30e-3, 100e-3, 1.0])
@pytest.mark.parametrize("effort", [full(Timing()), screen(Timing()), warm_rounds(Timing()).effort], ids=repr)
def test_no_time_is_off_by_more_than_a_twentieth_or_it_is_disturbed(simulate, gap, effort):
    for seed, seconds in enumerate([1e-6, 4e-6, 20e-6, 60e-6, 200e-6, 500e-6, 2e-3]):
        samples, _ = simulate(seconds, gap, seed, effort)
        off = {
            clock: float(np.median(readings)) / (seconds + own) - 1
            for clock, own in (("event", EVENT), ("graph", GRAPH))
            if (readings := samples.seconds.get(clock)) is not None
        }
        assert samples.disturbed or max(off.values()) < 0.05, (seconds, off)


def test_a_time_that_is_rarely_disturbed_is_not_given_up(simulate):
    kept = [simulate(20e-6, 0.1, seed, full(Timing()))[0].disturbed is None for seed in range(20)]
    assert sum(kept) >= 18


@pytest.mark.parametrize("scatter", [0.005, 0.03])
def test_an_undisturbed_device_has_at_most_a_fiftieth_discarded(simulate, scatter):
    for seed, seconds in enumerate([1e-6, 4e-6, 60e-6, 500e-6]):
        samples, rests = simulate(seconds, None, seed, full(Timing()), scatter)
        assert (samples.disturbed, rests) == (None, [])
        assert samples.discarded <= 0.02 * samples.taken


class Scripted:
    """A device that reads what it is told to, sample by sample; None: throttled."""

    backend = "cuda"

    def __init__(self, *microseconds: float | None) -> None:
        self.left, self.first, self._throttle = list(microseconds), self, None

    def __len__(self) -> int:
        return 1

    def leading(self, count):
        return self

    def flush(self) -> None:
        pass

    synchronize = reset_persisting_l2 = flush

    def clocks(self):
        return 1500.0, self._throttle

    def time_events(self, launch, count, before=None):
        reading = self.left.pop(0)
        self._throttle = "power cap" if reading is None else None
        stalled = [1.0] * count if reading is None else [1.0] + [reading] * (count - 1)
        return np.array(stalled) * MICRO


@pytest.fixture
def sample(monkeypatch):
    rests = []
    monkeypatch.setattr(time, "sleep", rests.append)

    def sample(effort, *microseconds):
        rests.clear()
        device = Scripted(*microseconds)
        return take_samples(device, Kernel(1e-6), effort, Timing()), list(rests), device.left

    return sample


def test_a_disturbed_sample_is_taken_again_after_a_pause_and_counted(sample):
    samples, rests, left = sample(SamplingPlan(10), 900.0, 900.0, 1.0)
    assert (samples.disturbed, samples.discarded, len(samples.seconds["event"]), left) == (None, 20, 10, [])
    assert rests == list(timing.CALM_RESTS[:2])
    assert min(rests) > 0
    assert timing.columns(samples)["discarded"] == 20


def test_one_that_stays_disturbed_says_so_and_keeps_its_numbers(sample):
    samples, rests, _ = sample(SamplingPlan(10), *[900.0] * 9)
    assert rests == list(timing.CALM_RESTS)
    assert samples.message.startswith("9 of 10 launches stalled (event median 900.0 µs, its least 1.0 µs")
    assert timing.columns(samples)["event_median"] == pytest.approx(9e-4)


def test_screening_waits_a_tenth_of_a_second_at_most(sample):
    samples, rests, _ = sample(SamplingPlan(10, screening=True), *[900.0] * 9)
    assert samples.disturbed
    assert rests == list(timing.SCREENING_RESTS)
    assert max(rests) <= 0.1
    assert sample(SamplingPlan(10, screening=True), 1.0)[1] == []


def test_throttled_and_disturbed_samples_are_taken_again_by_one_loop(sample):
    samples, rests, left = sample(SamplingPlan(10), None, 900.0, None, 1.0)
    assert (samples.disturbed, samples.throttle, samples.message, left) == (None, None, None, [])
    assert rests == [timing.RESTS[0], timing.CALM_RESTS[0], timing.RESTS[1]]
    assert samples.discarded == 30


def test_a_disturbed_row_is_no_time_to_choose_by(make_bench, small_problem, monkeypatch):
    bench = make_bench(small_problem("real"))
    monkeypatch.setattr(
        timing, "take_samples", lambda *_: Samples({"event": np.full(9, 1e-5)}, discarded=18, disturbed="why")
    )
    monkeypatch.setattr(bench.neighbours, "list_other_processes", lambda: ["process 42 (train.py, 500 MiB)"])
    kernel = Kernel(1e-6)
    kernel.prepare = kernel.erase_result = lambda _: None
    kernel.release, kernel.result, kernel.identity = lambda: None, lambda: None, "v1"
    row = bench.try_once(kernel, "search", SamplingPlan(9))
    assert (row.status, row.discarded, row.event_median) == ("disturbed", 18, pytest.approx(1e-5))
    assert row.message == "why, beside process 42 (train.py, 500 MiB)"
    bench.release()


# who else uses the device


def test_other_processes_are_looked_for_during_a_run_and_each_is_told_of_once(monkeypatch, capsys):
    clock, there = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    neighbours = ContentionMonitor([SimpleNamespace(other_processes=lambda idle: list(there))])
    neighbours.look_if_due()
    there.append("process 42 (train.py, 500 MiB)")
    neighbours.look_if_due()
    assert capsys.readouterr().out == ""  # a look costs time: not before every sample
    clock[0] += 6
    neighbours.look_if_due()
    assert capsys.readouterr().out == (
        "warning: the device is shared with process 42 (train.py, 500 MiB), a program that takes no lock or is in "
        "another container; times may be disturbed\n"
    )
    there[:] = ["process 42 (train.py, 700 MiB)"]
    assert neighbours.list_other_processes() == there
    assert capsys.readouterr().out == ""
