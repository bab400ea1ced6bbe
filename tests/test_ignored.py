"""Which files of a recorded campaign git keeps, and which it ignores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
RECORDS = ("h100", "h200", "h200-x4")
KEPT = (
    "config.yaml",
    "NOTES.md",
    "raw/problems/fem/nut_37k.json",
    "raw/environment/0123456789abcdef.json",
    "raw/compound_spmv/search.parquet",
    "tables/compound_spmv/table-1.csv",
)
LEFT_OUT = (
    "batches/compound_spmv-double-1",
    "complete",
    "configs/0123456789abcdef.yaml",
    "problems/fem/nut_37k.npz",
    "receipts/report.json",
    "report-beside-h200.html",
    "store/compound_spmv/fem/nut_37k/double/rows.jsonl",
    "tables/compound_spmv/table-1.tex",
)


@pytest.fixture(scope="module")
def ignored(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The paths that git ignores by the repository's file, in a repository that has no other."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    shutil.copyfile(REPOSITORY / ".gitignore", folder / ".gitignore")
    paths = [f"results/{name}/{path}" for name in (*RECORDS, "mine") for path in (*KEPT, *LEFT_OUT)]
    paths += [
        f"figures/{name}/compound_spmv/figure-portability.{suffix}" for name in RECORDS for suffix in ("svg", "pdf")
    ]
    said = subprocess.run(
        ["git", "-C", folder, "check-ignore", "--stdin"],
        input="\n".join(paths), text=True, capture_output=True, check=True,
    )  # fmt: skip
    return {*said.stdout.splitlines()}


@pytest.mark.parametrize("name", RECORDS)
def test_of_a_record_its_rows_and_tables_are_kept_and_what_jobs_left_is_not(ignored: set[str], name: str) -> None:
    assert not {f"results/{name}/{path}" for path in KEPT} & ignored
    assert {f"results/{name}/{path}" for path in LEFT_OUT} <= ignored


def test_results_of_ones_own_are_not_kept(ignored: set[str]) -> None:
    assert {f"results/mine/{path}" for path in (*KEPT, *LEFT_OUT)} <= ignored


def test_of_a_second_gpu_the_figure_is_kept_that_compares(ignored: set[str]) -> None:
    assert "figures/h100/compound_spmv/figure-portability.svg" not in ignored
    assert "figures/h100/compound_spmv/figure-portability.pdf" in ignored


@pytest.mark.git
def test_nothing_is_ignored_that_is_kept() -> None:
    command = ["git", "-C", REPOSITORY, "ls-files", "--ignored", "--cached", "--exclude-per-directory=.gitignore"]
    assert subprocess.run(command, text=True, capture_output=True, check=True).stdout == ""
