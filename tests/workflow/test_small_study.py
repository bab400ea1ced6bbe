"""A study of four files, put beside the real ones: its whole campaign, on one device and on two, and killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from support.checkouts import QUICK, REPOSITORY, Checkout, wait_for_rows

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

FOLDER = REPOSITORY / "tests/small_study"
#: How often a kill may come too late.
KILLS = 5
RAW = "raw/small/small/5pt_const/double"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The project with the study laid over it."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    shutil.copytree(FOLDER, checkout.folder, dirs_exist_ok=True)
    return checkout


def configure(checkout: Checkout, name: str, device: str, **timing: Any) -> str:
    """Write a configuration of the study alone; return its file."""
    small = {"problems": ["small/5pt_const"], "precisions": ["double"], "timing": {**QUICK, **timing}}
    data = {"campaign": name, "device": device, "studies": {"small": small}}
    (checkout.folder / f"{name}.yaml").write_text(yaml.safe_dump(data))
    return f"{name}.yaml"


def rows(checkout: Checkout, campaign: str, step: str) -> list[dict[str, Any]]:
    table = pq.read_table(checkout.folder / "results" / campaign / RAW / f"{step}.parquet")
    return list(table.to_pylist())


def test_the_study_is_four_files_and_a_configuration_and_none_of_the_projects_own() -> None:
    files = [
        path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert 0 < len([path for path in files if path.parts[0] != "config"]) <= 4
    assert not [path for path in files if (REPOSITORY / path).exists()]


def test_the_study_is_found_by_its_folder(checkout: Checkout) -> None:
    words = [sys.executable, "-m", "repro", "list", "studies"]
    listed = subprocess.run(
        words, cwd=checkout.folder, env=checkout.environment, text=True, capture_output=True, check=True
    )
    names = [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    assert {"compound_spmv", "compressed_coo", "small"} <= set(names)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("device", "parts"), [("opencl", 1), pytest.param("opencl:0/2", 2, marks=pytest.mark.exhaustive)]
)
def test_the_whole_campaign_of_the_study(checkout: Checkout, device: str, parts: int) -> None:
    name = f"parts-{parts}"
    config = configure(checkout, name, device)
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    results = checkout.folder / "results" / name
    for suffix in ("csv", "tex"):
        assert "small/5pt" in (results / f"tables/small/table-ways.{suffix}").read_text().replace("\\", "")
    assert (checkout.folder / f"figures/{name}/small/figure-ways.svg").stat().st_size > 0
    assert "figure-ways" in (results / "report.html").read_text()

    report = {row["name"]: row for row in rows(checkout, name, "report") if row["cache"] == "warm"}
    assert {row["status"] for row in report.values()} == {"ok"}
    assert {row["parts"] for row in report.values()} == {parts}
    exact, bound = report["exact"], report["bound"]
    assert exact["host_median"] > 0
    assert exact["event_median"] is exact["graph_median"] is bound["graph_median"] is None
    assert bound["event_median"] > 0
    assert exact["stage_count"] > 0
    assert exact["stage_take"] > 0
    assert bound["stage_count"] is None
    chosen = {(row["clock"], row["name"]) for row in rows(checkout, name, "choices")}
    assert ("event", "bound") in chosen
    assert {clock for clock, _ in chosen} == {"event", "host"}
    [environment] = [json.loads(path.read_text()) for path in (results / "raw/environment").glob("*.json")]
    assert environment.get("devices", 1) == parts
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do


def kill_after(checkout: Checkout, config: str, store: Path) -> list[str]:
    """Kill a campaign while the first of two ways is timed in full, for seconds; return the rows that were there."""
    process = subprocess.Popen(
        checkout.command("all", "--configfile", config),
        cwd=checkout.folder,
        env=checkout.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    screened = wait_for_rows(store, process, 2, 120)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return screened


@pytest.mark.exhaustive
def test_killed_in_the_middle_of_a_trial_that_changes_its_operand_it_goes_on(checkout: Checkout) -> None:
    config = configure(checkout, "killed", "opencl", launches=2000, cpu_budget=1.0)
    raw = checkout.folder / "results/killed" / RAW
    store = checkout.folder / "results/killed/store/small/small/5pt_const/double/rows.jsonl"
    for _ in range(KILLS):
        before = kill_after(checkout, config, store)
        if not (raw / "search.parquet").exists():
            break
        shutil.rmtree(checkout.folder / "results/killed")  # on a busy machine the kill came too late
    else:
        pytest.fail(f"the search ended before each of {KILLS} kills")

    target = f"{raw.relative_to(checkout.folder)}/choices.parquet"
    said = checkout.snakemake(target, "--configfile", config)
    assert said.code == 0, said.text
    lines = store.read_text().splitlines()
    assert lines[: len(before)] == before
    keys = [json.loads(line)["key"] for line in lines]
    assert len(keys) == len(set(keys)), "a row was measured twice"
    assert {row["status"] for row in rows(checkout, "killed", "report")} == {"ok"}
    assert checkout.snakemake(target, "--configfile", config).nothing_to_do
