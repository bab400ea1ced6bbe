"""`repro batch` on the CPU: the same results as single jobs, only stale steps, failures and kills."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from repro.campaign.completeness import find_missing_of_case
from repro.campaign.configuration import load
from repro.campaign.plan import Plan, make_plan
from repro.campaign.problem_files import build_problem
from repro.campaign.receipts import Receipt, record_step
from repro.campaign.steps import Freshness, building, measuring, until_measured
from repro.cli.app import build
from repro.cli.problems import build_or_record
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.config.models import OwnProblem, Timing
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError
from repro.problems.registry import load_registry
from repro.studies import get_study
from support.benches import QUICK
from support.small_case import FILES, LAYOUTS, STUDY, config

NAMES = ["a", "b", "c"]
KEY = "paper/complex-single/ELL-SoA-AoS"
CASES = f"{STUDY}/single"
Configure = Callable[..., Plan]
Command = Callable[..., str]


def write_matrix(name: str, rows: int, diagonal: str = "2.5 1.0") -> None:
    """Write a complex matrix with two diagonals."""
    entries = [f"{row} {row} {diagonal}" for row in range(1, rows + 1)]
    entries += [f"{row} {row - 1} -1.0 0.5" for row in range(2, rows + 1)]
    head = f"%%MatrixMarket matrix coordinate complex general\n{rows} {rows} {len(entries)}"
    Path(f"{name}.mtx").write_text("\n".join([head, *entries]) + "\n")


@pytest.fixture
def configure(modules: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, templates: Path) -> Configure:
    """Three matrices and compiled modules in a folder to measure in; what writes the configuration there."""
    monkeypatch.chdir(tmp_path)
    for folder in ("config", "kernels"):
        Path(folder).symlink_to(templates.parent / folder)
    shutil.copytree(modules, "modules")
    for number, name in enumerate(NAMES):
        write_matrix(name, 40 + number)

    def write(**timing: Any) -> Plan:
        problems = tuple(OwnProblem(path=f"{name}.mtx") for name in NAMES)
        settings = config(
            problems=problems,
            precisions=("single",),
            layouts=LAYOUTS[:1],
            space="paper",
            timing=Timing(**{**QUICK, "cpu_budget": 0.001, **timing}),
        )
        Path("c.yaml").write_text(yaml.safe_dump(settings.model_copy(update={"batch": 3}).model_dump(mode="json")))
        made = make_plan(load(Path("c.yaml")))
        for step in until_measured(made):
            if step.name.startswith("compile"):
                with record_step(step):
                    pass
        return made

    return write


def words(*given: str) -> list[str]:
    return [*given, "--config", "c.yaml"]


@pytest.fixture
def repro(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command to its end, which is a good one; return what it said, and what the processes that it started."""

    def run(*given: str) -> str:
        code = build(given[:1])(words(*given), standalone_mode=False)
        said = capfd.readouterr()
        assert not code, said
        return said.out + said.err

    return run


@pytest.fixture
def run_all(repro: Command) -> Command:
    """Build and measure all problems in a batch each; return what measuring said."""

    def run() -> str:
        repro("batch", "problems", *NAMES)
        return repro("batch", CASES, *NAMES, "--output", "results/c/batches/done")

    return run


def folder(name: str) -> Path:
    return Path(f"results/c/raw/{STUDY}/{name}/single")


def fingerprints(plan: Plan) -> dict[str, str]:
    """Return the fingerprint of every receipt that was written."""
    receipts = (Receipt.load(step.receipt) for step in until_measured(plan))
    return {receipt.step: receipt.fingerprint for receipt in receipts if receipt}


def written(name: str) -> list[int]:
    """Return when the files of a case were written."""
    return [(folder(name) / f"{step}.parquet").stat().st_mtime_ns for step in FILES]


