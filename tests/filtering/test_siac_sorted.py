"""What is sorted once on the host for all ways to filter."""

import numpy as np
import pytest

from repro.filtering import grids as sorting
from repro.filtering.grids import (
    SortedCells,
    bisected,
    evaluation_points,
    grid_of_points,
    grid_of_triangles,
    parts_of,
    patches_of,
    row_tiles,
)
from repro.galerkin import evaluation_rule
from support.triangulations import graded, hexagonal, structured

MESHES = {"structured": structured(6), "delaunay": hexagonal(8), "graded": graded(6)}
meshes = pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)


def anywhere(count):
    return np.random.default_rng(4).uniform(-0.5, 1.5, (count, 2))


@meshes
@pytest.mark.parametrize("size", [None, 0.07, 3.0])
def test_members_are_sorted_by_cell_and_then_by_number(mesh, size):
    points = anywhere(500)
    grid = grid_of_points(mesh, points, size)
    shape = np.array(grid.shape)
    cells = np.clip(grid.cells_of(mesh.wrapped(points)), 0, shape - 1)
    number = cells @ [1, shape[0]]
    np.testing.assert_array_equal(grid.members, np.argsort(number, kind="stable"))
    np.testing.assert_array_equal(grid.starts, np.searchsorted(np.sort(number), np.arange(shape.prod() + 1)))
    np.testing.assert_array_equal(grid.cell_of_member, np.sort(number))
    assert {array.dtype for array in (grid.members, grid.starts, grid.cell_of_member)} == {np.dtype(np.int32)}


def test_no_points_have_an_empty_grid():
    grid = grid_of_points(MESHES["delaunay"], np.empty((0, 2)), 0.3)
    assert not grid.members.size and not grid.starts.any() and len(grid.starts) == np.prod(grid.shape) + 1


@meshes
def test_everything_is_what_it_is_alone(mesh):
    points = anywhere(200)
    host = SortedCells(mesh, points)
    assert host.count == 200
    alone = grid_of_points(mesh, points, 0.2)
    np.testing.assert_array_equal(host.points(0.2).members, alone.members)
    np.testing.assert_array_equal(np.stack(host.positions(0.2), axis=1), mesh.wrapped(points)[alone.members])
    np.testing.assert_array_equal(host.triangles(0.3).members, grid_of_triangles(mesh, 0.3).members)
    np.testing.assert_array_equal(host.tiles(3, 0.2), row_tiles(alone, 3))
    expected = patches_of(mesh, alone, 0.4, parts_of(mesh, 5))
    made = host.patches(0.4, 5, 0.2)
    assert made.copies == expected.copies
    np.testing.assert_array_equal(made.order, expected.order)
    np.testing.assert_array_equal(np.concatenate(host.parts(5)), expected.order)
    np.testing.assert_array_equal(made.order, np.concatenate(bisected(mesh.corners.mean(axis=1), 5)))


def test_everything_is_made_once_for_a_size(monkeypatch):
    made = []
    for name in ("grid_of_points", "grid_of_triangles", "parts_of", "patches_of"):
        function = getattr(sorting, name)
        monkeypatch.setattr(sorting, name, lambda *given, name=name, of=function: made.append(name) or of(*given))
    host = SortedCells(MESHES["delaunay"], anywhere(50))
    for _ in range(3):
        for size in (0.1, 0.2):
            host.positions(size), host.triangles(size), host.patches(0.3, 4, size), host.parts(4)
    assert sorted(made) == ["grid_of_points"] * 2 + ["grid_of_triangles"] * 2 + ["parts_of"] + ["patches_of"] * 2


def test_points_inside_are_not_copied_and_those_outside_are_moved():
    mesh = MESHES["delaunay"]
    inside = np.random.default_rng(1).random((9, 2))
    assert mesh.wrapped(inside) is inside
    outside = inside + np.array([2.0, -1.0])
    np.testing.assert_allclose(mesh.wrapped(outside), inside, atol=1e-14)
    mixed = np.concatenate([inside, outside])
    np.testing.assert_array_equal(mesh.wrapped(mixed)[:9], inside)


@meshes
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_evaluation_points_are_those_of_the_rule_in_each_triangle(mesh, degree):
    rule = evaluation_rule(degree, 2).points
    corners = mesh.corners
    expected = [a + rule @ np.stack([b - a, c - a]) for a, b, c in corners]
    np.testing.assert_allclose(evaluation_points(mesh, degree), np.concatenate(expected), rtol=0, atol=1e-15)
