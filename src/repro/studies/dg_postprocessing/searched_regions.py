"""Recorded searches of the kernels that integrate regions, for the table that replays other searches on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.artifacts.data import Campaign
from repro.galerkin.basis import mode_count
from repro.studies.dg_postprocessing.region_space import point_of
from repro.studies.dg_postprocessing.regions import regions_of
from repro.tuning.judging import Judged, judge
from repro.tuning.recordings import Machine, Recording, recordings

#: A problem counts as searched in full if it has this share of the kernels that any of its degree has.
COMPLETE = 0.7


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> NDArray[np.float64]:
    """Return what fields are compared by, by their records, `(4,)`.

    Dimension, degree, and logarithms of regions per thread that the device can hold, and of the modes' bytes over those
    of the cache.
    """
    dimension, degree, cells = record["dimension"], record["degree"], record["cells"]
    logarithms = np.log2([
        regions_of(cells) / (machine.n_s * machine.threads_per_sm),
        8 * cells * mode_count(degree, dimension) / machine.cache_bytes,
    ])  # fmt: skip
    return np.array([dimension, degree, *logarithms], np.float64)


def searched(campaign: Campaign, space: str) -> list[Recording]:
    """Return what was searched in full of a space, by problem: fields of one degree have kernels in common."""
    records = {
        record.name: {"kind": record.kind, "statistics": record.statistics, "dimension": record.dimension,
                      "cells": record.cells, "degree": record.degree}
        for record in campaign.problems.values() if record.dimension == 3
    }  # fmt: skip
    rows = campaign.search[campaign.search["space"] == space]
    searches = recordings(rows[rows["problem"].isin(list(records))], records, campaign.environments, features)
    most: dict[object, int] = {}
    for one in searches:
        degree = records[one.problem]["degree"]
        most[degree] = max(most.get(degree, 0), len(one.seconds))
    return [one for one in searches if len(one.seconds) >= COMPLETE * most[records[one.problem]["degree"]]]


def judged_searches(campaign: Campaign, space: str, budget: float) -> list[Judged]:
    """Replay predicted and random searches of a budget on what was searched in full of a space."""
    return judge(searched(campaign, space), budget, point_of)
