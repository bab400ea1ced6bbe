"""Expected products compared with SciPy's, and the flaws that the check of a product finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.runnable import Runnable
from repro.config.models import StudySettings
from repro.errors import IncorrectError, ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.sparse.spgemm.kernels import LIMITS
from repro.studies import get_study
from repro.studies.spgemm_amg import operands as amg_expected
from repro.studies.spgemm_amg.operands import compare_product, compare_rows, make_operands
from support.amg_problems import BLOCK, PROBLEMS, as_problem, of_blocks, only_multiplied
from support.matrices import random
from support.products_by_shape import five_point

#: In A A the entry (0, 0) cancels: 1·1 + 1·(−1).
CANCELLING = sp.csr_array([[1.0, 1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 3.0, 1.0]])


def matrices():
    for seed, (n, density) in enumerate([(30, 0.1), (60, 0.3), (5, 0.9), (200, 0.02)]):
        yield sp.csr_array(random(n, n, density, seed) - 0.3 * random(n, n, density, seed + 9) + sp.eye_array(n))
    yield CANCELLING


@pytest.mark.parametrize("a", [*matrices()], ids=str)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_what_a_product_must_be(a, precision):
    operands = only_multiplied(a, precision)
    expected = operands.expected("AA")
    held = operands.a.astype(np.float64)
    pattern = (abs(held) @ abs(held)).tocsr()
    pattern.sort_indices()
    by_hand = [sum(held.indptr[j + 1] - held.indptr[j] for j in held.indices[slice(*held.indptr[i : i + 2])])
               for i in range(a.shape[0])]  # fmt: skip
    np.testing.assert_array_equal(expected.products, by_hand)
    np.testing.assert_array_equal(expected.sizes, np.diff(pattern.indptr))
    np.testing.assert_array_equal(expected.exact_product.indices, pattern.indices)
    np.testing.assert_allclose(expected.exact_product.toarray(), (held @ held).toarray(), atol=1e-12)
    np.testing.assert_allclose(expected.y, held @ (held @ expected.x), atol=1e-10)
    assert (expected.bound > 0).all()
    assert expected is operands.expected("AA"), "it is computed once"


def test_what_cancels_stays_an_entry():
    expected = only_multiplied(CANCELLING).expected("AA")
    assert (CANCELLING @ CANCELLING).nnz == 6
    np.testing.assert_array_equal(expected.sizes, [2, 2, 3])
    np.testing.assert_array_equal(expected.exact_product.toarray(), [[0, 3, 0], [-3, 3, 0], [-3, 9, 1]])
    assert expected.exact_product.data[0] == 0


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_products_of_a_set_up(precision):
    operands = make_operands(PROBLEMS["five points"], precision, 1)
    assert operands.products == ("AA", "AP", "RAP")
    a, p = (matrix.toarray().astype(np.float64) for matrix in operands.factor("AP"))
    r, ap = (matrix.toarray().astype(np.float64) for matrix in operands.factor("RAP"))
    np.testing.assert_array_equal(a, five_point(20).toarray())
    np.testing.assert_array_equal(r, p.T)
    eps = np.finfo(operands.dtype).eps
    np.testing.assert_allclose(ap, a @ p, atol=20 * eps * abs(a).max())
    coarse = operands.levels[1].a.toarray()
    np.testing.assert_allclose(
        operands.expected("RAP").exact_product.toarray(), coarse, atol=100 * eps * abs(coarse).max()
    )
    for name in operands.products:
        for factor in operands.factor(name):
            assert factor.dtype == operands.dtype
            assert factor.has_sorted_indices
    amount = sum(int(operands.expected(name).products.sum()) for name in ("AP", "RAP"))
    assert operands.operations == 2 * amount
    assert operands.bytes_of(operands.a) == operands.a.nnz * (4 + operands.dtype.itemsize) + 4 * 401
    read, written = operands.min_bytes
    assert read == operands.bytes_of(operands.a)
    level = operands.levels[0]
    assert written == sum(map(operands.bytes_of, (level.p, level.r, operands.levels[1].a)))


def test_blocks_are_three_unknowns_of_a_node():
    problem, matrix = of_blocks(9)
    operands = make_operands(problem, "double", 1)
    assert operands.unknowns == 3
    np.testing.assert_array_equal(operands.a.toarray(), matrix.toarray())
    np.testing.assert_array_equal(operands.near_null[:6], np.vstack([np.eye(3)] * 2))
    # an aggregate of nodes has an unknown for each of theirs
    assert operands.levels[1].a.shape[0] % 3 == 0


def test_zeros_of_blocks_are_no_entries():
    problem = of_blocks(4)[0]
    values = problem.values.copy()
    values[:, 2] = values[:, 6] = 0
    blocks = Matrix("zeros", "block3", problem.n, problem.indptr, problem.indices, values)
    operands = make_operands(blocks, "double", 1)
    assert BLOCK[0, 2] and operands.a.nnz == 7 * problem.nnz
    assert operands.a.data.all()


def test_a_matrix_that_is_not_made_coarser_has_one_product():
    operands = make_operands(PROBLEMS["not made coarser"], "double", 1)
    assert operands.products == ("AA",)
    assert len(operands.levels) == 1
    assert operands.operations == 2 * operands.expected("AA").products.sum()
    assert operands.min_bytes == 2 * (operands.bytes_of(operands.a),)
    for name in ("AP", "RAP"):
        with pytest.raises(KeyError, match=name):
            operands.factor(name)


def test_seed_and_problem_are_in_the_checksum_and_there_is_a_solution():
    problem = PROBLEMS["five points"]
    first, again, other = (make_operands(problem, "double", seed) for seed in (1, 1, 2))
    assert first.checksum == again.checksum != other.checksum
    np.testing.assert_array_equal(first.b, again.b)
    assert not np.array_equal(first.b, other.b)
    assert first.columns == {}


@pytest.mark.parametrize(
    ("problem", "message", "where"),
    [
        (as_problem(np.ones((3, 4))), "the matrix is not square", "small"),
        (as_problem(sp.csr_array((3, 3))), "the matrix has no entries", "small"),
        (as_problem([[1.0, 2.0], [2.0, 0.0]]), "multigrid needs a diagonal without zeros", "row 1"),
        (as_problem(sp.diags_array([1e300] * 5)), "values are too large for single precision", "small"),
        (as_problem(sp.diags_array([1.0, 1e-60])), "values are too small for single precision", "small"),
    ],
)
def test_what_no_multigrid_is_made_for_is_one_message(problem, message, where):
    with pytest.raises(ReproError, match=message) as refused:
        make_operands(problem, "single", 1)
    assert where in str(refused.value.where)


def test_a_matrix_that_is_not_symmetric_is_only_squared():
    a = sp.diags_array([2.0, 1.0], offsets=[0, 1], shape=(900, 900))
    operands = make_operands(as_problem(a), "double", 1)
    assert not operands.symmetric
    assert operands.products == ("AA",)
    symmetric = make_operands(as_problem(sp.csr_array(a + a.T)), "double", 1)
    assert symmetric.symmetric
    assert symmetric.products == ("AA", "AP", "RAP")


@pytest.mark.parametrize(
    ("outline", "expected"),
    [
        (Outline("wave", "matrix", "complex"), "a matrix of real numbers or of blocks"),
        (Outline("spin", "matrix", "quaternion"), "a matrix of real numbers or of blocks"),
        (Outline("waves", "field", "real"), "a problem of kind matrix or updates"),
    ],
)
def test_problems_of_another_kind_are_refused_before_anything_is_built(outline, expected):
    study = get_study("spgemm_amg")
    study.check(StudySettings(), [Outline("good", "matrix", "real"), Outline("blocks", "matrix", "block3")])
    with pytest.raises(ReproError, match="the study does not support the problem") as refused:
        study.check(StudySettings(), [Outline("good", "matrix", "real"), outline])
    assert refused.value.where == f"studies.spgemm_amg.problems: {outline.name}"
    assert refused.value.expected == expected


@pytest.mark.wording
def test_parts_that_there_are_not_are_refused():
    with pytest.raises(ReproError, match="unknown part of a study"):
        get_study("spgemm_amg").check(StudySettings(parts=("products", "updates")), [])


@pytest.fixture
def product():
    """A matrix's own product, what it must be, and all of its rows."""
    operands = only_multiplied(random(40, 40, 0.2) + sp.eye_array(40))
    c = sp.csr_array(operands.a @ operands.a)
    c.sort_indices()
    return c, operands.expected("AA"), np.ones(40, bool)


