"""Statistics of a pattern."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from repro.problems.problem import describe_pattern


def test_by_hand() -> None:
    # rows: columns 0 2 3 | none | 2 | 0 1 2 3
    found = describe_pattern(np.array([0, 3, 3, 4, 8]), np.array([0, 2, 3, 2, 0, 1, 2, 3]))
    assert (found["rows"], found["nonzeros"], found["empty_rows"]) == (4, 8, 1)
    assert found["row_length"] == {"min": 0, "q1": 0.75, "median": 2, "q3": 3.25, "max": 4, "mean": 2}
    assert found["bandwidth_percent"] == {"min": 0, "q1": 0, "median": 37.5, "q3": 75, "max": 75, "mean": 37.5}
    assert found["ell_factor"] == 4 * 4 / 8
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("seed", range(5))
def test_bandwidth_row_by_row(seed: int) -> None:
    matrix = sp.random_array((40, 40), density=0.05, rng=np.random.default_rng(seed), format="csr")
    matrix.sort_indices()
    rows = [matrix.indices[a:b] for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)]
    spans = [100 * (row.max() - row.min()) / 40 if len(row) else 0.0 for row in rows]
    found = describe_pattern(matrix.indptr, matrix.indices)
    assert found["bandwidth_percent"]["mean"] == pytest.approx(np.mean(spans))
    assert found["bandwidth_percent"]["q3"] == pytest.approx(np.quantile(spans, 0.75))
    assert found["empty_rows"] == sum(len(row) == 0 for row in rows)


def test_empty_matrices() -> None:
    assert describe_pattern(np.zeros(1, int), np.zeros(0, int))["rows"] == 0
    found = describe_pattern(np.zeros(4, int), np.zeros(0, int))
    assert (found["rows"], found["empty_rows"], found["ell_factor"]) == (3, 3, 0.0)


def test_a_rectangular_matrix_has_its_bandwidth_in_percent_of_the_columns() -> None:
    # rows: columns 0 7 | none | 2 3
    indptr, indices = np.array([0, 2, 2, 4]), np.array([0, 7, 2, 3])
    described = describe_pattern(indptr, indices, 10)
    assert described["bandwidth_percent"]["max"] == 70
    assert (described["rows"], described["ell_factor"]) == (3, 6 / 4)
    assert describe_pattern(np.zeros(4, int), np.zeros(0, int), 0)["bandwidth_percent"]["max"] == 0


def test_a_full_row_of_a_large_matrix_does_not_overflow() -> None:
    n = 100_000
    indptr = np.concatenate([[0], np.full(n, n)]).astype(np.int32)
    assert describe_pattern(indptr, np.arange(n, dtype=np.int32))["ell_factor"] == n
