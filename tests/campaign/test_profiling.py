"""Launching by name on the CPU, and counting under a script that stands in for the profiler."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest
import yaml

from repro.bench.campaign_folder import CampaignFolder
from repro.bench.guards import Guards
from repro.bench.ncu import COLUMNS
from repro.bench.rows import SCHEMA
from repro.bench.runnable import Runnable
from repro.campaign.archive import pack
from repro.campaign.configuration import load
from repro.campaign.profiler import SOME_FLOOR, collect_counters, fastest_floor, launch
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.devices.base import LaunchError
from repro.errors import ReproError
from repro.problems.problem import Outline, save_unavailable
from repro.studies import get_study

pytestmark = pytest.mark.medium

STUDY, NAME, ENTRY = "compound_spmv", "small/complex", "complex"
VARIANT = "Sl-4-AoSoA-AoS@clustered/chunk-16-2"
NAMES = [VARIANT, "CSR-AoS-AoS@rcm/static-16-1", "floor", "scipy/csr/complex"]

# runs the command that it is given and makes the output up: a kernel before the first marker, then two for each launch
NCU = """#!/usr/bin/env python3
import os, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute\\nVersion 0.0")
    sys.exit()
log, metrics = words[words.index("--log-file") + 1], words[words.index("--metrics") + 1].split(",")
start = words.index("launch")
end = words.index("--launches")
assert words[words.index("--cache-control") + 1] == "none" and os.environ["REPRO_BLOCKING"] == "0"
kind, _, what = os.environ.get("FAKE_NCU", "").partition("=")
with open(log, "w") as out:
    if kind == "error" or (kind == "unknown" and what in metrics):
        print("==ERROR== " + (what if kind == "error" else f"Failed to find metric {what}"), file=out)
        sys.exit(1)
    command = words[next(i for i, word in enumerate(words) if "python" in word) :]
    code = subprocess.run(command).returncode
    print("==PROF== Connected", file=out)
    if kind == "none" or code:
        print("==WARNING== No kernels were profiled.", file=out)
        sys.exit(code)
    print('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"', file=out)
    names, launches = words[start + 4 : end], int(words[end + 1])
    kernels = [("verify", 9)]
    for i, _ in enumerate(names, 1):
        kernels += [("empty", 0)] + [(f"{part}_{i}", i * 1000) for _ in range(launches) for part in "ab"]
    for number, (kernel, value) in enumerate(kernels + [("empty", 0)]):
        for metric in metrics:
            print(f'"{number}","{kernel}","{metric}","","{value:,}"', file=out)
"""


@pytest.fixture
def config_file(monkeypatch, tmp_path, small_problem, templates) -> Path:
    """A folder with a problem, a configuration, and the profiler's stand-in on PATH."""
    for folder in ("kernels", "config"):
        (tmp_path / folder).symlink_to(templates.parent / folder)
    ncu = tmp_path / "bin" / "ncu"
    ncu.parent.mkdir()
    ncu.write_text(NCU)
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ncu.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    small_problem(ENTRY).save(Path(f"results/c/problems/{NAME}.npz"))
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"campaign": "c", "device": "opencl", "studies": {STUDY: {}}}))
    return path


def test_what_is_named_is_launched_compiled_or_not(config_file):
    rows = launch(load(config_file), STUDY, NAME, "single", NAMES, 2)
    assert [row.name for row in rows] == [*NAMES[:2], SOME_FLOOR, NAMES[3]]
    assert [row.kind for row in rows] == ["variant", "variant", "floor", "baseline"]
    assert [row.error is None for row in rows] == [False, False, True, False]
    assert all(row.environment and row["entry"] == ENTRY for row in rows)


def test_a_module_that_holds_the_kernel_is_used(config_file, templates):
    study, problem, key = get_study(STUDY), Outline(NAME, "matrix", ENTRY), f"paper/{ENTRY}-single/CSR-AoS-AoS"
    alone = study.find(templates, problem, "single", "CSR-AoS-AoS/static-64-1-rolled", CPU)
    built = compile_module(study.render(templates, key, CPU), CPU, manifest_path(CPU.name, STUDY, key))
    held = study.find(templates, problem, "single", "CSR-AoS-AoS/static-64-1-rolled", CPU)
    assert held.module == built
    assert alone.module != built
    other = study.find(templates, problem, "single", "CSR-AoS-AoS/direct-64-2-w2-u4", CPU)
    assert other.module != built


def test_the_floor_is_the_fastest_recorded(tmp_path):
    assert fastest_floor(tmp_path, NAME, "single") == SOME_FLOOR
    rows = [
        ("floor/64-1", "warm", 3.0, "ok"),
        ("floor/64-2", "warm", 2.0, "noisy"),
        ("floor/64-4", "cold", 1.0, "ok"),
        ("floor/64-8", "warm", 1.0, "disturbed"),
        ("x", "warm", 0.5, "ok"),
    ]
    frame = pd.DataFrame(rows, columns=["name", "cache", "graph_median", "status"])
    frame["kind"] = ["floor"] * 4 + ["variant"]
    frame = frame.assign(problem=NAME, precision="single", schema=SCHEMA)
    path = tmp_path / NAME / "single/baseline.parquet"
    path.parent.mkdir(parents=True)
    frame.to_parquet(path)
    assert fastest_floor(tmp_path, NAME, "single") == "floor/64-2"
    assert fastest_floor(tmp_path, NAME, "double") == SOME_FLOOR
    # a packed campaign has it in one file a step
    path.rename(tmp_path / path.name)
    assert fastest_floor(tmp_path, NAME, "single") == "floor/64-2"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scipy/nothing", "unknown routine"),
        ("floor/1-1", r"unknown routine[\s\S]*floor/[\s\S]*floor/1-1"),
        ("CSR-AoS-Aos/static-8-1", "unknown layout"),
        ("CSR-AoS-AoS/statik-8-1", "unknown schedule"),
    ],
)
def test_a_name_that_stands_for_nothing_is_one_message(config_file, name, message):
    with pytest.raises(ReproError, match=message):
        launch(load(config_file), STUDY, NAME, "single", [name], 1)


