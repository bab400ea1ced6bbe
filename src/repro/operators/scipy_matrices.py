"""Checks and conversion of users' sparse matrices on the host: SciPy's, PyTorch's, and any with the arrays of CSR.

A matrix becomes a problem with an entry type and a precision. Its arrays are checked before any conversion, since
SciPy's conversions do not check them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from operator import index
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from repro.codegen.targets import DTYPES
from repro.entries import entries
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, argument_errors, brief
from repro.exact_casts import cast
from repro.operators.arrays import as_tensor, host_array, without_gradient
from repro.operators.base import require_choice
from repro.problems.assembly import fold_blocks
from repro.problems.matrix import MAX_DIMENSION, Matrix
from repro.sparse.dynamic.host_layout import MAX_ENTRIES


def checked_copy(matrix: Any, subject: str, max_rows: int = MAX_DIMENSION) -> Any:
    """Return a checked copy of a sparse matrix that is safe to convert; a damaged matrix raises `ReproError`.

    It is SciPy's, a sparse tensor of PyTorch, or has the arrays of CSR (`indptr`, `indices`, `data`, `shape`), such as
    a BCSR of JAX. SciPy's conversions trust indices and cached flags (such as "sorted"). The new matrix has no cached
    flags; it shares the arrays if they are plain NumPy arrays. The format stays, but `dia` (without zeros), `lil` and
    `dok` become `coo`.
    """
    if isinstance(matrix, str | os.PathLike):
        raise ReproErrorOfType(
            "a file name, not a matrix",
            where=subject,
            expected="a SciPy sparse matrix or array",
            actual=brief(os.fspath(matrix)),
            todo="read a Matrix Market file with scipy.io.mmread and pass the result",
        )
    matrix = _as_scipy(matrix, subject)
    if not sp.issparse(matrix):
        raise ReproErrorOfType(
            "not a sparse matrix",
            where=subject,
            expected="a SciPy sparse matrix or array, or another with `indptr`, `indices`, `data` and `shape`",
            actual=type(matrix).__name__,
            todo="convert a dense matrix with `csr_array`",
        )
    check_extent(matrix.shape, subject, max_rows)
    read = _FORMATS.get(matrix.format)
    if read is None:
        raise ReproErrorOfValue(
            "unknown format", where=subject, expected=f"one of {', '.join(_FORMATS)}", actual=matrix.format
        )
    return read(matrix, subject)


#: SciPy's matrices and PyTorch's names of their offsets and indices, by layout.
COMPRESSED_TENSORS = {
    "torch.sparse_csr": (sp.csr_array, "crow_indices", "col_indices"),
    "torch.sparse_csc": (sp.csc_array, "ccol_indices", "row_indices"),
    "torch.sparse_bsr": (sp.bsr_array, "crow_indices", "col_indices"),
}
#: SciPy's matrices by the name of a format, and by GCXS's compressed axes.
COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array, (0,): sp.csr_array, (1,): sp.csc_array}


def _as_scipy(matrix: Any, subject: str) -> Any:
    """Return a sparse matrix of another library as SciPy's, unchecked, and all else as it is."""
    if sp.issparse(matrix) or isinstance(matrix, type):
        return matrix
    if hasattr(matrix, "to_scipy"):  # an operator
        return matrix.to_scipy()
    tensor = as_tensor(matrix)
    if tensor is not None:
        return _tensor_as_scipy(without_gradient(tensor, subject))
    if not all(hasattr(matrix, name) for name in ("indptr", "indices", "data", "shape")):
        return matrix
    try:
        rows, columns = map(index, matrix.shape)
    except (TypeError, ValueError):
        raise ReproErrorOfValue(
            "not a matrix", where=subject, expected="rows and columns", actual=f"shape {brief(matrix.shape)}"
        ) from None
    shape = rows, columns
    check_extent(shape, subject)
    data, indices, offsets = (
        host_array(getattr(matrix, name), f"{subject}: {name}") for name in ("data", "indices", "indptr")
    )
    name: Any = getattr(matrix, "format", None) or getattr(matrix, "compressed_axes", None)
    if name is None:
        name = "bsr" if data.ndim == 3 else "csr"
    kinds = [kind for known, kind in COMPRESSED.items() if known == name]
    if not kinds:
        raise ReproErrorOfValue("unknown format", where=subject, expected="csr, csc or bsr", actual=brief(name))
    return _unchecked(kinds[0], shape, data, indices, offsets)


