"""Shuffled rounds: warm and cold times by the full protocol; a failure affects only its own row."""

import time

import numpy as np
import pytest

from repro.bench.store import Store, crashed_row
from repro.bench.timing import Samples
from repro.bench.worker import ContextLost
from repro.bench.yardsticks import Empty
from repro.devices.base import LaunchError
from repro.errors import Unsupported
from repro.sparse.operands import ProductRunnable, y_on
from repro.tuning import search
from repro.tuning.final_timing import cold_rounds, half_width, shuffled_rounds, warm_rounds

pytestmark = pytest.mark.medium

TIMING = {
    "launches": 20,
    "graph_launches": 4,
    "graph_replays": 6,
    "rounds": 3,
    "cold_launches": 10,
    "cpu_budget": 10.0,
    "noise": 1e9,
    "cpu_disturbed": 1e9,
}


class Fake(ProductRunnable):
    """Writes the right result; fails at a step if told to."""

    identity, arrangement, bytes_moved = "v1", "AoS", 8

    def __init__(self, name, kind="baseline", fail=None, at=None, after=0):
        self.name, self.kind, self._fail, self._at, self._after = name, kind, fail, at, after
        self.prepared = self.launched = 0
        self.is_released = True

    def pack(self, workspace):
        if self._at in ("pack", "both"):
            raise self._fail

    def prepare(self, workspace):
        self.prepared += 1
        self.is_released = False
        self._workspace = workspace
        if self._at in ("prepare", "both"):
            raise self._fail

    def launch(self):
        self.launched += 1
        if self._at == "launch" and self.launched > self._after:
            raise self._fail
        device, operands = self._workspace.device, self._workspace.operands
        y = np.ascontiguousarray(operands.reference.astype(operands.dtype))
        device._cl.enqueue_copy(device._queue, y_on(self._workspace).handle, y, is_blocking=True)

    def result(self):
        return y_on(self._workspace)

    def arrange(self, values):
        return values.ravel()

    def release(self):
        self.is_released = True


@pytest.fixture
def bench(make_bench, small_problem):
    bench = make_bench(small_problem("real"), **TIMING)
    yield bench
    bench.release()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "rows.jsonl") as store:
        yield store


def test_all_are_timed_warm_and_what_a_cache_matters_to_cold(bench, store):
    runnables = [Fake("a", "variant"), Fake("b"), Empty()]
    rows = shuffled_rounds(bench, runnables, store, seed=1)
    assert [(row.name, row.cache) for row in rows] == [
        ("a", "warm"),
        ("b", "warm"),
        ("empty", "warm"),
        ("a", "cold"),
        ("b", "cold"),
    ]
    assert {(row.status, row.protocol, row.phase) for row in rows} == {("ok", "full", "report")}
    assert [row.event_launches for row in rows] == [21, 21, 21, 10, 10]
    assert [row.graph_median is None for row in rows] == [False] * 3 + [True] * 2
    assert all(fake.prepared == 1 and fake.is_released for fake in runnables[:2])


def test_rounds_come_to_the_full_protocol(bench):
    warm, cold = warm_rounds(bench.timing), cold_rounds(bench.timing)
    assert (warm.count * warm.effort.launches, warm.count * warm.effort.graph_replays) == (21, 6)
    assert cold.count * cold.effort.launches == 10


def rounds_of(*medians):
    return [Samples({"event": np.array([median, median, 2 * median]), "host": np.ones(3)}) for median in medians]


def test_the_half_width_is_students_over_the_medians_of_rounds():
    assert half_width(rounds_of(1.0)) == np.inf
    assert half_width(rounds_of(2.0, 2.0, 2.0)) == 0
    # t(0.975, 4) = 2.776; the deviation of 9, 9.5, 10, 10.5, 11 is 0.7906
    assert half_width(rounds_of(9.0, 9.5, 10.0, 10.5, 11.0)) == pytest.approx(2.776 * 0.7906 / 5**0.5 / 10, rel=1e-3)


def test_rounds_go_on_until_each_median_is_precise(make_bench, small_problem, store, monkeypatch):
    widths = iter([0.2, 0.005, 0.02, 0.01, 0.004, 0.003])  # "a" or "b" is not precise after 3 and 4 rounds
    monkeypatch.setattr("repro.tuning.final_timing.half_width", lambda rounds: next(widths))
    bench = make_bench(small_problem("real"), **TIMING)
    bench.timing = bench.timing.model_copy(update={"precision": 0.01})
    a, b = Fake("a"), Fake("b")
    rows = shuffled_rounds(bench, [a, b], store, seed=1)
    assert [(row.cache, row.rounds, len(row.event_samples)) for row in rows] == [
        ("warm", 5, 5),
        ("warm", 5, 5),
        ("cold", 2, 2),
        ("cold", 2, 2),
    ]
    assert [row.event_launches for row in rows] == [35, 35, 10, 10]
    assert shuffled_rounds(bench, [a, b], store, seed=1) == rows


