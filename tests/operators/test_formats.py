"""Matrices of SciPy's with a wrong number in them are one message: none ends the process, none becomes another one."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.scipy_matrices import (
    MAX_DIMENSION,
    SLICE_LENGTH,
    are_equal,
    as_problem,
    as_rows,
    checked_copy,
)

DEVICE = "opencl:0"
ARRAYS = [sp.csr_array, sp.csc_array, sp.bsr_array, sp.coo_array, sp.dia_array, sp.lil_array, sp.dok_array]
MATRICES = [sp.csr_matrix, sp.csc_matrix, sp.bsr_matrix, sp.coo_matrix, sp.dia_matrix, sp.lil_matrix, sp.dok_matrix]


def drawn(shape=(6, 6), dtype=np.float64):
    return sp.csr_array(sp.random_array(shape, density=0.4, rng=np.random.default_rng(3)) * 8 + 0, dtype=dtype)


def blocks():
    return sp.bsr_array((np.arange(1.0, 37).reshape(4, 3, 3), np.arange(4), np.arange(5)))


def with_arrays(matrix, **arrays):
    """Return a matrix with other arrays, which SciPy does not look at."""
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def ints(*numbers, dtype=np.int32):
    return np.array(numbers, dtype)


def compressed(kind, **arrays):
    """Return 1 . 2 / . 3 . / 4 . . with other arrays."""
    columns = kind((np.array([1.0, 2, 3, 4]), ints(0, 2, 1, 0), ints(0, 2, 3, 4)), shape=(3, 3))
    return with_arrays(columns, **arrays)


def listed(rows, data):
    made = sp.lil_array((3, 3))
    for name, lists in (("rows", rows), ("data", data)):
        setattr(made, name, np.empty(len(lists), object))
        getattr(made, name)[:] = lists
    return made


def keyed(**entries):
    made = sp.dok_array((3, 3))
    made._dict.update(entries.get("keys", {}))
    return made


BIG = 1 << 40
DAMAGES_OF_COMPRESSED = {
    "an index too large": {"indices": ints(0, 3, 1, 0)},
    "an index of many": {"indices": ints(0, 10**8, 1, 0)},
    "a negative index": {"indices": ints(0, -1, 1, 0)},
    "an index past 32 bits": {"indices": ints(0, BIG, 1, 0, dtype=np.int64)},
    "the least index": {"indices": ints(0, -(2**63), 1, 0, dtype=np.int64)},
    "an index past 63 bits": {"indices": ints(0, 2**64 - 1, 1, 0, dtype=np.uint64)},
    "real indices": {"indices": np.array([0, 2, 1, 0.0])},
    "NaN as an index": {"indices": np.array([0, np.nan, 1, 0.0])},
    "words as indices": {"indices": np.array(["0", "2", "1", "0"])},
    "flags as indices": {"indices": np.array([False, True, True, False])},
    "objects as indices": {"indices": np.array([0, 2, 1, 0], object)},
    "no indices": {"indices": None},
    "a list of indices": {"indices": [0, 2, 1, 0]},
    "indices in two axes": {"indices": ints(0, 2, 1, 0).reshape(2, 2)},
    "fewer indices": {"indices": ints(0, 2, 1)},
    "more indices": {"indices": ints(0, 2, 1, 0, 0)},
    "begins with 1": {"indptr": ints(1, 2, 3, 4)},
    "begins below 0": {"indptr": ints(-1, 2, 3, 4)},
    "descends": {"indptr": ints(0, 3, 2, 4)},
    "a peak": {"indptr": ints(0, 10**6, 3, 4)},
    "a hole": {"indptr": ints(0, -(10**6), 3, 4)},
    "ends later": {"indptr": ints(0, 2, 3, 5)},
    "ends below 0": {"indptr": ints(0, 2, 3, -1)},
    "past 32 bits": {"indptr": ints(0, 2, 3, BIG, dtype=np.int64)},
    "a peak past 32 bits": {"indptr": ints(0, BIG, 3, 4, dtype=np.int64)},
    "a peak past 63 bits": {"indptr": ints(0, 2**64 - 1, 3, 4, dtype=np.uint64)},
    "too short": {"indptr": ints(0, 2, 4)},
    "too long": {"indptr": ints(0, 2, 3, 4, 4)},
    "empty": {"indptr": ints()},
    "real offsets": {"indptr": np.array([0, 2, 3, 4.0])},
    "invalid CSR offsets": {"indptr": None},
    "no data": {"data": None},
    "a list as data": {"data": [1.0, 2, 3, 4]},
    "fewer data": {"data": np.ones(3)},
    "more data": {"data": np.ones(5)},
    "masked data": {"data": np.ma.masked_array([1.0, 2, 3, 4], [0, 1, 0, 0])},
    "masked indices": {"indices": np.ma.masked_array(ints(0, 2, 1, 0), [0, 1, 0, 0])},
    "data in two axes": {"data": np.ones((4, 1))},
    "data in no axis": {"data": np.array(1.0)},
}
DAMAGES = {
    f"{kind.__name__}: {name}": lambda kind=kind, arrays=arrays: compressed(kind, **arrays)
    for kind in (sp.csr_array, sp.csc_array, sp.csr_matrix)
    for name, arrays in DAMAGES_OF_COMPRESSED.items()
} | {
    "bsr: an index": lambda: with_arrays(blocks(), indices=ints(0, 1, 4, 3)),
    "bsr: a negative index": lambda: with_arrays(blocks(), indices=ints(0, 1, -2, 3)),
    "bsr: a peak": lambda: with_arrays(blocks(), indptr=ints(0, 10**6, 2, 3, 4)),
    "bsr: descends": lambda: with_arrays(blocks(), indptr=ints(0, 3, 2, 3, 4)),
    "bsr: fewer blocks": lambda: with_arrays(blocks(), data=np.ones((3, 3, 3))),
    "bsr: larger blocks": lambda: with_arrays(blocks(), data=np.ones((4, 5, 5))),
    "bsr: smaller blocks": lambda: with_arrays(blocks(), data=np.ones((4, 2, 2))),
    "bsr: blocks of nothing": lambda: with_arrays(blocks(), data=np.ones((4, 0, 3))),
    "bsr: flat": lambda: with_arrays(blocks(), data=np.ones(36)),
    "coo: a row": lambda: coo(ints(0, 10**8, 2), ints(0, 1, 2)),
    "coo: a column": lambda: coo(ints(0, 1, 2), ints(0, 3, 2)),
    "coo: a negative row": lambda: coo(ints(0, -1, 2), ints(0, 1, 2)),
    "coo: a negative column": lambda: coo(ints(0, 1, 2), ints(0, 1, -3)),
    "coo: past 32 bits": lambda: coo(ints(0, 1, 2), ints(0, 1, BIG, dtype=np.int64)),
    "coo: real rows": lambda: coo(np.array([0, 1.0, 2]), ints(0, 1, 2)),
    "coo: fewer rows": lambda: coo(ints(0, 1), ints(0, 1, 2)),
    "coo: more data": lambda: with_arrays(coo(ints(0, 1, 2), ints(0, 1, 2)), data=np.ones(4)),
    "coo: one axis": lambda: with_arrays(coo(ints(0, 1, 2), ints(0, 1, 2)), coords=(ints(0, 1, 2),)),
    "coo: none": lambda: with_arrays(coo(ints(0, 1, 2), ints(0, 1, 2)), coords=None),
    "dia: more offsets": lambda: with_arrays(sp.dia_array(np.eye(3)), offsets=ints(0, 1)),
    "dia: twice": lambda: with_arrays(sp.dia_array(np.eye(3)), offsets=ints(1, 1), data=np.ones((2, 3))),
    "dia: real offsets": lambda: with_arrays(sp.dia_array(np.eye(3)), offsets=np.array([0.5])),
    "dia: flat": lambda: with_arrays(sp.dia_array(np.eye(3)), data=np.ones(3)),
    "lil: a column": lambda: listed([[0], [3], [2]], [[1.0], [1.0], [1.0]]),
    "lil: a negative column": lambda: listed([[0], [-1], [2]], [[1.0], [1.0], [1.0]]),
    "lil: a real column": lambda: listed([[0], [1.5], [2]], [[1.0], [1.0], [1.0]]),
    "lil: past 64 bits": lambda: listed([[0], [1 << 80], [2]], [[1.0], [1.0], [1.0]]),
    "lil: more data": lambda: listed([[0], [1], [2]], [[1.0], [1.0, 2.0], [1.0]]),
    "lil: fewer rows": lambda: listed([[0], [1]], [[1.0], [1.0]]),
    "lil: no lists": lambda: listed([[0], None, [2]], [[1.0], [1.0], [1.0]]),
    "lil: a nest": lambda: listed([[[0]], [[1]], [[2]]], [[1.0], [1.0], [1.0]]),
    "dok: a key": lambda: keyed(keys={(0, 3): 1.0}),
    "dok: a negative key": lambda: keyed(keys={(-1, 2): 1.0}),
    "dok: one number": lambda: keyed(keys={5: 1.0}),
    "dok: words": lambda: keyed(keys={(0, "a"): 1.0}),
}


def coo(rows, columns):
    made = sp.coo_array((np.ones(3), (ints(0, 1, 2), ints(0, 1, 2))), shape=(3, 3))
    return with_arrays(made, coords=(rows, columns))


@pytest.mark.parametrize("name", DAMAGES)
def test_a_wrong_number_is_named_before_anything_is_converted(name):
    matrix = DAMAGES[name]()
    for call in (lambda: as_rows(matrix, subject="a"), lambda: as_problem(matrix, None, None)):
        with pytest.raises(ReproError, match="damaged") as refused:
            call()
        assert refused.value.where and refused.value.expected and refused.value.actual is not None


def test_all_who_take_a_matrix_look_at_it_first():
    wrong = compressed(sp.csc_array, indices=ints(0, 10**8, 1, 0))
    good = sp.csr_array(np.eye(3))
    for call in (
        lambda: repro.operator(wrong, device=DEVICE),
        lambda: repro.spgemm(wrong, good, DEVICE),
        lambda: repro.spgemm(good, wrong, DEVICE),
        lambda: repro.amg(wrong, device=DEVICE),
        lambda: repro.amg(good, refreshable=True, device=DEVICE).refresh(wrong),
        lambda: repro.DynamicCSR.from_csr(wrong, device=DEVICE),
        lambda: repro.DynamicCSR.from_csr((wrong.data, wrong.indices, wrong.indptr), (3, 3), device=DEVICE),
    ):
        with pytest.raises(ReproError, match=r"damaged[\s\S]*indices\[1\][\s\S]*0 to 2[\s\S]*100000000"):
            call()


@pytest.mark.parametrize("kind", ARRAYS + MATRICES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_, np.complex128])
def test_a_sound_matrix_is_what_scipy_makes_of_it(kind, dtype):
    for shape in ((6, 6), (4, 7), (0, 3), (3, 0), (0, 0)):
        matrix = kind(drawn(shape, dtype))
        made = checked_copy(matrix, "a")
        assert made.shape == shape and made.dtype == dtype
        np.testing.assert_array_equal(made.toarray(), matrix.toarray())


def test_diagonals_are_taken_as_far_as_they_are_in_the_matrix():
    data = np.arange(1.0, 22).reshape(7, 3)
    offsets = ints(0, -1, 1, 5, -5, 2**31 - 1, -(2**31))
    for shape in ((3, 3), (3, 5), (5, 3), (2, 2)):
        made = checked_copy(with_arrays(sp.dia_array(shape), data=data, offsets=offsets), "a")
        wanted = sp.dia_array((data[:5], offsets[:5]), shape=shape)
        np.testing.assert_array_equal(made.toarray(), wanted.toarray())


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": ints(0, 2, 1, 0, dtype=">i4"), "data": np.array([1, 2, 3, 4.0], ">f8")},
        {"indices": ints(0, 2, 1, 0, dtype=np.uint64), "indptr": ints(0, 2, 3, 4, dtype=np.uint8)},
        {"indices": ints(0, 9, 2, 9, 1, 9, 0, 9)[::2], "data": np.arange(8.0, 0, -1)[::-2]},
        {"indices": ints(0, 2, 1, 0, 99), "data": np.array([1, 2, 3, 4, np.nan])},  # what is past the end is none
        {"data": np.array([1, 2, 3, 4], np.float16)},
        {"data": np.array([1, 2, 3, 4], np.longdouble)},
        {"data": np.ma.masked_array([1, 2, 3, 4.0])},
    ],
)
def test_arrays_of_other_kinds_are_read_as_numbers(changed):
    matrix = compressed(sp.csr_array, **changed)
    rows, _ = as_rows(matrix)
    wanted = [[matrix.data[0], 0, matrix.data[1]], [0, matrix.data[2], 0], [matrix.data[3], 0, 0]]
    np.testing.assert_array_equal(rows.toarray(), wanted)
    problem, _ = as_problem(matrix, None, None)
    np.testing.assert_array_equal(problem.values.ravel(), rows.data)


def test_read_only_and_mapped_arrays_stay_as_they_are(tmp_path):
    matrix = compressed(sp.csr_array, indices=ints(2, 0, 1, 0))  # not in order
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
        setattr(matrix, name, np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    before = matrix.indices.copy()
    problem, _ = as_problem(matrix, None, None)
    assert problem.indices.tolist() == [0, 2, 1, 0] and problem.values.ravel().tolist() == [2, 1, 3, 4]
    assert (repro.spgemm(matrix, matrix, DEVICE).toarray() == matrix.toarray() @ matrix.toarray()).all()
    np.testing.assert_array_equal(matrix.indices, before)


def test_what_a_problem_is_made_of_does_not_follow_the_users_matrix():
    matrix = compressed(sp.csr_array)
    problem, _ = as_problem(matrix, None, None)
    matrix.data[:], matrix.indices[:] = 9, 0
    assert problem.values.ravel().tolist() == [1, 2, 3, 4] and problem.indices.tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.bsr_array])
def test_what_a_matrix_says_of_its_order_is_not_believed(kind):
    data = np.array([1.0, 2, 4]).reshape((3, 1, 1) if kind is sp.bsr_array else 3)
    twice = kind((data, ints(1, 0, 0), ints(0, 3, 3)), shape=(2, 2))
    dense = twice.toarray()
    twice.has_sorted_indices = twice.has_canonical_format = True
    assert (repro.spgemm(twice, twice, DEVICE).toarray() == dense @ dense).all()
    assert (as_problem(twice, None, None)[0].values != 0).all()
    x = np.array([1.0, 10])
    np.testing.assert_array_equal(repro.operator(twice, device=DEVICE) @ x, dense @ x)
    np.testing.assert_array_equal(repro.DynamicCSR.from_csr(twice, device=DEVICE) @ x, dense @ x)
    lying = sp.coo_array((np.array([1.0, 2]), (ints(0, 0), ints(1, 1))), shape=(2, 2))
    lying.has_canonical_format = True
    assert as_problem(lying, None, None)[0].values.tolist() == [[3.0]]


def test_multigrid_does_not_believe_it_either():
    # 2 on the diagonal in two parts, out of order
    n = 40
    data, indices = np.tile([1.0, -1.0, 1.0], n), np.stack([np.arange(n), (np.arange(n) + 1) % n, np.arange(n)], 1)
    wrong = sp.csr_array((data, indices.ravel().astype(np.int32), np.arange(0, 3 * n + 1, 3)), shape=(n, n))
    wrong.has_sorted_indices = wrong.has_canonical_format = True
    a = repro.amg(wrong, device=DEVICE).levels[0].A
    assert a.nnz == 2 * n and abs(a - sp.csr_array(wrong.toarray())).max() == 0


# sizes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.wording
@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_array, sp.dok_array])
def test_columns_past_32_bits_are_refused(kind):
    wide = sp.csr_array((np.array([1.0, 2]), ([0, 1], [5, 2**32 + 5])), shape=(3, 2**33))
    wide = kind(wide) if kind is not sp.dok_array else wide.todok()
    for call in (
        lambda: repro.spgemm(sp.csr_array(np.eye(3)), wide, DEVICE),
        lambda: repro.spgemm(wide, sp.csr_array(np.eye(3)), DEVICE),
        lambda: repro.DynamicCSR.from_csr(wide, device=DEVICE),
        lambda: repro.amg(wide, device=DEVICE),
        lambda: repro.operator(wide, device=DEVICE),
    ):
        with pytest.raises(ReproError, match=r"too many columns[\s\S]*2,147,483,647"):
            call()


def test_rows_past_32_bits_are_refused_before_there_is_memory_for_them():
    tall = sp.coo_array(([1.0], ([2**33], [0])), shape=(2**34, 3))
    for matrix in (tall, tall.tocsc(), tall.T.tocsr().T):
        with pytest.raises(ReproError, match="too many rows"):
            repro.spgemm(matrix, sp.csr_array(np.eye(3)), DEVICE)
    some = sp.coo_array(([1.0], ([5], [0])), shape=(2**30, 3))
    with pytest.raises(ReproError, match=r"many rows[\s\S]*268,435,456"):
        repro.DynamicCSR.from_csr(some, device=DEVICE)  # of four segments
    square = sp.coo_array(([1.0], ([5], [0])), shape=(2**33, 2**33))
    with pytest.raises(ReproError, match="too many rows"):
        repro.operator(square, device=DEVICE)


def test_the_last_column_of_all_can_be_multiplied():
    b = sp.csr_array((np.array([1.0, 2]), ([0, 1], [5, MAX_DIMENSION - 1])), shape=(3, MAX_DIMENSION))
    c = repro.spgemm(sp.csr_array(np.eye(3)), b, DEVICE)
    assert c.shape == (3, MAX_DIMENSION) and sorted(c.indices.tolist()) == [5, MAX_DIMENSION - 1]


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_products_without_rows_or_columns(kind, shape):
    m, k, n = shape
    c = repro.spgemm(kind((m, k)), kind((k, n)), DEVICE)
    assert c.shape == (m, n) and c.nnz == 0
    with pytest.raises(ReproError, match="cannot be multiplied"):
        repro.spgemm(kind((m, k)), kind((k + 1, n)), DEVICE)


def test_matrices_without_rows_or_columns():
    for shape in ((0, 0), (0, 3), (3, 0)):
        A = repro.DynamicCSR.from_csr(sp.coo_array(shape), device=DEVICE)
        A.insert([], [], [])
        assert A.nnz == 0 and A.to_scipy().shape == shape
        with pytest.raises(ReproError, match="outside the matrix"):
            A.insert(0, 0, 1.0)
    assert repro.amg(sp.csr_array((0, 0)), device=DEVICE).solve(np.zeros(0)).shape == (0,)
    for size in (0, 3):
        with pytest.raises(ReproError, match="no entries"):
            repro.operator(sp.csr_array((size, size)), device=DEVICE)


LENGTHS = [0, 1, SLICE_LENGTH, SLICE_LENGTH + 1, 20 * SLICE_LENGTH + 7]


@pytest.mark.parametrize("cores", [1, 3, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_long_vectors_are_compared_to_their_last_element(length, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    one = np.arange(length, dtype=np.int32)
    assert are_equal(one, one.astype(np.int64))
    assert not are_equal(one, np.append(one, 0))
    for place in {0, length // 2, length - 1} if length else ():
        other = one.copy()
        other[place] += 1
        assert not are_equal(one, other)
