"""Every product of a growing matrix is run on the GPU and compared with the reference, also under compute-sanitizer."""

from __future__ import annotations

import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.devices.device_group import Devices
from repro.sparse.library import for_problem
from repro.studies.dynamic_csr.ids import product_ids
from repro.studies.dynamic_csr.kernels import render_key
from repro.studies.dynamic_csr.runnables_products import ProductVariant
from repro.words import SPACES
from support.benches import graph_benches
from support.growing_matrices import around_limits, growing

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(5, 5, 5)


@pytest.fixture(scope="module")
def product_modules(gpu, templates, tmp_path_factory):
    """The module of products of each precision, and the folder of both."""
    folder = tmp_path_factory.mktemp("products")
    return {
        precision: compile_module(
            render_key(templates, f"{precision}/product", gpu.target), gpu.target, folder / f"{precision}.json"
        )
        for precision in ("single", "double")
    }, folder


@pytest.fixture
def make_graph_bench(gpu, gpu_module, gpu_modules):
    """Open a bench on the GPU for a growing matrix."""
    yield from graph_benches(Devices([gpu]), gpu_modules)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    "problem",
    [
        around_limits(2000, name="limits"),
        growing([40, 0, 20_000, 1, 1100, 9000, 8192, 4097], 30_000, 90, name="long"),
        growing([0, 1, 1, 0, 2] * 2000, 3, 500, name="short"),
    ],
    ids=lambda problem: problem.name,
)
def test_every_variant_is_right_by_all_clocks(product_modules, make_graph_bench, gpu, problem, precision):
    modules, folder = product_modules
    assert modules[precision].binary, modules[precision].message
    bench = make_graph_bench(problem, precision)
    every = dict.fromkeys(
        id for space in SPACES for mean in (1.0, 8.0, 64.0) for id in product_ids(gpu.target, space, mean)
    )
    rows = [bench.try_once(ProductVariant(id, modules[precision], folder), "search", EFFORT) for id in every]
    assert [(row.name, row.message) for row in rows if row.status != "ok"] == []
    assert all(row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in rows)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("lengths", "columns"), [([4, 0, 7, 3] * 40, 900), ([2, 0, 1] * 300, 3)])
def test_the_library_multiplies_rectangular_matrices(make_graph_bench, lengths, columns, precision):
    bench = make_graph_bench(growing(lengths, columns, 160), precision)
    rows = [bench.try_once(runnable, "search", EFFORT) for runnable in for_problem("real", "cuda")]
    assert {row.status for row in rows} <= {"ok", "unsupported"}, [row.message for row in rows]
    assert {row["format"] for row in rows if row.status == "ok"} >= {"csr", "sell"}
