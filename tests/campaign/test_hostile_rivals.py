"""Rivals that damage their process, in campaigns: only their own rows fail, and each row states the damage."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest

from repro.config.models import Timing
from support.benches import QUICK
from support.hostile_campaign import check_hostile
from support.hostile_rivals import CHANGES, SHORT
from support.small_case import LAYOUTS, NAME, STUDY, config

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("count", [SHORT, pytest.param(len(CHANGES), marks=pytest.mark.exhaustive)])
def test_hostile_rivals_cost_only_themselves(measuring, templates, count) -> None:
    Path("config").symlink_to(templates.parent / "config")
    shutil.copytree("results/c", "results/plain")
    few = config(layouts=LAYOUTS[:1], space="paper", timing=Timing(**{**QUICK, "timeout": 20.0, "rounds": 2}))
    check_hostile(few, dict(islice(CHANGES.items(), count)), (STUDY, NAME, "single"))
