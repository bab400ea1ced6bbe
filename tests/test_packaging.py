"""What surrounds the package says the same everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
#: What conda calls otherwise; two of them are there without what only their own command lines and windows need.
CONDA_NAMES = {
    "snakemake": "snakemake-minimal",
    "matplotlib": "matplotlib-base",
    "nvidia-cuda-nvrtc": "cuda-nvrtc",
    "nvidia-cuda-runtime": "cuda-cudart-dev",
    "nvidia-cuda-cccl": "cuda-cccl",
}


def split(requirement: str) -> tuple[str, str]:
    """Return name and version bound of a requirement."""
    name, bound = re.fullmatch(r"([A-Za-z0-9_-]+)(.*)", requirement.replace(" ", "")).groups()
    return name, bound


@pytest.mark.parametrize(
    ("file", "extras"), [("environment.yml", ["cpu"]), ("environment-cuda.yml", ["cpu", "cuda", "pycuda"])]
)
def test_conda_users_get_the_same_dependencies_and_the_package(file: str, extras: list[str]) -> None:
    *packages, own = yaml.safe_load((REPOSITORY / file).read_text())["dependencies"]
    assert own == {"pip": ["-e ."]}
    conda = dict(split(item) for item in packages)
    assert conda.pop("python") == PROJECT["requires-python"]
    assert conda.pop("pip") == ""
    if "cuda" in extras:
        assert conda.pop("cuda-nvcc")
    asked = [item for extra in ("campaign", *extras) for item in PROJECT["optional-dependencies"][extra]]
    wanted = [split(item) for item in (*PROJECT["dependencies"], *asked)]
    assert conda == {CONDA_NAMES.get(name, name): bound for name, bound in wanted}


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    releases = re.findall(r"^## \[(\d[^]]*)\] - (\S+)$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == (PROJECT["version"], citation["date-released"])


def test_authors_are_the_same_everywhere() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert [author["name"] for author in PROJECT["authors"]] == [author["name"] for author in citation["authors"]]


def test_the_papers_that_have_an_address_are_linked() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    dois = {reference["doi"] for reference in citation["references"] if "doi" in reference}
    assert {url.removeprefix("https://doi.org/") for url in PROJECT["urls"].values()} == dois


def test_the_papers_are_cited() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    dois = {reference["doi"] for reference in citation["references"] if "doi" in reference}
    # a dissertation has none
    notes = " ".join(reference["notes"] for reference in citation["references"] if "doi" not in reference)
    others = re.findall(r"\w+", notes)
    for path in (REPOSITORY / "config/studies").glob("*.yaml"):
        text = path.read_text()
        named = re.findall(r"\b10\.\d{4,}/[\w.-]+\w", text)
        without = text.startswith("# no paper: ")
        assert bool(named or path.stem in others) != without, f"{path.name} names no papers"
        assert set(named) <= dois


def test_make_prints_its_targets() -> None:
    said = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for target in ("all", "test", "test-fast", "test-all", "coverage", "lint", "census", "clean"):
        assert re.search(rf"^  {target} +\S", said, re.MULTILINE)


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell: under `make test` the flags of the outer make would be added."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(["make", *words], cwd=REPOSITORY, env=clean, capture_output=True, text=True, check=False)


def dry_make(*words: str) -> str:
    """Return the commands that make would run where there is no environment yet."""
    done = make("-n", "VENV=.no-such-venv", "EXTRAS=cpu,mesh", *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"-m venv \.no-such-venv", done.stdout)
    return done.stdout.strip()


def test_make_all_installs_what_the_locks_pin_and_calls_snakemake() -> None:
    said = dry_make("all", "N=3", "ARGS=--dry-run")
    assert re.search(r"--no-deps --require-hashes((?: --requirement locks/\w+\.txt)+)$", said, re.MULTILINE)
    assert re.findall(r"locks/(\w+)", said) == ["run", "campaign", "cpu", "mesh"]
    assert re.search(r"--no-deps --no-build-isolation --editable \.$", said, re.MULTILINE)
    assert said.endswith("snakemake --cores 3 all --dry-run")


def test_what_is_installed_lacks_nothing() -> None:
    # the locks are installed without their dependencies, so they have to name them all
    done = subprocess.run([sys.executable, "-m", "pip", "check"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_make_test_installs_what_tests_need_as_well() -> None:
    assert re.findall(r"locks/(\w+)", dry_make("test")) == ["run", "campaign", "cpu", "mesh", "dev"]


def test_each_tier_of_tests_has_all_of_the_one_before() -> None:
    targets = ("test-all", "test", "test-fast", "coverage")
    selected = {target: [marked(command) for command in recipe(target)] for target in targets}
    (fast,), (most,) = selected["test-fast"], selected["test"]
    assert {*re.findall(r"not (\w+)", most)} == {"slow", "wording", "exhaustive"}
    assert {*re.findall(r"not (\w+)", fast)} == {"slow", "wording", "medium", "gpu", "exhaustive"}
    assert selected["test-all"] == [fast, f"not ({fast}) and not exhaustive"]
    assert selected["coverage"] == [fast]


def marked(command: str) -> str:
    """Return which tests a command of pytest selects by their marks."""
    fast = re.search(r"^FAST := (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)[1]
    return re.search(r'-m "([^"]+)"', command)[1].replace("$(FAST)", fast)


def test_make_takes_the_newest_where_it_is_told_so_and_forgets_what_was_locked() -> None:
    said = dry_make("test", "LOCKED=no")
    assert "locks/" not in said
    assert re.search(
        r"--upgrade --upgrade-strategy eager --editable '\.\[campaign,cpu,mesh,dev\]'$", said, re.MULTILINE
    )
    assert re.search(r"^rm -f \.no-such-venv/installed-\*-yes$", said, re.MULTILINE)


def test_make_installs_again_for_other_extras_alone(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = ("environment", f"VENV={tmp_path}")
    assert make("--touch", *environment, "EXTRAS=cpu").returncode == 0  # as if it were installed
    assert make("--question", *environment, "EXTRAS=cpu").returncode == 0
    said = make("--dry-run", *environment, "EXTRAS=cpu,mesh").stdout
    assert re.findall(r"locks/(\w+)", said) == ["run", "campaign", "cpu", "mesh"]


def test_make_refuses_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "environment", f"VENV={tmp_path}/venv", f"PYTHON={old}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"Python 3.11 or newer is needed, found {old}" in done.stderr
    assert not (tmp_path / "venv").exists()


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile that the environment runs."""
    text = (REPOSITORY / "Makefile").read_text()
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)[1].splitlines()
    return [line.removeprefix("\t$(RUN) ") for line in lines]


