"""Which problems a figure draws, where a campaign has more of them than a page has lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from repro.artifacts.data import Campaign
from repro.artifacts.lineup import lineup
from repro.artifacts.published import Published

#: A line each, they fill a page.
MOST_DRAWN = 60


def drawn(campaign: Campaign, published: Published) -> tuple[Campaign, str]:
    """Return the campaign with the problems that a figure has lines for, and what a caption says of the others.

    The papers' own and their stand-ins are drawn in any case; the others, ordered by kind of entry and size, evenly. Of
    a campaign that has few problems it is the campaign itself, of which nothing is to be said.
    """
    if len(campaign.problems) <= MOST_DRAWN:
        return campaign, ""
    lines = [line for line in lineup(campaign, published) if line.record is not None]
    own = [line.problem for line in lines if line.published is not None]
    others = [line.problem for line in lines if line.published is None and line.record and line.record.available]
    room = min(max(MOST_DRAWN - len(own), 1), len(others))
    chosen = {*own, *(others[i] for i in np.linspace(0, len(others) - 1, room).round().astype(int))}
    frames = {
        name: (frame := getattr(campaign, name))[frame["problem"].isin(chosen)]
        for name in ("search", "report", "choices", "counters")
    }
    problems = {name: record for name, record in campaign.problems.items() if name in chosen}
    said = (
        f"Drawn are {len(problems)} of {len(campaign.problems):,} problems, evenly by kind and size; means are over "
        "them, and the tables have all."
    )
    return replace(campaign, problems=problems, **frames), said
