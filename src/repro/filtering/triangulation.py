"""Triangulations of a periodic rectangle, which fields to filter live on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.errors import ReproError
from repro.galerkin.quadrature import evaluation_rule
from repro.problems.field import Field
from repro.problems.meshes import DEGENERATE, longest_edges
from repro.problems.problem import infinite, outside, refuse

Floats = NDArray[np.float64]
#: By how much of the box's area the sum of the triangles' may differ from it, and their means from the box's.
COVERED = 1e-10
#: The means over the unit square of x, y, x², x y, y².
MEANS = np.array([1 / 2, 1 / 2, 1 / 3, 1 / 4, 1 / 3])


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Triangles that cover the box around their vertices once; the box goes on at its other side.

    Vertices at opposite sides of the box need not match, since the fields are discontinuous.

    Attributes
    ----------
    vertices
        float64 `(v, 2)`.
    triangles
        int32 `(t, 3)` vertex numbers, counterclockwise.
    flipped
        How many triangles came clockwise: their last two vertices are exchanged. Modes belong to the order in
        `triangles`; those of a field that was made for the other order have to be made again.
    """

    vertices: Floats
    triangles: NDArray[np.int32]
    flipped: int

    @cached_property
    def lower(self) -> Floats:
        """float64 `(2,)`, the least coordinates of the box."""
        return np.asarray(self.vertices.min(axis=0), np.float64)

    @cached_property
    def period(self) -> Floats:
        """float64 `(2,)`, the lengths of the box."""
        return np.asarray(self.vertices.max(axis=0) - self.lower, np.float64)

    @cached_property
    def corners(self) -> Floats:
        """float64 `(t, 3, 2)`, the vertices of each triangle."""
        return np.asarray(self.vertices[self.triangles], np.float64)

    @cached_property
    def areas(self) -> Floats:
        """float64 `(t,)`, positive."""
        return _signed(self.corners)

    @cached_property
    def longest(self) -> float:
        """s, the length of the longest edge of all triangles: the text's h (King 2017, section 3.2)."""
        return float(longest_edges(self.corners).max())

    def wrapped(self, points: ArrayLike) -> Floats:
        """Return points in the box, `(n, 2)`, those outside moved by multiples of the period; none moved, as given.

        Raises
        ------
        ReproError
            The points are not of two coordinates, or not all finite.
        """
        given = np.asarray(points, np.float64)
        if given.ndim != 2 or given.shape[1] != 2:
            raise ReproError("the points do not fit", expected="(n, 2)", actual=given.shape)
        refuse(
            "the points", "points are not finite", infinite(given), place=lambda i: f"{i}", expected="finite numbers"
        )
        inside = (given >= self.lower) & (given <= self.lower + self.period)
        if inside.all():
            return given
        moved = np.mod(given - self.lower, self.period) + self.lower
        return np.where(inside, given, moved)  # those inside are not rounded