def checks() -> list[str]:
    """Return the commands that `make lint` runs one after the other."""
    return [line.removeprefix("\trun ").removesuffix("; \\") for line in recipe("lint") if line.startswith("\trun ")]


def test_make_lint_runs_every_check_and_names_those_that_failed(tmp_path: Path) -> None:
    failing = ("ruff check", "mypy --strict")
    for check in checks():
        program = tmp_path / "bin" / check.split()[0]
        program.parent.mkdir(exist_ok=True)
        cases = "|".join(f'"{" ".join(failed.split()[1:])}"' for failed in failing if failed.startswith(program.name))
        program.write_text(f'#!/bin/sh\ncase "$*" in {cases or "no"}) exit 1;; esac\n')
        program.chmod(0o755)
    (tmp_path / "bin/python").touch()
    environment = (f"VENV={os.path.relpath(tmp_path, REPOSITORY)}", "EXTRAS=cpu")
    stamp = f"{os.path.relpath(tmp_path, REPOSITORY)}/installed-dev-cpu-yes"
    assert make("--touch", *environment, stamp).returncode == 0  # as if it were installed
    done = make(*environment, "lint")
    assert done.returncode != 0
    assert done.stdout.splitlines() == checks()
    assert re.findall(r"^failed: (.*)$", done.stderr, re.MULTILINE) == [*failing]
    (tmp_path / "bin/mypy").write_text("#!/bin/sh\n")
    (tmp_path / "bin/ruff").write_text("#!/bin/sh\n")
    assert make(*environment, "lint").returncode == 0


