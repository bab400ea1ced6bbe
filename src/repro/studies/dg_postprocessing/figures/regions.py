"""Figures of filters of regions on tetrahedra by the width of their vectors (4.4 to 4.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from repro.results import plotting
from repro.results.campaign_data import Campaign
from repro.results.figure_forms import (
    PUBLISHED_MARK,
    Axis,
    ColourBar,
    Curve,
    Curves,
    Field,
    Pen,
    Reference,
    draw_panels,
    figure_of,
)
from repro.results.figure_style import OURS, PAPERS
from repro.results.problem_lines import cpu_note, join_sentences, mark_meanings, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure
from repro.studies.dg_postprocessing import CAPACITY_CONTRADICTS, CITED, MACHINE, STUDY_NAME, WIDTHS_CONTRADICT, results
from repro.studies.dg_postprocessing.ids import CPU_REGIONS, REGIONS_PER_BLOCK, WIDTHS, full_width
from repro.studies.dg_postprocessing.regions import region_formula

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NO_TIMES = "no kernels of regions were timed in this campaign"
#: Name of an axis by the width of the kernels' vectors; panels in a row, and their height in inches.
THREADS, ACROSS, HEIGHT = "threads of a region", 2, 2.3
#: Width of bars, in places of the axis; share of a place over which the marks for all numbers of regions are spread.
BAR_WIDTH, MARK_SPREAD = 0.7, 0.7
#: Colour map for the numbers of regions, and the part of it that is dark enough to see on white.
COLOURS, DARKEST = "plasma", 0.85


def width_axis(widths: Sequence[int], *others: str) -> Axis:
    """Return an axis with the widths, and other names, at the places 0, 1, …."""
    names = [*map(str, widths), *others]
    return Axis(THREADS, limits=(-0.5, len(names) - 0.5), ticks={place: name for place, name in enumerate(names)})


def panel_title(item: results.WidthTimes) -> str:
    return f"{item.line.label}, degree {item.degree}"


@figure(STUDY_NAME, "figure-4-7", title="GFLOPS by width", numbering=f"Figure 4.7 of {CITED}")
def region_flops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS, one panel for each problem: one bar for each vector width, and one bar for our kernel."""
    items = results.width_times(campaign, published)
    peaks = sorted({round(peak) for item in items if (peak := results.peak_of(item.case))})
    caption = [
        "GFLOPS in double precision of the paper’s kernel by the number of threads per region, each width with its",
        "fastest numbers of regions and blocks, and of ours with one thread per region. Our rule has fewer points and",
        "needs fewer operations for the same integrals, so compare times, not rates.",
        region_formula(),
        f"The device’s peak is {' or '.join(map(str, peaks))} GFLOPS." if peaks else "",
        f"The paper’s figure, for a {MACHINE}, prints no numbers, and the text does not state which operations it",
        "counts.",
        measurement_note(campaign, results.REGION_CLOCK),
        unavailable_note(campaign),
    ]
    panels = [
        Curves(
            [
                Curve("papers’ kernel", Pen(PAPERS.fill), paper_points, bar_width=BAR_WIDTH),
                Curve("ours, a thread a region", Pen(OURS.fill), own_points, bar_width=BAR_WIDTH),
            ],
            width_axis(WIDTHS[item.degree], "ours"),
            Axis("GFLOPS"),
            panel_title(item),
            height=HEIGHT,
        )
        for item in items
        for paper_points, own_points in [region_rates(item)]
        if paper_points or own_points
    ]
    return figure_of(
        panels,
        NO_TIMES,
        caption,
        clock=results.REGION_CLOCK,
        across=ACROSS,
        mark=mark_meanings(item.line for item in items),
    )


def region_rates(item: results.WidthTimes) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return places and rates of a problem's timed kernels: the paper's by vector width, and ours."""
    widths = WIDTHS[item.degree]
    rates = [results.region_gflops(time) for time in (*map(item.of_width, widths), item[results.LANE])]
    points = [(place, rate) for place, rate in enumerate(rates) if rate is not None]
    return [point for point in points if point[0] < len(widths)], [point for point in points if point[0] == len(widths)]


@figure(STUDY_NAME, "figure-4-4", title="Times by width and regions of a block", numbering=f"Figure 4.4 of {CITED}")
def pairs_by_width(campaign: Campaign, published: Published) -> Figure:
    """Heat map for each problem on tetrahedra: fastest time for each vector width and number of regions per block."""
    caption = [
        "Time per region in nanoseconds, with the fastest number of blocks, by threads per region and concurrent",
        "regions per block. Hatched: a block has no room for that many threads, or they were not timed. The paper",
        f"shows colours without numbers, for a {MACHINE}, where other pairs fit. {CAPACITY_CONTRADICTS}",
    ]
    return _of_widths(draw_pairs, campaign, published, caption)


def _of_widths(
    draw: Callable[[Sequence[results.WidthTimes], Sequence[int]], Canvas],
    campaign: Campaign,
    published: Published,
    caption: Sequence[str],
) -> Figure:
    items = results.width_times(campaign, published)
    notes = measurement_note(campaign, results.REGION_CLOCK, "the search"), unavailable_note(campaign)
    text = join_sentences([*caption, *notes])
    return Figure(lambda: draw(items, searched_regions(campaign)), text, clock=results.REGION_CLOCK)


def searched_regions(campaign: Campaign) -> Sequence[int]:
    """Return the numbers of regions per block that are tried on the device."""
    return CPU_REGIONS if campaign.on_cpu else REGIONS_PER_BLOCK


def draw_pairs(items: Sequence[results.WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw one heat map per problem: ns per region, by threads per region (x) and regions per block (y: `counts`)."""
    items = [item for item in items if item.by_width_and_regions]
    panels = [
        Field(
            np.array(
                [
                    [item.by_width_and_regions.get((width, count), np.nan) for width in WIDTHS[item.degree]]
                    for count in counts
                ]
            ),
            [*map(str, WIDTHS[item.degree])],
            [*map(str, counts)],
            THREADS,
            "regions of a block",
            panel_title(item),
            bar_label="ns a region",
            missing="no room in a block, or not timed",
            height=HEIGHT,
        )
        for item in items
    ]
    return draw_panels(panels, NO_TIMES, across=ACROSS, mark=mark_meanings(item.line for item in items))


