"""Plans: the devices, modules and cases that a configuration implies, before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from repro.campaign import plan as planning
from repro.campaign.configuration import resolve
from repro.campaign.plan import Plan, make_plan, plan_of_cases
from repro.campaign.steps import building, measuring, presenting, reporting
from repro.codegen.build_cache import manifest_path
from repro.codegen.targets import CPU, get_target
from repro.config.models import Limits, OwnProblem
from repro.devices import selection
from repro.devices import selection as opening
from repro.devices.selection import Gpu
from repro.errors import ReproError
from repro.problems.own_problems import planned
from repro.problems.registry import load_registry
from repro.results import figure_style, output
from repro.studies.compound_spmv.study import layouts_to_try as layouts_of

REPOSITORY = Path(__file__).parents[2]
GPU = Gpu(0, "NVIDIA Test", "sm_90", "GPU-1")


@pytest.fixture(autouse=True)
def _in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work where nothing of the repository's own results can be read or written."""
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)


def plan(study: dict[str, Any] | None = None, **keys: Any) -> Plan:
    """Plan a campaign of one study on the CPU."""
    return make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": study or {}}, **keys}))


def test_the_default_is_the_generated_set_in_both_precisions() -> None:
    made = plan()
    assert made.target == CPU
    assert len(made.problems) >= 6
    assert {problem.entry for problem in made.problems.values()} == {"complex", "quaternion", "block3"}
    assert len(made.runs) == 2 * len(made.problems)
    # the papers' layouts, and packing in two inner orders
    assert sum(len(group.keys) for group in made.module_groups) == 3 * 2 * (16 + 2)
    assert len(made.all_manifests) == len(set(made.all_manifests)) == 3 * 2 * (16 + 2) + 1
    assert {"table-1", "table-9"} <= set(made.studies["compound_spmv"].tables)
    assert {"figure-3", "figure-4"} <= set(made.studies["compound_spmv"].figures)


def test_the_papers_are_thirteen() -> None:
    made = plan({"problems": "papers"})
    assert len(made.problems) == 13
    assert made.problems["surfaces/bunny"].size == (34834, 243410)


def test_a_plan_says_what_kind_a_problem_is(tmp_path: Path) -> None:
    (tmp_path / "mine.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n3 4 1\n2 1\n")
    (tmp_path / "problems.yaml").write_text(
        "problems:\n"
        "  - {name: still, source: generated, entry: real, kind: graph}\n"
        "  - {name: grows, source: suitesparse, entry: real, group: G, matrix: m, updates: {sizes: [3]},"
        " published: {rows: 5, nonzeros: 9, columns: 7}}\n"
        "  - {name: own, source: own, entry: real, path: mine.mtx, updates: {batches: 2, share: 0.5}}\n"
    )
    registry = load_registry(Path("problems.yaml"))
    mine = OwnProblem(path="mine.mtx", updates={"sizes": [1]})
    still, grows, own, user = (planned(item, registry, Limits()) for item in (*registry.problems, mine))
    assert (still.kind, still.entry) == ("matrix", "real")
    assert (grows.kind, grows.entry, grows.size, grows.columns) == ("updates", None, (5, 9), 7)
    for outline in (own, user):
        assert (outline.kind, outline.entry, outline.size, outline.columns) == ("updates", None, (3, 1), 4)


@pytest.mark.wording
def test_a_problem_that_grows_is_refused_by_studies_of_matrices() -> None:
    for study in ("compound_spmv", "compressed_coo"):
        with pytest.raises(ReproError, match=r"tiny/web\n  expected: a problem of kind matrix\n  actual: updates"):
            make_plan(resolve({"device": "opencl", "studies": {study: {"problems": ["tiny/web"]}}}))


def test_layouts_are_those_asked_for_and_the_reference() -> None:
    made = plan({"layouts": ["Sl-32-SoA-AoS"], "problems": ["dirac_torus"], "precisions": ["single"]})
    group, packing = made.module_groups
    assert (group.name, group.rule) == ("paper/quaternion-single", "compile_compound_spmv_paper_quaternion_single")
    assert group.keys == tuple(f"paper/quaternion-single/{layout}" for layout in ("CSR-AoS-AoS", "Sl-32-SoA-AoS"))
    assert packing.keys == ("packing/quaternion-single/AoS", "packing/quaternion-single/SoA")


