"""What `import repro` offers: its names are listed, are there, and cost nothing until they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files

import pytest

import repro

LISTED = """
import json, sys, repro
print(json.dumps([dir(repro), [name for name in ("numpy", "scipy", "repro.operators") if name in sys.modules]]))
"""


def test_the_names_of_the_package_are_listed_without_an_import() -> None:
    said = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True).stdout
    names, imported = json.loads(said)
    assert names == sorted(repro.__all__)
    assert imported == []


@pytest.mark.parametrize("name", repro.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(repro, name)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'spam'"):
        repro.spam  # noqa: B018


def test_type_checkers_are_told_that_it_has_types() -> None:
    assert files("repro").joinpath("py.typed").is_file()


def test_an_operator_is_reached_without_what_is_slow_to_import() -> None:
    code = "import json, sys, repro; repro.operator; repro.solve; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported = {*json.loads(said)}
    assert "repro.operators.spmv" in imported
    others = {
        "filelock",
        "matplotlib",
        "meshio",
        "pandas",
        "psutil",
        "pyarrow",
        "pydantic",
        "pyopencl",
        "torch",
        "yaml",
    }
    own = {f"repro.{name}" for name in ("bench.store", "config", "operators.multigrid", "operators.siac_filter")}
    assert not imported & (others | own)
