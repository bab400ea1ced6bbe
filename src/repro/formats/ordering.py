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
from repro.problems.problem import Problem

#: Rows are sorted by length within windows of so many, which leaves what the order has of locality.
WINDOW = 1024
#: Clusters are halved until they have no more rows than this.
CLUSTER = 64
#: Rows of more entries than this, and than so many times the mean, are long: a block takes each by itself.
LONG_ROW, LONG_ROW_OF_MEAN = 128, 4


def permutation(problem: Problem, ordering: str) -> NDArray[np.int64]:
    """Return which old row each new row is, int64 `(n,)`.

    Parameters
    ----------
    problem
        The pattern; `rcm` takes that of A + Aᵀ.
    ordering
        `natural`; `rcm`: reverse Cuthill–McKee (George 1971), neighbours close to each other; `sorted`: by length,
        longest first, within windows of 1024 rows (the σ of SELL-C-σ, Kreutzer et al. 2014).

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
    raise ReproError("unknown ordering", expected="natural, rcm or sorted", actual=ordering)


def cluster_rows(problem: Problem) -> NDArray[np.int64]:
    """Return an order in which neighbouring rows read the same entries of x, int64 `(n,)`.

    The graph is halved again and again, each part in the middle of its own Cuthill–McKee order, until parts have at
    most 64 rows; those are sorted by length. Long rows come last, whatever their part. Only rows are stored in this
    order: x and y keep theirs.
    """
    shape = (problem.n, problem.n)
    pattern = sp.csr_array((np.ones(problem.nnz, np.int8), problem.indices, problem.indptr), shape=shape)
    graph = (pattern + pattern.T).tocoo()
    i, j = graph.coords
    part = np.zeros(problem.n, np.int64)
    order = np.arange(problem.n)
    parts = 1
    while problem.n > CLUSTER * parts:
        inside = part[i] == part[j]
        i, j = i[inside], j[inside]
        graph = sp.csr_array((np.ones(len(i), np.int8), (i, j)), shape=shape)
        place = np.empty(problem.n, np.int64)
        place[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(problem.n)
        order = np.lexsort((place, part))
        sizes = np.bincount(part, minlength=parts)
        within = np.arange(problem.n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        part[order] = 2 * part[order] + (2 * within >= np.repeat(sizes, sizes))
        parts *= 2
    return np.lexsort((-problem.row_lengths, part, long_rows(problem)))


def long_rows(problem: Problem) -> NDArray[np.bool_]:
    """Return which rows are so long that a warp would still be at one when all others are done, `(n,)`."""
    lengths = problem.row_lengths
    return np.asarray(lengths > max(LONG_ROW, LONG_ROW_OF_MEAN * lengths.mean()))


def select_rows(problem: Problem, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row pointers `(n + 1,)` of the rows in another order, and which entry each of theirs was, `(nnz,)`."""
    lengths = problem.row_lengths[rows].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return indptr, np.repeat(problem.indptr[rows] - indptr[:-1], lengths) + np.arange(problem.nnz)


def reorder(problem: Problem, rows: NDArray[np.int64]) -> Problem:
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
