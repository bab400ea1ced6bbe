"""The mesh of chapter 4: cubes of a periodic unit cube, six tetrahedra each, and a field on it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.galerkin.basis import evaluate
from repro.galerkin.quadrature import evaluation_rule, exact_for
from repro.problems.field import Field

Floats = NDArray[np.float64]
#: A function of points `(n, 3)`: `(n,)`.
Function = Callable[[Floats], Floats]

#: Cubes in each direction (King 2017, section 4.3): 6000 tetrahedra.
PAPERS_COUNT = 10


def kuhn_cubes(count: int) -> tuple[Floats, NDArray[np.int32]]:
    """Return the unit cube as count³ cubes, each split into the six tetrahedra around its diagonal (Kuhn 1960).

    The paper names no split; this one gives the 750 tetrahedra that it says a stencil of its first degree meets.

    Returns
    -------
    vertices
        float64 `((count + 1)³, 3)`.
    cells
        int32 `(6 count³, 4)`, of positive volume; those of a cube follow each other, the last direction fastest.

    Raises
    ------
    ReproError
        There is no cube.
    """
    if count < 1:
        raise ReproError("a mesh of no cubes", expected="1 or more in each direction", actual=count)
    grid = np.indices((count + 1,) * 3).reshape(3, -1).T
    vertices = grid / count
    strides = np.array([(count + 1) ** 2, count + 1, 1])
    corners = (np.indices((count,) * 3).reshape(3, -1).T @ strides)[:, None]
    paths = []
    for order in permutations(range(3)):
        path = np.concatenate([[0], np.cumsum(strides[list(order)])])
        even = np.linalg.det(np.eye(3)[list(order)]) > 0
        paths.append(path if even else path[[0, 1, 3, 2]])
    cells = corners[:, :, None] + np.stack(paths)[None]
    return vertices, cells.reshape(-1, 4).astype(np.int32)


def waves(points: Floats) -> Floats:
    """Return the product of one wave in each direction at points `(n, 3)`: `(n,)`."""
    values: Floats = np.prod(np.sin(2 * np.pi * points), axis=1)
    return values


def cube_field(name: str, count: int, degree: int, function: Function = waves, basis: str = "dubiner") -> Field:
    """Return a function's projection onto polynomials of each tetrahedron, by least squares.

    Parameters
    ----------
    count
        Cubes in each direction.
    degree
        Of the polynomials; the quadrature is exact for functions that are polynomials of a degree higher by two.

    Raises
    ------
    ReproError
        There is no cube.
    """
    vertices, cells = kuhn_cubes(count)
    rule = exact_for(2 * degree + 2, 3)
    values = evaluate(basis, rule.points, degree)
    weighted = rule.weights[:, None] * values
    # the least squares' matrix is that of the reference simplex: the volume of a cell is on both sides
    project = np.linalg.solve(values.T @ weighted, weighted.T)
    corners = vertices[cells]
    places = to_cells(corners, rule.points)
    modes = function(places.reshape(-1, 3)).reshape(len(cells), -1) @ project.T
    origin = {"generated": f"{count} cubes in each direction, six tetrahedra each"}
    return Field(
        name=name,
        origin=origin,
        statistics={},
        vertices=vertices,
        cells=cells,
        degree=degree,
        basis=basis,
        modes=modes,
        periodic=True,
    ).complete()


def to_cells(corners: Floats, points: Floats) -> Floats:
    """Return points of the reference simplex `(q, 3)` in each cell of corners `(c, 4, 3)`: `(c, q, 3)`."""
    edges = corners[:, 1:] - corners[:, :1]
    places: Floats = corners[:, :1] + points @ edges
    return places


def evaluation_points(field: Field) -> Floats:
    """Return where the filtered field is wanted: the quadrature points of each cell, `(c q, 3)`, cell by cell."""
    rule = evaluation_rule(field.degree, field.dimension)
    return to_cells(field.vertices[field.cells], rule.points).reshape(-1, field.dimension)
