"""CSR matrices of CuPy and PyTorch on a GPU, taken as they lie and made without a check."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

import numpy as np

from repro.devices.base import Buffer
from repro.errors import ReproErrorOfValue
from repro.operators.array_libraries import ArrayLibrary
from repro.operators.arrays import ExternalArray
from repro.operators.runtime import Runtime
from repro.sparse.spgemm.csr_arrays import CsrArrays

INDEX_DTYPES = _INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


class MatrixLibrary(Protocol):
    """How CSR matrices of one library are read and made."""

    def arrays(self, matrix: Any) -> tuple[Any, Any, Any] | None:
        """Return values, columns and offsets; None for a matrix in another format, or on the host."""

    def matrix(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int], *, long: bool) -> Any:
        """Return a matrix of the library with these arrays, unchecked; `long`: with indices of int64."""

    def sort(self, matrix: Any) -> Any:
        """Return a matrix with ascending columns in each row, without duplicates; it may be the same."""

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        """Return the dtype of an array of the library, as NumPy's; None for an unusual one."""

    def ordinal(self, array: Any) -> int:
        """Return the number of the GPU on which an array lies."""


class _CuPyMatrices:
    def arrays(self, matrix: Any) -> tuple[Any, Any, Any] | None:
        return (matrix.data, matrix.indices, matrix.indptr) if matrix.format == "csr" else None

    def matrix(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int], *, long: bool) -> Any:
        sparse = sys.modules["cupyx.scipy.sparse"]
        unchecked = getattr(sparse.csr_matrix, "_from_parts", None)  # the constructor reads the arrays from the device
        if long:
            columns, offsets = columns.astype(np.int64), offsets.astype(np.int64)
        if unchecked is None:
            return sparse.csr_matrix((values, columns, offsets), shape=shape)
        return unchecked(values, columns, offsets, shape)

    def sort(self, matrix: Any) -> Any:
        matrix.sum_duplicates()
        return matrix

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return array.dtype  # type: ignore[no-any-return]

    def ordinal(self, array: Any) -> int:
        return int(array.data.device_id)


class _PyTorchMatrices:
    def arrays(self, matrix: Any) -> tuple[Any, Any, Any] | None:
        torch = sys.modules["torch"]
        if matrix.layout is not torch.sparse_csr or matrix.dim() != 2:
            return None
        return matrix.values(), matrix.col_indices(), matrix.crow_indices()

    def matrix(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int], *, long: bool) -> Any:
        torch = sys.modules["torch"]
        if long:
            columns, offsets = columns.long(), offsets.long()
        return torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False)

    def sort(self, matrix: Any) -> Any:
        return matrix.to_sparse_coo().coalesce().to_sparse_csr()

    def dtype(self, array: Any) -> np.dtype[Any] | None:
        return _NAMES.get(str(array.dtype))

    def ordinal(self, array: Any) -> int:
        return int(array.get_device())


class DeviceMatrix(NamedTuple):
    """A CSR matrix of another library on a GPU, whose arrays a kernel can read where they lie."""

    library: MatrixLibrary
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    #: Values, columns and offsets.
    arrays: tuple[Any, Any, Any]
    #: The GPU's number.
    ordinal: int
    #: Whether indices are int64.
    long: bool

    def csr_arrays(self, runtime: Runtime) -> CsrArrays | None:
        """Return the arrays as a product reads them; None if one is not contiguous, or has no elements."""
        values, columns, offsets = self.arrays
        library, index = runtime.libraries[type(values)], _INT64 if self.long else _INT32
        if library is None:
            return None
        length, ends = int(columns.shape[0]), self.shape[0] + 1
        buffers: list[Buffer] = []
        for array, dtype, size in ((offsets, index, ends), (columns, index, length), (values, self.dtype, length)):
            address = library.address(array, dtype, size, self.ordinal)
            if not address:
                return None
            buffers.append(ExternalArray(address, size * dtype.itemsize, array))
        at_offsets, at_columns, at_values = buffers
        return CsrArrays(self.shape, length, at_offsets, at_columns, at_values, self.long)


_NAMES = {
    f"torch.{name}": np.dtype(name) for name in ("float32", "float64", "complex64", "complex128", "int32", "int64")
}
CUPY_MATRICES = _CuPyMatrices()
_LIBRARIES: dict[str, MatrixLibrary] = {"cupyx": CUPY_MATRICES, "torch": _PyTorchMatrices()}
REAL_DTYPES = np.dtype(np.float32), np.dtype(np.float64)
COMPLEX_DTYPES = np.dtype(np.complex64), np.dtype(np.complex128)


def ordinal_of(matrix: Any) -> int:
    """Return the number of the GPU on which a sparse matrix of CuPy or PyTorch lies; -1 for others."""
    kind = type(matrix).__module__.partition(".")[0]
    if kind == "cupyx" and hasattr(matrix, "format"):
        numbers = getattr(matrix, "data", None)
        return -1 if numbers is None else _LIBRARIES[kind].ordinal(numbers)
    return _LIBRARIES[kind].ordinal(matrix) if kind == "torch" and matrix.is_cuda else -1


def damage_of_tensor(subject: str) -> ReproErrorOfValue:
    """Return the error for a tensor whose offsets or columns are wrong."""
    return ReproErrorOfValue(
        "the matrix is damaged",
        where=subject,
        expected="ascending row offsets from 0 to the number of entries, and columns within the matrix",
        todo="check it with `torch.sparse.check_sparse_tensor_invariants`",
    )


def device_matrix(matrix: Any, *, complex_too: bool = False) -> DeviceMatrix | None:
    """Return a real matrix of CuPy or PyTorch, or a complex one, as it lies; None for others, to be converted."""
    library = _LIBRARIES.get(type(matrix).__module__.partition(".")[0])
    arrays = None if library is None else library.arrays(matrix)
    if library is None or arrays is None:
        return None
    dtype, index, other = map(library.dtype, arrays)
    dtypes = REAL_DTYPES + COMPLEX_DTYPES if complex_too else REAL_DTYPES
    if dtype is None or dtype not in dtypes or index not in INDEX_DTYPES or index != other:
        return None
    ordinal = library.ordinal(arrays[0])
    rows, columns = matrix.shape
    return None if ordinal < 0 else DeviceMatrix(library, (rows, columns), dtype, arrays, ordinal, index == _INT64)


def new_csr_arrays(
    library: ArrayLibrary, like: Any, shape: tuple[int, int], length: int, dtype: np.dtype[Any], ordinal: int
) -> tuple[tuple[Any, Any, Any], CsrArrays]:
    """Make arrays of a library for a product: values, columns and offsets of int32; return them, and their memory."""
    arrays, buffers = [], []
    for count, kind in ((length, dtype), (length, _INT32), (shape[0] + 1, _INT32)):
        array = library.empty(like, (count,), kind)
        arrays.append(array)
        buffers.append(ExternalArray(library.address(array, kind, count, ordinal), count * kind.itemsize, array))
    values, columns, offsets = buffers
    return (arrays[0], arrays[1], arrays[2]), CsrArrays(shape, length, offsets, columns, values)
