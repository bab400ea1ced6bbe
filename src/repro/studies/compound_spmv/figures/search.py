"""The search space: losses of winners on another GPU, and of partial searches.

Losses in percent are drawn as rows of dots: a row for each device, a dot for each problem in one precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from repro.results import figure_style
from repro.results.campaign_data import Campaign
from repro.results.cross_campaign import campaign_label, conflict_note, others_note
from repro.results.figure_forms import Axis, Curve, Curves, Pen, figure_of
from repro.results.figure_rows import Marks, Row, Rows
from repro.results.figure_style import COLUMN_WIDTH, GREY, PRECISIONS, TEXT_WIDTH
from repro.results.problem_lines import measurement_note
from repro.results.published import Published
from repro.results.registry import figure
from repro.results.tables import Figure
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.results import kernels_note
from repro.studies.compound_spmv.searches import SPACE_TITLES, replayed_searches, transfers
from repro.studies.compound_spmv.tables.search import BUDGET, JUDGED
from repro.tuning.strategies import SEEDS, Array, Evaluation, sample_note

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
