"""Losses of tuning in parts, a dot for each problem and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.artifacts.data import Campaign
from repro.artifacts.document import Figure
from repro.artifacts.lineup import measured_on, sentences
from repro.artifacts.published import Published
from repro.artifacts.registry import figure
from repro.studies.compound_spmv.figures.loss_rows import draw_losses
from repro.studies.compound_spmv.orders import Order
from repro.studies.compound_spmv.paper import PAPER, STUDY
from repro.studies.compound_spmv.searched import searched
from repro.studies.compound_spmv.tables.strategies import PRODUCTS, SEQUENCES, Lost, lost


@figure(
    STUDY, "figure-strategies", title="Layout and schedule, one after the other", numbering=f"Section 5.4 of {PAPER}"
)
def sequences(campaign: Campaign, published: Published) -> Figure:
    """Schedule and layout alone, and one after the other."""
    return _make(
        campaign,
        {name: order for name, order in SEQUENCES.items() if name != "jointly"},
        "tuning schedule and layout alone or one after the other, as in table-strategies",
    )


@figure(STUDY, "figure-product", title="Tuning n_t·n_b as one parameter", numbering=f"Section 5.4 of {PAPER}")
def products(campaign: Campaign, published: Published) -> Figure:
    """Joint tuning of layout, kind and product, by the rule that splits the product."""
    return _make(
        campaign,
        PRODUCTS,
        "tuning the product n_t·n_b as one parameter, each with a rule that splits it into n_t and n_b",
    )


def _make(campaign: Campaign, chosen: Mapping[str, Order], what: str) -> Figure:
    recordings = searched(campaign, "paper")
    by_order = {name: lost(recordings, order) for name, order in chosen.items()}
    caption = [
        f"By how many percent {what}, is slower than joint tuning; a dot is a problem in one precision, a bar the",
        f"median of a precision, {len(recordings)} dots a row. The axis is linear up to 1 % and logarithmic beyond.",
        measured_on(campaign, "event", "the search"),
    ]
    rows = {name: _by_precision(losses) for name, losses in by_order.items()} if recordings else {}
    return Figure(
        lambda: draw_losses(rows, "slower than joint tuning [%]", "no problem of this campaign was searched in full"),
        sentences(caption),
    )


def _by_precision(losses: Sequence[Lost]) -> dict[str, list[float]]:
    """Return the losses in percent, those that there are, by precision."""
    by_precision: dict[str, list[float]] = {}
    for case in losses:
        if case.loss is not None:
            by_precision.setdefault(case.recording.precision, []).append(100 * case.loss)
    return by_precision
