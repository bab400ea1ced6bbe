"""Recorded searches of the kernels that integrate regions, for the table that replays other searches on them."""

from __future__ import annotations

from typing import Any

from repro.artifacts.data import Campaign
from repro.codegen.targets import TARGETS
from repro.studies.dg_postprocessing.region_features import features
from repro.studies.dg_postprocessing.region_space import SPACES, our_space, papers_space, point_of
from repro.tuning.judging import Judged, judge
from repro.tuning.recordings import Recording, recordings

#: A problem counts as searched in full if it has this share of the kernels that fit on the device.
COMPLETE = 0.7


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, `paper` or `extended`, by problem.

    Fields of one degree have kernels in common, and others none. Where the campaign does not say what its device is,
    every search counts.
    """
    records: dict[str, dict[str, Any]] = {
        record.name: {"kind": record.kind, "statistics": record.statistics, "dimension": record.dimension,
                      "cells": record.cells, "degree": record.degree}
        for record in campaign.problems.values() if record.dimension == 3
    }  # fmt: skip
    rows = campaign.search[campaign.search["space"] == space]
    searches = recordings(rows[rows["problem"].isin(list(records))], records, campaign.environments, features)
    names = {str(environment.get("target")) for environment in campaign.environments.values()}
    target = next((TARGETS[name] for name in names if name in TARGETS), None)
    ids = papers_space if space == SPACES[0] else our_space

    def fitting(one: Recording) -> int:
        return len(ids(records[one.problem]["degree"], target)) if target else 0

    return [one for one in searches if len(one.seconds) >= COMPLETE * fitting(one)]


def judged_searches(campaign: Campaign, space: str, budget: float) -> list[Judged]:
    """Replay predicted and random searches of a budget on what was searched in full of a space."""
    return judge(searched(campaign, space), budget, point_of)
