"""The search space: time over schedules, time over bytes, and losses by partial searches, orders of tuning and devices.

Figures 1 and 7 show time over threads per block and blocks per SM. Losses in percent are drawn as rows of dots: a row
for each search, order of tuning or device, a dot for each problem in one precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.columns import MICRO
from repro.results.cross_campaign import campaign_label, conflict_note, others_note
from repro.results.figure_forms import Axis, ColourBar, Curve, Curves, Field, Pen, draw_panels, figure_of
from repro.results.figure_rows import Marks, Row, Rows
from repro.results.figure_style import COLUMN_WIDTH, GREY, PRECISIONS, TEXT_WIDTH
from repro.results.problem_lines import (
    MARK,
    cpu_note,
    is_marked,
    join_sentences,
    mark_meanings,
    measurement_note,
    recorded_lines,
    remarks,
)
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure, digits
from repro.studies.compound_spmv import CITED, STUDY_NAME
from repro.studies.compound_spmv.results import kernels_note, paper_rows, papers_space
from repro.studies.compound_spmv.searches import SPACE_TITLES, Order, recordings_of_space, replayed_searches, transfers
from repro.studies.compound_spmv.tables.search import (
    BUDGET,
    JUDGED,
    PRODUCTS,
    SEQUENCES,
    TimesAndBytes,
    order_losses,
    times_and_bytes,
)
from repro.tuning.strategies import SEEDS, Array, Evaluation, sample_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Losses = Mapping[str, Sequence[float]]


def loss_panel(rows: Mapping[str, Losses], unit: str) -> Rows[Losses]:
    """Return losses in percent, given by row name and precision, as dots, and a bar at the median.

    The axis is linear up to 1 % and logarithmic beyond.
    """

    def dots(precision: str, colour: str, marker: str) -> list[Marks[Losses]]:
        def median(losses: Losses) -> float | None:
            return float(np.median(values)) if (values := losses.get(precision)) else None

        return [
            Marks(precision, Pen(colour, marker, size=2.6), lambda losses: losses.get(precision), "apart", spread=0.2),
            Marks(f"median, {precision}", Pen(colour, "|", size=7), median, precision, has_key=False),
        ]

    marks = [series for precision, look in PRECISIONS.items() for series in dots(precision, *look)]
    return Rows(
        [Row(name, [losses]) for name, losses in rows.items()], unit, marks=marks, scale="symlog", row_height=0.36
    )


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

    @property
    def span(self) -> str:
        """The range of the times in microseconds, for captions and titles; empty if there are none."""
        if not np.isfinite(self.seconds).any():
            return ""
        return f": {digits(np.nanmin(self.seconds) * MICRO)} to {digits(np.nanmax(self.seconds) * MICRO)} µs"


def surface(campaign: Campaign, problem_name: str, layout: str, kind: str) -> Surface:
    """Collect the times of one layout and kind of schedule from the search."""
    rows = paper_rows(campaign, problem_name, PRECISION).select(layout=layout, schedule=kind)
    by_settings = {(row.n_b, row.n_t): row for row in rows if row.n_b is not None and row.n_t is not None}
    blocks_per_sm, block_sizes = (tuple(sorted({settings[axis] for settings in by_settings})) for axis in (0, 1))
    seconds = np.full((len(blocks_per_sm), len(block_sizes)), np.nan)
    failure_mask = np.zeros(seconds.shape, dtype=bool)
    screened_count = 0
    for (blocks, threads), row in by_settings.items():
        cell = blocks_per_sm.index(blocks), block_sizes.index(threads)
        time = row.seconds("event")
        failure_mask[cell] = time is None
        if time is not None:
            seconds[cell] = time
            screened_count += row.protocol == "screen"
    return Surface(f"{layout}, {kind}", block_sizes, blocks_per_sm, seconds, failure_mask, screened_count)


def choose_problem(campaign: Campaign) -> tuple[str, str] | None:
    """Return the problem to show and why: the papers', else the largest searched with 3×3 blocks, else the largest."""
    measured_records = [
        r for r in campaign.problems.values() if r.is_available and paper_rows(campaign, r.name, PRECISION)
    ]
    if not measured_records:
        return None
    for record in measured_records:
        if PREFERRED in (record.name, record.stand_in):
            preference = "the papers’ problem rebuilt" if is_marked(record) else "the papers’ problem"
            return record.name, preference if record.name == PREFERRED else "its stand-in"
    blocks = [record for record in measured_records if record.entry == "block3"]
    largest_record = max(blocks or measured_records, key=lambda r: (r.nnz or 0, r.name))
    return largest_record.name, f"the largest {'3×3 ' if blocks else ''}problem searched in {PRECISION} precision"


