"""Which packings stay on the device."""

import numpy as np
import pytest

from repro.tuning import session as tuning
from repro.tuning.session import Place, Session


@pytest.fixture
def workspace(make_bench, small_problem):
    bench = make_bench(small_problem("real"))
    yield bench.workspace
    bench.release()


@pytest.fixture
def hold(workspace):
    """Return what holds a packing, and says whether it was packed for it."""

    def hold(name):
        packed = []
        workspace.hold(name, lambda: (packed.append(name), {"values": np.zeros(4)}))
        return packed == [name]

    return hold


def test_what_is_longest_out_of_use_gives_way(workspace, hold):
    workspace.resident = 2
    assert [hold(name) for name in "abacab"] == [True, True, False, True, False, True]


def test_rounds_start_without_what_a_search_held(make_bench, small_problem, monkeypatch):
    problem = small_problem("real")
    bench = make_bench(problem)
    freed = []
    _, buffers = bench.workspace.hold("stale", lambda: (None, {"values": np.zeros(4)}))
    monkeypatch.setattr(buffers["values"], "release", lambda: freed.append("stale"))
    monkeypatch.setattr(tuning, "shuffled_rounds", lambda *_: list(freed))
    session = Session(problem, bench, None, None, 1, Place("s", "c", None), None)
    assert session.rounds([]) == ["stale"]
    bench.release()
