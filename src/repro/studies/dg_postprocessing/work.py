"""How much filtering a field takes: counted pairs and segments, and operations by a formula that tables print."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.filtering.triangulation import Triangulation
from repro.galerkin.basis import mode_count

#: Additions and multiplications of a pair beside its segments, and of a segment beside its Gauss points: corners into
#: kernel coordinates and the search for lines; where a segment ends.
OF_PAIR, OF_SEGMENT = 80, 12


class Work2D(NamedTuple):
    """Pairs of a point and an image of a triangle, and what these are cut into.

    Attributes
    ----------
    pairs
        Images of triangles that meet the stencil of a point.
    subtriangles
        Triangles that clipping leaves.
    segments
        Parts of edges between knot lines.
    """

    pairs: int
    subtriangles: int
    segments: int


def gauss_points(degree: int) -> int:
    """Return the points that are exact along a segment, for degree 3 P + 1."""
    return (3 * degree + 3) // 2


def of_evaluation(degree: int) -> int:
    """Return the operations at a Gauss point of a contour: position, K along y, u along x, K u integrated, the sum."""
    modes = mode_count(degree, 2)
    along_x = 2 * (degree + 1) ** 2 + (2 * degree + 1) + 4 * degree
    return 4 + 2 * degree + 2 + 2 * (modes - degree - 1) + along_x + 3


def operations(work: Work2D, degree: int) -> int:
    """Return the operations of contours: (28, 50, 78) an evaluation for P = 1, 2, 3, a fused one counted as two."""
    evaluations = work.segments * gauss_points(degree)
    return evaluations * of_evaluation(degree) + work.segments * OF_SEGMENT + work.pairs * OF_PAIR


def of_triangles(mesh: Triangulation, degree: int, scale: float) -> NDArray[np.float64]:
    """Return the operations of a pair of a point and each triangle that lies within its stencil, float64 `(t,)`.

    An edge has a segment, and one more for each line that it crosses: on average over all points its extents along x
    and y, in widths of a square.
    """
    sides = np.abs(mesh.corners - np.roll(mesh.corners, 1, axis=1)).sum(axis=(1, 2)) / scale
    of_segment = gauss_points(degree) * of_evaluation(degree) + OF_SEGMENT
    return np.asarray(OF_PAIR + (3 + sides) * of_segment, np.float64)


def formula() -> str:
    """Return the sentences that say how operations are counted."""
    evaluations = ", ".join(str(of_evaluation(degree)) for degree in (1, 2, 3))
    gauss = ", ".join(str(gauss_points(degree)) for degree in (1, 2, 3))
    return (
        f"Operations: ({evaluations}) an evaluation of the integrand for P = 1, 2, 3, of which a segment between knot "
        f"lines takes ({gauss}), {OF_SEGMENT} more a segment and {OF_PAIR} a pair of a point and a triangle; a fused "
        "multiplication and addition counts as two. They are those of contours, of pairs and segments counted at 256 "
        "points, whatever a way does itself, so that rates are in proportion to speeds."
    )
