"""Orders of rows and columns: the same matrix with its unknowns renumbered, P A Pᵀ.

Renumbering costs once what an iterative solver then gains in every product; times of reordered matrices are reported
apart from those of the matrix as it came.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.clusters import cluster_rows

#: Rows are sorted by length within windows of so many, which leaves what the order has of locality.
WINDOW = 1024
#: Orders of the unknowns, the matrix's own first.
UNKNOWNS = ("natural", "rcm", "sorted", "bisected")


def permutation(problem: Matrix, ordering: str) -> NDArray[np.int64]:
    """Return which old row each new row is, int64 `(n,)`.

    Parameters
    ----------
    problem
        The pattern; `rcm` takes that of A + Aᵀ.
    ordering
        `natural`; `rcm`: reverse Cuthill–McKee (George 1971), neighbours close to each other; `sorted`: by length,
        longest first, within windows of 1024 rows (the σ of SELL-C-σ, Kreutzer et al. 2014); `bisected`: that of
        `repro.sparse.clusters.cluster_rows`, in which each aligned run of 64, 128, … is a cluster.

    Raises
    ------
    ReproError
        There is no such ordering.
    """
    if ordering == "natural":
        return np.arange(problem.n)
    if ordering == "sorted":
        windows = np.arange(problem.n) // WINDOW
        return np.lexsort((-problem.row_lengths, windows))
    if ordering == "rcm":
        shape = (problem.n, problem.n)
        pattern = sp.csr_array((np.ones(problem.nnz, np.int8), problem.indices, problem.indptr), shape=shape)
        return np.asarray(reverse_cuthill_mckee(pattern + pattern.T, symmetric_mode=True), np.int64)
    if ordering == "bisected":
        return cluster_rows(problem)
    raise ReproError("unknown ordering", expected=", ".join(UNKNOWNS), actual=ordering)


def select_rows(problem: Matrix, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row pointers `(n + 1,)` of the rows in another order, and which entry each of theirs was, `(nnz,)`."""
    lengths = problem.row_lengths[rows].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return indptr, np.repeat(problem.indptr[rows] - indptr[:-1], lengths) + np.arange(problem.nnz)


def reorder(problem: Matrix, rows: NDArray[np.int64]) -> Matrix:
    """Renumber rows and columns alike: new row i is old row ``rows[i]``; columns are sorted again."""
    new = np.empty(problem.n, np.int64)
    new[rows] = np.arange(problem.n)
    indptr, old = select_rows(problem, rows)
    columns = new[problem.indices[old]]
    order = np.lexsort((columns, np.repeat(np.arange(problem.n), np.diff(indptr))))
    return replace(
        problem,
        indptr=indptr.astype(np.int32),
        indices=columns[order].astype(np.int32),
        values=problem.values[old[order]],
    )
