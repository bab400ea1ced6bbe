"""The operands: a field with its points in the plane, or with its list of regions in space, and expected results.

Expected values are computed by NumPy, with a bound of how far a right result may be from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Runnable, Unsupported
from repro.bench.workspace import Workspace
from repro.errors import ReproError
from repro.filtering.grids import SortedCells
from repro.filtering.matrix_free import Stencil
from repro.filtering.reference import contour_rows, count_work
from repro.filtering.stencil_geometry import within_triangles
from repro.filtering.triangulation import Triangulation, evaluation_points, of_field
from repro.galerkin.basis import equispaced, evaluate, exponents, mode_count, monomials
from repro.galerkin.quadrature import Rule, evaluation_rule, exact_for, positive
from repro.problems.field import Field
from repro.studies.dg_postprocessing.ids import RegionMethod, full_width
from repro.studies.dg_postprocessing.metrics import (
    Errors,
    Exact,
    Work2D,
    contour_operations,
    exact,
    region_operations,
    unfiltered,
)
from repro.studies.dg_postprocessing.regions import NUMBERS_PER_REGION, Regions, paper_rule

Floats = NDArray[np.float64]
#: Points whose values are computed by NumPy, and those that only the work is counted of.
CHECKED_POINTS = 256
#: Points whose values are compared at a time.
COMPARED_POINTS = 1 << 18


class Filters(Runnable):
    """A runnable that leaves the filtered field at all points.

    Attributes
    ----------
    local
        Whether each point has an h of its own.
    errors
        How far a result that was right is from the exact function; None before, or where that is not known.
    read
        Waits, and returns what a launch left; set by `prepare`.
    """

    local: bool = False
    errors: Errors | None = None
    read: Callable[[], Floats]

    def result(self) -> Floats:
        """Wait, and return it: float64 `(n,)`, or `(n, fields)`, of which each is the field itself."""
        return self.read()


@dataclass(frozen=True, eq=False)
class ExpectedValues:
    """What must come out at some points.

    Attributes
    ----------
    places
        int64 `(k,)`, which points.
    values, bound
        float64 `(k,)`, and by how much a result may differ: `terms ε Σ|w||u|`, times what contours lose.
    work
        Of all points, from what these take.
    """

    places: NDArray[np.int64]
    values: Floats
    bound: Floats
    work: Work2D


@dataclass(frozen=True, eq=False)
class DgOperands:
    """A field in the plane and its quadrature points.

    Attributes
    ----------
    name, precision
        Of the problem, and `double`.
    mesh, degree, basis, modes
        As of the problem; the degree is the kernel's as well.
    seed
        Of what is drawn.
    checksum
        Of the problem and of the seed.
    function
        The name of the function that the field is the projection of; None: not known.
    """

    name: str
    precision: str
    mesh: Triangulation
    degree: int
    basis: str
    modes: Floats
    seed: int
    checksum: str
    function: str | None = None
    _agreed: dict[bool, Floats] = field(default_factory=dict, repr=False)

    @property
    def scale(self) -> float:
        """h: the longest edge (King 2017, section 3.2)."""
        return self.mesh.longest

    @cached_property
    def points(self) -> Floats:
        """The quadrature points of all triangles, float64 `(n, 2)`."""
        return evaluation_points(self.mesh, self.degree)

    @cached_property
    def stencil(self) -> Stencil:
        """The filter."""
        return Stencil(self.mesh, self.degree, self.scale)

    @cached_property
    def host(self) -> SortedCells:
        """Mesh and points, sorted once for all that filters."""
        return SortedCells(self.mesh, self.points)

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Corners and modes of all triangles, and the points; a value at each."""
        triangles, points = len(self.mesh.triangles), len(self.points)
        return 8 * (triangles * (6 + mode_count(self.degree, 2)) + 2 * points), 8 * points

    @property
    def operations(self) -> int:
        """Those of contours; see `repro.studies.dg_postprocessing.metrics`."""
        return contour_operations(self.expected.work, self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
        """How much there is to do, and how far the field itself is from the function that it is the projection of."""
        work, errors = self.expected.work, self._unfiltered
        return {
            "triangles": len(self.mesh.triangles),
            "points": len(self.points),
            "degree": self.degree,
            "scale": self.scale,
            "pairs": work.pairs,
            "segments": work.segments,
            "subtriangles": work.subtriangles,
            **({"dg_l2_error": errors.l2, "dg_max_error": errors.largest} if errors else {}),
        }

    @cached_property
    def local_scales(self) -> Floats:
        """An h of each point, as long as the edges around it, float64 `(n,)`."""
        return within_triangles(self.mesh, evaluation_rule(self.degree, 2).points)

    @cached_property
    def _exact(self) -> Exact | None:
        return exact(self.mesh, self.degree, self.function)

    @cached_property
    def _unfiltered(self) -> Errors | None:
        return self._exact.errors(unfiltered(self.degree, self.basis, self.modes)) if self._exact else None

    @cached_property
    def expected(self) -> ExpectedValues:
        """What must come out at points drawn at random, by NumPy."""
        return self._expect(np.broadcast_to(self.scale, len(self.points)))

    @cached_property
    def local_expected(self) -> ExpectedValues:
        """The same with an h of each point."""
        return self._expect(self.local_scales)

    def _expect(self, scales: Floats) -> ExpectedValues:
        generator = np.random.default_rng(self.seed)
        total = len(self.points)
        places = np.sort(generator.choice(total, min(CHECKED_POINTS, total), replace=False))
        there, scales = self.points[places], scales[places]
        rows = contour_rows(self.mesh, there, self.degree, self.basis, scales)
        modes = self.modes.ravel()
        counts = count_work(self.mesh, there, self.degree, scales)
        terms = counts.pairs * mode_count(self.degree, 2)
        bound = terms * self.stencil.loss * np.finfo(np.float64).eps * (abs(rows) @ np.abs(modes))
        share = total / len(places)
        work = Work2D(
            *(round(share * int(np.sum(numbers))) for numbers in (counts.pairs, counts.triangles, counts.segments))
        )
        return ExpectedValues(places, rows @ modes, bound, work)

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once; compare some points with NumPy's, and all of them with the first result that was right there.

        Raises
        ------
        IncorrectError
            A value is outside its bound.
        """
        if not isinstance(runnable, Filters):
            return None
        runnable.before()
        runnable.launch()
        result = runnable.result().reshape(len(self.points), -1)
        expected = self.local_expected if runnable.local else self.expected
        error = np.abs(result[expected.places] - expected.values[:, None]) / expected.bound[:, None]
        largest = float(np.max(error))
        if not largest <= 1:
            raise IncorrectError(f"{np.count_nonzero(~(error <= 1))} of {error.size} checked values are wrong", largest)
        agreed = self._agreed.setdefault(runnable.local, result[:, 0].copy())
        # bounds of points are alike: the largest of those that were drawn, and as much again
        wrong, apart = _deviation(result, agreed, 2 * float(expected.bound.max()))
        if wrong:
            raise IncorrectError(f"{wrong} of {result.size} values differ from those of another way", apart)
        runnable.errors = self._exact.errors(result[:, 0]) if self._exact else None
        return largest


def _deviation(result: Floats, agreed: Floats, bound: float) -> tuple[int, float]:
    """Return how many numbers `(n, fields)` are further than a bound from those of `(n,)`; the largest error over it.

    Some points at a time, since there may be twenty million of them.
    """
    wrong, largest = 0, []
    for first in range(0, len(agreed), COMPARED_POINTS):
        some = slice(first, first + COMPARED_POINTS)
        errors = np.abs(result[some] - agreed[some, None]) / bound
        wrong += int(np.count_nonzero(~(errors <= 1)))  # NaN is wrong
        largest.append(errors.max())
    return wrong, float(np.max(largest))


def make_operands(problem: Field, precision: str, seed: int) -> DgOperands:
    """Return the operands of a field in the plane.

    Raises
    ------
    ReproError
        The precision is another than double, the only one of the text; or the field cannot be filtered.
    """
    if precision != "double":
        raise ReproError(
            "fields are filtered in double precision only",
            where=f"studies.dg_postprocessing.precisions: {problem.name}",
            expected="double",
            actual=precision,
        )
    mesh = of_field(problem)
    checksum = hashlib.sha256(f"{problem.checksum()} {seed}".encode()).hexdigest()
    function = problem.origin.get("function")
    return DgOperands(
        problem.name, precision, mesh, problem.degree, problem.basis, problem.modes, seed, checksum, function
    )


#: Regions that NumPy has at a time: some hundred megabytes.
_REGION_CHUNK = 1 << 13


class ExpectedIntegrals(NamedTuple):
    """Integrals and how far a right result may be from them, both float64 `(n,)`."""

    values: Floats
    bounds: Floats


class ClippedRegions(NamedTuple):
    """A list of regions as a device made it: `rows` and `cells` of `Regions`."""

    rows: Floats
    cells: NDArray[np.int32]


@dataclass(frozen=True)
class RegionOperands:
    """A field, a list of regions, and the kernel.

    Attributes
    ----------
    field, regions
        Of one degree.
    pieces
        float64 `(3k + 1, k + 1)`: the kernel at j + t, from its first knot, is Σ_a pieces[j, a] t^a.
    """

    field: Field
    regions: Regions
    pieces: Floats

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        degree, shape = self.regions.degree, (self.regions.width, self.regions.degree + 1)
        if self.field.degree != degree or self.pieces.shape != shape:
            raise ReproError(
                "field, regions and kernel do not fit",
                where=self.field.name,
                expected=f"a field of degree {degree} and pieces {shape}",
                actual=f"degree {self.field.degree}, pieces {self.pieces.shape}",
            )

    @property
    def degree(self) -> int:
        """p of the field and k of the kernel."""
        return self.regions.degree

    @property
    def count(self) -> int:
        """Regions of the list."""
        return len(self.regions.rows)

    @property
    def precision(self) -> str:
        """`double`, as in the paper."""
        return "double"

    @cached_property
    def checksum(self) -> str:
        """Hash of field, regions and kernel."""
        digest = hashlib.sha256(self.field.checksum().encode())
        for array in (self.regions.rows, self.regions.cells, self.pieces):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @property
    def least_bytes(self) -> tuple[int, int]:
        """Bytes of the list, of the elements that it names with their modes, and of the integrals."""
        elements = len(np.unique(self.regions.cells))
        read = self.count * (8 * NUMBERS_PER_REGION + 4) + elements * 8 * (3 + self.field.modes.shape[1])
        return read, 8 * self.count

    @property
    def operations(self) -> int:
        """Additions and multiplications of the rule with the fewest points."""
        return self.count * region_operations("lane", self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
        """How many regions of how many points."""
        return {"regions": self.count, "points": len(self.regions.places)}

    @cached_property
    def expected(self) -> ExpectedIntegrals:
        """The integrals by NumPy."""
        return expected_integrals(self.regions, self.field, self.pieces, positive(4 * self.degree, 3))

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch a prepared runnable once and return its largest error over its bound.

        Raises
        ------
        IncorrectError
            The result is wrong.
        """
        runnable.before()
        runnable.launch()
        result = runnable.result()
        if result is None:
            return None
        if isinstance(result, ClippedRegions):
            return self._check_clipped(result)
        values, bounds = self.expected if len(result) == self.count else self.sums
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.abs(result - values) / bounds
        # written so that a NaN is wrong; a bound of 0 is that of an integral that is 0
        wrong = ~((errors <= 1) | (result == values))
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            message = f"{int(wrong.sum())} of {len(values)} integrals are wrong; the first is number {first}: "
            raise IncorrectError(f"{message}{result[first]}, expected {values[first]}", float(np.nanmax(errors)))
        return float(np.nanmax(errors, initial=0.0))

    def _check_clipped(self, clipped: ClippedRegions) -> float:
        """Return by how much the regions of a point fail to fill its stencil, over a bound.

        The bound is n · eps of the stencil's volume for n regions, times the size of the domain in edges of a cube.
        """
        places, h = self.regions.places, self.regions.h
        listed = Regions(self.degree, h, clipped.rows, clipped.cells, places)
        volume = float(listed.width**3)
        volumes = np.abs(np.linalg.det(np.diff(listed.knots(), axis=1))) / 6
        filled = np.bincount(listed.points, volumes, len(places))
        counts = np.bincount(listed.points, minlength=len(places))
        extent = np.abs(self.field.vertices).max() / h + listed.width
        errors = np.abs(filled - volume) / (np.maximum(counts, 1) * extent * np.finfo(np.float64).eps * volume)
        if not (errors <= 1).all():
            first = int(np.flatnonzero(~(errors <= 1))[0])
            message = f"the regions of point {first} fill {filled[first]} of a stencil of {volume}"
            raise IncorrectError(message, float(np.nanmax(errors)))
        return float(errors.max())

    @property
    def sums(self) -> ExpectedIntegrals:
        """The sums of the integrals of each point, `(points,)`: the filtered field, of the last point maybe a part."""
        points, count = self.regions.points, len(self.regions.places)
        values, bounds, sizes = (
            np.bincount(points, weights, count).astype(np.float64)
            for weights in (*self.expected, np.abs(self.expected.values))
        )
        terms = np.bincount(points, minlength=count)
        return ExpectedIntegrals(values, bounds + terms * np.finfo(np.float64).eps * sizes)

    def pack(self, method: RegionMethod) -> dict[str, NDArray[Any]]:
        """Return the arrays that kernels of a method read.

        Returns
        -------
        dict
            Of all: `cells`, `pieces`. Of `vector`, the paper's: `rows` (the list as it is), `maps` (from each element
            to the reference simplex: the inverse of its edges, and its first corner), `field` (values at the element's
            points), `rule` (points and weights). Of ours: `columns` (the list transposed), `origins` (first corners),
            `modes` (coefficients of monomials of the distance from there, in edges of a cube).
        """
        arrays: dict[str, NDArray[Any]] = {"cells": self.regions.cells, "pieces": self.pieces}
        corners = self.field.vertices[self.field.cells]
        if method != "vector":
            columns = np.ascontiguousarray(self.regions.rows.T)
            return arrays | {"columns": columns, "origins": corners[:, 0].copy(), "modes": self.modes}
        inverses = np.linalg.inv(corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1).reshape(-1, 9)
        points = evaluation_rule(self.degree, 3).points
        rule = paper_rule(self.degree)
        return arrays | {
            "rows": self.regions.rows,
            "maps": np.ascontiguousarray(np.hstack([inverses, corners[:, 0]])),
            "field": np.ascontiguousarray(self.field.modes @ evaluate(self.field.basis, points, self.degree).T),
            "rule": np.ascontiguousarray(np.column_stack([rule.points, rule.weights])),
        }

    @cached_property
    def modes(self) -> Floats:
        """float64 `(c, m)`, the field's coefficients in monomials of (y - first corner) / h."""
        return local_modes(self.field, self.regions.h)


def region_operands_of(workspace: Workspace, degree: int) -> RegionOperands:
    """Return what the kernels of a workspace integrate.

    Raises
    ------
    Unsupported
        It has other operands, or those of another degree.
    """
    operands = workspace.operands
    if not isinstance(operands, RegionOperands):
        raise Unsupported("no list of regions")
    if operands.degree != degree:
        raise Unsupported(f"a kernel of degree {degree} for a field of degree {operands.degree}")
    return operands


def local_modes(field: Field, h: float) -> Floats:
    """Return a field's coefficients in monomials of (y - first corner of the element) / h, `(c, m)`."""
    corners = field.vertices[field.cells]
    nodes = equispaced(field.degree, 3)
    places = nodes @ (corners[:, 1:] - corners[:, :1]) / h
    values = field.modes @ evaluate(field.basis, nodes, field.degree).T
    matrices = monomials(places.reshape(-1, 3), field.degree).reshape(*places.shape[:2], -1)
    return np.asarray(np.linalg.solve(matrices, values[:, :, None])[:, :, 0], np.float64)


def expected_integrals(regions: Regions, field: Field, pieces: Floats, rule: Rule | None = None) -> ExpectedIntegrals:
    """Return the integral of kernel times field over each region, with bounds.

    The bound is terms · eps · Σ |w| |K| |u|, |K| and |u| the sums of the sizes of their monomials, the volume that of
    the sizes of the determinant's products; the terms are the paper's quadrature points, and eight times what places
    lose: the size of the domain and of the stencil, both in edges of a cube. Corners lose as much, which is more than
    some edges of a sliver have: the volume's bound is that with edges which are longer by it.

    Parameters
    ----------
    rule
        Exact for degree 4p; None: the product of Gauss rules.
    """
    rule = rule or exact_for(4 * field.degree, 3)
    origins, modes = field.vertices[field.cells[:, 0]], local_modes(field, regions.h)
    lost = 8 * (np.abs(field.vertices).max() / regions.h + regions.width)
    eps, terms = np.finfo(np.float64).eps, full_width(field.degree) + lost
    values, bounds = np.empty(len(regions.rows)), np.empty(len(regions.rows))
    knots, cubes = regions.knots(), regions.cubes
    for start in range(0, len(values), _REGION_CHUNK):
        part = slice(start, start + _REGION_CHUNK)
        cells = regions.cells[part]
        edges = knots[part, 1:] - knots[part, :1]
        inner = rule.points @ edges
        kernel, large_kernel = _kernel(pieces[cubes[part]], knots[part, :1] - cubes[part, None] + inner)
        first = (regions.corners[part, 0] - origins[cells]) / regions.h
        inside, large = _field(modes[cells], first[:, None] + inner, field.degree)
        values[part] = np.abs(np.linalg.det(edges)) * ((kernel * inside) @ rule.weights)
        sizes = _permanents(np.abs(edges))
        volumes = terms * eps * sizes + (_permanents(np.abs(edges) + lost * eps) - sizes)
        bounds[part] = volumes * ((large_kernel * large) @ rule.weights)
    return ExpectedIntegrals(values, bounds)


def _kernel(pieces: Floats, places: Floats) -> tuple[Floats, Floats]:
    """Return the kernel of pieces `(n, 3, k + 1)` at places `(n, q, 3)`, and the sum of the sizes of its terms."""
    kernel, large = np.ones(places.shape[:2]), np.ones(places.shape[:2])
    for axis in range(3):
        place = places[:, :, axis]
        value, size = np.zeros_like(kernel), np.zeros_like(kernel)
        for coefficient in pieces[:, axis].T[::-1]:
            value = value * place + coefficient[:, None]
            size = size * np.abs(place) + np.abs(coefficient)[:, None]
        kernel *= value
        large *= size
    return kernel, large


def _field(modes: Floats, places: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return polynomials of modes `(n, m)` at places `(n, q, 3)`, and the sums of the sizes of their terms."""
    value, size = np.zeros(places.shape[:2]), np.zeros(places.shape[:2])
    for powers, mode in zip(exponents(degree, 3), modes.T, strict=True):
        term = np.broadcast_to(mode[:, None], value.shape)
        for axis in np.repeat(np.arange(3), powers):
            term = term * places[:, :, axis]
        value += term
        size += np.abs(term)
    return value, size


def _permanents(matrices: Floats) -> Floats:
    """Return the sums of the products of a determinant, all added: `(n,)`."""
    a, b, c = (matrices[:, i] for i in range(3))
    rolled = b * np.roll(c, 1, axis=1) + np.roll(b, 1, axis=1) * c
    sums: Floats = (a * np.roll(rolled, 1, axis=1)).sum(axis=1)
    return sums
