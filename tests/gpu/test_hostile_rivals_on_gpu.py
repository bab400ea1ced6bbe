"""Rivals that change the process that runs them, in a campaign on a GPU: each costs only itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.devices.cuda import CudaDevice
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.studies import get_study
from support.benches import QUICK
from support.hostile_campaign import check_hostile
from support.hostile_rivals import CHANGES, CHANGES_ON_GPU
from support.small_case import LAYOUTS, NAME, STUDY

pytestmark = pytest.mark.gpu


def test_hostile_rivals_cost_only_themselves_on_a_gpu(
    gpu: CudaDevice,
    templates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_problem: Callable[..., Matrix],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").symlink_to(templates.parent / "config")
    timing = Timing(**{**QUICK, "timeout": 20.0, "rounds": 2, "gpu_disturbed": 1e9})
    settings = StudySettings(layouts=LAYOUTS[:1], space="paper", cache="warm", timing=timing)
    config = Config(campaign="c", device="cuda:0", studies={STUDY: settings})
    for campaign in ("c", "plain"):
        small_problem("complex").save(Path(f"results/{campaign}/problems/{NAME}.npz"))
    study, target = get_study(STUDY), gpu.target
    compile_module(render_common(templates, target), target, Path("modules", target.name, "common.json"))
    for key in study.modules(settings, Outline(NAME, "matrix", "complex"), "single", target):
        compile_module(study.render(templates, key, target), target, manifest_path(target.name, STUDY, key))
    check_hostile(config, CHANGES | CHANGES_ON_GPU, (STUDY, NAME, "single"))
