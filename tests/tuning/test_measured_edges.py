"""The measurement beyond an edge of a space: how far it goes, and what its steps hold."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from repro.bench.runnable import Candidate
from repro.errors import ReproError
from repro.sparse.compound.variants import VariantId
from repro.tuning import edges
from repro.tuning.edges import Refused, Winner, measure_edges

NUMBERS = {"n_t": "schedule.block_size"}


class Kernel(Candidate):
    kind, space, packing, group, identity = "variant", "extended", None, None, "built"

    def __init__(self, id: VariantId) -> None:
        self.id, self.name = id, str(id)


def name_of(threads: int) -> str:
    return f"CSR-AoS-AoS/static-{threads}-2"


def steps(
    monkeypatch: pytest.MonkeyPatch, times: dict[int, float], edge: str = "most", most: int = 1024
) -> dict[str, Any]:
    """Return the steps for a winner of 128 threads, by the milliseconds of each number; no kernel exceeds `most`."""
    winner = Winner("tuned_joint", "graph", name_of(128), "part", "double", "n_t", 128.0, edge)
    monkeypatch.setattr(edges, "winners_on_edges", lambda session, numbers: [("h200", winner)])

    def variant(id: VariantId) -> Kernel:
        if id.schedule.block_size > most:
            raise ReproError("too many threads")
        return Kernel(id)

    def screened(candidates: list[Candidate], step: str) -> list[SimpleNamespace]:
        assert step == "edges"
        return [
            SimpleNamespace(name=each.name, status="unsupported", screened_by=None)
            if isinstance(each, Refused)
            else SimpleNamespace(name=each.name, status="ok", screened_by=times[each.id.schedule.block_size])
            for each in candidates
        ]

    session: Any = SimpleNamespace(
        jobs=2, bench=SimpleNamespace(workspace=SimpleNamespace(device_lent=nullcontext)),
        screen_candidates=screened, time_in_rounds=lambda timed: [candidate.name for candidate in timed],
    )  # fmt: skip
    return dict(measure_edges(session, NUMBERS, VariantId, variant))


@pytest.mark.parametrize(
    ("times", "edge", "tried"),
    [
        ({128: 8.0, 256: 9.0, 512: 7.0, 1024: 7.5}, "most", [128, 256, 512, 1024]),
        ({128: 8.0, 256: 9.0, 512: 9.5}, "most", [128, 256, 512]),
        ({128: 8.0, 64: 7.0, 32: 6.0, 16: 5.0, 8: 4.0, 4: 3.0}, "least", [128, 64, 32, 16, 8, 4]),
    ],
)
def test_at_least_two_numbers_beyond_are_timed_and_more_while_the_time_falls(
    monkeypatch: pytest.MonkeyPatch, times: dict[int, float], edge: str, tried: list[int]
) -> None:
    names = [name_of(threads) for threads in tried]
    done = steps(monkeypatch, times, edge)
    assert [row.name for row in done["search"]] == done["report"] == names
    assert done["baseline"] == []
    [choice] = done["choices"]
    assert (choice.clock, choice.tuning, choice.name) == ("graph", f"h200/tuned_joint/n_t/{edge}", names[0])


def test_a_refused_kernel_ends_the_line_and_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    done = steps(monkeypatch, {128: 8.0, 256: 7.0}, most=256)
    assert [row.name for row in done["search"]] == [name_of(threads) for threads in (128, 256, 512)]
    assert done["report"] == [name_of(128), name_of(256)]
