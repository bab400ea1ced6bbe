"""The order that clustered layouts store rows in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from repro.problems.generators import generate
from repro.problems.matrix import Matrix
from repro.sparse.ordering import CLUSTER, cluster_rows, long_rows, reorder


def stored_rows(name: str, rows: list[list[int]]) -> Matrix:
    """Return a real matrix with ones in the given columns of each row."""
    indices = np.array([column for row in rows for column in sorted(row)], np.int32)
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return Matrix(name, "real", len(rows), indptr, indices, np.ones((len(indices), 1)))


def star(n: int) -> Matrix:
    return stored_rows("star", [list(range(n)), *([0, row] for row in range(1, n))])


MATRICES = {
    "one row": stored_rows("one row", [[0]]),
    "no entries": stored_rows("no entries", [[]] * 200),
    "diagonal": stored_rows("diagonal", [[row] for row in range(1000)]),
    "one half stored": stored_rows("one half", [[row, min(row + 1, 499)][: 1 + (row < 499)] for row in range(500)]),
    "a hub": star(1000),
    "a hub that is not long": star(100),
    "all rows long": stored_rows("dense", [list(range(300))] * 300),
}


@pytest.mark.parametrize("name", MATRICES)
def test_each_row_comes_once_and_always_at_the_same_place(name: str) -> None:
    order = cluster_rows(MATRICES[name])
    np.testing.assert_array_equal(np.sort(order), np.arange(MATRICES[name].n))
    np.testing.assert_array_equal(cluster_rows(MATRICES[name]), order)


def box() -> Matrix:
    made = generate("elasticity_box", cells=(12, 12, 30))
    problem = Matrix("box", "block3", made.n, made.indptr, made.indices, made.values)
    return reorder(problem, np.random.default_rng(5).permutation(problem.n))


def foreign_columns(problem: Matrix, rows: np.ndarray) -> float:
    """Return how many columns outside its own rows a cluster reads, each once, over all rows."""
    cluster = np.empty(problem.n, np.int64)
    cluster[rows] = np.arange(problem.n) // CLUSTER
    reading = np.repeat(cluster, problem.row_lengths)
    outside = reading != cluster[problem.indices]
    return len(np.unique(reading[outside] * problem.n + problem.indices[outside])) / problem.n


def test_clusters_read_few_columns_of_others() -> None:
    """1.5 a row, where parts cut in the middle of their Cuthill-McKee order read 2.3 and the rows as they are 11.5."""
    problem = box()
    assert foreign_columns(problem, cluster_rows(problem)) < 1.7


def test_rows_of_a_cluster_are_sorted_by_length_and_long_ones_come_last() -> None:
    problem = box()
    hubs = [7, 300, 2001]
    rows = [list(problem.indices[a:b]) for a, b in zip(problem.indptr, problem.indptr[1:], strict=False)]
    for count, hub in enumerate(hubs):
        rows[hub] = list(range(700 + count))
    with_hubs = replace(stored_rows("hubs", rows), name="hubs")
    assert list(np.flatnonzero(long_rows(with_hubs))) == hubs
    order = cluster_rows(with_hubs)
    lengths = with_hubs.row_lengths[order]
    assert list(order[-3:]) == hubs[::-1]
    for first in range(0, len(order) - 3, CLUSTER):
        assert (np.diff(lengths[first : min(first + CLUSTER, len(order) - 3)]) <= 0).all()


def test_long_rows_do_not_bring_all_rows_together() -> None:
    """The clusters of the other rows are as good as without them."""
    problem = box()
    rows = [list(problem.indices[a:b]) for a, b in zip(problem.indptr, problem.indptr[1:], strict=False)]
    rows[100] = list(range(problem.n))
    with_hub = stored_rows("hub", rows)
    order = cluster_rows(with_hub)
    assert foreign_columns(problem, order) < 1.05 * foreign_columns(problem, cluster_rows(problem))
