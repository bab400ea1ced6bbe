"""Clusters of rows that read the same entries of x, and rows that are too long for a warp."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from repro.problems.matrix import Matrix

#: Clusters are halved until they have no more rows than this.
CLUSTER = 64
#: Rows of more entries than this, and than so many times the mean, are long: a block takes each by itself.
LONG_ROW, LONG_ROW_OF_MEAN = 128, 4


def cluster_rows(problem: Matrix) -> NDArray[np.int64]:
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


def long_rows(problem: Matrix) -> NDArray[np.bool_]:
    """Return which rows are so long that a warp would still be at one when all others are done, `(n,)`."""
    lengths = problem.row_lengths
    return np.asarray(lengths > max(LONG_ROW, LONG_ROW_OF_MEAN * lengths.mean()))
