"""What a campaign is reckoned to need."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from repro.campaign.estimate import ASSUMED_SIZE, estimate
from repro.campaign.plan import Plan, make_plan
from repro.cli.planning import plan as plan_command
from repro.codegen.targets import CPU, get_target
from repro.config import load, resolve
from repro.errors import ReproError
from repro.studies.compound_spmv.schedules import paper_space

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)


def plan(**study: Any) -> Plan:
    return make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": study}}))


def test_the_papers_space_on_an_h200() -> None:
    needs = estimate(plan(problems="papers"), get_target("sm_90"))
    assert {job.variants for job in needs.jobs} == {1920}
    assert len(needs.jobs) == 26
    assert needs.modules == (97, 97)


def test_sizes_are_stated_built_or_assumed() -> None:
    made = plan(problems=["mhd1280b", "dirac_torus", "helmholtz_box"], precisions=["single"])
    record = Path(made.results, "raw/problems/dirac_torus.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "dirac_torus", "n": 10, "nnz": 50, "status": "ok"}))
    jobs = {job.problem: job for job in estimate(made, CPU).jobs}
    assert (jobs["mhd1280b"].size, jobs["mhd1280b"].size_from) == ((1280, 22778), "stated")
    assert (jobs["dirac_torus"].size, jobs["dirac_torus"].size_from) == ((10, 50), "built")
    assert (jobs["helmholtz_box"].size, jobs["helmholtz_box"].size_from) == (ASSUMED_SIZE, "assumed")
    # row pointers, and for each non-zero a column and two numbers
    assert jobs["mhd1280b"].operand_bytes == 4 * 1281 + 22778 * (4 + 2 * 4)
    assert jobs["mhd1280b"].variants == 16 * len(paper_space(CPU))


def test_what_is_no_record_of_a_problem_is_said_and_one_that_is_unavailable_has_no_size() -> None:
    made = plan(problems=["dirac_torus"], precisions=["single"])
    record = Path(made.results, "raw/problems/dirac_torus.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "dirac_torus", "status": "unavailable", "reason": "no mesh"}))
    [job] = estimate(made, CPU).jobs
    assert (job.size, job.size_from) == (ASSUMED_SIZE, "assumed")
    for text in ("{", "[]", '{"n": 10, "nnz": 50}', '{"name": "dirac_torus", "n": "ten", "nnz": 50}'):
        record.write_text(text)
        with pytest.raises(ReproError, match=r"unreadable record of a problem[\s\S]*dirac_torus\.json"):
            estimate(made, CPU)


def test_more_work_takes_longer() -> None:
    small, large = (estimate(plan(problems=[name]), CPU) for name in ("mhd1280b", "mono_500Hz"))
    assert small.seconds(2) < large.seconds(2)
    assert small.device_bytes < large.device_bytes
    assert large.seconds(8) < large.seconds(1)


def test_what_is_compiled_is_not_reckoned_again() -> None:
    made = plan(problems=["mhd1280b"], precisions=["single"])
    before = estimate(made, CPU)
    for manifest in made.all_manifests[:4]:
        Path(manifest).parent.mkdir(parents=True, exist_ok=True)
        Path(manifest).touch()
    after = estimate(made, CPU)
    assert after.modules == (17, 13)
    assert after.compile_seconds < before.compile_seconds


def test_the_command_states_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("device: opencl\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")], cores=2)
    said = capsys.readouterr().out
    for word in ("campaign default on opencl:0", "modules", "variants", "disk", "device memory", "expected", "GB/s"):
        assert word in said


def test_on_80_columns_no_line_of_the_command_is_wider_and_no_name_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("mine.yaml").write_text("device: opencl\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")], cores=2)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    said = "\n".join(lines)
    made = make_plan(load(Path("config/config.yaml"), Path("mine.yaml")))
    for study, problem, precision in made.runs:
        row = rf"^{re.escape(problem)} +\w+ +{precision} .*\n +.*study: {study}$"
        assert re.search(row, said, re.MULTILINE), (study, problem, precision)


def test_in_a_pipe_a_job_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    Path("mine.yaml").write_text("device: opencl\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")], cores=2)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("helmholtz_hubs ") and line.endswith(" compound_spmv") for line in lines)


def test_a_replay_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results/default/raw").mkdir(parents=True)
    Path("mine.yaml").write_text("replay: true\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")])
    assert "nothing is measured" in capsys.readouterr().out
