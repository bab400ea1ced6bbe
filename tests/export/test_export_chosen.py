"""What is exported by default: a campaign's own choice."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from repro.bench.rows import SCHEMA
from repro.cli import app
from repro.errors import ReproError
from repro.export.campaign_choice import find_campaign_choice

SPEED = {"joint": ("Sl-32-SoA-AoS/static-64-6", 3e-6), "static": ("Sl-32-SoA-AoS/static-96-6", 4e-6)}


def campaign(
    folder: Path, choices: dict[str, tuple[str, float]], target: str = "sm_90", problem: str = "fem/nut"
) -> None:
    """Write what `find_campaign_choice` reads; the event clock chose something else, and cold rows are slower."""
    raw = folder / "toy" / "raw"
    run = raw / "compound_spmv" / problem / "single"
    run.mkdir(parents=True)
    (raw / "environment").mkdir()
    (raw / "environment" / "abc.json").write_text(json.dumps({"target": target}))
    case = {"problem": problem, "precision": "single", "schema": SCHEMA}
    rows = [
        {
            **case,
            "clock": clock,
            "tuning": tuning,
            "name": name if clock == "graph" else "CSR-AoS-AoS/static-32-1",
        }
        for tuning, (name, _) in choices.items()
        for clock in ("event", "graph")
    ]
    pd.DataFrame(rows, columns=[*case, "clock", "tuning", "name"]).to_parquet(run / "choices.parquet")
    backend = "cuda" if target.startswith("sm_") else "opencl"
    times = [
        {
            **case,
            "entry": "block3",
            "name": name,
            "cache": cache,
            "graph_median": seconds * slow,
            "backend": backend,
            "device": "GPU X",
            "environment": "abc",
        }
        for name, seconds in choices.values()
        for cache, slow in (("cold", 2), ("warm", 1))
    ]
    columns = [*case, "entry", "name", "cache", "graph_median", "backend", "device", "environment"]
    pd.DataFrame(times, columns=columns).to_parquet(run / "report.parquet")


def find(folder: Path, problem: str = "fem/nut", tuning: str | None = None):
    return find_campaign_choice(folder, "toy", "compound_spmv", problem, "single", tuning)


def test_the_joint_choice_by_the_graph_clock_is_the_default(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    chosen = find(tmp_path)
    assert (chosen.name, chosen.entry, chosen.target.name) == ("Sl-32-SoA-AoS/static-64-6", "block3", "sm_90")
    assert (chosen.tuning, chosen.device, chosen.seconds, chosen.environment) == ("joint", "GPU X", 3e-6, "abc")
    assert find(tmp_path, tuning="static").name == "Sl-32-SoA-AoS/static-96-6"


def test_a_disturbed_time_is_not_told_of(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    path = tmp_path / "toy/raw/compound_spmv/fem/nut/single/report.parquet"
    pd.read_parquet(path).assign(status="disturbed").to_parquet(path)
    assert find(tmp_path).seconds is None


def test_the_extended_choice_goes_before_it(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED | {"extended": ("Sl-8-AoSoA-Padded/direct-256-4-w4", 2e-6)})
    assert find(tmp_path).tuning == "extended"
    assert find(tmp_path, tuning="joint").seconds == 3e-6


def test_a_short_name_is_that_of_the_tuned_choice_unless_there_is_one_of_this_name(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED | {"tuned_static": ("CSR-AoS-AoS/static-64-6", 2e-6), "tuned_layout": SPEED["joint"]})
    assert find(tmp_path, tuning="static").name == SPEED["static"][0]
    assert find(tmp_path, tuning="layout").tuning == "tuned_layout"


@pytest.mark.wording
def test_an_unknown_tuning_names_those_that_there_are(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    with pytest.raises(ReproError, match=r"expected: one of joint, static\n  actual: best"):
        find(tmp_path, tuning="best")


@pytest.mark.wording
def test_an_unknown_problem_names_those_that_there_are(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    with pytest.raises(ReproError, match=r"expected: one of fem/nut\n  actual: fem/nuts; did you mean fem/nut\?"):
        find(tmp_path, "fem/nuts")
    with pytest.raises(ReproError, match="expected: one of fem/nut/single"):
        find_campaign_choice(tmp_path, "toy", "compound_spmv", "fem/nut", "double")


def test_a_problem_that_could_not_be_had_has_no_choice(tmp_path: Path) -> None:
    campaign(tmp_path, {})
    with pytest.raises(ReproError, match="no such result"):
        find(tmp_path)


@pytest.mark.wording
def test_a_campaign_that_chose_with_a_cold_cache_has_none_by_the_graph_clock(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    path = tmp_path / "toy/raw/compound_spmv/fem/nut/single/choices.parquet"
    choices = pd.read_parquet(path)
    choices[choices["clock"] == "event"].to_parquet(path)
    with pytest.raises(ReproError, match=r"no such choice[\s\S]*by the event clock alone"):
        find(tmp_path)


@pytest.mark.parametrize("tuning", ["joint", "static"])
def test_the_readme_says_which_choice_of_the_search_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tuning: str
) -> None:
    campaign(tmp_path, SPEED)
    monkeypatch.chdir(Path(__file__).parents[2])
    words = ["export", "fem/nut", "--campaign", "toy", "--results", str(tmp_path)]  # the campaign's one precision
    with pytest.raises(SystemExit) as stopped:
        app.run([*words, "--tuning", tuning, "--to", str(tmp_path / "kernel")])
    assert not stopped.value.code
    readme = (tmp_path / "kernel/README.md").read_text()
    assert f"| chosen | by the campaign's search, as the fastest of its choice `{tuning}` |" in readme
    assert f"{1e6 * SPEED[tuning][1]:.3f} µs" in readme and "`raw/environment/abc.json`" in readme


def test_a_cpus_winner_is_no_gpu_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(tmp_path, SPEED, target="cpu")
    assert find(tmp_path).target.name == "cpu"
    monkeypatch.chdir(Path(__file__).parents[2])
    words = ["export", "fem/nut", "--precision", "single", "--campaign", "toy", "--results", str(tmp_path)]
    with pytest.raises(SystemExit):
        app.run([*words, "--to", str(tmp_path / "kernel")])
    said = " ".join(capsys.readouterr().err.split())
    assert "measured on a CPU" in said and "`repro best toy` prints a line with one" in said
    assert not (tmp_path / "kernel").exists()


def test_damaged_and_missing_records_are_one_message(tmp_path: Path) -> None:
    campaign(tmp_path, SPEED)
    record = tmp_path / "toy/raw/environment/abc.json"
    for text in ("{", "[]", '{"target": 5}'):
        record.write_text(text)
        with pytest.raises(ReproError, match=r"the record of an environment cannot be read[\s\S]*abc\.json"):
            find(tmp_path)
    record.write_text("{}")
    with pytest.raises(ReproError, match="the winner's target was not recorded"):
        find(tmp_path)
    record.unlink()
    with pytest.raises(ReproError, match="or name the variant"):
        find(tmp_path)
    next(tmp_path.rglob("report.parquet")).write_bytes(b"PAR1")
    with pytest.raises(ReproError, match="unreadable rows"):
        find(tmp_path)
