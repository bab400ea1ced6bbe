"""A kernel that loses the context and one that never ends, run by `repro measure` on a GPU: each costs its own row."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.templates import render_common
from repro.config.models import Config, StudySettings, Timing
from repro.devices.cuda import CudaDevice
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline
from repro.studies import get_study
from support.benches import QUICK

pytestmark = pytest.mark.gpu

STUDY, NAME, SPOILT = "compound_spmv", "small/complex", "ELL-SoA-AoS"
#: What kernels do in place of a product, by the schedules that they are of.
STATEMENTS = {
    "static-64-2-rolled": "*((volatile int*)y + ((size_t)1 << 42)) = 1;",
    "static-64-3-rolled": "for (volatile int i = 0; i < 2; i++) i = 0;",
}


def test_a_lost_context_and_a_hang_cost_a_row_each(
    gpu: CudaDevice,
    templates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_problem: Callable[..., Matrix],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").symlink_to(templates.parent / "config")
    settings = StudySettings(layouts=(SPOILT,), timing=Timing(**{**QUICK, "timeout": 10.0}))
    config = Config(campaign="c", device="cuda:0", studies={STUDY: settings})
    Path("c.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    small_problem("complex").save(Path(f"results/c/problems/{NAME}.npz"))
    study, target = get_study(STUDY), gpu.target
    compile_module(render_common(templates, target), target, Path("modules", target.name, "common.json"))
    for key in study.modules(settings, Outline(NAME, "matrix", "complex"), "single", target):
        source = study.render(templates, key, target)
        for schedule, statement in STATEMENTS.items() if key.endswith(SPOILT) else ():
            start = source.index("{", source.index(f"spmv_{schedule.replace('-', '_')}(")) + 1
            source = f"{source[:start]}\n{statement}\n{source[start:]}"
        compile_module(source, target, manifest_path(target.name, STUDY, key))

    words = [sys.executable, "-m", "repro", "measure", STUDY, NAME, "single", "--config", "c.yaml"]
    done = subprocess.run(words, text=True, check=False, timeout=240, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("going on in a new process") == 2
    search = pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/search.parquet").set_index("name")
    lost, hung = (search.loc[f"{SPOILT}/{schedule}"] for schedule in STATEMENTS)
    assert (lost.status, hung.status) == ("launch_error", "timeout")
    assert "did not end within" in hung.message
    assert set(search.drop([lost.name, hung.name]).status) == {"ok"}
    choices = pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/choices.parquet")
    assert {"schedule", "layout", "joint", "static", "dynamic"} <= set(choices.tuning)