def _tensor_as_scipy(tensor: Any) -> Any:
    if str(tensor.layout) == "torch.strided" or tensor.dim() != 2:
        return tensor
    shape = tuple(tensor.shape)
    if str(tensor.layout) not in COMPRESSED_TENSORS:
        tensor = tensor.cpu().coalesce()
        rows, columns = tensor.indices().numpy()
        return sp.coo_array((tensor.values().numpy(), (rows, columns)), shape=shape)
    kind, *names = COMPRESSED_TENSORS[str(tensor.layout)]
    offsets, indices = (getattr(tensor, name)().cpu().numpy() for name in names)
    return _unchecked(kind, shape, tensor.values().cpu().numpy(), indices, offsets)


def _unchecked(kind: Any, shape: tuple[int, int], data: Any, indices: Any, offsets: Any) -> Any:
    """Return a compressed matrix of SciPy with these arrays, which its constructor would check or convert."""
    is_blocks = kind is sp.bsr_array and data.ndim == 3 and all(data.shape[1:])
    if is_blocks and any(count % size for count, size in zip(shape, data.shape[1:], strict=True)):
        expected = "blocks that rows and columns are multiples of"
        raise ReproErrorOfValue("the matrix is damaged", expected=expected, actual=f"{data.shape[1:]} in {shape}")
    matrix = kind(shape, blocksize=data.shape[1:]) if is_blocks else kind(shape)
    matrix.data, matrix.indices, matrix.indptr = data, indices, offsets
    return matrix


def checked_csr(arrays: Sequence[Any], shape: tuple[int, int], subject: str) -> sp.csr_array:
    """Return data, indices and offsets, arrays or lists, as a CSR matrix.

    Raise `ReproError` if they are inconsistent.
    """
    names = [f"{subject}: {name}" for name in ("data", "indices", "indptr")]
    data, indices, offsets = (host_array(array, name) for array, name in zip(arrays, names, strict=True))
    for name, array in zip(names, (data, indices, offsets), strict=True):
        _check_axes(array, 1, name)
    columns, ends = _whole(indices), _whole(offsets)
    check_compressed(len(data), columns, ends, shape, subject)
    end = int(ends[-1])
    return sp.csr_array((data[:end], columns[:end], ends), shape=shape)


def check_extent(shape: Any, subject: str, max_rows: int = MAX_DIMENSION) -> None:
    """Raise `ReproError` for a shape without two dimensions, or with too many rows or columns."""
    if len(shape) != 2:
        raise ReproErrorOfValue("not a matrix", where=subject, expected="rows and columns", actual=f"shape {shape}")
    for count, limit, name in zip(shape, (max_rows, MAX_DIMENSION), ("rows", "columns"), strict=True):
        if not 0 <= count <= limit:
            raise ReproErrorOfValue(
                f"the matrix has too many {name}" if count > 0 else "the matrix has a negative size",
                where=subject,
                expected=f"at most {limit:,} {name}",
                actual=f"{count:,}",
                todo=f"remove empty {name} and renumber the others" if count > 0 else None,
            )


