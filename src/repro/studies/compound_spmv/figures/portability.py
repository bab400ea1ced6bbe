"""What the fastest variant of one device loses on another, a row of dots each way."""

from __future__ import annotations

from collections.abc import Iterable

from repro.artifacts.beside import others_on, place, set_apart
from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.figures.loss_rows import draw_losses
from repro.studies.compound_spmv.paper import STUDY
from repro.studies.compound_spmv.portability import journeys


@figure(STUDY, "figure-portability", title="Winners of one GPU on another", numbering="ours", several=True)
def portability(campaign: Campaign, published: Published) -> Figure:
    """Losses of the winners of each campaign beside this one here, and of this one's winners there."""
    ways: dict[str, dict[str, list[float]]] = {}
    for other in campaign.beside:
        cases = [*journeys(campaign, other).values()]
        here, there = place(campaign, campaign), place(campaign, other)
        ways[f"won on {there},\nrun on {here}"] = _by_precision((one.precision, one.loss_here) for one in cases)
        ways[f"won on {here},\nrun on {there}"] = _by_precision((one.precision, one.loss_there) for one in cases)
    ways = {way: losses for way, losses in ways.items() if losses}
    caption = [
        "By how many percent the winner of a search on one device is slower on another than the fastest there, as in",
        "table-portability; a dot is a problem in one precision, a bar the median of a precision. The axis is linear",
        "up to 1 % and logarithmic beyond.",
        measured_on(campaign, "event", "the search"),
        others_on(campaign),
        set_apart(campaign),
    ]
    return Figure(
        lambda: draw_losses(ways, "slower than the fastest [%]", "no case was searched in two campaigns"),
        sentences(caption),
    )


def _by_precision(losses: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """Return losses in percent by precision, from shares."""
    by_precision: dict[str, list[float]] = {}
    for precision, loss in losses:
        by_precision.setdefault(precision, []).append(100 * loss)
    return by_precision
