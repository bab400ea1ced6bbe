"""Operands that are no product: the trial knows only how much they are and their own check."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from repro.bench.runnable import Runnable, Workspace
from repro.bench.store import Store
from repro.bench.timing import SamplingPlan
from repro.bench.trial import Bench
from repro.config.models import Timing
from repro.devices.device_group import Devices
from repro.errors import IncorrectError, ReproError
from repro.tuning.final_timing import shuffled_rounds

EFFORT = SamplingPlan(5)
EDGES = frozenset({(0, 1), (1, 2)})
INSERTED = ((2, 0), (0, 1), (2, 2))


@dataclass(frozen=True)
class Inserts:
    """A set of edges, others to insert, and the set that is left."""

    precision: str = "double"
    checksum: str = "edges"
    operations: int = 3

    @property
    def min_bytes(self) -> tuple[int, int]:
        return 24, 32

    @property
    def columns(self) -> dict[str, int]:
        return {"batch": len(INSERTED)}

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        runnable.before()
        runnable.launch()
        state = runnable.result()
        if state is None:
            return None
        expected = EDGES | set(INSERTED)
        if state["edges"] != expected:
            raise IncorrectError(f"{len(state['edges'] ^ expected)} edges differ")
        return abs(state["weight"] - len(expected)) / 2


class Graph(Runnable):
    """Inserts edges into a set on the host."""

    kind, clocks = "variant", ("host",)

    def __init__(self, name: str = "graph", inserted=INSERTED, weight: float = 4.0, silent: bool = False) -> None:
        self.name, self._inserted, self._weight, self._silent = name, inserted, weight, silent
        self.released = 0

    def prepare(self, workspace: Workspace) -> None:
        self._start, self._edges = EDGES, set()

    def before(self) -> None:
        self._edges = set(self._start)

    def launch(self) -> None:
        assert self._edges == self._start, "inserted twice"
        self._edges |= set(self._inserted)

    def result(self):
        return None if self._silent else {"edges": self._edges, "weight": self._weight}

    def release(self) -> None:
        self.released += 1


@pytest.fixture
def make(cpu_device, modules_folder):
    """Open a bench for any operands."""

    def make(operands=None, own=None):
        return Bench(
            Workspace(Devices([cpu_device]), operands or Inserts(), modules_folder),
            study_name="inserts",
            problem_name="edges",
            timing=Timing(launches=10, cold_launches=6, rounds=2, noise=1e9, cpu_disturbed=1e9),
            seed=1,
            own={"batch": int} if own is None else own,
            environment="test",
            software="test",
            code=str,
        )

    return make


def test_a_state_is_checked_by_its_operands_and_timed(make):
    bench, graph = make(), Graph()
    row = bench.try_once(graph, "search", EFFORT)
    assert (row.status, row.error, row.host_launches, row.event_median) == ("ok", 0.0, 5, None)
    assert (row.problem, row.precision, row["batch"]) == ("edges", "double", 3)
    assert (row.least_bytes, row.operations, row.bytes) == (56, 3, None)
    assert graph.released == 1


def test_an_error_is_what_the_check_returns(make):
    assert make().try_once(Graph(weight=3.0), "search", EFFORT).error == 0.5


def test_a_wrong_state_is_incorrect_without_a_number(make):
    bench, graph = make(), Graph(inserted=INSERTED[1:])
    row = bench.try_once(graph, "search", EFFORT)
    assert (row.status, row.message, row.error) == ("incorrect", "1 edges differ", None)
    assert row.host_median is None
    assert graph.released == 1


def test_where_there_is_nothing_to_verify_there_is_no_error(make):
    row = make().try_once(Graph(inserted=(), silent=True), "search", EFFORT)
    assert (row.status, row.error) == ("ok", None)


@pytest.mark.wording
def test_columns_of_the_operands_have_to_be_declared(make):
    with pytest.raises(ReproError, match="does not declare the columns batch"):
        make(own={}).try_once(Graph(), "search", EFFORT)


def test_a_state_is_timed_in_rounds(make, tmp_path):
    with Store(tmp_path / "rows.jsonl") as store:
        rows = shuffled_rounds(make(), [Graph("right"), Graph("wrong", inserted=())], store, seed=1)
    assert [(row.name, row.cache, row.status, row.host_launches) for row in rows] == [
        ("right", "warm", "ok", 10),
        ("wrong", "warm", "incorrect", None),
        ("right", "cold", "ok", 6),
    ]


def test_the_key_follows_the_operands(make):
    benches = [make(), make(Inserts(checksum="others")), make(Inserts(precision="single")), make()]
    keys = [bench.key(Graph(), "search", EFFORT) for bench in benches]
    assert len(set(keys)) == 3
    assert keys[0] == keys[3]
