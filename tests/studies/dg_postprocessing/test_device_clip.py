"""Clipping on the device, compared with clipping on the host."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

from repro.bench.runnable import Workspace
from repro.codegen import nvcc
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU, get_target
from repro.devices.device_group import Devices
from repro.errors import IncorrectError, Unsupported
from repro.filtering.spline_kernel import kernel as siac_kernel
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.dynamic.kernels import render_module
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.kernels import render_regions
from repro.studies.dg_postprocessing.operands import ClippedRegions, RegionOperands
from repro.studies.dg_postprocessing.regions import evaluation_points, make_regions
from repro.studies.dg_postprocessing.runnables_regions import ClipRegions, DeviceClip
from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from support.region_lists import cube_field

pytestmark = pytest.mark.medium

degrees = pytest.mark.parametrize("degree", [1, 2])


def whole_stencils(degree, points=2, count=3):
    field = cube_field(count, degree)
    places = evaluation_points(field)[:: 37 * degree][:points]
    return RegionOperands(field, make_regions(field, 0, positions=places), siac_kernel(degree).pieces)


def check_same(clipped, regions):
    """Equal as sets: every region has its like in the other list, whatever the order of its corners."""
    np.testing.assert_array_equal(clipped.cells, regions.cells)
    np.testing.assert_array_equal(clipped.rows[:, 0], regions.rows[:, 0])
    trees = []
    for rows, cells in (clipped, (regions.rows, regions.cells)):
        corners = rows[:, 4:].reshape(-1, 4, 3)
        sums = [(corners**power).sum(axis=1) for power in (1, 2, 3)]
        trees.append(cKDTree(np.column_stack([cells, rows[:, :4], *sums])))
    for one, other in (trees, trees[::-1]):
        assert one.query(other.data)[0].max() < 1e-12


@pytest.fixture(scope="session")
def clip_modules(templates, modules_folder):
    """The modules for the CPU by key."""
    built = {}
    for key in ("p1/clip", "p2/clip", "double/sort"):
        manifest = manifest_path(CPU.name, STUDY_NAME, key, modules_folder)
        render = (
            render_regions(templates, key, CPU) if "clip" in key else render_module(templates, key, CPU, STUDY_NAME)
        )
        compile_module(render, CPU, manifest)
        built[key] = ModuleFile.read(manifest)
    return built


@degrees
def test_the_device_makes_the_hosts_list(degree, clip_modules, cpu_device, modules_folder):
    operands = whole_stencils(degree)
    workspace = Workspace(Devices([cpu_device]), operands, modules_folder, kept_packings=4)
    runnable = ClipRegions(clip_modules, degree)
    runnable.prepare(workspace)
    error = operands.check(runnable, workspace)
    assert error is not None and error <= 1
    check_same(runnable.result(), operands.regions)
    assert list(runnable.stages) == ["count", "scan", "write"]
    runnable.release()
    with pytest.raises(Unsupported, match="degree"):
        ClipRegions(clip_modules, 3 - degree).prepare(workspace)
    workspace.release()


@pytest.mark.wording
def test_a_list_that_lacks_a_region_is_noticed():
    operands = whole_stencils(1)
    rows, cells = operands.regions.rows, operands.regions.cells
    largest = int(np.argmax(np.ptp(rows[:, 4::3], axis=1)))

    class Made:
        def before(self): ...
        def launch(self): ...
        def result(self):
            return ClippedRegions(np.delete(rows, largest, 0), np.delete(cells, largest))

    with pytest.raises(IncorrectError, match="of a stencil of 64"):
        operands.check(Made(), None)


@needs_compiler
def test_the_text_of_cuda_makes_the_hosts_list(templates, tmp_path):
    target = get_target("sm_90")
    operands = whole_stencils(1, count=2)
    device = EmulatedCuda()
    clip, sort = (
        compile_kernels(source, tmp_path)
        for source in (
            render_regions(templates, "p1/clip", target),
            render_module(templates, "double/sort", target, STUDY_NAME),
        )
    )
    made = DeviceClip(device, clip, sort, operands)
    made.clip()
    check_same(made.download(), operands.regions)
    made.release()


def test_points_of_the_lattice_have_no_flat_regions_on_the_device(clip_modules, cpu_device, modules_folder):
    field = cube_field(2, 1)
    places = np.array([[0.5, 0.5, 0.5], [0.25, 0.5, 0.75]])
    operands = RegionOperands(field, make_regions(field, 0, positions=places), siac_kernel(1).pieces)
    workspace = Workspace(Devices([cpu_device]), operands, modules_folder, kept_packings=4)
    runnable = ClipRegions(clip_modules, 1)
    runnable.prepare(workspace)
    operands.check(runnable, workspace)
    check_same(runnable.result(), operands.regions)
    volumes = np.abs(np.linalg.det(np.diff(operands.regions.kernel_corners(), axis=1))) / 6
    assert volumes.min() > 1e-4
    workspace.release()


@degrees
@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
def test_the_module_compiles_for_an_h200(degree, templates, tmp_path):
    target = get_target("sm_90")
    module = compile_module(render_regions(templates, f"p{degree}/clip", target), target, tmp_path / "module.json")
    assert module.status == "ok" and set(module.resources) == {"count_regions", "write_regions"}
