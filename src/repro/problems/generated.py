"""Generated problems: matrices of the papers' kinds, computed on the spot, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field, ValidationError, validate_call

from repro.errors import ReproError
from repro.problems import shapes
from repro.problems.assembled import Assembled
from repro.problems.dirac import assemble_dirac
from repro.problems.elasticity import assemble_elasticity
from repro.problems.helmholtz import assemble_helmholtz
from repro.problems.lookalike import REACH, assemble_lookalike

Count = Annotated[int, Field(ge=2, le=2000)]
Circle = Annotated[int, Field(ge=3, le=20000)]
Cells = tuple[Count, Count, Count]
HubSize = Annotated[int, Field(ge=3)]
Seed = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(gt=-1, lt=0.5)]

# Few large hubs and many small ones, with about 340 to 40 and 250 to 15 neighbours
HUBS_3D = (8, 7, *(6,) * 2, *(5,) * 4, *(4,) * 12, *(3,) * 100)
HUBS_2D = (64, *(32,) * 2, *(16,) * 6, *(8,) * 24, *(4,) * 80)


@dataclass(frozen=True)
class Kind:
    """One kind of generated problem.

    Attributes
    ----------
    entry
        What its non-zeros are.
    build
        Computes it; keyword parameters only, each with a default, checked on every call.
    """

    entry: str
    build: Callable[..., Assembled]


KINDS: dict[str, Kind] = {}


def generate(kind: str, **parameters: Any) -> Assembled:
    """Compute a generated problem.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    parameters
        Those of the kind's function below that shall differ from their defaults.

    Raises
    ------
    ReproError
        Unknown kind, unknown parameter, or a value of the wrong type or out of range; every one is named.
    """
    if kind not in KINDS:
        raise ReproError(
            "unknown kind of generated problem", expected=f"one of {', '.join(sorted(KINDS))}", actual=kind
        )
    try:
        return KINDS[kind].build(**parameters)
    except ValidationError as error:
        wrong = []
        for item in error.errors():
            unknown = item["type"] == "unexpected_keyword_argument"
            text = "unknown parameter" if unknown else f"{item['msg']} (is {item['input']!r})"
            wrong.append(f"{'.'.join(map(str, item['loc']))}: {text}")
        raise ReproError("wrong parameters of a generated problem", where=kind, actual="; ".join(wrong)) from None


def _kind(entry: str) -> Callable[[Callable[..., Assembled]], Callable[..., Assembled]]:
    def add(build: Callable[..., Assembled]) -> Callable[..., Assembled]:
        checked = validate_call(build)
        KINDS[build.__name__] = Kind(entry, checked)
        return checked

    return add


@_kind("real")
def poisson(*, points: Cells = (22, 22, 22), stencil: Literal[7, 27] = 7) -> Assembled:
    """Poisson's equation on a grid of so many inner points, by the 7-point or the 27-point stencil."""
    neighbours = [sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(count, count)) for count in points]
    identities = [sp.eye_array(count) for count in points]
    if stencil == 7:
        lines = [[neighbours[axis] if axis == other else identities[other] for other in range(3)] for axis in range(3)]
        adjacent = sum(reduce(sp.kron, line) for line in lines)
    else:
        closed = [near + same for near, same in zip(neighbours, identities, strict=True)]
        adjacent = reduce(sp.kron, closed) - reduce(sp.kron, identities)
    n = int(np.prod(points))
    matrix = sp.csr_array((stencil - 1) * sp.eye_array(n) - adjacent)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indptr, indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return Assembled(n, indptr, indices, matrix.data[:, None].astype(np.float64))


@_kind("complex")
def helmholtz_box(*, cells: Cells = (20, 22, 24), wavenumber: Positive = 12.0, loss: NotNegative = 0.02) -> Assembled:
    """Waves in a box whose longest side is 1."""
    vertices, tets = shapes.lattice_box(cells)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex")
