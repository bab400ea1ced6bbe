"""Files that travel with the package: those of the current folder come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from repro.shipped import shipped

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
