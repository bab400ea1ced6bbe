"""Slots of a stored matrix, as 32-bit indices count them."""

from __future__ import annotations

import numpy as np

from repro.bench.runnable import Unsupported
from repro.problems.matrix import Matrix

#: Entries of a row that the threads of a warp take in one step, at the most: width times unroll.
STEPS = 128


def check_slots(problem: Matrix, layout: object, slots: int, stride: int) -> None:
    """Refuse more slots than 32-bit indices can count, those of a row so far apart.

    Parameters
    ----------
    problem
        What is stored.
    layout
        How, as the message says it.
    slots, stride
        Entries stored, padding included, and how many lie between two of a row.

    Raises
    ------
    Unsupported
    """
    # a thread's last step takes it past the end, before it looks
    if slots + STEPS * stride > np.iinfo(np.int32).max:
        raise Unsupported(
            f"too large for 32-bit indices: {problem.name} in {layout} has {slots} slots, and the last step goes "
            f"{STEPS * stride} past them"
        )
