"""An h for each point of a triangulation whose triangles differ in size: as long as the edges around it.

At a vertex h is the longest edge of the triangles around it, and linear between the three of a triangle (ours). So h
and the filtered field are continuous, but for hanging nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.filtering.pairs import stencil_pairs
from repro.filtering.triangulation import Triangulation
from repro.problems.meshes import longest_edges

Floats = NDArray[np.float64]
#: How far vertices of one place lie apart at most, in periods: at opposite sides of the box they are the same.
ROUNDING_DIGITS = 9
#: The width of the square around a point whose triangles it belongs to, in longest edges: rounding, beside a triangle.
TOUCHING = 1e-9


def at_corners(mesh: Triangulation) -> Floats:
    """Return h at the corners of each triangle, float64 `(t, 3)`: the longest edge of the triangles around a vertex.

    Vertices at the same place are one, those at opposite sides of the box included.
    """
    places = np.round((mesh.vertices - mesh.lower) / mesh.period, ROUNDING_DIGITS) % 1.0
    _, vertex = np.unique(places, axis=0, return_inverse=True)
    corner = vertex.reshape(-1)[mesh.triangles]
    longest = np.zeros(len(places))
    np.maximum.at(longest, corner, np.broadcast_to(longest_edges(mesh.corners)[:, None], corner.shape))
    return np.asarray(longest[corner], np.float64)


def within_triangles(mesh: Triangulation, places: Floats) -> Floats:
    """Return h at the same places of all triangles, triangle by triangle, float64 `(t q,)`.

    Parameters
    ----------
    mesh
        Of t triangles.
    places
        float64 `(q, 2)`, on the reference triangle.
    """
    shares = np.stack([1.0 - places.sum(axis=1), *places.T])
    h: Floats = (at_corners(mesh) @ shares).ravel()
    return h


def at_points(mesh: Triangulation, points: Floats) -> Floats:
    """Return h at any points, float64 `(n,)`: where triangles meet in one, the greatest that they give it.

    Parameters
    ----------
    mesh
        A triangulation.
    points
        float64 `(n, 2)`; those outside the box are wrapped.
    """
    wrapped, corners = mesh.wrapped(points), at_corners(mesh)
    h = np.zeros(len(wrapped))
    for pairs in stencil_pairs(mesh, wrapped, 1, np.full(len(wrapped), TOUCHING * mesh.longest)):
        to_corners = pairs.corners - 0.5  # from the point, which lies in the middle of its square
        following, last = np.roll(to_corners, -1, axis=1), np.roll(to_corners, -2, axis=1)
        opposite = following[..., 0] * last[..., 1] - following[..., 1] * last[..., 0]
        shares = np.clip(opposite / opposite.sum(axis=1, keepdims=True), 0.0, 1.0)
        np.maximum.at(h, pairs.point, (shares * corners[pairs.triangle]).sum(axis=1))
    return h
