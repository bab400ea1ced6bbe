"""The modules of the study, compiled for the CPU once, workspaces on it, and campaigns that were never measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClBuffer, OpenClDevice
from repro.results.campaign_data import Campaign
from repro.sparse.device_primitives import ModuleFile
from repro.studies.spgemm_amg import STUDY_NAME
from repro.studies.spgemm_amg.kernels import modules_for, render_key
from repro.studies.spgemm_amg.operands import AmgOperands
from support.amg_campaign import Maker


@pytest.fixture(scope="session")
def built(templates: Path, modules_folder: Path) -> dict[str, dict[str, ModuleFile]]:
    """The modules by precision and name, beside the common one."""

    def build(precision: str, name: str) -> ModuleFile:
        manifest = manifest_path(CPU.name, STUDY_NAME, f"{precision}/{name}", modules_folder)
        compile_module(render_key(templates, f"{precision}/{name}", CPU), CPU, manifest)
        return ModuleFile.read(manifest)

    return {
        precision: {name: build(precision, name) for name in modules_for(CPU)} for precision in ("single", "double")
    }


@pytest.fixture
def workspace_of(cpu_device: OpenClDevice, modules_folder: Path) -> Iterator[Callable[[AmgOperands], Workspace]]:
    """Open a workspace for operands."""
    opened: list[Workspace] = []

    def make(operands: AmgOperands) -> Workspace:
        opened.append(Workspace(Devices([cpu_device]), operands, modules_folder, kept_packings=16))
        return opened[-1]

    yield make
    for workspace in opened:
        workspace.release()


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> dict[int, OpenClBuffer]:
    """All buffers that are made from now on and were not given back."""
    buffers: dict[int, OpenClBuffer] = {}
    make, release = OpenClBuffer.__init__, OpenClBuffer.release

    def made(self: OpenClBuffer, handle: object) -> None:
        make(self, handle)
        buffers[id(self)] = self

    def released(self: OpenClBuffer) -> None:
        release(self)
        buffers.pop(id(self), None)

    monkeypatch.setattr(OpenClBuffer, "__init__", made)
    monkeypatch.setattr(OpenClBuffer, "release", released)
    return buffers


@pytest.fixture(scope="session")
def amg_campaign_of_some(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Two problems of the paper, one of ours that is four times as slow, one that failed, one that could not be had."""
    maker = Maker(tmp_path_factory.mktemp("amg"))
    maker.case("poisson/5pt_512")
    maker.case("poisson/7pt_64", 2.0)
    maker.case("elastic", 4.0)
    maker.record("large", entry="real", n=10, nnz=50)
    failed = [
        maker.row("large", "double", "variant", "AA/coordinates", None, status="out_of_memory", message="2 GiB more",
                  phase="report", what="product", product="AA", mode="coordinates", method="coordinates"),
        *maker.product("large", "AA")[1:],
        maker.row("large", "double", "variant", "setup/default", None, status="out_of_memory", message="1 GiB more",
                  phase="report", what="setup", method="default"),
    ]  # fmt: skip
    maker.write("large", "double", "report", failed)
    maker.gone("gone")
    return maker.load()
