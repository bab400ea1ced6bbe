"""Statistics of a sparsity pattern, as the papers' tables and figures use them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.assembled import Floats, Integers


def describe(indptr: Integers, indices: Integers) -> dict[str, Any]:
    """Describe the pattern of a square CSR matrix.

    Parameters
    ----------
    indptr, indices
        CSR arrays `(n + 1,)` and `(nnz,)`, columns sorted within each row.

    Returns
    -------
    dict
        Plain numbers, ready for JSON:

        rows, nonzeros, empty_rows
            Counts.
        row_length
            Quantiles (min, q1, median, q3, max) and mean of the entries in a row (figure 3).
        bandwidth_percent
            The same of a row's bandwidth: largest minus smallest column index, in percent of n (eq. 3 and figure 4
            of Mueller-Roemer et al. 2020); 0 for an empty row.
        ell_factor
            Longest row times n over the non-zeros: how much larger ELLPACK is than CSR, row lengths aside. 0 for a
            matrix without entries.
    """
    n, nnz = len(indptr) - 1, len(indices)
    lengths = np.diff(indptr)
    filled = lengths > 0
    span = np.zeros(n)
    span[filled] = indices[indptr[1:][filled] - 1] - indices[indptr[:-1][filled]]
    return {
        "rows": n,
        "nonzeros": nnz,
        "row_length": _quantiles(lengths),
        "bandwidth_percent": _quantiles(100 * span / max(n, 1)),
        "ell_factor": int(lengths.max(initial=0)) * n / nnz if nnz else 0.0,
        "empty_rows": int(n - np.count_nonzero(filled)),
    }


def _quantiles(values: NDArray[Any] | Floats) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.0)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    return {"min": low, "q1": q1, "median": median, "q3": q3, "max": high, "mean": float(np.mean(values))}