def check_compressed(count: int, indices: Any, offsets: Any, shape: tuple[int, int], subject: str) -> None:
    """Raise `ReproError` for inconsistent indices and offsets of CSR, CSC or BSR, integer arrays of NumPy or CuPy.

    `count` is the number of values, for BSR of blocks. `offsets` has one number more than the major axis, and `indices`
    lie along the minor axis. `shape` is (length of the major axis, length of the minor axis), for BSR in blocks.
    """
    major, minor = shape
    for name, array in (("indices", indices), ("indptr", offsets)):
        _check_whole(array, f"{subject}: {name}")
    if len(indices) != count:
        raise _damage_error(f"{subject}: data and indices", "as many data as indices", f"{count} and {len(indices)}")
    if len(offsets) != major + 1:
        raise _damage_error(
            f"{subject}: indptr", f"{major + 1}, one more than rows (of CSC, columns)", f"{len(offsets)}"
        )
    first, last = int(offsets[0]), int(offsets[-1])
    if first != 0 or not 0 <= last <= count:
        raise _damage_error(f"{subject}: indptr", f"from 0 to {count} at most", f"from {first} to {last}")
    falls = offsets[1:] < offsets[:-1]
    if bool(falls.any()):
        row = int(falls.argmax())
        raise _damage_error(
            f"{subject}: indptr[{row + 1}]", f"{int(offsets[row])} at least", f"{int(offsets[row + 1])}"
        )
    check_indices(indices[:last], minor, f"{subject}: indices")


def check_indices(indices: Any, count: int, subject: str) -> None:
    """Raise `ReproError` for indices outside 0 to `count` - 1, in an array of NumPy or CuPy."""
    if not len(indices):
        return
    for wrong, find in ((int(indices.min()) < 0, indices.argmin), (int(indices.max()) >= count, indices.argmax)):
        if wrong:
            place = int(find())
            expected = f"0 to {count - 1}" if count else "none: there are none to name"
            raise _damage_error(f"{subject}[{place}]", expected, int(indices[place]))


def check_places(count: int, places: Sequence[Any], shape: tuple[int, int], subject: str) -> None:
    """Raise `ReproError` for rows and columns of entries outside the matrix, in arrays of NumPy or CuPy."""
    for place, limit, name in zip(places, shape, ("rows", "columns"), strict=True):
        _check_whole(place, f"{subject}: {name}")
        if len(place) != count:
            raise _damage_error(f"{subject}: data and {name}", "as many of each", f"{count} and {len(place)}")
        check_indices(place, limit, f"{subject}: {name}")


def _check_whole(array: Any, subject: str) -> None:
    _check_axes(array, 1, subject)
    if array.dtype.kind not in "iu":
        raise _damage_error(subject, "whole numbers", array.dtype)


def _damage_error(where: str, expected: str, actual: object) -> ReproError:
    return ReproErrorOfValue("the matrix is damaged", where=where, expected=expected, actual=actual)


# one reader for each format
# -----------------------------------------------------------------------------------------------


def _compressed_matrix(matrix: Any, subject: str) -> Any:
    data, indices, offsets = (
        _values(matrix, subject),
        _indices(matrix, "indices", subject),
        _indices(matrix, "indptr", subject),
    )
    check_compressed(len(data), indices, offsets, _major_minor(matrix), subject)
    end = int(offsets[-1])
    kind = sp.csc_array if matrix.format == "csc" else sp.csr_array
    return kind((data[:end], indices[:end], offsets), shape=_shape(matrix))


def _major_minor(matrix: Any) -> tuple[int, int]:
    rows, columns = _shape(matrix)
    return (columns, rows) if matrix.format == "csc" else (rows, columns)


