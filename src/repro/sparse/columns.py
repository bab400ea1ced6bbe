"""Columns of a row that studies on products y = A x share."""

from __future__ import annotations

from collections.abc import Mapping

from repro.bench.rows import ColumnType

#: What the baselines are of, by backend.
LIBRARIES: Mapping[str, str] = {"cuda": "cuSPARSE", "opencl": "SciPy"}
#: What the matrix is, and how it is stored: what a non-zero is, the order of the unknowns, the layout.
STORED: dict[str, ColumnType] = {"entry": str, "ordering": str, "layout": str}
#: Of a library's routine its name, what its numbers are, its format, and whether the papers compare with it; and of all
#: that multiplies the bytes of the matrix as it is stored.
LIBRARY: dict[str, ColumnType] = {
    "routine": str,
    "representation": str,
    "format": str,
    "papers_choice": bool,
    "matrix_bytes": int,
}
