"""The filter as a sparse matrix, computed with NumPy: the reference for all GPU kernels.

The filtered field at a point is Σ ∬ K(ξ) K(η) u dξ dη over triangles (King 2017, eq. 2.1 and 2.2), which is linear in
the modes of u. There are two independent ways to integrate, by area and by contour; they share only the search for
pairs of points and triangles. Both are exact except for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from repro.errors import ReproError
from repro.filtering.grids import Triangulation
from repro.filtering.spline_kernel import Floats, SplineKernel, kernel
from repro.filtering.stencil_geometry import (
    Integers,
    StencilPairs,
    Strips,
    fans,
    scales,
    stencil_pairs,
    strips_from_edge,
    strips_from_line,
)
from repro.galerkin import BASES, collapsed, exponents, mode_count, to_monomials

#: Number of pairs integrated at once; so few that their quadrature points stay in the cache of a core.
CHUNK = 2048
#: Function of pairs, convolution kernels along x and y, and degree of the field; returns the integral of each monomial
#: for each pair, `(pairs, m)`.
Integral = Callable[[StencilPairs, SplineKernel, SplineKernel, int], Floats]


class WorkCounts(NamedTuple):
    """Counts of work for filtering at each point; all arrays are int64 `(n,)`."""

    #: Number of pairs of the point and a periodic image of a triangle that meets the stencil.
    pairs: Integers
    #: Number of sub-triangles for integration by area.
    triangles: Integers
    #: Number of strips for integration by contour with `start="line"`.
    segments: Integers


def contour_rows(
    mesh: Triangulation,
    points: ArrayLike,
    degree: int,
    basis: str = "dubiner",
    scale: ArrayLike | None = None,
    *,
    field_degree: int | None = None,
    derivative: tuple[int, int] = (0, 0),
    start: Literal["line", "edge"] = "line",
) -> csr_array:
    """Return the filter's matrix, integrated along the edges of triangles.

    `points` `(n, 2)` are wrapped into the box. `degree` is the degree k of the convolution kernel, `field_degree` the
    degree P of the field; None: k. `scale` is h, one number or one number per point; None: the longest edge (King 2017,
    section 3.2). `derivative` has the orders along x and y, 0 to k - 1; h counts as constant. The result is float64
    `(n, t m)`; columns `triangle * m + mode` are sorted, and all m entries of a triangle that meets a stencil are
    stored. It raises `ReproError` if an argument is invalid or a stencil is wider than 64 periods.

    By Green's theorem ∬ K K u dξ dη = ∮ G K(η) dη, where G is the integral ∫ K u dξ from any curve. Along an edge
    between two lattice lines, the integrand is a polynomial of degree 2k + P + 1. Gauss quadrature integrates this
    polynomial and G exactly.

    `start` says where the integral G begins. `line`: at a vertical line, a lattice line if possible. The path of G may
    then leave the triangle, but not its bounding box, and rounding errors grow with (area of the box / area of the
    triangle)^P. `edge`: at the steepest edge of the triangle; the path of G stays within the triangle.
    """
    if start not in _STARTS:
        raise ReproError("unknown start of the contour integrals", expected=" or ".join(_STARTS), actual=start)
    integral = partial(_integrate_strips, _STARTS[start])
    return rows_by(integral, mesh, points, degree, basis, scale, field_degree, derivative)


def count_work(mesh: Triangulation, points: ArrayLike, degree: int, scale: ArrayLike | None = None) -> WorkCounts:
    """Count the work of filtering at each point, without computing integrals."""
    width = kernel(degree).width
    positions = mesh.wrapped(points)
    counts = WorkCounts(*(np.zeros(len(positions), np.int64) for _ in WorkCounts._fields))
    for pairs in stencil_pairs(mesh, positions, width, scales(mesh, len(positions), width, scale)):
        for chunk in pairs.in_chunks(CHUNK):
            corners = chunk.corners
            np.add.at(counts.pairs, chunk.point, 1)
            np.add.at(counts.triangles, chunk.point[fans(corners, width).pair], 1)
            np.add.at(counts.segments, chunk.point[strips_from_line(corners, width).pair], 1)
    return counts


def rows_by(
    integral: Integral,
    mesh: Triangulation,
    points: ArrayLike,
    degree: int,
    basis: str,
    scale: ArrayLike | None,
    field_degree: int | None,
    derivative: tuple[int, int],
) -> csr_array:
    symmetric = kernel(degree)
    field_degree = degree if field_degree is None else field_degree
    if field_degree < 0:
        raise ReproError("the degree of the field is negative", expected="0 or more", actual=field_degree)
    if basis not in BASES:
        raise ReproError("unknown basis", expected=f"one of {', '.join(BASES)}", actual=basis)
    smooth = max(degree - 1, 0)
    if not all(0 <= order <= smooth for order in derivative):
        raise ReproError(
            "the filtered field has no derivative of this order",
            expected=f"orders 0 to {smooth}: the kernel of degree {degree} is no smoother",
            actual=derivative,
        )
    along_x, along_y = (symmetric.derivative(order) for order in derivative)
    positions = mesh.wrapped(points)
    h = scales(mesh, len(positions), symmetric.width, scale)
    functions = to_monomials(basis, field_degree, 2).T
    # dξ/dx = -1 / h
    factors = (-1.0 / h) ** sum(derivative)
    parts_of_rows = []
    for pairs in stencil_pairs(mesh, positions, symmetric.width, h):
        chunks = (integral(chunk, along_x, along_y, field_degree) for chunk in pairs.in_chunks(CHUNK))
        values = np.concatenate([moments @ functions for moments in chunks])
        parts_of_rows.append(_merge_pairs(pairs, values, len(mesh.triangles)))
    m = mode_count(field_degree, 2)
    shape = (len(positions), len(mesh.triangles) * m)
    if not parts_of_rows:
        return csr_array(shape, dtype=np.float64)
    point, triangle, values = (np.concatenate(parts) for parts in zip(*parts_of_rows, strict=True))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(point, minlength=len(positions)))]) * m
    columns = (triangle[:, None] * m + np.arange(m)).ravel()
    return csr_array(((values * factors[point][:, None]).ravel(), columns, indptr), shape=shape)


def _merge_pairs(pairs: StencilPairs, values: Floats, triangles: int) -> tuple[Integers, Integers, Floats]:
    """Add up the values of all periodic images of a triangle; return point, triangle and values, sorted."""
    key = pairs.point * triangles + pairs.triangle
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    first_pairs = order[first]
    return pairs.point[first_pairs], pairs.triangle[first_pairs], np.add.reduceat(values[order], first, axis=0)


#: Functions that cut triangles into strips, by the value of `start` in `contour_rows`.
_STARTS: dict[str, Callable[[Floats, int], Strips]] = {"line": strips_from_line, "edge": strips_from_edge}


def _integrate_strips(
    cut_strips: Callable[[Floats, int], Strips],
    pairs: StencilPairs,
    along_x: SplineKernel,
    along_y: SplineKernel,
    degree: int,
) -> Floats:
    """Integrate K K times each monomial of the reference coordinates over each pair, `(pairs, m)`, by signed strips.

    `cut_strips` turns each triangle's contour into them (`Strips`).
    """
    pair, square, *bounds = cut_strips(pairs.corners, along_x.width)
    outer = collapsed((2 * along_x.degree + degree + 3) // 2)
    inner = collapsed((along_x.degree + degree + 2) // 2)
    outer_y, begin, end = (ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * outer.points[:, 0] for ends in bounds)
    rise, strip_widths = np.diff(bounds[0], axis=1)[..., None], (end - begin)[..., None]
    n, shape = len(pair), (len(pair), len(outer.weights), len(inner.weights))
    x = (begin[..., None] + strip_widths * inner.points[:, 0]).reshape(n, -1)
    y = np.broadcast_to(outer_y[..., None], shape).reshape(n, -1)
    weights = (rise * strip_widths * (outer.weights[:, None] * inner.weights)).reshape(n, -1)
    return sum_moments(pairs, pair, square, (x, y), weights, (along_x, along_y), degree)


def sum_moments(
    pairs: StencilPairs,
    pair: Integers,
    square: Integers,
    coordinates: tuple[Floats, Floats],
    weights: Floats,
    kernels: tuple[SplineKernel, SplineKernel],
    degree: int,
) -> Floats:
    """Sum K K times each monomial over the quadrature points `(pieces, q)` of all pieces of a pair: `(pairs, m)`."""
    for axis, (factor, coordinate) in enumerate(zip(kernels, coordinates, strict=True)):
        weights = weights * factor.on_pieces(square[:, axis, None], coordinate)
    first = pairs.corners[pair, 0]
    a, b = (pairs.corners[pair, corner] - first for corner in (1, 2))
    determinant = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])[:, None]
    x, y = (coordinate - first[:, axis, None] for axis, coordinate in enumerate(coordinates))
    r = (x * b[:, 1, None] - y * b[:, 0, None]) / determinant
    s = (y * a[:, 0, None] - x * a[:, 1, None]) / determinant
    powers = exponents(degree, 2)
    sums = np.empty((len(pair), len(powers)))
    column = {tuple(power): i for i, power in enumerate(powers.tolist())}
    for i in range(degree + 1):
        term = weights
        for j in range(degree + 1 - i):
            sums[:, column[i, j]] = term.sum(axis=1)
            term = term * s if j < degree - i else term
        weights = weights * r if i < degree else weights
    moments = np.zeros((len(pairs), len(powers)))
    if len(pair):
        begin = np.flatnonzero(np.diff(pair, prepend=-1))
        moments[pair[begin]] = np.add.reduceat(sums, begin, axis=0)
    return moments