def test_before_a_commit_the_same_checks_are_run() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"] if "stages" not in hook]
    assert config["default_stages"] == ["pre-commit"]
    assert [hook["entry"] for hook in hooks] == checks()
    # a check looks at the whole project, by the packages of the environment
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks} == {("system", False)}


def message_hook(name: str) -> dict[str, Any]:
    """Return a hook that reads a commit's message."""
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
    assert "commit-msg" in config["default_install_hook_types"]
    (hook,) = [hook for repository in config["repos"] for hook in repository["hooks"] if hook["id"] == name]
    assert hook["stages"] == ["commit-msg"]
    return hook


@pytest.mark.parametrize(
    ("name", "refused", "taken"),
    [
        ("subject-length", 121 * "a" + "\n", 120 * "a" + "\n\n" + 200 * "b"),
        ("merge-subject", "Merge branch 'x' of /a/b\n", "Merge the fitted tables: no line is cut off\n"),
        ("merge-subject", "Merge /a/b main\n", "Name the merge\n\nMerge branch 'x'\n"),
    ],
)
def test_a_commit_with_a_wrong_subject_is_refused(name: str, refused: str, taken: str) -> None:
    hook = message_hook(name)
    assert (hook["language"], hook["args"]) == ("pygrep", ["--multiline"])
    wrong = re.compile(hook["entry"], re.MULTILINE | re.DOTALL)
    assert wrong.search(refused)
    assert not wrong.search(taken)


@pytest.mark.git
def test_blame_looks_through_commits_that_there_are() -> None:
    text = (REPOSITORY / ".git-blame-ignore-revs").read_text()
    commits = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert commits and all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)
    git = ["git", "-C", REPOSITORY]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=True)
    if shallow.stdout.strip() == "true":
        pytest.skip("a shallow clone has one commit")
    subprocess.run([*git, "rev-list", "--no-walk", "--quiet", *commits], check=True)


