"""Regions (chapter 4): intersections of stencils and elements; quadrature rules and operation counts of the kernels.

A region is a tetrahedron within one element and one cube of a point's stencil, so that the integrand is one polynomial
on it (King 2017, section 4.2). The paper clips on the CPU while the GPU integrates; here the list of regions is made
once, since only the integration is compared. A stencil that crosses the domain's border is completed by the stencil of
a periodic image of its point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import gamma
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.galerkin import Rule, evaluation_rule, mode_count, positive
from repro.problems.field import Field
from repro.studies.dg_postprocessing.ids import RegionMethod, element_points, full_width, paper_counts
from repro.tuning.recordings import Machine

Floats = NDArray[np.float64]


def paper_rule(degree: int) -> Rule:
    """Return the paper's quadrature rule: 36 points for degree 1, 150 for degree 2; the last direction is the fastest.

    The paper gives only the numbers of points. They fit Gauss-Lobatto points in the first direction and Gauss-Radau
    points in both collapsed directions (Karniadakis, Sherwin: Spectral/hp Element Methods for CFD, 2005, section 4.1).
    """
    rule = _rule(*paper_counts(degree))
    return Rule(rule.points.copy(), rule.weights.copy())


@cache
def _rule(*counts: int) -> Rule:
    axes = [_lobatto(counts[0]), _radau(counts[1], 1), _radau(counts[2], 2)]
    positions = [positions.ravel() for positions in np.meshgrid(*(positions for positions, _ in axes), indexing="ij")]
    weights = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij")), axis=0).ravel()
    points = np.stack(
        [positions[0] * (1 - positions[1]) * (1 - positions[2]), positions[1] * (1 - positions[2]), positions[2]],
        axis=1,
    )
    return Rule(points, weights)


def _gauss_jacobi(count: int, alpha: int, beta: int) -> tuple[Floats, Floats]:
    """Return Gauss points from -1 to 1 and their weights, for the weight (1 - x)^alpha (1 + x)^beta."""
    from scipy.special import roots_jacobi  # slow to import, and every command imports this module

    roots, weights = roots_jacobi(count, alpha, beta)
    return roots, weights


def _lobatto(count: int) -> tuple[Floats, Floats]:
    """Return Gauss-Lobatto points from 0 to 1, both included, and their weights, exact for degree 2 count - 3."""
    roots, weights = _gauss_jacobi(count - 2, 1, 1)
    end = 2 / (count * (count - 1))
    all_weights = np.concatenate([[end], weights / (1 - roots**2), [end]])
    return (np.concatenate([[-1.0], roots, [1.0]]) + 1) / 2, all_weights / 2


def _radau(count: int, alpha: int) -> tuple[Floats, Floats]:
    """Return Gauss-Radau points in [0, 1) for the weight (1 - x)^alpha, exact for degree 2 count - 2."""
    roots, weights = _gauss_jacobi(count - 1, alpha, 1)
    inner = weights / (1 + roots)
    total = 2 ** (alpha + 1) * gamma(alpha + 1) / gamma(alpha + 2)
    all_weights = np.concatenate([[total - inner.sum()], inner])
    return (np.concatenate([[-1.0], roots]) + 1) / 2, all_weights / 2 ** (alpha + 1)


def axis_nodes(axis: int, count: int) -> list[float]:
    """Return the points of an element in one direction, as in `repro.galerkin.collapsed`."""
    return [float(root) for root in (_gauss_jacobi(count, axis, 0)[0] + 1) / 2]


Integers = NDArray[np.int64]


class Pieces(NamedTuple):
    """Tetrahedra, each within one cube of the lattice."""

    #: Corners, `(n, 4, 3)`; the orientation may be either.
    corners: Floats
    #: Index of the tetrahedron from which each piece was cut; ascending.
    sources: Integers
    #: Lowest corner of each piece's cube, `(n, 3)`.
    cubes: Integers

    @property
    def volumes(self) -> Floats:
        """Volumes as absolute values."""
        volumes: Floats = np.abs(np.linalg.det(self.corners[:, 1:] - self.corners[:, :1])) / 6
        return volumes


def clip(corners: Floats, width: int) -> Pieces:
    """Cut tetrahedra `(n, 4, 3)` by the cubes of the lattice from 0 to `width`; drop everything outside.

    Each tetrahedron is cut by the six planes of each cube that its bounding box meets, without tolerance: a corner on a
    plane belongs to neither side's interior.
    """
    first_cells = np.clip(np.floor(corners.min(axis=1)), 0, width).astype(np.int64)
    end_cells = np.clip(np.ceil(corners.max(axis=1)), 0, width).astype(np.int64)
    counts = np.maximum(end_cells - first_cells, 0)
    pairs = counts.prod(axis=1)
    owners = np.repeat(np.arange(len(corners)), pairs)
    index_in_cell = np.arange(len(owners)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    cubes = np.empty((len(owners), 3), np.int64)
    for axis in (2, 1, 0):
        cubes[:, axis] = first_cells[owners, axis] + index_in_cell % np.maximum(counts[owners, axis], 1)
        index_in_cell //= np.maximum(counts[owners, axis], 1)
    pieces, sources = corners[owners], np.arange(len(owners))
    for axis in range(3):
        for sign in (1, -1):
            bounds = (cubes[sources, axis] + (sign < 0)).astype(np.float64)
            pieces, kept_sources = _cut_tetrahedra(pieces, axis, bounds, sign)
            sources = sources[kept_sources]
    order = np.argsort(sources, kind="stable")
    sources = sources[order]
    return Pieces(pieces[order], owners[sources], cubes[sources])


def _cut_tetrahedra(corners: Floats, axis: int, bounds: Floats, sign: int) -> tuple[Floats, Integers]:
    """Return the parts (0 to 3 tetrahedra each) with `sign` times a coordinate above a bound, and their sources."""
    heights = sign * (corners[:, :, axis] - bounds[:, None])
    # use only signs: rounding would make the order of equal heights arbitrary, and with it how a prism is cut
    order = np.argsort(-np.sign(heights), axis=1, kind="stable")
    heights = np.take_along_axis(heights, order, axis=1)
    sorted_corners = np.take_along_axis(corners, order[:, :, None], axis=1)
    corners_above = (heights > 0).sum(axis=1)
    cut = heights[:, 3] < 0
    uncut = np.flatnonzero(~cut & (corners_above > 0))
    parts, sources = [corners[uncut]], [uncut]

    def crossing(rows: Integers, upper: int, lower: int) -> Floats:
        """Return the points where edges intersect the plane."""
        top, bottom = sorted_corners[rows, upper], sorted_corners[rows, lower]
        high, low = heights[rows, upper, None], heights[rows, lower, None]
        position: Floats = top + (bottom - top) * (high / (high - low))
        position[:, axis] = bounds[rows]
        return np.where(low == 0, bottom, position)

    def add(rows: Integers, *points: Floats) -> None:
        parts.append(np.stack(points, axis=1))
        sources.append(rows)

    tips = np.flatnonzero(cut & (corners_above == 1))
    add(tips, sorted_corners[tips, 0], *(crossing(tips, 0, lower) for lower in (1, 2, 3)))
    for count in (2, 3):
        rows = np.flatnonzero(cut & (corners_above == count))
        if count == 2:  # a wedge; its two triangles are at the two upper corners
            first = [sorted_corners[rows, 0], crossing(rows, 0, 2), crossing(rows, 0, 3)]
            second = [sorted_corners[rows, 1], crossing(rows, 1, 2), crossing(rows, 1, 3)]
        else:  # a tetrahedron without its tip: one triangle above, one in the plane
            first = [sorted_corners[rows, upper] for upper in range(3)]
            second = [crossing(rows, upper, 3) for upper in range(3)]
        add(rows, *first, second[0])
        # if the third corner is on the plane, this tetrahedron of the wedge is flat
        solid = (heights[rows, 2] != 0) if count == 2 else np.ones(len(rows), bool)
        add(rows[solid], *(points[solid] for points in (first[1], first[2], second[0], second[1])))
        add(rows, first[2], *second)
    return np.concatenate(parts), np.concatenate(sources)


#: Numbers for each region: index of the point, coordinates of the point, four corners.
NUMBERS_PER_REGION = 16
DEFAULT_REGIONS = 2**20
#: Number of tetrahedra in the paper's mesh; smaller meshes, meant for the CPU, get a list of `SHORT_LIST` regions.
PAPER_CELLS, SHORT_LIST = 6000, 2**11


@dataclass(frozen=True)
class Regions:
    """A list of regions sorted by element, then by point: the order of the paper's per-element method."""

    #: k, the degree of the kernel; its stencil has 3k + 1 cubes in each direction.
    degree: int
    #: Edge length of a cube.
    h: float
    #: `(n, 16)`: index of the point in `positions`, coordinates of the point's image, four corners.
    rows: Floats
    #: Index of the element that contains each region.
    cells: NDArray[np.int32]
    positions: Floats

    @property
    def width(self) -> int:
        return 3 * self.degree + 1

    @property
    def corners(self) -> Floats:
        """Corners of all regions, float64 `(n, 4, 3)`."""
        return self.rows[:, 4:].reshape(-1, 4, 3)

    @property
    def points(self) -> NDArray[np.int32]:
        """Index of the point for each region."""
        return self.rows[:, 0].astype(np.int32)

    def kernel_corners(self) -> Floats:
        """Return the corners in the coordinates of the kernel, whose knots are 0 to 3k + 1, float64 `(n, 4, 3)`."""
        return np.asarray((self.corners - self.rows[:, None, 1:4]) / self.h + self.width / 2)

    @property
    def cubes(self) -> Integers:
        """Cube of each region, by its centroid, int64 `(n, 3)`: the kernel's polynomial piece in each direction."""
        pieces = np.floor(self.kernel_corners().mean(axis=1))
        return np.asarray(np.clip(pieces, 0, self.width - 1), np.int64)

    def by_point(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the regions sorted by point, and the offset of each point's first region, `(points + 1,)`."""
        points = self.points
        offsets = np.concatenate([[0], np.cumsum(np.bincount(points, minlength=len(self.positions)))])
        return np.argsort(points, kind="stable").astype(np.int32), offsets.astype(np.int32)


def make_regions(
    field: Field,
    count: int = DEFAULT_REGIONS,
    seed: int = 1,
    degree: int | None = None,
    h: float | None = None,
    positions: Floats | None = None,
) -> Regions:
    """Clip the elements of a field by the stencils of points, point by point.

    Raises `ReproError`: the field is not periodic in space, an argument is out of range, or there are too few regions.

    Parameters
    ----------
    count
        Length of the list, whose last point may lack some regions; 0: all regions.
    seed
        Seed for the random order of the points.
    degree
        Degree of the kernel; None: the field's degree.
    h
        Edge length of a cube; None: the longest extent of an element along an axis (a mesh cube's edge in the paper).
    positions
        The points, `(n, 3)`; None: the quadrature points of the elements in random order.
    """
    if field.dimension != 3 or not field.periodic:
        actual = f"{field.dimension} dimensions, {'' if field.periodic else 'not '}periodic"
        raise ReproError("the field has no regions", where=field.name, expected="3 dimensions, periodic", actual=actual)
    corners = field.vertices[field.cells]
    edge = float((corners.max(axis=1) - corners.min(axis=1)).max()) if h is None else h
    degree = field.degree if degree is None else degree
    for name, number, minimum in (("count", count, 0), ("degree", degree, 0), ("h", edge, np.nextafter(0, 1))):
        if not minimum <= number < np.inf:
            raise ReproError(f"no {name} of regions", where=field.name, expected="a positive number", actual=number)
    if positions is None:
        positions = evaluation_points(field)
        positions = positions[np.random.default_rng(seed).permutation(len(positions))]
    is_outside = (
        (positions < field.vertices.min(axis=0)) | (positions > field.vertices.max(axis=0)) | np.isnan(positions)
    ).any(axis=1)
    if is_outside.any() or not len(positions):
        first = f"point {int(np.argmax(is_outside))}, {positions[is_outside][0]}" if len(positions) else "no points"
        raise ReproError("points are outside the domain", where=field.name, expected="points within", actual=first)
    rows: list[Floats] = []
    cells: list[NDArray[np.int32]] = []
    missing_count = count or None
    used_points = 0
    for part, part_cells in _clipped_stencils(field, positions, degree, edge):
        rows.append(part[:missing_count])
        cells.append(part_cells[:missing_count])
        used_points += 1
        if missing_count is not None:
            missing_count -= len(rows[-1])
            if not missing_count:
                break
    if missing_count:
        raise ReproError(
            "the mesh has fewer regions than the list",
            where=field.name,
            expected=count,
            actual=count - missing_count,
            todo="request fewer, or 0 for all",
        )
    all_rows, all_cells = np.concatenate(rows), np.concatenate(cells)
    order = np.argsort(all_cells, kind="stable")
    return Regions(degree, edge, all_rows[order], all_cells[order], positions[:used_points])


def region_count(cells: int) -> int:
    """Return the length of the list of regions in campaigns, for a mesh of `cells` tetrahedra."""
    return DEFAULT_REGIONS if cells >= PAPER_CELLS else SHORT_LIST


def image_count(period: Floats, degree: int, h: float) -> list[int]:
    """Return, for each axis, the maximum number of periods by which a stencil reaches beyond the domain."""
    return [int(farthest) for farthest in np.ceil((3 * degree + 1) * h / 2 / period)]


def _clipped_stencils(
    field: Field, positions: Floats, degree: int, h: float
) -> Iterator[tuple[Floats, NDArray[np.int32]]]:
    """Yield the regions of each point, sorted by element, and the elements that contain them."""
    corners = field.vertices[field.cells]
    lower_ends, upper_ends = corners.min(axis=1), corners.max(axis=1)
    first, last = field.vertices.min(axis=0), field.vertices.max(axis=0)
    period, width = last - first, 3 * degree + 1
    half_width = width * h / 2
    images = [range(-farthest, farthest + 1) for farthest in image_count(period, degree, h)]
    for index, position in enumerate(positions):
        parts, elements = [], []
        for image in product(*images):
            centre = position + np.array(image) * period
            neighbours = np.flatnonzero(
                ((upper_ends > centre - half_width) & (lower_ends < centre + half_width)).all(axis=1)
            )
            if not neighbours.size:
                continue
            pieces = clip((corners[neighbours] - centre) / h + width / 2, width)
            rows = np.empty((len(pieces.sources), NUMBERS_PER_REGION))
            rows[:, 0], rows[:, 1:4] = index, centre
            rows[:, 4:] = (centre + h * (pieces.corners - width / 2)).reshape(-1, 12)
            parts.append(rows)
            elements.append(neighbours[pieces.sources].astype(np.int32))
        cells = np.concatenate(elements)
        order = np.argsort(cells, kind="stable")
        yield np.concatenate(parts)[order], cells[order]


def evaluation_points(field: Field) -> Floats:
    """Return the quadrature points of all cells, `(c q, 3)`, cell by cell."""
    rule, corners = evaluation_rule(field.degree, field.dimension), field.vertices[field.cells]
    positions: Floats = corners[:, :1] + rule.points @ (corners[:, 1:] - corners[:, :1])
    return positions.reshape(-1, field.dimension)


#: Operations per region apart from its points and modes: edges, determinant, pieces of the kernel.
PAPER_REGION_OPERATIONS, OWN_REGION_OPERATIONS = 54, 66


def paper_point_operations(degree: int) -> int:
    """Return the operations per quadrature point in the paper's kernel, counted in its source text.

    These are 18 for the position and 9 for edges; in each direction of the kernel, 4 for the coordinate, 2k for the
    polynomial and 1 for the product; 18 for the position in the element and 4 for collapsed coordinates; 2n (n - 1) for
    the Lagrange polynomials of each direction with n points; the sums over QX, QY, QZ; and 3 for the total.
    """
    x, y, z = element_points(degree)
    lagrange = sum(2 * n * (n - 1) for n in (x, y, z))
    sums = y * z * (2 * x - 1) + z * (2 * y - 1) + 2 * z - 1
    return 27 + 3 * (5 + 2 * degree) + 22 + lagrange + sums + 3


def rule_points(degree: int) -> int:
    return len(positive(4 * degree, 3).weights)


def point_operations(degree: int) -> int:
    """Return our operations per quadrature point: 6 + 2k + 1 for each direction, and 2 for each mode."""
    return 3 * (6 + 2 * degree + 1) + 2 * mode_count(degree, 3)


def mode_operations(degree: int) -> int:
    """Return our operations per mode: coordinates of a point, and the field's monomials at this point."""
    return 12 + 4 * mode_count(degree, 3)


def region_operations(method: RegionMethod, degree: int) -> int:
    """Return the additions, multiplications and divisions per region, counted in the kernel's source text."""
    modes = mode_count(degree, 3)
    if method == "matrix":
        return 2 * modes
    if method == "lane":
        return rule_points(degree) * point_operations(degree) + modes * mode_operations(degree) + OWN_REGION_OPERATIONS
    return full_width(degree) * paper_point_operations(degree) + PAPER_REGION_OPERATIONS


def region_features(record: Mapping[str, Any], precision: str, machine: Machine) -> NDArray[np.float64]:
    """Return the features of a field for searches that learn from other fields, `(4,)`.

    Dimension, degree, log2 of regions per thread of the device, and log2 of the modes' bytes over the cache's bytes.
    """
    dimension, degree, cells = record["dimension"], record["degree"], record["cells"]
    logarithms = np.log2([
        region_count(cells) / (machine.sm_count * machine.threads_per_sm),
        8 * cells * mode_count(degree, dimension) / machine.cache_bytes,
    ])  # fmt: skip
    return np.array([dimension, degree, *logarithms], np.float64)
