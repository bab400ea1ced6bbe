"""Problems that consist of a discontinuous Galerkin field on a mesh, and the meshes and functions of generated ones.

The mesh of a generated field is a triangulation of the unit square or consists
of tetrahedra in the unit cube. King 2017 (chapters 3 and 4) describes but does not list Delaunay triangulations of
"low" and "high variance" (figures 3.8 and 3.9) and 10 x 10 x 10 hexahedra with six tetrahedra each (section 4.2).
Generators and the two ratios for the variance are therefore this project's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from math import log, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembly import DEGENERATE, Floats, longest_edges
from repro.problems.problem import Outline, Problem, check_array, index_range_text, infinite, outside, quantiles, refuse

DIMENSIONS = (2, 3)


@dataclass(frozen=True, repr=False)
class Field(Problem):
    """A mesh of triangles or tetrahedra with one polynomial per cell."""

    kind: ClassVar[str] = "field"

    #: `(v, d)` with d = 2 or 3; some vertices may be unused.
    vertices: NDArray[np.float64]
    #: `(c, d + 1)` vertex numbers; triangles are counterclockwise, tetrahedra have positive volume.
    cells: NDArray[np.int32]
    #: P, the degree of the polynomials.
    degree: int
    #: Name of the polynomial basis, such as `dubiner`; it defines order and scale of the modes.
    basis: str
    #: `(c, m)` coefficients; m is the binomial coefficient of P + d over d.
    modes: NDArray[np.float64]
    #: Whether the field is periodic in the bounding box of the vertices.
    periodic: bool

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return int(self.vertices.shape[-1])

    @property
    def volumes(self) -> Floats:
        """Signed areas or volumes of the cells, `(c,)`."""
        corners = self.vertices[self.cells]
        volumes: Floats = np.linalg.det(corners[:, 1:] - corners[:, :1]) / math.factorial(self.dimension)
        return volumes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"vertices": self.vertices, "cells": self.cells, "modes": self.modes}

    def traits(self) -> Mapping[str, Any]:
        return {"degree": self.degree, "basis": self.basis, "periodic": self.periodic}

    def validate(self) -> Self:
        """Return the field; raise `ReproError` for invalid arrays, cells, modes or numbers."""
        d, count = self.dimension, len(self.cells)
        if self.vertices.ndim != 2 or d not in DIMENSIONS:
            shape = self.vertices.shape
            raise ReproError("the vertices have the wrong shape", where=self.name, expected="(v, 2 or 3)", actual=shape)
        if self.degree < 0:
            raise ReproError("the degree is negative", where=self.name, expected="0 or more", actual=self.degree)
        if not self.basis:
            raise ReproError("the basis has no name", where=self.name, expected="a name such as dubiner")
        if not count:
            raise ReproError("the mesh has no cells", where=self.name)
        check_array(self.name, "vertices", self.vertices, np.float64, self.vertices.shape)
        check_array(self.name, "cells", self.cells, np.int32, (count, d + 1))
        check_array(self.name, "modes", self.modes, np.float64, (count, math.comb(self.degree + d, d)))
        vertex_range = f"vertices {index_range_text(len(self.vertices))}"
        is_outside = np.any(outside(self.cells, len(self.vertices)), axis=1)
        self._refuse("cell", is_outside, "the mesh has cells with vertices that do not exist", vertex_range)
        endless, finite = infinite(self.vertices), "finite numbers"
        self._refuse("vertex", endless, "the mesh has vertices with NaN or infinite coordinates", finite)
        self._refuse("cell", infinite(self.modes), "the field has NaN or infinite modes", finite)
        volumes = self.volumes
        is_degenerate = np.abs(volumes) <= DEGENERATE * longest_edges(self.vertices[self.cells]) ** d
        min_volume_text = f"more than {DEGENERATE:g} of the longest edge to the power of {d}"
        self._refuse("cell", is_degenerate, "the mesh has degenerate cells", min_volume_text)
        self._refuse("cell", volumes < 0, "the mesh has inverted cells", "positive volumes: exchange two vertices")
        return self

    def _refuse(self, item: str, mask: NDArray[Any], what: str, expected: str) -> None:
        refuse(self.name, what, mask, location=lambda i: f"{item} {i}", expected=expected)

    def outline(self) -> Outline:
        size = len(self.cells), self.modes.size
        return Outline(self.name, self.kind, definition={"parameters": {"degree": self.degree}}, size=size)

    def describe(self) -> dict[str, Any]:
        """Return counts, and quantiles of cell volumes and edge lengths; each cell counts all its edges."""
        corners, pairs = self.vertices[self.cells], combinations(range(self.dimension + 1), 2)
        lengths = [np.linalg.norm(corners[:, i] - corners[:, j], axis=1) for i, j in pairs]
        volumes, edges = self.volumes, quantiles(np.concatenate(lengths))
        return {
            "cells": len(self.cells),
            "unused_vertices": len(self.vertices) - len(np.unique(self.cells)),
            "volume": quantiles(volumes),
            "total_volume": float(volumes.sum()),
            "edge": edges,
            "longest_edge": edges["max"],
            "mean_edge": edges["mean"],
        }

    def summary(self) -> dict[str, Any]:
        return {
            "dimension": self.dimension,
            "vertices": len(self.vertices),
            "cells": len(self.cells),
            "degree": self.degree,
            "basis": self.basis,
            "modes": self.modes.shape[1],
            "periodic": self.periodic,
        }

    def info(self) -> list[tuple[str, str]]:
        return [
            ("dimension", f"{self.dimension}"),
            ("vertices", f"{len(self.vertices):,}"),
            ("cells", f"{len(self.cells):,}"),
            ("degree", f"{self.degree}"),
            ("basis", self.basis),
            ("modes a cell", f"{self.modes.shape[1]}"),
            ("periodic", "yes" if self.periodic else "no"),
        ]


Triangulation = tuple[Floats, NDArray[np.int32]]

#: Maximum displacement of a vertex, relative to the lattice spacing.
JITTER = 0.22
#: Spacing of the last row of vertices divided by the spacing of the first row, for each variance.
GRADING = {"low": 1.0, "high": 3.3}


def delaunay_square(triangles: int, variance: str = "low", seed: int = 1) -> Triangulation:
    """Triangulate the unit square: about `triangles` (at least 8) cells by Delaunay's criterion.

    The vertices are a hexagonal lattice, displaced at random by up to `JITTER` times the spacing. Vertices on the
    border move only along it; vertices on opposite sides do not match. The spacing is constant, or grows geometrically
    from the first to the last row by the factor `GRADING`. Random numbers come from `random` of NumPy's PCG64, whose
    output NumPy guarantees to keep.

    Parameters
    ----------
    variance
        Variance of triangle sizes. `low`: the longest edge is about 1.55 times the edge of equally many equilateral
        triangles. `high`: the longest edge is about 2.9 times the mean edge.

    Returns
    -------
    vertices, cells
        float64 `(v, 2)`, row by row; int32 `(c, 3)`, sorted, counterclockwise from the lowest vertex number.
    """
    from scipy.spatial import Delaunay  # slow to import

    grading = GRADING[variance]
    counts, heights, spacing = _rows(triangles, grading)
    last_row = len(counts) - 1
    # Every second row is shifted by half a spacing and has additional vertices on the border.
    is_shifted = np.arange(len(counts)) % 2 == 1
    lengths = counts + 1 + is_shifted
    row = np.repeat(np.arange(len(counts)), lengths)
    column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    points = np.stack([(column - 0.5 * is_shifted[row]) / counts[row], heights[row]], axis=1)
    np.clip(points, 0.0, 1.0, out=points)
    rng = np.random.Generator(np.random.PCG64(seed))
    displacement = JITTER * spacing[row, None] * (2.0 * rng.random(points.shape) - 1.0)
    displacement[(column == 0) | (column == lengths[row] - 1), 0] = 0.0
    displacement[(row == 0) | (row == last_row), 1] = 0.0
    points += displacement
    return points, ordered_triangles(points, Delaunay(points).simplices)


def _rows(triangles: int, grading: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return for each row of the lattice: number of spacings, height, and spacing."""
    # Rows with spacing h have a distance of sqrt(3)/2 h; integrating h**-2 over the height gives the number of
    # triangles.
    share = log(grading) ** 2 / ((grading - 1.0) * (1.0 - 1.0 / grading)) if grading > 1.0 else 1.0
    rows = max(2, round(sqrt(triangles * share / sqrt(3.0))))
    fractions = np.arange(rows + 1) / rows
    growth = grading**fractions
    heights = (growth - 1.0) / (grading - 1.0) if grading > 1.0 else fractions
    distance = growth * (log(grading) / (grading - 1.0) if grading > 1.0 else 1.0) / rows
    counts = np.maximum(np.rint(sqrt(0.75) / distance).astype(np.int64), 1)
    heights[-1] = 1.0
    return counts, heights, distance / sqrt(0.75)


