"""What dynamic CSR gains over a rebuild: a row a graph or a batch, a mark for each number of products per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.lines import Line2D

from repro.artifacts import style
from repro.artifacts.cells import count
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import Line, footnote, measured_on, remarks, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.dynamic_csr.operation_times import CLOCK, precision_of
from repro.studies.dynamic_csr.paper import STUDY
from repro.studies.dynamic_csr.tables.crossover import EXPLANATION, IN_WORDS, PRODUCTS
from repro.studies.dynamic_csr.update_times import Trade, about_geam, trades_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: Colours of the marks, and the share of them that is dark enough: many products are bright.
COLOURS, DARKEST = "plasma", 0.62


@figure(STUDY, "figure-crossover", title="Gain over a rebuild, by products per batch", numbering="ours")
def crossover(campaign: Campaign, published: Published) -> Figure:
    """A row a graph, and one a batch of a sweep."""
    trades, missing = trades_of(campaign, published)
    lines = list({trade.line.problem: trade.line for trade in trades}.values()) + [line for line, _ in missing]
    caption = [
        EXPLANATION,
        f"Marks: n = {', '.join(map(str, PRODUCTS))}; right of the vertical line dynamic CSR is the faster. Behind the",
        "name of a sweep: the entries of the batch. On the right: the n at which both break even.",
        IN_WORDS,
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, CLOCK),
        about_geam(campaign),
        remarks(lines),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(trades, missing, footnote(lines)), sentences(caption))


def draw(trades: Sequence[Trade], missing: Sequence[tuple[Line, str]], mark: str | None) -> Canvas:
    """Draw one panel.

    Parameters
    ----------
    missing
        Problems without numbers, and why they have none.
    mark
        What a mark at a name means; None where there is none.
    """
    if not trades:
        return style.empty("updates and rebuilds were not measured in this campaign")
    names = [_label(trade) for trade in trades] + [line.label for line, _ in missing]
    drawn = style.canvas(style.TEXT, style.height(len(names), extra=1.0))
    axes = drawn.add_subplot()
    colours = [mpl.colormaps[COLOURS](DARKEST * i / (len(PRODUCTS) - 1)) for i in range(len(PRODUCTS))]
    for at, trade in enumerate(trades):
        gains = [trade.gain(products) for products in PRODUCTS]
        axes.plot([min(gains), max(gains)], [at, at], color=style.PALE, linewidth=1.0, zorder=2)
        for gain, colour in zip(gains, colours, strict=True):
            axes.plot([gain], [at], **_look(colour))
    style.column(axes, [trade.in_words for trade in trades], ("break-even n", "black"), points=4)
    axes.set_xscale("log")
    style.log_ticks(axes.xaxis)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.9), max(high, 1.1))
    axes.axvline(1, color=style.GREY, linewidth=0.7, zorder=1)
    axes.grid(axis="x")
    axes.set_xlabel("time with a rebuild / time with dynamic CSR")
    why = ["unavailable" if text.startswith("unavailable") else text for _, text in missing]
    style.rows_axis(axes, names, missing=[*(None for _ in trades), *why])
    handles = [
        Line2D([], [], label=f"n = {products}", **_look(colour))
        for products, colour in zip(PRODUCTS, colours, strict=True)
    ]
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.0, columnspacing=1.4)
    style.footnote(drawn, mark)
    return drawn


def _label(trade: Trade) -> str:
    if not trade.alone or trade.entries is None:
        return trade.line.label
    return f"{trade.line.label}, {count(trade.entries).shown}"


def _look(colour: object) -> dict[str, Any]:
    return {"color": colour, "marker": "o", "markersize": 4, "linestyle": "", "zorder": 3}
