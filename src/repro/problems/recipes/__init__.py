"""Recipes: the papers' five tetrahedral meshes, which are not public, made again to their published sizes.

One file each; every file of this folder is imported and registers its own. Gmsh, TetGen and the other packages of the
extra `mesh` are imported only while a recipe runs.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.assembled import Floats
from repro.problems.content import mesh_checksum
from repro.problems.meshes import tetrahedron_volumes
from repro.problems.meshfiles import mesh
from repro.problems.recipes.base import recipes, register, row_lengths
from repro.problems.registry import REGISTRY

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(recipes())


def build(name: str, settings: Fetch, registry: Path = REGISTRY) -> tuple[Floats, NDArray[np.int64], tuple[str, ...]]:
    """Make a mesh.

    Parameters
    ----------
    name
        One of `names()`.
    settings
        Where the surfaces that some recipes start from are looked for, and how they are downloaded.
    registry
        The file that lists these surfaces.

    Returns
    -------
    vertices
        float64 `(v, 3)`, each a corner of some tetrahedron.
    tetrahedra
        int64 `(t, 4)`, all of positive volume. The same on every run of the same package versions.
    notes
        What it was made from and with, and how its longest row compares with the published mesh.

    Raises
    ------
    ReproError
        There is no such recipe, a package or a system library is missing, no surface that the recipe can start from
        is to be had, or the mesher failed.
    """
    if name not in recipes():
        raise ReproError("unknown recipe", expected=f"one of {', '.join(names())}", actual=name)
    recipe = recipes()[name]
    made = recipe.make(partial(mesh, settings=settings, registry=registry))
    vertices, tets = _tidied(made.vertices, made.tets, name)
    lengths = row_lengths(tets)
    shape = (
        f"longest row {lengths.max()}, ELL factor {lengths.max() * len(lengths) / lengths.sum():.1f} "
        f"(published {recipe.ell_factor})"
    )
    sha256 = mesh_checksum(vertices, tets)
    if sha256 in recipe.checksums:
        shape += "; the recorded mesh, bit for bit"
    return vertices, tets, (*made.notes, shape)


def _tidied(vertices: Floats, tets: NDArray[np.int64], name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Drop vertices without a tetrahedron, and turn tetrahedra so that their volumes are positive."""
    used, tets = np.unique(tets, return_inverse=True)
    vertices, tets = vertices[used], tets.reshape(-1, 4).astype(np.int64)
    volumes = tetrahedron_volumes(vertices, tets)
    if flat := np.count_nonzero(volumes == 0):
        raise ReproError("the mesher left flat tetrahedra", where=f"recipe {name}", actual=f"{flat} of {len(tets)}")
    turned = np.flatnonzero(volumes < 0)
    tets[turned[:, None], [2, 3]] = tets[turned[:, None], [3, 2]]
    return vertices, tets


__all__ = ["build", "names", "register"]