def test_manifests_are_where_the_study_looks_for_them() -> None:
    made = plan({"problems": ["dirac_torus"]})
    layouts = layouts_of(made.config.studies["compound_spmv"], "paper", "quaternion")
    keys = [f"paper/quaternion-double/{layout}" for layout in layouts]
    keys += [f"packing/quaternion-double/{inner}" for inner in ("AoS", "SoA")]
    expected = [str(manifest_path("cpu", "compound_spmv", key)) for key in keys]
    assert made.manifests("compound_spmv", "dirac_torus", "double") == [*expected, made.common_manifest]


def test_own_problems_get_their_entry_from_the_header(tmp_path: Path) -> None:
    matrix = tmp_path / "cavity.v2.mtx"
    matrix.write_text("%%MatrixMarket matrix coordinate complex general\n% by hand\n3 3 4\n")
    made = plan({"problems": [{"path": str(matrix)}]})
    problem = made.problems["cavity"]
    assert (problem.entry, problem.size, problem.files) == ("complex", (3, 4), (matrix,))


def test_an_own_problem_may_be_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "graph.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 4\n")
    problem = plan({"problems": [{"path": "~/graph.mtx"}]}).problems["graph"]
    assert (problem.entry, problem.files) == ("pattern", (tmp_path / "graph.mtx",))


def test_one_name_means_one_problem_in_all_studies(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 4\n")
    own = [{"problems": [{"path": str(tmp_path / folder / "mine.mtx")}]} for folder in "ab"]
    made = make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": own[0], "compressed_coo": own[0]}}))
    assert list(made.problems) == ["mine"]
    with pytest.raises(ReproError, match=r"two studies use one name for different problems[\s\S]*b/mine\.mtx"):
        make_plan(resolve({"device": "opencl", "studies": {"compound_spmv": own[0], "compressed_coo": own[1]}}))


@pytest.mark.parametrize(
    "changed", [{"search": "random"}, {"budget": 0.5}, {"training": ["h200"]}, {"memory_weight": 1.0}]
)
def test_what_decides_what_is_measured_measures_again(changed: dict[str, Any]) -> None:
    before, after = (measuring(made, "compound_spmv", "dirac_torus", "double") for made in (plan(), plan(changed)))
    assert (before.values, before.files) != (after.values, after.files)


def test_a_definition_does_not_change_with_the_sets_a_problem_is_in() -> None:
    assert "sets" not in plan().problems["dirac_torus"].definition


def test_artifacts_can_be_chosen() -> None:
    made = plan({"artifacts": ["figure-3", "table-9"]})
    study = made.studies["compound_spmv"]
    assert (study.tables, study.figures) == (("table-9",), ("figure-3",))
    assert made.artifact_files == [
        "results/default/tables/compound_spmv/table-9.tex",
        "figures/default/compound_spmv/figure-3.pdf",
    ]


def test_artifacts_are_planned_in_the_formats_that_are_written() -> None:
    assert (*output.TABLE_FORMATS,) == planning.TABLE_FORMATS
    assert (*figure_style.FORMATS,) == planning.FIGURE_FORMATS


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"problems": "buny"}, r"unknown problem\n  where: studies.compound_spmv.problems\n(.|\n)*surfaces/bunny"),
        ({"problems": ["surfaces/bunni"]}, "unknown problem"),
        ({"layouts": ["CSR-AoS"]}, r"unknown layout\n  where: studies.compound_spmv.layouts(.|\n)*CSR-AoS"),
        (
            {"layouts": ["Sl-4-AoSoA-AoS"]},
            r"not in the space\n  where: studies.compound_spmv.layouts(.|\n)*space: paper",
        ),
        ({"layouts": ["CSR-AoS-AoS@rcm"]}, r"not in the space(.|\n)*CSR-AoS-AoS@rcm"),
        (
            {"baselines": ["scipy_csr", "cuBLAS"]},
            r"unknown baseline\n  where: studies.compound_spmv.baselines(.|\n)*cuBLAS",
        ),
        ({"artifacts": ["table-99"]}, "unknown artifact(.|\n)*table-99"),
        ({"problems": [{"path": "nowhere.mtx"}]}, "no such file(.|\n)*nowhere.mtx"),
        ({"problems": [{"path": "config/config.yaml"}]}, "unknown type of file"),
        ({"problems": [{"path": "config/config.yaml", "name": "a b", "entry": "block3"}]}, "a b"),
    ],
)
def test_what_cannot_be_planned_is_one_message(study: dict[str, Any], message: str) -> None:
    with pytest.raises(ReproError, match=message):
        plan(study)


