"""The lock files: one for each extra, with pins that satisfy pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
PYTHONS = ("3.11.2", "3.12.3", "3.13.0", "3.14.0")


@cache
def pins(name: str) -> dict[str, list[Requirement]]:
    """Return what a lock file pins, by the package's name; each has its hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    pinned: dict[str, list[Requirement]] = {}
    for block in re.findall(r"^[^#\s].*(?:\n .*)*", text, re.MULTILINE):
        head, *hashes = (line.strip(" \\") for line in block.splitlines())
        assert hashes, head
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", line) for line in hashes)
        requirement = Requirement(head)
        assert [pin.operator for pin in requirement.specifier] == ["=="]
        pinned.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return pinned


def version(package: str, python: str, *names: str) -> str:
    """Return the one version of a package that some lock files pin for a Python."""
    environment = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    found = {
        next(iter(pin.specifier)).version
        for name in names
        for pin in pins(name).get(canonicalize_name(package), [])
        if pin.marker is None or pin.marker.evaluate(environment)
    }
    assert len(found) == 1, f"{package} for Python {python}: {found}"
    return found.pop()


def test_each_extra_has_a_file_and_each_file_an_extra() -> None:
    assert {path.stem for path in (ROOT / "locks").glob("*.txt")} == {"run", *EXTRAS}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", ["run", *EXTRAS])
def test_what_is_asked_for_is_pinned_to_a_version_that_is_allowed(extra: str, python: str) -> None:
    run = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for asked in map(Requirement, run if extra == "run" else EXTRAS[extra]):
        pinned = version(asked.name, python, "run", extra)
        assert asked.specifier.contains(pinned, prereleases=True), f"{asked}: {pinned}; run `make lock`"


@pytest.mark.parametrize("python", PYTHONS)
def test_extras_agree_so_that_any_of_them_can_be_installed_together(python: str) -> None:
    names = ("run", *EXTRAS)
    for package in {package for name in names for package in pins(name)}:
        pinned = [pin for name in names for pin in pins(name).get(package, [])]
        environment = {"python_version": python.rpartition(".")[0], "python_full_version": python}
        if any(pin.marker is None or pin.marker.evaluate(environment) for pin in pinned):
            version(package, python, *names)


def test_no_index_is_named() -> None:
    for path in (ROOT / "locks").iterdir():
        assert not re.search(r"://|--(extra-)?index-url|--find-links", path.read_text()), path
