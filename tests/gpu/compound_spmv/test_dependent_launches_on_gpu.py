"""Chains of products by dependent launches give what ordinary launches give; `prepare` compares them bit by bit."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.entries import entries
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import DependentVariant, Variant
from repro.sparse.compound.variants import (
    WITH_SCRATCH,
    Schedule,
    VariantId,
    all_layouts,
    extended_layouts,
    extended_space,
)
from support.symmetric_problems import KINDS, symmetric_problem

pytestmark = pytest.mark.gpu

PLAN = SamplingPlan(5, 20, 5)


def ours(gpu, layout):
    """One schedule of each number of threads to a row, entries in flight, kind and way to load."""
    space = (s for s in extended_space(gpu.target, layout) if s.load != "el" and s.kind not in WITH_SCRATCH)
    return [*{(s.shape, s.kind): s for s in space}.values()]


def run(gpu, bench, problem, templates, folder, precision, space):
    def build(layout):
        source = render_module(
            templates, problem.entry, precision, layout, space[layout], gpu.target, "tests", dependent=True
        )
        return compile_module(source, gpu.target, folder / f"{layout}.json")

    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(build, space))
    return [
        bench.try_once(DependentVariant(VariantId(layout, schedule), module, folder, "paper"), "report", PLAN)
        for (layout, schedules), module in zip(space.items(), modules, strict=True)
        for schedule in schedules
    ]


def check(rows, count):
    assert Counter(row.status for row in rows) == {"ok": count}, [row.message for row in rows if row.status != "ok"][:3]
    assert all(0 <= row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in rows)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_chains_equal_those_of_ordinary_launches(
    gpu, make_gpu_bench, small_problem, templates, tmp_path, entry, precision
):
    space = {layout: [Schedule("static", 64, 8), Schedule("static", 1024, 2)] for layout in all_layouts()}
    space |= {layout: ours(gpu, layout) for layout in extended_layouts(entries()[entry]) if not layout.stores_pairs}
    problem = small_problem(entry, n=5000)
    rows = run(gpu, make_gpu_bench(problem, precision), problem, templates, tmp_path, precision, space)
    check(rows, sum(map(len, space.values())))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_chains_of_pairs(gpu, make_gpu_bench, templates, tmp_path, entry, kind, precision):
    # with farther rows a tile of double quaternions would not fit into shared memory
    problem = symmetric_problem(entry, kind, n=20_000, reach=8, near=0.9)
    space = {layout: ours(gpu, layout) for layout in extended_layouts(entries()[entry]) if layout.stores_pairs}
    rows = run(gpu, make_gpu_bench(problem, precision), problem, templates, tmp_path, precision, space)
    check(rows, sum(map(len, space.values())))


def banded(n=400_000, width=9):
    """A matrix of several waves of blocks, whose rows read far and near entries of x."""
    offsets = np.array([-90_000, -700, -2, -1, 0, 1, 2, 700, 90_000])[:width]
    columns = np.sort((np.arange(n)[:, None] + offsets) % n, axis=1)
    values = np.random.default_rng(2).uniform(-0.1, 0.1, (columns.size, 1))
    indptr = np.arange(0, columns.size + 1, width, dtype=np.int32)
    return Matrix("banded", "real", n, indptr, columns.ravel().astype(np.int32), values)


@pytest.mark.parametrize(
    "text", ["Sl-4-AoSoA-AoS/direct-64-16-w8", "CSR-AoSoA-AoS/chunk-512-2-w4-u2", "CSR-AoS-AoS/static-256-4"]
)
def test_a_chain_of_many_waves(gpu, make_gpu_bench, templates, tmp_path, text):
    """Repeated, as a race shows now and then alone."""
    id, problem = VariantId.parse(text), banded()
    modules = [
        compile_module(
            render_module(
                templates, "real", "double", id.layout, [id.schedule], gpu.target, "tests", dependent=dependent
            ),
            gpu.target, tmp_path / f"{dependent}.json",
        )
        for dependent in (True, False)
    ]  # fmt: skip
    bench = make_gpu_bench(problem, "double")
    chained = DependentVariant(id, modules[0], tmp_path, "extended")
    for _ in range(20):
        chained.prepare(bench.workspace)
        chained.release()
    plan = SamplingPlan(20, 20, 20)
    dependent, ordinary = (
        bench.try_once(each, "report", plan) for each in (chained, Variant(id, modules[1], tmp_path, "extended"))
    )
    assert (dependent.status, ordinary.status) == ("ok", "ok"), dependent.message or ordinary.message
    print(f"{text}: {dependent.graph_median * 1e6:.2f} µs, {ordinary.graph_median * 1e6:.2f} µs of ordinary launches")
