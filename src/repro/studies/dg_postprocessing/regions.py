"""Regions of chapter 4: what stencils and elements have in common, and the paper's quadrature on tetrahedra.

A region is a tetrahedron within one element and within one cube of a point's stencil, so that the integrand is
one polynomial on it. Elements are cut along the planes of a lattice (King 2017, section 4.2). As in the paper a
region is 16 numbers: the index of the point, the point, and four corners. The paper sends regions to the GPU
while a core of the CPU clips the next ones; here the list is made once and stays on the device, since what is
compared are kernels that integrate.

An element is met by a stencil at its own place: where the stencil of a point reaches over the border of the
domain, the region has the point's image on that side, so that corners are always where the element is.

The quadrature is in collapsed coordinates, with points on two of a tetrahedron's faces (Lobatto and Radau).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import gamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_jacobi

from repro.errors import ReproError
from repro.galerkin.quadrature import Rule, evaluation_rule
from repro.problems.field import Field

Floats = NDArray[np.float64]


def paper_counts(degree: int) -> tuple[int, int, int]:
    """Return Q0, Q1, Q2, the points in each direction for fields of a degree p (King 2017, section 4.2.2).

    They are ⌈(4p + 3)/2⌉, 2p + 1, 2p + 1: exact for degree 4p, a kernel of degree p in each direction times the field.
    """
    return -(-(4 * degree + 3) // 2), 2 * degree + 1, 2 * degree + 1


def paper_rule(degree: int) -> Rule:
    """Return the rule for fields of a degree: 36 points for 1, 150 for 2; the last direction fastest.

    The paper names the numbers of points alone. They fit Gauss-Lobatto points in the first direction and Gauss-Radau
    points in the two that collapse, none of them where they do (Karniadakis, Sherwin: Spectral/hp Element Methods for
    CFD, 2005, section 4.1).
    """
    rule = _rule(*paper_counts(degree))
    return Rule(rule.points.copy(), rule.weights.copy())


@cache
def _rule(*counts: int) -> Rule:
    axes = [_lobatto(counts[0]), _radau(counts[1], 1), _radau(counts[2], 2)]
    places = [places.ravel() for places in np.meshgrid(*(places for places, _ in axes), indexing="ij")]
    weights = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij")), axis=0).ravel()
    points = np.stack([places[0] * (1 - places[1]) * (1 - places[2]), places[1] * (1 - places[2]), places[2]], axis=1)
    return Rule(points, weights)


def _lobatto(count: int) -> tuple[Floats, Floats]:
    """Return points from 0 to 1 with both ends and their weights, exact for degree 2 count - 3."""
    roots, weights = roots_jacobi(count - 2, 1, 1)
    end = 2 / (count * (count - 1))
    all_weights = np.concatenate([[end], weights / (1 - roots**2), [end]])
    return (np.concatenate([[-1.0], roots, [1.0]]) + 1) / 2, all_weights / 2


def _radau(count: int, alpha: int) -> tuple[Floats, Floats]:
    """Return points from 0 without 1, for the weight (1 - x) to a power, exact for degree 2 count - 2."""
    roots, weights = roots_jacobi(count - 1, alpha, 1)
    inner = weights / (1 + roots)
    total = 2 ** (alpha + 1) * gamma(alpha + 1) / gamma(alpha + 2)
    all_weights = np.concatenate([[total - inner.sum()], inner])
    return (np.concatenate([[-1.0], roots]) + 1) / 2, all_weights / 2 ** (alpha + 1)


def axis_nodes(axis: int, count: int) -> list[float]:
    """Return the coordinates, from 0 to 1, of an element's points in one direction of the collapsed coordinates.

    They are those of `repro.galerkin.quadrature.collapsed`, at the products of which an element has its field's values.
    """
    return [float(root) for root in (roots_jacobi(count, axis, 0)[0] + 1) / 2]


Integers = NDArray[np.int64]

#: What a tetrahedron and a cube no smaller than it have in common at the most: one plane of each direction can cut,
#: and each makes at most three of one.
MAX_PIECES = 27


class Pieces(NamedTuple):
    """Tetrahedra within one cube each.

    Attributes
    ----------
    corners
        float64 `(n, 4, 3)`, in no particular orientation.
    sources
        `(n,)`, which tetrahedron each is of; ascending.
    cubes
        int64 `(n, 3)`, the lowest corner of its cube.
    """

    corners: Floats
    sources: Integers
    cubes: Integers

    @property
    def volumes(self) -> Floats:
        """float64 `(n,)`, without sign."""
        volumes: Floats = np.abs(np.linalg.det(self.corners[:, 1:] - self.corners[:, :1])) / 6
        return volumes


def clip(corners: Floats, width: int) -> Pieces:
    """Cut tetrahedra `(n, 4, 3)` by the cubes of the lattice of whole numbers from 0 to `width`; what lies beyond goes.

    Each tetrahedron is cut, for each cube that the box around it meets, by the cube's six planes one after the other.
    Signs are compared with zero, without tolerances: a corner on a plane is part of neither side's interior.
    """
    lowest = np.clip(np.floor(corners.min(axis=1)), 0, width).astype(np.int64)
    highest = np.clip(np.ceil(corners.max(axis=1)), 0, width).astype(np.int64)
    counts = np.maximum(highest - lowest, 0)
    pairs = counts.prod(axis=1)
    owners = np.repeat(np.arange(len(corners)), pairs)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    cubes = np.empty((len(owners), 3), np.int64)
    for axis in (2, 1, 0):
        cubes[:, axis] = lowest[owners, axis] + within % np.maximum(counts[owners, axis], 1)
        within //= np.maximum(counts[owners, axis], 1)
    pieces, of_pair = corners[owners], np.arange(len(owners))
    for axis in range(3):
        for sign in (1, -1):
            bounds = (cubes[of_pair, axis] + (sign < 0)).astype(np.float64)
            pieces, kept = _cut_tetrahedra(pieces, axis, bounds, sign)
            of_pair = of_pair[kept]
    order = np.argsort(of_pair, kind="stable")
    of_pair = of_pair[order]
    return Pieces(pieces[order], owners[of_pair], cubes[of_pair])


def _cut_tetrahedra(corners: Floats, axis: int, bounds: Floats, sign: int) -> tuple[Floats, Integers]:
    """Return what of each tetrahedron lies where `sign` times a coordinate is above its bound, 0 to 3 tetrahedra.

    Returns
    -------
    pieces
        float64 `(n, 4, 3)`.
    sources
        `(n,)`, which tetrahedron each is of.
    """
    heights = sign * (corners[:, :, axis] - bounds[:, None])
    # by sides alone: by heights, equal ones would be in an order, and the prism in pieces, that rounding decides
    order = np.argsort(-np.sign(heights), axis=1, kind="stable")
    heights = np.take_along_axis(heights, order, axis=1)
    sorted_corners = np.take_along_axis(corners, order[:, :, None], axis=1)
    above = (heights > 0).sum(axis=1)
    cut = heights[:, 3] < 0
    whole = np.flatnonzero(~cut & (above > 0))
    made, sources = [corners[whole]], [whole]

    def crossing(rows: Integers, upper: int, lower: int) -> Floats:
        """Return where an edge from above meets the plane, `(rows, 3)`."""
        top, bottom = sorted_corners[rows, upper], sorted_corners[rows, lower]
        high, low = heights[rows, upper, None], heights[rows, lower, None]
        place: Floats = top + (bottom - top) * (high / (high - low))
        place[:, axis] = bounds[rows]
        return np.where(low == 0, bottom, place)

    def add(rows: Integers, *points: Floats) -> None:
        made.append(np.stack(points, axis=1))
        sources.append(rows)

    tips = np.flatnonzero(cut & (above == 1))
    add(tips, sorted_corners[tips, 0], *(crossing(tips, 0, lower) for lower in (1, 2, 3)))
    for count in (2, 3):
        rows = np.flatnonzero(cut & (above == count))
        if count == 2:  # a wedge, its triangles at the two corners above
            first = [sorted_corners[rows, 0], crossing(rows, 0, 2), crossing(rows, 0, 3)]
            second = [sorted_corners[rows, 1], crossing(rows, 1, 2), crossing(rows, 1, 3)]
        else:  # a tetrahedron without its tip: a triangle above and one in the plane
            first = [sorted_corners[rows, upper] for upper in range(3)]
            second = [crossing(rows, upper, 3) for upper in range(3)]
        add(rows, *first, second[0])
        # a third corner on the plane is an edge of the wedge: the tetrahedron there is flat
        solid = (heights[rows, 2] != 0) if count == 2 else np.ones(len(rows), bool)
        add(rows[solid], *(points[solid] for points in (first[1], first[2], second[0], second[1])))
        add(rows, first[2], *second)
    return np.concatenate(made), np.concatenate(sources)


#: Numbers of a region: index of the point, the point, four corners.
NUMBERS_PER_REGION = 16
#: Regions of a list, unless another number is asked for.
DEFAULT_REGIONS = 2**20
#: Tetrahedra of the paper's mesh. Of fewer the list is `SHORT` regions long, so that a CPU is done with it in time.
PAPER_CELLS, SHORT_LIST = 6000, 2**11


@dataclass(frozen=True)
class Regions:
    """A list of regions, sorted by element, those of an element by point: the order of the paper's per-element method.

    Attributes
    ----------
    degree
        k of the kernel; its stencil has 3k + 1 cubes in each direction.
    h
        Edge of a cube.
    rows
        float64 `(n, 16)`: index of the point (among those of the list), its image's coordinates, four corners.
    cells
        int32 `(n,)`, the element that each is of.
    places
        float64 `(points, 3)`: the points of the list.
    """

    degree: int
    h: float
    rows: Floats
    cells: NDArray[np.int32]
    places: Floats

    @property
    def width(self) -> int:
        """Cubes of the stencil in each direction."""
        return 3 * self.degree + 1

    @property
    def corners(self) -> Floats:
        """float64 `(n, 4, 3)`."""
        return self.rows[:, 4:].reshape(-1, 4, 3)

    @property
    def points(self) -> NDArray[np.int32]:
        """int32 `(n,)`, the point that each region is of."""
        return self.rows[:, 0].astype(np.int32)

    def knots(self, corners: Floats | None = None) -> Floats:
        """Return corners `(n, 4, 3)` in the kernel's coordinates, where its knots are 0 to 3k + 1."""
        corners = self.corners if corners is None else corners
        places: Floats = (corners - self.rows[:, None, 1:4]) / self.h + self.width / 2
        return places

    @property
    def cubes(self) -> Integers:
        """int64 `(n, 3)`, which piece of the kernel applies in each direction: where the region's centroid lies."""
        lowest: Integers = np.clip(np.floor(self.knots().mean(axis=1)), 0, self.width - 1).astype(np.int64)
        return lowest

    def by_point(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the regions sorted by point, `(n,)`, and where each point's begin, `(points + 1,)`."""
        points = self.points
        offsets = np.concatenate([[0], np.cumsum(np.bincount(points, minlength=len(self.places)))])
        return np.argsort(points, kind="stable").astype(np.int32), offsets.astype(np.int32)


def make_regions(
    field: Field,
    count: int = DEFAULT_REGIONS,
    seed: int = 1,
    degree: int | None = None,
    h: float | None = None,
    places: Floats | None = None,
) -> Regions:
    """Clip the elements of a field by the stencils of points, one after the other.

    Parameters
    ----------
    count
        Regions of the list: of the last point maybe only some. 0 stands for all that there are.
    seed
        Of the order of the points.
    degree
        Of the kernel; None: that of the field.
    h
        Edge of a cube; None: the longest extent of an element along an axis, on the paper's mesh its cubes' edge.
    places
        The points within the domain, float64 `(n, 3)`, in their order; None: the quadrature points of the elements,
        drawn in an order by the seed.

    Raises
    ------
    ReproError
        The field is not in space or not periodic, a number makes no sense, a point is outside the domain, or there are
        not so many regions.
    """
    if field.dimension != 3 or not field.periodic:
        actual = f"{field.dimension} dimensions, {'' if field.periodic else 'not '}periodic"
        raise ReproError("no field for regions", where=field.name, expected="3 dimensions, periodic", actual=actual)
    corners = field.vertices[field.cells]
    edge = float((corners.max(axis=1) - corners.min(axis=1)).max()) if h is None else h
    degree = field.degree if degree is None else degree
    for name, number, least in (("count", count, 0), ("degree", degree, 0), ("h", edge, np.nextafter(0, 1))):
        if not least <= number < np.inf:
            raise ReproError(f"no {name} of regions", where=field.name, expected="a positive number", actual=number)
    if places is None:
        places = evaluation_points(field)
        places = places[np.random.default_rng(seed).permutation(len(places))]
    beyond = ((places < field.vertices.min(axis=0)) | (places > field.vertices.max(axis=0)) | np.isnan(places)).any(
        axis=1
    )
    if beyond.any() or not len(places):
        first = f"point {int(np.argmax(beyond))}, {places[beyond][0]}" if len(places) else "no points"
        raise ReproError("points outside the domain", where=field.name, expected="points within", actual=first)
    rows: list[Floats] = []
    cells: list[NDArray[np.int32]] = []
    left = count or None
    used = 0
    for part, part_cells in _clipped_stencils(field, places, degree, edge):
        rows.append(part[:left])
        cells.append(part_cells[:left])
        used += 1
        if left is not None:
            left -= len(rows[-1])
            if not left:
                break
    if left:
        raise ReproError(
            "the mesh has fewer regions than the list",
            where=field.name,
            expected=count,
            actual=count - left,
            todo="ask for fewer, or for 0: all that there are",
        )
    all_rows, all_cells = np.concatenate(rows), np.concatenate(cells)
    order = np.argsort(all_cells, kind="stable")
    return Regions(degree, edge, all_rows[order], all_cells[order], places[:used])


def region_count(cells: int) -> int:
    """Return how many regions the list of a mesh of so many tetrahedra has in a campaign."""
    return DEFAULT_REGIONS if cells >= PAPER_CELLS else SHORT_LIST


def image_count(period: Floats, degree: int, h: float) -> list[int]:
    """Return how many periods a stencil of a point within the domain reaches beyond it, at the most, each way."""
    return [int(farthest) for farthest in np.ceil((3 * degree + 1) * h / 2 / period)]


def _clipped_stencils(
    field: Field, places: Floats, degree: int, h: float
) -> Iterator[tuple[Floats, NDArray[np.int32]]]:
    """Yield for each point its regions and the elements that they are of, by element."""
    corners = field.vertices[field.cells]
    lowest, highest = corners.min(axis=1), corners.max(axis=1)
    first, last = field.vertices.min(axis=0), field.vertices.max(axis=0)
    period, width = last - first, 3 * degree + 1
    reach = width * h / 2
    images = [range(-farthest, farthest + 1) for farthest in image_count(period, degree, h)]
    for index, place in enumerate(places):
        parts, elements = [], []
        for image in product(*images):
            centre = place + np.array(image) * period
            met = np.flatnonzero(((highest > centre - reach) & (lowest < centre + reach)).all(axis=1))
            if not met.size:
                continue
            pieces = clip((corners[met] - centre) / h + width / 2, width)
            rows = np.empty((len(pieces.sources), NUMBERS_PER_REGION))
            rows[:, 0], rows[:, 1:4] = index, centre
            rows[:, 4:] = (centre + h * (pieces.corners - width / 2)).reshape(-1, 12)
            parts.append(rows)
            elements.append(met[pieces.sources].astype(np.int32))
        cells = np.concatenate(elements)
        order = np.argsort(cells, kind="stable")
        yield np.concatenate(parts)[order], cells[order]


def evaluation_points(field: Field) -> Floats:
    """Return where the filtered field is wanted: the quadrature points of each cell, `(c q, 3)`, cell by cell."""
    rule, corners = evaluation_rule(field.degree, field.dimension), field.vertices[field.cells]
    places: Floats = corners[:, :1] + rule.points @ (corners[:, 1:] - corners[:, :1])
    return places.reshape(-1, field.dimension)
