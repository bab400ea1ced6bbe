"""Products of sparse matrices on a GPU, compared with SciPy's."""

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.sparse.dynamic.host_layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.binned_rows import GLOBAL_BLOCKS, Factors, papers_shapes, shapes_by_products
from repro.sparse.spgemm.kernels import BINS, ROOMS, refill_shapes, single_shapes
from repro.sparse.spgemm.multiplication import CoordinateMultiplication, Destinations, Multiplication
from repro.sparse.spgemm.one_launch import SingleLaunch
from support.matrices import around_edges, assert_product, doubled, fragmented, of_sizes, poisson, random, with_values

pytestmark = pytest.mark.gpu
DTYPES = {"single": np.float32, "double": np.float64}
#: Matrices whose products take one launch: of stencils, with few and long rows, and with rows of many products.
ALIKE = {
    "5": lambda: 2 * (poisson((120, 110), 5),),
    "9": lambda: 2 * (poisson((120, 110), 9),),
    "7": lambda: 2 * (poisson((30, 25, 20), 7),),
    "27": lambda: 2 * (poisson((30, 25, 20), 27),),
    "few rows": lambda: (random(300, 20_000, 0.005), random(20_000, 60, 0.1, 2)),
    "many products": lambda: (random(900, 400, 0.5), random(400, 300, 0.3, 2)),
    "empty rows": lambda: (sp.vstack([sp.csr_array((90, 400)), random(500, 400, 0.02)]), random(400, 300, 0.02, 2)),
}
NAN = 0xFF


def multiply(gpu, load, way, precision, factors):
    plans = {"sorted": papers_shapes, "crowded": lambda *given: shapes_by_products(*given, (64,) * BINS)}
    shapes = plans[way](gpu.target, DTYPES[precision]().nbytes) if way in plans else None
    if way == "coordinates":
        return CoordinateMultiplication(gpu, load(precision), 1 << 18).multiply(factors)
    products = Multiplication(gpu, load(precision), DTYPES[precision], shapes)
    return products.multiply_in_two_phases(factors) if way == "two" else products.multiply_in_one_phase(factors)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("way", ["one", "two", "sorted", "crowded", "coordinates"])
@pytest.mark.parametrize("what", ["limits", "short rows", "many rows", "long rows", "chains"])
def test_every_way(gpu, load, way, precision, what):
    dtype = DTYPES[precision]
    a, b = {
        "limits": around_edges,
        "short rows": lambda: (random(30_000, 500, 0.01), random(500, 700, 0.01, 2)),
        "many rows": lambda: (random(40_000, 300, 0.05), random(300, 900, 0.05, 2)),
        "long rows": lambda: (sp.csr_array(np.ones((300, 8))), of_sizes([2500] * 8, 3000)),
        "chains": lambda: (random(500, 400, 0.05), random(400, 900, 0.05)),
    }[what]()
    if what == "chains":
        a32, b32 = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
        stored = [Storage.upload(gpu, fragmented(matrix, 3)) for matrix in (a32, doubled(b32))]
        factors, a, b = Factors(*stored, "chain"), a32, sp.csr_array(2 * b32)
    else:
        a, b = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
        stored = [Storage.upload(gpu, lay_out(matrix, 4)) for matrix in (a, b)]
        factors = Factors(*stored)
    c = multiply(gpu, load, way, precision, factors)
    assert_product(c, a, b, dtype)
    for storage in (*stored, c):
        storage.release()


@pytest.mark.parametrize("way", ["one", "two"])
def test_the_same_each_time_bit_for_bit(gpu, load, way):
    a, b = random(20_000, 400, 0.05), random(400, 400, 0.3, 2)
    factors = Factors(*(Storage.upload(gpu, lay_out(matrix, 4)) for matrix in (a, b)))
    results = set()
    for _ in range(20):
        c = multiply(gpu, load, way, "double", factors)
        csr = c.download().to_csr()
        csr.sort_indices()
        results.add(csr.data.tobytes())
        c.release()
    assert len(results) == 1


def stored(gpu, held, matrix, dtype):
    """Bring a matrix to the GPU until `held` is closed."""
    storage = Storage.upload(gpu, lay_out(sp.csr_array(matrix, dtype=dtype), 1))
    held.callback(storage.release)
    return storage


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("what", ALIKE)
def test_one_launch(gpu, load, what, precision):
    dtype = DTYPES[precision]
    a, b = (sp.csr_array(matrix, dtype=dtype) for matrix in ALIKE[what]())
    pattern, bits = abs(a) @ abs(b), set()
    with ExitStack() as held:
        factors = Factors(*(stored(gpu, held, matrix, dtype) for matrix in (a, b)))
        products = Multiplication(gpu, load(precision), dtype)
        for _ in range(10):
            c = products.multiply_in_one_launch(factors)
            assert c is not None
            assert (c.entries, c.longest) == (pattern.nnz, np.diff(pattern.indptr).max())
            assert c.report().pointer == c.capacity >= c.entries
            rows = c.download().to_csr()
            rows.sort_indices()
            bits.add((rows.indices.tobytes(), rows.data.tobytes()))
            assert_product(c, a, b, dtype)
            c.release()
    assert len(bits) == 1


