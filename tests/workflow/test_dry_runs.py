"""The jobs that Snakemake plans and the configurations that it refuses, without running anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial

import pytest
import yaml

from repro.campaign.configuration import load
from support.checkouts import REPOSITORY, Checkout, Said, count_compile

pytestmark = [pytest.mark.workflow, pytest.mark.medium]


#: Messages that tests of the configuration and of the plan ask for as well: here each starts Snakemake once more.
EXHAUSTIVE = partial(pytest.param, marks=pytest.mark.exhaustive)


@pytest.fixture(scope="module")
def planned(checkout: Checkout) -> Callable[..., Said]:
    """Dry runs of all that a configuration asks for, each made once."""
    return cache(lambda *words: checkout.snakemake("--dry-run", "all", *words))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "problems", "scalar", "entries", "graphs", "poisson", "fields"),
    [
        (["--config", "batch=1"], 4, 3, 3, 3, 4, 3),
        (["--configfile", "config/paper.yaml"], 13, 0, 3, 0, 0, 0),
        (["--configfile", "config/mirror.yaml"], 7, 6, 3, 0, 0, 0),
    ],
)
def test_every_job_is_planned(
    words: list[str],
    problems: int,
    scalar: int,
    entries: int,
    graphs: int,
    poisson: int,
    fields: int,
    planned: Callable[..., Said],
) -> None:
    """The first study runs in both precisions, the second, on scalar problems, and the others in double precision."""
    said = planned(*words)
    assert said.code == 0, said.text
    jobs = said.jobs
    assert jobs["problem"] == problems + scalar + graphs + poisson + fields
    assert jobs["measure_compound_spmv"] == 2 * problems
    assert jobs.get("measure_compressed_coo", 0) == scalar
    assert jobs.get("measure_dynamic_csr", 0) == graphs
    assert jobs.get("measure_spgemm_amg", 0) == poisson
    assert jobs.get("measure_dg_postprocessing", 0) == fields
    # products and packing of each entry in both precisions; the second study's products, and its solver
    assert count_compile(jobs) == 4 * entries + 2 * bool(scalar)
    assert jobs.get("compile_compressed_coo_solvers", 0) == bool(scalar)
    assert jobs["compile_common"] == jobs["report"] == jobs["check"] == 1
    assert jobs["tables_compound_spmv"] == jobs["figures_compound_spmv"] == 1


@pytest.mark.exhaustive
def test_a_given_file_stands_alone_and_keys_of_the_line_lie_over_it(checkout: Checkout) -> None:
    """As for `repro plan`: a study that the file does not name is not run, though the default file names both."""
    (checkout.folder / "mine.yaml").write_text(
        "campaign: mine\ndevice: opencl\nstudies: {compound_spmv: {problems: tiny}}\n"
    )
    (checkout.folder / "over.yaml").write_text("seed: 3\nstudies: {compound_spmv: {precisions: [double]}}\n")
    for files, runs in ((["mine.yaml"], 8), (["mine.yaml", "over.yaml"], 4)):
        words = ["--configfile", *files, "--config", "campaign=x", "device=opencl"]
        said = checkout.snakemake("--dry-run", "all", *words)
        assert said.code == 0, said.text
        assert said.jobs["measure_compound_spmv"] == runs
        assert not [job for job in said.jobs if "compressed_coo" in job]
    assert checkout.snakemake("results/x/problems/tiny/dirac.npz", *words).code == 0  # a run writes what it is of
    planned = yaml.safe_load((checkout.folder / "results/x/config.yaml").read_text())
    assert (planned["campaign"], planned["seed"], [*planned["studies"]]) == ("x", 3, ["compound_spmv"])
    merged = load(*(checkout.folder / file for file in files)).model_copy(update={"campaign": "x"})
    assert planned == merged.model_copy(update={"device": "opencl:0"}).model_dump(mode="json")


@pytest.mark.exhaustive
def test_keys_of_the_line_lie_over_the_default_file(checkout: Checkout) -> None:
    words = ["--config", "campaign=y", "device=opencl", "seed=3"]
    said = checkout.snakemake("results/y/problems/dirac_torus.npz", *words)
    assert said.code == 0, said.text
    planned = yaml.safe_load((checkout.folder / "results/y/config.yaml").read_text())
    assert planned["seed"] == 3
    assert {"compound_spmv", "compressed_coo"} <= set(planned["studies"])


@pytest.mark.exhaustive
def test_a_file_beside_the_configuration_is_found_from_another_folder(checkout: Checkout) -> None:
    matrix = checkout.folder / "beside/matrices/two.mtx"
    matrix.parent.mkdir(parents=True)
    matrix.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n2 2 2.0\n")
    settings = "problems: [{path: matrices/two.mtx}], precisions: [double], artifacts: [table-problems]"
    (matrix.parents[1] / "mine.yaml").write_text(f"studies: {{compound_spmv: {{{settings}}}}}\n")
    words = ["--dry-run", "all", "--configfile", "beside/mine.yaml", "--config", "device=opencl"]
    said = checkout.snakemake(*words)
    assert said.code == 0, said.text
    assert said.jobs["measure_compound_spmv"] == 1
    matrix.unlink()
    said = checkout.snakemake(*words)
    assert said.code == 1
    folder = checkout.folder.resolve()
    assert f"there is no {matrix.resolve()} and no {folder}/matrices/two.mtx" in said.text
    assert "Traceback" not in said.text


def test_a_set_that_a_query_has_still_to_make_is_one_message(checkout: Checkout) -> None:
    said = checkout.snakemake("--dry-run", "all", "--configfile", "config/paper_coo.yaml")
    assert said.code == 1
    assert "repro resolve coo_papers" in said.text
    assert "Traceback" not in said.text


def test_the_paper_names_its_thirteen_problems(planned: Callable[..., Said]) -> None:
    said = planned("--configfile", "config/paper.yaml")
    for name in ("mhd1280b", "mono_500Hz", "surfaces/buddha", "fem/NX_MotorH67k"):
        assert f"Building {name}\n" in said.text


@pytest.mark.exhaustive
def test_one_table_can_be_asked_for(checkout: Checkout) -> None:
    said = checkout.snakemake("--dry-run", "results/default/tables/compound_spmv/table-9.csv")
    assert said.code == 0, said.text
    assert said.jobs["tables_compound_spmv"] == 1
    assert "figures_compound_spmv" not in said.jobs


@pytest.mark.exhaustive
def test_a_replay_makes_every_artifact_again_where_only_some_formats_are_kept(checkout: Checkout) -> None:
    made = shutil.ignore_patterns("*.tex", "*.pdf", "*.png", "*.html", "receipts", "configs")  # not in a fresh clone
    for folder in ("results/h200", "results/h200-as-published", "results/h200-products", "figures/h200"):
        shutil.copytree(REPOSITORY / folder, checkout.folder / folder, ignore=made)
    said = checkout.snakemake("--dry-run", "all", "--configfile", "config/h200.yaml")
    assert said.code == 0, said.text
    studies = ("compound_spmv", "compressed_coo", "dg_postprocessing", "dynamic_csr", "spgemm_amg")
    assert {job: said.jobs[job] for job in said.jobs if job.startswith(("tables", "figures"))} == {
        f"{kind}_{study}": 1 for kind in ("tables", "figures") for study in studies
    }
    assert said.jobs["report"] == 1


def test_the_profile_is_loaded_by_itself(planned: Callable[..., Said]) -> None:
    said = planned()
    assert "profile profiles/default" in said.text
    assert "unlock" not in said.text


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("named", "what"),
    [
        ("no-such.yaml", "no such configuration file"),
        ("config", "no configuration file"),
        ("config/gpus.csv", "not fit"),
    ],
)
def test_a_configuration_that_cannot_be_read_ends_in_one_message(checkout: Checkout, named: str, what: str) -> None:
    said = checkout.snakemake("--dry-run", "all", "--configfile", "config/demo.yaml", named)
    assert said.code == 1
    assert what in said.text and f"where: {named}" in said.text
    assert "Traceback" not in said.text


def dry_run_after(checkout: Checkout, changes: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `snakemake --dry-run all` in a process that first executes the Python code `changes`."""
    command = ["snakemake", "--dry-run", *words, "all"]
    code = f"import sys\n{changes}\nfrom snakemake.cli import main\nsys.argv = {command}\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.folder, env=checkout.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


