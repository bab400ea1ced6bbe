"""What a dynamic matrix counts on the device, and where: words of its state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Where the next segment is cut off; operations begun and ended: where these differ, the last one was left in the
#: middle.
POINTER, OPENED, CLOSED = 0, 1, 2
#: The entries of the matrix, or what it takes once it is brought together, where that was asked for.
TOTAL = 3
#: Counters of the operation under way, which ends by moving them on by so many words: rows whose chain was full, rows
#: for which the buffer had no more segment, entries of the batch that were left, and entries outside of the matrix.
FULL, BEYOND, LEFT, BAD = COUNTERS = 4, 5, 6, 7
#: Blocks that have come to the end of the operation under way.
DONE = 12
#: Rows that it listed for blocks, since they have many entries.
LONG = 13
WORDS = 16
#: For templates.
NAMES = {
    "POINTER": POINTER,
    "OPENED": OPENED,
    "CLOSED": CLOSED,
    "TOTAL": TOTAL,
    "FULL": FULL,
    "BEYOND": BEYOND,
    "LEFT": LEFT,
    "BAD": BAD,
    "DONE": DONE,
    "LONG": LONG,
    "COUNTERS": len(COUNTERS),
}


@dataclass(frozen=True)
class Report:
    """What the last operation on a matrix came to.

    Attributes
    ----------
    full, beyond
        Rows that took none of their entries because their chain had no empty slot, or the buffer no room.
    left
        Entries of the batch for these rows.
    bad
        Entries outside of the matrix; where there is one, nothing was done.
    pointer
        Where the next segment is cut off.
    total
        Entries, where they were counted.
    whole
        Whether the operation came to its end.
    """

    full: int
    beyond: int
    left: int
    bad: int
    pointer: int
    total: int
    whole: bool

    @classmethod
    def of(cls, words: NDArray[np.int32]) -> Report:
        """Read the words of a state, int32 `(WORDS,)`."""
        full, beyond, left, bad = (int(words[counter + len(COUNTERS)]) for counter in COUNTERS)
        whole = bool(words[OPENED] == words[CLOSED])
        return cls(full, beyond, left, bad, int(words[POINTER]), int(words[TOTAL]), whole)
