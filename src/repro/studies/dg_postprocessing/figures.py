"""Figures of rates and speed-ups: in the plane (3.10 to 3.12), by vector width (4.4 to 4.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign, Method
from repro.results.problem_lines import cpu_note, join_sentences, mark_meanings, measurement_note, unavailable_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.significance import WHISKERS, Interval, interval_of_ratio
from repro.results.tables import Figure
from repro.studies.dg_postprocessing import (
    CAPACITY_CONTRADICTS,
    CITED,
    FILTER_CLOCK,
    GAIN_CONTRADICTS,
    LARGEST_RATE,
    MACHINE,
    MAX_OVER_POINT,
    MAX_RATE,
    MIN_OVER_POINT,
    MIN_RATE,
    OVER_POINT,
    STATED_GPU,
    STUDY_NAME,
    WIDTHS_CONTRADICT,
    results,
    stated_number,
)
from repro.studies.dg_postprocessing.figures_accuracy import (
    CROSS,
    DEGREE_LOOKS,
    draw_crosses,
    draw_empty,
    draw_line,
    drawn_degrees,
    drawn_families,
    family_fields,
    line_style_of,
    mesh_ticks,
    triangle_axis,
    triangle_count_text,
)
from repro.studies.dg_postprocessing.ids import CPU_REGIONS, REGIONS_PER_BLOCK, WIDTHS, full_width
from repro.studies.dg_postprocessing.operands import contour_formula
from repro.studies.dg_postprocessing.regions import region_formula

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


#: Colour and marker of each method's line, colour of its bars, and legend text.
METHOD_LOOKS = {
    results.POINT: (figure_style.GREY, "s"),
    results.ELEMENT: (figure_style.PAPERS.colour, figure_style.PAPERS.marker),
    results.OURS: (figure_style.OURS.colour, figure_style.OURS.marker),
}
SCALING_FILLS = {results.ELEMENT: figure_style.PAPERS.fill, results.OURS: figure_style.OURS.fill}
METHOD_WORDS = {
    results.POINT: "papers’, per point",
    results.ELEMENT: "papers’, per element",
    results.OURS: figure_style.OURS.label,
}
#: Number of triangles of the mesh with the text's largest stated rate, and height of one row in inches.
LARGEST_MESH, FLOPS_ROW = 2**20, 1.75
#: The smallest and the largest rate that the text states, for each family and degree.
RateRanges = dict[tuple[str, int], tuple[float, float]]


@figure(STUDY_NAME, "figure-3-10", title="GFLOPS by the size of the mesh", numbering=f"Figure 3.10 of {CITED}")
def flops(campaign: Campaign, published: Published) -> Figure:
    """Rates in GFLOPS over the mesh size: one row for each family (mesh variance), one panel for each degree."""
    fields = results.all_filterings(campaign, published)
    ranges = stated_ranges(published)
    caption = [
        "GFLOPS of the paper’s two ways, each with its fastest block, and of ours; above meshes of low variance, below",
        "of high.",
        contour_formula(),
        _published_rates(ranges, campaign.on_cpu),
        cpu_note(campaign),
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_flops(fields, {} if campaign.on_cpu else ranges), join_sentences(caption), clock=FILTER_CLOCK
    )


def stated_ranges(published: Published) -> RateRanges:
    """Return the ranges of rates stated in the text; a single stated rate is both ends of its range."""
    largest_rate = stated_number(published, LARGEST_RATE, "low", 1)
    ranges = {("low", 1): (largest_rate, largest_rate)} if largest_rate else {}
    for degree in results.DEGREES:
        min_rate, max_rate = (stated_number(published, name, "low", degree) for name in (MIN_RATE, MAX_RATE))
        if min_rate and max_rate:
            ranges["low", degree] = min_rate, max_rate
    return ranges


def _published_rates(ranges: RateRanges, is_cpu: bool) -> str:
    if not ranges:
        return ""
    rates = [
        f"{min_rate:g} for P = {degree} per element on the largest mesh"
        if min_rate == max_rate
        else f"{min_rate:g} to {max_rate:g} for P = {degree}"
        for (_, degree), (min_rate, max_rate) in ranges.items()
    ]
    drawn = "not drawn beside a CPU’s" if is_cpu else "the bands and the mark"
    return (
        f"{CITED} states, for a {STATED_GPU} and meshes of low variance, {', '.join(rates)}: {drawn}. It does not say "
        "which operations it counts, so that its rates and ours are not of the same numbers of them."
    )


def draw_flops(fields: Sequence[results.Filtering], ranges: RateRanges) -> Canvas:
    """Draw the panels; `ranges` are the stated rates, drawn if there are any."""

    def rate(way: Method, field: results.Filtering) -> float | None:
        return field.gflops(field[way])

    def fastest(field: results.Filtering) -> float | None:
        return max((value for way in METHOD_LOOKS if (value := rate(way, field))), default=None)

    families, degrees = drawn_families(fields, fastest), drawn_degrees(fields, fastest)
    if not families:
        return figure_style.empty_canvas("no field was filtered in this campaign")
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(0, extra_height=0.25) + FLOPS_ROW * len(families)
    )
    panels = drawing.subplots(len(families), len(degrees), sharex=True, sharey="row", squeeze=False)

    def is_full(family: str, degree: int) -> bool:
        return (family, degree) in ranges or any(
            fastest(field) is not None for field in family_fields(fields, family, degree)
        )

    lowest_rows = {
        degree: max((row for row, family in enumerate(families) if is_full(family, degree)), default=0)
        for degree in degrees
    }
    for row, family in enumerate(families):
        for degree, axes in zip(degrees, panels[row], strict=True):
            if row == 0:
                axes.set_title(f"P = {degree}")
            if not is_full(family, degree):
                draw_empty(axes)
                continue
            panel_fields = family_fields(fields, family, degree)
            for way, line_style in METHOD_LOOKS.items():
                draw_line(axes, panel_fields, partial(rate, way), line_style)
            if (family, degree) in ranges:
                min_rate, max_rate = ranges[family, degree]
                if min_rate == max_rate:
                    axes.plot([LARGEST_MESH], [max_rate], **figure_style.PUBLISHED_MARK)
                else:
                    axes.axhspan(min_rate, max_rate, color=figure_style.BAND, zorder=1)
            first = next(item for item in degrees if is_full(family, item))
            is_lowest = row == lowest_rows[degree]
            triangle_axis(axes, fields, f"GFLOPS, {family} variance" if degree == first else "", is_lowest=is_lowest)
            axes.tick_params(labelbottom=is_lowest, labelleft=degree == first)
    handles: list[Line2D | Patch] = [
        plotting.Line2D([], [], label=METHOD_WORDS[way], **line_style_of(*line_style))
        for way, line_style in METHOD_LOOKS.items()
    ]
    if ranges:
        handles += [
            plotting.Patch(color=figure_style.BAND, label=f"published, {STATED_GPU}"),
            plotting.Line2D([], [], label="the same, one number", **figure_style.PUBLISHED_MARK),
        ]
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


#: The degree for which the text states speed-ups on meshes of low variance.
CUBIC = 3
SPEEDUP_ROW = 1.6
#: Horizontal distance in points between the marks of two degrees on one mesh, so that similar speedups do not overlap.
DEGREE_STEP = 5.0


@figure(STUDY_NAME, "figure-3-11", title="Per element over per point", numbering=f"Figure 3.11 of {CITED}")
def speedup(campaign: Campaign, published: Published) -> Figure:
    """Speedups over the mesh size, one panel for each family: per-element over per-point method (exact and tuned), then
    ours.

    Times of the paper's methods are from the campaign that judges the claims on them. Our speedup over them is from
    that campaign too if it has our method, since both were then tuned in one search.
    """
    judging = campaign.as_published or campaign
    judged_fields = results.all_filterings(judging, published)
    has_ours = any(field.over(results.ELEMENT_TUNED, results.OURS) for field in judged_fields)
    source = judging if has_ours else campaign
    fields = judged_fields if has_ours else results.all_filterings(campaign, published)
    lines = {
        name: value
        for name, degree in zip(results.FAMILIES, (CUBIC, None), strict=True)
        if (value := stated_number(published, OVER_POINT, name, degree))
    }
    ends = stated_number(published, MIN_OVER_POINT), stated_number(published, MAX_OVER_POINT)
    band = (ends[0], ends[1]) if ends[0] and ends[1] else None
    caption = [
        "Per element over per point: time of the paper’s per-point way over that of its per-element way, as the text",
        "has them, with one block or patch a multiprocessor and the fastest threads that were tried of each (filled),",
        "and tuned, with threads, cells and blocks to choose from (hollow). Ours over per element: time of the tuned",
        "per-element way (hollow) over that of ours, by contours. Above 1 the second is the faster; a cross above the",
        "panel, or no row, where one was not measured. Marks of one mesh stand side by side.",
        _judging_note(campaign, has_ours),
        f"Tuned, {text}." if (text := results.choice_text(fields, results.ELEMENT_TUNED)) else "",
        _published_speedups(lines, band, campaign.on_cpu),
        WHISKERS if any(map(_interval_of(results.ELEMENT_TUNED, results.OURS), fields)) else "",
        cpu_note(campaign),
        measurement_note(source, FILTER_CLOCK),
        unavailable_note(source),
    ]
    if campaign.on_cpu:
        lines, band = {}, None
    names = [judging.name, *([] if has_ours else [campaign.name])]
    return Figure(
        lambda: draw_speedup(fields, judged_fields, lines, band),
        join_sentences(caption),
        clock=FILTER_CLOCK,
        campaigns=tuple(dict.fromkeys(names)),
    )


def _judging_note(campaign: Campaign, has_ours: bool) -> str:
    """Return the sentence on the drawn campaigns; `has_ours`: the campaign with exact kernels also has our method."""
    if campaign.as_published is None:
        return ""
    rest = (
        f"the figure is {campaign.name}’s, which refers to it"
        if has_ours
        else f"ours over per element of {campaign.name}"
    )
    return (
        f"{'All' if has_ours else 'Per element over per point'} is drawn of campaign {campaign.as_published.name}, "
        f"which has the paper’s kernels to the letter and judges its claims, on the same model of GPU; {rest}."
    )


def _published_speedups(lines: Mapping[str, float], band: tuple[float, float] | None, is_cpu: bool) -> str:
    if not lines or not band:
        return ""
    gains = " and ".join(f"over {value:g}× for {name} variance" for name, value in lines.items())
    drawn_text = "not drawn beside a CPU’s" if is_cpu else "the dashed lines and the band"
    return (
        f"{CITED} states, for a {STATED_GPU}, {gains} (the first for P = {CUBIC}), and {band[0]:g}× to {band[1]:g}× of "
        f"all in its conclusions: {drawn_text}. {GAIN_CONTRADICTS}"
    )


#: The rows of the figure by the names of their ratios: pairs of the slower and the faster method. Marks are hollow if
#: the paper's methods of a pair are tuned.
SPEEDUPS: Mapping[str, Sequence[tuple[Method, Method]]] = {
    "per element over per point": results.PUBLISHED_PAIRS,
    "ours over per element": ((results.ELEMENT_TUNED, results.OURS),),
}


def _interval_of(slow: Method, fast: Method) -> Callable[[results.Filtering], Interval | None]:
    """Return a function that computes the confidence interval of one method's time over another's."""
    return lambda field: interval_of_ratio(field[slow], field[fast])


def draw_speedup(
    fields: Sequence[results.Filtering],
    judged_fields: Sequence[results.Filtering],
    lines: Mapping[str, float],
    band: tuple[float, float] | None,
) -> Canvas:
    """Draw the panels.

    Times of the paper's methods are those in `judged_fields`, of ours those in `fields`. `lines` (by family) and `band`
    are values from the dissertation's text, drawn if given.
    """

    def fields_of_row(label: str) -> Sequence[results.Filtering]:
        return judged_fields if SPEEDUPS[label] is results.PUBLISHED_PAIRS else fields

    pairs_by_row = {
        label: drawn_pairs
        for label, pairs in SPEEDUPS.items()
        if (drawn_pairs := [pair for pair in pairs if any(field.over(*pair) for field in fields_of_row(label))])
    }
    drawn_fields = [
        field
        for label, pairs in pairs_by_row.items()
        for field in fields_of_row(label)
        if any(field.over(*pair) for pair in pairs)
    ]
    if not drawn_fields:
        return figure_style.empty_canvas("no two ways were timed on a field of this campaign")
    families = drawn_families(drawn_fields, lambda field: 1)
    degrees = drawn_degrees(drawn_fields, lambda field: 1)
    offsets = {degree: DEGREE_STEP * (index - (len(degrees) - 1) / 2) for index, degree in enumerate(degrees)}
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, len(pairs_by_row) * SPEEDUP_ROW + 0.65)
    panels = drawing.subplots(len(pairs_by_row), len(families), sharex=True, sharey="row", squeeze=False)
    has_crosses = False
    for row, (label, pairs) in enumerate(pairs_by_row.items()):
        for index, (family, axes) in enumerate(zip(families, panels[row], strict=True)):
            for degree in degrees:
                panel_fields = family_fields(fields_of_row(label), family, degree)
                for slow, fast in pairs:
                    draw_line(
                        axes,
                        panel_fields,
                        partial(results.Filtering.over, base=slow, method=fast),
                        DEGREE_LOOKS[degree],
                        _interval_of(slow, fast),
                        offsets[degree],
                        joined=False,
                        hollow=slow not in results.PUBLISHED_PAIRS[0],
                    )
                timed = [field.triangles or 0 for field in panel_fields if any(field.over(*pair) for pair in pairs)]
                sizes = mesh_ticks([field.triangles or 0 for field in family_fields(drawn_fields, family)])
                has_crosses |= draw_crosses(axes, sizes, timed, DEGREE_LOOKS[degree][0], offsets[degree])
            axes.axhline(1, color="black", linewidth=0.6, zorder=2)
            axes.set_title(f"{family} variance" if row == 0 else "", pad=8)  # above the crosses
            if band and SPEEDUPS[label] is results.PUBLISHED_PAIRS:
                axes.axhspan(*band, color=figure_style.BAND, zorder=0)
            if family in lines and SPEEDUPS[label] is results.PUBLISHED_PAIRS:
                axes.axhline(lines[family], zorder=2, **figure_style.PUBLISHED_LINE)
            is_lowest = row == len(pairs_by_row) - 1
            triangle_axis(axes, drawn_fields, label if index == 0 else "", is_lowest=is_lowest, log=False)
    handles: list[Line2D | Patch] = [
        plotting.Line2D([], [], label=f"P = {degree}", **line_style_of(*DEGREE_LOOKS[degree], joined=False))
        for degree in degrees
    ]
    for tuning, hollow in (("to the letter", False), ("tuned", True)):
        style = line_style_of(figure_style.GREY, "o", joined=False, hollow=hollow)
        handles.append(plotting.Line2D([], [], label=f"{figure_style.PAPERS.label}, {tuning}", **style))
    if has_crosses:
        handles.append(plotting.Line2D([], [], label="not timed (above a panel)", color=figure_style.GREY, **CROSS))
    if lines:
        label = f"least gain published, {STATED_GPU}"
        handles.append(plotting.Line2D([], [], label=label, **figure_style.PUBLISHED_LINE))
    if band:
        handles.append(plotting.Patch(color=figure_style.BAND, label="range of gains in its conclusions"))
    drawing.legend(handles=handles, loc="outside upper left", ncols=4, columnspacing=1.2)
    return drawing


#: Height of a row of bars in inches, and of one bar in rows.
SCALING_ROW, SCALING_BAR = 0.3, 0.38
#: Position of the printed values of bars, and end of the axis, as multiples of the largest number of devices.
SCALING_VALUE, SCALING_ROOM = 1.05, 1.18


@figure(
    STUDY_NAME,
    "figure-3-12",
    title="Speed-up over several GPUs",
    numbering=f"Figure 3.12 of {CITED}",
    needs="devices",
)
def scaling(campaign: Campaign, published: Published) -> Figure:
    """Speedup over several devices on the largest timed mesh: a panel per family, bars by degree, method, devices."""
    fields = results.all_filterings(campaign, published)
    is_empty = not results.device_counts(fields)
    caption = [
        "Time on one device over that over several of the same host, of each family and degree on the largest mesh",
        "that was filtered so. Ours: values stay where they are computed; per element: the paper’s way, whose second",
        "stage brings them to the first device; no bar where it was not timed. Lines: as many times as fast as there",
        "are devices.",
        "The paper draws P = 1 over the size of the mesh, on 1, 2, 4 and 8 Tesla M2090; no speed-up is printed there.",
        results.NO_DEVICES if is_empty else "",
        measurement_note(campaign, FILTER_CLOCK),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_scaling(fields), join_sentences(caption), is_empty, clock=FILTER_CLOCK)


def draw_scaling(fields: Sequence[results.Filtering]) -> Canvas:
    counts = results.device_counts(fields)

    def largest_field(family: str, degree: int, way: Method) -> results.Filtering | None:
        candidates = family_fields(fields, family, degree)
        return next((field for field in candidates[::-1] if any(field.device_speedup(way, n) for n in counts)), None)

    largest_fields = {
        (family, degree, way): field
        for family in results.FAMILIES
        for degree in DEGREE_LOOKS
        for way in results.DISTRIBUTED_METHODS
        if (field := largest_field(family, degree, way))
    }
    families = [family for family in results.FAMILIES if any(key[0] == family for key in largest_fields)]
    if not families:
        return figure_style.empty_canvas("nothing was filtered over several devices in this campaign")
    rows = [(degree, n) for degree in DEGREE_LOOKS for n in counts if any(key[1] == degree for key in largest_fields)]
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH if len(families) > 1 else figure_style.COLUMN_WIDTH,
        figure_style.height(len(rows), extra_height=0.9, per_row=SCALING_ROW),
    )
    panels = drawing.subplots(1, len(families), sharex=True, squeeze=False)[0]
    for family, axes in zip(families, panels, strict=True):
        for method_index, way in enumerate(results.DISTRIBUTED_METHODS):
            for row, (degree, n) in enumerate(rows):
                bar_y, field = row + (method_index - 0.5) * SCALING_BAR, largest_fields.get((family, degree, way))
                if field and (speedup := field.device_speedup(way, n)):
                    axes.barh(
                        bar_y, speedup, SCALING_BAR, color=SCALING_FILLS[way], linewidth=0, label=METHOD_WORDS[way]
                    )
                    axes.text(SCALING_VALUE * max(counts), bar_y, f"{speedup:.2f}", va="center", fontsize=6)
                else:
                    axes.text(
                        0.02, bar_y, f"{METHOD_WORDS[way]}: not timed", va="center", fontsize=6, color=figure_style.GREY
                    )
        for row, (_, n) in enumerate(rows):
            axes.plot([n, n], [row - SCALING_BAR, row + SCALING_BAR], color="black", linewidth=0.8, zorder=3)
        meshes = {
            triangle_count_text(field.triangles or 0) for key, field in largest_fields.items() if key[0] == family
        }
        axes.set_title(f"{family} variance, {' or '.join(sorted(meshes))} triangles")
        axes.set_xlim(0, SCALING_ROOM * max(counts))
        axes.set_xticks([0, 1, *counts])
        axes.grid(axis="x")
        axes.set_xlabel("speedup over one device")
        names = [f"P = {degree}, {n} devices" for degree, n in rows]
        figure_style.rows_axis(axes, names if axes is panels[0] else [""] * len(names), reasons=[None] * len(names))
    handles: list[Line2D | Patch] = [
        plotting.Patch(color=SCALING_FILLS[way], label=METHOD_WORDS[way])
        for way in results.DISTRIBUTED_METHODS
        if any(key[2] is way for key in largest_fields)
    ]
    handles.append(plotting.Line2D([], [], color="black", linewidth=0.8, label="as many times as devices"))
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


#: Panels in one row, and size of one row in inches.
REGION_ACROSS, REGION_ROW = 2, 2.4


def region_grid(items: Sequence[results.WidthTimes]) -> tuple[Canvas, list[Axes]]:
    """Return a figure with one titled panel for each problem, two panels in a row, and the panels."""
    rows = -(-len(items) // REGION_ACROSS)
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, 0.2 + REGION_ROW * rows)
    panels = list(drawing.subplots(rows, min(REGION_ACROSS, len(items)), squeeze=False).flat)
    for axes in panels[len(items) :]:
        axes.remove()
    for axes, item in zip(panels, items, strict=False):
        axes.set_title(f"{item.line.label}, degree {item.degree}")
    figure_style.write_footnote(drawing, mark_meanings(item.line for item in items))
    return drawing, panels[: len(items)]


def width_axis(axes: Axes, widths: Sequence[int], *other_labels: str) -> None:
    """Label the axis positions 0, 1, … with vector widths, and the next positions with the names `other_labels`."""
    labels = [*map(str, widths), *other_labels]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("threads of a region")


REGION_LOOKS = {"papers’ kernel": figure_style.PAPERS.fill, "ours, a thread a region": figure_style.OURS.fill}


@figure(STUDY_NAME, "figure-4-7", title="GFLOPS by width", numbering=f"Figure 4.7 of {CITED}")
def region_flops(campaign: Campaign, published: Published) -> Figure:
    """GFLOPS, one panel for each problem: one bar for each vector width, and one bar for our kernel."""
    items = results.width_times(campaign, published)
    peaks = sorted({round(peak) for item in items if (peak := results.peak_of(item.case))})
    caption = [
        "GFLOPS in double precision of the paper’s kernel by the threads of a region, of each width the fastest over",
        "regions and numbers of blocks, and of ours with a thread a region, whose rule has fewer points: it does less",
        "for the same integrals, so that times, not rates, say which is the faster.",
        region_formula(),
        f"The device does at most {' or '.join(map(str, peaks))} GFLOPS." if peaks else "",
        f"The paper prints no number of its figure, of a {MACHINE}, and does not say which operations it counts.",
        measurement_note(campaign, results.REGION_CLOCK),
        unavailable_note(campaign),
    ]
    return Figure(lambda: draw_region_flops(items), join_sentences(caption), clock=results.REGION_CLOCK)


def draw_region_flops(items: Sequence[results.WidthTimes]) -> Canvas:
    items = [item for item in items if region_rates(item)]
    if not items:
        return figure_style.empty_canvas("no kernels of regions were timed in this campaign")
    drawing, panels = region_grid(items)
    paper_style, own_style = REGION_LOOKS.values()
    for axes, item in zip(panels, items, strict=True):
        widths = WIDTHS[item.degree]
        for name, rate in region_rates(item).items():
            bar_x, colour = (
                (len(widths), own_style) if name == results.LANE.key else (widths.index(int(name)), paper_style)
            )
            axes.bar(bar_x, rate, color=colour, width=0.7, zorder=2)
        width_axis(axes, widths, "ours")
        axes.set_xlim(-0.5, len(widths) + 0.5)
        axes.set_ylabel("GFLOPS")
        axes.grid(axis="y")
    handles = [plotting.Patch(color=colour, label=label) for label, colour in REGION_LOOKS.items()]
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


def region_rates(item: results.WidthTimes) -> dict[str, float]:
    """Return the rates of a problem's timed kernels by vector width; our kernel's key is `lane`."""
    times = {str(width): item.of_width(width) for width in WIDTHS[item.degree]} | {results.LANE.key: item[results.LANE]}
    return {name: rate for name, time in times.items() if (rate := results.region_gflops(time)) is not None}


NO_TIMES = "no kernels of regions were timed in this campaign"
#: Share of a vector width's place on the axis over which the marks for all numbers of regions are spread.
MARK_SPREAD = 0.7
#: Colour map for the numbers of regions, and the part of it that is dark enough to see.
WIDTH_COLOURS, WIDTH_DARKEST = "plasma", 0.85


@figure(STUDY_NAME, "figure-4-4", title="Times by width and regions of a block", numbering=f"Figure 4.4 of {CITED}")
def pairs_by_width(campaign: Campaign, published: Published) -> Figure:
    """Heat map for each problem on tetrahedra: fastest time for each vector width and number of regions per block."""
    items = results.width_times(campaign, published)
    caption = [
        "Time of a region in nanoseconds, the fastest over the numbers of blocks, by the threads of a region and the",
        "regions that a block has at a time. Hatched: a block has no room for so many threads, or they were not timed.",
        f"The paper shows colours and no numbers, of a {MACHINE}, where other pairs fit. {CAPACITY_CONTRADICTS}",
        measurement_note(campaign, results.REGION_CLOCK, "the search"),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_pairs(items, searched_regions(campaign)), join_sentences(caption), clock=results.REGION_CLOCK
    )


def searched_regions(campaign: Campaign) -> Sequence[int]:
    """Return the numbers of regions per block that are tried on the device."""
    return CPU_REGIONS if campaign.on_cpu else REGIONS_PER_BLOCK


def draw_pairs(items: Sequence[results.WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw one heat map per problem: ns per region, by threads per region (x) and regions per block (y: `counts`)."""
    items = [item for item in items if item.by_width_and_regions]
    if not items:
        return figure_style.empty_canvas(NO_TIMES)
    drawing, panels = region_grid(items)
    for axes, item in zip(panels, items, strict=True):
        widths, times = WIDTHS[item.degree], item.by_width_and_regions
        cells = [[times.get((width, count), np.nan) for width in widths] for count in counts]
        axes.patch.set(facecolor="white", edgecolor=figure_style.PALE, hatch="////", linewidth=0)
        axes.set_axisbelow(False)
        image = axes.imshow(np.array(cells), cmap=figure_style.HEAT, origin="lower", aspect="auto")
        width_axis(axes, widths)
        axes.set_yticks(range(len(counts)), [str(count) for count in counts])
        axes.set_ylabel("regions of a block")
        drawing.colorbar(image, ax=axes, label="ns a region")
    if any(len(item.by_width_and_regions) < len(WIDTHS[item.degree]) * len(counts) for item in items):
        no_time = plotting.Patch(facecolor="white", edgecolor=figure_style.GREY, hatch="////", linewidth=0)
        drawing.legend([no_time], ["no room in a block, or not timed"], loc="outside upper left")
    return drawing


