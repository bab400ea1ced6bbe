"""A matrix that grows on the CPU's device, as a user has it, against SciPy."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator, cg

import repro
from repro.errors import ReproError
from repro.operators import device_exchange
from support.grown_matrices import DEVICE, assert_same, batch, drawn, plus

pytestmark = pytest.mark.medium

TYPES = [np.float32, np.float64]


# what can be done


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_any_matrix_of_scipy_is_taken(format, dtype):
    matrix = drawn(dtype=dtype)
    A = repro.DynamicCSR.from_csr(matrix.asformat(format), device=DEVICE)
    assert (A.shape, A.dtype, A.nnz) == (matrix.shape, dtype, matrix.nnz)
    assert_same(A, matrix)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float16])
def test_other_real_numbers_become_double(dtype):
    matrix = sp.csr_array(drawn().toarray().astype(dtype)) if dtype != np.float16 else drawn()
    assert repro.DynamicCSR.from_csr(matrix, device=DEVICE).dtype == np.float64
    assert repro.DynamicCSR.from_csr(matrix, dtype=np.float32, device=DEVICE).dtype == np.float32


def test_what_was_inserted_since_the_last_product_counts():
    A = repro.DynamicCSR((3, 4), device=DEVICE)
    x = np.ones(4)
    np.testing.assert_array_equal(A @ x, [0, 0, 0])
    for n in range(1, 30):
        A.insert([0, 2], [1, 3], [1.0, 2.0])
        np.testing.assert_array_equal(A @ x, [n, 0, 2 * n])
    assert A.nnz == 58
    A.insert([0, 2], [1, 3], 5.0, "unique")
    np.testing.assert_array_equal(A @ x, [5, 0, 5])
    A.delete(0, 1)
    np.testing.assert_array_equal(A @ x, [0, 0, 5])


@pytest.mark.parametrize("dtype", TYPES)
def test_modes(dtype):
    A = repro.DynamicCSR.from_csr(sp.eye_array(5, 6, dtype=dtype), device=DEVICE)
    A.insert([0, 1, 1], [0, 0, 0], [10, 20, 30])
    assert A.nnz == 8
    assert (A.to_scipy()[0, 0], A.to_scipy()[1, 0]) == (11, 50)
    A.insert([2, 2, 3, 3], [2, 2, 5, 5], [7, 8, 1, 2], "unique")
    assert (A.to_scipy()[2, 2], A.to_scipy()[3, 5]) == (8, 2)
    A.insert([2, 2, 3, 4], [2, 2, 5, 0], [1, 1, 1, 4], mode="unique", existing="add")
    assert (A.to_scipy()[2, 2], A.to_scipy()[3, 5], A.to_scipy()[4, 0]) == (10, 3, 4)
    before = A.nnz
    A.update([2, 4, 4], [2, 0, 3], [1, 2, 3])
    A.update(4, 0, 5, existing="add")
    assert A.nnz == before
    assert (A.to_scipy()[2, 2], A.to_scipy()[4, 0], A.to_scipy()[4, 3]) == (1, 7, 0)


def test_numbers_lists_and_arrays_of_any_real_type():
    A = repro.DynamicCSR((5, 6), np.float32, device=DEVICE)
    A.insert(1, 2, 3)
    A.insert(np.int64(1), [2, 3], np.float64(4))
    A.insert([0, 4], np.array([5, 0], np.uint8), np.array([True, False]))
    A.insert([], [], [])
    A.insert([], 1, 2.0)
    A.delete([], [])
    expected = np.zeros((5, 6), np.float32)
    expected[1, 2:4], expected[0, 5] = [7, 4], 1
    np.testing.assert_array_equal(A.to_scipy().toarray(), expected)
    assert A.nnz == 5  # a zero is an entry


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (700, 3), (3, 700)])
def test_any_shape(shape, put):
    A = repro.DynamicCSR(shape, device=DEVICE)
    np.testing.assert_array_equal(A @ np.ones(shape[1]), np.zeros(shape[0]))
    np.testing.assert_array_equal(A.reader() @ np.ones(shape[1]), np.zeros(shape[0]))
    assert (A @ put(np.ones(shape[1]))).shape == (shape[0],)
    if min(shape):
        entries = batch(shape)
        A.insert(*entries)
        assert_same(A, plus(sp.csr_array(shape), *entries))
    A.defragment()
    A.tidy()
    assert A.nnz == 50 * (min(shape) > 0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [2048, 2049, 10_000, 32_768, 32_769])
def test_batches_of_any_size(dtype, count):
    matrix = drawn(dtype=dtype)
    A, entries = repro.DynamicCSR.from_csr(matrix, device=DEVICE), batch(matrix.shape, count)
    for turn in range(1, 3):
        A.insert(*entries)
        assert A.nnz == matrix.nnz + turn * count
    assert_same(A, plus(plus(matrix, *entries), *entries))


def test_a_matrix_is_brought_together_and_tidied():
    matrix, A = drawn(), repro.DynamicCSR.from_csr(drawn(), segments=2, slack=0, capacity=500, device=DEVICE)
    for seed in range(3):
        entries = batch(matrix.shape, seed=seed)
        matrix = plus(matrix, *entries)
        A.insert(*entries)
        (A.tidy, A.defragment, lambda: A.defragment(slack=3))[seed]()
        assert_same(A, matrix)
    assert A.segments == 2
    assert A.capacity >= A.nnz
    assert A.nbytes > 12 * A.capacity


def test_room_can_be_asked_for():
    A = repro.DynamicCSR((10, 10), width=3, capacity=100, segments=1, device=DEVICE)
    assert A.capacity == 100
    A.insert(np.repeat(np.arange(10), 3), np.tile(np.arange(3), 10), 1.0)
    assert (A.capacity, A.nnz) == (100, 30)


def test_scipy_takes_it(put):
    A = repro.DynamicCSR.from_csr(sp.diags_array([2.0, 3.0, 4.0, 5.0]), device=DEVICE)
    b = np.arange(4.0)
    x, failed = cg(A, b)
    assert not failed
    np.testing.assert_allclose(x, b / [2, 3, 4, 5])
    np.testing.assert_allclose((A + aslinearoperator(sp.eye_array(4))) @ b, b * [3, 4, 5, 6])
    np.testing.assert_allclose(A @ np.stack([b, 2 * b], axis=1), np.stack([b, 2 * b], axis=1) * [[2], [3], [4], [5]])
    np.testing.assert_allclose(A @ (b * 1j), 1j * b * [2, 3, 4, 5])
    assert "4x4" in repr(A)
    assert "4x4" in repr(A.reader())


# arrays on the device


@pytest.mark.slow
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("values", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("dtype", TYPES)
def test_batches_that_lie_on_the_device(put, dtype, values, indices):
    A = repro.DynamicCSR.from_csr(drawn(dtype=dtype), device=DEVICE)
    rows, columns, numbers = batch(A.shape)
    there = put(rows.astype(indices)), put(columns.astype(indices)), put(numbers.astype(values))
    A.insert(*there)
    expected = plus(drawn(), rows, columns, numbers)
    assert_same(A, expected)
    A.insert(there[0], columns, there[2], mode="unique", existing="add")
    A.insert(there[0], there[1], 3.0, mode="unique")
    expected = expected.tolil()
    expected[rows, columns] = 3
    assert_same(A, expected)
    A.delete(*there[:2])
    expected = expected.toarray()
    expected[rows, columns] = 0
    assert_same(A, expected)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_of_csr_become_a_matrix_where_they_lie(put, dtype, indices):
    matrix = drawn(dtype=dtype)
    parts = matrix.data, matrix.indices.astype(indices), matrix.indptr.astype(indices)
    A = repro.DynamicCSR.from_csr(tuple(map(put, parts)), matrix.shape, device=DEVICE)
    assert A.dtype == dtype
    assert_same(A, matrix)
    assert_same(repro.DynamicCSR.from_csr(parts, matrix.shape, device=DEVICE), matrix)
    entries = batch(A.shape)
    A.insert(*entries)
    assert_same(A, plus(matrix, *entries))


def test_vectors_that_lie_on_the_device(put):
    matrix = drawn()
    A = repro.DynamicCSR.from_csr(matrix, device=DEVICE)
    x = np.arange(30.0)
    out = put(np.empty(40))
    for multiplies in (A, A.reader()):
        y = multiplies @ put(x)
        assert y.shape == (40,)
        np.testing.assert_allclose(y, matrix @ x)
        assert multiplies.matvec(put(x), out=out) is out
        np.testing.assert_allclose(out.get(), matrix @ x)
        host = np.empty(40)
        assert multiplies.matvec(x, out=host) is host
        np.testing.assert_allclose(host, matrix @ x)


def test_a_large_batch_is_cut(monkeypatch, put):
    monkeypatch.setattr(device_exchange, "MAX_BATCH", 64)
    shape = (20, 30)
    rows, columns, values = batch(shape, 300)
    A, B = repro.DynamicCSR(shape, device=DEVICE), repro.DynamicCSR(shape, device=DEVICE)
    A.insert(rows, columns, values)
    B.insert(put(rows.astype(np.int32)), put(columns), put(values))
    for matrix in (A, B):
        assert matrix.nnz == 300
        assert_same(matrix, plus(sp.csr_array(shape), rows, columns, values))
    A.insert(rows, columns, values, "unique", "add")
    A.delete(rows[:200], columns[:200])
    gone = set(zip(rows[:200], columns[:200], strict=True))
    assert A.nnz == len([place for place in zip(rows, columns, strict=True) if place not in gone])
    outside = rows.astype(np.int32)
    outside[-1] = 20  # in the last part
    with pytest.raises(ReproError, match="nothing was changed"):
        B.insert(put(outside), columns, values)
    assert B.nnz == 300


# against a model


@st.composite
def changes(draw):
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    places = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1), st.integers(-9, 9))
    word = st.sampled_from(["add", "replace", "sum", "update", "delete", "defragment", "tidy"])
    return shape, draw(st.lists(st.tuples(word, st.lists(places, max_size=20)), max_size=8))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes(), st.sampled_from(TYPES), st.integers(1, 3), st.sampled_from([None, 0, 2]))
def test_changes_in_any_order_are_those_of_a_dictionary(drawn, dtype, segments, slack):
    shape, steps = drawn
    A = repro.DynamicCSR(shape, dtype, segments=segments, slack=slack, device=DEVICE)
    model = {}
    for word, entries in steps:
        rows, columns, values = ([entry[n] for entry in entries] for n in range(3))
        if word in ("defragment", "tidy"):
            getattr(A, word)()
            continue
        there = set(model)
        for row, column, value in entries:
            place = row, column
            if word == "delete":
                model.pop(place, None)
            elif word in ("add", "sum"):
                model[place] = model.get(place, 0) + value
            elif word == "replace" or place in there:
                model[place] = value
        if word == "delete":
            A.delete(rows, columns)
        elif word == "update":
            A.update(rows, columns, values)
        else:
            A.insert(rows, columns, values, *{"add": (), "replace": ("unique",), "sum": ("unique", "add")}[word])
    expected = sp.lil_array(shape)
    for place, value in model.items():
        expected[place] = value
    np.testing.assert_array_equal(A.to_scipy().toarray(), expected.toarray())
    x = np.arange(1, shape[1] + 1)
    np.testing.assert_array_equal(A @ x, expected @ x)
    np.testing.assert_array_equal(A.reader() @ x, expected @ x)
    assert A.to_scipy().nnz == len(model)


# readers


def test_readers_of_several_threads_see_whole_rows_while_it_grows():
    length = 20
    A = repro.DynamicCSR.from_csr(sp.csr_array(np.ones((50, length))), segments=2, device=DEVICE)
    x = np.ones(length)
    torn, stop = [], threading.Event()

    def read(reader):
        while not stop.is_set():
            sums = reader @ x
            torn.extend(sums[sums % length != 0])

    threads = [threading.Thread(target=read, args=(A.reader(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    places = np.repeat(np.arange(50), length), np.tile(np.arange(length), 50)
    for n in range(2, 12):
        A.insert(*places, 1.0)
        A.insert(*places, float(n), mode="unique")
        A.delete(*places)
        A.insert(*places, float(n))
        A.defragment()
    stop.set()
    for thread in threads:
        thread.join()
    assert not torn
    np.testing.assert_array_equal(A.reader() @ x, np.full(50, 11.0 * length))
