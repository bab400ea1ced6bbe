"""Figures over the mesh size: memory of copies (Figure 3.7) and errors.

The functions for panels over the mesh size are shared with the figures of rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

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
    from matplotlib.figure import Figure as Canvas


FieldNumber = Callable[[Filtering], float | None]
#: Colour and marker for each degree.
DEGREE_LOOKS = {1: (figure_style.GREEN, "o"), 2: (figure_style.PINK, "s"), 3: (figure_style.VIOLET, "D")}
#: Mesh sizes get separate ticks if they differ by more than this factor.
MIN_TICK_RATIO = 1.7


def family_fields(fields: Sequence[Filtering], family: str, degree: int | None = None) -> list[Filtering]:
    """Return the fields of a family, for one degree or for all, sorted by mesh size."""
    members = [field for field in fields if field.family == family and field.triangles]
    return sorted(
        (field for field in members if degree in (None, field.degree)), key=lambda field: field.triangles or 0
    )


def drawn_families(fields: Sequence[Filtering], number: FieldNumber) -> list[str]:
    """Return the paper's families that have at least one field with a number."""
    return [name for name in FAMILIES if any(number(field) is not None for field in family_fields(fields, name))]


def drawn_degrees(fields: Sequence[Filtering], number: FieldNumber) -> list[int]:
    """Return the degrees for which at least one field of the paper's families has a number."""
    drawn_fields = [field for name in FAMILIES for field in family_fields(fields, name) if number(field) is not None]
    return [degree for degree in DEGREE_LOOKS if degree in {field.degree for field in drawn_fields}]


def draw_line(
    axes: Axes,
    fields: Sequence[Filtering],
    number: FieldNumber,
    line_colours: tuple[str, str],
    interval_of: Callable[[Filtering], Interval | None] = lambda field: None,
    offset: float = 0.0,
    *,
    joined: bool = True,
    hollow: bool = False,
) -> None:
    """Draw a number over the number of triangles, with marks and intervals; draw nothing if there are no numbers.

    The line is shifted by `offset` points to the right, so that marks of different lines on one mesh do not overlap.
    Unless `joined`, there are marks alone, as where most lines would have a single mesh.
    """
    pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
    lines = []
    if pairs:
        x_values, y_values = zip(*pairs, strict=True)
        lines += axes.plot(x_values, y_values, **line_style_of(*line_colours, joined=joined, hollow=hollow))
    for field in fields:
        if field.triangles and (ends := interval_of(field)):
            # intervals are drawn below the marks, since short ones would cover them
            lines += axes.plot(
                [field.triangles] * 2, ends, color="black", linewidth=0.6, marker="_", markersize=2.5, zorder=2.5
            )
    for line in lines if offset else ():  # shift after plotting, since plotting computes the axes' limits from the data
        line.set_transform(axes.transData + plotting.ScaledTranslation(offset / 72, 0, axes.figure.dpi_scale_trans))


CROSS: dict[str, Any] = {"marker": "x", "markersize": 3.4, "markeredgewidth": 0.9, "linestyle": ""}


def draw_crosses(axes: Axes, sizes: Sequence[int], timed: Sequence[int], colour: str, offset: float) -> bool:
    """Draw a cross above the panel, shifted by `offset` points, for each mesh size that is not near a timed one.

    Within the panel it would have a value.

    Return whether there is any.
    """
    untimed = [size for size in sizes if len(mesh_ticks([*timed, size])) > len(mesh_ticks(timed))]
    shift = plotting.ScaledTranslation(offset / 72, 0, axes.figure.dpi_scale_trans)
    for size in untimed:
        above_axes = axes.get_xaxis_transform() + shift
        axes.plot([size], [1.04], color=colour, zorder=3, transform=above_axes, clip_on=False, **CROSS)
    return bool(untimed)


def line_style_of(colour: str, marker: str, *, joined: bool = True, hollow: bool = False) -> dict[str, Any]:
    edge, face, width = (colour, "white", 0.9) if hollow else ("white", colour, 0.4)
    return {
        "color": colour, "marker": marker, "markersize": 3.8, "markeredgecolor": edge, "markerfacecolor": face,
        "markeredgewidth": width, "zorder": 3, "linestyle": "-" if joined else "",
    }  # fmt: skip


