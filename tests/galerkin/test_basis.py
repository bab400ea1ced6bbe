"""Bases on simplices and quadrature, compared with their definitions."""

from math import factorial

import numpy as np
import pytest

from repro.galerkin import (
    BASES,
    collapsed,
    equispaced,
    evaluate,
    evaluation_rule,
    exact_for,
    exponents,
    mode_count,
    monomials,
    to_monomials,
    volume,
)

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])
degrees = pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])


@dimensions
@pytest.mark.parametrize("degree", range(9))
def test_quadrature_is_exact_for_every_monomial_of_its_degree(dimension, degree):
    rule = exact_for(degree, dimension)
    powers = exponents(degree, dimension)
    exact = [np.prod([factorial(p) for p in row]) / factorial(int(row.sum()) + dimension) for row in powers]
    np.testing.assert_allclose(rule.weights @ monomials(rule.points, degree), exact, rtol=1e-13)
    assert rule.weights.sum() == pytest.approx(volume(dimension))
    assert (rule.weights > 0).all() and (rule.points > 0).all() and (rule.points.sum(axis=1) < 1).all()


def test_a_rule_is_not_exact_beyond_its_degree():
    rule = collapsed(2, 2)
    assert rule.weights @ rule.points[:, 0] ** 4 != pytest.approx(factorial(4) / factorial(6), rel=1e-6)


def test_a_triangle_has_the_papers_number_of_quadrature_points():
    assert [len(evaluation_rule(degree, 2).weights) for degree in (1, 2, 3)] == [6, 12, 20]
    assert len(evaluation_rule(1, 3).weights) == 12


@dimensions
@degrees
def test_dubiners_functions_are_orthonormal(dimension, degree):
    rule = exact_for(2 * degree, dimension)
    values = evaluate("dubiner", rule.points, degree)
    assert values.shape == (len(rule.weights), mode_count(degree, dimension))
    np.testing.assert_allclose(values.T * rule.weights @ values, np.eye(values.shape[1]), atol=1e-11)


@dimensions
@degrees
@pytest.mark.parametrize("basis", BASES)
def test_functions_and_their_monomials_agree_and_span_all_polynomials(dimension, degree, basis):
    points = np.random.default_rng(1).dirichlet(np.ones(dimension + 1), 40)[:, :dimension]
    np.testing.assert_allclose(evaluate(basis, points, degree), BASES[basis](points, degree), atol=1e-10)
    assert np.linalg.matrix_rank(to_monomials(basis, degree, dimension)) == mode_count(degree, dimension)


def test_lagranges_functions_are_one_at_their_own_point():
    np.testing.assert_allclose(evaluate("lagrange", equispaced(3, 2), 3), np.eye(10), atol=1e-12)


def test_another_basis_is_refused():
    with pytest.raises(KeyError, match="hermite"):
        evaluate("hermite", np.zeros((1, 2)), 1)


def test_what_is_returned_may_be_written_to():
    to_monomials("dubiner", 1, 2)[:] = 0
    assert to_monomials("dubiner", 1, 2).any()
