"""Problems that are a discontinuous Galerkin field on a mesh, and generated ones of them.

A generated field is an analytic function that is projected on a triangulation of the unit square or on tetrahedra
of the unit cube, the same every time. The text that the fields are of (King 2017, chapters 3 and 4) names its
meshes and prints none: Delaunay triangulations of "low" and "high variance" (figures 3.8 and 3.9), and 10 x 10 x 10
hexahedra of six tetrahedra each (section 4.2). The generators and the two ratios are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import combinations, permutations
from math import log, sqrt
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pydantic
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from repro.errors import ReproError
from repro.galerkin.basis import mode_count
from repro.galerkin.quadrature import project
from repro.problems.assembly import Floats
from repro.problems.generators import Seed, computed
from repro.problems.meshes import DEGENERATE, longest_edges
from repro.problems.problem import Problem, allowed, check_array, infinite, outside, quantiles, refuse

DIMENSIONS = (2, 3)


@dataclass(frozen=True)
class Field(Problem):
    """A mesh of triangles or tetrahedra, and on each cell a polynomial of its own.

    Attributes
    ----------
    vertices
        float64 `(v, d)`, d 2 or 3; some may belong to no cell.
    cells
        int32 `(c, d + 1)` vertex numbers, counterclockwise in the plane, of positive volume in space.
    degree
        P, of the polynomials.
    basis
        The name of the basis that the modes belong to, such as `dubiner`; it settles their order and scale too.
    modes
        float64 `(c, m)`, coefficients of each cell's polynomial; m is the binomial coefficient of P + d over d.
    periodic
        Whether the domain, the box around the vertices, goes on at its other side.
    """

    kind: ClassVar[str] = "field"

    vertices: NDArray[np.float64]
    cells: NDArray[np.int32]
    degree: int
    basis: str
    modes: NDArray[np.float64]
    periodic: bool

    @property
    def dimension(self) -> int:
        """d, the coordinates of a vertex."""
        return int(self.vertices.shape[-1])

    @property
    def volumes(self) -> Floats:
        """float64 `(c,)`, signed areas or volumes of the cells."""
        corners = self.vertices[self.cells]
        volumes: Floats = np.linalg.det(corners[:, 1:] - corners[:, :1]) / math.factorial(self.dimension)
        return volumes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return `vertices`, `cells`, `modes`."""
        return {"vertices": self.vertices, "cells": self.cells, "modes": self.modes}

    def traits(self) -> Mapping[str, Any]:
        """Return `degree`, `basis`, `periodic`."""
        return {"degree": self.degree, "basis": self.basis, "periodic": self.periodic}

    def validate(self) -> Self:
        """Return the field itself if mesh and modes are sound.

        Raises
        ------
        ReproError
            Arrays that do not fit each other or the degree, no cells, no name of a basis, NaN or infinite numbers,
            cells with vertices that do not exist, degenerate cells, or inverted ones.
        """
        d, count = self.dimension, len(self.cells)
        if self.vertices.ndim != 2 or d not in DIMENSIONS:
            shape = self.vertices.shape
            raise ReproError("the vertices do not fit", where=self.name, expected="(v, 2) or (v, 3)", actual=shape)
        if self.degree < 0:
            raise ReproError("the degree is negative", where=self.name, expected="0 or more", actual=self.degree)
        if not self.basis:
            raise ReproError("the basis has no name", where=self.name, expected="a name such as dubiner")
        if not count:
            raise ReproError("the mesh has no cells", where=self.name)
        check_array(self.name, "vertices", self.vertices, np.float64, self.vertices.shape)
        check_array(self.name, "cells", self.cells, np.int32, (count, d + 1))
        check_array(self.name, "modes", self.modes, np.float64, (count, math.comb(self.degree + d, d)))
        there = f"vertices {allowed(len(self.vertices))}"
        absent = np.any(outside(self.cells, len(self.vertices)), axis=1)
        self._refuse("cell", absent, "the mesh has cells with vertices that do not exist", there)
        endless, finite = infinite(self.vertices), "finite numbers"
        self._refuse("vertex", endless, "the mesh has vertices with NaN or infinite coordinates", finite)
        self._refuse("cell", infinite(self.modes), "the field has NaN or infinite modes", finite)
        volumes = self.volumes
        thin = np.abs(volumes) <= DEGENERATE * self._longest_edges() ** d
        thick = f"more than {DEGENERATE:g} of the longest edge to the power of {d}"
        self._refuse("cell", thin, "the mesh has degenerate cells", thick)
        self._refuse("cell", volumes < 0, "the mesh has inverted cells", "positive volumes: exchange two vertices")
        return self

    def _refuse(self, item: str, bad: NDArray[Any], what: str, expected: str) -> None:
        refuse(self.name, what, bad, place=lambda i: f"{item} {i}", expected=expected)

    def _longest_edges(self) -> Floats:
        return longest_edges(self.vertices[self.cells])

    def _edges(self) -> Floats:
        """Return the lengths of all cells' edges, float64 `(c d (d + 1) / 2,)`."""
        corners = self.vertices[self.cells]
        pairs = combinations(range(self.dimension + 1), 2)
        return np.concatenate([np.linalg.norm(corners[:, i] - corners[:, j], axis=1) for i, j in pairs])

    def describe(self) -> dict[str, Any]:
        """Return statistics of the mesh.

        Returns
        -------
        dict
            Plain numbers:

            unused_vertices
                Those that belong to no cell.
            cells
                How many.
            volume
                Quantiles and mean of the cells' areas or volumes.
            total_volume
                Their sum, that of the domain unless there are gaps or overlaps.
            edge
                Quantiles and mean of the lengths of the cells' edges, those that two cells share counted twice.
            longest_edge, mean_edge
                Of all cells.
        """
        volumes, edges = self.volumes, quantiles(self._edges())
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
        """Return `dimension`, `vertices`, `cells`, `degree`, `basis`, `modes` of a cell, and `periodic`."""
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
        """Return dimension, vertices, cells, degree, basis, modes a cell, and whether the domain is periodic."""
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

