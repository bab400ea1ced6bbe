"""The list of regions that the integration kernels of chapter 4 run over: what stencils and elements have in common.

A region is a tetrahedron within one element and within one cube of a point's stencil, so that the integrand is one
polynomial on it. As in the paper it is 16 numbers: the index of the point, the point, and four corners. The paper
sends regions to the GPU while a core of the CPU clips the next ones; here the list is made once and stays on the
device, since what is compared are kernels that integrate.

An element is met by a stencil at its own place: of points whose stencil reaches over the border of the domain, the
region has the point's image on that side, so that corners are always where the element is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.galerkin.quadrature import evaluation_rule
from repro.problems.field import Field
from repro.studies.dg_postprocessing.clipping import clip

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Numbers of a region: index of the point, the point, four corners.
NUMBERS = 16
#: Regions of a list, unless another number is asked for.
DEFAULT_COUNT = 2**20
#: Tetrahedra of the paper's mesh. Of fewer the list is `SHORT` regions long, so that a CPU is done with it in time.
PAPERS_CELLS, SHORT = 6000, 2**11


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
    count: int = DEFAULT_COUNT,
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
    for part, part_cells in _clipped(field, places, degree, edge):
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


def regions_of(cells: int) -> int:
    """Return how many regions the list of a mesh of so many tetrahedra has in a campaign."""
    return DEFAULT_COUNT if cells >= PAPERS_CELLS else SHORT


def images_of(period: Floats, degree: int, h: float) -> list[int]:
    """Return how many periods a stencil of a point within the domain reaches beyond it, at the most, each way."""
    return [int(farthest) for farthest in np.ceil((3 * degree + 1) * h / 2 / period)]


def _clipped(field: Field, places: Floats, degree: int, h: float) -> Iterator[tuple[Floats, NDArray[np.int32]]]:
    """Yield for each point its regions and the elements that they are of, by element."""
    corners = field.vertices[field.cells]
    lowest, highest = corners.min(axis=1), corners.max(axis=1)
    first, last = field.vertices.min(axis=0), field.vertices.max(axis=0)
    period, width = last - first, 3 * degree + 1
    reach = width * h / 2
    images = [range(-farthest, farthest + 1) for farthest in images_of(period, degree, h)]
    for index, place in enumerate(places):
        parts, elements = [], []
        for image in product(*images):
            centre = place + np.array(image) * period
            met = np.flatnonzero(((highest > centre - reach) & (lowest < centre + reach)).all(axis=1))
            if not met.size:
                continue
            pieces = clip((corners[met] - centre) / h + width / 2, width)
            rows = np.empty((len(pieces.sources), NUMBERS))
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
