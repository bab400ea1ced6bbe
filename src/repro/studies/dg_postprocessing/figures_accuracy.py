"""Figures over the mesh size: memory of copies (Figure 3.7) and errors; and a picture of a field before and after
filtering.

The functions for panels over the mesh size are shared with the figures of rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.filtering.reference import contour_rows
from repro.filtering.triangulation import of_field
from repro.galerkin import evaluate
from repro.problems.field import FIELD_KINDS, FUNCTIONS, generate_field
from repro.problems.files import mesh_checksum
from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign
from repro.results.problem_lines import join_sentences, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import Interval
from repro.results.tables import Figure
from repro.studies.dg_postprocessing import CITED, PATCHES, STUDY_NAME
from repro.studies.dg_postprocessing.results import (
    FAMILIES,
    Filtering,
    all_filterings,
    filtered_errors,
    unfiltered_errors,
)
from repro.studies.dg_postprocessing.tables import patch_counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Canvas


FieldNumber = Callable[[Filtering], float | None]
#: Colour and marker for each degree.
DEGREE_LOOKS = {1: (figure_style.MIDDLE, "o"), 2: (figure_style.GREEN, "s"), 3: (figure_style.DARK, "D")}
#: Style of numbers stated in the text.
PUBLISHED_LINE: dict[str, Any] = {"color": figure_style.ACCENT, "linewidth": 0.9, "linestyle": (0, (4, 2))}
#: Mesh sizes get separate ticks if they differ by more than this factor.
MIN_TICK_RATIO = 1.7


def family_fields(fields: Sequence[Filtering], family: str, degree: int | None = None) -> list[Filtering]:
    """Return the fields of a family, for one degree or for all, sorted by mesh size."""
    those = [field for field in fields if field.family == family and field.triangles]
    return sorted((field for field in those if degree in (None, field.degree)), key=lambda field: field.triangles or 0)


def drawn_families(fields: Sequence[Filtering], number: FieldNumber) -> list[str]:
    """Return the paper's families that have at least one field with a number."""
    return [name for name in FAMILIES if any(number(field) is not None for field in family_fields(fields, name))]


def drawn_degrees(fields: Sequence[Filtering], number: FieldNumber) -> list[int]:
    """Return the degrees for which at least one field of the paper's families has a number."""
    those = [field for name in FAMILIES for field in family_fields(fields, name) if number(field) is not None]
    return [degree for degree in DEGREE_LOOKS if degree in {field.degree for field in those}]


def draw_line(
    axes: Axes,
    fields: Sequence[Filtering],
    number: FieldNumber,
    look: tuple[str, str],
    sure: Callable[[Filtering], Interval | None] = lambda field: None,
    beside: float = 0.0,
    *,
    joined: bool = True,
) -> None:
    """Draw a number over the number of triangles, with marks and intervals; draw nothing if there are no numbers.

    The line is shifted by `beside` points to the right, so that marks of different lines on one mesh do not overlap.
    Unless `joined`, there are marks alone, as where most lines would have a single mesh.
    """
    pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
    lines = []
    if pairs:
        across, along = zip(*pairs, strict=True)
        lines += axes.plot(across, along, **line_look(*look, joined=joined))
    for field in fields:
        if field.triangles and (ends := sure(field)):
            # intervals are drawn below the marks, since short ones would cover them
            lines += axes.plot(
                [field.triangles] * 2, ends, color="black", linewidth=0.6, marker="_", markersize=2.5, zorder=2.5
            )
    for line in lines if beside else ():  # shift after plotting, since plotting computes the axes' limits from the data
        line.set_transform(axes.transData + plotting.ScaledTranslation(beside / 72, 0, axes.figure.dpi_scale_trans))


def line_look(colour: str, marker: str, *, joined: bool = True) -> dict[str, Any]:
    return {
        "color": colour, "marker": marker, "markersize": 3.8, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "zorder": 3, "linestyle": "-" if joined else "",
    }  # fmt: skip


def triangle_axis(
    axes: Axes, fields: Sequence[Filtering], label: str = "", *, last: bool = True, log: bool = True
) -> None:
    """Set up a panel's axes with ticks at the fields' mesh sizes; `last`: no panel lies below this one."""
    axes.set_xscale("log")
    sizes = mesh_ticks([field.triangles for field in fields if field.triangles and field.family in FAMILIES])
    axes.set_xticks(sizes, [short_triangles(size) for size in sizes])
    if sizes:
        axes.set_xlim(sizes[0] / MIN_TICK_RATIO, sizes[-1] * MIN_TICK_RATIO)
    axes.xaxis.set_minor_locator(plotting.NullLocator())
    if log:
        axes.set_yscale("log")
        figure_style.log_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="both")
    if label:
        axes.set_ylabel(label)
    if last:
        axes.set_xlabel("triangles")


