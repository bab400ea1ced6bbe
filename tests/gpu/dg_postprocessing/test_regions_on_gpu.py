"""Kernels that integrate regions, and those that make the list, on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module, manifest_path
from repro.devices.device_group import Devices
from repro.filtering.spline_kernel import kernel as siac_kernel
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.dynamic.kernels import render_module
from repro.studies.dg_postprocessing import STUDY_NAME
from repro.studies.dg_postprocessing.ids import own_region_ids, region_module_keys
from repro.studies.dg_postprocessing.kernels import render_regions
from repro.studies.dg_postprocessing.operands import RegionOperands
from repro.studies.dg_postprocessing.regions import evaluation_points, make_regions
from repro.studies.dg_postprocessing.runnables_regions import ClipRegions, RegionFilter, RegionKernel, region_kernels
from support.region_lists import cube_field, region_list

pytestmark = pytest.mark.gpu
degrees = pytest.mark.parametrize("degree", [1, 2])


@pytest.fixture(scope="session")
def build_regions(gpu, templates, gpu_modules):
    """Compile the module of a key for the GPU."""

    def build(key):
        manifest = manifest_path(gpu.target.name, STUDY_NAME, key, gpu_modules)
        if key == "double/sort":
            render = render_module(templates, key, gpu.target, STUDY_NAME)
        else:
            render = render_regions(templates, key, gpu.target)
        compile_module(render, gpu.target, manifest)
        return ModuleFile.read(manifest)

    return build


@degrees
def test_every_pair_of_a_width_and_a_number_of_regions_is_right(degree, gpu, gpu_modules, build_regions):
    operands = region_list(degree)
    workspace = Workspace(Devices([gpu]), operands, gpu_modules, kept_packings=4)
    built = {key: build_regions(key) for key in region_module_keys(degree, gpu.target)}
    kernels = [kernel for space in ("paper", "extended") for kernel in region_kernels(built, degree, gpu.target, space)]
    kernels = [kernel for kernel in kernels if kernel.id.blocks in (1, 4)]
    if gpu.target.shared_bytes > 48 * 1024:
        assert any(kernel.id.launched_bytes for kernel in kernels), "some take more than a text may declare"
    filters = [RegionFilter(built, own_region_ids(degree, gpu.target)[0])]
    for kernel in [*kernels, *filters]:
        assert isinstance(kernel, RegionKernel)
        kernel.prepare(workspace)
        assert operands.check(kernel, workspace) <= 1, kernel.name
        kernel.release()
    workspace.release()


@degrees
def test_the_gpu_makes_as_many_regions_as_the_host(degree, gpu, gpu_modules, build_regions):
    field = cube_field(3, degree)
    places = evaluation_points(field)[::100]
    operands = RegionOperands(field, make_regions(field, 0, positions=places), siac_kernel(degree).pieces)
    workspace = Workspace(Devices([gpu]), operands, gpu_modules, kept_packings=4)
    runnable = ClipRegions({key: build_regions(key) for key in (f"p{degree}/clip", "double/sort")}, degree)
    runnable.prepare(workspace)
    assert operands.check(runnable, workspace) <= 1
    np.testing.assert_array_equal(runnable.result().cells, operands.regions.cells)
    runnable.release()
    workspace.release()