def test_layouts_of_coordinates_that_the_space_has_not_are_one_message() -> None:
    where = r"unknown coordinate layout\n  where: studies.compressed_coo.layouts"
    for layouts, message in ((["CSR"], where), (["CCOO", "CCOO-aligned"], rf"{where}(.|\n)*actual: CCOO-aligned\n")):
        with pytest.raises(ReproError, match=message):
            make_plan(resolve({"device": "opencl", "studies": {"compressed_coo": {"layouts": layouts}}}))


@pytest.mark.wording
@pytest.mark.parametrize(
    ("study", "key", "value"),
    [
        ("dynamic_csr", "layouts", ["CSR-AoS-AoS"]),
        ("dynamic_csr", "memory_weight", 0.5),
        ("spgemm_amg", "layouts", ["CSR-AoS-AoS"]),
        ("spgemm_amg", "memory_weight", 0.5),
        ("dg_postprocessing", "memory_weight", 0.5),
    ],
)
def test_a_setting_that_a_study_has_no_use_for_is_one_message(study: str, key: str, value: object) -> None:
    with pytest.raises(ReproError, match=rf"{study}.{key}\n  actual: the study has no use for it: leave the key out"):
        resolve({"studies": {study: {key: value}}})


def test_layouts_of_ours_can_be_asked_for_in_their_space() -> None:
    made = plan({"layouts": ["Sl-4-AoSoA-AoS"], "space": "extended", "problems": "tiny/helmholtz"})
    keys = [key for group in made.module_groups for key in group.keys if group.name != "solvers"]
    assert {key.split("/")[2] for key in keys} == {"CSR-AoS-AoS", "Sl-4-AoSoA-AoS", "AoS", "AoSoA"}


@pytest.mark.wording
def test_an_opencl_device_that_is_not_there_is_one_message() -> None:
    with pytest.raises(ReproError, match=r"no such OpenCL device\n  where: device\n.*opencl:0 .*\n.*opencl:7"):
        plan(device="opencl:7")


class TestDevice:
    """Which device `device:` means."""

    @pytest.fixture(autouse=True)
    def _one_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection, "find_gpus", lambda: [GPU])
        monkeypatch.setattr(opening, "has_bindings", lambda: True)

    def test_auto_is_the_gpu(self) -> None:
        made = plan(device="auto")
        assert (made.device, made.target, made.on_gpu) == ("cuda:0", get_target("sm_90"), True)
        assert made.common_manifest == "modules/sm_90/common.json"

    @pytest.mark.parametrize(
        ("name", "value"), [("REPRO_BLOCKING", "0"), ("CUDA_LAUNCH_BLOCKING", "1"), ("NSYS_PROFILING_SESSION_ID", "1")]
    )
    def test_cases_are_measured_again_if_the_stream_may_no_longer_be_blocked_and_the_other_way_round(
        self, name: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def values(device: str) -> Mapping[str, Any]:
            return measuring(plan(device=device), "compound_spmv", "dirac_torus", "double").values

        monkeypatch.setattr(os, "environ", {})
        gpu, cpu = values("cuda"), values("opencl")
        assert "blocking" not in gpu
        monkeypatch.setenv(name, value)
        assert values("cuda") == {**gpu, "blocking": False}
        assert values("opencl") == cpu

    def test_auto_is_the_cpu_where_nothing_drives_the_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(opening, "has_bindings", lambda: False)
        assert plan(device="auto").device == "opencl:0"

    def test_auto_is_the_cpu_where_there_is_no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(selection, "find_gpus", list)
        made = plan(device="auto")
        assert (made.device, made.on_gpu) == ("opencl:0", False)

    @pytest.mark.wording
    def test_a_gpu_that_is_not_there_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ReproError, match=r"no such GPU(.|\n)*cuda:0 NVIDIA Test"):
            plan(device="cuda:1")
        monkeypatch.setattr(selection, "find_gpus", list)
        with pytest.raises(ReproError, match=r"no such GPU(.|\n)*repro doctor"):
            plan(device="cuda")


