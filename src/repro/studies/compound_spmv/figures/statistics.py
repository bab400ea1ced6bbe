"""Figures 3 and 4: box plots of row lengths and of bandwidths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import Line, footnote, ours, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.paper import PAPER, STUDY

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BOX = "Boxes are quartiles with the median, whiskers the minimum and maximum."


@figure(STUDY, "figure-3", title="Row lengths", numbering=f"Figure 3 of {PAPER}")
def row_lengths(campaign: Campaign, published: Published) -> Figure:
    """Entries in a row, on a logarithmic axis."""
    lines = ours(campaign, published)
    caption = [
        "Row lengths (entries in a row) of each matrix, on a logarithmic axis; empty rows are drawn at 0.",
        BOX,
        f"Figure 3 of {PAPER} prints no values; what is drawn is ours and does not depend on the device.",
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: _boxes(lines, "row_length", "entries in a row", log=True), sentences(caption))


@figure(STUDY, "figure-4", title="Bandwidths", numbering=f"Figure 4 of {PAPER}")
def bandwidths(campaign: Campaign, published: Published) -> Figure:
    """Bandwidth of a row, in percent of the columns."""
    lines = ours(campaign, published)
    caption = [
        "Bandwidth of the rows of each matrix: largest minus smallest column index, in percent of the number",
        f"of columns (equation 3 of {PAPER}).",
        BOX,
        f"Figure 4 of {PAPER} prints no values; what is drawn is ours and does not depend on the device.",
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(
        lambda: _boxes(lines, "bandwidth_percent", "bandwidth of a row [% of n]", log=False), sentences(caption)
    )


def _boxes(lines: list[Line], key: str, label: str, *, log: bool) -> Canvas:
    if not lines:
        return style.empty("no problem was built in this campaign")
    drawn = style.canvas(style.COLUMN, style.height(len(lines)))
    axes = drawn.add_subplot()
    boxes: list[dict[str, Any]] = []
    rows, missing = [], []
    for row, line in enumerate(lines):
        quartiles = (line.record.statistics or {}).get(key) if line.record else None
        available = line.record is not None and line.record.available
        missing.append(None if quartiles else ("no statistics" if available else "unavailable"))
        if quartiles:
            rows.append(row)
            boxes.append(
                {
                    "med": quartiles["median"], "q1": quartiles["q1"], "q3": quartiles["q3"],
                    "whislo": quartiles["min"], "whishi": quartiles["max"], "fliers": [],
                }
            )  # fmt: skip
    if boxes:
        axes.bxp(
            boxes,
            positions=rows,
            orientation="horizontal",
            widths=0.6,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": style.LIGHT, "edgecolor": style.DARK, "linewidth": 0.7},
            medianprops={"color": style.ACCENT, "linewidth": 1.3},
            whiskerprops={"color": style.DARK, "linewidth": 0.7},
            capprops={"color": style.DARK, "linewidth": 0.7},
        )
    if log:
        shortest = min([box["whislo"] for box in boxes], default=1)
        longest = max([box["whishi"] for box in boxes], default=10)
        if shortest < 1:  # empty rows: a logarithmic axis has no place for 0
            axes.set_xscale("symlog", linthresh=1, linscale=0.4)
        else:
            axes.set_xscale("log")
        axes.set_xlim(0 if shortest < 1 else 0.8, 2 * longest)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    else:
        axes.set_xlim(-1.5, 101.5)  # whiskers end at 0 and at 100: their caps stay visible
    axes.set_xlabel(label)
    axes.grid(axis="x")
    style.rows_axis(axes, [line.label for line in lines], missing=missing)
    style.footnote(drawn, footnote(lines))
    return drawn
