"""Operands in the plane and in space, expected results with error bounds, and errors and operations in the plane."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Runnable, Workspace
from repro.codegen.targets import DOUBLE_FMAS_PER_CYCLE
from repro.errors import IncorrectError, ReproError, Unsupported
from repro.filtering.grids import SortedCells, Triangulation, evaluation_points, of_field
from repro.filtering.matrix_free import Stencil
from repro.filtering.reference import contour_rows, count_work
from repro.filtering.stencil_geometry import triangle_scales
from repro.galerkin import (
    Rule,
    equispaced,
    evaluate,
    evaluation_rule,
    exact_for,
    exponents,
    mode_count,
    monomials,
    positive,
)
from repro.problems.field import FUNCTIONS, Field
from repro.studies.dg_postprocessing.ids import RegionMethod, full_width
from repro.studies.dg_postprocessing.regions import NUMBERS_PER_REGION, Regions, paper_rule, region_operations

Floats = NDArray[np.float64]


def peak_gflops(environment: Mapping[str, Any]) -> float | None:
    """Return a device's peak rate in double precision, GFLOPS, from its environment record; None if not known."""
    fmas = DOUBLE_FMAS_PER_CYCLE.get(str(environment.get("target")))
    count, clock = environment.get("multiprocessors"), environment.get("max_sm_clock_mhz")
    return 2e-3 * fmas * count * clock if fmas and count and clock else None


#: Number of points for which NumPy computes expected values and counts the work.
CHECKED_POINTS = 256
#: Number of points that are compared in one chunk.
COMPARED_POINTS = 1 << 18
#: Operations for a pair of a point and a triangle without its segments (kernel coordinates of corners, search for knot
#: lines), and for a segment without its Gauss points (computing the segment's ends).
PAIR_OPERATIONS, SEGMENT_OPERATIONS = 80, 12


class Work2D(NamedTuple):
    """Number of pairs, subtriangles and segments for filtering at all points."""

    #: Number of pairs of a point and a triangle's periodic image that meets the point's stencil.
    pairs: int
    #: Triangles that result from clipping.
    subtriangles: int
    #: Segments: parts of triangles' edges between knot lines.
    segments: int


def gauss_points(degree: int) -> int:
    """Return the number of Gauss points per segment, exact for degree 3 P + 1."""
    return (3 * degree + 3) // 2


def evaluation_operations(degree: int) -> int:
    """Return the operations per Gauss point of a contour: position, K along y, u along x, integral of K u, sum."""
    modes = mode_count(degree, 2)
    along_x = 2 * (degree + 1) ** 2 + (2 * degree + 1) + 4 * degree
    return 4 + 2 * degree + 2 + 2 * (modes - degree - 1) + along_x + 3


def contour_operations(work: Work2D, degree: int) -> int:
    """Return the operations of the contour method: (28, 50, 78) per Gauss point for P = 1, 2, 3; an FMA is two."""
    evaluations = work.segments * gauss_points(degree)
    return (
        evaluations * evaluation_operations(degree) + work.segments * SEGMENT_OPERATIONS + work.pairs * PAIR_OPERATIONS
    )


def triangle_operations(mesh: Triangulation, degree: int, scale: float) -> NDArray[np.float64]:
    """Return, for each triangle, the operations of a pair with a point whose stencil it meets, float64 `(t,)`.

    An edge has one segment more than it crosses knot lines. On average, the number of crossed lines is the sum of the
    edge's extents along x and y, in units of the kernel's squares.
    """
    sides = np.abs(mesh.corners - np.roll(mesh.corners, 1, axis=1)).sum(axis=(1, 2)) / scale
    segment_operations = gauss_points(degree) * evaluation_operations(degree) + SEGMENT_OPERATIONS
    return np.asarray(PAIR_OPERATIONS + (3 + sides) * segment_operations, np.float64)


def contour_formula() -> str:
    """Return the sentences that say how operations are counted."""
    evaluations = ", ".join(str(evaluation_operations(degree)) for degree in (1, 2, 3))
    gauss = ", ".join(str(gauss_points(degree)) for degree in (1, 2, 3))
    return (
        f"Operations for P = 1, 2, 3: ({evaluations}) per evaluation of the integrand, with ({gauss}) evaluations per "
        f"segment between knot lines, {SEGMENT_OPERATIONS} more per segment and {PAIR_OPERATIONS} per pair of a point "
        "and a triangle; a fused multiply-add counts as two. For every method, the operations of contours are counted, "
        "for pairs and segments at 256 points, so rates are proportional to speeds."
    )


