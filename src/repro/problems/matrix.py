"""Problems that consist of one sparse matrix."""

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

#: Maximum number of rows and of columns, since indices are int32.
MAX_DIMENSION = (1 << 31) - 1


@dataclass(frozen=True)
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
        """Return entry type and sizes in the format that recorded checksums were computed with."""
        sizes = (self.n,) if self.square else self.shape
        return " ".join(map(str, (self.entry, *sizes, self.nnz)))

    def validate(self) -> Self:
        """Return the matrix; raise `ReproError` for an unknown entry type, invalid arrays, or NaN or infinite
        values.
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
        # Marks pairs of consecutive column indices that belong to one row.
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
        """Return the matrix if it is square and nonempty, as iterated products y = A x require; else raise
        `ReproError`.
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
        return describe_pattern(self.indptr, self.indices, self.columns)

    def summary(self) -> dict[str, Any]:
        columns = {} if self.square else {"columns": self.columns}
        return {"entry": self.entry, "n": self.n, **columns, "nnz": self.nnz}

    def info(self) -> list[tuple[str, str]]:
        columns = [] if self.square else [("columns", f"{self.columns:,}")]
        return [("entry", self.entry), ("rows", f"{self.n:,}"), *columns, ("non-zeros", f"{self.nnz:,}")]