def triangulation(vertices: ArrayLike, triangles: ArrayLike, where: str = "the mesh") -> Triangulation:
    """Check a mesh and turn its triangles counterclockwise.

    Hanging nodes are allowed where no area is missing: a field needs no common edges. Gaps and overlaps are noticed by
    areas, and by means where gaps are as large as overlaps; near others rows of the filter do not add up to 1.

    Parameters
    ----------
    vertices
        `(v, 2)`; the box around all of them is the period.
    triangles
        Whole numbers `(t, 3)`.
    where
        What messages call the mesh.

    Raises
    ------
    ReproError
        Shapes that do not fit, no triangles, coordinates that are not finite, vertices that do not exist, degenerate
        triangles, or triangles whose areas do not add up to the box's or lie twice where others are missing.
    """
    points, cells = np.asarray(vertices, np.float64), np.asarray(triangles)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ReproError("the vertices do not fit", where=where, expected="(v, 2)", actual=points.shape)
    if not cells.size:
        raise ReproError("the mesh has no triangles", where=where)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.dtype.kind not in "iu":
        actual = f"{cells.dtype} {cells.shape}"
        raise ReproError("the triangles do not fit", where=where, expected="whole numbers (t, 3)", actual=actual)
    endless, absent = infinite(points), np.any(outside(cells, len(points)), axis=1)
    refuse(where, "the mesh has vertices that are not finite", endless, place=_vertex, expected="finite numbers")
    numbers = f"vertices 0 to {len(points) - 1}"
    refuse(where, "the mesh has triangles with vertices that do not exist", absent, place=_triangle, expected=numbers)
    cells = cells.astype(np.int32)
    corners = points[cells]
    areas = _signed(corners)
    thin = np.abs(areas) <= DEGENERATE * longest_edges(corners) ** 2
    thick = f"an area of more than {DEGENERATE:g} of the longest edge squared"
    refuse(where, "the mesh has degenerate triangles", thin, place=_triangle, expected=thick)
    clockwise = areas < 0
    cells[clockwise] = cells[clockwise][:, [0, 2, 1]]
    mesh = Triangulation(points, cells, int(np.count_nonzero(clockwise)))
    covered, box = float(np.abs(areas).sum()), float(mesh.period.prod())
    if abs(covered - box) > COVERED * box:
        raise ReproError(
            "the triangles do not cover their box once: there are gaps or overlaps",
            where=where,
            expected=f"areas that add up to {box:.17g}, the area of the box around all vertices",
            actual=f"{covered:.17g}",
        )
    means = _means(mesh)
    if (np.abs(means - MEANS) > COVERED).any():
        raise ReproError(
            "the triangles do not cover their box once: there are gaps, and overlaps of the same area",
            where=where,
            expected=f"means of x, y, x², x y, y² over all triangles, on the unit square, of {_listed(MEANS)}",
            actual=_listed(means),
            todo="look for triangles that are there twice, and for others that are missing",
        )
    return mesh


def of_field(field: Field) -> Triangulation:
    """Return the triangulation of a field in the plane.

    Raises
    ------
    ReproError
        The field is not in the plane or not periodic (the kernel is symmetric, and would be cut off at the border),
        or as `triangulation`.
    """
    if field.dimension != 2:
        raise ReproError("the field is not in the plane", where=field.name, expected=2, actual=field.dimension)
    if not field.periodic:
        raise ReproError("the field is not periodic", where=field.name, expected="a periodic one: the kernel is whole")
    return triangulation(field.vertices, field.cells, field.name)


def evaluation_points(mesh: Triangulation, degree: int) -> Floats:
    """Return the quadrature points of all triangles, triangle by triangle: `(t Q, 2)`, Q = (P + 2)(P + 1).

    Parameters
    ----------
    mesh
        Of t triangles.
    degree
        P, of the field (King 2017, section 4.2.2, which Table 3.1's counts agree with).
    """
    rule = evaluation_rule(degree, 2).points
    first = mesh.corners[:, 0]
    sides = mesh.corners[:, 1:] - first[:, None]
    points: Floats = rule @ sides
    points += first[:, None]  # in place: of twenty million points a second array takes longer than all the rest
    return points.reshape(-1, 2)


def _signed(corners: Floats) -> Floats:
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas: Floats = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    return areas


def _means(mesh: Triangulation) -> Floats:
    """Return the integrals of x, y, x², x y, y² over all triangles, where the box is the unit square: `(5,)`."""
    places = (mesh.corners - mesh.lower) / mesh.period
    areas = mesh.areas / mesh.period.prod()
    x, y = ([places[:, i, axis] for i in range(3)] for axis in range(2))
    along_x, along_y = x[0] + x[1] + x[2], y[0] + y[1] + y[2]

    def second(one: list[Floats], other: list[Floats], sums: Floats) -> float:
        return float(areas @ (one[0] * other[0] + one[1] * other[1] + one[2] * other[2] + sums)) / 12

    first = areas @ along_x / 3, areas @ along_y / 3
    squares = second(x, x, along_x**2), second(x, y, along_x * along_y), second(y, y, along_y**2)
    return np.array([*first, *squares])


def _listed(numbers: Floats) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)


def _vertex(number: int) -> str:
    return f"vertex {number}"


def _triangle(number: int) -> str:
    return f"triangle {number}"
