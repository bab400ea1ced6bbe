"""Products of CSR matrices whose arrays are taken as they are, without conversion: on a GPU, or SciPy's.

A matrix of CuPy or PyTorch is read where it lies, and the product's arrays are of the same library. The arrays of a
SciPy matrix go over in one copy each. The device checks them; a matrix that it does not accept is left to the
conversion of `repro.operators.sparse_products`, which sorts columns or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from repro.codegen.targets import DTYPES
from repro.devices.base import Argument, Buffer, OutOfDeviceMemory
from repro.operators.device_exchange import CUPYS_MATRICES, is_from_module, load_products
from repro.operators.device_matrices import DeviceMatrix, damage_of_tensor, device_matrix, new_csr_arrays
from repro.operators.runtime import Runtime, open_runtime
from repro.sparse.device_primitives import keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.csr_arrays import CsrArrays, CsrReader, UnsuitableCsr
from repro.sparse.spgemm.multiplication import Multiplication

PRECISIONS = {np.dtype(np.float32): "single", np.dtype(np.float64): "double"}


def multiply_in_place(a: Any, b: Any, device: str, sort: bool) -> Any:
    """Return the product of two CSR matrices of one library and one dtype; None if they have to be converted.

    Raises
    ------
    ReproError
        A tensor is damaged, a sum of finite SciPy matrices overflows, or the device has too little memory.
    """
    if isinstance(a, sp.csr_array | sp.csr_matrix) and isinstance(b, sp.csr_array | sp.csr_matrix):
        return _multiply_scipys(a, b, device, sort)
    first = device_matrix(a)
    second = first if b is a else device_matrix(b)
    if first is None or second is None or device not in ("auto", f"cuda:{first.ordinal}"):
        return None
    alike = (first.library, first.dtype, first.ordinal) == (second.library, second.dtype, second.ordinal)
    if not alike or first.shape[1] != second.shape[0]:
        return None
    try:
        product = _multiply(first, second)
    except UnsuitableCsr as flaw:
        if is_from_module(a, CUPYS_MATRICES):
            return None
        if flaw.damaged:
            raise damage_of_tensor("ab"[flaw.index]) from None
        a, b = (first.library.sort(matrix) for matrix in (a, b))
        return multiply_in_place(a, b, device, sort)
    return first.library.sort(product) if sort and product is not None else product


def _multiply(first: DeviceMatrix, second: DeviceMatrix) -> Any:
    runtime = _gpu_runtime(first.ordinal)
    arrays = [matrix.csr_arrays(runtime) for matrix in ((first,) if second is first else (first, second))]
    sound = [array for array in arrays if array is not None]
    if len(sound) < len(arrays):
        return None
    tools, values = product_tools(runtime, PRECISIONS[first.dtype]), first.arrays[0]
    library = runtime.libraries[type(values)]
    assert library is not None
    try:
        with ExitStack() as stack, runtime.after(library.stream(first.ordinal), reads="repro.spgemm"):
            product, nnz = _product(tools, tools.reader.read(sound), stack)
            new, memory = new_csr_arrays(library, values, product.shape, nnz, first.dtype, first.ordinal)
            tools.reader.write(product, memory)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    return first.library.matrix(*new, product.shape, long=first.long)


def _product(tools: ProductTools, factors: Sequence[Storage], stack: ExitStack) -> tuple[Storage, int]:
    """Return the product of the first and the last matrix, and its number of entries; `stack` releases all of them."""
    for storage in factors:
        keep(stack, storage)
    operands = Factors(factors[0], factors[-1], "exact")
    product = tools.multiplication.multiply_in_one_launch(operands)
    product = keep(stack, tools.multiplication.multiply_in_two_phases(operands) if product is None else product)
    return product, product.report().pointer if product.entries is None else product.entries


def _multiply_scipys(a: Any, b: Any, device: str, sort: bool) -> Any:
    """Return the product of two CSR matrices of SciPy, or None; the product is a `csr_array`."""
    matrices = (a,) if b is a else (a, b)
    if a.shape[1] != b.shape[0] or a.dtype != b.dtype or not all(map(_is_plain, matrices)):
        return None
    runtime = open_runtime(device)
    tools = product_tools(runtime, PRECISIONS[a.dtype])
    try:
        with ExitStack() as stack, runtime.after(reads="repro.spgemm"):
            operands = [_upload(runtime, matrix, stack) for matrix in matrices]
            product, nnz = _product(tools, tools.reader.read(operands), stack)
            sizes = 4 * (product.shape[0] + 1), 4 * nnz, tools.dtype.itemsize * nnz
            offsets, columns, values = (
                keep(stack, runtime.device.allocate_ordered(max(nbytes, 4))) for nbytes in sizes
            )
            tools.reader.write(product, CsrArrays(product.shape, nnz, offsets, columns, values))
            if not tools.are_finite(values, nnz) and all(
                tools.are_finite(operand.values, matrix.nnz) for operand, matrix in zip(operands, matrices, strict=True)
            ):
                return None  # the conversion says which sum overflows
            arrays = [
                _download(runtime, buffer, count, dtype)
                for buffer, count, dtype in (
                    (values, nnz, tools.dtype), (columns, nnz, np.int32), (offsets, product.shape[0] + 1, np.int32),
                )
            ]  # fmt: skip
    except UnsuitableCsr:
        return None
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    rows = sp.csr_array(tuple(arrays), shape=product.shape)
    rows.has_sorted_indices = rows.has_canonical_format = False
    if sort:
        rows.sort_indices()
    return rows


def _is_plain(matrix: Any) -> bool:
    """Return whether a CSR matrix has plain arrays of the types that kernels read, and some entries."""
    arrays = matrix.data, matrix.indices, matrix.indptr
    return (
        all(type(array) is np.ndarray and array.ndim == 1 and array.flags.c_contiguous for array in arrays)
        and matrix.data.dtype in PRECISIONS
        and matrix.data.dtype.isnative
        and matrix.indices.dtype == matrix.indptr.dtype == np.int32
        and len(matrix.data) == len(matrix.indices) > 0
        and len(matrix.indptr) == matrix.shape[0] + 1
    )


def _upload(runtime: Runtime, matrix: Any, stack: ExitStack) -> CsrArrays:
    buffers = []
    for array in (matrix.indptr, matrix.indices, matrix.data):
        buffers.append(keep(stack, runtime.device.allocate_ordered(array.nbytes)))
        runtime.device.write(buffers[-1], array)
    offsets, columns, values = buffers
    return CsrArrays(matrix.shape, len(matrix.data), offsets, columns, values)


def _download(runtime: Runtime, buffer: Buffer, count: int, dtype: Any) -> Any:
    array = runtime.device.host_array(count, np.dtype(dtype))
    if count:
        runtime.device.download(buffer, array)
    return array


@cache
def _gpu_runtime(ordinal: int) -> Runtime:
    return open_runtime(f"cuda:{ordinal}")


class ProductTools:
    """Tools for products of one precision on a device; made by `product_tools`."""

    def __init__(self, runtime: Runtime, precision: str) -> None:
        self._device, self._load = runtime.device, load_products(runtime, precision)
        self.dtype = np.dtype(DTYPES[precision])
        self.multiplication = Multiplication(runtime.device, self._load, self.dtype)
        with runtime.after(), ExitStack() as undo:
            self.reader = CsrReader(runtime.device, self._load, self.dtype)
            undo.callback(self.reader.release)
            #: Set by the device if a number is not finite.
            self._found = runtime.device.host_words(1)
            undo.pop_all()

    def are_finite(self, values: Buffer, count: int) -> bool:
        """Wait for the device, and return whether `count` numbers on it are finite."""
        self._device.fill(self._found.buffer, 0)
        arguments: list[Argument] = [np.int32(count), values, self._found.buffer]
        Kernels(self._device, self._load("arrays")).over("find_not_finite", count, arguments)()
        return not self._found.read()[0]

    def release(self) -> None:
        self.reader.release()
        self._found.release()


@cache
def product_tools(runtime: Runtime, precision: str) -> ProductTools:
    """Return the tools for products of a precision, which are kept until the device is closed."""
    try:
        tools = ProductTools(runtime, precision)
    except OutOfDeviceMemory as error:
        raise runtime.out_of_memory_error(error) from None
    runtime.device.at_close(tools.release)
    return tools
