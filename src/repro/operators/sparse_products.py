"""The product of two sparse matrices (SciPy, CuPy or `DynamicCSR`), computed on a device.

A `ProductPlan` repeats a product for other values in the same patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn
from weakref import finalize

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES
from repro.devices.base import Buffer, Call, LaunchError, OutOfDeviceMemory
from repro.devices.cuda_driver import pointer_of
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue
from repro.exact_casts import cast
from repro.operators.arrays import View, copy_refusal, host_array, is_on_device
from repro.operators.base import Closeable, as_bool, public, public_methods, require_choice, require_text
from repro.operators.device_exchange import (
    CUPYS_ARRAYS,
    CUPYS_MATRICES,
    cupy_device,
    cupys_rows,
    is_from_module,
    load_products,
    store_cupys,
    to_cupy,
)
from repro.operators.device_matrices import CUPY_MATRICES
from repro.operators.dynamic_csr import DynamicCSR
from repro.operators.products_in_place import multiply_in_place, product_tools
from repro.operators.runtime import Runtime, open_runtime, refused_launch
from repro.operators.scipy_matrices import SCALE, are_equal, as_rows, canonical, holds_in_slices, precision_of
from repro.sparse.device_primitives import Load, keep
from repro.sparse.dynamic.host_layout import SEGMENTS, lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.multiplication import Destinations


@public_methods
class ProductPlan(Closeable):
    """The plan of a product C = A B for repetition with other values, made by `repro.spgemm(A, B, plan=True)`.

    For each product of an entry of A and an entry of B, the device stores its destination: the position in C's row to
    which it is added. A destination takes one byte, or two in rows of C with more than 256 entries; each entry of A
    takes 8 bytes in addition. Rows of C with more than 2,048 entries, or with 2²⁰ products or more, have no
    destinations and are computed as without a plan. Threads that use one device take turns.

    Attributes
    ----------
    shape : tuple[int, int]
        Rows and columns of C.
    dtype : numpy.dtype
        Dtype of C.
    nnz : int
        Number of entries of C.
    nbytes : int
        Bytes of the plan on the device, without the three matrices; 0 after `close`.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> import repro
    >>> A = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> C, plan = repro.spgemm(A, A, "opencl:0", plan=True)
    >>> plan.refill([1.0, 1.0, 1.0], A.data).toarray().tolist()
    [[1.0, 5.0], [0.0, 3.0]]
    """

    def __init__(self, runtime: Runtime, load: Load, factors: Factors, c: Storage, rows: Any) -> None:
        self._runtime, self._load, self._factors, self._c = runtime, load, factors, c
        self._is_on_host = isinstance(rows, sp.csr_array)
        self._precision = "single" if c.dtype == np.float32 else "double"
        # copies, as a user may sort the columns of the returned matrix
        self._rows = rows.indices.astype(np.int32), rows.indptr.copy()
        self.shape: tuple[int, int] = c.shape
        self.dtype = c.dtype
        self.nnz = int(rows.nnz)
        self._destinations = Destinations(runtime.device, load, factors, c)
        self._stack = stack = ExitStack()
        keep(stack, self._destinations)
        for matrix in (factors.a, factors.b, c):
            matrix.retain()
            keep(stack, matrix)
        self._own: Callable[[], None] | None = None
        #: The refill on any stream, called with the addresses of the values of A, B and C.
        self._call = self._destinations.bind_call(factors, c)
        if self._call is not None:
            stack.callback(self._call.close)
        self._release = finalize(self, _give_back, runtime, stack)
        self._release.atexit = False  # the device may be closed at exit, and the process releases all memory anyway

    @property
    def nbytes(self) -> int:
        return self._destinations.nbytes

    def refill(self, a_values: Any = None, b_values: Any = None, *, out: Any = None) -> Any:
        """Return the product of matrices with the same patterns and other values.

        Parameters
        ----------
        a_values, b_values
            Values of A and of B, in CSR order with ascending columns and duplicates added: a host array, or a device
            array in the product's dtype. None: the host values of the last refill, or, before a refill, the values of
            the operand. Values in a device array are not stored.
        out
            None, or a device array `(nnz,)` in the product's dtype, which receives the values of C; nothing is copied
            to the host then.

        Returns
        -------
        csr_array, cupyx.scipy.sparse.csr_matrix or array
            The product, of the type that `repro.spgemm` returns, or `out`. Columns have the order of the first product,
            except in rows without destinations.

        Raises
        ------
        ReproError
            The number of values differs from the number of entries, or the plan was closed. Or a sum overflows
            although all values are finite; the values count as those of the last refill. Refills of arrays on a GPU,
            into `out` or into a CuPy matrix, do not wait for the device, and so do not check sums.
        """
        if not self._release.alive:
            raise ReproError("the plan is closed", todo="create another with repro.spgemm(A, B, plan=True)")
        if (
            self._call is not None
            and (product := self._refill_on_stream(self._call, a_values, b_values, out)) is not None
        ):
            return product
        if out is not None and self._destinations.unplanned:
            raise ReproError(
                "the plan has no destinations for some rows, so their columns may change order",
                where="out",
                expected="rows of C with up to 2,048 entries, each of a row of A and rows of B within a plan's limits",
                actual=f"{self._destinations.unplanned:,} longer rows",
                todo="omit `out`",
            )
        dtype = self._c.dtype
        factors = {"a_values": (self._factors.a, a_values), "b_values": (self._factors.b, b_values)}
        new_values = {name: self._values(storage, values, name) for name, (storage, values) in factors.items()}
        out_view = None if out is None else self._runtime.view(out, "out", dtype, self.nnz, dtype.itemsize, write=True)
        streams = [view.stream for view in (*new_values.values(), out_view) if isinstance(view, View)]
        try:
            with self._runtime.after(*streams):
                a, b = (self._value_buffer(storage, new_values[name]) for name, (storage, _) in factors.items())
                c = self._c.values if out_view is None else out_view.buffer
                self._launch(a, b, c)
                self._refuse_overflow(a, b, c)
                return self._read(c) if out is None else out
        except OutOfDeviceMemory as error:
            raise self._runtime.out_of_memory_error(error) from None

    def _refill_on_stream(self, call: Call, a_values: Any, b_values: Any, out: Any) -> Any:
        """Queue the refill on the stream of the arrays' library; None if the arrays do not fit, or lie on the host.

        It neither waits nor checks the sums.
        """
        runtime, dtype, a, b = self._runtime, self._c.dtype, self._factors.a, self._factors.b
        given = [values for values in (a_values, b_values, out) if values is not None]
        library = runtime.libraries[type(given[0])] if given else None
        stream = None if library is None else library.stream(runtime.ordinal)
        if library is None or stream is None or any(type(values) is not type(given[0]) for values in given):
            return None
        if out is None and (self._is_on_host or not is_from_module(given[0], CUPYS_ARRAYS)):
            return None  # the product is SciPy's, or of another library than the values
        target = library.empty(given[0], (self.nnz,), dtype) if out is None else out
        addresses = []
        for values, storage in ((a_values, a), (b_values, b)):
            own = pointer_of(storage.values)
            address = own if values is None else library.address(values, dtype, storage.capacity, runtime.ordinal)
            addresses.append((address, storage.capacity * dtype.itemsize))
        written, nbytes = library.address(target, dtype, self.nnz, runtime.ordinal), self.nnz * dtype.itemsize
        overlap = any(start < written + nbytes and written < start + size for start, size in addresses)
        if not written or overlap or not all(start for start, _ in addresses):
            return None
        try:
            call(stream, *(start for start, _ in addresses), written)
        except LaunchError as error:
            raise refused_launch(error) from None
        if out is not None:
            return out
        columns, offsets = (array.copy() for array in self._rows)
        return CUPY_MATRICES.matrix(target, columns, offsets, self.shape, long=False)

    def _values(self, storage: Storage, values: Any, subject: str) -> NDArray[np.floating] | View | None:
        """Return checked values: a host array in the product's dtype, or a view of a device array; None for None."""
        count = int(storage.capacity)
        if values is None:
            return None
        if is_on_device(values):
            return self._runtime.view(values, subject, storage.dtype, count, storage.dtype.itemsize)
        array = host_array(values, subject)
        if array.shape != (count,) or array.dtype.kind not in "fiub":
            raise ReproErrorOfValue(
                "not the values of the matrix",
                where=subject,
                expected=f"{count:,} real numbers, one for each entry",
                actual=f"{array.dtype} of shape {array.shape}",
                todo=f"pass its values: {subject}=matrix.data" if hasattr(values, "indptr") else None,
            )
        todo = "scale them, or make a plan for matrices in float64"
        return np.ascontiguousarray(cast(array, storage.dtype, subject, todo, as_vector=True))

    def _value_buffer(self, storage: Storage, values: NDArray[np.floating] | View | None) -> Buffer:
        """Return the device memory of an operand's values; host values are copied to it before."""
        if isinstance(values, View):
            return values.buffer
        if values is not None and values.size:
            self._runtime.device.write(storage.values, values)
        return storage.values

    def _launch(self, a_values: Buffer, b_values: Buffer, c_values: Buffer) -> None:
        a, b, c = self._factors.a, self._factors.b, self._c
        if a_values is a.values and b_values is b.values and c_values is c.values:
            if self._own is None:
                self._own = self._destinations.bind(self._factors, c, self._stack)
            self._own()
            return
        with ExitStack() as stack:
            factors = Factors(replace(a, values=a_values), replace(b, values=b_values))
            self._destinations.bind(factors, replace(c, values=c_values), stack)()
            if self._destinations.unplanned:
                self._runtime.device.synchronize()  # wait, as the memory of `stack` is released here

    def _refuse_overflow(self, a_values: Buffer, b_values: Buffer, c_values: Buffer) -> None:
        """Wait, and raise `ReproError` if C has a number that is not finite, unless A or B has one, too."""
        if not self._is_on_host or self._are_finite(c_values, self.nnz):
            return
        a, b = self._factors.a, self._factors.b
        if self._are_finite(a_values, a.capacity) and self._are_finite(b_values, b.capacity):
            raise _overflow_error(self._read(c_values))

    def _are_finite(self, values: Buffer, count: int) -> bool:
        return product_tools(self._runtime, self._precision).are_finite(values, count)

    def _read(self, c_values: Buffer) -> Any:
        if not self._is_on_host:
            return to_cupy(self._runtime, self._load, self._c)
        indices, indptr = (array.copy() for array in self._rows)
        values = np.empty(self.nnz, self._c.dtype)
        if self.nnz:
            self._runtime.device.download(c_values, values)
            if self._destinations.unplanned:
                self._runtime.device.download(self._c.columns, indices)
        rows = sp.csr_array((values, indices, indptr), shape=self.shape)
        rows.has_sorted_indices = rows.has_canonical_format = False
        return rows

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether `close` was called."""
        return not self._release.alive

    def close(self) -> None:
        """Free the memory on the device; a second call has no effect."""
        self._release()

    def __reduce__(self) -> NoReturn:
        raise copy_refusal(self, "create another with repro.spgemm(A, B, plan=True)")

    def __repr__(self) -> str:
        rows, columns = self.shape
        memory = f"{self.nbytes:,} bytes" if self._release.alive else "closed"
        return f"<ProductPlan: {rows} x {columns} with {self.nnz:,} entries, {self._c.dtype}, {memory}>"


def _give_back(runtime: Runtime, stack: ExitStack) -> None:
    with runtime.after():
        stack.close()


@public
def spgemm(
    a: Any,
    b: Any,
    device: str = "auto",
    *,
    sort: bool = False,
    format: Literal["csr", "dynamic"] = "csr",
    plan: bool = False,
) -> Any:
    """Return the product A B of two sparse matrices, computed on a device.

    The sizes of the matrices determine the order of summation, so values are reproducible, except for a `DynamicCSR`
    with duplicates, where the order may vary. Entries that cancel to 0 stay stored; a sum of zeros is 0, not -0. A sum
    that overflows raises `ReproError` if operands and product are SciPy matrices; in CuPy and `DynamicCSR` products it
    is infinite or NaN.

    Parameters
    ----------
    a, b
        Real sparse matrices: SciPy's (duplicates are added), CuPy's (read on the GPU), `repro.DynamicCSR`, PyTorch's on
        the host, two sparse_csr tensors on one GPU, or others with `indptr`, `indices`, `data` and `shape`. The
        product is float32 if both operands are, else float64; a `DynamicCSR` operand must have the dtype of the
        product.
    device
        `auto` (the device of an operand that is on one; else a GPU if there is one, else the CPU through OpenCL),
        `cuda:N` or `opencl:N`.
    sort
        Sort the columns within each row, by SciPy on the host or by CuPy; otherwise columns may be in any order.
    format
        `csr`: a CuPy `csr_matrix` if an operand is a CuPy matrix, a tensor on the GPU if both are, else a SciPy
        `csr_array`. `dynamic`: a `DynamicCSR`
        on the device, whose columns are not sorted.
    plan
        Return a `ProductPlan` as well, which computes the product again from other values in the same patterns. Rows of
        both operands then stay on the device, and so does the product; `sort` and `format` have their defaults.

    Returns
    -------
    csr_array, cupyx.scipy.sparse.csr_matrix or DynamicCSR
        With `plan`, this and a `ProductPlan`.

    Raises
    ------
    ReproError
        The operands cannot be multiplied, or are on another device; or a sum overflows the dtype of the product.
    """
    require_text(device, "device")
    require_choice(format, "format", ("csr", "dynamic"))
    sort, plan = as_bool(sort, "sort"), as_bool(plan, "plan")
    if sort and format == "dynamic":
        raise ReproErrorOfValue(
            "the rows of a growing matrix are not sorted", where="sort", expected=False, actual=True
        )
    if not plan and format == "csr" and (in_place := multiply_in_place(a, b, device, sort)) is not None:
        return in_place
    operands = _operand(a, "a"), _operand(b, "b")
    if plan:
        _refuse_plan(sort, format, operands)
    precision = "single" if all(operand.precision == "single" for operand in operands) else "double"
    runtime = _common_runtime(device, operands)
    try:
        with ExitStack() as stack, runtime.after(reads="repro.spgemm"):
            first, second = (stack.enter_context(operand.stored(runtime, precision)) for operand in operands)
            load, products = load_products(runtime, precision), product_tools(runtime, precision).multiplication
            cupys = any(is_from_module(operand.matrix, CUPYS_MATRICES) for operand in operands)
            grown = any(isinstance(operand.matrix, DynamicCSR) for operand in operands)
            factors = Factors(first, second, "chain" if grown else "exact")
            if format == "dynamic":
                return DynamicCSR._of_storage(runtime, precision, products.multiply_in_one_phase(factors, SEGMENTS))
            # a plan needs entries in the order of rows, which a product in one launch does not provide
            single = None if plan else products.multiply_in_one_launch(factors)
            product = products.multiply_in_two_phases(factors) if single is None else single
            stack.callback(product.release)
            if cupys:
                rows = to_cupy(runtime, load, product)
            else:
                rows = product.download().to_csr()
                rows.has_sorted_indices = rows.has_canonical_format = False
                _refuse_overflow(rows, operands)
            if plan:
                return rows, ProductPlan(runtime, load, factors, product, rows)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    if sort:
        rows.sort_indices()
    return rows


def _refuse_plan(sort: bool, format: str, operands: Sequence[Operand]) -> None:
    for operand in operands:
        if isinstance(operand.matrix, DynamicCSR):
            raise ReproErrorOfValue("a growing matrix has no fixed pattern to plan for", where=operand.subject)
    if sort or format != "csr":
        raise ReproErrorOfValue(
            "a product with a plan is CSR, its columns in the order in which they were computed",
            where="sort" if sort else "format",
            todo="sort a copy of the product",
        )


def _refuse_overflow(product: sp.csr_array, operands: Sequence[Operand]) -> None:
    if not np.isfinite(product.data).all() and all(
        sp.issparse(operand.matrix) and np.isfinite(operand.matrix.data).all() for operand in operands
    ):
        raise _overflow_error(product)


def _overflow_error(product: sp.csr_array) -> ReproError:
    bad = np.flatnonzero(~np.isfinite(product.data))
    row = int(np.searchsorted(product.indptr, bad[0], side="right")) - 1
    return ReproErrorOfValue(
        f"sums in the product are out of range for {product.dtype}",
        where=f"row {row}, column {product.indices[bad[0]]}, the first of {bad.size}",
        expected=f"numbers up to {np.finfo(product.dtype).max:.3g}",
        actual=product.data[bad[0]],
        todo="give an operand in float64" if product.dtype == np.float32 else "scale the operands",
    )


@dataclass(frozen=True)
class Operand:
    """A checked operand: CSR of SciPy or CuPy, or a `DynamicCSR`; `subject` is the operand's name in errors."""

    matrix: Any
    precision: str
    subject: str

    @contextmanager
    def stored(self, runtime: Runtime, precision: str) -> Iterator[Storage]:
        """Yield the operand as device storage in the given precision."""
        if isinstance(self.matrix, DynamicCSR):
            if self.precision != precision:
                raise ReproErrorOfValue(
                    "a growing matrix has a different dtype from the product",
                    where=self.subject,
                    expected=np.dtype(DTYPES[precision]),
                    actual=self.matrix.dtype,
                    todo="convert the other operand to float32",
                )
            with self.matrix._lent() as storage:
                yield storage
            return
        if is_from_module(self.matrix, CUPYS_MATRICES):
            storage = store_cupys(runtime, self.matrix, precision)
        else:
            storage = matrix_on_device(runtime, self.matrix, np.dtype(DTYPES[precision]))
        try:
            yield storage
        finally:
            storage.release()