def _surface_figure(campaign: Campaign, number: int, pairs: tuple[tuple[str, str], ...], title: str) -> Figure:
    choice = choose_problem(campaign)
    if choice is None:
        reason_text = f"Nothing was searched in {PRECISION} precision in this campaign."
        return Figure(lambda: figure_style.empty_canvas(reason_text), reason_text)
    problem, reason = choice
    record = campaign.problems[problem]
    label = f"{problem}{MARK}" if is_marked(record) else problem
    surfaces = [surface(campaign, problem, layout, kind) for layout, kind in pairs]
    caption_counts = [s.title + s.span for s in surfaces if s.span]
    failure_count = sum(int(s.failed.sum()) for s in surfaces)
    screened_count = sum(s.screened for s in surfaces)
    time_count = sum(int(np.isfinite(s.seconds).sum()) for s in surfaces)
    unit = "compute unit" if campaign.on_cpu else "SM"
    caption = [
        f"Time by threads per block n_t and blocks per {unit} n_b: {title}, {PRECISION} precision.",
        f"Figure {number} of {CITED} shows NX_MotorH67k on the GP100 and prints no values;",
        f"ours is {problem}, {reason}. A white star marks the fastest pair, a cross a pair without a valid time;",
        "blank pairs exceed the device’s limits.",
        f"{MARK} {problem}: {record.remark}." if is_marked(record) else "",
        f"{'; '.join(caption_counts)}." if caption_counts else "",
        f"{screened_count} of {time_count} times are from screening, with few launches.",
        f"{failure_count} variants without a valid time." if failure_count else "",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        cpu_note(campaign),
    ]
    title = f"{label}, {PRECISION} precision"
    if is_marked(record):
        title += f" ({MARK} {record.remark})"
    return Figure(lambda: _draw_surfaces(surfaces, title, unit), join_sentences(caption), clock="event")


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


def _draw_surfaces(surfaces: Sequence[Surface], title: str, unit: str) -> Canvas:
    times = np.concatenate([s.seconds[np.isfinite(s.seconds)] for s in surfaces]) * MICRO
    if not times.size:
        return figure_style.empty_canvas(f"no valid time of these layouts for {title}")
    limits = float(times.min()), float(max(times.max(), times.min() * 1.01))
    height = 0.19 * max(4, *(len(s.blocks_per_sm) for s in surfaces))  # inches
    panels = [
        Field(
            s.seconds * MICRO,
            [*map(str, s.block_sizes)],
            [*map(str, s.blocks_per_sm)],
            "threads per block $n_t$",
            f"blocks per {unit} $n_b$",
            s.title + s.span,
            limits,
            crosses=s.failed,
            height=height + 0.65,
        )
        for s in surfaces
    ]
    bar = ColourBar("median time [µs]", limits, {tick: f"{tick:g}" for tick in log_ticks(*limits, 0.12 / height)})
    return draw_panels(panels, "", bar=bar, title=title)


def log_ticks(low: float, high: float, gap: float) -> list[float]:
    """Return ticks at both ends (three digits) and at round numbers, at least the fraction `gap` of the axis apart."""
    min_ratio = (high / low) ** gap
    ticks_in_use = [float(f"{x:.3g}") for x in (low, high)]
    for steps in ((1.0,), (2.0, 5.0), (1.5, 3.0, 4.0, 7.0)):
        for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
            for tick in (step * 10.0**decade for step in steps):
                if low < tick < high and all(
                    max(tick / tick_in_use, tick_in_use / tick) > min_ratio for tick_in_use in ticks_in_use
                ):
                    ticks_in_use.append(tick)
    return sorted(set(ticks_in_use))


#: Number of panels in a row, and ends of the axes, as multiples of the least bytes and of the best time.
COLUMNS, LARGEST, SLOWEST = 3, 2.0, 1.5


@figure(STUDY_NAME, "figure-pareto", title="Time over bytes of the matrix", numbering=f"open in {CITED}")
def panels(campaign: Campaign, published: Published) -> Figure:
    """One panel for each problem: time and bytes of the fastest variant of each layout, and the Pareto front."""
    points_by_problem: dict[str, dict[str, TimesAndBytes]] = {}
    lines = recorded_lines(campaign, published)
    for line in lines:
        for precision in campaign.precisions:
            points = times_and_bytes(campaign, line.problem, precision)
            if points is not None:
                points_by_problem.setdefault(line.label, {})[precision] = points
    caption = [
        "Time of each layout’s fastest variant against the bytes of its matrix, relative to the problem’s fastest and",
        f"smallest one in that precision, up to {SLOWEST:g}× and {LARGEST:g}×. Filled points and steps are the Pareto",
        "front, listed in table-pareto; open points are beaten in both time and bytes.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        remarks(lines),
    ]
    columns = min(COLUMNS, len(points_by_problem))
    return figure_of(
        [_front_panel(problem, points) for problem, points in points_by_problem.items()],
        "nothing was searched in this campaign",
        caption,
        clock="event",
        across=columns,
        width=max(COLUMN_WIDTH, TEXT_WIDTH * columns / COLUMNS),
        is_shared=True,
        labels=("bytes of the matrix, × least", "time, × best"),
        mark=mark_meanings(lines),
    )


