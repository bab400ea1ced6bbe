"""How far a sort in shared memory reaches: over a hash table, by the bin and by how much a row is compressed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences, unavailable
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.sparse.spgemm.shapes import LIMITS
from repro.studies.spgemm_amg.bin_times import OF_THE_SEARCH, BinTimes, bins_of
from repro.studies.spgemm_amg.paper import PRODUCTS, STUDY, ProductName
from repro.studies.spgemm_amg.times import EVENT, all_times, precision_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HEIGHT = 2.6
LOOKS: dict[ProductName, tuple[str, str]] = {
    "AA": (style.GREY, "s"),
    "AP": (style.DARK, "o"),
    "RAP": (style.ACCENT, "^"),
}
#: How far the marks of products lie beside each other, in bins.
APART = 0.22


@figure(STUDY, "figure-bins", title="A sort over a hash table, bin by bin", numbering="ours")
def bins(campaign: Campaign, published: Published) -> Figure:
    """A mark a bin of a product of a problem: by its products on the left, by its compression on the right."""
    items = [item for times in all_times(campaign, published) for item in bins_of(times) if item.mode == "one"]
    caption = [
        "Rows of one bin of a product alone, in one phase: time of the fastest kernel that sorts in shared memory, as",
        "the paper’s do, over that of the fastest with a hash table there. Above the line the hash table is the",
        "faster. Left: by the most products of a row of the bin; right: by its compression, the products that an",
        "entry of C is the sum of in the mean. The larger a mark, the more products the bin has. Rows of more products",
        "are not sorted.",
        OF_THE_SEARCH,
        f"{precision_of(campaign).capitalize()} precision.",
        measured_on(campaign, EVENT),
        unavailable(campaign),
    ]
    return Figure(lambda: draw(items), sentences(caption))


def draw(items: Sequence[BinTimes]) -> Canvas:
    """Draw both panels."""
    compared = [item for item in items if item.sort_over_hash]
    if not compared:
        return style.empty("no bin has times of a sort and of a hash table")
    drawn = style.canvas(style.TEXT, HEIGHT)
    by_bin, by_compression = drawn.subplots(1, 2, sharey=True)
    products = [product for product in PRODUCTS if any(item.product == product for item in compared)]
    for item in compared:
        apart = APART * (products.index(item.product) - (len(products) - 1) / 2)
        by_bin.plot([item.bin + apart], [item.sort_over_hash], **_look(item))
        by_compression.plot([item.compression], [item.sort_over_hash], **_look(item))
    last = max(item.bin for item in compared)
    by_bin.set_xticks(range(last + 1), [f"{limit:,}" for limit in LIMITS[: last + 1]])
    by_bin.set_xlim(-0.6, last + 0.6)
    by_bin.set_xlabel("most products of a row of the bin")
    by_bin.set_ylabel("time of a sort / time of a hash table")
    by_compression.set_xscale("log", base=2)
    by_compression.set_xlabel("products / entries of the bin")
    for axes in (by_bin, by_compression):
        axes.axhline(1, color="black", linewidth=0.7, zorder=1)
        axes.grid(axis="both")
    _plain(by_compression)
    by_bin.set_yscale("log")
    low, high = by_bin.get_ylim()
    by_bin.set_ylim(min(low, 0.5), max(high, 2.0))
    style.log_ticks(by_bin.yaxis)
    handles = [
        Line2D([], [], label=PRODUCTS[product], **_style(product, 4.0)) for product in products
    ]  # fmt: skip
    drawn.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.0, columnspacing=1.4)
    return drawn


def _plain(axes: Axes) -> None:
    """Write numbers of the x axis without exponents."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _look(item: BinTimes) -> dict[str, Any]:
    return _style(item.product, 2.0 + 0.45 * len(str(item.products)))


def _style(product: ProductName, size: float) -> dict[str, Any]:
    colour, marker = LOOKS[product]
    return {
        "color": colour, "marker": marker, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.4,
        "linestyle": "", "alpha": 0.85, "zorder": 3,
    }  # fmt: skip
