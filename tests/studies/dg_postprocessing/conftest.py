"""Lists of regions on small meshes, and the modules of their kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from spline_pieces import spline_pieces

from repro.bench.workspace import Workspace
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.devices.opencl import OpenClDevice
from repro.devices.several import Devices
from repro.sparse.built import Built
from repro.studies.dg_postprocessing.cubes import cube_field
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.region_render import FOLDER, render_regions
from repro.studies.dg_postprocessing.regions import make_regions


@pytest.fixture(scope="session")
def region_operands() -> dict[int, RegionOperands]:
    """A list of no round number of regions, from all over the stencils of some points, by degree."""
    made = {}
    for degree, count, step in ((1, 60_000, 23), (2, 200_000, 199)):
        field = cube_field(f"cubes-{degree}", 3, degree)
        regions = make_regions(field, count, seed=3)
        some = replace(regions, rows=regions.rows[::step].copy(), cells=regions.cells[::step].copy())
        made[degree] = RegionOperands(field, some, spline_pieces(degree))
    return made


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
