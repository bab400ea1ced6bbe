"""Positive rules on triangles and tetrahedra, compared with the integrals of all monomials."""

from math import factorial

import numpy as np
import pytest

from repro.errors import ReproError
from repro.galerkin import POSITIVE_DEGREES, exponents, monomials, positive, volume

COUNTS = {(4, 2): 6, (6, 2): 12, (9, 2): 19, (4, 3): 11, (8, 3): 44}
rules = pytest.mark.parametrize(("degree", "dimension"), COUNTS)


def exact(powers):
    return np.array([np.prod([factorial(p) for p in row]) / factorial(sum(row) + len(row)) for row in powers.tolist()])


@rules
def test_a_rule_is_exact_for_its_degree_and_no_further(degree, dimension):
    rule = positive(degree, dimension)
    assert len(rule.weights) == COUNTS[degree, dimension]
    integrals = exact(exponents(degree, dimension))
    np.testing.assert_allclose(rule.weights @ monomials(rule.points, degree), integrals, rtol=1e-14)
    beyond = exact(exponents(degree + 1, dimension))
    assert np.abs(rule.weights @ monomials(rule.points, degree + 1) / beyond - 1).max() > 1e-6


@rules
def test_points_are_inside_and_weights_positive(degree, dimension):
    rule = positive(degree, dimension)
    assert (rule.weights > 0).all() and rule.weights.sum() == pytest.approx(volume(dimension), rel=1e-15)
    assert (rule.points > 0).all() and (rule.points.sum(axis=1) < 1).all()


@pytest.mark.parametrize("degree", POSITIVE_DEGREES[2])
def test_rules_of_triangles_are_symmetric(degree):
    rule = positive(degree, 2)
    corners = np.column_stack([rule.points, 1 - rule.points.sum(axis=1), rule.weights])
    for order in ([1, 2, 0, 3], [1, 0, 2, 3]):
        turned = corners[:, order]
        distances = np.abs(corners[:, None] - turned[None]).max(axis=2)
        assert (distances.min(axis=0) < 1e-15).all()


def test_the_next_higher_degree_stands_in_and_none_is_refused():
    assert len(positive(5, 3).weights) == 44 and len(positive(3, 2).weights) == 6
    for degree, dimension in ((10, 2), (9, 3), (1, 4)):
        with pytest.raises(ReproError, match="no positive quadrature rule"):
            positive(degree, dimension)
