"""Matrices and vectors that lie on the device already, as operands and as results: matrices that grow, and CuPy's."""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators import device_exchange
from repro.operators.arrays import DeviceArray
from repro.operators.device_exchange import load_products
from repro.operators.runtime import Runtime, _Streams, open_runtime
from repro.operators.sparse_products import matrix_on_device
from support.device_memory import fill_after
from support.grown_matrices import batch, drawn, plus
from support.matrices import poisson, random
from support.stand_in_cupy import csr_matrix, install, ndarray

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"


def grown(matrix, seed=2, count=200):
    """Return a fragmented matrix with some places twice, and what it is."""
    made = repro.DynamicCSR.from_csr(matrix, segments=6, slack=1, capacity=5000, device=DEVICE)
    for part in range(4):
        entries = batch(matrix.shape, count, seed + part)
        made.insert(*entries)
        matrix = plus(matrix, *entries)
    assert (made._matrix.storage.download().fragments > 1).any()
    return made, matrix


# matrices that grow ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csr", "dynamic"])
@pytest.mark.parametrize("which", ["first", "second", "both"])
def test_matrices_that_grow_are_multiplied_as_they_are(format, which):
    (a, first), (b, second) = grown(drawn(40, 30)), grown(drawn(30, 50, seed=4), seed=9)
    operands = (a if which != "second" else first, b if which != "first" else second)
    product = repro.spgemm(*operands, format=format)  # on the device where they lie
    rows = product.to_scipy() if format == "dynamic" else product
    assert abs(rows - first @ second).max() == 0  # whole numbers
    assert rows.dtype == np.float64 and (a.to_scipy() != first).nnz == 0


def test_a_matrix_that_grows_by_itself():
    a, expected = grown(drawn(40, 40))
    assert abs(repro.spgemm(a, a) - expected @ expected).max() == 0


def test_a_product_goes_on_to_grow():
    a, b = random(40, 60, 0.1), random(60, 30, 0.2)
    c, expected = repro.spgemm(a, b, DEVICE, format="dynamic"), a @ b
    assert isinstance(c, repro.DynamicCSR) and c.segments > 1
    assert c.nnz == (abs(a) @ abs(b)).nnz
    for seed in range(6):
        entries = batch(c.shape, 100, seed)
        c.insert(*entries)
        expected = plus(expected, *entries)
    assert abs(c.to_scipy() - expected).max() < 1e-12
    x = np.random.default_rng(1).random(30)
    np.testing.assert_allclose(c @ x, expected @ x)
    np.testing.assert_allclose(repro.spgemm(c, b.T, DEVICE).toarray(), (expected @ b.T).toarray(), atol=1e-12)
    c.defragment()
    assert abs(c.to_scipy() - expected).max() < 1e-12


@pytest.mark.parametrize("shape", [(0, 5, 4), (3, 5, 4), (3, 0, 4), (3, 4, 0)])
def test_a_product_of_nothing_grows(shape):
    a, b = sp.csr_array(shape[:2]), sp.csr_array(shape[1:])
    c = repro.spgemm(a, b, DEVICE, format="dynamic")
    assert c.shape == (shape[0], shape[2]) and c.nnz == 0
    if all(c.shape):
        c.insert([2, 0], [1, 3], [1.0, 2.0])
        assert c.to_scipy().toarray()[[2, 0], [1, 3]].tolist() == [1, 2] and c.nnz == 2


def test_the_product_has_the_dtype_of_a_matrix_that_grows():
    single, double = (drawn(20, 20, dtype) for dtype in (np.float32, np.float64))
    a, b = (repro.DynamicCSR.from_csr(matrix, device=DEVICE) for matrix in (single, double))
    assert repro.spgemm(a, single).dtype == repro.spgemm(a, a).dtype == np.float32
    assert repro.spgemm(b, single).dtype == np.float64
    for operands in ((a, b), (b, a), (a, double)):
        with pytest.raises(ReproError, match="a different dtype"):
            repro.spgemm(*operands)


