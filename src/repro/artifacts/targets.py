"""What tables of targets share: a line a target, with what was wanted and what was reached."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.artifacts.document import Cell, Column
from repro.artifacts.published import Record


def target_columns(campaign: Campaign) -> tuple[Column, ...]:
    """Return the columns: the target, what was wanted and measured, a verdict, the cases and the worst of them."""
    return (
        Column("target", "target", numeric=False),
        Column("wanted", "wanted"),
        Column("measured", "measured", campaign.column),
        Column("reached", "reached", campaign.column, numeric=False),
        Column("cases", "cases", campaign.column),
        Column("worst", "worst", campaign.column),
        Column("worst_case", "worst case, or why there is none", campaign.column, numeric=False),
    )


def target_heads(item: Record, at_most: bool) -> tuple[Cell, Cell]:
    """Return what is wanted: in words, and the number, which may not be exceeded or is to be reached."""
    limit = "≤" if at_most else "≥"
    return Cell(item["what"].replace("'", "’")), Cell(float(item["wanted"]), f"{limit} {item['wanted']}")


def rehearsal(campaign: Campaign) -> str:
    """Return the sentence about numbers of the CPU; empty on a GPU."""
    return "What was wanted is for a GPU: the CPU’s numbers are a rehearsal." * campaign.on_cpu
