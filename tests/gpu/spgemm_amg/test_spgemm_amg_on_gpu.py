"""Everything that a case times on the GPU, ours and cuSPARSE's: right, inside its memory, and the same each time."""

from __future__ import annotations

import faulthandler

import pytest
import scipy.sparse as sp

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.devices.device_group import Devices
from repro.errors import Unsupported
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.spgemm.kernels import BINS
from repro.studies.spgemm_amg.kernels import modules_for, render_key
from repro.studies.spgemm_amg.operands import make_operands
from repro.studies.spgemm_amg.runnables_products import (
    MODES,
    ROUTINES,
    ChosenKernels,
    Refill,
    WholeProduct,
    kernels_of,
    library_products,
)
from repro.studies.spgemm_amg.runnables_setup import LevelSetUp
from repro.words import SPACES
from support.amg_problems import PROBLEMS, around_limits, as_problem, of_blocks, only_multiplied, runnables
from support.products_by_shape import five_point

pytestmark = pytest.mark.gpu

#: Seconds after which a test that hangs ends the tests, with where it was.
LIMIT = 300
LARGE = {
    "five points, 300 by 300": as_problem(five_point(300)),
    "blocks of 3, 60 by 60": of_blocks(60)[0],
}
problems = pytest.mark.parametrize("problem", [*PROBLEMS, *LARGE])
precisions = pytest.mark.parametrize("precision", ["single", "double"])


