"""Whole campaigns on the CPU: complete, repeated, edited, replayed, with something missing, and killed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from repro.results.registry import get_artifact
from repro.studies import load_artifacts
from support.checkouts import QUICK, Checkout, count_compile, wait_for_rows
from support.snakemake_report import write_report

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

PROBLEMS = ["tiny/dirac", "tiny/elasticity"]
ARTIFACTS = ["table-1", "table-7", "figure-3"]
OCTAHEDRON = """ply
format ascii 1.0
element vertex 6
property float x
property float y
property float z
element face 8
property list uchar int vertex_indices
end_header
1 0 0
-1 0 0
0 1 0
0 -1 0
0 0 1
0 0 -1
3 0 2 4
3 2 1 4
3 1 3 4
3 3 0 4
3 2 0 5
3 1 2 5
3 3 1 5
3 0 3 5
"""


@pytest.fixture(scope="module")
def config(checkout: Checkout) -> str:
    """A complete campaign on two small problems of different entries; its configuration."""
    config = checkout.configure("tiny", {"problems": PROBLEMS, "artifacts": ARTIFACTS})
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    assert said.jobs["measure_compound_spmv"] == said.jobs["problem"] == len(PROBLEMS)
    assert "report   results/tiny/report.html" in said.text
    assert "tables   results/tiny/tables" in said.text
    assert "figures  figures/tiny" in said.text
    return config


def test_everything_asked_for_is_there(checkout: Checkout, config: str) -> None:
    tables, figures = (checkout.folder / kind / "compound_spmv" for kind in ("results/tiny/tables", "figures/tiny"))
    made = {path.name for folder in (tables, figures) for path in folder.iterdir() if path.stat().st_size > 0}
    assert made == {
        *(f"{name}.{suffix}" for name in ("table-1", "table-7") for suffix in ("csv", "tex")),
        *(f"figure-3.{suffix}" for suffix in ("pdf", "svg", "png", "tex")),
    }
    assert "tiny/dirac" in (checkout.folder / "results/tiny/report.html").read_text()


def test_logs_are_plain_lines(checkout: Checkout, config: str) -> None:
    log = (checkout.folder / "logs/tiny/measure/compound_spmv/tiny/dirac/double.log").read_text()
    assert "screening" in log
    assert "\x1b" not in log


def test_again_there_is_nothing_to_do(checkout: Checkout, config: str) -> None:
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [["--report", "made.html"], ["--summary"], ["--rulegraph"]])
def test_where_nothing_is_made_no_number_of_cores_is_asked_for(
    words: list[str], checkout: Checkout, config: str
) -> None:
    said = checkout.snakemake(*words, "--configfile", config, cores=False)
    assert said.code == 0, said.text
    if "--report" in words:
        page = (checkout.folder / "made.html").read_text()
        assert "tables_compound_spmv" in page
        assert "measure_compound_spmv" in page


def test_an_edited_template_is_compiled_and_measured_again(checkout: Checkout, config: str) -> None:
    template = next((checkout.folder / "kernels/sparse/compound").glob("*.j2"))
    kept, times = template.read_bytes(), template.stat()
    try:
        template.write_bytes(kept + b"\n// edited\n")
        # nor where nothing is run
        jobs = checkout.snakemake("--dry-run", "all", "--configfile", config, cores=False).jobs
    finally:
        template.write_bytes(kept)
        os.utime(template, ns=(times.st_atime_ns, times.st_mtime_ns))
    # the products of each, and what packs its matrix
    assert count_compile(jobs) == 2 * len(PROBLEMS) == 2 * jobs["measure_compound_spmv"]
    assert "problem" not in jobs


@pytest.mark.exhaustive
def test_a_plan_that_is_only_looked_at_changes_nothing(checkout: Checkout, config: str) -> None:
    """Not even beside it: with another seed, as somebody may ask while a campaign runs."""

    def everything() -> dict[str, int]:
        folders = [checkout.folder / name for name in ("results/tiny", "figures/tiny", "modules")]
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path): path.stat().st_mtime_ns for path in files}

    before = everything()
    said = checkout.snakemake("--dry-run", "all", "--configfile", config, "--config", "seed=7")
    assert "seed differs: 1 → 7" in said.text
    assert said.jobs["problem"] == said.jobs["measure_compound_spmv"] == len(PROBLEMS)
    assert everything() == before


@pytest.mark.exhaustive
def test_an_edit_of_our_own_code_measures_again(checkout: Checkout, config: str) -> None:
    for source in ("bench/timing.py", "sparse/compound/packing.py"):
        path = checkout.folder / "src/repro" / source
        kept = path.read_bytes()
        try:
            path.write_bytes(kept + b"\n# edited\n")
            os.utime(path, (1, 1))  # older than all that was made by it
            jobs = checkout.snakemake("--dry-run", "all", "--configfile", config).jobs
        finally:
            path.write_bytes(kept)
        assert jobs["measure_compound_spmv"] == len(PROBLEMS), source
    assert checkout.snakemake("--dry-run", "all", "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
def test_compiler_flags_of_the_environment_compile_again(
    checkout: Checkout, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-mad-enable")
    jobs = checkout.snakemake("--dry-run", "all", "--configfile", config).jobs
    assert count_compile(jobs) == 2 * len(PROBLEMS) == 2 * jobs["measure_compound_spmv"]


@pytest.mark.exhaustive
def test_after_a_clean_what_is_made_again_is_what_was_there(checkout: Checkout, config: str) -> None:
    """Without metadata of Snakemake and without modules another seed is seen, and no row is measured a second time."""
    table = checkout.folder / "results/tiny/tables/compound_spmv/table-7.csv"
    before = table.read_text()
    for folder in (".snakemake", "modules", "logs"):
        shutil.rmtree(checkout.folder / folder)
    jobs = checkout.snakemake("--dry-run", "all", "--configfile", config, "--config", "seed=7").jobs
    assert jobs["problem"] == jobs["measure_compound_spmv"] == len(PROBLEMS)
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    assert "problem" not in said.jobs
    assert table.read_text() == before
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
def test_damaged_files_of_rows_are_made_again(checkout: Checkout, config: str) -> None:
    """One that is cut off, and one that is another problem's."""
    raw = checkout.folder / "results/tiny/raw/compound_spmv/tiny"
    cut, swapped = raw / "dirac/double/report.parquet", raw / "elasticity/double/report.parquet"
    kept = {path: pq.read_table(path) for path in (cut, swapped)}
    swapped.write_bytes(cut.read_bytes())
    cut.write_bytes(cut.read_bytes()[:-10])
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    assert said.jobs["measure_compound_spmv"] == len(kept)
    for path, rows in kept.items():
        assert pq.read_table(path).equals(rows), path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seconds", [0, 230 * 365 * 24 * 3600], ids=["1970", "2200"])
