"""Products whose rows differ much, on the CPU and by a GPU's emulator: long rows by blocks, compared with SciPy's."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import TARGETS, get_target
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm import multiplication as product
from repro.sparse.spgemm.binned_rows import DIFFERING, BinCounts, Factors, ProductRows, shapes_by_bounds
from repro.sparse.spgemm.kernels import (
    BINS,
    LIMITS,
    LONG_CHUNK,
    LONG_FILLED,
    LONG_PRODUCTS,
    HashShape,
    LongShape,
    hash_shapes,
    long_shapes,
)
from repro.sparse.spgemm.one_launch import single_launch
from support.emulated_cuda import needs_compiler
from support.matrices import assert_product, doubled, fragmented, of_sizes, random
from support.products_by_shape import check_shape

pytestmark = pytest.mark.medium

CPU, SM_90 = get_target("cpu"), get_target("sm_90")


def power_law(n, seed=1):
    """Return a square matrix whose rows, and whose columns, are as long as 1 / k, and some of which are empty."""
    generator = np.random.default_rng(seed)
    lengths = np.minimum(n // 2 / np.arange(1, n + 1), n // 3).astype(int)
    generator.shuffle(lengths)
    lengths[:: n // 7] = 0
    rows = np.repeat(np.arange(n), lengths)
    columns = (n * generator.random(len(rows)) ** 3).astype(int)
    matrix = sp.csr_array((generator.uniform(0.5, 1.5, len(rows)), (rows, columns)), (n, n))
    matrix.sum_duplicates()
    return matrix


def with_a_dense_row(n):
    return sp.csr_array(sp.vstack([random(n - 1, n, 3 / n), np.ones((1, n))]))


SKEWED = {
    "power law": (power_law(400),) * 2,
    "one dense row": (with_a_dense_row(300),) * 2,
    "one dense column": (sp.csr_array(with_a_dense_row(300).T),) * 2,
    "both": (sp.csr_array(with_a_dense_row(200) + with_a_dense_row(200).T),) * 2,
    "blocks": (sp.csr_array(sp.block_diag([np.ones((size, size)) for size in [1] * 300 + [64]])),) * 2,
    # all lanes of a warp have the same column; rows of B without entries between
    "one column": (sp.csr_array(sp.vstack([np.ones((1, 700)), sp.eye_array(700)])), of_sizes([1, 0] * 350, 1)),
    # more columns than any table on the CPU has slots for
    "more than fit": (sp.csr_array(sp.vstack([np.ones((2, 40)), sp.eye_array(40)])), of_sizes([300] * 40, 9000)),
}
#: Of these each row of C is the sum of about as many products.
ALIKE = "one dense column"


def most_products(a, b):
    """Return the products of the longest row of A B, and how many times those of the mean row they are."""
    products = (abs(a) > 0).astype(int).dot(np.diff(b.indptr))
    return products.max(), products.max() / products[products > 0].mean()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in SKEWED if name != ALIKE])
def test_rows_that_differ_are_computed_once(multiplication, on_device, monkeypatch, name):
    a, b = SKEWED[name]
    most, skew = most_products(a, b)
    assert skew >= DIFFERING
    factors, kinds, modes = Factors(on_device(a), on_device(b)), Counter(), []
    bind = ProductRows.bind

    def watched(self, mode, counts, shapes, held):
        kinds.update(type(shape) for shape, rows in zip(shapes.shapes, counts.rows, strict=True) if rows)
        modes.append(mode)
        return bind(self, mode, counts, shapes, held)

    monkeypatch.setattr(ProductRows, "bind", watched)
    c = multiplication().multiply_in_one_phase(factors)
    assert_product(c, a, b)
    assert modes == ["one"]
    # memory was reserved for all products, and what is not C's was given back
    assert c.capacity == (abs(a) @ abs(b)).nnz
    assert (kinds[LongShape] + kinds[type(None)] > 0) == (most > LONG_PRODUCTS[factors.a.device.target.dialect])


def test_rows_that_are_alike_get_room_by_an_estimate(multiplication, on_device, monkeypatch):
    a, b = SKEWED[ALIKE]
    assert most_products(a, b)[1] < DIFFERING
    modes, bind = [], ProductRows.bind
    monkeypatch.setattr(ProductRows, "bind", lambda self, mode, *given: modes.append(mode) or bind(self, mode, *given))
    c = multiplication().multiply_in_one_phase(Factors(on_device(a), on_device(b)))
    assert_product(c, a, b)
    assert modes == ["one", "one"], "rows for which the estimate was too low are computed once more"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["power law", "both", "more than fit"])
def test_two_phases_and_other_values(multiplication, on_device, name):
    a, b = SKEWED[name]
    products = multiplication()
    c = products.multiply_in_two_phases(Factors(on_device(a), on_device(b)))
    assert_product(c, a, b)
    other = a.copy()
    other.data = np.random.default_rng(9).random(a.nnz)
    with products.refill_launch(Factors(on_device(other), on_device(b)), c) as refill:
        refill()
        refill()
    assert_product(c, other, b)


def test_without_memory_for_all_products_a_sample_tells_how_much_is_needed(multiplication, on_device, monkeypatch):
    a, b = SKEWED["power law"]
    factors = Factors(on_device(a), on_device(b))
    monkeypatch.setattr(type(single_launch(factors.a.device, np.dtype(np.float64))), "affords", lambda *_: False)
    monkeypatch.setattr(product, "MIN_PRODUCTS", 1)
    assert_product(multiplication().multiply_in_one_phase(factors), a, b)


@pytest.mark.sampled(1)
@pytest.mark.slow
def test_long_rows_in_several_segments_and_columns_twice(multiplication, device):
    a, b = power_law(200), doubled(power_law(200, 2))
    stored = [Storage.upload(device, fragmented(matrix, 3)) for matrix in (a, b)]
    factors = Factors(*stored, "chain")
    for c in (multiplication().multiply_in_one_phase(factors), multiplication().multiply_in_two_phases(factors)):
        assert_product(c, a, sp.csr_array(b))


def long_rows(most):
    """Return factors whose product has rows of several chunks, of few products and of none, up to `most` entries."""
    sizes = [0, 1, most // 4, 3, 0, most // 4, 70, most // 4]
    b = sp.csr_array(sp.vstack([of_sizes(sizes, most), of_sizes([2, 0, 1, 5] * 150, most, 3)]))
    first = sp.csr_array(np.arange(1.0, b.shape[0] + 1)[None])
    few = sp.csr_array(sp.hstack([sp.csr_array((5, 8)), random(5, 600, 0.4)]))
    return sp.csr_array(sp.vstack([first, few, sp.csr_array((1, b.shape[0])), first, few])), b


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["one", "symbolic", "numeric"])
@pytest.mark.parametrize(
    ("device", "shape"),
    [
        pytest.param(backend, shape, marks=marks, id=f"{backend}-{shape.table or 'dense'}")
        for backend, target, marks in (("opencl", CPU, ()), ("cuda", SM_90, needs_compiler))
        for shape in long_shapes(target, 8)
    ],
    indirect=["device"],
)
def test_each_kernel_of_long_rows(device, load, mode, shape):
    check_shape(device, load("double"), mode, shape if shape.table else None, *long_rows(900))


@pytest.mark.parametrize("phases", ["one", "two"])
def test_skewed_rows_are_the_same_each_time_bit_for_bit(multiplication, on_device, phases):
    a = power_law(300)
    factors, products, results = Factors(on_device(a), on_device(a)), multiplication(), set()
    for _ in range(5):
        c = (products.multiply_in_one_phase if phases == "one" else products.multiply_in_two_phases)(factors)
        csr = c.download().to_csr()
        csr.sort_indices()
        results.add(csr.data.tobytes())
        c.release()
    assert len(results) == 1


def test_tables_hold_the_most_that_rows_can_be():
    in_shared, in_global = 16384, 32768
    for columns, longest in ((1 << 20, 20_000), (1 << 20, 50_000), (3000, 50_000)):
        counts = BinCounts((1,) * BINS, (*LIMITS, longest), (*LIMITS, longest), 1000)
        shapes = shapes_by_bounds(SM_90, 8, counts, columns)
        for shape, largest in zip(shapes.shapes, counts.largest, strict=True):
            most = min(largest, columns)
            if largest <= LONG_PRODUCTS["cuda"]:
                assert isinstance(shape, HashShape)
                assert 7 / 8 * shape.table >= most
            elif most <= LONG_FILLED * in_global:
                assert isinstance(shape, LongShape)
                assert LONG_FILLED * shape.table >= most > LONG_FILLED * shape.table / 2 or shape.table == 1024
                assert shape.in_global == (most > LONG_FILLED * in_shared)
            else:
                assert shape is None


def test_rows_that_are_alike_keep_their_shapes():
    alike, differing = (
        BinCounts((100,) + (0,) * 9 + (rows,), (2000,) + (0,) * 9 + (most,), (25,) + (0,) * 9 + (most,))
        for rows, most in ((0, 0), (1, 20_000))
    )
    assert not alike.differ
    assert differing.differ


@pytest.mark.parametrize(
    "target", [target for target in TARGETS.values() if target.dialect == "cuda"], ids=lambda one: one.name
)
def test_blocks_of_long_rows_fit_a_multiprocessor(target):
    for scalar_bytes in (4, 8):
        for shape in long_shapes(target, scalar_bytes):
            assert shape.shared_bytes(scalar_bytes) <= target.shared_bytes
            in_shared = shape.table and not shape.in_global
            assert shape.threads * shape.items == LONG_CHUNK["cuda"] * (1 if in_shared else 2)
            assert (shape.threads // 32) ** 2 <= shape.threads
        assert len(hash_shapes(target, scalar_bytes)) > len(long_shapes(target, scalar_bytes)) > 1
