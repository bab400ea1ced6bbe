"""Generated problems: matrices of the papers' kinds, computed on the spot, the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
from pydantic import Field, ValidationError, validate_call

from repro.errors import ReproError
from repro.problems import shapes
from repro.problems.assembled import Assembled
from repro.problems.dirac import assemble_dirac
from repro.problems.elasticity import assemble_elasticity
from repro.problems.fold import unfold
from repro.problems.graphs import Family, assemble_graph
from repro.problems.helmholtz import assemble_helmholtz
from repro.problems.lookalike import REACH, assemble_lookalike
from repro.problems.row_lengths import Wanted
from repro.problems.stencils import Coefficients, assemble_arrow, assemble_diffusion, draw_field

T_co = TypeVar("T_co", covariant=True)
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


class Computes(Protocol[T_co]):
    """A kind of what is generated: what computes it, by keyword parameters only, checked on every call."""

    @property
    def build(self) -> Callable[..., T_co]: ...  # noqa: D102


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
    return computed("problem", KINDS, kind, parameters)


def computed(what: str, kinds: Mapping[str, Computes[T_co]], kind: str, parameters: Mapping[str, Any]) -> T_co:
    """Return what a kind computes from parameters.

    Parameters
    ----------
    what
        What messages call it.
    kinds
        All that there are.

    Raises
    ------
    ReproError
        As `generate`.
    """
    if kind not in kinds:
        names = ", ".join(sorted(kinds))
        raise ReproError(f"unknown kind of generated {what}", expected=f"one of {names}", actual=kind)
    try:
        return kinds[kind].build(**parameters)
    except ValidationError as error:
        raise _wrong_parameters(what, kind, error) from None


def _wrong_parameters(what: str, kind: str, error: ValidationError) -> ReproError:
    """Return the error that names every wrong parameter."""
    wrong = []
    for item in error.errors():
        unknown = item["type"] == "unexpected_keyword_argument"
        text = "unknown parameter" if unknown else f"{item['msg']} (is {item['input']!r})"
        wrong.append(f"{'.'.join(map(str, item['loc']))}: {text}")
    return ReproError(f"wrong parameters of a generated {what}", where=kind, actual="; ".join(wrong))


def _kind(entry: str) -> Callable[[Callable[..., Assembled]], Callable[..., Assembled]]:
    def add(build: Callable[..., Assembled]) -> Callable[..., Assembled]:
        checked = validate_call(build)
        KINDS[build.__name__] = Kind(entry, checked)
        return checked

    return add


@_kind("real")
def poisson(*, points: Cells = (22, 22, 22), stencil: Literal[7, 27] = 7) -> Assembled:
    """Poisson's equation on a grid of so many inner points, by the 7-point or the 27-point stencil."""
    return assemble_diffusion(points, stencil)


@_kind("real")
def diffusion(
    *,
    points: tuple[Count, Count] | Cells = (22, 22, 22),
    stencil: Literal[5, 7, 9, 27] = 7,
    coefficients: Coefficients = "constant",
    convection: NotNegative = 0.0,
    seed: Seed = 1,
) -> Assembled:
    """Diffusion on a grid in the plane or in space, with convection where asked for."""
    return assemble_diffusion(points, stencil, coefficients=coefficients, convection=convection, seed=seed)


@_kind("pattern")
def grid_graph(*, points: tuple[Count, Count] | Cells = (22, 22, 22), stencil: Literal[5, 7, 9, 27] = 7) -> Assembled:
    """Graph of a grid, each point joined to itself and to the others of its stencil: the pattern of `diffusion`."""
    assembled = assemble_diffusion(points, stencil)
    return replace(assembled, values=np.empty((len(assembled.indices), 0)))


@_kind("real")
def arrow(
    *,
    rows: Annotated[int, Field(ge=3, le=10_000_000)] = 10_000,
    dense: Annotated[int, Field(ge=1)] = 2,
    coefficients: Coefficients = "constant",
    seed: Seed = 1,
) -> Assembled:
    """Laplacian of a chain with a few nodes that are joined to all: full rows and columns."""
    return assemble_arrow(rows, dense, coefficients=coefficients, seed=seed)


@_kind("real")
def elasticity_scalar(
    *,
    cells: Cells = (12, 16, 20),
    coefficients: Coefficients = "constant",
    poisson: Ratio = 0.3,
    foundation: Positive = 0.01,
    seed: Seed = 1,
) -> Assembled:
    """Elastic box of unit cells as a real matrix, three rows a vertex; Young's modulus is 1, or each element's own.

    Every vertex is held by a spring of the foundation's stiffness in each direction, so that the matrix is regular.
    """
    # whole coordinates: equal cells give bitwise equal values
    vertices, tets = shapes.lattice_box(cells)
    young = draw_field(len(tets), seed) if coefficients == "variable" else 1.0
    assembled = assemble_elasticity(vertices, tets, young=young, poisson=poisson)
    rows = np.repeat(np.arange(assembled.n), np.diff(assembled.indptr))
    assembled.values[rows == assembled.indices] += foundation * np.eye(3).ravel()
    return unfold(assembled, "block3")


@_kind("real")
def helmholtz_scalar(
    *,
    cells: Cells = (18, 19, 20),
    coefficients: Coefficients = "constant",
    wavenumber: Positive = 0.6,
    loss: NotNegative = 0.1,
    seed: Seed = 1,
) -> Assembled:
    """Waves in a box of unit cells as a real matrix, two rows a vertex (real and imaginary part): not symmetric.

    The wavenumber, in radians a cell, is the same everywhere, or each element's own about it.
    """
    vertices, tets = shapes.lattice_box(cells)
    field = wavenumber * draw_field(len(tets), seed, contrast=0.2) if coefficients == "variable" else wavenumber
    return unfold(assemble_helmholtz(vertices, tets, wavenumber=field, loss=loss), "complex")


@_kind("real")
def graph(
    *,
    size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (10_000, 80_000),
    columns: Annotated[int, Field(ge=1)] | None = None,
    shortest: Annotated[int, Field(ge=0)] = 1,
    longest: Annotated[int, Field(ge=1)] = 400,
    width: Annotated[int, Field(ge=1)] = 8,
    overflow: Annotated[int, Field(ge=0)] = 25_000,
    spread: Positive | None = None,
    family: Family = "web",
    seed: Seed = 1,
) -> Assembled:
    """Graph of so many rows and non-zeros, `overflow` of them beyond the first `width` of their rows.

    See `repro.problems.graphs` and `repro.problems.row_lengths`; without `columns` it is square.
    """
    wanted = Wanted(*size, shortest, longest, width, overflow, spread)
    return assemble_graph(wanted, size[0] if columns is None else columns, family, seed)


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