@figure(STUDY_NAME, "figure-4-5", title="All times by width", numbering=f"Figure 4.5 of {CITED}")
def times_by_width(campaign: Campaign, published: Published) -> Figure:
    """Time per region over the vector width: one panel for each problem, one mark for each kernel."""
    items = results.width_times(campaign, published)
    caption = [
        "Time of a region in nanoseconds by the threads of a region, a mark for each kernel of the paper’s that the",
        "search has timed: for each width all numbers of regions of a block, by colour and from left to right, and all",
        f"numbers of blocks, above each other. The paper prints no number of its figure, of a {MACHINE}.",
        measurement_note(campaign, results.REGION_CLOCK, "the search"),
        unavailable_note(campaign),
    ]
    return Figure(
        lambda: draw_times(items, searched_regions(campaign)), join_sentences(caption), clock=results.REGION_CLOCK
    )


def draw_times(items: Sequence[results.WidthTimes], counts: Sequence[int]) -> Canvas:
    """Draw one panel per problem: time per region against vector width, one dot per variant.

    The colour of a dot shows its number of regions per block; `counts` has all these numbers.
    """
    items = [item for item in items if item.searched]
    if not items:
        return figure_style.empty_canvas(NO_TIMES)
    drawing, panels = region_grid(items)
    # Leave out the palest colours, which are hard to see on white.
    shades = [WIDTH_DARKEST * index / max(1, len(counts) - 1) for index in range(len(counts))]
    colours = plotting.ListedColormap([plotting.colormaps[WIDTH_COLOURS](shade) for shade in shades])
    norm = plotting.BoundaryNorm(np.arange(len(counts) + 1) - 0.5, len(counts))
    for axes, item in zip(panels, items, strict=True):
        widths = WIDTHS[item.degree]
        searched = [point for point in item.searched if point.width in widths and point.regions in counts]
        ranks = [counts.index(point.regions) for point in searched]
        offsets = [MARK_SPREAD * ((rank + 0.5) / len(counts) - 0.5) for rank in ranks]
        point_widths = [widths.index(point.width) + offset for point, offset in zip(searched, offsets, strict=True)]
        axes.scatter(
            point_widths, [point.nano for point in searched], c=ranks, cmap=colours, norm=norm, s=5, linewidths=0
        )
        width_axis(axes, widths)
        axes.set_xlim(-0.5, len(widths) - 0.5)
        axes.set_yscale("log")
        figure_style.log_ticks(axes.yaxis)
        axes.set_ylabel("ns a region")
        axes.grid(axis="y")
    bar = drawing.colorbar(plotting.ScalarMappable(norm, colours), ax=panels, label="regions of a block")
    bar.set_ticks(range(len(counts)), labels=[str(count) for count in counts])
    bar.ax.minorticks_off()
    return drawing


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
        "By how much each width is faster than a region with a thread for each of its quadrature points, 36 or 150:",
        "its time over that of the width, less one; of each width the fastest over regions and numbers of blocks.",
        f"{CITED} states, for a {MACHINE}, {stated_text}: {drawn_text}. {WIDTHS_CONTRADICT}" if stated_text else "",
        cpu_note(campaign),
        measurement_note(campaign, results.REGION_CLOCK),
        unavailable_note(campaign),
    ]
    drawn_gains = {} if campaign.on_cpu else gains_of
    return Figure(lambda: draw_gains(items, drawn_gains), join_sentences(caption), clock=results.REGION_CLOCK)


