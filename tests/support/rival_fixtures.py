"""The modules of other formats, compiled for the CPU once, and workspaces of small problems; a plugin of pytest."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.problems.matrix import Updates
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dynamic_csr.kernels import MODULES, render_key
from repro.studies.dynamic_csr.operands import make_operands


@pytest.fixture(scope="session")
def rivals_built(built_folder: Path, templates: Path) -> dict[str, dict[str, ModuleFile]]:
    """The modules of other formats by precision and name."""
    folder = built_folder / "rivals"

    def build(precision: str, name: str) -> ModuleFile:
        manifest = folder / precision / f"{name}.json"
        compile_module(render_key(templates, f"{precision}/{name}", CPU), CPU, manifest)
        return ModuleFile.read(manifest)

    return {
        precision: {name: build(precision, name) for name in MODULES if name != "exchange"}
        for precision in ("single", "double")
    }


@pytest.fixture
def work_on(cpu_device: OpenClDevice, modules_folder: Path) -> Iterator[Callable[..., Workspace]]:
    """Open a workspace for a problem."""
    opened = []

    def make(problem: Updates, precision: str = "double") -> Workspace:
        workspace = Workspace(
            Devices([cpu_device]), make_operands(problem, precision, 1), modules_folder, kept_packings=8
        )
        opened.append(workspace)
        return workspace

    yield make
    for workspace in opened:
        workspace.release()