#: How far a vertex may be from its place in the lattice, in units of the spacing there.
JITTER = 0.22
#: How many times larger than the first row's the last row's triangles are, by variance.
GRADING = {"low": 1.0, "high": 3.3}


def delaunay_square(triangles: int, variance: str = "low", seed: int = 1) -> Triangulation:
    """Triangulate the unit square by Delaunay's criterion.

    The vertices are those of a hexagonal lattice, each moved by up to `JITTER` of the spacing in both directions, along
    the border by as much and not away from it; vertices of opposite sides do not match. The spacing is the same
    everywhere, or grows from the bottom to the top by `GRADING`, each row's by the same ratio. Jitter is drawn by
    `random` of NumPy's PCG64, whose stream NumPy keeps.

    Parameters
    ----------
    triangles
        About how many, 8 at least.
    variance
        Of the triangles' sizes: `low` (longest edge about 1.55 times that of as many equilateral triangles) or `high`
        (about 2.9 times the mean edge).
    seed
        Of the jitter.

    Returns
    -------
    vertices, cells
        float64 `(v, 2)`, row by row from the bottom; int32 `(c, 3)`, counterclockwise, the lowest vertex first, in
        ascending order.
    """
    grading = GRADING[variance]
    counts, heights, spacing = _rows(triangles, grading)
    last = len(counts) - 1
    # every other row is moved by half a spacing and begins and ends with a vertex on the border
    shifted = np.arange(len(counts)) % 2 == 1
    lengths = counts + 1 + shifted
    row = np.repeat(np.arange(len(counts)), lengths)
    column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    points = np.stack([(column - 0.5 * shifted[row]) / counts[row], heights[row]], axis=1)
    np.clip(points, 0.0, 1.0, out=points)
    rng = np.random.Generator(np.random.PCG64(seed))
    moved = JITTER * spacing[row, None] * (2.0 * rng.random(points.shape) - 1.0)
    moved[(column == 0) | (column == lengths[row] - 1), 0] = 0.0
    moved[(row == 0) | (row == last), 1] = 0.0
    points += moved
    return points, _ordered(points, Delaunay(points).simplices)


