"""Matrices that the tests of dynamic CSR start from, and how they are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix without entries that are there twice."""
    summed = sp.csr_array(matrix, copy=True)
    summed.sum_duplicates()
    return summed


def assert_equal(matrix: sp.csr_array, expected: sp.csr_array) -> None:
    """Expect the same entries, those of one place summed up; zeros are entries."""
    actual, expected = canonical(matrix), canonical(expected)
    np.testing.assert_array_equal(actual.indptr, expected.indptr)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_allclose(actual.data, expected.data, rtol=1e-12, atol=1e-12)


def random_matrix(rows: int, columns: int, density: float = 0.1, seed: int = 1) -> sp.csr_array:
    return sp.csr_array(sp.random(rows, columns, density, format="csr", random_state=seed))


def plus(
    matrix: sp.csr_array, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]], values: NDArray[Any]
) -> sp.csr_array:
    """Return a matrix with further entries, as they are added up."""
    return canonical(sp.csr_array(sp.coo_array((values, (rows, columns)), shape=matrix.shape)) + matrix)
