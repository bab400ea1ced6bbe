"""Compressed sparse rows: rows one after the other, without padding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, register


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    return int(row_lengths.sum(dtype=np.int64)), len(row_lengths) + 1


def locate(problem: Matrix, warp: int) -> Slots:
    return Slots(problem.indptr.astype(np.int32), np.arange(problem.nnz, dtype=np.int64))


CSR = register(Outer("CSR", "csr", count, locate, padded=False, rows_adjacent=False, group_rows=1))