def draw_empty(axes: Axes) -> None:
    """Write into a panel without data that there is nothing to draw, and hide the panel's axes."""
    axes.set_axis_off()
    figure_style.say_in_panel(axes, "no such field in this campaign")


def mesh_ticks(sizes: Sequence[int]) -> list[int]:
    """Return the mesh sizes that get a tick, in ascending order: those well above the previous tick."""
    ticks: list[int] = []
    for size in sorted(sizes):
        if not ticks or size > MIN_TICK_RATIO * ticks[-1]:
            ticks.append(size)
    return ticks


def short_triangles(value: float) -> str:
    """Format a number of triangles with three digits, large numbers in thousands or millions."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:g}"


MEMORY_ROW, PERCENT = 1.75, 100


@figure(STUDY_NAME, "figure-3-7", title="Memory of the per-element way", numbering=f"Figure 3.7 of {CITED}")
def memory(campaign: Campaign, published: Published) -> Figure:
    """Memory overhead in percent over the mesh size: one row for each family, one panel for each number of patches."""
    fields = all_filterings(campaign, published)
    caption = [
        "Memory that the per-element way takes beside one solution, in percent of it: copies of the points around the",
        f"triangles of each patch. {PATCHES} patches as in Figure 3.7 of {CITED}, which is of P = 1, and 132, one for",
        "each multiprocessor of an H200. It does not depend on the device. The text prints no number, only that the",
        "overhead falls as meshes grow.",
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_memory(fields), join_sentences(caption))


def percent_of(patches: int, field: Filtering) -> float | None:
    """Return the memory overhead in percent; None if it was not counted."""
    share = field.overhead(patches)
    return None if share is None else PERCENT * share


def draw_memory(fields: Sequence[Filtering]) -> Canvas:
    counts = patch_counts(fields)
    some = partial(percent_of, counts[0])
    families, degrees = drawn_families(fields, some), drawn_degrees(fields, some)
    if not families:
        return figure_style.empty("no copies were counted in this campaign")
    drawn = figure_style.canvas(figure_style.TEXT_WIDTH, 0.4 + MEMORY_ROW * len(families))
    panels = drawn.subplots(len(families), len(counts), sharex=True, sharey="row", squeeze=False)
    for row, family in enumerate(families):
        for count, axes in zip(counts, panels[row], strict=True):
            for degree in degrees:
                draw_line(axes, family_fields(fields, family, degree), partial(percent_of, count), DEGREE_LOOKS[degree])
            if row == 0:
                axes.set_title(f"{count} patches")
            label = f"overhead, {family} variance [%]" if count == counts[0] else ""
            triangle_axis(axes, fields, label, last=row == len(families) - 1)
    handles = [plotting.Line2D([], [], label=f"P = {degree}", **line_look(*DEGREE_LOOKS[degree])) for degree in degrees]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


ERRORS_HEIGHT = 2.6
#: A range of errors larger than this factor gets a tick for each power of ten.
MAX_ERROR_RATIO = 300


@figure(STUDY_NAME, "figure-errors", title="Errors before and after the filter", numbering="ours")
def errors(campaign: Campaign, published: Published) -> Figure:
    """Errors of the field before and after filtering over the mesh size: one panel for each family."""
    fields = all_filterings(campaign, published)
    caption = [
        "Errors in L² of fields against the function that they are the projection of, over triangles: dashed lines and",
        "hollow marks before the filter, full ones after it, with h the longest edge. Numbers, orders and the largest",
        "errors are in table-errors.",
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_errors(fields), join_sentences(caption))


def l2_before(field: Filtering) -> float | None:
    errors = unfiltered_errors(field)
    return errors.l2 if errors else None


def l2_filtered(field: Filtering) -> float | None:
    errors = filtered_errors(field)
    return errors.l2 if errors else None


def draw_errors(fields: Sequence[Filtering]) -> Canvas:
    families, degrees = drawn_families(fields, l2_filtered), drawn_degrees(fields, l2_filtered)
    if not families:
        return figure_style.empty("no errors are known in this campaign")
    drawn = figure_style.canvas(
        figure_style.TEXT_WIDTH if len(families) > 1 else figure_style.COLUMN_WIDTH, ERRORS_HEIGHT
    )
    panels = drawn.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for place, (family, axes) in enumerate(zip(families, panels, strict=True)):
        for degree in degrees:
            _draw_error_lines(axes, family_fields(fields, family, degree), degree)
        triangle_axis(axes, fields, "error in L²" if place == 0 else "")
        least, most = axes.get_ylim()
        few = most < MAX_ERROR_RATIO * least
        axes.yaxis.set_major_locator(plotting.LogLocator(10, (1, 2, 5) if few else (1,)))
        axes.yaxis.set_major_formatter(plotting.LogFormatterSciNotation(10, minor_thresholds=(np.inf, np.inf)))
        axes.set_title(f"{family} variance")
    handles = [plotting.Line2D([], [], label=f"P = {degree}", **_error_look(degree, after=True)) for degree in degrees]
    handles += [
        plotting.Line2D(
            [], [], label=label, **(_error_look(degrees[0], after=after) | {"color": figure_style.GREY, "marker": ""})
        )
        for label, after in (("before the filter", False), ("filtered", True))
    ]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawn


def _draw_error_lines(axes: Axes, fields: Sequence[Filtering], degree: int) -> None:
    for number, after in ((l2_before, False), (l2_filtered, True)):
        pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
        if pairs:
            across, along = zip(*pairs, strict=True)
            axes.plot(across, along, **_error_look(degree, after=after))


def _error_look(degree: int, *, after: bool) -> dict[str, Any]:
    colour, marker = DEGREE_LOOKS[degree]
    look = line_look(colour, marker)
    if after:
        return look
    return look | {
        "linestyle": (0, (4, 2)),
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "markeredgewidth": 0.8,
    }


Floats = NDArray[np.float64]
#: Largest mesh, in triangles, that is drawn, and number of drawn triangles for P = 1; larger ones take NumPy long.
MAX_TRIANGLES, SHOWN_TRIANGLES = 5000, 120
#: Number of parts into which each triangle edge is cut, so that colours follow the polynomials.
EDGE_PARTS = 5
#: Decimals of coordinates by which points are distinguished.
COORDINATE_DIGITS = 12
#: Number of powers of ten in the colour scale of errors.
ERROR_DECADES = 3
PICTURE_HEIGHT = 1.9


@dataclass(frozen=True)
class FieldSample:
    """A field's values on a part of a mesh; neighbouring triangles do not share corners."""

    lower: Floats
    upper: Floats
    #: Corners of the triangles in this part of the mesh, `(t, 3, 2)`.
    corners: Floats
    #: Points, `(t n, 2)`.
    points: Floats
    #: Indices of the three points of each small triangle, `(t p, 3)`.
    parts: NDArray[np.int64]
    before: Floats
    after: Floats
    exact: Floats


