"""A scale h for each point: its values at vertices, between them, and across the border of the box."""

import numpy as np
import pytest

from repro.filtering.grids import evaluation_points, triangulation
from repro.filtering.stencil_geometry import corner_scales, point_scales, triangle_scales
from repro.galerkin import evaluation_rule
from repro.problems.assembly import longest_edges
from support.triangulations import graded, hexagonal, one_huge, structured

MESHES = {"structured": structured(4), "delaunay": hexagonal(7), "graded": graded(7), "one huge": one_huge()}
meshes = pytest.mark.parametrize("name", MESHES)


def test_a_vertex_has_the_longest_edge_of_the_triangles_around_it():
    """Four triangles around a point left of the middle; the corners are one vertex, since the square goes on."""
    mesh = triangulation([[0, 0], [1, 0], [1, 1], [0, 1], [0.2, 0.5]], [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    longest = np.hypot(0.8, 0.5)
    sides = longest_edges(mesh.corners)
    np.testing.assert_allclose(sides, [1, 1, 1, 1])
    np.testing.assert_allclose(corner_scales(mesh), 1)
    # without the sides of the square: each corner with its own edges
    halved = triangulation(
        [[0, 0], [0.5, 0], [1, 0], [1, 0.5], [1, 1], [0.5, 1], [0, 1], [0, 0.5], [0.2, 0.5]],
        [[i, (i + 1) % 8, 8] for i in range(8)],
    )
    corners = corner_scales(halved)
    assert corners[1, 1] == pytest.approx(longest)  # of the triangle right of (0.5, 0): the edge to its corner (1, 0)
    assert corners[7, 0] == corners[3, 0], "the middles of the left and of the right side are one"
    np.testing.assert_allclose(corners[:, 2], longest)


@meshes
def test_brute_force_over_all_images_has_the_same(name):
    mesh = MESHES[name]
    own = longest_edges(mesh.corners)
    apart = np.abs(mesh.corners[:, :, None, None] - mesh.corners[None, None])
    same = (np.minimum(apart, np.abs(apart - mesh.period)) < 1e-8).all(axis=-1).any(axis=-1)
    np.testing.assert_array_equal(corner_scales(mesh), np.where(same, own, 0).max(axis=-1))


@meshes
@pytest.mark.parametrize("degree", [0, 2])
def test_points_are_located(name, degree):
    mesh = MESHES[name]
    inside = triangle_scales(mesh, evaluation_rule(degree, 2).points)
    np.testing.assert_allclose(point_scales(mesh, evaluation_points(mesh, degree)), inside, rtol=1e-12)
    periods = np.random.default_rng(1).integers(-3, 4, (len(inside), 2)) * mesh.period
    np.testing.assert_allclose(point_scales(mesh, evaluation_points(mesh, degree) + periods), inside, rtol=1e-9)


@pytest.mark.parametrize("name", ["structured", "delaunay", "graded"])
def test_without_hanging_nodes_it_is_continuous_and_linear_along_edges(name):
    mesh = MESHES[name]
    corners = corner_scales(mesh)
    np.testing.assert_allclose(point_scales(mesh, mesh.corners.reshape(-1, 2)), corners.ravel(), rtol=1e-9)
    middles = (mesh.corners[:, 0] + mesh.corners[:, 1]) / 2
    np.testing.assert_allclose(point_scales(mesh, middles), corners[:, :2].mean(axis=1), rtol=1e-9)
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 2, (300, 2))
    beside = points + 1e-7 * rng.standard_normal((300, 2))
    steepest = mesh.longest / np.sqrt(mesh.areas.min())
    np.testing.assert_allclose(point_scales(mesh, points), point_scales(mesh, beside), atol=1e-5 * steepest)


def test_at_a_hanging_node_it_is_the_greatest():
    mesh = MESHES["one huge"]
    h, own = point_scales(mesh, mesh.vertices[4:]), corner_scales(mesh)
    np.testing.assert_allclose(h, mesh.longest, rtol=1e-9)  # on the long edge, whose ends have its length
    assert own[1:].min() < 0.6 * mesh.longest


def test_squares_cut_in_half_have_their_diagonal_everywhere():
    h = point_scales(structured(5), np.random.default_rng(3).uniform(0, 1, (50, 2)))
    np.testing.assert_allclose(h, np.sqrt(2) / 5, rtol=1e-12)
