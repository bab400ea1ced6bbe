"""Losses of tuning in parts, a dot for each problem and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.orders import Order
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.searched import searched
from repro.studies.compound_spmv.tables.strategies import PRODUCTS, SEQUENCES, Lost, lost

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

OFFSETS = {"single": -0.16, "double": 0.16}
TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@figure(
    STUDY, "figure-strategies", title="Layout and schedule, one after the other", numbering=f"Section 5.4 of {PAPER}"
)
def sequences(campaign: Campaign, published: Published) -> Figure:
    """Schedule and layout alone, and one after the other."""
    return _make(
        campaign,
        {name: order for name, order in SEQUENCES.items() if name != "jointly"},
        "tuning schedule and layout alone or one after the other, as in table-strategies",
    )


@figure(STUDY, "figure-product", title="Tuning n_t·n_b as one parameter", numbering=f"Section 5.4 of {PAPER}")
def products(campaign: Campaign, published: Published) -> Figure:
    """Joint tuning of layout, kind and product, by the rule that splits the product."""
    return _make(
        campaign,
        PRODUCTS,
        "tuning the product n_t·n_b as one parameter, each with a rule that splits it into n_t and n_b",
    )


def _make(campaign: Campaign, chosen: Mapping[str, Order], what: str) -> Figure:
    recordings = searched(campaign, "paper")
    by_order = {name: lost(recordings, order) for name, order in chosen.items()}
    caption = [
        f"By how many percent {what}, is slower than joint tuning; a dot is a problem in one precision, a bar the",
        f"median of a precision, {len(recordings)} dots a row. The axis is linear up to 1 % and logarithmic beyond.",
        measured_on(campaign, "event", "the search"),
    ]
    return Figure(lambda: _draw(by_order if recordings else {}), sentences(caption))


def _draw(by_order: Mapping[str, Sequence[Lost]]) -> Canvas:
    if not by_order:
        return style.empty("no problem of this campaign was searched in full")
    drawn = style.canvas(style.COLUMN, style.height(len(by_order), extra=0.9, per_row=0.36))
    axes = drawn.add_subplot()
    largest = 1.0
    for row, losses in enumerate(by_order.values()):
        for precision, (colour, marker) in style.PRECISIONS.items():
            values = [100 * case.loss for case in losses
                      if case.loss is not None and case.recording.precision == precision]  # fmt: skip
            if not values:
                continue
            at = row + OFFSETS[precision]
            spread = np.linspace(-0.09, 0.09, len(values))  # so that equal losses do not hide each other
            axes.plot(values, at + spread, marker, color=colour, markersize=2.6, markeredgewidth=0, alpha=0.7)
            axes.plot([np.median(values)] * 2, [at - 0.14, at + 0.14], color=colour, linewidth=1.6)
            largest = max(largest, *values)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    axes.set_xlim(-0.1, 1.2 * largest)
    ticks = [tick for tick in TICKS if tick <= 1.2 * largest]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])
    axes.set_xlabel("slower than joint tuning [%]")
    axes.grid(axis="x")
    style.rows_axis(axes, [*by_order], missing=[None] * len(by_order))
    handles = [
        Line2D([], [], linestyle="", marker=marker, markersize=3, color=colour, label=precision)
        for precision, (colour, marker) in style.PRECISIONS.items()
    ]
    drawn.legend(handles=handles, loc="outside upper right", ncols=2, handletextpad=0.3)
    return drawn
