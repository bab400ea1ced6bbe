"""Meshes made from the Stanford scans: armadillo, bunny and dragon.

fem/armadillo_1000.1 is simplified to some 900 vertices and filled by Gmsh. fem/bunny2.4M, with nearly all vertices on
its surface, and fem/dragon_100K, of about 100,000 tetrahedra, are filled by TetGen.
"""

from __future__ import annotations

from functools import partial

from repro.problems.recipes import (
    Made,
    MeshRecipe,
    SurfaceSource,
    fill_by_gmsh,
    fill_by_tetgen,
    first_of,
    make_from_scan,
    register,
    repair,
)


def make_armadillo(source: SurfaceSource) -> Made:
    """Make the mesh, on the boundary of another project's armadillo if the surface is missing."""
    surface, notes = first_of(source, "surfaces/armadillo", "armadillo_13k")
    # below Gmsh's 0.3, since the published mesh has many edges and so flat tetrahedra
    fill = partial(fill_by_gmsh, options={"Mesh.OptimizeThreshold": 0.1})
    return make_from_scan((repair(surface), notes), fill, "gmsh", faces=1780, rows=1016, aggressiveness=4)


register(MeshRecipe("armadillo_1000.1", make_armadillo, ell_factor=3.0))


def make_bunny(source: SurfaceSource) -> Made:
    """Build the mesh.

    The published mesh has 10.5 entries per row, and one row of about 78. This results from a fine surface with very few
    interior vertices. Tetrahedra are therefore refined only for sharp angles, not for size or radius-edge ratio.
    """
    surface, notes = first_of(source, "surfaces/bunny")
    fill = partial(fill_by_tetgen, ratio=30, dihedral=3.5, flattest=140)
    return make_from_scan((repair(surface), notes), fill, "tetgen", faces=50250, rows=27112, aggressiveness=1.8)


register(MeshRecipe("bunny2.4M", make_bunny, ell_factor=7.4))


def make_dragon(source: SurfaceSource) -> Made:
    """Build the mesh; if the full surface is missing, use other versions of this scan."""
    scan = first_of(source, "surfaces/dragon", "dragon_dithered", "dragon_res2")
    # slightly stricter than TetGen's 2, so that the longest row is near the published one of about 33
    fill = partial(fill_by_tetgen, ratio=1.8, dihedral=3.5, flattest=140)
    return make_from_scan(scan, fill, "tetgen", faces=39360, rows=26436, aggressiveness=3)


register(MeshRecipe("dragon_100K", make_dragon, ell_factor=2.8))
