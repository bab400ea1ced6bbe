"""The notebook of the operators runs from top to bottom, and is kept without outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest

pytestmark = pytest.mark.medium

PATH = Path(__file__).parents[2] / "examples/operators.ipynb"
CELLS = nbformat.read(PATH, as_version=4).cells


def test_the_notebook_has_no_outputs() -> None:
    nbformat.validate(nbformat.read(PATH, as_version=4))
    code = [cell for cell in CELLS if cell.cell_type == "code"]
    assert not [cell.id for cell in code if cell.outputs or cell.execution_count], (
        "jupyter nbconvert --clear-output --inplace examples/operators.ipynb"
    )


def test_the_notebooks_cells_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: (shown.append(len(plt.gca().lines)), plt.close()))
    scope: dict[str, Any] = {}
    for cell in CELLS:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{PATH.name}: {cell.id}", "exec"), scope)
    assert shown == [2, 3]


def test_the_notebooks_links_lead_somewhere() -> None:
    links = [link for cell in CELLS for link in re.findall(r"\]\(([^)]+)\)", cell.source)]
    assert links
    assert all((PATH.parent / link).exists() for link in links)