def _block_rows(matrix: Any, subject: str) -> Any:
    data, indices, offsets = (
        _values(matrix, subject, 3),
        _indices(matrix, "indices", subject),
        _indices(matrix, "indptr", subject),
    )
    shape, size = _shape(matrix), data.shape[1:]
    if not all(size) or any(count % length for count, length in zip(shape, size, strict=True)):
        raise _damage_error(f"{subject}: data", "blocks that rows and columns are multiples of", f"{size} in {shape}")
    check_compressed(len(data), indices, offsets, (shape[0] // size[0], shape[1] // size[1]), subject)
    end = int(offsets[-1])
    return sp.bsr_array((data[:end], indices[:end], offsets), shape=shape)


def _coordinates(matrix: Any, subject: str) -> Any:
    data = _values(matrix, subject)
    places = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)  # for SciPy before 1.13
    if not isinstance(places, (tuple, list)) or len(places) != 2:
        raise _damage_error(f"{subject}: coords", "two arrays", type(places).__name__)
    return _coordinate_matrix(
        data, [_plain(place, f"{subject}: coords[{axis}]") for axis, place in enumerate(places)], matrix, subject
    )


def _coordinate_matrix(data: NDArray[Any], places: Sequence[NDArray[Any]], matrix: Any, subject: str) -> Any:
    whole, shape = tuple(map(_whole, places)), _shape(matrix)
    check_places(len(data), whole, shape, subject)
    return sp.coo_array((data, whole), shape=shape)


def _diagonals(matrix: Any, subject: str) -> Any:
    """Return a `dia` matrix as COO.

    The part of each diagonal inside the matrix, without zeros, as SciPy converts it.
    """
    data = _values(matrix, subject, 2)
    offsets = _indices(matrix, "offsets", subject)
    _check_whole(offsets, f"{subject}: offsets")
    if len(offsets) != len(data) or len(np.unique(offsets)) != len(offsets):
        raise _damage_error(f"{subject}: offsets", f"{len(data)}, as many as diagonals, none twice", f"{len(offsets)}")
    rows, columns = _shape(matrix)
    width = min(columns, data.shape[1])
    values, places, column_numbers = [data[:0].ravel()], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for diagonal, offset in zip(data, offsets.tolist(), strict=True):
        begin, end = max(0, offset), min(width, rows + offset)
        if begin < end:
            nonzero = np.flatnonzero(diagonal[begin:end]) + begin
            values.append(diagonal[nonzero])
            places.append(nonzero)
            column_numbers.append(nonzero - offset)
    return _coordinate_matrix(
        np.concatenate(values), [np.concatenate(column_numbers), np.concatenate(places)], matrix, subject
    )


def _lists(matrix: Any, subject: str) -> Any:
    columns: Any = getattr(matrix, "rows", None)
    values: Any = getattr(matrix, "data", None)
    rows = _shape(matrix)[0]
    for name, lists in (("rows", columns), ("data", values)):
        if not isinstance(lists, np.ndarray) or lists.shape != (rows,) or not all(isinstance(i, list) for i in lists):
            raise _damage_error(f"{subject}: {name}", f"{rows} lists", _describe(lists))
    lengths = np.fromiter(map(len, columns), np.int64, rows)
    uneven = np.flatnonzero(lengths != np.fromiter(map(len, values), np.int64, rows))
    if len(uneven):
        row = int(uneven[0])
        raise _damage_error(f"{subject}: row {row}", f"{lengths[row]} data, as columns", len(values[row]))
    places = [np.repeat(np.arange(rows), lengths), _list_array(chain.from_iterable(columns), f"{subject}: rows")]
    return _coordinate_matrix(_typed_array(chain.from_iterable(values), matrix, subject), places, matrix, subject)


def _keys(matrix: Any, subject: str) -> Any:
    keys = list(matrix.keys())
    if not all(isinstance(key, tuple) and len(key) == 2 for key in keys):
        raise _damage_error(f"{subject}: keys", "pairs of a row and a column", "others")
    places = [_list_array((key[axis] for key in keys), f"{subject}: keys") for axis in range(2)]
    return _coordinate_matrix(_typed_array(matrix.values(), matrix, subject), places, matrix, subject)


_FORMATS: dict[str, Callable[[Any, str], Any]] = {
    "csr": _compressed_matrix,
    "csc": _compressed_matrix,
    "bsr": _block_rows,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _keys,
}

# arrays ---------------------------------------------------------------------------------------------------------------


def _shape(matrix: Any) -> tuple[int, int]:
    rows, columns = matrix.shape
    return int(rows), int(columns)


def _values(matrix: Any, subject: str, axes: int = 1) -> NDArray[Any]:
    values = _plain(getattr(matrix, "data", None), f"{subject}: data", axes)
    if values.dtype.kind not in "biufc":
        raise ReproErrorOfValue("not numbers", where=f"{subject}: data", expected="numbers", actual=values.dtype)
    return values.astype(np.float64) if values.dtype == np.float16 else values  # SciPy has no float16


def _indices(matrix: Any, name: str, subject: str) -> NDArray[Any]:
    return _whole(_plain(getattr(matrix, name, None), f"{subject}: {name}"))


def _plain(numbers: Any, subject: str, axes: int = 1) -> NDArray[Any]:
    """Return an index or value array of a matrix as a contiguous NumPy array in native byte order."""
    if not isinstance(numbers, np.ndarray):
        raise _damage_error(subject, "an array", type(numbers).__name__)
    if np.ma.is_masked(numbers):
        raise _damage_error(subject, "an array without a mask", "masked numbers")
    array = np.asarray(numbers)
    _check_axes(array, axes, subject)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _check_axes(array: NDArray[Any], axes: int, subject: str) -> None:
    if array.ndim != axes:
        raise _damage_error(subject, f"an array of {axes} {'axis' if axes == 1 else 'axes'}", f"shape {array.shape}")


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.size else array.astype(np.int32)  # an empty list becomes float64


def _list_array(numbers: Any, subject: str) -> NDArray[Any]:
    items = list(numbers)
    try:
        array = np.array(items) if items else np.empty(0, np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _damage_error(subject, "numbers", error) from None
    _check_axes(array, 1, subject)
    return array


def _typed_array(numbers: Any, matrix: Any, subject: str) -> NDArray[Any]:
    return cast(_list_array(numbers, f"{subject}: data"), matrix.dtype, f"{subject}: data")


def _describe(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


BLOCK_ENTRIES = {(3, 3): "block3", (4, 4): "quaternion"}
#: Advice in errors for values too large or too small for a precision.
SCALE = "scale the matrix, or take more precision; set to 0 what is too small to matter"
PRECISIONS = {np.dtype(real): name for name, real in DTYPES.items()}


def check_words(entry: str | None, precision: str | None) -> None:
    """Raise `ReproError` for an unknown entry or precision."""
    if precision is not None:
        require_choice(precision, "precision", tuple(DTYPES))
    if entry is not None:
        require_choice(entry, "entry", tuple(sorted(entries())))


@argument_errors()
def as_problem(matrix: Any, entry: str | None, precision: str | None) -> tuple[Matrix, str]:
    """Return a matrix as a problem, and the precision of its products; the arguments are those of `repro.operator`.

    It raises `ReproError` if the matrix is damaged, empty or not finite, if its values do not suit the entry type,
    or if they exceed the precision.
    """
    check_words(entry, precision)
    if isinstance(matrix, Matrix):
        if entry not in (None, matrix.entry):
            raise ReproErrorOfValue("the problem has a different entry", expected=matrix.entry, actual=entry)
        problem, working_precision = matrix.validate(), precision or "double"
    else:
        problem, working_precision = _problem_of_scipy(checked_copy(matrix, "matrix"), entry, precision)
    if not problem.nnz:
        raise ReproError(
            "the matrix has no entries", where="matrix", expected="one at least, which may be 0",
            actual="{} x {}".format(*problem.shape),
            todo="use `repro.DynamicCSR`, which may be empty; or store zeros where values will follow",
        )  # fmt: skip
    cast(problem.values, DTYPES[working_precision], "matrix: values", SCALE)
    return problem, working_precision


def _problem_of_scipy(matrix: Any, entry: str | None, precision: str | None) -> tuple[Matrix, str]:
    blocks = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    entry_name = entry or ("complex" if matrix.dtype.kind == "c" else BLOCK_ENTRIES.get(blocks, "real"))
    working_precision = precision or precision_of_values(matrix.dtype)
    if matrix.dtype.kind in "iu":  # integers become real numbers and may be rounded
        cast(matrix.data, DTYPES[working_precision], "matrix: data", SCALE)
    problem = (
        _block_problem(matrix) if entry_name == "block3" and blocks == (3, 3) else _folded_problem(matrix, entry_name)
    )
    return problem.validate(), working_precision


def as_rows(
    matrix: Any, dtype: DTypeLike | None = None, subject: str = "matrix", max_rows: int = MAX_ENTRIES
) -> tuple[sp.csr_array, str]:
    """Return a real matrix as CSR, and its precision; entries are not sorted, and duplicates are not added.

    `dtype` None: float32 if the values are float32, else float64. It raises `ReproError` if the matrix is unsuitable or
    damaged, or if a value exceeds the dtype.
    """
    matrix_rows = checked_copy(matrix, subject, max_rows)
    if matrix_rows.dtype.kind == "c":
        raise ReproErrorOfValue(
            "the matrix is not real", where=subject, expected="real numbers", actual=matrix_rows.dtype
        )
    precision = precision_of_values(matrix_rows.dtype) if dtype is None else precision_of(dtype)
    matrix_rows.data = cast(matrix_rows.data, DTYPES[precision], f"{subject}: data", SCALE)
    return sp.csr_array(matrix_rows), precision


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return the matrix with sorted columns and duplicates added; the argument is not changed."""
    if matrix.has_canonical_format:
        return matrix
    merged = matrix.copy()
    merged.sum_duplicates()
    return merged


#: Number of vector elements that are compared at once, so few that they stay in a cache.
SLICE_LENGTH = 1 << 15
#: Largest number of threads that compare long vectors: they already reach about the memory bandwidth of a host.
MAX_THREADS = 8


def are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether vectors have the same elements; faster than `numpy.array_equal` for millions of them."""
    return one.shape == other.shape and holds_in_slices(len(one), lambda part: (one[part] == other[part]).all())


def holds_in_slices(length: int, holds: Callable[[slice], np.bool_]) -> bool:
    """Return whether a condition holds in every slice of a long vector; several threads test slices in parallel.

    `holds` tests one slice, of up to `SLICE_LENGTH` elements; the slices cover the vector.
    """
    starts = range(0, length, SLICE_LENGTH)
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)), len(starts))

    def holds_in_share(share: int) -> bool:
        return all(holds(slice(start, start + SLICE_LENGTH)) for start in starts[share::threads])

    if threads <= 1:
        return all(map(holds_in_share, range(threads)))
    with ThreadPoolExecutor(threads) as pool:
        return all(pool.map(holds_in_share, range(threads)))


