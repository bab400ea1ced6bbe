"""The factors of a product on the device, which all that multiply them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.dynamic import state
from repro.sparse.dynamic.layout import Arrays, lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.factors import Factors
from repro.studies.spgemm_amg.operands import Factor, operands_of
from repro.studies.spgemm_amg.paper import PRODUCTS, ProductName

_ARRAYS = ("columns", "values", "table", "sizes", "versions", "state")


def factor_of(workspace: Workspace, product: ProductName) -> Factor:
    """Return the matrices of a product on the host.

    Raises
    ------
    Unsupported
        There is no such product: the matrix is not made coarser.
    """
    operands = operands_of(workspace)
    if product not in operands.products:
        raise Unsupported(f"the matrix is not made coarser, so that there is no {PRODUCTS[product]}")
    return operands.factor(product)


def factors_on(workspace: Workspace, product: ProductName) -> Factors:
    """Return the factors of a product on the device, uploaded at first use; the workspace keeps their memory.

    Raises
    ------
    Unsupported, OutOfDeviceMemory
    """

    def pack() -> tuple[list[Arrays], Mapping[str, NDArray[Any]]]:
        given = factor_of(workspace, product)
        laid_out = {"a": lay_out(given.a, 1)}
        if given.b is not given.a:
            laid_out["b"] = lay_out(given.b, 1)
        named = {f"{name} {what}": array for name, arrays in laid_out.items() for what, array in _named(arrays)}
        return [*laid_out.values()], named

    laid_out, buffers = workspace.hold(("factors", product), pack)
    stored = [
        _storage(workspace, arrays, {what: buffers[f"{name} {what}"] for what in _ARRAYS})
        for name, arrays in zip("ab", laid_out, strict=False)
    ]
    return Factors(stored[0], stored[-1])


def upload(workspace: Workspace, matrix: sp.csr_array) -> Storage:
    """Return a matrix on the device, each row in one segment without room; the caller releases it.

    Raises
    ------
    OutOfDeviceMemory
    """
    return Storage.upload(workspace.device, lay_out(matrix, 1))


def _named(arrays: Arrays) -> list[tuple[str, NDArray[Any]]]:
    words = np.zeros(state.WORDS, np.int32)
    words[state.POINTER] = arrays.pointer
    given = (arrays.columns, arrays.values, arrays.table, arrays.sizes, np.zeros_like(arrays.sizes), words)
    # a device has no buffer of nothing
    return [
        (what, array if array.size else np.zeros(1, array.dtype)) for what, array in zip(_ARRAYS, given, strict=True)
    ]


def _storage(workspace: Workspace, arrays: Arrays, buffers: Mapping[str, Buffer]) -> Storage:
    held = (buffers[what] for what in _ARRAYS)
    return Storage(workspace.device, arrays.shape, arrays.segments, arrays.capacity, arrays.values.dtype, *held)
