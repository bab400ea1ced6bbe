"""The matrix that a product is made of: on the host, or one of CuPy or PyTorch that is checked where it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import OutOfDeviceMemory
from repro.entries import get_entry
from repro.errors import ReproErrorOfValue
from repro.exact_casts import expectation
from repro.operators.arrays import as_tensor, without_gradient
from repro.operators.device_exchange import CUPYS_MATRICES, check_cupys, is_from_module, sorted_cupys
from repro.operators.device_matrices import COMPLEX_DTYPES, DeviceMatrix, damage_of_tensor, device_matrix, ordinal_of
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.operators.scipy_matrices import SCALE, as_problem, check_extent, check_words, precision_of_values
from repro.problems.matrix import MAX_ENTRIES, Matrix
from repro.sparse.compound.device_csr import CheckWord, DeviceCsr, FlawedCsr, render_check
from repro.sparse.compound.device_packing import DevicePacker, render_packing
from repro.sparse.compound.kernels import TEMPLATES
from repro.sparse.ordering import long_rows, permutation

#: Arrays of a CSR matrix: row pointers, columns, and values `(nnz, members)`.
HostCsr = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]]


class MatrixSource:
    """A checked matrix of which products are made: on the host, on the device, or on both.

    It is brought from one to the other once, and only if that is asked for. `entry`, `shape` (counted in entries),
    `nnz` and `square` are as for `Matrix`.
    """

    def __init__(self, problem: Matrix) -> None:
        self._problem: Matrix | None = problem
        self._set(problem.entry, problem.shape, problem.nnz)

    @classmethod
    def on_device(cls, csr: DeviceCsr, entry: str, runtime: Runtime) -> Self:
        """Return one that is on the device only; it owns `csr`."""
        self = cls.__new__(cls)
        self._problem = None
        self._set(entry, csr.shape, csr.nnz)
        self._csr = csr
        members = len(get_entry(entry).members)

        def download() -> HostCsr:
            with runtime.after():
                return csr.download(runtime.device, members)

        self.read = download
        return self

    def _set(self, entry: str, shape: tuple[int, int], nnz: int) -> None:
        self.entry, self.shape, self.nnz, self.square = entry, shape, nnz, shape[0] == shape[1]
        self._csr: DeviceCsr | None = None
        #: The matrix before its values were replaced.
        self._outdated: Matrix | None = None
        #: Reads the matrix from the device, where it is: from CSR, and later from a product.
        self.read: Callable[[], HostCsr] | None = None

    @property
    def is_on_host(self) -> bool:
        return self._problem is not None

    @property
    def problem(self) -> Matrix:
        """The matrix on the host."""
        if self._problem is None:
            assert self.read is not None
            pointers, indices, values = self.read()
            n, columns = self.shape
            wide = values.astype(np.float64, copy=False)
            if self._outdated is not None:
                self._problem, self._outdated = replace(self._outdated, values=wide, statistics={}), None
                return self._problem
            self._problem = Matrix("matrix", self.entry, n, pointers, indices, wide, None if self.square else columns)
        return self._problem

    def values_changed(self, read: Callable[[], HostCsr]) -> None:
        """Note that the values on the device have changed, and how to read the matrix."""
        if self._problem is not None:
            self._outdated, self._problem = self._problem, None
        self.read = read

    def csr(self, runtime: Runtime) -> DeviceCsr:
        """Return the matrix on the device, valid until `release`; the caller holds the device's lock."""
        if self._csr is None:
            self._csr = DeviceCsr.upload(runtime.device, self.problem, self.problem.values)
        return self._csr

    @cached_property
    def clusters(self) -> tuple[NDArray[np.int64], int]:
        """The row order of clustered layouts, `(n,)`, and the number of long rows at its end."""
        return permutation(self.problem, "bisected"), int(long_rows(self.problem).sum())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Free the copy on the device, unless a product shares it."""
        if self._csr is not None:
            self._csr.release()
            self._csr = None


def take_matrix(
    matrix: Any, entry: str | None, precision: str | None, device: str
) -> tuple[MatrixSource, str, Runtime]:
    """Return a user's matrix, the precision of its products, and the device; arguments are those of `repro.operator`.

    CSR of CuPy or PyTorch on a GPU is checked and read there if its entries are to be real or complex. All other
    matrices of these libraries are converted, by way of the host.

    Raises
    ------
    ReproError
        As for `as_problem`; or the matrix lies on another device.
    """
    check_words(entry, precision)
    if as_tensor(matrix) is not None:
        matrix = without_gradient(matrix, "matrix")
    ordinal = ordinal_of(matrix)
    if ordinal >= 0:
        place = f"cuda:{ordinal}"
        if device not in ("auto", place):
            raise ReproErrorOfValue(
                "the matrix lies on another device",
                where="matrix",
                expected=f"device={device!r}",
                actual=place,
                todo="leave `device` out, or bring the matrix there first: nothing is copied there unasked",
            )
        device = place
        taken = _take_where_it_lies(matrix, entry, precision, open_runtime(device))
        if taken is not None:
            return taken
    problem, working_precision = as_problem(_on_host(matrix), entry, precision)
    return MatrixSource(problem), working_precision, open_runtime(device)


def _take_where_it_lies(
    matrix: Any, entry: str | None, precision: str | None, runtime: Runtime
) -> tuple[MatrixSource, str, Runtime] | None:
    """Return what `take_matrix` does for CSR on a GPU, or None for a matrix that has to be converted."""
    given = device_matrix(matrix, complex_too=True)
    if given is None or entry not in (None, _entry_of(given)):
        return None
    check_extent(given.shape, "matrix")
    library = runtime.libraries[type(given.arrays[0])]
    arrays = given.csr_arrays(runtime)
    if library is None or arrays is None or arrays.length > MAX_ENTRIES:
        return None
    working_precision = precision or precision_of_values(given.dtype)
    dtype, members = np.empty(0, given.dtype).real.dtype, len(get_entry(_entry_of(given)).members)
    narrow = dtype == np.float64 and working_precision == "single"
    flaw = None
    try:
        with runtime.after(library.stream(runtime.ordinal), reads="repro.operator"):
            program = runtime.program(*check_source(runtime))
            csr = DeviceCsr.checked(runtime.device, program, "matrix", arrays, members, dtype, narrow=narrow)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    except FlawedCsr as error:
        flaw = error.flaw
    if flaw == CheckWord.UNORDERED:
        ordered = sorted_cupys(matrix) if is_from_module(matrix, CUPYS_MATRICES) else given.library.sort(matrix)
        return _take_where_it_lies(ordered, entry, precision, runtime)
    if flaw is not None:
        _refuse(flaw, matrix)
    if not csr.nnz:
        csr.release()
        return None  # refused as any other
    return MatrixSource.on_device(csr, _entry_of(given), runtime), working_precision, runtime


def _entry_of(given: DeviceMatrix) -> str:
    return "complex" if given.dtype in COMPLEX_DTYPES else "real"


def _refuse(flaw: CheckWord, matrix: Any) -> None:
    if flaw == CheckWord.INFINITE:
        raise ReproErrorOfValue("the matrix has NaN or infinite values", where="matrix", expected="finite values")
    if flaw == CheckWord.LOST:
        dtype = DTYPES["single"]
        raise ReproErrorOfValue(
            f"numbers do not fit into {np.dtype(dtype)}",
            where="matrix: values",
            expected=expectation(dtype),
            todo=SCALE,
        )
    if is_from_module(matrix, CUPYS_MATRICES):
        check_cupys(matrix, "matrix")  # says what is wrong
    raise damage_of_tensor("matrix")


def _on_host(matrix: Any) -> Any:
    """Return a matrix of CuPy or PyTorch as SciPy's, and all else as it is; `as_problem` checks it."""
    if is_from_module(matrix, CUPYS_MATRICES):
        check_cupys(matrix, "matrix")
        return matrix.get()
    tensor = as_tensor(matrix)
    if tensor is None or str(tensor.layout) == "torch.strided" or tensor.dim() != 2:
        return matrix
    shape = tuple(tensor.shape)
    if str(tensor.layout) not in COMPRESSED_TENSORS:
        tensor = tensor.cpu().coalesce()
        rows, columns = tensor.indices().numpy()
        return sp.coo_array((tensor.values().numpy(), (rows, columns)), shape=shape)
    kind, pointers, indices = COMPRESSED_TENSORS[str(tensor.layout)]
    converted = kind(shape) if kind is not sp.bsr_array else kind(shape, blocksize=tuple(tensor.values().shape[1:]))
    converted.data = tensor.values().cpu().numpy()
    converted.indptr, converted.indices = (getattr(tensor, name)().cpu().numpy() for name in (pointers, indices))
    return converted


