"""Products of sparse matrices, on the CPU and by a GPU's emulator, compared with SciPy's."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm import multiplication as product
from repro.sparse.spgemm.binned_rows import Factors, papers_shapes, shapes_by_products
from repro.sparse.spgemm.kernels import BINS, EXPECTED
from repro.sparse.spgemm.multiplication import CoordinateMultiplication
from support.matrices import around_edges, assert_product, doubled, fragmented, of_sizes, random


@pytest.mark.sampled(2)
@pytest.mark.parametrize("phases", ["one", "two"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_rows_of_any_size(multiplication, on_device, phases, precision):
    dtype = np.float32 if precision == "single" else np.float64
    a = sp.csr_array(sp.vstack([random(40, 60, 0.02), random(20, 60, 0.3), random(4, 60, 0.9)]), dtype=dtype)
    b = sp.csr_array(sp.vstack([random(50, 300, 0.02, 2), random(10, 300, 0.6, 3)]), dtype=dtype)
    factors = Factors(on_device(a, dtype), on_device(b, dtype))
    products = multiplication(precision)
    c = products.multiply_in_one_phase(factors) if phases == "one" else products.multiply_in_two_phases(factors)
    assert_product(c, a, b, dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("phases", ["one", "two", "sorted"])
def test_rows_at_the_limits_of_bins(multiplication, on_device, device, phases):
    a, b = around_edges()
    factors = Factors(on_device(a), on_device(b))
    shapes = papers_shapes(device.target, 8) if phases == "sorted" else None
    products = multiplication("double", shapes)
    c = products.multiply_in_two_phases(factors) if phases == "two" else products.multiply_in_one_phase(factors)
    assert_product(c, a, b)


def test_rows_that_no_table_has_slots_for_are_summed_up_by_column(multiplication, on_device):
    a = sp.csr_array(np.ones((3, 8)))
    b = of_sizes([2500] * 8, 3000)
    c = multiplication().multiply_in_one_phase(Factors(on_device(a), on_device(b)))
    assert_product(c, a, b, in_order=True)


def test_more_entries_than_are_expected(multiplication, on_device, device):
    # nothing meets: each product is an entry, for which neither tables nor memory were made
    b = sp.csr_array(sp.kron(sp.eye_array(64), np.ones((1, 8))))
    a = sp.csr_array(np.ones((5, 64)))
    shapes = shapes_by_products(device.target, 8, (64,) * BINS)
    factors = Factors(on_device(a), on_device(b))
    for products in (multiplication(), multiplication("double", shapes)):
        assert_product(products.multiply_in_one_phase(factors), a, b)
        assert_product(products.multiply_in_two_phases(factors), a, b)
    assert EXPECTED[4] > 2  # or the test is none


@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("rows", [1, 8])
def test_the_papers_way_leaves_columns_in_order(multiplication, on_device, device, width, rows):
    a, b = random(70, 50, 0.2), random(50, 80, 0.3)
    products = multiplication("double", papers_shapes(device.target, 8, width, rows))
    assert_product(products.multiply_in_one_phase(Factors(on_device(a), on_device(b))), a, b, in_order=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["one", "two", "sorted"])
def test_rows_in_several_segments_and_columns_twice(multiplication, device, way):
    a, b = random(50, 40, 0.2), random(40, 90, 0.3)
    stored = [Storage.upload(device, fragmented(matrix, 3)) for matrix in (a, doubled(b))]
    shapes = papers_shapes(device.target, 8) if way == "sorted" else None
    products = multiplication("double", shapes)
    factors = Factors(*stored, "chain")
    c = products.multiply_in_two_phases(factors) if way == "two" else products.multiply_in_one_phase(factors)
    assert_product(c, a, sp.csr_array(2 * b))


@pytest.mark.parametrize("kind", ["one", "two"])
def test_the_same_each_time_bit_for_bit(multiplication, on_device, kind):
    a, b = random(60, 60, 0.3), random(60, 60, 0.3, 2)
    factors = Factors(on_device(a), on_device(b))
    products = multiplication()
    results = []
    for _ in range(20):
        c = (products.multiply_in_one_phase if kind == "one" else products.multiply_in_two_phases)(factors)
        csr = c.download().to_csr()
        csr.sort_indices()
        results.append(csr.data.tobytes())
        c.release()
    assert len(set(results)) == 1


def test_other_values_into_the_same_pattern(multiplication, on_device):
    a, b = random(60, 50, 0.2), random(50, 70, 0.2, 2)
    products = multiplication()
    c = products.multiply_in_two_phases(Factors(on_device(a), on_device(b)))
    other = a.copy()
    other.data = np.random.default_rng(9).random(a.nnz)
    with products.refill_launch(Factors(on_device(other), on_device(b)), c) as refill:
        refill()
    assert_product(c, other, b)


@pytest.mark.wording
def test_more_entries_than_offsets_tell_apart_are_refused(multiplication, on_device, monkeypatch):
    monkeypatch.setattr(product, "MAX_ENTRIES", 100)
    stored = on_device(sp.csr_array(np.ones((20, 20))))
    for multiply in (multiplication().multiply_in_one_phase, multiplication().multiply_in_two_phases):
        with pytest.raises(ReproError, match="too many entries for a matrix"):
            multiply(Factors(stored, stored))


@pytest.mark.parametrize("most", [1, 700, 1 << 20])
def test_through_coordinates_in_slices(device, load, on_device, most):
    a = sp.csr_array(sp.vstack([random(40, 60, 0.05), sp.csr_array((3, 60)), random(5, 60, 0.9)]))
    b = random(60, 90, 0.2, 2)
    c = CoordinateMultiplication(device, load("double"), most).multiply(Factors(on_device(a), on_device(b)))
    assert_product(c, a, b, in_order=True)


def test_through_coordinates_of_chains(device, load):
    a, b = random(50, 40, 0.2), random(40, 90, 0.3)
    stored = [Storage.upload(device, fragmented(matrix, 3)) for matrix in (a, doubled(b))]
    c = CoordinateMultiplication(device, load("double")).multiply(Factors(*stored, "chain"))
    assert_product(c, a, sp.csr_array(2 * b), in_order=True)


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 5, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing_through_coordinates(device, load, on_device, shape):
    a, b = sp.csr_array(shape[:2]), sp.csr_array(shape[1:])
    c = CoordinateMultiplication(device, load("double")).multiply(Factors(on_device(a), on_device(b)))
    assert_product(c, a, b)