@figure(STUDY_NAME, "figure-4-5", title="All times by width", numbering=f"Figure 4.5 of {CITED}")
def times_by_width(campaign: Campaign, published: Published) -> Figure:
    """Time per region over the vector width: one panel for each problem, one mark for each kernel."""
    caption = [
        "Time per region in nanoseconds by threads per region, with a mark for each of the paper’s kernels that the",
        "search timed. For each width, colours from left to right are numbers of regions per block; numbers of blocks",
        f"are above each other. The paper’s figure, for a {MACHINE}, prints no numbers.",
    ]
    return _of_widths(draw_times, campaign, published, caption)


def draw_times(items: Sequence[results.WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw one panel per problem: time per region against vector width, one dot per variant.

    The colour of a dot shows its number of regions per block; `counts` has all these numbers.
    """
    items = [item for item in items if item.searched]
    shades = np.linspace(0, DARKEST, len(counts))
    colours = [str(plotting.to_hex(plotting.colormaps[COLOURS](shade))) for shade in shades]

    def curve(item: results.WidthTimes, rank: int) -> Curve:
        widths, offset = WIDTHS[item.degree], MARK_SPREAD * ((rank + 0.5) / len(counts) - 0.5)
        searched = [point for point in item.searched if point.width in widths and point.regions == counts[rank]]
        points = [(widths.index(point.width) + offset, point.nano) for point in searched]
        return Curve(f"{counts[rank]} regions of a block", Pen(colours[rank], "o", size=2.2), points, has_key=False)

    panels = [
        Curves(
            [curve(item, rank) for rank in range(len(counts))],
            width_axis(WIDTHS[item.degree]),
            Axis("ns a region", "log"),
            panel_title(item),
            height=HEIGHT,
        )
        for item in items
    ]
    ticks = {float(place): str(count) for place, count in enumerate(counts)}
    bar = ColourBar("regions of a block", (0, len(counts)), ticks, colours)
    mark = mark_meanings(item.line for item in items)
    return draw_panels(panels, NO_TIMES, across=ACROSS, mark=mark, bar=bar)


@figure(STUDY_NAME, "figure-4-6", title="Gain over the full width", numbering=f"Figure 4.6 of {CITED}")
def gains_by_width(campaign: Campaign, published: Published) -> Figure:
    """One panel for each problem: gain of each vector width over one thread for each quadrature point."""
    items = results.width_times(campaign, published)
    gains_of = {degree: results.published_gains(published, degree) for degree in WIDTHS}
    stated_text = "; ".join(
        f"degree {degree}: {', '.join(f'width {width} {100 * gain:+.0f} %' for width, gain in numbers.items())}"
        for degree, numbers in gains_of.items()
        if numbers
    )
    drawn_text = "not drawn beside a CPU’s" if campaign.on_cpu else "the diamonds"
    caption = [
        "Gain of each width over one thread per quadrature point of a region (36 or 150): the time of the latter over",
        "that of the width, minus one; each width with its fastest numbers of regions and blocks.",
        f"{CITED} states, for a {MACHINE}, {stated_text}: {drawn_text}. {WIDTHS_CONTRADICT}" if stated_text else "",
        cpu_note(campaign),
        measurement_note(campaign, results.REGION_CLOCK),
        unavailable_note(campaign),
    ]
    items = [item for item in items if any(item.gain(width) is not None for width in WIDTHS[item.degree])]
    panels = [gain_panel(item, {} if campaign.on_cpu else gains_of[item.degree]) for item in items]
    mark = mark_meanings(item.line for item in items)
    empty = "no width was timed beside the full one in this campaign"
    return figure_of(panels, empty, caption, clock=results.REGION_CLOCK, across=ACROSS, mark=mark)


def gain_panel(item: results.WidthTimes, stated_gains: Mapping[int, float]) -> Curves:
    """Return the panel of a problem; `stated_gains` has the paper's gains by vector width."""
    widths = sorted({*WIDTHS[item.degree], *stated_gains})
    gains = [(place, 100 * gain) for place, width in enumerate(widths) if (gain := item.gain(width)) is not None]
    stated = [(widths.index(width), 100 * gain) for width, gain in stated_gains.items()]
    return Curves(
        [
            Curve("papers’ kernel, measured here", Pen(PAPERS.fill), gains, bar_width=BAR_WIDTH),
            Curve(f"published, {MACHINE}", PUBLISHED_MARK, stated),
        ],
        width_axis(widths),
        Axis(f"gain over width {full_width(item.degree)} [%]"),
        panel_title(item),
        [Reference(0, pen=Pen("black", dashes="-", width=0.7, zorder=1))],
        height=HEIGHT,
    )
