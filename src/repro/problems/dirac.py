"""The quaternionic Dirac operator of a triangle mesh.

Crane, Pinkall, Schröder: Spin Transformations of Discrete Surfaces. ACM Transactions on Graphics 30(4), 2011.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from repro.errors import ReproError
from repro.problems.assembled import Assembled, Floats, Integers, Pattern


def assemble_dirac(vertices: Floats, faces: Integers, rho: ArrayLike | None = None, *, seed: int = 1) -> Assembled:
    """Assemble the squared Dirac operator (D - ρ)*(D - ρ) on the vertices.

    An entry is a sum over the faces that hold both vertices i and j::

        E_ij = Σ  -e_i e_j / (4 A) + ρ/6 (e_j - e_i) + A ρ² / 9

    with e_i the edge vector opposite vertex i as an imaginary quaternion, A the face's area and ρ its curvature
    potential. Each summand is A d_i* d_j with d_i = e_i / (2 A) + ρ / 3, so the operator is Hermitian and positive
    semidefinite; with ρ = 0 it annihilates constants, because the edges of a face sum to zero.

    Parameters
    ----------
    vertices
        float64 `(v, 3)`.
    faces
        `(f, 3)` vertex numbers. Every vertex belongs to a face and no face has zero area, as
        `repro.problems.meshes.read_surface` ensures.
    rho
        One number, or one a face `(f,)`, in units of an inverse length. None is `smooth_potential`.
    seed
        Seeds `smooth_potential`.

    Returns
    -------
    Assembled
        Quaternions (w, x, y, z), one row a vertex, on the vertex graph of the mesh.

    Raises
    ------
    ReproError
        `rho` has another shape or is not finite.
    """
    corners = vertices[faces]
    # edges[:, i] runs opposite corner i, from corner i + 1 to corner i + 2
    edges = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)
    area = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) / 2
    density = smooth_potential(vertices, faces, seed) if rho is None else _per_face(rho, len(faces))

    local = np.empty((len(faces), 3, 3, 4))
    for i in range(3):
        for j in range(3):
            # for imaginary quaternions a b = -<a, b> + a × b
            a, b = edges[:, i], edges[:, j]
            dot = np.einsum("fk,fk->f", a, b)
            local[:, i, j, 0] = dot / (4 * area) + area * density**2 / 9
            local[:, i, j, 1:] = (density / 6)[:, None] * (b - a) - np.cross(a, b) / (4 * area)[:, None]
    pattern = Pattern.of(faces, len(vertices))
    return Assembled(pattern.n, pattern.indptr, pattern.indices, pattern.sum(local))


def smooth_potential(vertices: Floats, faces: Integers, seed: int = 1) -> Floats:
    """Return a smooth field over the face centroids, the sum of a few seeded plane waves.

    The wavelengths are of the size of the surface's bounding box, and the amplitude is its inverse: neither the
    resolution nor the units of the mesh change the relative weight of the three terms on a given shape.

    Returns
    -------
    float64 `(f,)`, in units of an inverse length.
    """
    rng = np.random.default_rng(seed)
    waves = 8
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = float(np.linalg.norm(high - low))
    centroids = (vertices[faces].mean(axis=1) - low) / size
    directions = rng.normal(scale=2 * np.pi, size=(3, waves))
    phases = rng.uniform(0, 2 * np.pi, waves)
    field: Floats = np.cos(centroids @ directions + phases).sum(axis=1) / (np.sqrt(waves) * size)
    return field


def _per_face(rho: ArrayLike, count: int) -> Floats:
    given = np.asarray(rho, dtype=np.float64)
    if given.shape not in ((), (count,)):
        raise ReproError(
            "rho does not fit the mesh", expected=f"one number, or one a face ({count})", actual=given.shape
        )
    if not np.isfinite(given).all():
        raise ReproError("rho is not finite", expected="finite numbers")
    return np.broadcast_to(given, (count,))
