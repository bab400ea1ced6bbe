"""The modules of other formats, compiled for the CPU once, and workspaces of small problems; a plugin of pytest."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro.bench.workspace import Workspace
from repro.codegen.compile import compile_module
from repro.codegen.targets import CPU
from repro.devices.opencl import OpenClDevice
from repro.devices.several import Devices
from repro.problems.updates import Updates
from repro.sparse.built import Built
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.render import render_key


@pytest.fixture(scope="session")
def rivals_built(built_folder: Path, templates: Path) -> dict[str, dict[str, Built]]:
    """The modules of other formats by precision and name."""
    folder = built_folder / "rivals"

    def build(precision: str, name: str) -> Built:
        manifest = folder / precision / f"{name}.json"
        compile_module(render_key(templates, f"{precision}/{name}", CPU), CPU, manifest)
        return Built.read(manifest)

    return {
        precision: {name: build(precision, name) for name in ("sort", "hybrid", "rebuild", "matrix", "product")}
        for precision in ("single", "double")
    }


@pytest.fixture
def work_on(cpu_device: OpenClDevice, modules_folder: Path) -> Iterator[Callable[..., Workspace]]:
    """Open a workspace for a problem."""
    opened = []

    def make(problem: Updates, precision: str = "double") -> Workspace:
        workspace = Workspace(Devices([cpu_device]), make_operands(problem, precision, 1), modules_folder, resident=8)
        opened.append(workspace)
        return workspace

    yield make
    for workspace in opened:
        workspace.release()
