"""What matrices are compared by, where the times of one are to tell of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.precisions import DTYPES
from repro.entries import get_entry
from repro.tuning.recordings import Machine

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
