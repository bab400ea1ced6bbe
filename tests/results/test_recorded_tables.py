"""The tables of a record are those that its rows give: a replay changes nothing that is kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repro.cli.results import table
from support.campaigns import REPOSITORY, RESULTS, recorded_campaigns

#: Records of several studies each, whose tables take up to a minute.
LARGE = ("h100", "h200", "h200-as-published")
CAMPAIGNS = [
    pytest.param(name, marks=pytest.mark.exhaustive if name in LARGE else ())
    for name in recorded_campaigns(configured=True)
]


def kept(tables: Path) -> dict[str, str]:
    return {str(path.relative_to(tables)): path.read_text("utf-8") for path in tables.rglob("*.csv")}


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_a_records_tables_are_made_of_its_rows(campaign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in recorded_campaigns():  # some are held against others
        folder = tmp_path / name
        folder.mkdir()
        (folder / "raw").symlink_to(RESULTS / name / "raw")
        if (configured := RESULTS / name / "config.yaml").exists():
            shutil.copy(configured, folder)
    monkeypatch.chdir(REPOSITORY)
    table(all_=True, results=tmp_path, config_file=Path(f"config/{campaign}.yaml"))
    made, recorded = (kept(results / campaign / "tables") for results in (tmp_path, RESULTS))
    assert recorded and sorted(made) == sorted(recorded)
    assert [name for name in made if made[name] != recorded[name]] == []