@pytest.mark.parametrize("phases", ["one", "two"])
def test_rows_by_tables_in_global_memory_are_right_and_in_one_order(gpu, load, phases):
    # more rows than blocks, so that a table is used twice, and more columns than tables in shared memory hold
    sizes = [20_000, 28_000] * 4
    b = of_sizes(sizes, 60_000)
    wide = sp.csr_array(np.kron(np.eye(8), np.ones((GLOBAL_BLOCKS // 8 + 3, 1))))
    short = random(4 * wide.shape[0], 8, 0.01, 3)
    a, orders = sp.csr_array(sp.vstack([wide, short])), set()
    with ExitStack() as held:
        factors = Factors(*(stored(gpu, held, matrix, np.float64) for matrix in (a, b)))
        products = Multiplication(gpu, load("double"), np.float64)
        for _ in range(3):
            c = (products.multiply_in_one_phase if phases == "one" else products.multiply_in_two_phases)(factors)
            assert_product(c, a, b)
            orders.add(c.download().to_csr().indices.tobytes())
            c.release()
    assert len(orders) == 1


def test_one_launch_of_skewed_rows_is_left_to_bins(gpu, load):
    skewed = sp.csr_array(sp.vstack([random(2000, 2000, 0.002), np.ones((1, 2000))]))
    with ExitStack() as held:
        factors = Factors(stored(gpu, held, skewed, np.float64), stored(gpu, held, skewed[1:], np.float64))
        products = Multiplication(gpu, load("double"), np.float64)
        assert products.multiply_in_one_launch(factors) is None
        c = products.multiply(factors)
        assert_product(c, skewed, skewed[1:])
        c.release()


def test_one_launch_of_rows_that_differ_but_are_short(gpu, load):
    skewed = sp.csr_array(sp.vstack([random(2000, 2000, 0.002), np.ones((1, 2000))]))
    thin = random(2000, 300, 0.01)
    with ExitStack() as held:
        factors = Factors(stored(gpu, held, skewed, np.float64), stored(gpu, held, thin, np.float64))
        c = Multiplication(gpu, load("double"), np.float64).multiply_in_one_launch(factors)
        assert c is not None
        assert_product(c, skewed, thin)
        c.release()


@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_shape_of_one_launch(gpu, load, monkeypatch, precision):
    dtype = DTYPES[precision]
    ours = SingleLaunch(gpu, np.dtype(dtype))
    for shape in single_shapes(gpu.target, dtype().itemsize):
        sizes = [shape.table, shape.table - 1, shape.table // 2, 3, 1, 7, 9, 2] * 3
        b = sp.csr_array(of_sizes(sizes, shape.table), dtype=dtype)
        a = sp.csr_array(sp.vstack([random(9, 24, 0.3), sp.csr_array((2, 24)), random(3000, 24, 0.9, 2)]), dtype=dtype)
        monkeypatch.setattr(ours, "_shape", lambda *given, shape=shape: shape)
        with ExitStack() as held:
            factors = Factors(*(stored(gpu, held, matrix, dtype) for matrix in (a, b)))
            c = ours.multiply(load(precision), factors)
            assert c is not None, shape
            assert_product(c, a, b, dtype)
            c.release()
    ours.release()


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("what", [*ALIKE, "every room", "long rows"])
def test_stored_destinations(gpu, load, what, precision):
    dtype = DTYPES[precision]
    sizes = sorted({max(room + more, 1) for room in (1, *ROOMS) for more in (-1, 0, 1)})
    others = {
        "every room": lambda: (sp.eye_array(len(sizes)), of_sizes(sizes, 2200)),
        "long rows": lambda: (sp.csr_array(np.ones((300, 8))), of_sizes([2500] * 8, 3000)),
    }
    a, b = (sp.csr_array(matrix, dtype=dtype) for matrix in {**ALIKE, **others}[what]())
    bits = set()
    with ExitStack() as held:
        factors = Factors(*(stored(gpu, held, matrix, dtype) for matrix in (a, b)))
        c = Multiplication(gpu, load(precision), dtype).multiply_in_two_phases(factors)
        held.callback(c.release)
        plan = Destinations(gpu, load(precision), factors, c)
        held.callback(plan.release)
        given = with_values(a, 5, dtype), with_values(b, 6, dtype)
        launch = plan.bind(Factors(*(stored(gpu, held, matrix, dtype) for matrix in given)), c, held)
        for _ in range(5):
            gpu.fill(c.values, NAN)
            launch()
            assert_product(c, *given, dtype)
            rows = c.download().to_csr()
            rows.sort_indices()
            bits.add(rows.data.tobytes())
    assert len(bits) == 1


@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_shape_of_stored_destinations(gpu, load, monkeypatch, precision):
    dtype = DTYPES[precision]
    for shape in refill_shapes(gpu.target, dtype().itemsize):
        b = sp.csr_array(of_sizes([shape.room, shape.room - 1, shape.room] * 8, shape.room), dtype=dtype)
        a = sp.csr_array(random(2000, 24, 0.4, 2), dtype=dtype)
        with ExitStack() as held:
            factors = Factors(*(stored(gpu, held, matrix, dtype) for matrix in (a, b)))
            c = Multiplication(gpu, load(precision), dtype).multiply_in_two_phases(factors)
            held.callback(c.release)
            plan = Destinations(gpu, load(precision), factors, c)
            held.callback(plan.release)
            monkeypatch.setattr(plan, "_shape", lambda rows, shape=shape: shape)
            assert [rows.room for rows in plan._launches] == [shape.room], "all rows have the room"
            gpu.fill(c.values, NAN)
            plan.bind(factors, c, held)()
            assert_product(c, a, b, dtype)
