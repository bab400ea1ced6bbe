"""The search space: time over schedules, time over bytes, and losses by partial searches, orders of tuning and devices.

Figures 1 and 7 show time over threads per block and blocks per SM. Losses in percent are drawn as rows of dots: a row
for each search, order of tuning or device, a dot for each problem in one precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from repro.results import figure_style, plotting
from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import campaign_label, conflict_note, others_note
from repro.results.problem_lines import (
    MARK,
    cpu_note,
    footnote,
    is_marked,
    join_sentences,
    measurement_note,
    ours,
    remarks,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import MICRO, Figure, digits
from repro.studies.compound_spmv import CITED, STUDY_NAME
from repro.studies.compound_spmv.results import kernels_note, paper_rows, papers_space
from repro.studies.compound_spmv.searches import SPACE_TITLES, Order, journeys, judged_searches, searched
from repro.studies.compound_spmv.tables.search import (
    BUDGET,
    JUDGED,
    PRODUCTS,
    SEQUENCES,
    TimesAndBytes,
    lost,
    times_and_bytes,
)
from repro.tuning.strategies import SEEDS, Array, Evaluation, sample_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure as Canvas


OFFSETS = {"single": -0.16, "double": 0.16}
TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw_losses(rows: Mapping[str, Mapping[str, Sequence[float]]], label: str, empty: str) -> Canvas:
    """Draw losses in percent, given by row name and precision, as dots, and a bar at the median.

    The axis is linear up to 1 % and logarithmic beyond. Without rows, the figure shows the text `empty`.
    """
    if not rows:
        return figure_style.empty(empty)
    drawn = figure_style.canvas(figure_style.COLUMN_WIDTH, figure_style.height(len(rows), extra=0.9, per_row=0.36))
    axes = drawn.add_subplot()
    largest = 1.0
    for row, losses in enumerate(rows.values()):
        for precision, (colour, marker) in figure_style.PRECISIONS.items():
            values = losses.get(precision, ())
            if not values:
                continue
            y = row + OFFSETS[precision]
            spread = np.linspace(-0.09, 0.09, len(values))  # spread dots, so that equal losses do not hide each other
            axes.plot(values, y + spread, marker, color=colour, markersize=2.6, markeredgewidth=0, alpha=0.7)
            axes.plot([np.median(values)] * 2, [y - 0.14, y + 0.14], color=colour, linewidth=1.6)
            largest = max(largest, *values)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    axes.set_xlim(-0.1, 1.2 * largest)
    ticks = [tick for tick in TICKS if tick <= 1.2 * largest]
    axes.xaxis.set_major_locator(plotting.FixedLocator(ticks))
    axes.xaxis.set_minor_locator(plotting.NullLocator())
    axes.set_xticklabels([str(tick) for tick in ticks])
    axes.set_xlabel(label)
    axes.grid(axis="x")
    figure_style.rows_axis(axes, [*rows], missing=[None] * len(rows))
    handles = [
        plotting.Line2D([], [], linestyle="", marker=marker, markersize=3, color=colour, label=precision)
        for precision, (colour, marker) in figure_style.PRECISIONS.items()
    ]
    drawn.legend(handles=handles, loc="outside upper right", ncols=2, handletextpad=0.3)
    return drawn


PREFERRED = "fem/NX_MotorH67k"
PRECISION = "double"


@dataclass(frozen=True)
class Surface:
    """Median times of one layout and kind of schedule."""

    #: Layout and kind.
    title: str
    #: Threads per block and blocks per multiprocessor, sorted: the values along the axes.
    block_sizes: tuple[int, ...]
    blocks_per_sm: tuple[int, ...]
    #: `(len(blocks_per_sm), len(block_sizes))`, NaN where there is no time.
    seconds: NDArray[np.float64]
    #: Same shape: whether a variant was tried and has no valid time.
    failed: NDArray[np.bool_]
    #: Number of times from a few screening launches only.
    screened: int


def surface(campaign: Campaign, problem_name: str, layout: str, kind: str) -> Surface:
    """Collect the times of one layout and kind of schedule from the search."""
    rows = paper_rows(campaign, problem_name, PRECISION).select(layout=layout, schedule=kind)
    by_place = {(row.n_b, row.n_t): row for row in rows if row.n_b is not None and row.n_t is not None}
    blocks_per_sm, block_sizes = (tuple(sorted({place[axis] for place in by_place})) for axis in (0, 1))
    seconds = np.full((len(blocks_per_sm), len(block_sizes)), np.nan)
    failed = np.zeros(seconds.shape, dtype=bool)
    screened = 0
    for (blocks, threads), row in by_place.items():
        cell = blocks_per_sm.index(blocks), block_sizes.index(threads)
        time = row.seconds("event")
        failed[cell] = time is None
        if time is not None:
            seconds[cell] = time
            screened += row.protocol == "screen"
    return Surface(f"{layout}, {kind}", block_sizes, blocks_per_sm, seconds, failed, screened)


def choose_problem(campaign: Campaign) -> tuple[str, str] | None:
    """Return the problem to show and why: the papers', else the largest searched with 3×3 blocks, else the largest."""
    measured = [r for r in campaign.problems.values() if r.available and paper_rows(campaign, r.name, PRECISION)]
    if not measured:
        return None
    for record in measured:
        if PREFERRED in (record.name, record.stand_in):
            theirs = "the papers’ problem rebuilt" if is_marked(record) else "the papers’ problem"
            return record.name, theirs if record.name == PREFERRED else "its stand-in"
    blocks = [record for record in measured if record.entry == "block3"]
    largest = max(blocks or measured, key=lambda r: (r.nnz or 0, r.name))
    return largest.name, f"the largest {'3×3 ' if blocks else ''}problem searched in {PRECISION} precision"


