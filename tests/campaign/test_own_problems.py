"""A user's own files from the plan to the rows: the planned problems are built, compiled for and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.configuration import resolve
from repro.campaign.estimate import estimate
from repro.campaign.measurement import measure
from repro.campaign.plan import Plan, make_plan
from repro.campaign.problem_files import build_problem, record_unavailable
from repro.cli.app import build as application
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.errors import ReproError
from repro.studies import get_study
from support.benches import QUICK

pytestmark = pytest.mark.medium

REPOSITORY = Path(__file__).parents[2]
GRAPH = "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 5\n1 1\n2 1\n3 2\n4 3\n4 4\n"


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)


def plan(study: str, *problems: dict[str, Any], **settings: Any) -> Plan:
    studies = {study: {"problems": list(problems), "artifacts": [], "timing": QUICK, **settings}}
    return make_plan(resolve({"campaign": "c", "device": "opencl", "studies": studies}))


def take(made: Plan, study: str, problem: str, precision: str, templates: Path) -> dict[str, pd.DataFrame]:
    """Do what the workflow does for a case: build the problem, compile what is planned, measure."""
    folder = CampaignFolder.of(made.config.campaign)
    build_problem(problem, made.config, folder.problem(problem), folder.record(problem))
    for key in made.modules(study, problem, precision):
        compile_module(get_study(study).render(templates, key, CPU), CPU, manifest_path(CPU.name, study, key))
    compile_module(render_common(templates, CPU), CPU, Path(made.common_manifest))
    paths = measure(made.config, study, problem, precision, lambda *_: None)
    return {path.stem: pd.read_parquet(path) for path in paths}


@pytest.mark.slow
def test_a_pattern_is_planned_built_compiled_for_and_measured_as_one(templates: Path) -> None:
    Path("graph.mtx").write_text(GRAPH)
    made = plan("compound_spmv", {"path": "graph.mtx"}, layouts=["ELL-SoA-AoS"], precisions=["double"])
    assert made.problems["graph"].entry == "pattern"
    found = take(made, "compound_spmv", "graph", "double", templates)
    assert json.loads(Path("results/c/raw/problems/graph.json").read_text())["entry"] == "pattern"
    assert set(found["search"].status) == {"ok"}
    assert set(found["search"].entry) == {"pattern"}
    assert set(found["choices"].name) <= set(found["search"].name)


@pytest.mark.slow
def test_a_study_of_numbers_refuses_a_pattern_when_it_is_planned_and_takes_it_as_numbers(templates: Path) -> None:
    ring = "".join(f"{i + 1} {i}\n" for i in range(1, 5000))
    Path("graph.mtx").write_text(f"%%MatrixMarket matrix coordinate pattern symmetric\n5000 5000 4999\n{ring}")
    with pytest.raises(ReproError, match=r"the study does not support the problem[\s\S]*real entries[\s\S]*pattern"):
        plan("compressed_coo", {"path": "graph.mtx"})
    made = plan("compressed_coo", {"path": "graph.mtx", "entry": "real"}, layouts=["CCOO"], precisions=["double"])
    found = take(made, "compressed_coo", "graph", "double", templates)
    assert "ok" in set(found["search"].status)
    assert set(found["search"].status) <= {"ok", "unsupported"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1e300", "1", "1", "1"], "values are too large for single precision"),
        (["3e38", "3e38", "3e38", "3e38"], "products are too large for single precision"),
        (["1e-300", "0", "-1e-42", "1e-310"], "values are too small for single precision"),
    ],
)
@pytest.mark.parametrize("study", ["compound_spmv", "compressed_coo"])
def test_values_past_single_precision_are_refused_in_it_alone(study: str, values: list[str], said: str) -> None:
    entries = "".join(f"1 {column} {value}\n" for column, value in enumerate(values, 1))
    Path("wide.mtx").write_text(f"%%MatrixMarket matrix coordinate real general\n4 4 4\n{entries}")
    made = plan(study, {"path": "wide.mtx"})
    folder = CampaignFolder.of(made.config.campaign)
    built = build_problem("wide", made.config, folder.problem("wide"), folder.record("wide"))
    report = measure(made.config, study, "wide", "single", lambda *_: None)[2]
    [row] = pd.read_parquet(report).to_dict("records")
    assert (row["status"], row["message"].splitlines()[0]) == ("unavailable", said)
    assert "leave single out" in row["message"]
    get_study(study).operands(built, "double", 1)


def test_small_values_beside_larger_ones_of_their_row_are_lost_as_always() -> None:
    Path("mixed.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1e-300\n1 2 1\n3 1 -2\n3 3 1e-42\n"
    )
    made = plan("compound_spmv", {"path": "mixed.mtx"})
    built = build_problem("mixed", made.config, Path("a.npz"), None)
    assert get_study("compound_spmv").operands(built, "single", 1).precision == "single"


def test_what_is_known_to_be_refused_compiles_and_counts_nothing() -> None:
    """It stops nothing: its rows will say why it was refused."""
    head = "%%MatrixMarket matrix coordinate real general\n"
    for name, size in (("wide", "3 5 1\n1 1 1\n"), ("empty", "3 3 0\n"), ("square", "3 3 1\n1 1 1\n")):
        Path(f"{name}.mtx").write_text(head + size)
    for study, takes_wide in (("compound_spmv", True), ("compressed_coo", False)):
        made = plan(study, *({"path": f"{name}.mtx"} for name in ("wide", "empty", "square")), precisions=["double"])
        jobs = {job.problem: job for job in estimate(made, CPU).jobs}
        taken = {"wide": takes_wide, "empty": False, "square": True}
        assert {name: bool(job.variants) for name, job in jobs.items()} == taken
        assert {name: bool(job.seconds) for name, job in jobs.items()} == taken
        assert {name: bool(made.modules(study, name, "double")) for name in jobs} == taken
        alone = plan(study, {"path": "empty.mtx" if takes_wide else "wide.mtx"}, precisions=["double"])
        assert (alone.module_groups, estimate(alone, CPU).seconds(1) < 60) == ([], True)


def test_a_plan_says_what_is_a_bound_and_what_is_built() -> None:
    Path("skew.mtx").write_text("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 4\n3 1 0\n")
    Path("graph.mtx").write_text(GRAPH.replace("symmetric", "general"))
    made = plan("compound_spmv", {"path": "skew.mtx"}, {"path": "graph.mtx"}, precisions=["double"])
    sizes = {job.problem: (job.size, job.size_from) for job in estimate(made, CPU).jobs}
    assert sizes == {"skew": ((3, 4), "at most"), "graph": ((4, 5), "stated")}
    folder = CampaignFolder.of(made.config.campaign)
    build_problem("skew", made.config, folder.problem("skew"), folder.record("skew"))
    sizes = {job.problem: (job.size, job.size_from) for job in estimate(made, CPU).jobs}
    assert sizes["skew"] == ((3, 2), "built")


def test_a_file_that_holds_another_problem_is_refused() -> None:
    for name in ("one", "other"):
        Path(f"{name}.mtx").write_text(GRAPH)
    made = plan("compound_spmv", {"path": "one.mtx"}, {"path": "other.mtx"})
    one, other = map(CampaignFolder.of(made.config.campaign).problem, ("one", "other"))
    build_problem("one", made.config, one, None)
    other.write_bytes(one.read_bytes())
    with pytest.raises(ReproError, match=r"contains a different problem[\s\S]*expected: other\n[\s\S]*actual: one\n"):
        measure(made.config, "compound_spmv", "other", "double", lambda *_: None)


def test_one_that_cannot_be_built_keeps_the_entry_that_was_planned() -> None:
    Path("graph.mtx").write_text(GRAPH + "1 1\n")
    made = plan("compound_spmv", {"path": "graph.mtx"})
    record_unavailable("graph", made.config, "damaged", Path("a.npz"), Path("a.json"))
    assert json.loads(Path("a.json").read_text())["entry"] == made.problems["graph"].entry == "pattern"
    Path("graph.mtx").unlink()
    record_unavailable("graph", made.config, "gone", Path("a.npz"), Path("a.json"))
    assert json.loads(Path("a.json").read_text())["reason"] == "gone"


def test_what_is_done_to_entries_is_printed() -> None:
    Path("twice.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n1 1 2\n2 1 0\n")
    Path("c.yaml").write_text("campaign: c\nstudies: {compound_spmv: {problems: [{path: twice.mtx}]}}\n")
    words = ["problem", "twice", "--config", "c.yaml", "--output", "a.npz", "--record", "a.json"]
    said = CliRunner().invoke(application(words), words)
    assert said.exit_code == 0, said.output
    assert "note: 1 duplicate entries added up" in said.output
    assert "note: 1 explicit zeros dropped" in said.output
    assert json.loads(Path("a.json").read_text())["origin"]["counts"]["duplicates"] == 1
