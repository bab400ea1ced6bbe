"""Statistics of a sparsity pattern, as the papers' tables and figures use them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.assembled import Floats, Integers


def describe(indptr: Integers, indices: Integers, columns: int | None = None) -> dict[str, Any]:
    """Describe the pattern of a CSR matrix.

    Parameters
    ----------
    indptr, indices
        CSR arrays `(n + 1,)` and `(nnz,)`, columns sorted within each row.
    columns
        Columns of the matrix; None: as many as rows.

    Returns
    -------
    dict
        Plain numbers, ready for JSON:

        rows, nonzeros, empty_rows
            Counts.
        row_length
            Quantiles (min, q1, median, q3, max) and mean of the entries in a row (figure 3).
        bandwidth_percent
            The same of a row's bandwidth: largest minus smallest column index, in percent of the columns (eq. 3
            and figure 4 of Mueller-Roemer et al. 2020); 0 for an empty row.
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
        "row_length": quantiles(lengths),
        "bandwidth_percent": quantiles(100 * span / max(n if columns is None else columns, 1)),
        "ell_factor": int(lengths.max(initial=0)) * n / nnz if nnz else 0.0,
        "empty_rows": int(n - np.count_nonzero(filled)),
    }


def quantiles(values: NDArray[Any] | Floats) -> dict[str, float]:
    """Return min, q1, median, q3, max and mean of numbers `(k,)`; zeros if there are none."""
    if not len(values):
        return dict.fromkeys(("min", "q1", "median", "q3", "max", "mean"), 0.0)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    return {"min": low, "q1": q1, "median": median, "q3": q3, "max": high, "mean": float(np.mean(values))}