#: SciPy's matrices and PyTorch's names of their offsets and indices, by layout.
COMPRESSED_TENSORS = {
    "torch.sparse_csr": (sp.csr_array, "crow_indices", "col_indices"),
    "torch.sparse_csc": (sp.csc_array, "ccol_indices", "row_indices"),
    "torch.sparse_bsr": (sp.bsr_array, "crow_indices", "col_indices"),
}


@cache
def check_source(runtime: Runtime) -> tuple[str, str]:
    """Return the source of the module that checks matrices, and its name in the cache."""
    return render_check(KERNELS, runtime.device.target, "operator"), f"{TEMPLATES}/checks"


@cache
def packing_source(runtime: Runtime, entry: str, precision: str, inner: str) -> tuple[str, str]:
    """Return the source of the module that packs matrices, and its name in the cache."""
    source = render_packing(KERNELS, entry, precision, inner, runtime.device.target, "operator")
    return source, f"{TEMPLATES}/{entry}-{precision}/packing-{inner}"


@cache
def device_packer(runtime: Runtime, entry: str, precision: str, inner: str) -> DevicePacker:
    """Return what packs matrices of an entry and precision in an inner order; its kernels are compiled if needed."""
    program = runtime.program(*packing_source(runtime, entry, precision, inner))
    return DevicePacker(runtime.device, program, entry, precision)
