"""A case of calls measured on the CPU: its rows, what becomes of a wrong result, and what makes the case stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.configuration import resolve
from repro.campaign.measurement import measure
from repro.campaign.plan import make_plan
from repro.campaign.steps import measuring
from repro.codegen.build_cache import MODULES, compile_module
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.operators import spmv
from support.benches import QUICK
from support.matrices import poisson, real_problem
from support.small_case import quiet

pytestmark = pytest.mark.medium

FUNCTIONS = ["product", "insert", "cg"]
CONFIG = {
    "campaign": "c",
    "device": "opencl",
    "studies": {"calls": {"problems": ["tiny/5pt_const"], "parts": FUNCTIONS, "timing": {**QUICK, "launches": 20}}},
}


@pytest.fixture
def case(tmp_path: Path, built_folder: Path, templates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the common module and a built problem."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPRO_CACHE", str(built_folder / "operators"))
    compile_module(render_common(templates, CPU), CPU, MODULES / CPU.name / "common.json")
    folder = CampaignFolder.of("c")
    replace(real_problem(poisson((24, 24), 5)), name="tiny/5pt_const").save(folder.problem("tiny/5pt_const"))


def report() -> pd.DataFrame:
    [path] = measure(resolve(CONFIG), "calls", "tiny/5pt_const", "double", quiet)
    assert path.stem == "report"
    return pd.read_parquet(path).set_index("name")


@pytest.mark.usefixtures("case")
def test_a_case_has_a_row_for_each_call_and_only_of_the_named_functions() -> None:
    rows = report()
    assert set(rows.index) == {
        "product/repro/NumPy/new", "product/repro/NumPy/out", "product/SciPy/NumPy/new", "insert/repro/NumPy/new",
        "cg/repro/NumPy/new", "cg/SciPy/NumPy/new",
    }  # fmt: skip
    assert set(rows.kind) == {"call"} and set(rows.status) <= {"ok", "noisy"}
    assert (rows.error <= 1).all() and (rows.host_median > 0).all() and rows.event_median.isna().all()
    assert set(rows["rows"]) == {576} and set(rows.entries) == {2784}
    assert rows.kernel_seconds.notna().to_dict() == {name: name.startswith("product/repro") for name in rows.index}


@pytest.mark.usefixtures("case")
def test_a_wrong_result_is_a_row_without_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spmv.SpmvOperator, "matvec", lambda self, x, out=None: np.zeros(len(x)))
    rows = report()
    wrong = rows.loc[["product/repro/NumPy/new", "product/repro/NumPy/out"]]
    assert set(wrong.status) == {"incorrect"} and wrong.host_median.isna().all()
    assert wrong.message.str.startswith("the result is off by").all()
    assert set(rows.drop(wrong.index).status) <= {"ok", "noisy"}


def test_a_change_of_the_calls_makes_this_study_stale_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = {}
    for study, problem in {"calls": "tiny/5pt_const", "compressed_coo": "tiny/5pt_const"}.items():
        plan = make_plan(resolve({**CONFIG, "studies": {study: {"problems": [problem]}}}))
        modules: list[str] = []
        monkeypatch.setattr("repro.campaign.steps.code_hash", lambda *names, into=modules: into.extend(names) or "h")
        measuring(plan, study, problem, "double")
        hashed[study] = "repro.operators.user_calls" in modules
    assert hashed == {"calls": True, "compressed_coo": False}