#: Prints what is asked for by each job as it would be submitted.
PRINTED = """
from snakemake.jobs import Job
said = Job.log_info
def log_info(job, *words, **more):
    print("ASKED", job.rule.name, job.resources.get("_cores"), *(job.resources.get(name) for name in NAMES))
    said(job, *words, **more)
Job.log_info = log_info
NAMES = ("gpu", "runtime", "mem_mb", "slurm_extra")
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("device", "gpus", "batch"), [("cuda", 1, 1), ("cuda:0,1", 2, 2), ("opencl", 0, 2)])
def test_jobs_ask_for_gpus_time_and_memory(
    device: str, gpus: int, batch: int, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a login node, which has no GPU and knows which those of the cluster are."""
    gpu = {"name": "NVIDIA H100", "capability": "sm_90"}
    listed = [{"ordinal": number, "uuid": f"GPU-{number}", **gpu} for number in range(2)]
    (checkout.folder / "gpus.json").write_text(json.dumps({"driver": "570.1", "gpus": listed}))
    monkeypatch.setenv("REPRO_GPUS", str(checkout.folder / "gpus.json"))
    # without the profile for one machine, which has one GPU
    words = (
        "--config",
        f"device={device}",
        f"batch={batch}",
        "campaign=asked",
        "--workflow-profile",
        "none",
        "--cores",
        "4",
    )
    done = dry_run_after(checkout, PRINTED, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ASKED")]
    assert {rule.partition("_")[0] for rule, *_ in jobs} >= {"problem", "compile", "measure", "tables", "report"}
    assert any(rule == "problem_batch" for rule, *_ in jobs) == (batch > 1)
    assert any(rule.startswith("measure_batch") for rule, *_ in jobs) == (batch > 1)
    for rule, cores, asked, minutes, megabytes, extra in jobs:
        if rule == "all":  # it runs nothing
            continue
        assert int(minutes) >= 10
        assert int(megabytes) >= 2000
        measures = rule.startswith("measure")
        assert asked == (str(gpus) if measures else "None")
        assert extra == ("--exclusive" if measures and not gpus else "None")
        compiles = rule.startswith("compile") and rule != "compile_common"
        assert int(cores) == (4 if (compiles and gpus) or (measures and not gpus) else 1)


@pytest.mark.exhaustive
def test_the_rules_call_the_repro_of_the_python_that_runs_snakemake(checkout: Checkout) -> None:
    """With a space in its path; no environment is on PATH."""
    done = dry_run_after(checkout, "sys.executable = '/my environments/bin/python'", "--printshellcmds")
    assert done.returncode == 0, done.stdout + done.stderr
    assert called(done.stdout + done.stderr) == {"'/my environments/bin/python' -P -m repro"}


def called(text: str) -> set[str]:
    """Return what stands before the subcommands in the shell commands that Snakemake prints."""
    return set(
        re.findall(r"^Shell command: +(.*repro) (?:table|figure|measure|compile|problem|report|check) ", text, re.M)
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("bogus=1", "bogus\n.*\n.*unknown key"),
        ("device=cuda", "no such GPU"),
        ("seed=0_1", "seed\n.*a whole number\n.*'0_1'"),
        EXHAUSTIVE("studies={compound_spmv: {problems: surfaces/buny}}", "unknown problem"),
        EXHAUSTIVE("studies={compound_smpv: {}}", "unknown study"),
        EXHAUSTIVE("replay=true", "no such recorded campaign"),
    ],
)
def test_a_bad_configuration_is_one_message(key: str, message: str, checkout: Checkout) -> None:
    said = checkout.snakemake("all", "--config", key, "campaign=bad")
    assert said.code == 1
    assert re.search(rf"error: .*{message}|error: .*(\n.*)*{message}", said.text)
    assert "Traceback" not in said.text
    assert not (checkout.folder / "results/bad").exists()


