"""Problems that consist of one sparse matrix, or of a sparse matrix and batches of entries to insert into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled
from repro.problems.problem import (
    Outline,
    Problem,
    check_array,
    check_pointers,
    describe_pattern,
    index_range_text,
    infinite,
    outside,
    quantiles,
    refuse,
)

if TYPE_CHECKING:
    from repro.config.models import UpdateBatches

#: Maximum number of rows and of columns, since indices are int32.
MAX_DIMENSION = (1 << 31) - 1


@dataclass(frozen=True, repr=False)
class Matrix(Problem):
    """A sparse matrix with compound entries in CSR. Columns are sorted and distinct; it may be rectangular or empty."""

    kind: ClassVar[str] = "matrix"

    #: Name of the entry type.
    entry: str
    #: Number of rows, counted in entries.
    n: int
    #: `(n + 1,)`
    indptr: NDArray[np.int32]
    #: `(nnz,)`
    indices: NDArray[np.int32]
    #: `(nnz, members)`; the members of an entry are in storage order.
    values: NDArray[np.float64]
    #: Number of columns, counted in entries; None if it equals the number of rows.
    columns: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns, counted in entries."""
        return self.n, self.n if self.columns is None else self.columns

    @property
    def square(self) -> bool:
        return self.shape[0] == self.shape[1]

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def row_lengths(self) -> NDArray[np.int32]:
        return np.diff(self.indptr).astype(np.int32)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"indptr": self.indptr, "indices": self.indices, "values": self.values}

    def traits(self) -> Mapping[str, Any]:
        return {"entry": self.entry, "n": self.n, "columns": self.columns}

    def _heading(self) -> str:
        """Return entry type and sizes as text, in the format with which recorded checksums were computed."""
        sizes = (self.n,) if self.square else self.shape
        return " ".join(map(str, (self.entry, *sizes, self.nnz)))

    def validate(self) -> Self:
        """Return the matrix; raise `ReproError` for an unknown entry type, invalid arrays, or NaN or infinite
        values.
        """
        members = len(get_entry(self.entry).members)
        size = "{} x {}".format(*self.shape)
        if not all(isinstance(count, (int, np.integer)) for count in self.shape):
            raise ReproError("the size of the matrix is not an integer", where=self.name, actual=size)
        if min(self.shape) < 0:
            raise ReproError("the matrix has a negative size", where=self.name, actual=size)
        if max(self.shape) > MAX_DIMENSION:
            raise ReproError(
                "the matrix is too large", where=self.name, expected=f"at most {MAX_DIMENSION:,}", actual=size
            )
        check_array(self.name, "row pointers", self.indptr, np.int32, (self.n + 1,))
        check_array(self.name, "column indices", self.indices, np.int32, np.shape(self.indices)[:1] or (0,))
        check_array(self.name, "values", self.values, np.float64, (self.nnz, members))
        check_pointers(self.name, "row", self.indptr, self.nnz)
        columns = self.shape[1]
        is_outside, expected = outside(self.indices, columns), f"columns {index_range_text(columns)}"
        refuse(self.name, "column index out of range", is_outside, location=self._location, expected=expected)
        # Marks pairs of consecutive column indices that belong to one row.
        is_in_row = np.ones(max(self.nnz - 1, 0), dtype=bool)
        starts = self.indptr[(self.indptr > 0) & (self.indptr < self.nnz)]
        is_in_row[starts - 1] = False
        step = np.diff(self.indices)
        for what, mask, expected in (
            ("the columns of a row are not sorted", is_in_row & (step < 0), "ascending columns"),
            ("the matrix has duplicate entries", is_in_row & (step == 0), "a column once in a row"),
        ):
            refuse(self.name, what, mask, location=lambda i: self._location(i + 1), expected=expected)
        what = "the matrix has NaN or infinite values"
        refuse(self.name, what, infinite(self.values), location=self._location, expected="finite values")
        return self

    def _location(self, entry: int) -> str:
        row = int(np.searchsorted(self.indptr, entry, side="right")) - 1
        return f"row {row}, column {self.indices[entry]}"

    def require_entries(self) -> Self:
        """Return the matrix if it is nonempty, as a product y = A x requires; else raise `ReproError`."""
        if not self.nnz:
            raise ReproError(
                "the matrix has no entries",
                where=self.name,
                expected="at least one that is not zero",
                actual="{} x {}".format(*self.shape),
                todo="remove it, or correct its source",
            )
        return self

    def require_product(self) -> Self:
        """Return the matrix if it is square and nonempty, as repeated products y = A x require; else `ReproError`."""
        self.require_entries()
        if not self.square:
            raise ReproError(
                "the matrix is not square",
                where=self.name,
                expected="as many columns as rows",
                actual="{} x {}".format(*self.shape),
                todo="remove it, or make it square, for example with rows or columns of zeros",
            )
        return self

    def outline(self) -> Outline:
        columns = None if self.square else self.columns
        return Outline(self.name, self.kind, self.entry, size=(self.n, self.nnz), columns=columns)

    def describe(self) -> dict[str, Any]:
        return describe_pattern(self.indptr, self.indices, self.columns)

    def summary(self) -> dict[str, Any]:
        columns = {} if self.square else {"columns": self.columns}
        return {"entry": self.entry, "n": self.n, **columns, "nnz": self.nnz}

    def info(self) -> list[tuple[str, str]]:
        columns = [] if self.square else [("columns", f"{self.columns:,}")]
        return [("entry", self.entry), ("rows", f"{self.n:,}"), *columns, ("non-zeros", f"{self.nnz:,}")]