@dataclass(frozen=True)
class Errors:
    """Deviation of a field from the exact function at the quadrature points."""

    #: L2 error, computed by quadrature over the domain.
    l2: float
    #: Largest error at any quadrature point.
    largest: float

    @classmethod
    def known(cls, l2: float | None, max_error: float | None) -> Errors | None:
        """Return the recorded errors of a row; None if the row has none."""
        return None if l2 is None or max_error is None else cls(l2, max_error)


@dataclass(frozen=True, eq=False)
class Exact:
    """Values of an exact function at the quadrature points of a triangulation."""

    values: Floats
    #: Quadrature weights; their sum is the area of the domain.
    weights: Floats

    def errors(self, values: Floats) -> Errors:
        errors = np.abs(values - self.values)
        return Errors(float(np.sqrt(self.weights @ errors**2)), float(errors.max()))


def exact(mesh: Triangulation, degree: int, function: str | None) -> Exact | None:
    """Return the values of a function from `FUNCTIONS` at a field's quadrature points; None if it is not known."""
    if function not in FUNCTIONS:
        return None
    weights = np.outer(2 * mesh.areas, evaluation_rule(degree, 2).weights).ravel()
    return Exact(FUNCTIONS[function](evaluation_points(mesh, degree)), weights)


def unfiltered(degree: int, basis: str, modes: Floats) -> Floats:
    """Return a field's values at the quadrature points, `(t Q,)`, from its modes `(t, m)`."""
    values: Floats = (modes @ evaluate(basis, evaluation_rule(degree, 2).points, degree).T).ravel()
    return values


class Filters(Runnable):
    """A runnable that filters the field at all points."""

    #: True if each point has its own kernel width h.
    local: bool = False
    #: Errors of the verified result; None before verification, or if the exact function is not known.
    errors: Errors | None = None
    #: Function that waits for the launch and downloads the result; set by `prepare`.
    read: Callable[[], Floats]

    def result(self) -> Floats:
        """Wait, and return the filtered field, `(n,)`, or several copies of it, `(n, fields)`."""
        return self.read()


@dataclass(frozen=True, eq=False)
class ExpectedValues:
    """Expected values at the checked points."""

    #: Indices of the checked points.
    positions: NDArray[np.int64]
    values: Floats
    #: Error bound for each value: `terms ε Σ|w||u|`, times the loss of accuracy by contours.
    bound: Floats
    #: Work at all points, extrapolated from the checked points.
    work: Work2D


