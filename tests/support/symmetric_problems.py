"""Random matrices that are symmetric, exactly, in several ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from repro.entries import get_entry
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC, adjoint_factors

#: Every entry that has values, and how its matrices can be symmetric.
KINDS = [
    ("real", SYMMETRIC),
    ("complex", SYMMETRIC),
    ("complex", HERMITIAN),
    ("quaternion", HERMITIAN),
    ("block3", SYMMETRIC),
]


def symmetric_problem(
    entry: str,
    kind: str,
    n: int = 300,
    *,
    reach: int = 20,
    near: float = 0.8,
    hub: int | None = None,
    diagonal: bool = True,
) -> Matrix:
    """Return a matrix of rows that are near to each other, some of them far, and of some empty rows.

    Parameters
    ----------
    reach
        How far apart most rows are at the most that have an entry.
    near
        How many of them, of all.
    hub
        A row that has an entry with every other one.
    diagonal
        Whether there are diagonal entries, but in each fifth row.
    """
    random = np.random.default_rng(n + reach)
    rows = np.repeat(np.arange(n), 3)
    beside, anywhere = rows + random.integers(1, reach + 1, 3 * n), random.integers(0, n, 3 * n)
    columns = np.where(random.random(3 * n) < near, beside, anywhere)
    if hub is not None:
        rows, columns = np.append(rows, np.full(n, hub)), np.append(columns, np.arange(n))
    kept = (columns < n) & (rows != columns) & (rows % 11 != 3) & (columns % 11 != 3)
    upper = sp.coo_array((np.ones(kept.sum()), (rows[kept], columns[kept])), shape=(n, n))
    pattern = sp.triu((upper + upper.T).tocsr(), 1)
    values = random.normal(size=(pattern.nnz, len(get_entry(entry).members)))
    i, j = pattern.tocoo().coords
    across = values if (entry, kind) == ("complex", SYMMETRIC) else values @ adjoint_factors(entry)
    entries = [(i, j, values), (j, i, across)]
    if diagonal:
        own = np.array([row for row in range(n) if row % 5 and row % 11 != 3], int)
        real = random.normal(size=(len(own), values.shape[1]))
        if (entry, kind) != ("complex", SYMMETRIC):
            real = real + real @ adjoint_factors(entry)
        entries.append((own, own, real))
    i, j, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    order = np.lexsort((j, i))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))]).astype(np.int32)
    return Matrix(f"{kind}/{entry}", entry, n, indptr, j[order].astype(np.int32), values[order]).validate()


def disturbed(problem: Matrix, entry: int = 7) -> Matrix:
    """Return it with the last bit of one number of an entry that is not on the diagonal changed."""
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    which = np.flatnonzero(rows != problem.indices)[entry]
    values = problem.values.copy()
    values[which, -1] = np.nextafter(values[which, -1], 9)
    return replace(problem, values=values)


def without_entry(problem: Matrix, entry: int = 7) -> Matrix:
    """Return it without one entry that is not on the diagonal."""
    rows = np.repeat(np.arange(problem.n), problem.row_lengths)
    which = np.flatnonzero(rows != problem.indices)[entry]
    indptr = problem.indptr - (np.arange(problem.n + 1) > rows[which])
    return replace(
        problem,
        indptr=indptr.astype(np.int32),
        indices=np.delete(problem.indices, which),
        values=np.delete(problem.values, which, axis=0),
    )
