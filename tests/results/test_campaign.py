"""Reading a campaign: whole, in part, damaged, and never of two devices at once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.archive import pack
from repro.errors import ReproError
from repro.results.campaign_data import NOISY, TIE, Campaign, Case
from repro.results.significance import ratio_of
from support.campaigns import CLOSE, FAST, LIBRARY, SmallCampaign

STUDY = "made_up"


def test_whole(small: Campaign) -> None:
    assert small.name == "synthetic-cuda"
    assert (small.column, small.cache, small.on_cpu, small.tie) == ("NVIDIA H200", "warm", False, TIE)
    assert list(small.problems) == ["dithered", "gone", "grid", "sets/nut"]
    assert small.environments["e0"]["commit"] == "abc"
    assert small.problems["dithered"].remark == "stand-in for dragon"
    assert str(small.problems["sets/nut"].remark).startswith("rebuilt")
    assert not small.problems["gone"].is_available


def test_cpu_is_named_so(tmp_path: Path) -> None:
    campaign = SmallCampaign(tmp_path, "opencl").all("grid")
    assert (campaign.column, campaign.on_cpu) == ("CPU", True)


def test_reported_times_are_those_of_the_report(small: Campaign) -> None:
    case = Case(small, "grid", "single")
    schedule, joint = case.winner("schedule", "event"), case.winner("joint", "graph")
    assert schedule and joint
    assert schedule.seconds == pytest.approx(21e-6)  # 14 in the search
    assert joint.seconds == pytest.approx(8e-6)
    assert joint.ties == (CLOSE,)
    assert ratio_of(schedule, None) is None
    floor = case.bound("floor", "graph")
    assert floor and floor.seconds == pytest.approx(6.4e-6)  # the faster of the two configurations


def test_partial_campaign(maker: SmallCampaign) -> None:
    maker.record("grid")
    campaign = maker.load()
    assert campaign.column == "not measured"
    assert Case(campaign, "grid", "single").why_not() == "not measured in this campaign"
    maker.write("grid", "single", "search", maker.search("grid", "single"))
    campaign = maker.load()
    assert campaign.precisions == ("single",)
    assert Case(campaign, "grid", "single").why_not() == "searched but not reported yet"
    maker.write("grid", "single", "report", maker.report("grid", "single"))
    assert Case(maker.load(), "grid", "single").why_not() == "no winner was chosen yet"


def test_a_finished_search_without_a_choice_by_a_clock_says_why(maker: SmallCampaign) -> None:
    """`repro best` then shows the choice by the other clock: nothing is still to come."""
    maker.all("grid")
    chosen = [("joint", "event"), ("operator", "event"), ("operator", "graph")]
    maker.choose("grid", "single", dict.fromkeys(chosen, (FAST, [])))
    case = Case(maker.load(), "grid", "single")
    assert case.winner("joint", "event") and not case.winner("joint", "graph")
    assert case.why_not() == "no variant to choose from was timed by the graph clock"
    rows = [replace(row, status="disturbed") if row.name != FAST else row for row in maker.search("grid", "single")]
    maker.write("grid", "single", "search", rows)
    assert Case(maker.load(), "grid", "single").why_not() == (
        "by the graph clock no timing was quiet enough; run again on a quieter machine"
    )


def test_failed_and_noisy_winners(maker: SmallCampaign) -> None:
    def with_status(status: str) -> Case:
        rows = maker.report("grid", "single")
        changed = [replace(row, status=status) if row.kind == "variant" else row for row in rows]
        maker.write("grid", "single", "report", changed)
        return Case(maker.load(), "grid", "single")

    maker.all("grid")
    joint = with_status("noisy").winner("joint", "event")
    assert joint and joint.notes == (NOISY,)
    case = with_status("incorrect")
    assert case.winner("joint", "event") is None  # its time does not count, though the row has one
    assert case.why_not() == "failed: incorrect"


def test_a_full_row_replaces_the_screened_one(maker: SmallCampaign) -> None:
    screened = maker.timed("grid", "single", "variant", FAST, 10.0, protocol="screen")
    full = replace(screened, protocol="full", event_median=1.0)
    maker.write("grid", "single", "search", [full, screened])
    assert [row["event_median"] for row in maker.load().search_rows("grid", "single")] == [1.0]


@pytest.mark.wording
def test_two_devices_are_refused(maker: SmallCampaign) -> None:
    maker.case("grid", "single")
    rows = [replace(row, backend="opencl", device="cpu") for row in maker.report("grid", "double")]
    maker.write("grid", "double", "report", rows)
    with pytest.raises(ReproError, match="contains times of several devices"):
        maker.load()


def test_problems_are_those_that_are_configured_and_no_others(maker: SmallCampaign) -> None:
    maker.record("asked_for")
    maker.record("of_another_study")
    maker.case("measured_before", "single")
    campaign = Campaign.load(maker.folder, STUDY, problems=["asked_for"])
    assert list(campaign.problems) == ["asked_for"]
    assert campaign.search.empty and campaign.report.empty and campaign.choices.empty
    assert campaign.device is None


def test_rows_of_a_precision_that_is_not_configured_are_left_out(maker: SmallCampaign) -> None:
    """They may be of another device, and of settings that nobody asks for any more."""
    for precision in ("single", "double"):
        maker.case("grid", precision)
    campaign = Campaign.load(maker.folder, STUDY, precisions=["double"])
    assert campaign.precisions == ("double",)
    assert set(campaign.report["precision"]) == set(campaign.choices["precision"]) == {"double"}


def test_without_a_configuration_problems_are_those_with_rows(maker: SmallCampaign) -> None:
    maker.record("grid", n=7)
    maker.record("of_another_study")
    maker.case("grid", "single")
    maker.case("without_a_record", "single")
    problems = Campaign.load(maker.folder, STUDY).problems
    assert list(problems) == ["grid", "without_a_record"]
    assert (problems["grid"].n, problems["without_a_record"].n) == (7, None)


def test_a_problem_that_could_not_be_had_needs_no_record(maker: SmallCampaign) -> None:
    maker.write("gone", "single", "report", [maker.unavailable("gone", "single", "no file")])
    record = Campaign.load(maker.folder, STUDY).problems["gone"]
    assert (record.is_available, record.reason, record.entry) == (False, "no file", None)


def test_a_studys_own_columns_have_their_types(tmp_path: Path) -> None:
    own = {"steps": int, "warp": bool, "shape": str, "stage_scan": float}
    maker = SmallCampaign(tmp_path, own=own)
    rows = [
        maker.timed("grid", "single", "variant", "a", 10.0, steps=3, warp=True, shape="round", stage_scan=1e-6),
        maker.timed("grid", "single", "variant", "b", 11.0),
    ]
    maker.write("grid", "single", "search", rows)
    campaign = maker.load()
    assert campaign.search["steps"].tolist() == [3, pd.NA] and campaign.search["steps"].dtype == pd.Int64Dtype()
    assert campaign.search["warp"].dtype == pd.BooleanDtype()
    first, second = campaign.search_rows("grid", "single")
    assert [first[name] for name in own] == [3, True, "round", 1e-6]
    assert [second[name] for name in own] == [None] * 4
    assert list(campaign.report.columns) == list(campaign.search.columns)  # of which nothing was measured


@pytest.mark.wording
def test_rows_without_a_studys_own_column_are_refused(maker: SmallCampaign) -> None:
    maker.case("grid", "single")
    with pytest.raises(ReproError, match=r"rows have a different schema(.|\n)*columns steps"):
        Campaign.load(maker.folder, STUDY, {"steps": int})


def test_merged_rows_and_cases_measured_again_lie_side_by_side(maker: SmallCampaign) -> None:
    maker.all("grid", "sets/nut")
    pack(maker.folder)
    faster = [replace(row, event_median=1e-6) for row in maker.report("sets/nut", "single")]
    maker.write("sets/nut", "single", "report", faster)
    maker.case("new", "double")
    campaign = maker.load()
    cases = campaign.report[["problem", "precision"]].drop_duplicates().itertuples(index=False, name=None)
    assert list(cases) == [
        ("grid", "double"), ("grid", "single"), ("new", "double"), ("sets/nut", "double"), ("sets/nut", "single"),
    ]  # fmt: skip
    medians = {
        case: next(row["event_median"] for row in campaign.report_rows(*case) if row["name"] == LIBRARY)
        for case in (("sets/nut", "single"), ("sets/nut", "double"), ("grid", "single"), ("new", "double"))
    }
    assert list(medians.values()) == pytest.approx([1e-6, 22.5e-6, 15e-6, 22.5e-6])
    winner = Case(campaign, "grid", "single").winner("joint", "event")
    assert winner and winner.ties == (CLOSE,)  # of the merged choices
    assert np.isfinite(campaign.search["event_median"].astype(float)).sum() == 5 * 3


def test_bad_folders(maker: SmallCampaign, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such campaign"):
        Campaign.load(CampaignFolder(tmp_path / "nowhere"), STUDY)
    maker.record("grid")
    with pytest.raises(ReproError, match="has no results of this study"):
        Campaign.load(maker.folder, STUDY)
    maker.case("grid", "single")
    with pytest.raises(ReproError, match="expected: one of made_up"):
        Campaign.load(maker.folder, "another")


def test_damaged_files(maker: SmallCampaign) -> None:
    maker.all("grid")
    path = maker.case_folder("grid", "single") / "report.parquet"
    pd.read_parquet(path).assign(schema=99).to_parquet(path)
    with pytest.raises(ReproError, match="a different schema"):
        maker.load()
    path.write_bytes(b"PAR1 torn")
    with pytest.raises(ReproError, match="unreadable rows"):
        maker.load()
    path.unlink()
    record = maker.raw / "problems" / "grid.json"
    for text in ("{", "[]", '{"kind": "matrix"}', '{"name": ["grid"]}', '{"name": "grid", "facts": []}'):
        record.write_text(text)
        with pytest.raises(ReproError, match=r"cannot be read[\s\S]*grid\.json"):
            maker.load()
