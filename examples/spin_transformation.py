"""Spin transformation of a surface by the smallest eigenvector of its Dirac operator.

    python examples/spin_transformation.py
    python examples/spin_transformation.py --surface blob --vertices 5000 --potential rings --strength 10
    python examples/spin_transformation.py --tuned Pairs-128-AoSoA-AoS@clustered/direct-128-8-u2

Crane, Pinkall, Schröder: Spin Transformations of Discrete Surfaces. ACM Transactions on Graphics 30(4), 2011.

A conformal change of a surface's mean curvature by ρ (as a half-density) is given by a quaternion λ a vertex that
satisfies (D - ρ) λ = 0 for the Dirac operator D. There is one only for few ρ, but the eigenvector of the eigenvalue
nearest zero solves it for ρ shifted by a constant. It turns and scales every edge e to λ* e λ; the vertices that fit
these edges best solve a Poisson equation.

The matrix has quaternions for entries and is Hermitian to the last bit, so that a variant of pairs may store both of
A_ij and A_ji once. Its eigenvector takes a few solutions by conjugate gradients, thousands of products with one of our
kernels. Writes the surface before and after as PLY, and a picture of both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import scipy.sparse as sp
from conjugate_gradients import solve_on_the_device
from numpy.typing import NDArray
from scipy.sparse.linalg import splu
from surface_picture import draw

import repro
from repro.config.models import Fetch
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.assembly import Assembled, assemble_dirac
from repro.problems.generators import blob
from repro.problems.matrix import Matrix
from repro.problems.meshes import read_surface
from repro.problems.recipes import boundary
from repro.problems.repositories import mesh

PROJECT = Path(__file__).resolve().parents[1]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Surface = tuple[Floats, Integers]

#: What is added to γ² so that the matrix has an inverse, times the area of the surface.
SHIFT = 1e-2
#: ρ times the size of the surface, at points of a box that is 1 high: how many times curvature changes sign, and where.
POTENTIALS: dict[str, Callable[[Floats], Floats]] = {
    "rings": lambda p: np.cos(2 * np.pi * 5 * p[:, 1]),
    "spots": lambda p: np.cos(14 * p[:, 0]) * np.cos(14 * p[:, 1]) * np.cos(14 * p[:, 2]),
    "slope": lambda p: p[:, 1] - p[:, 1].mean(),
}


def multiply(a: Floats, b: Floats) -> Floats:
    """Multiply quaternions (w, x, y, z): `(m, 4)` each."""
    product: Floats = np.einsum("mij,mj->mi", get_entry("quaternion").expand(a), b)
    return product


def conjugate(a: Floats) -> Floats:
    """Return the conjugates of quaternions `(m, 4)`."""
    return a * [1, -1, -1, -1]


def smallest_eigenvector(
    dirac: Assembled, area: Floats, *, tuned: str = "default", device: str = "auto", tolerance: float = 1e-4
) -> tuple[float, Floats]:
    """Return γ² and λ of E λ = γ² M λ, for the smallest γ², by inverse iteration.

    E is the squared Dirac operator and M the vertices' areas; a small multiple of M is added to E, which has no inverse
    where ρ is zero. Rows and columns are scaled by the square root of E's diagonal, which is real.

    Parameters
    ----------
    dirac, area
        E and the diagonal of M, `(v,)`.
    tolerance
        When γ² changes by less, relative to itself with the shift, it is done.

    Returns
    -------
    γ² in units of an inverse area, and λ `(v, 4)` with a mean square of 1.
    """
    rows = np.repeat(np.arange(dirac.n), np.diff(dirac.indptr))
    shift = SHIFT / area.sum()
    shifted = dirac.values.copy()
    shifted[rows == dirac.indices, 0] += shift * area
    scale = 1 / np.sqrt(shifted[rows == dirac.indices, 0])
    values = shifted * (scale[rows] * scale[dirac.indices])[:, None]
    E = repro.operator(
        Matrix("dirac", "quaternion", dirac.n, dirac.indptr, dirac.indices, values), tuned, device=device
    )
    print(f"{dirac.n} vertices, {len(dirac.indices)} quaternions; {E.name} on {E.device_name}")
    mass = (area * scale**2)[:, None]
    x = np.zeros((dirac.n, 4))
    x[:, 0] = 1 / scale
    before = np.inf
    for step in range(1, 51):
        right = (mass * x).ravel()
        found = solve_on_the_device(E, right, 1e-6, 20_000)
        x = found.x.reshape(-1, 4)
        squared = float(right @ found.x / (mass * x**2).sum()) - shift
        x /= np.sqrt((mass * x**2).sum() / area.sum())
        print(f"inverse iteration {step}: γ² = {squared:.6g}, {found.iterations} products in {found.seconds:.1f} s")
        if abs(before - squared) < tolerance * (squared + shift):
            break
        before = squared
    return squared, x * scale[:, None]


def transform(vertices: Floats, laplacian: sp.csr_array, turn: Floats) -> Floats:
    """Return the vertices whose edges are, in the sense of least squares, those turned and scaled by λ.

    Parameters
    ----------
    vertices
        `(v, 3)`.
    laplacian
        `(v, v)`, with cotangent weights, positive semidefinite.
    turn
        λ, `(v, 4)`, linear along an edge, over which λ* e λ is integrated.
    """
    i, j = laplacian.nonzero()
    i, j = i[i != j], j[i != j]
    edges = np.zeros((len(i), 4))
    edges[:, 1:] = vertices[i] - vertices[j]

    def turned(a: Floats, b: Floats) -> Floats:
        return multiply(multiply(conjugate(a), edges), b)

    at_i, at_j = turn[i], turn[j]
    new = (turned(at_i, at_i) + turned(at_j, at_j)) / 3 + (turned(at_i, at_j) + turned(at_j, at_i)) / 6
    weighted = -laplacian[i, j][:, None] * new[:, 1:]
    divergence = np.stack([np.bincount(i, w, len(vertices)) for w in weighted.T], axis=1)
    moved = np.zeros_like(vertices)
    # the first vertex is held at the origin: the equation gives all others relative to it
    moved[1:] = splu(laplacian[1:][:, 1:].tocsc()).solve(divergence[1:])
    return moved


def spin(surface: Surface, potential: Floats, **options: Any) -> Floats:
    """Transform a surface by a curvature potential, float64 `(f,)`; area and position stay.

    Returns
    -------
    float64 `(v, 3)`.
    """
    vertices, faces = surface
    _, turn = smallest_eigenvector(assemble_dirac(vertices, faces, potential), vertex_areas(vertices, faces), **options)
    # with ρ = 0 the real parts of the squared Dirac operator are the Laplacian
    flat = assemble_dirac(vertices, faces, 0.0)
    laplacian = sp.csr_array((flat.values[:, 0], flat.indices, flat.indptr), shape=(flat.n, flat.n))
    moved = transform(vertices, laplacian, turn)
    return align(moved, vertices, faces)


def align(moved: Floats, vertices: Floats, faces: Integers) -> Floats:
    """Give a surface the area of another, and turn and shift it to lie as close to that as it can (Kabsch 1976).

    An eigenvector times a quaternion is one as well, so that the transformed surface is known but for its position.
    """
    area, new = (vertex_areas(points, faces)[:, None] for points in (vertices, moved))
    scaled = moved * np.sqrt(area.sum() / new.sum())
    here, there = ((area * points).sum(axis=0) / area.sum() for points in (scaled, vertices))
    u, _, v = np.linalg.svd((area * (scaled - here)).T @ (vertices - there))
    turn = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    aligned: Floats = (scaled - here) @ turn + there
    return aligned


def vertex_areas(vertices: Floats, faces: Integers) -> Floats:
    """Return a third of the area of all faces at a vertex, `(v,)`."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    return np.bincount(faces.ravel(), np.repeat(area / 3, 3), len(vertices))