def _rows(triangles: int, grading: float) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the spacings that each row of the lattice is divided into, its height, and the spacing there."""
    # a row of spacing h is sqrt(3)/2 h from the next: the integral of h**-2 over the height gives the triangles
    share = log(grading) ** 2 / ((grading - 1.0) * (1.0 - 1.0 / grading)) if grading > 1.0 else 1.0
    rows = max(2, round(sqrt(triangles * share / sqrt(3.0))))
    place = np.arange(rows + 1) / rows
    growth = grading**place
    heights = (growth - 1.0) / (grading - 1.0) if grading > 1.0 else place
    distance = growth * (log(grading) / (grading - 1.0) if grading > 1.0 else 1.0) / rows
    counts = np.maximum(np.rint(sqrt(0.75) / distance).astype(np.int64), 1)
    heights[-1] = 1.0
    return counts, heights, distance / sqrt(0.75)


def _ordered(points: Floats, simplices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return triangles counterclockwise, each from its lowest vertex on, in ascending order; flat ones left out."""
    corners = points[simplices]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    twice = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    cells = np.where((twice < 0)[:, None], simplices[:, ::-1], simplices)
    # three vertices of a side of the square may be joined to one of no area
    cells = cells[np.abs(twice) > 1e-12 * (a * a + b * b).sum(axis=1)]
    first = np.argmin(cells, axis=1)
    cells = np.take_along_axis(cells, (first[:, None] + np.arange(3)) % 3, axis=1)
    return np.ascontiguousarray(cells[np.lexsort(cells.T[::-1])], dtype=np.int32)


def structured_square(squares: int) -> Triangulation:
    """Cut each of so many by so many squares of the unit square into two triangles, by the same diagonal.

    Returns
    -------
    vertices, cells
        float64 `(v, 2)` and int32 `(2 squares^2, 3)`, counterclockwise, the two of a square one after the other.
    """
    return _kuhn(squares, 2)


def kuhn_cube(cubes: int) -> Triangulation:
    """Cut each of so many cubes a direction of the unit cube into Kuhn's six tetrahedra around one diagonal.

    Returns
    -------
    vertices, cells
        float64 `(v, 3)` and int32 `(6 cubes^3, 4)`, of positive volume, the six of a cube one after the other.
    """
    return _kuhn(cubes, 3)


def _kuhn(count: int, dimension: int) -> Triangulation:
    """Return a lattice's cells, each cut into the simplices along the paths from its lowest to its highest corner."""
    strides = (count + 1) ** np.arange(dimension)
    grid = np.stack(np.meshgrid(*[np.arange(count + 1)] * dimension, indexing="ij")[::-1], axis=-1)
    vertices = grid.reshape(-1, dimension) / count
    corners = np.stack(np.meshgrid(*[np.arange(count)] * dimension, indexing="ij")[::-1], axis=-1)
    lowest = corners.reshape(-1, dimension) @ strides
    paths = []
    for order in permutations(range(dimension)):
        path = [0, *np.cumsum(strides[list(order)])]
        if np.linalg.det(np.eye(dimension)[list(order)]) < 0:
            path[-1], path[-2] = path[-2], path[-1]
        paths.append(path)
    cells = (lowest[:, None, None] + np.array(paths)).reshape(-1, dimension + 1)
    return vertices, cells.astype(np.int32)


#: The largest degree of a field: more is a question of registers and memory that nobody has asked.
MAX_DEGREE = 7
BASIS = "dubiner"

Degree = Annotated[int, pydantic.Field(ge=0, le=MAX_DEGREE)]
Function = Literal["sine", "waves", "constant"]


def _sine(points: Floats) -> Floats:
    values: Floats = np.prod(np.sin(2 * np.pi * points), axis=1)
    return values


