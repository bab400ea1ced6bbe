"""Panels over the size of the mesh, which several figures of this study have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import NullLocator

from repro.artifacts import style
from repro.artifacts.significance import Interval
from repro.studies.dg_postprocessing.filter_times import FAMILIES, Filtering

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Number = Callable[[Filtering], float | None]
#: Colour and marker by degree.
LOOKS = {1: (style.MIDDLE, "o"), 2: (style.GREEN, "s"), 3: (style.DARK, "D")}
#: Of what the text states.
STATED: dict[str, Any] = {"color": style.ACCENT, "linewidth": 0.9, "linestyle": (0, (4, 2))}
#: Meshes whose sizes are further apart than by this factor have a tick each.
APART = 1.7


def of_family(fields: Sequence[Filtering], family: str, degree: int | None = None) -> list[Filtering]:
    """Return the fields of a family, of one degree or of all, by growing meshes."""
    those = [field for field in fields if field.family == family and field.triangles]
    return sorted((field for field in those if degree in (None, field.degree)), key=lambda field: field.triangles or 0)


def families_of(fields: Sequence[Filtering], number: Number) -> list[str]:
    """Return the paper's families that have a number of any field."""
    return [name for name in FAMILIES if any(number(field) is not None for field in of_family(fields, name))]


def degrees_of(fields: Sequence[Filtering], number: Number) -> list[int]:
    """Return the degrees that have a number of any field of the paper's families."""
    those = [field for name in FAMILIES for field in of_family(fields, name) if number(field) is not None]
    return [degree for degree in LOOKS if degree in {field.degree for field in those}]


def draw_line(
    axes: Axes,
    fields: Sequence[Filtering],
    number: Number,
    look: tuple[str, str],
    sure: Callable[[Filtering], Interval | None] = lambda field: None,
) -> None:
    """Draw a number over the triangles of meshes, a mark a mesh with its interval; nothing where there is none."""
    pairs = [(field.triangles, value) for field in fields if (value := number(field)) is not None]
    if pairs:
        across, along = zip(*pairs, strict=True)
        axes.plot(across, along, **line_look(*look))
    for field in fields:
        if field.triangles and (ends := sure(field)):
            axes.plot([field.triangles] * 2, ends, color="black", linewidth=0.6, marker="_", markersize=2.5, zorder=4)


def line_look(colour: str, marker: str) -> dict[str, Any]:
    """Return how a line with marks looks."""
    return {
        "color": colour, "marker": marker, "markersize": 3.8, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "zorder": 3,
    }  # fmt: skip


def over_triangles(
    axes: Axes, fields: Sequence[Filtering], label: str = "", *, last: bool = True, log: bool = True
) -> None:
    """Set the axes up: triangles below, the number's label to the left where it has one.

    Parameters
    ----------
    axes, fields
        The panel, and the fields of all panels: a tick a size of their meshes.
    label
        The number's; empty where another panel has it.
    last
        Whether no panel is below.
    log
        Whether the number has a logarithmic scale too.
    """
    axes.set_xscale("log")
    sizes = ticks_of([field.triangles for field in fields if field.triangles and field.family in FAMILIES])
    axes.set_xticks(sizes, [short(size) for size in sizes])
    if sizes:
        axes.set_xlim(sizes[0] / APART, sizes[-1] * APART)
    axes.xaxis.set_minor_locator(NullLocator())
    if log:
        axes.set_yscale("log")
        style.log_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.grid(axis="both")
    if label:
        axes.set_ylabel(label)
    if last:
        axes.set_xlabel("triangles")


def say_empty(axes: Axes) -> None:
    """Say in a panel that there is nothing to draw, instead of axes without a mark."""
    axes.set_axis_off()
    style.say_in_panel(axes, "no such field in this campaign")


def ticks_of(sizes: Sequence[int]) -> list[int]:
    """Return the sizes of meshes that have a tick, growing: those that lie apart from the one before."""
    ticks: list[int] = []
    for size in sorted(sizes):
        if not ticks or size > APART * ticks[-1]:
            ticks.append(size)
    return ticks


def short(value: float) -> str:
    """Return a number of triangles with three digits, in thousands or millions where it is so large."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:g}"
