"""How often growing forces all rows together, and how much memory it takes: by slack and by segments a row.

Nothing is timed. Only the sizes of the rows and of the batches count, so that it is simulated on the host: what
`dynamic.DynamicMatrix.insert` does, in a buffer that is never too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.problems.updates import Updates

#: Slack in parts of the mean row size, and segments that a row can have.
MULTIPLES = (0.0, 0.5, 1.0, 2.0, 4.0)
SEGMENTS = (1, 2, 3, 4)


class Touched(NamedTuple):
    """What a batch brings: int64 `(touched,)` rows, each once, and how many entries each is given."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


class Room(NamedTuple):
    """What inserting all batches came to.

    Attributes
    ----------
    defragmentations
        Batches that forced all rows together.
    allocated
        Entries that segments had room for, at most.
    """

    defragmentations: int
    allocated: int


def touched_by(problem: Updates) -> list[Touched]:
    """Return what each batch brings."""
    return [
        Touched(*np.unique(problem.batch(i)[0].astype(np.int64), return_counts=True)) for i in range(problem.batches)
    ]


def simulate(lengths: NDArray[np.integer], batches: Sequence[Touched], segments: int, slack: int) -> Room:
    """Insert batches into a matrix that begins with one segment a row and no room.

    A row that lacks room gets one more segment, with slack. Where its chain is full all rows are brought together,
    with room for the entries that found none and no other.

    Parameters
    ----------
    lengths
        Entries of each row at first, `(rows,)`.
    batches
        What each brings.
    segments
        The most that a row's chain has.
    slack
        Room for so many entries beside those that a new segment is made for.
    """
    filled = lengths > 0
    free = np.zeros(len(lengths), np.int64)
    used = filled.astype(np.int8)
    entries = allocated = most = int(lengths.sum(dtype=np.int64))
    defragmentations = 0
    for rows, counts in batches:
        lacking = counts - free[rows]
        chain = used[rows]
        asks = lacking > 0
        full = asks & (chain == segments)
        new = asks & ~full
        allocated += int(lacking[new].sum()) + slack * int(new.sum())
        most = max(most, allocated)
        entries += int(counts.sum())
        filled[rows] = True
        if full.any():
            defragmentations += 1
            free[:] = 0
            used[:] = filled
            allocated = entries
            most = max(most, allocated)
        else:
            free[rows] = np.where(new, slack, -lacking)
            used[rows] = chain + new
    return Room(defragmentations, most)


def rooms_of(problem: Updates) -> list[dict[str, float | int]]:
    """Return what the batches of a problem come to for each slack and number of segments; nothing without batches.

    Returns
    -------
    list of dict
        `multiple` of the mean row size, `slack` (that, cut off), `segments`, `defragmentations`, `allocated`.
    """
    lengths, batches = problem.base.row_lengths, touched_by(problem)
    if not batches or not len(lengths):
        return []
    mean = float(lengths.sum(dtype=np.int64)) / len(lengths)
    rooms: list[dict[str, float | int]] = []
    for multiple in MULTIPLES:
        slack, room = int(multiple * mean), None
        for segments in SEGMENTS:
            # chains that were never full are none longer with more segments
            if room is None or room.defragmentations:
                room = simulate(lengths, batches, segments, slack)
            rooms.append({"multiple": multiple, "slack": slack, "segments": segments, **room._asdict()})
    return rooms