def test_unreadable_yaml_is_one_message(checkout: Checkout) -> None:
    (checkout.folder / "broken.yaml").write_text("campaign: [bad\nseed: 1\n")
    said = checkout.snakemake("all", "--configfile", "broken.yaml")
    assert said.code == 1
    assert "unreadable YAML" in said.text
    assert "Traceback" not in said.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("campaign: bad\ncampaign: worse\nstudies: {compound_spmv: {}}\n", "there twice, in lines 1 and 2"),
        EXHAUSTIVE("campaign: bad\n", "names no study to run"),
        EXHAUSTIVE("campaign: bad\ndevice: opencl:7\nstudies: {compound_spmv: {}}\n", "no such OpenCL device"),
        EXHAUSTIVE(
            "campaign: bad\nstudies: {compound_spmv: {problems: [{path: a.mtx, name: " + 20 * "a" + "}]}}\n",
            "not a name",
        ),
    ],
)
def test_what_snakemake_lets_pass_in_a_file_is_one_message(text: str, message: str, checkout: Checkout) -> None:
    (checkout.folder / "bad.yaml").write_text(text)
    said = checkout.snakemake("--dry-run", "all", "--configfile", "bad.yaml")
    assert said.code == 1
    assert message in said.text
    assert "Traceback" not in said.text
    assert not (checkout.folder / "results/bad").exists()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("interruptible")
def test_an_interruption_while_the_plan_is_made_is_a_word(checkout: Checkout) -> None:
    done = dry_run_after(
        checkout,
        "import signal\n"
        "import repro.campaign.plan as planning\n"
        "planning.make_plan = lambda config: signal.raise_signal(signal.SIGINT)",  # in this thread, before it returns
    )
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.sampled(1)
@pytest.mark.parametrize("obstacle", ["a file", "read-only"])
def test_results_that_cannot_be_written_are_one_message(
    obstacle: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checkout = Checkout(tmp_path_factory.mktemp("full"))
    results = checkout.folder / "results"
    if obstacle == "a file":
        results.write_text("in the way")
    else:
        results.symlink_to("/sys")  # where not even root can make a folder
    said = checkout.snakemake("all")
    assert said.code == 1
    assert "cannot write to the folder of results" in said.text
    assert "Traceback" not in said.text
