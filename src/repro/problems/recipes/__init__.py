"""Recipes: the papers' five tetrahedral meshes, which are not public, made again to their published sizes; and others.

Every file of this folder is imported and registers its own. Gmsh, TetGen and the other packages of the extra `mesh` are
imported only while a recipe runs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.config.models import Fetch
from repro.errors import ReproError
from repro.problems.assembled import Floats, Integers
from repro.problems.content import mesh_checksum
from repro.problems.fetch import Found
from repro.problems.meshes import tetrahedron_volumes
from repro.problems.meshfiles import MeshFile, mesh, obtain_recorded
from repro.problems.recipes.base import Recipe, recipes, register, row_lengths
from repro.problems.registry import REGISTRY
from repro.problems.registry import Recipe as Item
from repro.scan import import_all

import_all(__name__, __path__)


def names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(recipes())


def obtain_mesh(item: Item, settings: Fetch, registry: Path = REGISTRY) -> Found[MeshFile]:
    """Return the mesh of a registered recipe: ready-made where the download folder or a mirror has it, else made.

    Parameters
    ----------
    item
        The problem; its checksum, where it has one, decides which ready-made mesh is taken.
    settings
        Where meshes, and the surfaces that some recipes start from, are looked for, and how they are downloaded.
    registry
        The file that lists these surfaces.

    Raises
    ------
    ReproError
        There is no such recipe; or there is no such mesh, and a package or a system library is missing, no surface
        that the recipe can start from is to be had, or the mesher failed.
    """
    recipe = _find(item.recipe)

    def with_shape(mesh: MeshFile, *notes: str) -> MeshFile:
        return replace(mesh, notes=(*notes, *mesh.notes, _shape(recipe, mesh.cells)))

    def make() -> Found[MeshFile]:
        vertices, tets, notes = build(item.recipe, settings, registry)
        sha256 = mesh_checksum(vertices, tets)
        same = ("the recorded mesh, bit for bit",) if sha256 == item.checksum else ()
        made = MeshFile(vertices, tets, (*notes, *same), {"sha256": sha256, "state": "rebuilt"})
        return Found((), f"recipe: {item.recipe}", with_shape(made))

    obtained = obtain_recorded(item, settings, make)
    if not obtained.paths:
        return obtained
    made_before = (f"made before, {item.made}",) if item.made and item.checksum else ()
    return replace(obtained, content=with_shape(obtained.content, *made_before))


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
        float64 `(v, 3)`, rounded to single precision, each a corner of some tetrahedron.
    tetrahedra
        int64 `(t, 4)`, all of positive volume, in order of their vertices. The same on every run of the same package
        versions.
    notes
        What it was made from and with.

    Raises
    ------
    ReproError
        There is no such recipe, a package or a system library is missing, no surface that the recipe can start from
        is to be had, or the mesher failed.
    """
    recipe = _find(name)
    made = recipe.make(partial(mesh, settings=settings, registry=registry))
    return *_tidied(made.vertices, made.tets, name), made.notes


def _find(name: str) -> Recipe:
    if name not in recipes():
        raise ReproError("unknown recipe", expected=f"one of {', '.join(names())}", actual=name)
    return recipes()[name]


def _shape(recipe: Recipe, tets: Integers) -> str:
    lengths = row_lengths(tets)
    published = f" (published {recipe.ell_factor})" if recipe.ell_factor else ""
    factor = lengths.max() * len(lengths) / lengths.sum()
    return f"longest row {lengths.max()}, ELL factor {factor:.1f}{published}"


def _tidied(vertices: Floats, tets: NDArray[np.int64], name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Bring a mesh into the one form in which it is kept.

    Vertices without a tetrahedron are dropped, the others keep the mesher's order and are rounded to single precision;
    the order of tetrahedra and of the vertices in each is that of the vertices' numbers, but for positive volumes.
    """
    used, tets = np.unique(tets, return_inverse=True)
    vertices = vertices[used].astype(np.float32).astype(np.float64)
    tets = np.sort(tets.reshape(-1, 4).astype(np.int64), axis=1)
    tets = tets[np.lexsort(tets.T[::-1])]
    volumes = tetrahedron_volumes(vertices, tets)
    if flat := np.count_nonzero(volumes == 0):
        raise ReproError("the mesher left flat tetrahedra", where=f"recipe {name}", actual=f"{flat} of {len(tets)}")
    turned = np.flatnonzero(volumes < 0)
    tets[turned[:, None], [2, 3]] = tets[turned[:, None], [3, 2]]
    return vertices, tets


__all__ = ["build", "names", "obtain_mesh", "register"]
