"""Fixtures: a small campaign, read, and the maker of another one."""

from pathlib import Path

import pytest

from repro.results.campaign_data import Campaign
from support.campaigns import SmallCampaign

REASON = "no file at https://example.org/gone.msh & none in 100% of #mirrors"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two measured problems, one that is rebuilt, one that stands in for another, and one that could not be had."""
    maker = SmallCampaign(tmp_path_factory.mktemp("small"))
    maker.all("grid", "sets/nut")
    maker.record("sets/nut", entry="block3", origin={"rebuilt": True})
    maker.record("dithered", entry="real", origin={"stand_in": "dragon"})
    maker.record("gone", entry="real", status="unavailable", reason=REASON)
    for precision in ("single", "double"):
        maker.write("gone", precision, "report", [maker.unavailable("gone", precision, REASON)])
    return maker.load()


@pytest.fixture
def maker(tmp_path: Path) -> SmallCampaign:
    return SmallCampaign(tmp_path)
