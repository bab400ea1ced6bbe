"""Options that commands share are spelt alike; what is listed can be had as JSON; shells complete a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from repro.campaign.completeness import Missing
from repro.campaign.estimate import Job
from repro.cli import app
from repro.cli.campaign import ListTopic

REPOSITORY = Path(__file__).parents[2]
COMMANDS = typer.main.get_command(app.build()).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("COLUMNS", raising=False)  # a line a row


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        app.run(words)
    assert not stopped.value.code
    return capsys.readouterr().out


def test_options_of_one_name_are_spelt_alike_in_every_command() -> None:
    for name, command in COMMANDS.items():
        for option in command.params:
            if "--config" in option.opts:
                assert option.opts == ["--config", "--configfile", "-c"], name
            if "--campaign" in option.opts:
                assert option.metavar == "CAMPAIGN" and not option.required, name


@pytest.mark.parametrize(
    "words",
    [
        *("best mien", "record mien", "results mien --json", "export part --precision double --to out --campaign mien"),
        *(f"{name} --campaign mien" for name in ("table", "figure", "report", "claims", "check")),
    ],
)
def test_a_campaign_that_is_not_there_is_told_alike_by_every_command(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for broken in ("mien2", "aaa"):
        Path("results", broken, "raw/problems").mkdir(parents=True)
    measured = Path("results/mine/raw/compound_spmv/part/double/report.parquet")
    measured.parent.mkdir(parents=True)
    measured.touch()
    with pytest.raises(SystemExit) as stopped:
        app.run(words.split())
    assert stopped.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: no such campaign",
        "  where: results/mien/raw",
        "  actual: mien; did you mean mine?",
        "  what to do: measure it first, or name another campaign, such as mine; `repro list campaigns` prints all",
    ]


def test_without_a_campaign_of_ones_own_the_record_of_most_studies_is_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    for path in ("first/raw/compound_spmv", "whole/raw/compound_spmv", "whole/raw/compressed_coo"):
        (folder / path).mkdir(parents=True)
        (folder / path / "report.parquet").touch()
    for name in ("first", "whole"):
        (folder / name / "commits.json").touch()
    command = ["claims", "--results", str(folder)]
    with pytest.raises(SystemExit):
        app.run(command)
    said = capsys.readouterr().err
    assert "; no campaign was measured here" in said and "such as whole; " in said
    (folder / "whole/commits.json").unlink()
    with pytest.raises(SystemExit):
        app.run(command)
    assert "no campaign was measured here" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        app.run(["claims", "--results", str(tmp_path / "empty")])
    assert capsys.readouterr().err.endswith("what to do: measure it first with `repro run`\n")


@pytest.mark.parametrize("command", ["best", "claims", "results", "report", "check"])
def test_a_campaign_is_an_argument_or_an_option_of_every_command_that_has_no_other_argument(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("mien", "--campaign mien", "mien --campaign mien"):
        with pytest.raises(SystemExit):
            app.run([command, *words.split()])
        assert "  where: results/mien/raw" in capsys.readouterr().err
    if command == "report":  # the second one's results stand beside the first's
        return
    with pytest.raises(SystemExit):
        app.run([command, "h200", "--campaign", "h100"])
    assert capsys.readouterr().err.splitlines()[0] == "error: two campaigns were named"


@pytest.mark.parametrize("command", ["best", "claims", "results", "report", "table --all"])
def test_a_command_without_a_campaign_says_which_it_takes(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        app.run([*command.split(), "--results", str(tmp_path)])
    assert "default, which config/config.yaml names, since the command names none" in capsys.readouterr().err


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("command", ["best", "claims"])
def test_the_printed_winners_and_claims_name_the_campaign_of_a_configuration(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = said(capsys, command, "--config", "config/h100-products.yaml")
    assert "campaign h100-products, of config/h100-products.yaml" in printed.splitlines()[0]


def test_every_exit_code_of_a_command_is_one_that_it_ends_with() -> None:
    assert app.COMMANDS["compare"].codes.keys() >= {app.COMMANDS["compare"].failed}
    assert all({*command.codes} <= {0, 1, 2} for command in app.COMMANDS.values())


@pytest.mark.medium
@pytest.mark.parametrize("what", ListTopic)
def test_each_list_is_printed_as_json_as_well(what: ListTopic, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "list", what.value, "--json"))
    shown = said(capsys, "list", what.value).splitlines()
    assert len(rows) == len(shown) - 1
    assert all(str(next(iter(row.values()))) in line for row, line in zip(rows, shown[1:], strict=True))


def test_a_plan_as_json_has_each_case_and_their_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("campaign: c\ndevice: opencl\nstudies: {dynamic_csr: {problems: [tiny/web]}}\n")
    plan = json.loads(said(capsys, "plan", "-c", str(mine), "--json"))
    assert plan["campaign"] == "c" and plan["target"] == "cpu"
    assert all(case["study"] == "dynamic_csr" and case["variants"] > 0 for case in plan["cases"])
    assert plan["seconds"] > sum(case["seconds"] for case in plan["cases"]) > 0


def test_a_replay_as_json_has_its_artifacts(capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(said(capsys, "plan", "-c", "config/h100.yaml", "--json"))
    assert plan["replay"] and "results/h100/tables/compound_spmv/table-problems.tex" in plan["artifacts"]


def test_what_a_machine_has_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "doctor", "--json"))
    assert {"what": "Python", "good": True}.items() <= found["findings"][0].items()
    assert found["usable"]


def test_programs_read_the_names_of_a_plans_cases_and_of_what_is_missing() -> None:
    assert [field.name for field in fields(Missing)] == ["what", "reason", "remark", "case"]
    assert [field.name for field in fields(Job)][:6] == ["study", "problem", "what", "precision", "size", "size_from"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("repro compa", {"compare"}),
        ("repro plan --j", {"--json"}),
        ("repro table --campaign h200-x", {"h200-x2", "h200-x4"}),
        ("repro table --study compound", {"compound_spmv"}),
        ("repro list lay", {"layouts"}),
    ],
)
def test_a_shell_completes_a_line(line: str, offered: set[str]) -> None:
    asks = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_REPRO_COMPLETE": "complete_bash"}
    command = [sys.executable, "-m", "repro"]
    printed = subprocess.run(command, env=os.environ | asks, capture_output=True, text=True, check=False).stdout
    assert {*printed.split()} == offered
