"""Sliced ELLPACK without row lengths: slices of k rows, each padded to its longest row.

Monakov, Lokhmotov, Avetisyan: Automatically tuning sparse matrix-vector multiplication for GPU architectures, 2010.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Outer, Slots, padding_columns, register, rows_of_entries

#: Search space of variants, by the number of rows per slice; small slices have several threads per row.
SLICES = {16: "paper", 32: "paper", 4: "extended", 8: "extended"}


def count(row_lengths: NDArray[np.int32], warp: int, *, k: int) -> tuple[int, int]:
    widths = _widths(row_lengths, k)
    return int(widths.sum()) * k, len(widths) + 1


def locate(problem: Matrix, warp: int, *, k: int) -> Slots:
    """Assign the i-th entries of a slice's rows to adjacent slots."""
    offsets = np.concatenate([[0], np.cumsum(_widths(problem.row_lengths, k) * k)])
    rows, place_in_row = rows_of_entries(problem)
    position = offsets[rows // k] + place_in_row * k + rows % k
    return Slots(offsets.astype(np.int32), position, padding=_padding(problem, k, offsets, position), step=k)


def _widths(row_lengths: NDArray[np.int32], k: int) -> NDArray[np.int64]:
    """Return the length of the longest row of each slice of k rows, `(slices,)`."""
    padded_lengths = np.zeros(-(-len(row_lengths) // k) * k, np.int64)
    padded_lengths[: len(row_lengths)] = row_lengths
    widths: NDArray[np.int64] = padded_lengths.reshape(-1, k).max(axis=1)
    return widths


def _padding(problem: Matrix, k: int, offsets: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the columns of padding slots."""
    free = np.ones(int(offsets[-1]), bool)
    free[position] = False
    slots = np.flatnonzero(free)
    slices = np.searchsorted(offsets, slots, side="right") - 1
    return padding_columns(problem, slices * k + (slots - offsets[slices]) % k)


for _k, _space in SLICES.items():
    register(
        Outer(
            f"Sl-{_k}", "sliced", partial(count, k=_k), partial(locate, k=_k), {"slice_rows": _k}, _space, group_rows=_k
        )
    )
