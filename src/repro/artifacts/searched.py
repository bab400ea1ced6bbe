"""Recorded searches of a campaign, for the artifacts that replay other searches on them."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.tuning.recordings import Recording, recordings

SPACES = {"paper": "the papers’ space", "extended": "our space"}
#: A problem counts as searched in full if it has this share of the variants that any of its entry and precision has:
#: searches in part have less in common, and those from before and after a few variants were replaced have more.
COMPLETE = 0.7


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, in natural ordering, by problem and precision.

    A search that measured a few variants only is no truth to judge others by, and left out. Each problem is judged by
    the variants that were searched on it.
    """
    rows = campaign.search
    rows = rows[(rows["space"].fillna("paper") == space) & (rows["ordering"].fillna("natural") == "natural")]
    statistics = {record.name: record.statistics for record in campaign.problems.values() if record.statistics}
    found = recordings(rows, statistics, campaign.environments)
    names: dict[tuple[str, str], set[str]] = {}
    for each in found:
        names.setdefault((each.entry, each.precision), set()).update(each.seconds)
    return [each for each in found if len(each.seconds) >= COMPLETE * len(names[each.entry, each.precision])]
