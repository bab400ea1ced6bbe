"""ELLPACK: all rows padded to the longest, entry after entry, without row lengths; kernels read the padding.

No row data precede the first column index, which saves a dependent load.

Bell, Garland: Implementing sparse matrix-vector multiplication on throughput-oriented processors, 2009.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, ell, register


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    """Return slots as in ELL, and an index of one unused number."""
    return ell.count(row_lengths, warp)[0], 1


def locate(problem: Matrix, warp: int) -> Slots:
    """Place the i-th entries of all rows next to each other; padding repeats the column of a row's last entry."""
    distance = ell.stride(problem.n, warp)
    lengths = problem.row_lengths
    within = np.arange(int(lengths.max()))[:, None]
    rows = np.minimum(np.arange(distance), problem.n - 1)
    real = (within < lengths[rows]) & (np.arange(distance) < problem.n)
    last = problem.indices[np.maximum(problem.indptr[rows + 1] - 1, 0)]
    padding = np.broadcast_to(np.where(lengths[rows] > 0, last, rows), real.shape)[~real].astype(np.int32)
    return Slots(np.zeros(1, np.int32), ell.locate(problem, warp).position, distance, padding, distance)


ELLPACK = register(Outer("ELLPACK", "ellpack", count, locate, space="extended"))
