"""Functions that draw the figures of products, on one device and over several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from repro.results import figure_style, plotting
from repro.results.campaign_data import Method
from repro.results.published import Published
from repro.studies.dynamic_csr import (
    results,
    stated_speedups,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch


#: Height of one row of the figure in inches, and the share of it that bars fill.
FLOPS_ROW, FLOPS_FILLED = 0.4, 0.8


@dataclass(frozen=True)
class ProductSeries:
    """A series with the same product for every problem."""

    label: str
    colour: str
    method: Method


PRODUCT_SERIES = (
    ProductSeries("CSR", figure_style.GREY, results.CSR),
    ProductSeries("papers’ DCSR, fragmented", figure_style.PAPERS.fill, results.FRAGMENTED),
    ProductSeries("papers’ DCSR, defragmented", figure_style.PAPERS.colour, results.DEFRAGMENTED),
    ProductSeries("papers’ ADCSR", figure_style.PINK, results.ADAPTIVE),
    ProductSeries("HYB", figure_style.GREEN, results.HYB_PRODUCT),
)


def draw_flops(panels: dict[str, list[results.ProductTimes]], library: str, mark: str | None) -> Canvas:
    """Draw the panels side by side.

    Parameters
    ----------
    library
        Name of the library.
    mark
        Meaning of the marks at names; None if no name is marked.
    """
    shown_series = [
        series for series in PRODUCT_SERIES if any(case[series.method] for panel in panels.values() for case in panel)
    ]
    if not shown_series:
        return figure_style.empty_canvas("nothing was measured in this campaign")
    names = [case.line.label for case in next(iter(panels.values()))]
    drawing = figure_style.canvas(
        figure_style.TEXT_WIDTH, figure_style.height(len(names), extra_height=1.0, per_row=FLOPS_ROW)
    )
    for number, (precision, cases) in enumerate(panels.items()):
        axes = drawing.add_subplot(1, len(panels), number + 1)
        _draw_flops_panel(axes, cases, shown_series)
        axes.set_title(f"{precision} precision")
        axes.set_xlabel("GFLOPS: 2 × entries / time")
        missing_reasons = [
            None if any(case[series.method] for series in shown_series) else case.case.why_not() for case in cases
        ]
        figure_style.rows_axis(axes, names if number == 0 else [""] * len(names), reasons=missing_reasons)
    handles: list[Patch | Line2D] = [plotting.Patch(color=series.colour, label=series.label) for series in shown_series]
    if any(case[results.LIBRARY_CSR] for panel in panels.values() for case in panel):
        handles.append(plotting.Line2D([], [], label=f"{library} CSR", **LIBRARY_MARK))
    if any(case[results.OURS] for panel in panels.values() for case in panel):
        handles.append(plotting.Line2D([], [], label=figure_style.OURS.label, **OUR_MARK))
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.2, columnspacing=1.2)
    figure_style.write_footnote(drawing, mark)
    return drawing


LIBRARY_MARK: dict[str, Any] = {
    "color": figure_style.LIBRARY.colour, "marker": "|", "markersize": 13, "markeredgewidth": 1.6, "linestyle": "",
    "zorder": 4,
}  # fmt: skip
OUR_MARK: dict[str, Any] = {
    "color": figure_style.OURS.colour, "marker": figure_style.OURS.marker, "markersize": 4.2,
    "markeredgecolor": "white", "markeredgewidth": 0.4, "linestyle": "", "zorder": 5,
}  # fmt: skip


def _draw_flops_panel(axes: Axes, cases: Sequence[results.ProductTimes], shown_series: Sequence[ProductSeries]) -> None:
    thickness = FLOPS_FILLED / len(shown_series)
    for y, case in enumerate(cases):
        for index, series in enumerate(shown_series):
            rate = case.gflops(series.method)
            if rate is not None:
                offset = (index - (len(shown_series) - 1) / 2) * thickness
                axes.barh(y + offset, rate, height=thickness, color=series.colour, linewidth=0)
        library_rate = case.gflops(results.LIBRARY_CSR)
        if library_rate is not None:
            axes.plot([library_rate], [y], **LIBRARY_MARK)
        fastest = case.gflops(results.OURS)
        if fastest is not None:
            axes.plot([fastest], [y], **OUR_MARK)
    axes.set_xlim(left=0)
    axes.grid(axis="x")


#: Panels side by side, and height of one panel in inches.
SCALING_ACROSS, SCALING_HEIGHT = 4, 1.45
PRECISION_DASHES = {"double": "-", "single": (0, (3, 1.5))}
#: Style of the line of ideal (linear) speedup.
LINEAR: dict[str, Any] = {"color": figure_style.GREY, "linewidth": 0.8, "linestyle": (0, (1, 1.5))}
#: Minimum distance of two values printed at the ends of lines, as a fraction of the panel's height.
VALUE_STEP = 0.11
#: First point of each line: on one device nothing is exchanged, so the speed-up is 1.
ONE_DEVICE = (1, 1.0)


@dataclass(frozen=True)
class SpeedupSeries:
    """One kind of line: speed-up by number of devices."""

    label: str
    colour: str
    marker: str
    speedup: Callable[[results.DeviceTimes, int], float | None]


SPEEDUP_SERIES = (
    SpeedupSeries(
        "a launch each",
        figure_style.GREY,
        "s",
        lambda case, n: case.launch_speedup(n),
    ),
    SpeedupSeries("without exchange", figure_style.VIOLET, "o", lambda case, n: case.speedup(case.alone(n))),
    SpeedupSeries("with exchange", figure_style.PINK, "^", lambda case, n: case.speedup(case.exchanged(n))),
    SpeedupSeries("overlapped", figure_style.GREEN, "v", lambda case, n: case.speedup(case.overlapped(n))),
)


def draw_scaling(panels: Sequence[Sequence[results.DeviceTimes]], published: Published, mark: str | None) -> Canvas:
    """Draw the panels row by row.

    Parameters
    ----------
    panels
        For each problem, its cases, one for each precision.
    published
        The paper's numbers, drawn as diamonds in the panels of the paper's problems.
    mark
        Meaning of the marks at names; None if no name is marked.
    """
    if not panels:
        return figure_style.empty_canvas("nothing was measured over several devices in this campaign")
    panel_rows = -(-len(panels) // SCALING_ACROSS)
    drawing = figure_style.canvas(figure_style.TEXT_WIDTH, 0.6 + SCALING_HEIGHT * panel_rows)
    max_devices = max(count for cases in panels for case in cases for count in case.counts)
    has_points = False
    for index, cases in enumerate(panels):
        axes = drawing.add_subplot(panel_rows, min(SCALING_ACROSS, len(panels)), index + 1)
        points = [point for point in stated_speedups(published, cases[0].line.published) if point[0] <= max_devices]
        has_points = has_points or bool(points)
        _draw_scaling_panel(axes, cases, points, max_devices)
        axes.set_title(cases[0].line.label)
    handles = [
        plotting.Line2D([], [], color=item.colour, marker=item.marker, markersize=3.2, label=item.label)
        for item in SPEEDUP_SERIES
    ]
    handles.append(plotting.Line2D([], [], **LINEAR, label="speedup = number of devices"))
    if has_points:
        handles.append(plotting.Line2D([], [], label="published, M2090", **figure_style.PUBLISHED_MARK))
    drawing.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=1.6, columnspacing=1.2)
    drawing.supxlabel("devices", fontsize=7)
    drawing.supylabel("speedup over one device", fontsize=7)
    figure_style.write_footnote(drawing, mark)
    return drawing


def _draw_scaling_panel(
    axes: Axes, cases: Sequence[results.DeviceTimes], points: Sequence[tuple[int, str]], max_devices: int
) -> None:
    counts = sorted({1, *(count for case in cases for count in case.counts)})
    axes.plot([1, max_devices], [1, max_devices], **LINEAR)
    ends: list[float] = []
    for case in cases:
        for series in SPEEDUP_SERIES:
            line = [(count, speedup) for count in case.counts if (speedup := series.speedup(case, count)) is not None]
            if line:
                x, y = zip(ONE_DEVICE, *line, strict=True)
                dashes = PRECISION_DASHES.get(case.case.precision, "-")
                line_style: dict[str, Any] = {"marker": series.marker, "markersize": 3.2, "linestyle": dashes}
                axes.plot(x, y, color=series.colour, markeredgecolor="white", markeredgewidth=0.3, **line_style)
                if x[-1] == max_devices and dashes == "-":
                    ends.append(y[-1])
    for number, published in points:
        axes.plot([number], [float(published)], **figure_style.PUBLISHED_MARK)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    ticks = [0.25, 0.5, *(1 << power for power in range(max_devices.bit_length()))]
    low, high = axes.get_ylim()
    visible_ticks = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(visible_ticks, [f"{tick:g}" for tick in visible_ticks])
    axes.minorticks_off()
    # values of lines that end close together are moved apart, the largest first
    label_y = inf
    for value in sorted(ends, reverse=True):
        label_y = min(value, label_y * (high / low) ** -VALUE_STEP)
        axes.annotate(
            f"{value:.2f}", (max_devices, label_y), xytext=(6, 0), textcoords="offset points", fontsize=6, va="center",
            annotation_clip=False,
        )  # fmt: skip
    axes.grid()
