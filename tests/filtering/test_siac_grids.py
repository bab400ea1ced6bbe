"""Grids for devices, and the paper's: what they list, and how many tests they lead to."""

import numpy as np
import pytest

from repro.errors import ReproError
from repro.filtering.grids import count_tests, evaluation_points, grid_of_points, grid_of_triangles, triangulation
from support.triangulations import graded, hexagonal, structured

sizes = pytest.mark.parametrize("size", [None, 0.01, 0.21, 0.5, 0.7, 5.0])


@pytest.fixture(scope="module")
def mesh():
    moved = hexagonal(8)
    return triangulation(moved.vertices * [2, 1] + [-1, 4], moved.triangles)


def check(grid, mesh, positions, size):
    nx, ny = grid.shape
    np.testing.assert_array_equal(grid.shape, np.maximum(np.floor(mesh.period / size), 1))
    assert grid.starts.dtype == grid.members.dtype == np.int32
    assert grid.starts[0] == 0 and grid.starts[-1] == len(positions) and len(grid.starts) == nx * ny + 1
    np.testing.assert_array_equal(np.sort(grid.members), np.arange(len(positions)))
    for cell in range(nx * ny):
        members = grid.members[grid.starts[cell] : grid.starts[cell + 1]]
        assert (np.diff(members) > 0).all()
        low = mesh.lower + mesh.period * [cell % nx, cell // nx] / [nx, ny]
        inside = (positions[members] >= low - 1e-12) & (positions[members] <= low + mesh.period / [nx, ny] + 1e-12)
        assert inside.all()


@sizes
def test_a_grid_lists_each_triangle_in_the_cell_of_its_centroid(mesh, size):
    grid = grid_of_triangles(mesh, size)
    centroids = mesh.corners.mean(axis=1)
    check(grid, mesh, centroids, mesh.longest if size is None else size)
    assert (np.abs(mesh.corners - centroids[:, None]) <= grid.reach).all()
    assert (grid.reach <= 2 / 3 * mesh.longest).all()


@sizes
def test_a_grid_lists_each_point_in_its_cell(mesh, size):
    points = np.concatenate([evaluation_points(mesh, 1), mesh.vertices])
    grid = grid_of_points(mesh, points, size)
    check(grid, mesh, points, mesh.longest / 2 if size is None else size)
    assert not grid.reach.any()


def test_points_outside_are_listed_where_their_images_are(mesh):
    points = evaluation_points(mesh, 1)[:50]
    outside = grid_of_points(mesh, points + 3 * mesh.period, 0.13)
    np.testing.assert_array_equal(outside.members, grid_of_points(mesh, points, 0.13).members)


@pytest.mark.parametrize("size", [0.0, -1.0, np.nan, np.inf])
def test_cells_without_a_size_are_refused(mesh, size):
    with pytest.raises(ReproError, match="cell size"):
        grid_of_triangles(mesh, size)


def test_cells_beyond_all_memory_are_refused(mesh):
    with pytest.raises(ReproError, match="too many cells"):
        grid_of_triangles(mesh, 1e-9)


def counted_by_loops(mesh, points, degree):
    """Eq. (3.1) of the text cell by cell, over wrapped numbers of cells."""
    s = mesh.longest
    half = (3 * degree + 1) * s / 2

    def cells(positions, size):
        shape = np.ceil(mesh.period / size).astype(int)
        count = np.zeros(shape, int)
        for position in positions - mesh.lower:
            count[tuple(np.minimum(np.floor(position / size).astype(int), shape - 1))] += 1
        return count, shape

    def tests(corners, size, halo, grid):
        count, shape = grid
        low, high = corners.min(axis=0) - mesh.lower - half, corners.max(axis=0) - mesh.lower + half
        first, last = (np.floor(bound / size).astype(int) for bound in (low, high))
        x, y = (np.arange(first[i] - halo, last[i] + halo + 1) % shape[i] for i in range(2))
        return count[np.ix_(x, y)].sum()

    triangles, listed = cells(mesh.corners.mean(axis=1), s), cells(points, s / 2)
    per_point = sum(tests(point[None], s, 1, triangles) for point in points)
    per_element = sum(tests(corners, s / 2, 0, listed) for corners in mesh.corners)
    return per_point, per_element


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("name", ["own", "graded", "two"])
def test_tests_are_counted_as_one_after_the_other(mesh, degree, name):
    chosen = {"own": mesh, "graded": graded(5), "two": structured(1)}[name]
    points = evaluation_points(chosen, degree)
    assert count_tests(chosen, points, degree) == counted_by_loops(chosen, points, degree)


@pytest.mark.parametrize(
    ("n", "triangles", "per_point", "per_element"),
    [(42, 4000, 6_647_394, 3_525_297), (84, 16000, 26_492_809, 14_235_618)],
)
def test_table_3_1(n, triangles, per_point, per_element):
    mesh = hexagonal(n)
    assert len(mesh.triangles) == pytest.approx(triangles, rel=0.03)
    points, elements = count_tests(mesh, evaluation_points(mesh, 1), 1)
    assert points == pytest.approx(per_point, rel=0.1)
    assert elements == pytest.approx(per_element, rel=0.1)
    assert 1.84 <= points / elements <= 1.90
