"""The examples of the pages docs/add-*.md are done as written, in a copy of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import HOW_TO, REPOSITORY, blocks

COPIED = (".gitignore", "src", "config", "kernels", "tests", "workflow", "profiles", "Snakefile", "pyproject.toml")
EXAMPLES = [page for page in HOW_TO if any(block.how == "run" for block in blocks(page))]
#: Whose examples are run each time: a problem that is measured, and a study; the others take twice as long.
SHORT = ("add-a-problem", "add-a-study")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project."""
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc.*", "*.egg-info"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def run(command: str, folder: Path) -> str:
    """Run a line of a page with the copy's code; a campaign is planned only, and exhaustive tests are left out."""
    if command.startswith("snakemake"):
        command += " --dry-run"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_", "SNAKEMAKE_"))}
    environment["PYTHONPATH"] = str(folder / "src")
    environment["PYTEST_ADDOPTS"] = "-m 'not exhaustive'"
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_page_has_an_example():
    assert HOW_TO == EXAMPLES
    assert {page.stem for page in HOW_TO} == {
        *(f"add-a-{what}" for what in ("baseline", "layout", "problem", "study")),
        "add-an-entry",
    }


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.stem in SHORT else pytest.mark.exhaustive) for page in EXAMPLES],
    ids=[page.stem for page in EXAMPLES],
)
def test_the_example_works_as_the_page_says(copy, page):
    said = ""
    for block in blocks(page):
        if block.how == "quote":
            assert block.text in (copy / block.path).read_text(), f"{block.path} says something else"
        elif block.how == "run":
            for line in block.text.splitlines():
                said += run(line, copy)
        else:
            path = copy / block.path
            assert path.exists() == (block.how == "append"), block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(block.text)
    assert str(copy) in run("python -c 'import repro; print(repro.__file__)'", copy)
    listed = {
        "add-a-baseline": "scipy/csc/real4",
        "add-a-layout": "RowELL-SoA-SoA",
        "add-a-problem": "ring_large",
        "add-a-study": "// transposed: products/double",
        "add-an-entry": "dual",
    }
    assert listed[page.stem] in said


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_code_of_a_page_is_in_the_projects_style(tmp_path, page):
    ruff = Path(sys.executable).with_name("ruff")
    for block in blocks(page):
        if block.language == "python" and block.how == "write":
            path = tmp_path / Path(block.path).name
            path.write_text(block.text)
            for action in (["check"], ["format", "--check"]):
                done = subprocess.run(
                    [ruff, *action, "--config", REPOSITORY / "pyproject.toml", path],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stdout
