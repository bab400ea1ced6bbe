"""Points and triangles sorted into cells on the host: once for all ways to filter that look in the same cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.filtering.grids import Grid, grid_of_points, grid_of_triangles, tiles_of
from repro.filtering.patches import Patches, parts_of, patches_of
from repro.filtering.triangulation import Triangulation

Floats = NDArray[np.float64]
T = TypeVar("T")


class Sorted:
    """A mesh and points on it, with what is sorted of them, each made at first use and kept.

    Sorting a million triangles and twenty million points takes the host seconds, and dozens of ways to filter look for
    them in cells of the same few sizes.

    Parameters
    ----------
    mesh
        A triangulation.
    points
        float64 `(n, 2)`; those outside its box are wrapped.

    Attributes
    ----------
    mesh
        As given.
    count
        n.
    """

    def __init__(self, mesh: Triangulation, points: Floats) -> None:
        self.mesh, self.count, self._points = mesh, len(points), points
        self._kept: dict[Hashable, Any] = {}

    def triangles(self, size: float | None = None) -> Grid:
        """Return the grid of triangles with cells of a size; None: s.

        Raises
        ------
        ReproError
            As `grid_of_triangles`.
        """
        return self._keep(("triangles", size), lambda: grid_of_triangles(self.mesh, size))

    def points(self, size: float | None = None) -> Grid:
        """Return the grid of points with cells of a size; None: s / 2.

        Raises
        ------
        ReproError
            As `grid_of_points`.
        """
        return self._keep(("points", size), lambda: grid_of_points(self.mesh, self._wrapped, size))

    def positions(self, size: float | None = None) -> tuple[Floats, Floats]:
        """Return x and y of the points, wrapped, in the order of their grid, float64 `(n,)` each."""

        def make() -> tuple[Floats, Floats]:
            order = self.points(size).members
            return self._wrapped[:, 0][order], self._wrapped[:, 1][order]

        return self._keep(("positions", size), make)

    def tiles(self, rows: int, size: float | None = None) -> NDArray[np.int32]:
        """Return where tiles of so many points or fewer begin, in the order of their grid; see `tiles_of`."""
        return self._keep(("tiles", rows, size), lambda: tiles_of(self.points(size), rows))

    def parts(self, count: int) -> list[NDArray[np.int64]]:
        """Return the triangles of so many parts of the mesh; see `parts_of`."""
        return self._keep(("parts", count), lambda: parts_of(self.mesh, count))

    def patches(self, half: float, count: int, size: float | None = None, share: tuple[int, int] = (0, 1)) -> Patches:
        """Return so many patches, or a share of them, whose copies lie in cells of a size; see `patches_of`."""

        def make() -> Patches:
            return patches_of(self.mesh, self.points(size), half, self.parts(count), share)

        return self._keep(("patches", half, count, size, share), make)

    @cached_property
    def _wrapped(self) -> Floats:
        return self.mesh.wrapped(self._points)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept
