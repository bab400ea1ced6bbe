"""Triangulations of the unit square to filter on, and fields of polynomials."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from scipy.spatial import Delaunay

from repro.filtering.grids import Triangulation, triangulation
from repro.galerkin import evaluate, exact_for, exponents


def structured(n: int, shear: float = 0.0) -> Triangulation:
    """Return n² squares, each cut along a diagonal; `shear` moves what lies inside the border along itself."""
    x, y = np.meshgrid(np.arange(n + 1) / n, np.arange(n + 1) / n)
    x = x + shear * np.sin(np.pi * x) * np.sin(np.pi * y)
    first = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    lower = np.stack([first, first + 1, first + n + 2], axis=1)
    upper = np.stack([first, first + n + 2, first + n + 1], axis=1)
    return triangulation(np.stack([x.ravel(), y.ravel()], axis=1), np.stack([lower, upper], axis=1).reshape(-1, 3))


def delaunay(points: np.ndarray) -> Triangulation:
    """Return the Delaunay triangulation, without its triangles of area zero at straight borders."""
    triangles = Delaunay(points).simplices
    a, b, c = (points[triangles[:, i]] for i in range(3))
    twice = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    return triangulation(points, triangles[np.abs(twice) > 1e-13])


def hexagonal(n: int, jitter: float = 0.22, seed: int = 1) -> Triangulation:
    """Return Delaunay's triangulation of a hexagonal lattice, n points a row, moved by parts of its spacing inside."""
    rows = round(n * 2 / np.sqrt(3))
    even, odd = np.arange(n + 1) / n, np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [1.0]])
    points = np.concatenate(
        [np.stack([odd if j % 2 else even, np.full(n + 1 + j % 2, j / rows)], axis=1) for j in range(rows + 1)]
    )
    inside = ((points > 0) & (points < 1)).all(axis=1)
    moved = np.random.default_rng(seed).uniform(-jitter / n, jitter / n, points.shape)
    points[inside] += moved[inside]
    return delaunay(np.clip(points, 0.0, 1.0))


def graded(n: int, power: float = 2.0) -> Triangulation:
    """Return a triangulation whose triangles become smaller towards a corner."""
    mesh = hexagonal(n)
    return delaunay(mesh.vertices**power)


def one_huge(n: int = 6) -> Triangulation:
    """Return a triangle of half the square, and beside it n fans towards its corner: many thin, short ones."""
    t = np.linspace(0.0, 1.0, n + 1)[1:-1]
    diagonal = np.stack([1.0 - t, t], axis=1)
    points = np.concatenate([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], diagonal])
    along = np.array([1, *range(4, 4 + n - 1), 2])
    small = np.stack([along[:-1], np.full(n, 3), along[1:]], axis=1)
    return triangulation(points, np.concatenate([[[0, 1, 2]], small]))


def sliver(thickness: float) -> Triangulation:
    """Return four triangles of which one lies along the diagonal, as thin as that."""
    points = [[0, 0], [1, 0], [0, 1], [1, 1], [0.5 + thickness, 0.5 - thickness]]
    return triangulation(points, [[0, 1, 4], [1, 3, 4], [0, 4, 3], [0, 3, 2]])


def clipped_area(polygon: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Return the area of a convex polygon within a box, one edge of the box after the other."""
    corners = [tuple(map(float, corner)) for corner in polygon]
    for axis in range(2):
        for bound, sign in ((low[axis], 1.0), (high[axis], -1.0)):
            left = []
            for here, there in zip(corners, corners[1:] + corners[:1], strict=True):
                d, e = sign * (here[axis] - bound), sign * (there[axis] - bound)
                if d >= 0:
                    left.append(here)
                if d * e < 0:
                    left.append(tuple(h + d / (d - e) * (t - h) for h, t in zip(here, there, strict=True)))
            corners = left
    following = corners[1:] + corners[:1]
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(corners, following, strict=True)) / 2


def project(mesh: Triangulation, function: Callable, degree: int, basis: str = "dubiner", extra: int = 8) -> np.ndarray:
    """Return the modes of the L² projection of a function of x and y, `(t, m)`."""
    rule = exact_for(2 * degree + extra, 2)
    first = mesh.corners[:, :1]
    points = first + rule.points @ (mesh.corners[:, 1:] - first)
    values = function(points[..., 0], points[..., 1])
    functions = evaluate(basis, rule.points, degree)
    weighted = functions * rule.weights[:, None]
    return np.linalg.solve(functions.T @ weighted, (values @ weighted).T).T


def exact_modes(mesh: Triangulation, a: int, b: int) -> np.ndarray:
    """Return the modes of x^a y^b in monomials of degree a + b of each triangle, multiplied out: `(t, m)`."""
    places = {tuple(row): i for i, row in enumerate(exponents(a + b, 2))}
    modes = np.zeros((len(mesh.triangles), len(places)))
    first = mesh.corners[:, 0]
    sides = mesh.corners[:, 1:] - mesh.corners[:, :1]

    def powers(axis: int, power: int) -> dict[tuple[int, int], np.ndarray]:
        # (x0 + r x1 + s x2)^power
        x0, x1, x2 = first[:, axis], sides[:, 0, axis], sides[:, 1, axis]
        return {
            (i, j): comb(power, i) * comb(power - i, j) * x1**i * x2**j * x0 ** (power - i - j)
            for i in range(power + 1)
            for j in range(power + 1 - i)
        }

    for (i, j), left in powers(0, a).items():
        for (k, m), right in powers(1, b).items():
            modes[:, places[i + k, j + m]] += left * right
    return modes
