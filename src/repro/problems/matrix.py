"""Problems that are one sparse matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.problem import (
    Problem,
    allowed,
    check_array,
    check_pointers,
    describe_pattern,
    infinite,
    outside,
    refuse,
)

#: The most rows and columns, which int32 numbers tell apart.
MAX_DIMENSION = (1 << 31) - 1


@dataclass(frozen=True)
class Matrix(Problem):
    """A sparse matrix with compound entries, in CSR with sorted column indices. It may be rectangular or empty.

    Attributes
    ----------
    entry
        The name of its entry.
    n
        Rows, counted in entries.
    indptr, indices
        int32 `(n + 1,)` and `(nnz,)`; columns ascend within a row, none comes twice.
    values
        float64 `(nnz, members)`, members in the entry's storage order.
    columns
        Columns, counted in entries; None: as many as rows.
    """

    kind: ClassVar[str] = "matrix"

    entry: str
    n: int
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    columns: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, counted in entries."""
        return self.n, self.n if self.columns is None else self.columns

    @property
    def square(self) -> bool:
        """Whether it has as many columns as rows."""
        return self.shape[0] == self.shape[1]

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return len(self.indices)

    @property
    def row_lengths(self) -> NDArray[np.int32]:
        """int32 `(n,)`, entries in each row."""
        return np.diff(self.indptr).astype(np.int32)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return `indptr`, `indices`, `values`."""
        return {"indptr": self.indptr, "indices": self.indices, "values": self.values}

    def traits(self) -> Mapping[str, Any]:
        """Return `entry`, `n`, `columns`."""
        return {"entry": self.entry, "n": self.n, "columns": self.columns}

    def _heading(self) -> str:
        """Return entry and sizes, in the form that recorded checksums were computed with."""
        sizes = (self.n,) if self.square else self.shape
        return " ".join(map(str, (self.entry, *sizes, self.nnz)))

    def validate(self) -> Self:
        """Return the matrix itself if it is one.

        Raises
        ------
        ReproError
            An unknown entry, a size that is negative, no whole number or too large for 32 bits, arrays that do not fit,
            row pointers that decrease, columns out of range, not sorted or twice in a row, or NaN or infinite values.
        """
        members = len(get_entry(self.entry).members)
        size = "{} x {}".format(*self.shape)
        if not all(isinstance(count, (int, np.integer)) for count in self.shape):
            raise ReproError("the matrix has a size that is no whole number", where=self.name, actual=size)
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
        out, expected = outside(self.indices, columns), f"columns {allowed(columns)}"
        refuse(self.name, "column index out of range", out, place=self._place, expected=expected)
        # the steps from an entry to the next of the same row
        within = np.ones(max(self.nnz - 1, 0), dtype=bool)
        starts = self.indptr[(self.indptr > 0) & (self.indptr < self.nnz)]
        within[starts - 1] = False
        step = np.diff(self.indices)
        for what, bad, expected in (
            ("the columns of a row are not sorted", within & (step < 0), "ascending columns"),
            ("the matrix has duplicate entries", within & (step == 0), "a column once in a row"),
        ):
            refuse(self.name, what, bad, place=lambda i: self._place(i + 1), expected=expected)
        what = "the matrix has NaN or infinite values"
        refuse(self.name, what, infinite(self.values), place=self._place, expected="finite values")
        return self

    def _place(self, entry: int) -> str:
        row = int(np.searchsorted(self.indptr, entry, side="right")) - 1
        return f"row {row}, column {self.indices[entry]}"

    def require_product(self) -> Self:
        """Return the matrix itself if it can be multiplied with vectors time and again, y = A x with x and y alike.

        Raises
        ------
        ReproError
            It has no entries, or is not square.
        """
        actual = "{} x {}".format(*self.shape)
        if not self.nnz:
            raise ReproError(
                "the matrix has no entries",
                where=self.name,
                expected="at least one that is not zero",
                actual=actual,
                todo="leave it out, or correct what it is read or made from",
            )
        if not self.square:
            raise ReproError(
                "the matrix is not square",
                where=self.name,
                expected="as many columns as rows",
                actual=actual,
                todo="leave it out, or make it square: rows or columns of zeros will do",
            )
        return self

    def describe(self) -> dict[str, Any]:
        """Return what `repro.problems.problem.describe_pattern` says of the pattern."""
        return describe_pattern(self.indptr, self.indices, self.columns)

    def summary(self) -> dict[str, Any]:
        """Return `entry`, `n`, `nnz`, and of a rectangular matrix `columns`."""
        columns = {} if self.square else {"columns": self.columns}
        return {"entry": self.entry, "n": self.n, **columns, "nnz": self.nnz}

    def info(self) -> list[tuple[str, str]]:
        """Return entry, rows, columns of a rectangular matrix, and non-zeros."""
        columns = [] if self.square else [("columns", f"{self.columns:,}")]
        return [("entry", self.entry), ("rows", f"{self.n:,}"), *columns, ("non-zeros", f"{self.nnz:,}")]