def stored_keys(name: str) -> list[str]:
    """Return the keys of all rows of a case's store, in their order."""
    store = Path(f"results/c/store/{STUDY}/{name}/single/rows.jsonl")
    return [json.loads(line)["key"] for line in store.read_text().splitlines()]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_batch_leaves_what_jobs_of_one_problem_each_leave(
    configure: Configure, repro: Command, run_all: Command
) -> None:
    plan = configure()
    said = run_all()
    assert "\n1 of 3: a single, " in said
    assert Path("results/c/batches/done").read_text() == "a\nb\nc\n"
    alone = make_plan(plan.config.model_copy(update={"batch": 1}))
    assert not Freshness(alone, until_measured(alone)).stale
    made = fingerprints(plan)

    name = NAMES[1]  # of the first one's copy it has the times
    rows = {step: pd.read_parquet(folder(name) / f"{step}.parquet") for step in FILES}
    building(plan, name).receipt.unlink()
    measuring(plan, STUDY, name, "single").receipt.unlink()
    shutil.rmtree(f"results/c/store/{STUDY}/{name}")
    files = ["--output", f"results/c/problems/{name}.npz", "--record", f"results/c/raw/problems/{name}.json"]
    repro("problem", name, *files, "--receipt")
    repro("measure", STUDY, name, "single", "--receipt", "--record-failures")
    assert fingerprints(plan) == made
    for step in FILES:
        now, before = pd.read_parquet(folder(name) / f"{step}.parquet"), rows[step]
        if step != "choices":
            assert set(now.status) == set(before.status) == {"ok"}
        # winners, which are what is chosen and reported, may be others
        assert set(now.problem) == set(before.problem) == {name}
        for column in ("name", "bytes") if step in ("search", "baseline") else ():
            assert list(now[column].fillna(0)) == list(before[column].fillna(0)), (step, column)


@pytest.mark.exhaustive
def test_the_copy_of_a_batch_is_timed_once_and_the_floor_of_each_case(configure: Configure, run_all: Command) -> None:
    configure()
    run_all()
    rows = {name: pd.read_parquet(folder(name) / "baseline.parquet").set_index("name") for name in NAMES}
    copies = [name for name in rows["a"].index if name.startswith("copy")]
    floors = [name for name in rows["a"].index if name.startswith("floor")]
    assert copies
    for name in ("b", "c"):
        assert list(rows[name].event_median[copies]) == list(rows["a"].event_median[copies])
        assert list(rows[name].bytes[copies]) == list(rows["a"].bytes[copies])
        assert list(rows[name].event_median[floors]) != list(rows["a"].event_median[floors])
        assert set(rows[name].key) & set(rows["a"].key) == set()


@pytest.mark.exhaustive
def test_what_is_stale_is_measured_again_and_nothing_else(
    configure: Configure, repro: Command, run_all: Command
) -> None:
    plan = configure()
    run_all()
    before = {name: written(name) for name in NAMES}
    keys = stored_keys("b")
    (folder("b") / "report.parquet").unlink()
    assert "1 of 3 to measure" in repro("batch", CASES, *NAMES)
    assert {name: written(name) == before[name] for name in NAMES} == {"a": True, "b": False, "c": True}
    assert stored_keys("b") == keys, "a row was measured twice"
    assert not Freshness(plan, until_measured(plan)).stale
    assert "0 of 3 to measure" in repro("batch", CASES, *NAMES)


@pytest.mark.exhaustive
def test_what_fails_is_recorded_and_stops_no_other(configure: Configure, repro: Command) -> None:
    plan = configure()
    write_matrix("b", 41, diagonal="nan 0.0")
    repro("batch", "problems", *NAMES)
    assert json.loads(Path("results/c/raw/problems/b.json").read_text())["status"] == "unavailable"
    repro("batch", CASES, *NAMES)
    statuses = {name: set(pd.read_parquet(folder(name) / "search.parquet").status) for name in NAMES}
    assert statuses == {"a": {"ok"}, "b": {"unavailable"}, "c": {"ok"}}
    assert [*find_missing_of_case(plan, STUDY, "a", "single"), *find_missing_of_case(plan, STUDY, "c", "single")] == []

    write_matrix("b", 41)
    assert "1 of 1: b" in repro("batch", "problems", *NAMES)
    assert "1 of 3 to measure" in repro("batch", CASES, *NAMES)
    assert not Freshness(plan, until_measured(plan)).stale


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bug", [MemoryError("no room"), KeyError("rows"), OSError("a file of a library")])
def test_a_bug_in_building_a_problem_is_recorded_and_stops_no_other(
    configure: Configure, repro: Command, monkeypatch: pytest.MonkeyPatch, bug: Exception
) -> None:
    plan = configure()

    def build_or_break(name: str, *rest: Any) -> Any:
        if name == "b":
            raise bug
        return build_problem(name, *rest)

    monkeypatch.setattr("repro.cli.problems.build_problem", build_or_break)
    said = repro("batch", "problems", *NAMES, "--output", "results/c/batches/done")
    assert "Traceback" in said and Path("results/c/batches/done").exists()
    records = {name: json.loads(Path(f"results/c/raw/problems/{name}.json").read_text()) for name in NAMES}
    assert [records[name]["status"] for name in NAMES] == ["ok", "unavailable", "ok"]
    assert records["b"]["reason"].startswith(f"{type(bug).__name__}: ")
    stale = Freshness(plan, [building(plan, name) for name in NAMES]).stale  # the next run tries it again
    assert list(stale) == ["problem b"] and "it failed" in stale["problem b"]


