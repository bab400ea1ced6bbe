"""Matrices to multiply, and their expected products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro.problems.generators import assemble_diffusion
from repro.problems.matrix import Matrix
from repro.sparse.dynamic.host_layout import Arrays, insert, lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.kernels import LIMITS

#: Rows, columns and values of some entries.
Entries: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def poisson(points: Sequence[int], stencil: int) -> sp.csr_array:
    assembled = assemble_diffusion(points, stencil)
    n = len(assembled.indptr) - 1
    return sp.csr_array((assembled.values[:, 0], assembled.indices, assembled.indptr), shape=(n, n))


PROBLEMS = {"5": ((40, 40), 5), "9": ((40, 40), 9), "7": ((12, 12, 12), 7), "27": ((12, 12, 12), 27)}


def random(rows: int, columns: int, density: float, seed: int = 1) -> sp.csr_array:
    return sp.csr_array(sp.random(rows, columns, density, format="csr", random_state=seed))


def with_values(matrix: sp.csr_array, seed: int, dtype: DTypeLike = np.float64) -> sp.csr_array:
    """Return a matrix with the same pattern and other values."""
    other = sp.csr_array(matrix, dtype=dtype, copy=True)
    other.data[:] = np.random.default_rng(seed).uniform(-1, 1, other.nnz)
    return other


def real_problem(matrix: sp.sparray) -> Matrix:
    """Return a problem with real entries of a matrix."""
    csr = sp.csr_array(matrix, dtype=float)
    offsets, columns = csr.indptr.astype(np.int32), csr.indices.astype(np.int32)
    return Matrix("system", "real", csr.shape[0], offsets, columns, csr.data.reshape(-1, 1))


def convection(points: int = 21, wind: float = 0.7, reaction: float = 0.1) -> Matrix:
    """Return convection and diffusion on a grid, upwind: not symmetric, and diagonally dominant."""
    one = sp.diags_array([-1 - wind, 2 + wind + reaction, -1], offsets=[-1, 0, 1], shape=(points, points))
    eye = sp.eye_array(points)
    return real_problem(sp.kron(one, eye) + sp.kron(eye, one))


def of_whole_numbers(
    rows: int, columns: int, density: float, dtype: DTypeLike = np.float64, seed: int = 1
) -> sp.csr_array:
    """Return a random matrix of whole numbers, whose sums are exact in either precision."""
    numbers = np.random.default_rng(seed)
    matrix = sp.random_array((rows, columns), density=density, rng=numbers, format="csr", dtype=dtype)
    matrix.data[:] = numbers.integers(1, 9, matrix.nnz)
    return matrix


def batch_of(shape: tuple[int, int], count: int, seed: int = 2) -> Entries:
    """Return rows, columns and values of some entries, whole numbers."""
    numbers = np.random.default_rng(seed)
    return (
        numbers.integers(0, shape[0], count),
        numbers.integers(0, shape[1], count),
        numbers.integers(1, 9, count).astype(float),
    )


def draw(count: int, dtype: DTypeLike, seed: int = 1) -> NDArray[Any]:
    """Return a vector of random numbers, complex where `dtype` is."""
    numbers = np.random.default_rng(seed).uniform(-1, 1, (2, count))
    return (numbers[0] + 1j * numbers[1] if np.dtype(dtype).kind == "c" else numbers[0]).astype(dtype)


def to_csr(storage: Storage) -> sp.csr_array:
    """Return a matrix on a device as SciPy has it, columns in order."""
    matrix = storage.download().to_csr()
    matrix.sort_indices()
    return matrix


def reference(a: sp.csr_array, b: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the product and, entry by entry, the sum of the sizes of all its terms: what cancels stays an entry."""
    pattern = abs(a) @ abs(b)
    pattern.sort_indices()
    return a @ b, pattern


def keys_of(matrix: sp.csr_array) -> NDArray[np.integer[Any]]:
    """Return a number for each place, ascending."""
    matrix.sort_indices()
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * matrix.shape[1] + matrix.indices


def assert_product(
    storage: Storage, a: sp.csr_array, b: sp.csr_array, dtype: DTypeLike = np.float64, in_order: bool = False
) -> None:
    assert_csr_product(storage.download().to_csr(), a, b, dtype, in_order)


def assert_csr_product(
    c: sp.csr_array, a: sp.csr_array, b: sp.csr_array, dtype: DTypeLike = np.float64, in_order: bool = False
) -> None:
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


def of_sizes(sizes: Sequence[int], columns: int, seed: int = 1) -> sp.csr_array:
    """Return a matrix whose rows have the given numbers of entries."""
    generator = np.random.default_rng(seed)
    indices = np.concatenate([[], *(np.sort(generator.choice(columns, size, replace=False)) for size in sizes)])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_array(
        (generator.uniform(0.5, 1.5, len(indices)), indices.astype(np.int32), indptr), (len(sizes), columns)
    )


def around_edges() -> tuple[sp.csr_array, sp.csr_array]:
    """Return factors whose rows of C have a product fewer than each bin's limit, as many, and one more."""
    limits = [limit for limit in LIMITS if limit <= 2048]
    sizes = sorted({limit + more for limit in limits for more in (-1, 0, 1)})
    # row i of A meets the one row of B of sizes[i] entries
    b = of_sizes(sizes, 2200)
    return sp.csr_array(sp.eye_array(len(sizes))), b


def fragmented(matrix: sp.csr_array, pieces: int) -> Arrays:
    """Return a matrix on the host whose rows lie in several segments, the last of which has room."""
    order = np.random.default_rng(5).permutation(matrix.nnz)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    arrays = lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), 4, 4 * matrix.nnz + 100)
    for part in np.array_split(order, pieces):
        arrays, left = insert(arrays, rows[part], matrix.indices[part], matrix.data[part], slack=1)
        assert not left.any()
    return arrays


def doubled(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix that has every entry twice."""
    return sp.csr_array((np.repeat(matrix.data, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr), matrix.shape)
