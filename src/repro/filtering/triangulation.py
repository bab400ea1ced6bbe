"""Triangulations of a periodic rectangle, on which fields are filtered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.errors import ReproError
from repro.galerkin import evaluation_rule
from repro.problems.assembly import DEGENERATE, longest_edges
from repro.problems.field import Field
from repro.problems.problem import infinite, outside, refuse

Floats = NDArray[np.float64]
#: Tolerance, relative to the box, for the sum of the triangles' areas and for the means of `MEANS` over all triangles.
COVERED = 1e-10
#: Means of x, y, x², x y and y² over the unit square.
MEANS = np.array([1 / 2, 1 / 2, 1 / 3, 1 / 4, 1 / 3])


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Triangles that cover a periodic box exactly once; the box is the bounding box of the vertices.

    Vertices on opposite sides of the box need not match, since fields are discontinuous.
    """

    vertices: Floats
    #: int32 `(t, 3)`, counterclockwise.
    triangles: NDArray[np.int32]
    #: Number of triangles that were given clockwise; their last two vertices were exchanged, so modes need conversion.
    flipped: int

    @cached_property
    def lower(self) -> Floats:
        return np.asarray(self.vertices.min(axis=0), np.float64)

    @cached_property
    def period(self) -> Floats:
        return np.asarray(self.vertices.max(axis=0) - self.lower, np.float64)

    @cached_property
    def corners(self) -> Floats:
        """Coordinates of the corners of each triangle, float64 `(t, 3, 2)`."""
        return np.asarray(self.vertices[self.triangles], np.float64)

    @cached_property
    def areas(self) -> Floats:
        return _signed_areas(self.corners)

    @cached_property
    def longest(self) -> float:
        """Length s of the longest edge, which King 2017 uses as h (section 3.2)."""
        return float(longest_edges(self.corners).max())

    def wrapped(self, points: ArrayLike) -> Floats:
        """Move points into the box by multiples of the period; if no point is outside, return the array itself."""
        coordinates = np.asarray(points, np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != 2:
            raise ReproError("the points do not fit", expected="(n, 2)", actual=coordinates.shape)
        refuse(
            "the points",
            "points are not finite",
            infinite(coordinates),
            location=lambda i: f"{i}",
            expected="finite numbers",
        )
        in_period = (coordinates >= self.lower) & (coordinates <= self.lower + self.period)
        if in_period.all():
            return coordinates
        wrapped_points = np.mod(coordinates - self.lower, self.period) + self.lower
        return np.where(in_period, coordinates, wrapped_points)  # points inside keep their bits


def triangulation(vertices: ArrayLike, triangles: ArrayLike, where: str = "the mesh") -> Triangulation:
    """Check a mesh with vertices `(v, 2)` and triangles `(t, 3)`, and turn its triangles counterclockwise.

    The bounding box of the vertices is the period; `where` names the mesh in errors. Hanging nodes are allowed. It
    raises `ReproError` for invalid shapes, vertices or triangles, and for gaps and overlaps. These are found from the
    sum of the areas, and from means of coordinates if gaps are as large as overlaps. Tiny gaps and overlaps are not
    found; rows of the filter near them do not add up to 1.
    """
    points, cells = np.asarray(vertices, np.float64), np.asarray(triangles)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ReproError("the vertices have the wrong shape", where=where, expected="(v, 2)", actual=points.shape)
    if not cells.size:
        raise ReproError("the mesh has no triangles", where=where)
    if cells.ndim != 2 or cells.shape[1] != 3 or cells.dtype.kind not in "iu":
        actual = f"{cells.dtype} {cells.shape}"
        raise ReproError("the triangles do not fit", where=where, expected="whole numbers (t, 3)", actual=actual)
    endless, absent = infinite(points), np.any(outside(cells, len(points)), axis=1)
    refuse(
        where,
        "the mesh has vertices that are not finite",
        endless,
        location="vertex {}".format,
        expected="finite numbers",
    )
    numbers = f"vertices 0 to {len(points) - 1}"
    refuse(
        where,
        "the mesh has triangles with vertices that do not exist",
        absent,
        location="triangle {}".format,
        expected=numbers,
    )
    cells = cells.astype(np.int32)
    corners = points[cells]
    areas = _signed_areas(corners)
    thin = np.abs(areas) <= DEGENERATE * longest_edges(corners) ** 2
    thick = f"an area of more than {DEGENERATE:g} of the longest edge squared"
    refuse(where, "the mesh has degenerate triangles", thin, location="triangle {}".format, expected=thick)
    clockwise = areas < 0
    cells[clockwise] = cells[clockwise][:, [0, 2, 1]]
    mesh = Triangulation(points, cells, int(np.count_nonzero(clockwise)))
    total_area, box = float(np.abs(areas).sum()), float(mesh.period.prod())
    if abs(total_area - box) > COVERED * box:
        raise ReproError(
            "the triangles do not cover their box exactly once: there are gaps or overlaps",
            where=where,
            expected=f"areas that add up to {box:.17g}, the area of the box around all vertices",
            actual=f"{total_area:.17g}",
        )
    means = _means(mesh)
    if (np.abs(means - MEANS) > COVERED).any():
        raise ReproError(
            "the triangles do not cover their box exactly once: there are gaps, and overlaps of the same area",
            where=where,
            expected=f"means of x, y, x², x y, y² over all triangles, on the unit square, of {_number_list(MEANS)}",
            actual=_number_list(means),
            todo="look for duplicate and missing triangles",
        )
    return mesh


def of_field(field: Field) -> Triangulation:
    """Return the triangulation of a field in the plane, which must be periodic, as the filter cannot treat borders."""
    if field.dimension != 2:
        raise ReproError("the field is not in the plane", where=field.name, expected=2, actual=field.dimension)
    if not field.periodic:
        raise ReproError("the field is not periodic", where=field.name, expected="a periodic field")
    return triangulation(field.vertices, field.cells, field.name)


def evaluation_points(mesh: Triangulation, degree: int) -> Floats:
    """Return the Q = (P + 2)(P + 1) quadrature points of each triangle, `(t Q, 2)` (King 2017, section 4.2.2)."""
    rule = evaluation_rule(degree, 2).points
    first = mesh.corners[:, 0]
    sides = mesh.corners[:, 1:] - first[:, None]
    points: Floats = rule @ sides
    points += first[:, None]  # in place, as a second array of twenty million points takes longer than the rest
    return points.reshape(-1, 2)


def _signed_areas(corners: Floats) -> Floats:
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    areas: Floats = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    return areas


def _means(mesh: Triangulation) -> Floats:
    """Return the integrals of x, y, x², x y and y² over all triangles, after scaling the box to the unit square."""
    places = (mesh.corners - mesh.lower) / mesh.period
    areas = mesh.areas / mesh.period.prod()
    x, y = ([places[:, i, axis] for i in range(3)] for axis in range(2))
    along_x, along_y = x[0] + x[1] + x[2], y[0] + y[1] + y[2]

    def second(first: list[Floats], other: list[Floats], sums: Floats) -> float:
        return float(areas @ (first[0] * other[0] + first[1] * other[1] + first[2] * other[2] + sums)) / 12

    first = areas @ along_x / 3, areas @ along_y / 3
    squares = second(x, x, along_x**2), second(x, y, along_x * along_y), second(y, y, along_y**2)
    return np.array([*first, *squares])


def _number_list(numbers: Floats) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers)