def _surface_figure(campaign: Campaign, number: int, pairs: tuple[tuple[str, str], ...], title: str) -> Figure:
    chosen = choose_problem(campaign)
    if chosen is None:
        why = f"Nothing was searched in {PRECISION} precision in this campaign."
        return Figure(lambda: figure_style.empty(why), why)
    problem, reason = chosen
    record = campaign.problems[problem]
    label = f"{problem}{MARK}" if is_marked(record) else problem
    surfaces = [surface(campaign, problem, layout, kind) for layout, kind in pairs]
    shown = [
        f"{s.title}: {digits(np.nanmin(s.seconds) * MICRO)} to {digits(np.nanmax(s.seconds) * MICRO)} µs"
        for s in surfaces
        if np.isfinite(s.seconds).any()
    ]
    failed = sum(int(s.failed.sum()) for s in surfaces)
    screened = sum(s.screened for s in surfaces)
    timed = sum(int(np.isfinite(s.seconds).sum()) for s in surfaces)
    unit = "compute unit" if campaign.on_cpu else "SM"
    caption = [
        f"Time over threads per block n_t and blocks per {unit} n_b: {title}, {PRECISION} precision.",
        f"Figure {number} of {CITED} shows NX_MotorH67k on the GP100 and prints no values;",
        f"ours is {problem}, {reason}. A white star marks the fastest pair, a cross one without a valid time;",
        "blank pairs are outside of the device’s limits.",
        f"{MARK} {problem}: {record.remark}." if is_marked(record) else "",
        f"{'; '.join(shown)}." if shown else "",
        f"{screened} of {timed} times are from the few launches of the screening.",
        f"{failed} variants without a valid time." if failed else "",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        cpu_note(campaign),
    ]
    title = f"{label}, {PRECISION} precision"
    if is_marked(record):
        title += f" ({MARK} {record.remark})"
    return Figure(lambda: _draw_surfaces(surfaces, title, unit), join_sentences(caption))


@figure(STUDY_NAME, "figure-1", title="Time over the schedule for two layouts", numbering=f"Figure 1 of {CITED}")
def layouts(campaign: Campaign, published: Published) -> Figure:
    """Time over block size and blocks per SM, for static schedules of CSR-AoS-AoS and ELL-SoA-AoS."""
    pairs = (("CSR-AoS-AoS", "static"), ("ELL-SoA-AoS", "static"))
    return _surface_figure(campaign, 1, pairs, "the static schedule in CSR-AoS-AoS and in ELL-SoA-AoS")


