"""The kernel's coefficients and pieces, compared with SciPy's B-splines and against what defines them."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import BSpline

from repro.errors import ReproError
from repro.filtering.spline_kernel import MAX_DEGREE, kernel

degrees = pytest.mark.parametrize("degree", range(MAX_DEGREE + 1))
KNOWN = {
    0: ["1"],
    1: ["-1/12", "7/6", "-1/12"],
    2: ["37/1920", "-97/480", "437/320", "-97/480", "37/1920"],
    3: ["-41/7560", "311/5040", "-919/2520", "12223/7560", "-919/2520", "311/5040", "-41/7560"],
}


@pytest.mark.parametrize("degree", KNOWN)
def test_the_coefficients_are_those_known(degree):
    assert kernel(degree).coefficients == tuple(map(Fraction, KNOWN[degree]))


@degrees
def test_coefficients_are_symmetric_and_add_up_to_one(degree):
    coefficients = kernel(degree).coefficients
    assert len(coefficients) == 2 * degree + 1
    assert coefficients == coefficients[::-1]
    assert sum(coefficients) == 1


@degrees
def test_pieces_are_scipys_splines(degree):
    symmetric = kernel(degree)
    assert symmetric.pieces.shape == (symmetric.width, degree + 1) == (3 * degree + 1, degree + 1)
    xi = np.linspace(-2, symmetric.width + 2, 1237)
    sums = np.zeros_like(xi)
    for first, coefficient in enumerate(symmetric.coefficients):
        spline = BSpline.basis_element(np.arange(degree + 2.0) + first, extrapolate=False)
        sums += float(coefficient) * np.nan_to_num(spline(xi))
    np.testing.assert_allclose(symmetric.evaluate(xi), sums, atol=1e-12)


@degrees
def test_polynomials_of_degree_2k_plus_1_are_reproduced_and_no_higher(degree):
    symmetric = kernel(degree)
    t, weights = np.polynomial.legendre.leggauss(2 * degree + 4)
    t, weights = (t + 1) / 2, weights / 2
    xi = np.arange(symmetric.width)[:, None] + t
    y = (xi - symmetric.width / 2) * 4 / symmetric.width
    moments = [(symmetric.evaluate(xi) * y**m * weights).sum() for m in range(2 * degree + 3)]
    assert moments[0] == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(moments[1:-1], 0, atol=1e-14)
    assert abs(moments[-1]) > 1e-4


@degrees
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_are_those_of_the_splines(degree, order):
    changed = kernel(degree).derivative(order)
    assert changed.pieces.shape == kernel(degree).pieces.shape
    xi = np.linspace(0.01, changed.width - 0.01, 1236)
    sums = np.zeros_like(xi)
    for first, coefficient in enumerate(changed.coefficients):
        spline = BSpline.basis_element(np.arange(degree + 2.0) + first, extrapolate=False)
        sums += float(coefficient) * np.nan_to_num(spline.derivative(order)(xi)) if order <= degree else 0.0
    np.testing.assert_allclose(changed.evaluate(xi), sums, atol=1e-11)


def test_a_derivative_twice_is_the_second():
    twice = kernel(3).derivative().derivative()
    np.testing.assert_array_equal(twice.pieces, kernel(3).derivative(2).pieces)
    np.testing.assert_array_equal(kernel(3).derivative(0).pieces, kernel(3).pieces)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_kernel_is_zero_outside_and_continuous_at_its_knots(degree):
    symmetric = kernel(degree)
    np.testing.assert_array_equal(symmetric.evaluate(np.array([-1e-300, -1.0, symmetric.width + 1e-9, np.inf])), 0)
    knots = np.arange(symmetric.width + 1.0)
    np.testing.assert_allclose(symmetric.evaluate(knots - 1e-13), symmetric.evaluate(knots + 1e-13), atol=1e-12)
    assert symmetric.evaluate(np.float64(symmetric.width / 2)) > 0.5


@pytest.mark.parametrize("degree", [-1, MAX_DEGREE + 1])
def test_other_degrees_are_refused(degree):
    with pytest.raises(ReproError, match=f"no kernel has this degree\n  expected: 0 to 7\n  actual: {degree}"):
        kernel(degree)


def test_a_negative_order_is_refused():
    with pytest.raises(ReproError, match="negative"):
        kernel(2).derivative(-1)


def test_pieces_are_shared_and_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        kernel(2).pieces[:] = 0
