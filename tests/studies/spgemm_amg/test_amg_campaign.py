"""A case measured on the CPU: which rows there are, and what is chosen; and the campaign's plan."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.configuration import resolve
from repro.campaign.measurement import measure
from repro.campaign.plan import make_plan
from repro.campaign.problem_files import build_problem
from repro.codegen.targets import CPU
from repro.config.models import Config, StudySettings, Timing
from repro.sparse.spgemm.multiplication import ONE_PHASE, TWO_PHASES
from repro.studies.spgemm_amg import SETUP_STAGES, STUDY_NAME
from repro.studies.spgemm_amg.ids import KernelId
from repro.studies.spgemm_amg.kernels import modules_for
from repro.studies.spgemm_amg.operands import make_operands
from repro.studies.spgemm_amg.runnables_products import HEADLINE
from support.benches import QUICK

pytestmark = pytest.mark.medium

FILES = ["search", "baseline", "report", "choices"]
NAME = "poisson/5pt_24"


def quiet(*_):
    pass


@pytest.fixture
def run(built, modules_folder, templates, monkeypatch, tmp_path):
    """Build the problem, measure it in a folder of its own and return the rows of each step."""
    (tmp_path / "modules").symlink_to(modules_folder)
    monkeypatch.chdir(tmp_path)
    registry = str(templates.parent / "config/problems.yaml")

    def measured(**study):
        settings = StudySettings(**{"problems": (NAME,), "timing": Timing(**QUICK), **study})
        config = Config(campaign="c", device="opencl", registry=registry, studies={STUDY_NAME: settings})
        folder = CampaignFolder.of(config.campaign)
        if not folder.problem(NAME).exists():
            build_problem(NAME, config, folder.problem(NAME), folder.record(NAME))
        paths = measure(config, STUDY_NAME, NAME, "double", quiet)
        assert [path.stem for path in paths] == FILES
        return {path.stem: pd.read_parquet(path) for path in paths}

    return measured


@pytest.mark.slow
def test_everything_is_measured_and_kernels_are_chosen(run):
    rows = run(space="extended")
    search, report, choices = rows["search"], rows["report"], rows["choices"]
    assert set(search.status) == {"ok"}, search[search.status != "ok"].message.tolist()
    assert set(search.space) == {"paper", "extended"}
    assert set(search.method) == {"sort", "hash"}
    assert set(search["product"]) == {"AA", "AP", "RAP"}
    assert set(search["mode"]) == {"one", "numeric"}
    assert set(rows["baseline"].kind) == {"floor", "copy", "empty"}

    assert set(report.status) == {"ok"}, report[report.status != "ok"][["name", "message"]].to_dict("records")
    for clock in ("event", "graph", "host"):  # what intervals are made of
        assert report[report[f"{clock}_median"].notna()][f"{clock}_samples"].notna().all()
    whole = report[report.what == "product"].set_index("name")
    names = {f"{product}/{way}" for product in ("AA", "AP", "RAP")
             for way in ("one", "one-tuned", "two-tuned", "paper", "coordinates")}  # fmt: skip
    assert set(whole.index) == names | {f"scipy/spgemm-csr/{product}" for product in ("AA", "AP", "RAP")}
    assert whole.host_median.notna().all() and whole.event_median.isna().all()
    for name, stages in (("AP/one", ONE_PHASE), ("AP/two-tuned", TWO_PHASES)):
        told = whole.loc[name]
        assert {step for step in {*ONE_PHASE, *TWO_PHASES} if not pd.isna(told[f"stage_{step}"])} == set(stages)
    assert set(report[report.what == "numeric"].method) == {"default", "tuned", "stored"}
    assert set(report[report.what == "setup"].method) == {"default", "sort", "coordinates"}
    levels = report[report.what == "level"]
    assert levels[[f"stage_{stage}" for stage in SETUP_STAGES]].notna().all(axis=None)
    [solution] = report[report.what == "solve"].to_dict("records")
    assert solution["iterations"] > 3 and solution["levels"] == len(levels) + 1

    chosen = dict(zip(choices.tuning, choices.name, strict=True))
    assert set(choices.clock) == {"event"}
    assert KernelId.parse(chosen[HEADLINE]).product == "AP"
    assert {tuning for tuning in chosen if tuning.startswith("paper/")} >= {"paper/AP/one/b0"}
    bins = report[report.what == "bin"]
    assert set(bins.name) == set(choices.name)
    assert set(choices.name) <= set(search.name)


@pytest.mark.exhaustive
def test_parts_and_baselines_that_are_not_asked_for_are_not_timed(run):
    rows = run(space="paper", parts=("setup",), baselines=())
    assert set(rows["search"].space) == {"paper"}
    assert set(rows["report"].what.dropna()) == {"bin", "setup", "level"}
    assert not (rows["report"].kind == "baseline").any()


def test_a_matrix_that_cannot_be_taken_is_refused_in_every_file(run, monkeypatch):
    def refuses(problem, precision, seed):
        rows = np.repeat(np.arange(problem.n), np.diff(problem.indptr))
        problem.values[problem.indices == rows] = 0
        return make_operands(problem, precision, seed)

    monkeypatch.setattr("repro.studies.spgemm_amg.study.make_operands", refuses)
    rows = run()
    for step in FILES[:3]:
        [row] = rows[step].to_dict("records")
        assert row["status"] == "unavailable"
        assert row["message"].startswith("multigrid needs a diagonal without zeros")
    assert rows["choices"].empty


def test_the_plan_of_the_default_problems(templates, monkeypatch):
    monkeypatch.chdir(templates.parent)
    plan = make_plan(resolve({"device": "opencl", "studies": {STUDY_NAME: {}}}))
    study = plan.studies[STUDY_NAME]
    assert study.problems == ("poisson/5pt_24", "poisson/9pt_24", "poisson/7pt_12", "poisson/27pt_8")
    assert study.settings.precisions == ("double",)
    [group] = plan.module_groups
    assert group.keys == tuple(f"double/{module}" for module in modules_for(CPU))
