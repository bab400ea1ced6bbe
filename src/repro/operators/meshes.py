"""From what a user has, meshes, points and numbers, to what a filter of a field is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.casts import cast
from repro.errors import ReproError
from repro.filtering.local_scales import at_points, within_triangles
from repro.filtering.render import DEGREES
from repro.filtering.triangulation import Triangulation, of_field, triangulation
from repro.galerkin.basis import BASES
from repro.galerkin.quadrature import evaluation_rule
from repro.operators.room import one_of, whole_number
from repro.problems.field import Field

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: The word for an h of each point, as long as the edges around it.
LOCAL = "local"
#: Cells of a mesh that have no area, which are passed over.
WITHOUT_AREA = ("vertex", "line", "line3")


def as_triangulation(mesh: Any) -> tuple[Triangulation, Flags | None]:
    """Return a mesh counterclockwise, and which of its triangles came clockwise.

    Raises
    ------
    ReproError
    """
    if isinstance(mesh, Field):
        return of_field(mesh), None
    if hasattr(mesh, "points") and hasattr(mesh, "cells_dict"):
        vertices, cells = _of_meshio(mesh)
    elif isinstance(mesh, (tuple, list)) and len(mesh) == 2:
        vertices, cells = _numbers(mesh[0], "the vertices"), _array(mesh[1], "the triangles")
    else:
        raise ReproError(
            "this is no mesh",
            where="mesh",
            expected="vertices and triangles, a mesh of meshio, or a Field",
            actual=type(mesh).__name__,
        )
    made = triangulation(vertices, cells)
    return made, made.triangles[:, 1] != cells[:, 1]


def _of_meshio(mesh: Any) -> tuple[Floats, NDArray[Any]]:
    cells, points = mesh.cells_dict, _numbers(mesh.points, "the vertices")
    if not isinstance(cells, Mapping) or points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ReproError(
            "this is no mesh of meshio",
            where="mesh",
            expected="points (v, 2) or (v, 3), and cells by their kind",
            actual=f"{points.shape}, and {type(cells).__name__}",
        )
    kinds = set(cells) - set(WITHOUT_AREA)
    if kinds != {"triangle"}:
        raise ReproError(
            "the mesh is not of triangles alone", where="mesh", expected="triangle", actual=", ".join(sorted(kinds))
        )
    if len(points) and points.shape[1] == 3 and np.ptp(points[:, 2]) != 0:
        raise ReproError("the mesh is not in a plane", where="mesh", expected="one z", actual=np.ptp(points[:, 2]))
    return points[:, :2], _array(cells["triangle"], "the triangles")


def as_polynomials(mesh: Any, degree: int | None, basis: str | None) -> tuple[int, str]:
    """Return degree and basis, which a field has of its own.

    Raises
    ------
    ReproError
    """
    if isinstance(mesh, Field):
        for what, given, own in (("degree", degree, mesh.degree), ("basis", basis, mesh.basis)):
            if given not in (None, own):
                raise ReproError(f"the field has another {what}", where=what, expected=own, actual=given)
        degree, basis = mesh.degree, mesh.basis
    elif degree is None:
        raise ReproError("the degree is not given", where="degree", expected="that of the field's polynomials")
    basis = "dubiner" if basis is None else basis
    one_of(basis, "basis", tuple(BASES))
    return whole_number(degree, "degree", DEGREES[0], DEGREES[-1]), basis


def as_points(points: Any, mesh: Triangulation) -> Floats:
    """Return points as they were given, if they can be filtered at.

    Raises
    ------
    ReproError
    """
    there = np.array(_numbers(points, "points"))
    mesh.wrapped(there)
    return there


def as_scale(scale: Any, mesh: Triangulation, degree: int, points: Floats | None) -> Floats | None:
    """Return the scale of a filter, `()`, or those of its points, `(n,)`; None: the longest edge.

    Parameters
    ----------
    scale
        As it was given.
    mesh, degree, points
        What is filtered, and where; None: at the quadrature points.

    Raises
    ------
    ReproError
    """
    if scale is None:
        return None
    if not isinstance(scale, str):
        return _numbers(scale, "scale")
    one_of(scale, "scale", (LOCAL,))
    return within_triangles(mesh, evaluation_rule(degree, 2).points) if points is None else at_points(mesh, points)


def as_orders(derivative: Any) -> tuple[int, int]:
    """Return the orders of a derivative along x and y.

    Raises
    ------
    ReproError
    """
    try:
        along_x, along_y = (int(whole_number(order, "derivative", 0, DEGREES[-1])) for order in derivative)
    except (TypeError, ValueError):
        raise ReproError(
            "this is no derivative", where="derivative", expected="its orders along x and y", actual=repr(derivative)
        ) from None
    return along_x, along_y


def _numbers(array: Any, what: str) -> Floats:
    numbers = _array(array, what)
    if numbers.dtype.kind not in "fiu":
        raise ReproError("these are no real numbers", where=what, actual=numbers.dtype)
    return cast(numbers, np.float64, what)


def _array(array: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(array)
    except ValueError as error:
        raise ReproError("this is no array", where=what, actual=error) from None
