"""Matrix Market files, read through SciPy into CSR."""

from __future__ import annotations

import io
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
        Square, float64 or complex128, columns sorted, without explicit zeros; the symmetric half expanded.
    counts
        `stored` lines in the file, non-zeros `expanded` from them, `explicit_zeros` dropped, `duplicates` added up.
    header
        Format, field and symmetry as the file's first line has them.
    """

    matrix: sp.csr_array
    counts: dict[str, int]
    header: str

    @property
    def is_complex(self) -> bool:
        """Whether the values are complex numbers."""
        return bool(np.iscomplexobj(self.matrix.data))

    @property
    def is_pattern(self) -> bool:
        """Whether the file has no values, and no entry twice."""
        return "pattern" in self.header.split() and not self.counts["duplicates"]

    def checksum(self) -> str:
        """SHA-256 of the matrix, whatever the wrapping."""
        return matrix_checksum(self.matrix)


def is_matrix_market(path: Path) -> bool:
    """Return whether a file's name is that of a Matrix Market file, packed or not."""
    return path.name.lower().endswith(ENDINGS)


def read_matrix(path: Path) -> MatrixFile:
    """Read a Matrix Market file, bare, packed with gzip or xz, or in a tar archive under the archive's own name.

    Real, integer and complex values are taken as they are; the entries of a pattern are 1.

    Raises
    ------
    ReproError
        The file is missing, truncated, corrupt or not Matrix Market; the matrix is not square, has NaN or infinite
        values, no entries, or too many for 32-bit indices.
    """
    data = unpack(path, f"{path.name.split('.', 1)[0]}.mtx")
    try:
        rows, columns, stored, *kind = scipy.io.mminfo(io.BytesIO(data))
        header = " ".join(kind)
        if rows == columns and max(rows, stored) <= LARGEST:
            read: Any = scipy.io.mmread(io.BytesIO(data))
    except (ValueError, OverflowError, TypeError) as error:
        raise ReproError(
            "the file is not a complete Matrix Market file",
            where=path,
            actual=error,
            todo="delete it and fetch it again, or write it anew",
        ) from None
    if rows != columns:
        raise ReproError(
            "the matrix is not square", where=path, expected="as many columns as rows", actual=f"{rows} x {columns}"
        )
    if max(rows, stored) > LARGEST:
        raise ReproError(
            "the matrix is too large for 32-bit indices", where=path, expected=f"at most {LARGEST}", actual=stored
        )
    loose = sp.coo_array(read)
    _refuse_infinite(loose, path)
    matrix = sp.csr_array(loose)
    expanded, summed = loose.nnz, matrix.nnz
    matrix.eliminate_zeros()
    matrix.sort_indices()
    if matrix.nnz == 0:
        raise ReproError(
            "the matrix has no entries", where=path, actual=f"{rows} x {columns}, {expanded} stored, all zero"
        )
    counts = {
        "stored": int(stored),
        "expanded": int(expanded),
        "duplicates": int(expanded - summed),
        "explicit_zeros": int(summed - matrix.nnz),
        "nonzeros": int(matrix.nnz),
    }
    kept = np.complex128 if np.iscomplexobj(matrix.data) else np.float64
    return MatrixFile(sp.csr_array(matrix.astype(kept)), counts, header)


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
