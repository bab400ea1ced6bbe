"""Every entry × precision × layout × kind of schedule is run on the GPU and verified.

Also what compute-sanitizer runs on:
`compute-sanitizer --tool racecheck python3 -m pytest tests/gpu/compound_spmv/test_variants.py`.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.entries import entries
from repro.sparse.compound.kernels import render_module
from repro.sparse.compound.runnables import Variant
from repro.sparse.compound.variants import Schedule, VariantId, all_layouts, extended_layouts, extended_space
from repro.sparse.symmetry import HERMITIAN, SYMMETRIC
from support.symmetric_problems import KINDS, symmetric_problem

pytestmark = pytest.mark.gpu

SCHEDULES = [Schedule("static", 32, 8), Schedule("static", 1024, 2), Schedule("dynamic", 96, 4)]


def run(gpu, make_gpu_bench, problem, templates, folder, precision, schedules_of_layouts):
    """Compile a module a layout, try every variant, and return the rows."""

    def build(layout):
        source = render_module(
            templates, problem.entry, precision, layout, schedules_of_layouts[layout], gpu.target, "tests"
        )
        return compile_module(source, gpu.target, folder / f"{layout}.json")

    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(build, schedules_of_layouts))
    bench = make_gpu_bench(problem, precision)
    return [
        bench.try_once(Variant(VariantId(layout, schedule), module, folder), "search", SamplingPlan(5, 5, 5))
        for (layout, schedules), module in zip(schedules_of_layouts.items(), modules, strict=True)
        for schedule in schedules
    ]


def check(rows, count, kept=False):
    """Check rows; of a matrix that fits into L2 no part is kept there."""
    if not kept:
        assert {row["load"] for row in rows if row.status == "unsupported"} <= {"el"}
        rows = [row for row in rows if row["load"] != "el"]
    assert Counter(row.status for row in rows) == {"ok": count}, [row.message for row in rows if row.status != "ok"][:3]
    assert all(0 <= row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in rows)
    assert all(0 < row.registers <= 255 for row in rows)


def count_of(space):
    """Return how many variants keep no part of a matrix in L2."""
    return sum(schedule.load != "el" for schedules in space.values() for schedule in schedules)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_layout_and_schedule_kind_is_right(
    gpu, make_gpu_bench, small_problem, templates, tmp_path, entry, precision
):
    space = dict.fromkeys(all_layouts(), SCHEDULES)
    rows = run(gpu, make_gpu_bench, small_problem(entry, n=5000), templates, tmp_path, precision, space)
    check(rows, 16 * len(SCHEDULES))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_kernel_of_ours_is_right(gpu, make_gpu_bench, small_problem, templates, tmp_path, entry, precision):
    """One schedule of each number of threads to a row, entries in flight, kind and way to load."""
    space = {
        layout: [*{(s.shape, s.kind): s for s in extended_space(gpu.target, layout)}.values()]
        for layout in extended_layouts(entries()[entry])
        if not layout.stores_pairs
    }
    rows = run(gpu, make_gpu_bench, small_problem(entry, n=5000), templates, tmp_path, precision, space)
    check(rows, count_of(space))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(("entry", "kind"), KINDS)
def test_every_kernel_of_pairs_is_right(gpu, make_gpu_bench, templates, tmp_path, entry, kind, precision):
    """One schedule of each number of threads to a row, entries in flight and way to load."""
    space = {
        layout: [*{s.shape: s for s in extended_space(gpu.target, layout)}.values()]
        for layout in extended_layouts(entries()[entry])
        if layout.stores_pairs
    }
    problem = symmetric_problem(entry, kind, 5000, reach=8)
    rows = run(gpu, make_gpu_bench, problem, templates, tmp_path, precision, space)
    check(rows, count_of(space))


@pytest.mark.parametrize(("entry", "kind"), [("quaternion", HERMITIAN), ("block3", SYMMETRIC)])
def test_every_kernel_that_keeps_a_part_in_l2_is_right(gpu, make_gpu_bench, templates, tmp_path, entry, kind):
    space = {
        layout: chosen
        for layout in extended_layouts(entries()[entry])
        if (chosen := [s for s in extended_space(gpu.target, layout) if s.load == "el"][:2])
    }
    assert any(layout.stores_pairs for layout in space)
    problem = symmetric_problem(entry, kind, gpu.l2_bytes // 150, reach=8, near=1)
    check(run(gpu, make_gpu_bench, problem, templates, tmp_path, "double", space), 2 * len(space), kept=True)