def _front_panel(problem: str, points_by_precision: Mapping[str, TimesAndBytes]) -> Curves:
    curves, is_bare = [], True
    for precision, found in points_by_precision.items():
        points = [*zip(found.matrix_bytes / found.matrix_bytes.min(), found.seconds / found.seconds.min(), strict=True)]
        is_bare &= not any(size <= LARGEST and time <= SLOWEST for size, time in points)
        pen = Pen(*PRECISIONS[precision], dashes="-", size=3.4, has_steps=True)
        open_pen = pen._replace(dashes="", is_hollow=True, size=3)
        front = [points[index] for index in found.front]
        curves += [
            Curve(f"{precision}, beaten", open_pen, [point for point in points if point not in front], has_key=False),
            Curve(precision, pen, front),
        ]
    reason = f"nothing up to {SLOWEST:g}× the best time\nhas up to {LARGEST:g}× the least bytes" if is_bare else ""
    axes = Axis(limits=(0.95, LARGEST)), Axis(limits=(0.95, SLOWEST))
    return Curves(curves, *axes, problem, reason=reason, height=1.5)


@figure(STUDY_NAME, "figure-portability", title="Winners of one GPU on another", numbering="ours", needs="beside")
def portability(campaign: Campaign, published: Published) -> Figure:
    """For each campaign in `beside`: losses of its winners on this campaign's device, and of our winners on its own."""
    rows: dict[str, dict[str, list[float]]] = {}
    for reference in campaign.beside:
        cases = [*transfers(campaign, reference).values()]
        own_label, reference_label = campaign_label(campaign, campaign), campaign_label(campaign, reference)
        rows[f"won on {reference_label},\nrun on {own_label}"] = _losses_by_precision(
            (journey.precision, journey.loss_here) for journey in cases
        )
        rows[f"won on {own_label},\nrun on {reference_label}"] = _losses_by_precision(
            (journey.precision, journey.loss_there) for journey in cases
        )
    rows = {name: losses for name, losses in rows.items() if losses}
    caption = [
        "How much slower, in percent, one device’s winner is on another device than the fastest variant there, as in",
        "table-portability. A dot is a problem in one precision, a bar the median of a precision. The axis is linear",
        "up to 1 % and logarithmic beyond.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
        others_note(campaign),
        conflict_note(campaign),
    ]
    panel, empty = loss_panel(rows, "slower than the fastest [%]"), "no case was searched in two campaigns"
    return figure_of(
        [panel],
        empty,
        caption,
        clock="event",
        campaigns=(campaign.name, *(reference.name for reference in campaign.beside)),
        width=COLUMN_WIDTH,
    )


