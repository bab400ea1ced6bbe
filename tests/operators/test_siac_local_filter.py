"""The filter as a SciPy operator with an h of each point, given or as long as the edges around it."""

import numpy as np
import pytest

import repro
from repro.errors import ReproError
from repro.filtering.grids import evaluation_points
from repro.filtering.reference import contour_rows
from repro.filtering.stencil_geometry import point_scales
from repro.galerkin import mode_count
from repro.problems.field import FUNCTIONS
from repro.problems.generated_fields import generate_field
from support.triangulations import graded, project

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"


@pytest.fixture(scope="module")
def mesh():
    return graded(5)


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(1).uniform(-0.3, 1.4, (40, 2))


def pair(mesh):
    return mesh.vertices, mesh.triangles


def drawn(mesh, degree, *fields):
    return np.random.default_rng(3).standard_normal((len(mesh.triangles) * mode_count(degree, 2), *fields))


@pytest.mark.parametrize("matrix", ["auto", False])
def test_the_word_local_is_the_scale_of_the_edges_around(mesh, points, matrix):
    made, modes = repro.siac(pair(mesh), 2, points, "local", matrix=matrix, device=DEVICE), drawn(mesh, 2, 3)
    np.testing.assert_array_equal(made.scale, point_scales(mesh, points))
    expected = contour_rows(mesh, points, 2, scale=made.scale) @ modes
    np.testing.assert_allclose(made @ modes, expected, atol=1e-12 * np.abs(modes).max())
    assert made.kind == "clipping"
    assert f"h = {made.scale.min():.6g} to {made.scale.max():.6g}" in repr(made)
    whole = repro.siac(pair(mesh), 2, points, matrix=False, device=DEVICE)
    assert 0 < made.pairs < whole.pairs


def test_an_array_has_the_scale_of_each_point(mesh, points):
    scales, modes = np.linspace(0.05, 0.4, 40), drawn(mesh, 1)
    made = repro.siac(pair(mesh), 1, points, scales, derivative=(1, 0), device=DEVICE)
    kept = made.scale
    expected = np.array([
        (repro.siac(pair(mesh), 1, [point], h, derivative=(1, 0), device=DEVICE) @ modes)[0]
        for point, h in zip(points, scales, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(made @ modes, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(kept, scales)


def test_without_points_local_is_at_the_quadrature_points(mesh):
    made = repro.siac(pair(mesh), 1, scale="local", device=DEVICE)
    np.testing.assert_allclose(made.scale, point_scales(mesh, evaluation_points(mesh, 1)), rtol=1e-12)


def test_a_matrix_with_several_scales_is_refused_and_one_for_all_is_no_matter(mesh, points):
    with pytest.raises(ReproError, match="only for a constant h"):
        repro.siac(pair(mesh), 1, points, "local", matrix=True, device=DEVICE)
    same = np.full(40, mesh.longest)
    made = repro.siac(pair(mesh), 1, points, same, matrix=True, device=DEVICE)
    assert (made.kind, made.scale) == ("matrix", mesh.longest)


@pytest.mark.parametrize("scales", [[0.1, 0.0], [0.1, np.nan], [0.1, -1.0]])
def test_scales_that_are_none_are_refused(mesh, scales):
    with pytest.raises(ReproError, match="positive"):
        repro.siac(pair(mesh), 1, [[0.5, 0.5], [0.2, 0.2]], scales, device=DEVICE)


def test_polynomials_of_the_degree_pass_whatever_the_scale(mesh):
    """In the middle, where no stencil reaches over the border."""
    points = np.random.default_rng(5).uniform(0.45, 0.55, (20, 2))
    scales = np.random.default_rng(6).uniform(0.02, 0.09, 20)
    modes = project(mesh, lambda x, y: 1 + x - 2 * y + x * y - 3 * y**2, 2).ravel()
    made = repro.siac(pair(mesh), 2, points, scales, device=DEVICE)
    expected = 1 + points[:, 0] - 2 * points[:, 1] + points[:, 0] * points[:, 1] - 3 * points[:, 1] ** 2
    np.testing.assert_allclose(made @ modes, expected, atol=1e-13)


def test_on_triangles_of_many_sizes_it_errs_less_and_meets_fewer():
    field = generate_field("delaunay", triangles=2000, variance="high", degree=1, seed=3)
    points = np.random.default_rng(7).uniform(0, 1, (300, 2))
    exact = FUNCTIONS["sine"](points)
    whole = repro.siac(field, points=points, matrix=False, device=DEVICE)
    local = repro.siac(field, points=points, scale="local", device=DEVICE)
    of_whole, of_local = (np.sqrt(np.mean((made @ field.modes.ravel() - exact) ** 2)) for made in (whole, local))
    assert of_local < 0.6 * of_whole and local.pairs < 0.5 * whole.pairs
