"""The page's command that writes a figure for a paper, done as it is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from repro.cli.app import build
from support.pages import REPOSITORY, blocks

PAGE = REPOSITORY / "docs/reading-the-tables.md"


@pytest.mark.medium
def test_the_command_of_the_page_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = (b.text for b in blocks(PAGE) if b.language == "sh" and b.text.startswith("repro figure"))
    (latex,) = (block.text for block in blocks(PAGE) if block.language == "latex")
    for name in ("results", "config"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(build(["figure"]), shlex.split(command)[1:]).exit_code == 0
    written = {str(path.relative_to(tmp_path)) for path in (tmp_path / "paper").rglob("*.*")}
    assert written == {f"paper/h200/compound_spmv/figure-speedup.{suffix}" for suffix in ("pdf", "tex")}
    assert all(f"`{path}`" in PAGE.read_text() or f"{{{path.removesuffix('.tex')}}}" in latex for path in written)
