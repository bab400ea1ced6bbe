"""Discontinuous fields on meshes of simplices: the projection of a function, and cells numbered otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from repro.galerkin.basis import evaluate, mode_count
from repro.galerkin.quadrature import exact_for

Floats = NDArray[np.float64]

#: Quadrature points of the cells that are projected on at a time.
_AT_A_TIME = 1 << 20
#: How far the quadrature's degree lies above twice the field's, for functions that are no polynomials.
_BEYOND = 8


def project(
    function: Callable[[Floats], Floats],
    vertices: Floats,
    cells: NDArray[np.int32],
    degree: int,
    basis: str = "dubiner",
) -> Floats:
    """Return the modes of the L2 projection of a function on the polynomials of each cell.

    Parameters
    ----------
    function
        Gives its values `(n,)` at points `(n, d)`.
    vertices, cells
        float64 `(v, d)` and int32 `(c, d + 1)`.
    degree
        P, of the polynomials. The quadrature is exact for degree 2 P + 8.
    basis
        One of `repro.galerkin.basis.BASES`.

    Returns
    -------
    modes
        float64 `(c, m)`.

    Raises
    ------
    KeyError
        There is no basis of this name.
    """
    dimension = vertices.shape[1]
    rule = exact_for(2 * degree + _BEYOND, dimension)
    functions = evaluate(basis, rule.points, degree)
    # a cell's size stands on both sides of its normal equations
    mass = functions.T @ (rule.weights[:, None] * functions)
    moments = np.linalg.solve(mass, (rule.weights[:, None] * functions).T).T
    modes = np.empty((len(cells), mode_count(degree, dimension)))
    step = max(1, _AT_A_TIME // len(rule.weights))
    for start in range(0, len(cells), step):
        corners = vertices[cells[start : start + step]]
        edges = corners[:, 1:] - corners[:, :1]
        points = corners[:, :1] + rule.points @ edges
        values = function(points.reshape(-1, dimension)).reshape(len(corners), -1)
        modes[start : start + step] = values @ moments
    return modes


def exchange_last(basis: str, degree: int, dimension: int) -> Floats:
    """Return what the modes of a cell are multiplied with when its last two vertices are exchanged.

    The polynomial stays what it is, and its coefficients do not, since the basis belongs to the corners' order.

    Returns
    -------
    matrix
        float64 `(m, m)`: the new modes are `matrix @ modes`.

    Raises
    ------
    KeyError
        There is no basis of this name.
    """
    rule = exact_for(2 * degree, dimension)
    order = [*range(dimension - 2), dimension - 1, dimension - 2]  # of the coordinates, which belong to corners 1 to d
    functions, exchanged = evaluate(basis, rule.points, degree), evaluate(basis, rule.points[:, order], degree)
    weighted = rule.weights[:, None] * functions
    matrix: Floats = np.asarray(np.linalg.solve(weighted.T @ functions, weighted.T @ exchanged), np.float64)
    return matrix
