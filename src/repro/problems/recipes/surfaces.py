"""Closed triangle surfaces to fill with tetrahedra: where from, repaired, and simplified to a number of faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from repro.errors import ReproError
from repro.problems.assembled import Floats, Integers
from repro.problems.recipes.base import Made, Source
from repro.problems.recipes.packages import failing_as, load

PASSES = 6
CLOSE = 0.005  # half the tolerance in rows


class Surface(NamedTuple):
    """Vertices float64 `(v, 3)` and faces `(f, 3)`, counterclockwise from outside."""

    vertices: Floats
    faces: Integers


def first_of(source: Source, *problems: str) -> tuple[Surface, tuple[str, ...]]:
    """Return the first surface that can be had; of a tetrahedral mesh it is the boundary.

    Parameters
    ----------
    source
        Gives a registered mesh by name.
    problems
        Names, the papers' own surface first, then those that stand in for it.

    Returns
    -------
    Surface
        As it is in the file.
    notes
        Which one it is, and whether it stands in.

    Raises
    ------
    ReproError
        None can be had; the message is about the papers' own.
    """
    missing: ReproError | None = None
    for name in problems:
        try:
            mesh = source(name)
        except ReproError as error:
            missing = missing or error
            continue
        solid = mesh.cells.shape[1] == 4
        surface = boundary(mesh.vertices, mesh.cells) if solid else Surface(mesh.vertices, mesh.cells)
        note = f"made from {'the boundary of ' if solid else ''}{name}"
        return surface, (note + (f", which stands in for {problems[0]}" if missing else ""),)
    assert missing is not None  # recipes name at least one
    raise missing


def boundary(vertices: Floats, tets: Integers) -> Surface:
    """Return the boundary of a tetrahedral mesh of positive volumes: the faces of one tetrahedron only."""
    faces = tets[:, [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]]].reshape(-1, 3)
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    used, faces = np.unique(faces[np.sort(first[count == 1])], return_inverse=True)
    return Surface(vertices[used], faces.reshape(-1, 3))


def repair(surface: Surface) -> Surface:
    """Close holes, cut away self-intersections and keep the largest component (Attene 2010, MeshFix)."""
    pymeshfix = load("pymeshfix")
    with failing_as("repairing the surface by pymeshfix"):
        fixer = pymeshfix.MeshFix(surface.vertices, surface.faces.astype(np.int32))
        fixer.repair()
        return Surface(fixer.points, fixer.faces)


def simplify(surface: Surface, faces: int, aggressiveness: float) -> Surface:
    """Collapse edges by their quadric error until about `faces` are left.

    Parameters
    ----------
    surface
        What to simplify.
    faces
        How many to keep.
    aggressiveness
        How fast the error that is allowed grows: a small one gives even, well-shaped triangles, but does not get far.
        Errors are relative to the diagonal of the bounding box, whatever the unit of length.
    """
    simplification = load("fast_simplification")
    origin, diagonal = surface.vertices.min(axis=0), np.linalg.norm(np.ptp(surface.vertices, axis=0))
    with failing_as("simplifying the surface by fast-simplification"):
        vertices, kept = simplification.simplify(
            (surface.vertices - origin) / diagonal,
            surface.faces.astype(np.int32),
            target_count=faces,
            agg=aggressiveness,
        )
    return Surface(vertices.astype(np.float64) * diagonal + origin, kept)


def fit(make: Callable[[int], Made], faces: int, rows: int) -> Made:
    """Choose the number of surface triangles that gives a mesh of a wanted number of vertices.

    Recipes give the number that is right for the surface they were tried with, and are done after one pass; for
    another scan of the same thing it is corrected in proportion.

    Parameters
    ----------
    make
        Makes the mesh from a number of triangles.
    faces
        Where to start.
    rows
        Vertices wanted.
    """
    for _ in range(PASSES):
        made = make(faces)
        if abs(len(made.vertices) - rows) <= CLOSE * rows:
            break
        faces = round(faces * rows / len(made.vertices))
    return made
