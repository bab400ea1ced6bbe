"""fem/armadillo_1000.1: the Stanford armadillo, simplified to some 900 vertices and filled by Gmsh."""

from __future__ import annotations

from repro.problems.recipes import (
    Made,
    MeshRecipe,
    SurfaceSource,
    fill_by_gmsh,
    first_of,
    fit,
    register,
    repair,
    simplify,
    versions,
)

ROWS, FACES = 1016, 1780


def make(source: SurfaceSource) -> Made:
    """Make the mesh; the boundary of another project's armadillo stands in for the surface where that is missing."""
    surface, notes = first_of(source, "surfaces/armadillo", "armadillo_13k")
    closed = repair(surface)

    def filled(faces: int) -> Made:
        coarse = repair(simplify(closed, faces, aggressiveness=4))
        # the published mesh has many edges for its vertices: tetrahedra are left flatter than Gmsh's 0.3
        return Made(*fill_by_gmsh(coarse, {"Mesh.OptimizeThreshold": 0.1}), notes)

    made = fit(filled, FACES, ROWS)
    return made._replace(notes=(*notes, f"made with {versions('pymeshfix', 'fast-simplification', 'gmsh')}"))


register(MeshRecipe("armadillo_1000.1", make, ell_factor=3.0))