def _waves(points: Floats) -> Floats:
    """Of all harmonics, and another in each direction."""
    order = np.arange(1, points.shape[1] + 1)
    values: Floats = np.exp(np.sin(2 * np.pi * points + order).sum(axis=1))
    return values


def _constant(points: Floats) -> Floats:
    return np.ones(len(points))


#: What gives the values `(n,)` of each function at points `(n, d)`; all are analytic, of period 1 in each direction.
FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {"sine": _sine, "waves": _waves, "constant": _constant}


@dataclass(frozen=True)
class FieldKind:
    """One kind of generated field.

    Attributes
    ----------
    build
        Computes it; keyword parameters only, each with a default, checked on every call.
    dimension
        Of its mesh.
    cells
        Gives from the parameters how many cells the mesh has, or is to have.
    """

    build: Callable[..., Field]
    dimension: int
    cells: Callable[[Mapping[str, Any]], int]


FIELD_KINDS: dict[str, FieldKind] = {}


def generate_field(kind: str, **parameters: Any) -> Field:
    """Compute a generated field, periodic on the unit square or cube, its name that of the kind.

    Its `origin` has the name of its `function`, a key of `FUNCTIONS`.

    Parameters
    ----------
    kind
        A key of `FIELD_KINDS`.
    parameters
        Those of the kind's function below that shall differ from their defaults.

    Raises
    ------
    ReproError
        Unknown kind, unknown parameter, or a value of the wrong type or out of range; every one is named.
    """
    return computed("field", FIELD_KINDS, kind, parameters)


def size_of(kind: str, parameters: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return about how many cells and modes a field has, before it is computed; None where the parameters are wrong."""
    if kind not in FIELD_KINDS:
        return None
    of = FIELD_KINDS[kind]
    defaults = {name: parameter.default for name, parameter in signature(of.build).parameters.items()}
    try:
        cells, degree = of.cells({**defaults, **parameters}), int({**defaults, **parameters}["degree"])
        return cells, cells * mode_count(degree, of.dimension)
    except (TypeError, ValueError):
        return None


def _field_kind(
    dimension: int, cells: Callable[[Mapping[str, Any]], int]
) -> Callable[[Callable[..., Field]], Callable[..., Field]]:
    def add(build: Callable[..., Field]) -> Callable[..., Field]:
        checked = pydantic.validate_call(build)
        FIELD_KINDS[build.__name__] = FieldKind(checked, dimension, cells)
        return checked

    return add


@_field_kind(2, lambda given: int(given["triangles"]))
def delaunay(
    *,
    triangles: Annotated[int, pydantic.Field(ge=8, le=20_000_000)] = 4096,
    variance: Literal["low", "high"] = "low",
    degree: Degree = 1,
    field: Function = "sine",
    seed: Seed = 1,
) -> Field:
    """Delaunay triangulation of about so many triangles, of low or high variance of their sizes.

    See `repro.problems.field.delaunay_square` (King 2017, section 3.4).
    """
    return _projected("delaunay", delaunay_square(triangles, variance, seed), degree, field)


@_field_kind(2, lambda given: 2 * int(given["squares"]) ** 2)
def structured(
    *, squares: Annotated[int, pydantic.Field(ge=1, le=3000)] = 32, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """So many by so many squares, each cut into two triangles."""
    return _projected("structured", structured_square(squares), degree, field)


@_field_kind(3, lambda given: 6 * int(given["cubes"]) ** 3)
def cubes(
    *, cubes: Annotated[int, pydantic.Field(ge=1, le=150)] = 10, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """So many cubes in each direction, each cut into Kuhn's six tetrahedra (King 2017, section 4.2)."""
    return _projected("cubes", kuhn_cube(cubes), degree, field)


def _projected(name: str, mesh: Triangulation, degree: int, function: str) -> Field:
    vertices, cells = mesh
    modes = project(FUNCTIONS[function], vertices, cells, degree, BASIS)
    return Field(name, vertices, cells, degree, BASIS, modes, periodic=True, origin={"function": function})