def ordered_triangles(points: Floats, simplices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return sorted triangles without flat ones; each is counterclockwise and starts at its lowest vertex number."""
    corners = points[simplices]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    double_areas = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    cells = np.where((double_areas < 0)[:, None], simplices[:, ::-1], simplices)
    # Three vertices on one side of the square may form a flat triangle.
    cells = cells[np.abs(double_areas) > 1e-12 * (a * a + b * b).sum(axis=1)]
    first = np.argmin(cells, axis=1)
    cells = np.take_along_axis(cells, (first[:, None] + np.arange(3)) % 3, axis=1)
    return np.ascontiguousarray(cells[np.lexsort(cells.T[::-1])], dtype=np.int32)


def structured_square(squares: int) -> Triangulation:
    return _kuhn(squares, 2)


def kuhn_cube(cubes: int) -> Triangulation:
    return _kuhn(cubes, 3)


def _kuhn(count: int, dimension: int) -> Triangulation:
    """Divide each cell of a lattice into simplices along paths from its lowest to its highest corner (Kuhn)."""
    strides = (count + 1) ** np.arange(dimension)
    grid = np.stack(np.meshgrid(*[np.arange(count + 1)] * dimension, indexing="ij")[::-1], axis=-1)
    vertices = grid.reshape(-1, dimension) / count
    corners = np.stack(np.meshgrid(*[np.arange(count)] * dimension, indexing="ij")[::-1], axis=-1)
    first_corners = corners.reshape(-1, dimension) @ strides
    paths = []
    for order in permutations(range(dimension)):
        path = [0, *np.cumsum(strides[list(order)])]
        if np.linalg.det(np.eye(dimension)[list(order)]) < 0:
            path[-1], path[-2] = path[-2], path[-1]
        paths.append(path)
    cells = (first_corners[:, None, None] + np.array(paths)).reshape(-1, dimension + 1)
    return vertices, cells.astype(np.int32)


#: Maximum degree of a field.
MAX_DEGREE = 7
BASIS = "dubiner"


def _sine(points: Floats) -> Floats:
    values: Floats = np.prod(np.sin(2 * np.pi * points), axis=1)
    return values


def _waves(points: Floats) -> Floats:
    order = np.arange(1, points.shape[1] + 1)
    values: Floats = np.exp(np.sin(2 * np.pi * points + order).sum(axis=1))
    return values


def _constant(points: Floats) -> Floats:
    return np.ones(len(points))


#: Analytic functions from points `(n, d)` to values `(n,)`, with period 1 in each direction; `waves` has all harmonics.
FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {"sine": _sine, "waves": _waves, "constant": _constant}
