"""docs/reference is what docs/make_reference.py makes of the code, and has every key, column, command and function."""

import sys
from pathlib import Path

import pytest

import repro
from repro.bench.rows import COMMON_COLUMNS
from repro.cli.app import COMMANDS
from repro.config.models import Config, StudySettings
from support.pages import REPOSITORY, commands

sys.path.insert(0, str(REPOSITORY / "docs"))
import make_reference

FOLDER = make_reference.FOLDER


@pytest.mark.parametrize(
    ("path", "text"), [pytest.param(path, text, id=path.stem) for path, text in make_reference.pages()]
)
def test_the_page_is_what_is_made_of_the_code(path: Path, text: str) -> None:
    assert path.read_text() == text, "python docs/make_reference.py"


def test_no_other_page_lies_there() -> None:
    assert {path for path, _ in make_reference.pages()} == set(FOLDER.iterdir())


def test_every_command_is_shown_with_a_call() -> None:
    called = {line.split()[1] for line in commands(FOLDER / "commands.md") if line.startswith("repro ")}
    assert called >= set(COMMANDS)


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ("configuration", [*Config.model_fields, *StudySettings.model_fields]),
        ("columns", COMMON_COLUMNS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_everything_is_named(page: str, named: list[str]) -> None:
    text = (FOLDER / f"{page}.md").read_text()
    assert not [name for name in named if f"`{name}`" not in text]


def test_every_public_name_has_a_section() -> None:
    text = (FOLDER / "python.md").read_text()
    assert not [name for name in repro.__all__ if not name.startswith("_") and f"## repro.{name}\n" not in text]


def test_a_docstring_becomes_lists() -> None:
    found = "\n\n".join(make_reference._numpydoc("What it is.\n\nParameters\n----------\na, b\n    Two\n    lines."))
    assert found == "What it is.\n\n**Parameters**\n\n- `a, b`: Two lines."
