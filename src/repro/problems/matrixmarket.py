"""Matrix Market files, read through SciPy into CSR."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from repro.errors import ReproError
from repro.problems.content import matrix_checksum, unpack

ENDINGS = (".mtx", ".mtx.gz", ".mtx.xz", ".tar.gz", ".tgz")
LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class MatrixFile:
    """The content of a Matrix Market file.

    Attributes
    ----------
    matrix
        float64 or complex128, columns sorted, without explicit zeros; the symmetric half expanded.
    counts
        `stored` lines in the file, non-zeros `expanded` from them, `explicit_zeros` dropped, `duplicates` added up.
    header
        Format, field and symmetry as the file's first line has them.
    """

    matrix: sp.csr_array
    counts: dict[str, int]
    header: str

    @property
    def field(self) -> str:
        """What the header says that the values are: `real`, `complex`, `integer` or `pattern`, say."""
        return self.header.split()[1]

    def checksum(self) -> str:
        """SHA-256 of the matrix, whatever the wrapping."""
        return matrix_checksum(self.matrix)


def is_matrix_market(path: Path) -> bool:
    """Return whether a file's name is that of a Matrix Market file, packed or not."""
    return path.name.lower().endswith(ENDINGS)


def read_matrix(path: Path) -> MatrixFile:
    """Read a Matrix Market file, bare, packed with gzip or xz, or in a tar archive under the archive's own name.

    Real, integer and complex values are taken as they are; the entries of a pattern are 1. The matrix may be
    rectangular, and empty.

    Raises
    ------
    ReproError
        The file is missing, truncated, corrupt or not Matrix Market; the matrix has NaN or infinite values, or is too
        large for 32-bit indices; it is said to be symmetric, skew or Hermitian, but is not square.
    """
    data = unpack(path, f"{path.name.split('.', 1)[0]}.mtx")
    rows, columns, stored, *kind = _ask(scipy.io.mminfo, data, path)
    form, field, symmetry = kind
    if symmetry != "general" and rows != columns:
        raise ReproError(
            "the matrix is not square",
            where=path,
            expected=f"as many columns as rows, since the file calls it {symmetry}",
            actual=f"{rows} x {columns}",
        )
    if max(rows, columns, stored) > LARGEST:
        raise ReproError(
            "the matrix is too large for 32-bit indices",
            where=path,
            expected=f"at most {LARGEST} rows, columns and entries",
            actual=f"{rows} x {columns}, {stored} entries",
        )
    if form == "array" and not stored:  # SciPy 1.17 ends the process on a dense matrix without rows or columns
        read = sp.coo_array((rows, columns), dtype=complex if field == "complex" else float)
    else:
        read = _ask(scipy.io.mmread, data, path)
    loose = sp.coo_array(read)
    _refuse_infinite(loose, path)
    matrix = sp.csr_array(loose)
    expanded, summed = loose.nnz, matrix.nnz
    matrix.eliminate_zeros()
    matrix.sort_indices()
    counts = {
        "stored": int(stored),
        "expanded": int(expanded),
        "duplicates": int(expanded - summed),
        "explicit_zeros": int(summed - matrix.nnz),
        "nonzeros": int(matrix.nnz),
    }
    kept = np.complex128 if np.iscomplexobj(matrix.data) else np.float64
    return MatrixFile(sp.csr_array(matrix.astype(kept)), counts, " ".join(kind))


def _ask(read: Callable[[io.BytesIO], Any], data: bytes, path: Path) -> Any:
    """Let SciPy read a file, or say that it is damaged."""
    try:
        return read(io.BytesIO(data))
    except (ValueError, OverflowError, TypeError) as error:
        raise ReproError(
            "the file is not a complete Matrix Market file",
            where=path,
            actual=error,
            todo="delete it and fetch it again, or write it anew",
        ) from None


def _refuse_infinite(matrix: sp.coo_array, path: Path) -> None:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row, column = (int(index[bad[0]]) + 1 for index in matrix.coords)
        raise ReproError(
            "the matrix has NaN or infinite values",
            where=f"{path}, first at row {row}, column {column} (counted from 1)",
            expected="finite values",
            actual=f"{bad.size} of {matrix.nnz}",
        )