def test_what_cannot_be_had_of_a_matrix_that_grows_is_refused(monkeypatch):
    a = repro.DynamicCSR.from_csr(drawn(20, 20), device=DEVICE)
    with pytest.raises(ReproError, match="not sorted"):
        repro.spgemm(a, a, sort=True, format="dynamic")
    with pytest.raises(ReproError, match="format"):
        repro.spgemm(a, a, format="coo")
    monkeypatch.setattr("repro.operators.sparse_products.open_runtime", lambda device: Runtime(a._runtime.device))
    with pytest.raises(ReproError, match="a different device"):
        repro.spgemm(a, a, "opencl:0/2")


def test_columns_are_sorted_where_that_is_asked_for():
    a = random(50, 50, 0.2)
    c = repro.spgemm(a, a, DEVICE, sort=True)
    assert c.has_sorted_indices and sp.csr_array((c.data, c.indices, c.indptr), c.shape).has_sorted_indices
    assert not repro.spgemm(a, a, DEVICE).has_sorted_indices


# arrays on the device -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [random(40, 30, 0.1), sp.csr_array((5, 4)), sp.csr_array((0, 4))], ids=str)
def test_a_matrix_is_handed_over_as_arrays_of_csr(matrix):
    runtime = open_runtime(DEVICE)
    stored = matrix_on_device(runtime, matrix, np.dtype(np.float64))
    data, indices, offsets = device_exchange.csr_arrays(runtime, load_products(runtime, "double"), stored)
    np.testing.assert_array_equal(offsets.get(), matrix.indptr)
    np.testing.assert_array_equal(indices.get(), matrix.indices)
    np.testing.assert_array_equal(data.get(), matrix.data)
    stored.release()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("accel", ["cg", None])
def test_a_system_is_solved_where_its_right_side_lies(put, dtype, accel):
    matrix = sp.csr_array(poisson((30, 30), 5), dtype=dtype)
    ml, b = repro.amg(matrix, device=DEVICE), np.random.default_rng(1).random(900).astype(dtype)
    expected = ml.solve(b, rtol=1e-4, accel=accel)
    x = ml.solve(put(b), rtol=1e-4, accel=accel)
    assert type(x) is DeviceArray and x.dtype == dtype
    np.testing.assert_array_equal(x.get(), expected)
    again = []
    ml.solve(put(b), x0=x, rtol=2e-4, residuals=again)
    ml.solve(b, x0=x, rtol=2e-4, residuals=again)
    assert len(again) == 1


def test_arrays_that_are_no_vectors_of_the_matrix_are_refused(put):
    ml = repro.amg(poisson((6, 6), 5), device=DEVICE)
    with pytest.raises(ReproError, match="the wrong size"):
        ml.solve(put(np.ones(35)))
    with pytest.raises(ReproError, match="the wrong dtype"):
        ml.solve(put(np.ones(36, np.float32)))


# CuPy's ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bring(monkeypatch):
    return install(monkeypatch, open_runtime(DEVICE))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrices_of_cupy_are_multiplied_into_one_of_cupy(bring, dtype):
    a, b = sp.csr_array(random(40, 60, 0.1), dtype=dtype), sp.csr_array(random(60, 30, 0.2), dtype=dtype)
    for operands in ((bring(a), bring(b)), (bring(a), b), (a, bring(b))):
        c = repro.spgemm(*operands, DEVICE, sort=True)
        assert isinstance(c, csr_matrix) and c.dtype == dtype and c.shape == (40, 30)
        assert abs(c.get() - a @ b).max() <= 50 * np.finfo(dtype).eps
        assert (np.diff(c.get().indices)[np.diff(np.repeat(np.arange(40), np.diff(c.get().indptr))) == 0] > 0).all()
    grown = repro.spgemm(bring(a), bring(b), DEVICE, format="dynamic")
    assert abs(grown.to_scipy() - a @ b).max() <= 50 * np.finfo(dtype).eps


def test_entries_of_one_place_are_added_up_and_an_operand_of_cupys_stays_as_it_is(bring):
    twice = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), (2, 2))
    a = bring(twice)
    expected = twice.toarray() @ twice.toarray()
    assert (repro.spgemm(a, a, DEVICE).get().toarray() == expected).all()
    assert a.nnz == 3


