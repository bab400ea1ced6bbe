"""Minutes in the pages are those that `make minutes` measured last, and fit what `repro plan` reckons."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from skfem import MeshTet

from repro.campaign.configuration import load
from repro.campaign.estimate import estimate
from repro.campaign.plan import make_plan
from repro.codegen.targets import CPU
from support.pages import PAGES, REPOSITORY, blocks

sys.path[:0] = [str(REPOSITORY / "docs"), str(REPOSITORY / "tools")]
import make_pages  # noqa: E402

import command_minutes  # noqa: E402

pytestmark = pytest.mark.medium

README = REPOSITORY / "README.md"
COMMANDS = ["make demo", "make all", "make test"]
#: How far a plan may be from what was measured, as docs/campaigns.md's times are held to.
WITHIN = 0.3
#: A campaign that takes minutes on two cores: which pages say so beside those of `make`, and what tests it.
STATED = {
    "README.md": ["10 to 20 minutes on two cores"],  # below
    "docs/add-a-study.md": ["a minute on two cores"],  # test_how_to.py runs it
}


def last_minutes() -> dict[str, float]:
    with command_minutes.MINUTES.open(encoding="utf-8") as file:
        return {line["command"]: float(line["minutes"]) for line in csv.DictReader(file)}


def seconds_of(config: Path) -> float:
    """Return what a plan on two cores of a CPU reckons, where nothing is made yet."""
    plan = make_plan(load(config).model_copy(update={"device": "opencl"}))
    return estimate(plan, CPU).seconds(2)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the configurations and templates alone."""
    for name in ("config", "kernels", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_commands_are_a_demo_a_campaign_and_the_tests_with_their_minutes() -> None:
    clone, *commands = command_minutes.start_commands(README)
    assert clone == "git clone <where you found it> sparse-repro && cd sparse-repro"
    assert commands == COMMANDS
    first = next(block.text for block in blocks(README) if block.language == "sh")
    for command in COMMANDS:
        [line] = [line for line in first.splitlines() if line.startswith(command)]
        assert make_pages.minutes(command) in line
    assert make_pages.minutes(command_minutes.ENVIRONMENT) in first


def test_the_minutes_are_those_measured_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minutes.csv").write_text("date,processor,cores,command,minutes\n2000-01-01,x,2,make all,3\n")
    command_minutes.append([("make all", 12.6), ("make demo", 0.3)], tmp_path / "minutes.csv")
    monkeypatch.setattr(make_pages, "SOURCES", tmp_path)
    assert make_pages.minutes.__wrapped__("make all") == "13 minutes"
    assert make_pages.minutes.__wrapped__("make demo") == "one minute"
    with command_minutes.MINUTES.open(encoding="utf-8") as file:
        header = file.readline()
    assert (tmp_path / "minutes.csv").read_text().splitlines()[0] == header.strip()


def test_a_command_that_fails_is_not_measured(tmp_path: Path) -> None:
    [(command, minutes)] = command_minutes.measured(["sleep 0.3"], tmp_path)
    assert command == "sleep 0.3" and 0.3 / 60 <= minutes < 1
    with pytest.raises(SystemExit, match=r"^echo no >&2; false:\nno\n$"):
        command_minutes.measured(["echo no >&2; false"], tmp_path)


def test_contributors_are_told_the_same_minutes() -> None:
    row = re.search(r"^\| `make test` \|.*\| (\d+) \|$", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert row is not None
    assert int(row[1]) == round(last_minutes()["make test"])


@pytest.mark.parametrize(("command", "config"), [("make demo", "demo"), ("make all", "config")])
@pytest.mark.usefixtures("empty")
def test_a_plan_reckons_what_was_measured(command: str, config: str) -> None:
    minutes = last_minutes()[command]
    assert seconds_of(Path(f"config/{config}.yaml")) / 60 == pytest.approx(minutes, rel=WITHIN)


def write_files(folder: Path, rows: int) -> None:
    """Write the three files that README's configuration names."""
    (folder / "matrices").mkdir(exist_ok=True)
    (folder / "meshes").mkdir(exist_ok=True)
    matrix = sp.coo_array(sp.random_array((rows, rows), density=10 / rows, rng=1))
    scipy.io.mmwrite(folder / "matrices/graph.mtx", matrix, field="pattern", symmetry="general")
    scipy.io.mmwrite(folder / "matrices/cavity.mtx", matrix * (1 + 1j), symmetry="general")
    subprocess.run(["gzip", "--force", "cavity.mtx"], cwd=folder / "matrices", check=True)
    mesh = MeshTet.init_tensor(*[np.linspace(0, 1, max(2, round(rows ** (1 / 3))))] * 3)
    mesh.save(folder / "meshes/part.msh")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("after_demo", [False, True])
@pytest.mark.parametrize("rows", [100, 50_000])
def test_files_of_ones_own_take_as_long_as_readme_says(rows: int, after_demo: bool, empty: Path) -> None:
    """Also after `make demo`, whose few small modules compile in a second each, three times as long as by the rates."""
    said = re.search(r"(\d+) to (\d+) minutes on two cores", README.read_text())
    assert said is not None
    [block] = [block for block in blocks(README) if block.text.startswith("campaign: mine\n")]
    (empty / "mine.yaml").write_text(block.text)
    write_files(empty, rows)
    if after_demo:
        seconds = empty / "modules/cpu/compound_spmv/paper/quaternion-double/objects/seconds.txt"
        seconds.parent.mkdir(parents=True)
        seconds.write_text("".join(f"{i}a 0.9\n" for i in range(4)))
        made = make_plan(load(Path("mine.yaml")).model_copy(update={"device": "opencl"}))
        assert estimate(made, CPU).compile_times.measured == 4
    assert int(said[1]) <= seconds_of(Path("mine.yaml")) / 60 <= int(said[2])


def test_no_page_says_other_minutes_of_a_campaign() -> None:
    for page in PAGES:
        text = " ".join(page.read_text().split())
        stated = re.findall(r"(?:\w+ to )?\w+ minutes? on two cores", text)
        assert stated == STATED.get(str(page.relative_to(REPOSITORY)), []), page


@pytest.mark.git
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "left_out",
    [pytest.param(("make all",), marks=pytest.mark.slow), pytest.param((), marks=pytest.mark.exhaustive)],
)
def test_readmes_first_commands_work_in_a_fresh_clone(left_out: tuple[str, ...], tmp_path: Path) -> None:
    """Literally, the clone's address filled in; of the tests a few, since these run among all."""
    clone, *commands = command_minutes.start_commands(README)
    commands = [command for command in commands if command not in left_out]
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "ARGS")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    assert subprocess.run(["git", "-C", REPOSITORY, "rev-parse"], capture_output=True, check=False).returncode == 0
    address = clone.replace("<where you found it>", str(REPOSITORY))
    few = {"make test": {"ARGS": "tests/test_exact_casts.py"}}
    folder = tmp_path
    for command in (address, *commands):
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment | few.get(command, {}), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        folder = tmp_path / "sparse-repro"
    for command, campaign in (("make demo", "demo"), ("make all", "default")):
        assert (folder / f"results/{campaign}/report.html").exists() == (command in commands)
    assert re.search(r"\d+ passed", done.stdout)