@pytest.mark.wording
def test_what_fails_after_it_was_verified_is_one_message(config_file, monkeypatch):
    def fail(runnable):
        raise LaunchError("the queue is gone")

    monkeypatch.setattr(Runnable, "before", fail)
    with pytest.raises(ReproError, match=r"a launch failed[\s\S]*floor/[\s\S]*the queue is gone"):
        launch(load(config_file), STUDY, NAME, "single", ["floor"], 1)


@pytest.mark.wording
def test_what_writes_outside_of_its_own_after_it_was_verified_is_one_message(config_file, monkeypatch):
    out_of_bounds_writes = []
    monkeypatch.setattr(Runnable, "before", lambda runnable: out_of_bounds_writes.append("writes outside of y"))
    monkeypatch.setattr(Guards, "out_of_bounds_writes", lambda guards: out_of_bounds_writes)
    with pytest.raises(ReproError, match=r"a launch failed[\s\S]*floor/[\s\S]*writes outside of y"):
        launch(load(config_file), STUDY, NAME, "single", ["floor"], 1)


def test_study_precision_and_problem_are_checked(config_file):
    config = load(config_file)
    with pytest.raises(ReproError, match="unknown study"):
        launch(config, "other", NAME, "single", NAMES, 1)
    with pytest.raises(ReproError, match="unknown precision"):
        launch(config, STUDY, NAME, "half", NAMES, 1)
    save_unavailable(Path(f"results/c/problems/{NAME}.npz"), NAME, "matrix", ENTRY, "no such file")
    with pytest.raises(ReproError, match="no such file"):
        launch(config, STUDY, NAME, "single", NAMES, 1)


def counted(config_file: Path, *names: str) -> pd.DataFrame:
    path = collect_counters(load(config_file), config_file, STUDY, NAME, "single", names, 3)
    assert path == Path(f"results/c/raw/{STUDY}/{NAME}/single/counters.parquet")
    return pd.read_parquet(path).set_index("name")


@pytest.mark.exhaustive
def test_a_file_that_is_named_keeps_the_counters_of_other_cases(config_file):
    config, output = load(config_file), Path("counters.parquet")
    for precision in ("single", "double", "single"):
        collect_counters(config, config_file, STUDY, NAME, precision, ["floor"], 3, output)
    rows = pd.read_parquet(output)
    assert list(rows.precision) == ["double", "single"] and set(rows.name) == {SOME_FLOOR}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_counters_are_rows_that_are_added_and_replaced(config_file, monkeypatch):
    monkeypatch.setenv("FAKE_NCU", "unknown=launch__registers_per_thread")
    first = counted(config_file, VARIANT, "floor")
    assert list(first.index) == [VARIANT, SOME_FLOOR]
    assert list(first.dram_read_bytes) == [2000, 4000]  # two kernels a launch
    assert list(first.l1_hit_percent) == [1000, 2000]
    assert list(first.kernels) == ["a_1, b_1", "a_2, b_2"]
    assert first.registers.isna().all()
    assert set(first.profiler) == {"ncu Version 0.0"}
    assert set(COLUMNS) <= set(first.columns)
    record = json.loads(Path(f"results/c/raw/environment/{first.environment.iloc[0]}.json").read_text())
    assert record["device"] == first.device.iloc[0]

    monkeypatch.delenv("FAKE_NCU")
    second = counted(config_file, "scipy/csr/complex", VARIANT)
    assert list(second.index) == [SOME_FLOOR, "scipy/csr/complex", VARIANT]
    assert list(second.dram_read_bytes) == [4000, 2000, 4000]
    assert list(second.registers.isna()) == [True, False, False]

    pack(CampaignFolder.of("c"))
    third = counted(config_file, VARIANT)
    assert list(third.index) == list(second.index)
    assert list(third.dram_read_bytes) == [4000, 2000, 2000]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (
            "error=ERR_NVGPUCTRPERM - The user does not have permission",
            "no permission to read the GPU's performance counters",
        ),
        ("error=something else", r"(?s)the profiled command failed.*something else"),
        ("none", "ncu profiled no kernels"),
    ],
)
def test_failures_of_the_profiler_are_one_message(config_file, monkeypatch, fake, message):
    monkeypatch.setenv("FAKE_NCU", fake)
    with pytest.raises(ReproError, match=message):
        counted(config_file, "floor")
    assert not list(Path("results").rglob("counters.parquet"))


@pytest.mark.wording
def test_what_the_profiled_command_says_is_quoted(config_file):
    with pytest.raises(ReproError, match=r"(?s)the profiled command failed.*unknown layout"):
        counted(config_file, "no-such/variant")


@pytest.mark.wording
def test_no_profiler_is_one_message(config_file, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ReproError, match="ncu is not installed"):
        counted(config_file, "floor")
