"""Code shared by studies of y = A x: features of matrices, the choice by time and memory, and names of baselines.

The predicted search compares matrices by their features. The choice by memory selects a variant on the Pareto front of
time and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import CLOCKS, Row
from repro.bench.variant_id import BaseId
from repro.codegen.targets import DTYPES
from repro.entries import get_entry

if TYPE_CHECKING:
    # imported for types only: measuring must not depend on the code of tables (see `repro.campaign.receipts`)
    from repro.results.campaign_data import Campaign, ReportedTime
    from repro.tuning.recordings import Machine
    from repro.tuning.search import Choice

#: Name of the library that provides the baselines, by backend.
LIBRARIES: Mapping[str, str] = {"cuda": "cuSPARSE", "opencl": "SciPy"}
#: Tunings of a product, each over all spaces that may be searched; the largest set of spaces first
#: (`repro.studies.Study.winners`).
WINNERS = ("extended", "tuned_joint", "joint")
Array = NDArray[np.float64]


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> Array:
    """Return the features of a matrix, `(9,)`, computed from its record.

    Eight are logarithms: rows / resident threads, mean row length, longest row / mean row, bytes of the matrix
    (CSR-AoS) / bytes of the cache, bytes per entry, members per entry, members per vector entry, and bytes per number.
    The last is the median bandwidth as a share of the number of rows (2020 paper, equation 3).
    """
    statistics, kind, number = record["statistics"], get_entry(record["entry"]), np.dtype(DTYPES[precision]).itemsize
    rows, nonzeros = max(statistics["rows"], 1), max(statistics["nonzeros"], 1)
    entry_bytes = len(kind.members) * number
    logarithms = np.log2([
        rows / (machine.sm_count * machine.threads_per_sm),
        nonzeros / rows,
        max(statistics["ell_factor"], 1.0),
        (nonzeros * (entry_bytes + 4) + rows * 4) / machine.cache_bytes,
        max(entry_bytes, 1),
        max(len(kind.members), 1),
        kind.size,
        number,
    ])  # fmt: skip
    return np.append(logarithms, statistics["bandwidth_percent"]["median"] / 100)


#: Name of the tuning that chooses by time and memory.
MEMORY = "memory"
#: Name of the tuning for operators: only layouts whose vectors are stored as in NumPy, CuPy and PyTorch.
OPERATOR = "operator"


def pareto_front(seconds: Array, matrix_bytes: Array) -> NDArray[np.intp]:
    """Return indices of the Pareto front of time and bytes, ascending in bytes; of equal points, only the first."""
    order = np.lexsort((seconds, matrix_bytes))
    faster = seconds[order] < np.minimum.accumulate(np.concatenate([[np.inf], seconds[order][:-1]]))
    indices: NDArray[np.intp] = order[faster]
    return indices


def least_weighted_cost(seconds: Array, matrix_bytes: Array, weight: float) -> int:
    """Return the index that minimises (time / min time) · (bytes / min bytes)^weight.

    For a positive weight the result is on the Pareto front. Weight 0 selects the fastest; with weight 1, one percent of
    time is worth one percent of memory.
    """
    costs = np.log(seconds / seconds.min()) + weight * np.log(matrix_bytes / matrix_bytes.min())
    return int(np.argmin(costs))


def choose_by_memory(rows: Sequence[Row], weight: float, ids: Iterable[BaseId] = ()) -> list[Choice]:
    """Choose a variant by time and memory for each clock; return these choices, named `memory`, or none for weight 0.

    The 2020 paper does not specify the weight. If some rows were timed with the full protocol, only these are
    considered. Reordered matrices are reported separately and not considered. `ties` of the choices is empty.
    """
    from repro.tuning.search import Choice  # needs packages of campaigns, which operators are without

    by_name = {str(id): id for id in ids}
    names = {clock: _best_by_memory(rows, weight, clock) for clock in CLOCKS} if weight else {}
    return [Choice(clock, MEMORY, by_name.get(name, name)) for clock, name in names.items() if name]


def _best_by_memory(rows: Sequence[Row], weight: float, clock: str) -> str | None:
    timed_rows = [
        row
        for row in rows
        if row.kind == "variant"
        and row.status == "ok"
        and row["matrix_bytes"]
        and row.median(clock)
        and row["ordering"] == "natural"
    ]
    timed_rows = [row for row in timed_rows if row.protocol == "full"] or timed_rows
    if not timed_rows:
        return None
    seconds = np.array([row.median(clock) for row in timed_rows], dtype=np.float64)
    sizes = np.array([row["matrix_bytes"] for row in timed_rows], dtype=np.float64)
    return timed_rows[least_weighted_cost(seconds, sizes, weight)].name


def library_of(campaign: Campaign) -> str:
    return LIBRARIES["opencl" if campaign.on_cpu else "cuda"]


def routine_text(routine: ReportedTime) -> str:
    """Return the name of a routine for tables, such as `bsrmv/real3`; `@ordering` is added unless it is natural."""
    row = routine.row
    suffix = "" if row["ordering"] == "natural" else f"@{row['ordering']}"
    return f"{row['routine']}/{row['representation']}{suffix}"
