"""Whose matrices the pages say that the recorded ones are, and what the recorded table of their sizes says."""

import re

import pandas as pd
import pytest

from support.pages import REPOSITORY

INPUTS = REPOSITORY / "docs/inputs.md"
#: How a line of the page begins, and what the table's note on its problems begins with.
LINES = {
    "the papers' own": "",
    "their meshes": "rebuilt",
    "[standing in]": "stand-in for",
    "theirs, and missing": "not in this campaign",
    "of no paper": "of no paper",
}
#: Counts that README.md states in words.
WORDS = {2: "two", 4: "four", 5: "five"}


@pytest.fixture(scope="module")
def by_line() -> dict[str, list[str]]:
    """The problems of the recorded table, by the line of the page that should have them."""
    sizes = pd.read_csv(REPOSITORY / "results/h200/tables/compound_spmv/table-1.csv")
    notes = sizes["notes"].fillna("")
    return {
        line: list(sizes["problem"][notes.str.startswith(note) if note else notes == ""])
        for line, note in LINES.items()
    }


@pytest.mark.parametrize("line", LINES)
def test_every_problem_stands_in_its_line(line: str, by_line: dict[str, list[str]]) -> None:
    [row] = [row for row in INPUTS.read_text().splitlines() if row.startswith(f"| {line}")]
    assert sorted(re.findall(r"`([^`]+)`", row)) == sorted(by_line[line])


def test_the_readme_counts_them(by_line: dict[str, list[str]]) -> None:
    lines = ("the papers' own", "their meshes", "[standing in]", "theirs, and missing")
    own, rebuilt, stand_ins, missing = (WORDS[len(by_line[line])] for line in lines)
    readme = " ".join((REPOSITORY / "README.md").read_text().split())
    had = f"Of the papers' 13 matrices we have {own}, rebuilt {rebuilt} and replaced {stand_ins} with stand-ins"
    assert f"{had}; {missing} are missing." in readme
