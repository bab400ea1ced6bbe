"""Small matrices and batches of whole numbers, and checks of matrices after insertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro import DynamicCSR
from support.matrices import Entries, batch_of, of_whole_numbers

DEVICE = "opencl:0"


def drawn(rows: int = 40, columns: int = 30, dtype: DTypeLike = np.float64, seed: int = 1) -> sp.csr_array:
    """Return a matrix of whole numbers, whose sums are exact in both precisions."""
    return of_whole_numbers(rows, columns, 0.1, dtype, seed)


def batch(shape: tuple[int, int], count: int = 50, seed: int = 2) -> Entries:
    """Return rows, columns and values of some entries."""
    return batch_of(shape, count, seed)


def plus(
    matrix: sp.csr_array, rows: NDArray[np.integer[Any]], columns: NDArray[np.integer[Any]], values: NDArray[Any]
) -> sp.csr_array:
    """Return a matrix with further entries; those at an occupied place are added to it."""
    return sp.csr_array(matrix + sp.coo_array((values, (rows, columns)), shape=matrix.shape))


def assert_same(A: DynamicCSR, expected: sp.csr_array) -> None:
    """Expect SciPy's entries, and its product for arrays of the host."""
    matrix, expected = A.to_scipy(), sp.csr_array(expected)
    expected.sum_duplicates()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(expected, name))
    x = np.arange(1, A.shape[1] + 1, dtype=A.dtype)
    np.testing.assert_allclose(A @ x, expected @ x, rtol=1e-5 if A.dtype == np.float32 else 1e-13)
