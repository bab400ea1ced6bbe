"""Every entry × precision × layout × kind of schedule is run on the GPU and verified.

Also what compute-sanitizer runs on: `compute-sanitizer --tool racecheck python3 -m pytest tests/gpu/test_variants.py`.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from repro.bench.timing import Effort
from repro.bench.variant import Variant
from repro.codegen.compile import compile_module
from repro.codegen.render import render_module
from repro.codegen.schedules import Schedule
from repro.entries import entries
from repro.formats.layout import all_layouts

pytestmark = pytest.mark.gpu

SCHEDULES = [Schedule("static", 32, 8), Schedule("static", 1024, 2), Schedule("dynamic", 96, 4)]


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("entry", sorted(entries()))
def test_every_layout_and_schedule_kind_is_right(
    gpu, make_gpu_bench, small_problem, templates, tmp_path, entry, precision
):
    def compile_layout(layout):
        source = render_module(templates, "compound_spmv", entry, precision, layout, SCHEDULES, gpu.target)
        return layout, compile_module(source, gpu.target, tmp_path / f"{layout}.json")

    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(compile_layout, all_layouts()))
    bench = make_gpu_bench(small_problem(entry, n=5000), precision)
    rows = [
        bench.try_once(Variant(layout, schedule, module, tmp_path), "search", Effort(5, 5, 5))
        for layout, module in modules
        for schedule in SCHEDULES
    ]
    assert Counter(row.status for row in rows) == {"ok": 16 * len(SCHEDULES)}
    assert all(0 < row.error <= 1 and row.event_median > 0 and row.graph_median > 0 for row in rows)
    assert all(0 < row.registers <= 255 for row in rows)
