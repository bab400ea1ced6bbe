"""Time against bytes: the variants that nothing beats in both, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import CLOCKS, Row
from repro.tuning.choose import Choice

Array = NDArray[np.float64]

#: The tuning that weighs memory against time.
MEMORY = "memory"


def front(seconds: Array, matrix_bytes: Array) -> NDArray[np.intp]:
    """Return the indices of the Pareto front, ascending in bytes and descending in time; the first of equals."""
    order = np.lexsort((seconds, matrix_bytes))
    faster = seconds[order] < np.minimum.accumulate(np.concatenate([[np.inf], seconds[order][:-1]]))
    indices: NDArray[np.intp] = order[faster]
    return indices


def weigh(seconds: Array, matrix_bytes: Array, weight: float) -> int:
    """Return the index of the least (time / least time) · (bytes / least bytes)^weight.

    It is on the front for every positive weight: 0 asks for the fastest, 1 trades one percent for one percent.
    """
    costs = np.log(seconds / seconds.min()) + weight * np.log(matrix_bytes / matrix_bytes.min())
    return int(np.argmin(costs))


def choose_by_memory(rows: Sequence[Row], weight: float) -> list[Choice]:
    """Return the choice `memory` by each clock; none for the weight 0.

    The 2020 paper leaves open how to weigh memory against time. Only rows of the full protocol are weighed, if there
    are any, and none of reordered matrices, which are reported apart. `ties` stays empty.
    """
    return [choice for clock in CLOCKS for choice in _choose_by_memory(rows, weight, clock)] if weight else []


def _choose_by_memory(rows: Sequence[Row], weight: float, clock: str) -> list[Choice]:
    timed = [
        row
        for row in rows
        if row.kind == "variant"
        and row.status == "ok"
        and row["matrix_bytes"]
        and row.median(clock)
        and row["ordering"] == "natural"
    ]
    timed = [row for row in timed if row.protocol == "full"] or timed
    if not timed:
        return []
    seconds = np.array([row.median(clock) for row in timed], dtype=np.float64)
    sizes = np.array([row["matrix_bytes"] for row in timed], dtype=np.float64)
    return [Choice(clock, MEMORY, timed[weigh(seconds, sizes, weight)].name)]
