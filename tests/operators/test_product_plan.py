"""A product that is computed again from other values, as a user asks for it."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.matrices import assert_csr_product, of_sizes, random

DEVICE = "opencl:0"


def with_data(matrix, data):
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


@pytest.fixture
def factors():
    return random(50, 40, 0.2), random(40, 60, 0.2, 2)


def test_other_values_of_both(factors):
    a, b = factors
    c, plan = repro.spgemm(a, b, DEVICE, plan=True)
    assert_csr_product(c.copy(), a, b)
    generator = np.random.default_rng(3)
    others = with_data(a, generator.random(a.nnz)), with_data(b, generator.random(b.nnz))
    first = plan.refill(others[0].data)
    np.testing.assert_array_equal(first.indices, c.indices)
    assert_csr_product(first, others[0], b)
    assert_csr_product(plan.refill(b_values=others[1].data), *others)
    assert_csr_product(plan.refill(a.data.tolist(), b.data), a, b)
    assert plan.shape == c.shape
    assert plan.nnz == c.nnz
    assert plan.nbytes > 8 * a.nnz


def test_the_same_each_time_bit_for_bit(factors):
    _, plan = repro.spgemm(*factors, DEVICE, plan=True)
    assert len({plan.refill().data.tobytes() for _ in range(5)}) == 1


def test_values_on_the_device(factors):
    a, b = factors
    c, plan = repro.spgemm(a, b, DEVICE, plan=True)
    runtime = plan._runtime
    values, out = runtime.put(2 * a.data), runtime.put(np.full(c.nnz, np.nan))
    assert plan.refill(values, out=out) is out
    assert_csr_product(with_data(c, out.get()), 2 * a, b)
    assert_csr_product(plan.refill(values, b.data), 2 * a, b)
    assert_csr_product(plan.refill(), a, b)  # those on the device are not kept


def test_rows_without_destinations():
    a, b = sp.eye_array(3).tocsr(), of_sizes([10, 2600, 4], 2700)
    c, plan = repro.spgemm(a, b, DEVICE, plan=True)
    assert_csr_product(plan.refill(2 * a.data), sp.csr_array(2 * a), b)
    with pytest.raises(ReproError, match="no destinations"):
        plan.refill(out=plan._runtime.put(np.zeros(c.nnz)))


def test_entries_of_one_place_are_one_value():
    twice = sp.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), (2, 2))
    _, plan = repro.spgemm(twice, sp.eye_array(2), DEVICE, plan=True)
    assert plan.refill([5, 6]).toarray().tolist() == [[0, 5], [6, 0]]


def test_single_precision_and_nothing():
    a = sp.csr_array(np.eye(3, dtype=np.float32))
    _, plan = repro.spgemm(a, a, DEVICE, plan=True)
    assert plan.refill(2 * a.data).dtype == np.float32
    empty = sp.csr_array((3, 3))
    assert repro.spgemm(empty, empty, DEVICE, plan=True)[1].refill([], []).nnz == 0


@pytest.mark.parametrize("values", [[1.0], np.zeros((2, 2)), np.array(["a", "b"]), [1j, 2]])
def test_what_are_no_values_is_refused(values):
    _, plan = repro.spgemm(sp.eye_array(2), sp.eye_array(2), DEVICE, plan=True)
    with pytest.raises(ReproError, match="not the values of the matrix"):
        plan.refill(values)


def test_what_keeps_no_pattern_is_refused(factors):
    grows = repro.DynamicCSR.from_csr(factors[0], device=DEVICE)
    for wrong in ({"a": grows}, {"sort": True}, {"format": "dynamic"}):
        with pytest.raises(ReproError, match="plan"):
            repro.spgemm(**{"a": factors[0], "b": factors[1], "device": DEVICE, "plan": True, **wrong})


def test_a_released_plan_is_refused(factors):
    _, plan = repro.spgemm(*factors, DEVICE, plan=True)
    plan.close()
    plan.close()
    with pytest.raises(ReproError, match="closed"):
        plan.refill()


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e200), (np.float32, 1e25)])
@pytest.mark.parametrize("on_device", [False, True])
def test_sums_that_overflow_are_refused_as_in_a_first_product(factors, dtype, size, on_device, put):
    a, b = (matrix.astype(dtype) for matrix in factors)
    c, plan = repro.spgemm(a, b, DEVICE, plan=True)
    large = [matrix.data / matrix.data.max() * dtype(size) for matrix in (a, b)]
    with pytest.raises(ReproError, match="sums in the product are out of range") as first:
        repro.spgemm(with_data(a, large[0]), with_data(b, large[1]), DEVICE)
    for keys in ({}, {"out": put(c.data)}):
        with pytest.raises(ReproError, match=f"out of range for {np.dtype(dtype)}(.*\n)+.*row 0") as again:
            plan.refill(*(map(put, large) if on_device else large), **keys)
        assert again.value.todo == first.value.todo
    assert_csr_product(plan.refill(a.data, b.data), a, b, dtype)
    np.testing.assert_array_equal(plan.refill(put(a.data), put(b.data), out=put(c.data)).get(), c.data)


def test_infinity_less_infinity_is_too_large_and_values_of_infinity_are_taken():
    a, b = sp.csr_array(np.ones((1, 2))), sp.csr_array(np.array([[1.0], [-1.0]]))
    _, plan = repro.spgemm(a, b, DEVICE, plan=True)
    with pytest.raises(ReproError, match="out of range"):
        plan.refill([1e200, 1e200], [1e200, -1e200])
    with pytest.raises(ReproError, match="out of range"):
        plan.refill()  # the same values
    assert plan.refill([np.inf, 1.0], [1.0, 1.0]).data == [np.inf]
    assert np.isnan(plan.refill([1.0, 1.0], [np.nan, 1.0]).data)
    assert plan.refill([1.0, 2.0], [3.0, 4.0]).data == [11.0]


def test_sums_of_rows_without_destinations_that_overflow_are_refused():
    a, b = sp.eye_array(3).tocsr(), of_sizes([10, 2600, 4], 2700)
    _, plan = repro.spgemm(a, b, DEVICE, plan=True)
    with pytest.raises(ReproError, match=r"out of range(.*\n)+.*row 1"):
        plan.refill([1.0, 1e200, 1.0], np.full(b.nnz, 1e200))
