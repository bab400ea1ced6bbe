"""Kernels that integrate regions, on the CPU, as CUDA on the CPU, and compiled for an H200."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from repro.bench.rows import split_columns
from repro.codegen import nvcc
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU, STATIC_SHARED, get_target
from repro.errors import IncorrectError, ReproError, Unsupported
from repro.filtering.spline_kernel import kernel as siac_kernel
from repro.studies.dg_postprocessing.ids import (
    RegionId,
    own_region_ids,
    paper_region_ids,
    region_module_keys,
)
from repro.studies.dg_postprocessing.kernels import render_regions
from repro.studies.dg_postprocessing.operands import RegionOperands, expected_integrals
from repro.studies.dg_postprocessing.regions import evaluation_points, make_regions, paper_rule, region_operations
from repro.studies.dg_postprocessing.runnables_regions import RegionFilter, RegionKernel, region_kernels
from repro.studies.dg_postprocessing.study import DgRow
from support.emulated_cuda import EmulatedCuda, compile_kernels, needs_compiler
from support.region_lists import cube_field

pytestmark = pytest.mark.medium

degrees = pytest.mark.parametrize("degree", [1, 2])
SM_90 = get_target("sm_90")


@degrees
def test_two_rules_agree_within_a_part_of_the_bound(degree, region_operands):
    operands = region_operands[degree]
    values, bounds = operands.expected
    other = expected_integrals(operands.regions, operands.field, operands.pieces, paper_rule(degree))
    assert (np.abs(values - other.values) <= bounds / 4).all()
    assert bounds.sum() < 1e-9 * np.abs(values).sum(), "a bound that nothing fails says nothing"
    assert (bounds > 0).all()


@degrees
def test_every_kernel_of_the_cpu_is_right(degree, region_operands, region_modules, region_workspace):
    workspace, operands = region_workspace(degree), region_operands[degree]
    built = {key: region_modules(key) for key in region_module_keys(degree, CPU)}
    kernels = [*region_kernels(built, degree, CPU, "paper"), *region_kernels(built, degree, CPU, "extended")]
    kernels = [kernel for kernel in kernels if kernel.id.blocks == 1 or (kernel.id.blocks, kernel.id.width) == (8, 16)]
    assert {kernel.id.method for kernel in kernels} == {"vector", "lane", "matrix"}
    for kernel in kernels:
        kernel.prepare(workspace)
        error = operands.check(kernel, workspace)
        assert error is not None and error <= 1, kernel.name
        _, own = split_columns({**kernel.columns, **operands.columns}, DgRow.own_columns())
        assert kernel.bytes_moved > 0 and set(own) == {
            "what", "kernel_degree", "method", "vector_width", "regions_per_block", "blocks_per_sm",
            "region_operations", "shared_bytes", "regions", "points",
        }  # fmt: skip
        kernel.release()


@degrees
def test_a_wrong_piece_or_mode_is_noticed(degree, region_operands, region_modules, region_workspace):
    workspace, operands = region_workspace(degree), region_operands[degree]
    id = RegionId(degree, "vector", 16, 2, 1)
    kernel = RegionKernel({id.module: region_modules(id.module)}, id)
    kernel.prepare(workspace)
    other = RegionOperands(operands.field, operands.regions, operands.pieces * (1 + 1e-10))
    with pytest.raises(IncorrectError, match="integrals are wrong"):
        other.check(kernel, workspace)
    kernel.release()


@degrees
def test_the_filter_adds_the_regions_of_each_point(degree, region_operands, region_modules, region_workspace):
    workspace, operands = region_workspace(degree), region_operands[degree]
    id = own_region_ids(degree, CPU)[0]
    kernel = RegionFilter({id.module: region_modules(id.module)}, id)
    kernel.prepare(workspace)
    error = operands.check(kernel, workspace)
    assert error is not None and error <= 1
    assert kernel.result().shape == (len(operands.regions.positions),)
    kernel.release()


@pytest.mark.sampled(1)
@degrees
def test_polynomials_up_to_twice_the_degree_and_one_pass_through_the_filter(degree):
    """Projection and filter together, within the domain of a structured mesh whose edge is that of the stencil."""
    count, power = {1: 6, 2: 8}[degree], 2 * degree + 1

    def polynomial(points):
        return (points[:, 0] - 0.5) ** power + points[:, 1] * points[:, 2]

    field = cube_field(count, degree, polynomial)
    places = evaluation_points(field)
    inside = (np.abs(places - 0.5) <= 0.5 - (3 * degree + 1) / 2 / count).all(axis=1)
    chosen = places[inside][:2]
    regions = make_regions(field, 0, h=1 / count, positions=chosen)
    sums = RegionOperands(field, regions, siac_kernel(degree).pieces).sums
    np.testing.assert_allclose(sums.values, polynomial(chosen), rtol=1e-12, atol=1e-13)


@pytest.mark.sampled(1)
@needs_compiler
@pytest.mark.parametrize(
    "id",
    [
        "p1/vector-w16-r4-b1",
        "p1/vector-w36-r8-b1",
        "p2/vector-w32-r2-b2",
        "p2/vector-w48-r2-b1",
        "p1/lane-w1-r64-b4",
        "p2/lane-w1-r128-b4",
        "p2/matrix-w1-r64-b4",
    ],
)
def test_the_text_of_cuda_is_right(id, templates, tmp_path, region_operands):
    id = RegionId.parse(id)
    operands, device = region_operands[id.degree], EmulatedCuda()
    source = render_regions(templates, id.module, replace(SM_90, shared_bytes=STATIC_SHARED))
    program = compile_kernels(source, tmp_path)
    arrays = {name: device.upload(array) for name, array in operands.pack(id.method).items()}
    result = device.allocate(8 * operands.count)
    size = [np.int32(operands.count), np.float64(1 / operands.regions.h)]
    if id.method == "vector":
        arguments = [*size, *(arrays[name] for name in ("rows", "cells", "maps", "field", "rule", "pieces")), result]
    else:
        listed = [*size, *(arrays[name] for name in ("columns", "cells", "origins", "pieces"))]
        arguments = [*listed, arrays["modes"], result]
    if id.method == "matrix":
        weights = device.allocate(8 * operands.count * operands.modes.shape[1])
        device.bind(program.kernel("matrix_rows"), 3, 256, [*listed, weights])()
        arguments = [np.int32(operands.count), weights, arrays["cells"], arrays["modes"], result]
    device.bind(program.kernel(id.kernel), 2 * id.blocks, id.threads, arguments)()
    values = np.empty(operands.count)
    device.download(result, values)
    np.testing.assert_array_less(np.abs(values - operands.expected.values), operands.expected.bounds)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("key", ["p1/vector-w36", "p2/vector-w150", "p1/ours", "p2/ours"])
def test_modules_compile_for_an_h200_without_spills(key, templates, tmp_path):
    module = compile_module(render_regions(templates, key, SM_90), SM_90, tmp_path / "module.json")
    assert module.status == "ok" and module.resources
    assert all(of["spills"] == 0 for of in module.resources.values()), module.resources
    ids = [id for degree in (1, 2) for id in (*paper_region_ids(degree, SM_90), *own_region_ids(degree, SM_90))]
    assert {id.kernel for id in ids if id.module == key} <= set(module.resources)


def test_what_does_not_fit_is_refused(region_operands, region_modules, region_workspace, templates):
    id = RegionId(2, "lane", 1, 16, 1)
    kernel = RegionKernel({id.module: region_modules(id.module)}, id)
    with pytest.raises(Unsupported, match="degree 2"):
        kernel.prepare(region_workspace(1))
    one = region_operands[1]
    with pytest.raises(ReproError, match="do not match"):
        RegionOperands(one.field, one.regions, siac_kernel(2).pieces)
    for key in ("p3/ours", "p1/vector-w5", "p1", "p1/vector-w16x"):
        with pytest.raises(ReproError, match="unknown module of regions"):
            render_regions(templates, key, SM_90)
    with pytest.raises(ReproError, match="no block of this width"):
        render_regions(templates, "p2/vector-w150", CPU)


def test_operations_are_those_of_the_text():
    assert region_operations("matrix", 1) == 8 and region_operations("matrix", 2) == 20
    assert region_operations("vector", 2) / region_operations("lane", 2) > 5


def test_lists_of_a_field_are_the_same_by_point_and_by_cell(region_operands):
    regions = region_operands[1].regions
    order, offsets = regions.by_point()
    assert (np.diff(regions.points[order]) >= 0).all() and offsets[-1] == len(order)
    assert make_regions(region_operands[1].field, 100, seed=3).rows[:, 0].max() == 0