@dataclass(frozen=True, eq=False)
class DgOperands:
    """A field in the plane, with its quadrature points."""

    name: str
    precision: str
    mesh: Triangulation
    #: Degree of the field and of the kernel.
    degree: int
    basis: str
    modes: Floats
    seed: int
    #: Checksum of the problem and of the seed.
    checksum: str
    #: Key of the function whose projection the field is; None if it is not known.
    function: str | None = None
    _agreed: dict[bool, Floats] = field(default_factory=dict, repr=False)

    @property
    def scale(self) -> float:
        """h, the side of a kernel's squares: the longest edge (King 2017, section 3.2)."""
        return self.mesh.longest

    @cached_property
    def points(self) -> Floats:
        return evaluation_points(self.mesh, self.degree)

    @cached_property
    def stencil(self) -> Stencil:
        return Stencil(self.mesh, self.degree, self.scale)

    @cached_property
    def host(self) -> SortedCells:
        """Mesh and points on the host, sorted once for all methods."""
        return SortedCells(self.mesh, self.points)

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Bytes to read (corners and modes of all triangles, all points) and to write (one value per point)."""
        triangles, points = len(self.mesh.triangles), len(self.points)
        return 8 * (triangles * (6 + mode_count(self.degree, 2)) + 2 * points), 8 * points

    @property
    def operations(self) -> int:
        """Operations of the contour method; used for all methods."""
        return contour_operations(self.expected.work, self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
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
        return triangle_scales(self.mesh, evaluation_rule(self.degree, 2).points)

    @cached_property
    def _exact(self) -> Exact | None:
        return exact(self.mesh, self.degree, self.function)

    @cached_property
    def _unfiltered(self) -> Errors | None:
        return self._exact.errors(unfiltered(self.degree, self.basis, self.modes)) if self._exact else None

    @cached_property
    def expected(self) -> ExpectedValues:
        return self._expect(np.broadcast_to(self.scale, len(self.points)))

    @cached_property
    def local_expected(self) -> ExpectedValues:
        return self._expect(self.local_scales)

    def _expect(self, scales: Floats) -> ExpectedValues:
        generator = np.random.default_rng(self.seed)
        total = len(self.points)
        positions = np.sort(generator.choice(total, min(CHECKED_POINTS, total), replace=False))
        points, scales = self.points[positions], scales[positions]
        rows = contour_rows(self.mesh, points, self.degree, self.basis, scales)
        modes = self.modes.ravel()
        counts = count_work(self.mesh, points, self.degree, scales)
        terms = counts.pairs * mode_count(self.degree, 2)
        bound = terms * self.stencil.loss * np.finfo(np.float64).eps * (abs(rows) @ np.abs(modes))
        share = total / len(positions)
        work = Work2D(*(round(share * int(np.sum(numbers))) for numbers in counts))
        return ExpectedValues(positions, rows @ modes, bound, work)

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch once; compare the checked points with NumPy's values, and all points with the first correct result."""
        if not isinstance(runnable, Filters):
            return None
        runnable.before()
        runnable.launch()
        result = runnable.result().reshape(len(self.points), -1)
        expected = self.local_expected if runnable.local else self.expected
        error = np.abs(result[expected.positions] - expected.values[:, None]) / expected.bound[:, None]
        largest_error = float(np.max(error))
        if not largest_error <= 1:
            raise IncorrectError(
                f"{np.count_nonzero(~(error <= 1))} of {error.size} checked values are wrong", largest_error
            )
        agreed = self._agreed.setdefault(runnable.local, result[:, 0].copy())
        # the bounds of all points are similar: use twice the largest bound of a checked point
        wrong_count, deviation = _deviation(result, agreed, 2 * float(expected.bound.max()))
        if wrong_count:
            raise IncorrectError(f"{wrong_count} of {result.size} values differ from those of another way", deviation)
        runnable.errors = self._exact.errors(result[:, 0]) if self._exact else None
        return largest_error


def _deviation(result: Floats, agreed: Floats, bound: float) -> tuple[int, float]:
    """Return how many values deviate by more than a bound, and the largest deviation over the bound, chunk by chunk."""
    wrong_count, largest_errors = 0, []
    for first in range(0, len(agreed), COMPARED_POINTS):
        part = slice(first, first + COMPARED_POINTS)
        errors = np.abs(result[part] - agreed[part, None]) / bound
        wrong_count += int(np.count_nonzero(~(errors <= 1)))  # a NaN must count as wrong
        largest_errors.append(errors.max())
    return wrong_count, float(np.max(largest_errors))


def make_operands(problem: Field, precision: str, seed: int) -> DgOperands:
    """Return the operands of a field in the plane; ReproError if the field or the precision cannot be filtered."""
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


#: Number of regions that NumPy processes at a time, which takes a few hundred megabytes.
_REGION_CHUNK = 1 << 13


class ExpectedIntegrals(NamedTuple):
    """Expected integrals, `(n,)`, and the error bound of each integral, `(n,)`."""

    values: Floats
    bounds: Floats


class ClippedRegions(NamedTuple):
    """A list of regions that a device has made: `rows` and `cells` as in `Regions`."""

    rows: Floats
    cells: NDArray[np.int32]


