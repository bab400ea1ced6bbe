"""One field before and after the filter, and how far both are from the exact function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.tri import Triangulation
from numpy.typing import NDArray

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.errors import ReproError
from repro.filtering.reference import contour_rows
from repro.filtering.triangulation import of_field
from repro.galerkin.basis import evaluate
from repro.problems.content import mesh_checksum
from repro.problems.fields import FIELD_KINDS, FUNCTIONS, generate_field
from repro.studies.dg_postprocessing.field_errors import function_of
from repro.studies.dg_postprocessing.filter_times import FAMILIES, Filtering, all_fields
from repro.studies.dg_postprocessing.paper import STUDY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Floats = NDArray[np.float64]
#: Triangles of the largest mesh that is drawn, and of the part of it that is, where P = 1: NumPy takes its time.
MOST, SHOWN = 5000, 120
#: Parts that each edge is cut into, so that colours follow the polynomials.
PARTS = 5
#: Of coordinates, by which points are told apart.
DIGITS = 12
#: Powers of ten that errors are told apart over.
DECADES = 3
HEIGHT = 1.9


@dataclass(frozen=True)
class Sample:
    """Values on a part of a mesh, which each triangle has its own of.

    Attributes
    ----------
    lower, upper
        float64 `(2,)`, of the part.
    corners
        float64 `(t, 3, 2)`, of the triangles that meet it.
    points, parts
        float64 `(t n, 2)`, and int `(t p, 3)`: the points of each small triangle.
    before, after, exact
        float64 `(t n,)`: of the field, of the filtered field, of the function.
    """

    lower: Floats
    upper: Floats
    corners: Floats
    points: Floats
    parts: NDArray[np.int64]
    before: Floats
    after: Floats
    exact: Floats


@figure(STUDY, "figure-picture", title="A field before and after the filter", numbering="ours")
def picture(campaign: Campaign, published: Published) -> Figure:
    """Four panels: the field and the filtered one, and the errors of both."""
    chosen = choose(all_fields(campaign, published))
    what = "No mesh of this campaign can be drawn." if chosen is None else _words(chosen)
    caption = [
        what,
        "Left the field, which jumps between triangles, and the filtered one; right how far both are from the function",
        f"that the field is the projection of, over {DECADES} powers of ten, smaller ones in the colour of the least.",
        "The values are not those that kernels left: the field is generated again as its record says, and filtered by",
        "the reference in NumPy that kernels are verified against, with h the longest edge of the mesh.",
        unavailable(campaign),
    ]
    return Figure(lambda: draw(chosen), sentences(caption))


def choose(fields: Sequence[Filtering]) -> Filtering | None:
    """Return the largest small mesh, of low variance and of the lowest degree if there is one; None: there is none."""
    those = [
        field
        for field in fields
        if function_of(field) and (field.triangles or MOST) < MOST and _origin(field).get("kind") in FIELD_KINDS
    ]

    def rank(field: Filtering) -> tuple[bool, int, int]:
        return field.family != FAMILIES[0], field.degree or 0, -(field.triangles or 0)

    return min(those, key=rank, default=None)


def _origin(field: Filtering) -> Mapping[str, Any]:
    return (field.line.record.origin if field.line.record else None) or {}


def _words(field: Filtering) -> str:
    count = _shown(field.degree or 0)
    part = "" if (field.triangles or 0) <= count else ", of which a part is drawn"
    family = f" of {field.family} variance" if field.family else ""
    edge, width = field.facts.get("longest_edge"), 3 * (field.degree or 0) + 1
    stencil = f" The stencil is {width * edge:.2g} wide." if edge else ""
    return f"{field.line.problem}: P = {field.degree}, {field.triangles} triangles{family}{part}.{stencil}"


def _shown(degree: int) -> int:
    """Return about how many triangles of a field of a degree are drawn."""
    return SHOWN // max(degree, 1) ** 2


def sample(field: Filtering) -> Sample:
    """Generate a field again, and filter it on a part of its mesh.

    Raises
    ------
    ReproError
        Another mesh comes out than that which was recorded.
    """
    origin = _origin(field)
    made = generate_field(origin["kind"], **origin.get("parameters", {}))
    recorded = (origin.get("checksum") or {}).get("sha256")
    if recorded not in (None, mesh_checksum(made.vertices, made.cells)):
        raise ReproError("the mesh that is generated here is another one than the campaign’s", where=field.line.problem)
    mesh = of_field(made)
    upper = mesh.lower + min(1.0, np.sqrt(_shown(made.degree) / len(mesh.triangles))) * mesh.period
    inside = (mesh.corners.min(axis=1) < upper).all(axis=1)
    corners = mesh.corners[inside]
    places, parts = lattice(PARTS)
    sides = corners[:, 1:] - corners[:, :1]
    points = (corners[:, :1] + places @ sides).reshape(-1, 2)
    before = (made.modes[inside] @ evaluate(made.basis, places, made.degree).T).ravel()
    # the filtered field is continuous: what triangles share is filtered once
    _, first, again = np.unique(np.round(points, DIGITS), axis=0, return_index=True, return_inverse=True)
    after = (contour_rows(mesh, points[first], made.degree, made.basis) @ made.modes.ravel())[again.reshape(-1)]
    every = (parts + len(places) * np.arange(len(corners))[:, None, None]).reshape(-1, 3)
    return Sample(mesh.lower, upper, corners, points, every, before, after, FUNCTIONS[origin["function"]](points))


def lattice(count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return the points of a reference triangle whose edges are cut into so many parts, and the triangles between.

    Returns
    -------
    places, parts
        float64 `(n, 2)`; int64 `(count², 3)`.
    """
    rows = [(i, j) for j in range(count + 1) for i in range(count + 1 - j)]
    number = {place: at for at, place in enumerate(rows)}
    upright = [[number[i, j], number[i + 1, j], number[i, j + 1]] for i, j in rows if i + j < count]
    turned = [[number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]] for i, j in rows if i + j < count - 1]
    return np.array(rows, np.float64) / count, np.array(upright + turned, np.int64)


