"""Kernels that integrate regions, and those that make the list, on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from region_lists import cube_field, region_list
from repro.bench.workspace import Workspace
from repro.codegen.compile import compile_module, manifest_path
from repro.devices.several import Devices
from repro.filtering.kernel import kernel as siac_kernel
from repro.sparse.built import Built
from repro.sparse.dynamic.render import render_module
from repro.studies.dg_postprocessing.device_clip import ClipRegions
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.region_render import FOLDER, render_regions
from repro.studies.dg_postprocessing.region_runnables import RegionFilter, RegionKernel, kernels_of
from repro.studies.dg_postprocessing.region_space import module_keys, our_space
from repro.studies.dg_postprocessing.regions import evaluation_points, make_regions

pytestmark = pytest.mark.gpu
degrees = pytest.mark.parametrize("degree", [1, 2])


@pytest.fixture(scope="session")
def build_regions(gpu, templates, gpu_modules):
    """Compile the module of a key for the GPU."""

    def build(key):
        manifest = manifest_path(gpu.target.name, FOLDER, key, gpu_modules)
        is_sort = key == "double/sort"
        render = (
            render_module(templates, key, gpu.target, FOLDER) if is_sort else render_regions(templates, key, gpu.target)
        )
        compile_module(render, gpu.target, manifest)
        return Built.read(manifest)

    return build


@degrees
def test_every_pair_of_a_width_and_a_number_of_regions_is_right(degree, gpu, gpu_modules, build_regions):
    operands = region_list(degree)
    workspace = Workspace(Devices([gpu]), operands, gpu_modules, resident=4)
    built = {key: build_regions(key) for key in module_keys(degree, gpu.target)}
    kernels = [kernel for space in ("paper", "extended") for kernel in kernels_of(built, degree, gpu.target, space)]
    kernels = [kernel for kernel in kernels if kernel.id.blocks in (1, 4)]
    if gpu.target.shared_bytes > 48 * 1024:
        assert any(kernel.id.launched_bytes for kernel in kernels), "some take more than a text may declare"
    filters = [RegionFilter(built, our_space(degree, gpu.target)[0])]
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
    operands = RegionOperands(field, make_regions(field, 0, places=places), siac_kernel(degree).pieces)
    workspace = Workspace(Devices([gpu]), operands, gpu_modules, resident=4)
    runnable = ClipRegions({key: build_regions(key) for key in (f"p{degree}/clip", "double/sort")}, degree)
    runnable.prepare(workspace)
    assert operands.check(runnable, workspace) <= 1
    np.testing.assert_array_equal(runnable.result().cells, operands.regions.cells)
    runnable.release()
    workspace.release()
