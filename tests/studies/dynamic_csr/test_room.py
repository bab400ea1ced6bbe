"""The room that growing takes: the simulation against the host's model of a matrix that grows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from repro.problems.matrix import Updates
from repro.sparse.dynamic.host_layout import insert, lay_out
from repro.studies.dynamic_csr.facts import (
    CAPACITY_SEGMENTS,
    SLACK_MULTIPLES,
    Capacity,
    batch_rows,
    capacities,
    facts,
    simulate_growth,
)


def growing(seed: int, rows: int = 12, sizes: tuple[int, ...] = (6, 20, 0, 1, 40, 9, 15)) -> Updates:
    """A matrix with empty rows and rows that most entries go to."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, rows) * rng.integers(0, 2, rows)
    nonzeros, entries = int(lengths.sum()), sum(sizes)
    skewed = np.minimum(rng.geometric(0.3, entries) - 1, rows - 1)
    return Updates(
        "growing", rows, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        rng.integers(0, 30, nonzeros).astype(np.int32), np.ones((nonzeros, 1)),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), skewed.astype(np.int32),
        rng.integers(0, 30, entries).astype(np.int32), np.ones(entries), 30,
    )  # fmt: skip


def insert_all(problem: Updates, segments: int, slack: int) -> Capacity:
    """Insert the batches one after the other by the model of the layout, in a buffer that is never too small."""
    capacity = 10_000
    base = problem.base
    matrix = sp.csr_array((base.values[:, 0], base.indices, base.indptr), shape=base.shape)
    arrays = lay_out(matrix, segments, capacity)
    rows = np.repeat(np.arange(problem.n), base.row_lengths)
    columns, most, defragmentations = base.indices, arrays.pointer, 0
    for i in range(problem.batches):
        of_batch, in_columns, values = problem.batch(i)
        rows, columns = np.concatenate([rows, of_batch]), np.concatenate([columns, in_columns])
        arrays, left = insert(arrays, of_batch, in_columns, values, slack)
        most = max(most, arrays.pointer)
        if left.any():
            # the room that is made is what the entries left over take
            defragmentations += 1
            order = np.argsort(rows, kind="stable")
            indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=problem.n))])
            grown = sp.csr_array((np.ones(len(rows)), columns[order], indptr), shape=base.shape)
            arrays = lay_out(grown, segments, capacity)
            most = max(most, arrays.pointer)
    return Capacity(defragmentations, most)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slack", [0, 1, 5])
@pytest.mark.parametrize("segments", CAPACITY_SEGMENTS)
def test_the_simulation_counts_as_the_layout_does(seed, slack, segments):
    problem = growing(seed)
    room = simulate_growth(problem.base.row_lengths, batch_rows(problem), segments, slack)
    assert room == insert_all(problem, segments, slack)


def test_facts_have_each_slack_and_number_of_segments():
    problem = growing(1)
    content = facts(problem)
    assert content["batches"] == {"count": 7, "entries": 91, "least": 0, "most": 40}
    rooms = capacities(problem)
    assert content["room"] == rooms
    assert [(room["multiple"], room["segments"]) for room in rooms] == [
        (m, k) for m in SLACK_MULTIPLES for k in CAPACITY_SEGMENTS
    ]
    mean = problem.base.nnz / problem.n
    assert [room["slack"] for room in rooms if room["segments"] == 4] == [int(m * mean) for m in SLACK_MULTIPLES]
    forced = [room["defragmentations"] for room in rooms if room["multiple"] == 0]
    assert forced == sorted(forced, reverse=True)


def test_without_batches_there_is_nothing_to_simulate():
    problem = growing(1, sizes=())
    assert capacities(problem) == []
    assert facts(problem)["batches"] == {"count": 0, "entries": 0, "least": 0, "most": 0}
