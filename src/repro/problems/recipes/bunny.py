"""fem/bunny2.4M: the Stanford bunny, nearly all vertices on its surface, filled by TetGen."""

from __future__ import annotations

from repro.problems.recipes import (
    Made,
    MeshRecipe,
    SurfaceSource,
    fill_by_tetgen,
    first_of,
    fit,
    register,
    repair,
    simplify,
    versions,
)

ROWS, FACES = 27112, 50250


def make(source: SurfaceSource) -> Made:
    """Make the mesh.

    The published one has 10.5 entries a row and a row of about 78. A fine surface around an interior with very few
    vertices gives both: each of these sees a large patch of the surface. So no tetrahedron is refined for its size or
    ratio, only for a sharp angle; how sharp decides between fewer vertices with longer rows and the opposite.
    """
    surface, notes = first_of(source, "surfaces/bunny")
    closed = repair(surface)

    def filled(faces: int) -> Made:
        coarse = repair(simplify(closed, faces, aggressiveness=1.8))
        return Made(*fill_by_tetgen(coarse, ratio=30, dihedral=3.5, flattest=140), notes)

    made = fit(filled, FACES, ROWS)
    return made._replace(notes=(*notes, f"made with {versions('pymeshfix', 'fast-simplification', 'tetgen')}"))


register(MeshRecipe("bunny2.4M", make, ell_factor=7.4))