@dataclass(frozen=True)
class RegionOperands:
    """A field in space, a list of regions, and the kernel; the degree is the same for field and kernel."""

    field: Field
    regions: Regions
    #: Coefficients of the kernel, `(3k + 1, k + 1)`, as in `repro.filtering.spline_kernel.SplineKernel`.
    pieces: Floats

    def __post_init__(self) -> None:
        degree, shape = self.regions.degree, (self.regions.width, self.regions.degree + 1)
        if self.field.degree != degree or self.pieces.shape != shape:
            raise ReproError(
                "field, regions and kernel do not match",
                where=self.field.name,
                expected=f"a field of degree {degree} and pieces {shape}",
                actual=f"degree {self.field.degree}, pieces {self.pieces.shape}",
            )

    @property
    def degree(self) -> int:
        return self.regions.degree

    @property
    def count(self) -> int:
        return len(self.regions.rows)

    @property
    def precision(self) -> str:
        return "double"

    @cached_property
    def checksum(self) -> str:
        digest = hashlib.sha256(self.field.checksum().encode())
        for array in (self.regions.rows, self.regions.cells, self.pieces):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @property
    def min_bytes(self) -> tuple[int, int]:
        """Bytes to read (the list, and all elements in it with their modes) and to write (the integrals)."""
        elements = len(np.unique(self.regions.cells))
        read = self.count * (8 * NUMBERS_PER_REGION + 4) + elements * 8 * (3 + self.field.modes.shape[1])
        return read, 8 * self.count

    @property
    def operations(self) -> int:
        """Operations of the quadrature rule with the fewest points."""
        return self.count * region_operations("lane", self.degree)

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"regions": self.count, "points": len(self.regions.positions)}

    @cached_property
    def expected(self) -> ExpectedIntegrals:
        return expected_integrals(self.regions, self.field, self.pieces, positive(4 * self.degree, 3))

    def check(self, runnable: Runnable, workspace: Workspace) -> float | None:
        """Launch a prepared runnable once and return its largest error over its bound."""
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
        # written as `not <=`, so that NaN counts as wrong; an integral of 0 has a bound of 0
        is_wrong = ~((errors <= 1) | (result == values))
        if is_wrong.any():
            first = int(np.flatnonzero(is_wrong)[0])
            message = f"{int(is_wrong.sum())} of {len(values)} integrals are wrong; the first is number {first}: "
            raise IncorrectError(f"{message}{result[first]}, expected {values[first]}", float(np.nanmax(errors)))
        return float(np.nanmax(errors, initial=0.0))

    def _check_clipped(self, clip_result: ClippedRegions) -> float:
        """Return the largest difference between a point's stencil volume and its regions' volume, over a bound.

        The bound for n regions is n · eps times the stencil's volume, times the domain's size in units of a cube's
        edge.
        """
        positions, h = self.regions.positions, self.regions.h
        regions = Regions(self.degree, h, clip_result.rows, clip_result.cells, positions)
        volume = float(regions.width**3)
        volumes = np.abs(np.linalg.det(np.diff(regions.kernel_corners(), axis=1))) / 6
        filled_volumes = np.bincount(regions.points, volumes, len(positions))
        counts = np.bincount(regions.points, minlength=len(positions))
        extent = np.abs(self.field.vertices).max() / h + regions.width
        errors = np.abs(filled_volumes - volume) / (np.maximum(counts, 1) * extent * np.finfo(np.float64).eps * volume)
        if not (errors <= 1).all():
            first = int(np.flatnonzero(~(errors <= 1))[0])
            message = f"the regions of point {first} fill {filled_volumes[first]} of a stencil of {volume}"
            raise IncorrectError(message, float(np.nanmax(errors)))
        return float(errors.max())

    @property
    def sums(self) -> ExpectedIntegrals:
        """Sum of the integrals for each point, `(points,)`: the filtered field. The last point may lack regions."""
        points, count = self.regions.points, len(self.regions.positions)
        values, bounds, sizes = (
            np.bincount(points, weights, count).astype(np.float64)
            for weights in (*self.expected, np.abs(self.expected.values))
        )
        terms = np.bincount(points, minlength=count)
        return ExpectedIntegrals(values, bounds + terms * np.finfo(np.float64).eps * sizes)

    def pack(self, method: RegionMethod) -> dict[str, NDArray[Any]]:
        """Return the arrays that a method's kernels read.

        The paper's method `vector` reads the unchanged list, `maps` (for each element, the inverse of its edge matrix
        and its first corner), the field's values at each element's points, and the quadrature rule. Our methods read
        the transposed list, first corners, and modes.
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
        """float64 `(c, m)`: coefficients in monomials of (y - first corner) / h."""
        return local_modes(self.field, self.regions.h)


def region_operands_of(workspace: Workspace, degree: int) -> RegionOperands:
    """Return the workspace's operands; Unsupported if they are not regions, or not of this degree."""
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
    positions = nodes @ (corners[:, 1:] - corners[:, :1]) / h
    values = field.modes @ evaluate(field.basis, nodes, field.degree).T
    matrices = monomials(positions.reshape(-1, 3), field.degree).reshape(*positions.shape[:2], -1)
    return np.asarray(np.linalg.solve(matrices, values[:, :, None])[:, :, 0], np.float64)


