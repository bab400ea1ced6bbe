"""Products of NumPy arrays: allowed x and `out`; others are refused instead of silently converted."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

import repro
from repro.errors import ReproError

DEVICE = "opencl:0"
MATRIX = sp.csr_array(np.array([[0.5, 1, 0], [1, 2, 3], [0, 0.25, 1]]))
MADE = {
    "operator": lambda matrix: repro.operator(matrix, device=DEVICE),
    "transpose": lambda matrix: repro.operator(matrix, device=DEVICE).T,
    "DynamicCSR": lambda matrix: repro.DynamicCSR.from_csr(matrix, device=DEVICE),
    "reader": lambda matrix: repro.DynamicCSR.from_csr(matrix, device=DEVICE).reader(),
}


@pytest.fixture(params=MADE)
def make(request):
    """A matrix as an operator."""
    return MADE[request.param]


def multiplied(make):
    """Return what is multiplied with."""
    return MATRIX.T if make is MADE["transpose"] else MATRIX


@pytest.mark.parametrize("dtype", [int, bool, np.uint8, "U1", object])
def test_an_out_of_another_kind_is_refused_and_stays_as_it_was(make, dtype):
    out = np.ones(3, dtype)
    with pytest.raises(ReproError, match="out cannot hold the product"):
        make(MATRIX).matvec(np.ones(3), out=out)
    np.testing.assert_array_equal(out, np.ones(3, dtype))


@pytest.mark.wording
def test_a_real_out_is_refused_for_a_complex_product(make):
    with pytest.raises(ReproError, match="out cannot hold the product"):
        make(MATRIX).matvec(np.ones(3) * 1j, out=np.empty(3))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, complex])
def test_an_out_of_the_same_kind_or_a_wider_one_is_written_to(make, dtype):
    A, out = make(MATRIX), np.empty(3, dtype)
    assert A.matvec(np.ones(3), out=out) is out
    np.testing.assert_array_equal(out, A @ np.ones(3))


def test_a_product_that_a_narrower_out_cannot_hold_is_refused(make):
    out = np.zeros(3, np.float32)
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        make(MATRIX * 1e300).matvec(np.ones(3), out=out)
    assert not out.any()


@pytest.mark.parametrize("out", [[0.0, 0.0, 0.0], (0.0, 0.0, 0.0), np.broadcast_to(0.0, 3), "xyz"])
def test_an_out_that_is_no_array_to_write_to_is_refused(make, out):
    with pytest.raises(ReproError, match="out"):
        make(MATRIX).matvec(np.ones(3), out=out)


def test_an_out_of_another_shape_is_refused(make):
    with pytest.raises(ReproError, match="the wrong shape"):
        make(MATRIX).matvec(np.ones(3), out=np.empty(4))


def test_out_may_be_x_itself(make):
    A, x = make(MATRIX), np.array([1.0, 2.0, 3.0])
    expected = A @ x
    np.testing.assert_array_equal(A.matvec(x, out=x), expected)


@pytest.mark.wording
@pytest.mark.parametrize("x", [[1e300, 0, 0], [0, 1e-300, 1e-290], [0, 0, 2**25 + 1], [1e300j, 0, 0]])
def test_a_number_of_x_that_single_precision_cannot_hold_is_refused(make, x):
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        make(MATRIX.astype(np.float32)) @ np.array(x)


@pytest.mark.wording
@pytest.mark.parametrize("x", [[2**53 + 1, 0, 0], [0, -(2**60) - 1, 0]])
def test_a_whole_number_of_x_that_double_precision_cannot_hold_is_refused(make, x):
    with pytest.raises(ReproError, match="cannot be represented in float64"):
        make(MATRIX) @ np.array(x)


@pytest.mark.parametrize("dtype", [int, bool, np.float32, np.float16, np.longdouble, complex])
def test_x_of_any_type_of_numbers_is_multiplied(make, dtype):
    x = np.array([1, 0, 1], dtype)
    np.testing.assert_array_equal(make(MATRIX) @ x, multiplied(make) @ x)


def test_what_is_nothing_beside_the_largest_number_of_x_is_multiplied(make):
    x = np.array([1, 1e-60, 1e-42])
    product = make(MATRIX.astype(np.float32)) @ x
    np.testing.assert_allclose(product, multiplied(make) @ np.array([1, 0, 0]), rtol=0, atol=1e-40)


def test_numbers_behind_a_mask_are_not_multiplied_with(make):
    x = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    for ask in (lambda: make(MATRIX) @ x, lambda: make(MATRIX).matvec(x), lambda: make(MATRIX) @ np.ma.stack([x, x]).T):
        with pytest.raises(ReproError, match="mask"):
            ask()
    np.testing.assert_array_equal(make(MATRIX) @ x.filled(0), multiplied(make) @ [1, 0, 3])


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("dtype", [float, complex])
def test_several_columns_or_none(make, columns, dtype):
    X = np.ones((3, columns), dtype)
    product = make(MATRIX) @ X
    assert product.shape == (3, columns)
    assert product.dtype == dtype
    np.testing.assert_array_equal(product, multiplied(make) @ X)


def test_a_matrix_without_rows_or_columns_is_multiplied():
    for shape in ((0, 3), (3, 0), (0, 0)):
        A = repro.DynamicCSR(shape, device=DEVICE)
        np.testing.assert_array_equal(A @ np.ones(shape[1]), np.zeros(shape[0]))
        assert (A @ np.ones((shape[1], 2))).shape == (shape[0], 2)


@pytest.mark.wording
def test_a_matrix_that_grows_says_that_it_has_no_transpose():
    A = MADE["DynamicCSR"](MATRIX)
    for ask in (
        lambda: A.T @ np.ones(3),
        lambda: A.H @ np.ones(3),
        lambda: A.rmatvec(np.ones(3)),
        lambda: A.rmatmat(np.ones((3, 2))),
        lambda: A.reader().rmatvec(np.ones(3)),
        lambda: lsqr(A, np.ones(3)),
        lambda: np.ones(3) @ A,
    ):
        with pytest.raises(ReproError, match=r"no transpose on the device(.|\n)*to_scipy\(\)\.T"):
            ask()


@pytest.mark.wording
def test_factors_of_vectors_that_do_not_fit_are_refused():
    space = repro.vectors(3, precision="single", device=DEVICE)
    x = space.zeros()
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        space.axpby(1e300, x, 0.0, x)
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        space.put(np.full(3, 1e300))


@pytest.mark.parametrize("n", [-1, 2.5, 2**31, "3", None, True])
def test_vectors_of_no_whole_number_of_entries_are_refused(n):
    with pytest.raises(ReproError, match="n"):
        repro.vectors(n, device=DEVICE)
