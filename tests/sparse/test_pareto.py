"""The Pareto front and the choice along it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from repro.bench.rows import Row
from repro.sparse.tuning_features import choose_by_memory, least_weighted_cost, pareto_front

PAIRS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30)


def arrays(pairs):
    return np.array(pairs, dtype=float).T


@given(PAIRS)
def test_the_front_is_what_nothing_beats(pairs):
    seconds, sizes = arrays(pairs)
    found = pareto_front(seconds, sizes)
    unbeaten = {(t, m) for t, m in pairs
                if not any(u <= t and n <= m and (u, n) != (t, m) for u, n in pairs)}  # fmt: skip
    assert {(seconds[i], sizes[i]) for i in found} == unbeaten
    assert len(found) == len(unbeaten)  # one of equals
    assert np.all(np.diff(sizes[found]) > 0) and np.all(np.diff(seconds[found]) < 0)


@given(PAIRS, st.floats(0.01, 5))
def test_the_choice_is_on_the_front(pairs, weight):
    seconds, sizes = arrays(pairs)
    best = least_weighted_cost(seconds, sizes, weight)
    assert (seconds[best], sizes[best]) in {(seconds[i], sizes[i]) for i in pareto_front(seconds, sizes)}


def test_the_weight_moves_along_the_front():
    seconds, sizes = np.array([1.0, 1.1, 2.0]), np.array([4.0, 2.0, 1.9])
    assert [least_weighted_cost(seconds, sizes, weight) for weight in (0, 0.1, 0.2, 5, 50)] == [0, 0, 1, 1, 2]


def row(name, seconds, size, **columns):
    return Row.from_dict({
        "key": name, "study": "s", "problem": "p", "precision": "single", "kind": "variant", "name": name,
        "status": "ok", "event_median": seconds, "graph_median": seconds, "matrix_bytes": size, "ordering": "natural",
        **columns,
    })  # fmt: skip


def test_rows_are_chosen_by_memory_only_when_asked():
    rows = [
        row("CSR-AoS-AoS/static-64-1", 1.2, 100),
        row("Sl-32-AoS-AoS/static-64-1", 1.0, 150, graph_median=0.5),
        row("ELL-AoS-AoS/static-64-1", 0.9, 100, protocol="screen"),
        row("CSR-AoS-SoA/static-64-1", 0.9, 100, status="incorrect", event_median=None, graph_median=None),
        row("CSR-AoS-AoS@rcm/static-64-1", 0.5, 100, ordering="rcm"),
        row("CSR-AoS-AoS@clustered/static-64-1", 1.1, 100, graph_median=1.1),
        row("cusparse/csr", 0.1, 1, kind="baseline"),
    ]
    assert choose_by_memory(rows, 0.0) == []
    answers = {choice.clock: (choice.tuning, choice.name) for choice in choose_by_memory(rows, 1.0)}
    assert answers == {
        "event": ("memory", "CSR-AoS-AoS@clustered/static-64-1"),
        "graph": ("memory", "Sl-32-AoS-AoS/static-64-1"),
    }
    assert [choice.name for choice in choose_by_memory(rows[2:3], 1.0)] == ["ELL-AoS-AoS/static-64-1"] * 2