def triangle_axis(
    axes: Axes, fields: Sequence[Filtering], label: str = "", *, is_lowest: bool = True, log: bool = True
) -> None:
    """Set up a panel's axes with ticks at the fields' mesh sizes; `is_lowest`: no panel lies below this one."""
    axes.set_xscale("log")
    sizes = mesh_ticks([field.triangles for field in fields if field.triangles and field.family in FAMILIES])
    axes.set_xticks(sizes, [triangle_count_text(size) for size in sizes])
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
    if is_lowest:
        axes.set_xlabel("triangles")


def draw_empty(axes: Axes) -> None:
    """Write into a panel without data that there is nothing to draw, and hide the panel's axes."""
    axes.set_axis_off()
    figure_style.write_panel_reason(axes, "no such field in this campaign")


def mesh_ticks(sizes: Sequence[int]) -> list[int]:
    """Return the mesh sizes that get a tick, in ascending order: those well above the previous tick."""
    ticks: list[int] = []
    for size in sorted(sizes):
        if not ticks or size > MIN_TICK_RATIO * ticks[-1]:
            ticks.append(size)
    return ticks


def triangle_count_text(value: float) -> str:
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
    memory_share = partial(percent_of, counts[0])
    families, degrees = drawn_families(fields, memory_share), drawn_degrees(fields, memory_share)
    if not families:
        return figure_style.empty_canvas("no copies were counted in this campaign")
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, 0.4 + MEMORY_ROW * len(families))
    panels = drawing.subplots(len(families), len(counts), sharex=True, sharey="row", squeeze=False)
    for row, family in enumerate(families):
        for count, axes in zip(counts, panels[row], strict=True):
            for degree in degrees:
                draw_line(axes, family_fields(fields, family, degree), partial(percent_of, count), DEGREE_LOOKS[degree])
            if row == 0:
                axes.set_title(f"{count} patches")
            label = f"overhead, {family} variance [%]" if count == counts[0] else ""
            triangle_axis(axes, fields, label, is_lowest=row == len(families) - 1)
    handles = [
        plotting.Line2D([], [], label=f"P = {degree}", **line_style_of(*DEGREE_LOOKS[degree])) for degree in degrees
    ]
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


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
        return figure_style.empty_canvas("no errors are known in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH if len(families) > 1 else figure_style.COLUMN_WIDTH, ERRORS_HEIGHT
    )
    panels = drawing.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for index, (family, axes) in enumerate(zip(families, panels, strict=True)):
        for degree in degrees:
            _draw_error_lines(axes, family_fields(fields, family, degree), degree)
        triangle_axis(axes, fields, "error in L²" if index == 0 else "")
        lower_limit, upper_limit = axes.get_ylim()
        has_few_ticks = upper_limit < MAX_ERROR_RATIO * lower_limit
        axes.yaxis.set_major_locator(plotting.LogLocator(10, (1, 2, 5) if has_few_ticks else (1,)))
        axes.yaxis.set_major_formatter(plotting.LogFormatterSciNotation(10, minor_thresholds=(np.inf, np.inf)))
        axes.set_title(f"{family} variance")
    handles = [
        plotting.Line2D([], [], label=f"P = {degree}", **_error_style(degree, is_filtered=True)) for degree in degrees
    ]
    handles += [
        plotting.Line2D(
            [],
            [],
            label=label,
            **(_error_style(degrees[0], is_filtered=is_filtered) | {"color": figure_style.GREY, "marker": ""}),
        )
        for label, is_filtered in (("before the filter", False), ("filtered", True))
    ]
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


def _draw_error_lines(axes: Axes, fields: Sequence[Filtering], degree: int) -> None:
    for number, is_filtered in ((l2_before, False), (l2_filtered, True)):
        pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
        if pairs:
            x_values, y_values = zip(*pairs, strict=True)
            axes.plot(x_values, y_values, **_error_style(degree, is_filtered=is_filtered))


def _error_style(degree: int, *, is_filtered: bool) -> dict[str, Any]:
    colour, marker = DEGREE_LOOKS[degree]
    line_style = line_style_of(colour, marker)
    if is_filtered:
        return line_style
    return line_style | {
        "linestyle": (0, (4, 2)),
        "markerfacecolor": "white",
        "markeredgecolor": colour,
        "markeredgewidth": 0.8,
    }
