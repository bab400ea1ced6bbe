"""Which rows make a slice of compressed sliced ELLPACK, and which are too long for one.

Rows of a slice are filled up to its longest. Sliced ELLPACK with rows sorted by length within windows is Kreutzer et
al., "A unified sparse matrix data format for efficient general sparse matrix-vector multiplication on modern processors
with wide SIMD units" (SIAM J. Sci. Comput. 36(5), 2014); here a window is sorted only where that pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Rows of a window: a multiple of every slice's height, and so few that 16 bits tell them apart.
WINDOW = 1024
#: Most steps of a slice: counted in 8 bits.
MOST_STEPS = 255
#: A window is sorted where that leaves at most this share of its slots: sorted rows lose what neighbours share.
WORTH_SORTING = 0.9
#: Slots of a piece of a row that has no place in a slice.
PIECE = 1024
#: Longest rows of slices that are tried.
LIMITS = (8, 16, 32, 64, 128, MOST_STEPS)


@dataclass(frozen=True)
class Slices:
    """The rows of a matrix, dealt to slices.

    Attributes
    ----------
    height
        Rows of a slice.
    rows
        int64 `(slices, height)`: the row at each place, -1 for none.
    moved
        bool `(slices,)`: whose rows are not simply the ones that follow each other from `slice * height` on.
    apart
        int64, ascending: the rows that are in no slice, being far longer than all others. They are cut into pieces of
        `PIECE` slots.
    """

    height: int
    rows: NDArray[np.int64]
    moved: NDArray[np.bool_]
    apart: NDArray[np.int64]

    def slots(self, row_lengths: NDArray[np.integer]) -> int:
        """Count the slots of a matrix with rows of those lengths `(n,)`, each slice as long as its longest row."""
        longest = np.append(row_lengths, 0)[self.rows].max(axis=1, initial=0)
        steps = -(-row_lengths[self.apart].astype(np.int64) // self.height)
        return self.height * int(longest.sum(dtype=np.int64) + steps.sum())


def make_slices(row_lengths: NDArray[np.integer], height: int) -> Slices:
    """Deal rows to slices of that height so that few slots are filled up.

    Rows longer than a limit are left out: the one of `LIMITS` that takes the fewest slots, the largest of several.

    Parameters
    ----------
    row_lengths
        `(n,)`.
    height
        Rows of a slice: 8, 16 or 32.
    """
    lengths = row_lengths.astype(np.int64, copy=False)
    n, longest = len(lengths), int(lengths.max(initial=0))
    limits = [limit for limit in LIMITS if limit < longest or limit == MOST_STEPS]
    windows = -(-n // WINDOW)
    padded = np.full(windows * WINDOW, -1, np.int64)
    padded[:n] = lengths
    tried = [(_slots(padded, limit, height), -limit) for limit in limits] if len(limits) > 1 else [(0, -limits[0])]
    limit = -min(tried)[1]
    kept = np.where(padded <= limit, padded, -1).reshape(windows, WINDOW)
    natural, ordered = _natural(kept, height), _ordered(kept, height)
    chosen = ordered <= WORTH_SORTING * natural
    rows = np.arange(windows * WINDOW).reshape(windows, WINDOW)
    # the longest first; equal ones in their order, so that neighbours stay together
    rows[chosen] = np.take_along_axis(rows[chosen], np.argsort(-kept[chosen], axis=1, kind="stable"), axis=1)
    rows = np.where(kept.ravel()[rows] >= 0, rows, -1).reshape(-1, height)[: -(-n // height)]
    moved = (rows != np.arange(rows.size).reshape(rows.shape)).any(axis=1)
    return Slices(height, rows, moved, np.flatnonzero(lengths > limit))


def _slots(padded: NDArray[np.int64], limit: int, height: int) -> int:
    """Return the slots where rows up to a limit are in slices."""
    kept = np.where(padded <= limit, padded, -1).reshape(-1, WINDOW)
    natural, ordered = _natural(kept, height), _ordered(kept, height)
    in_slices = np.where(ordered <= WORTH_SORTING * natural, ordered, natural).sum()
    return int(in_slices) + int(_apart(padded[padded > limit], height).sum())


def _natural(kept: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the slots of each window with its rows as they are, `(windows,)`; -1 is a row that is not there."""
    longest = np.maximum(kept.reshape(len(kept), -1, height).max(axis=2), 0)
    return np.asarray(height * longest.sum(axis=1))


def _ordered(kept: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the slots of each window with its rows sorted by length."""
    longest = np.maximum(np.sort(kept, axis=1)[:, height - 1 :: height], 0)
    return np.asarray(height * longest.sum(axis=1))


def _apart(lengths: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the slots of rows in pieces, and as many more as their sums and a second launch are worth."""
    return -(-lengths // height) * height + 32