def test_rounds_end_at_their_limit_and_their_precision_is_part_of_a_rows_key(make_bench, small_problem, store):
    keys = set()
    for timing, rounds in ({}, 3), ({"precision": 1e-9, "max_rounds": 4}, 4), ({"precision": 1e-9, "max_rounds": 2}, 3):
        bench = make_bench(small_problem("real"), **TIMING)
        bench.timing = bench.timing.model_copy(update=timing)
        [row, _] = shuffled_rounds(bench, [Fake("a")], store, seed=1)
        assert row.rounds == rounds
        keys.add(row.key)
        bench.release()
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("fake", "status"),
    [
        (Fake("bad", fail=Unsupported("no such format"), at="prepare"), "unsupported"),
        (Fake("bad", fail=LaunchError("refused"), at="launch", after=30), "launch_error"),
        (Fake("bad", fail=MemoryError("no room to pack it"), at="both"), "out_of_memory"),
    ],
)
def test_what_fails_has_one_row_and_the_others_go_on(bench, store, fake, status):
    rows = shuffled_rounds(bench, [fake, Fake("good")], store, seed=1)
    assert [(row.name, row.cache, row.status) for row in rows] == [
        ("bad", "warm", status),
        ("good", "warm", "ok"),
        ("good", "cold", "ok"),
    ]
    assert rows[0].event_median is None
    assert fake.is_released


def test_what_could_not_be_packed_before_is_prepared_all_the_same(bench, store):
    row, _ = shuffled_rounds(bench, [Fake("good", fail=MemoryError("not now"), at="pack")], store, seed=1)
    assert row.status == "ok"


def test_what_is_stored_is_not_measured_again(bench, store):
    first = shuffled_rounds(bench, [Fake("a"), Fake("b")], store, seed=1)
    fakes = [Fake("a"), Fake("b")]
    assert shuffled_rounds(bench, fakes, store, seed=1) == first
    assert [fake.prepared for fake in fakes] == [0, 0]


def test_a_lost_context_ends_the_process_and_the_next_one_leaves_out_what_lost_it(make_bench, small_problem, store):
    fatal = Fake("fatal", fail=LaunchError("illegal address", sticky=True), at="launch")
    with pytest.raises(ContextLost):
        shuffled_rounds(make_bench(small_problem("real"), **TIMING), [fatal, Fake("good")], store, seed=1)
    again = Fake("fatal")
    rows = shuffled_rounds(make_bench(small_problem("real"), **TIMING), [again, Fake("good")], store, seed=1)
    assert [(row.name, row.status) for row in rows] == [("fatal", "launch_error"), ("good", "ok"), ("good", "ok")]
    assert again.prepared == 0


def test_what_failed_in_an_earlier_run_is_tried_again(bench, tmp_path):
    path = tmp_path / "runs.jsonl"
    failing = Fake("mended", fail=LaunchError("refused"), at="launch")
    absent = Fake("absent", fail=Unsupported("no such format"), at="prepare")
    with Store(path) as store:
        shuffled_rounds(bench, [failing, absent, Fake("good")], store, seed=1)
    absent.prepared = 0
    with Store(path) as store:
        rows = shuffled_rounds(bench, [Fake("mended"), absent, Fake("good")], store, seed=1)
    assert {row.name: row.status for row in rows} == {"mended": "ok", "absent": "unsupported", "good": "ok"}
    assert absent.prepared == 0


def test_each_step_of_a_runnable_is_noted_before_it_is_taken(bench, store, tmp_path):
    noted = []

    class Noting(Fake):
        def prepare(self, workspace):
            super().prepare(workspace)
            noted.append(crashed_row(tmp_path / "rows.jsonl", store._run))

        def launch(self):
            super().launch()
            noted.append(crashed_row(tmp_path / "rows.jsonl", store._run))

    rows = shuffled_rounds(bench, [Noting("one"), Noting("other")], store, seed=1)
    assert {row.status for row in noted} == {"launch_error"}
    assert {(row.key, row.name) for row in noted} == {(row.key, row.name) for row in rows}
    assert crashed_row(tmp_path / "rows.jsonl", store._run) is None


@pytest.mark.wording
def test_what_never_ends_is_given_up(make_bench, small_problem, store, monkeypatch):
    reasons = []
    monkeypatch.setattr(search, "restart", reasons.append)
    bench = make_bench(small_problem("real"), timeout=0.05, **TIMING)
    hung = Fake("hung")
    hung.prepare = lambda workspace: (Fake.prepare(hung, workspace), time.sleep(1))
    shuffled_rounds(bench, [hung], store, seed=1)
    assert reasons[0] == "hung did not end within 0.05 s"  # on a busy machine what follows takes as long
