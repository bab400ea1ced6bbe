"""Triangles cut at a lattice: areas against one polygon after the other, and edges against what they bound."""

import numpy as np
import pytest

from repro.filtering.reference import count_work
from repro.filtering.stencil_geometry import (
    fans,
    predicted_pairs,
    scales,
    stencil_pairs,
    strips_from_edge,
    strips_from_line,
)
from support.clipped_rows import clipped_rows
from support.triangulations import clipped_area, graded, hexagonal, one_huge, structured

WIDTH = 4
MESHES = {"structured": structured(6), "delaunay": hexagonal(8), "graded": graded(6), "huge": one_huge()}
meshes = pytest.mark.parametrize("name", MESHES)


def counterclockwise(corners):
    side, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    turned = side[:, 0] * other[:, 1] - side[:, 1] * other[:, 0] < 0
    corners[turned] = corners[turned][:, ::-1]
    return corners


def triangles(count, size, seed=0):
    """Triangles here and there about a lattice, some with corners on its lines."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-1, WIDTH + 1, (count, 1, 2)) + rng.uniform(-size, size, (count, 3, 2))
    corners[::3] = np.round(corners[::3] * 2) / 2
    side, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    thick = np.abs(side[:, 0] * other[:, 1] - side[:, 1] * other[:, 0]) > 1e-9
    return counterclockwise(corners[thick])


def areas(corners):
    side, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return (side[:, 0] * other[:, 1] - side[:, 1] * other[:, 0]) / 2


def by_square(corners):
    """Area of each triangle in each unit square, `(n, width, width)`."""
    cut = fans(corners, WIDTH)
    sums = np.zeros((len(corners), WIDTH, WIDTH))
    np.add.at(sums, (cut.pair, cut.square[:, 0], cut.square[:, 1]), areas(cut.corners))
    return sums


@pytest.mark.parametrize("size", [0.2, 0.7, 3.0])
def test_areas_are_those_of_one_polygon_at_a_time(size):
    corners = triangles(400, size)
    sums = by_square(corners)
    expected = [
        [[clipped_area(one, np.array([i, j]), np.array([i + 1, j + 1])) for j in range(WIDTH)] for i in range(WIDTH)]
        for one in corners
    ]
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-14)
    assert sums.any(axis=0).all()


@pytest.mark.parametrize("size", [0.2, 0.7, 3.0])
def test_areas_are_those_of_geos(size):
    shapely = pytest.importorskip("shapely")
    corners = triangles(150, size, seed=1)
    sums = by_square(corners)
    polygons = shapely.polygons(corners)
    for i in range(WIDTH):
        for j in range(WIDTH):
            expected = shapely.area(shapely.intersection(polygons, shapely.box(i, j, i + 1, j + 1)))
            np.testing.assert_allclose(sums[:, i, j], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", [0.2, 3.0])
def test_sub_triangles_lie_in_their_square_and_run_counterclockwise(size):
    cut = fans(triangles(200, size), WIDTH)
    assert (cut.corners >= cut.square[:, None]).all() and (cut.corners <= cut.square[:, None] + 1).all()
    assert (areas(cut.corners) > -1e-15).all()
    assert (np.diff(cut.pair) >= 0).all()


def test_a_triangle_of_edges_up_to_one_unit_has_at_most_3_sub_triangles_a_square():
    """The text says five triangles; with h no less than the longest edge a piece has no more than five corners."""
    corners = triangles(3000, 0.35)
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    cut = fans(corners[longest <= 1], WIDTH)
    key = (cut.pair * WIDTH + cut.square[:, 0]) * WIDTH + cut.square[:, 1]
    assert np.bincount(key).max() == 3
    assert np.bincount(np.unique(key) // WIDTH**2).max() == 4


@pytest.mark.parametrize("strips_from", [strips_from_line, strips_from_edge])
@pytest.mark.parametrize("size", [0.2, 0.7, 3.0])
def test_strips_add_up_to_areas(strips_from, size):
    corners = triangles(400, size)
    pair, square, y, begin, end = strips_from(corners, WIDTH)
    sums = np.zeros((len(corners), WIDTH, WIDTH))
    signed = (end - begin).mean(axis=1) * (y[:, 1] - y[:, 0])
    np.add.at(sums, (pair, square[:, 0], square[:, 1]), signed)
    np.testing.assert_allclose(sums, by_square(corners), rtol=0, atol=2e-14)
    assert ((square >= 0) & (square < WIDTH)).all() and (np.diff(pair) >= 0).all()
    for ends, axis in ((begin, 0), (end, 0), (y, 1)):
        assert (ends >= square[:, axis, None] - 1e-14).all() and (ends <= square[:, axis, None] + 1 + 1e-14).all()


@pytest.mark.parametrize("size", [0.2, 3.0])
def test_strips_from_an_edge_lie_in_their_triangle(size):
    corners = triangles(400, size)
    pair, _, y, begin, end = strips_from_edge(corners, WIDTH)
    assert ((end - begin).mean(axis=1) * (y[:, 1] - y[:, 0]) > -1e-15).all()
    for x in (begin, end):
        for corner in range(3):
            here, there = corners[pair, corner], corners[pair, (corner + 1) % 3]
            side = there - here
            beside = side[:, :1] * (y - here[:, 1:]) - side[:, 1:] * (x - here[:, :1])
            assert (beside > -1e-13).all()


def test_an_uncut_triangle_has_three_strips_from_a_line_and_two_from_an_edge():
    corners = triangles(3000, 0.35)
    longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
    corners = corners[(longest <= 1) & (corners * 2 % 1 != 0).all(axis=(1, 2))]
    low, high = np.floor(corners.min(axis=1)), np.ceil(corners.max(axis=1))
    uncut = (high - low == 1).all(axis=1) & (low >= 0).all(axis=1) & (high <= WIDTH).all(axis=1)
    assert uncut.sum() > 100
    for strips_from, count in ((strips_from_line, 3), (strips_from_edge, 2)):
        strips = np.bincount(strips_from(corners, WIDTH).pair, minlength=len(corners))
        assert (strips[uncut] == count).all()
        assert strips.max() <= 9


@meshes
@pytest.mark.parametrize(("degree", "h"), [(1, None), (2, 0.09), (3, 0.4)])
def test_the_pieces_of_a_stencil_cover_it_once(name, degree, h):
    mesh, points = MESHES[name], np.random.default_rng(5).random((3, 2))
    width = 3 * degree + 1
    for pairs in stencil_pairs(mesh, points, width, scales(mesh, len(points), width, h)):
        cut = fans(pairs.corners, width)
        sums = np.bincount(pairs.point[cut.pair], areas(cut.corners), minlength=len(points))
        np.testing.assert_allclose(sums, width**2, rtol=1e-13)


def images_that_meet(mesh, point, half, numbers=None):
    """One image after the other: the triangles of which a positive area is in the stencil."""
    reach = int(np.ceil(half))
    shifts = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]
    return [
        number
        for number in (range(len(mesh.triangles)) if numbers is None else numbers)
        for shift in shifts
        if clipped_area(mesh.corners[number] + shift, point - half, point + half) > 1e-15
    ]


@meshes
@pytest.mark.parametrize(("degree", "h"), [(1, None), (1, 0.06), (2, 0.03)])
def test_pairs_are_the_images_that_meet_a_stencil(name, degree, h):
    mesh, points = MESHES[name], np.random.default_rng(6).random((3, 2))
    half = (3 * degree + 1) / 2 * (mesh.longest if h is None else h)
    expected = [images_that_meet(mesh, point, half) for point in points]
    counts = count_work(mesh, points, degree, h)
    assert counts.pairs.tolist() == [len(members) for members in expected]
    rows = clipped_rows(mesh, points, degree, scale=h, field_degree=0)
    for i, members in enumerate(expected):
        assert rows[[i]].indices.tolist() == sorted(set(members))


@meshes
def test_nan_reaches_the_points_whose_stencil_meets_its_triangle_and_no_others(name):
    mesh, points, h = MESHES[name], np.random.default_rng(7).random((40, 2)), 0.05
    broken = len(mesh.triangles) // 2
    modes = np.ones((len(mesh.triangles), 3))
    modes[broken] = np.nan
    reached = np.isnan(clipped_rows(mesh, points, 1, scale=h) @ modes.ravel())
    expected = [bool(images_that_meet(mesh, point, 2 * h, [broken])) for point in points]
    np.testing.assert_array_equal(reached, expected)
    assert reached.any() and not reached.all()


@meshes
def test_pairs_are_predicted(name):
    mesh, points = MESHES[name], np.random.default_rng(8).random((400, 2))
    pairs = count_work(mesh, points, 1, 0.2).pairs.mean()
    # by boxes of triangles: some of which meet a stencil while their triangles do not
    assert pairs <= predicted_pairs(mesh, 4, 0.2) * 1.02
    assert predicted_pairs(mesh, 4, 0.2) < 1.35 * pairs
    assert predicted_pairs(mesh, 4) == predicted_pairs(mesh, 4, mesh.longest)


def test_counts_are_those_of_one_point_at_a_time():
    mesh, points, h = MESHES["graded"], np.random.default_rng(9).random((5, 2)), np.linspace(0.05, 0.3, 5)
    counts = count_work(mesh, points, 2, h)
    for i in range(5):
        alone = count_work(mesh, points[[i]], 2, h[i])
        assert [count[i] for count in counts] == [count[0] for count in alone]
    assert (counts.pairs < counts.triangles).all() and (counts.pairs < counts.segments).all()
