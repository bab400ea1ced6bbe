"""The file that an exported example reads a matrix from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repro.casts import cast
from repro.codegen.precisions import DTYPES
from repro.problems.matrix import Matrix


def kind_of_file(entry: str, precision: str) -> str:
    """Return the line of text that such a file starts with."""
    return f"sparse-repro CSR {entry} {precision}"


def write_matrix(problem: Matrix, precision: str, path: Path) -> None:
    """Write a problem for the example of an exported kernel.

    Format, little-endian: a line of text; rows and non-zeros as int64; row pointers and columns as int32; the members
    of all entries in the precision.
    """
    with path.open("wb") as file:
        file.write(f"{kind_of_file(problem.entry, precision)}\n".encode())
        for array in (
            np.array([problem.n, problem.nnz], "<i8"),
            problem.indptr.astype("<i4"),
            problem.indices.astype("<i4"),
            cast(problem.values, np.dtype(DTYPES[precision]).newbyteorder("<"), f"{problem.name}: values"),
        ):
            array.tofile(file)
