"""`repro config`: the resolved configuration and the schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from repro.cli.campaign import config, schemas, write_schemas
from repro.config.models import Config

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)


def test_the_command_prints_every_default(capsys: pytest.CaptureFixture[str]) -> None:
    config([Path("config/config.yaml"), Path("config/paper.yaml")])
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["campaign"] == "paper"
    assert printed["studies"]["compound_spmv"]["problems"] == "papers"
    assert printed["studies"]["compound_spmv"]["timing"]["launches"] == 1000
    assert Config.model_validate(printed).model_dump(mode="json") == printed


def test_a_file_stands_alone_and_the_help_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("studies: {compressed_coo: {}}\n")
    config([mine])
    assert list(yaml.safe_load(capsys.readouterr().out)["studies"]) == ["compressed_coo"]
    config([mine, Path("config/paper.yaml")])
    assert list(yaml.safe_load(capsys.readouterr().out)["studies"]) == ["compressed_coo", "compound_spmv"]
    assert "stands alone" in str(config.__doc__)


def test_the_schemas_in_the_repository_are_current(tmp_path: Path) -> None:
    kept = {path.name: path.read_text() for path in (REPOSITORY / "workflow/schemas").glob("*.json")}
    assert kept == {path.name: path.read_text() for path in write_schemas(tmp_path)}, "run `repro config --schema`"


def test_every_key_of_the_schema_says_what_it_means() -> None:
    wordless = [
        (name, key)
        for name in ("config.schema.json",)
        for model in (schemas()[name], *schemas()[name]["$defs"].values())
        for key, field in model.get("properties", {}).items()
        if "description" not in field and key not in ("fetch", "timing", "precisions")
    ]
    assert not wordless
    json.dumps(schemas())
