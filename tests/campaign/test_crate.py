"""A record against its crate: files that were changed, and tables that do not follow from the rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from repro.bench.campaign_folder import CampaignFolder
from repro.campaign.archive import CRATE, find_damage, write_crate
from repro.cli.app import build
from support.coo_campaign import ROOT

RECORDS = sorted(path.parent.name for path in (ROOT / "results").glob(f"*/{CRATE}"))
SMALL = "h200-x2"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "results" / SMALL, tmp_path / SMALL)


def verify(folder: Path) -> tuple[int, str]:
    run = CliRunner().invoke(build(["verify"]), ["verify", folder.name, "--results", str(folder.parent)])
    return run.exit_code, run.output


@pytest.mark.git
@pytest.mark.parametrize("name", RECORDS)
def test_each_record_of_the_project_has_the_files_that_its_crate_lists(name: str) -> None:
    assert find_damage(CampaignFolder.of(name, ROOT / "results")) == []


def test_a_record_as_it_was_is_verified(record: Path) -> None:
    code, said = verify(record)
    assert code == 0, said
    assert f"{SMALL}: all files are as recorded, and 3 tables follow from them" in said


def rows_of(record: Path) -> Path:
    return next((record / "raw").rglob("report.parquet"))


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def add(record: Path) -> None:
    (record / "raw/another.json").write_text("{}")


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda record: append(record / "commits.json"), "commits.json: changed since it was recorded"),
        (lambda record: (record / "commits.json").unlink(), "commits.json: missing"),
        (add, "raw/another.json: not in the crate"),
    ],
)
def test_a_file_that_is_not_as_recorded_is_named(record: Path, damage: Callable[[Path], None], line: str) -> None:
    damage(record)
    assert find_damage(CampaignFolder(record)) == [line]


def test_a_table_that_does_not_follow_from_the_rows_is_named(record: Path) -> None:
    table = next((record / "tables").rglob("*.csv"))
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([lines[0], "made up\n", *lines[2:]]))
    code, said = verify(record)
    assert code == 1 and "0 files and 1 of 3 tables differ" in said
    assert f"{table.parent.name}/{table.stem}: line 2 is 'made up', and made again" in said


def test_a_record_without_checksums_and_a_damaged_crate_are_refused(record: Path) -> None:
    (record / CRATE).write_text("{}")
    assert "the record's checksums cannot be read" in verify(record)[1]
    (record / CRATE).unlink()
    assert "the record has no checksums" in verify(record)[1]


def test_a_crate_describes_itself_as_the_specification_wants(record: Path) -> None:
    graph = json.loads(write_crate(CampaignFolder(record)).read_text())["@graph"]
    about, root, *files = graph
    assert about["@id"] == CRATE and about["conformsTo"]["@id"].endswith("/ro/crate/1.1")
    assert {"name", "description", "datePublished", "license"} <= root.keys() and root["datePublished"].startswith("20")
    assert [part["@id"] for part in root["hasPart"]] == [file["@id"] for file in files]
    assert f"raw/{rows_of(record).relative_to(record / 'raw')}" in {file["@id"] for file in files}
