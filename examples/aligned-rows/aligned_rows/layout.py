"""CSR with rows of a multiple of four slots, so that each begins at a multiple of four entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, register, rows_of_entries

#: Slots that a row has a multiple of.
UNIT = 4


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    """Count the slots of all rows; the index is where each begins, and where the last one ends."""
    return int(_widths(row_lengths).sum()), len(row_lengths) + 1


def locate(problem: Matrix, warp: int) -> Slots:
    """Put the entries of a row beside each other; padding reads x at column 0."""
    offsets = np.concatenate([[0], np.cumsum(_widths(problem.row_lengths))])
    rows, within = rows_of_entries(problem)
    return Slots(offsets.astype(np.int32), offsets[rows] + within)


def _widths(row_lengths: NDArray[np.int32]) -> NDArray[np.int64]:
    return -(-row_lengths.astype(np.int64) // UNIT) * UNIT


ALIGNED_ROWS = register(Outer("CSR4", "aligned_rows", count, locate, {"unit": UNIT}, rows_adjacent=False))
