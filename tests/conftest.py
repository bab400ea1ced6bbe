"""Shared by all tests: what is skipped where something is missing, and small configurations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace, make_operands
from repro.codegen.compile import Module, compile_module
from repro.codegen.render import render_common
from repro.codegen.targets import CPU
from repro.config.models import Config, Protocol, Study
from repro.devices.opencl import OpenClDevice
from repro.entries import get_entry
from repro.problems.problem import Problem

REPOSITORY = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("REPRO_MIRROR"):
        skip = pytest.mark.skip(reason="REPRO_MIRROR does not point at a folder of real inputs")
        for item in items:
            if item.get_closest_marker("mirror"):
                item.add_marker(skip)


@pytest.fixture
def mirror() -> Path:
    """The folder of real inputs; for tests marked `mirror`."""
    return Path(os.environ["REPRO_MIRROR"])


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., Config]:
    """Make a configuration with its download folder in `tmp_path`; `fetch=` adds to its keys."""

    def make(fetch: dict[str, Any] | None = None, **keys: Any) -> Config:
        settings = {"cache": str(tmp_path / "cache"), "timeout": 2.0, "retries": 0, **(fetch or {})}
        keys = {"registry": str(REPOSITORY / "config/problems.yaml"), "studies": {"compound_spmv": Study()}} | keys
        return Config(fetch=settings, **keys)

    return make


@pytest.fixture(scope="session")
def templates() -> Path:
    """The project's kernel templates."""
    return REPOSITORY / "kernels"


@pytest.fixture(scope="session")
def common_manifest(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Path:
    """The common module, compiled for the CPU once."""
    manifest = tmp_path_factory.mktemp("modules") / "common.json"
    compile_module(render_common(templates, CPU), CPU, manifest)
    return manifest


@pytest.fixture(scope="session")
def cpu_device() -> OpenClDevice:
    """The CPU through OpenCL."""
    return OpenClDevice()


@pytest.fixture
def make_bench(cpu_device: OpenClDevice, common_manifest: Path) -> Callable[..., Bench]:
    """Open a bench on the CPU for a problem, with a protocol of few launches."""

    def make(problem: Problem, precision: str = "double", **protocol: Any) -> Bench:
        module = Module.load(common_manifest)
        common = cpu_device.load(common_manifest.parent / str(module.binary))
        operands = make_operands(problem, precision, 1)
        few = {"launches": 20, "graph_launches": 5, "graph_replays": 5, "cpu_budget": 0.01, "rounds": 2, "noise": 1e9}
        return Bench(
            cpu_device,
            operands,
            Workspace(cpu_device, operands, common, module.hash, resident=16),
            study="compound_spmv",
            protocol=Protocol(**{**few, **protocol}),
            seed=1,
            environment="test",
            driver="test",
        )

    return make


@pytest.fixture
def small_problem() -> Callable[..., Problem]:
    """Make a random problem of an entry, with empty rows and a long one."""

    def make(entry: str = "quaternion", n: int = 75) -> Problem:
        random = np.random.default_rng(5)
        lengths = random.integers(0, 9, n)
        lengths[n // 2], lengths[::7] = n - 3, 0
        indices = [np.sort(random.choice(n, length, replace=False)) for length in lengths]
        return Problem(
            f"small/{entry}",
            entry,
            n,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            np.concatenate(indices).astype(np.int32),
            random.normal(size=(int(lengths.sum()), len(get_entry(entry).members))),
        )

    return make
