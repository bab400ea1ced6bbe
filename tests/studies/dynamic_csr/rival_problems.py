"""Small matrices and batches that try what formats find hard."""

from __future__ import annotations

import numpy as np

from repro.problems.updates import Updates


def growing(base, batches, columns: int | None = None) -> Updates:
    """Return a problem of a SciPy matrix, and of batches of (rows, columns, values)."""
    base = base.tocsr()
    base.sort_indices()
    lengths = [len(batch[0]) for batch in batches]

    def joined(i, dtype):
        return np.concatenate([np.asarray(batch[i], dtype) for batch in batches] or [np.empty(0, dtype)]).astype(dtype)

    return Updates(
        "growing",
        base.shape[0],
        base.indptr.astype(np.int32),
        base.indices.astype(np.int32),
        base.data.astype(np.float64).reshape(-1, 1),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        joined(0, np.int32),
        joined(1, np.int32),
        joined(2, np.float64),
        columns if columns is not None else base.shape[1],
    ).validate()


def drawn(rows: int, columns: int, count: int, seed: int = 1):
    """Draw a batch, places in it twice among others."""
    random = np.random.default_rng(seed)
    return random.integers(0, rows, count), random.integers(0, columns, count), random.normal(size=count)