#: Maximum number of entries in matrix and batches together, since offsets have 32 bits.
MAX_ENTRIES = 2**31 - 1


def draw_batches(matrix: Assembled, batch_settings: UpdateBatches, seed: int, where: str) -> dict[str, NDArray[Any]]:
    """Draw random batches of entries, with uniform columns and values uniform in [-1, 1]; return the fields of
    `Updates`.
    """
    rng = np.random.default_rng(seed)
    rows, nonzeros = matrix.n, len(matrix.indices)
    columns = rows if matrix.columns is None else matrix.columns
    sizes = list(batch_settings.sizes) or [max(1, round((batch_settings.share or 0) * nonzeros))] * (
        batch_settings.batches or 0
    )
    entries = sum(sizes)
    is_empty = min(rows, columns) == 0 or (batch_settings.rows == "degree" and nonzeros == 0)
    if entries > MAX_ENTRIES or (is_empty and entries):
        raise ReproError(
            "the batches cannot be drawn",
            where=f"{where}: updates",
            expected=f"at most {MAX_ENTRIES:,} entries, and a matrix with room for them",
            actual=f"{entries:,} entries, and a matrix of {rows:,} x {columns:,} with {nonzeros:,} non-zeros",
        )
    if batch_settings.rows == "degree":
        # Draw rows with probabilities proportional to their numbers of entries.
        entry_indices = rng.integers(nonzeros, size=entries, dtype=np.int32) if entries else np.empty(0, np.int32)
        batch_rows = (np.searchsorted(matrix.indptr, entry_indices, side="right") - 1).astype(np.int32)
    else:
        batch_rows = rng.integers(max(rows, 1), size=entries, dtype=np.int32)
    batch_columns = rng.integers(max(columns, 1), size=entries, dtype=np.int32)
    batch_values = rng.uniform(-1, 1, entries)
    pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if batch_settings.order == "sorted":
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