@figure(STUDY_NAME, "figure-7", title="Time over the schedule, static and dynamic", numbering=f"Figure 7 of {CITED}")
def kinds(campaign: Campaign, published: Published) -> Figure:
    """Time over block size and blocks per SM, for static and dynamic schedules of ELL-AoS-SoA."""
    pairs = (("ELL-AoS-SoA", "static"), ("ELL-AoS-SoA", "dynamic"))
    return _surface_figure(campaign, 7, pairs, "static and dynamic schedules in ELL-AoS-SoA")


def _draw_surfaces(surfaces: list[Surface], title: str, unit: str) -> Canvas:
    times = np.concatenate([s.seconds[np.isfinite(s.seconds)] for s in surfaces]) * MICRO
    if not times.size:
        return figure_style.empty(f"no valid time of these layouts for {title}")
    norm = plotting.LogNorm(times.min(), times.max() if times.max() > times.min() else times.min() * 1.01)
    rows = max(len(s.blocks_per_sm) for s in surfaces)
    panel = 0.19 * max(rows, 4)  # inches
    drawn = figure_style.canvas(figure_style.TEXT_WIDTH, 1.0 + panel)
    panels = drawn.subplots(1, len(surfaces), squeeze=False)[0]
    for axes, surface in zip(panels, surfaces, strict=True):
        _surface_panel(axes, surface, norm)
    panels[0].set_ylabel(f"blocks per {unit} $n_b$")
    bar = drawn.colorbar(
        plotting.ScalarMappable(norm, figure_style.HEAT), ax=list(panels), label="median time [µs]", pad=0.02, aspect=25
    )
    bar.set_ticks(ticks := log_ticks(norm, 0.12 / panel), labels=[f"{x:g}" for x in ticks])
    bar.ax.yaxis.set_minor_locator(plotting.NullLocator())
    drawn.suptitle(title, fontsize=7.5)
    return drawn


def log_ticks(norm: LogNorm, gap: float) -> list[float]:
    """Return ticks at both ends (three digits) and at round numbers, at least the fraction `gap` of the axis apart."""
    low, high = norm.vmin or 1.0, norm.vmax or 1.0
    apart = (high / low) ** gap
    chosen = [float(f"{x:.3g}") for x in (low, high)]
    for steps in ((1.0,), (2.0, 5.0), (1.5, 3.0, 4.0, 7.0)):
        for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
            for tick in (step * 10.0**decade for step in steps):
                if low < tick < high and all(max(tick / other, other / tick) > apart for other in chosen):
                    chosen.append(tick)
    return sorted(set(chosen))


def _surface_panel(axes: Axes, surface: Surface, norm: LogNorm) -> None:
    finite = surface.seconds[np.isfinite(surface.seconds)] * MICRO
    span = f": {digits(finite.min())} to {digits(finite.max())} µs" if finite.size else ""
    axes.set_title(surface.title + span)
    axes.set_xlabel("threads per block $n_t$")
    axes.set_xticks(np.arange(len(surface.block_sizes)) + 0.5, [str(v) for v in surface.block_sizes], rotation=45)
    axes.set_yticks(np.arange(len(surface.blocks_per_sm)) + 0.5, [str(v) for v in surface.blocks_per_sm])
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    if not surface.block_sizes:
        axes.text(0.5, 0.5, "not searched", ha="center", color=figure_style.GREY, transform=axes.transAxes)
        return
    shown = np.ma.masked_invalid(surface.seconds * MICRO)
    axes.pcolormesh(shown, cmap=figure_style.HEAT, norm=norm, edgecolors="white", linewidth=0.3)
    for i, j in zip(*np.nonzero(surface.failed), strict=True):
        axes.plot(j + 0.5, i + 0.5, "x", color=figure_style.ACCENT, markersize=5, markeredgewidth=1)
    if np.isfinite(surface.seconds).any():
        i, j = np.unravel_index(int(np.nanargmin(surface.seconds)), surface.seconds.shape)
        axes.plot(j + 0.5, i + 0.5, "*", color="white", markeredgecolor="black", markeredgewidth=0.6, markersize=8)


#: Number of panels in a row, and height of a row in inches.
COLUMNS, ROW = 3, 1.5
LARGEST, SLOWEST = 2.0, 1.5  # ends of the axes, as multiples of the least bytes and of the best time


