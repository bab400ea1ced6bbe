"""The start of a run: one in a folder, its configuration written, and nothing but that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from repro.campaign import workflow as starting
from repro.campaign.configuration import resolve
from repro.campaign.plan import Plan, make_plan
from repro.campaign.receipts import record_step
from repro.campaign.steps import Freshness, presenting
from repro.campaign.workflow import (
    RUN_VARIABLE,
    begin,
    check_configuration_files,
    drop_unasked_limit,
    failures,
    plan_of_run,
    refuse_what_is_in_the_way,
    report_compiled,
    report_waiting,
)
from repro.cli import app
from repro.cli.end_of_run import print_failures
from repro.errors import ReproError
from support.made_campaign import make_all

REPOSITORY = Path(__file__).parents[2]
#: Begins a run in another process, says so, and keeps the lock until its input ends.
OTHER = """
import sys
from repro.campaign.plan import make_plan
from repro.campaign.steps import Freshness
from repro.campaign.workflow import begin
from repro.campaign.configuration import resolve

data = {"campaign": "other", "device": "opencl", "studies": {"compound_spmv": {}}}
plan = make_plan(resolve(data))
begin(plan, Freshness(plan).stale)
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The locks that this process holds: a process its own until it ends, a test until the test does."""
    locks: list[int] = []
    monkeypatch.setattr(starting, "_held", locks)
    yield locks
    for lock in locks:
        os.close(lock)


def plan(**keys: Any) -> Plan:
    return make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": {}}, **keys}))


def start(plan: Plan) -> None:
    begin(plan, Freshness(plan).stale)


def test_the_configuration_is_named_by_its_content_and_resolves_to_itself() -> None:
    one, other = plan(), plan(seed=2)
    start(one)
    written = yaml.safe_load(Path(one.config_file).read_text())
    assert written["device"] == "opencl:0"
    assert make_plan(resolve(written)).config_file == one.config_file != other.config_file
    assert Path(one.results, "config.yaml").read_text() == Path(one.config_file).read_text()


def test_a_job_has_the_plan_of_its_run_whatever_is_edited_or_begun_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    assert plan_of_run() is None
    run = plan(seed=3)
    start(run)
    Path(run.results, "config.yaml").write_text("campaign: edited\n")
    assert plan_of_run() == run
    monkeypatch.chdir("/")  # a job may begin anywhere
    monkeypatch.setattr(starting, "make_plan", lambda config: config)
    assert plan_of_run() == run.config


def test_artifacts_that_are_not_asked_for_any_more_are_taken_away() -> None:
    asked = plan(studies={"compound_spmv": {"artifacts": ["table-1", "table-7", "figure-3"]}})
    step = presenting(asked, "compound_spmv", "tables")
    own = Path(asked.results, "tables/compound_spmv/mine.csv")
    with record_step(step):
        for path in (*step.outputs, own):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a table")
    start(plan(studies={"compound_spmv": {"artifacts": ["table-1", "figure-3"]}}))
    left = sorted(path.name for path in own.parent.iterdir())
    assert left == ["mine.csv", "table-1.csv", "table-1.tex"]


def test_no_table_at_all_is_left_where_none_is_asked_for(held: list[int]) -> None:
    asked = plan(studies={"compound_spmv": {"artifacts": ["table-1"]}})
    step = presenting(asked, "compound_spmv", "tables")
    with record_step(step):
        for path in step.outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a table")
    start(plan(studies={"compound_spmv": {"artifacts": ["figure-3"]}}))
    assert not any(path.exists() for path in step.outputs)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_stale_campaign_is_not_said_to_be_complete(seed: int) -> None:
    study = {"problems": ["dirac_torus"], "precisions": ["single"], "layouts": ["CSR-AoS-AoS"], "artifacts": []}
    made = plan(studies={"compound_spmv": study})
    make_all(made)
    start(plan(studies={"compound_spmv": study}, seed=seed))
    assert Path(made.results, "complete").exists() is (seed == 1)


def test_making_a_plan_writes_nothing() -> None:
    plan()
    assert not Path("results").exists()


def test_a_replay_leaves_the_recorded_configuration_alone(held: list[int]) -> None:
    start(plan())
    Path("results/default/raw").mkdir()
    recorded = Path("results/default/config.yaml").read_bytes()
    os.close(held.pop())
    start(plan(replay=True))
    assert Path("results/default/config.yaml").read_bytes() == recorded


def test_a_configuration_that_is_no_text_is_written_over() -> None:
    path = Path("results/default/config.yaml")
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes([255, 254]))
    start(plan())
    assert yaml.safe_load(path.read_text())["campaign"] == "default"


@pytest.mark.wording
def test_a_folder_that_cannot_be_written_to_is_one_message() -> None:
    Path("results").touch()
    with pytest.raises(ReproError, match=r"cannot write to the folder of results\n  where: results/default"):
        start(plan())


def test_a_second_run_in_the_folder_is_refused_by_name_and_a_killed_one_is_not_in_the_way() -> None:
    other = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "begun\n"
    with pytest.raises(ReproError, match="another run is active in this folder") as refusal:
        start(plan())
    assert f"campaign other, process {other.pid}" in str(refusal.value.actual)
    assert not Path("results/default").exists()
    other.kill()
    other.communicate()
    start(plan())


def test_what_changed_since_it_was_planned_is_planned_again() -> None:
    planned = plan()
    with pytest.raises(ReproError, match="the campaign changed since this run was planned"):
        begin(planned, {})
    assert not Path(planned.config_file).exists()


def test_the_end_of_a_run_says_what_failed_without_what_snakemake_says_around_it() -> None:
    failed = "Error in rule {0}:\n    message: None\n    jobid: 8\n    input: a.npz, b.npz\n    log: {0}.log (check log"
    failed += " file(s) for error details)\n    shell:\n        repro {0}\nLogfile {0}.log:\n====\n"
    names = ["measure", "check", "report", "tables", "figures", "last"]
    for name in names:
        lines = range(50) if name == "measure" else range(1)
        Path(f"{name}.log").write_text("".join(f"{name} {line}\n" for line in lines))
    Path("check.log").unlink()
    record = Path("run.snakemake.log")
    record.write_text("Building DAG\n" + "".join(failed.format(name) for name in [*names, "measure"]))
    said = failures(record)
    assert said.startswith("measure, by measure.log:\n  … 10 lines before these\n  measure 10\n")
    assert "\n  measure 49\n\ncheck, by check.log:\n\nreport, by report.log:\n  report 0\n" in said
    assert said.endswith("\n\nand 1 more: last.log") and "input" not in said
    Path("measure.log").write_text("measure 1\ninterrupted\n")
    assert failures(record).startswith("check, by check.log:") and "more" not in failures(record)
    Path("check.log").write_text("Traceback\nKeyboardInterrupt\n")
    Path("report.log").write_text("")
    assert failures(record).startswith("report, by report.log:")
    assert failures(record, is_interrupted=True).startswith("tables, by tables.log:")
    record.write_text("nothing failed\n")
    assert failures(record) == ""


def test_what_failed_stands_between_a_head_and_the_places_of_the_logs(capsys: pytest.CaptureFixture[str]) -> None:
    print_failures("check, by check.log:\n  missing", "logs/c", ["run.log"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "Not complete. The failed steps, and what each said last:", "", "check, by check.log:", "  missing",
    ]  # fmt: skip
    assert lines[6:8] == ["logs of the steps  logs/c", "Snakemake's own    run.log"] and "not why" in lines[8]
    for code, word in ((1, "Not complete."), (130, "Interrupted."), (143, "Terminated.")):
        print_failures("", "logs/c", ["run.log"], code)
        said = capsys.readouterr().out
        assert said.splitlines()[1:2] == [f"{word} The same command goes on from here."]
        assert "WorkflowError" not in said


@pytest.fixture
def without_rights() -> Iterator[None]:
    """Ask for permissions as a user who is not root, whom none refuses."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(65534, 0, 0)
    yield
    os.setresuid(0, 0, 0)