def _operand(matrix: Any, subject: str) -> Operand:
    if isinstance(matrix, DynamicCSR):
        return Operand(matrix, precision_of(matrix.dtype), subject)
    if is_from_module(matrix, "torch") and matrix.is_cuda:
        raise ReproErrorOfType(
            "tensors on a GPU must be multiplied on that GPU",
            where=subject,
            expected="two sparse_csr on one GPU, both float32 or both float64, of shapes that fit, and no plan",
            actual=f"{matrix.layout}, {matrix.dtype} on {matrix.device}, of shape {tuple(matrix.shape)}",
        )
    rows, precision = (
        cupys_rows(matrix, subject) if is_from_module(matrix, CUPYS_MATRICES) else as_rows(matrix, subject=subject)
    )
    return Operand(rows, precision, subject)


def _common_runtime(device: str, operands: Sequence[Operand]) -> Runtime:
    """Return the runtime of the named device; for `auto`, the runtime of the device that holds an operand."""
    grown = [operand for operand in operands if isinstance(operand.matrix, DynamicCSR)]
    cupys = [operand for operand in operands if is_from_module(operand.matrix, CUPYS_MATRICES)]
    if device == "auto" and grown:
        runtime: Runtime = grown[0].matrix._runtime
    else:
        runtime = open_runtime(cupy_device(cupys[0].matrix) if device == "auto" and cupys else device)
    for operand in grown:
        if operand.matrix._runtime is not runtime:
            raise ReproErrorOfValue(
                "the matrix is on a different device",
                where=operand.subject,
                expected=runtime.device.name,
                actual=operand.matrix.device_name,
            )
    return runtime