def take_surface(name: str, vertices: int) -> Surface:
    """Return the Stanford bunny, a generated surface, or one from a file."""
    if name == "bunny":
        try:
            settings = Fetch(cache=str(PROJECT / "resources"), timeout=10, retries=0)
            solid = mesh("bunny_closed", settings, PROJECT / "config/problems.yaml")
            closed = boundary(solid.vertices, solid.cells)
            return closed.vertices, closed.faces
        except ReproError as error:
            print(f"the bunny cannot be had, a generated surface takes its place ({error.what})")
            name = "blob"
    if name == "blob":
        return blob(vertices)
    points, faces, _ = read_surface(name)
    return points, faces


def main(arguments: list[str] | None = None) -> tuple[Surface, Surface]:
    """Transform, write, and return the surface before and after."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--surface", default="bunny", help="bunny, blob (generated), or a mesh file")
    parser.add_argument("--vertices", type=int, default=5000, help="of the generated surface")
    parser.add_argument("--potential", choices=POTENTIALS, default="spots", help="where curvature is added")
    parser.add_argument("--strength", type=float, default=12.0, help="how much, times the size of the surface")
    parser.add_argument("--tuned", default="default", help="variant, campaign:problem, default or now")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or opencl:N")
    parser.add_argument("--to", type=Path, default=Path("spin_transformation"), help="folder to write to")
    options = parser.parse_args(arguments)
    try:
        vertices, faces = take_surface(options.surface, options.vertices)
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        centroids = (vertices[faces].mean(axis=1) - low) / (high - low)[1]
        potential = options.strength * POTENTIALS[options.potential](centroids) / float(np.linalg.norm(high - low))
        moved = spin((vertices, faces), potential, tuned=options.tuned, device=options.device)
    except ReproError as error:
        raise SystemExit(f"error: {error}") from None
    options.to.mkdir(parents=True, exist_ok=True)
    for name, points in (("before", vertices), ("after", moved)):
        meshio.Mesh(points, [("triangle", faces.astype(np.int32))]).write(options.to / f"{name}.ply")
    draw(options.to / "picture.png", [(vertices, faces), (moved, faces)], potential)
    print(f"wrote before.ply, after.ply and picture.png to {options.to}")
    return (vertices, faces), (moved, faces)


if __name__ == "__main__":
    main()