def helmholtz_disk(
    *,
    refinements: Annotated[int, Field(ge=1, le=11)] = 6,
    wavenumber: Positive = 40.0,
    loss: NotNegative = 0.02,
) -> Assembled:
    """Waves in a unit disk, its mesh refined so many times."""
    return assemble_helmholtz(*shapes.disk(refinements), wavenumber=wavenumber, loss=loss)


@_kind("complex")
def helmholtz_hubs(
    *,
    cells: Cells = (26, 26, 26),
    wavenumber: Positive = 12.0,
    loss: NotNegative = 0.02,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box whose longest side is 1, with hubs: see `repro.problems.shapes.collapse`."""
    vertices, tets = shapes.collapse(shapes.lattice_box(cells), cells, hubs, seed)
    return assemble_helmholtz(vertices / max(cells), tets, wavenumber=wavenumber, loss=loss)


@_kind("complex")
def lookalike(
    *,
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (10_000, 240_000),
    longest: Annotated[int, Field(gt=(2 * REACH + 1) ** 3)] = 300,
    long_rows: Annotated[int, Field(ge=1)] = 10,
    spread: NotNegative = 0.4,
    seed: Seed = 1,
) -> Assembled:
    """Stand-in for a matrix that cannot be had, of so many rows and non-zeros: see `repro.problems.lookalike`."""
    return assemble_lookalike(*size, longest=longest, hubs=long_rows, spread=spread, seed=seed)


@_kind("quaternion")
def dirac_torus(*, rings: Circle = 200, segments: Circle = 80, seed: Seed = 1) -> Assembled:
    """Dirac operator on a torus; the seed is that of the curvature potential."""
    lattice, faces = shapes.lattice_torus(rings, segments)
    return assemble_dirac(shapes.wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("quaternion")
def dirac_blob(*, rows: Annotated[int, Field(ge=12, le=10_000_000)] = 10_000, seed: Seed = 1) -> Assembled:
    """Dirac operator on a closed surface of irregular connectivity."""
    return assemble_dirac(*shapes.blob(rows), seed=seed)


@_kind("quaternion")
def dirac_hubs(
    *,
    rings: Circle = 160,
    segments: Circle = 160,
    hubs: tuple[HubSize, ...] = HUBS_2D,
    seed: Seed = 1,
) -> Assembled:
    """Dirac operator on a torus with hubs: see `repro.problems.shapes.collapse`."""
    lattice, faces = shapes.collapse(shapes.lattice_torus(rings, segments), (rings, segments), hubs, seed)
    return assemble_dirac(shapes.wrap_torus(lattice, rings, segments), faces, seed=seed)


@_kind("block3")
def elasticity_box(*, cells: Cells = (12, 16, 40), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic box whose longest side is 1."""
    vertices, tets = shapes.lattice_box(cells)
    return assemble_elasticity(vertices / max(cells), tets, young=young, poisson=poisson)


@_kind("block3")
def elasticity_mapped(*, cells: Cells = (14, 14, 60), young: Positive = 1.0, poisson: Ratio = 0.3) -> Assembled:
    """Elastic bar that is tapered, twisted and bent: see `repro.problems.shapes.horn`."""
    lattice, tets = shapes.lattice_box(cells)
    return assemble_elasticity(shapes.horn(lattice, cells), tets, young=young, poisson=poisson)


@_kind("block3")
def elasticity_hubs(
    *,
    cells: Cells = (24, 24, 24),
    young: Positive = 1.0,
    poisson: Ratio = 0.3,
    hubs: tuple[HubSize, ...] = HUBS_3D,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box whose longest side is 1, with hubs: see `repro.problems.shapes.collapse`."""
    vertices, tets = shapes.collapse(shapes.lattice_box(cells), cells, hubs, seed)
    return assemble_elasticity(vertices / max(cells), tets, young=young, poisson=poisson)
