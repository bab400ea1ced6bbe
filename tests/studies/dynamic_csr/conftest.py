"""The module of products, compiled for the CPU once, and benches for growing matrices."""

import pytest

from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices
from repro.studies.dynamic_csr.kernels import render_key
from support.benches import graph_benches


@pytest.fixture(scope="session")
def product_modules(built_folder, templates):
    """The module of products of each precision, and the folder of both."""
    folder = built_folder / "products"
    return {
        precision: compile_module(render_key(templates, f"{precision}/product", CPU), CPU, folder / f"{precision}.json")
        for precision in ("single", "double")
    }, folder


@pytest.fixture
def make_graph_bench(cpu_device, modules_folder):
    """Open a bench on the CPU for a growing matrix."""
    yield from graph_benches(Devices([cpu_device]), modules_folder)
