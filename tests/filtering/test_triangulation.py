"""Triangulations of a periodic box; invalid ones are refused."""

from dataclasses import replace

import numpy as np
import pytest

from repro.errors import ReproError
from repro.filtering.grids import evaluation_points, of_field, triangulation
from repro.galerkin import evaluation_rule
from repro.problems.field import Field
from support.triangulations import graded, hexagonal, structured

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
TWO = np.array([[0, 1, 2], [0, 2, 3]])
CROSSED = np.concatenate([SQUARE, [[0.5, 0.5]]])


def test_what_a_mesh_says_of_itself():
    mesh = triangulation(SQUARE * [2, 1] + [3, -1], TWO)
    assert mesh.vertices.dtype == np.float64 and mesh.triangles.dtype == np.int32
    np.testing.assert_array_equal(mesh.lower, [3, -1])
    np.testing.assert_array_equal(mesh.period, [2, 1])
    np.testing.assert_array_equal(mesh.areas, [1, 1])
    assert mesh.longest == pytest.approx(np.sqrt(5))
    assert mesh.flipped == 0


def test_clockwise_triangles_are_flipped_and_counted():
    given = np.array([[0, 2, 1], [0, 2, 3]])
    mesh = triangulation(SQUARE, given)
    assert mesh.flipped == 1
    assert (mesh.areas > 0).all()
    np.testing.assert_array_equal(given, [[0, 2, 1], [0, 2, 3]])  # what the caller holds stays as it was


@pytest.mark.parametrize(
    ("vertices", "triangles", "message"),
    [
        (SQUARE, np.empty((0, 3), int), "no triangles"),
        (SQUARE, TWO.astype(float), "do not fit"),
        (SQUARE, TWO[:, :2], "do not fit"),
        (np.ones((4, 3)), TWO, "the vertices have the wrong shape"),
        (SQUARE, TWO + 2, "vertices that do not exist"),
        (SQUARE, TWO - 1, "vertices that do not exist"),
        (SQUARE, TWO + 2**40, "vertices that do not exist"),
        (SQUARE * [1, np.nan], TWO, "not finite"),
        (np.where(SQUARE > 0, np.inf, SQUARE), TWO, "not finite"),
        (SQUARE, np.array([[0, 1, 2], [0, 2, 3], [1, 1, 2]]), r"triangle 2 .*\n.*\n  actual: 1 of 3"),
        (np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0]]), [[0, 1, 2], [0, 2, 3], [0, 4, 1]], "triangle 2"),
        (SQUARE, TWO[:1], "gaps or overlaps"),
        (SQUARE, TWO[[0, 1, 1]], "gaps or overlaps"),
        (np.concatenate([SQUARE, [[2.0, 2.0]]]), TWO, "gaps or overlaps"),
        (np.concatenate([SQUARE, [[0.5, 1e-16]]]), [[0, 1, 2], [0, 2, 3], [0, 1, 4]], "triangle 2"),
        (SQUARE * [3, 1] - 1, TWO[[0, 0]], r"overlaps of the same area\n(.|\n)*actual: 0.666667, 0.333333"),
        (CROSSED, [[0, 1, 4], [0, 1, 4], [2, 3, 4], [2, 3, 4]], "overlaps of the same area"),
    ],
)
def test_what_is_no_mesh_is_refused(vertices, triangles, message):
    with pytest.raises(ReproError, match=message):
        triangulation(vertices, np.asarray(triangles))


def test_hanging_nodes_without_a_gap_are_allowed_and_with_one_refused():
    points = np.concatenate([SQUARE, [[0.5, 0.5]]])
    triangles = np.array([[0, 1, 4], [1, 2, 4], [0, 2, 3]])
    assert triangulation(points, triangles).areas.sum() == 1
    points[4] = [0.6, 0.4]  # the triangle at the other side does not follow
    with pytest.raises(ReproError, match="gaps or overlaps"):
        triangulation(points, triangles)


def test_points_are_wrapped_into_the_box():
    mesh = triangulation(SQUARE * [2, 1] + [3, -1], TWO)
    inside = np.array([[3.1, -0.3], [3.0, -1.0], [5.0, 0.0]])
    np.testing.assert_array_equal(mesh.wrapped(inside), inside)
    np.testing.assert_allclose(
        mesh.wrapped(inside[:1] + np.array([[-8, 5], [2, 0], [4, -3]])), inside[[0, 0, 0]], atol=1e-14
    )
    with pytest.raises(ReproError, match=r"first at 1 "):
        mesh.wrapped([[0.0, 0.0], [np.nan, 0.0]])
    with pytest.raises(ReproError, match="do not fit"):
        mesh.wrapped([[0.0, 0.0, 0.0]])


def field(**changes):
    fields = {"vertices": SQUARE, "cells": TWO.astype(np.int32), "degree": 0, "basis": "dubiner"}
    fields |= {"modes": np.ones((2, 1)), "periodic": True}
    return replace(Field(name="square", origin={}, statistics={}, **fields), **changes)


def test_a_field_has_a_triangulation():
    assert of_field(field()).areas.sum() == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"periodic": False}, "not periodic"), ({"vertices": np.zeros((4, 3))}, "plane"), ({"cells": TWO[:1]}, "gaps")],
)
def test_other_fields_are_refused(changes, message):
    with pytest.raises(ReproError, match=rf"{message}(.|\n)*where: square"):
        of_field(field(**changes))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_points_lie_in_their_triangles_and_integrate_over_them(degree):
    mesh = graded(6)
    points = evaluation_points(mesh, degree)
    weights = np.outer(2 * mesh.areas, evaluation_rule(degree, 2).weights).ravel()
    assert len(points) == len(mesh.triangles) * (degree + 2) * (degree + 1)
    assert weights @ (points[:, 0] * points[:, 1]) == pytest.approx(0.25, abs=1e-14)
    owners = points.reshape(len(mesh.triangles), -1, 2)
    a, b, c = (mesh.corners[:, i, None] for i in range(3))
    for start, end in ((a, b), (b, c), (c, a)):
        side, to_point = end - start, owners - start
        assert (side[..., 0] * to_point[..., 1] - side[..., 1] * to_point[..., 0] > 0).all()


def test_the_meshes_of_these_tests_are_what_they_say():
    assert len(structured(5).triangles) == 50
    assert hexagonal(20).longest * 20 < 1.7
    mesh = graded(20)
    assert mesh.areas.max() / mesh.areas.min() > 100
    for mesh in (graded(8), hexagonal(8)):  # what lies at the bottom does not match what lies at the top
        bottom, top = (np.sort(mesh.vertices[mesh.vertices[:, 1] == side, 0]) for side in (0, 1))
        assert len(bottom) > 3 and not np.array_equal(bottom, top)
