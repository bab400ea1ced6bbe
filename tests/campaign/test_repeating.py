"""The kernels of a headline timed by further processes: how two equal kernels differ, which the report states."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import typer
import yaml

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.rows import AGAIN
from repro.bench.store import read_rows
from repro.bench.worker import End
from repro.campaign.archive import pack
from repro.campaign.measurement import CHOICES, drop_repeats, join_repeats, record_failure, repeat
from repro.campaign.plan import as_yaml, make_plan, plan_of_cases
from repro.campaign.receipts import Receipt
from repro.campaign.steps import measuring
from repro.cli import measurement as commands
from repro.config.models import Config
from repro.problems.registry import load_registry, problem_names
from repro.results.campaign_data import Campaign
from repro.results.report import repeated_kernel_phrase, repetition_differences
from repro.studies import get_study
from support.campaigns import FAST, SmallCampaign
from support.small_case import NAME, STUDY, config, quiet, run

REPOSITORY = Path(__file__).parents[2]
FOLDER = CampaignFolder.of("c")
CASE = FOLDER.case(STUDY, NAME, "single")
COLUMNS = get_study(STUDY).columns


@pytest.mark.medium
@pytest.mark.slow
def test_the_kernels_of_the_headline_are_timed_again_twice_with_samples(measuring: None) -> None:
    found = run()
    path = repeat(config(), STUDY, NAME, "single", 0, quiet)
    assert path and path.parent == FOLDER.store(STUDY, NAME, "single")
    assert join_repeats(config(), STUDY, NAME, "single") == CASE / "repeat.parquet"
    again = pd.read_parquet(CASE / "repeat.parquet")
    winner = found["choices"].set_index(["tuning", "clock"]).name["joint"].iloc[0]
    routines = found["report"].query("kind == 'baseline' and cache == 'warm' and ordering == 'natural'")
    routine = routines.sort_values("graph_median").name.iloc[0]
    assert {winner, winner + AGAIN, routine, routine + AGAIN} <= {*again.name}
    assert len({*again.name}) <= 6, "the winner by each clock, the routine, and each once more"
    assert again.name.iloc[0] == winner and {*again.process} == {0}
    first = found["report"].set_index(["name", "cache"]).loc[(winner, "warm")]
    assert again.measured_at.min() > first.measured_at  # a time of its own, not the report's row
    campaign = Campaign.load(FOLDER, STUDY, COLUMNS)
    said = repeated_kernel_phrase(campaign)
    assert said.startswith("two times of one kernel differ by ")
    assert "% by the event clock" in said
    assert "95 %" not in said, "rounds too few for an interval"
    assert said.endswith(
        f": the event clock’s winner of the papers’ kernels on {NAME}, single, {winner}, in two processes"
    )
    pack(FOLDER)
    assert (FOLDER.study(STUDY) / "repeat.parquet").exists() and not (CASE / "repeat.parquet").exists()
    assert read_rows(FOLDER.study(STUDY), "repeat").num_rows == len(again)
    assert repeated_kernel_phrase(Campaign.load(FOLDER, STUDY, COLUMNS)) == said


def test_without_a_winner_nothing_is_timed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.bench.store import write_table

    monkeypatch.chdir(tmp_path)
    write_table(CHOICES.empty_table(), CASE / "choices.parquet")
    for _ in range(2):
        assert repeat(config(), STUDY, NAME, "single", 0, quiet) is None
        drop_repeats(config(), STUDY, NAME, "single")
        assert not pd.read_parquet(CASE / "repeat.parquet").size
        (CASE / "choices.parquet").unlink(missing_ok=True)


@pytest.mark.slow
def test_where_only_kernels_tuned_further_were_searched_theirs_is_the_winner(measuring: None) -> None:
    found = run(space=["paper_tuned", "extended"])
    path = repeat(config(space=["paper_tuned", "extended"]), STUDY, NAME, "single", 0, quiet)
    assert path is not None
    tuned = found["choices"][found["choices"].tuning == "tuned_joint"].name
    assert pd.read_parquet(path).name.iloc[0] in set(tuned)


def test_the_time_is_as_signed_as_its_interval(tmp_path: Path) -> None:
    maker = SmallCampaign(tmp_path)
    maker.all("grid")
    for step, micro in (("report", 10.0), ("repeat", 9.0)):
        samples = [[micro * 1e-6] * 2] * 5
        row = maker.row("grid", "double", "variant", FAST, micro, ["event"], phase="report", event_samples=samples)
        maker.write("grid", "double", step, [row])
    said = repeated_kernel_phrase(maker.load())
    assert "differ by −10.0 % by the event clock (95 % interval: −10.0 to −10.0 %)" in said
    assert repetition_differences(maker.load()) == [pytest.approx(-0.1)]


def test_a_campaign_without_a_pair_has_none(tmp_path: Path) -> None:
    campaign = SmallCampaign(tmp_path).all("grid")
    assert repeated_kernel_phrase(campaign) is None


def test_two_equal_times_are_not_apart(tmp_path: Path) -> None:
    maker = SmallCampaign(tmp_path)
    maker.all("grid")
    [row, *_] = [one for one in maker.report("grid", "double") if one.kind == "variant"]
    maker.write("grid", "double", "repeat", [row])
    said = repeated_kernel_phrase(maker.load())
    assert said.startswith(
        "two times of one kernel differ by +0.0 % by the event clock and +0.0 % by the graph clock: "
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_first_cases_alone_have_rows_of_further_processes_also_in_a_plan_of_other_cases(count: int) -> None:
    settings = Config(device="opencl", studies={STUDY: {"problems": "generated"}}, repeats={"cases": count})
    first, second, *_ = problem_names(load_registry(Path(settings.registry)), "generated")
    cases = [(STUDY, name, precision) for name in (first, second) for precision in ("single", "double")][:count]
    for plan in (make_plan(settings), plan_of_cases(settings, [second, first], STUDY)):
        files = {case: plan.case_outputs(*case)[-1].name for case in plan.runs}
        assert {case for case, name in files.items() if name == "repeat.parquet"} == {*cases}


@pytest.mark.parametrize(("end", "code"), [(End(0), 0), (End(1), 0), (End(-15, 15), 143)])
def test_the_receipt_of_a_case_has_the_file_that_a_second_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: End, code: int
) -> None:
    """Where that process fails, the file has no rows; where it is interrupted, the case is not made."""
    asked: list[Sequence[str]] = []

    def workers(commands: Sequence[Sequence[str]]) -> list[End]:
        asked.extend(commands)
        return [end] * len(commands)

    monkeypatch.setattr("repro.bench.worker.run_workers", workers)
    monkeypatch.setattr("repro.campaign.measurement.supervise", lambda *_: 0)
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    shutil.copytree(REPOSITORY / "kernels", tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    settings = Config(device="opencl", studies={STUDY: {"problems": "generated"}})
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(as_yaml(settings))))
    first, second, *_ = problem_names(load_registry(Path(settings.registry)), "generated")
    plan = plan_of_cases(settings, [first, second], STUDY)
    context = SimpleNamespace(find_root=lambda: SimpleNamespace(params={}))

    def measure(problem: str) -> tuple[int, Receipt | None]:
        record_failure(settings, STUDY, problem, "single", "stands for rows")
        case = STUDY, problem, "single"
        try:
            commands.measure_case(context, settings, plan, case, file, [], record_failures=True)
        except typer.Exit as left:
            return left.exit_code, Receipt.load(measuring(plan, *case).receipt)
        return 0, Receipt.load(measuring(plan, *case).receipt)

    ended, receipt = measure(second)
    assert ended == 0 and receipt and not asked
    case = plan.folder.case(STUDY, first, "single")
    case.mkdir(parents=True)
    (case / "repeat.parquet").write_bytes(b"of an earlier run, and no pair with this one's rows")
    ended, receipt = measure(first)
    assert [list(command)[-8:] for command in asked] == [
        ["measure", STUDY, first, "single", "--config", str(file), "--repeat", "0"]
    ]
    assert ended == code
    assert ("could not be timed again" in capsys.readouterr().out) == (end.code == 1)
    if code:
        assert receipt is None
    else:
        assert receipt and str(case / "repeat.parquet") in receipt.outputs
        assert not read_rows(plan.folder.study(STUDY), "repeat").num_rows


@pytest.mark.parametrize(("disturbed", "times"), [([], 1), ([True], 2), ([True, True], 2)])
def test_a_case_whose_winner_was_disturbed_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbed: list[bool], times: int
) -> None:
    runs: list[str] = []
    maker = SmallCampaign(tmp_path, "opencl")
    settings = Config(campaign=maker.campaign, device="opencl", studies={STUDY: {"problems": "generated"}})
    maker.study = STUDY

    def supervise(command: Sequence[str], store: object, run: str) -> int:
        runs.append(run)
        status = "disturbed" if disturbed and disturbed.pop() else "ok"
        rows = [maker.row("grid", "double", "variant", FAST, 10.0, ["event"], phase="report", status=status)]
        maker.write("grid", "double", "report", rows)
        maker.choose("grid", "double", {("joint", "event"): (FAST, [])})
        return 0

    monkeypatch.setattr("repro.campaign.measurement.supervise", supervise)
    monkeypatch.chdir(tmp_path)
    context = SimpleNamespace(find_root=lambda: SimpleNamespace(params={}))
    commands.measure_case(context, settings, None, (STUDY, "grid", "double"), Path("c.yaml"), [], record_failures=True)
    assert len(runs) == len(set(runs)) == times  # a run of its own, which times again what the first one stored


@pytest.mark.parametrize("study", ["dynamic_csr", "spgemm_amg", "dg_postprocessing"])
def test_rows_of_every_study_keep_their_samples(study: str) -> None:
    """Columns of samples belong to all rows, whatever a study adds; `Bench.measured` fills them in every report."""
    from repro.bench.row_tables import schema_of

    assert {"event_samples", "graph_samples", "host_samples"} <= set(schema_of(get_study(study).columns).names)
