"""Every block of Python and YAML in the pages is done: Python runs from top to bottom, YAML is a configuration.

Those of docs/add-*.md are done by test_how_to.py, and docs/reference/python.md has signatures alone.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.campaign.configuration import resolve
from support.pages import HOW_TO, PAGES, REPOSITORY, Block, blocks

#: What a block needs that only a run makes, and the test that makes it and runs the block.
OF_A_RUN = {"results/mine": REPOSITORY / "tests/workflow/test_own_files.py"}
#: How a block of either language begins that is only indented.
UNFENCED = re.compile(r"^\n {4}(?:import |from [\w.]+ import |\w+ = |- \w+: |\w+:(?: |$))", re.MULTILINE)


def of_language(page: Path, language: str) -> list[Block]:
    return [block for block in blocks(page) if block.language == language]


def pages_with(language: str) -> list[Path]:
    return [
        page for page in PAGES if page not in HOW_TO and page.parent.name != "reference" and of_language(page, language)
    ]


def named(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_says_its_language(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not UNFENCED.findall(prose)


@pytest.mark.sampled(4)
@pytest.mark.medium
@pytest.mark.parametrize("page", pages_with("python"), ids=named)
def test_python_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    scope: dict[str, Any] = {}
    for block in of_language(page, "python"):
        if any(need in block.text for need in OF_A_RUN):
            continue
        needed = set(re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE))
        if all(importlib.util.find_spec(name) for name in needed):  # CuPy and PyTorch where they are installed
            exec(compile(block.text, str(page), "exec"), scope)


def test_what_needs_a_run_is_run_by_a_test_that_reads_the_page() -> None:
    for need, test in OF_A_RUN.items():
        having = {named(page) for page in PAGES for block in of_language(page, "python") if need in block.text}
        assert having
        assert all(page in test.read_text() for page in having)


def test_the_example_of_an_own_matrix_searches_what_the_first_numbers_are_of() -> None:
    blocks = [yaml.safe_load(block.text) for block in of_language(REPOSITORY / "README.md", "yaml")]
    [mine] = [block for block in blocks if block.get("campaign") == "mine"]
    assert mine["studies"]["compound_spmv"]["space"] == "extended"


@pytest.mark.parametrize("page", pages_with("yaml"), ids=named)
def test_yaml_is_a_configuration(page: Path) -> None:
    for block in of_language(page, "yaml"):
        resolve(whole(yaml.safe_load(block.text)))


def whole(part: Any) -> dict[str, Any]:
    """Complete a fragment to a configuration: its keys are those of the root or of a study, or it lists problems."""
    if isinstance(part, list):
        part = {"problems": part}
    if "problems" in part:
        part = {"studies": {"compound_spmv": part}}
    return {"campaign": "page", "studies": {"compound_spmv": {}}, **part}


def test_a_block_with_a_key_that_there_is_not_is_found() -> None:
    with pytest.raises(Exception, match="layuots"):
        resolve(whole(yaml.safe_load("studies: {compound_spmv: {layuots: [tiny]}}")))
