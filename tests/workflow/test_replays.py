"""A record that is replayed: what lies in it stays where its tables, figures and report cannot be made."""

from __future__ import annotations

import base64
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.checkouts import REPOSITORY, Checkout
from support.snakemake_report import write_report

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

RECORD = "h200-x4"
STUDY = "dynamic_csr"
LEFT = shutil.ignore_patterns("receipts", "configs", "report.html")


@pytest.fixture
def record(checkout: Checkout) -> Checkout:
    """A copy of the project with the record as it is kept, without what a replay here has left."""
    for kind in ("results", "figures"):
        folder = checkout.folder / kind / RECORD
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(REPOSITORY / kind / RECORD, folder, ignore=LEFT)
    return checkout


def made(checkout: Checkout) -> dict[Path, bytes]:
    """Return the tables, figures and the report of the record."""
    results = checkout.folder / "results" / RECORD
    folders = (results / "tables", checkout.folder / "figures" / RECORD)
    paths = [path for folder in folders for path in folder.rglob("*.*")]
    return {path: path.read_bytes() for path in [*paths, *results.glob("report.html")]}


def replay(checkout: Checkout) -> tuple[int, str]:
    said = checkout.snakemake("all", "--configfile", f"config/{RECORD}.yaml")
    return said.code, said.text


@contextmanager
def edited(path: Path, edit: Callable[[str], str]) -> Iterator[None]:
    """A file of the project that is another one meanwhile."""
    kept = path.read_text()
    changed = edit(kept)
    assert changed != kept, f"nothing to change in {path}"
    path.write_text(changed)
    try:
        yield
    finally:
        path.write_text(kept)


@pytest.mark.exhaustive
def test_a_replay_that_fails_deletes_nothing_that_is_recorded(record: Checkout) -> None:
    before = made(record)
    assert {path.suffix for path in before} >= {".csv", ".svg"}
    rows = record.folder / "results" / RECORD / "raw" / STUDY / "report.parquet"
    whole = rows.read_bytes()
    rows.write_bytes(whole[:-10])
    code, said = replay(record)
    assert code == 1
    for kind in ("tables", "figures"):
        assert f"Error in rule {kind}_{STUDY}" in said
    assert made(record) == before

    rows.write_bytes(whole)
    ahead = time.time() + 3600  # as a record is whose clock was another one
    os.utime(rows, (ahead, ahead))
    code, said = replay(record)
    assert code == 0, said
    assert set(made(record)) > set(before)
    assert rows.stat().st_mtime == pytest.approx(ahead), "records are not changed"


@pytest.mark.exhaustive
def test_a_table_that_was_made_before_the_failure_is_taken_back(record: Checkout) -> None:
    """A record's tables are of one making: not some of the new code and some of the old."""
    table = record.folder / "results" / RECORD / "tables" / STUDY / "table-devices.csv"
    table.write_text("as it was recorded\n")
    before = {path: content for path, content in made(record).items() if path.suffix != ".svg"}
    makes = 16 * " " + "content = artifact.make("
    fail = 16 * " " + 'if artifact.name == "table-exchange": raise ReproError("no table")\n'
    with edited(record.folder / "src/repro/cli/results.py", lambda text: text.replace(makes, fail + makes)):
        code, said = replay(record)
    assert code == 1
    assert "error: no table" in said
    after = made(record)
    assert {path: after[path] for path in before} == before


@pytest.mark.exhaustive
def test_a_report_that_cannot_be_written_leaves_the_last_one(record: Checkout) -> None:
    code, said = replay(record)
    assert code == 0, said
    before = made(record)
    template = record.folder / "src/repro/results/report.html.j2"
    with edited(template, lambda text: text + "{{ nothing_of_this_name }}"):
        code, said = replay(record)
    assert code == 1
    assert "Error in rule report" in said
    assert made(record) == before


@pytest.mark.exhaustive
def test_snakemakes_own_report_has_the_figures_and_tables_of_the_replay(record: Checkout) -> None:
    words = ("--configfile", f"config/{RECORD}.yaml")
    said = record.snakemake("--report", "shown.html", *words, cores=False)
    assert said.code == 1
    assert re.search(r"File \S+ marked for report but does not exist", said.text)
    assert not (record.folder / "shown.html").exists()

    code, said = replay(record)
    assert code == 0, said
    shown = write_report(record, *words)
    results, figure = f"results/{RECORD}", f"figures/{RECORD}/{STUDY}/figure-5-5.svg"
    tables = [f"{results}/tables/{STUDY}/{name}.csv" for name in ("table-claims", "table-devices", "table-exchange")]
    assert shown.categories == {
        "Report": {"Other": [f"{results}/report.html"]},
        "Dynamic CSR": {"Tables": tables, "Figures": [figure]},
    }
    for path, result in shown.results.items():
        content = base64.b64decode(result["data_uri"].partition("base64,")[2])
        assert content == (record.folder / path).read_bytes()
        assert result["caption"]
        assert "system-message" not in result["caption"]  # of what is no reStructuredText
    assert shown.results[figure]["labels"]["name"] == "Figure 5.5"
    assert RECORD in shown.description
    assert "system-message" not in shown.description


@pytest.mark.exhaustive
def test_snakemakes_own_report_is_written_where_what_it_does_not_show_is_missing(record: Checkout) -> None:
    words = ("--configfile", f"config/{RECORD}.yaml")
    code, said = replay(record)
    assert code == 0, said
    tables = record.folder / "results" / RECORD / "tables" / STUDY
    with edited(record.folder / "src/repro/results/tables.py", lambda text: text + "# edited\n"):
        edited_since = record.snakemake("--report", "shown.html", *words, cores=False)
    assert edited_since.code == 0, edited_since.text
    assert f"figures {STUDY}: code differs" in edited_since.text
    (tables / "table-devices.tex").unlink()
    one_missing = record.snakemake("--report", "shown.html", *words, cores=False)
    assert one_missing.code == 0, one_missing.text
    assert "table-devices.tex is missing" in one_missing.text
    page = record.folder / "shown.html"
    before = page.read_bytes()

    (tables / "table-devices.csv").unlink()
    refused = record.snakemake("--report", "shown.html", *words, cores=False)
    assert refused.code == 1
    assert "table-devices.csv marked for report but does not exist" in refused.text
    assert page.read_bytes() == before
    page.unlink()  # the copy of the project is other tests' as well
