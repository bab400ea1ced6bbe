"""Rounds that measure the energy of the fastest of each contender, beside their times."""

from __future__ import annotations

import numpy as np
import pytest

from repro.bench.runnable import Runnable
from repro.bench.store import Store
from repro.bench.timing import Samples
from repro.tuning.final_timing import shuffled_rounds, warm_rounds
from support.metered_device import MeteredDevice

pytestmark = pytest.mark.medium
SECONDS, ROUNDS = 0.1, 3


class Fake(Runnable):
    cold = False

    def __init__(self, device, name, kind="variant", space=None, microseconds=100):
        self.device, self.name, self.kind, self.microseconds = device, name, kind, microseconds
        self._space = space

    @property
    def columns(self):
        return {"space": self._space}

    def launch(self):
        self.device.launch()


class Bench:
    def __init__(self, make_bench, problem, monkeypatch, device):
        self.bench = make_bench(problem, rounds=ROUNDS, energy_seconds=SECONDS)
        self.device, self.bench.meter = device, device.meter(SECONDS)
        monkeypatch.setattr(
            self.bench,
            "sample",
            lambda runnable, effort: Samples({"graph": np.full(5, runnable.microseconds * 1e-6)}, graph_launches=1),
        )

    def rows(self, runnables, store):
        return {row.name: row for row in shuffled_rounds(self.bench, runnables, store, seed=1)}


@pytest.fixture
def metered(make_bench, small_problem, monkeypatch):
    benches = []

    def make(**device):
        benches.append(Bench(make_bench, small_problem("real"), monkeypatch, MeteredDevice(**device)))
        return benches[-1]

    yield make
    for bench in benches:
        bench.bench.release()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "rows.jsonl") as store:
        yield store


def contenders(device):
    return [
        Fake(device, "fast", space="extended", microseconds=90),
        Fake(device, "slow", space="extended", microseconds=100),
        Fake(device, "published", space="paper"),
        Fake(device, "library", kind="baseline"),
        Fake(device, "solver", kind="solver"),
    ]


def test_the_fastest_of_each_contender_has_its_energy_in_its_row(metered, store):
    bench = metered(busy_watts=300, idle_watts=100, launch_ms=2)
    rows = bench.rows(contenders(bench.device), store)
    assert {name: row.energy_of for name, row in rows.items()} == {
        "fast": "ours",
        "slow": None,
        "published": "papers",
        "library": "library",
        "solver": None,
    }
    for name in ("fast", "published", "library"):
        row = rows[name]
        assert (row.energy_watts, row.energy_idle_watts) == (pytest.approx(300), pytest.approx(100))
        assert row.energy_seconds == pytest.approx(2e-3)
        assert [row.energy_joules, row.energy_joules_min, row.energy_joules_max] == pytest.approx([0.6] * 3)
        assert row.energy_launches * 2e-3 >= ROUNDS * SECONDS
    assert rows["slow"].energy_joules is rows["solver"].energy_watts is None
    assert rows["fast"].graph_median == pytest.approx(90e-6)  # a time is of the rounds before


def test_a_stored_row_keeps_its_energy_and_one_without_it_is_measured_again(metered, store):
    bench = metered()
    runnables = contenders(bench.device)
    without = bench.bench.key(runnables[0], "report", warm_rounds(bench.bench.timing.model_copy(
        update={"energy_seconds": 0.0})).effort)  # fmt: skip
    first = bench.rows(runnables, store)
    assert first["fast"].key != without
    launched = bench.device.launched
    assert bench.rows(runnables, store) == first
    assert bench.device.launched == launched


@pytest.mark.parametrize(
    ("device", "reason"), [({"update": None}, "was not updated"), ({"has_counter": False}, "has no counter")]
)
def test_without_a_counter_one_line_says_so_and_times_are_there(metered, store, capsys, device, reason):
    bench = metered(**device)
    rows = bench.rows(contenders(bench.device), store)
    lines = [line for line in capsys.readouterr().out.splitlines() if "energy" in line]
    assert len(lines) == 1
    assert reason in lines[0]
    assert {row.status for row in rows.values()} == {"ok"}
    assert {row.energy_joules for row in rows.values()} == {None}


def test_energy_on_a_device_that_others_use_is_not_measured(metered, store, capsys, monkeypatch):
    bench = metered()
    monkeypatch.setattr(bench.bench.neighbours, "list_other_processes", lambda: ["process 5 (other)"])
    rows = bench.rows(contenders(bench.device), store)
    assert "energy is not measured: the device is shared with process 5 (other)" in capsys.readouterr().out
    assert {row.energy_joules for row in rows.values()} == {None}


def test_nothing_is_measured_of_a_contender_alone_or_if_it_was_not_asked_for(metered, store, tmp_path):
    bench = metered()
    assert bench.rows([Fake(bench.device, "alone", space="extended")], store)["alone"].energy_joules is None
    bench.bench.timing = bench.bench.timing.model_copy(update={"energy_seconds": 0.0})
    with Store(tmp_path / "other.jsonl") as other:
        assert {row.energy_joules for row in bench.rows(contenders(bench.device), other).values()} == {None}