def precision_of(dtype: DTypeLike) -> str:
    with suppress(TypeError):
        requested = np.dtype(dtype)
        for name, dtype_of_name in DTYPES.items():
            if requested == np.dtype(dtype_of_name):
                return name
    todo = "pass the shape as a tuple, `(rows, columns)`" if isinstance(dtype, int) else None
    raise ReproErrorOfValue("unsupported dtype", where="dtype", expected="float32 or float64", actual=dtype, todo=todo)


def precision_of_values(dtype: np.dtype[Any]) -> str:
    """Return the precision of products with values of a dtype: single for float32 and complex64, else double."""
    return PRECISIONS.get(np.empty(0, dtype).real.dtype, "double")


def _block_problem(matrix: Any) -> Matrix:
    """Return a `block3` problem with all stored blocks, including blocks of zeros."""
    wide = cast(matrix.data, np.float64, "matrix: data", SCALE)
    blocks = sp.bsr_array((wide, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
    blocks.sum_duplicates()
    n, columns = (count // 3 for count in matrix.shape)
    indptr, indices = (cast(array, np.int32, "matrix: offsets") for array in (blocks.indptr, blocks.indices))
    return Matrix("matrix", "block3", n, indptr, indices, blocks.data.reshape(-1, 9), None if columns == n else columns)


def _folded_problem(matrix: Any, entry: str) -> Matrix:
    # rounding error of the matrix's dtype: blocks may have been computed in single precision
    tolerance = float(np.finfo(_real(matrix.dtype)).eps)
    matrix.data = cast(matrix.data, np.complex128 if matrix.dtype.kind == "c" else np.float64, "matrix: data", SCALE)
    rows = sp.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    try:
        folded = fold_blocks(rows, entry, "matrix", tolerance)
    except ReproError as error:  # its advice is for a configuration
        todo = 'pass entry="complex"' if matrix.dtype.kind == "c" else 'pass entry="real"'
        raise ReproErrorOfValue(
            error.what, where=error.where, expected=error.expected, actual=error.actual, todo=todo
        ) from None
    return Matrix("matrix", entry, folded.n, folded.indptr, folded.indices, folded.values, folded.columns)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    real = np.empty(0, dtype).real.dtype
    return real if real.kind == "f" else np.dtype(np.float64)
