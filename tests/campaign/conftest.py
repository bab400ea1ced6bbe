"""What the tests that measure share: compiled modules, and a folder to measure in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.codegen.templates import render_common
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.studies import get_study
from support.small_case import NAME, STUDY, config


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Path:
    """All modules of the small case and the common one, for the CPU."""
    folder = tmp_path_factory.mktemp("measuring")
    study, settings = get_study(STUDY), config().studies[STUDY]
    for key in study.modules(settings, Outline(NAME, "matrix", "complex"), "single", CPU):
        compile_module(study.render(templates, key, CPU), CPU, folder / manifest_path(CPU.name, STUDY, key))
    compile_module(render_common(templates, CPU), CPU, folder / "modules/cpu/common.json")
    return folder / "modules"


@pytest.fixture
def measuring(
    modules: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small_problem: Callable[..., Matrix]
) -> None:
    """A folder with modules and a problem; what is measured goes there."""
    (tmp_path / "modules").symlink_to(modules)
    monkeypatch.chdir(tmp_path)
    small_problem("complex").save(Path(f"results/c/problems/{NAME}.npz"))
