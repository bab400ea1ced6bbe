"""The filter as rows of a sparse matrix, in NumPy: what kernels on a device are verified against.

The filtered field at a point x is Σ ∬ K(ξ) K(η) u dξ dη over triangles (King 2017, eq. 2.1 and 2.2), in kernel
coordinates, where 1 / h² cancels: linear in the modes of u, one coefficient for each mode of each triangle that meets
the stencil. Two ways share nothing but the pairs and are both exact but for rounding: by area and by contour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from repro.errors import ReproError
from repro.filtering.spline_kernel import Kernel, kernel
from repro.filtering.stencil_geometry import (
    Floats,
    Integers,
    StencilPairs,
    Strips,
    fans,
    scales,
    stencil_pairs,
    strips_from_edge,
    strips_from_line,
)
from repro.filtering.triangulation import Triangulation
from repro.galerkin.basis import BASES, exponents, mode_count, to_monomials
from repro.galerkin.quadrature import collapsed, exact_for

#: Pairs that are integrated together: their quadrature points stay in a core's cache.
CHUNK = 2048
#: From pairs, kernels along x and y, and the field's degree to integrals of each monomial, `(pairs, m)`.
Integral = Callable[[StencilPairs, Kernel, Kernel, int], Floats]


class WorkCounts(NamedTuple):
    """What filtering at each point takes, int64 `(n,)` each.

    Attributes
    ----------
    pairs
        Images of triangles that meet the stencil.
    triangles
        Sub-triangles that integration by area cuts these into.
    segments
        Parts of edges that integration by contour goes along from a line; where a triangle is crossed by several
        vertical lines of the lattice, one for each unit strip between.
    """

    pairs: Integers
    triangles: Integers
    segments: Integers


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
    """Return the rows of the filter by area: triangles clipped to the squares of the lattice, cut into fans.

    Polygons by Sutherland and Hodgman (King 2017, algorithm 1), on each sub-triangle the collapsed Gauss rule that is
    exact for degree 2k + P.

    Parameters
    ----------
    mesh
        Of t triangles.
    points
        `(n, 2)`; those outside the box are wrapped.
    degree
        k, of the kernel.
    basis
        Which the modes belong to: a key of `repro.galerkin.basis.BASES`.
    scale
        h, one number or one a point; None: the mesh's longest edge, the text's choice.
    field_degree
        P, of the field; None: k.
    derivative
        Which derivative of the filtered field along x and y, each 0 to k - 1 (0 for k = 0), h taken as constant.

    Returns
    -------
    scipy.sparse.csr_array
        float64 `(n, t m)`, entries sorted by column, column `triangle * m + mode`; a triangle that meets a stencil has
        all its m entries stored, whatever their values, and no other has any.

    Raises
    ------
    ReproError
        There is no such degree, basis or derivative, a scale is not positive, a stencil is wider than 64 periods, or a
        point is not finite.
    """
    return _rows(_by_area, mesh, points, degree, basis, scale, field_degree, derivative)


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
    """Return the rows of the filter by contour: no polygon is made, only edges are cut.

    By Green's theorem ∬ K K u dξ dη = ∮ G K(η) dη counterclockwise around the triangle, where G is ∫ K u dξ from a
    curve that may be any. Along a part of an edge between lines of the lattice the integrand is a polynomial of degree
    2k + P + 1, which Gauss integrates exactly, and G is by Gauss as well. Any h will do.

    Parameters
    ----------
    mesh, points, degree, basis, scale, field_degree, derivative
        As `clipped_rows`.
    start
        Where G starts: at a vertical `line` through the triangle, one of the lattice where it can be; or at the `edge`
        that rises most. From a line it is taken beyond the triangle, though not beyond its bounding box, where the
        functions of a thin, slanted triangle are large: rounding grows with (area of the box / area)^P. From the edge
        it never leaves the triangle, and that edge itself adds nothing.

    Returns
    -------
    scipy.sparse.csr_array
        As `clipped_rows`, the same entries stored.

    Raises
    ------
    ReproError
        As `clipped_rows`, or there is no such start.
    """
    if start not in _STARTS:
        raise ReproError("no such start of the contour's integrals", expected=" or ".join(_STARTS), actual=start)
    return _rows(_STARTS[start], mesh, points, degree, basis, scale, field_degree, derivative)


def count_work(mesh: Triangulation, points: ArrayLike, degree: int, scale: ArrayLike | None = None) -> WorkCounts:
    """Count what filtering takes at each point, without integrating.

    Parameters
    ----------
    mesh, points, degree, scale
        As `clipped_rows`.

    Raises
    ------
    ReproError
        As `clipped_rows`.
    """
    width = kernel(degree).width
    wrapped = mesh.wrapped(points)
    counts = WorkCounts(*(np.zeros(len(wrapped), np.int64) for _ in WorkCounts._fields))
    for pairs in stencil_pairs(mesh, wrapped, width, scales(mesh, len(wrapped), width, scale)):
        for chunk in pairs.in_chunks(CHUNK):
            corners = chunk.corners
            np.add.at(counts.pairs, chunk.point, 1)
            np.add.at(counts.triangles, chunk.point[fans(corners, width).pair], 1)
            np.add.at(counts.segments, chunk.point[strips_from_line(corners, width).pair], 1)
    return counts


def _rows(
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
        raise ReproError("there is no such basis", expected=f"one of {', '.join(BASES)}", actual=basis)
    smooth = max(degree - 1, 0)
    if not all(0 <= order <= smooth for order in derivative):
        raise ReproError(
            "the filtered field has no such derivative",
            expected=f"orders 0 to {smooth}: the kernel of degree {degree} is no smoother",
            actual=derivative,
        )
    along_x, along_y = (symmetric.derivative(order) for order in derivative)
    wrapped = mesh.wrapped(points)
    h = scales(mesh, len(wrapped), symmetric.width, scale)
    functions = to_monomials(basis, field_degree, 2).T
    # dξ / dx is -1 / h
    factors = (-1.0 / h) ** sum(derivative)
    merged = []
    for pairs in stencil_pairs(mesh, wrapped, symmetric.width, h):
        chunks = (integral(chunk, along_x, along_y, field_degree) for chunk in pairs.in_chunks(CHUNK))
        values = np.concatenate([moments @ functions for moments in chunks])
        merged.append(_merged(pairs, values, len(mesh.triangles)))
    m = mode_count(field_degree, 2)
    shape = (len(wrapped), len(mesh.triangles) * m)
    if not merged:
        return csr_array(shape, dtype=np.float64)
    point, triangle, values = (np.concatenate(parts) for parts in zip(*merged, strict=True))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(point, minlength=len(wrapped)))]) * m
    columns = (triangle[:, None] * m + np.arange(m)).ravel()
    return csr_array(((values * factors[point][:, None]).ravel(), columns, indptr), shape=shape)


def _merged(pairs: StencilPairs, values: Floats, triangles: int) -> tuple[Integers, Integers, Floats]:
    """Add up the images of each triangle; return points, triangles and values by point, then triangle."""
    key = pairs.point * triangles + pairs.triangle
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    chosen = order[first]
    return pairs.point[chosen], pairs.triangle[chosen], np.add.reduceat(values[order], first, axis=0)


def _by_area(pairs: StencilPairs, along_x: Kernel, along_y: Kernel, degree: int) -> Floats:
    """Return the integrals of K K times each monomial of reference coordinates, `(pairs, m)`."""
    pair, square, corners = fans(pairs.corners, along_x.width)
    rule = exact_for(2 * along_x.degree + degree, 2)
    sides = corners[:, 1:] - corners[:, :1]
    jacobian = sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0]
    x, y = (corners[:, :1, axis] + sides[..., axis] @ rule.points.T for axis in range(2))
    weights = jacobian[:, None] * rule.weights
    return _moments(pairs, pair, square, (x, y), weights, (along_x, along_y), degree)


def _from_line(pairs: StencilPairs, along_x: Kernel, along_y: Kernel, degree: int) -> Floats:
    return _by_contour(pairs, strips_from_line(pairs.corners, along_x.width), along_x, along_y, degree)


def _from_edge(pairs: StencilPairs, along_x: Kernel, along_y: Kernel, degree: int) -> Floats:
    return _by_contour(pairs, strips_from_edge(pairs.corners, along_x.width), along_x, along_y, degree)


#: Where the integrals of a contour start.
_STARTS: dict[str, Integral] = {"line": _from_line, "edge": _from_edge}


def _by_contour(pairs: StencilPairs, strips: Strips, along_x: Kernel, along_y: Kernel, degree: int) -> Floats:
    """Return the integrals of K K times each monomial of reference coordinates, `(pairs, m)`."""
    pair, square, *bounds = strips
    outer = collapsed((2 * along_x.degree + degree + 3) // 2)
    inner = collapsed((along_x.degree + degree + 2) // 2)
    at_y, begin, end = (ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * outer.points[:, 0] for ends in bounds)
    rise, across = np.diff(bounds[0], axis=1)[..., None], (end - begin)[..., None]
    n, shape = len(pair), (len(pair), len(outer.weights), len(inner.weights))
    x = (begin[..., None] + across * inner.points[:, 0]).reshape(n, -1)
    y = np.broadcast_to(at_y[..., None], shape).reshape(n, -1)
    weights = (rise * across * (outer.weights[:, None] * inner.weights)).reshape(n, -1)
    return _moments(pairs, pair, square, (x, y), weights, (along_x, along_y), degree)


def _moments(
    pairs: StencilPairs,
    pair: Integers,
    square: Integers,
    at: tuple[Floats, Floats],
    weights: Floats,
    kernels: tuple[Kernel, Kernel],
    degree: int,
) -> Floats:
    """Add up K K times each monomial over quadrature points `(pieces, q)`, by pair: `(pairs, m)`."""
    for axis, (factor, where) in enumerate(zip(kernels, at, strict=True)):
        weights = weights * factor.on_pieces(square[:, axis, None], where)
    first = pairs.corners[pair, 0]
    a, b = (pairs.corners[pair, corner] - first for corner in (1, 2))
    determinant = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])[:, None]
    x, y = (where - first[:, axis, None] for axis, where in enumerate(at))
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
