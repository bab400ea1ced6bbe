"""fem/armadillo_1000.1: the Stanford armadillo, simplified to some 900 vertices and filled by Gmsh."""

from __future__ import annotations

from functools import partial

from repro.problems.recipes import (
    Made,
    MeshRecipe,
    SurfaceSource,
    fill_by_gmsh,
    first_of,
    make_from_scan,
    register,
    repair,
)


def make(source: SurfaceSource) -> Made:
    """Make the mesh, on the boundary of another project's armadillo if the surface is missing."""
    surface, notes = first_of(source, "surfaces/armadillo", "armadillo_13k")
    # below Gmsh's 0.3, since the published mesh has many edges and so flat tetrahedra
    fill = partial(fill_by_gmsh, options={"Mesh.OptimizeThreshold": 0.1})
    return make_from_scan((repair(surface), notes), fill, "gmsh", faces=1780, rows=1016, aggressiveness=4)


register(MeshRecipe("armadillo_1000.1", make, ell_factor=3.0))
