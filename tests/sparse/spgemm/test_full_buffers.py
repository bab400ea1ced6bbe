"""Products whose buffer is exactly full, or one entry short: no kernel writes past it, and who lacks room says so."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.sparse.device_primitives import keep
from repro.sparse.dynamic import kernels
from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.binned_rows import BinShapes, Factors, ProductBins, ProductRows
from repro.sparse.spgemm.kernels import BINS, HashShape, LaunchWord, LongShape, SortShape, single_shapes
from repro.sparse.spgemm.one_launch import SingleLaunch, factor_sizes
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.matrices import assert_csr_product, of_sizes
from support.products_by_shape import every_shape
from support.sparse_modules import loader

#: Entries behind the buffer of C, whose bytes are all `SENTINEL`.
GUARD, SENTINEL = 64, 0x5A
# every row of C has an entry, and at most 15 products: one for each slot of the smallest table
A = of_sizes([1, 2, 3] * 25, 20)
B = of_sizes([1, 5, 3, 4, 2] * 4, 90, 2)
PATTERN = abs(A) @ abs(B)
KINDS = {"hash": HashShape, "sort": SortShape, "long": LongShape, "dense": type(None)}


def assert_only_the_buffer_is_written(c: Storage, columns, values, lacking: int, short: int) -> None:
    """Hold C's stored rows against SciPy's, and what is behind the buffer against the sentinels."""
    for buffer, itemsize in ((columns, 4), (values, c.dtype.itemsize)):
        held = np.empty((c.capacity + GUARD) * itemsize, np.uint8)
        c.device.download(buffer, held)
        assert (held[c.capacity * itemsize :] == SENTINEL).all(), "written past the buffer"
    assert lacking == short
    sizes = np.empty(c.shape[0], np.int32)
    c.device.download(c.sizes, sizes)
    stored = sizes > 0
    assert np.count_nonzero(~stored) == short
    assert_csr_product(c.download().to_csr()[stored], sp.csr_array(A[stored]), B)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "device", ["opencl", pytest.param("cuda", marks=[needs_compiler, pytest.mark.medium])], indirect=True
)
def test_rows_in_bins(device, load, kind, short):
    shapes = [shape for mode, shape in every_shape(device.target, 8).values() if mode == "one"]
    by_threads = {shape and shape.threads: shape for shape in reversed(shapes) if isinstance(shape, KINDS[kind])}
    with ExitStack() as held:
        factors = Factors(*(keep(held, Storage.upload(device, lay_out(matrix, 1))) for matrix in (A, B)))
        c = keep(held, Storage.empty(device, factors.shape, 1, PATTERN.nnz + GUARD, np.dtype(np.float64)))
        c.capacity = PATTERN.nnz - short
        bins = keep(held, ProductBins(device, load("double")("count-exact"), A.shape[0]))
        left = keep(held, device.allocate(4 * bins.stride))
        for shape in by_threads.values():
            print(shape)
            for buffer, byte in ((c.columns, SENTINEL), (c.values, SENTINEL), (c.state, 0)):
                device.fill(buffer, byte)
            bins.bin_by_products(factors.a, factors.b, c)
            rows = ProductRows(device, load("double"), factors, c, bins, left)
            rows.bind("one", bins.read(), BinShapes((shape,) * BINS), held)()
            words = np.empty(kernels.STATE_WORDS, np.int32)
            device.download(c.state, words)
            assert_only_the_buffer_is_written(c, c.columns, c.values, words[kernels.STATE_UNPLACED], short)


@pytest.mark.medium
@needs_compiler
@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("warps", [1, 8])
def test_one_launch(templates, built_folder, warps, short):
    device = EmulatedCuda()
    load = loader(device, templates, built_folder / "sparse")
    launches = SingleLaunch(device, np.dtype(np.float64))
    factors = Factors(*(Storage.upload(device, lay_out(matrix, 1)) for matrix in (A, B)))
    shape = next(shape for shape in single_shapes(device.target, 8) if shape.warps == warps)
    configuration = launches._configure_shape(factor_sizes(factors), shape, shape.table)
    # warps take as many entries as their rows have, and none is left at the end of what they take
    full = configuration._replace(capacity=PATTERN.nnz - short, chunk=0)
    launch, c, entries_of_c = launches.bind(lambda module: load(f"double/{module}"), factors, full)
    columns, values = entries_of_c.buffers(full.capacity + GUARD)
    for buffer in (columns, values):
        device.fill(buffer, SENTINEL)
    launch()
    words = launches._launch_counters()[1].read()
    assert words[LaunchWord.BUFFER_END] == PATTERN.nnz
    assert_only_the_buffer_is_written(c, columns, values, words[LaunchWord.LACKING], short)
    c.release()
    launches.release()