def test_a_damaged_file_is_seen_whatever_time_it_has(seconds: int, checkout: Checkout, config: str) -> None:
    results = checkout.folder / "results/tiny"
    table = results / "tables/compound_spmv/table-1.csv"
    kept = table.read_bytes()
    table.write_bytes(kept[:-10])
    for path in results.rglob("*.*"):
        os.utime(path, (seconds, seconds))
    said = checkout.snakemake("--dry-run", "all", "--configfile", config)
    table.write_bytes(kept)
    assert said.jobs == {"tables_compound_spmv": 1, "check": 1, "all": 1, "total": 3}


@pytest.mark.exhaustive
def test_what_is_deleted_is_made_again_at_the_first_run(checkout: Checkout, config: str) -> None:
    """Where all else is dated later than anything that is made now."""
    results, figures = checkout.folder / "results/tiny", checkout.folder / "figures/tiny"
    tables = results / "tables/compound_spmv"
    before = {path: path.read_bytes() for folder in (tables, figures) for path in folder.rglob("*.*")}
    ahead = time.time() + 10 * 365 * 24 * 3600
    for path in [*results.rglob("*"), *(checkout.folder / "modules").rglob("*")]:
        if path.is_file():
            os.utime(path, (ahead, ahead))
    (tables / "table-1.csv").unlink()
    shutil.rmtree(figures)
    (results / "receipts/compound_spmv/tiny/dirac/double.json").unlink()
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    made = {"measure_compound_spmv", "tables_compound_spmv", "figures_compound_spmv", "report", "check", "all", "total"}
    assert set(said.jobs) == made
    assert said.jobs["measure_compound_spmv"] == 1
    assert {path: path.read_bytes() for path in before} == before
    assert checkout.snakemake("--dry-run", "all", "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
def test_a_second_run_in_the_folder_is_refused(checkout: Checkout, config: str) -> None:
    with (checkout.folder / "results/.run.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = checkout.snakemake("all", "--configfile", config, "--config", "seed=7")
    assert said.code == 1
    assert "another run is active in this folder" in said.text
    assert "Traceback" not in said.text
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
@pytest.mark.parametrize(("words", "woken"), [([], False), (["--max-jobs-per-timespan", "50/1s"], True)])
def test_the_scheduler_wakes_itself_for_a_limit_that_was_asked_for_alone(
    words: list[str], woken: bool, checkout: Checkout
) -> None:
    name = f"woken{len(words)}"
    config = checkout.configure(name, {"problems": PROBLEMS, "artifacts": ["table-1"]})
    wanted = [f"results/{name}/problems/{problem}.npz" for problem in PROBLEMS]
    command = ["snakemake", "--cores", "1", *wanted, "--configfile", config, *words]
    code = (
        "import sys\nfrom snakemake.cli import main\nfrom snakemake.scheduling.job_scheduler import JobScheduler\n"
        "JobScheduler._schedule_reevalutation = lambda self, delay: print('WOKEN')\n"
        f"sys.argv = {command}\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout.folder, env=checkout.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((checkout.folder / path).exists() for path in wanted)
    assert ("WOKEN" in done.stdout) == woken


@pytest.mark.exhaustive
def test_other_timing_compiles_and_builds_nothing(checkout: Checkout) -> None:
    config = checkout.configure("tiny", {"problems": PROBLEMS, "artifacts": ARTIFACTS, "timing": QUICK | {"rounds": 3}})
    jobs = checkout.snakemake("--dry-run", "all", "--configfile", config).jobs
    assert jobs["measure_compound_spmv"] == len(PROBLEMS)
    assert not {"compile_common", "problem"} & set(jobs)
    assert count_compile(jobs) == 0
    checkout.configure("tiny", {"problems": PROBLEMS, "artifacts": ARTIFACTS})


@pytest.mark.exhaustive
def test_one_more_artifact_is_all_that_is_made(checkout: Checkout) -> None:
    config = checkout.configure("tiny", {"problems": PROBLEMS, "artifacts": [*ARTIFACTS, "figure-4"]})
    jobs = checkout.snakemake("--dry-run", "all", "--configfile", config).jobs
    assert jobs == {"figures_compound_spmv": 1, "report": 1, "check": 1, "all": 1, "total": 4}
    checkout.configure("tiny", {"problems": PROBLEMS, "artifacts": ARTIFACTS})


def test_a_replay_makes_the_same_from_the_raw_results_alone(checkout: Checkout, config: str) -> None:
    table = checkout.folder / "results/tiny/tables/compound_spmv/table-7.csv"
    before = table.read_text()
    table.unlink()
    modules = checkout.folder / "modules"
    modules.rename(checkout.folder / "modules.away")
    try:
        said = checkout.snakemake("all", "--configfile", config, "--config", "replay=true")
    finally:
        (checkout.folder / "modules.away").rename(modules)
    assert said.code == 0, said.text
    assert not set(said.jobs) - {"tables_compound_spmv", "figures_compound_spmv", "report", "all", "total"}
    assert table.read_text() == before


@pytest.mark.exhaustive
def test_what_cannot_be_had_is_said_and_tried_again(checkout: Checkout) -> None:
    """All else is made; put there by hand, the missing file is all that is added."""
    (checkout.folder / "registry.yaml").write_text(
        "problems:\n"
        "  - {name: here, source: generated, entry: quaternion, kind: dirac_torus,"
        " parameters: {rings: 6, segments: 5}, sets: [both]}\n"
        "  - {name: away, source: stanford, entry: quaternion, model: away, sets: [both],"
        " urls: ['http://127.0.0.1:9/away.ply']}\n"
    )
    config = checkout.configure(
        "missing",
        {"problems": "both", "artifacts": ["table-1"]},
        registry="registry.yaml",
        fetch={"cache": "cache", "timeout": 1, "retries": 0},
    )
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 1
    assert said.text.count("problem away: ") == 1
    assert "http://127.0.0.1:9/away.ply" in said.text
    assert "stanford/away" in said.text
    assert "here" in (checkout.folder / "results/missing/tables/compound_spmv/table-1.csv").read_text()
    report = (checkout.folder / "results/missing/report.html").read_text()
    assert "away" in report

    by_hand = checkout.folder / "cache/stanford/away.ply"
    by_hand.parent.mkdir(parents=True, exist_ok=True)
    by_hand.write_text(OCTAHEDRON)
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    assert said.jobs["problem"] == said.jobs["measure_compound_spmv"] == 1
    assert checkout.snakemake("all", "--configfile", config).nothing_to_do


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_interrupted_says_so_and_goes_on_later(
    checkout: Checkout, number: signal.Signals, code: int
) -> None:
    """As a terminal sends Ctrl-C, to all processes; neither Snakemake's traceback nor another exit code follow."""
    name = f"interrupted-{code}"
    slow = {"screen_launches": 3000, "cpu_budget": 0.02}
    study = {"problems": ["tiny/elasticity"], "artifacts": ["table-1"], "timing": QUICK | slow}
    config = checkout.configure(name, study)
    store = checkout.folder / f"results/{name}/store/compound_spmv/tiny/elasticity/double/rows.jsonl"
    with (checkout.folder / name).open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "repro", "run", config, "--cores", "2"],
            cwd=checkout.folder,
            env=checkout.environment,
            start_new_session=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        wait_for_rows(store, process, 2, 200)
        os.killpg(process.pid, number)
        assert process.wait(200) == code
        output.seek(0)
        text = output.read()
    word = "Interrupted." if number == signal.SIGINT else "Terminated."
    assert f"{word} The same command goes on from here." in text
    assert "WorkflowError" not in text and "Traceback" not in text, text


@pytest.mark.exhaustive
def test_a_killed_run_goes_on_where_it_was(checkout: Checkout) -> None:
    name = "killed"
    slow = {"screen_launches": 3000, "cpu_budget": 0.02}  # a variant is screened for so many seconds
    study = {"problems": ["tiny/elasticity"], "artifacts": ["table-1"], "timing": QUICK | slow}
    config = checkout.configure(name, study)
    store = checkout.folder / f"results/{name}/store/compound_spmv/tiny/elasticity/double/rows.jsonl"
    process = subprocess.Popen(
        checkout.command("all", "--configfile", config),
        cwd=checkout.folder,
        env=checkout.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rows = wait_for_rows(store, process, 4, 90)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    raw = checkout.folder / f"results/{name}/raw/compound_spmv/tiny/elasticity/double"
    assert not (raw / "search.parquet").exists()

    target = f"{raw.relative_to(checkout.folder)}/choices.parquet"
    said = checkout.snakemake(target, "--configfile", config)
    assert said.code == 0, said.text
    assert not re.search(r"\block", said.text.lower())
    lines = store.read_text().splitlines()
    assert lines[: len(rows)] == rows
    keys = [json.loads(line)["key"] for line in lines]
    assert len(keys) == len(set(keys)), "a row was measured twice"
    assert checkout.snakemake(target, "--configfile", config).nothing_to_do


@pytest.mark.exhaustive
def test_two_studies_share_a_campaign(checkout: Checkout) -> None:
    """Compressed coordinates with their solver beside compound entries: an artifact of each, and one report."""
    config = checkout.configure(
        "both",
        {"problems": ["tiny/poisson"], "artifacts": ["table-1"]},
        studies={
            "compound_spmv": {
                "problems": ["tiny/poisson"], "artifacts": ["table-1"], "timing": QUICK, "layouts": ["ELL-SoA-AoS"],
                "precisions": ["double"],
            },
            "compressed_coo": {
                "problems": ["tiny/5pt_const"], "artifacts": ["table-1", "figure-5"], "timing": QUICK,
                "layouts": ["CCOO"],
            },
        },
    )  # fmt: skip
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 0, said.text
    assert said.jobs["compile_compressed_coo_solvers"] == said.jobs["tables_compressed_coo"] == 1
    results = checkout.folder / "results/both"
    assert "tiny/5pt_const" in (results / "tables/compressed_coo/table-1.csv").read_text()
    assert (checkout.folder / "figures/both/compressed_coo/figure-5.svg").stat().st_size > 0
    report = (results / "report.html").read_text()
    assert "compressed_coo" in report
    assert "compound_spmv" in report

    shown = write_report(checkout, "--configfile", config)
    compound, compressed = "results/both/tables/compound_spmv", "results/both/tables/compressed_coo"
    assert shown.categories == {
        "Report": {"Other": ["results/both/report.html"]},
        "SpMV with compound entries": {"Tables": [f"{compound}/table-1.csv"]},
        "SpMV with compressed coordinates": {
            "Tables": [f"{compressed}/table-1.csv"],
            "Figures": ["figures/both/compressed_coo/figure-5.svg"],
        },
    }
    load_artifacts("compressed_coo")
    artifact = get_artifact("compressed_coo", "figure-5")
    figure = shown.results["figures/both/compressed_coo/figure-5.svg"]
    assert figure["labels"] == {"name": "Figure 5", "title": artifact.title}


@pytest.mark.exhaustive
def test_matrices_that_no_study_can_take_stop_nothing_and_are_named(checkout: Checkout) -> None:
    """An empty and a rectangular one of the user's own, beside one that both studies take, in a batch.

    The products of compound_spmv take the rectangular one too.
    """
    for name, size, diagonal in (("empty", "300 300", 0), ("wide", "300 301", 300), ("square", "300 300", 300)):
        entries = "".join(f"{row} {row} 2.5\n" for row in range(1, diagonal + 1))
        text = f"%%MatrixMarket matrix coordinate real general\n{size} {diagonal}\n{entries}"
        (checkout.folder / f"{name}.mtx").write_text(text)
    study = {
        "problems": [{"path": f"{name}.mtx"} for name in ("empty", "wide", "square")],
        "artifacts": ["table-1"],
        "timing": QUICK,
        "precisions": ["double"],
    }
    layouts = {"compound_spmv": "ELL-SoA-AoS", "compressed_coo": "CCOO"}
    studies = {name: {**study, "layouts": [layout]} for name, layout in layouts.items()}
    config = checkout.configure("refused", {}, studies=studies, batch=3)
    said = checkout.snakemake("all", "--configfile", config)
    assert said.code == 1
    assert [said.jobs[f"measure_batch_{name}"] for name in layouts] == [1, 1]
    assert "missing or failed: 3" in said.text
    results = checkout.folder / "results/refused"
    ended = said.text.partition("\nreport   results/refused/report.html")[2]
    assert "missing or failed: 3" in ended
    refusals = {name: {"empty": "the matrix has no entries"} for name in layouts}
    refusals["compressed_coo"]["wide"] = "the matrix is not square"
    for name in layouts:
        for problem, reason in refusals[name].items():
            assert said.text.count(f"{name} on {problem}, double: {reason}") == 1
            [row] = pq.read_table(results / f"raw/{name}/{problem}/double/report.parquet").to_pylist()
            assert (row["status"], row["message"].splitlines()[0]) == ("unavailable", reason)
        for problem in {"square", "wide"} - {*refusals[name]}:
            rows = pq.read_table(results / f"raw/{name}/{problem}/double/report.parquet").to_pylist()
            assert {row["status"] for row in rows if row["kind"] == "variant"} == {"ok"}
        assert "square" in (results / f"tables/{name}/table-1.csv").read_text()
    assert "the matrix is not square" in (results / "tables/compressed_coo/table-1.csv").read_text()
    report = (results / "report.html").read_text()
    assert "compound_spmv" in report
    assert "compressed_coo" in report
