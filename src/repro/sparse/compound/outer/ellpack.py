"""ELLPACK: all rows are padded to the longest; with the length of each row (ELLPACK-R), or without.

Without row lengths, the first column index needs no row data, which saves a dependent load; kernels process the
padding.

Bell, Garland: Implementing sparse matrix-vector multiplication on throughput-oriented processors, 2009 (ELLPACK).
Vázquez, Fernández, Garzón: A new approach for sparse matrix vector product on NVIDIA GPUs, 2011 (ELLPACK-R).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, register, rows_of_entries


def stride(n: int, warp: int) -> int:
    """Return n rounded up to a multiple of the warp: the distance in slots between successive entries of a row."""
    return -(-n // warp) * warp


def count_with_lengths(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    return stride(len(row_lengths), warp) * int(row_lengths.max()), len(row_lengths)


def locate_with_lengths(problem: Matrix, warp: int) -> Slots:
    """Assign the i-th entries of all rows to adjacent slots; kernels never read padding."""
    rows, place_in_row = rows_of_entries(problem)
    distance = stride(problem.n, warp)
    return Slots(problem.row_lengths, place_in_row * distance + rows, distance, step=distance)


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    """Return the number of slots, as with row lengths, and the size of an index of one unused number."""
    return count_with_lengths(row_lengths, warp)[0], 1


def locate(problem: Matrix, warp: int) -> Slots:
    """Assign slots as with row lengths; padding repeats the column of a row's last entry."""
    distance = stride(problem.n, warp)
    lengths = problem.row_lengths
    place_in_row = np.arange(int(lengths.max()))[:, None]
    rows = np.minimum(np.arange(distance), problem.n - 1)
    real = (place_in_row < lengths[rows]) & (np.arange(distance) < problem.n)
    last = problem.indices[np.maximum(problem.indptr[rows + 1] - 1, 0)]
    empty_row_columns = np.minimum(rows, problem.shape[1] - 1)
    padding = np.broadcast_to(np.where(lengths[rows] > 0, last, empty_row_columns), real.shape)[~real].astype(np.int32)
    return Slots(np.zeros(1, np.int32), locate_with_lengths(problem, warp).position, distance, padding, distance)


ELL = register(Outer("ELL", "ell", count_with_lengths, locate_with_lengths, padded=False))
ELLPACK = register(Outer("ELLPACK", "ellpack", count, locate, space="extended"))
