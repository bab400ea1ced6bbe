"""Reading a campaign: whole, in part, damaged, and never of two devices at once."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from synthetic_campaign import PROBLEMS, STUDY, Maker, write_rows

from repro.artifacts.case import NOISY, Case
from repro.artifacts.data import Campaign
from repro.errors import ReproError

HELMHOLTZ = PROBLEMS[1]


def test_whole(gpu: Campaign) -> None:
    assert gpu.name == "synthetic-cuda"
    assert (gpu.column, gpu.library, gpu.cache, gpu.on_cpu) == ("NVIDIA H200", "cuSPARSE", "warm", False)
    assert sorted(gpu.problems) == sorted(given.name for given in PROBLEMS)
    assert gpu.environments["e0"]["commit"] == "abc"
    assert gpu.problems["surfaces/dragon_dithered"].remark == "stand-in for surfaces/dragon"
    assert str(gpu.problems["fem/nut_37k"].remark).startswith("rebuilt")
    assert not gpu.problems["fem/NX_MotorH67k"].available


def test_cpu_is_named_so(cpu: Campaign) -> None:
    assert (cpu.column, cpu.library, cpu.on_cpu) == ("CPU", "SciPy", True)


def test_reported_times_are_those_of_the_report(gpu: Campaign) -> None:
    case = Case(gpu, HELMHOLTZ.name, "single")
    schedule, joint = case.winner("schedule", "event"), case.winner("joint", "graph")
    assert schedule and joint
    assert schedule.seconds == pytest.approx(21e-6)  # 19.95 in the search
    assert joint.seconds == pytest.approx(8e-6)
    assert joint.tied_layouts == ("Sl-32-SoA-AoS",)
    assert case.speedup(schedule, None) is None


def test_baselines(gpu: Campaign) -> None:
    case = Case(gpu, HELMHOLTZ.name, "double")
    fastest, papers = case.baseline("event"), case.baseline("event", papers_choice=True)
    assert fastest and papers
    assert (fastest.name, fastest.seconds) == ("cusparse/spmv-csr-alg1/real", pytest.approx(22.5e-6))
    assert (papers.name, papers.seconds) == ("cusparse/bsrmv/real", pytest.approx(37.5e-6))
    floor = case.bound("floor", "graph")
    assert floor and floor.seconds == pytest.approx(9.6e-6)  # the faster of the two configurations


def test_partial_campaign(maker: Maker) -> None:
    maker.problem(HELMHOLTZ)
    campaign = Campaign.load(maker.raw, STUDY)
    assert campaign.column == "not measured"
    assert Case(campaign, HELMHOLTZ.name, "single").why_not() == "not measured in this campaign"
    folder = maker.raw / STUDY / HELMHOLTZ.name / "single"
    folder.mkdir(parents=True)
    write_rows(folder / "search.parquet", maker.search(HELMHOLTZ, "single"))
    campaign = Campaign.load(maker.raw, STUDY)
    assert campaign.precisions == ("single",)
    assert Case(campaign, HELMHOLTZ.name, "single").why_not() == "searched but not reported yet"
    write_rows(folder / "report.parquet", maker.report(HELMHOLTZ, "single"))
    campaign = Campaign.load(maker.raw, STUDY)
    assert Case(campaign, HELMHOLTZ.name, "single").why_not() == "no winner was chosen yet"


def test_failed_and_noisy_winners(maker: Maker) -> None:
    maker.problem(HELMHOLTZ)
    maker.case(HELMHOLTZ, "single")
    rows = maker.report(HELMHOLTZ, "single")
    path = maker.raw / STUDY / HELMHOLTZ.name / "single" / "report.parquet"
    write_rows(path, [replace(row, status="noisy") if row.kind == "variant" else row for row in rows])
    case = Case(Campaign.load(maker.raw, STUDY), HELMHOLTZ.name, "single")
    joint = case.winner("joint", "event")
    assert joint and joint.notes == (NOISY,)
    write_rows(path, [replace(row, status="incorrect") if row.kind == "variant" else row for row in rows])
    case = Case(Campaign.load(maker.raw, STUDY), HELMHOLTZ.name, "single")
    assert case.winner("joint", "event") is None  # its time does not count, though the row has one
    assert case.why_not() == "failed: incorrect"


def test_a_full_row_replaces_the_screened_one(maker: Maker) -> None:
    screened = maker.variant(HELMHOLTZ, "single", "ELL-SoA-AoS", "static", 64, 2, protocol="screen")
    full = replace(screened, protocol="full", event_median=1.0)
    folder = maker.raw / STUDY / HELMHOLTZ.name / "single"
    folder.mkdir(parents=True)
    write_rows(folder / "search.parquet", [full, screened])
    rows = Campaign.load(maker.raw, STUDY).search_rows(HELMHOLTZ.name, "single")
    assert [row["event_median"] for row in rows] == [1.0]


def test_two_devices_are_refused(maker: Maker) -> None:
    maker.problem(HELMHOLTZ)
    maker.case(HELMHOLTZ, "single")
    rows = [replace(row, backend="opencl", device="cpu") for row in maker.report(HELMHOLTZ, "double")]
    path = maker.raw / STUDY / HELMHOLTZ.name / "double" / "report.parquet"
    path.parent.mkdir(parents=True)
    write_rows(path, rows)
    with pytest.raises(ReproError, match="mixes times of several devices"):
        Campaign.load(maker.raw, STUDY)


def test_problems_of_other_studies_are_left_out(maker: Maker) -> None:
    maker.problem(HELMHOLTZ)
    maker.problem(PROBLEMS[4])
    maker.case(HELMHOLTZ, "single")
    (maker.raw / "other_study" / PROBLEMS[4].name).mkdir(parents=True)
    assert list(Campaign.load(maker.raw, STUDY).problems) == [HELMHOLTZ.name]


def test_bad_folders(maker: Maker, tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="no such campaign"):
        Campaign.load(tmp_path / "nowhere", STUDY)
    maker.raw.mkdir(parents=True)
    with pytest.raises(ReproError, match="holds nothing of this study"):
        Campaign.load(maker.raw, STUDY)


def test_damaged_files(maker: Maker) -> None:
    maker.problem(HELMHOLTZ)
    maker.case(HELMHOLTZ, "single")
    path = maker.raw / STUDY / HELMHOLTZ.name / "single" / "report.parquet"
    frame = pd.read_parquet(path)
    frame.assign(schema=99).to_parquet(path)
    with pytest.raises(ReproError, match="another schema"):
        Campaign.load(maker.raw, STUDY)
    path.write_bytes(b"PAR1 torn")
    with pytest.raises(ReproError, match="unreadable rows"):
        Campaign.load(maker.raw, STUDY)
    path.unlink()
    (maker.raw / "problems" / f"{HELMHOLTZ.name}.json").write_text("{")
    with pytest.raises(ReproError, match="unreadable record"):
        Campaign.load(maker.raw, STUDY)
