"""Matrices that the tests of dynamic CSR start from, and how they are compared."""

import numpy as np
import scipy.sparse as sp


def canonical(matrix):
    """Return a matrix without entries that are there twice."""
    summed = sp.csr_array(matrix, copy=True)
    summed.sum_duplicates()
    return summed


def assert_equal(matrix, expected):
    """Expect the same entries, those of one place summed up; zeros are entries."""
    actual, expected = canonical(matrix), canonical(expected)
    np.testing.assert_array_equal(actual.indptr, expected.indptr)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_allclose(actual.data, expected.data, rtol=1e-12, atol=1e-12)


def random_matrix(rows, columns, density=0.1, seed=1):
    return sp.csr_array(sp.random(rows, columns, density, format="csr", random_state=seed))


def plus(matrix, rows, columns, values):
    """Return a matrix with further entries, as they are added up."""
    return canonical(sp.csr_array(sp.coo_array((values, (rows, columns)), shape=matrix.shape)) + matrix)