def matrix_on_device(runtime: Runtime, matrix: sp.csr_array, dtype: np.dtype[Any]) -> Storage:
    """Upload a matrix to the device, with duplicates added and one segment per row."""
    return Storage.upload(runtime.device, lay_out(canonical(matrix.astype(dtype, copy=False)), 1, shared=True))


class StoredPattern:
    """The sparsity pattern of a square matrix on the device, downloaded once, to compare patterns on the host.

    Columns are ascending. It takes 4 bytes of host memory for each entry and each row, and 8 for each diagonal entry.
    """

    def __init__(self, storage: Storage) -> None:
        self._shape = storage.shape
        self._columns = np.empty(storage.report().pointer, np.int32)
        sizes = np.empty(storage.shape[0], np.int32)
        for buffer, array in ((storage.columns, self._columns), (storage.sizes, sizes)):
            if array.size:
                storage.device.download(buffer, array)
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        rows = np.repeat(np.arange(storage.shape[0], dtype=np.int32), sizes)
        #: Indices of the diagonal entries; rows without a diagonal entry are left out.
        self.diagonal = np.flatnonzero(self._columns == rows)

    def values_of(self, operand: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a SciPy matrix's values in the order of this pattern, as `dtype`.

        It raises `ReproError` if the matrix has another pattern, or is damaged or unsuitable.
        """
        if self._has_arrays(operand):  # its arrays need no further check then
            return cast(operand.data, dtype, "A: data", SCALE)
        matrix = as_rows(operand, dtype, "A")[0]
        if not self._has_arrays(matrix):
            matrix = canonical(matrix)
            if not self._has_arrays(matrix):
                raise ReproErrorOfValue(
                    "the matrix has a different pattern",
                    where="A",
                    expected=f"entries in the {len(self._columns):,} places of the matrix that was set up, 0 or not",
                    actual=f"{matrix.shape[0]} x {matrix.shape[1]} with {matrix.nnz:,} entries, not all of them there",
                    todo="set up a new hierarchy",
                )
        values: NDArray[Any] = matrix.data
        return values

    def has_sound_values(self, values: NDArray[np.floating]) -> bool:
        """Return whether values `(nnz,)`, in the order of this pattern, are finite, and not 0 on the diagonal."""
        diagonal = self.diagonal
        return holds_in_slices(len(diagonal), lambda part: values[diagonal[part]].all()) and holds_in_slices(
            len(values), lambda part: np.isfinite(values[part]).all()
        )

    def _has_arrays(self, matrix: Any) -> bool:
        """Return whether a matrix is CSR with real numbers and exactly these offsets and columns."""
        if not sp.issparse(matrix) or matrix.format != "csr" or matrix.shape != self._shape:
            return False
        data, offsets, columns = matrix.data, matrix.indptr, matrix.indices
        return (
            type(data) is type(offsets) is type(columns) is np.ndarray
            and data.shape == self._columns.shape
            and data.dtype.kind == "f"
            and data.dtype.isnative
            and are_equal(self._offsets, offsets)
            and are_equal(self._columns, columns)
        )