@pytest.fixture(autouse=True)
def limit():
    """End what never ends: nothing else can, once the host waits for the GPU."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def gpu_built(gpu, templates, tmp_path_factory):
    """The modules by precision and name."""
    folder = tmp_path_factory.mktemp("amg")

    def build(precision, name):
        manifest = folder / precision / f"{name}.json"
        compile_module(render_key(templates, f"{precision}/{name}", gpu.target), gpu.target, manifest)
        return ModuleFile.read(manifest)

    return {
        precision: {name: build(precision, name) for name in modules_for(gpu.target)}
        for precision in ("single", "double")
    }


@pytest.fixture
def gpu_workspace(gpu, gpu_module, gpu_modules):
    """Open a workspace on the GPU for operands."""
    opened = []

    def make(operands):
        opened.append(Workspace(Devices([gpu]), operands, gpu_modules, kept_packings=16))
        return opened[-1]

    yield make
    for workspace in opened:
        workspace.release()


def operands_of(problem, precision):
    return make_operands({**PROBLEMS, **LARGE}[problem], precision, 1)


@precisions
@problems
def test_everything_of_ours_is_right_in_one_go_and_in_stages(gpu_built, gpu_workspace, problem, precision):
    operands = operands_of(problem, precision)
    workspace = gpu_workspace(operands)
    for runnable in runnables(gpu_built[precision], operands):
        try:
            runnable.prepare(workspace)
        except Unsupported:  # by one launch, where rows differ too much
            assert "single" in runnable.name
            continue
        launches = [runnable.launch] * 2
        if runnable.stages:
            launches.append(lambda of=runnable: [stage() for stage in of.stages.values()])
        for launch in launches:
            runnable.launch = launch
            if isinstance(runnable, LevelSetUp):  # of which nothing is read
                runnable.before()
                runnable.launch()
            else:
                assert operands.check(runnable, workspace) <= 1, runnable.name
        workspace.guards.check()
        runnable.release()


@precisions
@problems
def test_the_librarys_products_are_right(gpu, gpu_workspace, problem, precision):
    operands = operands_of(problem, precision)
    workspace = gpu_workspace(operands)
    right = 0
    for name in operands.products:
        for product in library_products(ROUTINES["cuda"], "cuda", name):
            try:
                product.prepare(workspace)
            except Unsupported:
                continue
            for _ in range(2):
                assert operands.check(product, workspace) <= 1, product.name
            assert product.columns["nonzeros"] == operands.expected(name).sizes.sum()
            product.release()
            right += 1
    if not right:
        pytest.skip("cuSPARSE is not there")


@precisions
@pytest.mark.parametrize("problem", ["five points", "blocks", "rows of all sizes", "five points, 300 by 300"])
def test_every_kernel_of_every_bin(gpu, gpu_built, gpu_workspace, problem, precision):
    _check_kernels(gpu, gpu_built[precision], gpu_workspace(operands_of(problem, precision)))


@precisions
def test_every_kernel_of_every_bin_at_the_edges_of_bins(gpu, gpu_built, gpu_workspace, precision):
    workspace = gpu_workspace(only_multiplied(around_limits()[0], precision))
    kernels = _check_kernels(gpu, gpu_built[precision], workspace, least_share=0)
    assert {(kernel.mode, kernel.bin) for kernel in kernels} == {(mode, bin) for mode in MODES for bin in range(BINS)}
    assert {kernel.id.method for kernel in kernels} == {"sort", "hash", "dense"}


def _check_kernels(gpu, built, workspace, **share):
    operands = workspace.operands
    kernels = [kernel for space in SPACES for kernel in kernels_of(built, operands, gpu.target, space, **share)]
    for kernel in kernels:
        kernel.prepare(workspace)
        for _ in range(2):
            assert operands.check(kernel, workspace) <= 1, kernel.name
        kernel.release()
    return kernels


def test_everything_can_be_timed_by_its_clocks(gpu, gpu_built, gpu_workspace):
    operands = operands_of("five points, 300 by 300", "double")
    workspace = gpu_workspace(operands)
    ours = runnables(gpu_built["double"], operands)
    kernels = kernels_of(gpu_built["double"], operands, gpu.target, "extended")
    library = library_products(ROUTINES["cuda"], "cuda", "AP")
    clocks = {
        "event": lambda runnable: gpu.time_events(runnable.launch, 6, runnable.before),
        "host": lambda runnable: gpu.time_host(runnable.launch, 6, runnable.before),
        "graph": lambda runnable: gpu.time_graph(runnable.launch, 3, 2),
    }
    for runnable in (*ours, *kernels, *library):
        try:
            runnable.prepare(workspace)
        except Unsupported:
            continue
        for clock in runnable.clocks:
            assert (clocks[clock](runnable) > 0).all(), f"{runnable.name} by {clock}"
        if runnable.stages:
            assert (gpu.time_stages([*runnable.stages.values()], 3, runnable.before) >= 0).all(), runnable.name
        runnable.release()


@precisions
@pytest.mark.parametrize("problem", ["rows of all sizes", "five points, 300 by 300"])
@pytest.mark.parametrize("way", ["one", "two", "paper", "coordinates", "refill"])
def test_the_same_each_time_bit_for_bit(gpu_built, gpu_workspace, way, problem, precision):
    operands = operands_of(problem, precision)
    workspace = gpu_workspace(operands)
    for name in operands.products:
        built = gpu_built[precision]
        product = Refill(built, name) if way == "refill" else WholeProduct(built, name, way, ChosenKernels())
        product.prepare(workspace)
        results = set()
        for _ in range(20):
            product.before()
            product.launch()
            c = sp.csr_array(product.result())
            c.sort_indices()
            results.add((c.indptr.tobytes(), c.indices.tobytes(), c.data.tobytes()))
        assert len(results) == 1, name
        product.release()


@pytest.mark.parametrize("way", ["one", "two", "paper"])
def test_memory_of_the_pool_is_counted_and_given_back(gpu_built, gpu_workspace, taken, way):
    operands = operands_of("five points, 300 by 300", "double")
    workspace = gpu_workspace(operands)
    product = WholeProduct(gpu_built["double"], "AP", way)
    product.prepare(workspace)
    peak = product.columns["peak_bytes"]
    nonzeros = operands.expected("AP").sizes.sum()
    assert 12 * nonzeros <= peak <= 100 * 12 * nonzeros
    assert operands.check(product, workspace) <= 1
    product.release()
    held = taken()
    for _ in range(5):
        product.prepare(workspace)
        product.launch()
        product.release()
    assert taken() <= held
