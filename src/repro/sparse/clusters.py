"""Clusters of rows that read the same entries of x, and rows that are too long for a warp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.bisection import adjacency, bisect

#: Rows of a cluster; the last one may have fewer.
CLUSTER = 64
#: Rows of more entries than this, and than so many times the mean, are long: a block takes each by itself.
LONG_ROW, LONG_ROW_OF_MEAN = 128, 4


def cluster_rows(problem: Matrix) -> NDArray[np.int64]:
    """Return an order in which neighbouring rows read the same entries of x, int64 `(n,)`.

    The graph is halved again and again (`repro.sparse.bisection`), so that each 64 rows on end are a cluster, and so
    are each 128, 256, …; rows of 64 are sorted by length. Long rows come last, the longest first, and take no part in
    clusters: they would bring all rows together. Only rows are stored in this order: x and y keep theirs.
    """
    lengths, long = problem.row_lengths, long_rows(problem)
    last = np.flatnonzero(long)
    rows = np.flatnonzero(~long)
    graph = adjacency(problem.indptr, problem.indices)
    if len(last):
        graph = graph[rows][:, rows]
    rows = rows[bisect(graph, CLUSTER)]
    rows = rows[np.lexsort((-lengths[rows], np.arange(len(rows)) // CLUSTER))]
    return np.concatenate([rows, last[np.argsort(-lengths[last], kind="stable")]])


def long_rows(problem: Matrix) -> NDArray[np.bool_]:
    """Return which rows are so long that a warp would still be at one when all others are done, `(n,)`."""
    lengths = problem.row_lengths
    return np.asarray(lengths > max(LONG_ROW, LONG_ROW_OF_MEAN * lengths.mean()))
