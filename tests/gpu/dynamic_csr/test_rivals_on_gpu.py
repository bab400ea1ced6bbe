"""Sums, sorts, updates, products and conversions of other formats on the GPU, and those of libraries."""

from itertools import chain

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.devices.device_group import Devices
from repro.sparse.device_primitives import SORT_BLOCK_SIZE, SORT_ITEMS, ModuleFile, RadixSort, Scan, bit_count
from repro.studies.dynamic_csr.kernels import MODULES, render_key
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.runnables_baselines import HybridProduct
from repro.studies.dynamic_csr.study import suite
from support.update_problems import PROBLEMS, drawn, growing

pytestmark = pytest.mark.gpu

TILE = SORT_BLOCK_SIZE["cuda"] * SORT_ITEMS["cuda"]


def large():
    """A problem of three million entries and half a million new ones."""
    base = sp.random_array((300_000, 200_000), density=5e-5, rng=np.random.default_rng(4), format="csr")
    return growing(base, [drawn(300_000, 200_000, count, count) for count in (1, 1000, 500_000)])


@pytest.fixture(scope="module")
def gpu_rivals(gpu, templates, tmp_path_factory):
    """The modules of other formats by precision and name."""
    folder = tmp_path_factory.mktemp("rivals")

    def build(precision, name):
        manifest = folder / precision / f"{name}.json"
        compile_module(render_key(templates, f"{precision}/{name}", gpu.target), gpu.target, manifest)
        return ModuleFile.read(manifest)

    return {
        precision: {name: build(precision, name) for name in MODULES if name != "exchange"}
        for precision in ("single", "double")
    }


@pytest.fixture
def gpu_workspace(gpu, gpu_module, gpu_modules):
    """Open a workspace on the GPU for a problem."""
    opened = []

    def make(problem, precision="double"):
        workspace = Workspace(Devices([gpu]), make_operands(problem, precision, 1), gpu_modules, kept_packings=8)
        opened.append(workspace)
        return workspace

    yield make
    for workspace in opened:
        workspace.release()


def _all(built, workspace):
    """Yield all that a case times beside the products of the search, prepared, and give it back."""
    for runnable in chain([HybridProduct(built)], *suite(built, workspace.operands.problem)):
        runnable.prepare(workspace)
        yield runnable
        runnable.release()


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", [*PROBLEMS, "large"])
def test_everything_is_right_and_stays_where_it_may_write(gpu_rivals, gpu_workspace, name, precision):
    workspace = gpu_workspace(PROBLEMS[name] if name in PROBLEMS else large(), precision)
    for runnable in _all(gpu_rivals[precision], workspace):
        for _ in range(2):
            assert workspace.operands.check(runnable, workspace) <= 1, runnable.name
        workspace.guards.check()


def test_what_may_be_replayed_in_a_graph_is(gpu, gpu_rivals, gpu_workspace):
    workspace = gpu_workspace(large())
    for runnable in _all(gpu_rivals["double"], workspace):
        if "graph" not in runnable.clocks:
            continue
        assert (gpu.time_graph(runnable.launch, 3, 2) > 0).all(), runnable.name
        if hasattr(runnable, "_read"):
            assert workspace.operands._compare(runnable.result(), runnable.leaves, runnable.sums) <= 1, runnable.name


@pytest.mark.parametrize("n", [0, 1, 8191, 8192, 8193, 1 << 20, 10_000_019])
def test_sums(gpu, gpu_rivals, gpu_workspace, n):
    program = gpu_rivals["double"]["sort"].program(gpu_workspace(PROBLEMS["one batch"]))
    counts = np.random.default_rng(n).integers(0, 200, n).astype(np.int32)
    scan = Scan(gpu, program, max(n, 1))
    buffer = gpu.upload(np.append(counts, np.int32(5)))
    scan.bind(buffer, buffer, n)()
    sums = np.empty(n + 1, np.int32)
    gpu.download(buffer, sums)
    np.testing.assert_array_equal(sums, np.concatenate([[0], np.cumsum(counts)]))
    scan.release()
    buffer.release()


@pytest.mark.parametrize("distinct", [1, 3, 1000, 1 << 40])
@pytest.mark.parametrize("bits", [1, 8, 20, 32])
@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 1_000_003, 7_000_001])
def test_sorts(gpu, gpu_rivals, gpu_workspace, n, bits, distinct):
    program = gpu_rivals["double"]["sort"].program(gpu_workspace(PROBLEMS["one batch"]))
    random = np.random.default_rng(bits)
    keys = random.choice(random.integers(0, 1 << bits, min(distinct, n), dtype=np.uint64), n).astype(np.uint32)
    others = random.integers(0, 1000, n).astype(np.int32)
    radix_sort = RadixSort(gpu, program, n)
    buffers = gpu.upload(keys), gpu.upload(others)
    first = radix_sort.bind(buffers[0], n, bits)
    second = radix_sort.bind(buffers[1], n, bit_count(1000), first.order)
    order = np.empty(n, np.int32)
    first.launch()
    gpu.download(first.order, order)
    by_key = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(order, by_key)
    second.launch()
    gpu.download(second.order, order)
    np.testing.assert_array_equal(order, by_key[np.argsort(others[by_key], kind="stable")])
    for held in (radix_sort, *buffers):
        held.release()
