"""Small matrices and batches for them, of whole numbers, and what a matrix that grew is held to."""

import numpy as np
import scipy.sparse as sp

DEVICE = "opencl:0"


def drawn(rows=40, columns=30, dtype=np.float64, seed=1):
    """A matrix of whole numbers, whose sums are exact in either precision."""
    random = np.random.default_rng(seed)
    matrix = sp.random_array((rows, columns), density=0.1, rng=random, format="csr", dtype=dtype)
    matrix.data[:] = random.integers(1, 9, matrix.nnz)
    return matrix


def batch(shape, count=50, seed=2):
    """Rows, columns and values of some entries."""
    random = np.random.default_rng(seed)
    return (
        random.integers(0, shape[0], count),
        random.integers(0, shape[1], count),
        random.integers(1, 9, count).astype(float),
    )


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