class TestReplay:
    """A replay takes what is recorded and asks for no device."""

    def test_a_replay_takes_the_raw_results_as_they_are(self) -> None:
        raw = Path("results/old/raw/compound_spmv/x/single")
        raw.mkdir(parents=True)
        (raw / "report.parquet").touch()
        made = plan(campaign="old", replay=True, device="cuda:7")
        assert made.target is None
        assert made.raw("compound_spmv") == [str(raw / "report.parquet")]
        assert made.all_manifests == []

    @pytest.mark.wording
    def test_an_unrecorded_campaign_is_an_error(self) -> None:
        with pytest.raises(ReproError, match=r"no such recorded campaign\n  where: campaign: results/none/raw"):
            plan(campaign="none", replay=True)


def test_what_stands_beside_a_campaign_is_read_where_tables_are_made(tmp_path: Path) -> None:
    study = {"problems": ["dirac_torus"]}
    rows = tmp_path / "results/other/raw/compound_spmv/search.parquet"
    with pytest.raises(ReproError, match="no such campaign to stand beside"):
        plan(study, beside=["other"])
    with pytest.raises(ReproError, match="cannot be compared with itself"):
        plan(study, campaign="other", beside=["other"])
    rows.parent.mkdir(parents=True)
    rows.touch()
    alone, both = plan(study), plan(study, beside=["other"])
    several = {"table-portability", "figure-portability"}
    assert not several & {*alone.studies["compound_spmv"].tables, *alone.studies["compound_spmv"].figures}
    assert several <= {*both.studies["compound_spmv"].tables, *both.studies["compound_spmv"].figures}
    for step in (presenting(both, "compound_spmv", "tables"), reporting(both)):
        assert rows.relative_to(tmp_path) in step.files
    case = ("compound_spmv", "dirac_torus", "double")
    assert measuring(both, *case) == measuring(alone, *case)


def test_a_predicted_search_needs_other_campaigns_to_learn_from(tmp_path: Path) -> None:
    study = {"problems": ["dirac_torus"], "search": "predicted"}
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        plan(study)
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        plan({**study, "training": []})
    with pytest.raises(ReproError, match=r"no such campaign to learn from(.|\n)*results/other/raw/compound_spmv"):
        plan({**study, "training": ["other"]})
    with pytest.raises(ReproError, match="cannot learn from itself"):
        plan({**study, "training": ["own"]}, campaign="own")
    rows = tmp_path / "results/other/raw/compound_spmv/dirac_torus/double/search.parquet"
    rows.parent.mkdir(parents=True)
    rows.touch()
    for training in ("all", ["other"]):
        assert plan({**study, "training": training}).runs
    with pytest.raises(ReproError, match="no recorded campaign to learn from"):
        plan(study, campaign="other")  # its own rows alone are there


def test_a_campaign_that_learns_from_none_is_planned_without_it() -> None:
    assert plan({"problems": ["dirac_torus"], "training": ["none"]}).runs
    Path("results/old/raw").mkdir(parents=True)
    assert plan({"search": "predicted", "training": ["none"]}, campaign="old", replay=True).runs


def test_the_plan_of_a_case_has_the_steps_of_the_whole() -> None:
    whole = plan()
    study, problem = "compound_spmv", "dirac_torus"
    alone = plan_of_cases(whole.config, [problem], study)
    assert list(alone.problems) == [problem]
    assert building(alone, problem) == building(whole, problem)
    assert measuring(alone, study, problem, "double") == measuring(whole, study, problem, "double")


def test_the_plan_of_a_case_has_no_artifacts_and_imports_none() -> None:
    code = (
        "import sys\nfrom repro.campaign.plan import plan_of_cases\nfrom repro.campaign.configuration import resolve\n"
        "config = resolve({'campaign': 'c', 'device': 'opencl', 'studies': {'compound_spmv': {}}})\n"
        "made = plan_of_cases(config, ['dirac_torus']).studies['compound_spmv']\n"
        "print(made.tables, made.figures, 'matplotlib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "() () False"


@pytest.mark.wording
def test_the_plan_of_a_case_that_is_none_is_one_message() -> None:
    with pytest.raises(ReproError, match="does not name the problem"):
        plan_of_cases(plan().config, ["surfaces/bunny"])


def test_planning_imports_nothing_slow_before_it_is_needed() -> None:
    code = "import repro.campaign.plan, sys; print(sorted({'matplotlib', 'pandas'} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_a_study_refuses_entries_that_it_cannot_take() -> None:
    with pytest.raises(ReproError, match="does not support") as error:
        make_plan(resolve({"device": "opencl", "studies": {"compressed_coo": {"problems": ["dirac_torus"]}}}, "a test"))
    assert error.value.expected == "real entries"
    assert "dirac_torus" in str(error.value.where)
