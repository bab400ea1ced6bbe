"""Slots of a stored matrix, as 32-bit indices count them."""

from __future__ import annotations

import numpy as np

from repro.bench.runnable import Unsupported
from repro.problems.matrix import Matrix

LARGEST = int(np.iinfo(np.int32).max)
#: Entries of a row that its threads take at once, at the most: those of a warp, width times unroll; and those of a
#: block, which long rows of clustered layouts have.
STEPS, STEPS_OF_BLOCK = 128, 4 * 1024


def check_slots(problem: Matrix, layout: object, slots: int, step: int, steps: int = STEPS) -> None:
    """Refuse more slots than 32-bit indices can count, those of a row so far apart.

    Parameters
    ----------
    problem
        What is stored.
    layout
        How, as the message says it.
    slots
        Entries stored, padding included.
    step
        Slots from one entry of a row to the next.
    steps
        Entries of a row that are taken at once.

    Raises
    ------
    Unsupported
    """
    # a thread's last step takes it past the end, before it looks
    if slots + steps * step > LARGEST:
        raise Unsupported(
            f"too large for 32-bit indices: {problem.name} in {layout} has {slots} slots, and the last step goes "
            f"{steps * step} past them"
        )
