"""Polygons cut into triangles: concave ones, whichever corner they begin with, and those that are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repro.errors import ReproError
from repro.problems.meshes import cut
from repro.problems.meshreaders import face, split

L = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
SHAPES = {
    "square": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "dart": [(0, 0), (2, 1), (0, 2), (0.5, 1)],
    "sharp_dart": [(0, 0), (2, 1), (0, 2), (1.99, 1)],
    "L": L,
    "comb": [(0, 0), (7, 0), (7, 2), (6, 2), (6, 1), (5, 1), (5, 2), (4, 2), (4, 1), (3, 1), (3, 2), (2, 2), (2, 1),
             (1, 1), (1, 2), (0, 2)],
    "spiral": [(0, 0), (5, 0), (5, 5), (1, 5), (1, 2), (3, 2), (3, 3), (2, 3), (2, 4), (4, 4), (4, 1), (0, 1)],
    "corner_on_an_edge": [(0, 0), (1, 0), (2, 0), (1, 2)],
    "corners_on_all_edges": [(0, 0), (1, 0), (2, 0), (1.5, 1), (1, 2), (0.5, 1)],
    "many_on_an_edge": [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (2, 3)],
    "star": [(np.cos(t) * r, np.sin(t) * r) for t, r in zip(np.arange(20) * np.pi / 10, [2, 0.7] * 10, strict=True)],
    "regular": [(np.cos(t), np.sin(t)) for t in np.arange(40) * np.pi / 20],
    "thin": [(0, 0), (1, 0), (1, 1e-7), (0, 1e-7)],
    "hole_by_a_bridge": [(0, 0), (4, 0), (4, 4), (0, 4), (0, 0), (1, 1), (1, 3), (3, 3), (3, 1), (1, 1)],
}  # fmt: skip
PATH = Path("a.obj")


def signed(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (points[triangles[:, i]] for i in range(3))
    return np.cross(b - a, c - a) / 2


def spread(shape: list[tuple[float, float]], turn: int = 0) -> np.ndarray:
    """Corners in a plane that is none of the coordinates'."""
    u, v = np.array([1.0, 2.0, 2.0]) / 3, np.array([2.0, 1.0, -2.0]) / 3
    flat = np.array(shape, dtype=float)
    return np.roll(flat[:, :1] * u + flat[:, 1:] * v + [3.0, -5.0, 7.0], -turn, axis=0)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_the_triangles_fill_the_polygon(name: str, mirrored: bool) -> None:
    shape = np.array(SHAPES[name], dtype=float)
    x, y = shape.T
    wanted = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    points = spread(SHAPES[name])
    cells = np.arange(len(points))[:: -1 if mirrored else 1]
    triangles, notes = cut(points, split(np.array([len(cells)]), cells, face), PATH)
    assert notes == ("1 polygons cut into triangles",)
    areas = signed(points, triangles)
    side = np.cross([1.0, 2.0, 2.0], [2.0, 1.0, -2.0]) / 9 * (-1 if mirrored else 1)
    # each has the polygon's side, and none overlaps another, since the areas add up
    assert len(triangles) == len(points) - 2
    assert (areas @ side > 0).all()
    assert np.linalg.norm(areas, axis=1).sum() == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"hole_by_a_bridge"}))
def test_the_triangles_are_the_same_wherever_a_polygon_begins(name: str) -> None:
    points = spread(SHAPES[name])
    cells = np.arange(len(points))
    found = []
    for turn in cells:
        triangles, _ = cut(points, split(np.array([len(cells)]), np.roll(cells, turn), face), PATH)
        found.append(sorted(sorted(of) for of in triangles.tolist()))
    assert all(of == found[0] for of in found)


@pytest.mark.parametrize("turn", range(4))
def test_a_concave_quadrangle_is_cut_inside(turn: int) -> None:
    points = spread(SHAPES["dart"], turn)
    triangles, _ = cut(points, split(np.array([4]), np.arange(4), face), PATH)
    inner = (3 - turn) % 4  # the corner that points inwards
    assert all(inner in of for of in triangles.tolist())


@pytest.mark.parametrize(
    "shape",
    [
        [(0, 0), (1, 1), (1, 0), (0, 1)],
        [(0, 0), (2, 0), (2, 2), (1, -1), (0, 2)],
        [(np.cos(t), np.sin(t)) for t in np.arange(5) * 4 * np.pi / 5],
        [(0, 0), (1, 0), (2, 0), (3, 0)],
        [(0, 0), (1, 0), (1, 0), (1, 1)],
        [(0, 0), (0, 0), (0, 0), (0, 0)],
        [(0, 0), (1, 0), (0, 0), (0, 1)],
    ],
)
def test_polygons_without_an_inside_are_refused(shape: list[tuple[float, float]]) -> None:
    points = spread(shape)
    blocks = split(np.array([3, len(points)]), np.array([0, 1, 2, *range(len(points))]), face)
    with pytest.raises(ReproError, match=r"cannot be cut[\s\S]*corners, number 1 \(counted from 0\)") as told:
        cut(points, blocks, PATH)
    assert told.value.where == PATH


def test_polygons_that_are_not_plane_are_noted() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0.1], [0, 1, 0], [2, 0, 0], [2, 1, 0.1]])
    blocks = split(np.array([4, 4]), np.array([0, 1, 2, 3, 1, 4, 5, 2]), face)
    triangles, notes = cut(points, blocks, PATH)
    assert len(triangles) == 4
    assert notes == ("2 polygons cut into triangles", "1 of them with corners that are not in one plane")


def test_faces_keep_the_order_of_the_file() -> None:
    points = np.array([[x, y, 0] for x in range(4) for y in range(2)], dtype=float)
    cells = [[0, 2, 3, 1], [2, 4, 5], [2, 5, 3], [4, 6, 7, 5]]
    blocks = split(np.array([len(of) for of in cells]), np.concatenate(cells), face)
    triangles, _ = cut(points, blocks, PATH)
    assert [set(of) for of in triangles.tolist()] == [
        {0, 2, 3}, {0, 3, 1}, {2, 4, 5}, {2, 5, 3}, {4, 6, 7}, {4, 7, 5}
    ]  # fmt: skip


def test_many_and_large_polygons(tmp_path: Path) -> None:
    """Fans of all at once, and ears of one with many corners."""
    flat = np.array([SHAPES["dart"]] * 50_000, dtype=float).reshape(-1, 2)
    points = np.column_stack([flat, np.zeros(len(flat))])
    triangles, _ = cut(points, split(np.full(50_000, 4), np.arange(len(points)), face), PATH)
    assert np.linalg.norm(signed(points, triangles), axis=1).sum() == pytest.approx(50_000 * 1.5)
    angle = np.arange(400) * np.pi / 200
    star = np.column_stack([np.cos(angle), np.sin(angle), 0 * angle]) * np.where(np.arange(400) % 2, 1, 0.6)[:, None]
    triangles, _ = cut(star, split(np.array([400]), np.arange(400), face), PATH)
    wanted = (star[:, 0] @ np.roll(star[:, 1], -1) - star[:, 1] @ np.roll(star[:, 0], -1)) / 2
    assert signed(star, triangles)[:, 2].min() > 0
    assert signed(star, triangles)[:, 2].sum() == pytest.approx(wanted)
