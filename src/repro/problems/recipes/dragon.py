"""fem/dragon_100K: the Stanford dragon, of about 100,000 tetrahedra, filled by TetGen."""

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
)


def make(source: SurfaceSource) -> Made:
    """Build the mesh; if the full surface is missing, use other versions of this scan."""
    scan = first_of(source, "surfaces/dragon", "dragon_dithered", "dragon_res2")
    # slightly stricter than TetGen's 2, so that the longest row is near the published one of about 33
    fill = partial(fill_by_tetgen, ratio=1.8, dihedral=3.5, flattest=140)
    return make_from_scan(scan, fill, "tetgen", faces=39360, rows=26436, aggressiveness=3)


register(MeshRecipe("dragon_100K", make, ell_factor=2.8))
