"""Recorded searches of a campaign, for the artifacts that replay other searches on them."""

from __future__ import annotations

from repro.artifacts.data import Campaign
from repro.studies.compound_spmv.features import features, hopeless
from repro.studies.compound_spmv.layout import REFERENCE
from repro.studies.compound_spmv.variant_id import point_of
from repro.tuning.judging import Judged, judge
from repro.tuning.recordings import Recording, recordings

SPACES = {"paper": "the papers’ space", "extended": "our space"}
#: A problem counts as searched in full if it has this share of the variants that any of its entry and precision has:
#: searches in part have less in common, and those from before and after a few variants were replaced have more.
COMPLETE = 0.7


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, in natural ordering, by problem and precision.

    A search that measured a few variants only is no truth to judge others by, and left out. Each problem is judged by
    the variants that were searched on it, without those that a search with a budget would not try.
    """
    searches = all_searched(campaign, space)
    names: dict[tuple[str, str], set[str]] = {}
    for one in searches:
        names.setdefault((one.family, one.precision), set()).update(one.seconds)
    return [one for one in searches if len(one.seconds) >= COMPLETE * len(names[one.family, one.precision])]


def all_searched(campaign: Campaign, space: str | None = None) -> list[Recording]:
    """Return what was searched of a space, or of both, in natural ordering, in full or not."""
    rows = campaign.search
    rows = rows[(rows["space"] == space if space else rows["space"].notna()) & (rows["ordering"] == "natural")]
    records = {
        record.name: {"entry": record.entry, "statistics": record.statistics, "facts": record.facts}
        for record in campaign.problems.values()
    }
    return recordings(rows, records, campaign.environments, features, hopeless)


def judged_searches(campaign: Campaign, space: str, budget: float) -> list[Judged]:
    """Replay predicted and random searches of a budget on what was searched in full of a space.

    Where campaigns on other devices stand beside it, searches that learn from these alone are replayed too.
    """
    elsewhere = [one for other in campaign.beside if other.device != campaign.device for one in searched(other, space)]
    return judge(searched(campaign, space), budget, point_of, str(REFERENCE), elsewhere)