def draw(field: Filtering | None) -> Canvas:
    """Draw the panels of a field."""
    if field is None:
        return style.empty("no small mesh with a known function in this campaign")
    try:
        shown = sample(field)
    except ReproError as error:
        return style.empty(error.what)
    drawn = style.canvas(style.TEXT, HEIGHT)
    drawn.set_layout_engine("compressed")  # square panels, and bars as high as these
    panels = drawn.subplots(1, 4, sharex=True, sharey=True)
    values = shown.before, shown.after
    errors = [np.abs(value - shown.exact) for value in values]
    largest = float(max(error.max() for error in errors)) or 1.0
    least, most = (float(pick([pick(value) for value in values])) for pick in (np.min, np.max))
    for two, numbers, norm, label in (
        (panels[:2], values, Normalize(least, most), "value"),
        (panels[2:], errors, LogNorm(largest / 10**DECADES, largest), "error"),
    ):
        for axes, number, title in zip(two, numbers, ("dG", "filtered"), strict=True):
            colours = _panel(axes, shown, number, norm)
            axes.set_title(f"{title}: {label}")
        drawn.colorbar(colours, ax=list(two), aspect=18, pad=0.02)
    return drawn


def _panel(axes: Axes, shown: Sample, numbers: Floats, norm: Normalize) -> Any:
    low = norm.vmin if isinstance(norm, LogNorm) else None
    colours = axes.tripcolor(
        Triangulation(shown.points[:, 0], shown.points[:, 1], shown.parts),
        np.maximum(numbers, low) if low else numbers,
        shading="gouraud",
        cmap=style.HEAT,
        norm=norm,
        rasterized=True,
    )
    corners = shown.corners.reshape(-1, 2)
    edges = Triangulation(corners[:, 0], corners[:, 1], np.arange(len(corners)).reshape(-1, 3))
    axes.triplot(edges, color="black", linewidth=0.2)
    axes.set_aspect("equal")
    axes.set_xlim(shown.lower[0], shown.upper[0])
    axes.set_ylim(shown.lower[1], shown.upper[1])
    axes.locator_params(nbins=3)
    axes.spines[:].set_visible(False)
    return colours
