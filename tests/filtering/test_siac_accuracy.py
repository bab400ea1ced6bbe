"""The filter's accuracy for every method on the CPU: which polynomials it reproduces, and the order of its errors.

That CUDA's text has the same values is tested in test_siac_on_cpu.py.
"""

import numpy as np
import pytest

from repro.filtering.grids import evaluation_points
from repro.galerkin import evaluation_rule, exponents, mode_count
from support.siac_on_devices import WAYS, matrix_and_products, several_filtered, siac_loader
from support.triangulations import exact_modes, hexagonal, project, structured

degrees = pytest.mark.parametrize("degree", [1, 2, 3])
ways = pytest.mark.parametrize("way", [*WAYS, "matrix"])
meshes = pytest.mark.parametrize("name", ["sheared", "delaunay"])


@pytest.fixture(scope="module")
def load(cpu_device, templates, built_folder):
    return siac_loader(cpu_device, templates, built_folder / "siac")


@pytest.fixture
def values(cpu_device, load):
    """Filter fields `(t, m, fields)` at points: `(n, fields)`."""

    def values(way, mesh, points, degree, modes, **keys):
        if way == "matrix":
            return matrix_and_products(cpu_device, load, mesh, points, degree, modes, **keys)[1]
        return several_filtered(cpu_device, load, way, mesh, points, degree, modes, **keys)

    return values


def around_centre(count, reach):
    return 0.5 + np.random.default_rng(3).uniform(-reach, reach, (count, 2))


@pytest.mark.sampled(10)
@pytest.mark.slow
@degrees
@ways
@meshes
def test_polynomials_that_a_field_holds_are_kept_on_any_mesh(values, way, degree, name):
    """x^a y^b of total degree P, from analytic modes; those of a higher degree only NumPy's rows can be given."""
    n = 6 * degree + 3
    mesh = structured(n, 0.05) if name == "sheared" else hexagonal(n)
    points, powers = around_centre(4, 0.01), exponents(degree, 2)
    assert (3 * degree + 1) * mesh.longest < 0.98  # the stencils stay inside the box
    modes = np.zeros((len(mesh.triangles), mode_count(degree, 2), len(powers)))
    for field, (a, b) in enumerate(powers):
        exact = exact_modes(mesh, a, b)
        modes[:, : exact.shape[1], field] = exact
    filtered = values(way, mesh, points, degree, modes, basis="monomial")
    np.testing.assert_allclose(filtered, np.prod(points[:, None] ** powers, axis=2), rtol=0, atol=1e-13)


@pytest.mark.sampled(7)
@pytest.mark.slow
@degrees
@ways
def test_projections_of_polynomials_are_restored_by_every_way(values, way, degree):
    """filter(project(p)) = p for every p up to total degree 2P + 1 with h = 1/N: kernel, cuts, rules, bases at once."""
    n = 4 * degree + 3  # the stencils stay inside the box
    mesh, points, powers = structured(n), around_centre(5, 0.4 / n), exponents(2 * degree + 1, 2)
    modes = np.stack([project(mesh, lambda x, y, p=p: x ** p[0] * y ** p[1], degree) for p in powers], axis=2)
    wanted = np.prod(points[:, None] ** powers, axis=2)
    np.testing.assert_allclose(values(way, mesh, points, degree, modes, scale=1 / n), wanted, rtol=0, atol=1e-13)


@pytest.mark.sampled(10)
@degrees
@ways
@meshes
def test_weights_of_a_point_add_up_to_one(values, way, degree, name):
    mesh = structured(5, 0.1) if name == "sheared" else hexagonal(7)
    points = np.random.default_rng(4).uniform(-0.5, 1.5, (30, 2))
    ones = project(mesh, lambda x, y: np.ones_like(x), degree, extra=0)[:, :, None]
    np.testing.assert_allclose(values(way, mesh, points, degree, ones), 1, rtol=0, atol=1e-13)


def wave(x, y):
    return np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)


@pytest.mark.sampled(7)
@pytest.mark.slow
@degrees
@ways
def test_errors_fall_with_order_2p_plus_2_in_l2(values, way, degree):
    """On structured meshes with h = 1/N: at least 2P + 1.5, of a field whose own errors fall with P + 1."""
    errors = []
    for n in (8, 16):
        mesh = structured(n)
        points = evaluation_points(mesh, degree)
        weights = np.tile(evaluation_rule(degree, 2).weights, len(mesh.triangles))  # areas are equal
        drawn = np.random.default_rng(1).choice(len(points), 300, replace=False)
        modes = project(mesh, wave, degree)[:, :, None]
        error = values(way, mesh, points[drawn], degree, modes, scale=1 / n)[:, 0] - wave(*points[drawn].T)
        errors.append(np.sqrt(weights[drawn] @ error**2 / weights[drawn].sum()))
    assert 2 * degree + 1.5 <= np.log2(errors[0] / errors[1]) < 2 * degree + 2.5
