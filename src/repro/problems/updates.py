"""Problems that are a sparse matrix and the entries to insert into it, drawn batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Batches
from repro.errors import ReproError
from repro.problems.assembly import Assembled
from repro.problems.matrix import Matrix
from repro.problems.problem import Problem, allowed, check_array, check_pointers, infinite, outside, quantiles, refuse

#: More entries in all than this would not fit 32-bit offsets beside the matrix.
MAX_ENTRIES = 2**31 - 1


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
    if entries > MAX_ENTRIES or (lacking and entries):
        raise ReproError(
            "batches that cannot be drawn",
            where=f"{where}: updates",
            expected=f"at most {MAX_ENTRIES:,} entries, and a matrix that has places for them",
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


@dataclass(frozen=True)
class Updates(Problem):
    """A real sparse matrix, and batches of entries that are inserted into it one after the other.

    Matrix and batches may be empty. A batch may be in any order, and name an entry that is already there or that it
    has itself; what that means is the study's to say.

    Attributes
    ----------
    n
        Rows.
    indptr, indices, values
        The matrix before the first batch: int32 `(n + 1,)`, int32 `(nnz,)`, float64 `(nnz, 1)`, as of a `Matrix`.
    batch_pointers
        int64 `(batches + 1,)`; batch i has the entries from `batch_pointers[i]` to before `batch_pointers[i + 1]`.
    batch_rows, batch_columns
        int32 `(entries,)`, all batches one after the other.
    batch_values
        float64 `(entries,)`.
    columns
        Columns; None: as many as rows.
    """

    kind: ClassVar[str] = "updates"

    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    batch_pointers: NDArray[np.int64]
    batch_rows: NDArray[np.int32]
    batch_columns: NDArray[np.int32]
    batch_values: NDArray[np.float64]
    columns: int | None = None

    @property
    def base(self) -> Matrix:
        """The matrix before the first batch."""
        return Matrix(
            self.name, "real", self.n, self.indptr, self.indices, self.values, self.columns, origin=self.origin
        )

    @property
    def batches(self) -> int:
        """Number of batches."""
        return len(self.batch_pointers) - 1

    @property
    def entries(self) -> int:
        """Entries of all batches."""
        return len(self.batch_rows)

    def batch(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return rows, columns and values of a batch, counted from 0."""
        begin, end = self.batch_pointers[i : i + 2]
        return self.batch_rows[begin:end], self.batch_columns[begin:end], self.batch_values[begin:end]

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the matrix, and those of the batches."""
        return {
            **self.base.arrays(),
            "batch_pointers": self.batch_pointers,
            "batch_rows": self.batch_rows,
            "batch_columns": self.batch_columns,
            "batch_values": self.batch_values,
        }

    def traits(self) -> Mapping[str, Any]:
        """Return `n`, `columns`."""
        return {"n": self.n, "columns": self.columns}

    def validate(self) -> Self:
        """Return the problem itself if matrix and batches are sound.

        Raises
        ------
        ReproError
            The matrix is none (as `Matrix.validate`), arrays do not fit, batch pointers decrease or do not end at the
            number of entries, or an entry is out of range, NaN or infinite.
        """
        rows, columns = self.base.validate().shape
        check_array(self.name, "batch pointers", self.batch_pointers, np.int64, (max(self.batches, 0) + 1,))
        check_array(self.name, "rows of the batches", self.batch_rows, np.int32, (self.entries,))
        check_array(self.name, "columns of the batches", self.batch_columns, np.int32, (self.entries,))
        check_array(self.name, "values of the batches", self.batch_values, np.float64, (self.entries,))
        check_pointers(self.name, "batch", self.batch_pointers, self.entries)
        for what, bad, expected in (
            ("row of an update out of range", outside(self.batch_rows, rows), f"rows {allowed(rows)}"),
            ("column of an update out of range", outside(self.batch_columns, columns), f"columns {allowed(columns)}"),
            ("an update has NaN or infinite values", infinite(self.batch_values), "finite values"),
        ):
            refuse(self.name, what, bad, place=self._place, expected=expected)
        return self

    def _place(self, entry: int) -> str:
        batch = int(np.searchsorted(self.batch_pointers, entry, side="right")) - 1
        place = f"batch {batch}, entry {entry - self.batch_pointers[batch]}"
        return f"{place}: row {self.batch_rows[entry]}, column {self.batch_columns[entry]}"

    def describe(self) -> dict[str, Any]:
        """Return the statistics of the matrix before the first batch, and of the batches.

        Returns
        -------
        dict
            As `Matrix.describe`, and

            batch_length
                Quantiles and mean of the entries in a batch.
            updated_rows
                Rows that any batch has an entry in.
        """
        return {
            **self.base.describe(),
            "batch_length": quantiles(np.diff(self.batch_pointers)),
            "updated_rows": len(np.unique(self.batch_rows)),
        }

    def summary(self) -> dict[str, Any]:
        """Return `n`, `columns`, `nnz` of the matrix before the first batch, `batches`, and `entries` of them all."""
        rows, columns = self.base.shape
        return {"n": rows, "columns": columns, "nnz": self.base.nnz, "batches": self.batches, "entries": self.entries}

    def info(self) -> list[tuple[str, str]]:
        """Return rows, columns and non-zeros of the matrix before the first batch, batches, and entries of them all."""
        heads = ("rows", "columns", "non-zeros", "batches", "entries in batches")
        return [(head, f"{number:,}") for head, number in zip(heads, self.summary().values(), strict=True)]