def test_a_right_product_in_any_order_of_columns(product):
    c, expected, rows = product
    assert compare_product(c, expected, rows) <= 1
    begin, end = c.indptr[3:5]
    order = np.r_[:begin, np.arange(begin, end)[::-1], end : c.nnz]
    turned = sp.csr_array((c.data[order], c.indices[order], c.indptr), shape=c.shape)
    assert compare_product(turned, expected, rows) <= 1


@pytest.mark.wording
def test_an_entry_that_is_missing_or_too_many(product):
    c, expected, rows = product
    for change, offset in ((-1, slice(1, None)), (1, None)):
        keep = np.arange(c.nnz)[offset] if offset else np.r_[0, np.arange(c.nnz)]
        indptr = c.indptr + change * (np.arange(41) > 0)
        other = sp.csr_array((c.data[keep], c.indices[keep], indptr), shape=c.shape)
        with pytest.raises(IncorrectError, match=f"the first, row 0, has {expected.sizes[0] + change}, not"):
            compare_product(other, expected, rows)


def test_an_entry_in_another_column(product):
    c, expected, rows = product
    row = int(np.argmin(expected.sizes))
    begin, end = c.indptr[row : row + 2]
    free = int(np.setdiff1d(np.arange(40), c.indices[begin:end])[0])
    x = expected.x.copy()
    x[free] = x[c.indices[begin]]  # so that the product with x does not tell
    y = c @ x
    c.indices[begin] = free
    with pytest.raises(IncorrectError, match="in other columns"):
        compare_product(c, replace(expected, x=x, y=y), rows)


