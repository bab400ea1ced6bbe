"""The product of two sparse matrices of SciPy, computed on a device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from repro.codegen.precisions import DTYPES
from repro.devices.base import OutOfDeviceMemory, Program
from repro.errors import ReproError
from repro.operators.batches import load_module
from repro.operators.matrix import as_rows
from repro.operators.runtime import Runtime, open_runtime, templates
from repro.sparse.dynamic.layout import lay_out
from repro.sparse.dynamic.render import TEMPLATES
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.product import Factors, Multiplication
from repro.sparse.spgemm.render import render_spgemm


def spgemm(a: Any, b: Any, device: str = "auto") -> sp.csr_array:
    """Return the product of two sparse matrices, A B, computed on a device.

    Sums are added up in the order of a row's entries in A, so that the values are the same each time. What cancels
    stays an entry. Columns of a row come in any order, as `has_sorted_indices` says; `sort_indices` sorts them.

    Parameters
    ----------
    a, b
        SciPy sparse matrices or arrays of real numbers; entries of one place are added up. Where both have float32
        values, so has the product, else float64.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Raises
    ------
    ReproError
        They cannot be multiplied, or not on that device.
    """
    (rows_of_a, precision), (rows_of_b, other) = as_rows(a, what="a"), as_rows(b, what="b")
    if precision != other:
        precision = "double"
    runtime = open_runtime(device)
    dtype = np.dtype(DTYPES[precision])
    with ExitStack() as held, runtime.after():
        try:
            first = on_device(runtime, rows_of_a, dtype)
            held.callback(first.release)
            second = on_device(runtime, rows_of_b, dtype)
            held.callback(second.release)
            products = Multiplication(runtime.device, load_products(runtime, precision), dtype)
            product = products.in_two_phases(Factors(first, second))
            held.callback(product.release)
            rows = product.download().to_csr()
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
    rows.has_sorted_indices = False
    rows.has_canonical_format = False
    return rows


def on_device(runtime: Runtime, matrix: sp.csr_array, dtype: np.dtype[Any]) -> Storage:
    """Bring a matrix to the device, each row in one segment, no place of which is stored twice."""
    return Storage.upload(runtime.device, lay_out(canonical(matrix.astype(dtype)), 1))


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix with its columns in order, none of a row twice; the one that is given stays as it is."""
    if matrix.has_canonical_format:
        return matrix
    once = matrix.copy()
    once.sum_duplicates()
    return once


def check_pattern(matrix: sp.csr_array, stored: Storage) -> None:
    """Refuse a matrix whose entries are not in the places of one that `on_device` stored.

    Raises
    ------
    ReproError
    """
    columns, sizes = np.zeros(matrix.nnz, np.int32), np.zeros(matrix.shape[0], np.int32)
    same = matrix.shape == stored.shape and matrix.nnz == stored.report().pointer
    if same:
        for buffer, array in ((stored.columns, columns), (stored.sizes, sizes)):
            if array.size:
                stored.device.download(buffer, array)
        same = np.array_equal(columns, matrix.indices) and np.array_equal(sizes, np.diff(matrix.indptr))
    if not same:
        raise ReproError(
            "the matrix has another pattern",
            where="A",
            expected=f"entries in the {stored.report().pointer:,} places of the matrix that was set up, 0 or not",
            actual=f"{matrix.shape[0]} x {matrix.shape[1]} with {matrix.nnz:,} entries, not all of them there",
            todo="set up a new hierarchy",
        )


@cache
def load_products(runtime: Runtime, precision: str) -> Callable[[str], Program]:
    """Return what gives the modules of products in a precision, compiled unless the cache has them."""

    @cache
    def load(module: str) -> Program:
        if module in TEMPLATES:
            return load_module(runtime, precision, module)
        source = render_spgemm(templates(), f"{precision}/{module}", runtime.device.target, "spgemm")
        return runtime.program(source, f"spgemm/{precision}-{module}")

    return load
