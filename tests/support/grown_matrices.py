"""Small matrices and batches for them, of whole numbers, and what a matrix that grew is held to."""

import numpy as np
import scipy.sparse as sp

from support.matrices import batch_of, of_whole_numbers

DEVICE = "opencl:0"


def drawn(rows=40, columns=30, dtype=np.float64, seed=1):
    """A matrix of whole numbers, whose sums are exact in either precision."""
    return of_whole_numbers(rows, columns, 0.1, dtype, seed)


def batch(shape, count=50, seed=2):
    """Rows, columns and values of some entries."""
    return batch_of(shape, count, seed)


def plus(matrix, rows, columns, values):
    """A matrix with further entries, as they are added up."""
    return sp.csr_array(matrix + sp.coo_array((values, (rows, columns)), shape=matrix.shape))


def assert_same(A, expected):
    """Expect SciPy's entries, and its product for arrays of the host."""
    matrix, expected = A.to_scipy(), sp.csr_array(expected)
    expected.sum_duplicates()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(expected, name))
    x = np.arange(1, A.shape[1] + 1, dtype=A.dtype)
    np.testing.assert_allclose(A @ x, expected @ x, rtol=1e-5 if A.dtype == np.float32 else 1e-13)
