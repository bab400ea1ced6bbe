"""Matrices to multiply, and what a product has to be."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from repro.problems.generators import assemble_diffusion
from repro.sparse.dynamic.host_layout import insert, lay_out
from repro.sparse.spgemm.kernels import LIMITS


def poisson(points, stencil):
    assembled = assemble_diffusion(points, stencil)
    n = len(assembled.indptr) - 1
    return sp.csr_array((assembled.values[:, 0], assembled.indices, assembled.indptr), shape=(n, n))


PROBLEMS = {"5": ((40, 40), 5), "9": ((40, 40), 9), "7": ((12, 12, 12), 7), "27": ((12, 12, 12), 27)}


def random(rows, columns, density, seed=1):
    return sp.csr_array(sp.random(rows, columns, density, format="csr", random_state=seed))


def to_csr(storage):
    """Return a matrix on a device as SciPy has it, columns in order."""
    matrix = storage.download().to_csr()
    matrix.sort_indices()
    return matrix


def reference(a, b):
    """Return the product and, entry by entry, the sum of the sizes of all its terms: what cancels stays an entry."""
    pattern = abs(a) @ abs(b)
    pattern.sort_indices()
    return a @ b, pattern


def keys_of(matrix):
    """Return a number for each place, ascending."""
    matrix.sort_indices()
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * matrix.shape[1] + matrix.indices


def assert_product(storage, a, b, dtype=np.float64, in_order=False):
    assert_csr_product(storage.download().to_csr(), a, b, dtype, in_order)


def assert_csr_product(c, a, b, dtype=np.float64, in_order=False):
    ends = np.zeros(c.nnz + 1, bool)
    ends[c.indptr] = True
    if in_order:
        assert (np.diff(c.indices)[~ends[1:-1]] > 0).all()
    c.sort_indices()
    assert (np.diff(c.indices)[~ends[1:-1]] > 0).all()  # none twice
    expected, sizes = reference(a, b)
    np.testing.assert_array_equal(c.indptr, sizes.indptr)
    np.testing.assert_array_equal(c.indices, sizes.indices)
    terms = np.diff(a.indptr).max(initial=1) + 2
    right = np.zeros(sizes.nnz)
    right[np.searchsorted(keys_of(sizes), keys_of(expected))] = expected.data  # which lacks what cancels
    assert (abs(c.data - right) <= terms * np.finfo(dtype).eps * sizes.data).all()


def of_sizes(sizes, columns, seed=1):
    """Return a matrix whose rows have so many entries."""
    generator = np.random.default_rng(seed)
    indices = np.concatenate([[], *(np.sort(generator.choice(columns, size, replace=False)) for size in sizes)])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_array(
        (generator.uniform(0.5, 1.5, len(indices)), indices.astype(np.int32), indptr), (len(sizes), columns)
    )


def around_edges():
    """Return factors whose rows of C have a product fewer than each bin's limit, as many, and one more."""
    limits = [limit for limit in LIMITS if limit <= 2048]
    sizes = sorted({limit + more for limit in limits for more in (-1, 0, 1)})
    # row i of A meets the one row of B of sizes[i] entries
    b = of_sizes(sizes, 2200)
    return sp.csr_array(sp.eye_array(len(sizes))), b


def fragmented(matrix, pieces):
    """Return a matrix on the host whose rows lie in several segments, the last of which has room."""
    order = np.random.default_rng(5).permutation(matrix.nnz)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    arrays = lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), 4, 4 * matrix.nnz + 100)
    for part in np.array_split(order, pieces):
        arrays, left = insert(arrays, rows[part], matrix.indices[part], matrix.data[part], slack=1)
        assert not left.any()
    return arrays


def doubled(matrix):
    """Return a matrix that has every entry twice."""
    return sp.csr_array((np.repeat(matrix.data, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr), matrix.shape)
