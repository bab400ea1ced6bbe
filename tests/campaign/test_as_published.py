"""The campaign that a configuration names for the papers' kernels to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.campaign.artifacts import CampaignSelection
from repro.campaign.configuration import load
from repro.campaign.plan import check_beside
from repro.campaign.report import claim_tables
from repro.config.models import Config
from repro.errors import ReproError
from support.campaigns import RESULTS


def asked(campaign: str, as_published: str) -> CampaignSelection:
    config = load(RESULTS / campaign / "config.yaml")
    return CampaignSelection(campaign, RESULTS, config.model_copy(update={"as_published": as_published}))


def test_the_campaign_as_published_is_read_where_it_has_the_study() -> None:
    literal = asked("h200", "h200-as-published").read("compressed_coo").as_published
    assert literal is not None and literal.name == "h200-as-published"
    assert set(literal.report.space.dropna()) == {"paper"}
    assert asked("h200", "h200-x4").read("compressed_coo").as_published is None


def test_times_of_another_model_judge_nothing() -> None:
    with pytest.raises(ReproError, match="a different GPU model") as raised:
        asked("h100", "h200-as-published").read("compressed_coo")
    assert "H100" in str(raised.value) and "H200" in str(raised.value)


@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("as_published", "mine", "own rows"),
        ("as_published", "nothing", "no such campaign of kernels"),
        ("later", "mine", "not later than itself"),
        ("later", "nothing", "no such campaign of later rows"),
    ],
)
def test_a_name_that_is_no_other_campaign_is_refused(
    key: str, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReproError, match=said):
        check_beside(Config(campaign="mine", studies={"compressed_coo": {"problems": ["a"]}}, **{key: name}))


def test_a_later_campaign_is_read_where_it_has_the_study() -> None:
    selection = CampaignSelection("h200", RESULTS, load(RESULTS / "h200/config.yaml"))
    later = selection.read("spgemm_amg").later
    assert later is not None and later.name == "h200-products"
    assert selection.read("compressed_coo").later is None
    [(judged, _)] = claim_tables(selection, "spgemm_amg").values()
    assert judged.name == "h200-products"