@figure(STUDY_NAME, "figure-picture", title="A field before and after the filter", numbering="ours")
def picture(campaign: Campaign, published: Published) -> Figure:
    """Picture of one field in four panels: the field, the filtered field, and the errors of both."""
    chosen = pictured_field(all_filterings(campaign, published))
    sentences = "No mesh of this campaign can be drawn." if chosen is None else _picture_sentences(chosen)
    caption = [
        sentences,
        "Left the field, which jumps between triangles, and the filtered one; right how far both are from the function",
        f"that the field is the projection of, over {ERROR_DECADES} powers of ten, smaller ones in the colour of the",
        "least. The values are not those that kernels left: the field is generated again as its record says, and",
        "filtered by the reference in NumPy that kernels are verified against, with h the longest edge of the mesh.",
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_picture(chosen), join_sentences(caption))


def pictured_field(fields: Sequence[Filtering]) -> Filtering | None:
    """Return the field to draw: on the largest small mesh, low variance and lowest degree preferred; None if none."""
    those = [
        field
        for field in fields
        if field.function
        and (field.triangles or MAX_TRIANGLES) < MAX_TRIANGLES
        and field.origin.get("kind") in FIELD_KINDS
    ]

    def rank(field: Filtering) -> tuple[bool, int, int]:
        return field.family != FAMILIES[0], field.degree or 0, -(field.triangles or 0)

    return min(those, key=rank, default=None)


def _picture_sentences(field: Filtering) -> str:
    count = _shown_count(field.degree or 0)
    part = "" if (field.triangles or 0) <= count else ", of which a part is drawn"
    family = f" of {field.family} variance" if field.family else ""
    edge, width = field.facts.get("longest_edge"), 3 * (field.degree or 0) + 1
    stencil = f" The stencil is {width * edge:.2g} wide." if edge else ""
    return f"{field.line.problem}: P = {field.degree}, {field.triangles} triangles{family}{part}.{stencil}"


def _shown_count(degree: int) -> int:
    """Return the approximate number of triangles to draw for a degree."""
    return SHOWN_TRIANGLES // max(degree, 1) ** 2


