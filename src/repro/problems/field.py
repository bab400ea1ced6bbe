"""Problems that are a discontinuous Galerkin field on a mesh."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.problems.assembled import Floats
from repro.problems.checks import allowed, check_array, infinite, outside, refuse
from repro.problems.meshes import DEGENERATE, longest_edges
from repro.problems.problem import Problem
from repro.problems.statistics import quantiles

DIMENSIONS = (2, 3)


@dataclass(frozen=True)
class Field(Problem):
    """A mesh of triangles or tetrahedra, and on each cell a polynomial of its own.

    Attributes
    ----------
    vertices
        float64 `(v, d)`, d 2 or 3; some may belong to no cell.
    cells
        int32 `(c, d + 1)` vertex numbers, counterclockwise in the plane, of positive volume in space.
    degree
        P, of the polynomials.
    basis
        The name of the basis that the modes belong to, such as `dubiner`; it settles their order and scale too.
    modes
        float64 `(c, m)`, coefficients of each cell's polynomial; m is the binomial coefficient of P + d over d.
    periodic
        Whether the domain, the box around the vertices, goes on at its other side.
    """

    kind: ClassVar[str] = "field"

    vertices: NDArray[np.float64]
    cells: NDArray[np.int32]
    degree: int
    basis: str
    modes: NDArray[np.float64]
    periodic: bool

    @property
    def dimension(self) -> int:
        """d, the coordinates of a vertex."""
        return int(self.vertices.shape[-1])

    @property
    def volumes(self) -> Floats:
        """float64 `(c,)`, signed areas or volumes of the cells."""
        corners = self.vertices[self.cells]
        volumes: Floats = np.linalg.det(corners[:, 1:] - corners[:, :1]) / math.factorial(self.dimension)
        return volumes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return `vertices`, `cells`, `modes`."""
        return {"vertices": self.vertices, "cells": self.cells, "modes": self.modes}

    def traits(self) -> Mapping[str, Any]:
        """Return `degree`, `basis`, `periodic`."""
        return {"degree": self.degree, "basis": self.basis, "periodic": self.periodic}

    def validate(self) -> Self:
        """Return the field itself if mesh and modes are sound.

        Raises
        ------
        ReproError
            Arrays that do not fit each other or the degree, no cells, no name of a basis, NaN or infinite numbers,
            cells with vertices that do not exist, degenerate cells, or inverted ones.
        """
        d, count = self.dimension, len(self.cells)
        if self.vertices.ndim != 2 or d not in DIMENSIONS:
            shape = self.vertices.shape
            raise ReproError("the vertices do not fit", where=self.name, expected="(v, 2) or (v, 3)", actual=shape)
        if self.degree < 0:
            raise ReproError("the degree is negative", where=self.name, expected="0 or more", actual=self.degree)
        if not self.basis:
            raise ReproError("the basis has no name", where=self.name, expected="a name such as dubiner")
        if not count:
            raise ReproError("the mesh has no cells", where=self.name)
        check_array(self.name, "vertices", self.vertices, np.float64, self.vertices.shape)
        check_array(self.name, "cells", self.cells, np.int32, (count, d + 1))
        check_array(self.name, "modes", self.modes, np.float64, (count, math.comb(self.degree + d, d)))
        there = f"vertices {allowed(len(self.vertices))}"
        absent = np.any(outside(self.cells, len(self.vertices)), axis=1)
        self._refuse("cell", absent, "the mesh has cells with vertices that do not exist", there)
        endless, finite = infinite(self.vertices), "finite numbers"
        self._refuse("vertex", endless, "the mesh has vertices with NaN or infinite coordinates", finite)
        self._refuse("cell", infinite(self.modes), "the field has NaN or infinite modes", finite)
        volumes = self.volumes
        thin = np.abs(volumes) <= DEGENERATE * self._longest_edges() ** d
        thick = f"more than {DEGENERATE:g} of the longest edge to the power of {d}"
        self._refuse("cell", thin, "the mesh has degenerate cells", thick)
        self._refuse("cell", volumes < 0, "the mesh has inverted cells", "positive volumes: exchange two vertices")
        return self

    def _refuse(self, item: str, bad: NDArray[Any], what: str, expected: str) -> None:
        refuse(self.name, what, bad, place=lambda i: f"{item} {i}", expected=expected)

    def _longest_edges(self) -> Floats:
        return longest_edges(self.vertices[self.cells])

    def _edges(self) -> Floats:
        """Return the lengths of all cells' edges, float64 `(c d (d + 1) / 2,)`."""
        corners = self.vertices[self.cells]
        pairs = combinations(range(self.dimension + 1), 2)
        return np.concatenate([np.linalg.norm(corners[:, i] - corners[:, j], axis=1) for i, j in pairs])

    def describe(self) -> dict[str, Any]:
        """Return statistics of the mesh.

        Returns
        -------
        dict
            Plain numbers:

            unused_vertices
                Those that belong to no cell.
            cells
                How many.
            volume
                Quantiles and mean of the cells' areas or volumes.
            total_volume
                Their sum, that of the domain unless there are gaps or overlaps.
            edge
                Quantiles and mean of the lengths of the cells' edges, those that two cells share counted twice.
            longest_edge, mean_edge
                Of all cells.
        """
        volumes, edges = self.volumes, quantiles(self._edges())
        return {
            "cells": len(self.cells),
            "unused_vertices": len(self.vertices) - len(np.unique(self.cells)),
            "volume": quantiles(volumes),
            "total_volume": float(volumes.sum()),
            "edge": edges,
            "longest_edge": edges["max"],
            "mean_edge": edges["mean"],
        }

    def summary(self) -> dict[str, Any]:
        """Return `dimension`, `vertices`, `cells`, `degree`, `basis`, `modes` of a cell, and `periodic`."""
        return {
            "dimension": self.dimension,
            "vertices": len(self.vertices),
            "cells": len(self.cells),
            "degree": self.degree,
            "basis": self.basis,
            "modes": self.modes.shape[1],
            "periodic": self.periodic,
        }

    def info(self) -> list[tuple[str, str]]:
        """Return dimension, vertices, cells, degree, basis, modes a cell, and whether the domain is periodic."""
        return [
            ("dimension", f"{self.dimension}"),
            ("vertices", f"{len(self.vertices):,}"),
            ("cells", f"{len(self.cells):,}"),
            ("degree", f"{self.degree}"),
            ("basis", self.basis),
            ("modes a cell", f"{self.modes.shape[1]}"),
            ("periodic", "yes" if self.periodic else "no"),
        ]