@dataclass(frozen=True, repr=False)
class Updates(Problem):
    """A real sparse matrix, and batches of entries to insert into the matrix one after the other.

    Matrix and batches may be empty. A batch may be unsorted, and it may contain an entry several times or an entry that
    the matrix already has. The study defines what a repeated entry means.
    """

    kind: ClassVar[str] = "updates"

    #: Number of rows.
    n: int
    #: `(n + 1,)`; this array and the next two are the CSR arrays of the matrix before the first batch.
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    #: `(nnz, 1)`
    values: NDArray[np.float64]
    #: `(batches + 1,)`; batch i consists of the entries from `batch_pointers[i]` up to `batch_pointers[i + 1]`,
    #: exclusive.
    batch_pointers: NDArray[np.int64]
    #: `(entries,)`; row of each entry, for all batches one after the other.
    batch_rows: NDArray[np.int32]
    batch_columns: NDArray[np.int32]
    batch_values: NDArray[np.float64]
    #: Number of columns; None if it equals the number of rows.
    columns: int | None = None

    @property
    def base(self) -> Matrix:
        return Matrix(
            self.name, "real", self.n, self.indptr, self.indices, self.values, self.columns, origin=self.origin
        )

    @property
    def batches(self) -> int:
        return len(self.batch_pointers) - 1

    @property
    def entries(self) -> int:
        """Total number of entries in all batches."""
        return len(self.batch_rows)

    def batch(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return rows, columns and values of batch number `i`, counted from 0."""
        begin, end = self.batch_pointers[i : i + 2]
        return self.batch_rows[begin:end], self.batch_columns[begin:end], self.batch_values[begin:end]

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            **self.base.arrays(),
            "batch_pointers": self.batch_pointers,
            "batch_rows": self.batch_rows,
            "batch_columns": self.batch_columns,
            "batch_values": self.batch_values,
        }

    def traits(self) -> Mapping[str, Any]:
        return {"n": self.n, "columns": self.columns}

    def validate(self) -> Self:
        """Return the problem; raise `ReproError` for an invalid matrix, arrays, pointers or entries."""
        rows, columns = self.base.validate().shape
        check_array(self.name, "batch pointers", self.batch_pointers, np.int64, (max(self.batches, 0) + 1,))
        check_array(self.name, "rows of the batches", self.batch_rows, np.int32, (self.entries,))
        check_array(self.name, "columns of the batches", self.batch_columns, np.int32, (self.entries,))
        check_array(self.name, "values of the batches", self.batch_values, np.float64, (self.entries,))
        check_pointers(self.name, "batch", self.batch_pointers, self.entries)
        for what, mask, expected in (
            ("row of an update out of range", outside(self.batch_rows, rows), f"rows {index_range_text(rows)}"),
            (
                "column of an update out of range",
                outside(self.batch_columns, columns),
                f"columns {index_range_text(columns)}",
            ),
            ("an update has NaN or infinite values", infinite(self.batch_values), "finite values"),
        ):
            refuse(self.name, what, mask, location=self._location, expected=expected)
        return self

    def outline(self) -> Outline:
        """Return the outline of the matrix; its `entry` is None as for unbuilt updates, which are always real."""
        return replace(self.base.outline(), kind=self.kind, entry=None)

    def _location(self, entry: int) -> str:
        batch = int(np.searchsorted(self.batch_pointers, entry, side="right")) - 1
        location = f"batch {batch}, entry {entry - self.batch_pointers[batch]}"
        return f"{location}: row {self.batch_rows[entry]}, column {self.batch_columns[entry]}"

    def describe(self) -> dict[str, Any]:
        """Return the statistics of `Matrix.describe`, quantiles of `batch_length`, and the number of `updated_rows`."""
        return {
            **self.base.describe(),
            "batch_length": quantiles(np.diff(self.batch_pointers)),
            "updated_rows": len(np.unique(self.batch_rows)),
        }

    def summary(self) -> dict[str, Any]:
        rows, columns = self.base.shape
        return {"n": rows, "columns": columns, "nnz": self.base.nnz, "batches": self.batches, "entries": self.entries}

    def info(self) -> list[tuple[str, str]]:
        heads = ("rows", "columns", "non-zeros", "batches", "entries in batches")
        return [(head, f"{number:,}") for head, number in zip(heads, self.summary().values(), strict=True)]
