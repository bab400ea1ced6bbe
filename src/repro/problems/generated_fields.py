"""Generators of discontinuous Galerkin fields: the projection of an analytic function on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Literal

import pydantic

from repro.galerkin import mode_count, project
from repro.problems.field import (
    BASIS,
    FUNCTIONS,
    MAX_DEGREE,
    Field,
    Triangulation,
    delaunay_square,
    kuhn_cube,
    structured_square,
)
from repro.problems.generators import STRICT, Seed, computed

Degree = Annotated[int, pydantic.Field(ge=0, le=MAX_DEGREE)]
Function = Literal["sine", "waves", "constant"]


@dataclass(frozen=True)
class FieldKind:
    """A kind of generated field."""

    #: Generates the field from keyword parameters; checks the parameters on every call.
    build: Callable[..., Field]
    dimension: int
    #: Computes the number of cells, possibly approximate, from the parameters.
    cells: Callable[[Mapping[str, Any]], int]


FIELD_KINDS: dict[str, FieldKind] = {}


def generate_field(kind: str, **parameters: Any) -> Field:
    """Compute a generated field, periodic on the unit square or cube.

    `kind` is a key of `FIELD_KINDS` and becomes the name of the field; `parameters` override defaults of the kind's
    function. The `origin` of the field contains the key `function`, whose value is a key of `FUNCTIONS`. Raises
    `ReproError`: the kind or a parameter is unknown, or a value is invalid; all are listed.
    """
    return computed("field", FIELD_KINDS, kind, parameters)


def size_of(kind: str, parameters: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the approximate numbers of cells and modes without generating the field; None for invalid parameters."""
    if kind not in FIELD_KINDS:
        return None
    law = FIELD_KINDS[kind]
    defaults = {name: parameter.default for name, parameter in signature(law.build).parameters.items()}
    try:
        cells, degree = law.cells({**defaults, **parameters}), int({**defaults, **parameters}["degree"])
        return cells, cells * mode_count(degree, law.dimension)
    except (TypeError, ValueError):
        return None


def _field_kind(
    dimension: int, cells: Callable[[Mapping[str, Any]], int]
) -> Callable[[Callable[..., Field]], Callable[..., Field]]:
    def add(build: Callable[..., Field]) -> Callable[..., Field]:
        validated_build = pydantic.validate_call(config=STRICT)(build)
        FIELD_KINDS[build.__name__] = FieldKind(validated_build, dimension, cells)
        return validated_build

    return add


@_field_kind(2, lambda arguments: int(arguments["triangles"]))
def delaunay(
    *,
    triangles: Annotated[int, pydantic.Field(ge=8, le=20_000_000)] = 4096,
    variance: Literal["low", "high"] = "low",
    degree: Degree = 1,
    field: Function = "sine",
    seed: Seed = 1,
) -> Field:
    """Delaunay triangulation with low or high variance of triangle sizes; see `delaunay_square` (King 2017, section
    3.4).
    """
    return _projected_field("delaunay", delaunay_square(triangles, variance, seed), degree, field)


@_field_kind(2, lambda arguments: 2 * int(arguments["squares"]) ** 2)
def structured(
    *, squares: Annotated[int, pydantic.Field(ge=1, le=3000)] = 32, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """`squares` × `squares` squares, each cut into two triangles."""
    return _projected_field("structured", structured_square(squares), degree, field)


@_field_kind(3, lambda arguments: 6 * int(arguments["cubes"]) ** 3)
def cubes(
    *, cubes: Annotated[int, pydantic.Field(ge=1, le=150)] = 10, degree: Degree = 1, field: Function = "sine"
) -> Field:
    """`cubes` cubes in each direction, each divided into Kuhn's six tetrahedra (King 2017, section 4.2)."""
    return _projected_field("cubes", kuhn_cube(cubes), degree, field)


def _projected_field(name: str, mesh: Triangulation, degree: int, function: str) -> Field:
    vertices, cells = mesh
    modes = project(FUNCTIONS[function], vertices, cells, degree, BASIS)
    return Field(name, vertices, cells, degree, BASIS, modes, periodic=True, origin={"function": function})
