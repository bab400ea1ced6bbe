"""What Snakemake's workflow catalog asks for, and the workflow deployed as the catalog says: as a module of another."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.checkouts import REPOSITORY, Checkout, Said, run_to_its_end
from support.snakemake_report import SnakemakeReport

pytestmark = [pytest.mark.workflow, pytest.mark.medium]

USAGE = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())["usage"]
RECORD = "h200-x4"
URL = "https://github.com/owner/sparse-repro"
#: What snakedeploy writes: the workflow of a tag on GitHub as a module, with the configuration of the current folder.
DEPLOYED = """
configfile: "config/config.yaml"


module sparse_repro:
    snakefile:
        github("owner/sparse-repro", path="workflow/Snakefile", tag="v1")
    config:
        config


use rule * from sparse_repro
"""


def test_the_catalog_finds_what_it_looks_for() -> None:
    readme = (REPOSITORY / "README.md").read_text().lower()
    assert "snakemake workflow" in " ".join(readme.split())
    for name in ("workflow/Snakefile", "config/README.md"):
        assert (REPOSITORY / name).is_file()
    assert list((REPOSITORY / "workflow/rules").glob("*.smk"))
    assert set(USAGE) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(USAGE["mandatory-flags"]) == {"desc", "flags"}


def test_the_catalogs_flags_are_what_the_profile_says_of_when_and_how_jobs_run() -> None:
    profile = yaml.safe_load((REPOSITORY / "profiles/default/config.yaml").read_text())
    flags = re.findall(r"--([\w-]+)(?: ([^-\s]\S*))?", USAGE["mandatory-flags"]["flags"])
    assert dict(flags) == {
        "rerun-triggers": " ".join(profile["rerun-triggers"]),
        "resources": " ".join(f"{name}={count}" for name, count in profile["resources"].items()),
        **{name: "" for name in ("keep-going", "rerun-incomplete") if profile[name]},
    }


@pytest.mark.exhaustive
def test_the_catalogs_snakefile_makes_what_the_other_makes(checkout: Checkout) -> None:
    words = ["--dry-run", "--forceall", "--configfile", "config/paper.yaml", "--config", "device=opencl"]
    here, there = checkout.snakemake(*words).jobs, checkout.snakemake("--snakefile", "workflow/Snakefile", *words).jobs
    assert here.pop("all") == there.pop("campaign") == 1
    assert here == there


@pytest.mark.exhaustive
@pytest.mark.slow
def test_lint() -> None:
    words = [sys.executable, "-m", "snakemake", "--snakefile", "workflow/Snakefile", "--lint"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Deployment:
    """A folder with what snakedeploy puts there, and with the rows of a record; GitHub is a repository on this disk."""

    def __init__(self, checkout: Checkout, folder: Path) -> None:
        self.folder = folder / "deployed"
        (self.folder / "workflow").mkdir(parents=True)
        (self.folder / "workflow/Snakefile").write_text(DEPLOYED)
        shutil.copytree(checkout.folder / "config", self.folder / "config")
        shutil.copy(checkout.folder / f"config/{RECORD}.yaml", self.folder / "config/config.yaml")
        shutil.copytree(REPOSITORY / f"results/{RECORD}/raw", self.folder / f"results/{RECORD}/raw")
        self.environment = checkout.environment | {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{checkout.folder}.insteadOf",
            "GIT_CONFIG_VALUE_0": URL,
        }

    def snakemake(self, *words: str) -> Said:
        return run_to_its_end([sys.executable, "-m", "snakemake", *words], self.folder, self.environment)


@pytest.fixture(scope="module")
def deployed(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """It, of the project as it is now."""
    author = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    for words in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "-m", "Begin"], ["tag", "v1"]):
        subprocess.run(["git", "-C", checkout.folder, *words], check=True)
    return Deployment(checkout, tmp_path_factory.mktemp("deployment"))


@pytest.mark.exhaustive
def test_the_workflow_is_run_as_a_module_of_another(deployed: Deployment) -> None:
    run = ["--cores", "2", *USAGE["mandatory-flags"]["flags"].split()]
    said = deployed.snakemake(*run)
    assert said.code == 0, said.text
    assert said.jobs["tables_dynamic_csr"] == said.jobs["figures_dynamic_csr"] == said.jobs["report"] == 1
    table = f"results/{RECORD}/tables/dynamic_csr/table-devices.csv"
    assert (deployed.folder / table).read_bytes() == (REPOSITORY / table).read_bytes()
    assert (deployed.folder / f"results/{RECORD}/report.html").is_file()
    assert deployed.snakemake(*run).nothing_to_do

    said = deployed.snakemake("--report", "report.html")
    assert said.code == 0, said.text
    shown = SnakemakeReport.read(deployed.folder / "report.html")
    assert set(shown.categories) == {"Report", "Dynamic CSR"}
    assert table in shown.results
    assert RECORD in shown.description
