"""Drawing the entries that are inserted into a matrix, batch by batch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Batches
from repro.errors import ReproError
from repro.problems.assembled import Assembled

#: More entries in all than this would not fit 32-bit offsets beside the matrix.
MOST_ENTRIES = 2**31 - 1


def draw_batches(matrix: Assembled, wished: Batches, seed: int, where: str) -> dict[str, NDArray[Any]]:
    """Draw batches of entries: columns uniform, values uniform between -1 and 1.

    An entry may be one that the matrix has, or one that was drawn before.

    Parameters
    ----------
    matrix
        What they are inserted into.
    wished
        How many they are, how rows are drawn, and in which order a batch has them.
    seed
        Of what is drawn.
    where
        The problem's name, for errors.

    Returns
    -------
    dict
        The arrays of a `repro.problems.updates.Updates`, by the names of its fields.

    Raises
    ------
    ReproError
        The matrix has no rows or columns to insert into, or no entries to draw rows by; or the batches have more
        entries than 32-bit offsets can tell apart.
    """
    rng = np.random.default_rng(seed)
    rows, nonzeros = matrix.n, len(matrix.indices)
    columns = rows if matrix.columns is None else matrix.columns
    sizes = list(wished.sizes) or [max(1, round((wished.share or 0) * nonzeros))] * (wished.batches or 0)
    entries = sum(sizes)
    lacking = min(rows, columns) == 0 or (wished.rows == "degree" and nonzeros == 0)
    if entries > MOST_ENTRIES or (lacking and entries):
        raise ReproError(
            "batches that cannot be drawn",
            where=f"{where}: updates",
            expected=f"at most {MOST_ENTRIES:,} entries, and a matrix that has places for them",
            actual=f"{entries:,} entries, and a matrix of {rows:,} x {columns:,} with {nonzeros:,} non-zeros",
        )
    if wished.rows == "degree":
        # the row of an entry that is drawn: each as often as it has entries
        drawn = rng.integers(nonzeros, size=entries, dtype=np.int32) if entries else np.empty(0, np.int32)
        batch_rows = (np.searchsorted(matrix.indptr, drawn, side="right") - 1).astype(np.int32)
    else:
        batch_rows = rng.integers(max(rows, 1), size=entries, dtype=np.int32)
    batch_columns = rng.integers(max(columns, 1), size=entries, dtype=np.int32)
    batch_values = rng.uniform(-1, 1, entries)
    pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if wished.order == "sorted":
        for begin, end in pairwise(pointers):
            order = begin + np.argsort(batch_rows[begin:end], kind="stable")
            for array in (batch_rows, batch_columns, batch_values):
                array[begin:end] = array[order]
    return {
        "batch_pointers": pointers,
        "batch_rows": batch_rows,
        "batch_columns": batch_columns,
        "batch_values": batch_values,
    }