def _losses_by_precision(losses: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    """Return losses in percent by precision, from (precision, relative loss) pairs; missing losses are omitted."""
    percent_losses: dict[str, list[float]] = {}
    for precision, loss in losses:
        if loss is not None:
            percent_losses.setdefault(precision, []).append(100 * loss)
    return percent_losses


#: Label and look of each search: learned without this problem, without problems of its entry type, or random.
LOOKS = {
    "problem_unknown": ("learnt from other problems", Pen(figure_style.VIOLET, "o", "-", size=3, width=1.2)),
    "entry_unknown": ("learnt from other entries", Pen(figure_style.PINK, "s", "-", size=3, width=1.2)),
    "random": ("random", Pen(GREY, "^", "-", size=3, width=1.2)),
}
#: Number of markers on a line.
MARKS = 8
LIMIT = 60.0  # upper end of the axis in percent, since the first variants of a search can be arbitrarily slow


@figure(
    STUDY_NAME, "figure-predicted", title="Loss of a search over the variants that it has measured", numbering="ours"
)
def progress(campaign: Campaign, published: Published) -> Figure:
    """Median and worst loss over all problems and precisions, over the number of measured variants."""
    replays_by_space = {space: replayed_searches(campaign, space, BUDGET) for space in SPACE_TITLES}
    replays_by_space = {space: replays for space, replays in replays_by_space.items() if replays}
    cases = ", ".join(f"{len(replays)} cases in {SPACE_TITLES[space]}" for space, replays in replays_by_space.items())
    panel_replays = {
        space: replays
        for space, replays in replays_by_space.items()
        if _step_count(replays) > 1 and _has_losses(replays)
    }
    one_step_spaces = [SPACE_TITLES[space] for space, replays in replays_by_space.items() if _step_count(replays) <= 1]
    empty_spaces = [
        SPACE_TITLES[space]
        for space, replays in replays_by_space.items()
        if _step_count(replays) > 1 and space not in panel_replays
    ]
    caption = [
        "How much slower, in percent, the fastest variant found so far is than the fastest of the exhaustive search,",
        f"against the number of measured variants: median (solid) and worst (dashed) of all cases ({cases}).",
        f"The axis ends at {LIMIT:g} %: the first variants of a search can be arbitrarily slow.",
        "The predicted search learns from the other problems of the campaign, or only from those of other entries;",
        f"random is the mean over {SEEDS} samples.",
        f"Not drawn, as all losses exceed {LIMIT:g} %: {' and '.join(empty_spaces)}." if empty_spaces else "",
        f"Not drawn, as the budget is one variant: {' and '.join(one_step_spaces)}." if one_step_spaces else "",
        sample_note(replays_by_space.values()),
        measurement_note(campaign, "event", "the search"),
    ]
    last_step = max(map(_step_count, panel_replays.values()), default=0)
    has_title = len(panel_replays) > 1
    panels = [
        _curve_panel(replays, SPACE_TITLES[space] * has_title, last_step) for space, replays in panel_replays.items()
    ]
    keys = {label: pen for panel in panels for label, pen in panel.keys.items()}
    keys |= {"median": Pen(GREY, dashes="-"), "worst": Pen(GREY, dashes="--")}
    reason = _missing_panel_reason(replays_by_space, empty_spaces)
    width = TEXT_WIDTH if has_title else COLUMN_WIDTH
    return figure_of(panels, reason, caption, clock="event", width=width, is_shared=True, keys=keys)


def _missing_panel_reason(replays_by_space: Mapping[str, Sequence[Evaluation]], empty_spaces: Sequence[str]) -> str:
    if empty_spaces:
        return f"every loss is above {LIMIT:g} %"
    return "the budget is one variant" if replays_by_space else "no problem of this campaign was searched in full"


def _step_count(replays: Sequence[Evaluation]) -> int:
    """Return the number of measured variants of the longest curve."""
    return max((losses.shape[1] for key in LOOKS if (losses := curves(replays, key)) is not None), default=0)


def _has_losses(replays: Sequence[Evaluation]) -> bool:
    """Return whether the median loss of a strategy ends below `LIMIT`, so that a panel shows it. Losses never rise."""
    return any(
        losses is not None and np.median(losses[:, -1]) < LIMIT for losses in (curves(replays, key) for key in LOOKS)
    )


def curves(replays: Sequence[Evaluation], key: str) -> Array | None:
    """Return the losses in percent of all cases after each measured variant, `(cases, tried)`; None if none."""
    losses = [curve for evaluation in replays if (curve := JUDGED[key][1](evaluation)) is not None]
    step_count = min((len(curve) for curve in losses), default=0)
    return 100 * np.array([curve[:step_count] for curve in losses]) if step_count else None


def _curve_panel(replays: Sequence[Evaluation], title: str, last_step: int) -> Curves:
    drawn = []
    for key, (label, pen) in LOOKS.items():
        losses = curves(replays, key)
        if losses is not None:
            stride = -(-losses.shape[1] // MARKS)
            steps = range(1, losses.shape[1] + 1)
            for word, dashed, numbers in (
                ("", pen, np.median(losses, axis=0)),
                (", worst", pen._replace(dashes="--", width=0.8), losses.max(axis=0)),
            ):
                points = [*zip(steps, numbers.tolist(), strict=True)]
                drawn.append(Curve(label + word, dashed, points, mark_every=stride, has_key=not word))
    y_label = "slower than the fastest of\nthe exhaustive search [%]"
    x = Axis("variants measured", limits=(0.5, last_step + 0.5), is_count=True)
    return Curves(drawn, x, Axis(y_label, limits=(0, LIMIT)), title, height=2.1)


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


def _order_figure(campaign: Campaign, orders: Mapping[str, Order], clause: str) -> Figure:
    recordings = recordings_of_space(campaign, papers_space(campaign))
    rows = {
        name: _losses_by_precision(
            (answer.recording.precision, answer.loss) for answer in order_losses(recordings, order)
        )
        for name, order in orders.items()
        if recordings
    }
    caption = [
        f"How much slower, in percent, {clause}, is than joint tuning. A dot is a problem in one precision, a bar the",
        f"median of a precision, with {len(recordings)} dots per row. The axis is linear up to 1 % and logarithmic",
        "beyond.",
        kernels_note(campaign),
        measurement_note(campaign, "event", "the search"),
    ]
    panel, empty = loss_panel(rows, "slower than joint tuning [%]"), "no problem of this campaign was searched in full"
    return figure_of([panel], empty, caption, clock="event", width=COLUMN_WIDTH)
