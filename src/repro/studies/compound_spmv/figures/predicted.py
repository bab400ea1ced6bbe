"""How quickly a search that learns comes near the best variant, beside a random one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from repro.artifacts import style
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.searched import SPACES, judged_searches
from repro.studies.compound_spmv.tables.predicted import BUDGET, JUDGED
from repro.tuning.judging import SEEDS, Array, Judged, sampled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Colour and marker by what was known.
LOOKS = {
    "problem_unknown": (style.DARK, "o"),
    "entry_unknown": (style.MIDDLE, "s"),
    "random": (style.ACCENT, "^"),
}
#: Marks of a line.
MARKS = 8
LIMIT = 60.0  # percent; a search starts anywhere


@figure(STUDY, "figure-predicted", title="Loss of a search over the variants that it has measured", numbering="ours")
def progress(campaign: Campaign, published: Published) -> Figure:
    """Median and worst loss over all problems and precisions, after each variant."""
    judged = {space: judged_searches(campaign, space, BUDGET) for space in SPACES}
    judged = {space: replays for space, replays in judged.items() if replays}
    cases = ", ".join(f"{len(replays)} cases in {SPACES[space]}" for space, replays in judged.items())
    caption = [
        "By how many percent the fastest variant found so far is slower than the fastest of the exhaustive search,",
        f"over the variants measured: median (full lines) and worst (dashed) of all problems and precisions ({cases}).",
        "The predicted search has learnt from the other problems of the campaign, or from those of other entries",
        f"alone; random is the mean over {SEEDS} samples.",
        sampled(judged.values()),
        measured_on(campaign, "event", "the search"),
    ]
    return Figure(lambda: _draw(judged), sentences(caption))


def curves(judged: Sequence[Judged], key: str) -> Array | None:
    """Return the losses in percent of all cases after each variant: `(cases, tried)`; None where there are none."""
    losses = [curve for one in judged if (curve := JUDGED[key][1](one)) is not None]
    tried = min((len(curve) for curve in losses), default=0)
    return 100 * np.array([curve[:tried] for curve in losses]) if tried else None


def _draw(judged: Mapping[str, Sequence[Judged]]) -> Canvas:
    if not judged:
        return style.empty("no problem of this campaign was searched in full")
    drawn = style.canvas(style.COLUMN if len(judged) == 1 else style.TEXT, 2.5)
    panels = drawn.subplots(1, len(judged), squeeze=False, sharey=True)[0]
    for axes, (space, replays) in zip(panels, judged.items(), strict=True):
        _panel(axes, replays)
        axes.set_title(SPACES[space].capitalize() if len(judged) > 1 else "")
    panels[0].set_ylabel("loss [%]")
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=3, label=JUDGED[key][0], linewidth=1.2)
        for key, (colour, marker) in LOOKS.items()
        if any(JUDGED[key][1](one) is not None for replays in judged.values() for one in replays)
    ]
    handles.append(Line2D([], [], color=style.GREY, linestyle="-", label="median"))
    handles.append(Line2D([], [], color=style.GREY, linestyle="--", label="worst"))
    drawn.legend(handles=handles, loc="outside upper left", ncols=3 if len(judged) == 1 else 5)
    return drawn


def _panel(axes: Axes, judged: Sequence[Judged]) -> None:
    for key, (colour, marker) in LOOKS.items():
        losses = curves(judged, key)
        if losses is None:
            continue
        at = np.arange(1, losses.shape[1] + 1)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3, "markevery": -(-len(at) // MARKS)}
        axes.plot(at, np.median(losses, axis=0), linewidth=1.2, **look)
        axes.plot(at, losses.max(axis=0), linestyle="--", **look)
    axes.set_ylim(0, LIMIT)
    axes.set_xlim(1, None)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    axes.grid()
    axes.set_xlabel("variants measured")
