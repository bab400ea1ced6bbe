"""Filtering over all GPUs of one host: parts of points, bringing their values together, and shares of patches."""

from __future__ import annotations

import pytest

from repro.bench.timing import SamplingPlan
from repro.codegen.build_cache import compile_module
from repro.sparse.device_primitives import ModuleFile
from repro.studies.dg_postprocessing.ids import FilterId
from repro.studies.dg_postprocessing.kernels import modules_of, render_key
from repro.studies.dg_postprocessing.runnables_plane import FieldFilter, device_filters
from repro.tuning.search import Choice
from support.benches import field_benches

pytestmark = pytest.mark.gpu

EFFORT = SamplingPlan(5)
EDGES, ELEMENT = FilterId.parse("edges-t64-c0.5-b16"), FilterId.parse("element-t64-c0.5-b1")
CHOICES = [Choice("event", "edges", EDGES), Choice("event", "paper/element", ELEMENT)]


@pytest.fixture(scope="module")
def built(gpus, templates, tmp_path_factory):
    """The modules of a degree, compiled at first use."""
    folder, target, made = tmp_path_factory.mktemp("parts"), gpus.first.target, {}

    def of(degree):
        for name in () if degree in made else modules_of(degree):
            manifest = folder / f"{name}.json"
            compile_module(render_key(templates, f"plane/{name}", target), target, manifest)
            made.setdefault(degree, {})[name] = ModuleFile.read(manifest)
        return made[degree]

    return of


@pytest.fixture
def make_bench(modules_of_gpus):
    """Open a bench on GPUs for a field."""
    few = {"launches": 20, "graph_launches": 5, "graph_replays": 5, "rounds": 2, "noise": 1e9}
    yield from field_benches(modules_of_gpus, **few, gpu_disturbed=1e9)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("variance", ["low", "high"])
def test_everything_is_right_over_all_gpus(gpus, built, make_bench, variance, degree):
    bench = make_bench(gpus, 2000, degree, variance)
    for runnable in device_filters(built(degree), CHOICES, len(gpus)):
        row = bench.try_once(runnable, "report", EFFORT)
        assert (row.status, row.message) == ("ok", None), row.name
        assert row.error <= 1 and row.event_median > 0


@pytest.mark.parametrize("variance", ["low", "high"])
def test_two_share_a_larger_field(gpus, built, make_bench, variance):
    bench = make_bench(gpus, 60_000, 1, variance)
    one = bench.try_once(FieldFilter(built(1), EDGES), "report", EFFORT)
    rows = [bench.try_once(runnable, "report", EFFORT) for runnable in device_filters(built(1), CHOICES, len(gpus))]
    for row in (one, *rows):
        print(f"{variance} {row.name:32} {row.status:8} {1e3 * row.event_median:9.3f} ms {row.message or ''}")
    two = next(row for row in rows if row.name == f"filter-2/{EDGES}")
    assert one.event_median / two.event_median > 1.3
