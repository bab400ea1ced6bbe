"""fem/bunny2.4M: the Stanford bunny, nearly all vertices on its surface, filled by TetGen."""

from __future__ import annotations

from functools import partial

from repro.problems.recipes import (
    Made,
    MeshRecipe,
    SurfaceSource,
    fill_by_tetgen,
    first_of,
    make_from_scan,
    register,
    repair,
)


def make(source: SurfaceSource) -> Made:
    """Build the mesh.

    The published mesh has 10.5 entries per row, and one row of about 78. This results from a fine surface with very few
    interior vertices. Tetrahedra are therefore refined only for sharp angles, not for size or radius-edge ratio.
    """
    surface, notes = first_of(source, "surfaces/bunny")
    fill = partial(fill_by_tetgen, ratio=30, dihedral=3.5, flattest=140)
    return make_from_scan((repair(surface), notes), fill, "tetgen", faces=50250, rows=27112, aggressiveness=1.8)


register(MeshRecipe("bunny2.4M", make, ell_factor=7.4))