def expected_integrals(regions: Regions, field: Field, pieces: Floats, rule: Rule | None = None) -> ExpectedIntegrals:
    """Return the integral of kernel times field over each region, with bounds; rule None: product of Gauss rules.

    The bound is terms · eps · Σ |w| |K| |u|, where |K|, |u| and the volume are sums of absolute values of their terms.
    `terms` is the number of the paper's quadrature points plus eight times the loss of coordinates: sizes of domain and
    stencil in edges of a cube. Corners have the same loss, which can exceed a sliver's edges; therefore, the volume's
    bound is computed with edges that are longer by this loss.
    """
    rule = rule or exact_for(4 * field.degree, 3)
    origins, modes = field.vertices[field.cells[:, 0]], local_modes(field, regions.h)
    cancellation = 8 * (np.abs(field.vertices).max() / regions.h + regions.width)
    eps, terms = np.finfo(np.float64).eps, full_width(field.degree) + cancellation
    values, bounds = np.empty(len(regions.rows)), np.empty(len(regions.rows))
    corners, cubes = regions.kernel_corners(), regions.cubes
    for start in range(0, len(values), _REGION_CHUNK):
        part = slice(start, start + _REGION_CHUNK)
        cells = regions.cells[part]
        edges = corners[part, 1:] - corners[part, :1]
        inner = rule.points @ edges
        kernel, large_kernel = _kernel(pieces[cubes[part]], corners[part, :1] - cubes[part, None] + inner)
        first = (regions.corners[part, 0] - origins[cells]) / regions.h
        field_values, magnitudes = _field(modes[cells], first[:, None] + inner, field.degree)
        values[part] = np.abs(np.linalg.det(edges)) * ((kernel * field_values) @ rule.weights)
        sizes = _permanents(np.abs(edges))
        volumes = terms * eps * sizes + (_permanents(np.abs(edges) + cancellation * eps) - sizes)
        bounds[part] = volumes * ((large_kernel * magnitudes) @ rule.weights)
    return ExpectedIntegrals(values, bounds)


def _kernel(pieces: Floats, positions: Floats) -> tuple[Floats, Floats]:
    """Return kernel values from pieces `(n, 3, k + 1)` at places `(n, q, 3)`, and their terms' summed magnitudes."""
    kernel, magnitudes = np.ones(positions.shape[:2]), np.ones(positions.shape[:2])
    for axis in range(3):
        position = positions[:, :, axis]
        value, size = np.zeros_like(kernel), np.zeros_like(kernel)
        for coefficient in pieces[:, axis].T[::-1]:
            value = value * position + coefficient[:, None]
            size = size * np.abs(position) + np.abs(coefficient)[:, None]
        kernel *= value
        magnitudes *= size
    return kernel, magnitudes


def _field(modes: Floats, positions: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return polynomials with modes `(n, m)` at places `(n, q, 3)`, and the sums of their terms' magnitudes."""
    value, size = np.zeros(positions.shape[:2]), np.zeros(positions.shape[:2])
    for powers, mode in zip(exponents(degree, 3), modes.T, strict=True):
        term = np.broadcast_to(mode[:, None], value.shape)
        for axis in np.repeat(np.arange(3), powers):
            term = term * positions[:, :, axis]
        value += term
        size += np.abs(term)
    return value, size


def _permanents(matrices: Floats) -> Floats:
    """Return the permanents of matrices `(n, 3, 3)`."""
    a, b, c = (matrices[:, i] for i in range(3))
    permanents = b * np.roll(c, 1, axis=1) + np.roll(b, 1, axis=1) * c
    sums: Floats = (a * np.roll(permanents, 1, axis=1)).sum(axis=1)
    return sums
