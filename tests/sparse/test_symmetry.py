"""What a matrix is: Hermitian, complex symmetric, symmetric, or none of these, and then where it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.sparse import symmetry
from repro.sparse.symmetry import HERMITIAN, NOT_SYMMETRIC, SYMMETRIC, adjoint_factors, symmetry_of
from support.symmetric_problems import KINDS, symmetric_problem


def rows_of(problem: Matrix) -> np.ndarray:
    return np.repeat(np.arange(problem.n), problem.row_lengths)


def lower_from_upper(problem: Matrix, across: Callable[[np.ndarray], np.ndarray]) -> Matrix:
    """The same pattern with each entry below the diagonal made of the one across from it; the diagonal stays."""
    rows, values = rows_of(problem), problem.values.copy()
    where = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(rows, problem.indices, strict=True))}
    below = np.flatnonzero(rows > problem.indices)
    values[below] = across(values[[where[int(problem.indices[k]), int(rows[k])] for k in below]])
    return replace(problem, values=values)


@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_each_kind_is_told(entry: str, kind: str) -> None:
    problem = symmetric_problem(entry, kind)
    assert symmetry_of(problem, problem.values).kind == kind


@pytest.mark.parametrize(
    ("entry", "kind", "across", "expected"),
    [
        ("complex", HERMITIAN, lambda v: v * [1, -1], HERMITIAN),
        ("complex", SYMMETRIC, lambda v: v, SYMMETRIC),
        ("complex", HERMITIAN, lambda v: -v, ""),  # skew
        ("complex", HERMITIAN, lambda v: v * [-1, 1], ""),  # skew-Hermitian
        ("quaternion", HERMITIAN, lambda v: v * [1, -1, -1, -1], HERMITIAN),
        ("quaternion", HERMITIAN, lambda v: v, ""),  # equal, but its real expansion is not symmetric
        ("quaternion", HERMITIAN, lambda v: v * [1, 1, -1, -1], ""),
        ("block3", SYMMETRIC, lambda v: v.reshape(-1, 3, 3).transpose(0, 2, 1).reshape(-1, 9), SYMMETRIC),
        ("block3", SYMMETRIC, lambda v: v, ""),  # block by block, but blocks are not transposed
        ("real", SYMMETRIC, lambda v: v, SYMMETRIC),
        ("real", SYMMETRIC, lambda v: -v, ""),
    ],
)
def test_what_stands_across_decides(
    entry: str, kind: str, across: Callable[[np.ndarray], np.ndarray], expected: str
) -> None:
    problem = lower_from_upper(symmetric_problem(entry, kind), across)
    found = symmetry_of(problem, problem.values)
    assert found.kind == expected
    assert found.why.startswith(NOT_SYMMETRIC) is not bool(expected)


@pytest.mark.parametrize(("entry", "kind"), [("complex", HERMITIAN), ("quaternion", HERMITIAN), ("block3", SYMMETRIC)])
def test_the_diagonal_has_to_be_its_own_adjoint(entry: str, kind: str) -> None:
    """An imaginary part on the diagonal, or a block there that is not symmetric, is none; and it is named."""
    problem = symmetric_problem(entry, kind)
    values = problem.values.copy()
    which = int(np.flatnonzero(rows_of(problem) == problem.indices)[3])
    values[which, 1] = values[which, 1] + 1
    found = symmetry_of(problem, values)
    row = int(rows_of(problem)[which])
    assert found.kind == "" and f"row {row}, column {row}," in found.why


def test_a_complex_symmetric_matrix_may_have_any_diagonal() -> None:
    problem = symmetric_problem("complex", SYMMETRIC)
    diagonal = rows_of(problem) == problem.indices
    assert (problem.values[diagonal, 1] != 0).all()
    assert symmetry_of(problem, problem.values).kind == SYMMETRIC


@pytest.mark.parametrize("kind", [HERMITIAN, SYMMETRIC])
def test_a_missing_diagonal_is_no_matter(kind: str) -> None:
    problem = symmetric_problem("complex", kind, diagonal=False)
    assert not (rows_of(problem) == problem.indices).any()
    assert symmetry_of(problem, problem.values).kind == kind


@pytest.mark.parametrize("at_once", [1, 7, 100])
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_entries_are_compared_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, entry: str, kind: str, at_once: int
) -> None:
    """The first that differs is named, wherever it is, as if all were compared at once."""
    problem = symmetric_problem(entry, kind, 60)
    rows = rows_of(problem)
    last = int(np.flatnonzero(rows > problem.indices)[-1])
    values = problem.values.copy()
    values[last, 0] += 1
    whole, changed = symmetry_of(problem, problem.values), symmetry_of(problem, values)
    row, column = int(problem.indices[last]), int(rows[last])  # above the diagonal, so that it comes first
    assert changed.kind == "" and f"row {row}, column {column}," in changed.why
    monkeypatch.setattr(symmetry, "AT_ONCE", at_once)
    assert (symmetry_of(problem, problem.values), symmetry_of(problem, values)) == (whole, changed)


@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_the_transposed_entry_is_that_of_the_real_expansion(entry: str, kind: str) -> None:
    values = np.random.default_rng(0).normal(size=(5, len(get_entry(entry).members)))
    expanded = get_entry(entry).expand(values @ adjoint_factors(entry))
    np.testing.assert_array_equal(expanded, get_entry(entry).expand(values).transpose(0, 2, 1))