@pytest.mark.parametrize("folder", ["results", "results/default", "figures/default", "logs"])
def test_a_folder_without_permission_to_write_is_named_before_anything_is_made(
    folder: str, without_rights: None
) -> None:
    Path.cwd().chmod(0o777)
    Path("results").mkdir(mode=0o777)
    Path("results").chmod(0o777)
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder).chmod(0o555)
    with pytest.raises(ReproError, match="no permission to write to the folder") as refusal:
        start(plan())
    assert refusal.value.where == Path(folder).absolute()
    assert not Path("results/default/configs").exists()


def test_a_folder_in_which_snakemake_could_not_begin_is_one_message(
    without_rights: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `repro run`, and of `snakemake`, whose profile asks; there another folder can be named."""
    Path.cwd().chmod(0o555)
    with pytest.raises(SystemExit) as ended:
        app.run(["run"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        "error: no permission to write to the folder", f"  where: {Path.cwd()}",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="error: no permission to write to the folder"):
        check_configuration_files(["all"])
    check_configuration_files(["all", "--directory", "elsewhere"])


@pytest.mark.parametrize("name", ["results/.run.lock", "results/default/receipts/check.json", "figures"])
def test_what_is_in_the_way_of_a_file_or_a_folder_is_named(name: str) -> None:
    made = plan()
    path = Path(name)
    if name == "figures":
        path.write_text("a file")
    else:
        path.mkdir(parents=True)
    with pytest.raises(ReproError, match="is in the place of a f") as refusal:
        refuse_what_is_in_the_way(made, Freshness(made))
    assert refusal.value.where == path
    path.unlink() if path.is_file() else path.rmdir()
    refuse_what_is_in_the_way(made, Freshness(made))


@pytest.mark.parametrize(("asked", "stays"), [("100/1s", False), ("10/1s", True), ("100/1m", True)])
def test_a_limit_of_jobs_that_nobody_asked_for_is_dropped(asked: str, stays: bool) -> None:
    from snakemake.settings.types import MaxJobsPerTimespan

    limit = MaxJobsPerTimespan.parse_choice(asked)
    workflow = SimpleNamespace(
        scheduling_settings=SimpleNamespace(max_jobs_per_timespan=limit),
        scheduler=SimpleNamespace(job_rate_limiter=limit),
    )
    drop_unasked_limit(workflow)
    assert (workflow.scheduler.job_rate_limiter is limit) == stays


def test_where_snakemake_has_no_such_limit_nothing_is_done() -> None:
    for scheduler in (SimpleNamespace(), SimpleNamespace(job_rate_limiter=None)):
        before = dict(vars(scheduler))
        drop_unasked_limit(SimpleNamespace(scheduler=scheduler))
        assert vars(scheduler) == before


def test_a_long_compilation_says_how_far_it_is_and_ends() -> None:
    study = {"problems": ["dirac_torus"], "precisions": ["single"]}
    study |= {"layouts": ["CSR-AoS-AoS", "ELL-AoS-AoS", "ELL-SoA-AoS"]}
    made = plan(studies={"compound_spmv": study})
    stale = Freshness(made).stale
    lines: list[str] = []
    thread = report_compiled(made, stale, interval=0.01, output=lines.append)
    manifests = [Path(path) for path in made.all_manifests if path != made.common_manifest]
    for manifest in manifests:
        thread.join(0.1)
        assert thread.is_alive()
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.touch()
    thread.join(10)
    assert not thread.is_alive()
    assert [line.split(" modules")[0] for line in lines] == [
        f"compiled {done} of {len(manifests)}" for done in range(1, len(manifests))
    ]
    nothing_to_compile = report_compiled(made, {}, interval=100)
    nothing_to_compile.join(10)
    assert not nothing_to_compile.is_alive()


def test_a_measurement_that_waits_for_a_device_says_so_at_the_terminal(tmp_path: Path) -> None:
    made, lines = plan(), Queue[str]()
    log = Path(made.logs) / "measure/compound_spmv/torus/double.log"
    old = Path(made.logs) / "measure/compound_spmv/nut/double.log"
    for path in (log, old):
        path.parent.mkdir(parents=True, exist_ok=True)
    old.write_text("the device GPU-2 is held by pid 8 (b, campaign two); waiting\n")
    os.utime(old, (1, 1))  # of an earlier run
    ended = report_waiting(made, interval=0.01, output=lines.put)
    for words in ("the device GPU-1 is held by pid 7 (a, campaign one); waiting", "wrote report.parquet"):
        log.write_text(f"measuring\n{words}\n")
        time.sleep(0.2)
    assert lines.get(timeout=10) == "the device GPU-1 is held by pid 7 (a, campaign one); waiting"
    ended.set()
    assert lines.empty()