@figure(STUDY_NAME, "figure-pareto", title="Time over bytes of the matrix", numbering=f"open in {CITED}")
def panels(campaign: Campaign, published: Published) -> Figure:
    """One panel for each problem: time and bytes of the fastest variant of each layout, and the Pareto front."""
    by_problem: dict[str, dict[str, TimesAndBytes]] = {}
    lines = ours(campaign, published)
    for line in lines:
        for precision in campaign.precisions:
            weighed = times_and_bytes(campaign, line.problem, precision)
            if weighed is not None:
                by_problem.setdefault(line.label, {})[precision] = weighed
    caption = [
        "Time of each layout’s fastest variant over the bytes of its matrix, relative to the fastest and to the",
        f"smallest one of the problem in that precision, up to {SLOWEST:g}× and {LARGEST:g}×. Filled points and steps",
        "are the Pareto front, listed in table-pareto; open points are beaten in time and in bytes.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        remarks(lines),
    ]
    return Figure(lambda: _draw_fronts(by_problem, footnote(lines)), join_sentences(caption))


def _draw_fronts(by_problem: Mapping[str, Mapping[str, TimesAndBytes]], mark: str | None) -> Canvas:
    if not by_problem:
        return figure_style.empty("nothing was searched in this campaign")
    across = min(COLUMNS, len(by_problem))
    rows = -(-len(by_problem) // across)
    drawn = figure_style.canvas(
        max(figure_style.COLUMN_WIDTH, figure_style.TEXT_WIDTH * across / COLUMNS), 0.55 + ROW * rows
    )
    grid = drawn.subplots(rows, across, squeeze=False, sharex=True, sharey=True)
    places = list(grid.flat)
    for axes, (problem, by_precision) in zip(places, by_problem.items(), strict=False):
        _front_panel(axes, by_precision)
        axes.set_title(problem)
    for axes in places[len(by_problem) :]:
        axes.set_visible(False)
    for axes in places[max(0, len(by_problem) - across) : len(by_problem)]:
        axes.tick_params(labelbottom=True)
    drawn.supxlabel("bytes of the matrix, × least", fontsize=7)
    drawn.supylabel("time, × best", fontsize=7)
    handles = [
        plotting.Line2D(
            [], [], linestyle="-", drawstyle="steps-post", marker=marker, markersize=3, color=colour, label=precision
        )
        for precision, (colour, marker) in figure_style.PRECISIONS.items()
    ]
    drawn.legend(handles=handles, loc="outside upper right", ncols=2)
    figure_style.footnote(drawn, mark)
    return drawn


def _front_panel(axes: Axes, by_precision: Mapping[str, TimesAndBytes]) -> None:
    anything = False
    for precision, weighed in by_precision.items():
        colour, marker = figure_style.PRECISIONS[precision]
        sizes, times = weighed.matrix_bytes / weighed.matrix_bytes.min(), weighed.seconds / weighed.seconds.min()
        anything = anything or bool(((sizes <= LARGEST) & (times <= SLOWEST)).any())
        axes.plot(sizes, times, marker, color=colour, markerfacecolor="none", markersize=3, markeredgewidth=0.6)
        axes.plot(
            sizes[weighed.front],
            times[weighed.front],
            color=colour,
            drawstyle="steps-post",
            marker=marker,
            markersize=3.4,
        )
    if not anything:
        figure_style.say_in_panel(
            axes, f"nothing up to {SLOWEST:g}× the best time\nhas up to {LARGEST:g}× the least bytes"
        )
    axes.set_xlim(0.95, LARGEST)
    axes.set_ylim(0.95, SLOWEST)
    axes.grid()


@figure(STUDY_NAME, "figure-portability", title="Winners of one GPU on another", numbering="ours", needs="beside")
def portability(campaign: Campaign, published: Published) -> Figure:
    """For each campaign in `beside`: losses of its winners on this campaign's device, and of our winners on its own."""
    rows: dict[str, dict[str, list[float]]] = {}
    for other in campaign.beside:
        cases = [*journeys(campaign, other).values()]
        here, there = campaign_label(campaign, campaign), campaign_label(campaign, other)
        rows[f"won on {there},\nrun on {here}"] = _percent_by_precision(
            (journey.precision, journey.loss_here) for journey in cases
        )
        rows[f"won on {here},\nrun on {there}"] = _percent_by_precision(
            (journey.precision, journey.loss_there) for journey in cases
        )
    rows = {name: losses for name, losses in rows.items() if losses}
    caption = [
        "By how many percent the winner of a search on one device is slower on another than the fastest there, as in",
        "table-portability; a dot is a problem in one precision, a bar the median of a precision. The axis is linear",
        "up to 1 % and logarithmic beyond.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        others_note(campaign),
        conflict_note(campaign),
    ]
    return Figure(
        lambda: draw_losses(rows, "slower than the fastest [%]", "no case was searched in two campaigns"),
        join_sentences(caption),
    )


def _percent_by_precision(losses: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    """Return losses in percent by precision, from (precision, relative loss) pairs; missing losses are omitted."""
    by_precision: dict[str, list[float]] = {}
    for precision, loss in losses:
        if loss is not None:
            by_precision.setdefault(precision, []).append(100 * loss)
    return by_precision


#: Colour and marker of each search: learned without this problem, without problems of its entry type, or random.
LOOKS = {
    "problem_unknown": (figure_style.DARK, "o"),
    "entry_unknown": (figure_style.MIDDLE, "s"),
    "random": (figure_style.ACCENT, "^"),
}
#: What a search has learnt from, in the legend.
LEARNT_FROM = {
    "problem_unknown": "learnt from other problems",
    "entry_unknown": "learnt from other entries",
    "random": "random",
}
#: Number of markers on a line.
MARKS = 8
LIMIT = 60.0  # upper end of the axis in percent, since the first variants of a search can be arbitrarily slow


@figure(
    STUDY_NAME, "figure-predicted", title="Loss of a search over the variants that it has measured", numbering="ours"
)
def progress(campaign: Campaign, published: Published) -> Figure:
    """Median and worst loss over all problems and precisions, over the number of measured variants."""
    judged = {space: judged_searches(campaign, space, BUDGET) for space in SPACE_TITLES}
    judged = {space: replays for space, replays in judged.items() if replays}
    cases = ", ".join(f"{len(replays)} cases in {SPACE_TITLES[space]}" for space, replays in judged.items())
    drawn = {space: replays for space, replays in judged.items() if _steps(replays) > 1 and _seen(replays)}
    short = [SPACE_TITLES[space] for space, replays in judged.items() if _steps(replays) <= 1]
    unseen = [SPACE_TITLES[space] for space, replays in judged.items() if _steps(replays) > 1 and space not in drawn]
    caption = [
        "By how many percent the fastest variant found so far is slower than the fastest of the exhaustive search,",
        f"over the variants measured: median (full lines) and worst (dashed) of all problems and precisions ({cases}).",
        "The predicted search has learnt from the other problems of the campaign, or from those of other entries",
        f"alone; random is the mean over {SEEDS} samples.",
        f"In {' and in '.join(unseen)} every loss is above {LIMIT:g} %: not drawn." if unseen else "",
        f"In {' and in '.join(short)} the budget is one variant: not drawn." if short else "",
        sample_note(judged.values()),
        measurement_note(campaign, "event", "the search"),
    ]
    return Figure(lambda: _draw_curves(drawn, _why_no_panel(judged, unseen)), join_sentences(caption))


def _why_no_panel(judged: Mapping[str, Sequence[Evaluation]], unseen: Sequence[str]) -> str:
    if unseen:
        return f"every loss is above {LIMIT:g} %"
    return "the budget is one variant" if judged else "no problem of this campaign was searched in full"


def _steps(judged: Sequence[Evaluation]) -> int:
    """Return the number of measured variants of the longest curve."""
    return max((losses.shape[1] for key in LOOKS if (losses := curves(judged, key)) is not None), default=0)


def _seen(judged: Sequence[Evaluation]) -> bool:
    """Return whether the median loss of a strategy ends below `LIMIT`, so that a panel shows it. Losses never rise."""
    return any(
        losses is not None and np.median(losses[:, -1]) < LIMIT for losses in (curves(judged, key) for key in LOOKS)
    )


def curves(judged: Sequence[Evaluation], key: str) -> Array | None:
    """Return the losses in percent of all cases after each measured variant, `(cases, tried)`; None if none."""
    losses = [curve for evaluation in judged if (curve := JUDGED[key][1](evaluation)) is not None]
    tried = min((len(curve) for curve in losses), default=0)
    return 100 * np.array([curve[:tried] for curve in losses]) if tried else None


def _draw_curves(judged: Mapping[str, Sequence[Evaluation]], why_none: str) -> Canvas:
    if not judged:
        return figure_style.empty(why_none)
    drawn = figure_style.canvas(figure_style.COLUMN_WIDTH if len(judged) == 1 else figure_style.TEXT_WIDTH, 2.5)
    panels = drawn.subplots(1, len(judged), squeeze=False, sharey=True)[0]
    for axes, (space, replays) in zip(panels, judged.items(), strict=True):
        _curve_panel(axes, replays)
        axes.set_title(SPACE_TITLES[space] if len(judged) > 1 else "")
    panels[0].set_ylabel("loss [%]")
    handles = [
        plotting.Line2D([], [], color=colour, marker=marker, markersize=3, label=LEARNT_FROM[key], linewidth=1.2)
        for key, (colour, marker) in LOOKS.items()
        if any(JUDGED[key][1](evaluation) is not None for replays in judged.values() for evaluation in replays)
    ]
    handles.append(plotting.Line2D([], [], color=figure_style.GREY, linestyle="-", label="median"))
    handles.append(plotting.Line2D([], [], color=figure_style.GREY, linestyle="--", label="worst"))
    drawn.legend(handles=handles, loc="outside upper left", ncols=2 if len(judged) == 1 else 5)
    return drawn


def _curve_panel(axes: Axes, judged: Sequence[Evaluation]) -> None:
    for key, (colour, marker) in LOOKS.items():
        losses = curves(judged, key)
        if losses is None:
            continue
        tried = np.arange(1, losses.shape[1] + 1)
        every = -(-len(tried) // MARKS)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3, "markevery": every}
        axes.plot(tried, np.median(losses, axis=0), linewidth=1.2, **look)
        axes.plot(tried, losses.max(axis=0), linestyle="--", **look)
    axes.set_ylim(0, LIMIT)
    axes.set_xlim(0.5, None)
    axes.xaxis.set_major_locator(plotting.MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axes.grid()
    axes.set_xlabel("variants measured")


@figure(
    STUDY_NAME,
    "figure-strategies",
    title="Layout and schedule, one after the other",
    numbering=f"Section 5.4 of {CITED}",
)
def sequences(campaign: Campaign, published: Published) -> Figure:
    """Losses of tuning schedule or layout alone, or one after the other, against the exhaustive search."""
    return _order_figure(
        campaign,
        {name: order for name, order in SEQUENCES.items() if name != "jointly"},
        "tuning schedule and layout alone or one after the other, as in table-strategies",
    )


@figure(STUDY_NAME, "figure-product", title="Tuning n_t·n_b as one parameter", numbering=f"Section 5.4 of {CITED}")
def products(campaign: Campaign, published: Published) -> Figure:
    """Losses of joint tuning of layout, schedule kind and the product n_t·n_b, by the rule that splits the product."""
    return _order_figure(
        campaign,
        PRODUCTS,
        "tuning the product n_t·n_b as one parameter, each with a rule that splits it into n_t and n_b",
    )


def _order_figure(campaign: Campaign, chosen: Mapping[str, Order], clause: str) -> Figure:
    recordings = searched(campaign, papers_space(campaign))
    rows = {
        name: _percent_by_precision((answer.recording.precision, answer.loss) for answer in lost(recordings, order))
        for name, order in chosen.items()
        if recordings
    }
    caption = [
        f"By how many percent {clause}, is slower than joint tuning; a dot is a problem in one precision, a bar the",
        f"median of a precision, {len(recordings)} dots a row. The axis is linear up to 1 % and logarithmic beyond.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
    ]
    return Figure(
        lambda: draw_losses(rows, "slower than joint tuning [%]", "no problem of this campaign was searched in full"),
        join_sentences(caption),
    )
