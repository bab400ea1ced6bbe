"""ELLPACK-R: all rows as long as the longest, entry after entry, and the length of each row.

Vázquez, Fernández, Garzón: A new approach for sparse matrix vector product on NVIDIA GPUs, 2011.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, register, rows_of_entries


def stride(n: int, warp: int) -> int:
    """Return n padded to the warp, the distance between the entries of a row."""
    return -(-n // warp) * warp


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    return stride(len(row_lengths), warp) * int(row_lengths.max()), len(row_lengths)


def locate(problem: Matrix, warp: int) -> Slots:
    """Place the i-th entries of all rows next to each other; padding is never read."""
    rows, within = rows_of_entries(problem)
    distance = stride(problem.n, warp)
    return Slots(problem.row_lengths, within * distance + rows, distance, step=distance)


ELL = register(Outer("ELL", "ell", count, locate, padded=False))
