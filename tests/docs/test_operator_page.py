"""The examples have the options that the operators' pages show."""

import re
import shlex
import sys
from importlib import import_module

import pytest

from support.pages import REPOSITORY, blocks

PAGE, DYNAMIC, MULTIGRID, SOLVERS, FILTER = (
    REPOSITORY / f"docs/{page}.md" for page in ("operator", "dynamic", "multigrid", "solvers", "siac")
)


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
