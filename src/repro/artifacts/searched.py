"""Recorded searches of a campaign, for the artifacts that replay other searches on them."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.tuning.recordings import Recording, recordings

SPACES = {"paper": "the papers’ space", "extended": "our space"}
#: A problem counts as searched in full if it has this share of as many variants as any of its entry and precision has.
COMPLETE = 0.9


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, in natural ordering, by problem and precision.

    A search that measured a few variants only is no truth to judge others by, and left out. It is the number that
    counts, not which: a campaign may have grown by variants after some of its problems were searched, and each of them
    is judged by what was searched on it.
    """
    rows = campaign.search
    rows = rows[(rows["space"].fillna("paper") == space) & (rows["ordering"].fillna("natural") == "natural")]
    statistics = {record.name: record.statistics for record in campaign.problems.values() if record.statistics}
    found = recordings(rows, statistics, campaign.environments)
    most: dict[tuple[str, str], int] = {}
    for each in found:
        kind = (each.entry, each.precision)
        most[kind] = max(most.get(kind, 0), len(each.seconds))
    return [each for each in found if len(each.seconds) >= COMPLETE * most[each.entry, each.precision]]
