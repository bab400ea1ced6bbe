"""An open GPU with the common module, for all tests of this folder; without a GPU they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace, make_operands
from repro.codegen.compile import Module, compile_module
from repro.codegen.render import render_common
from repro.config.models import Protocol
from repro.devices.base import Program
from repro.devices.cuda import CudaDevice, open_cuda
from repro.errors import ReproError
from repro.problems.problem import Problem


@pytest.fixture(scope="session")
def gpu() -> Iterator[CudaDevice]:
    """The first GPU."""
    try:
        device = open_cuda(0)
    except ReproError as error:
        pytest.skip(" ".join(error.message.split()))
    yield device
    device.close()


@pytest.fixture(scope="session")
def gpu_module(gpu: CudaDevice, templates: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, str]:
    """The common module and its hash, loaded; the device has taken its blocker from it."""
    manifest = tmp_path_factory.mktemp("modules") / "common.json"
    module: Module = compile_module(render_common(templates, gpu.target), gpu.target, manifest)
    program = gpu.load(manifest.parent / str(module.binary))
    gpu.use_common(program)
    return program, module.hash


@pytest.fixture
def make_gpu_bench(gpu: CudaDevice, gpu_module: tuple[Program, str]) -> Iterator[Callable[..., Bench]]:
    """Open a bench on the GPU for a problem, with a protocol of few launches."""
    benches: list[Bench] = []

    def make(problem: Problem, precision: str, **protocol: Any) -> Bench:
        operands = make_operands(problem, precision, 1)
        few = {"launches": 20, "graph_launches": 5, "graph_replays": 5, "rounds": 2, "noise": 1e9}
        bench = Bench(
            gpu,
            operands,
            Workspace(gpu, operands, *gpu_module, resident=16),
            study="compound_spmv",
            protocol=Protocol(**{**few, **protocol}),
            seed=1,
            environment="test",
            driver="test",
        )
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.release()
