"""The operands of a growing matrix: what grows, what the product must be, and what a rebuilt matrix must be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import IncorrectError, ReproError
from repro.problems.matrix import Updates
from repro.studies.dynamic_csr.operands import GraphOperands, MatrixRunnable, make_operands
from support.growing_matrices import around_limits, growing


class Left(MatrixRunnable):
    """Leaves whatever it is given."""

    kind = name = "left"

    def __init__(self, matrix, leaves="grown", sums=False):
        self.matrix, self.leaves, self.sums = matrix, leaves, sums
        self.launch = self.before

    def result(self):
        return self.matrix


def shuffled(matrix, seed=2):
    """Return a matrix with the columns of each row in any order."""
    random = np.random.default_rng(seed)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((random.permutation(matrix.nnz), rows))
    return sp.csr_array((matrix.data[order], matrix.indices[order], matrix.indptr), shape=matrix.shape)


@pytest.fixture(params=["single", "double"])
def operands(request) -> GraphOperands:
    return make_operands(around_limits(added=900), request.param, 1)


def test_rows_have_their_own_entries_first_then_those_of_the_batches_in_order():
    problem = Updates(
        "order", 3, np.array([0, 2, 2, 3], np.int32), np.array([0, 3, 1], np.int32), np.array([[1.0], [2], [3]]),
        np.array([0, 2, 4]), np.array([2, 0, 1, 2], np.int32), np.array([1, 3, 0, 0], np.int32),
        np.array([10.0, 20, 30, 40]), 4,
    ).validate()  # fmt: skip
    operands = make_operands(problem, "double", 1)
    assert operands.grown.indptr.tolist() == [0, 3, 4, 7]
    assert operands.grown.indices.tolist() == [0, 3, 3, 0, 1, 1, 0]
    assert operands.grown.data.tolist() == [1, 2, 20, 30, 3, 10, 40]
    assert operands.x.shape == (4,)
    exact = np.array([[1, 0, 0, 22], [30, 0, 0, 0], [40, 13, 0, 0]]) @ operands.x
    np.testing.assert_allclose(operands.reference, exact, rtol=1e-15)
    assert operands.operations == 14
    assert operands.min_bytes == (7 * 12 + 4 * 4 + 4 * 8, 3 * 8)
    assert operands.summed.indices.tolist() == [0, 3, 0, 0, 1]
    assert operands.summed.data.tolist() == [1, 22, 30, 40, 13]


def test_without_batches_nothing_is_copied():
    operands = make_operands(growing([3, 0, 4], 9, 0), "double", 1)
    assert operands.grown is operands.base
    assert operands.summed is operands.base
    assert np.shares_memory(operands.base.data, operands.problem.values)
    assert np.shares_memory(operands.product.problem.values, operands.problem.values)


def test_the_checksum_is_that_of_problem_and_seed():
    problem = growing([3, 0, 4], 9, 5)
    checksums = {make_operands(problem, "double", seed).checksum for seed in (1, 2)}
    assert len({*checksums, make_operands(growing([3, 0, 4], 9, 6), "double", 1).checksum}) == 3


@pytest.mark.parametrize(("precision", "value"), [("single", 1e39), ("single", 3e38), ("double", 1e308)])
def test_what_is_beyond_the_precision_is_refused(precision, value):
    problem = growing([5, 5], 9, 0)
    problem.values[:] = value
    with pytest.raises(ReproError, match=r"too large|out of range"):
        make_operands(problem, precision, 1)


@pytest.mark.parametrize("where", ["values", "batch_values"])
def test_what_single_precision_leaves_nothing_of_is_refused(where):
    problem = growing([5, 5], 9, 6)
    values = getattr(problem, where)
    values[:] = 1e-60
    with pytest.raises(ReproError, match=r"too small for single precision[\s\S]*rows have smaller ones alone"):
        make_operands(problem, "single", 1)
    assert make_operands(problem, "double", 1).base.dtype == np.float64


def test_a_matrix_that_is_left_may_have_its_rows_in_any_order(operands):
    assert operands.check(Left(shuffled(operands.grown)), None) <= 1
    assert operands.check(Left(shuffled(operands.base), "base"), None) == 0
    assert operands.check(Left(operands.summed, sums=True), None) <= 1
    assert operands.check(Left(None), None) is None


def test_sums_are_as_exact_as_the_precision(operands):
    summed = operands.summed.copy()
    wanted = operands.expected("grown").canonical
    twice = int(np.flatnonzero(wanted.terms > 1)[0])
    eps = float(np.finfo(summed.dtype).eps)
    summed.data[twice] += 2 * eps * wanted.sizes_of_terms[twice]
    assert 0 < operands.check(Left(summed, sums=True), None) <= 1
    summed.data[twice] += 4 * eps * wanted.sizes_of_terms[twice]
    with pytest.raises(IncorrectError, match="1 of") as wrong:
        operands.check(Left(summed, sums=True), None)
    assert wrong.value.error > 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda grown: grown[:, :-1], "the matrix is"),
        (lambda grown: _scaled(_without_the_last(grown), 1), "1 rows have too few or too many entries"),
        (lambda grown: _scaled(_moved(grown), 1), "1 of [0-9]+ entries are in other columns"),
        (lambda grown: _scaled(grown, np.nan), "1 of [0-9]+ values are wrong"),
        (lambda grown: _scaled(grown, 1.001), "1 of [0-9]+ values are wrong"),
    ],
)
def test_a_wrong_matrix_is_found(operands, change, message):
    with pytest.raises(IncorrectError, match=message):
        operands.check(Left(change(operands.grown)), None)


def test_the_matrix_with_one_batch_is_that_of_its_number_whatever_was_checked_before(operands):
    assert operands.problem.batches > 1
    of_batches = [operands.with_batch(i) for i in (0, 1)]
    for right in (0, 1, 0):
        assert operands.check(Left(of_batches[right], right), None) == 0
        assert operands.check(Left(shuffled(of_batches[right]), right), None) <= 1
        with pytest.raises(IncorrectError):
            operands.check(Left(of_batches[1 - right], right), None)
        with pytest.raises(IncorrectError, match=r"1 of [0-9]+ values are wrong"):
            operands.check(Left(_scaled(of_batches[right], 1.001), right), None)
        with pytest.raises(IncorrectError, match=r"1 of [0-9]+ values are wrong"):
            operands.check(Left(_scaled(of_batches[right], np.nan), right), None)
    assert operands.check(Left(operands.base, "base"), None) == operands.check(Left(operands.grown), None) == 0


def test_of_the_matrices_with_one_batch_that_of_the_latest_number_is_kept(operands):
    first = operands.expected(0)
    assert operands.expected(0) is first
    grown = operands.expected("grown")
    operands.expected(1)
    assert operands.expected(0) is not first
    assert operands.expected("grown") is grown


def test_sums_are_compared_entry_for_entry_only_where_no_place_comes_twice():
    operands = make_operands(growing([3, 0, 4], 9, 0), "double", 1)
    assert operands.check(Left(operands.grown, sums=True), None) == 0
    with pytest.raises(IncorrectError, match="1 of 7 values"):
        changed = operands.grown.copy()
        changed.data[2] *= 2
        operands.check(Left(changed, sums=True), None)


@pytest.mark.wording
def test_places_that_were_not_summed_up_are_found(operands):
    with pytest.raises(IncorrectError, match="too few or too many"):
        operands.check(Left(operands.grown, sums=True), None)
    with pytest.raises(IncorrectError, match="too few or too many"):
        operands.check(Left(operands.summed), None)


def _without_the_last(grown):
    pointers = grown.indptr.copy()
    pointers[np.searchsorted(pointers, grown.nnz) :] -= 1
    return sp.csr_array((grown.data[:-1], grown.indices[:-1], pointers), shape=grown.shape)


def _moved(grown):
    """Return the matrix with the largest column of a row one further."""
    indices = grown.indices.copy()
    begin, end = grown.indptr[5:7]
    assert end > begin
    at = begin + int(np.argmax(indices[begin:end]))
    indices[at] += 1
    return sp.csr_array((grown.data, indices, grown.indptr), shape=grown.shape)


def _scaled(grown, factor):
    values = grown.data.copy()
    values[100] *= factor
    return sp.csr_array((values, grown.indices, grown.indptr), shape=grown.shape)
