"""Which kernels the rows of a product are given: by a sample of them, and by how much else there is to do."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import get_target
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm import multiplication as product
from repro.sparse.spgemm.binned_rows import (
    MIN_SHARE,
    SAMPLE_ROWS,
    Factors,
    ProductBins,
    RowDemand,
    retry_shapes,
    shapes_by_entries,
    spread_out,
    take_sample,
)
from repro.sparse.spgemm.kernels import BINS, LIMITS, HashShape
from support.matrices import PROBLEMS, around_edges, assert_product, of_sizes, poisson, random

SM_90 = get_target("sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edges", "27", "no slots"])
@pytest.mark.parametrize("phases", ["one", "two"])
def test_products_by_a_sample_of_their_rows(multiplication, on_device, monkeypatch, name, phases):
    monkeypatch.setattr(product, "MIN_PRODUCTS", 1)
    if name == "27":
        a = b = poisson(*PROBLEMS["27"])
    else:
        a, b = around_edges() if name == "edges" else (sp.csr_array(np.ones((3, 8))), of_sizes([2500] * 8, 3000))
    factors = Factors(on_device(a), on_device(b))
    products = multiplication()
    c = products.multiply_in_one_phase(factors) if phases == "one" else products.multiply_in_two_phases(factors)
    assert_product(c, a, b)


@pytest.mark.sampled(1)
def test_what_a_sample_tells(device, load, on_device):
    a, b = random(300, 200, 0.05), random(200, 400, 0.1, 2)
    factors = Factors(on_device(a), on_device(b))
    c = Storage.empty(device, factors.shape, 1, 1, np.dtype(np.float64))
    bins = ProductBins(device, load("double")("count-exact"), 300)
    bins.bin_by_products(factors.a, factors.b, c)
    counts = bins.read()
    sample = take_sample(device, load("double"), factors, c, bins, counts)
    products, sizes = (abs(a) > 0).astype(int) @ np.diff(b.indptr), np.diff((abs(a) @ abs(b)).indptr)
    of_rows = np.searchsorted(LIMITS, products)
    assert counts.entries == a.nnz
    assert counts.mean_row == pytest.approx(products.sum() / a.nnz)
    looked_at = 0
    for bin in range(BINS):
        rows = (products > 0) & (of_rows == bin)
        assert counts.rows[bin] == rows.sum()
        assert counts.largest[bin] == products[rows].max(initial=0)
        if products[rows].sum() < MIN_SHARE * products.sum():
            assert not sample.rows[bin]
            continue
        assert sample.rows[bin] == min(rows.sum(), SAMPLE_ROWS)
        if rows.sum() <= SAMPLE_ROWS:  # then it is no sample but all
            looked_at += 1
            assert sample.entries[bin] == sizes[rows].sum()
            assert sample.largest[bin] == sizes[rows].max()
    assert looked_at
    assert sizes.sum() <= sample.estimate_entries(counts) <= 2 * sizes.sum() + 300
    for storage in (c, bins):
        storage.release()


def test_few_rows_have_more_lanes():
    lanes = 132 * 2048
    shapes = shapes_by_entries(SM_90, 8, [200] * BINS)
    assert shapes.shapes[0] == HashShape(16, 256, 8)

    def width(rows, of_a, of_b):
        shape = spread_out(shapes, SM_90, 8, RowDemand([rows] * BINS, lanes, of_a, of_b)).shapes[0]
        assert isinstance(shape, HashShape)
        assert shape.table == 256
        return shape.width

    assert width(100_000, 1000, 100) == 16  # there is enough for all
    assert width(100, 10, 4) == 16  # no more than rows of B have work for
    assert width(100, 10, 100) == 32
    assert width(100, 1000, 100) == 256  # warps take parts of A's row
    assert width(100, 100, 100) == 64  # of which there are few
    assert width(1500, 1000, 4) == 128  # no more lanes than the device has


def test_shapes_for_another_try_have_slots_for_all_products_or_the_largest_table():
    for limit, shape in zip(LIMITS, retry_shapes(SM_90, 8).shapes, strict=False):
        assert isinstance(shape, HashShape)
        assert shape.table >= min(limit, 2048)
