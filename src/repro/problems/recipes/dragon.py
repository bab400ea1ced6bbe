"""fem/dragon_100K: the Stanford dragon, of about 100,000 tetrahedra, filled by TetGen."""

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

ROWS, FACES = 26436, 39360


def make(source: SurfaceSource) -> Made:
    """Make the mesh; other forms of the same scan stand in for the full surface where that is missing."""
    surface, notes = first_of(source, "surfaces/dragon", "dragon_dithered", "dragon_res2")

    def filled(faces: int) -> Made:
        coarse = repair(simplify(surface, faces, aggressiveness=3))
        # a slightly stricter ratio than the 2 of TetGen keeps the longest row near the published one, of about 33
        return Made(*fill_by_tetgen(coarse, ratio=1.8, dihedral=3.5, flattest=140), notes)

    made = fit(filled, FACES, ROWS)
    return made._replace(notes=(*notes, f"made with {versions('pymeshfix', 'fast-simplification', 'tetgen')}"))


register(MeshRecipe("dragon_100K", make, ell_factor=2.8))
