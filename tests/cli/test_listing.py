"""`repro list`: every list is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repro.cli import app
from repro.cli.campaign import LISTS, ListTopic, list_, list_lists
from repro.package_data import DEFAULT_CONFIG

REPOSITORY = Path(__file__).parents[2]

EXPECTED = {
    ListTopic.problems: "surfaces/bunny",
    ListTopic.sets: "papers",
    ListTopic.entries: "quaternion",
    ListTopic.layouts: "Sl-32-SoA-AoS",
    ListTopic.baselines: "scipy",
    ListTopic.artifacts: "table-9",
    ListTopic.devices: "opencl:0",
    ListTopic.studies: "10.1111/cgf.13957",
    ListTopic.campaigns: "h200-as-published",
}


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize("what", ListTopic)
def test_lists(what: ListTopic, capsys: pytest.CaptureFixture[str]) -> None:
    list_(what)
    said = capsys.readouterr().out
    assert EXPECTED[what] in said
    heads, rows = LISTS[what](DEFAULT_CONFIG)
    # in a pipe a line is a thing
    assert len(said.splitlines()) == 1 + len(list(rows))
    assert said.startswith(heads[0])


def test_alone_it_lists_what_there_is_to_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.build()(["list"], standalone_mode=False) is None
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [what for what, _, _ in rows] == list(ListTopic)
    for what, count, command in rows:
        assert int(count) == len(list(LISTS[ListTopic(what)](DEFAULT_CONFIG)[1])) > 0
        assert command == f"repro list {what}"


def test_where_the_configuration_cannot_be_read_the_rest_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("campaign: [")
    monkeypatch.chdir(tmp_path)
    list_()
    counts = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:])
    assert counts["problems"] == counts["sets"] == "–"
    assert int(counts["studies"]) > 0


@pytest.mark.parametrize("what", [None, *ListTopic])
def test_on_80_columns_no_line_is_wider_and_no_name_is_cut(
    what: ListTopic | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    list_(what)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    _, rows = LISTS[what](DEFAULT_CONFIG) if what else list_lists(DEFAULT_CONFIG)
    for row in rows:
        # whatever stands in a cell stands there, if over several lines
        for word in " ".join(str(cell) for cell in row if cell).split():
            assert word in said, word
        assert re.search(rf"^{re.escape(str(row[0]))}( |$)", said, re.MULTILINE)


def test_problems_of_your_own_are_listed(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("studies: {compound_spmv: {problems: [generated, {path: part.msh, entry: block3}]}}\n")
    _, rows = LISTS[ListTopic.problems](config)
    assert ("part", "block3", "part.msh", None, None, "your own") in list(rows)


def test_the_papers_13_are_listed_as_such() -> None:
    _, rows = LISTS[ListTopic.problems](DEFAULT_CONFIG)
    papers = [row for row in rows if "papers" in str(row[4]).split(", ")]
    assert len(papers) == 13
    assert sum(row[5] == "rebuilt" for row in papers) == 5