def test_a_commit_that_changes_a_record_without_a_body_is_refused(tmp_path: Path) -> None:
    hook = message_hook("commit-body")
    assert (hook["language"], hook.get("pass_filenames", True)) == ("system", True)
    _, script = hook["entry"].split()

    def refusal(message: str) -> str:
        (tmp_path / "message").write_text(message)
        command = [sys.executable, REPOSITORY / script, "message"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == bool(done.stderr)
        return done.stderr

    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/table.csv").write_text("1\n")
    assert not refusal("Measure again\n"), "nothing is staged"
    subprocess.run([*git, "add", "results"], check=True)
    for message in (
        "Measure again\n",
        "Measure again\n\n# Please enter the message\n",
        "Measure again\n\nSigned-off-by: A <a@b>\n",
        "Measure again\n\n# ------------------------ >8 ------------------------\ndiff --git a b\n+2\n",
    ):
        assert "results/table.csv: recorded files change" in refusal(message)
    assert not refusal("# by git\nMeasure again\n\n1.1 is 1.2, by another card.\n")
    subprocess.run([*git, "commit", "--quiet", "--message", "Measure"], check=True)
    (tmp_path / "other.csv").write_text("1\n")
    subprocess.run([*git, "add", "other.csv"], check=True)
    assert not refusal("Add another\n")


def test_a_range_of_commits_that_git_does_not_know_does_not_pass() -> None:
    command = [sys.executable, "tools/commit_body.py", "nosuch..HEAD"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr


def test_the_workflow_of_the_forge_runs_what_ci_runs() -> None:
    job = jobs(REPOSITORY / ".github/workflows/ci.yml")["check"]
    assert [step["run"] for step in job["steps"] if "run" in step] == ['PYTHON="$(command -v python)" .ci/run']


WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflows_of_the_forge_run_targets_that_there_are_by_pythons_that_are_promised(path: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for job in jobs(path).values():
        uses = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
        pythons = job.get("strategy", {}).get("matrix", {}).get("python", uses)
        assert {f"Programming Language :: Python :: {version}" for version in pythons} <= {*PROJECT["classifiers"]}
        for line in (line for step in job["steps"] for line in step.get("run", "").splitlines()):
            # by the Python of the matrix, where `make` would take the first of its own list
            assert not re.search(r"\bmake\b|\.ci/run", line) or line.startswith('PYTHON="$(command -v python)" ')
            assert all(target in targets for target in re.findall(r" make (?:--directory \S+ )?([a-z-]+)", line))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_actions_are_pinned_by_hash_and_keep_no_credentials(path: Path) -> None:
    named = re.findall(r"uses: (.*)", path.read_text())
    assert named
    assert [use for use in named if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []
    steps = [step for job in jobs(path).values() for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
    assert [step for step in steps if step["with"]["persist-credentials"] is not False] == []


def test_a_release_is_published_of_a_tag_after_all_that_checks_it() -> None:
    release = jobs(REPOSITORY / ".github/workflows/release.yml")
    others = {name: job for name, job in release.items() if name != "publish"}
    assert {*release["publish"]["needs"]} == {*others}
    assert "refs/tags/v" in release["publish"]["if"]
    assert release["publish"]["permissions"] == {"id-token": "write"}
    assert not any("permissions" in job for job in others.values())
    classifiers = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert release["wheel"]["strategy"]["matrix"]["python"] == [classifiers[0], classifiers[-1]]


def test_dependabot_waits_before_it_takes_a_release() -> None:
    updates = yaml.safe_load((REPOSITORY / ".github/dependabot.yml").read_text())["updates"]
    assert {update["directory"] for update in updates} == {"/", "/locks"}
    assert all(update["cooldown"]["default-days"] >= 7 for update in updates)


def test_no_two_modules_are_the_same_file() -> None:
    # check-wheel-contents refuses a wheel that holds a file twice
    modules = {path: path.read_text() for path in (REPOSITORY / "src").rglob("*.py")}
    assert [path for path, text in modules.items() if text and [*modules.values()].count(text) > 1] == []


@pytest.mark.parametrize("path", sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem)
def test_forms_can_be_read(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        return
    assert {"name", "description", "body"} <= set(form)
    identifiers = [field["id"] for field in form["body"]]
    assert len(identifiers) == len({*identifiers})


def test_ci_can_be_run() -> None:
    script = REPOSITORY / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "make lint" in script.read_text()
    assert "make test-all" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)


def test_a_range_of_commits_is_checked_by_the_hooks_of_messages(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / ".pre-commit-config.yaml", tmp_path)
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (tmp_path / "results").mkdir()
    for number, message in enumerate(["Begin", 121 * "a", "Merge branch 'x'", "Measure", "Measure\n\n1 is 2."]):
        (tmp_path / ("results/a.csv" if number > 2 else "other")).write_text(f"{number}\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", message], check=True)
    command = [sys.executable, REPOSITORY / "tools/commit_body.py", "HEAD~4..HEAD"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("expected: ")) == (1, 3)
    command[-1] = "HEAD~1..HEAD"
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


@pytest.mark.parametrize(
    "name", ["LICENSE", "README.md", "CONTRIBUTING.md", "CITATION.cff", "CHANGELOG.md", "config/README.md"]
)
def test_the_file_is_there(name: str) -> None:
    assert (REPOSITORY / name).is_file()
