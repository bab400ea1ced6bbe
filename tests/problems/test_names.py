"""Names of problems: those that the file system and the workflow accept."""

from __future__ import annotations

import pytest
from snakemake.io import PeriodicityDetector

from repro.config.models import OwnProblem
from repro.errors import ReproError
from repro.problems.registry import check_name, own_name
from repro.words import MAX_NAME_LENGTH, MAX_PART_LENGTH


@pytest.mark.parametrize(
    "name", ["a", "surfaces/bunny", "_x-1.2", "a" * 19, "ab" * 19 + "c", "x" * 19 + "y" * 19, "a1" * 19]
)
def test_names_that_do(name: str) -> None:
    assert check_name(name, "here") == own_name(OwnProblem(path="a.mtx", name=name)) == name
    assert PeriodicityDetector().is_periodic(name) is None


@pytest.mark.wording
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "letters, digits"),
        ("mine\n", r"letters, digits[\s\S]*'mine\\n'"),
        ("{wild}", "letters, digits"),
        ("a b", "letters, digits"),
        ("../a", "letters, digits"),
        ("a//b", "letters, digits"),
        ("ä", "letters, digits"),
        ("a" * 20, "'a' 20 times"),
        ("x" + "ab" * 25, "'ab' 20 times"),
        ("ab" * (MAX_PART_LENGTH // 2) + "c", f"at most {MAX_PART_LENGTH} characters each"),
        ("/".join(["a1b"] * 300), f"at most {MAX_NAME_LENGTH} characters in all"),
    ],
)
def test_names_that_do_not(name: str, said: str) -> None:
    with pytest.raises(ReproError, match=f"invalid name of a problem[\\s\\S]*{said}[\\s\\S]*give it a `name:`"):
        own_name(OwnProblem(path="a.mtx", name=name))


@pytest.mark.parametrize("path", ["{wild}.mtx", "aaaaaaaaaaaaaaaaaaaaa.mtx", ".mtx", "x" + "ab" * 130 + "c.mtx"])
def test_a_name_by_a_file_follows_the_same_rule(path: str) -> None:
    with pytest.raises(ReproError, match=r"invalid name of a problem[\s\S]*give it a `name:`"):
        own_name(OwnProblem(path=path))
    assert own_name(OwnProblem(path=path, name="fine")) == "fine"


def test_the_workflow_takes_what_repeats_for_a_mistake() -> None:
    assert PeriodicityDetector().is_periodic("a" * 20) == "a"