def sample_field(field: Filtering) -> FieldSample:
    """Generate a field again and filter it on a part of its mesh; ReproError if the mesh differs from the record."""
    origin = field.origin
    made = generate_field(origin["kind"], **origin.get("parameters", {}))
    recorded = (origin.get("checksum") or {}).get("sha256")
    if recorded not in (None, mesh_checksum(made.vertices, made.cells)):
        raise ReproError("the mesh that is generated here is another one than the campaign’s", where=field.line.problem)
    mesh = of_field(made)
    upper = mesh.lower + min(1.0, np.sqrt(_shown_count(made.degree) / len(mesh.triangles))) * mesh.period
    inside = (mesh.corners.min(axis=1) < upper).all(axis=1)
    corners = mesh.corners[inside]
    places, parts = lattice(EDGE_PARTS)
    sides = corners[:, 1:] - corners[:, :1]
    points = (corners[:, :1] + places @ sides).reshape(-1, 2)
    before = (made.modes[inside] @ evaluate(made.basis, places, made.degree).T).ravel()
    # the filtered field is continuous, so points shared by triangles are filtered only once
    _, first, again = np.unique(np.round(points, COORDINATE_DIGITS), axis=0, return_index=True, return_inverse=True)
    after = (contour_rows(mesh, points[first], made.degree, made.basis) @ made.modes.ravel())[again.reshape(-1)]
    every = (parts + len(places) * np.arange(len(corners))[:, None, None]).reshape(-1, 3)
    return FieldSample(mesh.lower, upper, corners, points, every, before, after, FUNCTIONS[origin["function"]](points))


def lattice(count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return the points of a reference triangle with edges cut into `count` parts, and the resulting triangles.

    float64 `(n, 2)` and int64 `(count², 3)`.
    """
    rows = [(i, j) for j in range(count + 1) for i in range(count + 1 - j)]
    number = {place: index for index, place in enumerate(rows)}
    upright = [[number[i, j], number[i + 1, j], number[i, j + 1]] for i, j in rows if i + j < count]
    turned = [[number[i + 1, j], number[i + 1, j + 1], number[i, j + 1]] for i, j in rows if i + j < count - 1]
    return np.array(rows, np.float64) / count, np.array(upright + turned, np.int64)


def draw_picture(field: Filtering | None) -> Canvas:
    if field is None:
        return figure_style.empty("no small mesh with a known function in this campaign")
    try:
        shown = sample_field(field)
    except ReproError as error:
        return figure_style.empty(error.what)
    drawn = figure_style.canvas(figure_style.TEXT_WIDTH, PICTURE_HEIGHT)
    drawn.set_layout_engine("compressed")  # square panels, and colour bars of the same height
    panels = drawn.subplots(1, 4, sharex=True, sharey=True)
    values = shown.before, shown.after
    errors = [np.abs(value - shown.exact) for value in values]
    largest = float(max(error.max() for error in errors)) or 1.0
    least, most = (float(pick([pick(value) for value in values])) for pick in (np.min, np.max))
    for two, numbers, norm, label in (
        (panels[:2], values, plotting.Normalize(least, most), "value"),
        (panels[2:], errors, plotting.LogNorm(largest / 10**ERROR_DECADES, largest), "error"),
    ):
        for axes, number, title in zip(two, numbers, ("dG", "filtered"), strict=True):
            colours = _draw_picture_panel(axes, shown, number, norm)
            axes.set_title(f"{title}: {label}")
        drawn.colorbar(colours, ax=list(two), aspect=18, pad=0.02)
    return drawn


def _draw_picture_panel(axes: Axes, shown: FieldSample, numbers: Floats, norm: Normalize) -> Any:
    low = norm.vmin if isinstance(norm, plotting.LogNorm) else None
    colours = axes.tripcolor(
        plotting.Triangulation(shown.points[:, 0], shown.points[:, 1], shown.parts),
        np.maximum(numbers, low) if low else numbers,
        shading="gouraud",
        cmap=figure_style.HEAT,
        norm=norm,
        rasterized=True,
    )
    corners = shown.corners.reshape(-1, 2)
    edges = plotting.Triangulation(corners[:, 0], corners[:, 1], np.arange(len(corners)).reshape(-1, 3))
    axes.triplot(edges, color="black", linewidth=0.2)
    axes.set_aspect("equal")
    axes.set_xlim(shown.lower[0], shown.upper[0])
    axes.set_ylim(shown.lower[1], shown.upper[1])
    axes.locator_params(nbins=3)
    axes.spines[:].set_visible(False)
    return colours
