"""The rows of a product by one kernel: a hash table, a sort or a sum for every column, of a given size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import scipy.sparse as sp

from repro.codegen.targets import Target
from repro.devices.base import Device, Program
from repro.sparse.device_primitives import keep
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.binned_rows import BinShapes, Factors, ProductBins, ProductRows
from repro.sparse.spgemm.kernels import (
    BINS,
    MODES,
    HashShape,
    LongShape,
    Mode,
    SortShape,
    hash_shapes,
    long_shapes,
    sort_shapes,
)
from repro.sparse.spgemm.multiplication import Multiplication
from support.matrices import assert_csr_product, of_sizes

Shape = HashShape | SortShape | LongShape | None


def every_shape(target: Target, scalar_bytes: int) -> dict[str, tuple[Mode, Shape]]:
    """Return all kernels for rows of products, by mode and kernel, spelt as in the module."""
    tables = (*hash_shapes(target, scalar_bytes), *long_shapes(target, scalar_bytes)[1:])
    shapes: list[tuple[Mode, Shape]] = [(mode, shape) for mode in MODES for shape in (*tables, None)]
    shapes += [("one", shape) for shape in sort_shapes(target, scalar_bytes)]
    return {shape.kernel(mode)[1] if shape else f"{mode}_dense": (mode, shape) for mode, shape in shapes}


def five_point(side: int) -> sp.csr_array:
    """Return the matrix of Poisson's equation on a square grid by five points."""
    second = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.csr_array(sp.kronsum(second, second))


def rows_that_fit(shape: Shape) -> tuple[sp.csr_array, sp.csr_array]:
    """Return factors whose product has rows of one entry, of as many as the shape has room for, and of those between.

    Rows of A have one entry or several, whose rows of B share columns; no row has more products than a sort has room
    for, or more columns than a table has slots.
    """
    most = 300 if shape is None else shape.max_products if isinstance(shape, SortShape) else shape.table
    sizes = sorted({1, 2, most // 3, most // 2, most - 1, most})
    single = of_sizes(sizes, most + 200)
    parts = of_sizes([most // 4] * 4, most)
    b = sp.csr_array(sp.vstack([single, sp.hstack([parts, sp.csr_array((4, 200))])]))
    n = len(sizes)
    several = sp.csr_array(np.hstack([np.zeros((3, n)), [[1.0, 0, 0, 0], [2, 3, 0, 0], [1, -1, 2, 0.5]]]))
    once = sp.csr_array(sp.hstack([sp.eye_array(n), sp.csr_array((n, 4))]))
    # the last round of a block is not full
    return sp.csr_array(sp.vstack([*[once] * 7, several, sp.csr_array((2, n + 4)), *[once] * 6, several])), b


def check_shape(
    device: Device,
    load: Callable[[str], Program],
    mode: Mode,
    shape: Shape,
    a: sp.csr_array,
    b: sp.csr_array,
    dtype: type = np.float64,
) -> None:
    """Compute all rows of a product by one kernel, twice, and hold them against SciPy's.

    Parameters
    ----------
    load
        Gives the modules of the precision of `dtype`.
    """
    a, b = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
    with ExitStack() as held:
        stored = [keep(held, Storage.upload(device, lay_out(matrix, 1))) for matrix in (a, b)]
        factors = Factors(*stored)
        right = keep(held, Multiplication(device, load, dtype).multiply_in_two_phases(factors))
        c = right
        if mode != "numeric":
            c = keep(held, Storage.empty(device, factors.shape, 1, right.capacity, right.dtype))
        bins = keep(held, ProductBins(device, load("count-exact"), factors.shape[0]))
        left = keep(held, device.allocate(4 * bins.stride))
        for _ in range(2):
            if mode == "numeric":
                bins.bin_by_sizes(c)
                device.fill(c.values, 0xFF)  # NaN
            else:
                device.fill(c.state, 0)
                bins.bin_by_products(factors.a, factors.b, c)
            rows = ProductRows(device, load, factors, c, bins, left)
            rows.bind(mode, bins.read(), BinShapes((shape,) * BINS), held)()
            if mode != "numeric":
                words = np.empty(kernels.STATE_WORDS, np.int32)
                device.download(c.state, words)
                assert words[kernels.STATE_UNPLACED] == 0, f"{words[kernels.STATE_UNPLACED]} rows are left"
            if mode == "symbolic":
                sizes = np.empty(factors.shape[0], np.int32)
                device.download(c.sizes, sizes)
                np.testing.assert_array_equal(sizes, np.diff((abs(a) @ abs(b)).indptr))
            else:
                assert_csr_product(c.download().to_csr(), a, b, dtype)