def test_a_full_disk_is_no_fault_of_a_problem(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("repro.cli.problems.build_problem", full)
    assert build(["batch"])(words("batch", "problems", *NAMES), standalone_mode=False)
    assert not Path("results/c/raw/problems").exists()


def test_the_registry_is_not_read_again_for_a_problem_that_cannot_be_had(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = configure()
    registry = load_registry(Path(made.config.registry))
    monkeypatch.setattr("repro.problems.builder.load_registry", None)

    def lost(*_: Any) -> None:
        raise ReproError("nowhere to be had")

    monkeypatch.setattr("repro.cli.problems.build_problem", lost)
    record = Path("lost.json")
    assert build_or_record("surfaces/bunny", made.config, Path("lost.npz"), record, None, registry) is None
    assert json.loads(record.read_text())["status"] == "unavailable"


@pytest.mark.exhaustive
def test_a_batch_that_is_killed_goes_on_where_it_was(configure: Configure, repro: Command) -> None:
    plan = configure(screen_launches=3000, cpu_budget=0.02)
    repro("batch", "problems", *NAMES)
    process = subprocess.Popen(
        [sys.executable, "-m", "repro", *words("batch", CASES, *NAMES)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    store = Path(f"results/c/store/{STUDY}/b/single/rows.jsonl")
    deadline = time.monotonic() + 200
    while not (store.exists() and store.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first, rows = stored_keys("a"), stored_keys("b")
    assert not measuring(plan, STUDY, "b", "single").receipt.exists()

    # the winner of the first case was not timed again yet; its own rows are there
    assert "3 of 3 to measure" in repro("batch", CASES, *NAMES)
    assert stored_keys("a") == first
    keys = stored_keys("b")
    assert keys[: len(rows)] == rows
    assert len(keys) == len(set(keys)), "a row was measured twice"
    assert not Freshness(plan, until_measured(plan)).stale


@pytest.mark.exhaustive
def test_a_crash_costs_a_row_of_its_case_and_the_batch_goes_on(
    configure: Configure, templates: Path, run_all: Command, cpu_device: OpenClDevice
) -> None:
    plan = configure()
    source = get_study(STUDY).render(templates, KEY, CPU)
    start = source.index("{", source.index(" spmv_static_16_rolled(")) + 1
    # with the rows of b, and with a block a core
    which = f"n == 41 && get_num_groups(0) == {cpu_device.sm_count}"
    crash = f"if ({which}) *((volatile __global int*)y + ((size_t)1 << 42)) = 1;"
    compile_module(f"{source[:start]}\n{crash}\n{source[start:]}", CPU, manifest_path(CPU.name, STUDY, KEY))
    for step in until_measured(plan):
        if step.name.startswith("compile"):
            with record_step(step):
                pass
    said = run_all()
    for name in NAMES:
        search = pd.read_parquet(folder(name) / "search.parquet")
        crashed = search.name == "ELL-SoA-AoS/static-16-1-rolled"
        assert crashed.any()
        if name == "b":
            assert set(search[crashed].message) == {"the process was ended by SIGSEGV (Segmentation fault)"}
        assert set(search[crashed].status) == {"launch_error" if name == "b" else "ok"}
        assert set(search[~crashed].status) == {"ok"}
    assert said.count("going on in a new one") == crashed.sum()


def test_what_is_no_batch_is_one_message(configure: Configure, capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    for given in (["compound_spmv", "a"], [f"{STUDY}/half", "a"], ["nothing/single", "a"], [CASES, "elsewhere"]):
        assert build(["batch"])(words("batch", *given), standalone_mode=False) == 1
        assert capsys.readouterr().err.startswith("error: ")
