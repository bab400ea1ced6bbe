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
from repro.sparse.compound.outer import Outer, Slots, padded_to_warp, padding_columns, register, rows_of_entries


def count_with_lengths(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    return padded_to_warp(len(row_lengths), warp) * int(row_lengths.max(initial=0)), len(row_lengths)


def locate_with_lengths(problem: Matrix, warp: int) -> Slots:
    """Assign the i-th entries of all rows to adjacent slots; kernels never read padding."""
    rows, place_in_row = rows_of_entries(problem)
    distance = padded_to_warp(problem.n, warp)
    return Slots(problem.row_lengths, place_in_row * distance + rows, distance, step=distance)


def count(row_lengths: NDArray[np.int32], warp: int) -> tuple[int, int]:
    """Return the number of slots, as with row lengths, and the size of an index of one unused number."""
    return count_with_lengths(row_lengths, warp)[0], 1


def locate(problem: Matrix, warp: int) -> Slots:
    """Assign slots as with row lengths; padding repeats the column of a row's last entry."""
    distance = padded_to_warp(problem.n, warp)
    lengths = np.zeros(distance, np.int32)
    lengths[: problem.n] = problem.row_lengths
    padded = np.arange(int(lengths.max(initial=0)))[:, None] >= lengths
    padding = np.broadcast_to(padding_columns(problem, np.arange(distance)), padded.shape)[padded]
    return Slots(np.zeros(1, np.int32), locate_with_lengths(problem, warp).position, distance, padding, distance)


ELL = register(Outer("ELL", "ell", count_with_lengths, locate_with_lengths, padded=False, group_rows=0))
ELLPACK = register(Outer("ELLPACK", "ellpack", count, locate, space="extended", group_rows=0))
