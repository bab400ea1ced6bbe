"""Generated fields: analytic functions projected on triangulations, computed on the spot, the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from repro.galerkin.basis import mode_count
from repro.galerkin.projection import project
from repro.problems.assembled import Floats
from repro.problems.field import Field
from repro.problems.generated import Seed, computed
from repro.problems.triangulations import Mesh, delaunay_square, kuhn_cube, structured_square

#: The largest degree of a field: more is a question of registers and memory that nobody has asked.
MOST_DEGREE = 7
BASIS = "dubiner"

Degree = Annotated[int, pydantic.Field(ge=0, le=MOST_DEGREE)]
Function = Literal["sine", "waves", "constant"]


def _sine(points: Floats) -> Floats:
    values: Floats = np.prod(np.sin(2 * np.pi * points), axis=1)
    return values


def _waves(points: Floats) -> Floats:
    """Of all harmonics, and another in each direction."""
    order = np.arange(1, points.shape[1] + 1)
    values: Floats = np.exp(np.sin(2 * np.pi * points + order).sum(axis=1))
    return values


def _constant(points: Floats) -> Floats:
    return np.ones(len(points))


#: What gives the values `(n,)` of each function at points `(n, d)`; all are analytic, of period 1 in each direction.
FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {"sine": _sine, "waves": _waves, "constant": _constant}


@dataclass(frozen=True)
class FieldKind:
    """One kind of generated field.

    Attributes
    ----------
    build
        Computes it; keyword parameters only, each with a default, checked on every call.
    dimension
        Of its mesh.
    cells
        Gives from the parameters how many cells the mesh has, or is to have.
    """

    build: Callable[..., Field]
    dimension: int
    cells: Callable[[Mapping[str, Any]], int]


FIELD_KINDS: dict[str, FieldKind] = {}


def generate_field(kind: str, **parameters: Any) -> Field:
    """Compute a generated field, periodic on the unit square or cube, its name that of the kind.

    Its `origin` has the name of its `function`, a key of `FUNCTIONS`.

    Parameters
    ----------
    kind
        A key of `FIELD_KINDS`.
    parameters
        Those of the kind's function below that shall differ from their defaults.

    Raises
    ------
    ReproError
        Unknown kind, unknown parameter, or a value of the wrong type or out of range; every one is named.
    """
    return computed("field", FIELD_KINDS, kind, parameters)


def size_of(kind: str, parameters: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return about how many cells and modes a field has, before it is computed; None where the parameters are wrong."""
    if kind not in FIELD_KINDS:
        return None
    of = FIELD_KINDS[kind]
    defaults = {name: parameter.default for name, parameter in signature(of.build).parameters.items()}
    try:
        cells, degree = of.cells({**defaults, **parameters}), int({**defaults, **parameters}["degree"])
        return cells, cells * mode_count(degree, of.dimension)
    except (TypeError, ValueError):
        return None


def _field_kind(
    dimension: int, cells: Callable[[Mapping[str, Any]], int]
) -> Callable[[Callable[..., Field]], Callable[..., Field]]:
    def add(build: Callable[..., Field]) -> Callable[..., Field]:
        checked = pydantic.validate_call(build)
        FIELD_KINDS[build.__name__] = FieldKind(checked, dimension, cells)
        return checked

    return add


@_field_kind(2, lambda given: int(given["triangles"]))
def delaunay(
    *,
    triangles: Annotated[int, pydantic.Field(ge=8, le=20_000_000)] = 4096,
    variance: Literal["low", "high"] = "low",
    degree: Degree = 1,
    field: Function = "sine",
    seed: Seed = 1,
) -> Field:
    """Delaunay triangulation of about so many triangles, of low or high variance of their sizes.

    See `repro.problems.triangulations.delaunay_square` (King 2017, section 3.4).
    """
    return _projected("delaunay", delaunay_square(triangles, variance, seed), degree, field)


@_field_kind(2, lambda given: 2 * int(given["squares"]) ** 2)
def structured(
    *, squares: Annotated[int, pydantic.Field(ge=1, le=3000)] = 32, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """So many by so many squares, each cut into two triangles."""
    return _projected("structured", structured_square(squares), degree, field)


@_field_kind(3, lambda given: 6 * int(given["cubes"]) ** 3)
def cubes(
    *, cubes: Annotated[int, pydantic.Field(ge=1, le=150)] = 10, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """So many cubes in each direction, each cut into Kuhn's six tetrahedra (King 2017, section 4.2)."""
    return _projected("cubes", kuhn_cube(cubes), degree, field)


def _projected(name: str, mesh: Mesh, degree: int, function: str) -> Field:
    vertices, cells = mesh
    modes = project(FUNCTIONS[function], vertices, cells, degree, BASIS)
    return Field(name, vertices, cells, degree, BASIS, modes, periodic=True, origin={"function": function})
