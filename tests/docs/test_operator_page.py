"""The Python of docs/operator.md runs as written; what needs another library only where that is installed."""

import importlib.util
import re
import shlex
import sys
from importlib import import_module

import pytest
from pages import REPOSITORY, blocks

PAGE = REPOSITORY / "docs/operator.md"


def test_the_code_runs_from_top_to_bottom(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    scope = {}
    found = [block for block in blocks(PAGE) if block.language == "python"]
    assert len(found) == 3
    for block in found:
        needed = set(re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE))
        if all(importlib.util.find_spec(name) for name in needed):
            exec(compile(block.text, str(PAGE), "exec"), scope)


@pytest.mark.parametrize("example", ["conjugate_gradients", "spin_transformation"])
def test_the_examples_have_the_options_that_are_shown(example, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    with pytest.raises(SystemExit):
        import_module(example).main(["--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    lines = [line for block in blocks(PAGE) for line in block.text.splitlines() if f"examples/{example}.py" in line]
    assert lines
    for line in lines:
        assert {word for word in shlex.split(line) if word.startswith("--")} <= known
    for path in (REPOSITORY / "examples").glob("*.py"):
        sys.modules.pop(path.stem, None)
