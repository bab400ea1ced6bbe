"""The Dockerfile and Apptainer's definition: pinned bases, files that are there, and the commands that the page says.

Building them needs what a test has not, so they are read: their instructions, and their shell by `bash -n`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
INSTALLING = (REPOSITORY / "docs/installing.md").read_text()
HOME = "/opt/sparse-repro"
PINNED = re.compile(r"[\w./-]+:\d+\.\d+[\w.-]*")


def dockerfile() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their words, continued lines as one."""
    text = re.sub(r"^#.*\n", "", (REPOSITORY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, words) for name, _, words in (line.partition(" ") for line in lines if line)]


def definition() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the head of Apptainer's definition, and the lines of its sections."""
    text = re.sub(r"^#.*\n", "", (REPOSITORY / "apptainer.def").read_text(), flags=re.MULTILINE)
    head, *parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    keys = dict(line.split(": ", 1) for line in head.splitlines() if line)
    named = zip(parts[::2], parts[1::2], strict=True)
    return keys, {name: [line.strip() for line in body.splitlines() if line.strip()] for name, body in named}


def shell() -> dict[str, list[str]]:
    """Return the commands that make each image."""
    run = [part.strip() for name, words in dockerfile() if name == "RUN" for part in words.split("&&")]
    _, sections = definition()
    return {"Dockerfile": run, "apptainer.def": sections["post"]}


def bases() -> list[str]:
    """Return the images that they are built on: by default, and by the page."""
    given = re.findall(r"--build-arg (?:BASE|base)=(\S+)", INSTALLING)
    (by_docker,) = (words.removeprefix("BASE=") for name, words in dockerfile() if name == "ARG")
    _, sections = definition()
    return [by_docker, sections["arguments"][0].removeprefix("base="), *given]


def test_each_base_is_pinned_and_both_have_the_same() -> None:
    assert ("FROM", "${BASE}") in dockerfile()
    head, _ = definition()
    assert head == {"Bootstrap": "docker", "From": "{{ base }}"}
    cpu, also_cpu, cuda, also_cuda = bases()
    assert all(PINNED.fullmatch(base) for base in bases())
    assert (cpu, cuda) == (also_cpu, also_cuda)
    assert "devel" in cuda  # PyCUDA is built against the toolkit


def test_what_is_copied_is_there_and_all_that_the_package_is_built_of() -> None:
    copied = {}
    for words in (shlex.split(words) for name, words in dockerfile() if name == "COPY"):
        *sources, target = words
        copied |= {source: Path(HOME, target, source if target == "./" else "") for source in sources}
    assert all(path == Path(HOME, source) for source, path in copied.items())
    _, sections = definition()
    assert [line.split() for line in sections["files"]] == [[source, f"{HOME}/{source}"] for source in copied]

    missing = [source for source in copied if not (REPOSITORY / source).exists()]
    assert not missing
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    built_of = {path.split("/")[1] for path in project["tool"]["hatch"]["build"]["include"]}
    built_of |= {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    assert {*copied} == built_of | {"locks"}


def test_the_builder_is_sent_what_is_copied_and_nothing_else() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    taken = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {source for name, words in dockerfile() if name == "COPY" for source in words.split()[:-1]}
    assert "*" in lines and taken == copied


def test_the_image_says_what_it_is_and_runs_without_privileges() -> None:
    labels = dict(word.split("=", 1) for name, words in dockerfile() if name == "LABEL" for word in shlex.split(words))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    kinds = {"title": "name", "version": "version", "licenses": "license"}
    assert labels == {f"org.opencontainers.image.{label}": project[key] for label, key in kinds.items()}
    users = [(place, words) for place, (name, words) in enumerate(dockerfile()) if name == "USER"]
    assert [words for _, words in users] == ["repro"]
    assert [name for name, _ in dockerfile()[users[0][0] + 1 :]] == ["CMD"]


@pytest.mark.parametrize("name", ["Dockerfile", "apptainer.def"])
def test_the_environment_is_made_by_the_commands_of_the_page(name: str) -> None:
    said = [line.strip() for line in INSTALLING.splitlines() if line.strip().startswith("pip install --no-deps")]
    assert len(said) == 2
    locked, itself = said
    commands = shell()[name]
    order = ["python3 -m venv /opt/venv", locked, itself.replace(" -e .", " .")]
    assert [command for command in commands if command in order] == order
    (cuda,) = (command for command in commands if "locks/cuda.txt" in command)
    install = locked.replace(
        " -r locks/run.txt -r locks/campaign.txt -r locks/cpu.txt", " -r locks/cuda.txt -r locks/pycuda.txt"
    )
    assert cuda == f"if command -v nvcc; then {install}; fi"


@pytest.mark.parametrize("name", ["Dockerfile", "apptainer.def"])
def test_the_shell_of_an_image_can_be_read(name: str) -> None:
    subprocess.run(["bash", "-n"], input="\n".join(shell()[name]), text=True, check=True)


def test_the_arguments_of_the_page_are_the_files_own() -> None:
    assert {*re.findall(r"docker build .*--build-arg (\w+)=", INSTALLING)} == {"BASE"}
    assert {*re.findall(r"apptainer build .*--build-arg (\w+)=", INSTALLING)} == {"base"}
    _, sections = definition()
    assert {line.partition("=")[0] for line in sections["arguments"]} == {"base"}
