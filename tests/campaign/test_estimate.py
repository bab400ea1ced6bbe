"""What a campaign is reckoned to need."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import meshio
import numpy as np
import pandas as pd
import pytest
import yaml
from skfem import MeshTet

from repro.bench.records import read_problem_of
from repro.bench.store import read_rows
from repro.campaign.configuration import load, resolve
from repro.campaign.estimate import (
    AROUND,
    BUILT_PER_SECOND,
    PREDICTED,
    RATES,
    START_SECONDS,
    Estimate,
    estimate,
    module_seconds,
)
from repro.campaign.plan import Plan, make_plan
from repro.cli.app import build
from repro.cli.campaign import _size, on_a_cluster
from repro.cli.campaign import plan as plan_command
from repro.codegen.build_cache import compile_module, compile_times, manifest_path
from repro.codegen.targets import CPU, find_gpu, get_gpu, get_target, gpu_models
from repro.config.models import Timing
from repro.errors import ReproError
from repro.sparse.compound.variants import paper_space
from repro.studies import Study, get_study, study_names

pytestmark = pytest.mark.medium

REPOSITORY = Path(__file__).parents[2]
#: How far what is reckoned may be from what was measured.
WITHIN = 0.3
#: Seconds between two rows of one process at the most.
PAUSE = 120


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
    assert needs.modules == (109, 109)


def test_sizes_are_stated_or_built() -> None:
    made = plan(problems=["mhd1280b", "dirac_torus", "helmholtz_box"], precisions=["single"])
    record = Path(made.results, "raw/problems/dirac_torus.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "dirac_torus", "n": 10, "nnz": 50, "status": "ok"}))
    jobs = {job.problem: job for job in estimate(made, CPU).jobs}
    assert (jobs["mhd1280b"].size, jobs["mhd1280b"].size_from) == ((1280, 22778), "stated")
    assert (jobs["dirac_torus"].size, jobs["dirac_torus"].size_from) == ((10, 50), "built")
    assert (jobs["helmholtz_box"].size, jobs["helmholtz_box"].size_from) == ((12075, 168735), "stated")
    # row pointers, and for each non-zero a column and two numbers
    assert jobs["mhd1280b"].operand_bytes == 4 * 1281 + 22778 * (4 + 2 * 4)
    assert jobs["mhd1280b"].variants == 16 * len(paper_space(CPU, rolled=True))


def test_a_record_that_is_none_or_of_an_unavailable_problem_gives_no_size() -> None:
    """The run that is reckoned makes a damaged one again, and must not end because of it."""
    made = plan(problems=["dirac_torus"], precisions=["single"])
    record = Path(made.results, "raw/problems/dirac_torus.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "dirac_torus", "status": "unavailable", "reason": "no mesh"}))
    [job] = estimate(made, CPU).jobs
    assert (job.size, job.size_from) == ((16000, 112000), "stated")
    for text in ("{", "[]", '{"n": 10, "nnz": 50}', '{"name": "dirac_torus", "n": "ten", "nnz": 50}'):
        record.write_text(text)
        [job] = estimate(made, CPU).jobs
        assert (job.size, job.size_from) == ((16000, 112000), "stated")


@pytest.mark.parametrize("cells", [4, 12])
def test_the_size_of_a_mesh_is_guessed_from_the_length_of_its_file(cells: int) -> None:
    mesh = MeshTet.init_tensor(*[np.linspace(0, 1, cells + 1)] * 3)
    for name, kind in (("part.msh", "gmsh"), ("part.vtu", "vtu")):
        meshio.write_points_cells(name, mesh.p.T, [("tetra", mesh.t.T)], file_format=kind)
        [job] = estimate(plan(problems=[{"path": name, "entry": "block3"}], precisions=["double"]), CPU).jobs
        assert job.size_from == "by length"
        assert mesh.p.shape[1] / 4 < job.size[0] < 4 * mesh.p.shape[1]


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
    assert after.modules == (19, 15)
    assert sum(after.compile_seconds) < sum(before.compile_seconds)


@dataclass(frozen=True)
class Recorded:
    """One case of a record: seconds as reckoned, and as its rows say; and whether nobody took turns with it."""

    reckoned: float
    took: float
    alone: bool


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Recorded]]:
    """By study, all its cases on an H200."""
    config = yaml.safe_load((REPOSITORY / "config/h200.yaml").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(REPOSITORY)  # sizes are those of the record
        needs = estimate(make_plan(resolve({**config, "replay": False, "device": "opencl"})), get_target("sm_90"))
    start = RATES["cuda"].start  # before the first row
    by_study: dict[str, list[Recorded]] = {}
    for job in needs.jobs:
        case = times_of_rows(job.study).get((job.problem, job.precision))
        if case is not None:
            by_study.setdefault(job.study, []).append(Recorded(job.seconds - start, *case))
    return by_study


@cache
def times_of_rows(study: str) -> dict[tuple[str, str], tuple[float, bool]]:
    """Return by case the seconds from each of its rows to the next of its device, and whether no other's lie between.

    Where that is minutes, one of the two is of an earlier process (NOTES.md).
    """
    names = ["problem", "precision", "measured_at", "device_uuid"]
    steps = [
        read_rows(REPOSITORY / "results/h200/raw" / study, step).select(names).to_pandas()
        for step in ("search", "baseline", "report")
    ]
    rows = pd.concat(steps).dropna()
    rows["case"] = list(zip(rows.problem, rows.precision, strict=True))
    rows["at"] = pd.to_datetime(rows.measured_at).astype("datetime64[ns, UTC]").astype("int64") / 1e9
    rows = rows.sort_values(["device_uuid", "at"])
    of_device = rows.groupby("device_uuid")
    rows["seconds"] = of_device.at.diff()
    rows["goes_on"] = rows.case == of_device.case.shift()
    took = rows[rows.goes_on & (rows.seconds < PAUSE)].groupby("case").seconds.sum()
    turns = rows[~rows.goes_on].groupby(["case", "device_uuid"]).size().groupby("case").max()
    return {case: (float(seconds), turns[case] == 1) for case, seconds in took.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("study", [name for name in study_names() if get_study(name).result])  # the recorded ones
def test_what_was_recorded_on_an_h200_took_as_long_as_is_reckoned(
    recorded: dict[str, list[Recorded]], study: str
) -> None:
    """Who takes turns with others packs while they measure, so that less time is seen of it than it takes alone."""
    cases = recorded[study]
    assert sum(case.took for case in cases) > 300
    assert sum(case.reckoned for case in cases) > (1 - WITHIN) * sum(case.took for case in cases)
    alone = [case for case in cases if case.alone]
    if len(alone) > len(cases) / 4:
        took = sum(case.took for case in alone)
        assert sum(case.reckoned for case in alone) == pytest.approx(took, rel=WITHIN)


def test_the_default_campaign_takes_as_long_as_is_reckoned() -> None:
    """As `make minutes` measured it on two idle cores of an Intel Xeon."""
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    needs = estimate(make_plan(resolve({**config, "device": "opencl"})), CPU)
    assert needs.seconds(2) == pytest.approx(3 * 60 + 6, rel=WITHIN)


def test_jobs_side_by_side_take_as_long_as_the_longest_at_the_least() -> None:
    made = plan(problems=["mhd1280b"], precisions=["single"])
    needs = estimate(made, CPU)
    measured = sum(job.seconds for job in needs.jobs)
    longest = max(needs.compile_seconds) + max(needs.build_seconds) + max(needs.present_seconds)
    everything = sum(map(sum, (needs.compile_seconds, needs.build_seconds, needs.present_seconds)))
    assert needs.seconds(1) == pytest.approx(AROUND + measured + everything + needs.conclude_seconds)
    assert needs.seconds(10_000) == pytest.approx(AROUND + measured + longest + needs.conclude_seconds)
    assert needs.seconds(1) > needs.seconds(2) >= needs.seconds(10_000)


def test_several_gpus_measure_side_by_side_and_a_search_in_part_tries_less() -> None:
    searched = Path("results/other/raw/compound_spmv/search.parquet")  # to learn from
    searched.parent.mkdir(parents=True)
    searched.touch()
    needs, part, few = (
        estimate(plan(problems="papers", search=search, **budget), get_target("sm_90"))
        for search, budget in (("exhaustive", {}), ("predicted", {}), ("predicted", {"budget": 0.001}))
    )
    beside = needs.seconds(4) - needs.measuring()
    assert needs.seconds(4, 3) == pytest.approx(beside + sum(job.seconds for job in needs.jobs) / 3)
    assert needs.measuring(10_000) == max(job.seconds for job in needs.jobs)
    assert [sum(job.variants for job in one.jobs) for one in (needs, part)] == [26 * 1920] * 2
    assert [sum(job.tried for job in one.jobs) for one in (needs, part, few)] == [26 * 1920, 26 * 38, 26 * 2]
    assert needs.measuring() > part.measuring() > few.measuring() > 26 * (RATES["cuda"].start + PREDICTED)
    assert needs.disk_bytes - part.disk_bytes == 26 * (1920 - 38) * 1500
    assert "on 2, " in on_a_cluster(needs, 4)


def test_what_is_compiled_on_demand_is_in_the_time_of_the_case() -> None:
    ahead, on_demand = (estimate(plan(problems=["mhd1280b"], search="random", compile=how), CPU)
                        for how in ("ahead", "on_demand"))  # fmt: skip
    assert (ahead.modules[0], on_demand.modules[0]) == (37, 1)
    for one, other in zip(ahead.jobs, on_demand.jobs, strict=True):
        assert other.seconds == pytest.approx(one.seconds + RATES["opencl"].on_demand * one.tried)


def test_a_study_that_tries_all_it_has_takes_as_long_by_any_search() -> None:
    def needs(search: str) -> Estimate:
        study = {"problems": ["siac/low_4k_p1"], "search": search}
        return estimate(make_plan(resolve({"device": "opencl", "studies": {"dg_postprocessing": study}})), CPU)

    searched = Path("results/other/raw/dg_postprocessing/search.parquet")  # to learn from
    searched.parent.mkdir(parents=True)
    searched.touch()
    assert needs("exhaustive").jobs == needs("predicted").jobs == needs("random").jobs
    assert needs("random").jobs[0].tried > 1


def test_the_record_of_a_problem_is_read_once_for_all_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(
        "repro.campaign.estimate.read_problem_of",
        lambda folder, name: read.append(folder.record(name)) or read_problem_of(folder, name),
    )
    made = plan(problems=["mhd1280b", "dirac_torus"])
    record = Path(made.results, "raw/problems/mhd1280b.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "mhd1280b", "n": 10, "nnz": 30}))
    assert [job.size_from for job in estimate(made, CPU).jobs].count("built") == 2
    assert len(read) == len(set(read)) == 2


def test_building_takes_longer_with_the_size() -> None:
    small, large = (estimate(plan(problems=[name]), CPU).build_seconds for name in ("mhd1280b", "mono_500Hz"))
    assert large[0] - small[0] == pytest.approx((5_033_796 - 22_778) / BUILT_PER_SECOND)


def test_no_cores_are_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build(["plan"])(["plan", "--cores", "0"])
    assert "--cores" in capsys.readouterr().err


def test_many_cases_have_a_line_for_all_alike(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("device: opencl\nstudies: {compound_spmv: {problems: papers}}\n")
    plan_command([Path("mine.yaml")], cores=2, each=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("compound_spmv")]
    assert [line[1:4] for line in lines] == [
        [entry, precision, str(count)]
        for entry, count in (("complex", 4), ("quaternion", 4), ("block3", 5))
        for precision in ("single", "double")
    ]
    plan_command(None, [Path("mine.yaml")], cores=2, each=True)
    assert "mhd1280b" in capsys.readouterr().out


@pytest.mark.parametrize("each", [True, False])
def test_a_study_that_tells_no_workload_is_named(
    each: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(get_study("compressed_coo")), "workload", Study.workload)
    monkeypatch.setenv("COLUMNS", "160")
    Path("mine.yaml").write_text("device: opencl\nstudies: {compressed_coo: {}, spgemm_amg: {}}\n")
    plan_command([Path("mine.yaml")], cores=1, each=each)
    printed = capsys.readouterr().out
    unknown = {line.split()[-1 if each else 0] for line in printed.splitlines() if " unknown " in line}
    assert "compressed_coo" in unknown and "spgemm_amg" not in unknown
    assert "with one variant a case in compressed_coo, of unknown workload" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("nbytes", "words"), [(999, "999 B"), (1020 * 1024, "0.996 MiB"), (1023 << 20, "0.999 GiB"), (3 << 30, "3 GiB")]
)
def test_a_size_has_three_digits_and_no_exponent(nbytes: int, words: str) -> None:
    assert _size(nbytes) == words


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
        row = rf"^{re.escape(problem)} +\w+ +(single, )?{precision}(, double)? .*\n +.*study: {study}$"
        assert len(re.findall(row, said, re.MULTILINE)) == 1, (study, problem, precision)


def test_in_a_pipe_a_problem_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    Path("mine.yaml").write_text("device: opencl\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")], cores=2)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("helmholtz_hubs ") and line.endswith(" compound_spmv") for line in lines)


def test_what_is_made_takes_no_time() -> None:
    made = plan(problems=["tiny/dirac"], precisions=["double"])
    whole, shown = estimate(made, CPU), estimate(made, CPU, {"tables compound_spmv", "check"})
    assert shown.measuring() == 0 < whole.measuring()
    assert (shown.compile_seconds, shown.build_seconds) == (whole.compile_seconds, ())
    assert 0 < len(shown.present_seconds) < len(whole.present_seconds)
    assert estimate(made, CPU, ()).conclude_seconds == 0 < shown.conclude_seconds


def test_a_plan_says_how_long_rivals_that_hang_take(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    Path("mine.py").write_text("")
    study = {"problems": ["tiny/dirac"], "timing": {"timeout": 90}}
    rivals = [{"name": name, "python": "mine.py:A"} for name in ("one", "two")]
    config = {"device": "opencl", "studies": {"compound_spmv": study}, "rivals": rivals}
    Path("mine.yaml").write_text(yaml.safe_dump(config))
    plan_command([Path("mine.yaml")], cores=2)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("rivals"))
    assert "one, two: not in this time; at most 6 min 0 s more" in line  # two precisions


@pytest.mark.parametrize(
    ("study", "size", "needed"),
    [("compound_spmv", "3 5 0", "a matrix with entries"), ("compressed_coo", "3 5 4", "a square matrix")],
)
def test_a_plan_names_what_is_refused_and_compiles_nothing_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, study: str, size: str, needed: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    files = {"good": "real general\n3 3 4\n", "wide": f"real general\n{size}\n", "odd": "words general\n3 3 4\n"}
    for name, text in files.items():
        Path(f"{name}.mtx").write_text(f"%%MatrixMarket matrix coordinate {text}")

    def planned(*names: str) -> list[str]:
        settings = {"problems": [{"path": f"{name}.mtx"} for name in names], "precisions": ["double"]}
        Path("mine.yaml").write_text(yaml.safe_dump({"device": "opencl", "studies": {study: settings}}))
        plan_command([Path("mine.yaml")], cores=2)
        return capsys.readouterr().out.splitlines()

    alone, lines = planned("good"), planned("good", "wide", "odd")
    refused = [line for line in lines if line.startswith("refused")]
    assert "odd: the file is not a complete Matrix Market file: " in refused[0]
    assert refused[0].endswith("odd.mtx, line 1")
    assert f"wide: 3 × 5, and {study} needs {needed}" in refused[1]
    for kind in ("modules", "variants"):
        assert [line for line in lines if line.startswith(kind)] == [line for line in alone if line.startswith(kind)]
    with pytest.raises(ReproError, match=rf"where: mine.yaml:\d:\d: studies.{study}.problems.0: odd.mtx, line 1"):
        planned("odd")
    with pytest.raises(ReproError, match="no problem is valid"):
        planned("wide")
    assert f"wide: 3 × 5, and {study} needs {needed}" in capsys.readouterr().out


def test_a_plan_takes_a_rectangular_matrix_for_products(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    Path("wide.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 5 4\n")
    study = {"problems": [{"path": "wide.mtx"}], "precisions": ["double"]}
    Path("mine.yaml").write_text(yaml.safe_dump({"device": "opencl", "studies": {"compound_spmv": study}}))
    plan_command([Path("mine.yaml")], cores=2)
    assert "refused" not in capsys.readouterr().out


def test_compiling_our_space_on_a_cpu_is_most_of_the_time_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for space in ("paper", "extended"):
        study = f"{{problems: [dirac_torus], precisions: [double], space: {space}}}"
        Path("mine.yaml").write_text(f"device: opencl\nstudies: {{compound_spmv: {study}}}\n")
        plan_command([Path("mine.yaml")], cores=1)
        said[space] = " ".join(capsys.readouterr().out.split())
    assert "compiles, most of it `space: extended`" in said["extended"] and "compiles, most" not in said["paper"]
    # as many steps as Snakemake counts: a problem, groups of modules and common ones, a case, two kinds of artifacts,
    # report, check and all
    assert "steps 10: 1 build, 3 compile, 1 measure, 5 show and check" in said["paper"]
    assert "steps 13: 1 build, 6 compile, 1 measure, 5 show and check" in said["extended"]


def test_modules_take_as_long_as_those_that_were_compiled_here() -> None:
    made = plan(problems=["dirac_torus"], precisions=["double"], space="extended")
    reckoned = estimate(made, CPU)
    assert not reckoned.compile_times.measured
    # as if the papers' modules had taken three times as long here as by the rates
    group = next(group for group in made.module_groups if group.name == "paper/quaternion-double")
    path = Path(made.manifests_of(group.study, group.keys)[0]).parent / "objects/seconds.txt"
    path.parent.mkdir(parents=True)
    pair = f"0a {3.5 * RATES['opencl'].compile}\n0b {2.5 * RATES['opencl'].compile}\n"
    path.write_text(pair)
    few = estimate(made, CPU)
    assert few.compile_times.measured == 2
    assert 1 < few.compile_times.pace < 1.2  # little is known of other modules then
    path.write_text(5000 * pair)
    again = estimate(made, CPU)
    assert again.compile_times.measured == 10_000
    assert again.compile_times.pace == pytest.approx(3, rel=0.02)
    work, again_work = (
        sum(needs.compile_seconds) - START_SECONDS * len(needs.compile_seconds) for needs in (reckoned, again)
    )
    assert again_work == pytest.approx(3 * work, rel=0.02)
    path.write_text("0a\n")  # as a full disk may leave it
    assert estimate(made, CPU).compile_seconds == reckoned.compile_seconds


def test_a_compilation_is_timed_once(tmp_path: Path) -> None:
    manifest = manifest_path("cpu", "compound_spmv", "paper/complex-double/ELL-SoA-AoS", tmp_path)
    for _ in range(2):
        compile_module("kernel void nothing() {}", CPU, manifest)
    [seconds] = compile_times("cpu", tmp_path)["compound_spmv", "paper/complex-double"]
    assert 0 <= seconds < 100


def test_a_module_of_our_space_takes_as_long_as_it_has_kernels() -> None:
    made = plan(problems=["dirac_torus"], precisions=["double"], space="extended")
    seconds = {group.name: sum(module_seconds(group.study, key, "opencl") for key in group.keys)
               for group in made.module_groups}  # fmt: skip
    assert seconds["extended/quaternion-double"] > 5 * seconds["paper/quaternion-double"]
    groups = estimate(made, CPU).compile_seconds
    assert sum(groups) == pytest.approx(sum(seconds.values()) + 6 * START_SECONDS + RATES["opencl"].compile)


def test_a_replay_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results/default/raw").mkdir(parents=True)
    Path("mine.yaml").write_text("replay: true\n")
    plan_command([Path("config/config.yaml"), Path("mine.yaml")])
    assert "nothing is measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("Tesla V100-SXM2-16GB", "V100 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3070", "RTX 3070"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce GTX TITAN", "GTX Titan"),
        ("NVIDIA GeForce RTX 3070 Ti", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce GTX TITAN X", None),
    ],
)
def test_a_model_is_found_by_the_name_that_its_driver_gives(driver: str, name: str | None) -> None:
    model = find_gpu(driver)
    assert (model.name if model else None) == name


def test_a_model_is_found_by_its_own_name_and_none_by_another() -> None:
    assert [get_gpu(model.name) for model in gpu_models()] == [*gpu_models()]
    with pytest.raises(ReproError, match="unknown GPU"):
        get_gpu("Riva 128")


def test_memory_or_arithmetic_limits_another_gpu() -> None:
    assert get_gpu("H200").slowdown() == get_gpu("H200").slowdown(20) == 1
    assert get_gpu("A100 80GB").slowdown() == pytest.approx(4800 / 2039)
    assert get_gpu("RTX 3070").slowdown() == pytest.approx(4800 / 448)
    assert get_gpu("RTX 3070").slowdown(20) == pytest.approx(33.5 / 0.317)
    assert Timing(timeout=20).on(2.5).timeout == 50
    assert Timing(timeout=20).on(0.5).timeout == 20


def plan_for(name: str, **studies: Any) -> Plan:
    return make_plan(resolve({"device": "opencl", "studies": studies}), gpu=get_gpu(name))


def test_a_plan_for_a_slower_gpu_takes_longer() -> None:
    studies = {"compound_spmv": {"problems": ["mono_500Hz"]}, "dg_postprocessing": {"problems": ["siac/low_4k_p1"]}}
    plans = [plan_for(name, **studies) for name in ("H200", "A100 80GB", "T4")]
    assert [(made.device, made.target_name) for made in plans] == [
        ("cuda:0", "sm_90"),
        ("cuda:0", "sm_80"),
        ("cuda:0", "sm_75"),
    ]
    seconds = [[job.seconds for job in estimate(made, get_target("sm_90")).jobs] for made in plans]
    for first, second in pairwise(seconds):
        assert all(one < other for one, other in zip(first, second, strict=True))
    start = 2 * RATES["cuda"].start  # of the case, and of its winner's repetition
    assert seconds[2][-1] - start > 30 * (seconds[0][-1] - start)  # filtering is limited by arithmetic


def test_memory_is_that_of_recorded_rows_and_is_held_against_the_cards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    study = {"problems": ["poisson/27pt_128"], "precisions": ["double"]}
    unknown = estimate(plan_for("RTX 3070", spgemm_amg=study), get_target("sm_86"))
    Path("results").symlink_to(REPOSITORY / "results")
    rows = read_rows(REPOSITORY / "results/h200/raw/spgemm_amg", "report").to_pandas()
    most = rows[rows.problem == "poisson/27pt_128"].peak_bytes.max()
    needs = estimate(plan_for("RTX 3070", spgemm_amg=study), get_target("sm_86"))
    assert needs.device_bytes > most > 50e9
    assert needs.device_bytes == pytest.approx(unknown.device_bytes, rel=WITHIN)
    assert [job.problem for job in needs.unfit(get_gpu("RTX 3070"))] == ["poisson/27pt_128"]
    assert not needs.unfit(get_gpu("H200"))
    Path("mine.yaml").write_text("studies: {spgemm_amg: {problems: [poisson/27pt_128], precisions: [double]}}\n")
    plan_command([Path("mine.yaml")], cores=2, gpu="RTX 3070")
    said = capsys.readouterr().out
    assert "on a stated RTX 3070 (sm_86)" in said
    assert "the RTX 3070 has 8 GiB" in said
    assert re.search(r"will not fit, of spgemm_amg: .* poisson/27pt_128 in double", said)
    assert "takes 10.7 times as long as on an H200, time-out 643 s" in said
    plan_command([Path("mine.yaml")], cores=2, gpu="H200")
    assert "will not fit" not in capsys.readouterr().out
