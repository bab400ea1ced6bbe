"""New values of a product by stored destinations, on the CPU and by a GPU's emulator, compared with SciPy's."""

import math
from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse as sp

from repro.codegen.targets import get_target
from repro.sparse.spgemm import multiplication as products
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.kernels import ROOMS, refill_shape, refill_shapes
from repro.sparse.spgemm.multiplication import Destinations
from support.matrices import PROBLEMS, assert_product, of_sizes, poisson, random, to_csr, with_values

#: Bytes that are NaN in any precision.
NAN = 0xFF


@pytest.fixture
def refill_launch(device, load, multiplication, on_device):
    """Compute a product, keep its destinations, and compute it of other values by them; return the plan."""
    kept = []

    def refill(a, b, precision="double"):
        dtype = np.float32 if precision == "single" else np.float64
        a, b = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
        factors = Factors(on_device(a, dtype), on_device(b, dtype))
        c = multiplication(precision).multiply_in_two_phases(factors)
        plan = Destinations(device, load(precision), factors, c)
        kept.extend([plan, c])
        for seed in (5, 6):
            others = with_values(a, seed, dtype), with_values(b, seed + 2, dtype)
            device.fill(c.values, NAN)
            with ExitStack() as held:
                plan.bind(Factors(*(on_device(other, dtype) for other in others)), c, held)()
                device.synchronize()
            assert_product(c, *others, dtype)
        return plan

    yield refill
    for one in kept:
        one.release()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_matrices_of_stencils(refill_launch, name, precision):
    a = poisson(*PROBLEMS[name])
    plan = refill_launch(a, a, precision)
    assert len(plan.kernels) == 1
    assert not plan.unplanned
    # a byte a product, eight an entry of A, four a row
    products = int((np.diff(a.indptr) @ abs(a).astype(bool)).sum())
    assert 0 <= plan.nbytes - products - 8 * a.nnz - 4 * (a.shape[0] + 1) <= a.shape[0] + 4


@pytest.mark.parametrize("precision", ["single", "double"])
def test_rows_of_any_size(refill_launch, precision):
    a = sp.vstack([random(40, 60, 0.02), random(20, 60, 0.3), random(4, 60, 0.9)])
    b = sp.vstack([random(50, 300, 0.02, 2), random(10, 300, 0.6, 3)])
    refill_launch(a, b, precision)


def test_rows_of_every_room_and_beyond(refill_launch):
    sizes = sorted({max(room + more, 1) for room in (1, *ROOMS) for more in (-1, 0, 1)})
    b = of_sizes(sizes, 2200)
    plan = refill_launch(sp.eye_array(len(sizes)), b)
    assert len(plan.kernels) == len(ROOMS)
    assert plan.unplanned == 1


def test_rows_of_more_products_than_a_word_counts(refill_launch):
    a = sp.csr_array(np.ones((3, 9)))
    plan = refill_launch(a, of_sizes([4200] + [30] * 8, 4300))
    assert plan.unplanned == 3
    assert not plan.kernels


def test_more_destinations_than_offsets_reach(refill_launch, monkeypatch):
    monkeypatch.setattr(products, "MAX_BYTES", 1000)
    plan = refill_launch(random(30, 30, 0.3), random(30, 30, 0.3, 2))
    assert plan.unplanned == 30
    assert not plan.kernels


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 5, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing(refill_launch, shape):
    assert not refill_launch(sp.csr_array(shape[:2]), sp.csr_array(shape[1:])).kernels


def test_rows_of_a_product_in_any_order(device, load, multiplication, on_device):
    a, b, last = random(60, 50, 0.2), random(50, 70, 0.2, 2), random(70, 20, 0.3, 3)
    first = Factors(on_device(a), on_device(b))
    c = multiplication().multiply_in_one_phase(first)
    second = Factors(c, on_device(last))
    d = multiplication().multiply_in_one_phase(second)
    plans = [Destinations(device, load("double"), factors, of) for factors, of in ((first, c), (second, d))]
    others = with_values(b, 3), with_values(last, 4)
    plans[0].bind(Factors(first.a, on_device(others[0])), c, ExitStack())()
    assert_product(c, a, others[0])
    plans[1].bind(Factors(c, on_device(others[1])), d, ExitStack())()
    assert_product(d, to_csr(c), others[1])
    for one in (c, d, *plans):
        one.release()


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_shape(device, load, multiplication, on_device, monkeypatch, precision):
    dtype = np.float32 if precision == "single" else np.float64
    for shape in refill_shapes(device.target, dtype().itemsize):
        print(shape)  # what would hang on a GPU ends the process of its emulator
        sizes = [shape.room, shape.room - 1, shape.room // 2, 3, 1, 7, 40 % shape.room, 2] * 3
        b = sp.csr_array(of_sizes(sizes, shape.room), dtype=dtype)
        a = sp.csr_array(sp.vstack([random(9, 24, 0.3), sp.csr_array((2, 24)), random(30, 24, 0.9, 2)]), dtype=dtype)
        factors = Factors(on_device(a, dtype), on_device(b, dtype))
        c = multiplication(precision).multiply_in_two_phases(factors)
        plan = Destinations(device, load(precision), factors, c)
        monkeypatch.setattr(products, "refill_shape", lambda *given, shape=shape: shape)
        monkeypatch.setattr(plan, "_launches", [rows for rows in plan._launches if rows.room == shape.room])
        device.fill(c.values, NAN)
        with ExitStack() as held:
            plan.bind(factors, c, held)()
            device.synchronize()
        got = c.download().to_csr()
        monkeypatch.undo()
        assert plan.kernels
        kept = {room for room in ROOMS if room < shape.room}
        whole = np.diff(got.indptr) > max(kept, default=0)
        assert whole.any()
        assert np.isfinite(got[whole].data).all()
        expected = (a @ b)[whole]
        assert abs(got[whole] - expected).max() <= 100 * np.finfo(dtype).eps * abs(expected).max()
        plan.release()
        c.release()


def test_each_room_has_shapes_of_whole_warps():
    target = get_target("sm_90")
    for scalar_bytes in (4, 8):
        shapes = refill_shapes(target, scalar_bytes)
        assert {shape.room for shape in shapes} == set(ROOMS)
        assert all(shape.threads % 32 == 0 and math.log2(shape.rows).is_integer() for shape in shapes)


@pytest.mark.parametrize(
    ("of_a", "of_b", "rows", "lanes", "groups"),
    [
        (5, 5, 10**6, 4, 1),
        (14, 5, 10**6, 4, 2),
        (20, 4, 10**6, 4, 4),
        (100, 4, 10**6, 4, 4),
        (60, 4, 500, 4, 8),
        (27, 27, 10**6, 16, 1),
        (27, 27, 500, 16, 2),
    ],
)
def test_long_rows_and_few_rows_have_more_groups(of_a, of_b, rows, lanes, groups):
    shape = refill_shape(get_target("sm_90"), 8, 32, rows, of_a, of_b, 132 * 2048)
    assert (shape.lanes, shape.groups) == (lanes, groups)
