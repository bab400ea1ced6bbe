"""What is made of a recorded campaign by its name, `--campaign NAME`, is what its configuration makes of it."""

from __future__ import annotations

import pytest

from repro.campaign.configuration import load
from support.campaigns import REPOSITORY, RESULTS, recorded_campaigns


@pytest.mark.parametrize("name", recorded_campaigns(configured=True))
def test_both_configurations_of_a_recorded_campaign_ask_for_the_same_artifacts(name: str) -> None:
    kept = RESULTS / name / "config.yaml"
    if not kept.exists():
        pytest.skip("its configuration was not kept")
    measured, replayed = load(kept), load(REPOSITORY / f"config/{name}.yaml")
    assert measured.beside == replayed.beside
    for study, settings in replayed.studies.items():
        asked = measured.studies[study]
        assert (asked.artifacts, asked.parts) == (settings.artifacts, settings.parts), study
