"""How far a field and what filters make of it are from the function that the field is the projection of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.filtering.triangulation import Triangulation, evaluation_points
from repro.galerkin.basis import evaluate
from repro.galerkin.quadrature import evaluation_rule
from repro.problems.fields import FUNCTIONS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """How far values at the quadrature points are from the exact ones.

    Attributes
    ----------
    l2
        The root of the integral of the square over the domain, by the quadrature whose points these are.
    largest
        At any of the points.
    """

    l2: float
    largest: float


@dataclass(frozen=True, eq=False)
class Exact:
    """A function at the quadrature points of a triangulation.

    Attributes
    ----------
    values
        float64 `(n,)`.
    weights
        float64 `(n,)`, whose sum is the area of the domain.
    """

    values: Floats
    weights: Floats

    def errors(self, values: Floats) -> Errors:
        """Return how far values `(n,)` are from these."""
        apart = np.abs(values - self.values)
        return Errors(float(np.sqrt(self.weights @ apart**2)), float(apart.max()))


def exact(mesh: Triangulation, degree: int, function: str | None) -> Exact | None:
    """Return a function, a key of `repro.problems.fields.FUNCTIONS`, at the points of fields of a degree.

    None where it is not known which function a field is the projection of.
    """
    if function not in FUNCTIONS:
        return None
    weights = np.outer(2 * mesh.areas, evaluation_rule(degree, 2).weights).ravel()
    return Exact(FUNCTIONS[function](evaluation_points(mesh, degree)), weights)


def unfiltered(degree: int, basis: str, modes: Floats) -> Floats:
    """Return a field at the quadrature points, float64 `(t Q,)`, from its modes `(t, m)`."""
    values: Floats = (modes @ evaluate(basis, evaluation_rule(degree, 2).points, degree).T).ravel()
    return values
