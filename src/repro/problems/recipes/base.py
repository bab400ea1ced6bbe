"""What a recipe is, and what all of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.problems.assembled import Floats, Integers
from repro.problems.meshfiles import MeshFile

# Gives a registered surface or tetrahedral mesh by the name of its problem; ReproError where it cannot be had.
Source = Callable[[str], MeshFile]


class Made(NamedTuple):
    """A tetrahedral mesh: vertices float64 `(v, 3)`, tetrahedra int64 `(t, 4)`, and how it came about."""

    vertices: Floats
    tets: NDArray[np.int64]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """How a mesh is made.

    Attributes
    ----------
    name
        For one of the papers' meshes its own name there, without `fem/`.
    make
        Makes the mesh, given where to get its surface from.
    ell_factor
        Published size of ELLPACK over that of CSR (Mueller-Roemer et al. 2020, table 9); None for another mesh.
    """

    name: str
    make: Callable[[Source], Made]
    ell_factor: float | None = None


_RECIPES: dict[str, Recipe] = {}


def register(recipe: Recipe) -> Recipe:
    """Add a recipe to those that can be built by name."""
    if recipe.name in _RECIPES:
        raise ValueError(f"two recipes are called {recipe.name}")
    _RECIPES[recipe.name] = recipe
    return recipe


def recipes() -> dict[str, Recipe]:
    """Return all registered recipes by name."""
    return dict(_RECIPES)


def row_lengths(tets: Integers) -> NDArray[np.int64]:
    """Return the entries in each row of the mesh's vertex graph with its diagonal, int64 `(v,)`."""
    n = int(tets.max()) + 1
    pairs = np.sort(tets[:, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]].reshape(-1, 2), axis=1)
    edges = np.sort(pairs[:, 0].astype(np.int64) * n + pairs[:, 1])
    edges = edges[np.diff(edges, prepend=-1) > 0]  # np.unique takes four times as long
    return 1 + np.bincount(edges // n, minlength=n) + np.bincount(edges % n, minlength=n)
