"""Fixtures: the module of products, compiled for the CPU once, and benches for growing matrices."""

from __future__ import annotations

import pytest

from repro.bench.trial import Bench
from repro.bench.workspace import Workspace
from repro.codegen.compile import compile_module
from repro.codegen.targets import CPU
from repro.config.models import Timing
from repro.devices.several import Devices
from repro.sparse.columns import LIBRARY
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.render import render_key
from repro.studies.dynamic_csr.variant_id import PRODUCT_COLUMNS

OWN = {**LIBRARY, **PRODUCT_COLUMNS, "ordering": str, "segments": int, "slack": int}


@pytest.fixture(scope="session")
def product_modules(tmp_path_factory, templates):
    """The module of products of each precision, and the folder of both."""
    folder = tmp_path_factory.mktemp("products")
    return {
        precision: compile_module(render_key(templates, f"{precision}/product", CPU), CPU, folder / f"{precision}.json")
        for precision in ("single", "double")
    }, folder


@pytest.fixture
def make_graph_bench(cpu_device, modules_folder):
    """Open a bench on the CPU for a growing matrix."""
    benches = []

    def make(problem, precision="double"):
        operands = make_operands(problem, precision, 1)
        bench = Bench(
            Workspace(Devices([cpu_device]), operands, modules_folder, resident=16),
            study="dynamic_csr",
            problem=problem.name,
            timing=Timing(launches=10, graph_launches=2, graph_replays=5, cpu_budget=0.01, rounds=2, noise=1e9,
                          cpu_disturbed=1e9),
            seed=1,
            own=OWN,
            environment="test",
            driver="test",
            code=str,
        )  # fmt: skip
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.release()
