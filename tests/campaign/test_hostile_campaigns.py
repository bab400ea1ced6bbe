"""A campaign that somebody else sends, read by every command that reads rows: one message, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from repro.bench import store
from repro.bench.store import read_table, write_table
from repro.cli.app import build
from support.non_files import IN_PLACE_OF_A_FILE, put
from support.split_campaign import RECORDED, change_config, change_record, cut

STUDY, PROBLEM, WHOLE = "dynamic_csr", "like_eu-2005", "whole"
SMALL = RECORDED / "h200-x4"
ROWS = f"raw/{STUDY}/report.parquet"
RECORD = f"raw/problems/{PROBLEM}.json"

#: What reads a campaign: its words on the line, and its exit code where it fails.
COMMANDS: dict[str, tuple[list[str], int]] = {
    "table": (["table", "--all", "--campaign", WHOLE], 1),
    "report": (["report", "--campaign", WHOLE], 1),
    "compare": (["compare", WHOLE, "sound"], 2),
    "record": (["record", WHOLE], 1),
    "check": (["check", "--config", f"results/{WHOLE}/config.yaml"], 1),
    "merge": (["merge", WHOLE, "sound", "--to", "merged", "--keep-apart"], 1),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recorded campaigns, to be replayed."""
    folder = tmp_path_factory.mktemp("campaigns")
    for name in (WHOLE, "sound"):
        part = cut(SMALL, folder / "results" / name, {STUDY: ({PROBLEM}, {"double"})})
        change_config(part, lambda config, name=name: config.update(campaign=name, replay=True))
    return folder


@pytest.fixture
def campaign(campaigns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, in a folder that commands run in."""
    shutil.copytree(campaigns, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "ALWAYS", 16 << 20)
    return Path("results") / WHOLE


def rows(**values: Any) -> Callable[[Path], object]:
    """Change the first row that was timed."""

    def damage(campaign: Path) -> None:
        table = read_table(campaign / ROWS)
        there = table.to_pylist()
        next(row for row in there if row["event_median"]).update(values)
        write_table(pa.Table.from_pylist(there, table.schema), campaign / ROWS)

    return damage


def doubled(campaign: Path) -> None:
    write_table(pa.concat_tables([read_table(campaign / ROWS)] * 2), campaign / ROWS)


def long_text(campaign: Path) -> None:
    table = read_table(campaign / ROWS)
    place = table.column_names.index("message")
    texts = pa.array(["m" * 1_000_000] * table.num_rows)
    write_table(table.set_column(place, "message", texts), campaign / ROWS)


#: By its kind a damage, and the file that messages name.
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a time of -1 s": (rows(event_median=-1.0), ROWS),
    "an infinite time": (rows(graph_max=float("inf")), ROWS),
    "an unknown status": (rows(status="splendid"), ROWS),
    "an unknown precision": (rows(precision="../.."), ROWS),
    "a problem that leads out": (rows(problem="../../../ESCAPED"), ROWS),
    "rows doubled": (doubled, ROWS),
    "a long text in each row": (long_text, ROWS),
    "rows cut off": (lambda campaign: (campaign / ROWS).write_bytes((campaign / ROWS).read_bytes()[:-9]), ROWS),
    **{f"a {kind} in place of rows": (lambda campaign, kind=kind: put(kind, campaign / ROWS), ROWS)
       for kind in IN_PLACE_OF_A_FILE},
    **{f"a {kind} in place of a record": (lambda campaign, kind=kind: put(kind, campaign / RECORD), RECORD)
       for kind in IN_PLACE_OF_A_FILE},
    "a record of brackets": (lambda campaign: (campaign / RECORD).write_bytes(b"[" * 100_000), RECORD),
    "a record of other types": (lambda campaign: change_record(campaign, PROBLEM, n="many"), RECORD),
    "a record that leads out": (lambda campaign: change_record(campaign, PROBLEM, name="../../ESCAPED"), RECORD),
    "a record of no number": (lambda campaign: change_record(campaign, PROBLEM, n=float("nan")), RECORD),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.medium
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_of_each_damage_which_file_it_is(
    campaign: Path, at_once: None, command: str, tmp_path: Path
) -> None:
    words, code = COMMANDS[command]
    application = build([command])
    sound = {str(path): path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    for what, (damage, file) in DAMAGES.items():
        if command == "record" and file == RECORD:
            continue  # which it does not read
        damage(campaign)
        said = CliRunner().invoke(application, words)
        assert isinstance(said.exception, SystemExit), (what, said.exception)
        assert said.exit_code == code, what
        assert said.output.count("error:") == 1, (what, said.output)
        assert str(campaign / file) in said.output, (what, said.output)
        assert len(said.output) < 2500, what
        assert said.output.replace("\n", "").isprintable(), what
        assert not list(tmp_path.parent.glob("*ESCAPED*"))
        path = campaign / file
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        path.write_bytes(sound[str(path)])
        now = {str(path): path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
        now.pop("results/.run.lock", None)
        assert now == sound, what


@pytest.mark.parametrize("name", ["../sound", "/tmp", "", ".", "..", "a/b", "a\n", "a\0b", "n" * 200, "-x", "a\u2028b"])
@pytest.mark.parametrize(
    "words",
    [
        ["table", "--all", "--campaign"], ["report", "--campaign"], ["record", "--"],
        ["export", PROBLEM, "--precision", "double", "--to", "x", "--campaign"],
        ["report", "--campaign", WHOLE, "--beside"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_campaign_is_named_by_a_name(campaign: Path, words: list[str], name: str) -> None:
    said = CliRunner().invoke(build([words[0]]), [*words, name])
    assert said.exit_code == 1, said.output
    assert "error: invalid name of a campaign" in said.output
    assert not Path("x").exists()


def test_a_recorded_package_is_no_more_than_a_name_and_a_version(campaign: Path) -> None:
    path = next(campaign.glob("raw/environment/*.json"))
    record = json.loads(path.read_text())
    for packages in ({"numpy": "1\n--index-url http://elsewhere"}, {"-r elsewhere": "1"}, {"": "1"}):
        path.write_text(json.dumps({**record, "packages": packages}))
        said = CliRunner().invoke(build(["check"]), ["check", "--campaign", WHOLE])
        assert said.exit_code == 1
        assert "error: the record of an environment cannot be read" in said.output