def test_what_a_matrix_of_cupys_says_of_its_order_is_not_believed(bring):
    twice = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 0]), np.array([0, 3, 3])), (2, 2))
    dense, a = twice.toarray(), bring(twice)
    a.has_canonical_format = True
    assert (repro.spgemm(a, a, DEVICE).get().toarray() == dense @ dense).all()
    assert a.nnz == 3


def test_matrices_of_cupy_that_are_damaged_or_no_matrices_are_refused(bring):
    a = bring(sp.csr_array(np.eye(3)))
    wrong = sp.csr_array(np.eye(3))
    wrong.indices = np.array([0, 1, 9], np.int32)
    with pytest.raises(ReproError, match=r"damaged[\s\S]*a: indices\[2\][\s\S]*0 to 2"):
        repro.spgemm(bring(wrong), a, DEVICE)
    ml = repro.amg(a, refreshable=True, device=DEVICE)
    for name, array, said in (
        ("indptr", [0, 10**6, 2, 3], "indptr\\[2\\]"),
        ("indptr", [0, 2, 1, 3], "indptr\\[2\\]"),
        ("indptr", [1, 1, 2, 3], "from 0 to 3 at most"),
        ("indptr", [0, 1, 2, 4], "from 0 to 3 at most"),
        ("indptr", [0, 1, 3], "4, one more"),
        ("indices", [0, -1, 2], "0 to 2"),
        ("indices", [0, 1, 2, 2], "as many data"),
        ("indices", [0.0, 1.0, 2.0], "whole numbers"),
    ):
        wrong = bring(sp.csr_array(np.eye(3)))
        setattr(wrong, name, bring(np.array(array, None if isinstance(array[0], float) else np.int32)))
        for call in (lambda other: repro.spgemm(a, other, DEVICE), repro.amg, ml.refresh):
            with pytest.raises(ReproError, match=f"damaged[\\s\\S]*{said}"):
                call(wrong)
    with pytest.raises(ReproError, match="cannot be multiplied"):
        repro.spgemm(a, bring(sp.csr_array((4, 3))), DEVICE)
    complex_one = bring(sp.csr_array(1j * np.eye(3)))
    with pytest.raises(ReproError, match="not real"):
        repro.spgemm(complex_one, a, DEVICE)


def test_a_hierarchy_for_a_matrix_of_cupys_is_made_of_them(bring):
    matrix = poisson((40, 40), 9)
    ml = repro.amg(bring(matrix), bring(np.ones(1600)), max_coarse=20, refreshable=True, device=DEVICE)
    expected = repro.amg(matrix, max_coarse=20, device=DEVICE)
    for ours, theirs in zip(ml.levels, expected.levels, strict=True):
        assert isinstance(ours.A, csr_matrix) and abs(ours.A.get() - theirs.A).max() < 1e-12
        if theirs is not expected.levels[-1]:
            assert abs(ours.P.get() - theirs.P).max() < 1e-12 and abs(ours.R.get() - theirs.R).max() < 1e-12
    b = np.random.default_rng(1).random(1600)
    x = ml.solve(bring(b), rtol=1e-8)
    assert isinstance(x, ndarray)
    assert np.linalg.norm(b - matrix @ x.get()) <= 1.1e-8 * np.linalg.norm(b)
    ml.refresh(bring(2 * matrix))
    np.testing.assert_allclose(ml.solve(b, rtol=1e-10), x.get() / 2, atol=1e-5)


@pytest.mark.parametrize("nth", [0, 5, 14, 25])
def test_a_full_device_is_one_message_and_gives_all_back(bring, monkeypatch, nth):
    a, device = bring(random(40, 40, 0.2)), open_runtime(DEVICE).device
    repro.spgemm(a, a, DEVICE)
    held = fill_after(monkeypatch, device, nth)
    with pytest.raises(ReproError, match="the device is out of memory"):
        repro.spgemm(a, a, DEVICE)
    assert not held


def test_a_stream_of_the_caller_waits_for_ours_even_behind_an_error():
    streams, waits = _Streams.__new__(_Streams), []
    streams._own_stream, streams._current, streams._without_event = 7, nullcontext, {7}
    streams._wait = lambda later, earlier: waits.append((later, earlier))
    with pytest.raises(ValueError), streams.ordered({3}):
        raise ValueError
    assert waits == [(7, 3), (3, 7)]
