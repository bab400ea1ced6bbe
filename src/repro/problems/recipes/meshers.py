"""Filling closed surfaces and solids with tetrahedra: TetGen, and Gmsh with its CAD kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.problems.assembled import Floats
from repro.problems.recipes.packages import failing_as, load
from repro.problems.recipes.surfaces import Surface

TETRAHEDRON = 4  # Gmsh's number of the element type
HXT = 10  # Gmsh's number of its newest 3D algorithm

# One thread, and the same pseudo-random perturbations: the same mesh on every run
_REPRODUCIBLE = {
    "General.Terminal": 0,
    "General.NumThreads": 1,
    "Mesh.MaxNumThreads1D": 1,
    "Mesh.MaxNumThreads2D": 1,
    "Mesh.MaxNumThreads3D": 1,
    "Mesh.RandomSeed": 1,
    "Mesh.Algorithm3D": HXT,
}

Tetrahedra = tuple[Floats, NDArray[np.int64]]


def fill_by_tetgen(surface: Surface, *, ratio: float, dihedral: float, flattest: float) -> Tetrahedra:
    """Fill a closed surface by TetGen's constrained Delaunay refinement (Si 2015), leaving its triangles as they are.

    Parameters
    ----------
    surface
        Closed, without self-intersections.
    ratio
        Largest circumradius over shortest edge of a tetrahedron before a vertex is added.
    dihedral
        Smallest dihedral angle in degrees before a vertex is added.
    flattest
        Dihedral angle in degrees above which flips and smoothing try to improve a tetrahedron.
    """
    tetgen = load("tetgen")
    with failing_as("filling the surface by TetGen"):
        # by keywords: given a string of switches, the package prints to the standard output
        mesher = tetgen.TetGen(surface.vertices, surface.faces.astype(np.int32))
        vertices, tets, *_ = mesher.tetrahedralize(
            nobisect=True, minratio=ratio, mindihedral=dihedral, optmaxdihedral=flattest
        )
    return vertices, tets.astype(np.int64)


def fill_by_gmsh(surface: Surface, options: Mapping[str, float]) -> Tetrahedra:
    """Fill a closed surface by Gmsh, leaving its triangles as they are.

    Parameters
    ----------
    surface
        Closed, without self-intersections.
    options
        Gmsh's numerical options by name, such as `Mesh.OptimizeThreshold`.
    """
    with _model(options) as gmsh:
        skin = gmsh.model.addDiscreteEntity(2)
        gmsh.model.mesh.addNodes(2, skin, np.arange(len(surface.vertices)) + 1, surface.vertices.ravel())
        gmsh.model.mesh.addElementsByType(skin, 2, [], (surface.faces + 1).ravel())
        gmsh.model.geo.addVolume([gmsh.model.geo.addSurfaceLoop([skin])])
        gmsh.model.geo.synchronize()
        return _tetrahedra(gmsh)


def mesh_solid(
    draw: Callable[[Any], None],
    options: Mapping[str, float],
    size_at: Callable[[Floats], float] | None = None,
) -> Tetrahedra:
    """Mesh a solid that is drawn with Gmsh's OpenCASCADE kernel.

    Parameters
    ----------
    draw
        Draws one solid, given `gmsh.model.occ`.
    options
        Gmsh's numerical options by name, such as `Mesh.MeshSizeMax`.
    size_at
        Edge length at a corner of the solid, given its position float64 `(3,)`; between corners it is interpolated.
    """
    with _model(options) as gmsh:
        draw(gmsh.model.occ)
        gmsh.model.occ.synchronize()
        if size_at is not None:
            for corner in gmsh.model.getEntities(0):
                gmsh.model.mesh.setSize([corner], size_at(gmsh.model.getValue(*corner, [])))
        return _tetrahedra(gmsh)


@contextmanager
def _model(options: Mapping[str, float]) -> Iterator[Any]:
    gmsh = load("gmsh")
    with failing_as("meshing by Gmsh"):
        gmsh.initialize(readConfigFiles=False, interruptible=False)
        try:
            for name, value in {**_REPRODUCIBLE, **options}.items():
                gmsh.option.setNumber(name, value)
            gmsh.model.add("recipe")
            yield gmsh
        finally:
            gmsh.finalize()


def _tetrahedra(gmsh: Any) -> Tetrahedra:
    gmsh.model.mesh.generate(3)
    tags, coordinates, _ = gmsh.model.mesh.getNodes()
    _, corners = gmsh.model.mesh.getElementsByType(TETRAHEDRON)
    order = np.argsort(tags)
    # copies: Gmsh's arrays are views of memory that it frees
    vertices = np.array(coordinates, dtype=np.float64).reshape(-1, 3)[order]
    return vertices, np.searchsorted(tags[order], corners).reshape(-1, 4).astype(np.int64)