def draw_gains(items: Sequence[results.WidthTimes], stated_gains: dict[int, dict[int, float]]) -> Canvas:
    """Draw one panel for each problem; `stated_gains` has the paper's gains by degree and vector width."""
    items = [item for item in items if any(item.gain(width) is not None for width in WIDTHS[item.degree])]
    if not items:
        return figure_style.empty_canvas("no width was timed beside the full one in this campaign")
    drawing, panels = region_grid(items)
    for axes, item in zip(panels, items, strict=True):
        _draw_gain_panel(axes, item, stated_gains.get(item.degree, {}))
    if any(stated_gains.get(item.degree) for item in items):
        handles = [
            plotting.Patch(color=figure_style.PAPERS.fill, label="papers’ kernel, measured here"),
            plotting.Line2D([], [], label=f"published, {MACHINE}", **figure_style.PUBLISHED_MARK),
        ]
        drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return drawing


def _draw_gain_panel(axes: Axes, item: results.WidthTimes, stated_gains: dict[int, float]) -> None:
    widths = sorted({*WIDTHS[item.degree], *stated_gains})
    for index, width in enumerate(widths):
        gain = item.gain(width)
        if gain is not None:
            axes.bar(index, 100 * gain, color=figure_style.PAPERS.fill, width=0.7, zorder=2)
        if width in stated_gains:
            axes.plot([index], [100 * stated_gains[width]], **figure_style.PUBLISHED_MARK)
    axes.axhline(0, color="black", linewidth=0.7, zorder=1)
    axes.grid(axis="y")
    width_axis(axes, widths)
    axes.set_ylabel(f"gain over width {full_width(item.degree)} [%]")
