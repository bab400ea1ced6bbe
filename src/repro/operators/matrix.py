"""From what a user has, a SciPy matrix or a problem, to a problem with an entry and a precision."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from repro.casts import cast
from repro.codegen.precisions import DTYPES
from repro.entries import entries
from repro.errors import ReproError
from repro.operators.formats import sound
from repro.problems.fold import fold
from repro.problems.matrix import Matrix
from repro.sparse.dynamic.layout import MOST_ENTRIES
from repro.sparse.symmetry import adjoint_factors, transposed_order

BLOCKS = {(3, 3): "block3", (4, 4): "quaternion"}
#: What to do about values that a precision does not hold.
SCALE = "scale the matrix, or take more precision; set to 0 what is too small to matter"
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
        It is no square sparse matrix of finite numbers, is damaged, does not fit the entry, or has values that the
        precision does not hold.
    """
    if precision not in (None, *DTYPES):
        raise ReproError("unknown precision", expected="single or double", actual=precision)
    if isinstance(matrix, Matrix):
        if entry not in (None, matrix.entry):
            raise ReproError("the problem has another entry", expected=matrix.entry, actual=entry)
        problem, working = matrix.validate().require_product(), precision or "double"
    else:
        problem, working = _of_scipy(sound(matrix, "matrix"), entry, precision)
    cast(problem.values, DTYPES[working], "matrix: values", SCALE)
    return problem, working


def _of_scipy(matrix: Any, entry: str | None, precision: str | None) -> tuple[Matrix, str]:
    if matrix.shape[0] != matrix.shape[1]:
        raise ReproError("the matrix is not square", expected="as many columns as rows", actual=matrix.shape)
    stored = entry or _entry_of(matrix)
    if stored not in entries():
        raise ReproError("unknown entry", expected=f"one of {', '.join(sorted(entries()))}", actual=stored)
    working = precision or precision_of_values(matrix.dtype)
    if matrix.dtype.kind in "iu":  # the entries' values are real numbers, which may be rounded
        cast(matrix.data, DTYPES[working], "matrix: data", SCALE)
    problem = _from_blocks(matrix) if stored == "block3" and _blocks(matrix) == (3, 3) else _folded(matrix, stored)
    return problem.validate().require_product(), working


def as_rows(
    matrix: Any, dtype: DTypeLike | None = None, what: str = "matrix", most_rows: int = MOST_ENTRIES
) -> tuple[sp.csr_array, str]:
    """Return a matrix of real numbers as CSR, and its precision; entries are as they are stored.

    Parameters
    ----------
    matrix
        A SciPy sparse matrix or array.
    dtype
        float32 or float64; None: float32 for values of that type, else float64.
    what
        What it is to the user, for messages.
    most_rows
        How many rows it can have.

    Raises
    ------
    ReproError
        It is none, is damaged, or has values that the dtype does not hold.
    """
    given = sound(matrix, what, most_rows)
    if given.dtype.kind == "c":
        raise ReproError("the matrix is not real", where=what, expected="real numbers", actual=given.dtype)
    precision = precision_of_values(given.dtype) if dtype is None else precision_of(dtype)
    given.data = cast(given.data, DTYPES[precision], f"{what}: data", SCALE)
    return sp.csr_array(given), precision


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix with its columns in order, none of a row twice; the one that is given stays as it is."""
    if matrix.has_canonical_format:
        return matrix
    once = matrix.copy()
    once.sum_duplicates()
    return once


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
    wide = cast(matrix.data, np.float64, "matrix: data", SCALE)
    blocks = sp.bsr_array((wide, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
    blocks.sum_duplicates()
    n = matrix.shape[0] // 3
    indptr, indices = (cast(array, np.int32, "matrix: offsets") for array in (blocks.indptr, blocks.indices))
    return Matrix("matrix", "block3", n, indptr, indices, blocks.data.reshape(-1, 9))


def _folded(matrix: Any, entry: str) -> Matrix:
    # the tolerance is for blocks that were computed in single precision
    tolerance = float(np.finfo(_real(matrix.dtype)).eps)
    matrix.data = cast(matrix.data, np.complex128 if matrix.dtype.kind == "c" else np.float64, "matrix: data", SCALE)
    rows = sp.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    folded = fold(rows, entry, "the matrix", tolerance)
    return Matrix("matrix", entry, folded.n, folded.indptr, folded.indices, folded.values)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    real = np.empty(0, dtype).real.dtype
    return real if real.kind == "f" else np.dtype(np.float64)
