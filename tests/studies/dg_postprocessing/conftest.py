"""Lists of regions on small meshes, and the modules of their kernels for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.results.campaign_data import Campaign
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.kernels import render_regions
from repro.studies.dg_postprocessing.operands import RegionOperands
from support.dg_campaign import APPLIES, Maker
from support.region_lists import region_list


@pytest.fixture(scope="session")
def region_operands() -> dict[int, RegionOperands]:
    """A list of regions by degree."""
    return {degree: region_list(degree) for degree in (1, 2)}


@pytest.fixture(scope="session")
def region_modules(templates: Path, modules_folder: Path) -> Callable[[str], ModuleFile]:
    """Compile the module of a key for the CPU."""

    def build(key: str) -> ModuleFile:
        manifest = manifest_path(CPU.name, STUDY_NAME, key, modules_folder)
        compile_module(render_regions(templates, key, CPU), CPU, manifest)
        return ModuleFile.read(manifest)

    return build


@pytest.fixture
def region_workspace(
    cpu_device: OpenClDevice, modules_folder: Path, region_operands: dict[int, RegionOperands]
) -> Iterator[Callable[[int], Workspace]]:
    """Open a workspace for the list of a degree."""
    opened: list[Workspace] = []

    def make(degree: int) -> Workspace:
        opened.append(Workspace(Devices([cpu_device]), region_operands[degree], modules_folder, kept_packings=4))
        return opened[-1]

    yield make
    for workspace in opened:
        workspace.release()


@pytest.fixture(scope="session")
def dg_campaign_of_some(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Three fields of the paper, one of ours, one whose matrix is too large, one in space and one without numbers."""
    maker = Maker(tmp_path_factory.mktemp("dg"))
    maker.case("siac/low_4k_p1", "low", 1, 4000)
    maker.case("siac/low_16k_p1", "low", 1, 16_000, 4.0)
    maker.case("siac/high_4k_p2", "high", 2, 4000, 10.0)
    maker.case("tiny", "low", 1, 300, 0.05)
    maker.field("siac/low_4k_p3", "low", 3, 4000)
    rows = [row for row in maker.rows("siac/low_4k_p3", 3, 4000, 50.0) if not row.name.startswith("matrix/")]
    large = [
        maker.row("siac/low_4k_p3", "double", "variant", name, None, status="unsupported", phase="report",
                  message="the matrix has 90 GB, and 70 are free", what=what)
        for name, what in (("matrix/make", "make"), *((f"matrix/apply-{n}", "apply") for n in APPLIES))
    ]  # fmt: skip
    maker.measured("siac/low_4k_p3", [*rows, *large])
    maker.record("cubes", kind="field", dimension=3, cells=162, degree=1)
    maker.gone("gone")
    return maker.load()
