"""The Python of the operators' pages runs as written; what needs another library only where that is installed."""

import importlib.util
import re
import shlex
import sys
from importlib import import_module

import pytest
from pages import REPOSITORY, blocks

PAGE, DYNAMIC, PRODUCTS, MULTIGRID, SOLVERS, FILTER = (
    REPOSITORY / f"docs/{page}.md" for page in ("operator", "dynamic", "products", "multigrid", "solvers", "siac")
)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("page", "count"), [(PAGE, 5), (DYNAMIC, 2), (PRODUCTS, 4), (MULTIGRID, 3), (SOLVERS, 2), (FILTER, 4)], ids=str
)
def test_the_code_runs_from_top_to_bottom(monkeypatch, tmp_path, page, count):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    scope = {}
    found = [block for block in blocks(page) if block.language == "python"]
    assert len(found) == count
    for block in found:
        needed = set(re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE))
        if all(importlib.util.find_spec(name) for name in needed):
            exec(compile(block.text, str(page), "exec"), scope)


@pytest.mark.parametrize(
    ("page", "example"),
    [
        (PAGE, "conjugate_gradients"),
        (PAGE, "spin_transformation"),
        (DYNAMIC, "transitive_closure"),
        (MULTIGRID, "elasticity_multigrid"),
        (MULTIGRID, "nonlinear_heat"),
        (SOLVERS, "heat"),
        (FILTER, "advection_siac"),
    ],
    ids=lambda value: getattr(value, "stem", value),
)
def test_the_examples_have_the_options_that_are_shown(page, example, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    with pytest.raises(SystemExit):
        import_module(example).main(["--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    lines = [line for block in blocks(page) for line in block.text.splitlines() if f"examples/{example}.py" in line]
    assert lines
    for line in lines:
        assert {word for word in shlex.split(line) if word.startswith("--")} <= known
    for path in (REPOSITORY / "examples").glob("*.py"):
        sys.modules.pop(path.stem, None)