@pytest.mark.wording
@pytest.mark.parametrize("column", [-1, 40])
def test_a_column_out_of_range(product, column):
    c, expected, rows = product
    c.indices[7] = column
    with pytest.raises(IncorrectError, match="columns are out of range"):
        compare_product(c, expected, rows)


@pytest.mark.parametrize(("value", "worst"), [(np.nan, "some are NaN"), (np.inf, "is inf of"), (1.0, "e+")])
def test_a_wrong_value(product, value, worst):
    c, expected, rows = product
    c.data[7] += value * 1e-6
    with pytest.raises(IncorrectError, match="1 of 40 rows are wrong") as wrong:
        compare_product(c, expected, rows)
    assert worst in str(wrong.value)
    assert np.isnan(value) or wrong.value.error > 1


@pytest.mark.wording
def test_wrong_values_that_the_product_with_a_vector_does_not_tell(product):
    c, expected, rows = product
    first, second = c.indptr[5], c.indptr[5] + 1
    c.data[first] += 1e-6 / expected.x[c.indices[first]]
    c.data[second] -= 1e-6 / expected.x[c.indices[second]]
    with pytest.raises(IncorrectError, match=r"2 of .* values are wrong"):
        compare_product(c, expected, rows)


def test_rows_of_other_bins_may_be_anything(product):
    c, expected, rows = product
    rows[5] = False
    c.data[c.indptr[5] : c.indptr[6]] = np.nan
    assert compare_product(c, expected, rows) <= 1
    keep = np.r_[: c.indptr[5], c.indptr[6] : c.nnz]
    fewer = c.indptr - (np.arange(41) > 5) * expected.sizes[5]
    assert compare_product(sp.csr_array((c.data[keep], c.indices[keep], fewer), shape=c.shape), expected, rows) <= 1
    with pytest.raises(IncorrectError):
        compare_product(c, expected, ~rows)


def test_what_leaves_out_entries_that_cancel_is_seen_in_the_product_with_a_vector():
    expected = only_multiplied(CANCELLING).expected("AA")
    dropped = sp.csr_array(CANCELLING @ CANCELLING)
    rows = np.ones(3, bool)
    with pytest.raises(IncorrectError, match="1 rows have too few or too many"):
        compare_product(dropped, expected, rows)
    sizes, y = np.diff(dropped.indptr), dropped @ expected.x
    assert compare_rows(sizes, y, expected, rows, drops=True) <= 1
    with pytest.raises(IncorrectError, match="too few or too many"):
        compare_rows(np.full(3, 3), y, expected, rows, drops=True)
    with pytest.raises(IncorrectError, match="1 of 3 rows are wrong"):
        compare_rows(sizes, y + np.array([1, 0, 0]), expected, rows, drops=True)


def test_of_a_large_product_sizes_and_the_product_with_a_vector_are_held(monkeypatch):
    monkeypatch.setattr(amg_expected, "MAX_COMPARED_ENTRIES", 10)
    operands = only_multiplied(random(40, 40, 0.2) + sp.eye_array(40))
    expected = operands.expected("AA")
    assert expected.exact_product is None
    c, rows = sp.csr_array(operands.a @ operands.a), np.ones(40, bool)
    assert compare_rows(np.diff(c.indptr), c @ expected.x, expected, rows) <= 1
    c.data[3] += 1e-6
    with pytest.raises(IncorrectError, match="1 of 40 rows"):
        compare_rows(np.diff(c.indptr), c @ expected.x, expected, rows)


def test_rows_of_a_bin():
    operands = make_operands(PROBLEMS["rows of all sizes"], "double", 1)
    expected = operands.expected("AA")
    for mode, numbers in (("one", expected.products), ("numeric", expected.sizes)):
        parts = [expected.rows_of(mode, bin) for bin in range(len(LIMITS) + 1)]
        np.testing.assert_array_equal(np.sum(parts, axis=0), numbers > 0)
        for bin, part in enumerate(parts):
            assert (numbers[part] > (LIMITS[bin - 1] if bin else 0)).all()
            assert bin == len(LIMITS) or (numbers[part] <= LIMITS[bin]).all()
    assert expected.rows_of(None, None).all()


def test_what_multiplies_nothing_is_not_compared(workspace_of):
    operands = make_operands(PROBLEMS["one row"], "double", 1)
    assert operands.check(Runnable(), workspace_of(operands)) is None
