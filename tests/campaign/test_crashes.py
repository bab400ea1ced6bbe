"""Kernels that crash and kernels that never end, run for real by `repro measure`: each costs its own row."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest
import yaml

from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.config.models import Timing
from repro.devices.opencl import OpenClDevice
from repro.studies import get_study
from support.benches import QUICK
from support.small_case import FILES, LAYOUTS, NAME, STUDY, config

pytestmark = pytest.mark.medium

KEY = "paper/complex-single/ELL-SoA-AoS"
#: What kernels do in place of a product, by their names; the second one where it has so many blocks.
SPOILT = {
    "spmv_static_16_rolled": "*((volatile __global int*)y + ((size_t)1 << 42)) = 1;",
    "spmv_dynamic_64_rolled": "if (get_num_groups(0) == {}) for (volatile int i = 0; i < 2; i++) i = 0;",
}
SECONDS = 5.0


@pytest.fixture
def command(modules: Path, measuring: None, templates: Path) -> Callable[..., list[str]]:
    """Return the command line that measures the small case, with other kernels and timing; from the current folder."""
    Path("modules").unlink()
    shutil.copytree(modules, "modules")
    Path("config").symlink_to(templates.parent / "config")

    def write(spoilt: Mapping[str, str], **timing: float) -> list[str]:
        source = get_study(STUDY).render(templates, KEY, CPU)
        for kernel, statement in spoilt.items():
            start = source.index("{", source.index(f" {kernel}(")) + 1
            source = f"{source[:start]}\n{statement}\n{source[start:]}"
        compile_module(source, CPU, manifest_path(CPU.name, STUDY, KEY))
        few = config(layouts=LAYOUTS[:1], space="paper", timing=Timing(**{**QUICK, **timing}))
        Path("c.yaml").write_text(yaml.safe_dump(few.model_dump(mode="json")))
        return [sys.executable, "-m", "repro", "measure", STUDY, NAME, "single", "--config", "c.yaml"]

    return write


def started(words: list[str], rows: int = 1) -> subprocess.Popen[str]:
    """Start a command in a group of its own; return it as soon as it has stored some rows."""
    process = subprocess.Popen(
        words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    store = Path(f"results/c/store/{STUDY}/{NAME}/single/rows.jsonl")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (store.exists() and store.read_bytes().count(b"\n") >= rows):
        time.sleep(0.02)
    return process


@pytest.mark.slow
def test_what_crashes_and_what_hangs_costs_its_rows_and_the_rest_is_measured(
    command: Callable[..., list[str]], cpu_device: OpenClDevice
) -> None:
    words = command({name: text.format(cpu_device.sm_count) for name, text in SPOILT.items()}, timeout=SECONDS)
    done = subprocess.run(words, text=True, check=False, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    found = {step: pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/{step}.parquet") for step in FILES}
    search = found["search"]
    crashed = search.name.str.startswith("ELL-SoA-AoS/static-16-")
    hung = search.name == "ELL-SoA-AoS/dynamic-64-1-rolled"
    assert crashed.any()
    assert hung.any()
    assert set(search[crashed].status) == {"launch_error"}
    assert set(search[crashed].message) == {"the process was ended by SIGSEGV (Segmentation fault)"}
    assert set(search[hung].status) == {"timeout"}
    assert search[hung].message.str.endswith(f"did not end within {SECONDS:g} s").all()
    assert set(search[~crashed & ~hung].status) == {"ok"}
    assert set(found["choices"].tuning) == {"schedule", "layout", "joint", "static", "dynamic", "operator"}
    assert set(found["report"].status) == {"ok"}
    assert done.stdout.count("going on in a new") == crashed.sum() + hung.sum()


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_asked_to_end_ends_with_all_its_processes(command: Callable[..., list[str]], number: int) -> None:
    process = started(command({}, screen_launches=3000))
    process.send_signal(number)
    process.communicate(timeout=30)  # nobody has the output open any more
    assert process.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.exhaustive
def test_what_was_stopped_for_longer_than_the_timeout_is_not_given_up(command: Callable[..., list[str]]) -> None:
    seconds = 2.5
    process = started(command({}, timeout=seconds, screen_launches=300), rows=5)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(3 * seconds)
    os.killpg(process.pid, signal.SIGCONT)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said
    assert "in a new process" not in said
    for step in FILES[:3]:
        assert set(pd.read_parquet(f"results/c/raw/{STUDY}/{NAME}/single/{step}.parquet").status) == {"ok"}
