"""The filter's matrix by areas, a reference for that by contours: triangles are clipped to lattice squares."""

from __future__ import annotations

from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from repro.filtering.grids import Triangulation
from repro.filtering.reference import Floats, rows_by, sum_moments
from repro.filtering.spline_kernel import SplineKernel
from repro.filtering.stencil_geometry import StencilPairs, fans
from repro.galerkin import exact_for


def clipped_rows(
    mesh: Triangulation,
    points: ArrayLike,
    degree: int,
    basis: str = "dubiner",
    scale: ArrayLike | None = None,
    *,
    field_degree: int | None = None,
    derivative: tuple[int, int] = (0, 0),
) -> csr_array:
    """Return the filter's matrix; arguments, result and errors are those of `contour_rows`.

    Clipping uses the algorithm of Sutherland and Hodgman (King 2017, algorithm 1). The collapsed Gauss rule is exact
    for degree 2k + P.
    """
    return rows_by(_integrate_areas, mesh, points, degree, basis, scale, field_degree, derivative)


def _integrate_areas(pairs: StencilPairs, along_x: SplineKernel, along_y: SplineKernel, degree: int) -> Floats:
    """Integrate K K times each monomial of the reference coordinates over each pair, by area: `(pairs, m)`."""
    pair, square, corners = fans(pairs.corners, along_x.width)
    rule = exact_for(2 * along_x.degree + degree, 2)
    sides = corners[:, 1:] - corners[:, :1]
    jacobian = sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0]
    x, y = (corners[:, :1, axis] + sides[..., axis] @ rule.points.T for axis in range(2))
    weights = jacobian[:, None] * rule.weights
    return sum_moments(pairs, pair, square, (x, y), weights, (along_x, along_y), degree)
