"""Which of its two rows multiplies a pair of entries that is stored once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Rounds of evening out after which what is left uneven stays so; meshes take about ten.
ROUNDS = 60


def orient(a: NDArray[np.integer], b: NDArray[np.integer], work: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Deal pairs of rows out to one of the two, so that rows have equally much to do.

    By turns at first; then a pair goes to its other row wherever its owner has at least two entries more than that one,
    each row giving away and taking on one at the most in a round: the sum of squares falls with each pair.

    Parameters
    ----------
    a, b
        `(pairs,)`, the two rows of each.
    work
        `(n,)`, entries that each row has beside the pairs.

    Returns
    -------
    numpy.ndarray
        `(pairs,)`, whether row a owns it.
    """
    owned_by_a = (a + b) % 2 == 0
    owner, other = np.where(owned_by_a, a, b), np.where(owned_by_a, b, a)
    work = work + np.bincount(owner, minlength=len(work))
    taken = np.empty(len(work), np.int64)
    for _ in range(ROUNDS):
        uneven = np.flatnonzero(work[owner] > work[other] + 1)
        if not len(uneven):
            break
        for end in (owner, other):  # of those of one row the last that is written stays
            taken[end[uneven]] = uneven
            uneven = uneven[taken[end[uneven]] == uneven]
        work[owner[uneven]] -= 1
        work[other[uneven]] += 1
        owner[uneven], other[uneven] = other[uneven], owner[uneven]
    owned: NDArray[np.bool_] = owner == a
    return owned
