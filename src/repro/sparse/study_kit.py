"""What studies of y = A x share: columns of rows, features of matrices, choice by time and memory.

Features are what matrices are compared by where the times of one are to predict those of another. A choice by
memory is made among the variants that no other one beats in both time and bytes (the Pareto front).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import CLOCKS, ColumnType, Row
from repro.codegen.targets import DTYPES
from repro.entries import get_entry
from repro.tuning.recordings import Machine
from repro.tuning.search import Choice

#: What the baselines are of, by backend.
LIBRARIES: Mapping[str, str] = {"cuda": "cuSPARSE", "opencl": "SciPy"}
#: What the matrix is, and how it is stored: what a non-zero is, the order of the unknowns, the layout.
STORED: dict[str, ColumnType] = {"entry": str, "ordering": str, "layout": str}
#: Of a library's routine its name, what its numbers are, its format, and whether the papers compare with it; and of all
#: that multiplies the bytes of the matrix as it is stored.
LIBRARY: dict[str, ColumnType] = {
    "routine": str,
    "representation": str,
    "format": str,
    "papers_choice": bool,
    "matrix_bytes": int,
}


Array = NDArray[np.float64]


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> Array:
    """Return the features of a matrix by its record, `(9,)`.

    Logarithms of rows per thread that the device can hold, mean length of a row, longest over mean row, bytes of the
    matrix (CSR-AoS) over those of the cache, entry's bytes, members, vector members and number's bytes; median
    bandwidth as a share of the rows (2020 paper, equation 3).
    """
    statistics, kind, number = record["statistics"], get_entry(record["entry"]), np.dtype(DTYPES[precision]).itemsize
    rows, nonzeros = max(statistics["rows"], 1), max(statistics["nonzeros"], 1)
    entry_bytes = len(kind.members) * number
    logarithms = np.log2([
        rows / (machine.n_s * machine.threads_per_sm),
        nonzeros / rows,
        max(statistics["ell_factor"], 1.0),
        (nonzeros * (entry_bytes + 4) + rows * 4) / machine.cache_bytes,
        entry_bytes,
        len(kind.members),
        kind.size,
        number,
    ])  # fmt: skip
    return np.append(logarithms, statistics["bandwidth_percent"]["median"] / 100)


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
