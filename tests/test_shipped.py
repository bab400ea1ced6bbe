"""Files that travel with the package: those of the current folder come first."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro import package_data as module
from repro.package_data import install, shipped

REPOSITORY = Path(__file__).parents[1]
REGISTRY = "config/problems.yaml"


def test_in_a_checkout_a_path_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert shipped(REGISTRY) == Path(REGISTRY)


def test_elsewhere_it_is_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped(REGISTRY) == REPOSITORY / REGISTRY


def test_a_file_of_the_same_name_stands_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    assert shipped(REGISTRY) == REPOSITORY / REGISTRY
    (tmp_path / REGISTRY).touch()
    assert shipped(REGISTRY) == Path(REGISTRY)
    assert shipped(REGISTRY, here=False) == REPOSITORY / REGISTRY


def test_a_link_that_leads_nowhere_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / REGISTRY).symlink_to("gone.yaml")
    assert shipped(REGISTRY) == Path(REGISTRY)


@pytest.mark.parametrize("path", ["config/no-such.yaml", "/no/such/file", "a" * 300])
def test_what_is_nowhere_stays_as_it_is(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped(path) == Path(path)


def test_what_an_extra_brings_is_installed_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert install("cuda") == "pip install -e '.[cuda]'"
    monkeypatch.chdir(tmp_path)
    assert shlex.split(install("cuda")) == ["pip", "install", "-e", f"{REPOSITORY}[cuda]"]


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (None, ""),  # of an index
        ({"url": "file:///tmp/a b.whl", "archive_info": {}}, " @ file:///tmp/a b.whl"),
        ({"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}}, " @ git+https://host/x.git@1f"),
    ],
)
def test_of_a_wheel_it_is_installed_from_where_the_wheel_came(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, source: str
) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    text = json.dumps(origin) if origin else None
    monkeypatch.setattr(module, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    monkeypatch.setattr(module, "_ROOT", module.WHEEL_DATA)
    assert shlex.split(install("mesh")) == ["pip", "install", f"{project['name']}[mesh]{source}"]


def test_all_messages_ask_for_the_command() -> None:
    """For extras that there are; no other file has one, which would be right in a checkout alone."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    files = {path: path.read_text() for path in (REPOSITORY / "src").rglob("*.py")}
    assert [path.name for path, text in files.items() if "install -e" in text] == ["package_data.py"]
    asked = {extra for text in files.values() for extra in re.findall(r"""\binstall\(["'](\w+)["']\)""", text)}
    assert asked == {"campaign", "cpu", "cuda", "mesh"}
    assert asked <= set(project["optional-dependencies"])
