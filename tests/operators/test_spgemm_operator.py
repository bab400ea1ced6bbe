"""The product of two sparse matrices, as a user asks for it."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.matrices import keys_of, random

DEVICE = "opencl:0"


def assert_close(c, expected, dtype=np.float64):
    assert c.dtype == dtype and c.shape == expected.shape
    expected = sp.csr_array(expected, dtype=np.float64)
    right = np.zeros(c.nnz)
    c.sort_indices()
    right[np.searchsorted(keys_of(c), keys_of(expected))] = expected.data
    np.testing.assert_allclose(c.data, right, rtol=50 * np.finfo(dtype).eps, atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.bsr_array])
def test_matrices_of_any_format(kind):
    a, b = random(40, 60, 0.1), random(60, 30, 0.2)
    assert_close(repro.spgemm(kind(a), kind(b), DEVICE), a @ b)


def test_the_precision_is_that_of_both_or_double():
    a, b = random(20, 20, 0.2), random(20, 20, 0.2, 2)
    single = [sp.csr_array(matrix, dtype=np.float32) for matrix in (a, b)]
    assert_close(repro.spgemm(*single, DEVICE), a @ b, np.float32)
    assert_close(repro.spgemm(single[0], b, DEVICE), single[0] @ b)
    whole = sp.csr_array(np.array([[1, 2], [0, 3]]))
    assert repro.spgemm(whole, whole, DEVICE).toarray().tolist() == [[1.0, 8.0], [0.0, 9.0]]


def test_entries_of_one_place_are_added_up_and_the_operands_stay_as_they_are():
    twice = sp.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), (2, 2)).tocsr()
    stored = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), (2, 2))
    before = stored.nnz
    assert (repro.spgemm(stored, stored, DEVICE).toarray() == (twice @ twice).toarray()).all()
    assert stored.nnz == before


def test_the_order_of_columns_is_said():
    a = random(50, 50, 0.2)
    c = repro.spgemm(a, a, DEVICE)
    assert not c.has_sorted_indices
    c.sort_indices()
    assert c.has_sorted_indices and (np.diff(c.indptr) == np.diff((abs(a) @ abs(a)).indptr)).all()


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.eye(2), sp.csr_array(np.eye(2)), "not a sparse matrix"),
        (sp.csr_array(np.eye(2)), sp.csr_array(1j * np.eye(2)), "not real"),
        (sp.csr_array((2, 3)), sp.csr_array((2, 3)), "cannot be multiplied"),
    ],
)
def test_what_cannot_be_multiplied_is_refused(a, b, message):
    with pytest.raises(ReproError, match=message):
        repro.spgemm(a, b, DEVICE)


def test_a_damaged_matrix_is_refused():
    damaged = sp.csr_array(np.eye(3))
    damaged.indices = np.array([0, 1, 9], np.int32)
    with pytest.raises(ReproError, match="damaged"):
        repro.spgemm(damaged, damaged, DEVICE)


def test_sums_that_are_too_large_are_refused():
    large = sp.csr_array(np.full((2, 2), 3e38, np.float32))
    with pytest.raises(ReproError, match=r"out of range for float32\n.*row 0, column \d, the first of 4[\s\S]*float64"):
        repro.spgemm(large, large, device=DEVICE)
    assert np.isfinite(repro.spgemm(large, large.astype(np.float64), device=DEVICE).data).all()
    infinite = sp.csr_array(np.array([[np.inf, 0], [0, 1]], np.float32))
    assert np.isinf(repro.spgemm(infinite, infinite, device=DEVICE)[0, 0])
