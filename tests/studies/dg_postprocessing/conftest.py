"""Lists of regions on small meshes, and the modules of their kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from region_lists import region_list
from repro.bench.workspace import Workspace
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.devices.opencl import OpenClDevice
from repro.devices.several import Devices
from repro.sparse.built import Built
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.region_render import FOLDER, render_regions


@pytest.fixture(scope="session")
def region_operands() -> dict[int, RegionOperands]:
    """A list of regions by degree."""
    return {degree: region_list(degree) for degree in (1, 2)}


@pytest.fixture(scope="session")
def region_modules(templates: Path, modules_folder: Path) -> Callable[[str], Built]:
    """Compile the module of a key for the CPU."""

    def build(key: str) -> Built:
        manifest = manifest_path(CPU.name, FOLDER, key, modules_folder)
        compile_module(render_regions(templates, key, CPU), CPU, manifest)
        return Built.read(manifest)

    return build


@pytest.fixture
def region_workspace(
    cpu_device: OpenClDevice, modules_folder: Path, region_operands: dict[int, RegionOperands]
) -> Iterator[Callable[[int], Workspace]]:
    """Open a workspace for the list of a degree."""
    opened: list[Workspace] = []

    def make(degree: int) -> Workspace:
        opened.append(Workspace(Devices([cpu_device]), region_operands[degree], modules_folder, resident=4))
        return opened[-1]

    yield make
    for workspace in opened:
        workspace.release()
