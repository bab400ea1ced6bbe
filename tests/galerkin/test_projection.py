"""The projection on the polynomials of each cell, and modes of cells that are numbered otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from repro.galerkin import BASES, evaluate, exact_for, exchange_last, exponents, project
from repro.problems.field import delaunay_square, kuhn_cube

MESHES = {2: delaunay_square(20, "high"), 3: kuhn_cube(2)}
bases = pytest.mark.parametrize("basis", BASES)
dimensions = pytest.mark.parametrize("dimension", [2, 3])


def values_of(modes: np.ndarray, basis: str, degree: int, points: np.ndarray) -> np.ndarray:
    """Return the polynomials of all cells at points of the reference simplex, `(c, n)`."""
    return modes @ evaluate(basis, points, degree).T


def places(vertices: np.ndarray, cells: np.ndarray, points: np.ndarray) -> np.ndarray:
    corners = vertices[cells]
    return corners[:, :1] + points @ (corners[:, 1:] - corners[:, :1])


@pytest.mark.sampled(8)
@bases
@dimensions
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 7])
def test_polynomials_of_the_degree_are_projected_on_themselves(basis: str, dimension: int, degree: int) -> None:
    vertices, cells = MESHES[dimension]
    weights = np.cos(np.arange(len(exponents(degree, dimension))))

    def polynomial(points: np.ndarray) -> np.ndarray:
        return np.prod(points[:, None] ** exponents(degree, dimension), axis=2) @ weights

    points = exact_for(4, dimension).points
    modes = project(polynomial, vertices, cells, degree, basis)
    expected = polynomial(places(vertices, cells, points).reshape(-1, dimension)).reshape(len(cells), -1)
    np.testing.assert_allclose(values_of(modes, basis, degree, points), expected, atol=2e-11)


@dimensions
def test_what_is_left_over_is_orthogonal_to_the_polynomials(dimension: int) -> None:
    vertices, cells = MESHES[dimension]

    def function(points: np.ndarray) -> np.ndarray:
        return points[:, 0] ** 6 - points[:, 1] ** 5

    rule = exact_for(10, dimension)
    modes = project(function, vertices, cells, 2)
    rest = function(places(vertices, cells, rule.points).reshape(-1, dimension)).reshape(len(cells), -1)
    rest -= values_of(modes, "dubiner", 2, rule.points)
    assert np.abs(rest).max() > 1e-3
    assert np.abs((rest * rule.weights) @ evaluate("dubiner", rule.points, 2)).max() < 1e-14


@bases
@dimensions
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_exchanged_vertices_leave_the_polynomial_as_it_is(basis: str, dimension: int, degree: int) -> None:
    modes = np.cos(np.arange(len(exponents(degree, dimension))))[None]
    points = exact_for(5, dimension).points
    order = [0, 2, 1] if dimension == 3 else [1, 0]
    turned = modes @ exchange_last(basis, degree, dimension).T
    before, after = values_of(modes, basis, degree, points[:, order]), values_of(turned, basis, degree, points)
    np.testing.assert_allclose(after, before, atol=1e-12)
    if degree:
        assert np.abs(turned - modes).max() > 1e-3, "the basis belongs to the corners' order"


def test_an_unknown_basis() -> None:
    with pytest.raises(KeyError, match="legendre"):
        project(lambda points: points[:, 0], *MESHES[2], 1, "legendre")
