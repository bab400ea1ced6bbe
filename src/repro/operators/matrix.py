"""From what a user has, a SciPy matrix or a problem, to a problem with an entry and a precision."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from repro.codegen.precisions import DTYPES
from repro.entries import entries
from repro.errors import ReproError
from repro.problems.fold import fold
from repro.problems.matrix import Matrix
from repro.sparse.symmetry import adjoint_factors, transposed_order

BLOCKS = {(3, 3): "block3", (4, 4): "quaternion"}
PRECISIONS = {np.dtype(real): name for name, real in DTYPES.items()}


def as_problem(matrix: Any, entry: str | None, precision: str | None) -> tuple[Matrix, str]:
    """Return a matrix as a problem, and the precision to multiply in.

    Parameters
    ----------
    matrix
        A `Matrix`, or a square SciPy sparse matrix or array. Real BSR of 3×3 blocks has the entry `block3`, real BSR
        of 4×4 blocks `quaternion` (every block has to be the expansion of one), other real matrices `real`, complex
        ones `complex`.
    entry
        Another entry, for a real matrix: its k×k blocks are folded.
    precision
        `single` or `double`; None for that of the values (a problem's are double).

    Raises
    ------
    ReproError
        It is no square sparse matrix of finite numbers, or does not fit the entry.
    """
    if precision not in (None, *DTYPES):
        raise ReproError("unknown precision", expected="single or double", actual=precision)
    if isinstance(matrix, Matrix):
        if entry not in (None, matrix.entry):
            raise ReproError("the problem has another entry", expected=matrix.entry, actual=entry)
        return matrix.validate().require_product(), precision or "double"
    if not sp.issparse(matrix):
        raise ReproError(
            "this is no sparse matrix",
            expected="a repro Matrix, or a SciPy sparse matrix or array",
            actual=type(matrix).__name__,
            todo="wrap a dense matrix in scipy.sparse.csr_array",
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ReproError("the matrix is not square", expected="as many columns as rows", actual=matrix.shape)
    stored = entry or _entry_of(matrix)
    if stored not in entries():
        raise ReproError("unknown entry", expected=f"one of {', '.join(sorted(entries()))}", actual=stored)
    problem = _from_blocks(matrix) if stored == "block3" and _blocks(matrix) == (3, 3) else _folded(matrix, stored)
    return problem.validate().require_product(), precision or precision_of_values(matrix.dtype)


def as_rows(matrix: Any, dtype: DTypeLike | None = None, what: str = "matrix") -> tuple[sp.csr_array, str]:
    """Return a matrix of real numbers as CSR, and its precision; entries are as they are stored.

    Parameters
    ----------
    matrix
        A SciPy sparse matrix or array.
    dtype
        float32 or float64; None: float32 for values of that type, else float64.
    what
        What it is to the user, for messages.

    Raises
    ------
    ReproError
        It is none, or damaged.
    """
    if not sp.issparse(matrix):
        raise ReproError(
            "this is no sparse matrix",
            where=what,
            expected="a SciPy sparse matrix or array",
            actual=type(matrix).__name__,
            todo="wrap a dense matrix in scipy.sparse.csr_array",
        )
    if matrix.ndim != 2:
        raise ReproError("this is no matrix", where=what, expected="rows and columns", actual=f"shape {matrix.shape}")
    if matrix.dtype.kind not in "fiub":
        raise ReproError("the matrix is not real", where=what, expected="real numbers", actual=matrix.dtype)
    precision = precision_of_values(matrix.dtype) if dtype is None else precision_of(dtype)
    rows = sp.csr_array(matrix, dtype=DTYPES[precision])
    try:
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ReproError("the matrix is damaged", where=what, actual=error) from None
    return rows, precision


def precision_of(dtype: DTypeLike) -> str:
    """Return the name of a dtype that a matrix can have.

    Raises
    ------
    ReproError
    """
    with suppress(TypeError):
        asked = np.dtype(dtype)
        for name, working in DTYPES.items():
            if asked == np.dtype(working):
                return name
    raise ReproError("a matrix cannot be of that dtype", where="dtype", expected="float32 or float64", actual=dtype)


def transposed(matrix: Matrix, conjugate: bool) -> Matrix:
    """Return the transpose of a square matrix; the matrix itself where they are the same, bit for bit.

    Blocks are transposed too, and quaternions conjugated, so that its real expansion is transposed.

    Parameters
    ----------
    matrix
        The matrix.
    conjugate
        Whether complex numbers are conjugated; to matrices of other entries it is all one.

    Raises
    ------
    ReproError
        The transpose of an entry is none of its kind.
    """
    indptr, columns, order = transposed_order(matrix)
    values = matrix.values[order]
    if conjugate or matrix.entry != "complex":
        values = values @ adjoint_factors(matrix.entry)
    arrays: dict[str, Any] = {"indptr": indptr, "indices": columns, "values": values}
    if all(np.array_equal(array, arrays[name]) for name, array in matrix.arrays().items()):
        return matrix
    return replace(matrix, statistics={}, **arrays)


def _blocks(matrix: Any) -> tuple[int, int] | None:
    return matrix.blocksize if matrix.format == "bsr" else None


def _entry_of(matrix: Any) -> str:
    if matrix.dtype.kind == "c":
        return "complex"
    return BLOCKS.get(_blocks(matrix) or (1, 1), "real")


def precision_of_values(dtype: np.dtype[Any]) -> str:
    """Return the precision to multiply values of a dtype in: single for single, else double."""
    return PRECISIONS.get(np.empty(0, dtype).real.dtype, "double")


def _from_blocks(matrix: Any) -> Matrix:
    """Take the blocks as they are: all that are stored, zeros too."""
    blocks = sp.bsr_array(matrix, copy=True)
    blocks.sum_duplicates()
    n = matrix.shape[0] // 3
    values = blocks.data.reshape(-1, 9).astype(np.float64)
    return Matrix("matrix", "block3", n, blocks.indptr.astype(np.int32), blocks.indices.astype(np.int32), values)


def _folded(matrix: Any, entry: str) -> Matrix:
    wide = np.complex128 if matrix.dtype.kind == "c" else np.float64
    rows = sp.csr_array(matrix, dtype=wide, copy=True)
    rows.sum_duplicates()
    # the tolerance is for blocks that were computed in single precision
    folded = fold(rows, entry, "the matrix", tolerance=float(np.finfo(_real(matrix.dtype)).eps))
    return Matrix("matrix", entry, folded.n, folded.indptr, folded.indices, folded.values)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    real = np.empty(0, dtype).real.dtype
    return real if real.kind == "f" else np.dtype(np.float64)
