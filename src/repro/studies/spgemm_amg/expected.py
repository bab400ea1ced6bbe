"""What a product of two sparse matrices must be, and how far one is from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.sparse.spgemm.shapes import LIMITS

#: Products of more entries are held against the row sizes and the product with a vector that they must have, in place
#: of entry by entry: sorting billions of entries on the host would take longer than all else.
COMPARED = 4_000_000


@dataclass(frozen=True)
class Expected:
    """What a product must be.

    Attributes
    ----------
    products
        How many products each row is the sum of, int64 `(rows,)`.
    sizes
        Entries of each row, int64 `(rows,)`; what cancels stays an entry.
    x, y, bound
        float64: a vector drawn at random, C x, and by how much a result may differ from it, `(p_i + m_i + 2) ε
        (|A||B||x|)_i` for a row of p_i products and m_i entries.
    whole, magnitude
        C and |A||B|, columns in order; None where C has more than `COMPARED` entries.
    """

    products: NDArray[np.int64]
    sizes: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    bound: NDArray[np.float64]
    whole: sp.csr_array | None
    magnitude: sp.csr_array | None

    def rows_of(self, mode: str | None, bin: int | None) -> NDArray[np.bool_]:
        """Return which rows are in a bin by their products, or in the mode `numeric` by their entries; all of None."""
        numbers = self.sizes if mode == "numeric" else self.products
        if bin is None:
            return np.ones(len(numbers), bool)
        listed: NDArray[np.bool_] = (numbers > 0) & (np.searchsorted(LIMITS, numbers) == bin)
        return listed


def expect(a: sp.csr_array, b: sp.csr_array, seed: int, dtype: np.dtype[np.floating]) -> Expected:
    """Return what A B must be, computed in float64 by SciPy.

    Parameters
    ----------
    seed
        Of the vector.
    dtype
        The working precision.
    """
    ones = sp.csr_array((np.ones(a.nnz, np.int64), a.indices, a.indptr), shape=a.shape)
    products = ones @ np.diff(b.indptr).astype(np.int64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    # of magnitudes, so that nothing cancels and every place that a product falls on is an entry
    magnitude = abs(a) @ abs(b)
    sizes = np.diff(magnitude.indptr).astype(np.int64)
    # a number of either precision, so that the device has the same
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, b.shape[1]).astype(np.float32).astype(np.float64)
    bound = (products + sizes + 2) * float(np.finfo(dtype).eps) * (abs(a) @ (abs(b) @ np.abs(x)))
    y = a @ (b @ x)
    if magnitude.nnz > COMPARED:
        return Expected(products, sizes, x, y, bound, None, None)
    magnitude.sort_indices()
    return Expected(products, sizes, x, y, bound, _spread(sp.csr_array(a @ b), magnitude), magnitude)


def _spread(product: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """Return a product with all entries of a pattern, of which SciPy leaves out those that cancel."""
    product.sort_indices()
    if product.nnz == pattern.nnz:
        return product
    values = np.zeros(pattern.nnz)
    values[np.searchsorted(_places(pattern), _places(product))] = product.data
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def _places(matrix: sp.csr_array) -> NDArray[np.int64]:
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    places: NDArray[np.int64] = rows * matrix.shape[1] + matrix.indices
    return places


def compare_rows(
    sizes: NDArray[np.int32],
    y: NDArray[np.floating],
    expected: Expected,
    rows: NDArray[np.bool_],
    drops: bool = False,
) -> float:
    """Return the largest error of C x over its bound, of some rows; the others may be anything.

    Parameters
    ----------
    sizes, y
        Entries of each row of C, and C x.
    drops
        Whether entries that cancel may be left out.

    Raises
    ------
    IncorrectError
        A row has too few or too many entries, or a number lies outside its bound.
    """
    other = np.flatnonzero(rows & ((sizes > expected.sizes) | ((sizes != expected.sizes) & (not drops))))
    if len(other):
        row = int(other[0])
        raise IncorrectError(
            f"{len(other)} rows have too few or too many entries: the first, row {row}, has {sizes[row]}, not "
            f"{expected.sizes[row]}"
        )
    return _within(np.abs(y.astype(np.float64, copy=False) - expected.y)[rows], expected.bound[rows], "rows")


def compare_product(c: sp.csr_array, expected: Expected, rows: NDArray[np.bool_]) -> float:
    """Return the largest error over its bound of some rows of a product that is known as a whole.

    Raises
    ------
    IncorrectError
        A row has too few or too many entries, one is in another column, or a number lies outside its bound.
    """
    if c.nnz and not 0 <= c.indices.min() <= c.indices.max() < c.shape[1]:
        raise IncorrectError("columns are out of range")
    y = c.astype(np.float64, copy=False) @ expected.x
    largest = compare_rows(np.diff(c.indptr), y, expected, rows)
    assert expected.whole is not None and expected.magnitude is not None
    chosen, wanted, size = sp.csr_array(c[rows]), expected.whole[rows], expected.magnitude[rows]
    chosen.sort_indices()
    if not np.array_equal(chosen.indices, wanted.indices):
        raise IncorrectError(f"{np.count_nonzero(chosen.indices != wanted.indices)} entries are in other columns")
    terms = np.repeat(expected.products[rows], expected.sizes[rows]) + 1
    eps = float(np.finfo(c.dtype).eps)
    return max(largest, _within(np.abs(chosen.data - wanted.data), terms * eps * size.data, "values"))


def _within(error: NDArray[np.float64], bound: NDArray[np.float64], what: str) -> float:
    outside = ~(error <= bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = float(np.max(np.where(error > 0, error / bound, 0.0), initial=0.0))
    if outside.any():
        worst = "some are NaN" if np.isnan(error).any() else f"the largest error is {largest:.3g} of its bound"
        raise IncorrectError(f"{np.count_nonzero(outside)} of {len(bound)} {what} are wrong; {worst}", largest)
    return largest
