"""Updates and defragmentation as published, on the GPU: right for hard and for large problems, launch after launch."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import compile_module
from repro.devices.device_group import Devices
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dynamic_csr.kernels import MODULES, render_key
from repro.studies.dynamic_csr.operands import make_operands
from repro.studies.dynamic_csr.runnables_published import (
    FIFTH,
    READINGS,
    TEXT,
    PublishedDefragmentation,
    PublishedUpdate,
)
from support.update_problems import PROBLEMS, drawn, growing

pytestmark = pytest.mark.gpu

precisions = pytest.mark.parametrize("precision", ["single", "double"])


@pytest.fixture(scope="module")
def built(gpu, templates, tmp_path_factory):
    """The modules that updates as published take, by precision and name."""
    folder = tmp_path_factory.mktemp("published")

    def build(precision, name):
        manifest = folder / precision / f"{name}.json"
        module = compile_module(render_key(templates, f"{precision}/{name}", gpu.target), gpu.target, manifest)
        assert module.binary, module.message
        return ModuleFile.read(manifest)

    names = [name for name in MODULES if name != "exchange"]
    return {precision: {name: build(precision, name) for name in names} for precision in ("single", "double")}


@pytest.fixture
def check(gpu, gpu_modules):
    """Check a runnable on a problem three times, and that it stays where it may write."""

    def checked(runnable, problem, precision):
        workspace = Workspace(Devices([gpu]), make_operands(problem, precision, 1), gpu_modules, kept_packings=8)
        try:
            runnable.prepare(workspace)
            assert all(workspace.operands.check(runnable, workspace) <= 1 for _ in range(3)), runnable.name
            workspace.guards.check()
            runnable.release()
        finally:
            workspace.release()

    return checked


def large(batches=12):
    """A problem of three million entries, empty rows among others, and batches of fifty thousand."""
    base = sp.random_array((300_000, 200_000), density=5e-5, rng=np.random.default_rng(4), format="csr")
    return growing(base, [drawn(300_000, 200_000, 50_000, seed) for seed in range(batches)])


@precisions
@pytest.mark.parametrize("name", [*PROBLEMS, "large"])
def test_updates_as_published_are_right(built, check, name, precision):
    problem = PROBLEMS[name] if name in PROBLEMS else large()
    for what, readings in READINGS.items():
        for order in ("sorted",) if what == "iterate" else ("sorted", "any"):
            for reading in readings if name != "large" or what == "stream" else (TEXT, FIFTH)[: len(readings)]:
                which = 0 if what == "batch" else None
                check(PublishedUpdate(built[precision], what, order, which, reading), problem, precision)
    check(PublishedDefragmentation(built[precision]), problem, precision)


def test_no_kernel_as_published_spills(built):
    for modules in built.values():
        resources = modules["published"].module.resources
        assert resources
        assert not any(kernel["spills"] for kernel in resources.values())
