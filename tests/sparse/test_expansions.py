import numpy as np
import pytest

from repro.entries import entries
from repro.sparse import expansions
from repro.sparse.expansions import COMPLEX2, representations, to_bsr, to_coo, to_csr, to_sell
from repro.sparse.operands import make_operands

EVERY = [(entry, representation) for entry in sorted(entries()) for representation in representations(entry)]
SLICE = 32


@pytest.fixture(params=EVERY, ids=lambda pair: f"{pair[0]}-{pair[1].name}")
def case(request, small_problem):
    """An operand with its expansion, x as the library gets it, and what the product must be."""
    entry, representation = request.param
    operands = make_operands(small_problem(entry), "double", 1)
    bsr = to_bsr(operands.problem, representation, operands.dtype)
    x = representation.arrange(operands.x).view(bsr.values.dtype)
    y = representation.arrange(operands.reference).view(bsr.values.dtype)
    return bsr, x, y


def test_blocks_times_the_arranged_vector_are_the_product(case):
    bsr, x, y = case
    size = bsr.values.shape[1]
    found = np.zeros_like(y).reshape(-1, size)
    for row in range(len(found)):
        for slot in range(bsr.offsets[row], bsr.offsets[row + 1]):
            found[row] += bsr.values[slot] @ x.reshape(-1, size)[bsr.columns[slot]]
    np.testing.assert_allclose(found.ravel(), y, rtol=1e-12, atol=1e-12)


def test_csr_is_the_same_matrix_with_sorted_columns(case):
    bsr, x, y = case
    csr = to_csr(bsr)
    found = [
        csr.values[first:last] @ x[csr.columns[first:last]]
        for first, last in zip(csr.offsets[:-1], csr.offsets[1:], strict=True)
    ]
    np.testing.assert_allclose(found, y, rtol=1e-12, atol=1e-12)
    inside = np.ones(len(csr.columns), bool)
    inside[csr.offsets[:-1][np.diff(csr.offsets) > 0]] = False
    assert np.all(np.diff(csr.columns, prepend=0)[inside] > 0)
    assert {array.dtype for array in csr[:2]} == {np.dtype(np.int32)}


def test_coo_is_the_same_matrix(case):
    bsr, x, y = case
    coo = to_coo(to_csr(bsr))
    found = np.zeros_like(y)
    np.add.at(found, coo.rows, coo.values * x[coo.columns])
    np.testing.assert_allclose(found, y, rtol=1e-12, atol=1e-12)
    assert coo.rows.dtype == np.int32


def test_sell_read_slice_by_slice_and_column_by_column_is_the_same_matrix(case):
    bsr, x, y = case
    sell = to_sell(to_csr(bsr), SLICE)
    found = np.zeros(len(sell.offsets) * SLICE - SLICE, y.dtype)
    for number, (first, last) in enumerate(zip(sell.offsets[:-1], sell.offsets[1:], strict=True)):
        columns = sell.columns[first:last].reshape(-1, SLICE)
        values = sell.values[first:last].reshape(-1, SLICE)
        found[number * SLICE : (number + 1) * SLICE] = np.where(columns >= 0, values * x[columns], 0).sum(axis=0)
    np.testing.assert_allclose(found[: len(y)], y, rtol=1e-12, atol=1e-12)
    assert not sell.values[sell.columns == -1].any()


def test_the_complex_blocks_multiply_as_quaternions_do():
    random = np.random.default_rng(3)
    p, q = random.normal(size=(2, 4))
    # Hamilton's product, member by member
    product = [
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    ]
    block = COMPLEX2.blocks(p[None])[0]
    found = block @ COMPLEX2.arrange(q[None]).view(np.complex128)
    np.testing.assert_allclose(found.view(float), COMPLEX2.arrange(np.array([product])))


def test_zeros_within_a_block_stay_stored(small_problem):
    problem = small_problem("block3")
    problem.values[:, 1:] = 0
    csr = to_csr(to_bsr(problem, representations("block3")[0], np.dtype(np.float32)))
    assert len(csr.values) == 9 * problem.nnz
    assert csr.values.dtype == np.float32


@pytest.mark.parametrize(("precision", "dtype"), [("single", np.complex64), ("double", np.complex128)])
def test_complex_numbers_keep_the_working_precision(small_problem, precision, dtype):
    operands = make_operands(small_problem("quaternion"), precision, 1)
    bsr = to_bsr(operands.problem, COMPLEX2, operands.dtype)
    assert dtype == COMPLEX2.dtype(operands.dtype)
    assert bsr.values.dtype == dtype
    assert bsr.values.flags.c_contiguous
    assert COMPLEX2.arrange(operands.x).dtype == operands.dtype


def test_what_32_bit_indices_cannot_count_is_refused(small_problem, monkeypatch):
    bsr = to_bsr(small_problem("real"), representations("real")[0], np.dtype(np.float32))
    csr = to_csr(bsr)
    monkeypatch.setattr(expansions, "INDEX_LIMIT", len(csr.values))
    assert to_csr(bsr)
    with pytest.raises(OverflowError):
        to_sell(csr, SLICE)
    monkeypatch.setattr(expansions, "INDEX_LIMIT", len(csr.values) - 1)
    with pytest.raises(OverflowError):
        to_csr(bsr)
